//! Responses that two readers could cut differently: what reaches the client is framed once, what is stored is whole, and a
//! connection to an origin answers nothing but what was asked on it.

mod support;

use proxy::Settings;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use support::{Client, Message, Origin, Proxy, cache_status, field, ok, soon};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

/// An origin that answers by the request's head; each of its connections is noted as a line `connection`. After an
/// answer that begins with `!` it closes.
async fn scripted(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Origin {
    let answer = Arc::new(answer);
    Origin::with(move |mut client, seen| {
        let answer = answer.clone();
        async move {
            seen.lock().unwrap().push("connection".into());
            while let Some(head) = client.head().await {
                let bytes = answer(&head);
                seen.lock().unwrap().push(head);
                client.send(bytes.trim_start_matches('!')).await;
                if bytes.starts_with('!') {
                    break;
                }
            }
        }
    })
    .await
}

fn connections(origin: &Origin) -> usize {
    origin.requests().iter().filter(|line| *line == "connection").count()
}

fn asks_for(head: &str, path: &str) -> bool {
    head.split(' ').nth(1).is_some_and(|target| target.ends_with(path))
}

/// `GET path` on a connection that stays.
async fn get(client: &mut Client, origin: &Origin, path: &str) -> Message {
    client.get(origin.request(path, "")).await
}

const FRESH: &str = "Cache-Control: max-age=60\r\n";

#[tokio::test]
async fn a_length_beside_a_transfer_coding_goes() {
    const SMUGGLED: &str = "ok HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for control in [FRESH, "Cache-Control: no-store\r\n"] {
        for lengths in ["Content-Length: 2\r\n", "Content-Length: 2\r\nContent-Length: 2\r\n"] {
            let origin = scripted(move |head| {
                if asks_for(head, "/honest") {
                    return ok("Cache-Control: no-store\r\n", "honest");
                }
                let size = SMUGGLED.len();
                format!(
                    "HTTP/1.1 200 OK\r\n{lengths}Transfer-Encoding: chunked\r\n{control}\r\n{size:x}\r\n{SMUGGLED}\r\n0\r\n\r\n"
                )
            })
            .await;
            let proxy = Proxy::forward();
            let mut client = proxy.client().await;
            for _ in 0..2 {
                let both = get(&mut client, &origin, "/both").await;
                assert_eq!(both.text(), SMUGGLED);
                assert_ne!(both.field("content-length"), Some("2"), "{}", both.head);
                assert_eq!(get(&mut client, &origin, "/honest").await.text(), "honest");
            }
            assert_eq!(
                connections(&origin),
                if control == FRESH { 2 } else { 3 },
                "each response with both ends its connection: {:?}",
                origin.requests()
            );
        }
    }
}

