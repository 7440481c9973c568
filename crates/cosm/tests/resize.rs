//! The program is started with another `--cache-size`, and killed while it changes it.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::client::Client;
use support::content;
use support::origin::{Origin, Reply};
use support::program::{COSM, Server};
use support::random::Random;

const LENGTH: usize = 30_000;
const OPTIONS: &str = "--packet 256KiB --flush-interval 100ms --disk-patience 1min --admission all";

fn start(cache: &Path, mib: u64) -> Server {
    Server::start(cache, &format!("{OPTIONS} --cache-size {mib}MiB"))
}

/// How many of these are hits; what comes is right.
fn hits(server: &Server, origin: &Origin, objects: std::ops::Range<usize>) -> usize {
    let mut client = Client::new(server.address);
    let ask = |n: usize| {
        let path = format!("/{n}");
        let answer = client.get(&origin.url(&path), &[]).unwrap();
        assert!(answer.status == 200 && answer.body == content::body(&path, 1, LENGTH), "{path}: {answer:?}");
        answer.is_hit()
    };
    objects.map(ask).filter(|hit| *hit).count()
}

#[test]
fn a_cache_grows_and_shrinks_at_a_start_whatever_kills_it() {
    let origin = Origin::start(|asked| Reply::fresh(content::body(&asked.target, 1, LENGTH)));
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let length = || std::fs::metadata(&cache).unwrap().len() >> 20;
    let server = start(&cache, 64);
    assert_eq!(hits(&server, &origin, 0..1_900), 0);
    assert!(server.stop().success());

    let server = start(&cache, 128);
    assert!(server.opened.contains("has 128 MiB now, of 64 MiB before"), "{}", server.opened);
    assert_eq!((hits(&server, &origin, 0..1_900), length()), (1_900, 128));
    assert_eq!(hits(&server, &origin, 1_900..3_800), 0);
    // Written after the flush interval, whoever is asked for meanwhile.
    assert!(server.stop().success());
    let server = Server::start(&cache, OPTIONS);
    assert_eq!((hits(&server, &origin, 0..3_800), length()), (3_800, 128));
    server.kill();

    let mut random = Random(7);
    for mib in [32, 200, 48, 128, 40, 32] {
        let mut child = Command::new(COSM)
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", "0", "--workers", "1", "--cache-size"])
            .arg(format!("{mib}MiB"))
            .arg("--cache")
            .arg(&cache)
            .args(OPTIONS.split_whitespace())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // At any moment of a start.
        std::thread::sleep(Duration::from_micros(random.below(500_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let server = start(&cache, 32);
    assert_eq!(length(), 32);
    // Not from the beginning: what is missing there would be written over what is asked for next.
    let kept = hits(&server, &origin, 500..900);
    assert!(kept > 300, "{kept} of 400 that lay in the part that stays");
    hits(&server, &origin, 3_000..3_800);
    let newest = hits(&server, &origin, 3_000..3_800);
    assert!(newest > 700, "{newest} of 800 that came last");
    assert!(server.stop().success());
}
