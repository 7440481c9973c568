//! Memory for what is in transit is used up: who waits, who passes, and what those who take nothing keep from others.

mod support;

use h2::Reason;
use http::Request;
use std::fmt::Display;
use std::future::poll_fn;
use std::path::Path;
use std::time::Duration;
use store::{Options, Store};
use support::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, RST_STREAM, Raw, answer, block, frame, send};
use support::{Client, Message, Origin, Proxy, cache_status, field, ok, soon};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

/// As little memory in transit as there may be: 4 MiB for bodies from origins and contents, 3 MiB for what is read from disk.
fn tight(settings: &mut proxy::Settings) {
    settings.bounds.transit_bytes = 0;
    settings.bounds.memory_bytes = 0;
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
    // As behind a proxy in front: all of these clients have one address, and no share.
    settings.trust = vec!["127.0.0.0/8".parse().unwrap()];
    // Those who take nothing stay until they leave.
    settings.timeouts.client_crowded = Duration::from_secs(3600);
}

/// Bytes of a pool that are free.
async fn free(proxy: &Proxy, pool: &str) -> u64 {
    let answer = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let of = |name: &str| stats["budget"][name].as_u64().unwrap();
    of(pool) - of(&format!("{pool}-used"))
}

/// Waits until less than so much of a pool is free.
async fn used_up(proxy: &Proxy, pool: &str, left: u64) {
    soon(async {
        while free(proxy, pool).await >= left {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Takes contents to their end and answers `/n` with n bytes, the first of them behind the head.
async fn origin() -> Origin {
    Origin::with(|mut client, seen| async move {
        while let Some(head) = client.head().await {
            if field(&head, "content-length") == Some(NEVER) {
                return std::future::pending().await;
            }
            let content = client.body(&head).await;
            seen.lock().unwrap().push(format!("{head}{}", content.len()));
            let length: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap_or(0);
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{FRESH}\r\n")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if !client.try_send(vec![b'x'; length]).await {
                return;
            }
        }
    })
    .await
}

/// Bytes of content that never comes.
const NEVER: &str = "1000000";

const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";

/// Bytes of a body and of content that pass while memory is used up.
const SMALL: usize = 16 << 10;

fn post(origin: &Origin, length: impl Display) -> String {
    let (url, host) = (origin.url("/0"), origin.address);
    format!("POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n")
}

/// Clients that announced content and send none of it, as many as use up the memory for it.
async fn stalled_uploads(proxy: &Proxy, origin: &Origin) -> Vec<Client> {
    let mut stalled = Vec::new();
    for _ in 0..32 {
        let mut client = proxy.client().await;
        client.send(post(origin, NEVER)).await;
        stalled.push(client);
    }
    used_up(proxy, "origins", 96 << 10).await;
    stalled
}

#[tokio::test]
async fn while_contents_use_up_the_memory_what_is_small_passes_and_others_wait_for_their_turn() {
    let origin = origin().await;
    let proxy = Proxy::with(tight);
    let stalled = stalled_uploads(&proxy, &origin).await;
    let answer = proxy.client().await.get(origin.request(&format!("/{SMALL}"), "")).await;
    assert!(answer.body == vec![b'x'; SMALL], "a small body");
    let content = vec![b'c'; SMALL];
    let small = [post(&origin, content.len()).as_bytes(), &content].concat();
    assert_eq!(proxy.client().await.get(small).await.status(), 200, "small content");
    // What is larger comes when others have ended.
    let waits = [post(&origin, 100_000).as_bytes(), &[b'c'; 100_000]].concat();
    let (mut sends, mut reads) = (proxy.client().await, proxy.client().await);
    sends.send(waits).await;
    reads.send(origin.request("/100000", "")).await;
    let head = reads.head().await.unwrap();
    proxy.settled().await;
    let came = origin.requests();
    assert!(!came.iter().any(|request| request.ends_with("100000")), "{came:?}");
    drop(stalled);
    assert_eq!(sends.message().await.status(), 200);
    assert!(reads.body(&head).await == vec![b'x'; 100_000]);
    assert!(origin.requests().iter().any(|request| request.ends_with("100000")));
}

/// What waits for memory would fill its connection's window, and what has some would wait for the rest of its content.
#[tokio::test]
async fn contents_of_one_connection_do_not_keep_each_other_from_ending() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.trust.clear();
    });
    let (mut client, mut all) = (Http2::connect(proxy.address).await, JoinSet::new());
    for _ in 0..20 {
        let head = Request::post(origin.url("/100000")).header("content-length", "200000");
        let (response, mut content) = client.begin(head.body(()).unwrap(), false).await;
        all.spawn(async move {
            send(&mut content, vec![b'c'; 200_000].into(), true).await;
            answer(response).await.unwrap()
        });
    }
    while let Some(answer) = all.join_next().await {
        let answer = answer.unwrap();
        assert_eq!((answer.status(), answer.body.len()), (200, 100_000));
    }
}

