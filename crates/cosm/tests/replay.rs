//! A day of real browsing through the running program: every byte of every answer is compared. With all admitted, as many requests
//! hit as in a plain in-memory model of the log, and more where it is judged what is worth its place.

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use support::client::Client;
use support::content;
use support::model::Model;
use support::origin::{Origin, Reply};
use support::program::Server;
use support::trace::workload;

const MIB: usize = 1 << 20;
/// Metadata bytes of a response of this origin, as the proxy keeps it.
const META: usize = 125;

#[test]
fn ten_thousand_requests_through_a_cache_of_default_packets() {
    replay(32 * MIB, MIB, "all");
}

#[test]
fn ten_thousand_requests_through_a_small_cache() {
    replay(16 * MIB, MIB / 4, "all");
}

#[test]
fn placement_by_worth_hits_more() {
    replay(16 * MIB, MIB / 4, "worth");
}

fn replay(size: usize, packet: usize, admission: &str) {
    let (requests, source) = workload();
    let now: Arc<Mutex<HashMap<String, (u32, usize)>>> = Arc::default();
    let theirs = now.clone();
    let origin = Origin::start(move |asked| {
        let (version, length) = theirs.lock().unwrap()[&asked.target];
        let etag = format!("ETag: {}", content::etag(&asked.target, version));
        Reply::fresh(content::body(&asked.target, version, length)).field(etag)
    });
    let folder = tempfile::tempdir().unwrap();
    let options =
        format!("--cache-size {}MiB --packet {}KiB --admission {admission}", size >> 20, packet >> 10);
    let server = Server::start(&folder.path().join("cache"), &options);
    let mut client = Client::new(server.address);
    let mut model = Model::new(size, packet, size / 4);
    let (mut hits, mut expected, mut bytes, mut differ) = (0, 0, 0, 0);

    let began = Instant::now();
    for (n, request) in requests.iter().enumerate() {
        now.lock().unwrap().insert(request.path.clone(), (request.version, request.length));
        let url = origin.url(&request.path);
        let fields: &[&str] = if request.changed { &["Cache-Control: no-cache"] } else { &[] };
        let answer = client.get(&url, fields).unwrap_or_else(|e| panic!("request {n}, {url}: {e}"));
        assert_eq!(answer.status, 200, "request {n}, {url}");
        let right = content::body(&request.path, request.version, request.length);
        assert!(answer.body == right, "request {n}, {url}, {}: wrong bytes", answer.cache_status());
        assert!(!(request.changed && answer.is_hit()), "request {n}, {url}: answered from before the change");
        bytes += right.len();

        let known = !request.changed && model.get(&url);
        if !known {
            model.put(&url, "GET ".len() + url.len() + META, request.length);
        }
        hits += usize::from(answer.is_hit());
        expected += usize::from(known);
        differ += usize::from(known != answer.is_hit());
    }
    let took = began.elapsed();
    assert!(server.stop().success());

    let share = |n: usize| 100.0 * n as f64 / requests.len() as f64;
    println!(
        "workload: {source}\ncache of {} MiB, packets of {} KiB: {} requests, {} MB, every byte right, in {:.1} s\n\
         hits: {:.2} % (model: {:.2} %; {differ} requests differ); the model swept {} records",
        size / MIB,
        packet >> 10,
        requests.len(),
        bytes / 1_000_000,
        took.as_secs_f64(),
        share(hits),
        share(expected),
        model.swept
    );
    assert!(model.swept > 300, "a cache in which replacement happens");
    let more = share(hits) - share(expected);
    match admission {
        "all" => assert!(more.abs() <= 0.5, "the policy is not the model's"),
        _ => assert!(more > 1.0, "{more} points more"),
    }
}
