//! What one worker counts: plain additions to cache lines of its own, which the operator's thread reads at any time.

use super::{Place, Transaction};
use cache::{Outcome, Pass};
use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from 0 at the start.
    Counter,
    /// It goes up and down.
    Gauge,
    /// An array: element 0 counts what took less than a microsecond, element i what took at least 2^(i-1) and less than 2^i
    /// microseconds, the last one the rest.
    Histogram,
}

/// What a number is called in Prometheus: the name behind `cosm_`, and the label that tells it from others of that name.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub family: &'static str,
    pub label: Option<(&'static str, &'static str)>,
    /// Of what is counted here so many are one in base units.
    pub per: u64,
}

pub(super) const fn plain(family: &'static str) -> Metric {
    Metric { family, label: None, per: 1 }
}

pub(super) const fn labelled(family: &'static str, label: &'static str, value: &'static str) -> Metric {
    Metric { family, label: Some((label, value)), per: 1 }
}

/// Variants in the order of their rows.
macro_rules! table {
    ($(#[$meta:meta])* $name:ident, $row:ty, $($variant:ident $value:expr;)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variant),* }

        impl $name {
            pub const ALL: &[($name, $row)] = &[$(($name::$variant, $value)),*];
        }
    };
}

table! {
    /// What came of a request, as far as it is counted apart: the name, and what it means.
    Class, (&'static str, &'static str),
    HitMemory ("hit-memory", "answered from memory");
    HitDisk ("hit-disk", "answered from disk");
    HitOffline ("hit-offline", "answered from a stale stored response without asking the origin: offline");
    StaleOnError ("stale-on-error", "answered from a stale stored response, for the origin gave no answer of use");
    Revalidated ("revalidated", "the origin said that the stored response still holds");
    Miss ("miss", "fetched from the origin");
    Collapsed ("collapsed", "answered by a fetch that another request had begun");
    PassMethod ("pass-method", "passed: neither GET nor HEAD nor QUERY");
    PassNoStore ("pass-no-store", "passed: the request says no-store");
    PassUpgrade ("pass-upgrade", "passed: the request asks for another protocol");
    PassContent ("pass-content", "passed: the request has content, or more than a key takes");
    PassPrecondition ("pass-precondition", "passed: the request has If-Match or If-Unmodified-Since");
    Tunnel ("tunnel", "CONNECT, and upgrades to another protocol; the bytes are those to the client");
    Own ("own", "answered by the proxy itself: OPTIONS, TRACE, proxy.pac");
    Refused400 ("refused-400", "refused with 400");
    Refused403 ("refused-403", "refused with 403");
    Refused405 ("refused-405", "refused with 405");
    Refused501 ("refused-501", "refused with 501");
    Refused502 ("refused-502", "refused with 502");
    Refused503 ("refused-503", "refused with 503");
    Refused504 ("refused-504", "refused with 504");
    Refused508 ("refused-508", "refused with 508");
    RefusedOther ("refused-other", "refused with another status");
    Left ("left", "the client left before there was an answer");
}

impl Class {
    pub fn of(transaction: &Transaction) -> Class {
        match (&transaction.report, transaction.status) {
            _ if transaction.tunnel => Class::Tunnel,
            (None, None) => Class::Left,
            (Some(report), _) => {
                Class::of_outcome(report.outcome, report.collapsed == Some(true), transaction.place)
            }
            (None, Some(status)) => match status.as_u16() {
                ..400 => Class::Own,
                400 => Class::Refused400,
                403 => Class::Refused403,
                405 => Class::Refused405,
                501 => Class::Refused501,
                502 => Class::Refused502,
                503 => Class::Refused503,
                504 => Class::Refused504,
                508 => Class::Refused508,
                _ => Class::RefusedOther,
            },
        }
    }

    fn of_outcome(outcome: Outcome, collapsed: bool, place: Place) -> Class {
        match outcome {
            _ if collapsed => Class::Collapsed,
            Outcome::Hit | Outcome::HitStale | Outcome::HitRevalidating | Outcome::HitWithGaps => match place
            {
                Place::Memory => Class::HitMemory,
                Place::Disk => Class::HitDisk,
            },
            Outcome::HitOffline => Class::HitOffline,
            Outcome::StaleOnError => Class::StaleOnError,
            Outcome::Revalidated(_) => Class::Revalidated,
            Outcome::Miss(_) => Class::Miss,
            Outcome::Pass(Pass::Method) => Class::PassMethod,
            Outcome::Pass(Pass::NoStore) => Class::PassNoStore,
            Outcome::Pass(Pass::Upgrade) => Class::PassUpgrade,
            Outcome::Pass(Pass::Content) => Class::PassContent,
            Outcome::Pass(Pass::Precondition) => Class::PassPrecondition,
        }
    }
}

table! {
    /// What is counted beside requests: the section, the name, the kind, the metric, and what it means.
    Number, (&'static str, &'static str, Kind, Metric, &'static str),
    Status1 ("responses", "1xx", Kind::Counter, labelled("responses_total", "status", "1xx"), "responses with a status from 100 to 199: upgrades");
    Status2 ("responses", "2xx", Kind::Counter, labelled("responses_total", "status", "2xx"), "responses with a status from 200 to 299");
    Status3 ("responses", "3xx", Kind::Counter, labelled("responses_total", "status", "3xx"), "responses with a status from 300 to 399");
    Status4 ("responses", "4xx", Kind::Counter, labelled("responses_total", "status", "4xx"), "responses with a status from 400 to 499");
    Status5 ("responses", "5xx", Kind::Counter, labelled("responses_total", "status", "5xx"), "responses with a status from 500 on");
    BrokenOff ("responses", "broken-off", Kind::Counter, plain("responses_broken_off_total"), "responses and tunnels that did not end as \
        they should: the origin broke off, the client left, or neither moved");
    Healed ("responses", "healed", Kind::Counter, plain("responses_healed_total"), "answers from disk of which the origin gave pieces that the disk had lost");
    Crowded ("responses", "crowded", Kind::Counter, plain("responses_crowded_total"), "responses that were not kept, for the memory for bodies on their way was nearly used up");
    Accepted ("connections", "accepted", Kind::Counter, plain("connections_accepted_total"), "connections of clients that were accepted");
    Open ("connections", "open", Kind::Gauge, plain("connections_open"), "connections of clients that are open");
    OpenTls ("tls", "open", Kind::Gauge, plain("tls_connections_open"), "connections of clients over TLS that are open");
    HandshakesFull ("tls", "handshakes-full", Kind::Counter, labelled("tls_handshakes_total", "result", "full"), "TLS handshakes of clients that came to their end");
    HandshakesResumed ("tls", "handshakes-resumed", Kind::Counter, labelled("tls_handshakes_total", "result", "resumed"), "those that went on with a session, by a ticket");
    HandshakesFailed ("tls", "handshakes-failed", Kind::Counter, labelled("tls_handshakes_total", "result", "failed"), "those on which the two did not agree: no common version or cipher, no certificate of the client, or no TLS");
    HandshakesLeft ("tls", "handshakes-left", Kind::Counter, labelled("tls_handshakes_total", "result", "left"), "those in which the client left");
    HandshakesLate ("tls", "handshakes-late", Kind::Counter, labelled("tls_handshakes_total", "result", "late"), "those that were ended: they took too long, or others waited");
    HandshakesPlain ("tls", "handshakes-plain", Kind::Counter, labelled("tls_handshakes_total", "result", "plain"), "connections that spoke HTTP to a port for TLS");
    OpenHttp2 ("http2", "open", Kind::Gauge, plain("http2_connections_open"), "connections of clients that speak HTTP/2 and are open");
    Http2Streams ("http2", "streams", Kind::Counter, plain("http2_streams_total"), "requests of clients over HTTP/2");
    Http2Floods ("http2", "floods", Kind::Counter, plain("http2_floods_total"), "connections that were ended with ENHANCE_YOUR_CALM: more resets, pings or other frames in a minute than the settings allow");
    MadeWay ("connections", "made-way", Kind::Counter, plain("connections_made_way_total"), "connections that were ended in the middle, for they moved hardly anything while others waited for memory");
    Fetches ("origin", "fetches", Kind::Counter, plain("origin_fetches_total"), "requests to origins: for clients, to validate, and for the rest of a body");
    Failed ("origin", "failed", Kind::Counter, plain("origin_fetches_failed_total"), "requests to origins that no response came to");
    ServerErrors ("origin", "server-errors", Kind::Counter, plain("origin_server_errors_total"), "responses of origins with a status from 500 on");
    Connections ("origin", "connections", Kind::Counter, plain("origin_connections_total"), "connections to origins that were opened, those of tunnels included");
    OriginOpen ("origin", "open", Kind::Gauge, plain("origin_connections_open"), "connections to origins that are open, without those of tunnels");
    OriginOpenHttp2 ("origin", "http2-open", Kind::Gauge, plain("origin_http2_connections_open"), "those of them that speak HTTP/2");
    OriginStreams ("origin", "http2-streams", Kind::Counter, plain("origin_http2_streams_total"), "requests to origins over HTTP/2");
    OriginHandshakesFull ("origin", "tls-full", Kind::Counter, labelled("origin_tls_handshakes_total", "result", "full"), "TLS handshakes with origins that came to their end");
    OriginHandshakesResumed ("origin", "tls-resumed", Kind::Counter, labelled("origin_tls_handshakes_total", "result", "resumed"), "those that went on with a session");
    OriginHandshakesFailed ("origin", "tls-failed", Kind::Counter, labelled("origin_tls_handshakes_total", "result", "failed"), "those that failed: the error log says why");
    OriginBytes ("origin", "bytes", Kind::Counter, plain("origin_received_bytes_total"), "bytes of bodies that came from origins, without tunnels");
}

impl Number {
    /// By the first digit; what is beyond counts as an error of the server (RFC 9110 section 15).
    pub fn of(status: StatusCode) -> Number {
        match status.as_u16() / 100 {
            1 => Number::Status1,
            2 => Number::Status2,
            3 => Number::Status3,
            4 => Number::Status4,
            _ => Number::Status5,
        }
    }
}

table! {
    /// What takes how long: the section, the names of the histogram and of its sum, the metric, and what it means.
    Time, (&'static str, &'static str, &'static str, Metric, &'static str),
    HitMemory ("first-byte", "hit-memory", "hit-memory-sum", first_byte("hit-memory"), "time to the first byte of answers from memory");
    HitDisk ("first-byte", "hit-disk", "hit-disk-sum", first_byte("hit-disk"), "time to the first byte of answers from disk");
    Offline ("first-byte", "hit-offline", "hit-offline-sum", first_byte("hit-offline"), "the same of stale answers while offline");
    Stale ("first-byte", "stale-on-error", "stale-on-error-sum", first_byte("stale-on-error"), "the same of stale answers for the origin's");
    Revalidated ("first-byte", "revalidated", "revalidated-sum", first_byte("revalidated"), "the same of what the origin said still holds");
    Miss ("first-byte", "miss", "miss-sum", first_byte("miss"), "time to the first byte of what was fetched");
    Collapsed ("first-byte", "collapsed", "collapsed-sum", first_byte("collapsed"), "the same of what another request had begun to fetch");
    Pass ("first-byte", "pass", "pass-sum", first_byte("pass"), "the same of what was passed");
    Origin ("origin", "first-byte", "first-byte-sum", plain("origin_first_byte_seconds"), "time from a request to an origin, with \
        the connection if that is new, to the head of its response");
}

const fn first_byte(outcome: &'static str) -> Metric {
    labelled("first_byte_seconds", "outcome", outcome)
}

impl Time {
    fn of(class: Class) -> Option<Time> {
        Some(match class {
            Class::HitMemory => Time::HitMemory,
            Class::HitDisk => Time::HitDisk,
            Class::HitOffline => Time::Offline,
            Class::StaleOnError => Time::Stale,
            Class::Revalidated => Time::Revalidated,
            Class::Miss => Time::Miss,
            Class::Collapsed => Time::Collapsed,
            Class::PassMethod
            | Class::PassNoStore
            | Class::PassUpgrade
            | Class::PassContent
            | Class::PassPrecondition => Time::Pass,
            _ => return None,
        })
    }
}

/// Elements of a histogram; the last begins at 67 seconds.
pub const BUCKETS: usize = 28;

fn nanos(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos().into())
}

fn bucket(nanos: u64) -> usize {
    let micros = nanos / 1000;
    ((u64::BITS - micros.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// One worker's counters, on cache lines that nothing else lies on (two at a time are fetched).
#[repr(align(128))]
pub struct Counters {
    requests: [Count; Class::ALL.len()],
    bytes: [Count; Class::ALL.len()],
    numbers: [Count; Number::ALL.len()],
    times: [[Count; BUCKETS]; Time::ALL.len()],
    born: Instant,
    /// Milliseconds after that, when the worker was last known to do something.
    beat: AtomicU64,
    /// Of all of them, nanoseconds.
    sums: [Count; Time::ALL.len()],
}

/// Written by one thread, so that an addition needs no locked instruction.
struct Count(AtomicU64);

impl Count {
    fn add(&self, by: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

impl Default for Counters {
    fn default() -> Counters {
        let zero = |_| Count(AtomicU64::new(0));
        Counters {
            requests: std::array::from_fn(zero),
            bytes: std::array::from_fn(zero),
            numbers: std::array::from_fn(zero),
            times: std::array::from_fn(|_| std::array::from_fn(zero)),
            born: Instant::now(),
            beat: AtomicU64::new(0),
            sums: std::array::from_fn(zero),
        }
    }
}

/// By the worker that these are of, through `Exit`.
impl Counters {
    pub(super) fn count(&self, class: Class, bytes: u64, to_first: Duration) {
        self.requests[class as usize].add(1);
        self.bytes[class as usize].add(bytes);
        if let Some(time) = Time::of(class) {
            self.took(time, to_first);
        }
    }

    pub(super) fn beat(&self) {
        self.beat.store(self.born.elapsed().as_millis() as u64, Relaxed);
    }

    pub(super) fn took(&self, time: Time, duration: Duration) {
        let nanos = nanos(duration);
        self.times[time as usize][bucket(nanos)].add(1);
        self.sums[time as usize].add(nanos);
    }

    pub(super) fn add(&self, number: Number, by: u64) {
        self.numbers[number as usize].add(by);
    }
}

/// By anybody.
impl Counters {
    /// Since when the worker has done nothing.
    pub fn silent_for(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.beat.load(Relaxed)))
    }

    pub fn requests(&self, class: Class) -> u64 {
        self.requests[class as usize].0.load(Relaxed)
    }

    pub fn bytes(&self, class: Class) -> u64 {
        self.bytes[class as usize].0.load(Relaxed)
    }

    pub fn number(&self, number: Number) -> u64 {
        self.numbers[number as usize].0.load(Relaxed)
    }

    pub fn times(&self, time: Time) -> [u64; BUCKETS] {
        std::array::from_fn(|n| self.times[time as usize][n].0.load(Relaxed))
    }

    pub fn sum(&self, time: Time) -> u64 {
        self.sums[time as usize].0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_variants_count() {
        assert!(Class::ALL.iter().enumerate().all(|(n, (class, _))| *class as usize == n));
        assert!(Number::ALL.iter().enumerate().all(|(n, (number, _))| *number as usize == n));
        assert!(Time::ALL.iter().enumerate().all(|(n, (time, _))| *time as usize == n));
    }

    #[test]
    fn buckets_are_powers_of_two_microseconds() {
        for (micros, expected) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (u64::MAX / 1000, 27)]
        {
            assert_eq!(bucket(nanos(Duration::from_micros(micros))), expected, "{micros}");
        }
    }

    #[test]
    fn two_workers_share_no_cache_line() {
        assert_eq!((align_of::<Counters>(), size_of::<Counters>() % 128), (128, 0));
    }
}
