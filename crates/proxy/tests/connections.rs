//! Connections that wait: tunnels are not idle, what is idle makes way, and a stop waits for requests only.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Client, Origin, Proxy, ok, soon};
use tokio::sync::Semaphore;

/// More than any wait that would show in these tests, less than any of the proxy's own.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A listener that keeps what it accepts and says nothing.
async fn silent_origin() -> Origin {
    Origin::with(|mut client, _| async move {
        client.rest().await;
    })
    .await
}

async fn tunnel(proxy: &Proxy, origin: &Origin) -> Client {
    let mut client = proxy.client().await;
    let target = origin.address;
    client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    client
}

/// A proxy with tunnels to anywhere, and waits that no test lasts for.
fn patient(workers: usize, connections: usize, port: u16) -> Proxy {
    Proxy::with(|settings| {
        settings.workers = workers;
        settings.bounds.connections = connections;
        settings.connect_ports = vec![port];
        for timeout in [
            &mut settings.timeouts.client_idle,
            &mut settings.timeouts.client_header,
            &mut settings.timeouts.tunnel_idle,
            &mut settings.timeouts.drain,
        ] {
            *timeout = Duration::from_secs(600);
        }
        // The shortest wait says how often all of them are looked at.
        settings.timeouts.origin_idle = Duration::from_millis(40);
    })
}

