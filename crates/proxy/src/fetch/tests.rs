//! Fetches for the cache alone: no client, no connection but the origin's.

use super::*;
use crate::report::Exit;
use crate::settings::Settings;
use crate::tiers::stores::Stores;
use cache::{Miss, Outcome, Stale};
use http::{Request, Version};
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

/// An origin that answers one request after the other so, on one connection, and the heads that it saw.
fn origin(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = |answer: String| {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap()
        };
        answers.into_iter().map(answer).collect()
    };
    (url, thread::spawn(serve))
}

fn worker() -> Rc<Worker> {
    let settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
    let shared = crate::shared(settings, Stores::default(), |_| {});
    Worker::new(Arc::new(shared), Exit::new(Arc::default(), |_| {}))
}

/// Has the cache fetch a URL, if nothing stored answers it, and waits until it did. Why it had to, or how it would have answered.
async fn prefetch(worker: &Rc<Worker>, url: &str) -> Result<Outcome, Miss> {
    let request = || {
        let (mut parts, ()) = Request::get(url).body(()).unwrap().into_parts();
        // It names no host beside its URL's.
        parts.version = Version::HTTP_10;
        let target = Target::of(&parts, None).unwrap();
        let asked = Asked::of(&parts.method, &parts.headers);
        Presented::new(worker.clone(), target, parts, asked, None, Zone::Loopback)
    };
    let presented = request();
    let look = presented.look().await;
    let judged = presented.judge(&look).map(|(_, outcome)| outcome);
    if let Err(why) = judged {
        presented.behind(Want { look, why });
        while worker.pumps.get() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    judged
}

fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap().block_on(test)
}

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_url_is_fetched_for_the_cache_without_a_client() {
    let long = "long".repeat(100_000);
    for body in ["short", &long] {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let (url, origin) = origin(vec![early.to_owned() + &ok("Cache-Control: max-age=60", body)]);
        run(async {
            let worker = worker();
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
            assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit), "{} bytes", body.len());
        });
        let seen = origin.join().unwrap();
        assert!(seen.len() == 1 && !seen[0].to_lowercase().contains("forwarded"), "{seen:?}");
    }
}

#[test]
fn what_is_stale_is_validated_for_the_cache_without_a_client() {
    let renewed = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n";
    let (url, origin) = origin(vec![ok("Cache-Control: max-age=0", "body"), renewed.to_owned()]);
    run(async {
        let worker = worker();
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Stale(Stale::Expired)));
        assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit));
    });
    let seen = origin.join().unwrap();
    assert!(seen.len() == 2 && seen[1].contains("if-none-match: \"1\""), "{seen:?}");
}

/// A 304 answers a condition, which nothing can be asked by.
#[test]
fn what_has_no_validator_is_fetched_anew_and_a_304_says_nothing_of_it() {
    let ok = |control, body: &str| {
        format!("HTTP/1.1 200 OK\r\n{control}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let stale = ok("Cache-Control: max-age=60\r\nAge: 100", "stale");
    let unasked = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n".to_owned();
    let (url, origin) = origin(vec![stale, unasked, ok("Cache-Control: max-age=60", "fresh")]);
    run(async {
        let worker = worker();
        assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        for _ in 0..2 {
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Stale(Stale::Expired)));
        }
        assert_eq!(prefetch(&worker, &url).await, Ok(Outcome::Hit));
    });
    let seen = origin.join().unwrap();
    assert!(seen.len() == 3 && !seen.concat().contains("if-"), "{seen:?}");
}

/// It is known for a while that nobody could share it.
#[test]
fn what_may_not_be_kept_is_fetched_once_and_not_found() {
    let (url, origin) = origin(vec![ok("Cache-Control: private", "body")]);
    run(async {
        let worker = worker();
        for _ in 0..3 {
            assert_eq!(prefetch(&worker, &url).await, Err(Miss::Uri));
        }
    });
    assert_eq!(origin.join().unwrap().len(), 1);
}
