//! Large objects of which the disk has only some pieces: what is missing comes from the origin, and stays.

mod support;

use rand::{SeedableRng, rngs::StdRng};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use store::disk::sim::SimDisk;
use store::{Body, Key, Lookup, Options, Spans, Store};
use support::{Client, Message, Origin, Proxy, SOON, cache_status, field, soon};
use tokio::sync::Semaphore;

const SIZE: usize = 64 << 20;
const LENGTH: usize = 6 << 20;
const FRESH: &str = "Cache-Control: max-age=600\r\nETag: \"1\"\r\n";

/// No two places of it are alike.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mixed = |at: u32| (at ^ (at >> 16)).wrapping_mul(0x45d9_f3b3);
    (0..LENGTH as u32).map(|at| (mixed(mixed(at)) >> 24) as u8).collect()
});

/// Answers with `CONTENT`, or the range of it that is asked for, as far as it may go: each permit is for 64 KiB.
struct Ranged {
    origin: Origin,
    go: Arc<Semaphore>,
    /// It has another version now.
    changed: Arc<AtomicBool>,
    /// After so many bytes its next answers break off.
    breaks: Arc<Mutex<VecDeque<usize>>>,
    /// What it makes of ranges.
    ranges_are: Arc<Mutex<Ranges>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ranges {
    Answered,
    /// By the end of the connection.
    Refused,
    /// With the same tag, but of another coding.
    Compressed,
    /// Of which the head comes, and nothing else.
    Hanging,
    /// For one client.
    Private,
    Forbidden,
    /// 503, once.
    BusyOnce,
}

impl Ranged {
    async fn of(fields: &'static str) -> Ranged {
        let go = Arc::new(Semaphore::new(1 << 20));
        let changed = Arc::new(AtomicBool::new(false));
        let breaks = Arc::<Mutex<VecDeque<usize>>>::default();
        let ranges_are = Arc::new(Mutex::new(Ranges::Answered));
        let (permits, other, breaking) = (go.clone(), changed.clone(), breaks.clone());
        let of_ranges = ranges_are.clone();
        let origin = Origin::with(move |mut client, seen| {
            let (permits, other, breaking) = (permits.clone(), other.clone(), breaking.clone());
            let of_ranges = of_ranges.clone();
            async move {
                while let Some(head) = client.head().await {
                    if other.load(SeqCst) {
                        seen.lock().unwrap().push(head);
                        client
                            .send(support::ok("Cache-Control: max-age=600\r\nETag: \"2\"\r\n", "new"))
                            .await;
                        continue;
                    }
                    let body = &*CONTENT;
                    let range = field(&head, "range").and_then(|r| r.strip_prefix("bytes=")?.split_once('-'));
                    let range = range.map(|(from, to)| {
                        (from.parse::<usize>().unwrap(), to.parse().map_or(LENGTH, |last: usize| last + 1))
                    });
                    let (from, to) = range.unwrap_or((0, LENGTH));
                    let place = match range {
                        Some(_) => format!("206 x\r\nContent-Range: bytes {from}-{}/{LENGTH}", to - 1),
                        None => "200 OK".into(),
                    };
                    let bad = field(&head, "authorization").is_some();
                    seen.lock().unwrap().push(head);
                    let how = *of_ranges.lock().unwrap();
                    let more = match how {
                        _ if range.is_none() => "",
                        Ranges::Refused => return,
                        _ if bad => {
                            client.send("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n").await;
                            continue;
                        }
                        Ranges::BusyOnce => {
                            *of_ranges.lock().unwrap() = Ranges::Answered;
                            client
                                .send("HTTP/1.1 503 busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
                                .await;
                            continue;
                        }
                        Ranges::Forbidden => {
                            client.send("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n").await;
                            continue;
                        }
                        Ranges::Compressed => "Content-Encoding: gzip\r\n",
                        Ranges::Private => "Cache-Control: private\r\n",
                        Ranges::Answered | Ranges::Hanging => "",
                    };
                    let length = to - from;
                    client
                        .send(format!("HTTP/1.1 {place}\r\nContent-Length: {length}\r\n{more}{fields}\r\n"))
                        .await;
                    if range.is_some() && how == Ranges::Hanging {
                        std::future::pending::<()>().await;
                    }
                    let breaks = breaking.lock().unwrap().pop_front();
                    for piece in body[from..to.min(from + breaks.unwrap_or(LENGTH))].chunks(64 << 10) {
                        permits.acquire().await.unwrap().forget();
                        if !client.try_send(piece).await {
                            return;
                        }
                    }
                    if breaks.is_some() {
                        return;
                    }
                }
            }
        })
        .await;
        Ranged { origin, go, changed, breaks, ranges_are }
    }

    async fn get(&self, proxy: &Proxy, fields: &str) -> Message {
        proxy.client().await.get(self.origin.request("/", fields)).await
    }

    /// What it was asked for.
    fn ranges(&self) -> Vec<Option<String>> {
        let range = |head: &String| field(head, "range").map(|range| range.replace("bytes=", ""));
        self.origin.requests().iter().map(range).collect()
    }

    /// Its next answers break off after so many bytes each: one to a client, who gets as many, and to that of the range for
    /// the rest.
    async fn break_off(&self, proxy: &Proxy, bytes: [usize; 2]) {
        self.breaks.lock().unwrap().extend(bytes);
        let mut client = proxy.client().await;
        client.send(self.origin.request("/", "")).await;
        client.head().await.unwrap();
        let body = client.rest_of_bytes().await;
        assert!(body.len() < LENGTH && CONTENT.starts_with(&body));
    }

    fn makes_of_ranges(&self, how: Ranges) {
        *self.ranges_are.lock().unwrap() = how;
    }

    /// So many clients who ask for it, and have the heads of their answers.
    async fn clients(&self, proxy: &Proxy, count: usize) -> Vec<Client> {
        let mut clients = Vec::new();
        for _ in 0..count {
            let mut client = proxy.client().await;
            client.send(self.request("Connection: close\r\n")).await;
            let head = client.head().await.unwrap();
            assert!(head.contains("hit; detail=gaps"), "{head}");
            clients.push(client);
        }
        clients
    }

    fn request(&self, fields: &str) -> String {
        self.origin.request("/", fields)
    }

    /// It sends no more than so many times 64 KiB.
    fn hold(&self, pieces: usize) {
        self.go.forget_permits(usize::MAX >> 4);
        self.go.add_permits(pieces);
    }

    fn key(&self) -> Key {
        Key::new(cache::key::primary("http", &self.origin.address.to_string(), "/"))
    }
}

fn over(disk: &Arc<SimDisk>) -> Store {
    let (size, object_max) = (Some(SIZE as u64), Some(SIZE as u64));
    Store::over(disk.clone(), &Options { size, object_max, patience: SOON, tell: |_| {}, ..Options::at("") })
        .unwrap()
}

fn disk() -> Arc<SimDisk> {
    Arc::new(SimDisk::new(SIZE, StdRng::seed_from_u64(1)))
}

/// Nothing is answered from memory.
fn no_memory(settings: &mut proxy::Settings) {
    settings.bounds.memory_bytes = 0;
    settings.workers = 2;
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

async fn spans(store: &Store, key: &Key) -> Option<Spans> {
    let (store, key) = (store.clone(), key.clone());
    let look = move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.unwrap().block_on(async {
            match store.reader().unwrap().look(&key).await {
                Lookup::Found(store::Object { body: Body::Spans(spans), .. }) => Some(spans),
                _ => None,
            }
        })
    };
    tokio::task::spawn_blocking(look).await.unwrap()
}

fn span_key(spans: &Spans, n: u32) -> Key {
    Key::new([b"span", &spans.id.to_le_bytes()[..], &n.to_le_bytes()].concat())
}

/// When so many bytes are stored of its body.
async fn kept(store: &Store, ranged: &Ranged, length: u64) -> Spans {
    soon(async {
        loop {
            match spans(store, &ranged.key()).await {
                Some(spans) if spans.length == length => return spans,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    })
    .await
}

/// A stored object that has lost these pieces, and how many bytes each has.
async fn stored(store: &Store, proxy: &Proxy, ranged: &Ranged, lost: &[u32]) -> (Spans, usize) {
    assert!(ranged.get(proxy, "").await.body == *CONTENT);
    let spans = kept(store, ranged, LENGTH as u64).await;
    lost.iter().for_each(|n| store.remove(&span_key(&spans, *n)));
    (spans, spans.span as usize)
}

async fn healed(proxy: &Proxy) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: admin\r\n\r\n").await;
    let (_, rest) = stats.text().split_once("\"healed\":").unwrap();
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The pieces `from..to` as a range says them.
fn range(size: usize, from: usize, to: usize) -> Option<String> {
    Some(format!("{}-{}", from * size, (to * size).min(LENGTH) - 1))
}

#[tokio::test]
async fn lost_pieces_are_asked_for_alone_and_put_back() {
    for memory in [0, 64 << 20] {
        let disk = disk();
        let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.bounds.memory_bytes = memory;
        });
        let (all, size) = stored(&store, &proxy, &ranged, &[3, 4, 5, 9]).await;
        let last = all.count() - 1;
        store.remove(&span_key(&all, last));
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit; detail=gaps", true));
        let asked = [None, range(size, 3, 6), range(size, 9, 10), range(size, last as usize, 99)];
        assert_eq!(ranged.ranges(), asked);
        assert_eq!(field(&ranged.origin.requests()[1], "if-range"), Some("\"1\""));
        // From then on the disk has all of it, also after a restart.
        let again = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&again), again.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(healed(&proxy).await, 1);
        proxy.stop();
        proxy.ended().await;
        store.close();
        let proxy = Proxy::over(Some(over(&disk)), no_memory);
        let again = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&again), again.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(ranged.ranges().len(), 4);
    }
}