/// Within a second here; they would stay for a minute otherwise.
#[tokio::test]
async fn clients_that_hardly_move_make_way_for_who_waits() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.timeouts.client_crowded = Duration::from_millis(500);
    });
    let mut uploads = stalled_uploads(&proxy, &origin).await;
    // A byte now and then is no more than nothing.
    let trickle = async {
        loop {
            for client in &mut uploads {
                client.try_send(b"c".to_vec()).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut client = proxy.client().await;
    let answer = tokio::select! {
        answer = client.get(origin.request("/100000", "")) => answer,
        () = trickle => unreachable!(),
    };
    assert!(answer.body == vec![b'x'; 100_000]);
    drop(uploads);
    let mut readers = Vec::new();
    for _ in 0..48 {
        let mut client = Client::narrow(proxy.address).await;
        client.send(origin.request("/4000000", "Cache-Control: no-store\r\n")).await;
        readers.push(client);
    }
    used_up(&proxy, "origins", 96 << 10).await;
    let answer = client.get(origin.request("/100001", "")).await;
    assert!(answer.body == vec![b'x'; 100_001]);
    let answer = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(stats["connections"]["made-way"].as_u64() > Some(1), "{stats}");
}

/// It waits for as long as an origin may stall.
#[tokio::test]
async fn a_body_for_which_there_is_no_memory_does_not_wait_for_ever() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.timeouts.origin_stall = Duration::from_secs(2);
    });
    let mut stalled = Vec::new();
    for _ in 0..48 {
        let mut client = Client::narrow(proxy.address).await;
        client.send(origin.request("/4000000", "Cache-Control: no-store\r\n")).await;
        stalled.push(client);
    }
    used_up(&proxy, "origins", 96 << 10).await;
    let mut client = proxy.client().await;
    client.send(origin.request("/100000", "Cache-Control: no-store\r\n")).await;
    let head = client.head().await.unwrap();
    let body = client.rest().await;
    assert!(head.starts_with("HTTP/1.1 200 ") && body.len() < 100_000, "{} bytes", body.len());
}

fn open(path: &Path) -> Store {
    let (size, object_max) = (Some(64 << 20), Some(32 << 20));
    Store::open(&Options { size, object_max, ..Options::at(path) }).unwrap()
}

const LENGTH: usize = 4 << 20;

/// A proxy whose disk has bodies of `LENGTH` bytes under these paths, after a restart; and their origin.
async fn stored(folder: &Path, paths: &[&str], fields: &'static str) -> (Proxy, Origin) {
    let origin = Origin::with(move |mut client, seen| async move {
        while let Some(head) = client.head().await {
            let from: usize = field(&head, "range").map_or(0, |range| {
                range.trim_start_matches("bytes=").split('-').next().unwrap().parse().unwrap()
            });
            let is_part = field(&head, "range").is_some();
            seen.lock().unwrap().push(head);
            let (rest, last) = (LENGTH - from, LENGTH - 1);
            let place = format!("Content-Range: bytes {from}-{last}/{LENGTH}\r\n");
            let (status, place) = if is_part { (206, &place[..]) } else { (200, "") };
            let head = format!("HTTP/1.1 {status} x\r\n{place}{fields}Content-Length: {rest}\r\n\r\n");
            client.send(head).await;
            if !client.try_send(vec![b'x'; rest]).await {
                return;
            }
        }
    })
    .await;
    let path = folder.join("cache");
    let store = open(&path);
    let before = Proxy::over(Some(store.clone()), |_| {});
    for path in paths {
        assert_eq!(get(&before, &origin, path).await.body.len(), LENGTH);
    }
    before.stop();
    before.ended().await;
    store.close();
    drop(store);
    (Proxy::over(Some(open(&path)), tight), origin)
}