#[tokio::test]
async fn only_a_body_whose_end_was_seen_is_stored() {
    // Transfer-Encoding lines, and the status that the client gets.
    let table: &[(&[&str], u16)] = &[
        (&["identity"], 200),
        (&["Identity"], 200),
        (&[""], 200),
        (&["x"], 502),
        (&["gzip"], 502),
        (&["chunked, gzip"], 502),
        (&["gzip, chunked"], 502),
        (&["chunked, identity"], 502),
        (&["chunked,"], 502),
        (&["chunked", "x"], 502),
        (&["chunked", "chunked"], 502),
    ];
    for (lines, status) in table {
        for length in ["", "Content-Length: 1000\r\n"] {
            // A length beside it says that one of them is wrong.
            let status = if length.is_empty() { status } else { &502 };
            let codings: String = lines.iter().map(|line| format!("Transfer-Encoding: {line}\r\n")).collect();
            let cut = "c".repeat(100);
            let origin =
                scripted(move |_| format!("!HTTP/1.1 200 OK\r\n{codings}{length}{FRESH}\r\n{cut}")).await;
            let proxy = Proxy::forward();
            for _ in 0..2 {
                let answer = get(&mut proxy.client().await, &origin, "/").await;
                assert_eq!(answer.status(), *status, "{lines:?}: {}", answer.head);
                if *status == 200 {
                    assert_eq!(answer.text(), "c".repeat(100));
                    assert_eq!(answer.field("content-length"), None, "{}", answer.head);
                    assert_eq!(cache_status(&answer), "cosm; fwd=uri-miss; detail=unframed", "{lines:?}");
                }
            }
            assert_eq!(connections(&origin), 2, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_transfer_coding_of_http_1_0_is_refused() {
    let chunked = "1\r\nx\r\n0\r\n\r\n";
    let origin =
        scripted(move |_| format!("!HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}")).await;
    let proxy = Proxy::forward();
    assert_eq!(get(&mut proxy.client().await, &origin, "/").await.status(), 502);
}

/// Larger bodies than come with their head are kept while they arrive.
fn with_room(settings: &mut Settings) {
    settings.bounds.memory_object_bytes = 200_000;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_never_stored() {
    for (sent, told) in [(100, 1000), (150_000, 150_001)] {
        let cut = "c".repeat(sent);
        let origin =
            scripted(move |_| format!("!HTTP/1.1 200 OK\r\nContent-Length: {told}\r\n{FRESH}\r\n{cut}"))
                .await;
        let proxy = Proxy::with(with_room);
        for round in 1..=2 {
            let all = proxy.exchange(origin.request("/", "")).await;
            assert!(!all.contains("; hit"), "{}", &all[..200]);
            assert_eq!(connections(&origin), round, "the origin is asked again");
        }
    }
}

#[tokio::test]
async fn a_body_is_as_long_as_its_length_and_what_follows_is_nobodys() {
    for size in [5, 150_000] {
        let origin = scripted(move |head| {
            let more =
                if asks_for(head, "/long") { "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil" } else { "" };
            ok(FRESH, &"l".repeat(size)) + more
        })
        .await;
        let proxy = Proxy::with(with_room);
        let mut client = proxy.client().await;
        for expected in ["cosm; fwd=uri-miss; stored", "cosm; hit"] {
            let long = get(&mut client, &origin, "/long").await;
            assert_eq!((long.status(), long.text().len()), (200, size));
            assert_eq!(cache_status(&long), expected);
        }
        assert_eq!(get(&mut client, &origin, "/short").await.text(), "l".repeat(size));
        assert_eq!(cache_status(&get(&mut client, &origin, "/short").await), "cosm; hit");
        assert_eq!(connections(&origin), 2, "{:?}", origin.requests());
    }
}

#[tokio::test]
async fn a_length_reaches_the_client_as_one_number() {
    let table: &[(&[&str], Option<&str>)] = &[
        (&["5,5"], Some("5")),
        (&["5", "5"], Some("5")),
        (&["5 , 5", "05"], Some("5")),
        (&["5, 6"], None),
        (&["5", "6"], None),
        (&["five"], None),
        (&[""], None),
        (&["+5"], None),
    ];
    for (lines, expected) in table {
        for method in ["GET", "HEAD"] {
            let lengths: String = lines.iter().map(|line| format!("Content-Length: {line}\r\n")).collect();
            let origin = scripted(move |head| {
                let body = if head.starts_with("HEAD") { "" } else { "hello" };
                format!("HTTP/1.1 200 OK\r\n{lengths}Cache-Control: no-store\r\n\r\n{body}")
            })
            .await;
            let proxy = Proxy::forward();
            let request = origin.request("/", "Connection: close\r\n").replacen("GET", method, 1);
            let all = proxy.exchange(request).await;
            let lengths = all.lines().filter(|line| line.to_ascii_lowercase().starts_with("content-length:"));
            let lengths: Vec<_> = lengths.map(|line| line.split(' ').nth(1).unwrap()).collect();
            match expected {
                Some(length) => assert_eq!(lengths, [*length], "{method} {lines:?}: {all}"),
                None => assert!(all.starts_with("HTTP/1.1 502 "), "{method} {lines:?}: {all}"),
            }
        }
    }
}

#[tokio::test]
async fn an_interim_response_has_no_length() {
    let early =
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nLink: </a>\r\n\r\n";
    let origin = scripted(move |_| early.to_owned() + &ok("", "hello")).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.send(origin.request("/", "")).await;
    let hints = client.head().await.unwrap();
    assert!(hints.starts_with("HTTP/1.1 103 "), "{hints}");
    assert_eq!(field(&hints, "link"), Some("</a>"));
    assert_eq!(
        (field(&hints, "content-length"), field(&hints, "transfer-encoding")),
        (None, None),
        "{hints}"
    );
    assert_eq!(client.message().await.text(), "hello");
}

#[tokio::test]
async fn interim_responses_without_end_are_a_bad_gateway() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        if asks_for(&head, "/some") {
            return client.send(HINTS.repeat(32) + &ok("", "hello")).await;
        }
        let flood = HINTS.repeat(500);
        while client.try_send(&flood).await {}
        seen.lock().unwrap().push("closed".into());
    })
    .await;
    let proxy = Proxy::forward();
    let some = proxy.exchange(origin.request("/some", "Connection: close\r\n")).await;
    assert!(some.contains("HTTP/1.1 200 OK") && some.ends_with("hello"), "{some}");
    let all = proxy.exchange(origin.request("/flood", "Connection: close\r\n")).await;
    assert!(all.contains("HTTP/1.1 502 "), "{all}");
    soon(async {
        while origin.requests() != ["closed"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_follows_a_response_answers_nothing() {
    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let table: &[(&str, &str)] = &[
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 46\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\n\r\n"),
    ];
    for (method, response) in table {
        let origin = scripted(move |head| match asks_for(head, "/honest") {
            true => ok("Cache-Control: no-store\r\n", "honest"),
            false => (*response).to_owned() + EVIL,
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        client.send(origin.request("/", "").replacen("GET", method, 1)).await;
        let head = client.head().await.unwrap();
        if *method == "GET" {
            client.body(&head).await;
        }
        assert_eq!(get(&mut client, &origin, "/honest").await.text(), "honest", "{method} {response}");
        assert_eq!(connections(&origin), 2, "{method} {response}");
    }
}

#[tokio::test]
async fn only_protocols_that_two_hops_share_are_asked_for() {
    // Upgrade lines of the request, and what of it the origin sees.
    let table: &[(&[&str], Option<&str>)] = &[
        (&["h2c, websocket"], Some("websocket")),
        (&["websocket,H2C"], Some("websocket")),
        (&["h2c", "websocket"], Some("websocket")),
        (&["websocket", "HTTP/2.0, h2, TLS/1.2, h3"], Some("websocket")),
        (&["h2c"], None),
        (&["H2c, h2, HTTP/2.0"], None),
    ];
    for (lines, expected) in table {
        let origin = scripted(|head| match field(head, "upgrade") {
            // An origin that speaks HTTP/2 takes any chance.
            Some(_) => {
                "!HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nSETTINGS"
                    .into()
            }
            None => ok("", "plain"),
        })
        .await;
        let proxy = Proxy::forward();
        let upgrades: String = lines.iter().map(|line| format!("Upgrade: {line}\r\n")).collect();
        let fields = format!("Connection: Upgrade, close\r\nHTTP2-Settings: AAMAAABk\r\n{upgrades}");
        let all = proxy.exchange(origin.request("/", &fields)).await;
        let request = origin.requests().pop().unwrap();
        assert_eq!(field(&request, "upgrade"), *expected, "{request}");
        assert_eq!(field(&request, "http2-settings"), None, "{request}");
        let status = if expected.is_some() { "HTTP/1.1 502 " } else { "HTTP/1.1 200 " };
        assert!(all.starts_with(status) && !all.contains("SETTINGS"), "{lines:?}: {all}");
    }
}

#[tokio::test]
async fn an_upgrade_that_was_asked_for_among_others_is_a_tunnel() {
    let origin = scripted(|_| {
        "!HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nhi".into()
    })
    .await;
    let proxy = Proxy::forward();
    let request = origin.request("/", "Connection: upgrade\r\nUpgrade: irc/6.9, h2c, websocket\r\n");
    let all = proxy.exchange(request).await;
    assert!(all.starts_with("HTTP/1.1 101 ") && all.ends_with("\r\n\r\nhi"), "{all}");
}

/// Leads to another address, which may be told later.
async fn bounce(to: Arc<OnceLock<SocketAddr>>) -> Origin {
    Origin::with(move |client, _| {
        let to = to.clone();
        async move {
            let mut far = TcpStream::connect(to.get().unwrap()).await.unwrap();
            let _ = copy_bidirectional(&mut client.into_stream(), &mut far).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_reverse_proxy_that_is_its_own_origin_says_so_at_once() {
    let itself = Arc::new(OnceLock::new());
    let origin = bounce(itself.clone()).await;
    let proxy = Proxy::reverse(&origin);
    itself.set(proxy.address).unwrap();
    for method in ["GET", "HEAD", "POST"] {
        let all =
            proxy.exchange(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(all.starts_with("HTTP/1.1 508 "), "{method}: {all}");
    }
}

#[tokio::test]
async fn two_reverse_proxies_in_a_ring_say_so_at_once() {
    let second = Arc::new(OnceLock::new());
    let between = bounce(second.clone()).await;
    let one = Proxy::reverse(&between);
    let first = format!("http://{}", one.address).parse().unwrap();
    let two = Proxy::with(|settings| settings.origin = Some(first));
    second.set(two.address).unwrap();
    for proxy in [&one, &two, &one] {
        let all = proxy.exchange("GET /ring HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(all.starts_with("HTTP/1.1 508 "), "{all}");
    }
}

/// Each waits for the other's answer to its own question.
#[tokio::test]
async fn a_ring_that_is_asked_from_all_sides_finds_itself_out() {
    let second = Arc::new(OnceLock::new());
    let between = bounce(second.clone()).await;
    let one = Proxy::reverse(&between);
    let first = format!("http://{}", one.address).parse().unwrap();
    let two = Proxy::with(|settings| settings.origin = Some(first));
    second.set(two.address).unwrap();
    for round in 0..2 {
        let ask = |proxy: &Proxy| {
            let address = proxy.address;
            async move {
                let request = format!("GET /ring/{round} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let mut client = Client::connect(address).await;
                client.send(request).await;
                client.rest().await
            }
        };
        let answers = tokio::join!(ask(&one), ask(&two), ask(&one), ask(&two));
        for answer in [answers.0, answers.1, answers.2, answers.3] {
            assert!(answer.starts_with("HTTP/1.1 508 "), "{answer}");
        }
    }
}