/// The first bytes of a piece come before its last ones.
#[tokio::test]
async fn a_lost_piece_goes_to_all_who_wait_for_it_as_it_comes() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[0, 1]).await;
    ranged.hold(2);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        client.head().await.unwrap();
        clients.push(client);
    }
    for client in &mut clients {
        assert!(client.exactly(128 << 10).await == CONTENT[..128 << 10]);
    }
    ranged.hold(1 << 10);
    for client in &mut clients {
        assert!(client.exactly(LENGTH - (128 << 10)).await == CONTENT[128 << 10..]);
    }
    assert_eq!(ranged.ranges(), [None, range(size, 0, 2)]);
}

#[tokio::test]
async fn what_touches_no_lost_piece_needs_no_origin() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    // More than may be asked for.
    let lost: Vec<u32> = (4..20).collect();
    let (_, size) = stored(&store, &proxy, &ranged, &lost).await;
    for (from, to) in [(0, 10), (4 * size - 1, 4 * size - 1), (20 * size, LENGTH - 1)] {
        let hit = ranged.get(&proxy, &format!("Range: bytes={from}-{to}\r\n")).await;
        assert_eq!((hit.status(), cache_status(&hit)), (206, "cosm; hit"));
        assert!(hit.body == CONTENT[from..=to]);
    }
    let same = ranged.get(&proxy, "If-None-Match: \"1\"\r\n").await;
    assert_eq!((same.status(), cache_status(&same)), (304, "cosm; hit"));
    assert_eq!(ranged.ranges(), [None]);
}