async fn get(proxy: &Proxy, origin: &Origin, path: &str) -> Message {
    soon(proxy.client().await.get(origin.request(path, ""))).await
}

/// Clients that have read the head of a part of a body that lies on disk, and read no more. No two are at the same place of it.
async fn stalled_readers(proxy: &Proxy, origin: &Origin, count: usize) -> Vec<Client> {
    let mut stalled = Vec::new();
    for n in 0..count {
        let mut client = Client::narrow(proxy.address).await;
        let range = format!("Range: bytes={}-\r\n", 40_001 * n);
        client.send(origin.request("/stalled", &range)).await;
        client.head().await.unwrap();
        stalled.push(client);
    }
    stalled
}

#[tokio::test]
async fn readers_that_take_nothing_keep_no_read_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, origin) =
        stored(folder.path(), &["/stalled", "/other"], "Cache-Control: max-age=60\r\n").await;
    // More than half of the memory, and not all.
    let _stalled = stalled_readers(&proxy, &origin, 40).await;
    used_up(&proxy, "disk", 1 << 20).await;
    // For longer than a disk may keep others waiting.
    tokio::time::sleep(Duration::from_millis(500)).await;
    soon(async {
        loop {
            let other = get(&proxy, &origin, "/other").await;
            assert!(other.body == vec![b'x'; LENGTH]);
            if cache_status(&other) == "cosm; hit" {
                break;
            }
            // A machine that is busy makes the disk late for a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_hit_for_which_there_is_no_memory_comes_from_the_origin() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, origin) = stored(folder.path(), &["/stalled", "/other"], FRESH).await;
    let _stalled = stalled_readers(&proxy, &origin, 60).await;
    used_up(&proxy, "disk", 64 << 10).await;
    let other = get(&proxy, &origin, "/other").await;
    assert!(other.body == vec![b'x'; LENGTH] && cache_status(&other) == "cosm; hit", "{}", other.head);
    let asked = origin.requests();
    assert!(asked.iter().any(|head| head.contains("/other") && field(head, "range").is_some()), "{asked:?}");
}

/// Where what others of their address wait for is this address's alone.
#[tokio::test]
async fn idle_connections_with_large_windows_make_way() {
    let origin = Origin::with(|mut client, _| async move {
        while let Some(head) = client.head().await {
            // The content takes memory for both directions from then on.
            client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            let content = client.body(&head).await;
            client.send(format!("6\r\n{:6}\r\n0\r\n\r\n", content.len())).await;
        }
    })
    .await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.trust.clear();
        settings.timeouts.client_crowded = Duration::from_millis(200);
    });
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut client = Http2::connect(proxy.address).await;
        let head = Request::post(origin.url("/")).header("content-length", "3000").body(()).unwrap();
        let (response, mut content) = client.begin(head, false).await;
        send(&mut content, vec![b'c'; 3000].into(), true).await;
        assert_eq!(answer(response).await.unwrap().text(), "  3000");
        idle.push(client);
    }
    used_up(&proxy, "origins", (2 << 20) + (200 << 10)).await;
    let content = [post(&origin, 100_000).as_bytes(), &[b'c'; 100_000]].concat();
    assert_eq!(proxy.client().await.get(content).await.text(), "100000");
}

/// A head of many frames lets nothing else of its connection come.
#[tokio::test]
async fn large_heads_do_not_keep_the_content_of_their_connection() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.trust.clear();
    });
    let (mut client, mut all) = (Http2::connect(proxy.address).await, JoinSet::new());
    for _ in 0..8 {
        let head = Request::post(origin.url("/0")).header("x-large", "x".repeat(40_000));
        let head = head.header("content-length", "100000").body(()).unwrap();
        let (response, mut content) = client.begin(head, false).await;
        all.spawn(async move {
            content.reserve_capacity(1);
            // Who is refused sends nothing.
            if poll_fn(|cx| content.poll_capacity(cx)).await.is_some_and(|room| room.is_ok()) {
                content.send_data(vec![b'c'; 100_000].into(), true).unwrap();
            }
            answer(response).await
        });
    }
    let (mut answered, mut refused) = (0, 0);
    while let Some(answer) = all.join_next().await {
        match answer.unwrap() {
            Ok(answer) => {
                assert_eq!(answer.status(), 200);
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error}");
                refused += 1;
            }
        }
    }
    assert!(answered > 0 && answered + refused == 8, "{answered} answered, {refused} refused");
}

