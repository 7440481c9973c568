//! What is missed, by whether it could have been prefetched (Maltzahn 6.2.1).

use serde::Serialize;
use std::ops::{Add, AddAssign};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub requests: u64,
    pub bytes: u64,
}

/// Whether what was asked for in a peak was cacheable, and there unaltered since the off-peak before began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    NotCacheable,
    /// It was altered since, or came to be.
    Altered,
    Unaltered,
    /// Nothing in the trace says that it was altered, and nothing that it was not.
    Assumed,
}

/// What of it was known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Name,
    /// The server, since before the peak began.
    Server,
    /// The server, since this peak.
    NewServer,
    Nothing,
}

/// The misses of a cache in peaks. The first three are prefetchable; with the others they are all misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The name was asked for before: revalidation and capacity misses.
    pub seen: Amount,
    /// Asked for the first time, of a server that was asked before.
    pub seen_server: Amount,
    /// Of a server that was never asked before.
    pub unseen_server: Amount,
    /// Changed, or created, since the off-peak began.
    pub altered: Amount,
    pub not_cacheable: Amount,
    /// The part of the prefetchable for which the trace does not tell whether it was altered.
    pub assumed: Amount,
    /// The part of `seen_server` whose server was asked for the first time in this peak: the night before, nobody knew it.
    pub server_of_this_peak: Amount,
}

impl Amount {
    pub fn count(&mut self, bytes: u64) {
        *self += Amount { requests: 1, bytes };
    }

    /// This part of all, by bytes; 0 of nothing.
    pub fn share_of(self, all: Amount) -> f64 {
        share(self.bytes as f64, all.bytes as f64)
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

impl Split {
    /// Counts a miss.
    pub fn count(&mut self, verdict: Verdict, known: Known, bytes: u64) {
        match verdict {
            Verdict::NotCacheable => return self.not_cacheable.count(bytes),
            Verdict::Altered => return self.altered.count(bytes),
            Verdict::Assumed => self.assumed.count(bytes),
            Verdict::Unaltered => {}
        }
        match known {
            Known::Name => self.seen.count(bytes),
            Known::Nothing => self.unseen_server.count(bytes),
            Known::Server => self.seen_server.count(bytes),
            Known::NewServer => {
                self.seen_server.count(bytes);
                self.server_of_this_peak.count(bytes);
            }
        }
    }

    pub fn prefetchable(&self) -> Amount {
        self.seen + self.seen_server + self.unseen_server
    }

    pub fn missed(&self) -> Amount {
        self.prefetchable() + self.altered + self.not_cacheable
    }
}

impl AddAssign<&Split> for Split {
    fn add_assign(&mut self, other: &Split) {
        self.seen += other.seen;
        self.seen_server += other.seen_server;
        self.unseen_server += other.unseen_server;
        self.altered += other.altered;
        self.not_cacheable += other.not_cacheable;
        self.assumed += other.assumed;
        self.server_of_this_peak += other.server_of_this_peak;
    }
}

/// 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
