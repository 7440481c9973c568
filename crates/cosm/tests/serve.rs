//! The program as its user meets it: the command line, what is refused, restarts, and what HTTP promises.

mod support;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::client::{Answer, Client};
use support::content;
use support::origin::{Asked, Framing, Origin, Reply};
use support::program::{COSM, Server, run};
use tempfile::TempDir;

const SMALL: &str = "--cache-size 4MiB --packet 64KiB --flush-interval 50ms";
const LARGE: &str = "--cache-size 64MiB --object-size-max 32MiB";

/// A cache that does not exist yet, in a folder of its own.
fn new_cache() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    (folder, path)
}

/// An origin of fresh objects, whose content is that of their path.
fn fresh_origin(length: usize) -> Origin {
    Origin::start(move |asked| {
        let etag = format!("ETag: {}", content::etag(&asked.target, 0));
        Reply::fresh(content::body(&asked.target, 0, length)).field(etag)
    })
}

fn get(client: &mut Client, url: &str, fields: &[&str]) -> Answer {
    client.get(url, fields).unwrap_or_else(|e| panic!("{url} {fields:?}: {e}"))
}

/// Asks nobody but the cache.
fn is_cached(client: &mut Client, url: &str) -> bool {
    let answer = get(client, url, &["Cache-Control: only-if-cached"]);
    assert!(answer.status == 504 || answer.is_hit(), "{url}: {answer:?}");
    answer.status != 504
}

fn arguments<'a>(words: &'a str, cache: &'a Path) -> Vec<&'a str> {
    words.split(' ').map(|w| if w == "CACHE" { cache.to_str().unwrap() } else { w }).collect()
}

#[track_caller]
fn assert_one_line(output: &Output, code: i32) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "one line, not: {said}");
    assert!(output.stdout.is_empty());
    said
}

// The command line

#[test]
fn help_teaches() {
    let cases: [(&str, &[&str]); 4] = [
        ("--help", &["serve", "inspect", "check", "curl -x", "Exit status"]),
        ("serve --help", &["--listen", "--origin", "--cache", "--cache-size", "--memory", "1GiB", "SIGTERM"]),
        ("inspect --help", &["PATH", "--json", "never writes"]),
        ("check --help", &["PATH", "--json", "never writes"]),
    ];
    for (words, expected) in cases {
        let output = run(words.split(' '));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words}");
        for word in expected {
            assert!(said.contains(word), "`cosm {words}` does not say {word}:\n{said}");
        }
    }
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let (_folder, cache) = new_cache();
    let wrong = [
        "serv",
        "serve --no-such-flag",
        "serve --cache CACHE --cache-size lots",
        "serve --cache CACHE --cache-size 1",
        "serve --cache CACHE --packet 96KiB",
        "serve --cache CACHE --listen nowhere",
        "serve --cache CACHE --origin ftp://example.com",
        "serve --cache CACHE --memory many",
        "serve --cache CACHE --workers 0",
        "serve --cache CACHE --flush-interval soon",
        "inspect",
        "check --jason CACHE",
    ];
    for words in wrong {
        let said = assert_one_line(&run(arguments(words, &cache)), 2);
        assert!(said.starts_with("cosm: ") && said.contains("--help"), "{words}: {said}");
        assert!(!cache.exists(), "{words}: made a cache");
    }
    assert_one_line(&run(Vec::<&str>::new()), 2);
}

