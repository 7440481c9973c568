//! Origins that speak HTTP/2: what they are asked, what becomes of their answers, and of those that break its rules.

mod support;

use bytes::Bytes;
use h2::Reason;
use h2::server::Builder;
use http::{HeaderMap, Request, Response};
use proxy::OriginHttp2;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PING, RST_STREAM, SETTINGS, block,
    frame, reason, rest, send,
};
use support::http2_origin::{Http2Origin, RawOrigin, answer, before, before_secure, both, head, storable};
use support::tls::{Authority, SecureOrigin};
use support::{Client, Proxy, cache_status, field, ok, origin_of, soon};
use tokio::sync::Notify;
use tokio::task::JoinSet;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

async fn number(proxy: &Proxy, name: &str) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats["origin"][name].as_u64().unwrap()
}

/// What an origin was asked, as text.
fn told(request: &support::http2_origin::Asked) -> String {
    let mut fields: Vec<String> =
        request.headers().iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
    fields.sort();
    format!("{} {} {}", request.method(), request.uri(), fields.join(" "))
}

#[tokio::test]
async fn origins_are_asked_by_alpn_and_by_prior_knowledge_on_one_connection() {
    let authority = Authority::new();
    let answers = |request, respond| async move { answer(respond, storable(), told(&request)).await };
    let plain = Http2Origin::plain(Builder::new(), answers).await;
    let secure = Http2Origin::secure(&authority, Builder::new(), answers).await;
    let proxies = [
        (before(plain.address, |_| {}), &plain, "http"),
        (before_secure(secure.address, &authority, |_| {}), &secure, "https"),
    ];
    for (proxy, origin, scheme) in proxies {
        let mut client = proxy.client().await;
        let request = "GET /0 HTTP/1.1\r\nHost: a.test\r\nConnection: x\r\nX: y\r\nTE: trailers\r\nKeep-Alive: 1\r\nZ: z\r\n\r\n";
        let asked = client.get(request).await;
        let (begin, fields) =
            asked.text().split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).unwrap();
        assert_eq!(begin, format!("{scheme}://a.test/0"));
        assert!(
            fields.contains("te=trailers") && fields.contains("via=1.1 cosm") && fields.contains("z=z"),
            "{fields}"
        );
        assert!(
            !fields.contains("x=y")
                && !fields.starts_with("host=")
                && !fields.contains(" host=")
                && !fields.contains("keep-alive"),
            "{fields}"
        );
        for n in 1..5 {
            assert_eq!(client.get(get(&format!("/{n}"))).await.status(), 200);
        }
        assert_eq!(cache_status(&client.get(get("/0")).await), "cosm; hit");
        assert_eq!(origin.count(), (1, 5));
        assert_eq!((number(&proxy, "http2-open").await, number(&proxy, "http2-streams").await), (1, 5));
        assert_eq!(number(&proxy, "open").await, 1);
    }
}

#[tokio::test]
async fn many_at_once_share_connections_as_the_origin_allows() {
    let authority = Authority::new();
    for most in [1, 4, 100] {
        let mut builder = Builder::new();
        builder.max_concurrent_streams(most);
        let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, highest) = (now.clone(), peak.clone());
        let origin = Http2Origin::secure(&authority, builder, move |_, respond| {
            let (now, peak) = (counted.clone(), highest.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                answer(respond, storable(), "x").await;
            }
        })
        .await;
        let proxy = before_secure(origin.address, &authority, |settings| settings.bounds.idle_per_origin = 3);
        let mut all = JoinSet::new();
        for n in 0..20 {
            let mut client = proxy.client().await;
            all.spawn(async move { client.get(get(&format!("/{n}"))).await.status() });
        }
        while let Some(status) = soon(all.join_next()).await {
            assert_eq!(status.unwrap(), 200, "{most}");
        }
        let (connections, requests) = origin.count();
        assert_eq!(requests, 20);
        assert!(connections <= 3, "{connections}");
        assert!(most < 100 || connections == 1);
        assert!(peak.load(Ordering::SeqCst) <= 3 * most as usize);
    }
}

