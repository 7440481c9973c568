//! Segments on a medium: one is open and gathers records in memory; it is written whole, with a table of what is in it, over the
//! oldest one. What lies there meanwhile is written every second.
//!
//! A record is a header, a key, a response's head and a body, or a later piece of a body; it begins at a unit and is read with the
//! blocks that it touches, since reads go past the filesystem's memory in production.

use crate::layout::check;
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Object;
use crate::storage::record::put_head;

/// Bytes: direct reads and writes begin and end at blocks, records at units.
const BLOCK: u64 = 4096;
const UNIT: u64 = 64;
/// Of a record: header, key and a response's head; of a later piece the header alone.
const HEAD: u64 = 368;
const PIECE_HEAD: u64 = 64;
/// Of an entry of a table, and of what checkpoints write for each.
const ENTRY: u64 = 24;
/// Of the shortest piece that an object is cut for.
const LEAST_PIECE: u64 = 16 << 10;
/// What a log has at least, and wants where there is room: bytes of a segment, and segments.
const LEAST_SEGMENT: u64 = 16 << 10;
const LEAST_SEGMENTS: u64 = 8;
const SEGMENTS: u64 = 64;
/// Seconds between two writes of what is open.
const FLUSH_EVERY: f64 = 1.0;

pub struct Segments {
    file: Option<File>,
    /// Bytes of one.
    bytes: u64,
    segments: Vec<Segment>,
    open: usize,
    opened: u64,
    image: Vec<u8>,
    /// Bytes of the image that were written before it was full.
    flushed: u64,
    next_flush: f64,
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Segment {
    entries: Vec<Entry>,
    /// Which opening it was.
    nth: u64,
}

/// Of a segment's table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub object: u64,
    pub place: Place,
    /// What belongs together has the same.
    pub group: u64,
}

/// Where a record lies, and which bytes of its object are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    segment: u32,
    at: u32,
    head: u32,
    first: u64,
    count: u32,
}

impl Place {
    /// Bytes of the record.
    pub fn length(&self) -> u64 {
        (u64::from(self.head) + u64::from(self.count)).next_multiple_of(UNIT)
    }