#[test]
fn a_cache_that_cannot_be_used_is_one_line_and_status_1_and_is_not_touched() {
    let (folder, whole) = new_cache();
    Server::start(&whole, SMALL).stop();
    let made = |name: &str, change: &dyn Fn(&Path)| {
        let path = folder.path().join(name);
        fs::copy(&whole, &path).unwrap();
        change(&path);
        path
    };
    let write_at = |path: &Path, offset: u64, bytes: &[u8]| {
        let mut file = File::options().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(bytes).unwrap();
    };
    let truncate =
        |path: &Path, to: u64| File::options().write(true).open(path).unwrap().set_len(to).unwrap();
    let cases = [
        (
            made("foreign", &|p| fs::write(p, "someone else's words\n".repeat(100_000)).unwrap()),
            "not a Cosm cache",
        ),
        (made("short-foreign", &|p| fs::write(p, "a note").unwrap()), "not a Cosm cache"),
        (made("truncated", &|p| truncate(p, 2 << 20)), "cut off"),
        (made("stump", &|p| truncate(p, 5_000)), "cut off"),
        (made("empty", &|p| truncate(p, 0)), "empty"),
        (
            made("version", &|p| {
                write_at(p, 8, &99u32.to_le_bytes());
                write_at(p, 4096 + 8, &99u32.to_le_bytes());
            }),
            "format 99",
        ),
        (
            made("damaged", &|p| {
                write_at(p, 30, &[0xff; 16]);
                write_at(p, 4096 + 30, &[0xff; 16]);
            }),
            "damaged",
        ),
        (made("read-only", &|p| fs::set_permissions(p, Permissions::from_mode(0o444)).unwrap()), "ead-only"),
        (folder.path().join("no-such-folder/cache"), "cannot create"),
        (folder.path().to_path_buf(), "director"),
    ];
    let files = || fs::read_dir(folder.path()).unwrap().count();
    let (number, size_flag) = (files(), "4MiB");
    for (path, expected) in cases {
        let before = fs::read(&path).ok();
        let words = arguments("serve --listen 127.0.0.1:0 --cache CACHE --packet 64KiB", &path);
        let output = run(words.into_iter().chain(["--cache-size", size_flag]));
        let said = assert_one_line(&output, 1);
        // As root no file is read-only; then the mode alone says so, and that is asked for as well.
        let says = said.contains(expected) || expected == "ead-only" && said.contains("ermission");
        assert!(says && said.contains(path.to_str().unwrap()), "{}: {said}", path.display());
        assert!(fs::read(&path).ok() == before, "{} was changed", path.display());
        assert_eq!(files(), number, "{}: files came or went", path.display());
    }
    // Sizes that it cannot be given.
    let before = fs::read(&whole).unwrap();
    for (size, expected) in [("8TiB", "cannot grow beyond 4096 GiB in place"), ("257TiB", "at most 256 TiB")]
    {
        let words = arguments("serve --listen 127.0.0.1:0 --cache CACHE", &whole);
        let other = run(words.into_iter().chain(["--cache-size", size]));
        assert!(assert_one_line(&other, 1).contains(expected), "{size}");
        assert!(fs::read(&whole).unwrap() == before);
    }
}

#[test]
fn a_cache_in_use_is_left_to_its_process() {
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(5_000);
    let server = Server::start(&cache, SMALL);
    let second = run(arguments("serve --listen 127.0.0.1:0 --cache CACHE", &cache));
    assert!(assert_one_line(&second, 1).contains("in use by another process"));
    let mut client = Client::new(server.address);
    get(&mut client, &origin.url("/a"), &[]);
    assert!(get(&mut client, &origin.url("/a"), &[]).is_hit());
    assert!(server.stop().success());
}

#[test]
fn the_memory_tier_takes_what_it_may_and_no_more() {
    const TIER: u64 = 24 << 20;
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(3_000);
    let server = Server::start(&cache, "--cache-size 8MiB --packet 64KiB --memory 24MiB");
    let before = server.memory();
    let mut client = Client::new(server.address);
    for n in 0..12_000 {
        get(&mut client, &origin.url(&format!("/{n}")), &[]);
    }
    let taken = server.memory().saturating_sub(before);
    // Beside the tier: packets, buffers, and what the allocator keeps.
    assert!((TIER * 3 / 4..TIER + (16 << 20)).contains(&taken), "{taken} bytes for a tier of {TIER}");
    assert!(server.stop().success());
}

// Restarts

