//! The operator's page and what it asks for.

mod support;

use proxy::Token;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use store::{Options, Store};
use support::{Message, Proxy, cache_status, ok, origin_of, soon};

const TOKEN: &str = "0123456789abcdef";

fn with_admin(settings: &mut proxy::Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

async fn get(proxy: &Proxy, path: &str) -> Message {
    proxy.admin(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
}

async fn json(proxy: &Proxy, path: &str) -> Value {
    let answer = get(proxy, path).await;
    assert_eq!((answer.status(), answer.field("content-type")), (200, Some("application/json")), "{path}");
    serde_json::from_slice(&answer.body).unwrap()
}

async fn object(proxy: &Proxy, url: &str, more: &str) -> Value {
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("url", url).finish();
    json(proxy, &format!("/object.json?{query}{more}")).await
}

#[tokio::test]
async fn the_page_is_files_that_load_nothing_from_elsewhere() {
    let proxy = Proxy::with(|settings| {
        with_admin(settings);
        settings.admin_token = Some(Arc::new(Token::new(TOKEN).unwrap()));
    });
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = get(&proxy, path).await;
        assert_eq!((answer.status(), answer.field("content-type")), (200, Some(content_type)));
        let policy = answer.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("referrer-policy"), Some("no-referrer"));
        let text = answer.text();
        for forbidden in [
            "https://",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "style=\"",
        ] {
            assert!(!text.contains(forbidden), "{path} has {forbidden}");
        }
    }
    // What it shows wants the token, and is no other site's either.
    for path in ["/stats.json", "/recent.json", "/history.json", "/state.json", "/object.json?url=http://a/"]
    {
        assert_eq!(get(&proxy, path).await.status(), 401, "{path}");
        let fields = format!("Host: a\r\nAuthorization: Bearer {TOKEN}\r\n");
        let answer = proxy.admin(format!("GET {path} HTTP/1.1\r\n{fields}\r\n")).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.field("content-security-policy").is_some());
        let foreign = proxy.admin(format!("GET {path} HTTP/1.1\r\n{fields}Origin: http://b\r\n\r\n")).await;
        assert_eq!(foreign.status(), 403, "{path}");
    }
}

#[tokio::test]
async fn a_search_tells_why_nothing_is_stored() {
    let origin = origin_of(|request, _| match request.split(' ').nth(1).unwrap() {
        "/private" => ok("Cache-Control: private\r\n", "private"),
        "/nothing?a" => ok("", "nothing"),
        _ => ok("Cache-Control: max-age=60\r\n", "fresh"),
    })
    .await;
    for hides_queries in [false, true] {
        let proxy = Proxy::with(|settings| {
            with_admin(settings);
            settings.hides_queries = hides_queries;
        });
        let mut client = proxy.client().await;
        for (path, fields) in [
            ("/private", ""),
            ("/nothing?a", ""),
            ("/passed", "Cache-Control: no-store\r\n"),
            ("/purged", ""),
        ] {
            assert_eq!(client.get(origin.request(path, fields)).await.status(), 200, "{path}");
        }
        assert_eq!(proxy.purge(&format!("url={}", origin.url("/purged"))).await.status(), 200);
        for (path, word, why) in [
            ("/private", Some("private"), "since it says private"),
            ("/nothing?a", Some("no-freshness"), "since it does not say how long it is fresh"),
            ("/passed", Some("pass-no-store"), "passed the cache (fwd=bypass; detail=no-store)"),
            ("/purged", None, "It has left since, or was removed"),
            ("/never", None, "nobody has asked for it of late"),
        ] {
            // It is noted when the response has gone.
            let count = if path == "/never" { 0 } else { 1 + usize::from(hides_queries) };
            support::told_of(&origin.address.to_string(), path, count).await;
            let told = object(&proxy, &origin.url(path), "").await;
            let said = (told["state"].as_str(), told["not-stored"].as_str());
            assert_eq!(said, (Some("not-stored"), word), "{path}: {told:#}");
            assert!(told["why"].as_str().unwrap().contains(why), "{path}: {told:#}");
        }
    }
}

