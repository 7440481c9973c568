//! SIGUSR2: another process takes over, and nobody notices. Where it cannot, the one that serves goes on.

mod support;

use rustix::cmsg_space;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::SOON;
use support::client::{Client, line, read_fields};
use support::content;
use support::origin::{Origin, Reply};
use support::program::{COSM, run};
use support::service::{
    ADMIN, LARGE, Service, Strict, await_that, echo, is_hit, open_files, origin, purge, says_back, tunnel_to,
    websocket_through,
};

const OBJECTS: usize = 40;

/// Clients find all that was stored, and nothing of what was purged, while others take over so often.
fn upgrade_under_load(service: &Service, origin: &Origin, version: &Arc<AtomicU32>, count: usize) {
    let address = service.address;
    let (stop, wrong) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (hits, others) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for client in 0..4 {
            let (stop, wrong, origin, hits, others) = (&stop, &wrong, origin, &hits, &others);
            scope.spawn(move || {
                let mut strict = Strict { address, connection: None, keeps: client > 0 };
                let mut n = client * 7;
                while !stop.load(SeqCst) {
                    n = (n + 1) % OBJECTS;
                    let path = format!("/{n}");
                    match strict.get(&origin.url(&path)) {
                        Ok((_, body)) if body != content::body(&path, 0, 3_000) => {
                            wrong.lock().unwrap().push(format!("{path} has other bytes"));
                        }
                        Ok((status, _)) if is_hit(&status) => _ = hits.fetch_add(1, SeqCst),
                        Ok((status, _)) => others.lock().unwrap().push(status),
                        Err(why) => wrong.lock().unwrap().push(format!("{client}: {path}: {why}")),
                    }
                }
            });
        }
        let (stop, wrong, admin) = (&stop, &wrong, service.admin);
        scope.spawn(move || {
            let url = origin.url("/changes");
            while !stop.load(SeqCst) {
                let now = version.fetch_add(1, SeqCst) + 1;
                if purge(admin, &url) != 200 {
                    continue;
                }
                let mut strict = Strict { address, connection: None, keeps: false };
                match strict.get(&url) {
                    Ok((_, body)) => {
                        let got: u32 = String::from_utf8(body).unwrap().parse().unwrap();
                        if got < now {
                            wrong.lock().unwrap().push(format!("{got} was purged when it was {now}"));
                        }
                    }
                    Err(why) => wrong.lock().unwrap().push(format!("after a purge: {why}")),
                }
            }
        });
        for _ in 0..count {
            let before = hits.load(SeqCst);
            service.upgrade();
            let until = Instant::now() + SOON;
            while hits.load(SeqCst) < before + 50 && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        }
        stop.store(true, SeqCst);
    });
    assert_eq!(wrong.lock().unwrap()[..], [] as [String; 0]);
    assert!(hits.load(SeqCst) > 50 * count);
    assert_eq!(others.lock().unwrap()[..], [] as [String; 0], "hits go on");
}