#[test]
fn a_clean_stop_leaves_a_warm_cache() {
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(20_000);
    let server = Server::start(&cache, SMALL);
    assert!(server.readiness.starts_with("cosm: forward proxy on 127.0.0.1:"), "{}", server.readiness);
    let mut client = Client::new(server.address);
    let urls: Vec<String> = (0..50).map(|n| origin.url(&format!("/{n}"))).collect();
    for url in &urls {
        assert!(!get(&mut client, url, &[]).is_hit());
    }
    assert!(server.stop().success());
    let server = Server::start(&cache, "");
    let mut client = Client::new(server.address);
    for (n, url) in urls.iter().enumerate() {
        let answer = get(&mut client, url, &[]);
        assert!(answer.is_hit(), "{url}: {}", answer.cache_status());
        assert!(answer.body == content::body(&format!("/{n}"), 0, 20_000));
    }
    assert_eq!(origin.seen().len(), urls.len());
}

#[test]
fn a_stop_drains_the_requests_that_run() {
    let (_folder, cache) = new_cache();
    let gate = Arc::new(Gate::default());
    let theirs = gate.clone();
    let origin = Origin::start(move |_| {
        theirs.arrive();
        theirs.wait_open();
        Reply::fresh("late")
    });
    let server = Server::start(&cache, SMALL);
    let (address, url) = (server.address, origin.url("/slow"));
    let client = std::thread::spawn(move || Client::new(address).get(&url, &[]).unwrap());
    gate.wait_arrived(1);
    let stopping = std::thread::spawn(move || server.stop());
    // The listener goes first: from then on the program is draining.
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
    gate.open();
    assert_eq!(client.join().unwrap().body, b"late");
    assert!(stopping.join().unwrap().success());
}

#[test]
fn looking_at_a_cache_works_and_changes_nothing() {
    let (_folder, cache) = new_cache();
    // In one record, and in several.
    let length = |path: &str| if path.len() == 2 { 9_000 } else { 30_000 };
    let origin =
        Origin::start(move |asked| Reply::fresh(content::body(&asked.target, 0, length(&asked.target))));
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    for n in 0..30 {
        get(&mut client, &origin.url(&format!("/{n}")), &[]);
    }
    let look = |stopped: bool| {
        let before = stopped.then(|| fs::read(&cache).unwrap());
        for words in ["inspect CACHE", "inspect CACHE --json", "check CACHE", "check CACHE --json"] {
            let output = run(arguments(words, &cache));
            let said = String::from_utf8(output.stdout).unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success() && error.is_empty(), "{words}: {error}");
            let expected =
                if words.starts_with("inspect") { ["format", "entries"] } else { ["sound", "damaged"] };
            assert!(expected.iter().all(|w| said.contains(w)), "{words}: {said}");
            if words.contains("json") {
                let found: Value = serde_json::from_str(&said).unwrap();
                assert!(found.is_object() && said.lines().count() == 1, "{said}");
            }
        }
        if let Some(before) = before {
            assert!(fs::read(&cache).unwrap() == before, "looking changed the cache");
        }
    };
    look(false);
    assert!(is_cached(&mut client, &origin.url("/29")), "the server did not mind");
    assert!(server.stop().success());
    look(true);
    let found = json_of(&cache, "check CACHE --json");
    assert!(found["sound"].as_u64() >= Some(30), "{found}");

    // One flipped bit in a record is found, and is a miss.
    let mut bytes = fs::read(&cache).unwrap();
    for path in ["/7", "/27"] {
        let right = content::body(path, 0, length(path));
        let at = bytes.windows(16).position(|w| *w == right[..16]).unwrap();
        bytes[at + 1000] ^= 1;
    }
    fs::write(&cache, &bytes).unwrap();
    let output = run(arguments("check CACHE", &cache));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    assert!(is_cached(&mut client, &origin.url("/6")) && is_cached(&mut client, &origin.url("/26")));
    let answer = get(&mut client, &origin.url("/7"), &[]);
    assert!(!answer.is_hit() && answer.body == content::body("/7", 0, length("/7")));
    // A body in spans may break off at the bad one, for its head is out by then; after that it is a miss.
    let right = content::body("/27", 0, length("/27"));
    let answer = client.get(&origin.url("/27"), &[]);
    assert!(answer.is_err() || answer.unwrap().body == right);
    assert!(right.starts_with(&client.partial));
    let answer = get(&mut client, &origin.url("/27"), &[]);
    assert!(answer.body == right);
    assert_eq!(origin.asked_for("/27"), 2);

    for words in ["inspect CACHE", "check CACHE"] {
        assert_one_line(&run(arguments(words, Path::new("/nonexistent/cache"))), 1);
    }
}