#[tokio::test]
async fn a_search_tells_what_is_stored_and_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { size: Some(64 << 20), ..Options::at(folder.path().join("cache")) };
    let origin = origin_of(|request, _| match request.split(' ').nth(1).unwrap() {
        "/varies" => ok("Cache-Control: max-age=60\r\nVary: X-Kind\r\n", "varies"),
        "/checked" => ok("Cache-Control: no-cache\r\nETag: \"1\"\r\n", "checked"),
        "/large" => ok("Cache-Control: max-age=60\r\n", &"x".repeat(600_000)),
        "/alike?b=1" => ok("Cache-Control: max-age=60\r\nNo-Vary-Search: params=(\"utm\")\r\n", "alike"),
        _ => ok("Cache-Control: max-age=60\r\nX-Markup: <b>\r\n", "fresh"),
    })
    .await;
    let proxy = Proxy::over(Some(Store::open(&options).unwrap()), with_admin);
    let state = async |path: &str, more: &str| object(&proxy, &origin.url(path), more).await["state"].clone();
    assert_eq!(state("/fresh", "").await, "not-stored");
    let mut client = proxy.client().await;
    for (path, fields) in
        [("/fresh", ""), ("/varies", "X-Kind: a\r\n"), ("/checked", ""), ("/large", ""), ("/alike?b=1", "")]
    {
        assert_eq!(client.get(origin.request(path, fields)).await.status(), 200, "{path}");
    }
    soon(async { while state("/large", "").await != "fresh" {} }).await;
    let asked = origin.requests().len();
    let found = object(&proxy, &origin.url("/fresh"), "").await;
    assert_eq!(
        (&found["state"], &found["status"], &found["body-bytes"]),
        (&"fresh".into(), &200.into(), &5.into())
    );
    assert_eq!((&found["in-memory"], &found["varies-by"]), (&true.into(), &Value::Null));
    assert!(found["fresh-left"].as_u64() > Some(30) && found["age"].as_u64() < Some(30), "{found:#}");
    assert_eq!(found["on-disk"][0]["disk"], folder.path().join("cache").display().to_string());
    let fields = found["fields"].as_array().unwrap();
    assert!(fields.iter().any(|field| field[0] == "x-markup" && field[1] == "<b>"), "{found:#}");
    let large = object(&proxy, &origin.url("/large"), "").await;
    assert!(large["pieces"]["count"].as_u64() > Some(1) && large["pieces"]["missing"] == 0, "{large:#}");
    assert_eq!(state("/checked", "").await, "no-cache");
    assert_eq!(state("/varies", "").await, "no-such-variant");
    assert_eq!(state("/varies", "&field=x-kind:%20a").await, "fresh");
    assert_eq!(state("/fresh", "&field=cache-control:no-cache").await, "request");
    assert_eq!(state("/alike?utm=5&b=1", "").await, "fresh");
    assert_eq!(state("/alike?b=2", "").await, "not-stored");
    // Nobody was asked, and nothing was counted as used.
    let uses = found["on-disk"][0]["uses"].clone();
    for _ in 0..5 {
        assert_eq!(object(&proxy, &origin.url("/fresh"), "").await["on-disk"][0]["uses"], uses);
    }
    assert_eq!(origin.requests().len(), asked);
    let stats = json(&proxy, "/stats.json").await;
    assert_eq!((&stats["requests"]["miss"], &stats["requests"]["hit-memory"]), (&5.into(), &0.into()));
    // A purge by prefix ends it, and what was purged is not told of as if it answered.
    assert_eq!(proxy.purge(&format!("prefix={}", origin.url("/fresh"))).await.status(), 200);
    assert_eq!(state("/fresh", "").await, "purged");
    assert_eq!(proxy.purge(&format!("url={}", origin.url("/checked"))).await.status(), 200);
    assert_eq!(state("/checked", "").await, "not-stored");
}

#[tokio::test]
async fn what_is_stored_on_disk_alone_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { size: Some(64 << 20), ..Options::at(folder.path().join("cache")) };
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "fresh")).await;
    let proxy = Proxy::over(Some(Store::open(&options).unwrap()), |settings| {
        with_admin(settings);
        settings.bounds.memory_bytes = 0;
    });
    proxy.client().await.get(origin.request("/", "")).await;
    for written in [false, true] {
        if written {
            assert_eq!(
                proxy.purge("host=nobody.example").await.status(),
                200,
                "what was taken before is in the file"
            );
        }
        let found = object(&proxy, &origin.url("/"), "").await;
        assert_eq!((&found["state"], &found["in-memory"]), (&"fresh".into(), &false.into()), "{found:#}");
        assert_eq!(found["body-bytes"], 5);
    }
    assert_eq!(cache_status(&proxy.client().await.get(origin.request("/", "")).await), "cosm; hit");
}

