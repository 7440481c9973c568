//! The access log of the program: what other programs read of it, and what happens to its file.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::SOON;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::Server;
use tempfile::TempDir;

/// A hit, two misses, what is not cached, and what is not found.
const PATHS: [&str; 5] = ["/page?q=%22", "/page?q=%22", "/other", "/missing", "/missing"];

/// The lines that a run of the program writes in a format, once it has ended.
fn logged(format: &str, more: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    run(&folder, &format!("--access-log {} --access-log-format {format} {more}", log.display()));
    lines(&log)
}

fn run(folder: &TempDir, options: &str) {
    let origin = Origin::start(|request| match request.target.contains("/missing") {
        true => Reply::empty(404),
        false => Reply::fresh("some content"),
    });
    let server =
        Server::start(&folder.path().join("cache"), &format!("--cache-size 4MiB --packet 64KiB {options}"));
    let mut client = Client::new(server.address);
    for path in PATHS {
        client.get(&origin.url(path), &["User-Agent: a \"test\"", "Referer: http://r.test/?q=r"]).unwrap();
    }
    drop(client);
    assert!(server.stop().success());
}

fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn json_says_what_became_of_each_request() {
    let lines = logged("json", "");
    let rows: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(all("outcome"), ["miss", "hit", "miss", "miss", "miss"]);
    assert_eq!(all("status"), [200, 200, 200, 404, 404]);
    assert_eq!(all("bytes")[..2], [12, 12]);
    assert!(rows.iter().all(|row| row["client"] == "127.0.0.1" && row["user_agent"] == "a \"test\""));
    assert!(rows[0]["url"].as_str().unwrap().ends_with("/page?q=%22") && rows[0]["hop"].is_string());
    assert!(
        rows[1]["cache_status"].as_str().unwrap().starts_with("cosm; hit; ttl=") && rows[1]["hop"].is_null()
    );
    assert!(rows.iter().all(|row| row["duration"].as_f64() >= row["first_byte"].as_f64()));
}

#[test]
fn bytes_of_a_requests_content_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let origin = Origin::start(|_| Reply::fresh("x"));
    let options = format!(
        "--cache-size 4MiB --packet 64KiB --access-log {} --access-log-format $method,$bytes_in",
        log.display()
    );
    let server = Server::start(&folder.path().join("cache"), &options);
    let mut client = Client::new(server.address);
    for body in [&b""[..], b"12345", &[b'x'; 100_000]] {
        assert_eq!(client.send("POST", &origin.url("/"), &[], body).unwrap().status, 200);
    }
    client.get(&origin.url("/"), &[]).unwrap();
    drop(client);
    assert!(server.stop().success());
    assert_eq!(lines(&log), ["POST,0", "POST,5", "POST,100000", "GET,0"]);
}

#[test]
fn what_is_masked_is_in_no_format() {
    for format in ["json", "combined", "squid", "$client%$url%$request%$path"] {
        let lines = logged(format, "--access-log-mask clients,queries");
        assert_eq!(lines.len(), PATHS.len());
        assert!(!lines.concat().contains("127.0.0.1 ") && !lines.concat().contains("q="), "{lines:#?}");
        assert!(lines[0].contains("127.0.0.0") && lines[0].contains("/page?..."), "{}", lines[0]);
    }
}

