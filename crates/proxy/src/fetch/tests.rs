//! Fetches for the cache alone: no client, no connection but the origin's.

use super::behind::BEHIND;
use super::judge::LOOK;
use super::*;
use crate::clock;
use crate::report::Exit;
use crate::settings::Settings;
use crate::tiers::memory::StoredResponse;
use crate::tiers::stores::Stores;
use cache::{Miss, Outcome, Stale};
use http::{Request, Response, Version};
use rand::{SeedableRng, rngs::StdRng};
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use store::disk::sim::SimDisk;
use store::{Body, Options, Refused, Store};
use tokio::runtime::{Builder, LocalOptions};

/// Nothing here takes longer on a machine that works.
const SOON: Duration = Duration::from_secs(20);

/// An origin that answers one request after the other so, on one connection, and the heads that it saw.
fn origin(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = |answer: String| {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap()
        };
        answers.into_iter().map(answer).collect()
    };
    (url, thread::spawn(serve))
}

fn worker() -> Rc<Worker> {
    worker_with(|_| {})
}

fn worker_with(change: impl FnOnce(&mut Settings)) -> Rc<Worker> {
    let mut settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
    change(&mut settings);
    worker_over(Stores::default(), settings)
}

fn worker_over(stores: Stores, settings: Settings) -> Rc<Worker> {
    let shared = crate::shared(settings, stores, Arc::new(|_: &crate::report::Transaction| {}));
    Worker::new(Arc::new(shared), Exit::new(Arc::default(), Arc::new(|_: &crate::report::Transaction| {})))
}

/// A request of nobody's, with fields.
fn presented(worker: &Rc<Worker>, url: &str, fields: &[(HeaderName, &str)]) -> Presented {
    let (mut parts, ()) = Request::get(url).body(()).unwrap().into_parts();
    parts.headers.extend(fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())));
    // It names no host beside its URL's.
    parts.version = Version::HTTP_10;
    let target = Target::of(&parts, crate::scheme::Scheme::Http, None).unwrap();
    let asked = Asked::of(&parts.method, &parts.headers);
    let uri = target.primary_key();
    Presented::new(worker.clone(), (target, uri), parts, asked, None, Zone::Loopback)
}

/// Has the cache fetch a URL, if nothing stored answers it, and waits until it did. Why it had to, or how it would have answered.
async fn prefetch(worker: &Rc<Worker>, url: &str) -> Result<Outcome, Miss> {
    let judged = begin(worker, url).await;
    let ended = async {
        while worker.pumps.get() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("it does not end");
    judged
}

/// The same, and does not wait.
async fn begin(worker: &Rc<Worker>, url: &str) -> Result<Outcome, Miss> {
    let presented = presented(worker, url, &[]);
    let look = presented.look().await;
    let judged = presented.judge(&look, clock::now()).map(|(_, outcome)| outcome);
    if let Err(why) = judged {
        presented.behind(Want { look, why });
    }
    judged
}

fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap().block_on(test)
}

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_url_is_fetched_for_the_cache_without_a_client() {
    let long = "long".repeat(100_000);
    for body in ["short", &long] {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let (url, origin) = origin(vec![early.to_owned() + &ok("Cache-Control: max-age=60", body)]);
        run(async {
            let worker = worker();
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
            assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit), "{} bytes", body.len());
        });
        let seen = origin.join().unwrap();
        assert!(seen.len() == 1 && !seen[0].to_lowercase().contains("forwarded"), "{seen:?}");
    }
}

#[test]
fn what_is_stale_is_validated_for_the_cache_without_a_client() {
    let renewed = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n";
    let (url, origin) = origin(vec![ok("Cache-Control: max-age=0", "body"), renewed.to_owned()]);
    run(async {
        let worker = worker();
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Stale(Stale::Expired)));
        assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit));
    });
    let seen = origin.join().unwrap();
    assert!(seen.len() == 2 && seen[1].contains("if-none-match: \"1\""), "{seen:?}");
}