#[tokio::test]
async fn what_cannot_be_searched_for_is_said_on_one_line() {
    let proxy = Proxy::with(with_admin);
    let many = "&field=a:b".repeat(40);
    for query in [
        "",
        "?url=",
        "?url=ftp://a/",
        "?url=%00",
        "?url=a%0ab",
        "?a%0ab",
        "?url=/path",
        "?url=http://a/&url=http://b/",
        "?url=http://a/&b=1",
        "?url=http://a/&field=x",
        "?url=http://a/&field=x%0a:y",
        "?url=http://a/&field=x:%0d%0ay",
        &format!("?url=http://a/{many}"),
    ] {
        let answer = get(&proxy, &format!("/object.json{query}")).await;
        assert_eq!((answer.status(), answer.text().lines().count()), (400, 1), "{query}: {}", answer.text());
    }
    let answer = proxy.admin("POST /object.json?url=http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(answer.status(), 405);
}

#[tokio::test]
async fn what_happened_of_late_is_told() {
    let origin = origin_of(|request, _| {
        if request.contains("/slow") {
            std::thread::sleep(Duration::from_millis(30));
        }
        match request.contains("/fails") {
            true => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".into(),
            false => ok("Cache-Control: max-age=60\r\n", "fresh"),
        }
    })
    .await;
    let proxy = Proxy::with(|settings| {
        with_admin(settings);
        settings.workers = 2;
        settings.hides_queries = true;
        settings.memory_parts = vec![("memory tier", 1 << 20), ("program", 5)];
    });
    let gone = "GET http://127.0.0.1:1/%3Cb%3E HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    let often = origin.request("/often?secret=1", "");
    for request in
        [&often, &often, &often, &origin.request("/slow", ""), &origin.request("/fails", ""), &gone]
    {
        proxy.client().await.get(request).await;
    }
    proxy.settled().await;
    let recent = json(&proxy, "/recent.json").await;
    let named = |list: &Value, name: &str| {
        list.as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    let host = origin.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let url = named(&recent["urls"]["most"], &format!("http://{host}/often?..."));
    assert_eq!(
        (&url["requests"], &url["hits"], &url["bytes"]),
        (&3.into(), &2.into(), &15.into()),
        "{recent:#}"
    );
    assert_eq!(named(&recent["hosts"]["most"], &host)["requests"], 5);
    let answered = named(&recent["origins"], &host);
    assert_eq!(
        (&answered["fetches"], &answered["failed"], &answered["server-errors"]),
        (&3.into(), &0.into(), &1.into())
    );
    let failed = named(&recent["origins"], "127.0.0.1:1");
    assert!(
        failed["failed"] == 1 && failed["cause"].as_str().unwrap().contains("cannot be reached"),
        "{failed}"
    );
    assert!(!recent.to_string().contains("secret"), "{recent:#}");
    let slowest = &recent["slowest"][0];
    assert_eq!(
        (&slowest["url"], &slowest["outcome"]),
        (&origin.url("/slow").into(), &"miss".into()),
        "{recent:#}"
    );
    assert!(
        slowest["first-microseconds"].as_u64() >= Some(30_000) && slowest["id"].as_str().unwrap().len() == 32
    );

    let history = json(&proxy, "/history.json").await;
    let group =
        |name: &str| history["groups"].as_array().unwrap().iter().position(|group| group == name).unwrap();
    for ring in ["minutes", "quarters"] {
        let sum = |section: &str, name: &str| {
            let bins = history[ring]["bins"].as_array().unwrap().iter();
            bins.filter_map(|bin| bin[section][group(name)].as_u64()).sum::<u64>()
        };
        assert_eq!(
            (sum("requests", "memory"), sum("requests", "miss"), sum("requests", "failed")),
            (2, 3, 1)
        );
        assert_eq!(sum("bytes", "memory"), 10);
    }
    let state = json(&proxy, "/state.json").await;
    assert_eq!((&state["disks"], &state["day"]), (&Value::Array(Vec::new()), &Value::Null));
    assert!(
        state["memory"][0]["taken"].as_u64() > Some(100) && state["memory"][1]["taken"].is_null(),
        "{state:#}"
    );
    assert_eq!(state["memory-clients"], Value::Array(Vec::new()), "{state:#}");
    let parts = &json(&proxy, "/stats.json").await["parts"];
    assert_eq!((&parts["memory-tier"], &parts["program"]), (&(1 << 20).into(), &5.into()), "{parts:#}");
    assert!(parts["memory-tier-used"].as_u64() > Some(100) && parts["index"] == 0, "{parts:#}");
}

#[tokio::test]
async fn the_log_is_drawn_with_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { size: Some(64 << 20), ..Options::at(folder.path().join("cache")) };
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", &"x".repeat(100_000))).await;
    let proxy = Proxy::over(Some(Store::open(&options).unwrap()), with_admin);
    for n in 0..30 {
        proxy.client().await.get(origin.request(&format!("/{n}"), "")).await;
    }
    let drawn = async || json(&proxy, "/state.json").await["disks"][0].clone();
    soon(async { while drawn().await["map"]["next"].as_u64() < Some(2) {} }).await;
    let disk = drawn().await;
    let cells = disk["map"]["cells"].as_array().unwrap();
    assert_eq!(cells.len() as u64, disk["map"]["segments"].as_u64().unwrap());
    assert!(cells[0][0] == 1.0 && cells[0][2].is_u64() && cells.last().unwrap()[0] == 0.0, "{disk}");
    assert!(disk["serves"] == true && disk["stats"]["objects"].as_u64() > Some(0), "{disk}");
}
