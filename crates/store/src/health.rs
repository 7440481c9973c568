//! How the medium fares, for whoever decides whether to go on with it.

use crate::engine::Millis;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// What can be seen of a medium without asking it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// A write failed, and was neither written nor given up yet.
    pub writes_fail: bool,
    /// Reads of objects that failed in a row, the last ones.
    pub failed_reads: u32,
    /// For how long a read was given up and none has come since, or none of the writes and reads under way for the store has.
    pub late: Duration,
}

/// A read's turn at the medium. It ends with the read, whatever became of who waited for that.
pub struct Turn {
    _permit: OwnedSemaphorePermit,
    health: Arc<Health>,
}

impl Turn {
    pub fn new(permit: OwnedSemaphorePermit, health: Arc<Health>) -> Turn {
        Turn { _permit: permit, health }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let given_up = &self.health.given_up;
        if given_up.load(Relaxed) > 0 {
            given_up.store(0, Relaxed);
        }
    }
}

#[derive(Default)]
pub struct Health {
    failed_reads: AtomicU32,
    /// When a read was given up since which none has come, in milliseconds and one more; 0: none was.
    given_up: AtomicU64,
    /// What the store's threads have under way, and when the last of it came, or the first of it was begun.
    under_way: AtomicU32,
    moved: AtomicU64,
    /// Writes and syncs of these.
    writes: AtomicU32,
}

impl Health {
    /// A read of an object has come to its end.
    pub fn read(&self, ok: bool) {
        if !ok {
            self.failed_reads.fetch_add(1, Relaxed);
        } else if self.failed_reads.load(Relaxed) > 0 {
            self.failed_reads.store(0, Relaxed);
        }
    }

    /// A read of an object is not waited for any more.
    pub fn gave_up(&self, now: Millis) {
        let _ = self.given_up.compare_exchange(0, now + 1, Relaxed, Relaxed);
    }

    /// Called with the engine's lock, under which it also ends.
    pub fn begin(&self, writes: bool, now: Millis) {
        if self.under_way.fetch_add(1, AcqRel) == 0 {
            self.moved.store(now, Relaxed);
        }
        self.writes.fetch_add(writes.into(), AcqRel);
    }

    pub fn end(&self, wrote: bool, now: Millis) {
        self.moved.store(now, Relaxed);
        self.writes.fetch_sub(wrote.into(), AcqRel);
        self.under_way.fetch_sub(1, AcqRel);
    }

    pub fn is_writing(&self) -> bool {
        self.writes.load(Acquire) > 0
    }

    pub fn signs(&self, writes_fail: bool, now: Millis) -> Signs {
        let given_up = self.given_up.load(Relaxed).checked_sub(1);
        let stuck = (self.under_way.load(Acquire) > 0).then(|| self.moved.load(Relaxed));
        let since = given_up.into_iter().chain(stuck).min();
        let late = Duration::from_millis(since.map_or(0, |since| now.saturating_sub(since)));
        Signs { writes_fail, failed_reads: self.failed_reads.load(Relaxed), late }
    }
}
