//! Pieces of stored bodies, without a client or an origin.

use super::mend::Mender;
use super::span::{SpanReader, is_lost};
use crate::report::Exit;
use crate::settings::Settings;
use crate::tiers::Disk;
use crate::tiers::memory::{CacheEntry, EntryKind, StoredResponse};
use crate::tiers::stores::Stores;
use crate::worker::Worker;
use cache::{Asked, Head};
use http::{HeaderMap, Method, Response};
use rand::{SeedableRng, rngs::StdRng};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use store::disk::sim::SimDisk;
use store::{Body, Key, Lookup, Object, Options, Spans, Store, Writer};
use tokio::runtime::{Builder, LocalOptions};

const SIZE: usize = 16 << 20;
const LENGTH: usize = 1_500_000;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 1_000 % 251) as u8).collect()
}

fn key() -> Key {
    Key::new("GET http://a/")
}

fn whole_head() -> Head {
    let parts =
        Response::builder().header("cache-control", "max-age=60").header("etag", "\"1\"").body(()).unwrap();
    Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts.into_parts().0, 1, 1).unwrap()
}

/// One worker over an empty store.
fn over_a_store<F: Future<Output = ()>>(test: impl FnOnce(Rc<Worker>, Store) -> F) {
    let disk = Arc::new(SimDisk::new(SIZE, StdRng::seed_from_u64(1)));
    let store =
        Store::over(disk, &Options { size: Some(SIZE as u64), tell: |_| {}, ..Options::at("") }).unwrap();
    let shared = crate::shared(
        Settings::default(),
        Stores::from(Some(store.clone())),
        Arc::new(|_: &crate::report::Transaction| {}),
    );
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.unwrap().block_on(async {
        let worker = Worker::new(
            Arc::new(shared),
            Exit::new(Arc::default(), Arc::new(|_: &crate::report::Transaction| {})),
        );
        test(worker, store).await;
    });
}

async fn spans(worker: &Worker) -> Spans {
    let shared = &worker.shared;
    let held = shared.tiers.find(&key(), &worker.readers, &shared.names, &Disk::default()).await;
    match held.as_deref() {
        Some(CacheEntry {
            kind: EntryKind::Response(StoredResponse { body: Body::Spans(spans), .. }),
            ..
        }) => *spans,
        _ => panic!("no large object"),
    }
}

fn lose(store: &Store, spans: &Spans, n: u32) {
    store.remove(&Key::new([b"span", &spans.id.to_le_bytes()[..], &n.to_le_bytes()].concat()));
}

fn push(writer: &mut Writer, bytes: &[u8]) {
    writer.push(&mut &bytes[..]).unwrap();
}

/// How long a gap takes to be closed says nothing of the disk.
#[test]
fn the_next_piece_is_waited_for_as_long_as_if_none_had_been_missing() {
    over_a_store(async |worker, store| {
        let mut writer = store.begin(&key(), None).unwrap();
        push(&mut writer, &content());
        writer.finish(&whole_head().encode()).unwrap();
        let spans = spans(&worker).await;
        lose(&store, &spans, 1);
        let mut reader = SpanReader::new(&worker, (*worker.readers.at(&spans).unwrap()).clone(), None);
        let mender = Mender::new(worker.clone(), None);
        let read = poll_fn(|cx| reader.poll_at(cx, spans, u64::from(spans.span), &mender)).await;
        assert!(read.is_err_and(|error| is_lost(&error)));
        let now = Instant::now();
        assert!(reader.until() >= now + worker.settings().timeouts.origin_stall);
    });
}

/// The last piece of a part is longer once that has grown.
#[test]
fn what_a_part_had_lost_is_not_put_back_over_what_it_has_grown_by() {
    over_a_store(async |worker, store| {
        let (content, size, shared) = (content(), store.span_size(), &worker.shared);
        let mut writer = store.begin(&key(), None).unwrap();
        push(&mut writer, &content[..size + 1_000]);
        let head = whole_head().cut_short(LENGTH as u64).unwrap();
        writer.finish(&head.encode()).unwrap();
        let part = spans(&worker).await;
        let (key, short) = (key(), &content[size..size + 1_000]);
        let put_back = async || {
            let piece = (&part, 1, true);
            shared.tiers.put_back(&key, piece, short, &worker.readers, &shared.names).await
        };
        let reader = worker.readers.at(&part).unwrap();
        let there = async |spans: &Spans| match reader.look_span(spans, 1, &|| false).await {
            Lookup::Found(piece) => piece.len(),
            Lookup::Missing | Lookup::Late => 0,
        };
        lose(&store, &part, 1);
        assert_eq!((put_back().await, there(&part).await), (Some(Ok(())), 1_000));
        // Somebody makes it grow, and has not finished.
        lose(&store, &part, 1);
        let begin = Spans { length: size as u64, ..part };
        let mut writer = store.resume(&key, &begin, None).unwrap();
        push(&mut writer, &content[size..]);
        let grown = Spans { length: LENGTH as u64, ..part };
        assert_eq!((put_back().await, there(&part).await), (Some(Ok(())), 1_000));
        assert_eq!(there(&grown).await, size);
        // And has finished.
        shared.tiers.finish(shared.tiers.now(), &key, &mut writer, &whole_head().encode());
        assert_eq!(spans(&worker).await, grown);
        lose(&store, &part, 1);
        assert!(put_back().await.is_some_and(|put| put.is_err()));
        assert!(store.missing(&grown, 0..grown.count()).eq([1]));
        let Lookup::Found(Object { .. }) = reader.look(&key).await else { panic!("it is gone") };
    });
}