#[tokio::test]
async fn whoever_does_not_agree_on_it_is_asked_by_http1() {
    let authority = Authority::new();
    let origin = SecureOrigin::start(authority.issue(&["localhost"]), rustls::ALL_VERSIONS, None).await;
    let proxy = before_secure(origin.address, &authority, |_| {});
    let mut client = proxy.client().await;
    for n in 0..3 {
        assert_eq!(client.get(get(&format!("/{n}"))).await.text(), "localhost a.test");
    }
    assert_eq!(origin.count(), (1, 3));
    assert_eq!(number(&proxy, "http2-streams").await, 0);
    // And whoever would is not, where that is set.
    let origin =
        Http2Origin::secure(&authority, Builder::new(), |_, respond| answer(respond, storable(), "x")).await;
    let proxy =
        before_secure(origin.address, &authority, |settings| settings.origin_http2 = OriginHttp2::Off);
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 502);
    assert_eq!(origin.count().1, 0);
}

/// A request's content to its end, and its trailers.
async fn content(request: support::http2_origin::Asked) -> (Vec<u8>, Option<HeaderMap>) {
    let mut incoming = request.into_body();
    let (bytes, reset) = rest(&mut incoming).await;
    assert_eq!(reset, None);
    (bytes, incoming.trailers().await.unwrap())
}

