//! Requests that are the same question although they are written differently (No-Vary-Search), and those whose question
//! is in their content (QUERY).

mod support;

use std::sync::Arc;
use store::{Options, Store};
use support::{Origin, Proxy, cache_status, ok, origin_of};
use tokio::sync::Semaphore;

async fn searches(field: &'static str) -> Origin {
    origin_of(move |request, n| {
        let fields = format!("Cache-Control: max-age=600\r\nNo-Vary-Search: {field}\r\n");
        let target = request.split(' ').nth(1).unwrap();
        let status = ok(&fields, &format!("{target} {n}"));
        if request.starts_with("GET /plain") { ok("Cache-Control: max-age=600\r\n", "plain") } else { status }
    })
    .await
}

fn store(folder: &tempfile::TempDir) -> Store {
    Store::open(&Options {
        size: Some(64 << 20),
        patience: std::time::Duration::from_secs(60),
        ..Options::at(folder.path().join("cache"))
    })
    .unwrap()
}

#[tokio::test]
async fn searches_that_mean_the_same_share_a_response_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let origin = searches("key-order, params=(\"utm\")").await;
    let first = store(&folder);
    let proxy = Proxy::over(Some(first.clone()), |_| {});
    let mut client = proxy.client().await;
    let status = |response: &support::Message| cache_status(response).to_owned();
    assert_eq!(
        status(&client.get(origin.request("/s?a=1&b=2&utm=x", "")).await),
        "cosm; fwd=uri-miss; stored"
    );
    for same in ["/s?b=2&a=1", "/s?utm=y&a=1&b=2", "/s?a=%31&b=2"] {
        let hit = client.get(origin.request(same, "")).await;
        assert_eq!((hit.text(), &status(&hit)[..]), ("/s?a=1&b=2&utm=x 0", "cosm; hit"), "{same}");
    }
    for other in ["/s?a=2&b=1", "/s?a=1", "/s", "/S?a=1&b=2"] {
        assert_eq!(
            status(&client.get(origin.request(other, "")).await),
            "cosm; fwd=uri-miss; stored",
            "{other}"
        );
    }
    client.get(origin.request("/plain?a=1", "")).await;
    assert_ne!(status(&client.get(origin.request("/plain?a=1&utm=1", "")).await), "cosm; hit");
    drop(proxy);
    first.close();

    let again = store(&folder);
    let proxy = Proxy::over(Some(again.clone()), |_| {});
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/s?utm=z&b=2&a=1", "")).await.text(), "/s?a=1&b=2&utm=x 0");
    let post = origin.request("/s?a=1&b=2", "Content-Length: 0\r\n").replacen("GET", "POST", 1);
    client.get(post).await;
    let response = client.get(origin.request("/s?b=2&a=1", "")).await;
    assert_ne!(status(&response), "cosm; hit", "a POST to one of them ends them");
    drop(proxy);
    again.close();
}

