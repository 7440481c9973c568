//! What is refused, and what ends by itself: ambiguous framing, strangers, slow and idle clients, the end of service.

mod support;

use proxy::Network;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Client, Origin, Proxy, soon, told_of};
use tokio::sync::Semaphore;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: no-store\r\n\r\nhello";

#[tokio::test]
async fn ambiguous_requests_get_400_and_the_end() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::forward();
    let url = origin.url("/");
    let head = |fields: &str| format!("POST {url} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let chunk = |body: &str| head("Transfer-Encoding: chunked") + body;
    let table = [
        head("Content-Length: 4\r\nTransfer-Encoding: chunked") + "0\r\n\r\n",
        head("Transfer-Encoding: chunked\r\nContent-Length: 4") + "0\r\n\r\n",
        head("Content-Length: 4\r\nContent-Length: 5") + "hello",
        head("Content-Length: 4, 4") + "hell",
        head("Content-Length: +4") + "hell",
        head("Content-Length: 0x4") + "hell",
        head("Content-Length: 4 4") + "hell",
        head("Content-Length: 99999999999999999999999"),
        head("Content-Length: -1"),
        head("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n",
        head("Transfer-Encoding: chunked, identity") + "0\r\n\r\n",
        head("Transfer-Encoding: xchunked") + "0\r\n\r\n",
        head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked") + "0\r\n\r\n",
        head("Transfer-Encoding : chunked") + "0\r\n\r\n",
        head("Transfer-Encoding:\u{b}chunked") + "0\r\n\r\n",
        head("X: a\r\n Transfer-Encoding: chunked"),
        head("X: a\r\n\tb"),
        head(" X: a"),
        head("X: a\rTransfer-Encoding: chunked"),
        head("X: a\nY: b"),
        head("X: a\0b"),
        head("X y: a"),
        head(": a"),
        format!("POST {url} HTTP/1.1\nHost: a\n\n"),
        format!("POST {url} HTTP/1.1\r\nHost: a\r\n\n"),
        format!("POST  {url} HTTP/1.1\r\nHost: a\r\n\r\n"),
        format!("POST {url} HTTP/1.1\r\n\r\n"),
        format!("POST {url} HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        format!("POST {url} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        chunk("0x5\r\nhello\r\n0\r\n\r\n"),
        chunk("+5\r\nhello\r\n0\r\n\r\n"),
        chunk("5 \r\nhello\r\n0\r\n\r\n"),
        chunk(" 5\r\nhello\r\n0\r\n\r\n"),
        chunk("\r\nhello\r\n0\r\n\r\n"),
        chunk("5\nhello\n0\n\n"),
        chunk("5\r\nhello!\r\n0\r\n\r\n"),
        chunk("10000000000000005\r\nhello\r\n0\r\n\r\n"),
        chunk("5\r\nhello\r\n0\r\nA: b\n\r\n"),
    ];
    for request in table {
        let poison = format!("{request}GET http://{}/poison HTTP/1.1\r\nHost: a\r\n\r\n", origin.address);
        let response = proxy.exchange(&poison).await;
        assert!(
            response.starts_with("HTTP/1.1 400 ") || response.starts_with("HTTP/1.0 400 "),
            "{request:?}: {response:?}"
        );
        assert!(response.to_ascii_lowercase().contains("connection: close"), "{request:?}: {response:?}");
        assert_eq!(response.matches("HTTP/1.").count(), 1, "{request:?}: {response:?}");
        let (_, text) = response.split_once("\r\n\r\n").unwrap();
        assert!(text.len() > 10 && text.ends_with('\n'), "{request:?} gets no reason: {response:?}");
    }
    let poisoned = origin.requests().iter().any(|request| request.contains("/poison"));
    assert!(!poisoned, "{:?}", origin.requests());
}

#[tokio::test]
async fn requests_before_the_ambiguous_one_are_answered() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::forward();
    let clean = origin.request("/clean", "");
    let bad = origin.request("/bad", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n");
    let response = proxy.exchange(format!("{clean}{clean}{bad}{clean}")).await;
    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 2, "{response}");
    assert_eq!(response.matches("HTTP/1.1 400 ").count(), 1, "{response}");
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn heads_are_bounded() {
    let proxy = Proxy::with(|settings| settings.bounds.head_bytes = 8 << 10);
    for request in [
        format!("GET http://a/ HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(16 << 10)),
        format!("GET http://a/ HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200)),
    ] {
        let response = proxy.exchange(request).await;
        assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
        assert!(response.contains("the limits are 8192 bytes and 100 fields\nrequest "), "{response}");
    }
}

#[tokio::test]
async fn strangers_are_turned_away() {
    let proxy = Proxy::with(|settings| settings.clients = vec!["10.0.0.0/8".parse::<Network>().unwrap()]);
    let response = proxy.exchange("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    assert!(response.contains("--allow") && response.contains("connection: close"), "{response}");
    let response = proxy.exchange("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let proxy = Proxy::with(|settings| settings.timeouts.client_header = Duration::from_millis(200));
    let mut client = proxy.client().await;
    let start = Instant::now();
    client.send("GET http://a/ HTTP/1.1\r\nX: ").await;
    // Bytes that trickle in do not extend it.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.send("x").await;
    }
    let response = client.rest().await;
    assert!(response.starts_with("HTTP/1.1 408 ") && response.contains("in time\nrequest "), "{response}");
    assert!(start.elapsed() >= Duration::from_millis(190), "{:?}", start.elapsed());
}

#[tokio::test]
async fn idle_connections_are_closed_and_busy_ones_are_not() {
    let origin = Origin::with(|mut client, _| async move {
        while client.head().await.is_some() {
            tokio::time::sleep(Duration::from_millis(600)).await;
            client.send(OK).await;
        }
    })
    .await;
    let proxy = Proxy::with(|settings| {
        settings.timeouts.client_idle = Duration::from_millis(150);
        settings.timeouts.client_header = Duration::from_millis(150);
        settings.timeouts.client_stall = Duration::from_millis(150);
    });
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "")).await.status(), 200);
    assert!(client.is_closed().await);
    assert!(proxy.client().await.is_closed().await);
}

#[tokio::test]
async fn idle_connections_make_way_for_new_ones() {
    let origin = Origin::answering(OK).await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.connections = 4;
        settings.timeouts.client_idle = Duration::from_secs(600);
    });
    let mut clients = Vec::new();
    for _ in 0..12 {
        let mut client = proxy.client().await;
        let answered = client.get(origin.request("/", ""));
        assert_eq!(tokio::time::timeout(Duration::from_secs(5), answered).await.unwrap().status(), 200);
        clients.push(client);
    }
    assert!(clients.swap_remove(0).is_closed().await);
}

