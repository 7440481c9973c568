//! What is told of a request when its response has ended, what grows from that, and what Cache-Status says of the cache's own reasons.

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use store::{Options, Store};
use support::{Client, Origin, Proxy, cache_status, field, ok, origin_of, soon, told_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn open(path: &Path) -> Store {
    let options = Options {
        size: Some(64 << 20),
        object_max: Some(1 << 20),
        patience: std::time::Duration::from_secs(60),
        ..Options::at(path)
    };
    Store::open(&options).unwrap()
}

fn with_admin(settings: &mut proxy::Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

const STATS: &str = "GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn stats(proxy: &Proxy) -> Value {
    let answer = proxy.admin(STATS).await;
    assert_eq!((answer.status(), answer.field("content-type")), (200, Some("application/json")));
    serde_json::from_slice(&answer.body).unwrap()
}

/// What was counted, when it is this; a response may be here before it is counted.
async fn counted(proxy: &Proxy, expected: &[(&str, &str, u64)]) -> Value {
    let mut last = Value::Null;
    let all = async {
        loop {
            last = stats(proxy).await;
            if expected.iter().all(|(section, name, n)| last[section][name] == *n) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let met = tokio::time::timeout(support::SOON, all).await;
    assert!(met.is_ok(), "{expected:?} in {last:#}");
    last
}

#[tokio::test]
async fn requests_and_bytes_are_counted_by_what_came_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = origin_of(|request, _| match request.split(' ').nth(1).unwrap() {
        "/fresh" => ok("Cache-Control: max-age=60\r\n", "fresh"),
        "/large" => ok("Cache-Control: max-age=60\r\n", &"x".repeat(600_000)),
        "/stale" if request.contains("if-none-match") => {
            "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\n\r\n".into()
        }
        "/stale" => ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "stale"),
        _ => ok("", "other"),
    })
    .await;
    let proxy = Proxy::over(Some(store), |settings| {
        with_admin(settings);
        settings.workers = 2;
        settings.bounds.memory_object_bytes = 1000;
    });
    // Each on a connection of its own, so that both workers have some.
    let gone = "http://127.0.0.1:1/";
    for (request, status) in [
        (origin.request("/fresh", ""), 200),
        (origin.request("/fresh", ""), 200),
        (origin.request("/fresh", "If-None-Match: *\r\n"), 304),
        (origin.request("/large", ""), 200),
        (origin.request("/stale", ""), 200),
        (origin.request("/stale", ""), 200),
        (origin.request("/other", "Cache-Control: no-store\r\n"), 200),
        (origin.request("/other", "").replace("GET", "DELETE"), 200),
        (origin.request("/fresh", "Host: b\r\n"), 400),
        (format!("GET {gone} HTTP/1.1\r\nHost: a\r\n\r\n"), 502),
        ("CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n".into(), 403),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".into(), 204),
    ] {
        assert_eq!(proxy.client().await.get(&request).await.status(), status, "{request}");
    }
    // It is stored when all of it was written.
    counted(&proxy, &[("responses", "broken-off", 0), ("requests", "miss", 3)]).await;
    soon(async {
        while cache_status(&proxy.client().await.get(origin.request("/large", "")).await) != "cosm; hit" {}
    })
    .await;
    let found = counted(
        &proxy,
        &[
            ("requests", "hit-memory", 2),
            ("requests", "hit-disk", 1),
            ("requests", "revalidated", 1),
            ("requests", "pass-no-store", 1),
            ("requests", "pass-method", 1),
            ("requests", "refused-400", 1),
            ("requests", "refused-403", 1),
            ("requests", "refused-502", 1),
            ("requests", "own", 1),
            ("bytes", "hit-memory", 5),
            ("bytes", "hit-disk", 600_000),
            ("bytes", "revalidated", 5),
            ("responses", "broken-off", 0),
            ("connections", "open", 0),
            ("origin", "failed", 1),
        ],
    )
    .await;
    let sum = |array: &Value| array.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    for (section, name) in [("first-byte", "hit-memory"), ("first-byte", "hit-disk"), ("first-byte", "miss")]
    {
        assert_eq!(
            sum(&found[section][name]),
            found["requests"][name].as_u64().unwrap(),
            "{name}: {found:#}"
        );
    }
    assert_eq!(found["first-byte"]["miss"].as_array().unwrap().len(), 28);
    assert_eq!(found["origin"]["fetches"], origin.requests().len() as u64 + 1);
    assert!(
        found["origin"]["bytes"].as_u64() >= Some(600_020)
            && found["connections"]["accepted"].as_u64() >= Some(13)
    );
    assert!(found["store"]["objects"].as_u64() >= Some(3) && found["store"]["puts"].as_u64() >= Some(3));
    assert!(found["memory"]["objects"].as_u64() >= Some(2));
}

/// The value on the line that begins so.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn prometheus_is_told_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a \"cache\"");
    let origin = origin_of(|request, _| match request.contains("/fails") {
        true => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".into(),
        false => ok("Cache-Control: max-age=60\r\n", "fresh"),
    })
    .await;
    let proxy = Proxy::over(Some(open(&path)), |settings| {
        with_admin(settings);
        settings.workers = 2;
    });
    for path in ["/", "/", "/fails", "/"] {
        proxy.client().await.get(origin.request(path, "")).await;
    }
    let expected = [
        ("requests", "hit-memory", 2),
        ("requests", "miss", 2),
        ("responses", "2xx", 3),
        ("responses", "5xx", 1),
        ("origin", "server-errors", 1),
        ("connections", "open", 0),
    ];
    let found = counted(&proxy, &expected).await;
    let answer = proxy.admin(STATS.replace("/stats.json", "/metrics")).await;
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    let disk = path.display().to_string().replace('"', "\\\"");
    for (name, value) in [
        ("cosm_requests_total{outcome=\"hit-memory\"}", 2.0),
        ("cosm_sent_bytes_total{outcome=\"hit-memory\"}", 10.0),
        ("cosm_responses_total{status=\"5xx\"}", 1.0),
        ("cosm_origin_fetches_total", 2.0),
        ("cosm_origin_server_errors_total", 1.0),
        ("cosm_origin_first_byte_seconds_count", 2.0),
        ("cosm_first_byte_seconds_count{outcome=\"miss\"}", 2.0),
        ("cosm_first_byte_seconds_bucket{outcome=\"hit-memory\",le=\"+Inf\"}", 2.0),
        (&format!("cosm_disk_serves{{disk=\"{disk}\"}}"), 1.0),
        (&format!("cosm_store_size_bytes{{disk=\"{disk}\"}}"), (64 << 20) as f64),
        ("cosm_access_log_lost_lines_total", 0.0),
    ] {
        assert_eq!(metric(text, name), Some(value), "{name} in\n{text}");
    }
    let sum = found["first-byte"]["miss-sum"].as_u64().unwrap() as f64 / 1e9;
    assert_eq!(metric(text, "cosm_first_byte_seconds_sum{outcome=\"miss\"}"), Some(sum));
    assert!(sum > 0.0 && metric(text, "cosm_resident_memory_bytes") > Some(1e6));
    assert!(metric(text, "cosm_start_time_seconds") > Some(1.6e9));
    // Nothing is simulated here, and there are no certificates.
    let has_none = |name: &str| name == "shadow_hit_ratio" || name.starts_with("certificate_");
    for family in proxy::families().iter().filter(|family| !has_none(family.name)) {
        assert!(text.contains(&format!("# TYPE cosm_{} ", family.name)), "{}", family.name);
    }
}

