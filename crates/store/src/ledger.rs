//! The ledger's keeper: what was set last, and how far it is on the medium.
//!
//! sync (of what an earlier life may have left unsynced) → write of the elder copy → sync → write of the other copy → sync. The copy
//! that counts is not written before its successor is durable, and what was set counts as written when both copies have it: so one
//! that is torn or spoilt later undoes nothing. What fails is tried again, from the write on: what a failed sync had to bring to the
//! medium may be nowhere any more.
//!
//! When a start found no copy that is whole, a write that is torn could leave what is older than what was lost. So the first thing
//! written then is `UNREADABLE`, which is never torn.

use crate::Refused;
use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::BLOCK;
use crate::format::ledger::{self, Ledger, MAX, UNREADABLE, offset};
use crate::retry::Retry;
use std::sync::Arc;

/// What a start found of the two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Both have it, or one has and the other cannot be read now.
    Settled,
    /// One of them is torn, spoilt or older, or both are gone: they are made the same.
    Differ,
    /// What is in them is unknown, but a later start may read it: nothing is written for its own sake.
    Unread,
}

pub struct LedgerWriter {
    identity: u64,
    /// What was set last, or else found; its generation is that of the copy that counts.
    ledger: Ledger,
    /// Since when something waits that was set and that no write took.
    waiting: Option<Millis>,
    /// Since when what is being written had waited.
    writing: Option<Millis>,
    /// Copies that have the content for good.
    copies: usize,
    /// What is being written is the content still.
    current: bool,
    /// It need not wait for the interval's end.
    urgent: bool,
    /// The copy that counts is known to be durable.
    durable: bool,
    /// Which copy counts is not known.
    unread: bool,
    /// What was in it when it was found is unknown, but a later start may read it.
    pub may_return: bool,
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
    pub fn new(identity: u64, found: Ledger, copies: Copies) -> LedgerWriter {
        let unread = found.bytes == UNREADABLE;
        LedgerWriter {
            identity,
            ledger: found,
            waiting: (copies == Copies::Differ).then_some(0),
            writing: None,
            copies: 0,
            current: false,
            urgent: false,
            durable: false,
            unread,
            may_return: copies == Copies::Unread,
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
        (self.copies, self.current) = (0, false);
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
            self.current = true;
            (self.writing, self.urgent) = (self.writing.or(self.waiting), false);
            self.waiting = None;
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
            (self.urgent, self.current) = (true, false);
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
                self.unread = false;
                self.copies += usize::from(self.current);
                if self.copies < ledger::COPIES.len() {
                    Stage::Write
                } else {
                    self.writing = None;
                    Stage::Rest
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has all written, of which these attempts fail: what was, and how it was at that time.
    fn written(keeper: &mut LedgerWriter, fails: &[usize]) -> Vec<(u64, Ledger)> {
        let (mut writes, mut now) = (Vec::new(), 5);
        for attempt in 0.. {
            now += 10_000;
            keeper.tick(now, 0);
            let Some(op) = keeper.next_io() else { break };
            assert!(keeper.unwritten_since().is_some());
            match op {
                Op::Write { offset, image, .. } => {
                    writes.push((offset, Ledger::decode(keeper.identity, &image).unwrap()));
                }
                Op::Sync => {}
                Op::Read { .. } | Op::Digest { .. } | Op::Index(_) | Op::Verify(_) => panic!("a read"),
            }
            keeper.io_done(!fails.contains(&attempt), now);
        }
        assert!(keeper.is_idle() && keeper.unwritten_since().is_none());
        writes
    }

    fn copy(generation: u64, bytes: &[u8]) -> (u64, Ledger) {
        (offset(generation), Ledger { generation, bytes: bytes.to_vec() })
    }

    #[test]
    fn what_was_set_counts_as_written_when_both_copies_have_it() {
        let mut keeper =
            LedgerWriter::new(3, Ledger { generation: 8, bytes: b"old".to_vec() }, Copies::Settled);
        assert_eq!(written(&mut keeper, &[]), []);
        keeper.set(b"new", 5).unwrap();
        // Sync, write, sync, write, sync.
        assert_eq!(written(&mut keeper, &[4]), [copy(9, b"new"), copy(10, b"new"), copy(10, b"new")]);
        keeper.set(b"newer", 9).unwrap();
        keeper.tick(90_000, 0);
        assert!(matches!(keeper.next_io(), Some(Op::Write { .. })));
        keeper.set(b"newest", 90_000).unwrap();
        keeper.io_done(true, 90_000);
        assert_eq!(keeper.unwritten_since(), Some(9));
        assert_eq!(written(&mut keeper, &[]), [copy(12, b"newest"), copy(13, b"newest")]);
    }

    #[test]
    fn copies_that_differ_are_made_the_same() {
        let mut keeper =
            LedgerWriter::new(3, Ledger { generation: 9, bytes: b"one".to_vec() }, Copies::Differ);
        assert_eq!(written(&mut keeper, &[]), [copy(10, b"one"), copy(11, b"one")]);
    }

    #[test]
    fn where_no_one_knows_which_copy_counts_a_mark_that_cannot_be_torn_is_durable_first() {
        let unread = Ledger { generation: 9, bytes: UNREADABLE.to_vec() };
        let mut keeper = LedgerWriter::new(3, unread.clone(), Copies::Unread);
        assert!(keeper.is_idle() && keeper.may_return, "nothing is written for its own sake");
        keeper.set(&[7; 1_000], 5).unwrap();
        // The first write fails.
        let (mark, set) = (copy(10, &UNREADABLE), [copy(11, &[7; 1_000]), copy(12, &[7; 1_000])]);
        assert_eq!(written(&mut keeper, &[1]), [&[mark.clone(), mark.clone()], &set[..]].concat());
        let mut keeper = LedgerWriter::new(3, unread, Copies::Differ);
        assert!(!keeper.may_return);
        assert_eq!(written(&mut keeper, &[]), [mark, copy(11, &UNREADABLE), copy(12, &UNREADABLE)]);
    }
}
