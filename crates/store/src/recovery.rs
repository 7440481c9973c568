//! Recovery: from the medium back to a `State`. Reads only.
//!
//! 1. The newer root says which digests there are: the index is loaded from them later (`loader`). What happened since lies in the
//!    segments from `Root::seq` on.
//! 2. Of these a full segment's table is read; one that was left open is read whole, record by record. They are followed until
//!    some in a row are older: more than can have been in flight when the last process ended.
//! 3. A log without digests, or one that has come round since the root was written, is read whole: every segment's table.
//!
//! A read that fails is tried again. What cannot be read now may be read well at a later start: so orders leap, which the fence
//! tells later starts, and removals are noted also of keys that the index does not know (`State::lossy`). A ledger that may have said anything is
//! `ledger::UNREADABLE`. What failing reads may cost is bounded: beyond it, the rest counts as unread without being read.

use crate::buffer::Buffer;
use crate::engine::State;
use crate::format::digest::Event;
use crate::format::fence::{self, Fence, LEAP};
use crate::format::ledger::{self, Ledger};
use crate::format::record::{self, Kind};
use crate::format::root::{self, DigestAt, Root};
use crate::format::table::{self, Entry, Table, Unreadable};
use crate::format::{BLOCK, Fields, Layout, UNIT, align_up};
use crate::index::{Index, Slot};
use crate::loader::{TABLE_READ, event_of};
use crate::reads::{PARALLEL, Reads, in_parallel};
use crate::segment::close_left;
use crate::writes::{Batch, DEPTH};
use std::io;
use std::sync::Arc;

/// So many old segments in a row mean that the newest one has been passed: more than can be in flight out of order, with some that
/// were given up.
const QUIET: u64 = if cfg!(test) { 6 } else { DEPTH as u64 + 24 };
/// Orders that records may have which no table lists.
const SLACK: u64 = 1 << 20;

/// What a recovery found, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    /// Segments that were looked at.
    pub scanned: u64,
    /// Events that were replayed.
    pub replayed: u64,
    /// A table, the root or the ledger could not be read, for the medium failed.
    pub unread: bool,
}

/// What lies in a segment that should have some sequence number.
enum Found {
    Full(Table),
    /// It was left open: what was written of it.
    Open(Open),
    /// Another turn's, or nothing: the sequence number that its table has.
    Other(Option<u64>),
    Unread,
}

struct Open {
    seq: u64,
    image: Buffer,
    first: u64,
    entries: Vec<Entry>,
    filled: usize,
}

/// Reads what a start needs before it can serve: of a log with digests for `stretch` segments (`digester::stretch`). An error where
/// the fence cannot be read: without it nobody knows which orders were given.
pub fn recover(
    reads: &Reads<'_>,
    layout: Layout,
    stretch: Option<u64>,
    index: Index,
) -> io::Result<(State, Recovered)> {
    let block = reads.read(fence::OFFSET, BLOCK)?;
    let fence = Fence::decode(layout.identity, &block).unwrap_or_default();
    let recovery = Recovery { reads, layout, fence };
    // Before failures elsewhere are too many to read on: a ledger that is not read counts as a purge of everything.
    let (ledger, ledger_read) = recovery.ledger();
    let (root, root_read) = recovery.root();
    let mut found = Recovered { unread: !ledger_read || !root_read, ..Recovered::default() };
    let mut log = Log::default();
    let walked = (stretch.is_some() || root.generation > 0) && root_read;
    let lapped = walked && recovery.walk(&root, &mut log);
    let root = match walked && !lapped {
        true => root,
        false => {
            log = Log::default();
            recovery.survey(&mut log);
            Root { generation: root.generation, ..Root::default() }
        }
    };
    found.scanned = log.scanned;
    found.unread |= log.unread;
    let mut state = State { stretch, root, ledger, lossy: found.unread, ..State::blank(layout, index) };
    recovery.replay(log, &mut state);
    found.replayed = state.events.len() as u64;
    if state.root.generation == 0 || stretch.is_none() {
        state.root.seq = state.seq.saturating_sub(layout.segments);
    }
    Ok((state, found))
}

/// What was found of the log.
#[derive(Default)]
struct Log {
    full: Vec<Table>,
    open: Vec<Open>,
    scanned: u64,
    unread: bool,
}