#[tokio::test]
async fn a_client_that_stalls_is_closed() {
    let origin = Origin::with(|mut client, _| async move {
        let head = client.head().await.unwrap();
        if head.starts_with("POST") {
            client.rest().await;
            return;
        }
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\nCache-Control: no-store\r\n\r\n").await;
        client.send(vec![b'x'; 100_000_000]).await;
    })
    .await;
    let proxy = Proxy::with(|settings| settings.timeouts.client_stall = Duration::from_millis(200));
    let mut sends_nothing = proxy.client().await;
    sends_nothing
        .send(format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", origin.url("/")))
        .await;
    let answer = sends_nothing.rest().await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("did not come in time\nrequest "),
        "{answer}"
    );
    let told = told_of(&origin.address.to_string(), "/", 1).await;
    assert!(told[0].status == Some(408) && !told[0].whole);
    let mut takes_nothing = proxy.client().await;
    takes_nothing.send(origin.request("/taken", "")).await;
    assert!(!told_of(&origin.address.to_string(), "/taken", 1).await[0].whole);
    let got = takes_nothing.rest().await;
    assert!(got.len() < 100_000_000, "the connection outlived its stall");
}

#[tokio::test]
async fn stopping_lets_requests_end() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head);
                wait.acquire().await.unwrap().forget();
                client.send(OK).await;
            }
        }
    })
    .await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let address = proxy.address;
    let mut idle = proxy.client().await;
    let mut busy = proxy.client().await;
    busy.send(origin.request("/", "")).await;
    origin.asked(1).await;
    proxy.stop();
    assert!(idle.is_closed().await);
    gate.add_permits(1);
    let response = busy.message().await;
    assert_eq!((response.status(), response.text()), (200, "hello"));
    assert!(busy.is_closed().await);
    proxy.ended().await;
    assert!(soon(tokio::net::TcpStream::connect(address)).await.is_err());
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await;
        seen.lock().unwrap().extend(head);
        client.head().await;
    })
    .await;
    let proxy = Proxy::with(|settings| settings.timeouts.drain = Duration::from_millis(200));
    let mut client = proxy.client().await;
    client.send(origin.request("/", "")).await;
    origin.asked(1).await;
    proxy.stop();
    let start = Instant::now();
    proxy.ended().await;
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let proxy = Proxy::forward();
    let settings = proxy::Settings { listen: vec![proxy.address.into()], ..Default::default() };
    let error = proxy::start(settings, None).err().unwrap();
    assert!(error.to_string().contains(&proxy.address.to_string()), "{error}");
    let _ = Client::connect(proxy.address).await;
}