/// Names of metrics that a text mentions.
fn named(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = text.match_indices("cosm_").filter(|(at, _)| !text[..*at].ends_with(is_part));
    begins.map(|(at, _)| text[at..].split(|c| !is_part(c)).next().unwrap_or_default()).collect()
}

#[test]
fn dashboard_and_alerts_name_what_there_is() {
    let dashboard = include_str!("../../../contrib/grafana/cosm.json");
    let rules = include_str!("../../../contrib/prometheus/cosm.rules.yml");
    let families = proxy::families();
    for name in named(dashboard).into_iter().chain(named(rules)) {
        let is_of = |family: &proxy::Family| {
            let rest = name.strip_prefix("cosm_").and_then(|name| name.strip_prefix(family.name));
            let of_histogram = ["_bucket", "_sum", "_count"].map(Some).contains(&rest);
            rest == Some("") && family.kind != proxy::Kind::Histogram
                || of_histogram && family.kind == proxy::Kind::Histogram
        };
        assert!(families.iter().any(is_of), "there is no {name}");
    }
    assert!(named(rules).len() > 15 && named(dashboard).len() > 30);
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: std::collections::HashSet<_> =
        panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert!(panel["title"].is_string() && panel["type"] == "timeseries", "{panel}");
        assert!(panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap() <= 24);
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}