#[test]
fn inspect_shows_what_a_cache_holds() {
    let (_folder, cache) = new_cache();
    let length = |path: &str| if path == "/large" { 30_000 } else { 3_000 };
    let start = || {
        Origin::start(move |asked| {
            let reply = Reply::fresh(content::body(&asked.target, 0, length(&asked.target)));
            if asked.target == "/varies" { reply.field("Vary: Accept-Language") } else { reply }
        })
    };
    let (first, second) = (start(), start());
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    let language = ["Accept-Language: de"];
    for (url, fields) in [
        (first.url("/1"), &[][..]),
        (first.url("/2"), &[]),
        (first.url("/large"), &[]),
        (second.url("/1"), &[]),
        (second.url("/varies"), &language),
    ] {
        get(&mut client, &url, fields);
    }
    let host = |origin: &Origin| origin.url("").trim_end_matches('/').to_owned();
    let amounts = |found: &Value, host: &str| {
        let hosts = found["hosts"].as_array().unwrap().iter();
        let of = hosts.clone().find(|row| row["host"] == host).unwrap_or_else(|| panic!("{host} in {found}"));
        (of["count"].as_u64().unwrap(), of["bytes"].as_u64().unwrap())
    };
    assert!(server.stop().success());
    let found = json_of(&cache, "inspect CACHE --json");
    assert_eq!(found["objects"], 5, "{found}");
    assert_eq!(amounts(&found, &host(&first)), (3, 36_000));
    assert_eq!(amounts(&found, &host(&second)), (2, 6_000));
    assert_eq!(amounts(&found, "(others)"), (0, 0));
    assert_eq!(found["kinds"]["whole objects"]["count"], 4);
    assert_eq!(found["kinds"]["heads of large objects"]["count"], 1);
    assert_eq!(found["kinds"]["markers"]["count"], 1);
    assert!(found["kinds"]["spans of large objects"]["count"].as_u64() > Some(1));
    let classes = |what: &str, up_to: u64| {
        let all = found[what].as_array().unwrap().iter();
        all.clone().find(|class| class["up_to"] == up_to).unwrap()["count"].clone()
    };
    assert_eq!((classes("body_bytes", 4 << 10), classes("body_bytes", 64 << 10)), (4.into(), 1.into()));
    assert_eq!(classes("age_seconds", 60), 5);
    let (used, free) = (found["used"].as_u64().unwrap(), found["free"].as_u64().unwrap());
    assert!((42_000..100_000).contains(&used), "{found}");
    assert!(used + free < found["size"].as_u64().unwrap() && found["unsound"] == 0, "{found}");

    let cut = json_of(&cache, "inspect CACHE --json --hosts 1");
    assert_eq!((amounts(&cut, &host(&first)), amounts(&cut, "(others)")), ((3, 36_000), (2, 6_000)));
    let text = String::from_utf8(run(arguments("inspect CACHE", &cache)).stdout).unwrap();
    for line in [&format!("{} 3 35.2 KiB", host(&first))[..], "markers 1", "4 KiB 4 11.7 KiB", "1 minute 5"] {
        let has = |said: &str| said.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(line);
        assert!(text.lines().any(has), "`{line}` is not in:\n{text}");
    }
}

fn json_of(cache: &Path, words: &str) -> Value {
    serde_json::from_slice(&run(arguments(words, cache)).stdout).unwrap()
}

// What HTTP promises

