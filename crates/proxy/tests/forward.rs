//! What passes through: both kinds of proxy, both versions of HTTP, all kinds of bodies.

mod support;

use std::time::Duration;
use support::{Client, Origin, Proxy, soon};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: no-store\r\n\r\nhello";

#[tokio::test]
async fn forward_keeps_both_connections_alive() {
    let origin = Origin::with(|mut client, seen| async move {
        seen.lock().unwrap().push("connection".into());
        while let Some(head) = client.head().await {
            seen.lock().unwrap().push(head);
            client.send(OK).await;
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for n in 0..3 {
        let response = client.get(origin.request(&format!("/{n}"), "")).await;
        assert_eq!((response.status(), response.text()), (200, "hello"));
        assert_eq!(response.field("via"), Some("1.1 cosm"));
        assert!(
            response.field("cache-status").unwrap().starts_with("cosm; fwd=uri-miss"),
            "{}",
            response.head
        );
    }
    let seen = origin.requests();
    assert_eq!(seen.iter().filter(|seen| *seen == "connection").count(), 1, "{seen:?}");
    assert!(seen[1].starts_with("GET /0 HTTP/1.1\r\n"));
    assert!(support::field(&seen[1], "via").unwrap().starts_with("1.1 cosm ("));
    assert_eq!(support::field(&seen[1], "host"), Some(origin.address.to_string().as_str()));
}

#[tokio::test]
async fn reverse_sends_everything_to_its_origin() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::reverse(&origin);
    let mut client = proxy.client().await;
    let response = client.get("GET /a?b HTTP/1.1\r\nHost: whatever\r\n\r\n").await;
    assert_eq!(response.status(), 200);
    assert!(origin.requests()[0].starts_with("GET /a?b HTTP/1.1\r\n"));
    assert_eq!(support::field(&origin.requests()[0], "host"), Some("whatever"));
    assert_eq!(client.get("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 405);
}

#[tokio::test]
async fn forward_explains_itself_to_a_plain_client() {
    let proxy = Proxy::forward();
    let response = proxy.client().await.get("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(response.status(), 400);
    assert!(response.text().contains("forward proxy"));
}

#[tokio::test]
async fn http_1_0_clients_get_no_chunks() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: no-store\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    .await;
    let proxy = Proxy::forward();
    let response = proxy.exchange(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/"))).await;
    assert!(response.starts_with("HTTP/1.0 200 OK\r\n"), "{response}");
    assert!(!response.contains("chunked"), "{response}");
    assert!(response.ends_with("\r\n\r\nabcde"), "{response}");
    assert!(origin.requests()[0].starts_with("GET / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn bodies_pass_in_every_framing() {
    for (response, framing) in [
        (OK, "content-length"),
        // All of it came with the head, so its length is known.
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "content-length"),
        ("HTTP/1.0 200 OK\r\n\r\nhello", "transfer-encoding"),
    ] {
        let origin = Origin::answering(response).await;
        let proxy = Proxy::forward();
        let response = proxy.client().await.get(origin.request("/", "")).await;
        assert_eq!((response.status(), response.text()), (200, "hello"));
        assert!(response.field(framing).is_some(), "{}", response.head);
    }
}

#[tokio::test]
async fn request_bodies_pass_in_every_framing() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let post = |fields: &str, body: &str| {
        format!("POST {} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}", origin.url("/"))
    };
    assert_eq!(client.get(post("Content-Length: 3", "abc")).await.status(), 200);
    assert_eq!(
        client.get(post("Transfer-Encoding: chunked", "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")).await.status(),
        200
    );
    let seen = origin.requests();
    for request in &seen {
        assert!(request.ends_with("\r\n\r\nabc"), "{request}");
    }
    assert!(
        support::field(&seen[0], "content-length").is_some()
            && support::field(&seen[1], "transfer-encoding").is_some()
    );
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let origin = Origin::with(|mut client, _| async move {
        while let Some(head) = client.head().await {
            assert!(head.starts_with("HEAD "));
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.send(format!("HEAD {} HTTP/1.1\r\nHost: a\r\n\r\n", origin.url("/"))).await;
        let head = client.head().await.unwrap();
        assert_eq!(support::field(&head, "content-length"), Some("5"));
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        let mut rest = String::new();
        while !rest.ends_with("sum: 1\r\n\r\n") {
            rest.push_str(std::str::from_utf8(&client.exactly(1).await).unwrap());
        }
        // What origins believe is no client's to say, in trailers neither.
        assert!(!rest.contains("1.1.1.1"), "{rest}");
        seen.lock().unwrap().push(head);
        client
            .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: check\r\nCache-Control: no-store\r\n\r\n")
            .await;
        client.send("1\r\na\r\n0\r\ncheck: 2\r\n\r\n").await;
    })
    .await;
    let proxy = Proxy::forward();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\nTrailer: sum, x-forwarded-for\r\nTransfer-Encoding: chunked\r\n\r\n\
         1\r\na\r\n0\r\nx-forwarded-for: 1.1.1.1\r\nsum: 1\r\n\r\n",
        origin.url("/")
    );
    let response = proxy.exchange(request).await;
    assert!(response.ends_with("1\r\na\r\n0\r\ncheck: 2\r\n\r\n"), "{response}");
    assert_eq!(support::field(&origin.requests()[0], "te"), Some("trailers"));
}

#[tokio::test]
async fn hop_by_hop_fields_stay_behind() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Authenticate: Basic\r\nX-Yours: 2\r\n\r\n",
    )
    .await;
    let proxy = Proxy::forward();
    let fields = "Connection: X-Secret\r\nX-Secret: 1\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nX-Open: 2\r\n\
                  Proxy-Authorization: Basic Zm9v\r\nVia: 1.0 fred\r\n";
    let response = proxy.client().await.get(origin.request("/", fields)).await;
    for gone in ["connection", "x-mine", "keep-alive", "proxy-authenticate"] {
        assert_eq!(response.field(gone), None, "{}", response.head);
    }
    assert_eq!(response.field("x-yours"), Some("2"));
    let request = &origin.requests()[0];
    for gone in ["x-secret", "proxy-connection", "te", "proxy-authorization", "connection"] {
        assert_eq!(support::field(request, gone), None, "{request}");
    }
    assert_eq!(support::field(request, "x-open"), Some("2"));
    assert!(support::field(request, "via").unwrap().starts_with("1.0 fred, 1.1 cosm ("));
}

#[tokio::test]
async fn expect_continue_waits_for_the_origin() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        assert_eq!(support::field(&head, "expect"), Some("100-continue"));
        if head.contains("/no") {
            return client.send("HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
        client.send("HTTP/1.1 100 Continue\r\n\r\n").await;
        let body = client.exactly(3).await;
        seen.lock().unwrap().push(String::from_utf8(body).unwrap());
        // It ends here: a request that is sent once only must not be sent on it.
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
    })
    .await;
    let proxy = Proxy::with(|settings| settings.timeouts.expect = Duration::from_secs(600));
    let post = |path| {
        format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
            origin.url(path)
        )
    };
    let mut client = proxy.client().await;
    client.send(post("/yes")).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 100 "));
    assert_eq!(client.get("abc").await.status(), 200);
    assert_eq!(origin.requests(), ["abc"]);
    let mut client = proxy.client().await;
    let no = client.get(post("/no")).await;
    assert_eq!(
        (no.status(), no.field("connection")),
        (413, Some("close")),
        "its content is not read any more"
    );
}

#[tokio::test]
async fn only_the_response_whose_own_content_is_left_ends_a_connection() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let post = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na", origin.url("/"));
    client.send(origin.request("/", "") + &post).await;
    let first = client.message().await;
    assert_eq!((first.status(), first.field("connection")), (200, None), "the content is another request's");
    assert_eq!(client.get("bc").await.field("connection"), None, "all of it has come");
    client.send(post.replace("Content-Length: 3", "Content-Length: 3\r\nHost: b")).await;
    let refused = client.message().await;
    assert_eq!((refused.status(), refused.field("connection")), (400, Some("close")));
    let mut client = proxy.client().await;
    let old = post
        .replace("HTTP/1.1", "HTTP/1.0")
        .replace("Host: a", "Host: a\r\nHost: b\r\nConnection: keep-alive");
    client.send(old).await;
    let refused = client.message().await;
    assert_eq!((refused.status(), refused.field("connection")), (400, Some("close")));
    client.rest().await;
}

