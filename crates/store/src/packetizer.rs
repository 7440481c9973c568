//! STREAM-PACKETIZER (WebCoSM section 2.2.1, Foxy in section 4): records are gathered in a segment's image in memory
//! and go out in as few large aligned writes as the survivors in that segment leave room for (usually one).
//!
//! A record is readable from the image until its write is done. Always true: image bytes outside the gaps are never
//! written to the medium, so a survivor's bytes are never touched, and two writes never share a block in flight.

use crate::buffer::Buffer;
use crate::format::contents::{self, Entry, Mark};
use crate::format::record::Record;
use crate::format::{BLOCK, UNIT, align_down, align_up};
use std::ops::Range;

/// Writes that lie nearer to each other than this, with only free space between, become one.
const BRIDGE: usize = 64 << 10;
/// Gaps smaller than this are left alone.
const MIN_GAP: usize = 2 * BLOCK;

/// Free space between survivors: filled from `start` upward, written up to `written`.
#[derive(Clone, Debug)]
struct Gap {
    start: usize,
    written: usize,
    position: usize,
    end: usize,
}

/// The segment that takes records now.
pub struct OpenSegment {
    pub number: u64,
    pub seq: u64,
    pub image: Buffer,
    gaps: Vec<Gap>,
    entries: Vec<Entry>,
    /// How many of `entries` are survivors.
    survivors: usize,
    /// No record may reach beyond this, for a survivor's sake or the table's.
    floor: usize,
    /// Entries and records that no write has taken yet; at first the survivors, for there must be a table without the others.
    dirty: bool,
}

/// What one flush or seal has to write: offsets within the segment. `table` goes last, when all others are done.
#[derive(Debug, PartialEq, Eq)]
pub struct Writes {
    pub data: Vec<Range<usize>>,
    pub table: Range<usize>,
}

/// The free spaces that `survivors` (in any order) leave in a segment, large enough to be used.
pub fn gaps(segment: usize, survivors: &[Entry]) -> Vec<Range<usize>> {
    let mut taken: Vec<Range<usize>> = survivors.iter().map(bytes_of).collect();
    taken.sort_by_key(|r| r.start);
    let limit = contents::start(segment, survivors.len());
    let mut free = Vec::new();
    let mut from = 0;
    for next in taken.into_iter().chain(std::iter::once(limit..segment)) {
        let gap = align_up(from, BLOCK)..align_down(next.start, BLOCK);
        if gap.len() >= MIN_GAP {
            free.push(gap);
        }
        from = from.max(next.end);
    }
    free
}

/// Where an entry's record lies within its segment.
pub fn bytes_of(entry: &Entry) -> Range<usize> {
    let start = entry.offset as usize * UNIT;
    start..start + usize::from(entry.units) * UNIT
}

impl OpenSegment {
    pub fn new(number: u64, seq: u64, image: Buffer, mut survivors: Vec<Entry>) -> OpenSegment {
        survivors
            .iter_mut()
            .filter(|e| !e.is_update() && !e.is_removal())
            .for_each(|e| e.mark = Mark::Stayed);
        let gaps = gaps(image.len(), &survivors)
            .into_iter()
            .map(|g| Gap { start: g.start, written: g.start, position: g.start, end: g.end })
            .collect();
        let floor = survivors.iter().map(|e| align_up(bytes_of(e).end, BLOCK)).max().unwrap_or(0);
        let count = survivors.len();
        OpenSegment { number, seq, image, gaps, entries: survivors, survivors: count, floor, dirty: true }
    }

    /// Copies the record to the first gap that has room: its offset, or `None` when none has.
    pub fn append(&mut self, hash: u64, record: &Record<'_>, mark: Mark) -> Option<usize> {
        let limit = self.limit_with_one_more()?;
        let length = record.size();
        let gap = self.gaps.iter_mut().find(|g| g.position + length <= g.end.min(limit))?;
        let at = gap.position;
        record.copy_to(&mut self.image[at..at + length]);
        gap.position += length;
        let (offset, units) = ((at / UNIT) as u32, (length / UNIT) as u16);
        self.entries.push(Entry { hash, offset, units, mark });
        self.dirty = true;
        Some(at)
    }

    /// Notes that a key was removed; false when the table has no room.
    pub fn append_removal(&mut self, hash: u64) -> bool {
        let room = self.limit_with_one_more().is_some();
        if room {
            self.entries.push(Entry::removal(hash));
            self.dirty = true;
        }
        room
    }

