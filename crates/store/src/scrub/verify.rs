//! A step of the scrub: reads what a segment has, without the engine's lock, and tells what of it is not what the index expects.

use crate::buffer::{Buffer, Pool};
use crate::disk::Disk;
use crate::format::record::{self, Found};
use crate::format::superblock::COPIES;
use crate::format::table::{Entry, Table, Unreadable};
use crate::format::{BLOCK, Layout, align_down, align_up};
use crate::index::Index;
use crate::loader::TABLE_READ;
use crate::recovery::first_of;
use crate::scrub::Clients;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that one step reads, at most, unless it is of one record alone; and while clients read, who may come in the middle of it.
const STEP: usize = 256 << 10;
const SMALL_STEP: usize = 64 << 10;

/// What one step may take of memory: a table or a record, and the list of a segment's records.
pub fn most_bytes(segment: u32) -> u64 {
    (STEP as u64).max(u64::from(segment)) + u64::from(segment / 2) + 2 * BLOCK as u64
}

/// Something to be verified of the segment with this sequence number.
pub struct Verify {
    pub layout: Layout,
    pub seq: u64,
    pub what: What,
}

pub enum What {
    Table,
    Records(Vec<Entry>),
}

/// What came of it.
pub enum Verified {
    Table(Contents),
    Records(Records),
}

pub enum Contents {
    /// What the index has there, in the order of offsets.
    Live(Vec<Entry>),
    /// It was never written: what lies there is of another turn.
    Without,
    /// It was begun, and its table is damaged or cannot be read.
    Lost,
    /// It is not there at all. What the index has there: the lowest hash of which it knows the same, and the place.
    Gone(Vec<(u64, u64)>),
}

#[derive(Default)]
pub struct Records {
    pub bytes: u64,
    /// Those that are not what the table lists, read twice; and those that cannot be read.
    pub damaged: Vec<Entry>,
    pub unreadable: Vec<Entry>,
}

/// Reads with the means that a step was given.
struct Source<'a> {
    disk: &'a dyn Disk,
    pool: &'a Arc<Pool>,
}

impl Verify {
    /// How many of these records, from the first on, one step verifies.
    pub fn step(layout: &Layout, entries: &[Entry], clients: Clients) -> usize {
        let most = if clients == Clients::Away { STEP } else { SMALL_STEP };
        let Some(first) = entries.first() else { return 0 };
        let from = bytes_of(layout, first).start;
        entries.iter().take_while(|entry| bytes_of(layout, entry).end - from <= most).count().max(1)
    }

    /// Bytes that it reads where all is well.
    pub fn bytes(&self) -> usize {
        match &self.what {
            What::Table => TABLE_READ.min(self.layout.segment as usize),
            What::Records(entries) => span(&self.layout, entries).len(),
        }
    }

    /// # Errors
    /// Something cannot be read, and nor can the superblock: then it is the disk that fails, and nothing is known of what lies there.
    pub fn carry_out(self, disk: &dyn Disk, pool: &Arc<Pool>, index: &Index) -> io::Result<Verified> {
        let source = Source { disk, pool };
        match &self.what {
            // It may have come about on the way.
            What::Table => match self.contents(&source, index)? {
                Contents::Gone(_) => self.contents(&source, index).map(Verified::Table),
                found => Ok(Verified::Table(found)),
            },
            What::Records(entries) => self.records(&source, entries).map(Verified::Records),
        }
    }

    fn contents(&self, source: &Source<'_>, index: &Index) -> io::Result<Contents> {
        let Verify { layout, seq, .. } = self;
        let number = layout.number(*seq);
        let Ok(table) = source.table(layout, number) else {
            source.control()?;
            return Ok(Contents::Lost);
        };
        let is_of_another_turn = table.as_ref().is_some_and(|table| table.seq != *seq);
        let Some(Table { mut entries, .. }) = table.filter(|_| !is_of_another_turn) else {
            let first = source.read(layout.start(number), BLOCK).ok();
            let is_begun =
                first.is_none_or(|first| first_of(&first).is_some_and(|(seq, _)| seq == self.seq as u32));
            if is_begun {
                return Ok(Contents::Lost);
            }
            let there = self.there(index);
            // One that was given up, or lost with a process that was killed, has nothing in the index.
            return Ok(if there.is_empty() && is_of_another_turn {
                Contents::Without
            } else {
                Contents::Gone(there)
            });
        };
        entries.retain(|entry| {
            let place = layout.place(number, bytes_of(layout, entry).start);
            entry.kind.is_answer() && index.find(entry.hash).is_some_and(|slot| slot.place == place)
        });
        entries.sort_unstable_by_key(|entry| entry.offset);
        Ok(Contents::Live(entries))
    }

