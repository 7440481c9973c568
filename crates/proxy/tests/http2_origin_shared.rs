//! Connections of HTTP/2 to origins, which requests share: what one request, client or origin may cost the others, and who waits for what.

mod support;

use http::Request;
use proxy::{OriginHttp2, Settings};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PING, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE,
    block, frame,
};
use support::http2_origin::{RawConnection, RawOrigin, before, both, head};
use support::{Client, Proxy, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

async fn number(proxy: &Proxy, name: &str) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats["origin"][name].as_u64().unwrap()
}

/// A request by a client of its own, for whose status somebody waits.
async fn asks(proxy: &Proxy, path: impl AsRef<str>) -> JoinHandle<u16> {
    let mut client = proxy.client().await;
    let request = get(path.as_ref());
    tokio::spawn(async move { client.get(request).await.status() })
}

/// So many streams are allowed at a time.
fn allows(streams: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, 3], &streams.to_be_bytes()[..]].concat())
}

/// What gRPC's implementation in Go sends for a frame of content while it waits for no PING.
fn measures() -> Vec<u8> {
    [frame(WINDOW_UPDATE, 0, 0, &64u32.to_be_bytes()), frame(PING, 0, 0, b"measured")].concat()
}

/// Answers each frame of content with as much, and measures at each.
async fn echo_of_grpc(mut connection: RawConnection, _: usize) {
    while let Some((kind, flags, stream, payload)) = connection.next_of(&[HEADERS, DATA]).await {
        if kind == HEADERS {
            connection.send(head(stream, 0, "200", &[("content-type", "application/grpc")])).await;
            continue;
        }
        connection.send([measures(), frame(DATA, 0, stream, &payload)].concat()).await;
        if flags & END_STREAM != 0 {
            let trailers = block(&[("grpc-status", "0")]);
            connection.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers)).await;
        }
    }
}

#[tokio::test]
async fn small_messages_that_are_measured_by_pings_are_no_flood() {
    let origin = RawOrigin::start(echo_of_grpc).await;
    let proxy = before(origin.address, |_| {});
    let mut raw = Raw::connect(proxy.address).await;
    let ask = |stream: u32| {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "a.test"),
            (":path", "/s/M"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ];
        frame(HEADERS, END_HEADERS, stream, &block(&fields))
    };
    // As calls of one message each, and as the messages of one call.
    let calls = (0..300).map(|n| (2 * n + 1, true)).chain((0..300).map(|_| (601, false)));
    let mut asked = 0;
    for (stream, is_last) in calls {
        let begins = if stream > asked { ask(stream) } else { Vec::new() };
        asked = stream;
        let flags = if is_last { END_STREAM } else { 0 };
        raw.0.send([begins, frame(DATA, flags, stream, b"\0\0\0\0\x05hello")].concat()).await;
        let came = raw.next_of(&[DATA, GOAWAY, RST_STREAM]).await.unwrap();
        assert_eq!((came.0, came.2, &came.3[..]), (DATA, stream, &b"\0\0\0\0\x05hello"[..]));
        raw.0.send(measures()).await;
        if is_last {
            let ended = raw.next_of(&[HEADERS, GOAWAY, RST_STREAM]).await.unwrap();
            let ended =
                if ended.1 & END_STREAM == 0 { raw.next_of(&[HEADERS]).await.unwrap() } else { ended };
            assert_eq!((ended.0, ended.1 & END_STREAM, ended.2), (HEADERS, END_STREAM, stream));
        }
    }
    assert_eq!(number(&proxy, "http2-open").await, 1);
    assert_eq!(number(&proxy, "http2-streams").await, 301);
}