    /// Of the object, the byte behind the last one here.
    pub fn upto(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub fn begin(&self) -> u64 {
        u64::from(self.at)
    }

    fn end(&self) -> u64 {
        self.begin() + self.length()
    }
}

/// Bytes of the record of an object in one piece.
pub fn record(size: u64) -> u64 {
    (HEAD + size).next_multiple_of(UNIT)
}

impl Segments {
    /// Of so many bytes each, or less where they would be few; none in too small a space.
    pub fn new(space: u64, most: u64) -> Segments {
        let mut bytes = most;
        while bytes > LEAST_SEGMENT && space / bytes < SEGMENTS {
            bytes /= 2;
        }
        let count = Some(space / bytes).filter(|count| *count >= LEAST_SEGMENTS).unwrap_or(0);
        Segments {
            file: None,
            bytes,
            segments: (0..count).map(|_| Segment::default()).collect(),
            open: 0,
            opened: 0,
            image: Vec::new(),
            flushed: 0,
            next_flush: 0.0,
            scratch: Vec::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of a segment.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the largest object that lies in the log whole before the log comes round.
    pub fn largest(&self) -> u64 {
        (self.segments.len() as u64).saturating_sub(4) * (self.bytes - self.bytes / 8)
    }

    /// How far the log has come since a record was written: 0 now, nearly 1 before it is overwritten.
    pub fn age(&self, place: &Place) -> f64 {
        (self.opened - self.segments[place.segment as usize].nth) as f64 / self.segments.len() as f64
    }

    /// What will be overwritten next.
    pub fn next(&self) -> &[Entry] {
        &self.segments[(self.open + 1) % self.segments.len()].entries
    }

    pub fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        if self.count() > 0 {
            self.file = Some(medium.create(ROOT, 0)?);
            self.next_flush = medium.seconds() + FLUSH_EVERY;
        }
        Ok(())
    }

    /// Takes an object from `first` on into the open segment, or as much as finds room there. Nothing: it is to be sealed.
    pub fn put(&mut self, object: &Object, first: u64, group: u64) -> Option<Place> {
        let head = if first == 0 { HEAD } else { PIECE_HEAD };
        let (left, room) = (object.size - first, self.room());
        let whole = (head + left).next_multiple_of(UNIT);
        let count = match whole {
            whole if whole <= room => left,
            whole if whole > self.bytes / 4 && room >= LEAST_PIECE.min(self.bytes / 4) => {
                (room - head) / 8 * 8
            }
            _ => return None,
        };
        let at = self.image.len();
        let place =
            Place { segment: self.open as u32, at: at as u32, head: head as u32, first, count: count as u32 };
        self.image.resize(place.end() as usize, 0);
        let (before, body) = self.image[at..].split_at_mut(head as usize);
        put_head(object, [first, count], before);
        object.fill(first, &mut body[..count as usize]);
        self.segments[self.open].entries.push(Entry { object: object.id, place, group });
        Some(place)
    }

    /// Bytes for records, with room for their entries.
    fn room(&self) -> u64 {
        let table = table_bytes(self.segments[self.open].entries.len() as u64 + 1);
        self.bytes.saturating_sub(self.image.len() as u64 + table) / UNIT * UNIT
    }

    /// Writes what is open when a second has passed, or at once.
    pub fn flush(&mut self, medium: &mut dyn Medium, at_once: bool) -> Result<(), Failed> {
        let Some(file) = self.file else { return Ok(()) };
        if !at_once && medium.seconds() < self.next_flush {
            return Ok(());
        }
        self.next_flush = medium.seconds() + FLUSH_EVERY;
        let (from, end) = (self.flushed / BLOCK * BLOCK, self.image.len() as u64);
        if end > self.flushed {
            self.scratch.clear();
            self.scratch.extend_from_slice(&self.image[from as usize..]);
            self.scratch.resize((end.next_multiple_of(BLOCK) - from) as usize, 0);
            medium.write(file, self.open as u64 * self.bytes + from, &self.scratch)?;
            self.flushed = end;
        }
        Ok(())
    }

    /// Brings together what belongs together in the open segment, but for what is written already: which records went where.
    pub fn sort(&mut self) -> Vec<(Entry, Place)> {
        let entries = &mut self.segments[self.open].entries;
        let fixed = entries.partition_point(|entry| entry.place.begin() < self.flushed);
        let mut order: Vec<Entry> = entries[fixed..].to_vec();
        order.sort_by_key(|entry| entry.group);
        let Some(begin) = entries.get(fixed).map(|entry| entry.place.begin()) else { return Vec::new() };
        let (mut sorted, mut moved) = (Vec::with_capacity(self.image.len() - begin as usize), Vec::new());
        for (entry, to) in order.iter().zip(&mut entries[fixed..]) {
            let place = Place { at: begin as u32 + sorted.len() as u32, ..entry.place };
            sorted.extend_from_slice(&self.image[entry.place.begin() as usize..entry.place.end() as usize]);
            *to = Entry { place, ..*entry };
            moved.push((*entry, place));
        }
        self.image.truncate(begin as usize);
        self.image.extend(sorted);
        moved
    }

    /// Writes the open segment, with its table at its end, and opens the oldest one: what lay there, after its table was read.
    pub fn seal(&mut self, medium: &mut dyn Medium) -> Result<Vec<Entry>, Failed> {
        let file = self.file.ok_or("not prepared")?;
        let entries = self.segments[self.open].entries.len() as u64;
        let table = self.bytes - table_bytes(entries).min(self.bytes);
        self.image.resize(self.bytes as usize, 0);
        let rows = self.image[table as usize..].chunks_exact_mut(ENTRY as usize);
        for (row, entry) in rows.zip(&self.segments[self.open].entries) {
            row[..8].copy_from_slice(&entry.object.to_le_bytes());
            row[8..16].copy_from_slice(&entry.place.begin().to_le_bytes());
        }
        let from = self.flushed / BLOCK * BLOCK;
        medium.write(file, self.open as u64 * self.bytes + from, &self.image[from as usize..])?;
        self.next_flush = medium.seconds() + FLUSH_EVERY;
        self.open = (self.open + 1) % self.segments.len();
        self.opened += 1;
        let oldest = std::mem::replace(
            &mut self.segments[self.open],
            Segment { entries: Vec::new(), nth: self.opened },
        );
        if !oldest.entries.is_empty() {
            let table = table_bytes(oldest.entries.len() as u64).min(self.bytes);
            self.scratch.resize(table as usize, 0);
            medium.read(file, (self.open as u64 + 1) * self.bytes - table, &mut self.scratch)?;
        }
        self.image.clear();
        self.flushed = 0;
        // What a checkpoint has of the segment before.
        self.image.resize((entries * ENTRY).next_multiple_of(UNIT).min(self.bytes / 8) as usize, 0);
        Ok(oldest.entries)
    }

    /// Reads a record with up to `window` bytes around it, and checks it. `also` is asked what a record beside it is, if it is to
    /// be taken along, too.
    pub fn read(
        &mut self,
        medium: &mut dyn Medium,
        object: &Object,
        place: &Place,
        window: u64,
        mut also: impl FnMut(&Entry) -> Option<Object>,
    ) -> Result<(), Failed> {
        if place.segment as usize == self.open {
            return check_record(object, place, &self.image[place.begin() as usize..]);
        }
        let (mut from, mut end) = (place.begin() / BLOCK * BLOCK, place.end().next_multiple_of(BLOCK));
        if end - from < window {
            from = from.saturating_sub((window - (end - from)) / 2 / BLOCK * BLOCK);
            end = (from + window).min(self.bytes);
        }
        self.scratch.resize((end - from) as usize, 0);
        let file = self.file.ok_or("not prepared")?;
        medium.read(file, u64::from(place.segment) * self.bytes + from, &mut self.scratch)?;
        check_record(object, place, &self.scratch[(place.begin() - from) as usize..])?;
        if window > 0 {
            let entries = &self.segments[place.segment as usize].entries;
            let first = entries.partition_point(|entry| entry.place.begin() < from);
            let whole = entries[first..].iter().take_while(|entry| entry.place.end() <= end);
            for entry in whole.filter(|entry| entry.place != *place) {
                if let Some(object) = also(entry) {
                    check_record(
                        &object,
                        &entry.place,
                        &self.scratch[(entry.place.begin() - from) as usize..],
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Reads records of the segment that is about to be overwritten, those that lie within `gap` bytes of each other at once.
    pub fn rescue(
        &mut self,
        medium: &mut dyn Medium,
        records: &[(Object, Place)],
        gap: u64,
    ) -> Result<(), Failed> {
        let file = self.file.ok_or("not prepared")?;
        let base = self.open as u64 * self.bytes;
        for near in records.chunk_by(|(_, one), (_, next)| next.begin() <= one.end() + gap) {
            let (Some((_, first)), Some((_, last))) = (near.first(), near.last()) else { continue };
            let from = first.begin() / BLOCK * BLOCK;
            self.scratch.resize((last.end().next_multiple_of(BLOCK) - from) as usize, 0);
            medium.read(file, base + from, &mut self.scratch)?;
            for (object, place) in near {
                check_record(object, place, &self.scratch[(place.begin() - from) as usize..])?;
            }
        }
        Ok(())
    }
}

fn check_record(object: &Object, place: &Place, bytes: &[u8]) -> Result<(), Failed> {
    let head = place.head as usize;
    check(object, place.first, &bytes[head..head + place.count as usize])
}

fn table_bytes(entries: u64) -> u64 {
    (entries * ENTRY + PIECE_HEAD).next_multiple_of(BLOCK)
}
