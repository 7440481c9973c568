//! What the operator purges, and what groups of an origin's responses an unsafe request ends.

mod support;

use proxy::Settings;
use std::path::Path;
use std::sync::Arc;
use store::{Options, Store};
use support::{Client, Origin, Proxy, cache_status, ok, origin_of};
use tokio::sync::Semaphore;

fn open(path: &Path) -> Store {
    Store::open(&Options {
        size: Some(64 << 20),
        patience: std::time::Duration::from_secs(60),
        ..Options::at(path)
    })
    .unwrap()
}

fn with_admin(settings: &mut Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

/// `/n?groups` is in the groups that its query names; a POST ends those that its query names.
async fn origin() -> Origin {
    origin_of(|request, n| {
        let target = request.split(' ').nth(1).unwrap();
        let groups = target.split_once('?').map_or("", |(_, query)| query);
        let groups = groups.split('+').map(|g| format!("\"{g}\"")).collect::<Vec<_>>().join(", ");
        let field = if request.starts_with("POST") { "Cache-Group-Invalidation" } else { "Cache-Groups" };
        ok(&format!("Cache-Control: max-age=600\r\n{field}: {groups}\r\n"), &format!("{target} {n}"))
    })
    .await
}

async fn hits(client: &mut Client, origin: &Origin, path: &str) -> bool {
    let response = client.get(origin.request(path, "")).await;
    assert!(response.text().starts_with(path), "{}", response.text());
    cache_status(&response) == "cosm; hit"
}

const PATHS: [&str; 5] = ["/", "/a/1", "/a/2?one", "/b?one+two", "/ab?two"];

#[tokio::test]
async fn each_scope_purges_what_it_covers_also_after_a_restart() {
    let origin = origin().await;
    let escaped = |path: &str| origin.url(path).replace(':', "%3A").replace('?', "%3F");
    let table: [(String, &[&str]); 8] = [
        (format!("url={}", escaped("/a/2?one")), &["/a/2?one"]),
        (format!("prefix={}", escaped("/a")), &["/a/1", "/a/2?one", "/ab?two"]),
        (format!("prefix={}", escaped("/a/")), &["/a/1", "/a/2?one"]),
        ("group=one".into(), &["/a/2?one", "/b?one+two"]),
        ("tag=two&group=none".into(), &["/b?one+two", "/ab?two"]),
        ("host=127.0.0.1".into(), &PATHS),
        ("host=localhost&url=http://other/".into(), &[]),
        ("all".into(), &PATHS),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (number, (what, purged)) in table.iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let killed = folder.path().join("killed");
        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), with_admin);
        let mut client = proxy.client().await;
        for path in PATHS {
            assert!(!hits(&mut client, &origin, path).await && hits(&mut client, &origin, path).await);
        }
        let done = proxy.purge(what).await;
        assert_eq!(done.status(), 200, "{}", done.text());
        assert_eq!(done.text().lines().count(), what.split('&').count(), "{}", done.text());
        // The file as a kill leaves it at the moment of the answer.
        std::fs::copy(&path, &killed).unwrap();
        let after = Proxy::over(Some(open(&killed)), |_| {});
        let mut again = after.client().await;
        for path in PATHS {
            assert_eq!(hits(&mut client, &origin, path).await, !purged.contains(&path), "{what}: {path}");
            assert_eq!(
                hits(&mut again, &origin, path).await,
                !purged.contains(&path),
                "{what}, killed: {path}"
            );
            assert!(hits(&mut client, &origin, path).await && hits(&mut again, &origin, path).await);
        }
        drop((proxy, after));
        store.close();
        std::fs::remove_file(killed).unwrap();
    }
}

/// Bodies are the number of their request; the first one's second half comes when the test says so.
async fn halting() -> (Origin, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let wait = gate.clone();
    let origin = Origin::with(move |mut client, seen| {
        let wait = wait.clone();
        async move {
            while let Some(head) = client.head().await {
                let n = seen.lock().unwrap().len();
                seen.lock().unwrap().push(head);
                let fields = "Content-Length: 4\r\nCache-Control: max-age=600";
                client.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{n:02}")).await;
                if n == 0 {
                    wait.acquire().await.unwrap().forget();
                }
                client.send(format!("{n:02}")).await;
            }
        }
    })
    .await;
    (origin, gate)
}

