//! A large object whose origin answers ranges as a test wants, and the store in which it lies.

use super::{Client, Message, Origin, Proxy, SOON, field, ok, soon};
use rand::{SeedableRng, rngs::StdRng};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use store::disk::sim::SimDisk;
use store::{Body, Key, Lookup, Options, Spans, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub const SIZE: usize = 64 << 20;
pub const LENGTH: usize = 6 << 20;
pub const FRESH: &str = "Cache-Control: max-age=600\r\nETag: \"1\"\r\n";

/// No two places of it are alike.
pub static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mixed = |at: u32| (at ^ (at >> 16)).wrapping_mul(0x45d9_f3b3);
    (0..LENGTH as u32).map(|at| (mixed(mixed(at)) >> 24) as u8).collect()
});

/// Answers with `CONTENT`, or the range of it that is asked for, as far as it may go: each permit is for 64 KiB.
pub struct Ranged {
    pub origin: Origin,
    pub go: Arc<Semaphore>,
    /// It has another version now.
    pub changed: Arc<AtomicBool>,
    /// It answers conditional requests with 304.
    pub holds: Arc<AtomicBool>,
    /// After so many bytes its next answers break off.
    pub breaks: Arc<Mutex<VecDeque<usize>>>,
    /// What it makes of ranges.
    pub ranges_are: Arc<Mutex<Ranges>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    Answered,
    /// By the end of the connection.
    Refused,
    /// With the same tag, but of another coding.
    Compressed,
    /// Of which the head comes, and nothing else.
    Hanging,
    /// Of which nothing comes.
    Unanswered,
    /// For one client.
    Private,
    Forbidden,
    /// With such a status.
    Status(&'static str),
    /// 503, once.
    BusyOnce,
    /// It has none, and sends all of it.
    Ignored,
    /// It sends all of something else, with these fields.
    Other(&'static str),
}

impl Ranged {
    pub async fn of(fields: &'static str) -> Ranged {
        let go = Arc::new(Semaphore::new(1 << 20));
        let changed = Arc::new(AtomicBool::new(false));
        let breaks = Arc::<Mutex<VecDeque<usize>>>::default();
        let ranges_are = Arc::new(Mutex::new(Ranges::Answered));
        let (permits, other, breaking) = (go.clone(), changed.clone(), breaks.clone());
        let (of_ranges, holds) = (ranges_are.clone(), Arc::new(AtomicBool::new(false)));
        let is_valid = holds.clone();
        let origin = Origin::with(move |mut client, seen| {
            let (permits, other, breaking) = (permits.clone(), other.clone(), breaking.clone());
            let (of_ranges, is_valid) = (of_ranges.clone(), is_valid.clone());
            async move {
                while let Some(head) = client.head().await {
                    if other.load(SeqCst) {
                        seen.lock().unwrap().push(head);
                        client.send(ok("Cache-Control: max-age=600\r\nETag: \"2\"\r\n", "new")).await;
                        continue;
                    }
                    if is_valid.load(SeqCst) && field(&head, "if-none-match").is_some() {
                        seen.lock().unwrap().push(head);
                        client.send(format!("HTTP/1.1 304 x\r\n{fields}\r\n")).await;
                        continue;
                    }
                    let body = &*CONTENT;
                    let range = field(&head, "range").and_then(|r| r.strip_prefix("bytes=")?.split_once('-'));
                    let range = range.map(|(from, to)| {
                        (from.parse::<usize>().unwrap(), to.parse().map_or(LENGTH, |last: usize| last + 1))
                    });
                    let how = *of_ranges.lock().unwrap();
                    let asks_for_range = range.is_some();
                    let range = range.filter(|_| !matches!(how, Ranges::Ignored | Ranges::Other(_)));
                    let (from, to) = range.unwrap_or((0, LENGTH));
                    let place = match range {
                        Some(_) => format!("206 x\r\nContent-Range: bytes {from}-{}/{LENGTH}", to - 1),
                        None => "200 OK".into(),
                    };
                    let bad = field(&head, "authorization").is_some();
                    seen.lock().unwrap().push(head);
                    if asks_for_range && let Ranges::Other(fields) = how {
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n{fields}\r\n");
                        client.send(head).await;
                        client.try_send(&[0; LENGTH]).await;
                        continue;
                    }
                    let more = match how {
                        _ if range.is_none() => "",
                        Ranges::Refused => return,
                        Ranges::Unanswered => std::future::pending().await,
                        _ if bad => {
                            permits.acquire().await.unwrap().forget();
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
                        Ranges::Status(status) => {
                            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
                            continue;
                        }
                        Ranges::Compressed => "Content-Encoding: gzip\r\n",
                        Ranges::Private => "Cache-Control: private\r\n",
                        Ranges::Answered | Ranges::Hanging | Ranges::Ignored | Ranges::Other(_) => "",
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
        Ranged { origin, go, changed, holds, breaks, ranges_are }
    }

    pub async fn get(&self, proxy: &Proxy, fields: &str) -> Message {
        proxy.client().await.get(self.origin.request("/", fields)).await
    }

    /// What it was asked for.
    pub fn ranges(&self) -> Vec<Option<String>> {
        let range = |head: &String| field(head, "range").map(|range| range.replace("bytes=", ""));
        self.origin.requests().iter().map(range).collect()
    }

    /// Its next answers break off after so many bytes each: one to a client, who gets as many, and to that of the range for
    /// the rest.
    pub async fn break_off(&self, proxy: &Proxy, bytes: [usize; 2]) {
        self.breaks.lock().unwrap().extend(bytes);
        let mut client = proxy.client().await;
        client.send(self.origin.request("/", "")).await;
        client.head().await.unwrap();
        let body = client.rest_of_bytes().await;
        assert!(body.len() < LENGTH && CONTENT.starts_with(&body));
    }

    /// A client that has taken so many bytes of it, which are all that its origin sends.
    pub async fn taking(&self, proxy: &Proxy, bytes: usize) -> Client {
        self.hold(bytes.div_ceil(64 << 10));
        let mut client = proxy.client().await;
        client.send(self.request("")).await;
        client.head().await.unwrap();
        assert!(client.exactly(bytes).await == CONTENT[..bytes]);
        client
    }

    pub fn makes_of_ranges(&self, how: Ranges) {
        *self.ranges_are.lock().unwrap() = how;
    }

    /// So many clients who ask for it, and have the heads of their answers.
    pub async fn clients(&self, proxy: &Proxy, count: usize) -> Vec<Client> {
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

    /// What so many clients get who ask for it at once: the head and the body.
    pub async fn at_once(&self, proxy: &Proxy, count: usize) -> Vec<(String, Vec<u8>)> {
        let mut asking = JoinSet::new();
        for _ in 0..count {
            let mut client = proxy.client().await;
            client.send(self.request("Connection: close\r\n")).await;
            asking.spawn(async move { (client.head().await.unwrap(), client.rest_of_bytes().await) });
        }
        soon(asking.join_all()).await
    }

    pub fn request(&self, fields: &str) -> String {
        self.origin.request("/", fields)
    }

    /// It sends no more than so many times 64 KiB.
    pub fn hold(&self, pieces: usize) {
        self.go.forget_permits(usize::MAX >> 4);
        self.go.add_permits(pieces);
    }

    pub fn key(&self) -> Key {
        Key::new(cache::key::primary("http", &self.origin.address.to_string(), "/"))
    }
}

pub fn over(disk: &Arc<SimDisk>) -> Store {
    let (size, object_max) = (Some(SIZE as u64), Some(SIZE as u64));
    Store::over(disk.clone(), &Options { size, object_max, patience: SOON, tell: |_| {}, ..Options::at("") })
        .unwrap()
}

pub fn disk() -> Arc<SimDisk> {
    Arc::new(SimDisk::new(SIZE, StdRng::seed_from_u64(1)))
}

/// Nothing is answered from memory.
pub fn no_memory(settings: &mut proxy::Settings) {
    settings.bounds.memory_bytes = 0;
    settings.workers = 2;
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

pub async fn spans(store: &Store, key: &Key) -> Option<Spans> {
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

pub fn span_key(spans: &Spans, n: u32) -> Key {
    Key::new([b"span", &spans.id.to_le_bytes()[..], &n.to_le_bytes()].concat())
}

/// When so many bytes are stored of its body.
pub async fn kept(store: &Store, ranged: &Ranged, length: u64) -> Spans {
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
pub async fn stored(store: &Store, proxy: &Proxy, ranged: &Ranged, lost: &[u32]) -> (Spans, usize) {
    assert!(ranged.get(proxy, "").await.body == *CONTENT);
    let spans = kept(store, ranged, LENGTH as u64).await;
    lost.iter().for_each(|n| store.remove(&span_key(&spans, *n)));
    (spans, spans.span as usize)
}

pub async fn healed(proxy: &Proxy) -> u64 {
    stat(proxy, "/responses/healed").await
}

/// Times that origins were asked.
pub async fn fetches(proxy: &Proxy) -> u64 {
    stat(proxy, "/origin/fetches").await
}

pub async fn stat(proxy: &Proxy, pointer: &str) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats.pointer(pointer).unwrap_or_else(|| panic!("{stats}")).as_u64().unwrap()
}

/// The pieces `from..to` as a range says them.
pub fn range(size: usize, from: usize, to: usize) -> Option<String> {
    Some(format!("{}-{}", from * size, (to * size).min(LENGTH) - 1))
}

pub async fn spans_lost(store: &Store, ranged: &Ranged) -> usize {
    let spans = spans(store, &ranged.key()).await.unwrap();
    store.missing(&spans, 0..spans.count()).count()
}

/// Bytes of a piece, and how many of them are among so many bytes.
pub fn pieces(store: &Store, bytes: usize) -> (usize, usize) {
    (store.span_size(), bytes / store.span_size())
}

/// Damages these pieces of the body; the index does not know.
pub fn damage(store: &Store, disk: &SimDisk, pieces: impl IntoIterator<Item = usize>) {
    assert!(store.persist(SOON));
    let (bytes, size) = (disk.bytes(), store.span_size());
    for n in pieces {
        let at = memchr::memmem::find(&bytes, &CONTENT[n * size..n * size + 64]).unwrap();
        disk.flip_bit(at..at + 64);
    }
}

/// All at once, each on a task of its own: how many bytes each gets, from there on.
pub async fn bodies(clients: Vec<Client>, from: usize) -> Vec<usize> {
    let body = |mut client: Client| tokio::spawn(async move { client.rest_of_bytes().await });
    let mut lengths = Vec::new();
    for task in clients.into_iter().map(body).collect::<Vec<_>>() {
        let body = soon(task).await.unwrap();
        assert!(CONTENT[from..].starts_with(&body));
        lengths.push(body.len());
    }
    lengths
}

/// An origin whose first version is whole; of the second comes half, and in the third phase nothing.
pub async fn failing(phase: Arc<AtomicUsize>, fields: &'static str) -> Origin {
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

pub async fn get_all(proxy: &Proxy, origin: &Origin) -> (String, Vec<u8>) {
    let mut client = proxy.client().await;
    client.send(origin.request("/", "Connection: close\r\n")).await;
    let head = client.head().await.unwrap();
    (head, client.rest_of_bytes().await)
}
