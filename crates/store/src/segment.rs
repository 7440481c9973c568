//! The segment that takes records now: they are gathered in its image in memory and go out in few large aligned writes
//! (STREAM-PACKETIZER, WebCoSM section 2.2.1).
//!
//! Until they are written, small records may be moved within the image so that those of one group lie side by side (locality buffers,
//! WebCoSM 2.2.3): by `arrange`, before each write.
//!
//! Always true: orders rise with offsets; bytes that a write has taken are not changed afterwards, except for zeros behind the last record.

use crate::buffer::Buffer;
use crate::format::record::{self, Record, Sums};
use crate::format::table::{self, Entry, Table};
use crate::format::{BLOCK, align_down, align_up};
use std::collections::HashMap;
use std::ops::Range;

/// Of what may be moved, so much is arranged at once: whoever puts next waits for it.
pub const ARRANGED: usize = 1 << 20;
const ARRANGED_RECORDS: usize = 4096;
/// Free space of which a seal makes no write of its own.
const BRIDGE: usize = 64 << 10;

pub struct OpenSegment {
    pub seq: u64,
    pub image: Buffer,
    unit: usize,
    /// The order of the first record.
    first: u64,
    entries: Vec<Entry>,
    /// Of the last entries, which may still be moved.
    loose: Vec<Loose>,
    /// Entries that `settled` has shown.
    shown: usize,
    /// Bytes that records take, and those of them that writes have taken.
    position: usize,
    written: usize,
}

/// What is needed to move a record.
struct Loose {
    group: u64,
    sums: Sums,
}

/// A record that was moved: its entry's hash, and its offsets before and after, in bytes.
pub struct Moved {
    pub hash: u64,
    pub from: usize,
    pub to: usize,
}

impl OpenSegment {
    pub fn new(seq: u64, image: Buffer, unit: u32) -> OpenSegment {
        let (unit, entries, loose) = (unit as usize, Vec::new(), Vec::new());
        OpenSegment { seq, image, unit, first: 0, entries, loose, shown: 0, position: 0, written: 0 }
    }

    /// Copies the record to its place: its offset, or `None` when there is no room. `hash` is what the table lists it under. What
    /// cannot be moved comes after an `arrange`, and so does all when it `is_loose`.
    pub fn append(&mut self, order: u64, hash: u64, record: &Record<'_>) -> Option<usize> {
        let (at, size) = (self.position, record.size(self.unit as u32));
        if at + size + table::size(self.entries.len() + 1) > self.image.len() {
            return None;
        }
        record.copy_to(order, self.seq, &mut self.image[at..at + size]);
        if at == 0 {
            self.first = order;
        }
        if record.kind().is_event() {
            let (offset, units) = ((at / self.unit) as u32, (size / self.unit) as u32);
            self.entries.push(Entry { hash, offset, units, order, kind: record.kind() });
        }
        debug_assert!(if record.kind().is_movable() { !self.is_loose() } else { self.loose.is_empty() });
        if record.kind().is_movable() {
            self.loose.push(Loose { group: record.group(), sums: record.sums() });
        }
        self.position = at + size;
        Some(at)
    }

    /// Lays what may be moved side by side, group by group, in the order in which the groups came. What is not `current` any more goes
    /// before all. What was moved of the rest.
    pub fn arrange(&mut self, identity: u64, current: impl Fn(u64, usize) -> bool) -> Vec<Moved> {
        let (loose, unit) = (std::mem::take(&mut self.loose), self.unit);
        let entries = self.entries.split_off(self.entries.len() - loose.len());
        let mut groups = HashMap::new();
        let ranks = entries.iter().zip(&loose).map(|(entry, Loose { group, .. })| {
            let next = groups.len();
            current(entry.hash, entry.offset as usize * unit).then(|| *groups.entry(group).or_insert(next))
        });
        let ranks: Vec<Option<usize>> = ranks.collect();
        let mut places: Vec<usize> = (0..entries.len()).collect();
        places.sort_by_key(|nth| ranks[*nth]);
        if places.is_sorted() {
            self.entries.extend(entries);
            return Vec::new();
        }
        let mut at = entries[0].offset as usize * unit;
        let (start, before) = (at, self.image[at..self.position].to_vec());
        let mut moved = Vec::new();
        for (nth, order) in places.into_iter().zip(entries.iter().map(|entry| entry.order)) {
            let entry = entries[nth];
            let (from, size) = (entry.offset as usize * unit, entry.units as usize * unit);
            let to = &mut self.image[at..at + size];
            to.copy_from_slice(&before[from - start..][..size]);
            record::renumber(identity, order, loose[nth].sums, to);
            if from != at && ranks[nth].is_some() {
                moved.push(Moved { hash: entry.hash, from, to: at });
            }
            self.entries.push(Entry { offset: (at / unit) as u32, order, ..entry });
            at += size;
        }
        moved
    }

    /// Whether it is time to `arrange`, before more comes.
    pub fn is_loose(&self) -> bool {
        let first = self.entries[self.entries.len() - self.loose.len()..].first();
        let from = first.map_or(self.position, |entry| entry.offset as usize * self.unit);
        self.loose.len() >= ARRANGED_RECORDS || self.position - from >= ARRANGED
    }

    /// The order of the first event that `settled` has not shown.
    pub fn first_untold(&self) -> Option<u64> {
        self.entries.get(self.shown).map(|entry| entry.order)
    }

    /// The events that have their places since this was asked last.
    pub fn settled(&mut self) -> &[Entry] {
        let from = std::mem::replace(&mut self.shown, self.entries.len() - self.loose.len());
        &self.entries[from..self.shown]
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes of the image that may be read.
    pub fn filled(&self) -> usize {
        self.position
    }

    pub fn is_dirty(&self) -> bool {
        self.position > self.written
    }

    /// What has to be written so that all records are: whole blocks. The last one is written again with what comes next.
    pub fn take_flush(&mut self) -> Range<usize> {
        let range = align_down(self.written, BLOCK)..align_up(self.position, BLOCK);
        self.image[self.position..range.end].fill(0);
        self.written = self.position;
        range
    }

    /// Makes the table, and says what has to be written.
    pub fn seal(&mut self, identity: u64) -> Vec<Range<usize>> {
        let (from, end) = (align_down(self.written, BLOCK), self.image.len());
        let table_at = end - table::size(self.entries.len());
        self.image[self.position..table_at].fill(0);
        let table = Table { seq: self.seq, first: self.first, entries: std::mem::take(&mut self.entries) };
        table.encode(identity, &mut self.image);
        self.entries = table.entries;
        let (data_end, table_at) = (align_up(self.position, BLOCK), align_down(table_at, BLOCK));
        let (data, table, all) = (from..data_end, table_at..end, from..end);
        match table_at > data_end + BRIDGE {
            true if self.is_dirty() => vec![data, table],
            true => vec![table],
            false => vec![all],
        }
    }
}

/// The table of a segment that was left open: `image` is what lies there, `entries` what was found in it. What has to be written.
pub fn close_left(
    seq: u64,
    entries: Vec<Entry>,
    first: u64,
    identity: u64,
    image: &mut [u8],
) -> Range<usize> {
    let length = table::size(entries.len());
    let from = align_down(image.len() - length, BLOCK);
    Table { seq, first, entries }.encode(identity, image);
    from..image.len()
}