    /// Where the table would begin with one more entry, if it can have one and that harms no record.
    fn limit_with_one_more(&self) -> Option<usize> {
        let (segment, entries) = (self.image.len(), self.entries.len() + 1);
        if entries > contents::most(segment) {
            return None;
        }
        let limit = contents::start(segment, entries);
        let used = self.gaps.iter().rev().find(|g| g.position > g.start).map_or(0, |g| g.position);
        (limit >= self.floor.max(used)).then_some(limit)
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The records put since the segment was opened.
    pub fn fresh(&self) -> &[Entry] {
        &self.entries[self.survivors..]
    }

    /// Where the image, and not yet the medium, holds records.
    pub fn filled(&self) -> Vec<Range<usize>> {
        self.gaps.iter().map(|g| g.start..g.position).collect()
    }

    /// The bytes of a record that only the image has.
    pub fn peek(&self, range: Range<usize>) -> Option<&[u8]> {
        let ours = self.gaps.iter().any(|g| g.start <= range.start && range.end <= g.position);
        ours.then(|| &self.image[range])
    }

    /// Encodes the table and says what is to be written, as if it had been.
    pub fn take_writes(&mut self, identity: u64) -> Writes {
        contents::encode(identity, self.number, self.seq, &self.entries, &mut self.image);
        let table = contents::start(self.image.len(), self.entries.len())..self.image.len();
        let mut data: Vec<Range<usize>> = Vec::new();
        for gap in self.gaps.iter_mut().filter(|g| g.position > g.written) {
            data.push(align_down(gap.written, BLOCK)..align_up(gap.position, BLOCK));
            gap.written = gap.position;
        }
        self.dirty = false;
        let beside_table = contents::start(self.image.len(), self.survivors);
        let bridged = self.gaps.last().zip(data.last()).is_some_and(|(gap, last)| {
            gap.end == beside_table && gap.start <= last.start && table.start - last.end <= BRIDGE
        });
        let table = if bridged { data.pop().map_or(0, |last| last.start)..table.end } else { table };
        Writes { data, table }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{About, Kind};

    const SEGMENT: usize = 256 << 10;

    fn record(body: &[u8]) -> Record<'_> {
        let about = About { kind: Kind::Object, id: 0, length: body.len() as u64, span: 0, written: 0 };
        Record::new(1, about, b"k", b"", body).unwrap()
    }

    fn entry(start: usize, length: usize) -> Entry {
        let (offset, units) = ((start / UNIT) as u32, (length / UNIT) as u16);
        Entry { hash: 1, offset, units, mark: Mark::Put }
    }

    #[test]
    fn a_full_empty_segment_is_one_write() {
        let mut open = OpenSegment::new(0, 1, Buffer::new(SEGMENT), vec![]);
        let body = vec![9; 8_000];
        let mut records = 0;
        while open.append(records, &record(&body), Mark::Put).is_some() {
            records += 1;
        }
        assert_eq!(records, (SEGMENT - BLOCK) as u64 / 8_128);
        assert_eq!(open.take_writes(1), Writes { data: vec![], table: 0..SEGMENT });
    }

    #[test]
    fn survivors_are_written_around() {
        let survivors = vec![entry(100 << 10, 10_048), entry(64, 128)];
        assert_eq!(
            gaps(SEGMENT, &survivors),
            [4096..100 << 10, align_up((100 << 10) + 10_048, BLOCK)..SEGMENT - BLOCK]
        );
        let mut open = OpenSegment::new(0, 1, Buffer::new(SEGMENT), survivors);
        assert_eq!(open.append(5, &record(&[1; 60_000]), Mark::Put), Some(4096));
        assert_eq!(open.append(6, &record(&[1; 60_000]), Mark::Put), Some(114_688));
        assert_eq!(open.append(7, &record(&[1; 100]), Mark::Put), Some(4096 + 60_096));
        assert!(open.append(8, &record(&[1; 90_000]), Mark::Put).is_none());
        assert!(open.peek(0..64).is_none() && open.peek(4096..8192).is_some());
        let writes = open.take_writes(1);
        assert_eq!(writes.data, [4096..65_536, 114_688..176_128]);
        assert_eq!(writes.table, SEGMENT - BLOCK..SEGMENT);
        // Later writes of the same segment repeat only the block that both share.
        open.append(9, &record(&[2; 100]), Mark::Put).unwrap();
        assert_eq!(open.take_writes(1).data.first(), Some(&(align_down(4096 + 60_096 + 192, BLOCK)..65_536)));
    }

    #[test]
    fn a_table_of_removals_alone_is_bounded_and_can_be_read() {
        for segment in [16 << 10, SEGMENT] {
            let mut open = OpenSegment::new(0, 1, Buffer::new(segment), vec![]);
            let mut removals = 0;
            while removals < 100_000 && open.append_removal(removals) {
                removals += 1;
            }
            assert_eq!(removals as usize, contents::most(segment));
            assert_eq!(open.take_writes(1), Writes { data: vec![], table: 0..segment });
            let read = contents::decode(1, 0, segment, &open.image).unwrap();
            assert!(read.entries == open.fresh());
        }
    }

    #[test]
    fn the_table_never_reaches_a_record() {
        let mut open = OpenSegment::new(0, 1, Buffer::new(SEGMENT), vec![entry(SEGMENT - 2 * BLOCK, BLOCK)]);
        let mut removals = 0;
        while open.append_removal(removals) {
            removals += 1;
        }
        assert_eq!(removals as usize, (BLOCK - 64) / 16 - 1);
        let mut open = OpenSegment::new(0, 1, Buffer::new(SEGMENT), vec![]);
        while open.append(1, &record(&[]), Mark::Put).is_some() {}
        while open.append_removal(2) {}
        let end = open.fresh().iter().map(|e| bytes_of(e).end).max().unwrap();
        assert!(open.take_writes(1).table.start <= contents::start(SEGMENT, open.fresh().len()));
        assert!(end <= contents::start(SEGMENT, open.fresh().len()));
    }
}
