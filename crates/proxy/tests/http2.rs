//! HTTP/2 from clients: what is asked by it gets what is asked by HTTP/1, streams do not wait for each other, and each ends by itself.

mod support;

use bytes::Bytes;
use h2::Reason;
use h2::client::Builder;
use h2::ext::Protocol;
use http::{Method, Request};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::http2::{self, Http2, Raw, answer, block, frame, get, rest};
use support::{Client, Origin, Proxy, field, ok, origin_of, soon, told_of};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const FRESH: &str = "Cache-Control: max-age=1000\r\n";

/// An origin that answers each request when it is let, but those for `/free` at once.
async fn gated() -> (Origin, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let opens = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let opens = opens.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head.clone());
                if !head.contains("/free") {
                    opens.acquire().await.unwrap().forget();
                }
                client.send(ok("Cache-Control: no-store\r\n", "here")).await;
            }
        }
    })
    .await;
    (origin, gate)
}

#[tokio::test]
async fn hits_and_misses_are_those_of_http1() {
    let origin = origin_of(|request, n| {
        let fields = format!("{FRESH}ETag: \"a\"\r\nConnection: x-own\r\nX-Own: 1\r\n");
        if request.starts_with("HEAD") {
            ok(&fields, "").replace("gth: 0", "gth: 7")
        } else {
            ok(&fields, &format!("answer{n}"))
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let url = origin.url("/a");
    let first = client.get(&url).await;
    assert_eq!(
        (first.status(), first.text(), first.cache_status()),
        (200, "answer0", "cosm; fwd=uri-miss; stored")
    );
    assert_eq!((first.field("via"), first.field("content-length")), (Some("1.1 cosm"), Some("7")));
    assert!(
        first.field("connection").is_none()
            && first.field("x-own").is_none()
            && first.field("date").is_some()
    );
    for _ in 0..3 {
        let hit = client.get(&url).await;
        assert_eq!((hit.text(), hit.cache_status()), ("answer0", "cosm; hit"));
        assert!(hit.field("age").is_some() && hit.field("content-length") == Some("7"));
    }
    let old = proxy.client().await.get(origin.request("/a", "")).await;
    assert_eq!((old.text(), support::cache_status(&old)), ("answer0", "cosm; hit"));
    let ask = |method: Method, name: &'static str, value: &'static str| {
        Request::builder().method(method).uri(&url).header(name, value).body(()).unwrap()
    };
    let head = client.ask(ask(Method::HEAD, "x", "y")).await;
    assert_eq!((head.status(), head.text(), head.field("content-length")), (200, "", Some("7")));
    let part = client.ask(ask(Method::GET, "range", "bytes=1-3")).await;
    assert_eq!((part.status(), part.text(), part.field("content-range")), (206, "nsw", Some("bytes 1-3/7")));
    let same = client.ask(ask(Method::GET, "if-none-match", "\"a\"")).await;
    assert_eq!((same.status(), same.text()), (304, ""));
    assert_eq!(origin.requests().len(), 1);
    let asked = &origin.requests()[0];
    assert!(asked.starts_with("GET /a HTTP/1.1\r\n"), "{asked}");
    assert_eq!(field(asked, "host"), Some(origin.address.to_string().as_str()));
    assert!(field(asked, "via").unwrap().starts_with("2.0 cosm ("), "{asked}");
    // All of them were told, each once.
    let told = told_of(&origin.address.to_string(), "/a", 8).await;
    assert!(told.len() == 8 && told.iter().all(|told| told.whole));
    assert_eq!(told.iter().map(|told| told.sent).sum::<u64>(), 5 * 7 + 3);
}

#[tokio::test]
async fn cookies_go_on_as_one_line_and_trailers_come_back() {
    let origin = origin_of(|request, _| match request.contains("/trailers") {
        true => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\nCache-Control: no-store\r\n\r\n\
                 4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n"
            .into(),
        false => ok("", "hello"),
    })
    .await;
    let proxy = Proxy::reverse(&origin);
    let mut client = Http2::connect(proxy.address).await;
    let request = Request::get("http://www.example/c").header("cookie", "a=1").header("cookie", "b=2");
    assert_eq!(client.ask(request.body(()).unwrap()).await.text(), "hello");
    assert_eq!(field(&origin.requests()[0], "cookie"), Some("a=1; b=2"));
    assert_eq!(field(&origin.requests()[0], "host"), Some("www.example"));
    let request = Request::get("http://www.example/trailers").header("te", "trailers");
    let answer = client.ask(request.body(()).unwrap()).await;
    assert_eq!(answer.text(), "body");
    assert_eq!(answer.trailers.unwrap().get("x-sum").unwrap(), "7");
}

#[tokio::test]
async fn streams_do_not_wait_for_each_other_and_a_reset_ends_one_alone() {
    let (origin, gate) = gated().await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let mut slow = Vec::new();
    for n in 0..10 {
        slow.push(client.begin(get(origin.url(&format!("/slow{n}"))), true).await);
    }
    assert_eq!(client.get(origin.url("/free")).await.text(), "here");
    origin.asked(11).await;
    // Half of them are not wanted any more.
    for (_, stream) in &mut slow[..5] {
        stream.send_reset(Reason::CANCEL);
    }
    let host = origin.address.to_string();
    for n in 0..5 {
        let told = told_of(&host, &format!("/slow{n}"), 1).await;
        assert_eq!((told[0].status, told[0].whole), (None, false));
    }
    gate.add_permits(10);
    for (response, _) in slow.drain(5..) {
        assert_eq!(answer(response).await.unwrap().text(), "here");
    }
    assert_eq!(client.get(origin.url("/free")).await.text(), "here");
}

#[tokio::test]
async fn large_bodies_come_through_small_windows() {
    let body: String = (0..300_000).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let expected = body.clone();
    let origin = origin_of(move |_, _| ok(FRESH, &body)).await;
    let proxy = Proxy::forward();
    for window in [1000, 65_535, 1 << 20] {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(window.max(65_535) * 2);
        let mut client = Http2::with(proxy.address, &builder).await;
        let mut all = Vec::new();
        for _ in 0..4 {
            let (response, _) = client.begin(get(origin.url("/large")), true).await;
            all.push(tokio::spawn(answer(response)));
        }
        for response in all {
            let answer = response.await.unwrap().unwrap();
            assert!(answer.reset.is_none() && answer.text() == expected, "{window}");
        }
    }
}

#[tokio::test]
async fn many_bodies_that_come_slowly_do_not_keep_each_other() {
    const PIECE: usize = 20_000;
    let origin = Origin::with(|mut client, _| async move {
        while client.head().await.is_some() {
            client.send(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n", 4 * PIECE)).await;
            for _ in 0..4 {
                client.send(vec![b'x'; PIECE]).await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    for round in 0..5 {
        let mut builder = Builder::new();
        builder.initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
        let mut client = Http2::with(proxy.address, &builder).await;
        let mut all = Vec::new();
        for n in 0..90 {
            let (response, _) = client.begin(get(origin.url(&format!("/{round}/{n}"))), true).await;
            all.push(tokio::spawn(answer(response)));
        }
        for response in all {
            assert_eq!(response.await.unwrap().unwrap().body.len(), 4 * PIECE);
        }
    }
}

#[tokio::test]
async fn content_goes_on_as_it_comes() {
    let origin = origin_of(|request, _| {
        let (head, content) = request.split_once("\r\n\r\n").unwrap();
        let coding = field(&format!("{head}\r\n"), "transfer-encoding").unwrap_or("none").to_owned();
        ok("", &format!("{} {coding} {}", content.len(), content.bytes().all(|byte| byte == b'x')))
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let url = origin.url("/up");
    for size in [0, 10, 100_000, 3_000_000] {
        for length in [None, Some(size)] {
            let mut request = Request::post(&url);
            if let Some(length) = length {
                request = request.header("content-length", length);
            }
            let (response, mut content) = client.begin(request.body(()).unwrap(), size == 0).await;
            http2::send(&mut content, Bytes::from(vec![b'x'; size]), true).await;
            let answer = answer(response).await.unwrap();
            let coding = if length.is_some() || size == 0 { "none" } else { "chunked" };
            assert_eq!(answer.text(), format!("{size} {coding} true"));
        }
    }
    let told = told_of(&origin.address.to_string(), "/up", 8).await;
    assert_eq!(told.iter().map(|told| told.received).max(), Some(3_000_000));
}

/// No key knows a content, whether its length is said or not.
#[tokio::test]
async fn what_is_asked_with_content_is_not_answered_from_the_cache() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=600\r\n", "found")).await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let url = origin.url("/search");
    for (asked, length) in [None, Some(3), None].into_iter().enumerate() {
        let mut request = Request::get(&url);
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let (response, mut content) = client.begin(request.body(()).unwrap(), false).await;
        http2::send(&mut content, Bytes::from_static(b"q=a"), true).await;
        assert!(answer(response).await.unwrap().cache_status().contains("detail=content"));
        assert_eq!(origin.requests().len(), asked + 1);
    }
    assert!(client.get(&url).await.cache_status().contains("stored"));
}

#[tokio::test]
async fn interim_responses_go_to_their_stream() {
    let origin = Origin::with(|mut client, _| async move {
        while let Some(head) = client.head().await {
            if head.starts_with("GET") {
                client.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n").await;
            }
            client.body(&head).await;
            client.send(ok("Cache-Control: no-store\r\n", "final")).await;
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let (mut response, _) = client.begin(get(origin.url("/")), true).await;
    let hints = soon(std::future::poll_fn(|cx| response.poll_informational(cx))).await.unwrap().unwrap();
    assert_eq!(
        (hints.status(), hints.headers()["link"].to_str().unwrap()),
        (http::StatusCode::EARLY_HINTS, "</a.css>; rel=preload")
    );
    assert_eq!(answer(response).await.unwrap().text(), "final");
    // Who asks whether to send content is told to.
    let request = Request::put(origin.url("/")).header("expect", "100-continue").header("content-length", 4);
    let (mut response, mut content) = client.begin(request.body(()).unwrap(), false).await;
    let goes_on = soon(std::future::poll_fn(|cx| response.poll_informational(cx))).await.unwrap().unwrap();
    assert_eq!(goes_on.status(), http::StatusCode::CONTINUE);
    http2::send(&mut content, Bytes::from_static(b"body"), true).await;
    assert_eq!(answer(response).await.unwrap().text(), "final");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_reset() {
    let origin = Origin::with(|mut client, _| async move {
        client.head().await;
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let answer = client.get(origin.url("/cut")).await;
    assert_eq!((answer.status(), answer.text(), answer.reset), (200, "half", Some(Reason::INTERNAL_ERROR)));
    let told = told_of(&origin.address.to_string(), "/cut", 1).await;
    assert_eq!((told[0].sent, told[0].whole), (4, false));
    assert_eq!(client.get("http://127.0.0.1:1/").await.status(), 502);
}

#[tokio::test]
async fn refusals_are_in_words() {
    let proxy = Proxy::with(|settings| settings.clients = Vec::new());
    let mut client = Http2::connect(proxy.address).await;
    let answer = client.get("http://a/").await;
    assert_eq!((answer.status(), answer.field("connection")), (403, None));
    assert!(answer.field("x-request-id").is_some() && answer.text().contains("request "));
    assert_eq!(answer.field("content-length"), Some(answer.body.len().to_string().as_str()));
}

#[tokio::test]
async fn a_stop_lets_streams_end_and_takes_no_more() {
    let (origin, gate) = gated().await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    let (response, _) = client.begin(get(origin.url("/slow")), true).await;
    origin.asked(1).await;
    let mut idle = Http2::connect(proxy.address).await;
    assert_eq!(idle.get(origin.url("/free")).await.text(), "here");
    proxy.stop();
    // One without a request ends at once.
    assert!(soon(idle.ended).await.unwrap().is_ok());
    gate.add_permits(1);
    assert_eq!(answer(response).await.unwrap().text(), "here");
    assert!(soon(client.ended).await.unwrap().is_ok());
    proxy.ended().await;
}

/// With no other bound than those of idle tunnels and of clients without a request.
fn patient() -> Proxy {
    Proxy::with(|settings| {
        let hour = Duration::from_secs(3600);
        (settings.timeouts.drain, settings.timeouts.client_idle) = (hour, hour);
    })
}

#[tokio::test]
async fn who_answers_no_ping_does_not_keep_a_stop() {
    let (origin, gate) = gated().await;
    let proxy = patient();
    let mut raw = Raw::connect(proxy.address).await;
    let host = origin.address.to_string();
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", &host[..]), (":path", "/slow")];
    raw.0.send(frame(http2::HEADERS, http2::END_STREAM | http2::END_HEADERS, 1, &block(&fields))).await;
    origin.asked(1).await;
    proxy.stop();
    // Longer than what it waits for those without a request.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    gate.add_permits(1);
    soon(proxy.ended()).await;
    assert_eq!(raw.next_of(&[http2::DATA]).await.unwrap().3, b"here");
}

#[tokio::test]
async fn an_idle_tunnel_does_not_keep_a_stop() {
    let silent = Origin::with(|mut client, _| async move {
        client.rest().await;
    })
    .await;
    let proxy = Proxy::with(|settings| {
        settings.timeouts.drain = Duration::from_secs(3600);
        settings.connect_ports = vec![silent.address.port()];
    });
    let mut client = Http2::connect(proxy.address).await;
    let connect = Request::connect(silent.address.to_string()).body(()).unwrap();
    let (response, _content) = client.begin(connect, false).await;
    assert_eq!(soon(response).await.unwrap().status(), 200);
    proxy.stop();
    soon(proxy.ended()).await;
}

/// Those that make way for others are idle: nothing of them is under way.
#[tokio::test]
async fn connections_that_make_way_have_no_request() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", &"x".repeat(20_000))).await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.connections = 6;
        settings.workers = 1;
    });
    let (url, address) = (origin.url("/"), proxy.address);
    let mut clients = JoinSet::new();
    for _ in 0..24 {
        let url = url.clone();
        clients.spawn(async move {
            let mut answered = 0;
            for _ in 0..20 {
                let Ok(stream) = TcpStream::connect(address).await else { continue };
                let Ok((mut requests, connection)) = h2::client::handshake(stream).await else {
                    continue;
                };
                tokio::spawn(connection);
                for _ in 0..5 {
                    let Ok(ready) = requests.ready().await else { break };
                    requests = ready;
                    let Ok((response, _)) = requests.send_request(get(&url), true) else { break };
                    let Ok(response) = soon(response).await else { break };
                    let (body, reset) = rest(&mut response.into_body()).await;
                    assert_eq!((body.len(), reset), (20_000, None));
                    answered += 1;
                }
            }
            answered
        });
    }
    let mut answered = 0;
    while let Some(some) = clients.join_next().await {
        answered += some.unwrap();
    }
    assert_eq!(origin.requests().len(), answered);
    assert!(answered > 100, "{answered}");
}

#[tokio::test]
async fn the_preface_may_come_in_pieces() {
    let origin = Origin::answering(ok(FRESH, "hello")).await;
    let proxy = Proxy::forward();
    let pause = || tokio::time::sleep(Duration::from_millis(20));
    for cuts in [&[1][..], &[5], &[11], &[12], &[1, 2, 3, 20]] {
        let mut client = proxy.client().await;
        let mut from = 0;
        for &cut in cuts {
            client.send(&http2::PREFACE[from..cut]).await;
            pause().await;
            from = cut;
        }
        client.send(&http2::PREFACE[from..]).await;
        client.send(frame(http2::SETTINGS, 0, 0, &[])).await;
        Raw(client).settled().await;
    }
    // What only looked like it.
    for (first, rest) in [("P", "OST "), ("PR", "OPFIND "), ("PRI * HTT", "P/1.1\r\n")] {
        let mut client = proxy.client().await;
        client.send(first).await;
        pause().await;
        client
            .send(format!(
                "{rest}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                origin.url("/"),
                origin.address
            ))
            .await;
        let answer = client.rest().await;
        let status = if first.len() > 2 { "HTTP/1.1 400" } else { "HTTP/1.1 200" };
        assert!(answer.starts_with(status), "{first}{rest}: {answer}");
    }
}

#[tokio::test]
async fn who_still_sends_when_the_connection_ends_loses_nothing() {
    let body = "x".repeat(50_000);
    let origin = Origin::answering(ok(FRESH, &body)).await;
    let proxy = Proxy::forward();
    let mut raw = Raw::connect(proxy.address).await;
    let host = origin.address.to_string();
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", &host[..]), (":path", "/")];
    let flags = http2::END_STREAM | http2::END_HEADERS;
    raw.0.send(frame(http2::HEADERS, flags, 1, &block(&fields))).await;
    told_of(&host, "/", 1).await;
    // All of it is with the kernel, and the connection ends.
    proxy.stop();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for _ in 0..5 {
        raw.0.send(frame(http2::PING, 0, 0, b"12345678")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut bytes = 0;
    while let Some((kind, _, _, payload)) = raw.next().await {
        bytes += if kind == http2::DATA { payload.len() } else { 0 };
    }
    assert_eq!(bytes, 50_000);
    drop(raw);
    proxy.ended().await;
}

/// A proxy that waits for its clients no longer than a moment.
fn hasty(change: impl FnOnce(&mut proxy::Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.timeouts.origin_idle = Duration::from_millis(80);
        change(settings);
    })
}

const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn who_waits_for_too_long_is_ended() {
    let origin = Origin::answering(ok(FRESH, "hello")).await;
    // Without a request: with a word.
    let proxy = hasty(|settings| settings.timeouts.client_idle = MOMENT);
    let mut client = Http2::connect(proxy.address).await;
    assert_eq!(client.get(origin.url("/")).await.text(), "hello");
    assert!(soon(client.ended).await.unwrap().is_ok());
    // In a head, or before there is anything.
    let proxy = hasty(|settings| settings.timeouts.client_header = MOMENT);
    let mut raw = Raw::connect(proxy.address).await;
    raw.0.send(frame(http2::HEADERS, 0, 1, &block(&[(":method", "GET")]))).await;
    assert_eq!(http2::reason(&raw.next_of(&[http2::GOAWAY]).await.unwrap()), 0);
    assert!(raw.next().await.is_none());
    let mut half = proxy.client().await;
    half.send(&http2::PREFACE[..20]).await;
    soon(half.rest_of_bytes()).await;
}

#[tokio::test]
async fn a_stream_that_takes_nothing_ends_alone() {
    let body = "x".repeat(200_000);
    let origin = origin_of(move |request, _| {
        let control = if request.contains("/kept") { FRESH } else { "Cache-Control: no-store\r\n" };
        ok(control, &body)
    })
    .await;
    let proxy = hasty(|settings| settings.timeouts.client_stall = MOMENT);
    let mut builder = Builder::new();
    builder.initial_window_size(50_000).initial_connection_window_size(1 << 20);
    let mut client = Http2::with(proxy.address, &builder).await;
    assert_eq!(client.get(origin.url("/kept")).await.body.len(), 200_000);
    for path in ["/kept", "/passed"] {
        let (response, _) = client.begin(get(origin.url(path)), true).await;
        let (_, mut content) = soon(response).await.unwrap().into_parts();
        let began = Instant::now();
        while began.elapsed() < 2 * MOMENT {
            assert_eq!(client.get(origin.url("/kept")).await.body.len(), 200_000, "others go on");
        }
        let mut came = 0;
        let end = loop {
            match soon(content.data()).await {
                Some(Ok(bytes)) => came += bytes.len(),
                Some(Err(error)) => break error,
                None => panic!("all of it came"),
            }
        };
        assert_eq!((came, end.reason()), (50_000, Some(Reason::CANCEL)), "{path}");
    }
    // Content that does not come.
    let request = Request::post(origin.url("/")).header("content-length", 10).body(()).unwrap();
    let (response, _content) = client.begin(request, false).await;
    assert_eq!(answer(response).await.unwrap().status(), 408);
}

#[tokio::test]
async fn tunnels_and_websockets_are_streams() {
    let echo = Origin::with(|mut client, seen| async move {
        if let Some(head) =
            client.rest_or_message().await.split_once("\r\n\r\n").map(|(head, _)| format!("{head}\r\n"))
        {
            seen.lock().unwrap().push(head.clone());
            let _ = client.head().await;
            let status = if head.contains("/refused") { "403 Forbidden" } else { "101 Switching Protocols" };
            let key = field(&head, "sec-websocket-key").unwrap_or_default();
            let accept = match head.contains("/wrong") {
                true => "AAAA".into(),
                false => accepted(key),
            };
            let more = if status.starts_with('4') {
                "Content-Length: 0\r\n".into()
            } else {
                format!("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n")
            };
            client.send(format!("HTTP/1.1 {status}\r\n{more}\r\n")).await;
        }
        loop {
            let byte = client.exactly(1).await;
            client.send(byte).await;
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    // The proxy's settings say whether it knows WebSockets.
    soon(async {
        while !client.requests.is_extended_connect_protocol_enabled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let ask = |path: &str| {
        let request = Request::connect(echo.url(path)).header("sec-websocket-version", "13");
        request.extension(Protocol::from_static("websocket")).body(()).unwrap()
    };
    let (response, mut content) = client.begin(ask("/chat"), false).await;
    let response = soon(response).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(
        response.headers().get("upgrade").is_none()
            && response.headers().get("sec-websocket-accept").is_none()
    );
    let mut incoming = response.into_body();
    content.send_data(Bytes::from_static(b"frame"), false).unwrap();
    let mut came = Vec::new();
    while came.len() < 5 {
        came.extend_from_slice(&soon(incoming.data()).await.unwrap().unwrap());
    }
    assert_eq!(came, b"frame");
    let head = &echo.requests()[0];
    assert!(head.starts_with("GET /chat HTTP/1.1") && field(head, "upgrade") == Some("websocket"), "{head}");
    content.send_reset(Reason::CANCEL);
    for (path, status) in [("/refused", 403), ("/wrong", 502)] {
        let (response, _content) = client.begin(ask(path), false).await;
        assert_eq!(answer(response).await.unwrap().status(), status, "{path}");
    }
    assert_eq!(client.get("http://127.0.0.1:1/").await.status(), 502, "the connection goes on");
}

fn accepted(key: &str) -> String {
    let both = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, both.as_bytes());
    data_encoding::BASE64.encode(digest.as_ref())
}

#[tokio::test]
async fn connect_opens_a_tunnel() {
    let echo = Origin::with(|mut client, _| async move {
        let five = client.exactly(5).await;
        client.send(five).await;
        client.rest().await;
        client.send("end").await;
    })
    .await;
    let proxy = Proxy::with(|settings| settings.connect_ports = vec![echo.address.port()]);
    let mut client = Http2::connect(proxy.address).await;
    let connect = |target: String| Request::connect(target).body(()).unwrap();
    let (response, mut content) = client.begin(connect(echo.address.to_string()), false).await;
    let response = soon(response).await.unwrap();
    assert_eq!(response.status(), 200);
    content.send_data(Bytes::from_static(b"hello"), true).unwrap();
    let (came, reset) = http2::rest(&mut response.into_body()).await;
    assert_eq!((&came[..], reset), (&b"helloend"[..], None), "each direction ends by itself");
    let told = told_of(&echo.address.to_string(), "", 1).await;
    assert_eq!((told[0].received, told[0].sent, told[0].whole), (5, 8, true));
    assert_eq!(client.ask(connect("127.0.0.1:1".into())).await.status(), 403);
}

#[tokio::test]
async fn urgent_streams_go_first() {
    let body = "x".repeat(900_000);
    let origin = origin_of(move |_, _| ok(FRESH, &body)).await;
    let proxy = Proxy::forward();
    let mut client = Http2::connect(proxy.address).await;
    assert_eq!(client.get(origin.url("/")).await.body.len(), 900_000);
    let narrow = Client::narrow(proxy.address).await;
    let settings = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    let mut raw = Raw::of(narrow, &settings).await;
    raw.0.send(frame(http2::WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0])).await;
    let host = origin.address.to_string();
    let ask = |stream: u32, priority: &str| {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", &host[..]),
            (":path", "/"),
            ("priority", priority),
        ];
        frame(http2::HEADERS, http2::END_STREAM | http2::END_HEADERS, stream, &block(&fields))
    };
    let all = [ask(1, "u=5"), ask(3, "u=3, i"), ask(5, "u=3, i"), ask(7, "u=1"), ask(9, "u=1")];
    raw.0.send(all.concat()).await;
    let mut ended = Vec::new();
    while ended.len() < all.len() {
        let (_, flags, stream, _) = raw.next_of(&[http2::DATA]).await.unwrap();
        if flags & http2::END_STREAM != 0 {
            ended.push(stream);
        }
    }
    assert_eq!(ended[..2], [7, 9], "{ended:?}");
    assert_eq!(ended[4], 1, "{ended:?}");
}