#[tokio::test]
async fn a_response_that_was_stored_before_does_not_hide_its_search() {
    let origin = origin_of(|_, n| {
        let field = if n == 0 { "" } else { "No-Vary-Search: params\r\n" };
        ok(
            &format!("Cache-Control: max-age={}\r\nETag: \"{n}\"\r\n{field}", if n == 0 { 0 } else { 60 }),
            &n.to_string(),
        )
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for (path, body) in [("/s?a", "0"), ("/s?a", "1"), ("/s?a", "1"), ("/s?b", "1"), ("/s", "1")] {
        assert_eq!(client.get(origin.request(path, "")).await.text(), body, "{path}");
    }
}

#[tokio::test]
async fn simultaneous_searches_that_mean_the_same_become_one_fetch() {
    let gate = Arc::new(Semaphore::new(1));
    let wait = gate.clone();
    let slow = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                // The first one is stale when it comes.
                let age = if seen.lock().unwrap().is_empty() { "Age: 600\r\n" } else { "" };
                seen.lock().unwrap().push(head);
                wait.acquire().await.unwrap().forget();
                let fields = format!("{age}Cache-Control: max-age=600\r\nNo-Vary-Search: params\r\n");
                client.send(ok(&fields, "same")).await;
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    proxy.client().await.get(slow.request("/s?first", "")).await;
    let mut clients = Vec::new();
    for n in 0..10 {
        let mut client = proxy.client().await;
        client.send(slow.request(&format!("/s?{n}"), "")).await;
        clients.push(client);
    }
    slow.asked(2).await;
    proxy.settled().await;
    gate.add_permits(10);
    for client in &mut clients {
        assert_eq!(client.message().await.text(), "same");
    }
    assert_eq!(slow.requests().len(), 2);
}

fn query(origin: &Origin, path: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    origin.request(path, &format!("{fields}Content-Length: {length}\r\n")).replacen("GET", "QUERY", 1)
        + content
}

const JSON: &str = "Content-Type: application/json\r\n";

/// Answers with the request's content and a number.
async fn answers() -> Origin {
    origin_of(|request, n| {
        let content = request.split_once("\r\n\r\n").unwrap().1;
        if request.contains("If-None-Match") || request.contains("if-none-match") {
            return "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nCache-Control: max-age=60\r\n\r\n".into();
        }
        ok("Cache-Control: max-age=60\r\nETag: \"e\"\r\nAccept-Ranges: bytes\r\n", &format!("{content} {n}"))
    })
    .await
}

#[tokio::test]
async fn rfc10008_the_content_of_a_query_is_part_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let origin = answers().await;
    let first = store(&folder);
    let proxy = Proxy::over(Some(first.clone()), |_| {});
    let mut client = proxy.client().await;
    let miss = client.get(query(&origin, "/q", JSON, "one")).await;
    assert_eq!((miss.text(), cache_status(&miss)), ("one 0", "cosm; fwd=uri-miss; stored"));
    let chunked =
        origin.request("/q", &format!("{JSON}Transfer-Encoding: chunked\r\n")).replacen("GET", "QUERY", 1);
    for same in [query(&origin, "/q", JSON, "one"), chunked + "2\r\non\r\n1\r\ne\r\n0\r\n\r\n"] {
        let hit = client.get(same).await;
        assert_eq!((hit.text(), cache_status(&hit)), ("one 0", "cosm; hit"));
    }
    let part = client.get(query(&origin, "/q", &format!("{JSON}Range: bytes=0-2\r\n"), "one")).await;
    assert_eq!((part.status(), part.text()), (206, "one"));
    let unchanged = client.get(query(&origin, "/q", &format!("{JSON}If-None-Match: \"e\"\r\n"), "one")).await;
    assert_eq!(unchanged.status(), 304);
    for (other, body) in [
        (query(&origin, "/q", JSON, "two"), "two 1"),
        (query(&origin, "/q", "Content-Type: text/plain\r\n", "one"), "one 2"),
        (query(&origin, "/q?x", JSON, "one"), "one 3"),
        (origin.request("/q", ""), " 4"),
        (query(&origin, "/q", JSON, ""), " 5"),
    ] {
        assert_eq!(client.get(other).await.text(), body);
    }
    drop(proxy);
    first.close();

    let again = store(&folder);
    let proxy = Proxy::over(Some(again.clone()), |_| {});
    let mut client = proxy.client().await;
    assert_eq!(client.get(query(&origin, "/q", JSON, "two")).await.text(), "two 1", "after a restart");
    let stale = client.get(query(&origin, "/q", &format!("{JSON}Cache-Control: no-cache\r\n"), "two")).await;
    assert_eq!((stale.text(), stale.status()), ("two 1", 200), "validated");
    assert!(origin.requests().last().unwrap().ends_with("\r\n\r\ntwo"), "a validation carries the content");
    let put = origin.request("/q", "Content-Length: 0\r\n").replacen("GET", "PUT", 1);
    client.get(put).await;
    for (request, body) in
        [(query(&origin, "/q", JSON, "two"), "two 8"), (query(&origin, "/q", JSON, "one"), "one 9")]
    {
        assert_eq!(client.get(request).await.text(), body, "a PUT ends all answers of the URI");
    }
    drop(proxy);
    again.close();
}

#[tokio::test]
async fn a_query_with_more_content_than_a_key_takes_passes() {
    let origin = answers().await;
    let proxy = Proxy::with(|settings| settings.bounds.query_bytes = 1_000);
    let mut client = proxy.client().await;
    let large = "x".repeat(100_000);
    for n in 0..2 {
        let passed = client.get(query(&origin, "/q", JSON, &large)).await;
        assert_eq!(passed.text(), format!("{large} {n}"));
        assert_eq!(cache_status(&passed), "cosm; fwd=bypass; detail=content");
    }
    let head = origin.request("/q", "Transfer-Encoding: chunked\r\n").replacen("GET", "QUERY", 1);
    let chunks = "400\r\n".to_owned() + &"y".repeat(1024) + "\r\n1\r\nz\r\n0\r\n\r\n";
    let passed = client.get(head + &chunks).await;
    assert_eq!(passed.text(), format!("{}z 2", "y".repeat(1024)));
    // At the bound it is still cached.
    let exact = "e".repeat(1_000);
    for _ in 0..2 {
        assert_eq!(client.get(query(&origin, "/q", JSON, &exact)).await.text(), format!("{exact} 3"));
    }
}

#[tokio::test]
async fn a_query_whose_content_breaks_off_is_no_query() {
    let origin = answers().await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.send(query(&origin, "/q", JSON, "12345").strip_suffix("45").unwrap()).await;
    client.finish().await;
    client.rest().await;
    assert_eq!(origin.requests().len(), 0);
}