#[tokio::test]
async fn the_numbers_are_for_the_operator() {
    let proxy = Proxy::with(with_admin);
    let found = stats(&proxy).await;
    for row in proxy::rows() {
        let is_there =
            found[row.section].get(row.name).is_some_and(|value| value.is_u64() || value.is_array());
        assert_eq!(is_there, row.section != "store", "{}.{}", row.section, row.name);
    }
    let head = STATS.replace("GET", "HEAD");
    let mut client = Client::connect(proxy.admin_address()).await;
    client.send(head).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    for (request, status) in [
        (STATS.replace("GET", "POST"), 405),
        (STATS.replace("\r\n\r\n", "\r\nVia: 1.1 a\r\n\r\n"), 403),
        (STATS.replace("\r\n\r\n", "\r\nOrigin: http://elsewhere\r\n\r\n"), 403),
    ] {
        assert_eq!(proxy.admin(&request).await.status(), status, "{request}");
    }
}

#[tokio::test]
async fn what_came_of_a_request_is_told_once() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "hello")).await;
    let (proxy, host) = (Proxy::forward(), origin.address.to_string());
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.get(origin.request("/a?b", "")).await;
    }
    client.send(origin.request("/a?b", "Connection: close\r\n").replace("GET", "HEAD")).await;
    assert!(client.rest().await.contains("200 OK"));
    let told = told_of(&host, "/a?b", 3).await;
    let (fetched, stored, head) = (&told[0], &told[1], &told[2]);
    assert_eq!((&*fetched.method, fetched.status, fetched.sent, fetched.whole), ("GET", Some(200), 5, true));
    assert_eq!((fetched.hop.as_deref(), stored.hop.as_deref()), (Some(&*host), None));
    assert_eq!((stored.status, stored.sent, stored.whole), (Some(200), 5, true));
    assert_eq!((&*head.method, head.sent, head.whole), ("HEAD", 0, true));
    assert!(told.iter().all(|told| told.client.address().unwrap().is_loopback()));
    assert!(told.iter().all(|told| told.times.0 <= told.times.1 && told.times.1 > Duration::ZERO));
    assert!(fetched.times.0 < fetched.times.1, "{fetched:?}");
}

#[tokio::test]
async fn responses_to_requests_that_come_at_once_are_told_each() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "hello")).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    client.send(origin.request("/", "").repeat(10)).await;
    for _ in 0..10 {
        assert_eq!(client.message().await.text(), "hello");
    }
    let told = told_of(&origin.address.to_string(), "/", 11).await;
    assert!(told.len() == 11 && told.iter().all(|told| told.whole && told.sent == 5));
}

#[tokio::test]
async fn a_response_that_broke_off_is_told_as_such() {
    const LENGTH: usize = 64 << 20;
    let origin = Origin::with(|mut client, _| async move {
        let head = client.head().await.unwrap();
        let cut = head.contains("/cut");
        let length = if cut { 100 } else { LENGTH };
        client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n12345")).await;
        while !cut && client.try_send(vec![0; 1 << 20]).await {}
    })
    .await;
    let (proxy, host) = (Proxy::with(with_admin), origin.address.to_string());
    // The origin breaks off.
    assert!(proxy.exchange(origin.request("/cut", "")).await.ends_with("12345"));
    let told = &told_of(&host, "/cut", 1).await[0];
    assert_eq!((told.status, told.sent, told.whole), (Some(200), 5, false));
    // The client leaves, with much of the body still to come.
    let mut client = proxy.client().await;
    client.send(origin.request("/left", "")).await;
    client.head().await.unwrap();
    drop(client);
    let told = &told_of(&host, "/left", 1).await[0];
    assert!(told.status == Some(200) && told.sent < LENGTH as u64 && !told.whole, "{told:?}");
    counted(&proxy, &[("responses", "broken-off", 2), ("requests", "miss", 2)]).await;
}

