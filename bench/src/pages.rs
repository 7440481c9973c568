//! Pages over real connections, with group reads and without, in turns: what a request costs the device and the processor, and how long
//! what is embedded in pages takes.
//!
//! The load is the laboratory's workload `pages`: sessions that view pages of servers, each with what is embedded in it. The servers are
//! names before one origin, and each request says by Referer for which page it is. A client keeps to one connection.

use crate::load::response;
use crate::process::{Says, Server, cores, pin};
use crate::{admin, loopback, own_path, usage};
use clap::Args;
use hdrhistogram::Histogram;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use trace::Access;
use trace::synthetic::{Synthetic, named};

#[derive(Args)]
pub struct Request {
    /// The program that is measured.
    #[arg(long, default_value = "target/release/cosm")]
    cosm: PathBuf,
    /// A folder on the device that is measured.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Requests of each run; the first half fills the caches.
    #[arg(long, default_value_t = 300_000)]
    requests: u64,
    #[arg(long, default_value = "256MiB")]
    disk: String,
    #[arg(long, default_value = "26MiB")]
    memory: String,
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Runs of each kind.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
}

/// As `--group-read` takes them.
const GROUPS: [&str; 2] = ["off", "32KiB"];
/// Requests that may wait for a connection.
const WAITING: usize = 64;
/// Of a latency, microseconds.
const SLOWEST: u64 = 60_000_000;

#[derive(Default)]
struct Told {
    requests: u64,
    hits: u64,
    /// Microseconds of hits.
    pages: Vec<u64>,
    embedded: Vec<u64>,
}

pub fn run(request: &Request) -> Result<(), String> {
    let (proxy_core, load_core) = cores()?;
    pin(load_core)?;
    for round in 0..request.rounds {
        // Whoever is first in one round is last in the next.
        let turn = (round % 2) as usize;
        for group in [GROUPS[turn], GROUPS[1 - turn]] {
            println!("group reads {group:<6} {}", one(request, group, round + 1, proxy_core, load_core)?);
        }
    }
    Ok(())
}

fn one(
    request: &Request,
    group: &str,
    seed: u64,
    proxy_core: usize,
    load_core: usize,
) -> Result<String, String> {
    let folder = tempfile::tempdir_in(&request.dir).map_err(|e| format!("{}: {e}", request.dir.display()))?;
    let origin = Server::start(load_core, own_path()?.as_os_str(), &["origin".into()], Says::Stdout)?;
    let (listen, admin_at) = (loopback::free()?, loopback::free()?);
    let (upstream, listen_word, admin_word) =
        (format!("http://{}", origin.address()), listen.to_string(), admin_at.to_string());
    let words = [
        "serve",
        "--workers",
        "1",
        "--listen",
        &listen_word,
        "--origin",
        &upstream,
        "--admin",
        &admin_word,
        "--cache-size",
        &request.disk,
        "--memory",
        &request.memory,
        "--group-read",
        group,
        "--cache",
    ];
    let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    arguments.push(folder.path().join("cache").into());
    let proxy = Server::start_at(proxy_core, &[], request.cosm.as_os_str(), &arguments, listen)?;

    let mut synthetic = Synthetic::new(named("pages")?, seed);
    let half = request.requests / 2;
    offer(&mut synthetic, half, request.connections, proxy.address())?;
    let (before, used, began) =
        (admin::stats(admin_at)?, usage::Process::of_tree(proxy.pid()), Instant::now());
    let told = offer(&mut synthetic, half, request.connections, proxy.address())?;
    let seconds = began.elapsed().as_secs_f64();
    let (after, used) = (admin::stats(admin_at)?, usage::Process::of_tree(proxy.pid()) - used);

    let more = |name: &str| {
        let of = |stats: &serde_json::Value| stats["store"][name].as_f64();
        of(&after)
            .zip(of(&before))
            .map(|(after, before)| after - before)
            .ok_or(format!("/stats.json has no store.{name}"))
    };
    let (reads, saved, count) = (more("device-reads")?, more("saved-reads")?, told.requests as f64);
    let [pages, embedded] = [&told.pages, &told.embedded].map(|times| percentiles(times));
    Ok(format!(
        "hits {:.2} % reads a request {:.4} saved {saved:.0} KiB read a request {:.2} requests/s {:.0} cpu us a request {:.1} \
         page hits us p50 {} p99 {} embedded hits us p50 {} p90 {} p99 {}",
        100.0 * told.hits as f64 / count,
        reads / count,
        more("device-read-bytes")? / 1024.0 / count,
        count / seconds,
        1e6 * used.cpu_seconds() / count,
        pages[0],
        pages[2],
        embedded[0],
        embedded[1],
        embedded[2],
    ))
}