#[tokio::test]
async fn what_is_fetched_while_it_is_purged_is_not_kept() {
    for scope in ["host=127.0.0.1", "url=", "all", "all&soft=1"] {
        // Also where another request brings something newer in before it ends.
        for overtaken in [false, true] {
            let (slow, gate) = halting().await;
            let folder = tempfile::tempdir().unwrap();
            let proxy = Proxy::over(Some(open(&folder.path().join("cache"))), with_admin);
            let (mut first, mut second) = (proxy.client().await, proxy.client().await);
            first.send(slow.request("/x", "")).await;
            let head = first.head().await.unwrap();
            let what = if scope == "url=" { format!("url={}", slow.url("/x")) } else { scope.into() };
            assert_eq!(proxy.purge(&what).await.status(), 200);
            if overtaken {
                // Asked for after the purge: not what was on its way before it.
                let newer = second.get(slow.request("/x", "")).await;
                assert_eq!(newer.text(), "0101", "{what}: read along");
            }
            gate.add_permits(1);
            assert_eq!(first.body(&head).await, b"0000");
            let after = second.get(slow.request("/x", "")).await;
            assert_eq!((after.text(), cache_status(&after) == "cosm; hit"), ("0101", overtaken), "{what}");
            let kept = second.get(slow.request("/x", "")).await;
            assert_eq!((kept.text(), cache_status(&kept)), ("0101", "cosm; hit"), "{what}");
            assert_eq!(slow.requests().len(), 2);
        }
    }
}

#[tokio::test]
async fn an_unsafe_request_ends_groups_of_its_own_origin() {
    let (origin, other) = (origin().await, origin().await);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let store = open(&path);
    let proxy = Proxy::over(Some(store.clone()), |_| {});
    let mut client = proxy.client().await;
    for origin in [&origin, &other] {
        for path in PATHS {
            hits(&mut client, origin, path).await;
        }
    }
    let post = origin.request("/c?one", "Content-Length: 0\r\n").replacen("GET", "POST", 1);
    assert_eq!(client.get(post).await.status(), 200);
    drop(proxy);
    store.close();
    let proxy = Proxy::over(Some(open(&path)), |_| {});
    let mut client = proxy.client().await;
    for path in PATHS {
        assert_eq!(hits(&mut client, &origin, path).await, !path.contains("one"), "{path}");
        assert!(hits(&mut client, &other, path).await, "another origin's {path}");
    }
}

#[tokio::test]
async fn the_operators_door_is_for_operators() {
    let origin = origin().await;
    let proxy = Proxy::with(with_admin);
    let purge = |fields: &str| format!("POST /purge?all HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n");
    let table = [
        ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 200),
        ("GET /purge?all HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 405),
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        (purge(""), 200),
        (purge("Origin: http://127.0.0.1\r\n"), 200),
        (purge("Origin: http://evil.example\r\n"), 403),
        (purge("Origin: null\r\n"), 403),
        (purge("Via: 1.1 cosm\r\n"), 403),
        (purge("Origin: http://evil.example\r\n").replace("127.0.0.1", "evil.example"), 403),
    ];
    for (request, status) in table {
        let answer = proxy.admin(&request).await;
        assert_eq!(answer.status(), status, "{request}{}", answer.text());
    }
    for wrong in [
        "",
        "ur=x",
        "url=",
        "url=nonsense",
        "url=ftp://h/",
        "url=/a",
        "host=h:80",
        "group=",
        "all=no",
        "url=http://h/&b=2",
        "prefix=http://h/pa*",
        "url=http://h/*",
        "host=*.h",
    ] {
        let answer = proxy.purge(wrong).await;
        assert_eq!((answer.status(), answer.text().lines().count()), (400, 1), "{wrong}: {}", answer.text());
    }
    assert_eq!(origin.requests().len(), 0);
}

