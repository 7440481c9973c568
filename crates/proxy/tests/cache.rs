//! Caching without a disk: what is stored, reused, validated, shared between simultaneous requests, and forgotten.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Origin, Proxy, cache_status, field, ok, origin_of, soon, told_of};
use tokio::sync::Semaphore;

const FRESH: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\r\nhello";

#[tokio::test]
async fn a_miss_then_hits() {
    let origin = Origin::answering(FRESH).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let miss = client.get(origin.request("/", "")).await;
    assert_eq!((miss.text(), cache_status(&miss)), ("hello", "cosm; fwd=uri-miss; stored"));
    assert_eq!(miss.field("age"), None);
    for _ in 0..20 {
        let hit = client.get(origin.request("/", "")).await;
        assert_eq!((hit.status(), hit.text(), cache_status(&hit)), (200, "hello", "cosm; hit"));
        assert_eq!(hit.field("via"), Some("1.1 cosm"));
        assert_eq!(hit.field("content-length"), Some("5"));
        assert!(hit.field("age").unwrap().parse::<u64>().unwrap() < 20);
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn a_chunked_response_is_stored_when_its_last_chunk_came() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let origin = origin_of(move |_, _| chunked.into()).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "")).await.text(), "hello");
    let hit = client.get(origin.request("/", "")).await;
    assert_eq!(
        (hit.text(), hit.field("content-length"), cache_status(&hit)),
        ("hello", Some("5"), "cosm; hit")
    );
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_is_not_stored() {
    for response in [
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\n\r\nhello",
    ] {
        let origin = Origin::answering(response).await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        for _ in 0..2 {
            let response = client.get(origin.request("/", "")).await;
            let said = (response.text(), cache_status(&response));
            assert_eq!(said, ("hello", "cosm; fwd=uri-miss; detail=unframed"));
        }
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_stored() {
    for start in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: max-age=60\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n5\r\nhello\r\n",
    ] {
        let origin = Origin::with(move |mut client, seen| async move {
            let head = client.head().await.unwrap();
            seen.lock().unwrap().push(head);
            client.send(start).await;
        })
        .await;
        let proxy = Proxy::forward();
        for _ in 0..3 {
            let response = proxy.exchange(origin.request("/", "")).await;
            assert!(response.contains("hello") && !response.ends_with("0\r\n\r\n"), "{response}");
        }
        assert_eq!(origin.requests().len(), 3);
    }
}

#[tokio::test]
async fn stored_responses_answer_conditions_ranges_and_head() {
    let origin = Origin::answering(FRESH).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    let same = client.get(origin.request("/", "If-None-Match: \"1\"\r\n")).await;
    assert_eq!((same.status(), same.field("etag"), cache_status(&same)), (304, Some("\"1\""), "cosm; hit"));
    let part = client.get(origin.request("/", "Range: bytes=1-2\r\n")).await;
    assert_eq!((part.status(), part.text(), part.field("content-range")), (206, "el", Some("bytes 1-2/5")));
    let tail = client.get(origin.request("/", "Range: bytes=-2\r\n")).await;
    assert_eq!((tail.status(), tail.text(), tail.field("content-range")), (206, "lo", Some("bytes 3-4/5")));
    let none = client.get(origin.request("/", "Range: bytes=9-\r\n")).await;
    assert_eq!((none.status(), none.field("content-range")), (416, Some("bytes */5")));
    client.send(origin.request("/", "").replace("GET", "HEAD")).await;
    let head = client.head().await.unwrap();
    assert_eq!(
        (field(&head, "content-length"), field(&head, "cache-status").map(support::without_ttl)),
        (Some("5"), Some("cosm; hit"))
    );
    assert_eq!(client.get(origin.request("/", "")).await.text(), "hello");
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn the_answer_to_a_post_that_says_so_answers_gets() {
    for (location, later) in [("/form", "cosm; hit"), ("/other", "cosm; fwd=uri-miss")] {
        let origin = origin_of(move |_, _| {
            ok(&format!("Cache-Control: max-age=60\r\nContent-Location: {location}\r\n"), "made")
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        let post = origin.request("/form", "Content-Length: 2\r\n").replace("GET", "POST") + "hi";
        let made = client.get(post).await;
        assert_eq!((made.status(), made.text()), (200, "made"));
        let got = client.get(origin.request("/form", "")).await;
        assert!(got.text() == "made" && cache_status(&got).starts_with(later), "{}", got.head);
    }
}

#[tokio::test]
async fn stale_responses_are_validated() {
    let origin = origin_of(|head, _| match field(head, "if-none-match") {
        Some("\"1\"") => {
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\nX-New: 1\r\n\r\n".into()
        }
        _ => ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello"),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    let validated = client.get(origin.request("/", "")).await;
    assert_eq!((validated.status(), validated.text()), (200, "hello"));
    assert_eq!(cache_status(&validated), "cosm; fwd=stale; fwd-status=304");
    assert_eq!(validated.field("x-new"), Some("1"));
    let hit = client.get(origin.request("/", "If-None-Match: \"1\"\r\n")).await;
    assert_eq!((hit.status(), cache_status(&hit)), (304, "cosm; hit"));
    assert_eq!(origin.requests().len(), 2);
    // The client's own no-cache validates again.
    let again = client.get(origin.request("/", "Cache-Control: no-cache\r\n")).await;
    assert!(cache_status(&again).starts_with("cosm; fwd=request; fwd-status=304"), "{}", again.head);
}

#[tokio::test]
async fn a_changed_response_replaces_the_stale_one() {
    let origin = origin_of(|_, n| {
        ok(&format!("Cache-Control: max-age={}\r\nETag: \"{n}\"\r\n", n * 60), &n.to_string())
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "")).await.text(), "0");
    let changed = client.get(origin.request("/", "")).await;
    assert_eq!((changed.text(), cache_status(&changed)), ("1", "cosm; fwd=stale; stored"));
    assert_eq!(client.get(origin.request("/", "")).await.text(), "1");
}

#[tokio::test]
async fn stale_answers_when_the_origin_is_out() {
    let origin = origin_of(|_, n| match n {
        0 => ok("Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"1\"\r\n", "hello"),
        _ => "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into(),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    let request = origin.request("/", "");
    let stale = client.get(&request).await;
    assert_eq!(
        (stale.text(), cache_status(&stale)),
        ("hello", "cosm; fwd=stale; detail=stale-on-error; fwd-status=503")
    );
    let of_head = request.replace("GET", "HEAD");
    let stale = client.get_head(&of_head).await;
    assert!(
        stale.starts_with("HTTP/1.1 200 ") && stale.contains("stale-on-error; fwd-status=503"),
        "{stale}"
    );
    origin.gone().await;
    let mut client = proxy.client().await;
    assert_eq!(client.get(&request).await.text(), "hello");
    let stale = client.get_head(&of_head).await;
    assert!(stale.starts_with("HTTP/1.1 200 ") && stale.contains("stale-on-error"), "{stale}");
}

#[tokio::test]
async fn an_error_of_the_origin_is_not_hidden_without_permission() {
    let origin = origin_of(|_, n| match n {
        0 => ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello"),
        _ => "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".into(),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    assert_eq!(client.get(origin.request("/", "")).await.status(), 503);
}

#[tokio::test]
async fn stale_responses_are_validated_behind_the_client() {
    let fields = "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"1\"\r\n";
    for changed in [false, true] {
        let origin = origin_of(move |head, n| match field(head, "if-none-match") {
            Some(_) if !changed => {
                "HTTP/1.1 304 x\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n".into()
            }
            Some(_) => ok("Cache-Control: max-age=60\r\n", &format!("version {n}")),
            None => ok(fields, &format!("version {n}")),
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        client.get(origin.request("/", "")).await;
        let stale = client.get(origin.request("/", "Range: bytes=0-3\r\n")).await;
        assert_eq!(
            (stale.text(), cache_status(&stale)),
            ("vers", "cosm; hit; detail=stale-while-revalidate")
        );
        soon(async {
            while origin.requests().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(field(&origin.requests()[1], "range"), None);
        let fresh = soon(async {
            loop {
                let fresh = client.get(origin.request("/", "")).await;
                if cache_status(&fresh) == "cosm; hit" {
                    break fresh;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(fresh.text(), if changed { "version 1" } else { "version 0" });
        assert_eq!(origin.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_response_is_found_by_all_who_like_its_language_best() {
    let origin = origin_of(|_, n| {
        ok(
            "Cache-Control: max-age=60\r\nVary: Accept-Language, X\r\nContent-Language: de\r\n",
            &format!("nummer {n}"),
        )
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for (fields, text, status) in [
        ("Accept-Language: en, de\r\n", "nummer 0", "cosm; fwd=uri-miss; stored"),
        ("Accept-Language: de, en\r\n", "nummer 0", "cosm; hit"),
        ("Accept-Language: fr;q=0.5, de\r\n", "nummer 0", "cosm; hit"),
        ("Accept-Language: fr, de;q=0.5\r\n", "nummer 1", "cosm; fwd=vary-miss; stored"),
        ("Accept-Language: de;q=0.9\r\nX: 1\r\n", "nummer 2", "cosm; fwd=vary-miss; stored"),
    ] {
        let response = client.get(origin.request("/", fields)).await;
        assert_eq!((response.text(), cache_status(&response)), (text, status), "{fields}");
    }
}

#[tokio::test]
async fn an_answer_to_head_updates_or_ends_what_is_stored() {
    for (fields, status, text) in [
        ("ETag: \"1\"\r\nContent-Length: 5\r\nX: new\r\n", "cosm; hit", "hello"),
        ("ETag: \"2\"\r\nContent-Length: 5\r\n", "cosm; fwd=uri-miss; stored", "other"),
        ("ETag: \"1\"\r\nContent-Length: 6\r\n", "cosm; fwd=uri-miss; stored", "other"),
    ] {
        let origin = origin_of(move |head, n| match n {
            0 => ok("Cache-Control: max-age=60\r\nETag: \"1\"\r\n", "hello"),
            _ if head.starts_with("HEAD") => {
                format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{fields}\r\n")
            }
            _ => ok("Cache-Control: max-age=60\r\n", "other"),
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        client.get(origin.request("/", "")).await;
        client.send(origin.request("/", "Cache-Control: no-cache\r\n").replace("GET", "HEAD")).await;
        let head = client.head().await.unwrap();
        assert_eq!(field(&head, "cache-status"), Some("cosm; fwd=request; detail=no-cache"));
        let after = client.get(origin.request("/", "")).await;
        assert_eq!((cache_status(&after), after.text()), (status, text), "{fields}");
        assert_eq!(after.field("x"), fields.contains("X: new").then_some("new"));
    }
}

#[tokio::test]
async fn several_ranges_are_answered_in_parts() {
    let origin =
        origin_of(|_, _| ok("Cache-Control: max-age=60\r\nContent-Type: text/a\r\n", "0123456789")).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    let parts = client.get(origin.request("/", "Range: bytes=7-8, 0-1,-1,99-\r\n")).await;
    assert_eq!((parts.status(), cache_status(&parts)), (206, "cosm; hit"));
    let boundary =
        parts.field("content-type").and_then(|t| t.strip_prefix("multipart/byteranges; boundary="));
    let boundary = boundary.unwrap();
    let expected: String = [("7-8", "78"), ("0-1", "01"), ("9-9", "9")]
        .map(|(range, text)| {
            format!(
                "\r\n--{boundary}\r\ncontent-type: text/a\r\ncontent-range: bytes {range}/10\r\n\r\n{text}"
            )
        })
        .concat();
    assert_eq!(parts.text(), format!("{expected}\r\n--{boundary}--\r\n"));
    for (range, status, text) in [
        ("0-1,99-", 206, "01"),
        ("90-,99-", 416, ""),
        ("0-5,3-7", 200, "0123456789"),
        (&"0-0,".repeat(20), 200, "0123456789"),
    ] {
        let answer = client.get(origin.request("/", &format!("Range: bytes={range}\r\n"))).await;
        assert_eq!((answer.status(), answer.text()), (status, text), "{range}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn only_if_cached_never_reaches_the_origin() {
    let origin = Origin::answering(FRESH).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let none = client.get(origin.request("/", "Cache-Control: only-if-cached\r\n")).await;
    assert_eq!((none.status(), none.field("cache-status")), (504, None));
    assert!(origin.requests().is_empty());
    client.get(origin.request("/", "")).await;
    assert_eq!(client.get(origin.request("/", "Cache-Control: only-if-cached\r\n")).await.text(), "hello");
}

#[tokio::test]
async fn variants_are_kept_apart_and_forgotten_together() {
    let origin = origin_of(|head, n| {
        if head.starts_with("POST") {
            return ok("", "done");
        }
        let language = field(head, "accept-language").unwrap_or("none").to_owned();
        ok("Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", &format!("{language} {n}"))
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let of = |language: &str| origin.request("/", &format!("Accept-Language: {language}\r\n"));
    assert_eq!(client.get(of("de")).await.text(), "de 0");
    let other = client.get(of("fr")).await;
    assert_eq!((other.text(), cache_status(&other)), ("fr 1", "cosm; fwd=vary-miss; stored"));
    assert_eq!(client.get(of("de")).await.text(), "de 0");
    assert_eq!(client.get(of("fr")).await.text(), "fr 1");
    let post = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", origin.url("/"));
    assert_eq!(cache_status(&client.get(post).await), "cosm; fwd=method");
    // One variant fetched anew does not bring back the other of before.
    assert_eq!(client.get(of("de")).await.text(), "de 3");
    assert_eq!(client.get(of("fr")).await.text(), "fr 4");
}

#[tokio::test]
async fn unsafe_methods_invalidate_unless_they_fail() {
    let origin = origin_of(|head, n| match head {
        head if head.starts_with("DELETE") => "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".into(),
        head if head.starts_with("PUT") => {
            "HTTP/1.1 201 x\r\nContent-Length: 0\r\nLocation: /b\r\n\r\n".into()
        }
        _ => ok("Cache-Control: max-age=60\r\n", &n.to_string()),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/a", "")).await.text(), "0");
    assert_eq!(client.get(origin.request("/b", "")).await.text(), "1");
    client.get(origin.request("/a", "").replace("GET", "DELETE")).await;
    assert_eq!(client.get(origin.request("/a", "")).await.text(), "0");
    client.get(origin.request("/a", "").replace("GET", "PUT")).await;
    assert_eq!(client.get(origin.request("/a", "")).await.text(), "4");
    assert_eq!(client.get(origin.request("/b", "")).await.text(), "5");
}

/// An origin that sends a head and half of a body, and the rest when it is allowed to.
async fn halting(fields: &'static str, length: usize) -> (Origin, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head);
                client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n")).await;
                client.send(vec![b'a'; length / 2]).await;
                wait.acquire().await.unwrap().forget();
                client.send(vec![b'b'; length - length / 2]).await;
            }
        }
    })
    .await;
    (origin, gate)
}

#[tokio::test]
async fn simultaneous_misses_share_one_fetch_as_it_arrives() {
    for workers in [1, 3] {
        let (origin, gate) = halting("Cache-Control: max-age=60\r\n", 1000).await;
        let proxy = Proxy::with(|settings| settings.workers = workers);
        let mut clients = Vec::new();
        for _ in 0..12 {
            let mut client = proxy.client().await;
            client.send(origin.request("/", "")).await;
            // Everybody has the first half before the second one exists.
            let head = client.head().await.unwrap();
            assert_eq!(client.exactly(500).await, [b'a'; 500]);
            clients.push((client, head));
        }
        gate.add_permits(1);
        let mut collapsed = 0;
        for (client, head) in &mut clients {
            assert_eq!(client.exactly(500).await, [b'b'; 500]);
            collapsed += usize::from(field(head, "cache-status") == Some("cosm; fwd=uri-miss; collapsed"));
        }
        assert_eq!(collapsed, 11);
        let hit = clients[0].0.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&hit), "cosm; hit");
        assert_eq!(origin.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_is_not_storable_is_not_waited_for_twice() {
    let (origin, gate) = halting("Cache-Control: no-store\r\n", 10).await;
    let proxy = Proxy::forward();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        clients.push(client);
    }
    for client in &mut clients {
        let head = client.head().await.unwrap();
        // Who came while the first one fetched has waited in vain.
        let status = field(&head, "cache-status").unwrap().replace("; collapsed=?0", "");
        assert_eq!(status, "cosm; fwd=uri-miss; detail=no-store");
        client.exactly(5).await;
    }
    gate.add_permits(4);
    for client in &mut clients {
        client.exactly(5).await;
    }
    assert_eq!(origin.requests().len(), 4);
}

#[tokio::test]
async fn followers_break_off_with_the_origin() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            let head = client.head().await.unwrap();
            seen.lock().unwrap().push(head);
            let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: max-age=60\r\n\r\nhello";
            client.send(half).await;
            wait.acquire().await.unwrap().forget();
        }
    })
    .await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        client.head().await.unwrap();
        assert_eq!(client.exactly(5).await, b"hello");
        clients.push(client);
    }
    gate.add_permits(1);
    for client in &mut clients {
        assert_eq!(client.rest().await, "");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn a_leader_that_leaves_is_succeeded() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head);
                wait.acquire().await.unwrap().forget();
                client.send(FRESH).await;
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    let mut leader = proxy.client().await;
    leader.send(origin.request("/", "")).await;
    origin.asked(1).await;
    let mut follower = proxy.client().await;
    follower.send(origin.request("/", "")).await;
    proxy.settled().await;
    assert_eq!(origin.requests().len(), 1, "it follows");
    drop(leader);
    gate.add_permits(10);
    assert_eq!(soon(follower.message()).await.text(), "hello");
}

#[tokio::test]
async fn an_abandoned_body_is_finished_when_little_is_left() {
    let (origin, gate) = halting("Cache-Control: max-age=60\r\n", 1000).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.send(origin.request("/", "")).await;
    client.head().await.unwrap();
    drop(client);
    let told = told_of(&origin.address.to_string(), "/", 1).await;
    assert!(!told[0].whole, "the client has left");
    gate.add_permits(1);
    let mut client = proxy.client().await;
    let stored = origin.request("/", "Cache-Control: only-if-cached\r\n");
    soon(async { while client.get(&stored).await.status() == 504 {} }).await;
    assert_eq!(cache_status(&client.get(origin.request("/", "")).await), "cosm; hit");
}

#[tokio::test]
async fn a_change_during_a_fetch_keeps_the_old_out() {
    let (origin, gate) = halting("Cache-Control: max-age=60\r\n", 1000).await;
    let proxy = Proxy::forward();
    let mut reader = proxy.client().await;
    reader.send(origin.request("/", "")).await;
    let head = reader.head().await.unwrap();
    let mut writer = proxy.client().await;
    writer.send(origin.request("/", "Content-Length: 0\r\n").replace("GET", "POST")).await;
    writer.head().await.unwrap();
    gate.add_permits(3);
    assert_eq!(reader.body(&head).await.len(), 1000);
    let after = reader.get(origin.request("/", "")).await;
    assert!(cache_status(&after).starts_with("cosm; fwd=uri-miss"), "{}", after.head);
}

#[tokio::test]
async fn a_slow_reader_holds_back_a_fill_that_is_not_kept() {
    const TOTAL: usize = 32 << 20;
    let gate = Arc::new(Semaphore::new(0));
    let (wait, left) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let count = left.clone();
    let origin = Origin::with(move |mut client, seen| {
        let (wait, count) = (wait.clone(), count.clone());
        async move {
            let head = client.head().await.unwrap();
            seen.lock().unwrap().push(head);
            let fields = "Transfer-Encoding: chunked\r\nCache-Control: max-age=60";
            client.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).await;
            wait.acquire().await.unwrap().forget();
            let piece = [b"10000\r\n".to_vec(), vec![b'x'; 64 << 10], b"\r\n".to_vec()].concat();
            for _ in 0..TOTAL / (64 << 10) {
                client.send(&piece).await;
                count.fetch_add(64 << 10, Ordering::SeqCst);
            }
            client.send("0\r\n\r\n").await;
        }
    })
    .await;
    let proxy = Proxy::with(|settings| {
        settings.bounds.window_bytes = 128 << 10;
        settings.workers = 2;
    });
    let (mut slow, mut quick) = (proxy.client().await, proxy.client().await);
    for client in [&mut slow, &mut quick] {
        client.send(origin.request("/", "")).await;
        client.head().await.unwrap();
    }
    gate.add_permits(1);
    let chunked = "HTTP/1.1\r\nTransfer-Encoding: chunked";
    let reading = tokio::spawn(async move { quick.body(chunked).await.len() });
    // Well within the second after which it would be cut off.
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Mostly the kernel's socket buffers.
    let sent = left.load(Ordering::SeqCst);
    assert!(sent < TOTAL / 2, "{sent} bytes left the origin while one reader slept");
    assert_eq!(slow.body(chunked).await.len(), TOTAL);
    assert_eq!(soon(reading).await.unwrap(), TOTAL);
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn the_client_s_own_conditions_reach_the_origin_on_a_miss() {
    let origin = origin_of(|head, _| match field(head, "if-none-match") {
        Some(_) => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".into(),
        None => FRESH.into(),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "If-None-Match: \"1\"\r\n")).await.status(), 304);
    let miss = client.get(origin.request("/", "")).await;
    assert_eq!((miss.status(), cache_status(&miss)), (200, "cosm; fwd=uri-miss; stored"));
}

#[tokio::test]
async fn simultaneous_requests_for_different_variants_do_not_mix() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                let language = field(&head, "accept-language").unwrap().to_owned();
                seen.lock().unwrap().push(head);
                wait.acquire().await.unwrap().forget();
                client.send(ok("Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", &language)).await;
            }
        }
    })
    .await;
    let proxy = Proxy::with(|settings| settings.workers = 2);
    let mut clients = Vec::new();
    for n in 0..8 {
        let language = if n % 2 == 0 { "de" } else { "fr" };
        let mut client = proxy.client().await;
        client.send(origin.request("/", &format!("Accept-Language: {language}\r\n"))).await;
        clients.push((client, language));
    }
    origin.asked(1).await;
    proxy.settled().await;
    assert_eq!(origin.requests().len(), 1);
    gate.add_permits(20);
    for (client, language) in &mut clients {
        assert_eq!(client.message().await.text(), *language);
    }
    assert_eq!(origin.requests().len(), 2, "one fetch for each variant");
}

#[tokio::test]
async fn simultaneous_validations_share_one_304() {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                let validates = field(&head, "if-none-match").is_some();
                seen.lock().unwrap().push(head);
                if validates {
                    wait.acquire().await.unwrap().forget();
                    client.send("HTTP/1.1 304 x\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n").await;
                } else {
                    client.send(ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "hello")).await;
                }
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    proxy.client().await.get(origin.request("/", "")).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = proxy.client().await;
        client.send(origin.request("/", "")).await;
        clients.push(client);
    }
    origin.asked(2).await;
    proxy.settled().await;
    gate.add_permits(20);
    for client in &mut clients {
        assert_eq!(client.message().await.text(), "hello");
    }
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn rfc9211_what_the_cache_says_of_itself() {
    let origin = origin_of(|_, n| match n {
        0 => ok("Cache-Control: max-age=1, stale-if-error=60\r\nCache-Status: far; hit\r\n", "x"),
        _ => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into(),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    let status = |response: &support::Message| response.field("cache-status").unwrap_or_default().to_owned();
    let lines = client.get(origin.request("/", "")).await.head.to_lowercase();
    assert!(lines.contains("cache-status: far; hit\r\ncache-status: cosm; fwd=uri-miss; stored"), "{lines}");
    let hit = status(&client.get(origin.request("/", "")).await);
    assert!(["far; hit, cosm; hit; ttl=1", "far; hit, cosm; hit; ttl=0"].contains(&&hit[..]), "{hit}");
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let stale = status(&client.get(origin.request("/", "")).await);
    let expected = "far; hit, cosm; fwd=stale; detail=stale-on-error; fwd-status=503; ttl=-";
    assert!(stale.starts_with(expected), "{stale}");
    let none = client.get(origin.request("/nothing", "Cache-Control: only-if-cached\r\n")).await;
    assert_eq!((none.status(), none.field("cache-status")), (504, None));
}

#[tokio::test]
async fn a_head_says_that_what_was_gone_is_back() {
    let origin = origin_of(|request, _| match request.starts_with("HEAD") {
        true => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\n".into(),
        false => "HTTP/1.1 404 Gone\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\ngone".into(),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    assert_eq!(cache_status(&client.get(origin.request("/", "")).await), "cosm; hit");
    client.send(origin.request("/", "Cache-Control: no-cache\r\n").replacen("GET", "HEAD", 1)).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(cache_status(&client.get(origin.request("/", "")).await), "cosm; fwd=uri-miss; stored");
}

/// RFC 9110 sections 15.3.7 and 15.4.5.
#[tokio::test]
async fn a_304_to_a_head_that_had_no_condition_is_no_response() {
    let origin = Origin::answering("HTTP/1.1 304 x\r\nETag: \"1\"\r\n\r\n").await;
    let proxy = Proxy::forward();
    for (condition, status) in [("", "502"), ("If-None-Match: \"1\"\r\n", "304")] {
        let request = origin.request("/", condition).replacen("GET", "HEAD", 1);
        let mut client = proxy.client().await;
        client.send(request).await;
        let head = client.head().await.unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }
}

#[tokio::test]
async fn a_304_or_206_that_nobody_asked_for_is_no_response() {
    const PART: &str = "HTTP/1.1 206 x\r\nContent-Range: bytes 0-0/5\r\nCache-Control: max-age=60\r\n\
                        Content-Length: 1\r\n\r\nh";
    for (unasked, words) in [
        ("HTTP/1.1 304 x\r\nCache-Control: max-age=60\r\n\r\n", "304 to a request without a condition"),
        ("HTTP/1.1 304 x\r\nETag: \"1\"\r\n\r\n", "304 to a request without a condition"),
        (PART, "206 to a request without a range"),
    ] {
        // Nothing is stored; or what has no validator, and may stand in or not.
        for (control, stands_in) in
            [(None, false), (Some("max-age=60"), true), (Some("max-age=60, must-revalidate"), false)]
        {
            let before = usize::from(control.is_some());
            let origin = origin_of(move |_, n| match control {
                Some(control) if n == 0 => ok(&format!("Cache-Control: {control}\r\nAge: 100\r\n"), "first"),
                _ if n == before => unasked.into(),
                _ => FRESH.into(),
            })
            .await;
            let proxy = Proxy::forward();
            let mut client = proxy.client().await;
            // Its own copy is not what the cache validates.
            let own = if before > 0 { "If-None-Match: \"own\"\r\nRange: bytes=0-0\r\n" } else { "" };
            if before > 0 {
                assert_eq!(client.get(origin.request("/", "")).await.text(), "first");
            }
            let answer = client.get(origin.request("/", own)).await;
            match stands_in {
                true => assert_eq!((answer.status(), answer.text()), (206, "f")),
                false => assert!(answer.status() == 502 && answer.reason().ends_with(words), "{answer:?}"),
            }
            let seen = &origin.requests()[before];
            assert!(field(seen, "if-none-match").is_none() && field(seen, "range").is_none(), "{seen}");
            for status in ["cosm; fwd=", "cosm; hit"] {
                let later = client.get(origin.request("/", "")).await;
                assert!(later.text() == "hello" && cache_status(&later).starts_with(status), "{later:?}");
            }
        }
    }
}
