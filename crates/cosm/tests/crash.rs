//! The program is killed (SIGKILL) at twenty random moments of a day of real browsing and started again on the same
//! cache: never a wrong byte, and lost is only what was in the open packet or in flight.
//!
//! COSM_SEED sets the seed, which is printed.

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use support::client::{Answer, Client};
use support::content;
use support::origin::{Origin, Reply};
use support::program::Server;
use support::random::Random;
use support::trace::{Request, workload};

const KILLS: usize = 20;
/// After so many kills the program is once stopped cleanly, too: the next kills find no packet left open.
const STOP_EVERY: usize = 5;
const OPTIONS: &str = "--cache-size 64MiB --packet 256KiB --flush-interval 100ms --disk-patience 1min";
const SIZE: usize = 64 << 20;
const LARGEST: usize = SIZE / 16;
const FLUSH: Duration = Duration::from_millis(100);
/// The sweep cannot have come round to what was followed by fewer bytes than this.
const UNSWEPT: usize = SIZE / 2;
/// How many of the objects that must be there are asked for after a restart.
const SAMPLE: usize = 300;

/// What the test knows of one object.
struct Known {
    /// The length of each version.
    versions: Vec<usize>,
    /// Each time it was fetched to its end, but for those that a kill may have undone: which version, and when.
    puts: Vec<(u32, Instant)>,
    /// An older version cannot come back: a newer one was stored for good.
    floor: u32,
    /// Bytes that all objects together had been fetched by the last put; `None` when it is not known to be stored.
    fetched_at: Option<usize>,
}

struct Day {
    known: HashMap<String, Known>,
    origin: Origin,
    fetched: usize,
    refused: usize,
    older_versions: usize,
    hits: usize,
    bytes: usize,
}

#[test]
fn twenty_kills_and_not_one_wrong_byte() {
    let (requests, source) = workload();
    let seed = match std::env::var("COSM_SEED") {
        Ok(text) => text.parse().expect("COSM_SEED is a number"),
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    };
    println!("workload: {source}\nCOSM_SEED={seed}");
    let mut random = Random(seed);
    let newest: Arc<Mutex<HashMap<String, (u32, usize)>>> = Arc::default();
    let theirs = newest.clone();
    let origin = Origin::start(move |asked| {
        let (version, length) = theirs.lock().unwrap()[&asked.target];
        let etag = format!("ETag: {}", content::etag(&asked.target, version));
        Reply::fresh(content::body(&asked.target, version, length)).field(etag)
    });
    let mut day =
        Day { known: HashMap::new(), origin, fetched: 0, refused: 0, older_versions: 0, hits: 0, bytes: 0 };
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut server = Server::start(&cache, OPTIONS);
    let (mut slowest, mut lost, mut recent, mut asked) = (Duration::ZERO, 0, 0, 0);

    let share = requests.len() / (KILLS + 1);
    let mut rest = &requests[..];
    for kill in 1..=KILLS {
        let until_kill = share / 2 + random.below(share);
        let delay = Duration::from_micros(random.below(3_000) as u64);
        let id = rustix::process::Pid::from_raw(server.id() as i32).unwrap();
        let (now, told) = channel();
        let killer = std::thread::spawn(move || {
            told.recv().unwrap();
            std::thread::sleep(delay);
            let at = Instant::now();
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
            at
        });
        let mut client = Client::new(server.address);
        for n in 0.. {
            if n == until_kill {
                now.send(()).unwrap();
            }
            // The day may be over before the last kill.
            let Some((request, later)) = rest.split_first() else {
                if n < until_kill {
                    now.send(()).unwrap();
                }
                break;
            };
            rest = later;
            newest.lock().unwrap().insert(request.path.clone(), (request.version, request.length));
            if !day.ask(&mut client, request) {
                break;
            }
        }
        let killed_at = killer.join().unwrap();
        server.wait();
        server = Server::start(&cache, OPTIONS);
        slowest = slowest.max(server.took);
        let found = day.compare_after_kill(&server, killed_at, &mut random);
        println!(
            "kill {kill}: {} of {} objects asked for are lost; {} were put less than {} ms before",
            found.lost,
            found.asked,
            found.recent,
            2 * FLUSH.as_millis()
        );
        lost += found.lost;
        asked += found.asked;
        recent += found.recent;
        if kill % STOP_EVERY == 0 {
            assert!(server.stop().success());
            server = Server::start(&cache, OPTIONS);
            slowest = slowest.max(server.took);
            let found = day.compare_after_stop(&server, &mut random);
            println!("clean stop: {} of {} objects asked for are lost", found.lost, found.asked);
        }
    }
    let mut client = Client::new(server.address);
    for request in rest {
        newest.lock().unwrap().insert(request.path.clone(), (request.version, request.length));
        assert!(day.ask(&mut client, request), "the last program broke off");
    }
    assert!(server.stop().success());
    println!(
        "{} hits, {} MB, every byte right; {} answers were an older version, {} objects were not taken; lost {lost} of \
         {asked} asked for ({:.1} %), all of them among the {recent} put last; the slowest restart took {} ms",
        day.hits,
        day.bytes / 1_000_000,
        day.older_versions,
        day.refused,
        100.0 * lost as f64 / asked.max(1) as f64,
        slowest.as_millis()
    );
    assert!(recent > 0 && asked > recent, "the kills tell nothing");
}

struct Found {
    asked: usize,
    lost: usize,
    /// Of those asked: put so late that they may be lost.
    recent: usize,
}

