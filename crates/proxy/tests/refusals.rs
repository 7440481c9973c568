//! What clients read where the proxy itself answers, and by which id a request is known to them, to origins and to the operator.

mod support;

use proxy::{Pages, Told};
use std::sync::Arc;
use support::{Origin, Proxy, field, ok, origin_of};

const HTML: &str = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n";

async fn gone() -> Origin {
    Origin::with(|mut client, _| async move { drop(client.head().await) }).await
}

/// Says in its page which id it was told.
async fn mirror() -> Origin {
    origin_of(|request, _| ok("", field(request, "x-request-id").unwrap_or("none"))).await
}

#[tokio::test]
async fn who_asks_for_html_reads_a_page_and_others_read_lines() {
    let origin = gone().await;
    let proxy = Proxy::reverse(&origin);
    let text = proxy.client().await.get(origin.request("/", "")).await;
    assert_eq!((text.status(), text.reason()), (502, "the origin cannot be reached"));
    assert_eq!(text.field("content-type"), Some("text/plain; charset=utf-8"));
    let page = proxy.client().await.get(origin.request("/", HTML)).await;
    assert_eq!((page.status(), page.field("content-type")), (502, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("<p>the origin cannot be reached</p>"), "{}", page.text());
    assert!(!page.text().contains(&origin.address.to_string()), "{}", page.text());
    assert_eq!(page.field("cache-control"), Some("no-store"));
    // What is refused before there is a target.
    let page = proxy.client().await.get(format!("GET http://[ HTTP/1.1\r\nHost: a\r\n{HTML}\r\n")).await;
    assert_eq!(page.status(), 400, "{page:?}");
    // Answers to HEAD have the length and no content.
    let mut client = proxy.client().await;
    client.send(format!("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{HTML}\r\n")).await;
    let head = client.rest().await;
    assert!(head.starts_with("HTTP/1.1 502 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn the_operators_pages_take_their_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("5xx.html"), "<h1>$status</h1><i>$id</i>").unwrap();
    std::fs::write(folder.path().join("error.txt"), "$status $reason: $message ($id)").unwrap();
    let pages = Arc::new(Pages::read(folder.path()).unwrap());
    let origin = gone().await;
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.pages = pages;
    });
    let page = proxy.client().await.get(origin.request("/", HTML)).await;
    assert!(page.text().starts_with("<h1>502</h1><i>") && page.text().ends_with("</i>"), "{}", page.text());
    assert_eq!(page.field("content-length"), Some(&*page.text().len().to_string()));
    let text = proxy.client().await.get(origin.request("/", "")).await;
    assert!(text.text().starts_with("502 Bad Gateway: the origin cannot be reached ("), "{}", text.text());
    // Also where the request could not be read.
    let text = proxy.exchange("GET /a<b HTTP/1.1\r\n\r\n").await;
    assert!(text.contains("400 Bad Request: ") && text.ends_with(")"), "{text}");
}

/// An origin's own errors are its own.
#[tokio::test]
async fn what_an_origin_says_itself_is_passed_on() {
    let origin = origin_of(|_, _| "HTTP/1.1 503 busy\r\nContent-Length: 4\r\n\r\nbusy".into()).await;
    let proxy = Proxy::reverse(&origin);
    let answer = proxy.client().await.get(origin.request("/", HTML)).await;
    assert_eq!((answer.status(), answer.text()), (503, "busy"));
}

#[tokio::test]
async fn an_origin_is_told_an_id_that_no_client_chooses() {
    let origin = mirror().await;
    let proxy = Proxy::reverse(&origin);
    let mut client = proxy.client().await;
    let mut ids = Vec::new();
    for fields in ["", "X-Request-ID: forged\r\n", "X-Request-ID: a\r\nX-Request-ID: b\r\n"] {
        let told = client.get(origin.request("/", fields)).await.text().to_owned();
        assert!(told.len() == 32 && told.bytes().all(|byte| byte.is_ascii_hexdigit()), "{told}");
        ids.push(told);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn that_of_a_trusted_proxy_is_taken_over() {
    let origin = mirror().await;
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.trust = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "X-Request-ID: edge-1\r\n")).await.text(), "edge-1");
    let long = format!("X-Request-ID: {}\r\n", "x".repeat(129));
    for unusable in ["X-Request-ID: two words\r\n", &long] {
        assert_eq!(client.get(origin.request("/", unusable)).await.text().len(), 32);
    }
    let refused = client.get("GET / HTTP/1.1\r\nHost: a:b\r\nX-Request-ID: edge-2\r\n\r\n").await;
    assert!(refused.status() == 400 && refused.text().ends_with("\nrequest edge-2\n"), "{refused:?}");
}

/// Nor is anything of a client's taken away there.
#[tokio::test]
async fn a_forward_proxy_tells_origins_none_unless_it_is_told_to() {
    let origin = mirror().await;
    let forward = Proxy::forward();
    let told = |proxy, fields| {
        let request = origin.request("/", fields);
        async move { Proxy::client(proxy).await.get(request).await.text().to_owned() }
    };
    assert_eq!(told(&forward, "").await, "none");
    assert_eq!(told(&forward, "X-Request-ID: own\r\n").await, "own");
    let tells = Proxy::with(|settings| settings.request_id = Told::On);
    assert_eq!(told(&tells, "").await.len(), 32);
    let silent = Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.request_id = Told::Off;
    });
    assert_eq!(told(&silent, "").await, "none");
}

/// Nor can it have it taken away, or share what an origin says to vary by it.
#[tokio::test]
async fn no_connection_field_and_no_vary_gets_around_the_id() {
    let origin = origin_of(|request, _| {
        let id = field(request, "x-request-id").unwrap_or("none");
        ok("Cache-Control: max-age=600\r\nVary: X-Request-ID\r\n", id)
    })
    .await;
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.bounds.memory_bytes = 1 << 20;
    });
    let mut client = proxy.client().await;
    let mut ids = Vec::new();
    for fields in ["", "", "Connection: x-request-id\r\n", "X-Request-ID: a\r\n", "X-Request-ID: a\r\n"] {
        let told = client.get(origin.request("/", fields)).await.text().to_owned();
        assert_eq!(told.len(), 32, "{fields}: {told}");
        ids.push(told);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each has its own");
}
