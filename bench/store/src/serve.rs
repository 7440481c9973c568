//! `cosm serve` on a cache that a kill left behind, over HTTP: how soon it answers from it.

use crate::object::{Bodies, Numbers, Random};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Served {
    /// From the start of the program to its line that it listens.
    pub ready_ms: f64,
    /// To the end of the first response that was a hit.
    pub first_hit_ms: f64,
    /// To the end of a thousand random ones, asked for one after the other.
    pub thousand_ms: f64,
    pub thousand_hits: u64,
    /// The slowest of them.
    pub slowest_ms: f64,
    /// Until it said that all of the index is loaded; none where there was nothing to load or it took too long.
    pub loaded_ms: Option<f64>,
    pub resident: u64,
}

/// Ends with its handle.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long the first hit, and the index, may take.
const PATIENCE: Duration = Duration::from_secs(180);
const ASKED: u64 = 1000;

pub fn run(cosm: &Path, cache: &Path, numbers: &Numbers, body: usize) -> Result<Served, String> {
    let began = Instant::now();
    let millis = || began.elapsed().as_secs_f64() * 1000.0;
    let child = Command::new(cosm)
        .args(["serve", "--listen", "127.0.0.1:0", "--cache"])
        .arg(cache)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("start {}: {e}", cosm.display()))?;
    let mut server = Server(child);
    let mut lines = BufReader::new(server.0.stderr.take().ok_or("no stderr")?).lines();
    let (mut address, mut last) = (None, String::new());
    for line in lines.by_ref().map_while(Result::ok) {
        address =
            line.split_once("forward proxy on ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        last = line;
        if address.is_some() {
            break;
        }
    }
    let address = address.ok_or_else(|| format!("cosm serve does not listen: {last}"))?;
    let ready_ms = millis();
    let (said, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains("the index of cache") {
                let _ = said.send(Instant::now());
            }
        }
    });
    let mut client = Client::connect(address, body)?;
    let mut random = Random(11);
    // What is not loaded in time is missed: another is asked for.
    while !client.get(numbers.pick(&mut random))? {
        if began.elapsed() > PATIENCE {
            return Err("cosm serve answers nothing from its cache".into());
        }
    }
    let first_hit_ms = millis();
    let (mut hits, mut slowest) = (0, Duration::ZERO);
    for _ in 0..ASKED {
        let asked = Instant::now();
        hits += u64::from(client.get(numbers.pick(&mut random))?);
        slowest = slowest.max(asked.elapsed());
    }
    let thousand_ms = millis();
    let loaded = hears.recv_timeout(PATIENCE).ok();
    let pid = rustix::process::Pid::from_child(&server.0);
    Ok(Served {
        ready_ms,
        first_hit_ms,
        thousand_ms,
        thousand_hits: hits,
        slowest_ms: slowest.as_secs_f64() * 1000.0,
        loaded_ms: loaded.map(|at| (at - began).as_secs_f64() * 1000.0),
        resident: crate::usage::resident(pid)?,
    })
}

struct Client {
    stream: BufReader<TcpStream>,
    bodies: Bodies,
}

impl Client {
    fn connect(address: SocketAddr, body: usize) -> Result<Client, String> {
        let stream = TcpStream::connect(address).map_err(|e| format!("connect {address}: {e}"))?;
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
        Ok(Client { stream: BufReader::new(stream), bodies: Bodies::new(body) })
    }

    /// Whether it was a hit; its body is checked.
    fn get(&mut self, number: u64) -> Result<bool, String> {
        let host = lab::fill::HOST;
        let request = format!(
            "GET http://{host}/{number} HTTP/1.1\r\nHost: {host}\r\nCache-Control: only-if-cached\r\n\r\n"
        );
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|e| format!("request: {e}"))?;
        let (mut hit, mut length) = (false, 0);
        for first in 0.. {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).map_err(|e| format!("response: {e}"))?;
            if read == 0 {
                return Err("cosm serve closed the connection".into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some(("cache-status", how)) => hit = how.starts_with("cosm; hit"),
                Some(("content-length", bytes)) => length = bytes.parse().map_err(|_| "content-length")?,
                _ if first == 0 && !line.starts_with("http/1.1 ") => {
                    return Err(format!("`{line}` is no response"));
                }
                _ => {}
            }
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).map_err(|e| format!("body: {e}"))?;
        if hit && !self.bodies.is(number, &bytes) {
            return Err(format!("object {number} came with another body"));
        }
        Ok(hit)
    }
}
