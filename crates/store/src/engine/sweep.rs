//! The sweep: what lies in the segments whose turn comes is read from their tables, leaves the index, and is put again if it was used
//! often enough (`--cmax`; FBC, Maltzahn 5.3.4).

use super::{Engine, Op, Purpose, Running};
use crate::buffer::Buffer;
use crate::format::record::{self, Kind, Record};
use crate::format::table::{Entry, Table, Unreadable};
use crate::format::{BLOCK, align_down, align_up};
use crate::loader::TABLE_READ;
use crate::retry::Retry;
use crate::segment::OpenSegment;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Segments whose tables are read before their turn comes, at least, and their bytes.
const AHEAD: usize = 4;
const AHEAD_BYTES: usize = 8 << 20;
/// Segments before whose turn the records are read that are to be put again.
pub(super) const KEEP_AHEAD: usize = 2;
/// Segments that one put may sweep for an index that is full.
const MAKES_WAY: usize = 2;
/// Attempts to read the table of a segment whose turn comes.
const TABLE_ATTEMPTS: u32 = 4;

/// A segment whose turn comes soon.
pub(super) struct Ahead {
    contents: Foreseen,
    /// Of its table: attempts that failed, and when the next one is due.
    failures: u32,
    retry: Retry,
}

impl From<Foreseen> for Ahead {
    fn from(contents: Foreseen) -> Ahead {
        Ahead { contents, failures: 0, retry: Retry::default() }
    }
}

enum Foreseen {
    Unread,
    Reading,
    /// More records than the first small read lists: to be read again, this many bytes.
    Longer(usize),
    /// Some of what it lists may be worth putting again.
    Listed(Table),
    Fetching(Table, Vec<Entry>),
    Known(Table, Kept),
    /// Nothing leaves the index when it is opened: it was never written, or its table is lost.
    Nothing,
}

impl Foreseen {
    fn is_known(&self) -> bool {
        matches!(self, Foreseen::Known(..) | Foreseen::Nothing)
    }
}

/// Records of a segment that is about to be opened which are put again: its bytes from some offset on.
#[derive(Default)]
struct Kept {
    from: usize,
    bytes: Option<Buffer>,
    entries: Vec<Entry>,
}