#[tokio::test]
async fn idle_connections_among_tunnels_make_way() {
    let (far, origin) = (silent_origin().await, Origin::answering(ok("", "hello")).await);
    let proxy = patient(1, 100, far.address.port());
    // More tunnels than make way in one go, and silent for longer than all others.
    let mut tunnels = Vec::new();
    for _ in 0..70 {
        tunnels.push(tunnel(&proxy, &far).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut idle = Vec::new();
    for _ in 0..30 {
        let mut client = proxy.client().await;
        assert_eq!(client.get(origin.request("/", "")).await.text(), "hello");
        idle.push(client);
    }
    let began = Instant::now();
    for _ in 0..5 {
        let mut client = proxy.client().await;
        assert_eq!(client.get(origin.request("/", "")).await.text(), "hello");
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    for tunnel in &mut tunnels {
        tunnel.send("x").await;
        assert!(tunnel.is_silent().await, "a tunnel is not ended");
    }
}

#[tokio::test]
async fn idle_connections_of_another_worker_make_way() {
    let (far, origin) = (silent_origin().await, Origin::answering(ok("", "hello")).await);
    let proxy = patient(2, 4, far.address.port());
    let mut tunnels = Vec::new();
    for _ in 0..3 {
        tunnels.push(tunnel(&proxy, &far).await);
    }
    // The kernel chooses the worker: some of these are another's than the one before.
    let mut idle = proxy.client().await;
    for _ in 0..20 {
        assert_eq!(idle.get(origin.request("/", "")).await.text(), "hello");
        let mut next = proxy.client().await;
        assert_eq!(next.get(origin.request("/", "")).await.text(), "hello");
        assert!(idle.is_closed().await);
        idle = next;
    }
}

#[tokio::test]
async fn a_stop_waits_for_requests_and_for_nothing_else() {
    let far = silent_origin().await;
    let gate = Arc::new(Semaphore::new(1));
    let answers = gate.clone();
    let slow = Origin::with(move |mut client, seen| {
        let answers = answers.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head);
                answers.acquire().await.unwrap().forget();
                client.send(ok("Cache-Control: no-store\r\n", "slow")).await;
            }
        }
    })
    .await;
    let proxy = patient(2, 100, far.address.port());
    let mut others = Vec::new();
    for begun in ["", "\r\n", "G", "GET http://a/ HTTP/1.1\r\nHost: a\r\nX-Half: "] {
        let mut client = proxy.client().await;
        client.send(begun).await;
        others.push(client);
    }
    others.push(tunnel(&proxy, &far).await);
    let mut used = proxy.client().await;
    used.send(slow.request("/first", "")).await;
    assert_eq!(used.message().await.text(), "slow");
    used.send("GET http://a/half").await;
    others.push(used);
    let mut asking = proxy.client().await;
    asking.send(slow.request("/second", "")).await;
    soon(async {
        while slow.requests().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    proxy.stop();
    for client in &mut others {
        assert_eq!(client.rest().await, "");
    }
    gate.add_permits(1);
    assert_eq!(asking.message().await.text(), "slow");
    proxy.ended().await;
}

#[tokio::test]
async fn a_head_that_comes_to_its_end_is_answered_while_stopping() {
    let origin = Origin::answering(ok("", "hello")).await;
    let proxy = patient(1, 100, 443);
    let request = origin.request("/", "");
    let (begin, rest) = request.split_at(20);
    let mut client = proxy.client().await;
    client.send(begin).await;
    // Another request tells that the first one's bytes were read.
    assert_eq!(proxy.client().await.get(&request).await.text(), "hello");
    proxy.stop();
    client.send(rest).await;
    assert_eq!(client.message().await.text(), "hello");
    assert!(client.is_closed().await);
    proxy.ended().await;
}

#[tokio::test]
async fn a_tunnel_in_which_bytes_move_may_go_on_while_stopping() {
    let echo = Origin::with(|mut client, _| async move {
        loop {
            let byte = client.exactly(1).await;
            client.send(byte).await;
        }
    })
    .await;
    let proxy = patient(1, 100, echo.address.port());
    let mut busy = tunnel(&proxy, &echo).await;
    proxy.stop();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        busy.send("x").await;
        assert_eq!(busy.exactly(1).await, b"x");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(busy.is_closed().await, "then nothing moves");
    proxy.ended().await;
}

#[tokio::test]
async fn silent_visitors_do_not_delay_the_operator() {
    let proxy = Proxy::with(|settings| settings.admin = Some("127.0.0.1:0".parse().unwrap()));
    let mut silent = Vec::new();
    for n in 0..200 {
        let mut visitor = Client::connect(proxy.admin_address()).await;
        visitor.send(if n % 2 == 0 { "" } else { "GET /heal" }).await;
        silent.push(visitor);
    }
    let began = Instant::now();
    for _ in 0..100 {
        // These stay, and are silent from then on.
        let mut operator = Client::connect(proxy.admin_address()).await;
        let answer = operator.get("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(answer.text(), "ok\n");
        silent.push(operator);
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert!(silent[0].is_closed().await, "the one that was silent for longest");
}

#[tokio::test]
async fn a_connection_that_makes_way_is_the_longest_silent_one() {
    let proxy = Proxy::with(|settings| settings.admin = Some("127.0.0.1:0".parse().unwrap()));
    let mut visitors = Vec::new();
    for _ in 0..64 {
        let mut visitor = Client::connect(proxy.admin_address()).await;
        assert_eq!(visitor.get("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status(), 200);
        visitors.push(visitor);
    }
    // The first one speaks again, so that the second one is silent for longest.
    assert_eq!(visitors[0].get("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status(), 200);
    let answer = proxy.admin("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(answer.status(), 200);
    assert!(visitors[1].is_closed().await);
    assert_eq!(visitors[0].get("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status(), 200);
}

#[tokio::test]
async fn who_speaks_another_protocol_is_told_so() {
    let proxy = Proxy::with(|settings| settings.http2.on = false);
    let table: [(&[u8], _, _); 2] = [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 505, "HTTP/2 is off"),
    ];
    for (hello, status, words) in table {
        let mut client = proxy.client().await;
        client.send(hello).await;
        let answer = client.message().await;
        let text = String::from_utf8(answer.body.clone()).unwrap();
        assert!(answer.status() == status && text.contains(words), "{} {text}", answer.head);
        assert_eq!(client.rest().await, "");
    }
}

#[tokio::test]
async fn requests_without_end_wait_until_their_answers_are_taken() {
    const REQUESTS: usize = 600;
    let field = format!("x: {}\r\n", "y".repeat(50_000));
    let origin =
        Origin::answering(format!("HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n{field}\r\n")).await;
    let proxy = Proxy::forward();
    let mut client = Client::narrow(proxy.address).await;
    client.send(origin.request("/", "").repeat(REQUESTS)).await;
    // Some are answered, into what the kernel holds; then nothing moves.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = origin.requests().len();
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before < REQUESTS / 2, "{before} answers of 50 KB wait for a client that takes none");
    for n in 0..REQUESTS {
        assert_eq!(client.message().await.status(), 204, "{n}");
    }
}
