//! What happened of late, for the operator's page, in bounded memory: who was asked for most, which origins answered how, what was
//! slowest (`Recent`, one for each worker), and what came by the minute and the quarter of an hour (`history`).
//!
//! Of a busy worker's requests one in `ONE_IN` is looked at for who is asked for most. A worker never waits for who reads: what it
//! would note meanwhile is left out.

pub mod history;
mod sketch;
mod slowest;

use self::sketch::{Entry, Sketch, merge};
use self::slowest::{LEAST, MOST as SLOWEST, Slow, Slowest};
use super::Transaction;
use super::counters::{Class, Number};
use crate::transport::Hop;
use cache::{NotStored, Outcome, Pass, Report};
use http::StatusCode;
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of all requests so many are looked at in each half; then, one in so many.
const ALL: u32 = 4096;
const ONE_IN: u32 = 64;

/// What is noted is of this half of an hour and the one before it.
pub const HALF: Duration = Duration::from_secs(30 * 60);

/// Names that are kept of each kind, in each half.
const HOSTS: usize = 64;
const URLS: usize = 128;
const ORIGINS: usize = 32;
/// Of these, so many are told.
const TOLD: usize = 20;

/// Bytes that a worker's takes at most.
pub const MEMORY: u64 = 2
    * ((HOSTS + URLS + ORIGINS) * (sketch::NAME + 192)
        + ORIGINS * sketch::NAME
        + SLOWEST * (2 * sketch::NAME + 256)) as u64;

/// One worker's. It alone writes; on cache lines of its own.
#[repr(align(128))]
pub struct Recent {
    /// Requests of this half.
    seen: AtomicU32,
    /// Nanoseconds that one takes to be among the slowest.
    floor: AtomicU64,
    hides_queries: bool,
    halves: Mutex<[Half; 2]>,
}

struct Half {
    hosts: Sketch<Asked>,
    urls: Sketch<Asked>,
    origins: Sketch<Health>,
    slowest: Slowest,
    /// One in `ONE_IN` is looked at.
    sampled: bool,
    requests: u64,
}

/// Of whom is asked for.
#[derive(Clone, Debug, Default)]
struct Asked {
    bytes: u64,
    hits: u64,
    /// What became of the last one, and when.
    last: Option<(SystemTime, Last)>,
}

/// What a cache makes of a request, as far as it says why something is stored or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Passed(Pass),
    NotStored(NotStored),
    Other(Outcome),
}

impl Last {
    fn of(report: &Report) -> Last {
        match (report.outcome, report.not_stored) {
            (Outcome::Pass(why), _) => Last::Passed(why),
            (_, Some(why)) => Last::NotStored(why),
            (outcome, None) => Last::Other(outcome),
        }
    }
}

/// How an origin answered.
#[derive(Clone, Debug, Default)]
struct Health {
    failed: u64,
    server_errors: u64,
    /// To the heads of its responses, in all.
    nanos: u64,
    /// When it failed last, and how; and when it answered last.
    failure: Option<(SystemTime, String)>,
    answered: Option<SystemTime>,
}

impl Default for Half {
    fn default() -> Half {
        Half {
            hosts: Sketch::of(HOSTS),
            urls: Sketch::of(URLS),
            origins: Sketch::of(ORIGINS),
            slowest: Slowest::default(),
            sampled: false,
            requests: 0,
        }
    }
}

/// By the worker.
impl Recent {
    /// Queries of URLs are left out, if so.
    pub fn new(hides_queries: bool) -> Recent {
        let floor = AtomicU64::new(LEAST.as_nanos() as u64);
        Recent { seen: AtomicU32::new(0), floor, hides_queries, halves: Mutex::default() }
    }

    pub(super) fn tell(&self, transaction: &Transaction, class: Class, to_first: Duration) {
        let seen = self.seen.load(Relaxed);
        self.seen.store(seen.wrapping_add(1), Relaxed);
        // Spread evenly, and not in step with the objects of a page.
        let is_looked_at = seen < ALL || seen.wrapping_mul(0x9e37_79b9) < u32::MAX / ONE_IN;
        let is_slow = to_first.as_nanos() as u64 >= self.floor.load(Relaxed) && class != Class::Tunnel;
        if is_looked_at || is_slow {
            self.note(
                transaction,
                (class, to_first),
                is_slow,
                if seen < ALL { 1 } else { ONE_IN },
                is_looked_at,
            );
        }
    }

