//! What some functions cost a request. Prints nanoseconds, asserts nothing:
//!
//! `cargo test -p cache --release --test cost -- --ignored --nocapture`

mod common;

use cache::{Asked, Outcome, Report, Vary, judge, key};
use common::*;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 200_000;

/// The best of several runs, since what disturbs a run only makes it longer.
fn cost(what: &str, mut work: impl FnMut()) {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    let best = (0..7).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min);
    println!("{best:>8.0} ns  {what}");
}

#[test]
#[ignore = "a measurement"]
fn of_a_variants_key() {
    let primary = b"GET http://www.example.com/assets/application.css?v=20250615";
    let browser: Fields = &[
        ("host", "www.example.com"),
        ("connection", "keep-alive"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
        ("accept-language", "de-AT,de;q=0.9,en-GB;q=0.8,en;q=0.7,fr;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
    ];
    let request = fields(browser);
    for names in [
        "x-absent",
        "accept-encoding",
        "accept-language",
        "accept-encoding, accept-language",
        "accept",
        "user-agent",
    ] {
        let vary = Vary::of(&fields(&[("vary", names)])).unwrap().unwrap();
        cost(&format!("key, Vary: {names}"), || {
            drop(black_box(key::variant(primary, &vary, black_box(&request))))
        });
    }
    cost("preferred language", || drop(black_box(cache::preferred_language(black_box(&request)))));
}

#[test]
#[ignore = "a measurement"]
fn of_a_hit() {
    let head = head(&[("cache-control", "max-age=3600"), ("etag", "\"a\"")]);
    let request = fields(&[("host", "www.example.com"), ("accept", "*/*"), ("cache-control", "max-age=9")]);
    cost("reading a request", || _ = black_box(Asked::of(&http::Method::GET, black_box(&request))));
    let asked = get(&[]);
    cost("judging", || _ = black_box(judge(&asked, black_box(&head), NOW)));
    let plain = Report::from(Outcome::Hit);
    cost("Cache-Status", || drop(black_box(black_box(plain).value())));
    cost("Cache-Status with ttl", || {
        let report = Report { ttl: Some(black_box(&head).ttl(NOW + 7)), ..plain };
        drop(black_box(report.value()));
    });
}
