//! A segment's table of contents: written downward from the segment's end, it lets the sweep and recovery know a
//! segment from one small read.
//!
//! … entry 1 | entry 0 | trailer (64 bytes) at the segment's end

use super::{BLOCK, Fields, NUMBERS, align_down};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const TRAILER: usize = 64;
pub const ENTRY: usize = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"cSEG");
const CHECKED: usize = 24;

/// How an entry came into its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Mark {
    /// Put while the segment was open; or, without length, a removal.
    Put = 0,
    /// There before the segment was opened: the sweep skipped it.
    Stayed = 1,
    /// An update of a record that lies elsewhere: the index never points to it.
    Update = 2,
}

impl Mark {
    fn of(bits: u16) -> Mark {
        [Mark::Stayed, Mark::Update].into_iter().find(|m| *m as u16 == bits).unwrap_or(Mark::Put)
    }
}

/// One record of the segment, or a removal that happened while the segment was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The upper half of the key's hash.
    pub hash: u64,
    /// Offset within the segment, in units.
    pub offset: u32,
    /// Length in units; 0 for a removal.
    pub units: u16,
    pub mark: Mark,
}

impl Entry {
    pub fn removal(hash: u64) -> Entry {
        Entry { hash, offset: 0, units: 0, mark: Mark::Put }
    }
    pub fn is_removal(&self) -> bool {
        self.units == 0
    }
    pub fn is_update(&self) -> bool {
        self.mark == Mark::Update
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Grows by one with every segment opened.
    pub seq: u64,
    pub entries: Vec<Entry>,
}

/// Why a segment's end is no table of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Never written, torn, another segment's, or of an impossible number.
    Invalid,
    /// The table is longer than the bytes given: its length.
    Longer(usize),
}

/// Entries that a table can have at most: it fits its segment.
pub fn most(segment: usize) -> usize {
    segment.saturating_sub(TRAILER) / ENTRY
}

/// Where a table of `entries`, at most `most`, begins within a segment of `segment` bytes: on a block boundary, so that its blocks
/// hold nothing else.
pub fn start(segment: usize, entries: usize) -> usize {
    debug_assert!(entries <= most(segment));
    align_down(segment.saturating_sub(TRAILER + entries * ENTRY), BLOCK)
}

/// Writes the table into the end of the segment `image`.
pub fn encode(identity: u64, number: u64, seq: u64, entries: &[Entry], image: &mut [u8]) {
    assert!(entries.len() <= most(image.len()));
    let trailer_at = image.len() - TRAILER;
    let table_at = trailer_at - entries.len() * ENTRY;
    let from = start(image.len(), entries.len());
    image[from..table_at].fill(0);
    for (entry, to) in entries.iter().zip(image[table_at..trailer_at].rchunks_exact_mut(ENTRY)) {
        to[0..8].copy_from_slice(&entry.hash.to_le_bytes());
        to[8..12].copy_from_slice(&entry.offset.to_le_bytes());
        to[12..14].copy_from_slice(&entry.units.to_le_bytes());
        to[14..16].copy_from_slice(&(entry.mark as u16).to_le_bytes());
    }
    let trailer = &mut image[trailer_at..];
    trailer.fill(0);
    trailer[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    trailer[4..8].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    trailer[8..16].copy_from_slice(&seq.to_le_bytes());
    trailer[16..24].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(identity, &image[table_at..]);
    image[trailer_at + CHECKED..trailer_at + CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the table of segment `number` from the last bytes of it.
pub fn decode(identity: u64, number: u64, segment: usize, tail: &[u8]) -> Result<Contents, Unreadable> {
    let trailer_at = tail.len().checked_sub(TRAILER).ok_or(Unreadable::Longer(TRAILER))?;
    let mut fields = Fields(&tail[trailer_at..]);
    let (magic, count, seq, of) = (fields.u32(), fields.u32() as usize, fields.u64(), fields.u64());
    let sum = fields.u64();
    if magic != MAGIC || of != number || count > most(segment) || seq >= NUMBERS {
        return Err(Unreadable::Invalid);
    }
    let length = TRAILER + count * ENTRY;
    if length > tail.len() {
        return Err(Unreadable::Longer(length));
    }
    let table = &tail[tail.len() - length..];
    if checksum(identity, table) != sum {
        return Err(Unreadable::Invalid);
    }
    let entries = table[..count * ENTRY].rchunks_exact(ENTRY).map(|bytes| {
        let mut fields = Fields(bytes);
        Entry { hash: fields.u64(), offset: fields.u32(), units: fields.u16(), mark: Mark::of(fields.u16()) }
    });
    Ok(Contents { seq, entries: entries.collect() })
}

/// Covers entries and trailer, apart from the checksum's own bytes.
fn checksum(identity: u64, table: &[u8]) -> u64 {
    let (entries, trailer) = table.split_at(table.len() - TRAILER);
    let seed = xxh3_64_with_seed(&trailer[..CHECKED], identity);
    xxh3_64_with_seed(entries, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_survives_its_encoding_and_flipped_bits_are_found() {
        let mark = |i| [Mark::Put, Mark::Stayed, Mark::Update][i as usize % 3];
        let entries: Vec<Entry> = (0..40)
            .map(|i| Entry { hash: i << 40, offset: i as u32 * 5, units: (i % 4) as u16, mark: mark(i) })
            .collect();
        let mut image = vec![0x55; 64 << 10];
        encode(3, 11, 99, &entries, &mut image);
        let tail = &image[image.len() - BLOCK..];
        assert_eq!(decode(3, 11, image.len(), tail), Ok(Contents { seq: 99, entries }));
        assert_eq!(decode(3, 12, image.len(), tail), Err(Unreadable::Invalid));
        for (seq, valid) in [(NUMBERS - 1, true), (NUMBERS, false)] {
            let mut image = image.clone();
            encode(3, 11, seq, &[], &mut image);
            assert_eq!(decode(3, 11, image.len(), &image).is_ok(), valid);
        }
        let short = TRAILER + 3 * ENTRY;
        let length = TRAILER + 40 * ENTRY;
        assert_eq!(decode(3, 11, image.len(), &tail[BLOCK - short..]), Err(Unreadable::Longer(length)));
        for bit in (image.len() - length) * 8..(image.len() - TRAILER + CHECKED + 8) * 8 {
            let mut torn = image.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            let tail = &torn[torn.len() - BLOCK..];
            assert!(decode(3, 11, torn.len(), tail).is_err(), "bit {bit}");
        }
    }
}