    #[cold]
    fn note(
        &self,
        transaction: &Transaction,
        (class, to_first): (Class, Duration),
        is_slow: bool,
        weight: u32,
        counts: bool,
    ) {
        let Ok(mut halves) = self.halves.try_lock() else { return };
        let half = &mut halves[0];
        let host = transaction.host().unwrap_or("-");
        let url = self.url(transaction, host);
        if counts {
            let (weight, is_hit) = (u64::from(weight), matches!(class, Class::HitMemory | Class::HitDisk));
            half.requests += weight;
            half.sampled |= weight > 1;
            let last = transaction.report.as_ref().map(|report| (SystemTime::now(), Last::of(report)));
            for asked in [half.hosts.add(host, weight), half.urls.add(&url, weight)] {
                asked.bytes += transaction.sent * weight;
                asked.hits += if is_hit { weight } else { 0 };
                asked.last = last.or(asked.last);
            }
        }
        if is_slow {
            half.slowest.add(Slow {
                id: transaction.id.to_string(),
                ended: SystemTime::now(),
                method: transaction.method.as_str().chars().take(16).collect(),
                url: url[..url.floor_char_boundary(2 * sketch::NAME)].into(),
                outcome: Class::ALL[class as usize].1.0,
                status: transaction.status.map(|status| status.as_u16()),
                first: to_first,
                last: transaction.to_last(),
                sent: transaction.sent,
            });
            self.floor.store(half.slowest.floor().as_nanos() as u64, Relaxed);
        }
    }

    fn url(&self, transaction: &Transaction, host: &str) -> String {
        let mut url = String::with_capacity(sketch::NAME);
        if let Some(scheme) = transaction.scheme() {
            url.push_str(scheme);
            url.push_str("://");
        }
        url.push_str(host);
        url.push_str(transaction.path().unwrap_or_default());
        if self.hides_queries { without_query(url) } else { url }
    }

    /// An origin answered with this status after this time, or did not, and why.
    pub(super) fn asked(&self, hop: &Hop, answer: Result<(StatusCode, Duration), &str>) {
        let Ok(mut halves) = self.halves.try_lock() else { return };
        let health = halves[0].origins.add(&hop.to_string(), 1);
        match answer {
            Ok((status, took)) => {
                health.nanos += took.as_nanos() as u64;
                health.server_errors += u64::from(Number::of(status) == Number::Status5);
                health.answered = Some(SystemTime::now());
            }
            Err(why) => {
                health.failed += 1;
                let why = why[..why.floor_char_boundary(sketch::NAME)].to_owned();
                health.failure = Some((SystemTime::now(), why));
            }
        }
    }
}

/// Up to the `?`.
fn without_query(mut url: String) -> String {
    if let Some(at) = url.find('?') {
        url.truncate(at + 1);
        url.push_str("...");
    }
    url
}

fn later<T>(one: Option<(SystemTime, T)>, other: Option<(SystemTime, T)>) -> Option<(SystemTime, T)> {
    let when = |last: &Option<(SystemTime, T)>| last.as_ref().map(|(when, _)| *when);
    if when(&other) > when(&one) { other } else { one }
}

/// When a URL was asked for last, as far as that is noted, and what became of it.
pub fn last(workers: &[Arc<Recent>], url: &str) -> Option<(SystemTime, Last)> {
    let of = |recent: &Arc<Recent>| {
        let url = if recent.hides_queries { without_query(url.to_owned()) } else { url.to_owned() };
        let halves = recent.halves();
        let entries = halves.iter().flat_map(|half| half.urls.entries());
        let found = entries.filter(|entry| entry.name == url[..url.floor_char_boundary(sketch::NAME)]);
        found.map(|entry| entry.more.last).fold(None, later)
    };
    workers.iter().map(of).fold(None, later)
}