#[test]
fn nobody_notices_that_others_take_over_and_purges_hold() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let target = echo();
    let options =
        format!("--cache-size 64MiB --flush-interval 50ms --workers 2 --connect-ports {}", target.port());
    let mut service = Service::start(&options, "");
    let address = service.address;
    let mut first = Client::new(address);
    for n in 0..OBJECTS {
        first.get(&origin.url(&format!("/{n}")), &[]).unwrap();
    }
    first.get(&origin.url("/large"), &[]).unwrap();
    let asked = || (0..OBJECTS).map(|n| origin.asked_for(&format!("/{n}"))).sum::<usize>();
    assert_eq!(asked(), OBJECTS);

    let mut tunnel = tunnel_to(address, target);
    says_back(&mut tunnel, 1);
    let mut websocket = websocket_through(address);
    says_back(&mut websocket, 1);

    // Most of it waits in the server.
    let mut download = BufReader::with_capacity(4096, TcpStream::connect(address).unwrap());
    download.get_ref().set_read_timeout(Some(SOON)).unwrap();
    write!(download.get_mut(), "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/large"), origin.address)
        .unwrap();
    assert!(line(&mut download).unwrap().starts_with("HTTP/1.1 200 "));
    let fields = read_fields(&mut download).unwrap();
    assert!(fields.iter().any(|(name, value)| name == "cache-status" && is_hit(value)), "{fields:?}");
    // Of a request, the beginning came to the first process, and the end will come to the last.
    let mut half = TcpStream::connect(address).unwrap();
    half.set_read_timeout(Some(SOON)).unwrap();
    write!(half, "GET {} HT", origin.url("/0")).unwrap();

    upgrade_under_load(&service, &origin, &version, 3);
    assert_eq!(asked(), OBJECTS);

    write!(half, "TP/1.1\r\nHost: {}\r\n\r\n", origin.address).unwrap();
    let mut half = BufReader::new(half);
    assert!(line(&mut half).unwrap().starts_with("HTTP/1.1 200 "));

    let mut body = vec![0; LARGE];
    download.read_exact(&mut body).unwrap();
    assert!(body == content::body("/large", 0, LARGE), "it has other bytes");
    says_back(&mut tunnel, 2);
    says_back(&mut websocket, 2);
    drop((tunnel, websocket));
    let status = service.server.take().unwrap().wait();
    assert!(status.success(), "the first process: {status}");
    let last = service.id();
    service.signal(last, Signal::TERM);
    let until = Instant::now() + SOON;
    while service.at("pid").exists() {
        assert!(Instant::now() < until, "it does not stop");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn disks_of_a_set_are_handed_over_also_where_one_is_left() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink("/no/such/disk", at("left")).unwrap();
    let options = format!(
        "--cache-size 16MiB --packet 64KiB --flush-interval 50ms --cache {} --cache {}",
        at("second").display(),
        at("left").display()
    );
    let service = Service::start(&options, "");
    let mut client = Client::new(service.address);
    let urls: Vec<String> = (0..OBJECTS).map(|n| origin.url(&format!("/{n}"))).collect();
    let hits = |client: &mut Client| urls.iter().filter(|url| client.get(url, &[]).unwrap().is_hit()).count();
    assert_eq!((hits(&mut client), hits(&mut client)), (0, OBJECTS));
    upgrade_under_load(&service, &origin, &version, 2);
    assert_eq!(hits(&mut client), OBJECTS);
    // Whoever has them now takes it back.
    let said = service.events("serves again");
    fs::remove_file(at("left")).unwrap();
    await_that("the third disk", || service.events("serves again") > said);
    upgrade_under_load(&service, &origin, &version, 1);
    let disks: Vec<String> = open_files(service.id());
    for name in ["second", "left"] {
        assert!(disks.contains(&at(name).display().to_string()), "{name}: {disks:?}");
    }
}

#[test]
fn the_files_of_sockets_go_over_and_end_with_the_last_process() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut service = Service::start(
        // The readiness line ends in the last of them.
        &format!("--packet 64KiB --workers 2 --listen unix:{},127.0.0.1:0", path.display()),
        "cache-size 8MiB\n",
    );
    let url = origin.url("/1");
    let get = |stream: &mut BufReader<UnixStream>| {
        write!(stream.get_mut(), "GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address).unwrap();
        let status = line(stream).unwrap();
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        read_fields(stream).unwrap();
        let mut body = vec![0; 3_000];
        stream.read_exact(&mut body).unwrap();
        assert!(body == content::body("/1", 0, 3_000));
    };
    let connected = || {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        BufReader::new(stream)
    };
    let mut kept = connected();
    get(&mut kept);
    fs::write(service.at("settings"), "admin unix:/no/such/folder/socket\ncache-size 8MiB\n").unwrap();
    service.upgrade_in_vain();
    get(&mut kept);
    get(&mut connected());
    fs::write(service.at("settings"), format!("{ADMIN}cache-size 8MiB\n")).unwrap();
    for _ in 0..2 {
        service.upgrade();
        get(&mut kept);
        get(&mut connected());
    }
    assert!(service.server.take().unwrap().wait().success());
    get(&mut connected());
    service.signal(service.id(), Signal::TERM);
    await_that("the end", || !service.at("pid").exists());
    assert!(!path.exists());
}

