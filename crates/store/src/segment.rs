//! The segment that takes records now: they are gathered in its image in memory and go out in few large aligned writes
//! (STREAM-PACKETIZER, WebCoSM section 2.2.1).
//!
//! Always true: bytes that a write has taken are not changed afterwards, except for zeros behind the last record.

use crate::buffer::Buffer;
use crate::format::record::Record;
use crate::format::table::{self, Entry, Table};
use crate::format::{BLOCK, align_down, align_up};
use std::ops::Range;

/// Free space of which a seal makes no write of its own.
const BRIDGE: usize = 64 << 10;

pub struct OpenSegment {
    pub seq: u64,
    pub image: Buffer,
    /// The order of the first record.
    first: u64,
    entries: Vec<Entry>,
    /// Bytes that records take, and those of them that writes have taken.
    position: usize,
    written: usize,
}

impl OpenSegment {
    pub fn new(seq: u64, image: Buffer) -> OpenSegment {
        OpenSegment { seq, image, first: 0, entries: Vec::new(), position: 0, written: 0 }
    }

    /// Copies the record to its place: its offset, or `None` when there is no room. `hash` is what the table lists it under.
    pub fn append(&mut self, order: u64, hash: u64, record: &Record<'_>, unit: u32) -> Option<usize> {
        let (at, size) = (self.position, record.size(unit));
        if at + size + table::size(self.entries.len() + 1) > self.image.len() {
            return None;
        }
        record.copy_to(order, self.seq, &mut self.image[at..at + size]);
        if at == 0 {
            self.first = order;
        }
        if record.kind().is_event() {
            let (offset, units) = ((at as u32) / unit, (size as u32) / unit);
            self.entries.push(Entry { hash, offset, units, order, kind: record.kind() });
        }
        self.position = at + size;
        Some(at)
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