#[tokio::test]
async fn content_goes_with_its_length_or_without_and_with_trailers() {
    let origin = Http2Origin::plain(Builder::new(), |request, respond| async move {
        let length = request.headers().get("content-length").map(|value| value.to_str().unwrap().to_owned());
        let (bytes, trailers) = content(request).await;
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        let trailers = trailers.map(|trailers| trailers["check"].to_str().unwrap().to_owned());
        answer(respond, Response::new(()), format!("{length:?} {} {sum} {trailers:?}", bytes.len())).await;
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let bytes = vec![3; 3_000_000];
    let mut client = proxy.client().await;
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", bytes.len())).await;
    client.send(&bytes).await;
    assert_eq!(client.message().await.text(), "Some(\"3000000\") 3000000 9000000 None");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: check\r\n\r\n").await;
    for part in bytes.chunks(100_000) {
        client.send([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()).await;
    }
    client.send("0\r\ncheck: 7\r\n\r\n").await;
    assert_eq!(client.message().await.text(), "None 3000000 9000000 Some(\"7\")");
    // Content of methods that mostly have none, too.
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n").await;
    assert_eq!(client.message().await.text(), "None 1 97 None");
    assert_eq!(origin.count(), (1, 3));
}

/// What the library leaves out by itself.
#[tokio::test]
async fn content_of_a_get_goes_to_http1_too() {
    let origin = origin_of(|request, _| {
        let framing = [field(request, "transfer-encoding"), field(request, "content-length")];
        ok("Cache-Control: no-store\r\n", &format!("{framing:?}"))
    })
    .await;
    let proxy = Proxy::reverse(&origin);
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n").await;
    assert_eq!(client.message().await.text(), "[Some(\"chunked\"), None]");
    let mut client = Http2::connect(proxy.address).await;
    let (response, mut to) = client.begin(Request::get("http://a/").body(()).unwrap(), false).await;
    send(&mut to, Bytes::from_static(b"a"), true).await;
    assert_eq!(support::http2::answer(response).await.unwrap().text(), "[Some(\"chunked\"), None]");
}

#[tokio::test]
async fn both_directions_stream_at_once_and_trailers_come_last() {
    let origin = Http2Origin::plain(Builder::new(), |request, mut respond| async move {
        let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let mut to = respond.send_response(head, false).unwrap();
        let mut incoming = request.into_body();
        while let Some(bytes) = incoming.data().await {
            let bytes = bytes.unwrap();
            incoming.flow_control().release_capacity(bytes.len()).unwrap();
            send(&mut to, bytes, false).await;
        }
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        to.send_trailers(trailers).unwrap();
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let mut client = Http2::connect(proxy.address).await;
    let request =
        Request::post("http://a/s/M").header("te", "trailers").header("content-type", "application/grpc");
    let (response, mut to) = client.begin(request.body(()).unwrap(), false).await;
    // The head comes while nothing was sent yet.
    let mut incoming = soon(response).await.unwrap().into_body();
    for n in 0..20u8 {
        let sent = vec![n; 1000];
        send(&mut to, sent.clone().into(), false).await;
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let bytes = soon(incoming.data()).await.unwrap().unwrap();
            incoming.flow_control().release_capacity(bytes.len()).unwrap();
            got.extend_from_slice(&bytes);
        }
        assert_eq!(got, sent);
    }
    to.send_data(Bytes::new(), true).unwrap();
    assert!(soon(incoming.data()).await.is_none());
    assert_eq!(soon(incoming.trailers()).await.unwrap().unwrap()["grpc-status"], "0");
    // By HTTP/1.1.
    let mut client = proxy.client().await;
    client
        .send("POST /s/M HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te, close\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client.send("2\r\nab\r\n").await;
    assert_eq!(client.exactly(7).await, b"2\r\nab\r\n");
    client.send("0\r\n\r\n").await;
    assert_eq!(client.rest().await, "0\r\ngrpc-status: 0\r\n\r\n");
}

#[tokio::test]
async fn interim_responses_pass_and_content_waits_to_be_asked_for() {
    let origin = Http2Origin::plain(Builder::new(), |request, mut respond| async move {
        let interim =
            |status: u16| Response::builder().status(status).header("link", "</a>").body(()).unwrap();
        respond.send_informational(interim(103)).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        respond.send_informational(interim(100)).unwrap();
        let (bytes, _) = content(request).await;
        answer(respond, Response::new(()), bytes).await;
    })
    .await;
    let proxy = before(origin.address, |settings| settings.timeouts.expect = Duration::from_secs(100));
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n").await;
    let early = client.head().await.unwrap();
    assert!(early.starts_with("HTTP/1.1 103") && field(&early, "link") == Some("</a>"), "{early}");
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 100"));
    client.send("ab").await;
    assert_eq!(client.message().await.text(), "ab");
}

/// Who has not read that it may send its content, and sees a response, sends none: the origin would wait for it.
#[tokio::test]
async fn content_is_asked_for_before_a_response_that_comes_early() {
    let origin = RawOrigin::start(|mut connection, number| async move {
        while let Some((kind, flags, stream, payload)) = connection.next_of(&[HEADERS, DATA]).await {
            match kind {
                HEADERS if flags & END_STREAM != 0 => {
                    let both = [head(stream, 0, "100", &[]), head(stream, END_STREAM, "200", &[])].concat();
                    connection.send(both).await;
                }
                // With and without having asked for it.
                HEADERS if stream % 4 == 1 && stream < 9 => {
                    let both = [head(stream, 0, "100", &[]), head(stream, 0, "200", &[])].concat();
                    connection.send(both).await;
                }
                HEADERS if stream < 9 => connection.send(head(stream, 0, "200", &[])).await,
                HEADERS => connection.send(head(stream, 0, "403", &[("content-length", "0")])).await,
                _ => connection.send(frame(DATA, flags & END_STREAM, stream, &payload)).await,
            }
        }
        assert_eq!(number, 0);
    })
    .await;
    let proxy = before(origin.address, |settings| settings.timeouts.expect = Duration::from_secs(100));
    let asks = |length| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n")
    };
    // Little, and what takes memory.
    for length in [2, 20_000] {
        for _ in 0..2 {
            let mut client = proxy.client().await;
            client.send(asks(length)).await;
            let first = client.head().await.unwrap();
            assert!(first.starts_with("HTTP/1.1 100"), "{length} bytes: {first}");
            client.send("a".repeat(length)).await;
            assert_eq!(client.message().await.text(), "a".repeat(length));
        }
    }
    // Where there is none nobody waits for it.
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n").await;
    let mut first = client.head().await.unwrap();
    if first.starts_with("HTTP/1.1 100") {
        first = client.head().await.unwrap();
    }
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    // Of a refusal it is not.
    let mut client = proxy.client().await;
    client.send(asks(2)).await;
    let refused = client.head().await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

#[tokio::test]
async fn a_response_that_turns_out_to_be_empty_is_told_as_whole() {
    const MANY: usize = 100;
    let origin = Http2Origin::plain(Builder::new(), |_, mut respond| async move {
        let mut to = respond.send_response(Response::new(()), false).unwrap();
        tokio::task::yield_now().await;
        to.send_data(Bytes::new(), true).unwrap();
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let mut client = proxy.client().await;
    for _ in 0..MANY {
        client.send("POST /empty HTTP/1.1\r\nHost: empty.test\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!(client.message().await.text(), "");
    }
    let told = support::told_of("empty.test", "/empty", MANY).await;
    assert_eq!(told.iter().filter(|told| told.whole).count(), MANY);
}

/// The library ends a connection of which many small frames wait.
#[tokio::test]
async fn small_messages_wait_for_an_origin_that_takes_none() {
    let goes_on = Arc::new(Notify::new());
    let told = goes_on.clone();
    let mut builder = Builder::new();
    builder.data_frame_budget(usize::MAX >> 1);
    let origin = Http2Origin::plain(builder, move |request, respond| {
        let told = told.clone();
        async move {
            if request.uri().path() == "/slow" {
                told.notified().await;
            }
            let (bytes, _) = content(request).await;
            answer(respond, Response::new(()), bytes).await;
        }
    })
    .await;
    let proxy = before(origin.address, |settings| settings.http2.window = 65_535);
    let mut client = Http2::connect(proxy.address).await;
    let (response, mut to) = client.begin(Request::post("http://a/slow").body(()).unwrap(), false).await;
    let all: Vec<u8> = (0..200_000u32).flat_map(|n| [n as u8, (n >> 8) as u8]).collect();
    let sent = Arc::<AtomicUsize>::default();
    let (count, messages) = (sent.clone(), all.clone());
    let sends = tokio::spawn(async move {
        for message in messages.chunks(40) {
            send(&mut to, Bytes::copy_from_slice(message), false).await;
            count.fetch_add(message.len(), Ordering::SeqCst);
        }
        to.send_data(Bytes::new(), true).unwrap();
    });
    // Until windows are full.
    let mut before = usize::MAX;
    while sent.load(Ordering::SeqCst) != before {
        before = sent.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!((100_000..all.len()).contains(&before), "{before} bytes");
    // Others of the origin's connection, and the client's, go on.
    assert_eq!(client.get("http://a/other").await.text(), "");
    goes_on.notify_one();
    soon(sends).await.unwrap();
    assert_eq!(support::http2::answer(response).await.unwrap().body, all);
    assert_eq!(origin.count(), (1, 2));
}

#[tokio::test]
async fn a_client_that_leaves_resets_its_stream_alone() {
    let left = Arc::new(Notify::new());
    let told = left.clone();
    let origin = Http2Origin::plain(Builder::new(), move |request, mut respond| {
        let told = told.clone();
        async move {
            if request.uri().path() != "/endless" {
                return answer(respond, Response::new(()), "x").await;
            }
            let mut to = respond.send_response(Response::new(()), false).unwrap();
            loop {
                to.reserve_capacity(1000);
                match std::future::poll_fn(|cx| to.poll_capacity(cx)).await {
                    Some(Ok(_)) => to.send_data(Bytes::from_static(&[7; 1000]), false).unwrap(),
                    _ => return told.notify_one(),
                }
            }
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    for _ in 0..3 {
        let mut client = proxy.client().await;
        client.send("GET /endless HTTP/1.1\r\nHost: a\r\nCache-Control: no-store\r\n\r\n").await;
        client.head().await.unwrap();
        drop(client);
        soon(left.notified()).await;
        assert_eq!(proxy.client().await.get(get("/")).await.status(), 200);
    }
    assert_eq!(origin.count().0, 1);
}

#[tokio::test]
async fn a_client_that_takes_nothing_stops_no_other_of_its_connection() {
    let large = Bytes::from(vec![7; 20 << 20]);
    let origin = Http2Origin::plain(Builder::new(), move |request, respond| {
        let content = if request.uri().path() == "/large" { large.clone() } else { Bytes::from_static(b"x") };
        async move { answer(respond, Response::new(()), content).await }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut client = Client::narrow(proxy.address).await;
        client.send("GET /large HTTP/1.1\r\nHost: a\r\nCache-Control: no-store\r\n\r\n").await;
        let head = client.head().await.unwrap();
        slow.push((client, head));
    }
    for n in 0..20 {
        assert_eq!(proxy.client().await.get(get(&format!("/{n}"))).await.text(), "x");
    }
    assert_eq!(origin.count().0, 1);
    for (mut client, head) in slow {
        assert_eq!(client.body(&head).await.len(), 20 << 20);
    }
}

/// RFC 9113 section 8.7, and what else can safely be sent again.
#[tokio::test]
async fn what_was_not_processed_is_sent_again() {
    const NO: u32 = 0;
    const REFUSED: u32 = 7;
    const CANCEL: u32 = 8;
    let goaway = |last: u32| frame(GOAWAY, 0, 0, &[last.to_be_bytes(), NO.to_be_bytes()].concat());
    let reset = |stream: u32, why: u32| frame(RST_STREAM, 0, stream, &why.to_be_bytes());
    // What the first connection does of a request, and whether a GET, and a POST with content, are answered.
    type Does = Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>;
    let table: [(&str, Does, bool, bool); 4] = [
        ("goaway", Arc::new(move |_| goaway(0)), true, true),
        ("refused", Arc::new(move |stream| reset(stream, REFUSED)), true, true),
        ("cancelled", Arc::new(move |stream| reset(stream, CANCEL)), false, false),
        ("behind a goaway that knows it", Arc::new(goaway), false, false),
    ];
    for (name, does, get_is_answered, post_is_answered) in table {
        for (request, is_answered) in [
            (get("/"), get_is_answered),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab".into(), post_is_answered),
        ] {
            let (does, requests) = (does.clone(), Arc::new(AtomicUsize::new(0)));
            let counted = requests.clone();
            let origin = RawOrigin::start(move |mut connection, _| {
                let (does, counted) = (does.clone(), counted.clone());
                async move {
                    while let Some(stream) = connection.request().await {
                        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                            let frames = does(stream);
                            connection.send(&frames).await;
                            if frames[3] == GOAWAY {
                                return;
                            }
                        } else {
                            connection.send(head(stream, END_STREAM, "204", &[])).await;
                        }
                    }
                }
            })
            .await;
            let proxy = before(origin.address, |_| {});
            let answer = proxy.client().await.get(&request).await;
            assert_eq!(answer.status(), if is_answered { 204 } else { 502 }, "{name} {request}");
            assert_eq!(requests.load(Ordering::SeqCst), 1 + usize::from(is_answered), "{name} {request}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_is_replaced() {
    let origin = RawOrigin::start(|mut connection, _| async move {
        let stream = connection.request().await.unwrap();
        connection.send(head(stream, END_STREAM, "204", &[])).await;
        // The next request's answer is the end, without a word.
        connection.request().await;
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let mut client = proxy.client().await;
    for n in 0..4 {
        assert_eq!(client.get(get(&format!("/{n}"))).await.status(), 204);
    }
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    // It may have been processed.
    assert_eq!(client.get(post).await.status(), 502);
    assert_eq!(client.get(post).await.status(), 204);
}

#[tokio::test]
async fn who_wants_http1_for_it_is_asked_so_and_websockets_go_by_it() {
    const HTTP_1_1_REQUIRED: u32 = 0xd;
    let (origin, counts) = both(
        |mut connection| async move {
            while let Some(stream) = connection.request().await {
                connection.send(frame(RST_STREAM, 0, stream, &HTTP_1_1_REQUIRED.to_be_bytes())).await;
            }
        },
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: no-store\r\n\r\none",
    )
    .await;
    let proxy = before(origin.address, |_| {});
    let mut client = proxy.client().await;
    for n in 0..3 {
        assert_eq!(client.get(get(&format!("/{n}"))).await.text(), "one");
    }
    assert_eq!(counts(), (1, 1));
    let (origin, counts) = both(
        |mut connection| async move {
            while let Some(stream) = connection.request().await {
                connection.send(head(stream, END_STREAM, "204", &[])).await;
            }
        },
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello",
    )
    .await;
    let proxy = before(origin.address, |_| {});
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 204);
    let mut client = proxy.client().await;
    let asks = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
    assert!(client.get_head(asks).await.starts_with("HTTP/1.1 101"));
    assert_eq!(client.exactly(5).await, b"hello");
    assert_eq!(counts(), (1, 1));
    assert_eq!(proxy.client().await.get(get("/1")).await.status(), 204);
    assert_eq!(counts(), (1, 1));
}

#[tokio::test]
async fn half_a_body_is_no_whole_one() {
    // What follows a head of two bytes, and whether the client sees an end.
    type Frames = &'static [(u8, u8, &'static [u8])];
    let table: [(&str, Frames); 5] = [
        ("too few", &[(DATA, END_STREAM, b"a")]),
        ("too many", &[(DATA, 0, b"ab"), (DATA, END_STREAM, b"c")]),
        ("reset", &[(DATA, 0, b"a"), (RST_STREAM, 0, &[0, 0, 0, 0])]),
        ("the end of the connection", &[(DATA, 0, b"a")]),
        ("trailers too early", &[(DATA, 0, b"a"), (HEADERS, END_STREAM | END_HEADERS, b"\x00\x01x\x01y")]),
    ];
    for (name, frames) in table {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let origin = RawOrigin::start(move |mut connection, _| {
            let counted = counted.clone();
            async move {
                while let Some(stream) = connection.request().await {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let fields = [("content-length", "2"), ("cache-control", "max-age=1000")];
                    // At once: what would be whole without its last frame may else be taken for it.
                    let frames =
                        frames.iter().map(|(kind, flags, payload)| frame(*kind, *flags, stream, payload));
                    connection
                        .send([vec![head(stream, 0, "200", &fields)], frames.collect()].concat().concat())
                        .await;
                    if name == "the end of the connection" {
                        return;
                    }
                }
            }
        })
        .await;
        let proxy = before(origin.address, |_| {});
        for n in 1..3 {
            let mut client = proxy.client().await;
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            let got = client.rest().await;
            // What it has by the time that more comes is all that it was told of.
            let is_told = name == "too many" || !got.ends_with("ab");
            assert!(got.starts_with("HTTP/1.1 502") || is_told, "{name}: {got}");
            assert!(requests.load(Ordering::SeqCst) >= n, "{name}: it was stored");
        }
    }
}

#[tokio::test]
async fn what_breaks_the_rules_is_a_502_that_says_so() {
    const INVALID: &str = "the origin's response is not valid HTTP/2, or its head is too large";
    let raw = |fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields));
    let large = "x".repeat(15_000);
    let mut bomb = head(1, 0, "200", &[("a", &large)]);
    bomb[4] = 0;
    for n in 0..9 {
        let flags = if n == 8 { END_HEADERS } else { 0 };
        bomb.extend(frame(CONTINUATION, flags, 1, &block(&[("a", &large)])));
    }
    let mut somewhat = head(1, 0, "200", &[("a", &large)]);
    somewhat[4] = 0;
    for n in 0..4 {
        let flags = if n == 3 { END_HEADERS } else { 0 };
        somewhat.extend(frame(CONTINUATION, flags, 1, &block(&[("a", &large)])));
    }
    let mut endless = head(1, 0, "200", &[]);
    endless[4] = 0;
    let table: Vec<(&str, Vec<u8>, usize, &str)> = vec![
        ("no status", raw(&[("x", "y")]), 1, INVALID),
        ("no number", raw(&[(":status", "ok")]), 1, INVALID),
        ("two of them", raw(&[(":status", "200"), (":status", "200")]), 1, INVALID),
        ("behind others", raw(&[("x", "y"), (":status", "200")]), 1, INVALID),
        ("a request's", raw(&[(":path", "/")]), 1, INVALID),
        ("capitals", raw(&[(":status", "200"), ("X", "y")]), 1, INVALID),
        ("a blank", raw(&[(":status", "200"), ("x y", "y")]), 1, INVALID),
        ("a line", raw(&[(":status", "200"), ("x", "a\r\nb: c")]), 1, INVALID),
        ("of a connection", raw(&[(":status", "200"), ("connection", "x")]), 1, INVALID),
        ("a coding", raw(&[(":status", "200"), ("transfer-encoding", "chunked")]), 1, INVALID),
        ("another protocol", head(1, 0, "101", &[("x", "y")]), 1, INVALID),
        ("data first", frame(DATA, END_STREAM, 1, b"x"), 1, INVALID),
        ("no such stream", frame(HEADERS, END_HEADERS, 7, &block(&[(":status", "200")])), 1, INVALID),
        (
            "a push",
            frame(5, END_HEADERS, 1, &[&[0, 0, 0, 2], &block(&[(":method", "GET")])[..]].concat()),
            1,
            INVALID,
        ),
        ("no HPACK", frame(HEADERS, END_HEADERS, 1, &[0xff; 40]), 1, INVALID),
        ("a large head", somewhat, 1, INVALID),
        ("a bomb", bomb, 1, INVALID),
        (
            "endless interim",
            head(1, 0, "103", &[("x", "y")]),
            100_000,
            "the origin sent interim responses without end",
        ),
        (
            "endless head",
            [endless, frame(CONTINUATION, 0, 1, &block(&[("a", "b")])).repeat(1000)].concat(),
            1,
            "the origin cannot be reached",
        ),
        ("pings", frame(PING, 0, 0, b"12345678"), 100_000, "the origin cannot be reached"),
        ("settings", frame(SETTINGS, 0, 0, &[]), 100_000, "the origin cannot be reached"),
        (
            "empty frames",
            [head(1, 0, "200", &[]), frame(DATA, 0, 1, &[]).repeat(1000)].concat(),
            1,
            "the origin cannot be reached",
        ),
        ("a frame that is too large", frame(DATA, 0, 1, &[0; 20_000]), 1, INVALID),
        ("HTTP/1", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), 1, INVALID),
    ];
    for (name, bytes, times, says) in table {
        let ends = Arc::new(Notify::new());
        let ended = ends.clone();
        let origin = RawOrigin::start(move |mut connection, number| {
            let (ended, bytes) = (ended.clone(), bytes.clone());
            async move {
                while let Some(stream) = connection.request().await {
                    if number > 0 || stream > 1 {
                        connection.send(head(stream, END_STREAM, "204", &[])).await;
                    } else if !connection.flood(&bytes, times).await {
                        break;
                    }
                }
                ended.notify_one();
            }
        })
        .await;
        let proxy = before(origin.address, |_| {});
        let mut client = proxy.client().await;
        client.send(get("/")).await;
        let mut answer = client.head().await.unwrap();
        while answer.starts_with("HTTP/1.1 103") {
            answer = client.head().await.unwrap();
        }
        let body = client.rest_or_body(&answer).await;
        assert!(answer.starts_with("HTTP/1.1 502") && body.starts_with(says), "{name}: {answer}{body}");
        // Others are served, on this connection or another.
        assert_eq!(proxy.client().await.get(get("/next")).await.status(), 204, "{name}");
    }
}

#[tokio::test]
async fn origins_that_are_silent_are_late_and_their_connection_is_not_used_again() {
    let origin = RawOrigin::start(|mut connection, number| async move {
        while let Some(stream) = connection.request().await {
            if number > 0 {
                connection.send(head(stream, END_STREAM, "204", &[])).await;
            }
        }
    })
    .await;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_first_byte = Duration::from_millis(200);
        settings.timeouts.origin_stall = Duration::from_millis(200);
    });
    let mut client = proxy.client().await;
    assert_eq!(client.get(get("/")).await.reason(), "the origin did not answer in time");
    assert_eq!(client.get(get("/")).await.status(), 204);
    // A window that stays at nothing.
    let origin = RawOrigin::start(|mut connection, _| async move {
        connection.send(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await;
        while connection.request().await.is_some() {}
    })
    .await;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_stall = Duration::from_millis(200);
    });
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
    client.try_send(vec![7; 500_000]).await;
    assert!(client.rest().await.contains("the origin did not take the request in time"));
    // A body that stops.
    let origin = RawOrigin::start(|mut connection, _| async move {
        while let Some(stream) = connection.request().await {
            connection.send(head(stream, 0, "200", &[("content-length", "9")])).await;
            connection.send(frame(DATA, 0, stream, b"half")).await;
        }
    })
    .await;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_stall = Duration::from_millis(200);
    });
    let got = proxy.exchange(get("/")).await;
    assert!(got.starts_with("HTTP/1.1 200") && got.ends_with("half"), "{got}");
}

#[tokio::test]
async fn idle_connections_end_in_time_and_with_a_reload() {
    let goodbyes = Arc::new(AtomicUsize::new(0));
    let counted = goodbyes.clone();
    let origin = RawOrigin::start(move |mut connection, _| {
        let counted = counted.clone();
        async move {
            while let Some(came) = connection.next_of(&[HEADERS, GOAWAY]).await {
                if came.0 == GOAWAY {
                    assert_eq!(reason(&came), u32::from(Reason::NO_ERROR));
                    counted.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                connection.send(head(came.2, END_STREAM, "204", &[])).await;
            }
        }
    })
    .await;
    let mut kept = None;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_idle = Duration::from_millis(300);
        kept = Some(settings.clone());
    });
    let goodbye = async |count: usize| {
        soon(async {
            while goodbyes.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    };
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 204);
    goodbye(1).await;
    assert_eq!(number(&proxy, "http2-open").await, 0);
    let mut settings = kept.unwrap();
    settings.timeouts.origin_idle = Duration::from_secs(1000);
    proxy.reload(settings.clone());
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 204);
    settings.reach = vec!["127.0.0.0/8".parse().unwrap()];
    proxy.reload(settings);
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 204);
    goodbye(2).await;
}

/// Windows are taken from the memory for bodies, and small where there is none.
#[tokio::test]
async fn many_slow_bodies_stay_within_the_memory_for_them() {
    let origin = Http2Origin::plain(Builder::new(), |_, respond| async move {
        answer(respond, Response::new(()), vec![7; 2 << 20]).await;
    })
    .await;
    let proxy = before(origin.address, |settings| settings.bounds.transit_bytes = 8 << 20);
    let mut all = Vec::new();
    for n in 0..30 {
        let mut client = Client::narrow(proxy.address).await;
        client.send(get(&format!("/{n}"))).await;
        all.push(client);
    }
    // All together: which of them have memory first is nobody's to choose.
    let mut reading = JoinSet::new();
    for mut client in all {
        reading.spawn(async move {
            let head = client.head().await.unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert_eq!(client.body(&head).await.len(), 2 << 20);
        });
    }
    while let Some(read) = reading.join_next().await {
        read.unwrap();
    }
    // Wide and narrow ones.
    assert!(origin.count().0 >= 2, "{:?}", origin.count());
}