#[test]
fn a_miss_then_a_hit_with_age_and_via() {
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(1_000);
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    let url = origin.url("/page?a=b");
    let miss = get(&mut client, &url, &[]);
    assert!(miss.cache_status().starts_with("cosm; fwd=uri-miss"), "{miss:?}");
    assert_eq!((miss.status, miss.header("age")), (200, None));
    let hit = get(&mut client, &url, &[]);
    assert!(hit.is_hit(), "{}", hit.cache_status());
    assert!(hit.header("age").unwrap().parse::<u32>().unwrap() < 30);
    for answer in [&miss, &hit] {
        assert_eq!(answer.header("via").as_deref(), Some("1.1 cosm"));
        assert_eq!(answer.header("etag"), Some(content::etag("/page?a=b", 0)));
        assert!(answer.body == content::body("/page?a=b", 0, 1_000));
    }
    assert!(origin.seen()[0].header("via").unwrap().contains("cosm"));
    assert_eq!(origin.seen().len(), 1);
    let head = client.send("HEAD", &url, &[], b"").unwrap();
    assert!(head.is_hit() && head.body.is_empty());
    assert_eq!(head.header("content-length").as_deref(), Some("1000"));
    let etag = format!("If-None-Match: {}", content::etag("/page?a=b", 0));
    assert_eq!(get(&mut client, &url, &[&etag]).status, 304);
}

#[test]
fn reverse_mode_serves_its_origin() {
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(1_000);
    let server = Server::start(&cache, &format!("{SMALL} --origin {}", origin.url("")));
    assert!(server.readiness.contains("reverse proxy"), "{}", server.readiness);
    let mut client = Client::new(server.address);
    assert!(!get(&mut client, "/a", &[]).is_hit());
    let hit = get(&mut client, "/a", &[]);
    assert!(hit.is_hit() && hit.body == content::body("/a", 0, 1_000));
    assert_eq!(origin.asked_for("/a"), 1);
}

#[test]
fn what_breaks_off_is_never_served_from_the_cache() {
    let (_folder, cache) = new_cache();
    // One span, several spans, and nothing at all before the end.
    let origin = Origin::start(|asked: &Asked| {
        let length = asked.target.rsplit('/').next().unwrap().parse().unwrap();
        let framing =
            if asked.target.starts_with("/short") { Framing::TooShort } else { Framing::WithoutLastChunk };
        Reply::fresh(content::body(&asked.target, 0, length)).framed(framing)
    });
    let server = Server::start(&cache, SMALL);
    for path in ["/short/0", "/short/9000", "/short/100000", "/chunks/0", "/chunks/9000", "/chunks/100000"] {
        let url = origin.url(path);
        for round in 1..=2 {
            let mut client = Client::new(server.address);
            let broken = client.get(&url, &[]);
            // Either the client sees that it broke off, or it learns before the first byte.
            assert!(broken.is_err() || broken.as_ref().unwrap().status >= 500, "{path}: {broken:?}");
            assert_eq!(origin.asked_for(path), round, "{path}");
            assert!(!is_cached(&mut Client::new(server.address), &url), "{path}");
        }
    }
    assert!(server.stop().success());
    let server = Server::start(&cache, SMALL);
    for asked in origin.seen() {
        assert!(!is_cached(&mut Client::new(server.address), &origin.url(&asked.target)));
    }
}

#[test]
fn chunked_bodies_are_cached_whole() {
    let (_folder, cache) = new_cache();
    let origin = Origin::start(|asked: &Asked| {
        Reply::fresh(content::body(&asked.target, 0, 100_000)).framed(Framing::Chunked)
    });
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    for hit in [false, true] {
        let answer = get(&mut client, &origin.url("/c"), &[]);
        assert_eq!(answer.is_hit(), hit);
        assert!(answer.body == content::body("/c", 0, 100_000));
    }
}