/// By the operator's thread.
impl Recent {
    fn halves(&self) -> MutexGuard<'_, [Half; 2]> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another half of an hour begins.
    pub fn turn(&self) {
        let mut halves = self.halves();
        halves.swap(0, 1);
        halves[0] = Half::default();
        self.seen.store(0, Relaxed);
        self.floor.store(LEAST.as_nanos() as u64, Relaxed);
    }
}

/// What all workers noted.
pub fn json(workers: &[Arc<Recent>]) -> Json {
    let (mut hosts, mut urls, mut origins, mut slowest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut requests, mut sampled, mut floors) = (0, false, [0; 2]);
    for worker in workers {
        for half in &*worker.halves() {
            hosts.push(half.hosts.entries().to_vec());
            urls.push(half.urls.entries().to_vec());
            origins.push(half.origins.entries().to_vec());
            slowest.extend_from_slice(half.slowest.all());
            requests += half.requests;
            sampled |= half.sampled;
            floors[0] += half.hosts.floor();
            floors[1] += half.urls.floor();
        }
    }
    slowest.sort_by_key(|slow| Reverse(slow.first));
    slowest.truncate(SLOWEST);
    json!({
        "requests": requests,
        "one-in": if sampled { ONE_IN } else { 1 },
        "hosts": asked(&hosts, floors[0]),
        "urls": asked(&urls, floors[1]),
        "origins": healths(&origins),
        "slowest": slowest.iter().map(slow).collect::<Vec<_>>(),
    })
}

fn asked(sketches: &[Vec<Entry<Asked>>], floor: u64) -> Json {
    let merged = merge(sketches.iter().map(Vec::as_slice), |sum, more| {
        sum.bytes += more.bytes;
        sum.hits += more.hits;
        sum.last = later(sum.last, more.last);
    });
    let told = merged.iter().take(TOLD).map(|Entry { name, count, error, more }| {
        json!({ "name": name, "requests": count, "error": error, "bytes": more.bytes, "hits": more.hits })
    });
    json!({ "most": told.collect::<Vec<_>>(), "others-at-most": floor })
}

fn healths(sketches: &[Vec<Entry<Health>>]) -> Json {
    let merged = merge(sketches.iter().map(Vec::as_slice), |sum, more| {
        sum.failed += more.failed;
        sum.server_errors += more.server_errors;
        sum.nanos += more.nanos;
        sum.answered = sum.answered.max(more.answered);
        let when = |health: &Health| health.failure.as_ref().map(|(when, _)| *when);
        if when(more) > when(sum) {
            sum.failure.clone_from(&more.failure);
        }
    });
    let told = merged.iter().take(TOLD).map(|Entry { name, count, error, more }| {
        let answered = (count - error).saturating_sub(more.failed);
        json!({
            "name": name,
            "fetches": count,
            "error": error,
            "failed": more.failed,
            "server-errors": more.server_errors,
            "mean-microseconds": (more.nanos / 1000).checked_div(answered),
            "last-answer": more.answered.map(seconds),
            "last-failure": more.failure.as_ref().map(|(when, _)| seconds(*when)),
            "cause": more.failure.as_ref().map(|(_, why)| why),
        })
    });
    told.collect()
}

fn slow(slow: &Slow) -> Json {
    json!({
        "id": slow.id,
        "at": seconds(slow.ended),
        "method": slow.method,
        "url": slow.url,
        "outcome": slow.outcome,
        "status": slow.status,
        "first-microseconds": slow.first.as_micros() as u64,
        "last-microseconds": slow.last.as_micros() as u64,
        "bytes": slow.sent,
    })
}

/// Since 1970.
fn seconds(when: SystemTime) -> u64 {
    when.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Something that was written to the error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since 1970.
    pub seconds: u64,
    pub level: &'static str,
    pub area: &'static str,
    /// On one line.
    pub text: String,
}

impl Event {
    pub(crate) fn json(&self) -> Json {
        json!({ "at": self.seconds, "level": self.level, "area": self.area, "text": self.text })
    }
}

#[cfg(test)]
mod tests;
