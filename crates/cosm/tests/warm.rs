//! `cosm warm`: a list of URLs, fetched through a proxy that runs.

mod support;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::client::Client;
use support::origin::{Framing, Origin, Reply};
use support::program::{COSM, Server};

const OPTIONS: &str = "--cache-size 4MiB --packet 64KiB --memory 8MiB";

fn origin() -> Origin {
    Origin::start(|asked| match &*asked.target {
        "/none" => Reply::empty(404),
        "/private" => Reply::empty(200).field("Cache-Control: private, max-age=60"),
        "/short" => Reply::fresh("short").framed(Framing::TooShort),
        "/chunks" => Reply::fresh("chunks").framed(Framing::Length),
        "/varies" => Reply::fresh(asked.header("x-kind").unwrap_or_default()).field("Vary: X-Kind"),
        target => Reply::fresh(target),
    })
}

fn warm(words: &[&str], input: &str) -> Output {
    let mut child = Command::new(COSM)
        .arg("warm")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who finds its options wrong reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn start(folder: &Path, options: &str) -> (Server, String) {
    let server = Server::start(&folder.join("cache"), &format!("{OPTIONS} {options}"));
    let address = server.address.to_string();
    (server, address)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_listed_is_fetched_once_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let (server, proxy) = start(folder.path(), "");
    let mut list = String::from("# pages\n\n");
    for n in 0..20 {
        list += &format!("{}\n", origin.url(&format!("/{n}")));
    }
    let file = folder.path().join("list");
    fs::write(&file, &list).unwrap();
    let file = file.display().to_string();
    let stored = warm(&["--list", &file, "--proxy", &proxy, "--rate", "1000"], "");
    assert!(stored.status.success(), "{stored:?}");
    let said = text(&stored.stdout);
    assert!(
        said.starts_with("20 URLs: 0 hits, 0 validated, 20 stored, 0 not stored, 0 failed; 50 B in "),
        "{said}"
    );
    for n in 0..20 {
        assert_eq!(origin.asked_for(&format!("/{n}")), 1);
    }
    let mut client = Client::new(server.address);
    assert!(client.get(&origin.url("/7"), &[]).unwrap().is_hit());
    let more = format!(
        "{list}{}\n{}\n{}\nftp://x/\n",
        origin.url("/private"),
        origin.url("/none"),
        origin.url("/short")
    );
    let some = warm(&["--list", "-", "--proxy", &proxy, "--rate", "1000"], &more);
    let said = text(&some.stdout);
    assert!(said.contains("24 URLs: 20 hits, 0 validated, 0 stored, 1 not stored, 3 failed; "), "{said}");
    for line in [
        format!("not stored: {}: private\n", origin.url("/private")),
        format!("failed: {}: 404 Not Found\n", origin.url("/none")),
        format!("failed: {}: the response broke off", origin.url("/short")),
        "failed: line 26: `ftp://x/` is not an http URL\n".into(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
    assert_eq!((some.status.code(), text(&some.stderr)), (Some(1), "cosm: 3 of 24 URLs failed\n"));
    let varies = origin.url("/varies");
    for kind in ["a", "b", "a"] {
        let said = warm(&["--list", "-", "--proxy", &proxy, "-H", &format!("X-Kind: {kind}")], &varies);
        assert!(said.status.success(), "{said:?}");
    }
    assert_eq!(origin.asked_for("/varies"), 2);
    assert!(server.stop().success());
}

#[test]
fn a_reverse_proxy_is_warmed_by_the_names_that_clients_use() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let (server, proxy) = start(folder.path(), &format!("--origin {}", origin.url("")));
    let list = "http://www.example.com/a?b\nhttps://other.example/a?b\n";
    let said = warm(&["--list", "-", "--proxy", &proxy], list);
    assert!(said.status.success() && text(&said.stdout).contains(" 2 stored,"), "{said:?}");
    assert_eq!(origin.asked_for("/a?b"), 2);
    let mut client = Client::new(server.address);
    assert!(client.get("http://www.example.com/a?b", &[]).unwrap().is_hit());
    assert!(server.stop().success());
}

#[test]
fn no_more_is_asked_for_in_a_second_than_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let (server, proxy) = start(folder.path(), "");
    let list: String = (0..21).map(|n| format!("{}\n", origin.url(&format!("/{n}")))).collect();
    let began = Instant::now();
    let said = warm(&["--list", "-", "--proxy", &proxy, "--rate", "40", "--connections", "3"], &list);
    assert!(said.status.success(), "{said:?}");
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(server.stop().success());
}

#[test]
fn errors_are_one_line() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (words, code, why) in [
        (&["--list", "-", "--proxy", &free][..], 1, "no proxy answers on"),
        (&["--list", "/does/not/exist"], 1, "cannot read list /does/not/exist"),
        (&["--list", "-", "--proxy", "3128"], 2, "proxy: "),
        (&["--list", "-", "-H", "x"], 2, "is not NAME:VALUE"),
        (&["--list", "-", "-H", "Content-Length: 5"], 2, "content-length follows from"),
        (&["--list", "-", "--rate", "0"], 2, "0 is not in 1..=1000000"),
        (&[], 2, "--list"),
    ] {
        let said = warm(words, "http://a/\n");
        let error = text(&said.stderr);
        assert!(error.contains(why) && error.lines().count() == 1, "{words:?}: {error}");
        assert_eq!(said.status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_list_that_goes_on_ends_with_the_proxy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut child = Command::new(COSM)
        .args(["warm", "--list", "-", "--proxy", &free])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut list = child.stdin.take().unwrap();
    list.write_all(b"http://a/\n").unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it waits for the next line");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(1));
}
