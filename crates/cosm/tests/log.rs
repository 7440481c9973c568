//! `cosm log --follow`: requests of a proxy that runs, as they end.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
fn until_watched(admin: SocketAddr, count: usize) {
    let until = Instant::now() + SOON;
    let mut admin = Client::new(admin);
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
    until_watched(server.admin(), 2);
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
fn who_follows_sees_the_requests_of_the_process_that_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|asked| Reply::fresh(&*asked.target));
    let pid_file = folder.path().join("pid");
    let server = start(folder.path(), &format!("--pid-file {}", pid_file.display()));
    let (first, address, admin) = (server.id(), server.address, server.admin());
    let mut log = Log::follow(&server, &["--json"]);
    until_watched(admin, 1);
    let (stop, stopped) = (Stopping(pid_file.clone()), Instant::now() + SOON);
    signal(first, Signal::USR2);
    // The one that goes does not wait for who watches.
    assert!(server.wait().success());
    while !matches!(stop.id(), Some(id) if id != first) {
        assert!(Instant::now() < stopped, "nobody took over");
    }
    until_watched(admin, 1);
    Client::new(address).get(&origin.url("/after"), &[]).unwrap();
    let told: Value = serde_json::from_str(&log.line()).unwrap();
    assert_eq!(told["path"], "/after");
}

/// Ends the process that took over.
struct Stopping(PathBuf);

impl Stopping {
    fn id(&self) -> Option<u32> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        if let Some(id) = self.id() {
            signal(id, Signal::KILL);
        }
    }
}

fn signal(id: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(id as i32).unwrap(), signal);
}

#[test]
fn few_watch_at_once_and_who_leaves_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), "");
    let admin = server.admin().to_string();
    let mut watching: Vec<_> = (0..4).map(|_| Log::follow(&server, &[])).collect();
    until_watched(server.admin(), 4);
    let (why, code) = error(&cosm(&["log", "--follow", "--admin", &admin]));
    assert!(why.contains("4 watch already") && code == Some(1), "{why}");
    watching.pop();
    until_watched(server.admin(), 3);
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