#[tokio::test]
async fn what_an_origin_does_not_read_has_a_bound() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let origin = RawOrigin::start(move |connection, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            std::future::pending::<()>().await;
            drop(connection);
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let large: String = (0..8).map(|n| format!("X-{n}: {}\r\n", "y".repeat(7000))).collect();
    for round in 0..10 {
        let mut all = Vec::new();
        for n in 0..50 {
            let mut client = proxy.client().await;
            client.send(format!("GET /{round}/{n} HTTP/1.1\r\nHost: a\r\n{large}\r\n")).await;
            all.push(client);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What the library keeps, and what the buffers of two sockets take.
    let most = 300 * connections.load(Ordering::SeqCst) as u64;
    let streams = number(&proxy, "http2-streams").await;
    assert!((1..most).contains(&streams), "{streams} of {most}");
}

#[tokio::test]
async fn clients_that_leave_many_streams_cost_no_other() {
    const MANY: usize = 150;
    let (left, counted) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (leaves, asked) = (left.clone(), counted.clone());
    let origin = RawOrigin::start(move |mut connection, _| {
        let (leaves, asked) = (leaves.clone(), asked.clone());
        async move {
            connection.send(allows(1000)).await;
            while let Some((kind, _, stream, _)) = connection.next_of(&[HEADERS, RST_STREAM]).await {
                if kind == HEADERS {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let begins = head(stream, 0, "200", &[("cache-control", "no-store")]);
                    connection.send([begins, frame(DATA, 0, stream, b"begun")].concat()).await;
                    continue;
                }
                // What was under way when it was reset, and a piece for who is still there.
                let late = frame(DATA, 0, stream, b"late").repeat(4);
                connection.send([late, frame(DATA, 0, 1, b"x")].concat()).await;
                leaves.add_permits(1);
            }
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    let mut stays = proxy.client().await;
    stays.send("GET /stays HTTP/1.1\r\nHost: a\r\n\r\n").await;
    stays.head().await.unwrap();
    let mut all = Vec::new();
    for n in 0..MANY {
        let mut client = proxy.client().await;
        client.send(get(&format!("/{n}"))).await;
        client.head().await.unwrap();
        all.push(client);
    }
    drop(all);
    soon(left.acquire_many(MANY as u32)).await.unwrap().forget();
    // As much came behind all that was late: none of it ended the connection.
    let mut got = Vec::new();
    while got.iter().filter(|byte| **byte == b'x').count() < MANY {
        got.extend(stays.exactly(1).await);
    }
    assert_eq!(counted.load(Ordering::SeqCst), MANY + 1);
    assert_eq!(number(&proxy, "http2-open").await, 1);
}

#[tokio::test]
async fn a_head_that_ends_its_connection_is_its_own_requests_matter() {
    let arrived = Arc::new(Semaphore::new(0));
    let came = arrived.clone();
    let origin = RawOrigin::start(move |mut connection, number| {
        let came = came.clone();
        async move {
            connection.send(allows(100)).await;
            while let Some(stream) = connection.request().await {
                if number > 0 || stream == 1 {
                    connection.send(head(stream, END_STREAM, "204", &[])).await;
                } else if stream == 13 {
                    connection.send(head(stream, END_STREAM, "200", &[("X", "y")])).await;
                } else {
                    came.add_permits(1);
                }
            }
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    assert_eq!(soon(asks(&proxy, "/first").await).await.unwrap(), 204);
    let mut slow = Vec::new();
    for n in 0..5 {
        slow.push(asks(&proxy, format!("/{n}")).await);
        soon(arrived.acquire()).await.unwrap().forget();
    }
    assert_eq!(soon(asks(&proxy, "/bad").await).await.unwrap(), 502);
    for status in slow {
        assert_eq!(soon(status).await.unwrap(), 204);
    }
}

#[tokio::test]
async fn connections_that_end_when_they_begin_are_made_a_few_times() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let origin = tokio::spawn(async move {
        let ends = [frame(SETTINGS, 0, 0, &[]), frame(GOAWAY, 0, 0, &[0; 8])].concat();
        let mut all = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let ends = ends.clone();
            all.spawn(async move {
                let _ = stream.write_all(&ends).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    let proxy = before(address, |_| {});
    assert_eq!(soon(asks(&proxy, "/").await).await.unwrap(), 502);
    let count = count.load(Ordering::SeqCst);
    assert!((1..=16).contains(&count), "{count}");
    origin.abort();
}

/// A proxy with one connection of four streams, which are in use; then `when` so many who wait, the origin says `what`, and answers whatever
/// comes from then on.
async fn waiting(waiters: usize, what: Vec<u8>) -> (Proxy, RawOrigin, Vec<JoinHandle<u16>>, Arc<Notify>) {
    let arrived = Arc::new(Semaphore::new(0));
    let (now, came) = (Arc::new(Notify::new()), arrived.clone());
    let told = now.clone();
    let origin = RawOrigin::start(move |mut connection, number| {
        let (told, came, what) = (told.clone(), came.clone(), what.clone());
        async move {
            if number == 0 {
                connection.send(allows(4)).await;
                for _ in 0..4 {
                    connection.request().await.unwrap();
                    came.add_permits(1);
                }
                told.notified().await;
                connection.send(what).await;
            }
            while let Some(stream) = connection.request().await {
                connection.send(head(stream, END_STREAM, "204", &[])).await;
            }
        }
    })
    .await;
    let proxy = before(origin.address, |settings| settings.bounds.idle_per_origin = 1);
    let mut all = Vec::new();
    for n in 0..4 {
        all.push(asks(&proxy, format!("/long{n}")).await);
        soon(arrived.acquire()).await.unwrap().forget();
    }
    for n in 0..waiters {
        all.push(asks(&proxy, format!("/{n}")).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    (proxy, origin, all.split_off(4), now)
}

#[tokio::test]
async fn who_waits_for_a_place_is_told_of_whatever_makes_one() {
    let goaway = [7u32.to_be_bytes(), 0u32.to_be_bytes()].concat();
    for (name, what) in [("settings", allows(100)), ("goaway", frame(GOAWAY, 0, 0, &goaway))] {
        let (_proxy, _origin, waiters, now) = waiting(8, what).await;
        now.notify_one();
        for waiter in waiters {
            assert_eq!(soon(waiter).await.unwrap(), 204, "{name}");
        }
    }
}

/// A connection that idles, of a kind that has no use any more.
#[tokio::test]
async fn an_idle_connection_that_does_not_suit_gives_way() {
    let answers = |mut connection: RawConnection, _| async move {
        connection.send(allows(1000)).await;
        while let Some(stream) = connection.request().await {
            connection.send(head(stream, END_STREAM, "204", &[])).await;
        }
    };
    let holds = |mut connection: RawConnection, _| async move {
        connection.send(allows(1000)).await;
        while let Some(stream) = connection.request().await {
            connection.send(head(stream, 0, "200", &[("cache-control", "no-store")])).await;
            connection.send(frame(DATA, 0, stream, &[7; 10_000]).repeat(6)).await;
        }
    };
    let (idle, busy) = (RawOrigin::start(answers).await, RawOrigin::start(holds).await);
    let proxy = Proxy::with(|settings| {
        settings.origin_http2 = OriginHttp2::PriorKnowledge;
        settings.workers = 1;
        settings.admin = "127.0.0.1:0".parse().ok();
        settings.bounds.idle_per_origin = 1;
        settings.bounds.transit_bytes = 8 << 20;
    });
    let url = |origin: &RawOrigin, path: &str| {
        format!("GET http://{}{path} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address, origin.address)
    };
    assert_eq!(proxy.client().await.get(url(&idle, "/0")).await.status(), 204);
    let mut slow = Vec::new();
    for n in 0..60 {
        let mut client = proxy.client().await;
        client.send(url(&busy, &format!("/{n}"))).await;
        slow.push(client);
        if n == 0 {
            slow[0].head().await.unwrap();
        }
    }
    proxy.settled().await;
    assert_eq!(proxy.client().await.get(url(&idle, "/1")).await.status(), 204);
}

#[tokio::test]
async fn who_waits_while_http2_is_turned_off_goes_by_http1() {
    let arrived = Arc::new(Semaphore::new(0));
    let came = arrived.clone();
    let (origin, counts) = both(
        move |mut connection| {
            let came = came.clone();
            async move {
                connection.send(allows(1)).await;
                while connection.request().await.is_some() {
                    came.add_permits(1);
                }
            }
        },
        "HTTP/1.1 204 No Content\r\n\r\n",
    )
    .await;
    let mut kept = None;
    let proxy = before(origin.address, |settings: &mut Settings| {
        settings.bounds.idle_per_origin = 1;
        kept = Some(settings.clone());
    });
    let _long = asks(&proxy, "/long").await;
    soon(arrived.acquire()).await.unwrap().forget();
    let waits = asks(&proxy, "/waits").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    proxy.reload(Settings { origin_http2: OriginHttp2::Off, ..kept.unwrap() });
    assert_eq!(soon(waits).await.unwrap(), 204);
    assert_eq!(counts(), (1, 1));
}

/// An origin that accepts one connection, and refuses others.
async fn accepts_one<F>(
    serve: impl FnOnce(RawConnection) -> F + Send + 'static,
) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        serve(RawConnection::begun(Client::of(stream)).await).await;
    });
    (address, task)
}

#[tokio::test]
async fn who_cannot_have_another_connection_waits_for_a_place_on_the_first() {
    let (arrived, now) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (came, told) = (arrived.clone(), now.clone());
    let (address, origin) = accepts_one(|mut connection| async move {
        connection.send(allows(1)).await;
        while let Some(stream) = connection.request().await {
            if stream == 1 {
                came.notify_one();
                told.notified().await;
            }
            connection.send(head(stream, END_STREAM, "204", &[])).await;
        }
    })
    .await;
    let proxy = before(address, |_| {});
    let first = asks(&proxy, "/first").await;
    soon(arrived.notified()).await;
    let mut others = Vec::new();
    for n in 0..3 {
        others.push(asks(&proxy, format!("/{n}")).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    now.notify_one();
    for status in [first].into_iter().chain(others) {
        assert_eq!(soon(status).await.unwrap(), 204);
    }
    origin.abort();
}

#[tokio::test]
async fn content_of_what_has_none_is_not_passed_on() {
    let origin = RawOrigin::start(|mut connection, _| async move {
        while let Some(stream) = connection.request().await {
            let begins = head(stream, 0, "204", &[("cache-control", "max-age=100")]);
            connection
                .send([begins, frame(DATA, END_STREAM, stream, b"HTTP/1.1 200 OK\r\n\r\n")].concat())
                .await;
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    for _ in 0..2 {
        let mut client = Http2::connect(proxy.address).await;
        let answer = client.ask(Request::get("http://a.test/").body(()).unwrap()).await;
        let status = answer.cache_status();
        assert!(answer.body.is_empty() && answer.reset.is_none(), "{answer:?}");
        assert!(status != "cosm; hit", "{answer:?}");
    }
    assert_eq!(number(&proxy, "http2-streams").await, 2);
}

/// As where something between forgot the connection.
#[tokio::test]
async fn what_can_be_sent_once_goes_by_no_connection_that_is_silently_gone() {
    for answers_pings in [false, true] {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let origin = RawOrigin::start(move |mut connection, number| {
            let counted = counted.clone();
            async move {
                let mut is_gone = false;
                while let Some((kind, _, stream, payload)) = connection.next_of(&[HEADERS, PING]).await {
                    match kind {
                        PING if number > 0 || answers_pings => {
                            connection.send(frame(PING, 1, 0, &payload)).await
                        }
                        HEADERS if !is_gone => {
                            counted.fetch_add(1 + 100 * number, Ordering::SeqCst);
                            connection.send(head(stream, END_STREAM, "204", &[])).await;
                            is_gone = number == 0 && !answers_pings;
                        }
                        _ => {}
                    }
                }
            }
        })
        .await;
        let proxy = before(origin.address, |_| {});
        let mut client = proxy.client().await;
        assert_eq!(client.get(get("/")).await.status(), 204);
        // Longer than origins surely keep a connection.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
        // Several at once, of which one asks for all.
        let mut others = [proxy.client().await, proxy.client().await];
        for other in &mut others {
            other.send(post).await;
        }
        assert_eq!(client.get(post).await.status(), 204);
        for other in &mut others {
            assert_eq!(other.message().await.status(), 204);
        }
        assert_eq!(requests.load(Ordering::SeqCst), if answers_pings { 4 } else { 304 });
    }
}

/// Of all hosts.
#[tokio::test]
async fn connections_that_idle_are_bounded_in_all() {
    let (asked, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut origins = Vec::new();
    for _ in 0..5 {
        let (came, told) = (asked.clone(), go.clone());
        let origin = RawOrigin::start(move |mut connection, _| {
            let (came, told) = (came.clone(), told.clone());
            async move {
                while let Some(stream) = connection.request().await {
                    came.add_permits(1);
                    told.acquire().await.unwrap().forget();
                    connection.send(head(stream, END_STREAM, "204", &[])).await;
                }
            }
        });
        origins.push(origin.await);
    }
    let proxy = Proxy::with(|settings| {
        settings.origin_http2 = OriginHttp2::PriorKnowledge;
        settings.workers = 1;
        settings.admin = "127.0.0.1:0".parse().ok();
        settings.bounds.connections = 8;
        settings.timeouts.origin_idle = Duration::from_secs(100);
        settings.timeouts.client_crowded = Duration::from_millis(400);
    });
    let mut all = Vec::new();
    for origin in &origins {
        let mut client = proxy.client().await;
        client.send(format!("GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n", origin.address)).await;
        all.push(client);
    }
    soon(asked.acquire_many(5)).await.unwrap().forget();
    go.add_permits(5);
    for client in &mut all {
        assert_eq!(client.message().await.status(), 204);
    }
    soon(async {
        while number(&proxy, "http2-open").await > 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// An origin of which a connection, by its number, ends when it has carried so many requests, if at all; and how many it had.
async fn short_lived(
    carries: impl Fn(usize) -> Option<usize> + Clone + Send + Sync + 'static,
) -> (RawOrigin, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let origin = RawOrigin::start(move |mut connection, number| {
        counted.fetch_add(1, Ordering::SeqCst);
        let carries = carries.clone();
        async move {
            let mut carried = 0;
            while let Some(stream) = connection.request().await {
                carried += 1;
                let ends = carries(number) == Some(carried);
                if ends {
                    // Meanwhile come those that are too many.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let last = [stream.to_be_bytes(), [0; 4]].concat();
                    connection.send(frame(GOAWAY, 0, 0, &last)).await;
                }
                connection.send(head(stream, END_STREAM, "200", &[("cache-control", "no-store")])).await;
                if ends {
                    while connection.request().await.is_some() {}
                }
            }
        }
    })
    .await;
    (origin, connections)
}

async fn ask_many(proxy: &Proxy) {
    let mut all = Vec::new();
    for n in 0..60 {
        all.push(asks(proxy, format!("/{n}")).await);
    }
    for asked in all {
        assert_eq!(soon(asked).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn connections_that_carry_few_requests_are_given_no_more() {
    let generous = Arc::new(AtomicBool::new(false));
    let carries_all = generous.clone();
    let (origin, connections) =
        short_lived(move |_| (!carries_all.load(Ordering::SeqCst)).then_some(4)).await;
    let proxy = before(origin.address, |_| {});
    ask_many(&proxy).await;
    let many = connections.swap(0, Ordering::SeqCst);
    assert!((15..=25).contains(&many), "{many} connections");
    // One that goes on when it has carried those is given more.
    generous.store(true, Ordering::SeqCst);
    for n in 0..20 {
        assert_eq!(soon(asks(&proxy, format!("/more/{n}")).await).await.unwrap(), 200);
    }
    let more = connections.load(Ordering::SeqCst);
    assert!(more <= 2, "{more} connections");
}

/// It may have ended for anything, such as a restart.
#[tokio::test]
async fn one_connection_that_ends_tells_nothing_of_others() {
    let (origin, connections) = short_lived(|number| (number == 0).then_some(2)).await;
    let proxy = before(origin.address, |_| {});
    ask_many(&proxy).await;
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

/// So that nothing can be learned of them.
#[tokio::test]
async fn who_is_turned_back_asks_again_while_others_are_answered() {
    let (origin, _) = short_lived(|number| Some(3 + number % 4)).await;
    let proxy = before(origin.address, |_| {});
    ask_many(&proxy).await;
}

/// Five streams at a time, though it allows a hundred.
#[tokio::test]
async fn who_is_refused_asks_again_later() {
    const AT_ONCE: usize = 5;
    let origin = RawOrigin::start(|mut connection, _| async move {
        connection.send(allows(100)).await;
        let (mut taken, mut until) = (Vec::new(), tokio::time::Instant::now());
        loop {
            match tokio::time::timeout_at(until, connection.request()).await {
                Ok(Some(stream)) if taken.len() < AT_ONCE => {
                    if taken.is_empty() {
                        until = tokio::time::Instant::now() + Duration::from_millis(200);
                    }
                    taken.push(stream);
                }
                Ok(Some(stream)) => connection.send(frame(RST_STREAM, 0, stream, &7u32.to_be_bytes())).await,
                Ok(None) => return,
                Err(_) => {
                    for stream in taken.drain(..) {
                        connection
                            .send(head(stream, END_STREAM, "200", &[("cache-control", "no-store")]))
                            .await;
                    }
                    until += Duration::from_secs(3600);
                }
            }
        }
    })
    .await;
    let proxy = before(origin.address, |_| {});
    ask_many(&proxy).await;
}

/// What it waited before is not its origin's to answer for.
#[tokio::test]
async fn who_is_turned_back_late_is_sent_again() {
    let origin = RawOrigin::start(|mut connection, _| async move {
        connection.send(allows(1)).await;
        for status in ["204", "", "200"] {
            let stream = connection.request().await.unwrap();
            tokio::time::sleep(Duration::from_millis(if status == "200" { 0 } else { 600 })).await;
            connection
                .send(match status {
                    "" => frame(RST_STREAM, 0, stream, &7u32.to_be_bytes()),
                    status => head(stream, END_STREAM, status, &[]),
                })
                .await;
        }
        connection.request().await;
    })
    .await;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_first_byte = Duration::from_secs(1);
        settings.bounds.idle_per_origin = 1;
    });
    let first = asks(&proxy, "/1").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = asks(&proxy, "/2").await;
    assert_eq!((soon(first).await.unwrap(), soon(second).await.unwrap()), (204, 200));
}

/// A repetition of another kind.
#[tokio::test]
async fn who_was_turned_back_is_repeated_where_its_connection_breaks() {
    let origin = RawOrigin::start(|mut connection, number| async move {
        let stream = connection.request().await.unwrap();
        if number == 0 {
            connection.send(frame(RST_STREAM, 0, stream, &7u32.to_be_bytes())).await;
            connection.request().await;
            return;
        }
        connection.send(head(stream, END_STREAM, "200", &[])).await;
        connection.request().await;
    })
    .await;
    let proxy = before(origin.address, |_| {});
    assert_eq!(soon(asks(&proxy, "/").await).await.unwrap(), 200);
}

/// However long it may take between two pieces of it.
#[tokio::test]
async fn an_answer_is_waited_for_from_the_end_of_the_request() {
    let origin =
        RawOrigin::start(|mut connection, _| async move { while connection.request().await.is_some() {} })
            .await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (address, http2) in [(origin.address, true), (silent.local_addr().unwrap(), false)] {
        let proxy = before(address, |settings| {
            if !http2 {
                settings.origin_http2 = OriginHttp2::Off;
            }
            settings.timeouts.origin_first_byte = Duration::from_millis(300);
            settings.timeouts.origin_stall = Duration::from_secs(3600);
        });
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789";
        assert_eq!(proxy.client().await.get(post).await.status(), 504, "by HTTP/2: {http2}");
    }
}

/// And that ends when the origin has taken it, however slowly.
#[tokio::test]
async fn content_that_its_origin_takes_slowly_is_not_late() {
    let origin = RawOrigin::start(|mut connection, _| async move {
        let stream = connection.request().await.unwrap();
        // One window is taken at once.
        let mut left = 100_000;
        while left > 100_000 - 65_535 {
            left -= connection.next_of(&[DATA]).await.unwrap().3.len();
        }
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let more = 10_000u32.to_be_bytes();
            connection.send([0, stream].map(|of| frame(WINDOW_UPDATE, 0, of, &more)).concat()).await;
        }
        while left > 0 {
            left -= connection.next_of(&[DATA]).await.unwrap().3.len();
        }
        connection.send(head(stream, END_STREAM, "204", &[])).await;
        connection.request().await;
    })
    .await;
    let proxy = before(origin.address, |settings| {
        settings.timeouts.origin_first_byte = Duration::from_secs(1);
        settings.timeouts.origin_stall = Duration::from_secs(1);
    });
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let request = [post.as_bytes(), &[b'c'; 100_000]].concat();
    assert_eq!(proxy.client().await.get(request).await.status(), 204);
}