#[tokio::test]
async fn a_range_asks_for_the_lost_pieces_in_it_alone() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[2, 6, 7, 8]).await;
    let (from, to) = (6 * size + 100, 7 * size + 9);
    for expected in ["cosm; hit; detail=gaps", "cosm; hit"] {
        let hit = ranged.get(&proxy, &format!("Range: bytes={from}-{to}\r\n")).await;
        assert_eq!(cache_status(&hit), expected);
        assert!(hit.body == CONTENT[from..=to]);
        // The client has what it asked for before the end of the last piece has come.
        soon(async {
            while ranged.ranges().len() == 2 && spans_lost(&store, &ranged).await > 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    assert_eq!(ranged.ranges(), [None, range(size, 6, 8)]);
}

async fn spans_lost(store: &Store, ranged: &Ranged) -> usize {
    let spans = spans(store, &ranged.key()).await.unwrap();
    store.missing(&spans, 0..spans.count()).count()
}

/// What cannot be asked for by range is fetched whole, as is that of which too much is gone.
#[tokio::test]
async fn without_a_strong_validator_or_with_many_pieces_lost_it_is_a_miss() {
    let many: Vec<u32> = (10..20).collect();
    for (fields, lost) in [("Cache-Control: max-age=600\r\nETag: W/\"1\"\r\n", &[3][..]), (FRESH, &many)] {
        let (store, ranged) = (over(&disk()), Ranged::of(fields).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        stored(&store, &proxy, &ranged, lost).await;
        let miss = ranged.get(&proxy, "").await;
        assert!(cache_status(&miss).starts_with("cosm; fwd="), "{}", miss.head);
        assert!(miss.body == *CONTENT);
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
    }
}

/// Nothing of another version is mixed in, and what cannot be made whole any more does not break off again and again.
#[tokio::test]
async fn an_origin_that_has_another_version_ends_what_has_gaps() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[3]).await;
    ranged.changed.store(true, SeqCst);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "")).await;
    let head = client.head().await.unwrap();
    assert!(head.contains("hit; detail=gaps"), "{head}");
    assert!(CONTENT.starts_with(client.rest_of_bytes().await.as_slice()));
    let miss = ranged.get(&proxy, "").await;
    assert_eq!((miss.text(), cache_status(&miss)), ("new", "cosm; fwd=uri-miss; stored"));
    assert!(spans(&store, &ranged.key()).await.is_none());
}

#[tokio::test]
async fn what_was_removed_meanwhile_gets_no_piece_back() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    for scope in ["url=", "prefix="] {
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let (spans, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
        ranged.hold(1);
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        client.head().await.unwrap();
        assert!(client.exactly(3 * size).await == CONTENT[..3 * size]);
        assert_eq!(proxy.purge(&format!("{scope}{}", ranged.origin.url("/"))).await.status(), 200);
        ranged.hold(1 << 20);
        // It has it all the same.
        assert!(client.exactly(LENGTH - 3 * size).await == CONTENT[3 * size..]);
        assert!(!store.contains(&span_key(&spans, 3)) && !store.contains(&span_key(&spans, 4)), "{scope}");
        assert_eq!(ranged.ranges().rsplit(Option::is_none).next(), Some(&[range(size, 3, 5)][..]));
        proxy.stop();
        proxy.ended().await;
    }
}

/// An object of three quarters of the disk, and a log that goes over it again and again.
#[tokio::test]
async fn what_the_log_overtakes_is_asked_for_piece_by_piece() {
    let options = Options {
        size: Some(9 << 20),
        packet: 64 << 10,
        object_max: Some(SIZE as u64),
        admission: store::Admission::All,
        patience: SOON,
        tell: |_| {},
        ..Options::at("")
    };
    let store = Store::over(Arc::new(SimDisk::new(9 << 20, StdRng::seed_from_u64(1))), &options).unwrap();
    let ranged = Ranged::of(FRESH).await;
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[]).await;
    let mut with_gaps = 0;
    for n in 0..40_u32 {
        for other in 0..20 {
            let key = Key::new(format!("GET http://others/{n}/{other}"));
            while store.put(&key, b"meta", &[0; 10_000]) == Err(store::Refused::Busy) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let hit = ranged.get(&proxy, "").await;
        assert!(hit.body == *CONTENT, "{n}");
        with_gaps += usize::from(cache_status(&hit) == "cosm; hit; detail=gaps");
        assert_eq!(ranged.ranges().iter().filter(|range| range.is_none()).count(), 1, "{n}: {}", hit.head);
    }
    assert!(with_gaps > 5, "{with_gaps}");
}