impl Engine {
    /// The youngest segment that was opened; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.seq.saturating_sub(1)
    }

    /// Segments with this sequence number and lower ones have left the index.
    pub fn swept(&self) -> Option<u64> {
        self.layout.oldest(self.next_swept()).checked_sub(1)
    }

    /// The sequence number that the next segment to be swept will be opened with: that of the first in `ahead`.
    pub(super) fn next_swept(&self) -> u64 {
        self.seq + self.early
    }

    /// Opens the next segment: what lies there leaves the index. False when that is not known yet.
    pub(super) fn open_next(&mut self) -> bool {
        if self.writes.len() > self.queue() {
            return false;
        }
        self.look_ahead();
        let mut kept = Kept::default();
        if self.early > 0 {
            self.early -= 1;
        } else {
            let Some(Ahead { contents, .. }) = self.ahead.pop_front_if(|a| a.contents.is_known()) else {
                return false;
            };
            kept = self.sweep(contents);
        }
        let image = self.pool.take(self.layout.segment as usize);
        self.open = Some(OpenSegment::new(self.seq, image, self.layout.unit));
        self.turns.note(self.seq, self.now);
        self.seq += 1;
        self.tell_placement();
        // What was swept stays so once something of this segment is written.
        self.dirty_since.get_or_insert(self.now);
        self.publish();
        self.keep(kept);
        true
    }

    /// Whether the index has room for one more; a full one is made some by sweeping segments before their turn.
    pub(super) fn has_index_room(&mut self) -> bool {
        for _ in 0..MAKES_WAY {
            if self.index.len() < self.index_max {
                break;
            }
            // Those that were never opened have nothing to sweep.
            let next = self.next_swept();
            let blank = self.layout.overwritten_by(self.layout.oldest(next)).saturating_sub(next);
            self.ahead.drain(..self.ahead.len().min(blank as usize));
            self.early += blank;
            self.look_ahead();
            let Some(next) = self.ahead.pop_front_if(|next| next.contents.is_known()) else { break };
            drop(self.sweep(next.contents));
            self.early += 1;
        }
        let full = self.index.len() >= self.index_max;
        if full && self.open.as_ref().is_some_and(|o| self.layout.overwritten_by(o.seq) == self.next_swept())
        {
            // All that is left lies in it.
            self.seal();
        }
        self.look_ahead();
        self.index.len() < self.index_max
    }

    /// What the table lists leaves the index, unless there is something newer of its key; of what is to be put again, what did.
    fn sweep(&mut self, contents: Foreseen) -> Kept {
        // First: what is being loaded meanwhile is left out, or else it is found here.
        self.departed.store(self.layout.oldest(self.next_swept() + 1), Ordering::Release);
        let Foreseen::Known(table, mut kept) = contents else { return Kept::default() };
        let mut left = HashSet::new();
        for entry in table.entries.iter().filter(|entry| entry.kind.is_answer()) {
            let Some(slot) = self.index.remove_at(entry.hash, self.place_of(table.seq, entry)) else {
                continue;
            };
            left.insert(entry.offset);
            if matches!(entry.kind, Kind::Object | Kind::Head) {
                self.placement.was_swept(entry.hash, &slot);
            }
        }
        self.counters.swept += left.len() as u64;
        kept.entries.retain(|entry| left.contains(&entry.offset));
        kept
    }

    /// Which segment is open, and whether the log is full.
    pub(super) fn tell_placement(&self) {
        let last = (self.seq + self.early).checked_sub(1);
        let full = last.is_some_and(|last| self.layout.before(last).is_some());
        self.placement.opened(self.layout.number(self.newest()), full, self.early);
    }

    pub(super) fn place_of(&self, seq: u64, entry: &Entry) -> u64 {
        self.layout.place(self.layout.number(seq), entry.offset as usize * self.layout.unit as usize)
    }

    /// Of what a segment lists, the small objects that were used often enough to be put again: at most half of it.
    fn worth_keeping(&self, table: &Table) -> Vec<Entry> {
        let mut used: Vec<(u8, Entry)> = table
            .entries
            .iter()
            .filter(|entry| entry.kind == Kind::Object)
            .filter_map(|entry| {
                let slot = self.index.find(entry.hash)?;
                let stays = slot.place == self.place_of(table.seq, entry) && slot.uses >= self.cmax;
                stays.then_some((slot.uses, *entry))
            })
            .collect();
        used.sort_by_key(|(uses, entry)| (std::cmp::Reverse(*uses), entry.units));
        let (mut kept, mut units) = (Vec::new(), 0);
        for (_, entry) in used {
            units += u64::from(entry.units) * u64::from(self.layout.unit);
            if units > u64::from(self.layout.segment) / 2 {
                break;
            }
            kept.push(entry);
        }
        kept
    }

    /// The next read of records that are to be put again.
    pub(super) fn next_kept(&mut self) -> Option<(Running, Op)> {
        for at in 0..self.ahead.len().min(KEEP_AHEAD) {
            let Foreseen::Listed(_) = self.ahead[at].contents else { continue };
            let contents = std::mem::replace(&mut self.ahead[at].contents, Foreseen::Nothing);
            let Foreseen::Listed(table) = contents else { continue };
            let kept = self.worth_keeping(&table);
            let unit = self.layout.unit as usize;
            let first = kept.iter().map(|entry| entry.offset as usize * unit).min();
            let end = kept.iter().map(|entry| (entry.offset + entry.units) as usize * unit).max();
            let (Some(first), Some(end)) = (first, end) else {
                self.ahead[at].contents = Foreseen::Known(table, Kept::default());
                continue;
            };
            let (from, end) = (align_down(first, BLOCK), align_up(end, BLOCK));
            let offset = self.layout.start(self.layout.number(table.seq)) + from as u64;
            self.ahead[at].contents = Foreseen::Fetching(table, kept);
            let seq = self.next_swept() + at as u64;
            return Some((Running::Kept { seq, from }, Op::Read { offset, length: end - from }));
        }
        None
    }

    pub(super) fn fetched(&mut self, seq: u64, from: usize, bytes: Option<Buffer>) {
        let Some(ahead) = seq.checked_sub(self.next_swept()).and_then(|at| self.ahead.get_mut(at as usize))
        else {
            return;
        };
        let contents = std::mem::replace(&mut ahead.contents, Foreseen::Nothing);
        let Foreseen::Fetching(table, entries) = contents else { return };
        ahead.contents = Foreseen::Known(table, Kept { from, bytes, entries });
    }

    /// Puts records again that have just left the index. What proves to be damaged does not come back.
    fn keep(&mut self, kept: Kept) {
        let Kept { from, bytes: Some(bytes), entries } = kept else { return };
        let unit = self.layout.unit as usize;
        for entry in entries {
            if !self.live().affords(self.cmax, u64::from(entry.units) * unit as u64) {
                continue;
            }
            let at = entry.offset as usize * unit - from;
            let Some(found) =
                record::parse(self.layout.identity, &bytes[at..at + entry.units as usize * unit])
            else {
                continue;
            };
            let part = |range: Range<usize>| &bytes[at..][range];
            let (key, meta, body) = (part(found.key), part(found.meta), part(found.body));
            let hash = self.layout.mix(crate::Key::new(key.to_vec()).index_hash());
            let record = Record::new(self.layout.identity, found.about, key, meta, body);
            let record = record.map(|record| record.of_group((self.group_of)(key)));
            // What a write that was lost left there may be an older one of the same key.
            let is_it = hash == entry.hash && found.about.kind == entry.kind && found.order == entry.order;
            let Some(record) = record.filter(|_| is_it) else { continue };
            self.again(hash, &record, self.cmax, Purpose::Other, self.now);
        }
    }

    /// Tells readers which segments to look for in memory.
    pub(super) fn publish(&self) {
        let first = self.writes.oldest().into_iter().chain(self.open.as_ref().map(|o| o.seq)).min();
        match first {
            // Across eras numbers do not follow one another.
            Some(first) if first < self.layout.least_next() => self.unwritten.set(0, u64::MAX),
            Some(first) => self.unwritten.set(self.layout.number(first), self.seq - first),
            None => self.unwritten.set(0, 0),
        }
    }

    /// Notes the segments whose turn comes soon.
    pub(super) fn look_ahead(&mut self) {
        let layout = self.layout;
        let wanted = AHEAD.max(AHEAD_BYTES / layout.segment as usize).min(layout.segments as usize / 2);
        while self.ahead.len() < wanted {
            let seq = self.next_swept() + self.ahead.len() as u64;
            if seq >= layout.overwritten_by(self.seq) {
                return;
            }
            let Some(before) = layout.before(seq) else {
                self.ahead.push_back(Foreseen::Nothing.into());
                continue;
            };
            // A segment whose table is still being written is looked at when that is done.
            if self.writes.is_writing(before) || self.open.as_ref().is_some_and(|o| o.seq == before) {
                return;
            }
            self.ahead.push_back(Foreseen::Unread.into());
        }
    }

    pub(super) fn next_table(&mut self) -> Option<(Running, Op)> {
        self.look_ahead();
        let (segment, now) = (self.layout.segment as usize, self.now);
        let (at, length) = self.ahead.iter_mut().enumerate().find_map(|(at, ahead)| {
            let length = match ahead.contents {
                _ if !ahead.retry.is_due(now) => return None,
                Foreseen::Unread => TABLE_READ.min(segment),
                Foreseen::Longer(length) => length,
                _ => return None,
            };
            ahead.contents = Foreseen::Reading;
            Some((at, length))
        })?;
        let seq = self.next_swept() + at as u64;
        let end = self.layout.start(self.layout.number(seq)) + segment as u64;
        Some((Running::Table { seq, length }, Op::Read { offset: end - length as u64, length }))
    }

    pub(super) fn table_done(&mut self, seq: u64, length: usize, bytes: Option<&[u8]>) {
        let layout = self.layout;
        let Some(ahead) = seq.checked_sub(self.next_swept()).and_then(|at| self.ahead.get_mut(at as usize))
        else {
            return;
        };
        let table = bytes.map(|bytes| Table::decode(&layout, layout.number(seq), &bytes[..length]));
        ahead.contents = match table {
            Some(Ok(table)) if layout.before(seq) == Some(table.seq) => match self.cmax {
                0 => Foreseen::Known(table, Kept::default()),
                _ => Foreseen::Listed(table),
            },
            Some(Err(Unreadable::Longer(length))) => Foreseen::Longer(align_up(length, BLOCK)),
            None if ahead.failures + 1 < TABLE_ATTEMPTS => {
                ahead.failures += 1;
                ahead.retry.fail(self.now);
                Foreseen::Longer(length)
            }
            // What lies there stays in the index until it is asked for, and proves to be something else.
            _ => Foreseen::Nothing,
        };
    }
}
