//! Clients beside the load, each of which notices whatever goes wrong.

use crate::body::Object;
use crate::load::Target;
use crate::loopback;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const DOWNLOADS: u64 = 4;
const WEBSOCKETS: u64 = 4;
/// So many bytes of a download are taken, and then it waits for as long.
const TAKEN: usize = 128 << 10;
const WAITS: Duration = Duration::from_millis(50);
const LARGE: Object = Object { size: 16 << 20, number: 1 << 40 };
/// A WebSocket is closed and another one opened.
const LIVES: Duration = Duration::from_secs(7);
const SAYS: Duration = Duration::from_millis(20);
/// Between two that come anew.
const COMES: Duration = Duration::from_millis(10);
/// Nothing takes longer.
const SOON: Duration = Duration::from_secs(30);

pub struct Guests {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    leave: AtomicBool,
    downloads: AtomicU64,
    echoes: AtomicU64,
    /// Of an echo, microseconds.
    longest: AtomicU64,
    comers: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

pub struct Said {
    downloads: u64,
    echoes: u64,
    longest: Duration,
    comers: u64,
    pub wrong: Vec<String>,
}

impl Guests {
    pub fn invite(proxy: Target) -> Result<Guests, String> {
        let echo = echo().map_err(|e| format!("echo: {e}"))?;
        let origin = proxy.origin.ok_or("guests ask a forward proxy")?;
        let (shared, mut threads) = (Arc::new(Shared::default()), Vec::new());
        // This origin knows no ranges: what is not all stored when the caches are handed over could not be gone on with.
        let hurried = Shared { leave: true.into(), ..Shared::default() };
        download(&hurried, proxy.server, origin)?;
        let mut come = |what: &str, visit: fn(&Shared, SocketAddr, SocketAddr) -> Result<(), String>, of| {
            let (shared, what, at) = (shared.clone(), what.to_owned(), proxy.server);
            threads.push(std::thread::spawn(move || {
                while !shared.leave.load(Relaxed) {
                    if let Err(why) = visit(&shared, at, of) {
                        let mut wrong = shared.wrong.lock().unwrap_or_else(PoisonError::into_inner);
                        wrong.push(format!("{what}: {why}"));
                        drop(wrong);
                        sleep(WAITS);
                    }
                }
            }));
        };
        (0..DOWNLOADS).for_each(|_| come("a download", download, origin));
        (0..WEBSOCKETS).for_each(|_| come("a WebSocket", websocket, echo));
        come("a new client", newcomer, origin);
        Ok(Guests { shared, threads })
    }

    /// Each comes to its end.
    pub fn leave(self) -> Said {
        self.shared.leave.store(true, Relaxed);
        let panics = self.threads.into_iter().filter_map(|thread| thread.join().err()).count();
        let shared = &self.shared;
        let mut wrong = std::mem::take(&mut *shared.wrong.lock().unwrap_or_else(PoisonError::into_inner));
        wrong.extend((0..panics).map(|_| "a thread ended in a panic".to_owned()));
        Said {
            downloads: shared.downloads.load(Relaxed),
            echoes: shared.echoes.load(Relaxed),
            longest: Duration::from_micros(shared.longest.load(Relaxed)),
            comers: shared.comers.load(Relaxed),
            wrong,
        }
    }
}

impl fmt::Display for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = TAKEN as f64 / f64::from(1 << 20) / WAITS.as_secs_f64();
        write!(
            f,
            "{DOWNLOADS} downloads of {} MiB at {speed:.1} MiB/s each, {WEBSOCKETS} WebSockets of {LIVES:?}, {:.0} new connections a second",
            LARGE.size >> 20,
            1.0 / COMES.as_secs_f64()
        )
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { downloads, echoes, longest, comers, wrong } = self;
        write!(
            f,
            "{downloads} downloads, {echoes} words through WebSockets (the slowest in {:.0} ms), {comers} new clients; {} faults",
            longest.as_secs_f64() * 1e3,
            wrong.len()
        )
    }
}