struct Recovery<'a> {
    reads: &'a Reads<'a>,
    layout: Layout,
    fence: Fence,
}

impl Recovery<'_> {
    /// The newer valid copy of the ledger; an empty one when none was ever written. Where a copy cannot be read, it may be the
    /// newer one, and where both hold something else a tear was not all: then what was in the ledger is unknown, and its
    /// generation is above that of both copies and of the fence. False when it is unknown.
    fn ledger(&self) -> (Ledger, bool) {
        let copies = ledger::COPIES.map(|offset| self.ledger_copy(offset));
        let read = copies.iter().all(|copy| copy.is_ok());
        let damaged = copies.iter().all(|copy| matches!(copy, Ok(Copy::Damaged)));
        let valid = copies.into_iter().filter_map(|copy| match copy {
            Ok(Copy::Valid(ledger)) => Some(ledger),
            _ => None,
        });
        let newer = valid.max_by_key(|ledger| ledger.generation).unwrap_or_default();
        if read && !damaged {
            return (newer, true);
        }
        (
            Ledger {
                generation: newer.generation.max(self.fence.ledger) + LEAP,
                bytes: ledger::UNREADABLE.to_vec(),
            },
            false,
        )
    }

    fn ledger_copy(&self, offset: u64) -> io::Result<Copy> {
        let mut length = BLOCK;
        loop {
            let buffer = self.reads.read(offset, length)?;
            match Ledger::decode(self.layout.identity, &buffer[..length]) {
                Ok(ledger) => return Ok(Copy::Valid(ledger)),
                Err(ledger::Unreadable::Longer(longer)) if longer > length => {
                    length = align_up(longer, BLOCK)
                }
                Err(_) if buffer[..length].iter().all(|&byte| byte == 0) => return Ok(Copy::Blank),
                Err(_) => return Ok(Copy::Damaged),
            }
        }
    }

    /// The newer valid root, which is enough even where the other copy cannot be read: it only says less. False when neither is
    /// known, and one may be there.
    fn root(&self) -> (Root, bool) {
        let mut read = true;
        let copies = root::COPIES.map(|offset| {
            let Ok(bytes) = self.reads.read(offset, root::COPY) else {
                read = false;
                return None;
            };
            match Root::decode(self.layout.identity, &bytes[..root::COPY]) {
                Ok(root) => Some(root),
                Err(root::Unreadable::Blank) => Some(Root::default()),
                Err(root::Unreadable::Invalid) => None,
            }
        });
        let [a, b] = &copies;
        let newer = [a, b].into_iter().flatten().max_by_key(|root| root.generation);
        match newer {
            // The other copy may be a torn first root: the log is followed from its beginning then.
            Some(root) if root.generation > 0 || read => (root.clone(), true),
            _ => (Root { generation: LEAP, ..Root::default() }, false),
        }
    }

    /// Follows the log from the root on. True when it has come round since.
    fn walk(&self, root: &Root, log: &mut Log) -> bool {
        let (mut seq, mut quiet) = (root.seq, 0);
        let round = root.seq + self.layout.segments;
        while quiet < QUIET && seq < round {
            let seqs: Vec<u64> = (seq..round.min(seq + PARALLEL as u64 * 4)).collect();
            seq += seqs.len() as u64;
            for (seq, look) in seqs.iter().zip(in_parallel(&seqs, |&seq| self.look(seq))) {
                log.scanned += 1;
                match look {
                    Found::Other(Some(other)) if other > *seq => return true,
                    look => quiet = if log.take(look) { 0 } else { quiet + 1 },
                }
                if quiet >= QUIET {
                    break;
                }
            }
        }
        false
    }

    /// Reads every segment's table.
    fn survey(&self, log: &mut Log) {
        let segments = self.layout.segments;
        let numbers: Vec<u64> = (0..segments).collect();
        let mut tables = Vec::new();
        for some in numbers.chunks(PARALLEL * 32) {
            for table in in_parallel(some, |&number| read_table(self.reads, &self.layout, number)) {
                log.unread |= table.is_err();
                tables.extend(table.ok().flatten());
            }
        }
        log.scanned = segments;
        tables.retain(|table| self.fence.admits(table.seq, table.first));
        tables.sort_by_key(|table| table.seq);
        let newest = tables.last().map_or(0, |table| table.seq);
        let oldest = (newest + 1).saturating_sub(segments);
        let mut tables = tables.into_iter().skip_while(|table| table.seq < oldest).peekable();
        for seq in oldest..newest + segments {
            // What should be full and is not, or lies behind the last full one, may have been left open.
            match tables.next_if(|table| table.seq == seq).filter(|table| self.begins(table)) {
                Some(table) => log.full.push(table),
                None => drop(log.take(self.look(seq))),
            }
        }
    }

    /// What lies where the segment with this sequence number should.
    fn look(&self, seq: u64) -> Found {
        let number = self.layout.number(seq);
        let table = match read_table(self.reads, &self.layout, number) {
            Err(_) => return Found::Unread,
            Ok(table) => table.filter(|table| self.fence.admits(table.seq, table.first)),
        };
        let other = table.as_ref().map(|table| table.seq);
        if let Some(table) = table.filter(|table| table.seq == seq && self.begins(table)) {
            return Found::Full(table);
        }
        let Ok(block) = self.reads.read(self.layout.start(number), BLOCK) else { return Found::Unread };
        match first_of(&block) {
            Some((of, order)) if of == seq as u32 && self.fence.admits(seq, order) => {
                match self.left_open(seq) {
                    Err(_) => Found::Unread,
                    Ok(Some(open)) => Found::Open(open),
                    Ok(None) => Found::Other(other),
                }
            }
            // It was opened again since, and left open: the log has come round.
            Some((of, order)) if is_later(of, seq) && self.fence.admits(seq, order) => {
                let later = seq + u64::from(of.wrapping_sub(seq as u32));
                match self.left_open(later) {
                    Ok(Some(_)) => Found::Other(Some(later)),
                    _ => Found::Other(other),
                }
            }
            _ => Found::Other(other),
        }
    }

    /// Whether the segment still begins with the record that the table's turn began with: it may have been opened again.
    fn begins(&self, table: &Table) -> bool {
        let start = self.layout.start(self.layout.number(table.seq));
        let block = self.reads.read(start, BLOCK);
        // One that cannot be read now: its records are not served without being read either.
        block.map_or(true, |block| first_of(&block) == Some((table.seq as u32, table.first)))
    }

    /// The records of a segment that has no table of this turn.
    fn left_open(&self, seq: u64) -> io::Result<Option<Open>> {
        let layout = &self.layout;
        let start = layout.start(layout.number(seq));
        let length = layout.segment as usize;
        let image = self.reads.read(start, length)?;
        let (mut at, mut entries, mut orders) = (0, Vec::new(), Vec::new());
        while let Some(found) = record::parse(layout.identity, &image[at..length]) {
            let size = found.size(layout.unit);
            // What lies behind them may be of a turn that a start could not read.
            let rises = orders.last().is_none_or(|last| *last < found.order);
            let fits = at + size + table::size(entries.len() + 1) <= length;
            if found.seq != seq as u32 || !rises || !fits {
                break;
            }
            let kind = found.about.kind;
            if kind.is_event() {
                let hash = match kind {
                    Kind::Removal => found.about.id,
                    _ => layout.mix(crate::Key::new(image[at..][found.key].to_vec()).index_hash()),
                };
                let (offset, units) = ((at as u32) / layout.unit, (size as u32) / layout.unit);
                entries.push(Entry { hash, offset, units, order: found.order, kind });
            }
            orders.push(found.order);
            at += size;
        }
        let first = orders.first().copied();
        Ok(first.map(|first| Open { seq, image, first, entries, filled: at }))
    }

    /// Brings what was found into the index and the state.
    fn replay(&self, mut log: Log, state: &mut State) {
        let layout = &self.layout;
        let newest = log.full.iter().map(|t| t.seq).chain(log.open.iter().map(|o| o.seq)).max();
        // Where they could not be read, what digests speak of and lie in is not written over.
        let digests = state.root.digests.iter().map(|at| lies_in(layout, at));
        state.seq = newest.into_iter().chain(digests).max().map_or(state.root.seq, |newest| newest + 1);
        // What was swept stays swept, also where the segment that was to be written there is missing.
        log.full.retain(|table| table.seq + layout.segments >= state.seq);
        log.open.retain(|open| open.seq + layout.segments >= state.seq);
        let last = log.last().unwrap_or(0).max(state.root.order).max(self.fence.order) + SLACK;
        state.order = last + if state.lossy { LEAP } else { 0 };
        let full = log.full.iter().map(|table| (table.seq, &table.entries));
        let open = log.open.iter().map(|open| (open.seq, &open.entries));
        let mut all: Vec<(u64, &Entry)> =
            full.chain(open).flat_map(|(seq, entries)| entries.iter().map(move |e| (seq, e))).collect();
        all.retain(|(_, entry)| entry.order >= state.root.order);
        all.sort_by_key(|(_, entry)| entry.order);
        let events =
            all.iter().map(|(seq, entry)| (entry.order, event_of(layout, layout.number(*seq), entry)));
        let events: Vec<(u64, Event)> = events.collect();
        for (_, event) in &events {
            match event.record() {
                Some((place, units)) => {
                    let bytes = units as usize * layout.unit as usize;
                    if layout.holds(place, bytes) {
                        state.index.insert(event.hash, Slot { place, length: bytes as u32, count: 0 });
                    }
                }
                None if state.root.digests.is_empty() => {
                    state.index.remove(event.hash);
                }
                None => {
                    state.index.bury(event.hash);
                }
            }
        }
        state.events = match state.stretch {
            Some(_) => events.into_iter().map(|(_, event)| event).collect(),
            None => Vec::new(),
        };
        for Open { seq, mut image, first, entries, filled } in log.open {
            let length = layout.segment as usize;
            let range = close_left(seq, entries.clone(), first, layout.identity, &mut image[..length]);
            state.left_open.push(Batch {
                seq,
                since: None,
                image: Arc::new(image),
                base: 0,
                ranges: vec![range],
                filled,
                entries,
                seal: true,
                left_open: true,
            });
        }
    }
}