/// A 304 answers a condition, which nothing can be asked by.
#[test]
fn what_has_no_validator_is_fetched_anew_and_a_304_says_nothing_of_it() {
    let ok = |control, body: &str| {
        format!("HTTP/1.1 200 OK\r\n{control}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let stale = ok("Cache-Control: max-age=60\r\nAge: 100", "stale");
    let unasked = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n".to_owned();
    let (url, origin) = origin(vec![stale, unasked, ok("Cache-Control: max-age=60", "fresh")]);
    run(async {
        let worker = worker();
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        for _ in 0..2 {
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Stale(Stale::Expired)));
        }
        assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit));
    });
    let seen = origin.join().unwrap();
    assert!(seen.len() == 3 && !seen.concat().contains("if-"), "{seen:?}");
}

/// It is known for a while that nobody could share it.
#[test]
fn what_may_not_be_kept_is_fetched_once_and_not_found() {
    let (url, origin) = origin(vec![ok("Cache-Control: private", "body")]);
    run(async {
        let worker = worker();
        for _ in 0..3 {
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        }
    });
    assert_eq!(origin.join().unwrap().len(), 1);
}

/// What an origin sent behind this head, in pieces and for as long as they were taken, when its connection ended.
fn endless(head: &'static str, pieces: usize, pause: Duration) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 64]).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let piece = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
        let mut send = |_: &usize| {
            thread::sleep(pause);
            stream.write_all(&piece).is_ok()
        };
        let sent = (0..pieces).take_while(|n| send(n)).count();
        // Until the other side has gone.
        while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        sent * 0x4000
    };
    (url, thread::spawn(serve))
}

#[test]
fn of_a_body_that_may_have_no_end_a_fetch_for_the_cache_reads_little() {
    const KEPT: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
    const PASSED: &str = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n";
    // Longer than anything that is kept: none of it is read.
    const LONG: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 99000000000\r\n\r\n";
    for head in [KEPT, PASSED, LONG] {
        let (url, origin) = endless(head, usize::MAX, Duration::ZERO);
        run(async {
            let worker = worker_with(|settings| settings.bounds.finish_bytes = 100 << 10);
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
            assert_eq!(begin(&worker, &url).await, Err(Miss::Uri), "nothing of it is kept");
        });
        // With what the kernel holds.
        let sent = origin.join().unwrap();
        assert!(sent < 32 << 20, "{sent} bytes of {head}");
    }
}

/// Small enough to be kept without a store.
const WHOLE: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 999999\r\n\r\n";

#[test]
fn a_body_that_takes_too_long_is_not_read_for_the_cache() {
    let (url, origin) = endless(WHOLE, 61, Duration::from_millis(20));
    run(async {
        let worker = worker_with(|settings| {
            settings.bounds.finish_bytes = 1;
            settings.timeouts.origin_first_byte = Duration::from_millis(100);
        });
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(begin(&worker, &url).await, Err(Miss::Uri), "not all of it was read");
    });
    origin.join().unwrap();
}

