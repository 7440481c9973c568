//! A cache on two disks: the program with two files.

mod support;

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::{Server, run};
use tempfile::TempDir;

const KEYS: usize = 60;

struct Disks {
    _folder: TempDir,
    one: PathBuf,
    two: PathBuf,
    origin: Origin,
}

impl Disks {
    fn new() -> Disks {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let origin = Origin::start(|asked| Reply::fresh(format!("{:0>3000}", asked.target)));
        Disks { _folder: folder, one, two, origin }
    }

    /// With the first file, and more options.
    fn start(&self, more: &str) -> Server {
        Server::start(&self.one, &format!("--packet 64KiB --cache-size 4MiB --flush-interval 20ms {more}"))
    }

    fn both(&self) -> Server {
        self.start(&format!("--cache {}", self.two.display()))
    }

    fn url(&self, n: usize) -> String {
        format!("http://{}/{n}", self.origin.address)
    }

    fn which_hit(&self, server: &Server) -> Vec<usize> {
        let mut client = Client::new(server.address);
        let mut is_hit = |n: usize| {
            let answer = client.get(&self.url(n), &[]).unwrap();
            assert!(answer.status == 200 && answer.body.len() == 3000);
            answer.is_hit()
        };
        (0..KEYS).filter(|n| is_hit(*n)).collect()
    }

    fn hits(&self, server: &Server) -> usize {
        self.which_hit(server).len()
    }

    /// Purges these, and waits until a kill can no longer undo it.
    fn purge(&self, server: &Server, keys: Range<usize>) {
        let mut client = Client::new(server.admin());
        for n in keys {
            let target = format!("/purge?url={}", self.url(n));
            assert_eq!(client.send("POST", &target, &[], b"").unwrap().status, 200);
        }
    }
}

#[test]
fn a_cache_moves_from_one_disk_to_two_and_back() {
    let disks = Disks::new();
    let server = disks.start("");
    assert_eq!((disks.hits(&server), disks.hits(&server)), (0, KEYS));
    assert!(server.stop().success());
    let server = disks.both();
    assert_eq!(disks.hits(&server), KEYS, "nothing is lost");
    server.kill();
    let server = disks.both();
    assert_eq!(disks.hits(&server), KEYS, "both survive a kill");
    let seen = run(["inspect", "--json", disks.two.to_str().unwrap()]);
    let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
    let members = seen["set"].as_array().unwrap();
    assert!(members.len() == 2 && members.contains(&seen["identity"]), "{seen}");
    assert!(server.stop().success());
    let server = disks.start("");
    assert_eq!(disks.hits(&server), KEYS, "nothing has moved so far");
    assert!(server.stop().success());
}

/// What an index needs at least is not in proportion to the size of its disk.
#[test]
fn a_small_disk_stores_beside_a_large_one() {
    let disks = Disks::new();
    let small = PathBuf::from(format!("{},size=2MiB,weight=1", disks.one.display()));
    let large = format!("--packet 64KiB --memory 0B --cache {},size=96MiB,weight=1", disks.two.display());
    let server = Server::start(&small, &large);
    assert_eq!((disks.hits(&server), disks.hits(&server)), (0, KEYS));
    assert!(server.stop().success());
}

#[test]
fn each_of_two_disks_has_its_share_and_a_start_goes_on_without_one() {
    let disks = Disks::new();
    let server = disks.both();
    assert_eq!((disks.hits(&server), disks.hits(&server)), (0, KEYS));
    assert!(server.stop().success());
    // It cannot be read now.
    let away = disks.two.with_extension("away");
    fs::rename(&disks.two, &away).unwrap();
    std::os::unix::fs::symlink("/no/such/disk", &disks.two).unwrap();
    let server = disks.both();
    let alone = disks.hits(&server);
    assert!((KEYS / 4..KEYS * 3 / 4).contains(&alone), "{alone}");
    fs::remove_file(&disks.two).unwrap();
    fs::rename(&away, &disks.two).unwrap();
    let comes = || std::iter::from_fn(|| Some(server.next_line())).find(|line| line.contains("serves again"));
    let line = comes().unwrap();
    assert!(line.contains(disks.two.to_str().unwrap()) && line.contains("changed meanwhile"), "{line}");
    assert!(disks.hits(&server) >= alone);
    assert!(server.stop().success());
}

