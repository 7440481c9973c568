//! Many clients and one fetch: who asks the origin when it fails, who reads what, and what a slow one costs the others.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use store::{Options, Store};
use support::gated::Gated;
use support::{Client, Message, Origin, Proxy, SOON, cache_status, field, ok, soon};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// An origin that answers each request when the test says so, and with what.
struct Stage {
    origin: Origin,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// Requests that wait for their answer.
    active: Arc<AtomicUsize>,
}

/// A request for this is answered at once, and is no arrival.
const LATER: &str = "/later";

struct Arrival {
    head: String,
    answer: oneshot::Sender<String>,
}

impl Arrival {
    fn client(&self) -> usize {
        field(&self.head, "x-client").unwrap().parse().unwrap()
    }

    fn answer(self, text: impl Into<String>) {
        self.answer.send(text.into()).unwrap();
    }
}

impl Stage {
    async fn new() -> Stage {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let active = Arc::new(AtomicUsize::new(0));
        let count = active.clone();
        let origin = Origin::with(move |mut client, seen| {
            let (sender, active) = (sender.clone(), count.clone());
            async move {
                while let Some(head) = client.head().await {
                    if head.starts_with(&format!("GET {LATER} ")) {
                        client.send("HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n\r\n").await;
                        continue;
                    }
                    seen.lock().unwrap().push(head.clone());
                    active.fetch_add(1, SeqCst);
                    let (answer, answered) = oneshot::channel();
                    let _ = sender.send(Arrival { head, answer });
                    let text = tokio::select! {
                        text = answered => text.ok(),
                        _ = client.is_closed() => None,
                    };
                    active.fetch_sub(1, SeqCst);
                    match text {
                        Some(text) => client.send(text).await,
                        None => return,
                    }
                }
            }
        })
        .await;
        Stage { origin, arrivals, active }
    }

    async fn next(&mut self) -> Arrival {
        soon(self.arrivals.recv()).await.unwrap()
    }

    /// What was sent before has come as far as it can: later requests have been answered by way of the origin, by each worker.
    /// Connections are spread over workers by chance, so there are many.
    async fn settle(&self, proxy: &Proxy) {
        for _ in 0..24 {
            let later = self.origin.request(LATER, "Cache-Control: no-store\r\n");
            assert_eq!(soon(proxy.client().await.get(later)).await.status(), 204);
        }
    }

    /// Nothing more reached the origin.
    async fn quiet(&mut self, proxy: &Proxy) {
        self.settle(proxy).await;
        assert!(self.arrivals.try_recv().is_err(), "one more request reached the origin");
    }

    /// `count` clients on connections of their own, who have asked for `/`.
    async fn herd(&self, proxy: &Proxy, count: usize, fields: &str) -> Vec<Client> {
        let mut clients = Vec::with_capacity(count);
        for n in 0..count {
            let mut client = proxy.client().await;
            client.send(self.origin.request("/", &format!("X-Client: {n}\r\n{fields}"))).await;
            clients.push(client);
        }
        clients
    }
}

/// What each of these clients gets.
async fn answers(clients: impl IntoIterator<Item = Client>) -> Vec<Message> {
    let mut tasks = JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move { client.message().await });
    }
    soon(tasks.join_all()).await
}

fn count(answers: &[Message], status: &str) -> usize {
    answers.iter().filter(|answer| cache_status(answer) == status).count()
}

/// Time for a reader to fall behind.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

#[tokio::test]
async fn leaders_that_leave_are_succeeded_by_one_at_a_time() {
    const COUNT: usize = 300;
    const LEAVE: usize = 20;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let mut clients: Vec<_> = stage.herd(&proxy, COUNT, "").await.into_iter().map(Some).collect();
    stage.settle(&proxy).await;
    let mut leader = stage.next().await;
    for left in 1..=LEAVE {
        drop(clients[leader.client()].take().expect("a leader that is there"));
        leader = stage.next().await;
        assert_eq!(stage.origin.requests().len(), left + 1);
    }
    stage.quiet(&proxy).await;
    leader.answer(ok(FRESH, "hello"));
    let answers = answers(clients.into_iter().flatten()).await;
    assert!(answers.iter().all(|answer| (answer.status(), answer.text()) == (200, "hello")));
    assert_eq!(count(&answers, "cosm; fwd=uri-miss; stored; collapsed=?0"), 1);
    assert!(answers.iter().any(|answer| cache_status(answer).ends_with("; collapsed")));
    assert_eq!(stage.origin.requests().len(), LEAVE + 1);
}

