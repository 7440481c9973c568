//! What other policies and sizes are asked, and what is said of them.

mod support;

use policy::shadow::named;
use serde_json::Value;
use std::time::Duration;
use support::{Proxy, ok, origin_of, soon};

const STATS: &str = "GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn stats(proxy: &Proxy) -> Value {
    serde_json::from_slice(&proxy.admin(STATS).await.body).unwrap()
}

fn shadowing(settings: &mut proxy::Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
    settings.shadow = named(&["lru".into(), "s3-fifo".into()]).unwrap();
    settings.workers = 2;
    settings.bounds.memory_bytes = 1 << 20;
}

/// Once so many requests are counted; a response may be here before it is.
async fn counted(proxy: &Proxy, requests: u64) -> Value {
    let mut last = Value::Null;
    soon(async {
        loop {
            last = stats(proxy).await["shadow"].take();
            if last["requests"] == requests {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    last
}

#[tokio::test]
async fn requests_that_a_cache_could_answer_are_asked_of_others() {
    let origin = origin_of(|request, nth| match request.split(' ').nth(1).unwrap() {
        path if path.starts_with("/fresh") => ok("Cache-Control: max-age=60\r\n", "fresh"),
        "/changes" => ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", &"x".repeat(1 + nth % 2)),
        "/holds" if request.contains("if-none-match") => {
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".into()
        }
        "/holds" => ok("Cache-Control: max-age=0\r\nETag: \"1\"\r\n", "holds"),
        "/varies" => ok("Cache-Control: max-age=60\r\nVary: Accept\r\n", "varies"),
        _ => ok("Cache-Control: no-store\r\n", "other"),
    })
    .await;
    let proxy = Proxy::over(None, shadowing);
    for (path, fields, status) in [
        // Two misses, and two hits: of ten bytes each.
        ("/fresh1", "", 200),
        ("/fresh2", "", 200),
        ("/fresh1", "", 200),
        ("/fresh2", "", 200),
        // A miss, and one that is validated: a hit.
        ("/holds", "", 200),
        ("/holds", "", 200),
        // Two misses, of which the second finds what no longer holds.
        ("/changes", "", 200),
        ("/changes", "", 200),
        // Two variants: two misses and a hit.
        ("/varies", "Accept: a\r\n", 200),
        ("/varies", "Accept: b\r\n", 200),
        ("/varies", "Accept: a\r\n", 200),
        // No cache could answer, or it is not known what with.
        ("/other", "", 200),
        ("/fresh1", "Cache-Control: no-store\r\n", 200),
        ("/fresh1", "If-None-Match: *\r\n", 304),
        ("/fresh1", "Range: bytes=0-1\r\n", 206),
        ("/nowhere", "Host: b\r\n", 400),
    ] {
        let answer = proxy.client().await.get(&origin.request(path, fields)).await;
        assert_eq!(answer.status(), status, "{path} {fields}");
    }
    let shadow = counted(&proxy, 11).await;
    assert_eq!(shadow["hit-ratio"], 4.0 / 11.0);
    assert_eq!((&shadow["size"], &shadow["dropped"]), (&Value::from(1 << 20), &Value::from(0)));
    let curve = shadow["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 2 * 7);
    for (nth, point) in curve.iter().enumerate() {
        assert_eq!(point["policy"], ["lru", "s3-fifo"][nth / 7]);
        assert_eq!(point["size"], 1 << (17 + nth % 7));
        assert_eq!(
            (&point["hit-ratio"], &point["byte-hit-ratio"]),
            (&shadow["hit-ratio"], &shadow["byte-hit-ratio"])
        );
        assert_eq!(
            (&point["sampled"], &point["rate"], &point["full"]),
            (&11.into(), &1.0.into(), &false.into())
        );
        assert_eq!(point["since"], shadow["since"]);
    }
    let metrics = proxy.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.body;
    let line = format!("cosm_shadow_hit_ratio{{policy=\"s3-fifo\",size=\"1048576\"}} {}", 4.0 / 11.0);
    assert!(std::str::from_utf8(&metrics).unwrap().lines().any(|found| found == line));
}

/// A larger cache would have what this one lost.
#[tokio::test]
async fn a_larger_cache_has_more_hits() {
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", &"x".repeat(10_000))).await;
    let proxy = Proxy::over(None, shadowing);
    let mut client = proxy.client().await;
    for round in 0..3 {
        for nth in 0..200 {
            let answer = client.get(&origin.request(&format!("/{nth}"), "")).await;
            assert_eq!(answer.status(), 200, "{round}");
        }
    }
    let shadow = counted(&proxy, 600).await;
    let ratios: Vec<f64> = shadow["curve"].as_array().unwrap()[..7]
        .iter()
        .map(|point| point["hit-ratio"].as_f64().unwrap_or(0.0))
        .collect();
    // Two MB in turns: LRU of one MiB has no hit, of two and more all but the first.
    assert!(ratios[..4].iter().all(|ratio| *ratio == 0.0), "{ratios:?}");
    assert!(ratios[4..].iter().all(|ratio| (ratio - 2.0 / 3.0).abs() < 1e-9), "{ratios:?}");
}

#[tokio::test]
async fn nothing_is_said_where_nothing_is_asked() {
    let proxy = Proxy::over(None, |settings| settings.admin = Some("127.0.0.1:0".parse().unwrap()));
    assert_eq!(stats(&proxy).await["shadow"], Value::Null);
}
