//! `cosm log --follow`: requests of a proxy that runs, as they end.

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Instant;
use support::SOON;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::{COSM, Server};

const OPTIONS: &str = "--cache-size 4MiB --packet 64KiB --memory 8MiB --admin 127.0.0.1:0";

/// Ends when it is dropped.
struct Log {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Log {
    fn follow(server: &Server, words: &[&str]) -> Log {
        let mut child = Command::new(COSM)
            .args(["log", "--follow", "--admin", &server.admin().to_string()])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Log { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(folder: &Path, options: &str) -> Server {
    Server::start(&folder.join("cache"), &format!("{OPTIONS} {options}"))
}

fn cosm(words: &[&str]) -> Output {
    Command::new(COSM).args(words).output().unwrap()
}

fn error(output: &Output) -> (String, Option<i32>) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{output:?}");
    (said, output.status.code())
}

/// Who watches has to be there before what is to be seen.
fn until_watched(server: &Server, count: usize) {
    let until = Instant::now() + SOON;
    let mut admin = Client::new(server.admin());
    loop {
        let stats: Value = serde_json::from_slice(&admin.get("/stats.json", &[]).unwrap().body).unwrap();
        if stats["access-log"]["watchers"] == count {
            return;
        }
        assert!(Instant::now() < until, "{}", stats["access-log"]);
    }
}

#[test]
fn requests_are_seen_as_they_end_and_chosen_by_filters() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|asked| match &*asked.target {
        "/a/missing" => Reply::empty(404),
        target => Reply::fresh(target),
    });
    let server = start(folder.path(), "--access-log-mask queries");
    let mut all = Log::follow(&server, &["--json"]);
    let mut some = Log::follow(
        &server,
        &[
            "--filter",
            "path=/a/*",
            "--filter",
            "status=2xx",
            "--filter",
            "outcome=hit*",
            "--filter",
            "host=127.*",
        ],
    );
    until_watched(&server, 2);
    let mut client = Client::new(server.address);
    let paths = ["/a/1?secret", "/b", "/a/missing", "/b", "/a/1?secret", "/a/last", "/a/last"];
    for path in paths {
        client.get(&origin.url(path), &["User-Agent: somebody"]).unwrap();
    }
    for path in paths {
        let told: Value = serde_json::from_str(&all.line()).unwrap();
        let masked = path.replace("secret", "...");
        assert_eq!((&told["path"], &told["user_agent"]), (&masked.into(), &"somebody".into()), "{told:#}");
        assert_eq!((&told["method"], &told["client"]), (&"GET".into(), &"127.0.0.1".into()));
    }
    for path in ["/a/1?...", "/a/last"] {
        let line = some.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1..5], ["127.0.0.1", "200", "hit", "memory"], "{line}");
        assert_eq!(words[9..], ["GET", &origin.url(path)], "{line}");
    }
    // No log was asked for, and a stop waits for nobody who watches.
    assert!(server.stop().success());
}

#[test]
fn few_watch_at_once_and_who_leaves_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), "");
    let admin = server.admin().to_string();
    let mut watching: Vec<_> = (0..4).map(|_| Log::follow(&server, &[])).collect();
    until_watched(&server, 4);
    let (why, code) = error(&cosm(&["log", "--follow", "--admin", &admin]));
    assert!(why.contains("4 watch already") && code == Some(1), "{why}");
    watching.pop();
    until_watched(&server, 3);
    assert!(server.stop().success());
}

#[test]
fn errors_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let server = start(folder.path(), &format!("--admin-token {}", token.display()));
    let admin = server.admin().to_string();
    for (words, code, why) in [
        (&["--follow", "--admin", &admin][..], 1, "wants its token"),
        (&["--admin", &admin], 2, "say --follow"),
        (&["--follow", "--filter", "url=x"], 2, "`url=x` is none of status=VALUE"),
        (&["--follow", "--filter", "slower=1"], 2, "filter slower: "),
        (&["--follow", "--admin", "127.0.0.1:1"], 1, "no admin interface answers"),
    ] {
        let (said, status) = error(&cosm(&[&["log"], words].concat()));
        assert!(said.contains(why) && status == Some(code), "{words:?}: {said}");
    }
    let token = token.display().to_string();
    let wrong = ["log", "--follow", "--admin", &admin, "--admin-token", &token, "--filter", "status=many"];
    let (said, status) = error(&cosm(&wrong));
    assert!(said.contains("`many` is neither a status") && status == Some(1), "{said}");
    assert!(server.stop().success());
}