/// What the first answer says of variants is known to nobody who waits: they look once more, and find what it brought.
#[tokio::test]
async fn who_finds_what_came_with_the_fetch_it_waited_for_is_collapsed() {
    const COUNT: usize = 20;
    let mut stage = Stage::new().await;
    let proxy = Proxy::forward();
    let clients = stage.herd(&proxy, COUNT, "").await;
    stage.settle(&proxy).await;
    stage.next().await.answer(ok(&format!("{FRESH}Vary: Accept-Language\r\n"), "hello"));
    let answers = answers(clients).await;
    assert_eq!(stage.origin.requests().len(), 1);
    assert_eq!(count(&answers, "cosm; fwd=uri-miss; stored"), 1);
    let collapsed = answers
        .iter()
        .map(cache_status)
        .filter(|status| status.starts_with("cosm; fwd=uri-miss; ttl=") && status.ends_with("; collapsed"));
    assert_eq!(collapsed.count(), COUNT - 1, "{answers:?}");
    let later = proxy.client().await.get(stage.origin.request("/", "")).await;
    assert_eq!(cache_status(&later), "cosm; hit");
}

#[tokio::test]
async fn an_error_of_the_origin_goes_to_one_and_the_next_asks_for_the_others() {
    const COUNT: usize = 300;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let clients = stage.herd(&proxy, COUNT, "").await;
    stage.settle(&proxy).await;
    stage.next().await.answer(BUSY);
    let second = stage.next().await;
    stage.quiet(&proxy).await;
    second.answer(ok(FRESH, "hello"));
    let answers = answers(clients).await;
    assert_eq!(answers.iter().filter(|answer| answer.status() == 503).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.text() == "hello").count(), COUNT - 1);
    assert_eq!(stage.origin.requests().len(), 2);
}

/// What one request asks for in its own way may break its own fetch, and nobody else's.
#[tokio::test]
async fn a_request_that_its_origin_hangs_up_on_fails_alone() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head.clone());
                let _ = wait.acquire().await.unwrap();
                if field(&head, "x-poison").is_some() {
                    return;
                }
                client.send(ok(FRESH, "hello")).await;
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut first = proxy.client().await;
    first.send(origin.request("/", "X-Poison: 1\r\n")).await;
    origin.asked(1).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        others.push(client);
    }
    proxy.settled().await;
    assert_eq!(origin.requests().len(), 1, "they wait");
    gate.add_permits(1);
    assert_eq!(first.message().await.status(), 502);
    for answer in answers(others).await {
        assert_eq!((answer.status(), answer.text()), (200, "hello"));
    }
    assert!(origin.requests().len() <= 3, "{:?}", origin.requests());
}

#[tokio::test]
async fn an_origin_that_only_fails_is_asked_by_twice_as_many_each_time() {
    const COUNT: usize = 120;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let clients = stage.herd(&proxy, COUNT, "").await;
    stage.settle(&proxy).await;
    let mut left = COUNT;
    for expected in [1, 1, 2, 4, 8, 16, 32, 64] {
        let expected = expected.min(left);
        let mut round = Vec::new();
        for _ in 0..expected {
            round.push(stage.next().await);
        }
        if expected < 32 {
            stage.quiet(&proxy).await;
        }
        assert_eq!(stage.active.load(SeqCst), expected);
        round.into_iter().for_each(|arrival| arrival.answer(BUSY));
        left -= expected;
    }
    assert_eq!(left, 0);
    let answers = answers(clients).await;
    assert!(answers.iter().all(|answer| (answer.status(), answer.text()) == (503, "busy")));
}