#[test]
fn a_process_that_cannot_take_over_leaves_the_other_as_it_was() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let service = Service::start("--packet 64KiB --flush-interval 50ms", "cache-size 8MiB\n");
    let mut client = Client::new(service.address);
    let url = origin.url("/1");
    client.get(&url, &[]).unwrap();
    client.get(&origin.url("/changes"), &[]).unwrap();
    let serves = |client: &mut Client| {
        let answer = client.get(&url, &["Cache-Control: only-if-cached"]).unwrap();
        assert!(answer.is_hit() && answer.body == content::body("/1", 0, 3_000), "{answer:?}");
    };
    for (file, why) in [
        ("no-such-setting 1\n", "ended before it could start"),
        ("admin 127.0.0.1:0\ncache-size 8TiB\n", "ended before it could open the cache"),
        ("admin unix:/no/such/folder/socket\n", "ended before it could serve"),
    ] {
        fs::write(service.at("settings"), file).unwrap();
        let said = service.upgrade_in_vain();
        assert!(said.contains(why), "{said}");
        serves(&mut client);
        // What is changed holds, and what is new is stored.
        version.fetch_add(1, SeqCst);
        let changes = origin.url("/changes");
        assert_eq!(purge(service.admin, &changes), 200);
        let body = client.get(&changes, &[]).unwrap().body;
        assert_eq!(String::from_utf8(body).unwrap(), version.load(SeqCst).to_string());
        assert!(client.get(&changes, &["Cache-Control: only-if-cached"]).unwrap().is_hit());
        assert!(Client::new(service.address).get(&url, &[]).unwrap().is_hit(), "a new connection");
    }
    fs::write(service.at("settings"), format!("{ADMIN}cache-size 8MiB\n")).unwrap();
    service.upgrade();
    serves(&mut client);
    assert_eq!(service.server.as_ref().map(|server| server.id() as i32 == service.id()), Some(false));
}

/// At any moment: by what happens to be under way when the signal comes.
#[test]
fn whichever_of_two_processes_is_killed_the_other_serves() {
    let version = Arc::new(AtomicU32::new(1));
    let origin = origin(&version);
    let service = Service::start("--packet 64KiB --flush-interval 50ms", "cache-size 8MiB\n");
    let url = origin.url("/1");
    Client::new(service.address).get(&url, &[]).unwrap();
    let serves = || {
        let until = Instant::now() + SOON;
        loop {
            let mut strict = Strict { address: service.address, connection: None, keeps: false };
            match strict.get(&url) {
                Ok((status, _)) => return assert!(is_hit(&status), "{status}"),
                Err(why) => assert!(Instant::now() < until, "{why}: {}", service.errors()),
            }
            thread::sleep(Duration::from_millis(5));
        }
    };
    // Until it serves, the process that takes over.
    for moment in 0..24u64 {
        let (before, until) = (service.id(), Instant::now() + SOON);
        service.signal(before, Signal::USR2);
        let successor = loop {
            match service.successor(before) {
                Some(id) => break id,
                None => assert!(Instant::now() < until, "none came: {}", service.errors()),
            }
        };
        thread::sleep(Duration::from_millis(4 * moment));
        // Stopped, it says nothing between the look and the end.
        service.signal(successor, Signal::STOP);
        let serves_already = service.id() == successor;
        service.signal(successor, if serves_already { Signal::CONT } else { Signal::KILL });
        let said = |what: &str| service.events(what);
        while !serves_already && service.successor(before).is_some() {
            assert!(Instant::now() < until, "it stays");
            thread::sleep(Duration::from_millis(1));
        }
        serves();
        assert!(said("cannot be taken back") == 0, "{}", service.errors());
        // The next attempt has to find an end of this one.
        let ended = || said("no upgrade: ") + said("serves; this one ends");
        while ended() <= moment as usize {
            assert!(Instant::now() < until, "{}", service.errors());
            thread::sleep(Duration::from_millis(1));
        }
    }
    // The process that hands over.
    for moment in 0..12u64 {
        let before = service.id();
        let until = Instant::now() + SOON;
        service.signal(before, Signal::USR2);
        let successor = loop {
            match service.successor(before) {
                Some(id) => break id,
                None => assert!(Instant::now() < until, "none came: {}", service.errors()),
            }
        };
        thread::sleep(Duration::from_millis(5 * moment));
        let _ = kill_process(Pid::from_raw(before).unwrap(), Signal::KILL);
        while service.id() != successor {
            assert!(Instant::now() < until, "{moment}: {}", service.errors());
            thread::sleep(Duration::from_millis(1));
        }
        serves();
    }
}