/// Nor that of a request that was there before.
#[tokio::test]
async fn an_upload_goes_on_beside_large_heads() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.trust.clear();
        settings.timeouts.client_stall = Duration::from_secs(3);
    });
    let mut client = Http2::connect(proxy.address).await;
    let head = Request::post(origin.url("/0")).header("content-length", "300000").body(()).unwrap();
    let (response, mut content) = client.begin(head, false).await;
    let upload = tokio::spawn(async move {
        for n in 0..100 {
            send(&mut content, vec![b'c'; 3000].into(), n == 99).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answer(response).await.unwrap().status()
    });
    let mut all = JoinSet::new();
    for n in 0..20 {
        let head = Request::get(origin.url(&format!("/{n}"))).header("x-large", "x".repeat(60_000));
        let (response, _) = client.begin(head.body(()).unwrap(), true).await;
        all.spawn(answer(response));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(soon(upload).await.unwrap(), 200);
    while let Some(answer) = all.join_next().await {
        match answer.unwrap() {
            Ok(answer) => assert!([200, 431, 503].contains(&answer.status()), "{answer:?}"),
            Err(error) => assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error}"),
        }
    }
}

/// Those who have the memory and hardly move, and who would wait for it.
#[tokio::test]
async fn who_is_refused_for_memory_has_others_make_way() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.trust.clear();
        settings.timeouts.client_crowded = Duration::from_millis(200);
    });
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut client = proxy.client().await;
        let head = post(&origin, NEVER);
        client.send(format!("{}X-Large: {}\r\n", &head[..head.len() - 2], "x".repeat(20_000))).await;
        slow.push(client);
    }
    used_up(&proxy, "heads", (512 << 10) + 1).await;
    for client in &mut slow {
        client.send("\r\n").await;
    }
    let mut client = Http2::connect(proxy.address).await;
    let ask =
        |length: &str| Request::post(origin.url("/0")).header("content-length", length).body(()).unwrap();
    // It has what its connection has anyway.
    let _first = client.begin(ask(NEVER), false).await;
    let mut refused = 0;
    let status = soon(async {
        loop {
            let (response, mut content) = client.begin(ask("5000"), false).await;
            content.send_data(vec![b'c'; 5000].into(), true).unwrap();
            match answer(response).await {
                Ok(answer) => return answer.status(),
                Err(error) => assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error}"),
            }
            refused += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(status.await, 200);
    assert!(refused > 0);
}

/// Clients, each of which has begun with a head that takes of the memory for heads, and does not end it.
async fn large_heads(proxy: &Proxy, request: &str, over_http2: bool) -> Vec<Client> {
    let large = "x".repeat(18_000);
    let block = block(&[(":method", "GET"), ("x-large", &large)]);
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(match over_http2 {
            false => {
                let mut client = proxy.client().await;
                client.send(&request[..request.len() - 2]).await;
                client
            }
            true => {
                let mut raw = Raw::connect(proxy.address).await;
                raw.0.send(frame(HEADERS, 0, 1, &block[..16_000])).await;
                raw.0
            }
        });
    }
    slow
}

/// The other half of the memory for heads is for others.
#[tokio::test]
async fn large_heads_of_one_client_are_bounded() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let request = origin.request("/", &format!("X-Large: {}\r\n", "x".repeat(20_000)));
    for over_http2 in [false, true] {
        let proxy = Proxy::with(|settings| {
            tight(settings);
            settings.trust.clear();
        });
        let slow = large_heads(&proxy, &request, over_http2).await;
        used_up(&proxy, "heads", (512 << 10) + 1).await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = Client::of(soon(socket.connect(proxy.address)).await.unwrap());
        assert_eq!(other.get(&request).await.status(), 200, "over HTTP/2: {over_http2}");
        drop(slow);
    }
}