/// Half, nine tenths and 99 in a hundred took no longer.
fn percentiles(times: &[u64]) -> [u64; 3] {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, SLOWEST, 3).expect("bounds");
    times.iter().for_each(|time| histogram.saturating_record(*time));
    [0.5, 0.9, 0.99].map(|share| histogram.value_at_quantile(share))
}

/// A closed loop: each connection asks for what its clients want, one after the other.
fn offer(
    synthetic: &mut Synthetic,
    requests: u64,
    connections: usize,
    proxy: SocketAddr,
) -> Result<Told, String> {
    std::thread::scope(|scope| {
        let mut ways = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..connections {
            let (way, wanted) = sync_channel(WAITING);
            ways.push(way);
            workers.push(scope.spawn(move || ask_all(&wanted, proxy)));
        }
        for _ in 0..requests {
            let mut access = Access::default();
            synthetic.next(&mut access);
            // A worker that has failed tells so in the end.
            let _ = ways[(access.client % connections as u64) as usize].send(access);
        }
        drop(ways);
        workers.into_iter().try_fold(Told::default(), |all, worker| {
            let told = worker.join().map_err(|_| "a connection's thread ended in a panic".to_owned())??;
            Ok(all.and(told))
        })
    })
}

impl Told {
    fn and(mut self, mut other: Told) -> Told {
        self.requests += other.requests;
        self.hits += other.hits;
        self.pages.append(&mut other.pages);
        self.embedded.append(&mut other.embedded);
        self
    }
}

fn ask_all(wanted: &Receiver<Access>, proxy: SocketAddr) -> Result<Told, String> {
    let say = |error: std::io::Error| format!("a request: {error}");
    let mut stream = loopback::aside(proxy).map_err(say)?;
    stream.set_nodelay(true).map_err(say)?;
    let (mut told, mut bytes) = (Told::default(), vec![0; 256 << 10]);
    for access in wanted {
        let began = Instant::now();
        stream.write_all(&request_of(&access)).map_err(say)?;
        let hit = answered(&mut stream, &mut bytes, &access)?;
        told.requests += 1;
        if hit {
            told.hits += 1;
            let time = began.elapsed().as_micros() as u64;
            if access.page == Some(access.object) { told.pages.push(time) } else { told.embedded.push(time) }
        }
    }
    Ok(told)
}

/// A new version is another object: what the origin has does not change.
fn request_of(access: &Access) -> Vec<u8> {
    let Access { server, object, size, modified, page, .. } = access;
    let referer = page.filter(|page| page != object);
    let referer =
        referer.map_or(String::new(), |page| format!("Referer: http://s{server}.invalid/{page}\r\n"));
    let number = (object << 16) + modified;
    format!("GET /s/{size}/{number} HTTP/1.1\r\nHost: s{server}.invalid\r\n{referer}\r\n").into_bytes()
}

/// Whether it was a hit.
fn answered(stream: &mut TcpStream, bytes: &mut [u8], access: &Access) -> Result<bool, String> {
    let mut filled = 0;
    let head = loop {
        match stream.read(&mut bytes[filled..]).map_err(|e| format!("an answer: {e}"))? {
            0 => return Err("the proxy closed before it had answered".into()),
            count => filled += count,
        }
        if let Some(head) = response::parse(&bytes[..filled]).map_err(|why| format!("an answer: {why:?}"))? {
            break head;
        }
    };
    if (head.status, head.body) != (200, access.size) {
        return Err(format!("{} with {} bytes where {} were asked for", head.status, head.body, access.size));
    }
    let mut left = (head.bytes as u64 + head.body).saturating_sub(filled as u64);
    while left > 0 {
        let most = left.min(bytes.len() as u64) as usize;
        match stream.read(&mut bytes[..most]).map_err(|e| format!("a body: {e}"))? {
            0 => return Err("the proxy closed in a body".into()),
            count => left -= count as u64,
        }
    }
    Ok(head.hit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_object_names_its_page_and_a_version_its_own_object() {
        let page = Access { server: 3, object: 7, page: Some(7), size: 10, modified: 1, ..Access::default() };
        let text = |access: &Access| String::from_utf8(request_of(access)).unwrap();
        assert_eq!(text(&page), "GET /s/10/458753 HTTP/1.1\r\nHost: s3.invalid\r\n\r\n");
        let image = Access { object: 8, ..page.clone() };
        assert!(text(&image).ends_with("Host: s3.invalid\r\nReferer: http://s3.invalid/7\r\n\r\n"));
        assert_ne!(text(&Access { modified: 2, ..page.clone() }), text(&page));
    }

    #[test]
    fn percentiles_are_of_all() {
        let times: Vec<u64> = (1..=1000).rev().collect();
        assert_eq!(percentiles(&times), [500, 900, 990]);
    }
}