/// Bytes of a piece, and how many of them are among so many bytes.
fn pieces(store: &Store, bytes: usize) -> (usize, usize) {
    (store.span_size(), bytes / store.span_size())
}

#[tokio::test]
async fn what_breaks_off_is_kept_and_completed_by_range() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let open =
        || Store::open(&Options { size: Some(SIZE as u64), patience: SOON, ..Options::at(&path) }).unwrap();
    let ranged = Ranged::of(FRESH).await;
    let store = open();
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 100_000]).await;
    let (size, count) = pieces(&store, 2_100_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    // A kill leaves it.
    assert!(store.persist(SOON));
    store.abandon();
    drop(proxy);
    drop(store);
    let checked = store::check(&path, |_, _| {}).unwrap();
    assert_eq!((checked.damaged, checked.sound), (0, count as u64 + 1));
    let mut heads = Vec::new();
    let note = |seen: store::Seen<'_>| {
        if seen.kind == store::format::record::Kind::Head {
            heads.push(seen.body);
        }
    };
    store::survey(&path, u64::MAX, note, |_, _| {}).unwrap();
    assert_eq!(heads, [part.length]);

    let store = open();
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    // What lies in it needs no origin.
    let within = ranged.get(&proxy, "Range: bytes=100-1999999\r\n").await;
    assert_eq!((within.status(), cache_status(&within)), (206, "cosm; hit"));
    assert!(within.body == CONTENT[100..2_000_000]);
    assert_eq!(within.field("content-range"), Some(&*format!("bytes 100-1999999/{LENGTH}")));
    // It breaks off again, and grows.
    ranged.break_off(&proxy, [1_000_000, 100_000]).await;
    let before = count;
    let (_, count) = pieces(&store, count * size + 1_100_000);
    assert_eq!(kept(&store, &ranged, (count * size) as u64).await.id, part.id);
    // What is less does not take its place.
    let beyond = ranged.get(&proxy, "Range: bytes=5000000-5000009\r\n").await;
    assert_eq!((beyond.status(), cache_status(&beyond)), (206, "cosm; fwd=partial; detail=partial"));
    let whole = ranged.get(&proxy, "").await;
    assert_eq!((whole.status(), cache_status(&whole)), (200, "cosm; fwd=partial; fwd-status=206; stored"));
    assert!(whole.body == *CONTENT && whole.field("content-range").is_none());
    let requests = ranged.origin.requests();
    assert_eq!(ranged.ranges()[2], Some(format!("{}-", before * size)));
    assert_eq!(ranged.ranges()[5..], [Some(format!("{}-", count * size))]);
    assert_eq!(field(&requests[5], "if-range"), Some("\"1\""));
    assert_eq!(kept(&store, &ranged, LENGTH as u64).await.id, part.id);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((hit.status(), cache_status(&hit), hit.body == *CONTENT), (200, "cosm; hit", true));
    assert_eq!(ranged.ranges().len(), 6);
}

#[tokio::test]
async fn what_the_last_client_leaves_is_kept_and_all_who_come_share_the_rest() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.hold(32);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "")).await;
    client.head().await.unwrap();
    assert!(client.exactly(2 << 20).await == CONTENT[..2 << 20]);
    drop(client);
    proxy.settled().await;
    ranged.hold(1);
    let (size, count) = pieces(&store, 33 << 16);
    kept(&store, &ranged, (count * size) as u64).await;
    ranged.hold(1);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.head().await.unwrap();
        assert!(client.exactly(count * size).await == CONTENT[..count * size]);
    }
    ranged.hold(1 << 10);
    for client in &mut clients {
        assert!(client.exactly(LENGTH - count * size).await == CONTENT[count * size..]);
    }
    assert_eq!(ranged.ranges(), [None, Some(format!("{}-", count * size))]);
}

/// What is missing from there on is fetched, and what was before stays.
#[tokio::test]
async fn an_object_of_which_much_is_lost_goes_on_from_its_first_pieces() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, size) = stored(&store, &proxy, &ranged, &(10..20).collect::<Vec<_>>()).await;
    let whole = ranged.get(&proxy, "").await;
    assert_eq!(cache_status(&whole), "cosm; fwd=partial; fwd-status=206; stored");
    assert!(whole.body == *CONTENT);
    assert_eq!(ranged.ranges(), [None, Some(format!("{}-", 10 * size))]);
    assert_eq!(kept(&store, &ranged, LENGTH as u64).await, all);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
}

#[tokio::test]
async fn a_part_of_an_older_version_goes() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    ranged.changed.store(true, SeqCst);
    let fresh = ranged.get(&proxy, "").await;
    assert_eq!(
        (fresh.status(), fresh.text(), cache_status(&fresh)),
        (200, "new", "cosm; fwd=partial; stored")
    );
    assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
    assert!(spans(&store, &ranged.key()).await.is_none());
}

