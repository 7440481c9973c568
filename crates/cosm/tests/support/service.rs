//! A server that is upgraded, and clients that notice everything.

use super::SOON;
use super::client::{line, read_fields};
use super::content;
use super::origin::{Origin, Reply};
use super::program::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const LARGE: usize = 12 << 20;
pub const ADMIN: &str = "admin 127.0.0.1:0\n";

/// A server whose successors end with the test.
pub struct Service {
    pub server: Option<Server>,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    folder: TempDir,
}

impl Service {
    /// With the settings of a file, too.
    pub fn start(options: &str, file: &str) -> Service {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("settings"), format!("{ADMIN}{file}")).unwrap();
        let options = format!(
            "--memory 0 --disk-patience 20s --config {} --pid-file {} --error-log {} {options}",
            at("settings").display(),
            at("pid").display(),
            at("errors").display()
        );
        let server = Server::start(&at("cache"), &options);
        let (address, admin) = (server.address, server.admin());
        Service { server: Some(server), address, admin, folder }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The process that serves.
    pub fn id(&self) -> i32 {
        fs::read_to_string(self.at("pid")).ok().and_then(|id| id.trim().parse().ok()).unwrap_or(0)
    }

    pub fn signal(&self, id: i32, signal: Signal) {
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits until another process serves.
    pub fn upgrade(&self) {
        let (before, until) = (self.id(), Instant::now() + SOON);
        let said = self.events("serves; this one ends");
        self.signal(before, Signal::USR2);
        while self.id() == before || self.events("serves; this one ends") == said {
            assert!(Instant::now() < until, "no upgrade: {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// An attempt that must fail; gives why.
    pub fn upgrade_in_vain(&self) -> String {
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

    /// The process that it starts to take over.
    pub fn successor(&self, of: i32) -> Option<i32> {
        let tasks = fs::read_dir(format!("/proc/{of}/task")).ok()?;
        let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
        let all: String = tasks.flatten().filter_map(children).collect();
        all.split_whitespace().next()?.parse().ok()
    }

    pub fn errors(&self) -> String {
        fs::read_to_string(self.at("errors")).unwrap_or_default()
    }

    pub fn events(&self, what: &str) -> usize {
        self.errors().matches(what).count()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let first = self.server.as_ref().map(|server| server.id() as i32);
        let id = self.id();
        for other in [self.successor(id), Some(id).filter(|id| first != Some(*id))].into_iter().flatten() {
            if let Some(other) = Pid::from_raw(other) {
                let _ = kill_process(other, Signal::KILL);
            }
        }
    }
}

/// The status of the answer.
pub fn purge(admin: SocketAddr, url: &str) -> u16 {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let target = format!("/purge?url={}", url.replace(':', "%3A").replace('/', "%2F"));
    write!(stream, "POST {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", admin).unwrap();
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A client that knows no retry: whatever is not an answer is an error. Without `keeps`, each request has a connection of its own.
pub struct Strict {
    pub address: SocketAddr,
    pub connection: Option<BufReader<TcpStream>>,
    pub keeps: bool,
}

impl Strict {
    pub fn get(&mut self, url: &str) -> Result<(String, Vec<u8>), String> {
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
pub fn echo() -> SocketAddr {
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

pub fn tunnel_to(proxy: SocketAddr, target: SocketAddr) -> TcpStream {
    let mut tunnel = TcpStream::connect(proxy).unwrap();
    tunnel.set_read_timeout(Some(SOON)).unwrap();
    write!(tunnel, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    tunnel.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    while !head.ends_with(b"\r\n\r\n") {
        head.rotate_left(1);
        tunnel.read_exact(&mut head[11..]).unwrap();
    }
    tunnel
}

pub fn says_back(tunnel: &mut TcpStream, byte: u8) {
    tunnel.write_all(&[byte]).unwrap();
    let mut back = [0];
    tunnel.read_exact(&mut back).unwrap();
    assert_eq!(back, [byte]);
}

/// Objects of their path, a large one, and one that changes.
pub fn origin(version: &Arc<AtomicU32>) -> Origin {
    let version = version.clone();
    Origin::start(move |asked| match &*asked.target {
        "/changes" => Reply::fresh(version.load(SeqCst).to_string()),
        "/large" => Reply::fresh(content::body("/large", 0, LARGE)),
        other => Reply::fresh(content::body(other, 0, 3_000)),
    })
}

pub fn is_hit(status: &str) -> bool {
    status.starts_with("cosm; hit")
}

/// Waits for something to become so.
pub fn await_that(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !is() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is there and has not ended.
pub fn is_running(id: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// The names of a process's threads.
pub fn threads(id: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
}

/// What a process has open.
pub fn open_files(id: i32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    all.filter_map(|one| Some(fs::read_link(one.path()).ok()?.display().to_string())).collect()
}

/// Who opens it waits for somebody at its other end.
pub fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Speaks another protocol through the proxy, with an origin that sends back what comes.
pub fn websocket_through(proxy: SocketAddr) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        while !line(&mut stream).unwrap().is_empty() {}
        let said = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.get_mut().write_all(said).unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|n| n == 1) {
            stream.get_mut().write_all(&byte).unwrap();
        }
    });
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    stream
}
