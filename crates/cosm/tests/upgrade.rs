//! SIGUSR2: another process takes over, and nobody notices. Where it cannot, the one that serves goes on.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::SOON;
use support::client::{Client, line, read_fields};
use support::content;
use support::origin::{Origin, Reply};
use support::program::Server;
use tempfile::TempDir;

const OBJECTS: usize = 40;
const LARGE: usize = 12 << 20;
const ADMIN: &str = "admin 127.0.0.1:0\n";

/// A server whose successors end with the test.
struct Service {
    server: Option<Server>,
    address: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
}

impl Service {
    /// With the settings of a file, too.
    fn start(options: &str, file: &str) -> Service {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("settings"), format!("{ADMIN}{file}")).unwrap();
        let options = format!(
            "--memory 0 --config {} --pid-file {} --error-log {} {options}",
            at("settings").display(),
            at("pid").display(),
            at("errors").display()
        );
        let server = Server::start(&at("cache"), &options);
        let (address, admin) = (server.address, server.admin());
        Service { server: Some(server), address, admin, folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The process that serves.
    fn id(&self) -> i32 {
        fs::read_to_string(self.at("pid")).ok().and_then(|id| id.trim().parse().ok()).unwrap_or(0)
    }

    fn signal(&self, id: i32, signal: Signal) {
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits until another process serves.
    fn upgrade(&self) {
        let (before, until) = (self.id(), Instant::now() + SOON);
        let said = self.events("serves; this one ends");
        self.signal(before, Signal::USR2);
        while self.id() == before || self.events("serves; this one ends") == said {
            assert!(Instant::now() < until, "no upgrade: {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// An attempt that must fail; gives why.
    fn upgrade_in_vain(&self) -> String {
        let (before, until) = (self.id(), Instant::now() + SOON);
        let said = self.events("no upgrade: ");
        self.signal(before, Signal::USR2);
        while self.events("no upgrade: ") == said {
            assert!(Instant::now() < until, "it does not fail: {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.id(), before);
        self.errors().lines().rfind(|line| line.contains("no upgrade: ")).unwrap().to_owned()
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.at("errors")).unwrap_or_default()
    }

    fn events(&self, what: &str) -> usize {
        self.errors().matches(what).count()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let first = self.server.as_ref().map(|server| server.id() as i32);
        let id = self.id();
        if id > 0 && first != Some(id) {
            let _ = kill_process(Pid::from_raw(id).unwrap(), Signal::KILL);
        }
    }
}

/// The status of the answer.
fn purge(admin: SocketAddr, url: &str) -> u16 {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let target = format!("/purge?url={}", url.replace(':', "%3A").replace('/', "%2F"));
    write!(stream, "POST {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", admin).unwrap();
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A client that knows no retry: whatever is not an answer is an error. Without `keeps`, each request has a connection of its own.
struct Strict {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    keeps: bool,
}

impl Strict {
    fn get(&mut self, url: &str) -> Result<(String, Vec<u8>), String> {
        let said = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address).map_err(said("connect"))?;
                stream.set_read_timeout(Some(SOON)).map_err(said("timeout"))?;
                BufReader::new(stream)
            }
        };
        let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap();
        let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes()).map_err(said("write"))?;
        let status = line(&mut connection).map_err(said("status"))?;
        if !status.starts_with("HTTP/1.1 200 ") {
            return Err(format!("answer: `{status}`"));
        }
        let fields: HashMap<String, String> = read_fields(&mut connection)
            .map_err(said("fields"))?
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let length =
            fields.get("content-length").and_then(|length| length.parse().ok()).ok_or("no length")?;
        let mut body = vec![0; length];
        connection.read_exact(&mut body).map_err(said("body"))?;
        if self.keeps && fields.get("connection").is_none_or(|value| value != "close") {
            self.connection = Some(connection);
        }
        Ok((fields.get("cache-status").cloned().unwrap_or_default(), body))
    }
}

/// Sends back what comes, on one connection.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|n| n == 1) {
            stream.write_all(&byte).unwrap();
        }
    });
    address
}

fn says_back(tunnel: &mut TcpStream, byte: u8) {
    tunnel.write_all(&[byte]).unwrap();
    let mut back = [0];
    tunnel.read_exact(&mut back).unwrap();
    assert_eq!(back, [byte]);
}

/// Objects of their path, a large one, and one that changes.
fn origin(version: &Arc<AtomicU32>) -> Origin {
    let version = version.clone();
    Origin::start(move |asked| match &*asked.target {
        "/changes" => Reply::fresh(version.load(SeqCst).to_string()),
        "/large" => Reply::fresh(content::body("/large", 0, LARGE)),
        other => Reply::fresh(content::body(other, 0, 3_000)),
    })
}

fn is_hit(status: &str) -> bool {
    status.starts_with("cosm; hit")
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

    let mut tunnel = TcpStream::connect(address).unwrap();
    tunnel.set_read_timeout(Some(SOON)).unwrap();
    write!(tunnel, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    tunnel.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    while !head.ends_with(b"\r\n\r\n") {
        head.rotate_left(1);
        tunnel.read_exact(&mut head[11..]).unwrap();
    }
    says_back(&mut tunnel, 1);

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

    let (stop, wrong) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (hits, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for client in 0..4 {
            let (stop, wrong, origin, hits, others) = (&stop, &wrong, &origin, &hits, &others);
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
                        Ok(_) => _ = others.fetch_add(1, SeqCst),
                        Err(why) => wrong.lock().unwrap().push(format!("{client}: {path}: {why}")),
                    }
                }
            });
        }
        let (stop, wrong, origin, admin, version) = (&stop, &wrong, &origin, service.admin, &version);
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
        for _ in 0..3 {
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
    assert!(hits.load(SeqCst) > 150);
    assert_eq!((asked(), others.load(SeqCst)), (OBJECTS, 0), "hits go on");

    write!(half, "TP/1.1\r\nHost: {}\r\n\r\n", origin.address).unwrap();
    let mut half = BufReader::new(half);
    assert!(line(&mut half).unwrap().starts_with("HTTP/1.1 200 "));

    let mut body = vec![0; LARGE];
    download.read_exact(&mut body).unwrap();
    assert!(body == content::body("/large", 0, LARGE), "it has other bytes");
    says_back(&mut tunnel, 2);
    drop(tunnel);
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
