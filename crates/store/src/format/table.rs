//! A full segment's table: what was put and removed while it was open. At the segment's end, so that one small read tells the
//! sweep and a start what lies there.
//!
//! … entry 1 | entry 0 | trailer (64 bytes) at the segment's end

use super::record::Kind;
use super::{Fields, Layout, NUMBERS, Put};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const TRAILER: usize = 64;
pub const ENTRY: usize = 24;
const MAGIC: u32 = u32::from_le_bytes(*b"cSEG");
const CHECKED: usize = 40;

/// A record of the segment that is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key's mixed hash.
    pub hash: u64,
    /// Offset within the segment, and length: units.
    pub offset: u32,
    pub units: u32,
    pub order: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Grows by one with every segment opened; the segment's number is its remainder.
    pub seq: u64,
    /// That of the record at the segment's beginning, which tells this turn from another.
    pub first: u64,
    /// In the order of events.
    pub entries: Vec<Entry>,
}

/// Why a segment's end is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Never written, torn, another segment's, or of impossible numbers.
    Invalid,
    /// The table is longer than the bytes given: its length.
    Longer(usize),
}

/// Bytes of a table of so many entries.
pub fn size(entries: usize) -> usize {
    TRAILER + entries * ENTRY
}

impl Table {
    /// From that of its first record to above that of its last event.
    pub fn orders(&self) -> Range<u64> {
        self.first..self.entries.last().map_or(self.first, |entry| entry.order) + 1
    }

    /// The same where the records are lost: what was put counts as removed, so that what the keys had before does not come back.
    pub fn without_answers(mut self) -> Table {
        self.entries.iter_mut().for_each(|entry| entry.kind = Kind::Removal);
        self
    }

    /// Writes the table into the end of the segment `image`.
    pub fn encode(&self, identity: u64, image: &mut [u8]) {
        let at = image.len() - size(self.entries.len());
        let (entries, trailer) = image[at..].split_at_mut(self.entries.len() * ENTRY);
        for (entry, to) in self.entries.iter().zip(entries.rchunks_exact_mut(ENTRY)) {
            let mut put = Put(to, 0);
            put.u64(entry.hash).u32(entry.offset).u32(entry.units);
            put.u32((entry.order - self.first) as u32).u32(u32::from(entry.kind as u8));
        }
        trailer.fill(0);
        let mut put = Put(trailer, 0);
        put.u32(MAGIC).u32(self.entries.len() as u32).u64(self.seq).u64(self.first);
        let sum = checksum(identity, &image[at..]);
        let at = image.len() - TRAILER + CHECKED;
        image[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the table of segment `number` from the last bytes of it. Its entries lie within the segment.
    pub fn decode(layout: &Layout, number: u64, tail: &[u8]) -> Result<Table, Unreadable> {
        let trailer_at = tail.len().checked_sub(TRAILER).ok_or(Unreadable::Longer(TRAILER))?;
        let trailer = &tail[trailer_at..];
        let mut fields = Fields(trailer);
        let (magic, count, seq, first) = (fields.u32(), fields.u32() as usize, fields.u64(), fields.u64());
        let most = (layout.segment as usize - TRAILER) / ENTRY;
        if magic != MAGIC
            || layout.number(seq) != number
            || layout.is_cut(seq)
            || count > most
            || seq.max(first) >= NUMBERS
        {
            return Err(Unreadable::Invalid);
        }
        let length = size(count);
        if length > tail.len() {
            return Err(Unreadable::Longer(length));
        }
        let table = &tail[tail.len() - length..];
        if Fields(&trailer[CHECKED..]).u64() != checksum(layout.identity, table) {
            return Err(Unreadable::Invalid);
        }
        let units_of_segment = u64::from(layout.segment / layout.unit);
        let entries = table[..count * ENTRY].rchunks_exact(ENTRY).map(|bytes| {
            let mut fields = Fields(bytes);
            let (hash, offset, units) = (fields.u64(), fields.u32(), fields.u32());
            let (order, kind) = (first + u64::from(fields.u32()), Kind::of(fields.u8())?);
            let lies_within = (1..=units_of_segment / 2).contains(&u64::from(units))
                && u64::from(offset) + u64::from(units) <= units_of_segment;
            let is_event = kind.is_event() && order < NUMBERS;
            (lies_within && is_event).then_some(Entry { hash, offset, units, order, kind })
        });
        let entries = entries.collect::<Option<Vec<_>>>().ok_or(Unreadable::Invalid)?;
        Ok(Table { seq, first, entries })
    }
}

fn checksum(identity: u64, table: &[u8]) -> u64 {
    xxh3_64_with_seed(&table[..table.len() - TRAILER + CHECKED], identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: u32) -> Table {
        let entry = |n: u32| Entry {
            hash: u64::from(n) * 77,
            offset: n,
            units: n + 1,
            order: 1_000 + u64::from(n),
            kind: if n.is_multiple_of(3) { Kind::Removal } else { Kind::Object },
        };
        Table { seq: 25, first: 1_000, entries: (0..entries).map(entry).collect() }
    }

    #[test]
    fn a_table_survives_its_encoding_and_no_other_bytes_pass() {
        for entries in [0, 1, 100] {
            let mut image = vec![0xaa; 16 << 10];
            let table = table(entries);
            table.encode(7, &mut image);
            let length = size(entries as usize);
            let layout = Layout::new(16 << 10, 10, 7);
            let decode = |tail: &[u8]| Table::decode(&layout, 5, tail);
            assert_eq!(decode(&image), Ok(table));
            let tail = &image[image.len() - length..];
            assert!(decode(tail).is_ok());
            if entries > 0 {
                assert_eq!(decode(&tail[1..]), Err(Unreadable::Longer(length)));
            }
            let other = Layout { identity: 8, ..layout };
            assert_eq!(Table::decode(&other, 5, &image), Err(Unreadable::Invalid));
            assert_eq!(Table::decode(&layout, 6, &image), Err(Unreadable::Invalid));
            for at in 0..length - (TRAILER - CHECKED - 8) {
                let mut torn = tail.to_vec();
                torn[at] ^= 1;
                assert!(decode(&torn).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn entries_that_no_segment_has_spoil_their_table() {
        let layout = Layout::new(16 << 10, 10, 7);
        let Table { first, entries, .. } = table(1);
        let entry = entries[0];
        let decoded = |entry, first| {
            let mut image = vec![0; 16 << 10];
            Table { seq: 25, first, entries: vec![entry] }.encode(7, &mut image);
            Table::decode(&layout, 5, &image)
        };
        assert!(decoded(Entry { offset: 255, units: 1, ..entry }, first).is_ok());
        let last = NUMBERS - 1;
        for (wrong, first) in [
            (Entry { units: 0, ..entry }, first),
            (Entry { offset: 256, ..entry }, first),
            (Entry { offset: 255, units: 2, ..entry }, first),
            (Entry { offset: u32::MAX, units: u32::MAX, ..entry }, first),
            (Entry { kind: Kind::Pages, ..entry }, first),
            (Entry { kind: Kind::Digest, ..entry }, first),
            (Entry { order: NUMBERS, ..entry }, last),
        ] {
            assert_eq!(decoded(wrong, first), Err(Unreadable::Invalid), "{wrong:?}");
        }
    }
}