/// Whatever becomes of the range: nothing has gone to the client by then.
#[tokio::test]
async fn where_the_rest_cannot_be_had_the_whole_is_fetched() {
    for how in [Ranges::Refused, Ranges::Compressed] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        ranged.break_off(&proxy, [2_000_000, 0]).await;
        let (size, count) = pieces(&store, 2_000_000);
        kept(&store, &ranged, (count * size) as u64).await;
        ranged.makes_of_ranges(how);
        let whole = ranged.get(&proxy, "").await;
        assert!((whole.status(), whole.body == *CONTENT) == (200, true), "{}", cache_status(&whole));
        assert_eq!(whole.field("content-encoding"), None);
        kept(&store, &ranged, LENGTH as u64).await;
    }
}

/// Who wants all of it anew gets no stored bytes.
#[tokio::test]
async fn a_reload_does_not_go_on_with_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    let whole = ranged.get(&proxy, "Cache-Control: no-cache\r\n").await;
    assert!(whole.status() == 200 && whole.body == *CONTENT);
    assert_eq!(ranged.ranges().last(), Some(&None));
}

/// Nor is what a weak validator, or none, says nothing of.
#[tokio::test]
async fn a_part_is_kept_neither_in_place_of_a_whole_nor_after_a_removal() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, _) = stored(&store, &proxy, &ranged, &[]).await;
    ranged.breaks.lock().unwrap().extend([2_000_000, 0]);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "Cache-Control: no-cache\r\nIf-None-Match: \"0\"\r\n")).await;
    client.rest_of_bytes().await;
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(all));

    let purge = || proxy.purge("all");
    purge().await;
    ranged.hold(32);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "")).await;
    client.head().await.unwrap();
    client.exactly(2 << 20).await;
    purge().await;
    drop(client);
    proxy.settled().await;
    let puts = store.stats().engine.puts;
    ranged.hold(1);
    // The next one asks for all of it.
    ranged.go.add_permits(1 << 10);
    let whole = ranged.get(&proxy, "").await;
    assert!(whole.body == *CONTENT && ranged.ranges().last() == Some(&None), "{puts} {}", whole.head);

    let (store, ranged) =
        (over(&disk()), Ranged::of("Cache-Control: max-age=600\r\nETag: W/\"1\"\r\n").await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    proxy.settled().await;
    assert!(spans(&store, &ranged.key()).await.is_none());
}

/// What began earlier and broke off is less than a newer whole.
#[tokio::test]
async fn a_part_of_an_older_version_does_not_displace_a_newer_whole() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.hold(32);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "")).await;
    client.head().await.unwrap();
    assert!(client.exactly(2 << 20).await == CONTENT[..2 << 20]);
    // Meanwhile somebody reloads, and gets the next version.
    ranged.changed.store(true, SeqCst);
    let fresh = ranged.get(&proxy, "Cache-Control: no-cache\r\n").await;
    assert_eq!(fresh.text(), "new", "{}", cache_status(&fresh));
    eprintln!("{}", cache_status(&fresh));
    assert!(store.contains(&ranged.key()));
    drop(client);
    proxy.settled().await;
    ranged.hold(1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(spans(&store, &ranged.key()).await, None, "the newer whole is gone");
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.text()), ("cosm; hit", "new"));
}

/// Damages these pieces of the body; the index does not know.
fn damage(store: &Store, disk: &SimDisk, pieces: impl IntoIterator<Item = usize>) {
    assert!(store.persist(SOON));
    let (bytes, size) = (disk.bytes(), store.span_size());
    for n in pieces {
        let at = memchr::memmem::find(&bytes, &CONTENT[n * size..n * size + 64]).unwrap();
        disk.flip_bit(at..at + 64);
    }
}

/// All at once, each on a task of its own: how many bytes each gets, from there on.
async fn bodies(clients: Vec<Client>, from: usize) -> Vec<usize> {
    let body = |mut client: Client| tokio::spawn(async move { client.rest_of_bytes().await });
    let mut lengths = Vec::new();
    for task in clients.into_iter().map(body).collect::<Vec<_>>() {
        let body = soon(task).await.unwrap();
        assert!(CONTENT[from..].starts_with(&body));
        lengths.push(body.len());
    }
    lengths
}

/// What came before the break is not asked for again, and nobody asks alone.
#[tokio::test]
async fn many_who_wait_for_a_lost_piece_all_get_it_when_the_origin_breaks_off() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    ranged.breaks.lock().unwrap().extend([64 << 10, size]);
    ranged.hold(0);
    let clients = ranged.clients(&proxy, 60).await;
    ranged.hold(1 << 20);
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 60]);
    let from = |at: usize| Some(format!("{}-{}", at, 5 * size - 1));
    let broke = 3 * size + (64 << 10);
    assert_eq!(ranged.ranges(), [None, from(3 * size), from(broke), from(broke + size)]);
    assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
}

