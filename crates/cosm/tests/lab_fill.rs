//! `cosm lab fill`, and `cosm serve` upon what it leaves.

mod support;

use lab::fill::Wanted;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;
use support::client::Client;
use support::program::{Server, run};

const WANTED: Wanted = Wanted { objects: 3000, mean_size: 4096.0, seed: 9 };
const CACHE: &str = "--cache-size 64MiB --packet 256KiB";

fn fill(cache: &Path, objects: u64, more: &str) -> Output {
    let mut arguments = vec!["lab", "fill", "--mean-size", "4KiB", "--seed", "9", "--json", "--cache"];
    let (path, objects) = (cache.to_str().unwrap(), objects.to_string());
    arguments.extend([path, "--objects", &objects]);
    arguments.extend(CACHE.split(' ').chain(more.split_whitespace()));
    run(arguments)
}

/// How many of the objects are hits; what is a hit has the right bytes.
fn hits(cache: &Path, from: u64, to: u64) -> u64 {
    let server = Server::start(cache, "");
    let mut client = Client::new(server.address);
    let hits = (from..to).filter(|nth| {
        let answer = client.get(&format!("http://fill.invalid/{nth}"), &[]).unwrap();
        if !answer.is_hit() {
            return false;
        }
        let object = WANTED.object(*nth);
        assert_eq!((answer.status, answer.body.len() as u64), (200, object.size));
        assert!(object.is(0, &answer.body), "object {nth}");
        assert_eq!(answer.header("content-length"), Some(object.size.to_string()));
        true
    });
    let hits = hits.count() as u64;
    assert!(server.stop().success());
    hits
}

#[test]
fn what_was_filled_before_a_crash_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let output = fill(&cache, WANTED.objects, "--crash");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(9), "{said}");
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name} in {figures}"));
    let bodies: u64 = (0..WANTED.objects).map(|nth| WANTED.object(nth).size).sum();
    assert_eq!((number("objects_put"), number("body_bytes_put")), (3000.0, bodies as f64));
    let put = number("bytes_put");
    let overhead = number("device_bytes_written") / put;
    assert!(put > bodies as f64 && (1.0..1.2).contains(&overhead), "{figures}");
    let packets = put / (256.0 * 1024.0);
    assert!((packets..3.0 * packets + 10.0).contains(&number("device_writes")), "{figures}");
    assert!(number("resident_bytes_per_object") > 0.0 && number("seconds") > 0.0, "{figures}");
    assert_eq!(hits(&cache, 0, WANTED.objects), WANTED.objects, "all of it was in the file");
}

#[test]
fn a_cache_is_filled_twice_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    for objects in [500, 1000] {
        let output = fill(&cache, objects, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(figures["objects_there"], objects);
    }
    assert_eq!(hits(&cache, 0, 1010), 1000);
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    for (more, code, says) in [
        ("--mean-size 0", 2, "--mean-size"),
        ("--seed x", 2, "--seed"),
        ("--packet 3", 2, "--packet"),
        ("--listen 1", 2, "--listen"),
        ("--cache-max 1", 2, "--cache-max"),
    ] {
        let output = run(["lab", "fill", "--objects", "1", "--cache"]
            .into_iter()
            .chain([cache.to_str().unwrap()])
            .chain(more.split(' ')));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{more}: {said}");
        assert!(said.contains(says), "{more}: {said}");
    }
    assert!(!cache.exists());
    let output = run(["lab", "fill", "--objects", "1", "--cache", "off"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(["lab", "fill", "--objects", "1", "--cache", "/proc/version"]);
    assert_eq!(output.status.code(), Some(1));
}