#[tokio::test]
async fn the_end_that_the_client_did_not_take_did_not_go_out() {
    // More than the kernel takes, in one piece: all of it is with the connection at once.
    let body = "x".repeat(16 << 20);
    let origin = Origin::answering(ok("Cache-Control: max-age=60\r\n", &body)).await;
    let (proxy, host) = (
        Proxy::with(|settings| {
            settings.bounds.memory_bytes = 4 << 30;
            settings.bounds.memory_object_bytes = 32 << 20;
        }),
        origin.address.to_string(),
    );
    assert_eq!(proxy.client().await.get(origin.request("/", "")).await.body.len(), body.len());
    let again = proxy.client().await.get(origin.request("/", "")).await;
    assert_eq!((cache_status(&again), again.body.len()), ("cosm; hit", body.len()));
    let mut client = Client::narrow(proxy.address).await;
    client.send(origin.request("/", "")).await;
    client.head().await.unwrap();
    drop(client);
    let told = told_of(&host, "/", 3).await;
    assert!(told[0].whole && told[1].whole && !told[2].whole, "{told:?}");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_is_told_too() {
    let origin = Origin::with(|mut client, seen| async move {
        let head = client.head().await.unwrap();
        seen.lock().unwrap().push(head);
        client.is_closed().await;
    })
    .await;
    let proxy = Proxy::with(with_admin);
    let mut client = proxy.client().await;
    client.send(origin.request("/", "")).await;
    soon(async {
        while origin.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    drop(client);
    let told = &told_of(&origin.address.to_string(), "/", 1).await[0];
    assert_eq!((told.status, told.sent, told.whole), (None, 0, false));
    counted(&proxy, &[("requests", "left", 1)]).await;
}

#[tokio::test]
async fn a_tunnel_is_told_when_it_has_ended() {
    let origin = Origin::with(|client, _| async move {
        let mut stream = client.into_stream();
        let mut ping = [0; 4];
        stream.read_exact(&mut ping).await.unwrap();
        stream.write_all(b"pong, and more").await.unwrap();
    })
    .await;
    let port = origin.address.port();
    let proxy = Proxy::with(|settings| {
        with_admin(settings);
        settings.connect_ports = vec![port];
    });
    let mut client = proxy.client().await;
    client.send(format!("CONNECT {} HTTP/1.1\r\nHost: a\r\n\r\n", origin.address)).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    client.send("ping").await;
    assert_eq!(client.exactly(14).await, b"pong, and more");
    let mut stream = client.into_stream();
    stream.shutdown().await.unwrap();
    let told = &told_of(&origin.address.to_string(), "", 1).await[0];
    assert_eq!((&*told.method, told.status, told.received, told.sent), ("CONNECT", Some(200), 4, 14));
    assert!(told.whole && told.hop.as_deref() == Some(&*origin.address.to_string()));
    counted(&proxy, &[("requests", "tunnel", 1), ("bytes", "tunnel", 14), ("connections", "open", 0)]).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_read_gets_a_reason_and_is_told() {
    for (request, status, reason) in [
        ("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "refused: it is not valid HTTP: invalid URI"),
        ("GET http://a/ HTTP/1.x\r\nHost: a\r\n\r\n", 400, "version"),
        ("GET http://a/ HTTP/2.0\r\nHost: a\r\n\r\n", 505, "other than 1.0 and 1.1"),
        ("G@T http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "method"),
        ("GET http://a/ HTTP/1.1\r\nHost: a\r\nA B: c\r\n\r\n", 400, "header"),
        ("GET http://a/ HTTP/1.1\nHost: a\n\n", 400, "a line feed without a carriage return"),
        ("\x16\x03\x01", 400, "not TLS"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2 is off"),
    ] {
        let proxy = Proxy::with(|settings| {
            with_admin(settings);
            settings.http2.on = false;
        });
        let mut client = proxy.client().await;
        client.send(request).await;
        let response = client.message().await;
        assert_eq!(response.status(), status, "{request:?}");
        assert!(response.text().contains(reason) && response.text().ends_with('\n'), "{response:?}");
        assert!(response.field("connection") == Some("close") && client.rest().await.is_empty());
        let class = if status == 400 { "refused-400" } else { "refused-other" };
        let sent = response.body.len() as u64;
        counted(&proxy, &[("requests", class, 1), ("bytes", class, sent), ("responses", "broken-off", 0)])
            .await;
    }
    let told = told_of("", "", 8).await;
    let others: Vec<_> = told.iter().filter(|told| told.status == Some(505)).collect();
    assert!(others.len() == 2 && others.iter().all(|told| told.method == "-" && told.whole), "{told:?}");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_comes_after_those_before_it() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "hello")).await;
    let proxy = Proxy::with(with_admin);
    let clean = origin.request("/", "");
    let response = proxy.exchange(format!("{clean}{clean}GET /a<b HTTP/1.1\r\n\r\n{clean}")).await;
    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 2, "{response}");
    assert!(response.contains("invalid URI\nrequest ") && response.matches("HTTP/1.1 400 ").count() == 1);
    counted(&proxy, &[("requests", "refused-400", 1), ("connections", "open", 0)]).await;
}

/// What is wrong with a later one is not said of it.
#[tokio::test]
async fn a_request_that_cannot_be_read_gets_its_own_reason() {
    let proxy = Proxy::forward();
    let response = proxy.exchange("GET /a<b HTTP/1.1\r\n\r\nGET / HTTP/2.0\r\n\r\n").await;
    assert!(
        response.starts_with("HTTP/1.1 400 ") && response.contains("invalid URI\nrequest "),
        "{response}"
    );
}

/// RFC 9110 section 2.5.
#[tokio::test]
async fn a_later_version_of_http_1_is_answered_as_1_1() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "hello")).await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    for version in ["1.2", "1.9", "1.1"] {
        let request = origin.request("/", "").replace("HTTP/1.1", &format!("HTTP/{version}"));
        // In pieces: the version is judged before its line has ended.
        for byte in request.as_bytes() {
            client.send([*byte]).await;
            tokio::task::yield_now().await;
        }
        let answer = client.message().await;
        assert!(answer.head.starts_with("HTTP/1.1 200 ") && answer.text() == "hello", "{}", answer.head);
    }
    let seen = origin.requests();
    assert!(seen.len() == 1 && field(&seen[0], "via").unwrap().starts_with("1.1 "), "{seen:?}");
}

/// Bytes go on, so that it does not end by itself.
#[tokio::test]
async fn a_tunnel_that_is_open_when_the_drain_ends_is_told() {
    let origin = Origin::with(|mut client, _| async move { while client.try_send("pong").await {} }).await;
    let port = origin.address.port();
    let proxy = Proxy::with(|settings| {
        settings.connect_ports = vec![port];
        settings.timeouts.drain = Duration::from_millis(20);
    });
    let mut client = proxy.client().await;
    client.send(format!("CONNECT {} HTTP/1.1\r\nHost: a\r\n\r\n", origin.address)).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.exactly(4).await, b"pong");
    let reading = tokio::spawn(async move { client.rest().await.len() });
    proxy.stop();
    proxy.ended().await;
    let told = &told_of(&origin.address.to_string(), "", 1).await[0];
    assert!(told.sent >= 4 && !told.whole, "{told:?}");
    assert!(soon(reading).await.unwrap() > 0);
}