/// One asks for all who wait, a few times, whatever the origin makes of that. Then nobody asks for ranges any more.
#[tokio::test]
async fn where_a_lost_piece_cannot_be_had_few_ask_and_the_next_request_gets_the_whole() {
    for (how, times) in
        [(Ranges::Refused, 3), (Ranges::Hanging, 3), (Ranges::Compressed, 1), (Ranges::Forbidden, 3)]
    {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.timeouts.origin_stall = Duration::from_millis(500);
        });
        let (all, size) = stored(&store, &proxy, &ranged, &[3, 9]).await;
        ranged.makes_of_ranges(how);
        let clients = ranged.clients(&proxy, 24).await;
        // Without what is on its way when it breaks off.
        let lengths = bodies(clients, 0).await;
        assert!(lengths.iter().all(|length| (2 * size..=3 * size).contains(length)), "{lengths:?}");
        let (asked, again) = (
            ranged.ranges(),
            match how {
                // What the end of a connection that was used before stops is sent on another one.
                Ranges::Refused => 1,
                // Each of the others may ask once, one after the other.
                Ranges::Forbidden => 21,
                _ => 0,
            },
        );
        assert!(asked[1..].iter().all(|asked| *asked == range(size, 3, 4)), "{asked:?}");
        assert!((times..=times + again).contains(&(asked.len() - 1)), "{asked:?}");
        assert_eq!(healed(&proxy).await, 0);
        // What touches no lost piece is still there.
        assert_eq!(kept(&store, &ranged, LENGTH as u64).await, all);
        assert_eq!(cache_status(&ranged.get(&proxy, "Range: bytes=5-9\r\n").await), "cosm; hit");
        let whole = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&whole), whole.body == *CONTENT), ("cosm; fwd=uri-miss; stored", true));
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(ranged.ranges()[asked.len()..], [None]);
    }
}

/// Those that the index does not know of as missing.
#[tokio::test]
async fn damaged_neighbours_are_asked_for_in_ever_larger_numbers_and_no_sound_one_with_them() {
    let disk = disk();
    let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[]).await;
    damage(&store, &disk, 2..14);
    let hit = ranged.get(&proxy, "").await;
    assert!(hit.body == *CONTENT);
    let asked = [(2, 3), (3, 5), (5, 9), (9, 14)].map(|(from, to)| range(size, from, to));
    assert_eq!(ranged.ranges()[1..], asked);
    assert!(ranged.get(&proxy, "").await.body == *CONTENT && ranged.ranges().len() == 5);
}

/// Who reads along with a fetch of the rest.
#[tokio::test]
async fn what_a_part_has_lost_is_asked_for_once_for_all_who_share_the_rest() {
    let disk = disk();
    let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    damage(&store, &disk, [2, 5]);
    let asked = ranged.ranges().len();
    // The rest, and each lost piece, of which one breaks off.
    ranged.breaks.lock().unwrap().extend([LENGTH, 100_000]);
    ranged.hold(0);
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut client = proxy.client().await;
        client.send(ranged.request("Connection: close\r\n")).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.head().await.unwrap();
    }
    ranged.hold(1 << 20);
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 60]);
    let rest = [2 * size, 2 * size + 100_000].map(|from| Some(format!("{from}-{}", 3 * size - 1)));
    let [piece, again] = rest;
    let all = [Some(format!("{}-", count * size)), piece, again, range(size, 5, 6)];
    assert_eq!(ranged.ranges()[asked..], all);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
}

/// All who come share one fetch then, as of what is not stored.
#[tokio::test]
async fn with_too_little_memory_to_close_a_gap_it_is_a_miss() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.bounds.transit_bytes = 0;
        settings.trust = vec!["127.0.0.0/8".parse().unwrap()];
    });
    stored(&store, &proxy, &ranged, &[3]).await;
    let other = Ranged::of("Cache-Control: no-store\r\n").await;
    let mut slow = Vec::new();
    let free = || async {
        let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: admin\r\n\r\n").await;
        let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
        let of = |name: &str| stats["budget"][name].as_u64().unwrap();
        (of("origins") - of("origins-used"), of("origins") / 3 * 2)
    };
    while free().await.0 > free().await.1 {
        let mut client = proxy.client().await;
        client.send(other.request("")).await;
        client.head().await.unwrap();
        slow.push(client);
    }
    let miss = ranged.get(&proxy, "").await;
    assert!(cache_status(&miss).starts_with("cosm; fwd=") && miss.body == *CONTENT, "{}", miss.head);
    drop(slow);
    proxy.settled().await;
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit; detail=gaps", true));
}

/// Where the proxy keeps what it asked for is another matter.
#[tokio::test]
async fn pieces_that_are_for_one_client_go_to_those_who_wait_and_not_to_the_disk() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    ranged.makes_of_ranges(Ranges::Private);
    for times in 1..=2 {
        ranged.hold(1);
        let (mut clients, there) = (ranged.clients(&proxy, 8).await, 3 * size + (64 << 10));
        for client in &mut clients {
            assert!(client.exactly(there).await == CONTENT[..there]);
        }
        ranged.hold(1 << 20);
        assert_eq!(bodies(clients, there).await, vec![LENGTH - there; 8]);
        assert_eq!(ranged.ranges()[1..], vec![range(size, 3, 5); times]);
        assert_eq!(spans_lost(&store, &ranged).await, 2);
    }
    ranged.makes_of_ranges(Ranges::Answered);
    assert!(ranged.get(&proxy, "").await.body == *CONTENT);
    assert_eq!(spans_lost(&store, &ranged).await, 0);
}