#[test]
fn a_big_object_and_its_ranges_come_back() {
    const LENGTH: usize = 20 << 20;
    let (_folder, cache) = new_cache();
    let origin = fresh_origin(LENGTH);
    let right = content::body("/big", 0, LENGTH);
    let url = origin.url("/big");
    let check = |server: &Server, ranges: &[(&str, std::ops::Range<usize>)]| {
        let mut client = Client::new(server.address);
        let whole = get(&mut client, &url, &[]);
        assert!(whole.is_hit(), "{}", whole.cache_status());
        assert!(whole.body == right);
        for (range, bytes) in ranges {
            let part = get(&mut client, &url, &[&format!("Range: bytes={range}")]);
            assert!(part.status == 206 && part.is_hit(), "{range}: {} {}", part.status, part.cache_status());
            let expected = format!("bytes {}-{}/{LENGTH}", bytes.start, bytes.end - 1);
            assert_eq!(part.header("content-range"), Some(expected));
            assert!(part.body == right[bytes.clone()], "{range}: wrong bytes");
        }
        assert_eq!(get(&mut client, &url, &[&format!("Range: bytes={LENGTH}-")]).status, 416);
    };
    let span = 256 << 10;
    let ranges = [
        ("0-0", 0..1),
        ("262143-262144", span - 1..span + 1),
        ("1000000-9999999", 1_000_000..10_000_000),
        ("20971519-", LENGTH - 1..LENGTH),
        ("-700000", LENGTH - 700_000..LENGTH),
    ];
    let server = Server::start(&cache, LARGE);
    let miss = get(&mut Client::new(server.address), &url, &[]);
    assert!(!miss.is_hit() && miss.body == right);
    check(&server, &ranges);
    assert!(server.stop().success());
    check(&Server::start(&cache, LARGE), &ranges);
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn simultaneous_misses_ask_the_origin_once() {
    const CLIENTS: usize = 20;
    let (_folder, cache) = new_cache();
    let gate = Arc::new(Gate::default());
    let theirs = gate.clone();
    let origin = Origin::start(move |asked| {
        theirs.arrive();
        theirs.wait_open();
        Reply::fresh(content::body(&asked.target, 0, 300_000))
    });
    let server = Server::start(&cache, LARGE);
    let start = Arc::new(Barrier::new(CLIENTS + 1));
    let connected = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, url) = (server.address, origin.url("/popular"));
            let (start, connected) = (start.clone(), connected.clone());
            std::thread::spawn(move || {
                start.wait();
                connected.fetch_add(1, SeqCst);
                Client::new(address).get(&url, &[]).unwrap()
            })
        })
        .collect();
    start.wait();
    gate.wait_arrived(1);
    while connected.load(SeqCst) < CLIENTS {
        std::thread::yield_now();
    }
    // Answered on the same worker after what the clients sent, as far as it has come.
    get(&mut Client::new(server.address), &origin.url("/other"), &["Cache-Control: only-if-cached"]);
    gate.open();
    let answers: Vec<Answer> = clients.into_iter().map(|c| c.join().unwrap()).collect();
    let right = content::body("/popular", 0, 300_000);
    assert!(answers.iter().all(|a| a.status == 200 && a.body == right));
    assert_eq!(origin.asked_for("/popular"), 1);
    let words: HashSet<String> = answers.iter().map(Answer::cache_status).collect();
    assert!(words.iter().any(|w| w.contains("collapsed")), "{words:?}");
}

#[test]
fn each_variant_has_its_own_bytes() {
    let (_folder, cache) = new_cache();
    let origin = Origin::start(|asked: &Asked| {
        let language = asked.header("accept-language").unwrap_or("none");
        Reply::fresh(format!("in {language}")).field("Vary: Accept-Language")
    });
    let server = Server::start(&cache, SMALL);
    let check = |client: &mut Client, hit: bool| {
        for language in ["de", "en", "fi"] {
            let answer = get(client, &origin.url("/page"), &[&format!("Accept-Language: {language}")]);
            assert_eq!(answer.is_hit(), hit, "{language}: {}", answer.cache_status());
            assert_eq!(answer.body, format!("in {language}").as_bytes());
        }
        let answer = get(client, &origin.url("/page"), &[]);
        assert!(answer.is_hit() == hit && answer.body == b"in none");
    };
    let mut client = Client::new(server.address);
    check(&mut client, false);
    check(&mut client, true);
    assert_eq!(origin.asked_for("/page"), 4);
    assert!(server.stop().success());
    let server = Server::start(&cache, SMALL);
    check(&mut Client::new(server.address), true);
}

