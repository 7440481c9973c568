//! Clients of HTTP/2 that cost the proxy more than themselves: their connection ends with ENHANCE_YOUR_CALM, and others are served as
//! before.

mod support;

use proxy::{Http2 as Bounds, Settings};
use std::time::Duration;
use support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PING, PRIORITY, RST_STREAM, Raw,
    SETTINGS, WINDOW_UPDATE, block, frame, get, reason,
};
use support::{Origin, Proxy, ok, soon};

const ENHANCE_YOUR_CALM: u32 = 11;

/// How a flood is made: the number of a frame, and its bytes.
type Flood = Box<dyn Fn(u32) -> Vec<u8>>;

async fn slow_origin() -> Origin {
    Origin::with(|mut client, seen| async move {
        while let Some(head) = client.head().await {
            seen.lock().unwrap().push(head.clone());
            if head.contains("/slow") {
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            client.send(ok("Cache-Control: max-age=600\r\n", "hello")).await;
        }
    })
    .await
}

fn bounded(settings: &mut Settings) {
    settings.http2 = Bounds {
        resets: 30,
        pings: 30,
        settings: 30,
        priorities: 30,
        continuations: 30,
        empty: 5,
        ..settings.http2
    };
}

fn request(host: &str, stream: u32, flags: u8) -> Vec<u8> {
    let path = format!("/slow{stream}");
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", &path)];
    frame(HEADERS, flags, stream, &block(&fields))
}

/// Connections that were ended for floods, and those that are open.
async fn counts(proxy: &Proxy) -> (u64, u64) {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    (stats["http2"]["floods"].as_u64().unwrap(), stats["http2"]["open"].as_u64().unwrap())
}

#[tokio::test]
async fn each_flood_ends_its_connection_alone() {
    let origin = slow_origin().await;
    let host = origin.address.to_string();
    let asks = {
        let host = host.clone();
        move |n: u32, flags: u8| request(&host, 2 * n + 1, flags)
    };
    let reset = |stream: u32| frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
    let whole = END_HEADERS | END_STREAM;
    let floods: Vec<(&str, Flood)> = vec![
        ("Rapid Reset", {
            let asks = asks.clone();
            Box::new(move |n| [asks(n, whole), reset(2 * n + 1)].concat())
        }),
        // A window that overflows has the proxy reset the stream.
        ("MadeYouReset", {
            let asks = asks.clone();
            Box::new(move |n| {
                let update = frame(WINDOW_UPDATE, 0, 2 * n + 1, &0x7fff_ffffu32.to_be_bytes());
                [asks(n, whole), update].concat()
            })
        }),
        ("pings", Box::new(|_| frame(PING, 0, 0, b"12345678"))),
        ("settings", Box::new(|_| frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]))),
        ("priorities", Box::new(|n| frame(PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 16]))),
        ("unknown frames", Box::new(|_| frame(0x10, 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1']))),
        ("windows of a byte", Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()).repeat(100))),
        ("empty content", {
            let asks = asks.clone();
            Box::new(move |n| if n == 0 { asks(0, END_HEADERS) } else { frame(DATA, 0, 1, &[]) })
        }),
        ("empty heads", {
            let asks = asks.clone();
            Box::new(move |n| if n == 0 { asks(0, END_STREAM) } else { frame(CONTINUATION, 0, 1, &[]) })
        }),
        ("continuations", {
            let asks = asks.clone();
            Box::new(move |n| {
                if n == 0 { asks(0, END_STREAM) } else { frame(CONTINUATION, 0, 1, &block(&[("a", "b")])) }
            })
        }),
    ];
    let proxy = Proxy::with(|settings| {
        bounded(settings);
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    let mut other = Http2::connect(proxy.address).await;
    for (number, (name, flood)) in floods.iter().enumerate() {
        let mut raw = Raw::connect(proxy.address).await;
        for n in 0..100 {
            if !raw.0.try_send(flood(n)).await {
                break;
            }
        }
        let end = raw.next_of(&[GOAWAY]).await.unwrap_or_else(|| panic!("{name}: it ended without a word"));
        assert_eq!(reason(&end), ENHANCE_YOUR_CALM, "{name}");
        soon(async { while raw.next().await.is_some() {} }).await;
        assert_eq!(other.get(origin.url("/")).await.text(), "hello", "{name}: others are served");
        drop(raw);
        let number = number + 1;
        soon(async {
            while counts(&proxy).await != (number as u64, 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn more_streams_than_there_may_be_are_refused_and_may_be_asked_for_again() {
    let origin = slow_origin().await;
    let host = origin.address.to_string();
    let proxy = Proxy::with(|settings| settings.http2.streams = 10);
    let mut raw = Raw::connect(proxy.address).await;
    let all: Vec<u8> = (0..15).flat_map(|n| request(&host, 2 * n + 1, END_HEADERS | END_STREAM)).collect();
    raw.0.send(all).await;
    for n in 10..15 {
        let refused = raw.next_of(&[RST_STREAM]).await.unwrap();
        assert_eq!((refused.2, reason(&refused)), (2 * n + 1, 7), "REFUSED_STREAM");
    }
    origin.asked(10).await;
    // Those that end make room.
    let resets: Vec<u8> =
        (0..10).flat_map(|n| frame(RST_STREAM, 0, 2 * n + 1, &8u32.to_be_bytes())).collect();
    raw.0.send([resets, request(&host, 41, END_HEADERS | END_STREAM)].concat()).await;
    origin.asked(11).await;
    assert_eq!(origin.requests().len(), 11);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_ended() {
    let body = "x".repeat(500_000);
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", &body)).await;
    let proxy = Proxy::with(|settings| {
        settings.timeouts.client_stall = Duration::from_millis(300);
        settings.timeouts.origin_idle = Duration::from_millis(80);
    });
    let narrow = support::Client::narrow(proxy.address).await;
    let mut raw = Raw::of(narrow, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await;
    raw.0.send(frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0])).await;
    let host = origin.address.to_string();
    let all: Vec<u8> = (0..20).flat_map(|n| request(&host, 2 * n + 1, END_HEADERS | END_STREAM)).collect();
    raw.0.send(all).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut bytes = 0;
    soon(async {
        while let Some(came) = raw.next().await {
            bytes += came.3.len();
        }
    })
    .await;
    assert!(bytes < 20 * 500_000, "{bytes}: it took all");
}

/// Streams that wait for their client take memory, of which there is little: a connection has only a few then.
#[tokio::test]
async fn streams_that_find_no_memory_are_refused() {
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", &"x".repeat(1000))).await;
    let proxy = Proxy::with(|settings| settings.bounds.transit_bytes = 0);
    let host = origin.address.to_string();
    let whole = END_HEADERS | END_STREAM;
    let mut filled = Raw::connect(proxy.address).await;
    filled.0.send(request(&host, 1, whole)).await;
    while filled.next_of(&[DATA]).await.unwrap().1 & END_STREAM == 0 {}
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", host.as_str()), (":path", "/slow1")];
    let ask = block(&fields);
    let mut slow = Vec::new();
    let mut refused = 0;
    for _ in 0..40 {
        // No room for any content.
        let mut raw = Raw::of(support::Client::connect(proxy.address).await, &[0, 4, 0, 0, 0, 0]).await;
        let all: Vec<u8> = (0..100).flat_map(|n| frame(HEADERS, whole, 2 * n + 1, &ask)).collect();
        raw.0.send(all).await;
        let (mut heads, mut resets) = (0, 0);
        while heads + resets < 100 {
            let came = raw.next_of(&[HEADERS, RST_STREAM]).await.unwrap();
            match came.0 {
                HEADERS => heads += 1,
                _ => {
                    assert_eq!(reason(&came), 7, "REFUSED_STREAM");
                    resets += 1;
                }
            }
        }
        assert!(heads >= 8, "{heads}");
        refused += resets;
        slow.push(raw);
    }
    assert!(refused > 0);
    filled.0.send(request(&host, 3, whole)).await;
    while filled.next_of(&[DATA]).await.unwrap().1 & END_STREAM == 0 {}
}

/// Also what an origin sends for it, until it is gone; and one client has no more than half of the memory for that.
#[tokio::test]
async fn responses_that_a_client_does_not_read_take_memory() {
    const STREAM: u64 = 24 << 10;
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", &"x".repeat(500_000))).await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.transit_bytes = 8 << 20;
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    let host = origin.address.to_string();
    let mut slow = Vec::new();
    for (count, least, most) in [(6, 5 * STREAM, 5 * STREAM), (50, 21 * STREAM, 512 << 10)] {
        // No room for any content.
        let mut raw = Raw::of(support::Client::connect(proxy.address).await, &[0, 4, 0, 0, 0, 0]).await;
        let all: Vec<u8> =
            (0..count).flat_map(|n| request(&host, 2 * n + 1, END_HEADERS | END_STREAM)).collect();
        raw.0.send(all).await;
        let answered = if count == 6 { 6 } else { 17 };
        for _ in 0..answered {
            raw.next_of(&[HEADERS]).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let used = used(&proxy).await;
        assert!((least..=most).contains(&used), "{count}: {used}");
        slow.push(raw);
    }
    drop(slow);
    soon(async {
        while used(&proxy).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The connection has its part of the memory for heads for as long as it needs it.
#[tokio::test]
async fn large_heads_take_memory_until_they_are_answered() {
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", "hello")).await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.transit_bytes = 0;
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    let mut client = Http2::connect(proxy.address).await;
    let large = "x".repeat(40_000);
    let ask = || get(origin.url("/"));
    for _ in 0..60 {
        let mut request = ask();
        request.headers_mut().insert("x-large", large.parse().unwrap());
        assert_eq!(soon(client.ask(request)).await.status(), 200);
    }
    soon(async {
        while used(&proxy).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(client.ask(ask()).await.status(), 200, "the connection goes on");
}

/// Half of the memory for heads would be that of two of them.
#[tokio::test]
async fn a_large_head_that_is_answered_keeps_what_its_response_takes() {
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", "hello")).await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.transit_bytes = 0;
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    assert_eq!(proxy.client().await.get(origin.request("/", "")).await.status(), 200);
    let (host, large) = (origin.address.to_string(), "x".repeat(18_000));
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", &host), (":path", "/"), ("x-large", &large)];
    let ask = block(&fields);
    let mut slow = Vec::new();
    for _ in 0..4 {
        // No room for any content.
        let mut raw = Raw::of(support::Client::connect(proxy.address).await, &[0, 4, 0, 0, 0, 0]).await;
        let (begin, rest) = ask.split_at(16_000);
        raw.0
            .send([frame(HEADERS, END_STREAM, 1, begin), frame(CONTINUATION, END_HEADERS, 1, rest)].concat())
            .await;
        raw.next_of(&[HEADERS]).await.unwrap();
        slow.push(raw);
    }
    soon(async {
        while used(&proxy).await != 4 * (10 << 10) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn used(proxy: &Proxy) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats["budget"]["heads-used"].as_u64().unwrap()
}