#[test]
fn a_disk_that_is_put_back_from_a_copy_of_before_the_last_start_begins_anew() {
    for killed in [false, true] {
        let disks = Disks::new();
        let server = disks.both();
        assert_eq!((disks.hits(&server), disks.hits(&server)), (0, KEYS));
        assert!(server.stop().success());
        let copy = disks.two.with_extension("copy");
        fs::copy(&disks.two, &copy).unwrap();
        let server = disks.start(&format!("--cache {} --admin 127.0.0.1:0", disks.two.display()));
        disks.purge(&server, 0..KEYS / 2);
        if killed {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
        fs::copy(&copy, &disks.two).unwrap();
        let server = disks.both();
        assert!(server.opened.contains("it begins empty"), "{}", server.opened);
        let hits = disks.which_hit(&server);
        assert!(hits.iter().all(|n| *n >= KEYS / 2), "what was purged answers again: {hits:?}");
        assert!(!hits.is_empty(), "the other disk has lost nothing");
        assert!(server.stop().success());
    }
}

#[test]
fn what_is_no_cache_is_refused_and_so_is_one_that_is_named_twice() {
    let disks = Disks::new();
    fs::write(&disks.two, "not ours\n".repeat(200_000)).unwrap();
    let refused = |path: &PathBuf, says: &str| {
        let words =
            ["serve", "--listen", "127.0.0.1:0", "--cache-size", "4MiB", "--packet", "64KiB", "--cache"];
        let paths = [disks.one.to_str().unwrap(), "--cache", path.to_str().unwrap()];
        let output = run(words.iter().chain(&paths));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains(says), "{said}");
    };
    refused(&disks.two, "something that is not a Cosm cache");
    fs::remove_file(&disks.two).unwrap();
    assert!(disks.start("").stop().success());
    fs::hard_link(&disks.one, &disks.two).unwrap();
    refused(&disks.two, "are the same file or device");
}

#[test]
fn a_cache_that_was_cut_off_is_refused_alone_and_left_by_others() {
    let disks = Disks::new();
    assert!(disks.both().stop().success());
    fs::File::options().write(true).open(&disks.two).unwrap().set_len(1 << 20).unwrap();
    let server = disks.both();
    assert!(server.opened.contains("was cut off: 1 MiB are left"), "{}", server.opened);
    assert!(server.opened.contains("it is left until it works"), "{}", server.opened);
    assert!(disks.hits(&server) == 0 && disks.hits(&server) > 0);
    assert!(server.stop().success());
    let output = run(["serve", "--listen", "127.0.0.1:0", "--cache", disks.two.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("was cut off"));
    fs::File::options().write(true).open(&disks.two).unwrap().set_len(0).unwrap();
    let server = disks.both();
    assert!(server.opened.contains("is an empty file"), "{}", server.opened);
    assert!(server.opened.contains("it is left until it works"), "{}", server.opened);
    assert!(server.stop().success());
}

#[test]
fn what_is_no_disk_holds_up_no_start() {
    let disks = Disks::new();
    let pipe = disks.one.with_file_name("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    for more in [vec![], vec!["--cache", disks.two.to_str().unwrap()]] {
        let words =
            ["serve", "--listen", "127.0.0.1:0", "--cache-size", "4MiB", "--packet", "64KiB", "--cache"];
        let output = run([&words[..], &[pipe.to_str().unwrap()], &more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.contains("neither a file nor a block device"),
            "{said}"
        );
    }
}