#[test]
fn a_moved_file_is_opened_anew_by_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (log, moved) = (folder.path().join("access.log"), folder.path().join("moved.log"));
    let origin = Origin::start(|_| Reply::fresh("x"));
    let options = format!("--cache-size 4MiB --packet 64KiB --access-log {}", log.display());
    let server = Server::start(&folder.path().join("cache"), &options);
    let get = |path: &str| Client::new(server.address).get(&origin.url(path), &[]).unwrap();
    let until = |done: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !done() {
            assert!(
                began.elapsed() < SOON,
                "{:?}",
                fs::read_dir(folder.path().join(".")).unwrap().collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    get("/one");
    until(&|| lines(&log).len() == 1);
    fs::rename(&log, &moved).unwrap();
    kill_process(Pid::from_raw(server.id() as i32).unwrap(), Signal::USR1).unwrap();
    until(&|| log.exists());
    get("/two");
    assert!(server.stop().success());
    assert!(lines(&moved).len() == 1 && lines(&log).len() == 1 && lines(&log)[0].contains("/two"));
}

#[test]
fn a_log_that_cannot_be_written_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(support::program::COSM)
        .args(["serve", "--listen", "127.0.0.1:0", "--cache", "off", "--access-log"])
        .arg(folder.path().join("no/such/folder/access.log"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("cosm: cannot write access log /") && said.lines().count() == 1, "{said}");
}

/// Nobody reads standard output.
#[test]
fn a_reader_that_does_not_read_holds_up_neither_requests_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("x"));
    let long = "x".repeat(6000);
    let (unread, output) = std::io::pipe().unwrap();
    let options = "--cache-size 4MiB --packet 64KiB --access-log - --access-log-format json";
    let server = Server::start_writing(&folder.path().join("cache"), options, output);
    let mut client = Client::new(server.address);
    let began = Instant::now();
    // 3 MB: more than a pipe and a buffer hold.
    for _ in 0..500 {
        client.get(&origin.url(&format!("/?{long}")), &[]).unwrap();
    }
    assert!(began.elapsed() < SOON);
    drop(client);
    let said = server.said_until_stopped();
    assert!(said.iter().any(|line| line.contains("its last lines are lost")), "{said:#?}");
    drop(unread);
}

/// Needs goaccess and calamaris (Debian's packages).
#[test]
#[ignore = "needs goaccess and calamaris"]
fn programs_that_read_logs_count_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("combined.log");
    run(&folder, &format!("--access-log {}", log.display()));
    let report = folder.path().join("report.json");
    let status = Command::new("goaccess")
        .args(["--log-format=COMBINED", "--no-global-config", "--no-progress", "-o"])
        .arg(&report)
        .arg(&log)
        .status()
        .expect("goaccess");
    assert!(status.success());
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let general = &report["general"];
    assert_eq!(
        (&general["valid_requests"], &general["failed_requests"]),
        (&5.into(), &0.into()),
        "{general}"
    );

    let log = folder.path().join("squid.log");
    run(&folder, &format!("--access-log {} --access-log-format squid", log.display()));
    let output = Command::new("calamaris")
        .args(["-a", "-F", "unformatted"])
        .stdin(fs::File::open(&log).unwrap())
        .output()
        .expect("calamaris");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let sum = report.lines().find(|line| line.starts_with("Sum ")).unwrap_or_default();
    assert!(sum.starts_with("Sum 5 100 "), "{report}");
    for (code, requests) in [("200 (OK)", 3), ("404 (Not Found)", 2)] {
        assert!(report.contains(&format!("{code} {requests} ")), "{report}");
    }
    let by_host = report.split("# Incoming TCP-requests by host").nth(1).unwrap_or_default();
    assert!(by_host.contains("localhost 5 20 "), "one hit of five: {report}");
}