#[tokio::test]
async fn a_304_answers_all_who_waited_for_it_though_the_response_says_no_cache() {
    const COUNT: usize = 300;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let first = stage.herd(&proxy, 1, "").await;
    stage.next().await.answer(ok("Cache-Control: no-cache\r\nETag: \"1\"\r\n", "hello"));
    answers(first).await;
    let mut clients = stage.herd(&proxy, COUNT - 1, "").await;
    clients.extend(stage.herd(&proxy, 1, "If-None-Match: \"1\"\r\n").await);
    stage.settle(&proxy).await;
    let validation = stage.next().await;
    assert_eq!(field(&validation.head, "if-none-match"), Some("\"1\""));
    stage.quiet(&proxy).await;
    validation.answer("HTTP/1.1 304 x\r\nETag: \"1\"\r\nCache-Control: no-cache\r\n\r\n");
    let answers = answers(clients).await;
    assert_eq!(answers.iter().filter(|answer| answer.text() == "hello").count(), COUNT - 1);
    assert_eq!(answers.iter().filter(|answer| answer.status() == 304).count(), 1);
    let collapsed = answers.iter().filter(|answer| {
        let status = answer.field("cache-status").unwrap();
        status.starts_with("cosm; fwd=stale; fwd-status=304; detail=no-cache")
            && status.ends_with("; collapsed")
    });
    assert_eq!(collapsed.count(), COUNT - 1);
    assert_eq!(stage.origin.requests().len(), 2);
}