impl Log {
    /// True for something of this log.
    fn take(&mut self, found: Found) -> bool {
        match found {
            Found::Full(table) => self.full.push(table),
            Found::Open(open) => self.open.push(open),
            Found::Unread => {
                self.unread = true;
                return false;
            }
            Found::Other(_) => return false,
        }
        true
    }

    /// One above the highest order that was found.
    fn last(&self) -> Option<u64> {
        let full = self.full.iter().map(|table| table.entries.last().map_or(table.first, |e| e.order));
        let open = self.open.iter().map(|open| open.entries.last().map_or(open.first, |e| e.order));
        full.chain(open).max().map(|order| order + 1)
    }
}

/// The segment with a digest's own record, which is its last one: a sequence number.
fn lies_in(layout: &Layout, at: &DigestAt) -> u64 {
    let ahead = layout.segment_of(at.place) + layout.segments - layout.number(at.last_seq);
    at.last_seq + ahead % layout.segments
}

/// Whether the lower half of a sequence number is one of a later turn.
fn is_later(of: u32, seq: u64) -> bool {
    (of.wrapping_sub(seq as u32) as i32) > 0
}

/// The sequence number and the order that a record at the beginning of some bytes claims to have.
fn first_of(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut fields = Fields(bytes.get(..UNIT)?);
    let is_record = fields.u32() == record::MAGIC;
    fields.0 = &bytes[44..UNIT];
    is_record.then(|| (fields.u32(), fields.u64()))
}

/// What lies where a copy of the ledger has its place.
enum Copy {
    /// None was written there yet.
    Blank,
    Valid(Ledger),
    /// Torn, or spoilt.
    Damaged,
}

/// A segment's table, if it has a valid one; an error where the medium does not give it.
pub fn read_table(reads: &Reads<'_>, layout: &Layout, number: u64) -> io::Result<Option<Table>> {
    let segment = layout.segment as usize;
    let mut length = TABLE_READ.min(segment);
    loop {
        let offset = layout.start(number) + (segment - length) as u64;
        let buffer = reads.read(offset, length)?;
        match Table::decode(layout, number, &buffer[..length]) {
            Ok(table) => return Ok(Some(table)),
            Err(Unreadable::Longer(longer)) if longer > length => length = align_up(longer, BLOCK),
            Err(_) => return Ok(None),
        }
    }
}