#[tokio::test]
async fn expect_continue_does_not_wait_for_ever() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::with(|settings| settings.timeouts.expect = Duration::from_millis(50));
    let mut client = proxy.client().await;
    client
        .send(format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
            origin.url("/")
        ))
        .await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 100 "));
    assert_eq!(client.get("abc").await.status(), 200);
}

#[tokio::test]
async fn a_client_may_take_longer_than_its_origin_for_100() {
    let origin = Origin::with(|mut client, _| async move {
        client.head().await.unwrap();
        client.send("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.exactly(3).await;
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
    })
    .await;
    let wait = Duration::from_millis(100);
    let proxy = Proxy::with(|settings| settings.timeouts.expect = wait);
    let mut client = proxy.client().await;
    let url = origin.url("/");
    client
        .send(format!("POST {url} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"))
        .await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 100 "));
    tokio::time::sleep(4 * wait).await;
    assert_eq!(client.get("abc").await.status(), 200);
}

#[tokio::test]
async fn interim_responses_are_relayed() {
    for pause in [0, 50] {
        let origin = Origin::with(move |mut client, _| async move {
            while client.head().await.is_some() {
                client.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n").await;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                client.send(OK).await;
            }
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        for _ in 0..2 {
            client.send(origin.request("/", "")).await;
            let hints = client.head().await.unwrap();
            assert!(hints.starts_with("HTTP/1.1 103 Early Hints\r\n"), "{hints}");
            assert_eq!(support::field(&hints, "link"), Some("</a.css>; rel=preload"));
            assert_eq!(client.message().await.text(), "hello");
        }
        let old = proxy.exchange(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/"))).await;
        assert!(old.starts_with("HTTP/1.0 200 "), "{old}");
    }
}

#[tokio::test]
async fn a_stale_pooled_connection_is_retried_once() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        seen.lock().unwrap().push(head);
        client.send(OK).await;
        // The next request on this connection is read, and the connection closed without an answer.
        client.head().await;
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for _ in 0..3 {
        assert_eq!(client.get(origin.request("/", "")).await.status(), 200);
    }
    let post = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", origin.url("/"));
    assert_eq!(client.get(post).await.status(), 502, "what is not idempotent is not repeated");
}

#[tokio::test]
async fn a_broken_off_body_breaks_off() {
    let origin = Origin::with(|mut client, _| async move {
        client.head().await;
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: max-age=60\r\n\r\nhello").await;
    })
    .await;
    let proxy = Proxy::forward();
    for _ in 0..2 {
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        let head = client.head().await.unwrap();
        assert!(support::field(&head, "cache-status").unwrap().contains("fwd=uri-miss"), "{head}");
        assert_eq!(client.rest().await, "hello");
    }
}

#[tokio::test]
async fn no_origin_is_502_and_a_silent_one_504() {
    let proxy = Proxy::with(|settings| {
        settings.timeouts.origin_first_byte = Duration::from_millis(100);
    });
    let gone = Origin::answering(OK).await;
    let request = gone.request("/", "");
    gone.gone().await;
    let mut client = proxy.client().await;
    let response = client.get(request).await;
    assert_eq!(response.status(), 502, "{response:?}");
    assert_eq!(response.reason(), "the origin cannot be reached");
    let silent = Origin::with(|mut client, _| async move {
        client.head().await;
        client.head().await;
    })
    .await;
    let response = client.get(silent.request("/", "")).await;
    assert_eq!(response.status(), 504);
    assert_eq!(response.field("cache-status"), None, "RFC 9211 section 2: it is of the proxy's own making");
}

/// RFC 9112 section 8: it is the client who sent less than it said.
#[tokio::test]
async fn content_that_breaks_off_is_no_failure_of_the_origin() {
    let origin = Origin::with(|mut client, _| async move {
        client.head().await;
        client.rest().await;
    })
    .await;
    let proxy = Proxy::forward();
    for framing in ["Content-Length: 9\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n9\r\nhello"] {
        let mut client = proxy.client().await;
        client.send(format!("POST {} HTTP/1.1\r\nHost: a\r\n{framing}", origin.url("/"))).await;
        client.finish().await;
        assert!(client.rest().await.starts_with("HTTP/1.1 400 "));
    }
}

#[tokio::test]
async fn a_stalled_body_breaks_off() {
    let origin = Origin::with(|mut client, _| async move {
        client.head().await;
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: no-store\r\n\r\nhello").await;
        client.head().await;
    })
    .await;
    let proxy = Proxy::with(|settings| settings.timeouts.origin_stall = Duration::from_millis(100));
    let mut client = proxy.client().await;
    client.send(origin.request("/", "")).await;
    client.head().await.unwrap();
    assert_eq!(client.rest().await, "hello");
}

#[tokio::test]
async fn options_and_trace_know_their_last_hop() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 204);
    let here = format!("OPTIONS {} HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", origin.url("/"));
    assert_eq!(client.get(here).await.status(), 204);
    let trace = format!(
        "TRACE {} HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nCookie: s\r\nX-A: 1\r\n\r\n",
        origin.url("/")
    );
    let trace = client.get(trace).await;
    assert!(trace.text().contains("x-a: 1") && !trace.text().contains("cookie"), "{trace:?}");
    assert!(origin.requests().is_empty());
    let on = format!("OPTIONS {} HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n", origin.url("/"));
    assert_eq!(client.get(on).await.status(), 200);
    assert_eq!(support::field(&origin.requests()[0], "max-forwards"), Some("2"));
}

#[tokio::test]
async fn connect_reaches_allowed_ports_only() {
    let echo = Origin::with(|mut client, _| async move {
        let greeting = client.exactly(5).await;
        client.send(greeting).await;
        client.finish().await;
        client.rest().await;
    })
    .await;
    let port = echo.address.port();
    let closed = Proxy::forward();
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let response = closed.client().await.get(&connect).await;
    assert_eq!(response.status(), 403);
    assert!(response.text().contains("--connect-port"), "{response:?}");
    let open = Proxy::with(|settings| settings.connect_ports = vec![port]);
    let mut client = open.client().await;
    // The first bytes of the tunnel may come with the request.
    client.send(format!("{connect}hel")).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    client.send("lo").await;
    assert_eq!(client.rest().await, "hello");
}

#[tokio::test]
async fn an_idle_tunnel_ends() {
    let silent = Origin::with(|mut client, _| async move {
        client.rest().await;
    })
    .await;
    let port = silent.address.port();
    let proxy = Proxy::with(|settings| {
        settings.connect_ports = vec![port];
        settings.timeouts.tunnel_idle = Duration::from_millis(100);
    });
    let mut client = proxy.client().await;
    client.send(format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn upgrades_become_tunnels() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        seen.lock().unwrap().push(head);
        client
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhi")
            .await;
        let bytes = client.exactly(4).await;
        client.send(bytes).await;
        client.finish().await;
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.send(origin.request("/", "Connection: Upgrade\r\nUpgrade: echo\r\n")).await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(support::field(&head, "upgrade"), Some("echo"));
    // Not HTTP any more: what would be a refused head passes.
    client.send("\0\n\rx").await;
    assert_eq!(client.rest().await, "hi\0\n\rx");
    assert_eq!(support::field(&origin.requests()[0], "connection"), Some("upgrade"));
}

#[tokio::test]
async fn a_loop_is_found() {
    let proxy = Proxy::with(|_| {});
    let address = proxy.address;
    // The proxy is asked to fetch from itself; what arrives there is origin-form, so an origin in between makes it a
    // proxy request again.
    let bounce = Origin::with(move |mut client, _| async move {
        let head = client.head().await.unwrap();
        let via = support::field(&head, "via").unwrap();
        let mut again = Client::connect(address).await;
        let request = format!("GET http://{address}/ HTTP/1.1\r\nHost: a\r\nVia: {via}\r\n\r\n");
        let response = again.get(request).await;
        client
            .send(format!(
                "HTTP/1.1 {} x\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n",
                response.status()
            ))
            .await;
    })
    .await;
    assert_eq!(proxy.client().await.get(bounce.request("/", "")).await.status(), 508);
}

#[tokio::test]
async fn a_slow_client_holds_the_origin_back() {
    const TOTAL: usize = 200 << 20;
    for fields in ["Cache-Control: no-store", "Cache-Control: max-age=60"] {
        let origin = Origin::with(move |mut client, seen| async move {
            client.head().await;
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n{fields}\r\n\r\n")).await;
            let piece = vec![b'x'; 64 << 10];
            for sent in 0..TOTAL / piece.len() {
                *seen.lock().unwrap() = vec![(sent * piece.len()).to_string()];
                client.send(&piece).await;
            }
        })
        .await;
        let proxy = Proxy::with(|settings| settings.bounds.memory_bytes = 16 << 20);
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        client.head().await.unwrap();
        let sent = || origin.requests().first().map_or(0, |sent| sent.parse::<usize>().unwrap());
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if sent() == before {
                break;
            }
            before = sent();
        }
        // Mostly the kernel's socket buffers.
        assert!(before < 24 << 20, "{before} bytes left the origin for a client that reads nothing");
        let body = soon(client.exactly(TOTAL)).await;
        assert_eq!(body.len(), TOTAL);
    }
}

#[tokio::test]
async fn what_can_be_sent_only_once_takes_no_connection_that_may_be_closing() {
    // An origin that closes what was idle for 1.2 s, when the next request is there already.
    let origin = Origin::with(|mut client, seen| async move {
        let mut since = std::time::Instant::now();
        while let Some(head) = client.head().await {
            client.body(&head).await;
            if since.elapsed() > Duration::from_millis(1_200) {
                break;
            }
            seen.lock().unwrap().push(head);
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok").await;
            since = std::time::Instant::now();
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for method in ["PUT", "POST", "GET"] {
        assert_eq!(client.get(origin.request("/", "")).await.text(), "ok");
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        let request = origin.request("/", "Content-Length: 0\r\n").replacen("GET", method, 1);
        assert_eq!(client.get(request).await.text(), "ok", "{method}");
    }
    assert_eq!(origin.requests().len(), 6);
}