#[tokio::test]
async fn who_asks_for_more_than_a_304_gave_looks_again_one_for_all() {
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let first = stage.herd(&proxy, 1, "").await;
    stage.next().await.answer(ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello"));
    answers(first).await;
    let mut clients = stage.herd(&proxy, 1, "").await;
    let validation = stage.next().await;
    clients.extend(stage.herd(&proxy, 50, "").await);
    clients.extend(stage.herd(&proxy, 50, "Cache-Control: no-cache\r\n").await);
    stage.settle(&proxy).await;
    let valid = "HTTP/1.1 304 x\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n";
    validation.answer(valid);
    let reload = stage.next().await;
    assert_eq!(field(&reload.head, "cache-control"), Some("no-cache"));
    stage.quiet(&proxy).await;
    reload.answer(valid);
    let answers = answers(clients).await;
    assert!(answers.iter().all(|answer| answer.text() == "hello"));
    assert_eq!(stage.origin.requests().len(), 3);
}

#[tokio::test]
async fn whom_nothing_suits_is_let_go_in_growing_numbers() {
    const COUNT: usize = 90;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let clients = stage.herd(&proxy, COUNT, "").await;
    stage.settle(&proxy).await;
    let (mut asked, mut rounds) = (0, 0);
    while asked < COUNT {
        // What is stale at once suits only who asked for it.
        let mut round = vec![stage.next().await];
        stage.settle(&proxy).await;
        while let Ok(arrival) = stage.arrivals.try_recv() {
            round.push(arrival);
        }
        assert!(round.len() <= 1 + 4 * asked, "{} at once after {asked}", round.len());
        for arrival in round {
            asked += 1;
            arrival.answer(ok(&format!("Cache-Control: max-age=0\r\nETag: \"{asked}\"\r\n"), "x"));
        }
        rounds += 1;
    }
    let answers = answers(clients).await;
    assert!(answers.iter().all(|answer| answer.text() == "x"));
    assert!((4..=8).contains(&rounds), "{rounds} rounds");
}

#[tokio::test]
async fn a_private_response_releases_all_at_once() {
    const COUNT: usize = 100;
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let clients = stage.herd(&proxy, COUNT, "").await;
    stage.settle(&proxy).await;
    let first = stage.next().await;
    stage.quiet(&proxy).await;
    let private = |arrival: Arrival| {
        let body = arrival.client().to_string();
        arrival.answer(ok("Cache-Control: private, max-age=60\r\n", &body));
    };
    private(first);
    // They are all there before one of them is answered.
    let mut others = Vec::new();
    for _ in 1..COUNT {
        others.push(stage.next().await);
    }
    others.into_iter().for_each(private);
    for (n, mut client) in clients.into_iter().enumerate() {
        let answer = client.message().await;
        assert_eq!(answer.text(), n.to_string());
        let status = cache_status(&answer).replace("; collapsed=?0", "");
        assert_eq!(status, "cosm; fwd=uri-miss; detail=private");
    }
    // Nobody waits for the next one either.
    let again = stage.herd(&proxy, 3, "").await;
    let mut alone = Vec::new();
    for _ in 0..3 {
        alone.push(stage.next().await);
    }
    alone.into_iter().for_each(|arrival| arrival.answer(ok("Cache-Control: private\r\n", "x")));
    answers(again).await;
}

#[tokio::test]
async fn what_is_not_about_the_resource_turns_no_collapsing_off() {
    let not_modified = "HTTP/1.1 304 x\r\nETag: \"1\"\r\n\r\n";
    let partial = "HTTP/1.1 206 x\r\nContent-Range: bytes 0-0/5\r\nContent-Length: 1\r\n\r\nh";
    let no_store = "HTTP/1.1 500 x\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n";
    for (fields, answer, status) in [
        ("", BUSY, 503),
        ("", no_store, 500),
        ("", "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n", 429),
        ("If-None-Match: \"1\"\r\n", not_modified, 304),
        ("Range: bytes=0-0\r\n", partial, 206),
        // They answer another request.
        ("", not_modified, 502),
        ("", partial, 502),
        ("Range: bytes=9-\r\n", "HTTP/1.1 416 x\r\nContent-Length: 0\r\n\r\n", 416),
    ] {
        let mut stage = Stage::new().await;
        let proxy = Proxy::forward();
        let first = stage.herd(&proxy, 1, fields).await;
        stage.next().await.answer(answer);
        assert_eq!(answers(first).await[0].status(), status);
        let clients = stage.herd(&proxy, 20, "").await;
        stage.settle(&proxy).await;
        let only = stage.next().await;
        stage.quiet(&proxy).await;
        only.answer(ok(FRESH, "hello"));
        assert!(answers(clients).await.iter().all(|answer| answer.text() == "hello"));
        assert_eq!(stage.origin.requests().len(), 2, "after {status}");
    }
}

#[tokio::test]
async fn a_failure_is_shared() {
    let mut stage = Stage::new().await;
    let proxy = Proxy::with(|settings| {
        settings.workers = 2;
        settings.timeouts.origin_first_byte = Duration::from_secs(2);
    });
    let clients = stage.herd(&proxy, 50, "").await;
    let _silent = stage.next().await;
    assert!(answers(clients).await.iter().all(|answer| answer.status() == 504));
    stage.quiet(&proxy).await;
}

fn open(path: &Path) -> Store {
    Store::open(&Options {
        size: Some(64 << 20),
        object_max: Some(32 << 20),
        patience: std::time::Duration::from_secs(60),
        ..Options::at(path)
    })
    .unwrap()
}

/// No two places of it are alike.
fn content(length: usize) -> Vec<u8> {
    let mixed = |at: u32| (at ^ (at >> 16)).wrapping_mul(0x45d9_f3b3);
    (0..length as u32).map(|at| (mixed(mixed(at)) >> 24) as u8).collect()
}

/// What an origin of bytes is like.
#[derive(Clone, Copy)]
struct Bytes {
    length: usize,
    /// Without it the body comes in chunks.
    told: bool,
    fields: &'static str,
    /// It closes the first connection after so many bytes.
    breaks: Option<usize>,
    /// It answers so many ranges with 503 first.
    busy: usize,
    pause: Duration,
}

impl Bytes {
    const fn of(length: usize) -> Bytes {
        Bytes { length, told: true, fields: FRESH, breaks: None, busy: 0, pause: Duration::ZERO }
    }

    /// Answers with `content`, or the range of it that is asked for.
    async fn origin(self) -> Origin {
        let first = Arc::new(AtomicBool::new(true));
        let ranges = Arc::new(AtomicUsize::new(0));
        Origin::with(move |mut client, seen| {
            let (first, ranges) = (first.clone(), ranges.clone());
            async move {
                while let Some(head) = client.head().await {
                    if field(&head, "range").is_some() && ranges.fetch_add(1, SeqCst) < self.busy {
                        seen.lock().unwrap().push(head);
                        client.send(BUSY).await;
                        continue;
                    }
                    let whole = content(self.length);
                    let range =
                        field(&head, "range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
                    let (status, from, to) = match range {
                        Some((from, to)) => {
                            let to = to.parse().map_or(self.length, |last: usize| last + 1);
                            ("206 Partial Content", from.parse().unwrap(), to)
                        }
                        None => ("200 OK", 0, self.length),
                    };
                    let place = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, self.length);
                    let place = if range.is_some() { &place[..] } else { "" };
                    let framing = match self.told || range.is_some() {
                        true => format!("Content-Length: {}", to - from),
                        false => "Transfer-Encoding: chunked".into(),
                    };
                    seen.lock().unwrap().push(head.clone());
                    client
                        .send(format!("HTTP/1.1 {status}\r\n{framing}\r\n{place}{}\r\n", self.fields))
                        .await;
                    let breaks = self.breaks.filter(|_| first.swap(false, SeqCst));
                    let end = breaks.unwrap_or(to);
                    for piece in whole[from..end].chunks(64 << 10) {
                        let chunk = match framing.starts_with('T') {
                            true => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
                            false => piece.to_vec(),
                        };
                        if !client.try_send(&chunk).await {
                            return;
                        }
                        tokio::time::sleep(self.pause).await;
                    }
                    if breaks.is_some() {
                        return;
                    }
                    if framing.starts_with('T') {
                        client.send("0\r\n\r\n").await;
                    }
                }
            }
        })
        .await
    }
}

/// A client that has asked and read the head.
async fn asking(proxy: &Proxy, origin: &Origin) -> (Client, String) {
    let mut client = Client::narrow(proxy.address).await;
    client.send(origin.request("/", "")).await;
    let head = client.head().await.unwrap();
    (client, head)
}

/// A proxy without a store, whose memory takes nothing of this size: what is fetched in chunks is shared, but not kept.
fn keeps_nothing() -> Proxy {
    Proxy::with(|settings| {
        settings.workers = 2;
        settings.bounds.window_bytes = 128 << 10;
    })
}

#[tokio::test]
async fn a_reader_that_stalls_loses_the_fetch_and_goes_on_by_range() {
    const LENGTH: usize = 16 << 20;
    let origin = Bytes { told: false, ..Bytes::of(LENGTH) }.origin().await;
    let proxy = keeps_nothing();
    let (mut slow, slow_head) = asking(&proxy, &origin).await;
    let (mut quick, quick_head) = asking(&proxy, &origin).await;
    assert!(field(&quick_head, "cache-status").unwrap().ends_with("; collapsed"));
    assert!(soon(quick.body(&quick_head)).await == content(LENGTH), "the quick one reads to the end");
    assert_eq!(origin.requests().len(), 1);
    assert!(soon(slow.body(&slow_head)).await == content(LENGTH), "the slow one too");
    let requests = origin.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(field(&requests[1], "if-range"), Some("\"1\""));
    assert!(field(&requests[1], "range").unwrap().ends_with('-'));
}

#[tokio::test]
async fn a_reader_that_goes_on_by_range_asks_an_origin_that_is_busy_three_times() {
    const LENGTH: usize = 16 << 20;
    for (busy, asked) in [(2, 3), (3, 3)] {
        let origin = Bytes { told: false, busy, ..Bytes::of(LENGTH) }.origin().await;
        let proxy = keeps_nothing();
        let (mut slow, slow_head) = asking(&proxy, &origin).await;
        let (mut quick, quick_head) = asking(&proxy, &origin).await;
        assert!(soon(quick.body(&quick_head)).await == content(LENGTH));
        match busy {
            2 => assert!(soon(slow.body(&slow_head)).await == content(LENGTH)),
            _ => assert!(soon(slow.rest()).await.len() < LENGTH),
        }
        assert_eq!(origin.requests().len(), 1 + asked);
    }
}

#[tokio::test]
async fn a_reader_that_takes_a_little_now_and_then_breaks_off_where_nothing_says_what_the_rest_is_of() {
    const LENGTH: usize = 16 << 20;
    let fields = "Cache-Control: max-age=60\r\nETag: W/\"1\"\r\n";
    let origin = Bytes { told: false, fields, ..Bytes::of(LENGTH) }.origin().await;
    let proxy = keeps_nothing();
    let (mut slow, _) = asking(&proxy, &origin).await;
    let (mut quick, quick_head) = asking(&proxy, &origin).await;
    let reading = tokio::spawn(async move { quick.body(&quick_head).await });
    while !reading.is_finished() {
        slow.exactly(100).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(reading.await.unwrap() == content(LENGTH));
    let rest = soon(slow.rest()).await;
    assert!(rest.len() < LENGTH && !rest.ends_with("0\r\n\r\n"), "cut short, and said so");
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn readers_that_are_all_slow_keep_the_fetch() {
    const LENGTH: usize = 16 << 20;
    let origin = Bytes { told: false, ..Bytes::of(LENGTH) }.origin().await;
    let proxy = keeps_nothing();
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(asking(&proxy, &origin).await);
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let mut tasks = JoinSet::new();
    for (mut client, head) in readers {
        tasks.spawn(async move { client.body(&head).await });
    }
    assert!(soon(tasks.join_all()).await.iter().all(|body| *body == content(LENGTH)));
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn a_body_in_single_bytes_costs_what_its_bytes_cost() {
    const LENGTH: usize = 256 << 10;
    const READERS: usize = 50;
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let wait = go.clone();
    let origin = Origin::with(move |mut client, _| {
        let wait = wait.clone();
        async move {
            client.head().await;
            client.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{FRESH}\r\n")).await;
            wait.acquire().await.unwrap().forget();
            let body: Vec<u8> =
                content(LENGTH).iter().flat_map(|byte| [b'1', 13, 10, *byte, 13, 10]).collect();
            client.send(body).await;
            client.send("0\r\n\r\n").await;
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (mut client, head) = asking(&proxy, &origin).await;
        readers.spawn(async move { client.body(&head).await });
    }
    let began = Instant::now();
    go.add_permits(1);
    assert!(soon(readers.join_all()).await.iter().all(|body| *body == content(LENGTH)));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // All of it is stored in pieces that do not keep what was read alive.
    let mut client = proxy.client().await;
    assert_eq!(cache_status(&client.get(origin.request("/", "")).await), "cosm; hit");
}

#[tokio::test]
async fn a_fetch_that_breaks_off_goes_on_by_range_once_for_all() {
    const LENGTH: usize = 4 << 20;
    for told in [true, false] {
        let origin =
            Bytes { told, breaks: Some(LENGTH / 2), pause: Duration::from_millis(5), ..Bytes::of(LENGTH) }
                .origin()
                .await;
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::over(Some(open(&folder.path().join("cache"))), |settings| settings.workers = 2);
        let mut readers = JoinSet::new();
        for _ in 0..10 {
            let (mut client, head) = asking(&proxy, &origin).await;
            readers.spawn(async move { client.body(&head).await });
        }
        assert!(soon(readers.join_all()).await.iter().all(|body| *body == content(LENGTH)));
        let hit = proxy.client().await.get(origin.request("/", "")).await;
        assert!(cache_status(&hit) == "cosm; hit" && hit.body == content(LENGTH), "{}", hit.head);
        let requests = origin.requests();
        assert_eq!(requests.len(), 2);
        assert!(field(&requests[1], "range").unwrap().starts_with(&format!("bytes={}-", LENGTH / 2)));
    }
}

#[tokio::test]
async fn what_the_store_lost_of_a_body_comes_from_the_origin() {
    const LENGTH: usize = 6 << 20;
    let weak = "Cache-Control: max-age=60\r\nETag: W/\"1\"\r\n";
    for (fields, range, repaired) in
        [(FRESH, "", true), (FRESH, "Range: bytes=1000000-5999999\r\n", true), (weak, "", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let origin = Bytes { fields, pause: Duration::from_millis(2), ..Bytes::of(LENGTH) }.origin().await;
        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), |_| {});
        let mut client = proxy.client().await;
        assert!(client.get(origin.request("/", "")).await.body == content(LENGTH));
        drop((proxy, client));
        // Of the span with the damage.
        let span = store.span_size();
        let from = (3 << 20) / span * span;
        store.close();
        drop(store);
        damage(&path, &content(LENGTH)[3 << 20..(3 << 20) + 4096]);

        let proxy = Proxy::over(Some(open(&path)), |_| {});
        let mut client = proxy.client().await;
        let expected =
            if range.is_empty() { &content(LENGTH)[..] } else { &content(LENGTH)[1_000_000..6_000_000] };
        client.send(origin.request("/", range)).await;
        let head = client.head().await.unwrap();
        assert_eq!(field(&head, "cache-status").map(support::without_ttl), Some("cosm; hit"));
        if !repaired {
            assert!(soon(client.rest()).await.len() < LENGTH);
            assert_eq!(origin.requests().len(), 1);
            continue;
        }
        assert!(client.body(&head).await == expected);
        let requests = origin.requests();
        assert_eq!(field(&requests[1], "range").unwrap(), format!("bytes={from}-{}", from + span - 1));
        assert_eq!(field(&requests[1], "if-range"), Some("\"1\""));
        // It was put back.
        let hit = client.get(origin.request("/", "")).await;
        assert!(cache_status(&hit) == "cosm; hit" && hit.body == content(LENGTH));
        assert_eq!(origin.requests().len(), 2);
    }
}

/// Bodies under way do not wait for a disk that hangs: those that can go on from the origin do, the others break off.
#[tokio::test]
async fn a_body_does_not_wait_for_a_disk_that_hangs() {
    const LENGTH: usize = 12 << 20;
    const SIZE: usize = 48 << 20;
    // With a strong validator the origin gives the rest. Without one, a disk that comes back in time goes on with it.
    let vague = "Cache-Control: max-age=60\r\n";
    for (fields, mends, opens) in [(FRESH, true, false), (vague, false, true), (vague, false, false)] {
        let pause = Duration::from_millis(1);
        let origin = Bytes { fields, pause, ..Bytes::of(LENGTH) }.origin().await;
        let disk = Gated::new(SIZE);
        let options = Options {
            size: Some(SIZE as u64),
            object_max: Some(SIZE as u64),
            patience: Duration::from_millis(250),
            ..Options::at("")
        };
        let store = Store::over(disk.clone(), &options).unwrap();
        let before = Proxy::over(Some(store.clone()), |_| {});
        assert_eq!(before.client().await.get(origin.request("/", "")).await.body.len(), LENGTH);
        before.stop();
        before.ended().await;
        store.close();
        // After a restart nothing of it is in memory.
        let store = Store::over(disk.clone(), &options).unwrap();
        let stall = if opens { SOON } else { Duration::from_millis(100) };
        let proxy = Proxy::over(Some(store.clone()), |settings| settings.timeouts.origin_stall = stall);
        let (mut client, head) = asking(&proxy, &origin).await;
        assert!(field(&head, "cache-status").unwrap().starts_with("cosm; hit"), "{head}");
        disk.close();
        if opens {
            // For longer than a read is waited for where the origin would give the rest.
            let opening = async {
                tokio::time::sleep(5 * options.patience).await;
                disk.open();
            };
            assert!(tokio::join!(client.exactly(LENGTH), opening).0 == content(LENGTH));
            assert_eq!(origin.requests().len(), 1);
        } else if mends {
            assert!(client.exactly(LENGTH).await == content(LENGTH));
            let requests = origin.requests();
            assert!(requests.len() == 2 && field(&requests[1], "range").is_some(), "{requests:?}");
        } else {
            assert!(client.rest().await.len() < LENGTH);
            assert_eq!(origin.requests().len(), 1);
        }
        assert!(opens || disk.waiting.load(SeqCst) > 0, "no read was kept waiting");
        disk.open();
        drop(proxy);
        store.close();
    }
}

/// What a disk was asked for and nobody waits for is read nonetheless: who gave up and asked again would have it always read
/// for nothing.
#[tokio::test]
async fn a_body_without_a_validator_waits_for_a_disk_that_is_slow() {
    const LENGTH: usize = 2 << 20;
    const SIZE: usize = 16 << 20;
    let patience = Duration::from_millis(20);
    let fields = "Cache-Control: max-age=60\r\n";
    let origin = Bytes { fields, ..Bytes::of(LENGTH) }.origin().await;
    let disk = Gated::new(SIZE);
    let over = |patience| {
        let (size, object_max) = (Some(SIZE as u64), Some(SIZE as u64 / 2));
        let options = Options { size, object_max, patience, ..Options::at("") };
        Store::over(disk.clone(), &options).unwrap()
    };
    let store = over(SOON);
    let before = Proxy::over(Some(store.clone()), |_| {});
    assert_eq!(before.client().await.get(origin.request("/", "")).await.body.len(), LENGTH);
    before.stop();
    before.ended().await;
    store.close();
    // After a restart nothing of it is in memory.
    let store = over(patience);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        settings.timeouts.origin_stall = Duration::from_secs(5);
    });
    // A machine that is busy may make the disk late here.
    let mut client = loop {
        let (client, head) = asking(&proxy, &origin).await;
        if field(&head, "cache-status").unwrap().starts_with("cosm; hit") {
            break client;
        }
    };
    let before = origin.requests().len();
    // No read is here before it is given up.
    disk.slowness.store(6 * patience.as_millis() as u64, SeqCst);
    assert!(client.exactly(LENGTH).await == content(LENGTH));
    assert_eq!(origin.requests().len(), before);
    drop(proxy);
    store.close();
}

/// Changes these bytes wherever they lie in a file.
fn damage(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::read(path).unwrap();
    let at = file.windows(bytes.len()).position(|window| window == bytes).expect("stored");
    file[at] ^= 1;
    std::fs::write(path, file).unwrap();
}

#[tokio::test]
async fn a_purge_leaves_readers_what_was_written_for_them() {
    const LENGTH: usize = 12 << 20;
    for told in [true, false] {
        let fields = "Cache-Control: max-age=60\r\nETag: W/\"1\"\r\n";
        let pause = Duration::from_millis(3);
        let origin = Bytes { told, fields, pause, ..Bytes::of(LENGTH) }.origin().await;
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::over(Some(open(&folder.path().join("cache"))), |settings| {
            settings.workers = 2;
            settings.bounds.window_bytes = 256 << 10;
            settings.admin = Some("127.0.0.1:0".parse().unwrap());
        });
        let (mut slow, slow_head) = asking(&proxy, &origin).await;
        let (mut quick, quick_head) = asking(&proxy, &origin).await;
        let reading = tokio::spawn(async move { quick.body(&quick_head).await });
        a_while().await;
        assert_eq!(proxy.purge(&format!("url={}", origin.url("/"))).await.status(), 200);
        assert!(soon(reading).await.unwrap() == content(LENGTH));
        a_while().await;
        assert!(slow.body(&slow_head).await == content(LENGTH));
        assert_eq!(origin.requests().len(), 1);
        // What was purged while it came is not kept.
        let after = proxy.client().await.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&after), "cosm; fwd=uri-miss; stored");
    }
}

#[tokio::test]
async fn a_slow_reader_does_not_keep_what_is_all_here_from_being_found() {
    const LENGTH: usize = 12 << 20;
    let origin = Bytes { pause: Duration::from_millis(3), ..Bytes::of(LENGTH) }.origin().await;
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::over(Some(open(&folder.path().join("cache"))), |settings| {
        settings.bounds.window_bytes = 256 << 10;
    });
    let (mut slow, slow_head) = asking(&proxy, &origin).await;
    let (mut quick, quick_head) = asking(&proxy, &origin).await;
    assert!(quick.body(&quick_head).await == content(LENGTH));
    let stored = origin.request("/", "Cache-Control: only-if-cached\r\n");
    soon(async { while quick.get(&stored).await.status() == 504 {} }).await;
    let hit = quick.get(origin.request("/", "")).await;
    assert!(cache_status(&hit) == "cosm; hit" && hit.body == content(LENGTH), "{}", hit.head);
    assert!(slow.body(&slow_head).await == content(LENGTH));
    assert_eq!(origin.requests().len(), 1);
}
