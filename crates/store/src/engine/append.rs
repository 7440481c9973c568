//! The end of the log: records find room in the open segment, and that is flushed and sealed.

use super::sweep::KEEP_AHEAD;
use super::{Engine, Millis};
use crate::Refused;
use crate::format::record::{About, Kind, Record};
use crate::loader::event_of;
use crate::segment::{Moved, OpenSegment};
use crate::writes::Batch;
use std::sync::Arc;

/// Segments that wait for their write or are being written, at least, and their bytes in a log that is large enough; beyond, puts are
/// refused. Room for a burst, which does not shrink with the segments.
const QUEUE: usize = 4;
const QUEUE_BYTES: usize = 16 << 20;
/// The share of the log that waits at most: what has no room there is swept before it was ever written.
const SHARE: u64 = 2;

/// Segments that wait for their write or are being written, at most, in a log of so many of so many bytes.
pub fn queue(segments: u64, segment: u32) -> usize {
    (QUEUE_BYTES / segment as usize).min((segments / SHARE) as usize).max(QUEUE)
}

/// Images of segments that are in memory, at most: the open one, those that wait, what a flush of it writes, and those of which
/// records are to be put again.
pub fn images(segments: u64, segment: u32) -> usize {
    queue(segments, segment) + 2 + KEEP_AHEAD
}

/// What a segment takes records for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Object,
    Other,
}

impl Engine {
    /// Segments that may wait.
    pub(super) fn queue(&self) -> usize {
        queue(self.layout.segments, self.layout.segment)
    }

    /// Finds room for a record: its place, and the segment's sequence number.
    pub(super) fn append(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        purpose: Purpose,
        now: Millis,
    ) -> Result<(u64, u64), Refused> {
        let unit = self.layout.unit;
        if record.size(unit) > self.layout.segment as usize / 2 {
            return Err(Refused::TooLarge);
        }
        if purpose == Purpose::Object {
            self.settle_removals();
            if !self.removals.is_empty() || !self.has_index_room() {
                return Err(Refused::Busy);
            }
        }
        loop {
            if self.open.is_none() && !self.open_next() {
                return Err(Refused::Busy);
            }
            if !record.kind().is_movable() || self.open.as_ref().is_some_and(OpenSegment::is_loose) {
                self.arrange();
            }
            let Some(open) = &mut self.open else { return Err(Refused::Busy) };
            if let Some(at) = open.append(self.order, hash, record) {
                let seq = open.seq;
                self.order += 1;
                self.dirty_since.get_or_insert(now);
                let (bytes, kind) = (record.size(unit) as u64, record.kind());
                self.placement.charge(|budget| budget.take(bytes, kind));
                return Ok((self.layout.place(self.layout.number(seq), at), seq));
            }
            if !self.seal() {
                return Err(Refused::Busy);
            }
        }
    }

    /// Gives what was put its last place in the open segment: before it is written, and before it is said where it lies.
    fn arrange(&mut self) {
        let Some(open) = &mut self.open else { return };
        let (layout, index) = (self.layout, &self.index);
        let number = layout.number(open.seq);
        let is_current =
            |hash, at| index.find(hash).is_some_and(|slot| slot.place == layout.place(number, at));
        for Moved { hash, from, to } in open.arrange(layout.identity, is_current) {
            index.relocate(hash, layout.place(number, from), layout.place(number, to));
        }
        for entry in open.settled() {
            self.digester.note(event_of(&layout, number, entry));
        }
    }

    /// Where the events begin that the digester was not told of: the order, and the segment.
    pub(super) fn untold(&self) -> (u64, u64) {
        match &self.open {
            Some(open) => (open.first_untold().unwrap_or(self.order), open.seq),
            None => (self.order, self.seq),
        }
    }

