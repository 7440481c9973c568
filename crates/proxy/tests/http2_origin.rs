//! Origins that speak HTTP/2: what they are asked, what becomes of their answers, and of those that break its rules.

mod support;

use bytes::Bytes;
use h2::Reason;
use h2::server::Builder;
use http::{HeaderMap, Response};
use proxy::OriginHttp2;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::http2::{self, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame};
use support::http2_origin::{Http2Origin, RawOrigin, answer, before, before_secure, head, storable};
use support::tls::{Authority, SecureOrigin};
use support::{Proxy, cache_status, soon};

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
        let (begin, fields) = asked.text().split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).unwrap();
        assert_eq!(begin, format!("{scheme}://a.test/0"));
        assert!(fields.contains("te=trailers") && fields.contains("via=1.1 cosm") && fields.contains("z=z"), "{fields}");
        assert!(!fields.contains("x=y") && !fields.contains("host=a") && !fields.contains("keep-alive"), "{fields}");
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
        let mut all = tokio::task::JoinSet::new();
        for n in 0..20 {
            let mut client = proxy.client().await;
            all.spawn(async move { client.get(get(&format!("/{n}"))).await.status() });
        }
        while let Some(status) = soon(all.join_next()).await {
            assert_eq!(status.unwrap(), 200);
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
    let origin = Http2Origin::secure(&authority, Builder::new(), |_, respond| answer(respond, storable(), "x")).await;
    let proxy = before_secure(origin.address, &authority, |settings| settings.origin_http2 = OriginHttp2::Off);
    assert_eq!(proxy.client().await.get(get("/")).await.status(), 502);
    assert_eq!(origin.count().1, 0);
}