    /// What the index has in the segment: all of it is gone through.
    fn there(&self, index: &Index) -> Vec<(u64, u64)> {
        let number = self.layout.number(self.seq);
        let of = |part| {
            let there =
                index.entries(part).filter(|entry| self.layout.segment_of(entry.slot.place) == number);
            there.map(move |entry| (index.hash_of(part, entry.print), entry.slot.place))
        };
        (0..index.parts()).flat_map(of).collect()
    }

    fn records(&self, source: &Source<'_>, entries: &[Entry]) -> io::Result<Records> {
        let Verify { layout, seq, .. } = self;
        let (start, all) = (layout.start(layout.number(*seq)), span(layout, entries));
        let read = |range: &Range<usize>| {
            let block = source.disk.read_block();
            let (from, end) = (align_down(range.start, block), align_up(range.end, block));
            let bytes = source.read(start + from as u64, end - from)?;
            Ok::<_, io::Error>((bytes, range.start - from))
        };
        let together = read(&all).ok();
        let mut found = Records::default();
        for entry in entries {
            let range = bytes_of(layout, entry);
            found.bytes += range.len() as u64;
            let is_sound = |bytes: &[u8]| sound(layout, *seq, &bytes[..range.len()], entry).is_some();
            if together
                .as_ref()
                .is_some_and(|(bytes, skip)| is_sound(&bytes[range.start - all.start + skip..]))
            {
                continue;
            }
            // It may have come about on the way, and what cannot be read may be its neighbours.
            match read(&range) {
                Ok((bytes, skip)) if is_sound(&bytes[skip..]) => {}
                Ok(_) => found.damaged.push(*entry),
                Err(_) => found.unreadable.push(*entry),
            }
        }
        if !found.unreadable.is_empty() {
            source.control()?;
        }
        Ok(found)
    }
}

impl Source<'_> {
    fn read(&self, offset: u64, length: usize) -> io::Result<Buffer> {
        let mut buffer = self.pool.take(length);
        self.disk.read(offset, &mut buffer, length).map(|()| buffer)
    }

    /// What every start has to read.
    fn control(&self) -> io::Result<()> {
        self.read(COPIES[0], BLOCK).map(drop)
    }

    fn table(&self, layout: &Layout, number: u64) -> io::Result<Option<Table>> {
        let segment = layout.segment as usize;
        let mut length = TABLE_READ.min(segment);
        loop {
            let tail = self.read(layout.start(number) + (segment - length) as u64, length)?;
            match Table::decode(layout, number, &tail[..length]) {
                Ok(table) => return Ok(Some(table)),
                Err(Unreadable::Longer(longer)) if longer > length => length = align_up(longer, BLOCK),
                Err(_) => return Ok(None),
            }
        }
    }
}

/// The record that an entry of the segment with this sequence number lists, if it is whole and the entry's.
pub fn sound(layout: &Layout, seq: u64, bytes: &[u8], entry: &Entry) -> Option<Found> {
    record::parse(layout.identity, bytes).filter(|found| {
        let key = crate::Key::new(bytes[found.key.clone()].to_vec());
        found.about.kind == entry.kind
            && found.seq == seq as u32
            && layout.mix(key.index_hash()) == entry.hash
    })
}

/// Where a record lies within its segment.
pub fn bytes_of(layout: &Layout, entry: &Entry) -> Range<usize> {
    let unit = layout.unit as usize;
    entry.offset as usize * unit..(entry.offset + entry.units) as usize * unit
}

/// Where these lie, in the order of offsets.
fn span(layout: &Layout, entries: &[Entry]) -> Range<usize> {
    let range = |entry: Option<&Entry>| entry.map_or(0..0, |entry| bytes_of(layout, entry));
    range(entries.first()).start..range(entries.last()).end
}