#[test]
fn a_stop_ends_tunnels_soon_and_a_graceful_one_does_not() {
    for (signal, ends) in [(Signal::TERM, true), (Signal::QUIT, false)] {
        let target = echo();
        let options = format!(
            "--cache-size 8MiB --packet 64KiB --tunnel-drain-timeout 300ms --connect-ports {}",
            target.port()
        );
        let mut service = Service::start(&options, "");
        let mut tunnel = tunnel_to(service.address, target);
        service.signal(service.id(), signal);
        let began = Instant::now();
        // It is never idle.
        let mut is_open = true;
        while is_open && began.elapsed() < Duration::from_millis(if ends { 20_000 } else { 1_500 }) {
            let mut back = [0];
            is_open = tunnel.write_all(&[1]).is_ok() && tunnel.read_exact(&mut back).is_ok();
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(is_open, !ends, "{signal:?} after {:?}", began.elapsed());
        assert!(TcpStream::connect(service.address).is_err(), "it accepts nothing");
        drop(tunnel);
        assert!(service.server.take().unwrap().wait().success());
        assert!(!service.at("pid").exists());
    }
}

#[test]
fn a_given_descriptor_that_is_no_socket_is_named() {
    let script =
        format!("exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec {COSM} serve --listen 127.0.0.1:0");
    let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, "cosm: LISTEN_FDS: descriptor 3 is no TCP or Unix stream socket\n");
}

#[test]
fn systemd_hears_how_it_is_and_gives_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ear = UnixDatagram::bind(at("notify")).unwrap();
    ear.set_read_timeout(Some(SOON)).unwrap();
    let hears = |what: &str| {
        let (mut text, until) = ([0; 500], Instant::now() + SOON);
        loop {
            let n = ear.recv(&mut text).unwrap();
            let said = String::from_utf8_lossy(&text[..n]).into_owned();
            if said.contains(what) {
                return said;
            }
            assert!(Instant::now() < until, "not {what}");
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket =
        fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap().display().to_string();
    // The worker's, and what another process would be given.
    let has_two = |id: i32| open_files(id).iter().filter(|open| **open == socket).count() == 2;
    fs::write(at("settings"), "finish-max 1MiB\n").unwrap();
    let script = format!(
        "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 WATCHDOG_PID=$$ WATCHDOG_USEC=100000 \
         exec {COSM} serve --workers 1 --listen {address} --cache {} --cache-size 8MiB --packet 64KiB --config {} --pid-file {}",
        at("cache").display(),
        at("settings").display(),
        at("pid").display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env("NOTIFY_SOCKET", at("notify"))
        .stdin(OwnedFd::from(listener))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id();
    let ready = hears("READY=1");
    assert!(
        ready.contains(&format!("MAINPID={id}\n")) && ready.contains("STATUS=forward proxy on"),
        "{ready}"
    );
    let origin = Origin::start(|_| Reply::fresh("body"));
    let mut client = Client::new(address);
    assert_eq!(client.get(&origin.url("/"), &[]).unwrap().body, b"body");
    hears("WATCHDOG=1");
    assert!(has_two(id as i32), "{:?}", open_files(id as i32));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(hears("RELOADING=1").contains("MONOTONIC_USEC="));
    hears("READY=1");
    // Who takes over is the main process then, and tells that it is alive.
    kill_process(Pid::from_child(&child), Signal::USR2).unwrap();
    let ready = hears("MAINPID=");
    assert!(!ready.contains(&format!("MAINPID={id}\n")) && ready.contains("READY=1"), "{ready}");
    assert!(child.wait().unwrap().success());
    while ear.set_nonblocking(true).is_ok() && ear.recv(&mut [0; 500]).is_ok() {}
    ear.set_nonblocking(false).unwrap();
    hears("WATCHDOG=1");
    assert!(client.get(&origin.url("/"), &[]).unwrap().is_hit());
    let main: i32 = fs::read_to_string(at("pid")).unwrap().trim().parse().unwrap();
    assert!(has_two(main), "{:?}", open_files(main));
    kill_process(Pid::from_raw(main).unwrap(), Signal::TERM).unwrap();
    hears("STOPPING=1");
}

/// What a test that fails leaves behind.
struct Left(Vec<i32>);

impl Drop for Left {
    fn drop(&mut self) {
        for id in self.0.iter().filter(|_| thread::panicking()) {
            let _ = kill_process(Pid::from_raw(*id).unwrap(), Signal::KILL);
        }
    }
}

/// Else a new process that hangs would count as alive, and a service as stopping that serves.
#[test]
fn who_only_finishes_what_is_under_way_says_nothing_to_systemd() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ear = UnixDatagram::bind(at("notify")).unwrap();
    set_socket_passcred(&ear, true).unwrap();
    ear.set_nonblocking(true).unwrap();
    // Who said what, of what has come.
    let heard = || {
        let next = || {
            let (mut text, mut space) = ([0; 500], [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1))]);
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::empty();
            let got = recvmsg(&ear, &mut [IoSliceMut::new(&mut text)], &mut ancillary, flags).ok()?.bytes;
            let sender = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get()),
                _ => None,
            });
            Some((sender.unwrap(), String::from_utf8_lossy(&text[..got]).into_owned()))
        };
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    let hears = |by: &dyn Fn(i32) -> bool, what: &str| {
        let mut found = None;
        await_that(what, || {
            found = heard().into_iter().find(|(sender, said)| by(*sender) && said.contains(what));
            found.is_some()
        });
        found.unwrap()
    };
    let target = echo();
    let mut child = Command::new(COSM)
        .args(["serve", "--workers", "1", "--listen", "127.0.0.1:0", "--cache", "off"])
        .args(["--tunnel-drain-timeout", "100ms", "--connect-ports", &target.port().to_string()])
        .args([OsStr::new("--error-log"), at("errors").as_os_str()])
        .env("NOTIFY_SOCKET", at("notify"))
        .env("WATCHDOG_USEC", "40000")
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let old = child.id() as i32;
    let mut left = Left(vec![old]);
    let (_, ready) = hears(&|by| by == old, "READY=1");
    let mut tunnel = tunnel_to(ready.rsplit(' ').next().unwrap().parse().unwrap(), target);
    says_back(&mut tunnel, 1);
    hears(&|by| by == old, "WATCHDOG=1");
    kill_process(Pid::from_child(&child), Signal::USR2).unwrap();
    let (new, _) = hears(&|by| by != old, "MAINPID=");
    left.0.push(new);
    await_that("the other to know", || {
        fs::read_to_string(at("errors")).unwrap_or_default().contains("serves; this one ends")
    });
    let (mut of_old, mut of_new) = (0, 0);
    await_that("the watchdog to hear the new one", || {
        for (sender, _) in heard() {
            *if sender == old { &mut of_old } else { &mut of_new } += 1;
        }
        of_new >= 20
    });
    // One may have been on its way.
    assert!(of_old <= 1, "{of_old} of the old one, {of_new} of the new one");
    says_back(&mut tunnel, 2);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let said = heard();
    assert!(said.iter().all(|(sender, _)| *sender == new), "{said:?}");
    kill_process(Pid::from_raw(new).unwrap(), Signal::TERM).unwrap();
    hears(&|by| by == new, "STOPPING=1");
}