/// Where all of that memory is theirs, or all of it that is their client's.
#[tokio::test]
async fn large_heads_that_do_not_end_make_way() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let request = origin.request("/", &format!("X-Large: {}\r\n", "x".repeat(20_000)));
    for (over_http2, is_one) in [(false, false), (true, false), (false, true), (true, true)] {
        let proxy = Proxy::with(|settings| {
            tight(settings);
            settings.timeouts.client_crowded = Duration::from_millis(200);
            if is_one {
                settings.trust.clear();
            }
        });
        let slow = large_heads(&proxy, &request, over_http2).await;
        used_up(&proxy, "heads", if is_one { (512 << 10) + 1 } else { 1 }).await;
        let answer = proxy.client().await.get(&request).await;
        assert_eq!(answer.status(), 200, "over HTTP/2: {over_http2}, of one client: {is_one}");
        drop(slow);
    }
}

/// And not that its client was slow.
#[tokio::test]
async fn who_waits_in_vain_for_the_memory_of_a_large_head_is_told() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let request = origin.request("/", &format!("X-Large: {}\r\n", "x".repeat(20_000)));
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.timeouts.client_header = Duration::from_secs(1);
    });
    let mut answers = Vec::new();
    for mut client in large_heads(&proxy, &request, false).await {
        answers.push(client.rest().await);
    }
    let told = |answer: &&String| {
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("too little memory for more large heads")
    };
    let (in_vain, late): (Vec<&String>, Vec<&String>) = answers.iter().partition(told);
    assert!(!in_vain.is_empty() && !late.is_empty(), "{answers:?}");
    assert!(late.iter().all(|answer| answer.starts_with("HTTP/1.1 408 ")), "{late:?}");
}

/// Hits in memory, too: their bytes take none of the memory for bodies, and their streams some of that for heads.
#[tokio::test]
async fn hits_that_are_not_taken_make_way_for_heads() {
    let origin = Origin::answering(ok(FRESH, &"x".repeat(1000))).await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.timeouts.client_crowded = Duration::from_millis(200);
    });
    assert_eq!(get(&proxy, &origin, "/").await.status(), 200);
    let host = origin.address.to_string();
    let ask =
        block(&[(":method", "GET"), (":scheme", "http"), (":authority", host.as_str()), (":path", "/")]);
    let mut slow = Vec::new();
    for _ in 0..3 {
        // No room for any content.
        let mut raw = Raw::of(proxy.client().await, &[0, 4, 0, 0, 0, 0]).await;
        let streams = (0..60).map(|n| 2 * n + 1);
        let all: Vec<u8> =
            streams.flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &ask)).collect();
        raw.0.send(all).await;
        for _ in 0..60 {
            raw.next_of(&[HEADERS, RST_STREAM]).await.unwrap();
        }
        slow.push(raw);
    }
    let large = origin.request("/", &format!("X-Large: {}\r\n", "x".repeat(20_000)));
    assert_eq!(proxy.client().await.get(large).await.status(), 200);
}

/// Tunnels may stay for hours.
#[tokio::test]
async fn a_tunnel_keeps_nothing_of_its_large_head() {
    let far = Origin::with(|mut client, _| async move { drop(client.rest().await) }).await;
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.connect_ports = vec![far.address.port()];
    });
    let (target, large) = (far.address, "x".repeat(40_000));
    let mut tunnels = Vec::new();
    // More than there is memory for at once.
    for _ in 0..6 {
        let mut client = proxy.client().await;
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nX-Large: {large}\r\n\r\n")).await;
        assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
        tunnels.push(client);
    }
}

/// The library keeps the buffers of a head for as long as its connection is there.
#[tokio::test]
async fn idle_connections_that_had_large_heads_make_way_for_others() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let request = origin.request("/", &format!("X-Large: {}\r\n", "x".repeat(40_000)));
    let proxy = Proxy::with(|settings| {
        tight(settings);
        settings.timeouts.client_crowded = Duration::from_millis(200);
    });
    // Half of the memory stays theirs; those behind end with their requests.
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut client = proxy.client().await;
        assert_eq!(client.get(&request).await.status(), 200);
        idle.push(client);
    }
    assert_eq!(free(&proxy, "heads").await, 768 << 10);
    let slow = large_heads(&proxy, &request, true).await;
    for client in &mut idle {
        client.rest().await;
    }
    drop(slow);
}
