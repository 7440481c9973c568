//! What the engine wants done outside, and what comes of it.

use super::append::Purpose;
use super::{Engine, Millis};
use crate::Refused;
use crate::buffer::Buffer;
use crate::digester::Wanted;
use crate::format::digest::{self, Event};
use crate::loader::{Loading, Work};
use crate::scrub::verify::{Verified, Verify};
use crate::segment::OpenSegment;
use crate::writes::Write;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Records of a digest put in one step: puts wait no longer than their copying takes.
const STEP: usize = 2;

/// Something to be done outside; `Engine::done` takes the answer.
pub struct Io {
    pub id: u64,
    pub op: Op,
}

pub enum Op {
    Read {
        offset: u64,
        length: usize,
    },
    Write {
        offset: u64,
        image: Arc<Buffer>,
        range: Range<usize>,
    },
    Sync,
    /// These events are to be sorted (`digest::last_of_each`).
    Digest {
        events: Vec<Event>,
    },
    /// Work on the index (`Work::carry_out`).
    Index(Work),
    /// A step of the scrub (`Verify::carry_out`).
    Verify(Box<Verify>),
}

impl Op {
    /// Whether it is the medium that carries it out.
    pub fn is_of_the_medium(&self) -> bool {
        self.is_write() || matches!(self, Op::Read { .. })
    }

    pub fn is_write(&self) -> bool {
        matches!(self, Op::Write { .. } | Op::Sync)
    }
}

/// Where a record lies: its place and bytes, and its segment's sequence number.
pub struct Placed {
    pub place: u64,
    pub bytes: usize,
    pub seq: u64,
}

/// What came of an `Op`.
pub enum Answer {
    Read(Buffer),
    Digested(Vec<Event>),
    /// Of work on the index: all that was to be brought in found room.
    Loaded {
        all: bool,
    },
    Verified(Verified),
    Done,
}

/// How far the sync of a clean end is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastSync {
    Wanted,
    /// When so much was written (`Syncer::written`).
    Sent(u64),
    Done,
}

/// What is being done.
pub enum Running {
    Write(Write),
    /// Records to be put again.
    Kept {
        seq: u64,
        from: usize,
    },
    /// The table of the segment that will be opened with this sequence number.
    Table {
        seq: u64,
        length: usize,
    },
    Digest,
    /// Of a table that a digest is made of.
    Gather,
    Ledger,
    Fence,
    /// For who waits for it.
    Sync,
    LastSync,
    Load(Loading),
    /// Of the segment with this sequence number.
    Verify {
        seq: u64,
    },
}

impl Engine {
    /// The next thing to be done, if any.
    pub fn next_io(&mut self) -> Option<Io> {
        let next = self
            .next_fence_io()
            .or_else(|| self.next_ledger_io())
            .or_else(|| self.next_table())
            .or_else(|| self.next_kept())
            // One at a time, and before writes: while these never end, what a start has to replay would grow without bound.
            .or_else(|| self.next_digest_io())
            .or_else(|| self.next_sync())
            .or_else(|| self.next_load_or_write())
            .or_else(|| self.next_last_sync())?;
        Some(self.hand_out(next))
    }

    /// In turn, as long as there are both: neither puts nor who waits for a part of the index waits for the other to end.
    fn next_load_or_write(&mut self) -> Option<(Running, Op)> {
        let next = match self.load_is_next {
            true => self.next_load().or_else(|| self.next_write()),
            false => self.next_write().or_else(|| self.next_load()),
        };
        self.load_is_next = !matches!(next, Some((Running::Load(_), _)));
        next
    }

    /// The next of these that is a read of a table, if any.
    pub fn next_read(&mut self) -> Option<Io> {
        let next = self.next_table()?;
        Some(self.hand_out(next))
    }

    pub(super) fn hand_out(&mut self, (running, op): (Running, Op)) -> Io {
        let id = self.next_id;
        self.next_id += 1;
        if let Op::Write { range, .. } = &op {
            let bytes = range.len() as u64;
            self.counters.written_bytes += bytes;
            self.written.add(bytes, self.now);
            self.placement.charge(|budget| budget.write(bytes));
        }
        self.running.insert(id, running);
        Io { id, op }
    }

