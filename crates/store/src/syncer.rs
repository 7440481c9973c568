//! Syncs of what was written, for those who wait for that: one for all who wait at once. What fails is tried again.

use crate::engine::{Millis, Op};
use crate::retry::Retry;

pub struct Syncer {
    /// Writes that are done, counted; of these, those that somebody waits for, and those before a sync that is done.
    written: u64,
    wanted: u64,
    synced: u64,
    /// Those before the sync that is under way.
    running: Option<u64>,
    pub retry: Retry,
}

impl Default for Syncer {
    /// What an earlier life wrote may not be synced: that counts as one write.
    fn default() -> Syncer {
        Syncer { written: 1, wanted: 0, synced: 0, running: None, retry: Retry::default() }
    }
}

impl Syncer {
    pub fn wrote(&mut self) {
        self.written += 1;
    }

    /// How much is written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether so much was synced; if not, it will be.
    pub fn is_synced(&mut self, written: u64) -> bool {
        self.wanted = self.wanted.max(written);
        self.synced >= written
    }

    /// A sync that began when so much was written is done.
    pub fn synced(&mut self, written: u64) {
        self.synced = self.synced.max(written);
    }

    pub fn next_io(&mut self, now: Millis) -> Option<Op> {
        if self.wanted <= self.synced || self.running.is_some() || !self.retry.is_due(now) {
            return None;
        }
        self.running = Some(self.written);
        Some(Op::Sync)
    }

    /// The outcome of `next_io`.
    pub fn io_done(&mut self, ok: bool, now: Millis) {
        let Some(written) = self.running.take() else { return };
        match ok {
            true => {
                self.retry = Retry::default();
                self.synced(written);
            }
            false => self.retry.fail(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sync_is_for_all_who_wait_when_it_begins() {
        let mut syncer = Syncer::default();
        let first = syncer.written();
        assert!(syncer.next_io(0).is_none(), "nobody waits");
        assert!((0..3).all(|_| !syncer.is_synced(first)));
        assert!(syncer.next_io(0).is_some());
        // Two who come while it is under way have the next one.
        syncer.wrote();
        let second = syncer.written();
        assert!(!syncer.is_synced(second) && !syncer.is_synced(second) && syncer.next_io(0).is_none());
        syncer.io_done(true, 0);
        assert!(syncer.is_synced(first) && !syncer.is_synced(second));
        assert!(syncer.next_io(0).is_some());
        syncer.io_done(true, 0);
        assert!(syncer.is_synced(second) && syncer.next_io(0).is_none());
    }

    #[test]
    fn one_that_fails_is_tried_again() {
        let mut syncer = Syncer::default();
        assert!(!syncer.is_synced(1) && syncer.next_io(0).is_some());
        syncer.io_done(false, 0);
        assert!(!syncer.is_synced(1) && syncer.retry.is_failing() && syncer.next_io(0).is_none());
        assert!(syncer.next_io(60_000).is_some());
        syncer.io_done(true, 60_000);
        assert!(syncer.is_synced(1) && !syncer.retry.is_failing());
    }
}