/// What clients asked for, the laboratory replays: as many requests, and as many hits.
#[test]
fn the_laboratory_replays_what_was_logged() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|request| match &request.target {
        target if target.contains("/missing") => Reply::empty(404),
        target if target.contains("/private") => {
            Reply { fields: vec!["Cache-Control: private".into()], ..Reply::fresh("of one") }
        }
        _ => Reply::fresh("x".repeat(1000)),
    });
    for format in ["json", "squid"] {
        let log = folder.path().join(format);
        let options = format!("--access-log {} --access-log-format {format}", log.display());
        let server = Server::start(
            &folder.path().join("cache"),
            &format!("--cache-size 4MiB --packet 64KiB {options}"),
        );
        let mut client = Client::new(server.address);
        for nth in 0..20 {
            client.get(&origin.url(&format!("/{}.gif", nth % 8)), &[]).unwrap();
            client.get(&origin.url("/search?of=all"), &[]).unwrap();
        }
        for path in ["/private", "/private", "/missing"] {
            client.get(&origin.url(path), &[]).unwrap();
        }
        client.get(&origin.url("/0.gif"), &["If-None-Match: *"]).unwrap();
        drop(client);
        assert!(server.stop().success());
        // A line of somebody else.
        fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"{\"time_unix\":\"x\n").unwrap();
        let lab = |words: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_cosm")).arg("lab").args(words).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{said}");
            assert!(said.contains("1 malformed lines were left out"), "{said}");
            output.stdout
        };
        let path = log.to_str().unwrap();
        let simulated = lab(&["simulate", "--trace", path, "--policies", "lru", "--sizes", "1MiB", "--json"]);
        let found: Value = serde_json::from_slice(&simulated).unwrap();
        // What `private` says is in the JSON alone, which also tells that a search can be cached.
        let (cacheable, hits) = if format == "json" { (40, 20 - 8 + 19) } else { (20 + 2, 20 - 8 + 1) };
        assert_eq!((&found["requests"], &found["cacheable"]), (&44.into(), &cacheable.into()), "{format}");
        assert_eq!(found["rows"][0]["hits"], hits, "{format}");
        let columns = lab(&["convert", "--trace", path, "--to", "csv", "--out", "-"]);
        assert_eq!(String::from_utf8(columns).unwrap().lines().count(), 1 + 44, "{format}");
        fs::remove_file(folder.path().join("cache")).unwrap();
    }
}

/// An edit that leaves the size is told by its date: hits are those of the site's versions, and what was there before the night is known.
#[test]
fn the_log_tells_when_responses_were_modified() {
    const TUESDAY: u64 = 1_764_028_800;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let edits = std::sync::atomic::AtomicU64::new(0);
    let origin = Origin::start(move |request| {
        let modified = match &request.target[..] {
            "/old" => Some("Mon, 24 Nov 2025 08:00:00 GMT".to_owned()),
            "/edited" => {
                let nth = edits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Some(format!("Tue, 25 Nov 2025 1{nth}:30:00 GMT"))
            }
            "/nonsense" => Some("yesterday".into()),
            _ => None,
        };
        let mut reply = Reply::fresh("x".repeat(1000));
        reply.fields[0] = "Cache-Control: max-age=0".into();
        match modified {
            Some(date) => reply.field(format!("Last-Modified: {date}")),
            None => reply,
        }
    });
    let options = format!("--access-log {} --access-log-format json", log.display());
    let server =
        Server::start(&folder.path().join("cache"), &format!("--cache-size 4MiB --packet 64KiB {options}"));
    let mut client = Client::new(server.address);
    for path in ["/old", "/edited", "/old", "/edited", "/nonsense", "/without"] {
        client.get(&origin.url(path), &[]).unwrap();
    }
    drop(client);
    assert!(server.stop().success());
    let mut rows: Vec<Value> = lines(&log).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (old, edited) = (TUESDAY - 16 * 3600, TUESDAY + 10 * 3600 + 1800);
    let modified: Vec<Value> = rows.iter().map(|row| row["modified"].clone()).collect();
    let (none, later) = (Value::Null, edited + 3600);
    assert_eq!(modified, [old.into(), edited.into(), old.into(), later.into(), none.clone(), none]);
    // As if they had come on Tuesday, an hour after the other from 10:00 on.
    let mut moved = String::new();
    for (row, nth) in rows.iter_mut().zip(0..) {
        row["time_unix"] = (TUESDAY + (10 + nth) * 3600).into();
        moved += &format!("{row}\n");
    }
    fs::write(&log, moved).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cosm"))
        .args(["smooth", "analyze", log.to_str().unwrap(), "--peak", "09:00-21:00", "--json"])
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (analysis, misses) = (&found["analysis"], &found["analysis"]["infinite"]["misses"]);
    assert_eq!(analysis["by_date"], true, "{found}");
    let bytes = |part: &Value| part["bytes"].as_u64().unwrap();
    assert_eq!(bytes(&analysis["infinite"]["hits"]), 1000);
    assert_eq!((bytes(&misses["unseen_server"]), bytes(&misses["altered"])), (1000, 2000), "{misses}");
    assert_eq!(bytes(&misses["not_cacheable"]), 2000, "{misses}");
}
