//! The error log of the program: what it says, by which id it is found, and what changes while it runs.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::SOON;
use support::client::Client;
use support::program::{COSM, Server};

/// Where nobody listens.
fn gone() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn rows(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        match found() {
            Some(found) => return found,
            None => assert!(began.elapsed() < SOON, "{what}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(server.id() as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_clients_id_finds_what_went_wrong_in_both_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (errors, accesses) = (folder.path().join("error.log"), folder.path().join("access.log"));
    let origin = gone();
    let server = Server::start(
        &folder.path().join("cache"),
        &format!(
            "--cache-size 4MiB --packet 64KiB --origin http://{origin} --error-log {} --error-log-format json \
             --access-log {} --access-log-format json",
            errors.display(),
            accesses.display()
        ),
    );
    let answer = Client::new(server.address)
        .get("/some/page?secret", &["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
        .unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let id = text.trim_end().rsplit(' ').next().unwrap();
    assert!(answer.status == 502 && !text.contains(&origin.to_string()), "{text}");
    assert!(
        server.said_until_stopped().iter().all(|line| !line.contains("origin")),
        "nothing on standard error"
    );
    let rows = rows(&errors);
    let of = |area: &str| rows.iter().find(|row| row["area"] == area).unwrap_or_else(|| panic!("{rows:#?}"));
    let (request, cause) = (of("request"), of("origin"));
    assert_eq!(
        (&request["id"], &request["status"], &request["level"]),
        (&id.into(), &502.into(), &"error".into())
    );
    assert_eq!((&request["host"], &request["method"]), (&"localhost".into(), &"GET".into()));
    assert_eq!((&cause["hop"], &cause["message"]), (&origin.to_string().into(), &"cannot connect".into()));
    assert!(cause["cause"].as_str().unwrap().contains("refused"), "{cause}");
    assert!(!fs::read_to_string(&errors).unwrap().contains("secret"));
    let access: Value =
        serde_json::from_str(fs::read_to_string(&accesses).unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(access["id"], id);
    assert_eq!(access["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
}

#[test]
fn of_one_kind_a_line_a_second_is_written_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("error.log");
    let options = format!(
        "--cache-size 4MiB --packet 64KiB --origin http://{} --error-log {} --error-log-format json",
        gone(),
        log.display()
    );
    let server = Server::start(&folder.path().join("cache"), &options);
    let mut client = Client::new(server.address);
    let (began, mut sent) = (Instant::now(), 0_u64);
    while began.elapsed() < Duration::from_millis(2500) || sent < 50 {
        assert_eq!(client.get("/", &[]).unwrap().status, 502);
        sent += 1;
    }
    let seconds = began.elapsed().as_secs() + 1;
    assert!(server.stop().success());
    for area in ["request", "origin"] {
        let of: Vec<_> = rows(&log).into_iter().filter(|row| row["area"] == area).collect();
        let told: u64 = of.iter().map(|row| 1 + row["left_out"].as_u64().unwrap_or(0)).sum();
        assert!(
            (2..=seconds as usize).contains(&of.len()) && told <= sent && told > sent / 4,
            "{of:#?} of {sent}"
        );
    }
}

#[test]
fn levels_and_pages_change_while_it_runs_and_a_moved_file_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (log, moved, config) = (path("error.log"), path("moved.log"), path("cosm.toml"));
    let write = |levels: &str, pages: &str| {
        fs::write(&config, format!("error-log-level = \"{levels}\"\nerror-pages = \"{pages}\"\n")).unwrap();
    };
    fs::create_dir(path("pages")).unwrap();
    fs::write(path("pages/error.txt"), "sorry\n").unwrap();
    write("request=off,origin=error", "none");
    let server = Server::start(
        &path("cache"),
        &format!(
            "--config {} --cache-size 4MiB --packet 64KiB --origin http://{} --error-log {} --error-log-format json",
            config.display(),
            gone(),
            log.display()
        ),
    );
    let get = || String::from_utf8(Client::new(server.address).get("/", &[]).unwrap().body).unwrap();
    let has = |log: &Path, area: &str| rows(log).iter().any(|row| row["area"] == area);
    assert!(get().starts_with("the origin"));
    write("info", path("pages").to_str().unwrap());
    signal(&server, Signal::HUP);
    until("the reload is told", || has(&log, "settings").then_some(()));
    assert!(!has(&log, "request") && !has(&log, "origin"), "they were off");
    until("the page is another", || (get() == "sorry\n").then_some(()));
    until("the trouble is told", || (has(&log, "request") && has(&log, "origin")).then_some(()));
    fs::rename(&log, &moved).unwrap();
    signal(&server, Signal::USR1);
    until("the file is opened anew", || log.exists().then_some(()));
    // A page that cannot be read changes nothing, and is named.
    fs::write(path("pages/teapot.html"), "").unwrap();
    signal(&server, Signal::HUP);
    let row = until("what is wrong is told", || rows(&log).into_iter().find(|row| row["area"] == "settings"));
    assert!(row["level"] == "warn" && row["message"].as_str().unwrap().contains("teapot.html"), "{row}");
    assert_eq!(get(), "sorry\n");
    assert!(server.stop().success());
}

#[test]
fn a_log_that_cannot_be_written_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(COSM)
        .args(["serve", "--listen", "127.0.0.1:0", "--cache", "off", "--error-log"])
        .arg(folder.path().join("no/such/folder/error.log"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("cosm: cannot write error log /") && said.lines().count() == 1, "{said}");
}

#[test]
fn each_change_by_the_operator_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("token"), "a-token-of-the-operator\n").unwrap();
    let options = format!(
        "--cache-size 4MiB --packet 64KiB --admin 127.0.0.1:0 --admin-token {} --error-log {} --error-log-format json",
        path("token").display(),
        path("error.log").display()
    );
    let server = Server::start(&path("cache"), &options);
    let mut client = Client::new(server.admin());
    assert_eq!(client.send("POST", "/purge?all", &[], b"").unwrap().status, 401);
    let token = "Authorization: Bearer a-token-of-the-operator";
    assert_eq!(client.send("POST", "/purge?all", &[token], b"").unwrap().status, 200);
    assert_eq!(client.send("POST", "/purge?nothing", &[token], b"").unwrap().status, 400);
    assert!(server.stop().success());
    let changes: Vec<_> = rows(&path("error.log")).into_iter().filter(|row| row["area"] == "admin").collect();
    let told: Vec<_> = changes.iter().map(|row| [&row["message"], &row["what"], &row["by"]]).collect();
    assert_eq!(told[0], ["POST /purge", "all", "127.0.0.1"], "{changes:#?}");
    assert!(
        changes[0]["outcome"] == "done" && told.len() == 2 && changes[1]["outcome"] != "done",
        "{changes:#?}"
    );
    assert!(!fs::read_to_string(path("error.log")).unwrap().contains("a-token"));
}

/// Standard error is a pipe, and full.
#[test]
fn a_reader_that_does_not_read_holds_up_neither_requests_nor_signals_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (stderr, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(COSM)
        .args(["serve", "--cache", "off", "--memory", "0", "--workers", "1"])
        .args(["--listen", &format!("unix:{}", path("listen").display())])
        .args(["--admin", &format!("unix:{}", path("admin").display())])
        .stdin(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let ask = |request: &str| -> Option<String> {
        let mut stream = UnixStream::connect(path("admin")).ok()?;
        stream.write_all(format!("{request} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    until("it listens", || ask("GET /healthz"));
    // More lines than any pipe takes.
    let long = "x".repeat(1500);
    for _ in 0..200 {
        assert!(ask(&format!("POST /purge?{long}")).unwrap().contains("400"));
    }
    let id = Pid::from_child(&child);
    for signal in [Signal::HUP, Signal::USR1, Signal::USR2, Signal::TERM] {
        kill_process(id, signal).unwrap();
    }
    let status = until("it ends", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    drop(stderr);
}

#[test]
fn a_log_is_no_cache_and_no_other_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let other = folder.path().join("../").join(folder.path().file_name().unwrap()).join("file");
    for words in [["--cache", "--error-log"], ["--access-log", "--error-log"], ["--cache", "--access-log"]] {
        let mut command = Command::new(COSM);
        command.args(["serve", "--check", "--listen", "127.0.0.1:0"]);
        command.arg(words[0]).arg(&path).arg(words[1]).arg(&other);
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(said.contains("are both") && said.contains("another file"), "{words:?}: {said}");
    }
}
