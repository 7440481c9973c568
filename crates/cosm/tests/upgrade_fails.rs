//! Upgrades at which something goes wrong, or something else comes in between: nothing is lost by it.

mod support;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use support::SOON;
use support::client::{Client, line, read_fields};
use support::origin::{Origin, Reply};
use support::program::Server;
use support::service::{
    ADMIN, Service, await_that, is_running, make_pipe, open_files, origin, purge, threads,
};

const SMALL: &str = "--packet 64KiB --flush-interval 50ms";
const SIZE: &str = "cache-size 8MiB\n";

/// Holds answers back.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(open, SOON, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// `/changes` says what is in `version`. Whatever is posted, or asked for at `/late`, waits at the gate.
fn gated(version: &Arc<AtomicU32>, gate: &Gate) -> Origin {
    let (version, gate) = (version.clone(), gate.clone());
    Origin::start(move |asked| {
        if asked.method == "POST" || asked.target == "/late" {
            gate.pass();
        }
        match &*asked.method {
            "POST" => Reply::empty(204),
            _ => Reply::fresh(version.load(SeqCst).to_string()),
        }
    })
}

fn text(client: &mut Client, url: &str) -> String {
    String::from_utf8(client.get(url, &[]).unwrap().body).unwrap()
}

/// On a connection of its own; its answer is still to come.
fn asking(service: &Service, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Its status line. The body is read as far as its length says.
fn answer(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let status = line(stream).unwrap();
    let fields = read_fields(stream).unwrap();
    let length = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}

/// Starts an upgrade; gives the process that was started.
fn begin(service: &Service) -> i32 {
    let before = service.id();
    service.signal(before, Signal::USR2);
    let mut successor = None;
    await_that("a process that takes over", || {
        successor = service.successor(before);
        // Before it is this program anew, it is a copy of the other process, which waits for it.
        let environment = successor.and_then(|id| fs::read(format!("/proc/{id}/environ")).ok());
        environment.is_some_and(|all| String::from_utf8_lossy(&all).contains("COSM_UPGRADE_OF="))
    });
    successor.unwrap()
}

/// What it answered would be undone where it fails: the other one knows nothing of it.
#[test]
fn a_process_that_does_not_serve_yet_answers_nothing() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let service = Service::start(SMALL, SIZE);
    let (mut client, url) = (Client::new(service.address), origin.url("/changes"));
    assert_eq!(text(&mut client, &url), "1");
    version.store(2, SeqCst);
    // It comes as far as to write its number.
    let pipe = service.at("pid.new");
    make_pipe(&pipe);
    let successor = begin(&service);
    await_that("its workers", || threads(successor).iter().any(|name| name.starts_with("worker-")));
    let answered = AtomicBool::new(false);
    thread::scope(|scope| {
        let status = scope.spawn(|| {
            let status = purge(service.admin, &url);
            answered.store(true, SeqCst);
            status
        });
        thread::sleep(Duration::from_millis(200));
        let is_early = answered.load(SeqCst);
        fs::remove_file(&pipe).unwrap();
        service.signal(successor, Signal::KILL);
        assert_eq!(status.join().unwrap(), 200);
        assert!(!is_early, "it did");
    });
    assert_eq!(text(&mut Client::new(service.address), &url), "2");
}

#[test]
fn the_number_of_a_process_that_failed_does_not_stay() {
    let service = Service::start(SMALL, SIZE);
    let id = service.id();
    for file in ["no-such-setting 1\n".to_owned(), format!("{ADMIN}cache-size 8TiB\n")] {
        fs::write(service.at("settings"), file).unwrap();
        fs::write(service.at("pid"), "999999\n").unwrap();
        let said = service.events("no upgrade: ");
        service.signal(id, Signal::USR2);
        await_that("the end of the attempt", || service.events("no upgrade: ") > said);
        assert_eq!(service.id(), id);
    }
}