    /// Notes the removals that wait.
    pub(super) fn settle_removals(&mut self) {
        while let Some(&hash) = self.removals.front() {
            let about = About { kind: Kind::Removal, id: hash, length: 0, span: 0, written: 0 };
            let record = Record::new(self.layout.identity, about, &[], &[], &[]).expect("a small record");
            let since = self.removals_since.unwrap_or(self.now);
            if self.append(hash, &record, Purpose::Other, since).is_err() {
                return;
            }
            self.dirty_since = self.dirty_since.into_iter().chain(self.removals_since).min();
            self.removals.pop_front();
        }
        self.removals_since = None;
    }

    /// Hands the open segment to be written; false when too much is in flight.
    pub(super) fn seal(&mut self) -> bool {
        if self.writes.sealed() >= self.queue() {
            return false;
        }
        self.arrange();
        if let Some(mut open) = self.open.take() {
            let ranges = open.seal(self.layout.identity);
            self.counters.segments += 1;
            self.writes.push(Batch {
                seq: open.seq,
                since: self.dirty_since.take(),
                base: 0,
                ranges,
                filled: open.filled(),
                entries: open.entries().to_vec(),
                seal: true,
                left_open: false,
                image: Arc::new(open.image),
            });
        }
        true
    }

    pub(super) fn flush_open(&mut self) {
        let queue = self.queue();
        let dirty = self.open.as_ref().filter(|open| open.is_dirty());
        if dirty.is_none_or(|open| self.writes.len() > queue || self.writes.is_writing(open.seq)) {
            return;
        }
        self.arrange();
        let Some(open) = &mut self.open else { return };
        let range = open.take_flush();
        let whole = 0..range.len();
        let mut copy = self.pool.take(range.len());
        copy[..range.len()].copy_from_slice(&open.image[range.clone()]);
        self.writes.push(Batch {
            seq: open.seq,
            since: self.dirty_since.take(),
            image: Arc::new(copy),
            base: range.start,
            ranges: vec![whole],
            filled: 0,
            entries: open.entries().to_vec(),
            seal: false,
            left_open: false,
        });
    }

    /// Gives up a segment that cannot be written, none of whose writes is under way. What was put there is gone. What a restart may
    /// find of its keys in older segments is removed by records elsewhere.
    pub(super) fn give_up(&mut self, seq: u64) {
        let mut entries = self.writes.give_up(seq);
        if let Some(open) = self.open.take_if(|open| open.seq == seq) {
            self.dirty_since = None;
            entries.extend_from_slice(open.entries());
        }
        for entry in entries.iter().filter(|entry| entry.kind.is_answer()) {
            let place = self.place_of(seq, entry);
            if self.is_loaded(entry.hash) {
                self.index.remove_at(entry.hash, place);
            } else if self.index.find(entry.hash).is_some_and(|slot| slot.place == place) {
                // What is being loaded may not take its place before it is noted as removed.
                self.index.bury(entry.hash);
            }
        }
        self.counters.given_up += 1;
        self.owed = self.owed.max(self.seq);
        self.digester.given_up(seq);
        // And what lay there before stays swept: one record at least says that the log has gone on.
        let gone = entries.iter().map(|entry| entry.hash).filter(|hash| self.index.find(*hash).is_none());
        let gone: Vec<u64> = gone.chain([0]).collect();
        gone.into_iter().for_each(|hash| self.note_removal(hash, 0));
    }

    /// The lowest sequence number of a segment with records that are not written.
    pub(super) fn oldest_unwritten(&self) -> Option<u64> {
        let dirty = self.open.as_ref().filter(|open| open.is_dirty()).map(|open| open.seq);
        self.writes.oldest().into_iter().chain(dirty).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_waits_than_a_share_of_the_log() {
        assert_eq!(queue(1 << 20, 1 << 20), 16);
        assert_eq!((queue(160, 64 << 10), queue(10_000, 64 << 10)), (80, 256));
        assert_eq!((queue(8, 1 << 20), queue(1_000, 64 << 20)), (QUEUE, QUEUE));
    }
}