#[test]
fn no_fetch_for_the_cache_begins_beside_many_or_while_clients_need_the_memory() {
    let (url, origin) = origin(vec![ok("Cache-Control: max-age=60", "body")]);
    run(async {
        let worker = worker();
        worker.pumps.set(BEHIND);
        assert_eq!(begin(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(worker.pumps.get(), BEHIND, "as many as may be");
        worker.pumps.set(0);
        let pool = &worker.shared.budget.origins;
        let taken = pool.try_take(pool.size() / 2).unwrap();
        assert_eq!(begin(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(worker.pumps.get(), 0, "half of the memory is taken");
        drop(taken);
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit));
    });
    assert_eq!(origin.join().unwrap().len(), 1);
}

/// What it reads already it reads no further.
#[test]
fn a_fetch_for_the_cache_ends_when_clients_need_the_memory() {
    let (url, origin) = endless(WHOLE, 61, Duration::from_millis(5));
    run(async {
        let worker = worker_with(|settings| settings.bounds.finish_bytes = 1);
        assert_eq!(begin(&worker, &url).await, Err(Miss::Uri));
        let pool = &worker.shared.budget.origins;
        while pool.taken() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let taken = pool.try_take(pool.size() / 2).unwrap();
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        drop(taken);
        assert_eq!(begin(&worker, &url).await, Err(Miss::Uri), "not all of it was read");
    });
    origin.join().unwrap();
}

/// To look at all pieces of the largest would keep everybody waiting.
#[test]
fn of_a_large_body_so_many_pieces_are_looked_at_as_are_read_next() {
    const SIZE: usize = 48 << 20;
    let options = Options {
        size: Some(SIZE as u64),
        packet: 64 << 10,
        object_max: Some(SIZE as u64),
        tell: |_| {},
        ..Options::at("")
    };
    let store = Store::over(Arc::new(SimDisk::new(SIZE, StdRng::seed_from_u64(1))), &options).unwrap();
    let (url, look, size) = ("http://a/", LOOK as u32, store.span_size());
    run(async {
        let worker = worker_over(Stores::from(Some(store.clone())), Settings::default());
        let key = presented(&worker, url, &[]).uri;
        let mut writer = store.begin(&key, None).unwrap();
        for _ in 0..2 * look {
            let piece = vec![7; size];
            let mut left = &piece[..];
            while writer.push(&mut left) == Err(Refused::Busy) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let parts = Response::builder()
            .header("cache-control", "max-age=60")
            .header("etag", "\"1\"")
            .body(())
            .unwrap();
        let now = clock::now();
        let asked = Asked::of(&http::Method::GET, &HeaderMap::new());
        let head = Head::storable(&asked, &parts.into_parts().0, now, now).unwrap();
        while writer.finish(&head.encode()) == Err(Refused::Busy) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let judge = async |pieces: Option<std::ops::Range<u32>>| {
            let range = |pieces: std::ops::Range<u32>| {
                format!("bytes={}-{}", pieces.start as usize * size, pieces.end as usize * size - 1)
            };
            let range = pieces.map(range);
            let fields: Vec<_> = range.iter().map(|range| (http::header::RANGE, range.as_str())).collect();
            let presented = presented(&worker, url, &fields);
            let look = presented.look().await;
            presented.judge(&look, clock::now()).map(|(_, outcome)| outcome)
        };
        let look_up = presented(&worker, url, &[]).look().await;
        let StoredResponse { body: Body::Spans(spans), .. } = resident(look_up.found.as_ref().unwrap())
        else {
            panic!("it is small")
        };
        let lose = |n: u32| {
            store.remove(&Key::new([b"span", &spans.id.to_le_bytes()[..], &n.to_le_bytes()].concat()))
        };
        lose(look + 10);
        assert_eq!(judge(None).await, Ok(Outcome::Hit), "its reader has far to go");
        assert_eq!(judge(Some(0..look + 11)).await, Ok(Outcome::Hit));
        assert_eq!(judge(Some(11..look + 11)).await, Ok(Outcome::HitWithGaps));
        // What its origin did not give is nobody's end for ever.
        worker.shared.fills.vain.note(spans);
        assert_eq!(judge(None).await, Err(Miss::Uri));
        assert_eq!(judge(Some(0..look)).await, Ok(Outcome::Hit));
        worker.shared.fills.vain.forget(spans);
        (look + 11..look + 10 + look / 4).for_each(lose);
        assert_eq!(judge(Some(look + 10..look + 11)).await, Ok(Outcome::HitWithGaps));
        lose(2 * look - 1);
        assert_eq!(judge(Some(look + 10..look + 11)).await, Err(Miss::Partial), "much is lost there");
        lose(5);
        assert_eq!(judge(None).await, Ok(Outcome::HitWithGaps));
    });
}
