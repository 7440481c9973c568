//! What waits to be written of the log, or is being written: segments and what flushes take of the open one.
//!
//! A write that fails is tried again. Where one place fails while others take writes, what was to lie there is given up.

use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::table::Entry;
use crate::format::{BLOCK, Layout, PROBE};
use crate::retry::Retry;
use std::ops::Range;
use std::sync::Arc;

/// So many are written at once, the oldest first: a crash finds no wider gap in the order of segments.
pub const DEPTH: usize = 4;
/// Attempts to write at one place, each after another write succeeded, after which it is given up.
const ATTEMPTS: u32 = 4;

/// The writes of one seal or flush.
pub struct Batch {
    pub seq: u64,
    /// When the oldest of what it writes was taken.
    pub since: Option<Millis>,
    pub image: Arc<Buffer>,
    /// Where the image begins within the segment, and what of the image is to be written.
    pub base: usize,
    pub ranges: Vec<Range<usize>>,
    /// Of a seal, the bytes that may be read from the image.
    pub filled: usize,
    /// What it lists, or of a flush will list when it is sealed.
    pub entries: Vec<Entry>,
    pub seal: bool,
    /// The records are on the medium, and only the table is not.
    pub left_open: bool,
}

struct Waiting {
    batch: Batch,
    running: usize,
    retry: Retry,
    /// Failures after which other writes succeeded, and how many had at the last one.
    strikes: u32,
    proofs: u64,
    /// Another place was tried since the last failure.
    probed: bool,
}

/// One write that was handed out.
#[derive(Clone, Debug)]
pub enum Write {
    Range {
        seq: u64,
        seal: bool,
        range: Range<usize>,
    },
    /// Of a block elsewhere, to see whether the medium takes writes at all.
    Probe,
}

#[derive(Default)]
pub struct WriteQueue {
    waiting: Vec<Waiting>,
    /// Writes that succeeded.
    proofs: u64,
    /// One above the order of the last event of a batch that is written.
    end: u64,
}

impl WriteQueue {
    pub fn push(&mut self, batch: Batch) {
        let (running, retry, strikes) = (0, Retry::default(), 0);
        let proofs = self.proofs;
        self.waiting.push(Waiting { batch, running, retry, strikes, proofs, probed: false });
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Segments that are sealed.
    pub fn sealed(&self) -> usize {
        self.batches().filter(|batch| batch.seal).count()
    }

    pub fn is_writing(&self, seq: u64) -> bool {
        self.batches().any(|batch| batch.seq == seq)
    }

    fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.waiting.iter().map(|waiting| &waiting.batch)
    }

    /// The lowest sequence number of what is not written.
    pub fn oldest(&self) -> Option<u64> {
        self.batches().map(|batch| batch.seq).min()
    }

    /// One above the order of the last event that was written.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn since(&self) -> Option<Millis> {
        self.batches().filter_map(|batch| batch.since).min()
    }

    /// Bytes of a segment that is sealed, but not written: at most `length` from `start` on.
    pub fn peek(&self, seq: u64, start: usize, length: usize) -> Option<&[u8]> {
        let batch = self.batches().find(|batch| batch.seal && !batch.left_open && batch.seq == seq)?;
        batch.image.get(start..batch.filled.min(start + length))
    }

    pub fn is_failing(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.retry.is_failing())
    }

    pub fn retries(&mut self) -> impl Iterator<Item = &mut Retry> {
        self.waiting.iter_mut().map(|waiting| &mut waiting.retry)
    }

    pub fn next(&mut self, layout: &Layout, now: Millis) -> Option<(Write, Op)> {
        for at in 0..self.waiting.len().min(DEPTH) {
            let seq = self.waiting[at].batch.seq;
            // What a flush of this segment is writing is not written to at the same time.
            if self.waiting[..at].iter().any(|w| w.batch.seq == seq) {
                continue;
            }
            let (proofs, waiting) = (self.proofs, &mut self.waiting[at]);
            if waiting.batch.ranges.is_empty() || !waiting.retry.is_due(now) {
                continue;
            }
            if waiting.retry.is_failing() && waiting.proofs == proofs && !waiting.probed {
                waiting.probed = true;
                let image = Arc::new(Buffer::new(BLOCK));
                return Some((Write::Probe, Op::Write { offset: PROBE, image, range: 0..BLOCK }));
            }
            let range = waiting.batch.ranges.remove(0);
            waiting.running += 1;
            let offset = layout.start(layout.number(seq)) + (waiting.batch.base + range.start) as u64;
            let op = Op::Write { offset, image: waiting.batch.image.clone(), range: range.clone() };
            return Some((Write::Range { seq, seal: waiting.batch.seal, range }, op));
        }
        None
    }

    /// The outcome of a write. `Some`: the segment with this sequence number is given up, and nothing of it is being written.
    pub fn done(&mut self, write: Write, ok: bool, now: Millis) -> Option<u64> {
        self.proofs += u64::from(ok);
        let Write::Range { seq, seal, range } = write else { return None };
        let at = self.waiting.iter().position(|w| w.batch.seq == seq && w.batch.seal == seal)?;
        let (proofs, waiting) = (self.proofs, &mut self.waiting[at]);
        waiting.running -= 1;
        if !ok {
            waiting.batch.ranges.push(range);
            if waiting.retry.is_due(now) {
                waiting.strikes += u32::from(proofs > waiting.proofs);
                (waiting.proofs, waiting.probed) = (proofs, false);
                waiting.retry.fail(now);
            }
        }
        if waiting.running > 0 {
            return None;
        }
        if waiting.strikes >= ATTEMPTS {
            if waiting.batch.left_open {
                // A start finds what lies there without it.
                self.waiting.remove(at);
                return None;
            }
            return Some(seq);
        }
        if waiting.batch.ranges.is_empty() {
            let Waiting { batch, .. } = self.waiting.remove(at);
            self.end = self.end.max(batch.entries.last().map_or(0, |last| last.order + 1));
        }
        None
    }

    /// Forgets all writes of a segment: what they list.
    pub fn give_up(&mut self, seq: u64) -> Vec<Entry> {
        let (gone, left): (Vec<Waiting>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|w| w.batch.seq == seq);
        self.waiting = left;
        gone.into_iter().flat_map(|waiting| waiting.batch.entries).collect()
    }
}