impl Day {
    /// One request of the day; false when the program is gone.
    fn ask(&mut self, client: &mut Client, request: &Request) -> bool {
        let known = self.known.entry(request.path.clone()).or_insert_with(|| Known {
            versions: Vec::new(),
            puts: Vec::new(),
            floor: 0,
            fetched_at: None,
        });
        if known.versions.len() == request.version as usize {
            known.versions.push(request.length);
        }
        let url = self.origin.url(&request.path);
        let fields: &[&str] = if request.changed { &["Cache-Control: no-cache"] } else { &[] };
        let answer = match client.get(&url, fields) {
            Ok(answer) => answer,
            Err(_) => {
                // What came before the end is right, too.
                let right = |v: u32| {
                    content::body(&request.path, v, known.versions[v as usize]).starts_with(&client.partial)
                };
                assert!(
                    (known.floor..=request.version).any(right),
                    "{url}: a broken answer with wrong bytes"
                );
                // It may have been stored, or not: nothing is known of it.
                known.fetched_at = None;
                return false;
            }
        };
        assert_eq!(answer.status, 200, "{url}");
        let version = version_of(&request.path, known, &answer);
        self.bytes += answer.body.len();
        if answer.is_hit() {
            self.hits += 1;
            self.older_versions += usize::from(version < request.version);
        } else {
            assert_eq!(version, request.version, "{url}: an old answer from the origin");
            // A store whose disk is behind refuses rather than waits: ask whether it took this one.
            let taken =
                client.send("HEAD", &url, &["Cache-Control: only-if-cached"], b"").map(|a| a.status != 504);
            match taken {
                Ok(true) => {
                    known.puts.push((version, Instant::now()));
                    known.fetched_at = Some(self.fetched);
                }
                Ok(false) => {
                    known.fetched_at = None;
                    self.refused += usize::from(request.length <= LARGEST);
                }
                Err(_) => known.fetched_at = None,
            }
            self.fetched += request.length;
        }
        true
    }

    fn compare_after_kill(&mut self, server: &Server, killed_at: Instant, random: &mut Random) -> Found {
        let last_safe = killed_at - 2 * FLUSH;
        for known in self.known.values_mut() {
            let safe =
                known.puts.iter().filter(|(_, at)| *at <= last_safe).map(|(version, _)| *version).max();
            known.floor = known.floor.max(safe.unwrap_or(0));
        }
        self.compare(server, last_safe, random)
    }

    fn compare_after_stop(&mut self, server: &Server, random: &mut Random) -> Found {
        let found = self.compare(server, Instant::now(), random);
        assert_eq!(found.lost, 0);
        found
    }

    /// Asks the cache, and only the cache, for everything put after `last_safe` and a sample of what was put before.
    fn compare(&mut self, server: &Server, last_safe: Instant, random: &mut Random) -> Found {
        let mut recent = Vec::new();
        let mut safe = Vec::new();
        for (path, known) in &self.known {
            let Some(&(version, at)) = known.puts.last() else { continue };
            if known.versions[version as usize] > LARGEST {
                // Never stored.
                continue;
            }
            let unswept = known.fetched_at.is_some_and(|fetched| self.fetched - fetched < UNSWEPT);
            if at > last_safe {
                recent.push(path.clone());
            } else if unswept {
                safe.push(path.clone());
            }
        }
        safe.sort();
        for n in 0..safe.len().min(SAMPLE) {
            let other = n + random.below(safe.len() - n);
            safe.swap(n, other);
        }
        safe.truncate(SAMPLE);
        let mut found = Found { asked: recent.len() + safe.len(), lost: 0, recent: recent.len() };
        let mut there = HashSet::new();
        let mut client = Client::new(server.address);
        for (path, must) in safe.iter().map(|p| (p, true)).chain(recent.iter().map(|p| (p, false))) {
            let known = self.known.get_mut(path).unwrap();
            let answer = client.get(&self.origin.url(path), &["Cache-Control: only-if-cached"]).unwrap();
            let &(newest, at) = known.puts.last().unwrap();
            let version = match answer.status {
                504 => None,
                200 => Some(version_of(path, known, &answer)),
                other => panic!("{path}: status {other}"),
            };
            self.older_versions += usize::from(version.is_some_and(|v| v < newest));
            if version.is_some_and(|v| v >= newest) {
                known.floor = newest;
                there.insert(path.clone());
                // It may be an earlier copy that the sweep had passed, back with the segment that it did not get to
                // write: soon to be swept again.
                let copies = known.puts.iter().filter(|(version, _)| *version == newest).count();
                if at > last_safe && copies > 1 {
                    known.fetched_at = None;
                }
            } else {
                assert!(
                    !must,
                    "{path}: put {:?} before it had to be safe, found: {version:?}",
                    last_safe - at
                );
                found.lost += 1;
                known.fetched_at = None;
            }
        }
        // What a kill may have undone, and was not found, is not to be counted on later.
        for (path, known) in &mut self.known {
            if !there.contains(path) {
                known.puts.retain(|(_, at)| *at <= last_safe);
            }
        }
        found
    }
}

/// Which version an answer is: the newest, or one that a crash may bring back.
fn version_of(path: &str, known: &Known, answer: &Answer) -> u32 {
    (known.floor..known.versions.len() as u32)
        .rev()
        .find(|&v| {
            known.versions[v as usize] == answer.body.len()
                && content::body(path, v, known.versions[v as usize]) == answer.body
        })
        .unwrap_or_else(|| {
            let older =
                (0..known.floor).any(|v| content::body(path, v, known.versions[v as usize]) == answer.body);
            panic!(
                "{path}, {}: {} bytes that are no version from {} to {}{}",
                answer.cache_status(),
                answer.body.len(),
                known.floor,
                known.versions.len() - 1,
                if older { ", but an older one" } else { "" }
            )
        })
}
