//! A day of real browsing through the running program: every byte of every answer is compared, and as many requests
//! hit as in a plain in-memory model of the replacement policy.

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

const SIZE: usize = 32 << 20;
const PACKET: usize = 64 << 10;
/// Metadata bytes of a response of this origin, as the proxy keeps it.
const META: usize = 128;

#[test]
fn ten_thousand_requests_byte_by_byte_and_the_models_hit_ratio() {
    let (requests, source) = workload();
    println!("workload: {source}");
    let now: Arc<Mutex<HashMap<String, (u32, usize)>>> = Arc::default();
    let theirs = now.clone();
    let origin = Origin::start(move |asked| {
        let (version, length) = theirs.lock().unwrap()[&asked.target];
        let etag = format!("ETag: {}", content::etag(&asked.target, version));
        Reply::fresh(content::body(&asked.target, version, length)).field(etag)
    });
    let folder = tempfile::tempdir().unwrap();
    let options = format!("--cache-size {}MiB --packet {}KiB", SIZE >> 20, PACKET >> 10);
    let server = Server::start(&folder.path().join("cache"), &options);
    let mut client = Client::new(server.address);
    let mut model = Model::new(SIZE, PACKET, PACKET / 4, SIZE / 16);
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
    println!("{} requests, {} MB, all right, in {:.1} s", requests.len(), bytes / 1_000_000, took.as_secs_f64());
    println!(
        "hits: {:.2} % (model: {:.2} %; {differ} requests differ); the model swept {} records and passed {} survivors",
        share(hits),
        share(expected),
        model.swept,
        model.survived
    );
    assert!(model.swept > 1_000, "a cache in which replacement happens");
    assert!(model.survived > 100, "and skips what is popular");
    assert!((share(hits) - share(expected)).abs() <= 0.5, "the policy is not the model's");
}