#[test]
fn a_stop_that_does_not_wait_ends_who_would_take_over() {
    let gate = Gate::default();
    let origin = gated(&Arc::default(), &gate);
    let mut service = Service::start(SMALL, SIZE);
    let id = service.id();
    let _late = asking(&service, &format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", origin.url("/late")));
    await_that("the request", || origin.asked_for("/late") == 1);
    let settings = service.at("settings");
    fs::remove_file(&settings).unwrap();
    make_pipe(&settings);
    let successor = begin(&service);
    service.signal(id, Signal::TERM);
    let server = service.server.take().unwrap();
    while !server.next_line().contains("a second signal") {}
    service.signal(id, Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    await_that("its end", || !is_running(successor));
    gate.open();
}

/// By then no request is begun here any more, and one is still under way.
#[test]
fn a_stop_just_before_the_other_one_serves_ends_both() {
    let gate = Gate::default();
    let origin = gated(&Arc::default(), &gate);
    let mut service = Service::start(SMALL, SIZE);
    let id = service.id();
    let mut late = asking(
        &service,
        &format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/late"), origin.address),
    );
    await_that("the request", || origin.asked_for("/late") == 1);
    // It comes as far as to write its number.
    let pipe = service.at("pid.new");
    make_pipe(&pipe);
    let successor = begin(&service);
    await_that("its workers", || threads(successor).iter().any(|name| name.starts_with("worker-")));
    let server = service.server.take().unwrap();
    service.signal(id, Signal::TERM);
    while !server.next_line().contains("a second signal") {}
    // Now it is free to serve: a pipe would be no good as the file that it renames.
    let (other, whole) = (service.at("pipe"), service.at("whole"));
    fs::hard_link(&pipe, &other).unwrap();
    fs::write(&whole, format!("{successor}\n")).unwrap();
    fs::rename(&whole, &pipe).unwrap();
    // It may have been ended before it came there: that is not waited for.
    drop(File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&other).unwrap());
    await_that("its end", || !is_running(successor));
    gate.open();
    assert!(answer(&mut late).0.starts_with("HTTP/1.1 200 "));
    assert!(server.wait().success());
    assert_eq!(service.events("serves; this one ends"), 0, "{}", service.errors());
}

#[test]
fn of_signals_in_a_row_one_upgrades() {
    let service = Service::start(SMALL, SIZE);
    let before = service.id();
    while service.id() == before {
        let _ = kill_process(Pid::from_raw(before).unwrap(), Signal::USR2);
        thread::sleep(Duration::from_micros(300));
    }
    await_that("the end", || !is_running(before));
    let errors = service.errors();
    assert_eq!(service.events("serves; this one ends"), 1, "{errors}");
    // A signal may come even then.
    let until_then = errors.split("serves; this one ends").next().unwrap();
    assert!(!until_then.contains("this process stops"), "{errors}");
    assert!(errors.contains("another process takes over already"), "{errors}");
}

/// What the first one still does comes to the third by way of the second.
#[test]
fn each_process_outlives_the_one_before_it() {
    let (version, gate) = (Arc::new(AtomicU32::new(1)), Gate::default());
    let origin = gated(&version, &gate);
    let mut service = Service::start(SMALL, SIZE);
    let url = origin.url("/changes");
    assert_eq!(text(&mut Client::new(service.address), &url), "1");
    let host = origin.address;
    let mut held =
        asking(&service, &format!("POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
    await_that("the request", || origin.asked_for("/changes") == 2);
    service.upgrade();
    let second = service.id();
    service.upgrade();
    let mut client = Client::new(service.address);
    assert_eq!(text(&mut client, &url), "1");
    version.store(2, SeqCst);
    thread::sleep(Duration::from_millis(300));
    gate.open();
    assert!(answer(&mut held).0.starts_with("HTTP/1.1 204 "));
    assert_eq!(text(&mut client, &url), "2", "what was changed there is known here");
    write!(held.get_mut(), "GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let (status, body) = answer(&mut held);
    assert!(status.starts_with("HTTP/1.1 200 ") && body == "2", "{status}: {body}");
    assert!(service.server.take().unwrap().wait().success());
    await_that("the second one's end", || !is_running(second));
}

/// What is invalidated there reaches the cache, however each of the two hears that it is to stop.
#[test]
fn a_stop_has_the_process_before_stop_too_and_waits_for_it() {
    let stop = |signal, line: &str, is_first_told: bool| {
        let (version, gate) = (Arc::new(AtomicU32::new(1)), Gate::default());
        let origin = gated(&version, &gate);
        let mut service = Service::start(SMALL, SIZE);
        let (url, host) = (origin.url("/changes"), origin.address);
        assert_eq!(text(&mut Client::new(service.address), &url), "1");
        let post = format!("POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        let mut held = asking(&service, &post);
        await_that("the request", || origin.asked_for("/changes") == 2);
        service.upgrade();
        let (first, second) = (service.server.take().unwrap(), service.id());
        if is_first_told {
            service.signal(first.id() as i32, signal);
        }
        service.signal(second, signal);
        // Both say so, on the same standard error.
        (0..2).for_each(|_| while !first.next_line().contains(line) {});
        version.store(2, SeqCst);
        thread::sleep(Duration::from_millis(200));
        assert!(is_running(second), "it does not wait");
        gate.open();
        assert!(answer(&mut held).0.starts_with("HTTP/1.1 204 "));
        assert!(first.wait().success(), "{}", service.errors());
        await_that("the second one's end", || !is_running(second));
        assert_eq!(service.events("purge it"), 0, "{}", service.errors());
        let again = Server::start(&service.at("cache"), SMALL);
        assert_eq!(text(&mut Client::new(again.address), &url), "2");
    };
    thread::scope(|scope| {
        scope.spawn(|| stop(Signal::TERM, "a second signal", false));
        scope.spawn(|| stop(Signal::TERM, "a second signal", true));
        scope.spawn(|| stop(Signal::QUIT, "stopping gracefully", false));
    });
}

#[test]
fn what_nobody_hears_any_more_is_told_of_once() {
    let gate = Gate::default();
    let origin = gated(&Arc::default(), &gate);
    let mut service = Service::start(SMALL, SIZE);
    let host = origin.address;
    let post = |path: &str| {
        let url = origin.url(path);
        asking(&service, &format!("POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"))
    };
    let mut held = [post("/one"), post("/two")];
    await_that("the requests", || origin.asked_for("/one") + origin.asked_for("/two") == 2);
    service.upgrade();
    let second = service.id();
    service.signal(second, Signal::KILL);
    await_that("its end", || !is_running(second));
    gate.open();
    held.iter_mut().for_each(|held| assert!(answer(held).0.starts_with("HTTP/1.1 204 ")));
    assert!(service.server.take().unwrap().wait().success());
    let said = service.events("the process that took over has ended: the next start may serve");
    assert_eq!(said, 1, "{}", service.errors());
}

#[test]
fn who_finishes_what_is_under_way_opens_its_logs_anew_too() {
    let gate = Gate::default();
    let origin = gated(&Arc::default(), &gate);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut service = Service::start(&format!("{SMALL} --access-log {}", at("log").display()), SIZE);
    let first = service.id();
    let mut late = asking(
        &service,
        &format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/late"), origin.address),
    );
    await_that("the request", || origin.asked_for("/late") == 1);
    service.upgrade();
    service.upgrade();
    fs::rename(at("log"), at("log.1")).unwrap();
    service.signal(service.id(), Signal::USR1);
    let rotated = at("log.1").display().to_string();
    await_that("nobody to have the old one", || !open_files(first).contains(&rotated));
    gate.open();
    assert!(answer(&mut late).0.starts_with("HTTP/1.1 200 "));
    assert!(service.server.take().unwrap().wait().success());
    let log = fs::read_to_string(at("log")).unwrap();
    assert!(log.contains("/late"), "{log}");
}

#[test]
fn signals_that_come_in_the_middle_reach_who_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let service = Service::start(&format!("{SMALL} --access-log {}", at("log").display()), SIZE);
    let before = service.id();
    let successor = begin(&service);
    let (log, rotated) = (at("log").display().to_string(), at("log.1").display().to_string());
    await_that("it to have read the settings", || open_files(successor).contains(&log));
    service.signal(successor, Signal::STOP);
    fs::write(service.at("settings"), format!("{ADMIN}{SIZE}finish-max 2MiB\n")).unwrap();
    fs::rename(at("log"), at("log.1")).unwrap();
    service.signal(before, Signal::HUP);
    await_that("the first to read them", || service.events("changed: finish-max") == 1);
    service.signal(before, Signal::USR1);
    await_that("the first to open the log", || at("log").exists());
    service.signal(successor, Signal::CONT);
    await_that("the second to read them", || service.events("changed: finish-max") == 2);
    let has_log = || open_files(successor).contains(&log) && !open_files(successor).contains(&rotated);
    await_that("the second to open the log", has_log);
}

#[test]
fn a_stop_before_the_cache_is_taken_back_removes_what_was_changed_or_says_so() {
    for comes_back in [true, false] {
        let (version, gate) = (Arc::new(AtomicU32::new(1)), Gate::default());
        gate.open();
        let origin = gated(&version, &gate);
        let mut service = Service::start(SMALL, SIZE);
        let (url, host) = (origin.url("/changes"), origin.address);
        assert_eq!(text(&mut Client::new(service.address), &url), "1");
        let (cache, kept) = (service.at("cache"), service.at("kept"));
        fs::rename(&cache, &kept).unwrap();
        fs::create_dir(&cache).unwrap();
        let why = service.upgrade_in_vain();
        assert!(why.contains("the cache cannot be taken back"), "{why}");
        version.store(2, SeqCst);
        let post = format!("POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        assert!(answer(&mut asking(&service, &post)).0.starts_with("HTTP/1.1 204 "));
        let server = service.server.take().unwrap();
        service.signal(server.id() as i32, Signal::TERM);
        let await_line = |what: &str| while !server.next_line().contains(what) {};
        await_line("a second signal");
        if comes_back {
            fs::remove_dir(&cache).unwrap();
            fs::rename(&kept, &cache).unwrap();
        } else {
            await_line("the next start may serve what was invalidated");
        }
        assert_eq!(server.wait().success(), comes_back, "{}", service.errors());
        if comes_back {
            let again = Server::start(&cache, SMALL);
            assert_eq!(text(&mut Client::new(again.address), &url), "2");
        }
    }
}

#[test]
fn a_cache_that_cannot_be_taken_back_at_once_is_later() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let service = Service::start(SMALL, SIZE);
    let (mut client, url) = (Client::new(service.address), origin.url("/changes"));
    assert_eq!(text(&mut client, &url), "1");
    let file = File::open(service.at("cache")).unwrap();
    // The new process may be faster.
    loop {
        let before = service.id();
        service.signal(before, Signal::USR2);
        await_that("the file to be free", || service.id() != before || file.try_lock().is_ok());
        if service.id() == before {
            break;
        }
        await_that("the upgrade", || !is_running(before));
    }
    await_that("the end of the attempt", || service.events("cannot be taken back") == 1);
    assert!(client.get(&url, &[]).unwrap().is_hit(), "it is read");
    drop(file);
    await_that("the cache", || service.events("the cache is taken back") == 1);
    version.store(2, SeqCst);
    assert_eq!(purge(service.admin, &url), 200);
    assert_eq!(text(&mut client, &url), "2");
    assert!(client.get(&url, &["Cache-Control: only-if-cached"]).unwrap().is_hit(), "it is stored");
    service.upgrade();
    assert!(client.get(&url, &["Cache-Control: only-if-cached"]).unwrap().is_hit());
}