/// It is asked for on behalf of all: with what selects the representation, and who may have it. What one of them says beside, or is
/// refused, says nothing of the object.
#[tokio::test]
async fn a_refusal_of_one_clients_request_does_not_end_what_has_gaps() {
    let origin = Origin::with(move |mut client, seen| async move {
        while let Some(head) = client.head().await {
            let bad = ["x-bad", "cookie", "authorization"].iter().any(|name| field(&head, name).is_some());
            let range = field(&head, "range").map(str::to_owned);
            seen.lock().unwrap().push(head);
            if bad {
                client.send("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n").await;
                continue;
            }
            let vary = "Vary: X-Kind\r\n";
            let (status, body) = match range.as_deref().and_then(|range| range[6..].split_once('-')) {
                Some((from, to)) => (
                    format!("206 x\r\nContent-Range: bytes {from}-{to}/{LENGTH}"),
                    &CONTENT[from.parse().unwrap()..=to.parse().unwrap()],
                ),
                None => ("200 OK".into(), &CONTENT[..]),
            };
            let length = body.len();
            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{vary}{FRESH}\r\n")).await;
            client.try_send(body).await;
        }
    })
    .await;
    let disk = disk();
    let store = over(&disk);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let get = |fields: &str| {
        let request = origin.request("/", &format!("X-Kind: a\r\nConnection: close\r\n{fields}"));
        let proxy = &proxy;
        async move {
            let mut client = proxy.client().await;
            client.send(request).await;
            let head = client.head().await.unwrap();
            (head, client.rest_of_bytes().await)
        }
    };
    assert!(get("").await.1 == *CONTENT);
    proxy.settled().await;
    damage(&store, &disk, [3, 9]);
    let (head, body) = get("Authorization: x\r\n").await;
    assert!(head.contains("hit") && body.len() == 3 * store.span_size(), "{head}");
    let (head, body) = get("X-Bad: 1\r\nCookie: a=b\r\nUser-Agent: me\r\nAccept: */*\r\n").await;
    assert!(head.contains("hit; detail=gaps") && body == *CONTENT, "{head}");
    let asked = origin.requests();
    let last = asked.last().unwrap();
    assert_eq!((field(last, "x-kind"), field(last, "user-agent")), (Some("a"), Some("me")));
    assert_eq!((field(last, "cookie"), field(last, "x-bad")), (None, None));
}

/// An origin whose first version is whole; of the second comes half, and in the third phase nothing.
async fn failing(phase: Arc<AtomicUsize>, fields: &'static str) -> Origin {
    Origin::with(move |mut client, seen| {
        let phase = phase.clone();
        async move {
            while let Some(head) = client.head().await {
                let (now, ranged) = (phase.load(SeqCst), field(&head, "range").is_some());
                seen.lock().unwrap().push(head);
                if now == 2 || ranged {
                    return;
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\nETag: \"{now}\"");
                client.send(format!("{head}\r\n{fields}\r\n")).await;
                client.try_send(&CONTENT[..if now == 0 { LENGTH } else { LENGTH / 2 }]).await;
                if now == 1 {
                    return;
                }
            }
        }
    })
    .await
}

async fn get_all(proxy: &Proxy, origin: &Origin) -> (String, Vec<u8>) {
    let mut client = proxy.client().await;
    client.send(origin.request("/", "Connection: close\r\n")).await;
    let head = client.head().await.unwrap();
    (head, client.rest_of_bytes().await)
}

#[tokio::test]
async fn half_of_a_new_version_does_not_displace_what_may_stand_in() {
    let phase = Arc::<AtomicUsize>::default();
    let fields = "Cache-Control: max-age=0, stale-if-error=600\r\n";
    let (store, origin) = (over(&disk()), failing(phase.clone(), fields).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    assert!(get_all(&proxy, &origin).await.1 == *CONTENT);
    proxy.settled().await;
    phase.store(1, SeqCst);
    assert!(get_all(&proxy, &origin).await.1.len() < LENGTH);
    proxy.settled().await;
    phase.store(2, SeqCst);
    let (head, body) = get_all(&proxy, &origin).await;
    assert!(head.contains("stale-on-error") && body == *CONTENT, "{head}");
}

/// An origin that is known to give nothing gives no lost pieces either, and one that is yet to be asked may have another version.
#[tokio::test]
async fn what_has_gaps_is_not_served_stale() {
    for (fields, status) in [
        ("Cache-Control: max-age=0, stale-if-error=600\r\n", "HTTP/1.1 502"),
        ("Cache-Control: max-age=0, stale-while-revalidate=600\r\n", "HTTP/1.1 502"),
    ] {
        let phase = Arc::<AtomicUsize>::default();
        let (store, origin) = (over(&disk()), failing(phase.clone(), fields).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        assert!(get_all(&proxy, &origin).await.1 == *CONTENT);
        proxy.settled().await;
        let key = Key::new(cache::key::primary("http", &origin.address.to_string(), "/"));
        store.remove(&span_key(&spans(&store, &key).await.unwrap(), 3));
        phase.store(2, SeqCst);
        let (head, body) = get_all(&proxy, &origin).await;
        assert!(head.starts_with(status), "{} of {LENGTH} bytes: {head}", body.len());
    }
}

/// Its rest begins to come, each time, and does not go on.
#[tokio::test]
async fn a_part_whose_rest_never_comes_is_not_the_end_of_every_request() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.timeouts.origin_stall = Duration::from_millis(500);
    });
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    ranged.makes_of_ranges(Ranges::Hanging);
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n")).await;
    client.head().await.unwrap();
    assert_eq!(client.rest_of_bytes().await.len(), count * size);
    proxy.settled().await;
    // It stays for who asks for what it has, and where all of it breaks off too it is gone on with again.
    assert_eq!(kept(&store, &ranged, part.length).await, part);
    ranged.breaks.lock().unwrap().push_back(1_000_000);
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n")).await;
    client.rest_of_bytes().await;
    proxy.settled().await;
    assert_eq!(kept(&store, &ranged, part.length).await, part);
    let asked = ranged.ranges().len();
    ranged.makes_of_ranges(Ranges::Answered);
    let whole = ranged.get(&proxy, "").await;
    assert!(whole.body == *CONTENT);
    assert_eq!(ranged.ranges()[asked..], [Some(format!("{}-", count * size))]);
}