    /// Takes the outcome of an `Io`. Its other resources must have been dropped.
    pub fn done(&mut self, id: u64, result: io::Result<Answer>, now: Millis) {
        self.now = now;
        let ok = result.is_ok();
        let running = self.running.remove(&id);
        if let (
            Err(error),
            Some(
                Running::Write(Write::Range { .. })
                | Running::Digest
                | Running::Ledger
                | Running::Fence
                | Running::Sync,
            ),
        ) = (&result, &running)
        {
            self.counters.write_errors += 1;
            self.cause = error.to_string();
        }
        let bytes = match &result {
            Ok(Answer::Read(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        match running {
            Some(Running::Write(write)) => self.write_done(write, ok),
            Some(Running::Table { seq, length }) => self.table_done(seq, length, bytes),
            Some(Running::Kept { seq, from }) => {
                let bytes = match result {
                    Ok(Answer::Read(bytes)) => Some(bytes),
                    _ => None,
                };
                self.fetched(seq, from, bytes);
                return self.tick(now);
            }
            Some(Running::Load(loading)) => {
                let newest = self.newest();
                self.loader.done(loading, result.ok(), &self.index, newest);
            }
            Some(Running::Verify { seq }) => self.verified(seq, result),
            Some(Running::Digest) => match result {
                Ok(Answer::Digested(events)) => self.digester.sorted(events),
                _ if self.digester.io_done(ok, now) => {
                    self.counters.digests += 1;
                    self.digested = now;
                }
                _ => {}
            },
            Some(Running::Gather) => self.digester.gathered(bytes, self.newest(), now),
            Some(Running::Ledger) => self.keeper.io_done(ok, now),
            Some(Running::Fence) => self.fencer.io_done(ok, now),
            Some(Running::Sync) => self.syncer.io_done(ok, now),
            Some(Running::LastSync) => {
                if let LastSync::Sent(written) = self.last_sync
                    && ok
                {
                    self.syncer.synced(written);
                }
                // Whoever ends the store does not wait for a disk that fails.
                self.last_sync = LastSync::Done;
            }
            None => debug_assert!(false, "an answer to nothing"),
        }
        self.tick(now);
    }

    fn next_write(&mut self) -> Option<(Running, Op)> {
        if self.fencer.is_raised() {
            return None;
        }
        let (write, op) = self.writes.next(&self.layout, self.now)?;
        Some((Running::Write(write), op))
    }

    fn write_done(&mut self, write: Write, ok: bool) {
        let given_up = self.writes.done(write, ok, self.now);
        if ok {
            self.syncer.wrote();
            let now = self.now;
            self.retries().for_each(|retry| retry.hasten(now));
        }
        if let Some(seq) = given_up {
            self.give_up(seq);
        }
        self.publish();
    }

    fn next_digest_io(&mut self) -> Option<(Running, Op)> {
        let (newest, swept) = (self.newest(), self.next_swept());
        let op = self.digester.next_io(newest, swept, self.now)?;
        Some((if matches!(op, Op::Read { .. }) { Running::Gather } else { Running::Digest }, op))
    }

    fn next_load(&mut self) -> Option<(Running, Op)> {
        if !self.loads {
            return None;
        }
        let newest = self.newest();
        let (loading, op) = self.loader.next_io(&self.index, newest, self.index_max)?;
        Some((Running::Load(loading), op))
    }

    fn next_ledger_io(&mut self) -> Option<(Running, Op)> {
        if self.fencer.is_raised() {
            return None;
        }
        Some((Running::Ledger, self.keeper.next_io()?))
    }

    fn next_sync(&mut self) -> Option<(Running, Op)> {
        Some((Running::Sync, self.syncer.next_io(self.now)?))
    }

    /// The sync of the end, when all is written.
    fn next_last_sync(&mut self) -> Option<(Running, Op)> {
        if self.last_sync != LastSync::Wanted
            || self.oldest_unwritten().is_some()
            || !self.removals.is_empty()
        {
            return None;
        }
        self.last_sync = LastSync::Sent(self.syncer.written());
        Some((Running::LastSync, Op::Sync))
    }

    fn next_fence_io(&mut self) -> Option<(Running, Op)> {
        Some((Running::Fence, self.fencer.next_io(self.layout.identity, self.now)?))
    }

    /// Puts a record of a digest.
    pub fn put_of_digest(&mut self, wanted: &Wanted, now: Millis) -> Result<Placed, Refused> {
        let Wanted { kind, key, body } = wanted;
        let written = 0;
        let record = digest::record(self.layout.identity, *kind, key, written, body);
        let record = record.ok_or(Refused::TooLarge)?;
        let (place, seq) = self.append(0, &record, Purpose::Other, now)?;
        Ok(Placed { place, bytes: record.size(self.layout.unit), seq })
    }

    pub(super) fn step_digest(&mut self, now: Millis) {
        if let Some(seq) = self.digester.gathers_up_to() {
            let is_open = |open: &OpenSegment| open.seq <= seq && open.filled() > 0;
            let sealed = !self.open.as_ref().is_some_and(is_open) || self.seal();
            if sealed && self.writes.oldest().is_none_or(|oldest| oldest > seq) {
                self.digester.sealed();
            }
        }
        for _ in 0..STEP {
            let Some(wanted) = self.digester.wanted() else { break };
            match self.put_of_digest(&wanted, now) {
                Ok(Placed { place, bytes, seq }) => self.digester.placed(wanted.kind, place, bytes, seq),
                Err(Refused::TooLarge) => return self.digester.give_up(),
                Err(_) => break,
            }
        }
        if let Some(seq) = self.digester.waits_for() {
            if self.open.as_ref().is_some_and(|open| open.seq == seq) {
                self.flush_open();
            }
            let oldest = self.oldest_unwritten();
            self.digester.written_up_to(oldest);
        }
    }
}