fn connected(proxy: SocketAddr) -> Result<BufReader<TcpStream>, String> {
    let stream = loopback::aside(proxy).map_err(|e| format!("connect: {e}"))?;
    stream.set_read_timeout(Some(SOON)).map_err(|e| e.to_string())?;
    Ok(BufReader::with_capacity(4096, stream))
}

/// Its status is this one; gives its fields.
fn head(stream: &mut BufReader<TcpStream>, status: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).map_err(|e| format!("head: {e}"))? == 0 {
            return Err("closed without an answer".into());
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_ascii_lowercase());
    }
    let is = lines.first().is_some_and(|line| line.starts_with(&format!("http/1.1 {status}")));
    if is { Ok(lines) } else { Err(format!("answered with {}", lines.first().cloned().unwrap_or_default())) }
}

fn ask(stream: &mut BufReader<TcpStream>, origin: SocketAddr, object: Object) -> Result<(), String> {
    let Object { size, number } = object;
    let request = format!("GET http://{origin}/s/{size}/{number} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).map_err(|e| format!("ask: {e}"))?;
    head(stream, "200").map(drop)
}

fn download(shared: &Shared, proxy: SocketAddr, origin: SocketAddr) -> Result<(), String> {
    let mut stream = connected(proxy)?;
    ask(&mut stream, origin, LARGE)?;
    let (mut taken, mut piece) = (0, vec![0; TAKEN]);
    while taken < LARGE.size {
        let length = (LARGE.size - taken).min(TAKEN as u64) as usize;
        stream.read_exact(&mut piece[..length]).map_err(|e| format!("after {taken} bytes: {e}"))?;
        if !LARGE.holds(taken, &piece[..length]) {
            return Err(format!("after {taken} bytes it has others"));
        }
        taken += length as u64;
        if !shared.leave.load(Relaxed) {
            sleep(WAITS);
        }
    }
    shared.downloads.fetch_add(1, Relaxed);
    Ok(())
}

fn websocket(shared: &Shared, proxy: SocketAddr, echo: SocketAddr) -> Result<(), String> {
    let mut stream = connected(proxy)?;
    let request = format!(
        "GET http://{echo}/ HTTP/1.1\r\nHost: {echo}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.get_mut().write_all(request.as_bytes()).map_err(|e| format!("ask: {e}"))?;
    head(&mut stream, "101")?;
    let began = Instant::now();
    while began.elapsed() < LIVES && !shared.leave.load(Relaxed) {
        let (said, mut back) = (shared.echoes.fetch_add(1, Relaxed).to_le_bytes(), [0; 8]);
        let asked = Instant::now();
        stream.get_mut().write_all(&said).map_err(|e| format!("say: {e}"))?;
        stream.read_exact(&mut back).map_err(|e| format!("hear: {e}"))?;
        if back != said {
            return Err("it says something else".into());
        }
        shared.longest.fetch_max(asked.elapsed().as_micros() as u64, Relaxed);
        sleep(SAYS);
    }
    Ok(())
}

fn newcomer(shared: &Shared, proxy: SocketAddr, origin: SocketAddr) -> Result<(), String> {
    let object = Object { size: 1 << 10, number: 1 << 41 };
    let mut stream = connected(proxy)?;
    ask(&mut stream, origin, object)?;
    let mut body = vec![0; object.size as usize];
    stream.read_exact(&mut body).map_err(|e| format!("body: {e}"))?;
    if !object.holds(0, &body) {
        return Err("it has other bytes".into());
    }
    shared.comers.fetch_add(1, Relaxed);
    sleep(COMES);
    Ok(())
}

/// Where whoever asks for another protocol gets back what they say.
fn echo() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || say_back(BufReader::new(stream)));
        }
    });
    Ok(address)
}

fn say_back(mut stream: BufReader<TcpStream>) -> std::io::Result<()> {
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let said = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.get_mut().write_all(said)?;
    loop {
        let mut word = [0; 8];
        stream.read_exact(&mut word)?;
        stream.get_mut().write_all(&word)?;
    }
}