#[tokio::test]
async fn a_part_whose_rest_did_not_come_is_fetched_whole_the_next_time() {
    for first in [2_000_000, 100_000] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.timeouts.origin_stall = Duration::from_millis(500);
        });
        if first > store.span_size() {
            ranged.break_off(&proxy, [first, 0]).await;
            let (size, count) = pieces(&store, first);
            kept(&store, &ranged, (count * size) as u64).await;
        } else {
            let part = ranged.get(&proxy, &format!("Range: bytes=0-{}\r\n", first - 1)).await;
            assert!(cache_status(&part).ends_with("stored"), "{}", part.head);
        }
        ranged.makes_of_ranges(Ranges::Hanging);
        let mut client = proxy.client().await;
        client.send(ranged.request("Connection: close\r\n")).await;
        assert!(client.rest_of_bytes().await.len() < LENGTH);
        proxy.settled().await;
        let whole = ranged.get(&proxy, "").await;
        assert!((whole.status(), whole.body == *CONTENT) == (200, true), "{}", whole.head);
        assert_eq!(ranged.ranges().last(), Some(&None));
        kept(&store, &ranged, LENGTH as u64).await;
    }
}

/// Much of it is lost, and more would be.
#[tokio::test]
async fn a_range_does_not_take_the_place_of_the_whole() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, _) = stored(&store, &proxy, &ranged, &(0..10).collect::<Vec<_>>()).await;
    let range = ranged.get(&proxy, "Range: bytes=0-9\r\n").await;
    assert_eq!((range.status(), range.body == CONTENT[..10]), (206, true), "{}", range.head);
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(all), "{}", range.head);
}

/// That says the same as the part does.
#[tokio::test]
async fn a_head_leaves_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n").replacen("GET", "HEAD", 1)).await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(part), "{head}");
}

#[tokio::test]
async fn one_503_does_not_cut_off_all_who_wait() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[3, 9]).await;
    ranged.makes_of_ranges(Ranges::BusyOnce);
    let clients = ranged.clients(&proxy, 12).await;
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 12], "{:?}", ranged.ranges());
}

/// Who is refused for what it says itself speaks for nobody else.
#[tokio::test]
async fn one_clients_refusals_do_not_cut_off_others_under_way() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[20, 21]).await;
    // Has not come to the gap, since it does not read yet.
    let clients = ranged.clients(&proxy, 1).await;
    for _ in 0..3 {
        let mut bad = proxy.client().await;
        let range = format!(
            "Authorization: bad\r\nRange: bytes={}-{}\r\nConnection: close\r\n",
            21 * size,
            21 * size + 9
        );
        bad.send(ranged.origin.request("/", &range)).await;
        let head = bad.head().await.unwrap();
        assert!(head.contains("gaps"), "{head}");
        assert!(bad.rest_of_bytes().await.is_empty());
    }
    ranged.hold(1 << 20);
    let lengths = bodies(clients, 0).await;
    assert_eq!(lengths, vec![LENGTH], "{:?}", ranged.ranges());
}

/// It was put back, and is lost once more while its gap is being closed.
#[tokio::test]
async fn a_piece_that_is_lost_again_while_its_gap_is_open_is_asked_for_again() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (spans, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    // All of piece 3, and a little of the next.
    ranged.hold(4);
    let mut first = proxy.client().await;
    let begin = format!("Range: bytes={}-{}\r\n", 3 * size, 6 * size);
    first.send(ranged.origin.request("/", &begin)).await;
    first.head().await.unwrap();
    first.exactly(size + 100).await;
    let wait = async {
        while spans_lost(&store, &ranged).await > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("piece 3 comes back");
    store.remove(&span_key(&spans, 3));
    let range = format!("Range: bytes={}-{}\r\nConnection: close\r\n", 2 * size, 6 * size);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", &range)).await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    ranged.hold(1 << 20);
    let body = client.rest_of_bytes().await;
    drop(first);
    assert_eq!(body.len(), 4 * size + 1, "{:?}", ranged.ranges());
}