#[test]
fn a_post_invalidates() {
    let (_folder, cache) = new_cache();
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |asked: &Asked| match asked.method.as_str() {
        "POST" if asked.body == b"fails" => Reply::empty(500),
        "POST" => Reply::empty(204),
        _ => Reply::fresh(format!("answer {}", count.fetch_add(1, SeqCst))),
    });
    let server = Server::start(&cache, SMALL);
    let mut client = Client::new(server.address);
    let url = origin.url("/list");
    let body = |client: &mut Client| String::from_utf8(get(client, &url, &[]).body).unwrap();
    assert_eq!([body(&mut client), body(&mut client)], ["answer 0", "answer 0"]);
    assert_eq!(client.send("POST", &url, &[], b"fails").unwrap().status, 500);
    assert_eq!(body(&mut client), "answer 0", "an error changes nothing");
    assert_eq!(client.send("POST", &url, &[], b"item").unwrap().status, 204);
    assert_eq!([body(&mut client), body(&mut client)], ["answer 1", "answer 1"]);
    client.send("POST", &url, &[], b"item").unwrap();
    assert!(server.stop().success());
    let server = Server::start(&cache, SMALL);
    assert!(!is_cached(&mut Client::new(server.address), &url), "the removal is durable");
}

#[test]
fn a_new_version_too_large_to_keep_replaces_the_old_one() {
    let (_folder, cache) = new_cache();
    // A cache of 4 MiB keeps bodies up to 256 KiB.
    for framing in [Framing::Length, Framing::Chunked] {
        let large = Arc::new(AtomicUsize::new(0));
        let theirs = large.clone();
        let origin = Origin::start(move |asked: &Asked| {
            let version = theirs.load(SeqCst) as u32;
            let length = if version == 0 { 1_000 } else { 400_000 };
            Reply::fresh(content::body(&asked.target, version, length)).framed(framing)
        });
        let server = Server::start(&cache, SMALL);
        let mut client = Client::new(server.address);
        let url = origin.url("/grows");
        get(&mut client, &url, &[]);
        assert!(get(&mut client, &url, &[]).is_hit());
        large.store(1, SeqCst);
        assert_eq!(get(&mut client, &url, &["Cache-Control: no-cache"]).body.len(), 400_000);
        let after = get(&mut client, &url, &[]);
        assert_eq!(
            after.body.len(),
            400_000,
            "{framing:?}: the old version came back: {}",
            after.cache_status()
        );
        assert!(server.stop().success());
    }
}

/// A door that the origin's threads wait at.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn arrive(&self) {
        self.state.lock().unwrap().0 += 1;
        self.changed.notify_all();
    }
    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
    fn wait_open(&self) {
        self.wait(|(_, open)| *open);
    }
    fn wait_arrived(&self, number: usize) {
        self.wait(|(arrived, _)| *arrived >= number);
    }
    fn wait(&self, until: impl Fn(&(usize, bool)) -> bool) {
        let (state, timeout) = self
            .changed
            .wait_timeout_while(self.state.lock().unwrap(), support::SOON, |state| !until(state))
            .unwrap();
        drop(state);
        assert!(!timeout.timed_out(), "nobody came to the gate");
    }
}

#[test]
fn it_stops_also_when_nobody_reads_what_it_says() {
    let (_folder, cache) = new_cache();
    let mut child = Command::new(COSM)
        .args(["serve", "--listen", "127.0.0.1:0", "--cache-size", "16MiB", "--cache"])
        .arg(&cache)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains(" on 127.0.0.1:")));
    // The pipe is closed now.
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let until = Instant::now() + support::SOON;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > until => {
                child.kill().unwrap();
                panic!("cosm did not end after SIGTERM");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success(), "{status}");
}