#[test]
fn reload_tells_what_took_effect_what_waits_and_what_is_wrong() {
    let service = Service::start("--packet 64KiB", "cache-size 8MiB\n");
    let file = service.at("settings");
    let by_admin = ["reload", "--admin", &service.admin.to_string()].map(str::to_owned);
    let said = |output: &std::process::Output| {
        (
            output.status.code(),
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned(),
        )
    };
    fs::write(&file, format!("{ADMIN}cache-size 8MiB\nfinish-max 2MiB\nio threads\n")).unwrap();
    let (code, text) = said(&run(&by_admin));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("changed: finish-max") && text.contains("next start: io"), "{text}");
    fs::write(&file, format!("{ADMIN}cache-size 8MiB\nfinish-max lots\n")).unwrap();
    let (code, text) = said(&run(&by_admin));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("settings:3: ") && text.contains("stay as they are") && text.lines().count() == 1,
        "{text}"
    );
    // Who reads from a pipe may wait for ever, or read that it is empty.
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let (code, text) = said(&run(&by_admin));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("stay as they are: cannot read configuration") && text.contains("it is no file"),
        "{text}"
    );
    fs::remove_file(&file).unwrap();
    fs::write(&file, format!("{ADMIN}cache-size 8MiB\nfinish-max 3MiB\n")).unwrap();
    let pid_file = service.at("pid");
    let (code, text) = said(&run(["reload", "--pid-file", pid_file.to_str().unwrap()]));
    assert!(code == Some(0) && text.contains(&service.id().to_string()), "{text}");
    let until = Instant::now() + SOON;
    while service.events("changed: finish-max") < 1 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(5));
    }
    let (code, text) = said(&run(["reload"]));
    assert!(code == Some(2) && text.contains("--config"), "{text}");
    let (code, text) = said(&run(["reload", "--admin", "127.0.0.1:1"]));
    assert!(code == Some(1) && text.contains("no admin interface answers on 127.0.0.1:1"), "{text}");
    // Its number is another program's by now.
    let mut other = Command::new("sleep").arg("100").spawn().unwrap();
    fs::write(&pid_file, format!("{}\n", other.id())).unwrap();
    let (code, text) = said(&run(["reload", "--pid-file", pid_file.to_str().unwrap()]));
    let goes_on = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(code == Some(1) && text.contains("is not this program") && goes_on, "{text}");
}