#[tokio::test]
async fn a_reverse_proxy_purges_by_path() {
    let origin = origin().await;
    let proxy = Proxy::with(|settings| {
        with_admin(settings);
        settings.origin = Some(origin.url("").parse().unwrap());
    });
    let mut client = proxy.client().await;
    let request = "GET /x HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
    let glob = proxy.purge("prefix=/pa*").await;
    assert!(glob.status() == 400 && glob.text().contains("prefix=/pa purges all"), "{}", glob.text());
    for what in ["url=/x", "url=http://www.example.org/x", "prefix=/", "host=www.example.org", "all"] {
        client.get(request).await;
        assert_eq!(cache_status(&client.get(request).await), "cosm; hit");
        assert_eq!(proxy.purge(what).await.status(), 200, "{what}");
        assert_ne!(cache_status(&client.get(request).await), "cosm; hit", "{what}");
    }
    let get = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let table: [(&str, &[&str]); 4] = [
        ("url=/x/1%3Fq", &["a/x/1?q", "b/x/1?q"]),
        ("prefix=/x/", &["a/x/1?q", "b/x/1?q", "a/x/2", "b/x/2"]),
        ("url=http://a/x/2", &["a/x/2"]),
        ("prefix=http://b/x/", &["b/x/1?q", "b/x/2"]),
    ];
    let all = ["a/x/1?q", "b/x/1?q", "a/x/2", "b/x/2", "a/y", "b/y"];
    for (what, purged) in table {
        for text in all {
            client.get(get(&text[..1], &text[1..])).await;
        }
        assert_eq!(proxy.purge(what).await.status(), 200, "{what}");
        for text in all {
            let hit = cache_status(&client.get(get(&text[..1], &text[1..])).await) == "cosm; hit";
            assert_eq!(hit, !purged.contains(&text), "{what}: {text}");
        }
    }
}

/// Each answer has the number of its request, and may be served stale for a minute.
async fn stale_while_revalidating() -> Origin {
    origin_of(|request, n| {
        let field = "Cache-Control: max-age=600, stale-while-revalidate=60\r\nETag: \"1\"\r\n";
        match request.contains("if-none-match") {
            true => format!("HTTP/1.1 304 Not Modified\r\n{field}\r\n"),
            false => ok(field, &format!("{n}")),
        }
    })
    .await
}

#[tokio::test]
async fn what_is_purged_softly_is_stale_and_still_there_also_after_a_kill() {
    let origin = stale_while_revalidating().await;
    let folder = tempfile::tempdir().unwrap();
    for (number, what) in
        ["url=", "host=127.0.0.1", "expression=127.*/x*", "prefix=", "all"].iter().enumerate()
    {
        let what = if what.len() < 8 && *what != "all" {
            format!("{what}{}", origin.url("/x"))
        } else {
            (*what).into()
        };
        let (path, killed) = (folder.path().join(number.to_string()), folder.path().join("killed"));
        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), with_admin);
        let mut client = proxy.client().await;
        let request = origin.request("/x", "");
        client.get(&request).await;
        assert_eq!(cache_status(&client.get(&request).await), "cosm; hit");
        let done = proxy.purge(&format!("{what}&soft=1")).await;
        assert_eq!(done.status(), 200, "{}", done.text());
        assert!(done.text().starts_with("soft-purged "), "{}", done.text());
        std::fs::copy(&path, &killed).unwrap();
        let url = origin.url("/x").replace(':', "%3A");
        let told =
            proxy.admin(format!("GET /object.json?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert!(told.text().contains("\"state\": \"stale-while-revalidate\""), "{what}: {}", told.text());
        let after = Proxy::over(Some(open(&killed)), with_admin);
        let mut again = after.client().await;
        for client in [&mut client, &mut again] {
            let before = origin.requests().len();
            let stale = client.get(&request).await;
            assert!(
                cache_status(&stale).starts_with("cosm; hit; detail=stale-while-revalidate"),
                "{what}: {}",
                cache_status(&stale)
            );
            origin.asked(before + 1).await;
            assert!(origin.requests()[before].contains("if-none-match"), "{what}");
            // Validated, it is fresh: the purge is done with.
            support::soon(async { while cache_status(&client.get(&request).await) != "cosm; hit" {} }).await;
        }
        // No purge is made softer by one that comes after it.
        for next in [what.clone(), format!("{what}&soft=1")] {
            assert_eq!(proxy.purge(&next).await.status(), 200, "{next}");
        }
        assert!(cache_status(&client.get(&request).await).contains("fwd=uri-miss"), "{what}");
        drop((proxy, after));
        store.close();
        std::fs::remove_file(killed).unwrap();
    }
}