/// Behind the client there is nobody to whom a response could go.
#[tokio::test]
async fn a_validation_behind_the_client_is_no_request() {
    let fields = "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"1\"\r\n";
    let origin = Origin::answering(ok(fields, "hello")).await;
    let proxy = Proxy::with(with_admin);
    let mut client = proxy.client().await;
    client.get(origin.request("/", "")).await;
    client.get(origin.request("/", "")).await;
    let expected = [("origin", "fetches", 2), ("requests", "miss", 1), ("requests", "hit-memory", 1)];
    let found = counted(&proxy, &expected).await;
    assert_eq!(found["requests"]["left"], 0);
    let told = told_of(&origin.address.to_string(), "/", 2).await;
    assert_eq!((told.len(), &told[1].hop), (2, &None));
}

#[tokio::test]
async fn what_is_not_stored_is_not_said_to_be_and_has_a_reason() {
    const FRESH: &str = "Cache-Control: max-age=60\r\n";
    let large = ok(FRESH, &"x".repeat(2 << 20));
    let unframed = format!("HTTP/1.1 200 OK\r\n{FRESH}Connection: close\r\n\r\nhello");
    let folder = tempfile::tempdir().unwrap();
    // The store takes a mebibyte.
    let on_disk = Proxy::over(Some(open(&folder.path().join("cache"))), |_| {});
    let told_less =
        Proxy::over(Some(open(&folder.path().join("other"))), |settings| settings.bounds.object_bytes = 9);
    let in_memory = Proxy::forward();
    let nowhere = Proxy::with(|settings| settings.bounds.memory_bytes = 0);
    for (proxy, response, reason) in [
        (&on_disk, &large, "too-large"),
        (&told_less, &large, "too-large"),
        (&told_less, &ok(FRESH, "0123456789"), "too-large"),
        (&in_memory, &large, "too-large"),
        (&in_memory, &unframed, "unframed"),
        (&nowhere, &ok(FRESH, "hello"), "no-room"),
    ] {
        let origin = Origin::answering(response.clone()).await;
        for _ in 0..2 {
            let answer = proxy.client().await.get(origin.request("/", "")).await;
            assert_eq!(cache_status(&answer), format!("cosm; fwd=uri-miss; detail={reason}"));
        }
    }
}

#[tokio::test]
async fn the_pseudonym_names_the_cache() {
    for (pseudonym, item) in [("edge-7", "edge-7"), ("007", "\"007\"")] {
        let origin = Origin::answering(ok("Cache-Control: max-age=60\r\n", "hello")).await;
        let proxy = Proxy::with(|settings| settings.pseudonym = pseudonym.into());
        let mut client = proxy.client().await;
        let answer = client.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&answer), format!("{item}; fwd=uri-miss; stored"));
        let answer = client.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&answer), format!("{item}; hit"));
        let answer = client.get(origin.request("/", "").replace("GET", "DELETE")).await;
        assert_eq!(cache_status(&answer), format!("{item}; fwd=method"));
    }
}
