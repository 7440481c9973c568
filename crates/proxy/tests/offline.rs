//! Offline: what is stored answers, however stale, as far as its directives permit.

mod support;

use proxy::{Offline, Settings};
use std::path::Path;
use std::time::Duration;
use support::{Client, Message, Proxy, cache_status, ok, origin_of, soon, told_of};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

fn with_admin(settings: &mut Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

fn is(offline: Offline) -> Settings {
    Settings { offline, purge_from: proxy::Network::private(), ..Settings::default() }
}

async fn says_offline(proxy: &Proxy) -> bool {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    match stats["origin"]["offline"].as_u64() {
        Some(0) => false,
        Some(1) => true,
        other => panic!("{other:?}"),
    }
}

/// The words of a Cache-Control stand in the query.
fn path(directives: &str) -> String {
    format!("/?{}", directives.replace(", ", "&"))
}

#[tokio::test]
async fn offline_nothing_is_fetched_and_what_may_be_stale_answers() {
    let origin = origin_of(|request, _| {
        let directives = request.split(' ').nth(1).unwrap().trim_start_matches("/?").replace('&', ", ");
        ok(&format!("Cache-Control: {directives}\r\nETag: \"1\"\r\n"), "stored")
    })
    .await;
    let proxy = Proxy::with(with_admin);
    let mut client = proxy.client().await;
    let table = [
        ("max-age=600", Some("cosm; hit")),
        ("max-age=0", Some("cosm; hit; detail=offline")),
        ("max-age=0, stale-if-error=0", Some("cosm; hit; detail=offline")),
        ("max-age=0, s-maxage=0, stale-if-error=0", Some("cosm; hit; detail=offline")),
        ("max-age=0, stale-while-revalidate=600", Some("cosm; hit; detail=stale-while-revalidate")),
        ("max-age=0, must-revalidate", None),
        ("max-age=0, proxy-revalidate", None),
        ("s-maxage=0", None),
        ("no-cache", None),
        ("no-store", None),
    ];
    for (directives, _) in table {
        let answer = client.get(origin.request(&path(directives), "")).await;
        assert_eq!(answer.status(), 200, "{directives}");
    }
    assert!(!says_offline(&proxy).await);
    let asked = origin.requests().len();
    proxy.reload(is(Offline::On));
    for (directives, expected) in table {
        let answer = client.get(origin.request(&path(directives), "")).await;
        match expected {
            Some(status) => {
                assert_eq!((cache_status(&answer), answer.text()), (status, "stored"), "{directives}")
            }
            None => assert!(
                answer.status() == 504 && answer.reason().contains("offline"),
                "{directives}: {answer:?}"
            ),
        }
    }
    let stale = path("max-age=0");
    let with = |fields: &str| origin.request(&stale, fields);
    for (request, expected) in [
        // A client that wants nothing stale insists on it.
        (with("Cache-Control: no-cache\r\n"), 504),
        (with("Cache-Control: stale-if-error=0\r\n"), 504),
        (with("Cache-Control: only-if-cached\r\n"), 200),
        (with("If-None-Match: \"1\"\r\n"), 304),
        (with("Range: bytes=1-2\r\n"), 206),
        (origin.request("/other", ""), 504),
        (with("").replacen("GET", "POST", 1), 504),
    ] {
        assert_eq!(client.get(&request).await.status(), expected, "{request}");
    }
    let head = client.get_head(with("").replacen("GET", "HEAD", 1)).await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("detail=offline"), "{head}");
    let tunnel = format!("CONNECT {}:443 HTTP/1.1\r\nHost: a\r\n\r\n", origin.address.ip());
    assert!(proxy.exchange(tunnel).await.starts_with("HTTP/1.1 504 "));
    assert!(says_offline(&proxy).await);
    // What was purged softly may answer, and what was purged does not.
    let purge = |fields| origin.request(&path("max-age=600"), fields).replacen("GET", "PURGE", 1);
    assert_eq!(client.get(purge("Fastly-Soft-Purge: 1\r\n")).await.status(), 200);
    let softly = client.get(origin.request(&path("max-age=600"), "")).await;
    assert_eq!(cache_status(&softly), "cosm; hit; detail=offline");
    assert_eq!(client.get(purge("")).await.status(), 200);
    assert_eq!(client.get(origin.request(&path("max-age=600"), "")).await.status(), 504);
    assert_eq!(origin.requests().len(), asked, "{:?}", origin.requests());
    let other = told_of(&origin.address.to_string(), "/other", 1).await;
    assert_eq!((other[0].status, &other[0].hop), (Some(504), &None), "it was sent nowhere");
    proxy.reload(is(Offline::Off));
    let online = client.get(with("")).await;
    assert_eq!(cache_status(&online), "cosm; fwd=stale; stored");
}

/// Answers all over a Unix socket, which one can connect to or not.
fn listen(path: &Path) -> JoinHandle<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut client = Client::of(stream);
            tokio::spawn(async move {
                if client.head().await.is_some() {
                    let fields =
                        "Cache-Control: max-age=0, stale-if-error=0\r\nETag: \"1\"\r\nConnection: close\r\n";
                    client.send(ok(fields, "stored")).await;
                }
            });
        }
    })
}

#[tokio::test]
async fn while_the_uplink_seems_down_stale_responses_answer_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("origin");
    let origin = format!("http://unix:{}", socket.display());
    let proxy = Proxy::with(|settings| {
        with_admin(settings);
        (settings.origin, settings.offline) = (Some(origin.parse().unwrap()), Offline::Auto);
    });
    let get = async |client: &mut Client, path: &str| -> Message {
        client.get(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await
    };
    let mut client = proxy.client().await;
    let up = listen(&socket);
    assert_eq!(get(&mut client, "/").await.status(), 200);
    up.abort();
    let _ = up.await;
    // One that fails is not the uplink: the limit of stale-if-error holds.
    assert_eq!(get(&mut client, "/").await.status(), 502);
    soon(async {
        while get(&mut client, "/").await.status() == 502 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(says_offline(&proxy).await);
    let stale = get(&mut client, "/").await;
    assert_eq!((cache_status(&stale), stale.text()), ("cosm; hit; detail=offline", "stored"));
    // What nothing can answer is tried all the same.
    assert_eq!(get(&mut client, "/other").await.status(), 502);
    // Requests that are answered so find out that it is back.
    let _up = listen(&socket);
    soon(async {
        while get(&mut client, "/").await.field("cache-status").unwrap().contains("offline") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(!says_offline(&proxy).await);
}