#[tokio::test]
async fn a_client_purges_softly_as_the_field_does() {
    let origin = stale_while_revalidating().await;
    let proxy = Proxy::with(|settings| settings.purge_from = proxy::Network::private());
    let mut client = proxy.client().await;
    let request = origin.request("/x", "");
    client.get(&request).await;
    let purge = origin.request("/x", "Fastly-Soft-Purge: 1\r\n").replacen("GET", "PURGE", 1);
    assert_eq!(client.get(&purge).await.status(), 200);
    let stale = client.get(&request).await;
    assert!(
        cache_status(&stale).starts_with("cosm; hit; detail=stale-while-revalidate"),
        "{}",
        cache_status(&stale)
    );
    assert_eq!(client.get(purge.replace("Purge: 1", "Purge: 0")).await.status(), 200);
    assert!(cache_status(&client.get(&request).await).contains("fwd=uri-miss"));
}

#[tokio::test]
async fn a_client_purges_softly_what_is_shared_by_several_queries() {
    let origin = origin_of(|_, _| {
        ok(
            "Cache-Control: max-age=600, stale-while-revalidate=60\r\nNo-Vary-Search: params=(\"utm\")\r\n",
            "alike",
        )
    })
    .await;
    let proxy = Proxy::with(|settings| settings.purge_from = proxy::Network::private());
    let mut client = proxy.client().await;
    client.get(origin.request("/x?utm=1", "")).await;
    assert_eq!(cache_status(&client.get(origin.request("/x?utm=2", "")).await), "cosm; hit");
    let purge = origin.request("/x?utm=3", "Fastly-Soft-Purge: 1\r\n").replacen("GET", "PURGE", 1);
    client.get(&purge).await;
    let stale = client.get(origin.request("/x?utm=2", "")).await;
    assert!(
        cache_status(&stale).starts_with("cosm; hit; detail=stale-while-revalidate"),
        "{}",
        cache_status(&stale)
    );
}

#[tokio::test]
async fn expressions_purge_hosts_and_paths_that_match() {
    let origin = origin().await;
    let table: [(&str, &[&str]); 5] = [
        ("expression=127.0.0.?/a/*", &["/a/1", "/a/2?one"]),
        ("expression=/*%3Fone", &["/a/2?one"]),
        ("expression=*/?*b*", &["/ab?two"]),
        ("expression=127.*", &PATHS),
        ("expression=*.example/*", &[]),
    ];
    let proxy = Proxy::with(with_admin);
    let mut client = proxy.client().await;
    for (what, purged) in table {
        for path in PATHS {
            hits(&mut client, &origin, path).await;
        }
        let done = proxy.purge(what).await;
        assert_eq!(done.status(), 200, "{}", done.text());
        for path in PATHS {
            assert_eq!(hits(&mut client, &origin, path).await, !purged.contains(&path), "{what}: {path}");
        }
    }
    // Whose port is not told apart from its beginning.
    let open = ["prefix=http://h", "prefix=http://h:80", "prefix=http://h?x"];
    for wrong in ["expression=", "expression=h:80/", "expression=h/%20", "all&soft=2", "soft=1&all&soft=0"]
        .into_iter()
        .chain(open)
    {
        let answer = proxy.purge(wrong).await;
        assert_eq!((answer.status(), answer.text().lines().count()), (400, 1), "{wrong}: {}", answer.text());
    }
}
