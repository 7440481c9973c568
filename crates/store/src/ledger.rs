//! The ledger's keeper: what was set last, and how far it is on the medium.
//!
//! sync (of what an earlier life may have left unsynced) → write of the elder copy → sync. The copy that counts is
//! never written, so that what was durable stays so until its successor is. What fails is tried again, from the write on:
//! what a failed sync had to bring to the medium may be nowhere any more.
//!
//! When a start could not read a copy, nobody knows which one counts, and a write that is torn could leave the elder one
//! alone. So the first thing written then is `UNREADABLE`, which is never torn; what was set follows to the other copy.

use crate::Refused;
use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::BLOCK;
use crate::format::ledger::{Ledger, MAX, UNREADABLE, offset};
use crate::retry::Retry;
use std::sync::Arc;

pub struct LedgerWriter {
    identity: u64,
    /// What was set last, or else found; its generation is that of the copy that counts.
    ledger: Ledger,
    /// Since when something waits that was set and that no write took.
    waiting: Option<Millis>,
    /// Since when what is being written had waited.
    writing: Option<Millis>,
    /// It need not wait for the interval's end.
    urgent: bool,
    /// The copy that counts is known to be durable.
    durable: bool,
    /// Which copy counts is not known.
    unread: bool,
    stage: Stage,
    /// The stage's I/O was handed out.
    sent: bool,
    pub retry: Retry,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Rest,
    SyncElder,
    Write,
    Sync,
}

impl LedgerWriter {
    /// Goes on from what recovery found.
    pub fn new(identity: u64, found: Ledger) -> LedgerWriter {
        let (durable, unread) = (found.generation == 0, found.bytes == UNREADABLE);
        LedgerWriter {
            identity,
            ledger: found,
            waiting: None,
            writing: None,
            urgent: false,
            durable,
            unread,
            stage: Stage::Rest,
            sent: false,
            retry: Retry::default(),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.ledger.bytes
    }

    /// Replaces the content: at most `MAX` bytes.
    pub fn set(&mut self, bytes: &[u8], now: Millis) -> Result<(), Refused> {
        if bytes.len() > MAX {
            return Err(Refused::TooLarge);
        }
        self.ledger.bytes = bytes.to_vec();
        self.waiting.get_or_insert(now);
        Ok(())
    }

    /// What waits is written at the next tick.
    pub fn flush(&mut self) {
        self.urgent = self.waiting.is_some();
    }

    /// Begins to write what has waited for `interval`.
    pub fn tick(&mut self, now: Millis, interval: Millis) {
        let due = |since| self.urgent || now.saturating_sub(since) >= interval;
        if self.waiting.is_some_and(due) && self.stage == Stage::Rest && self.retry.is_due(now) {
            self.stage = if self.durable { Stage::Write } else { Stage::SyncElder };
        }
    }

    /// True when what was set last is durable.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Rest && self.waiting.is_none()
    }

    /// When the oldest content that is not durable yet was set.
    pub fn unwritten_since(&self) -> Option<Millis> {
        self.writing.or(self.waiting)
    }

    pub fn next_io(&mut self) -> Option<Op> {
        if self.sent {
            return None;
        }
        let op = match self.stage {
            Stage::Rest => return None,
            Stage::SyncElder | Stage::Sync => Op::Sync,
            Stage::Write => self.write(),
        };
        self.sent = true;
        Some(op)
    }

    fn write(&mut self) -> Op {
        let bytes = if self.unread { UNREADABLE.to_vec() } else { self.ledger.bytes.clone() };
        let next = Ledger { generation: self.ledger.generation + 1, bytes };
        let mut image = Buffer::new(next.size());
        next.encode(self.identity, &mut image);
        debug_assert!(image.len().is_multiple_of(BLOCK));
        if !self.unread {
            // What is set from now on waits for the next write.
            (self.writing, self.waiting, self.urgent) = (self.waiting, None, false);
        }
        Op::Write { offset: offset(next.generation), range: 0..image.len(), image: Arc::new(image) }
    }

    /// The outcome of `next_io`.
    pub fn io_done(&mut self, ok: bool, now: Millis) {
        debug_assert!(self.sent);
        self.sent = false;
        if !ok {
            self.retry.fail(now);
            self.stage = Stage::Rest;
            self.waiting = self.writing.take().or(self.waiting).or(Some(now));
            self.urgent = true;
            return;
        }
        self.stage = match self.stage {
            Stage::SyncElder => {
                self.durable = true;
                Stage::Write
            }
            Stage::Write => Stage::Sync,
            Stage::Sync | Stage::Rest => {
                self.ledger.generation += 1;
                self.retry = Retry::default();
                self.writing = None;
                self.unread = false;
                Stage::Rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_one_knows_which_copy_counts_a_mark_that_cannot_be_torn_is_durable_first() {
        let mut keeper = LedgerWriter::new(3, Ledger { generation: 9, bytes: UNREADABLE.to_vec() });
        assert!(keeper.is_idle(), "nothing is written for its own sake");
        keeper.set(&[7; 1_000], 5).unwrap();
        let mut writes = Vec::new();
        let mut now = 5;
        // The first write fails.
        for fails in [false, true, false, false, false, false] {
            assert_eq!(keeper.unwritten_since(), Some(5));
            now += 10_000;
            keeper.tick(now, 0);
            match keeper.next_io().unwrap() {
                Op::Write { offset, image, .. } => {
                    writes.push((offset, Ledger::decode(3, &image).unwrap()));
                }
                Op::Sync => {}
                Op::Read { .. } | Op::Digest { .. } | Op::Yield => panic!("a read"),
            }
            keeper.io_done(!fails, now);
        }
        assert!(keeper.is_idle() && keeper.unwritten_since().is_none());
        let mark = (offset(10), Ledger { generation: 10, bytes: UNREADABLE.to_vec() });
        let set = (offset(11), Ledger { generation: 11, bytes: vec![7; 1_000] });
        assert_eq!(writes, [mark.clone(), mark, set]);
    }
}
