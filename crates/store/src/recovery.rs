//! Recovery: from the medium back to a `State`. Reads only.
//!
//! 1. The newer root says which digests there are: the index is loaded from them later (`loader`). What happened since lies in the
//!    segments from `Root::seq` on.
//! 2. Of these a full segment's table is read; one that was left open is read whole, record by record. They are followed until
//!    some in a row are older: more than can have been in flight when the last process ended.
//! 3. A log without digests, or one that has come round since the root was written, is read whole: every segment's table.
//!
//! Orders rise with sequence numbers, for one segment takes records at a time: so segments are replayed one after the other as they
//! are read, and what was read is let go of.
//!
//! A read that fails is tried again. What cannot be read now may be read well at a later start: so orders leap, which the fence
//! tells later starts, and removals are noted also of keys that the index does not know (`State::lossy`). A ledger that may have said anything is
//! `ledger::UNREADABLE`. What failing reads may cost is bounded: beyond it, the rest counts as unread without being read.

use crate::buffer::Buffer;
use crate::digester::{Behind, most_events};
use crate::engine::{Millis, State};
use crate::format::digest::Event;
use crate::format::fence::{self, Fence, LEAP};
use crate::format::ledger::{self, Ledger};
use crate::format::record::{self, Kind};
use crate::format::root::{self, DigestAt, Root};
use crate::format::table::{self, Entry, Table, Unreadable};
use crate::format::{BLOCK, Fields, Layout, UNIT, align_up};
use crate::index::Index;
use crate::ledger::Copies;
use crate::loader::{TABLE_READ, event_of};
use crate::placement::Standing;
use crate::reads::{PARALLEL, Reads};
use crate::segment::close_left;
use crate::writes::{Batch, DEPTH};
use std::io;
use std::sync::Arc;

/// So many old segments in a row mean that the newest one has been passed: more than can be in flight out of order, with some that
/// were given up.
pub const QUIET: u64 = if cfg!(test) { 12 } else { DEPTH as u64 + 24 };
/// Orders that records may have which no table lists.
const SLACK: u64 = 1 << 20;
/// Bytes of tables that a look at the whole log keeps for when their turn comes; the others are read twice.
const KEPT: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };
/// Bytes of tables that wait to be written to segments that were left open. Of what finds no room, the table is missing still.
pub const LEFT_OPEN: usize = if cfg!(test) { 256 << 10 } else { 4 << 20 };

/// Bytes that a start takes at most until it is done, about, for a log of so many bytes and records of 4 KiB on average.
pub fn most_bytes(size: u64) -> u64 {
    (size / 4096 * size_of::<Entry>() as u64).min(KEPT as u64)
}

/// What is left of it then, until it is written, of so many segments: their tables, or a block of each that is void.
pub fn most_left(size: u64, segments: u64) -> u64 {
    (size / 4096 * size_of::<Entry>() as u64 + segments * BLOCK as u64).min(LEFT_OPEN as u64)
}

/// What a recovery found, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    /// Segments that were looked at.
    pub scanned: u64,
    /// Events that were replayed.
    pub replayed: u64,
    /// A table, the root or the ledger could not be read, for the medium failed.
    pub unread: bool,
    /// Segments that should lie before some that were found, and after others or the root's digests, and do not: damaged, given up, or
    /// lost with a process that was killed. What they removed may be found.
    pub missing: u64,
}

/// What a start knows of the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootFound {
    Known,
    /// Neither copy is valid, but one was there.
    Spoilt,
    /// None is known, and one that does not come may be there.
    Unread,
}

/// What lies in a segment that should have some sequence number.
enum Found {
    Full(Table),
    /// It was left open: what was written of it.
    Open(Open),
    /// What the fence hides.
    Void(Void),
    /// Another turn's, or nothing: the sequence number that its table has.
    Other(Option<u64>),
    Unread,
}

/// A segment of which nothing counts, as its table says, or its records: its sequence number, and the order that it begins with.
struct Void {
    seq: u64,
    first: u64,
}

struct Open {
    seq: u64,
    first: u64,
    entries: Vec<Entry>,
    /// The last blocks of the segment with its table, and where in the segment they begin.
    end: Buffer,
    from: usize,
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
    let (ledger, copies) = recovery.ledger();
    let (root, root_found) = recovery.root();
    let words = index.layout();
    let keeps = if stretch.is_some() { most_events(stretch, layout.segment) } else { 0 };
    let mut log = Log::new(layout, root.clone(), index, keeps);
    let walks = (stretch.is_some() || root.generation > 0) && root_found == RootFound::Known;
    if !walks || !recovery.walk(&mut log) {
        let root = Root { generation: root.generation, ..Root::default() };
        let index = if walks { Index::new(words) } else { log.index };
        log = Log::new(layout, root, index, keeps);
        recovery.survey(&mut log);
    }
    let unread = copies == Copies::Unread || root_found == RootFound::Unread || log.unread;
    let recovered = Recovered { scanned: log.scanned, replayed: log.replayed, unread, missing: log.missing };
    let lossy = unread || root_found == RootFound::Spoilt;
    let mut state = State { stretch, ledger, copies, lossy, ..log.state(&fence) };
    if state.lossy {
        state.order += LEAP;
    }
    if state.root.generation == 0 || stretch.is_none() {
        state.root.seq = layout.oldest(state.seq);
    }
    Ok((state, recovered))
}

/// The log as far as it was replayed, segment by segment.
struct Log {
    layout: Layout,
    root: Root,
    index: Index,
    /// Since the root: what is to be read again, and the events after that, so many at most. 0: none is kept.
    behind: Vec<Behind>,
    events: Vec<Event>,
    keeps: usize,
    left_open: Vec<Batch>,
    left_open_bytes: usize,
    voids: Vec<Void>,
    /// The highest sequence number, and one above the highest order.
    newest: Option<u64>,
    order: u64,
    replayed: u64,
    scanned: u64,
    unread: bool,
    missing: u64,
    /// Segments that do not count, since the last one that does.
    hidden: u64,
}

struct Recovery<'a> {
    reads: &'a Reads<'a>,
    layout: Layout,
    fence: Fence,
}

impl Recovery<'_> {
    fn table(&self, number: u64) -> io::Result<Option<Table>> {
        read_table(self.reads, &self.layout, number)
    }

    /// The newer valid copy of the ledger: what was set and counts as written is in both. Where none is valid, what was in it is
    /// unknown, and its generation is above all that there may be.
    fn ledger(&self) -> (Ledger, Copies) {
        let copies = ledger::COPIES.map(|offset| self.ledger_copy(offset));
        let unread = copies.iter().any(|copy| copy.is_err());
        let [a, b] = copies.map(|copy| copy.ok().flatten());
        let same = matches!((&a, &b), (Some(a), Some(b)) if a.bytes == b.bytes);
        match [a, b].into_iter().flatten().max_by_key(|ledger| ledger.generation) {
            Some(newer) => (newer, if unread || same { Copies::Settled } else { Copies::Differ }),
            None => {
                let generation = self.fence.ledger + LEAP;
                let unknown = Ledger { generation, bytes: ledger::UNREADABLE.to_vec() };
                (unknown, if unread { Copies::Unread } else { Copies::Differ })
            }
        }
    }

    /// `None` for one that is torn or spoilt.
    fn ledger_copy(&self, offset: u64) -> io::Result<Option<Ledger>> {
        let mut length = BLOCK;
        loop {
            let buffer = self.reads.read(offset, length)?;
            match Ledger::decode(self.layout.identity, &buffer[..length]) {
                Ok(ledger) => return Ok(Some(ledger)),
                Err(ledger::Unreadable::Longer(longer)) if longer > length => {
                    length = align_up(longer, BLOCK)
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// The newer valid root, which is enough even where the other copy cannot be read: it only says less.
    fn root(&self) -> (Root, RootFound) {
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
            Some(root) if root.generation > 0 || read => (root.clone(), RootFound::Known),
            _ => {
                let found = if read { RootFound::Spoilt } else { RootFound::Unread };
                (Root { generation: LEAP, ..Root::default() }, found)
            }
        }
    }

    /// Follows the log from the root on. False when it has come round since.
    fn walk(&self, log: &mut Log) -> bool {
        let (mut seq, mut quiet) = (log.root.seq.max(self.layout.first()), 0);
        let round = self.layout.overwritten_by(seq);
        while quiet < QUIET && seq < round {
            let seqs = seq..round.min(seq + PARALLEL as u64 * 4);
            seq = seqs.end;
            let seqs: Vec<u64> = seqs.filter(|seq| !self.layout.is_cut(*seq)).collect();
            for (seq, look) in seqs.iter().zip(self.reads.each(&seqs, |&seq| self.look(seq))) {
                log.scanned += 1;
                match look {
                    Found::Other(Some(other)) if other > *seq => return false,
                    look => quiet = if log.replay(look) { 0 } else { quiet + 1 },
                }
                if quiet >= QUIET {
                    break;
                }
            }
        }
        true
    }

    /// Reads every segment's table.
    fn survey(&self, log: &mut Log) {
        let segments = self.layout.segments;
        log.scanned = segments;
        let (mut full, mut kept) = (Vec::new(), 0);
        let numbers: Vec<u64> = (0..segments).collect();
        for some in numbers.chunks(PARALLEL * 4) {
            for table in self.reads.each(some, |&number| self.table(number)) {
                log.unread |= table.is_err();
                let Ok(Some(table)) = table else { continue };
                if self.fence.admits(table.seq, table.first) {
                    let bytes = table.entries.len() * size_of::<Entry>();
                    let keeps = kept + bytes <= KEPT;
                    kept += if keeps { bytes } else { 0 };
                    full.push((table.seq, table.orders(), keeps.then_some(table)));
                }
            }
        }
        full.sort_by_key(|(seq, ..)| *seq);
        let mut order = 0;
        // Else what a later life had not found would say which the newest segment is.
        full.retain(|(_, orders, _)| {
            let rises = orders.start >= order;
            order = order.max(orders.end);
            rises
        });
        let full: Vec<_> = full.into_iter().map(|(seq, _, table)| (seq, table)).collect();
        let newest = full.last().map(|(seq, _)| *seq);
        // What lies behind the last full one may have been left open: before anything is replayed it says what has been swept. A life
        // that found none went on where the log has had its size.
        let begin = || self.layout.oldest(self.layout.least_next());
        let since = newest.map_or_else(begin, |newest| newest + 1).max(self.layout.first());
        let behind = since..self.layout.overwritten_by(newest.unwrap_or(0).max(self.layout.least_next()));
        let behind: Vec<u64> = behind.filter(|seq| !self.layout.is_cut(*seq)).collect();
        let behind =
            behind.chunks(PARALLEL * 4).flat_map(|seqs| self.reads.each(seqs, |&seq| self.look(seq)));
        let behind: Vec<Found> = behind
            .filter(|found| match found {
                Found::Open(open) => open.first >= order,
                Found::Unread => {
                    log.unread = true;
                    false
                }
                found => matches!(found, Found::Void(_)),
            })
            .collect();
        let last = behind.iter().filter_map(|found| match found {
            Found::Open(open) => Some(open.seq),
            _ => None,
        });
        let oldest = last.max().or(newest).map_or(since, |last| self.layout.oldest(last + 1));
        let mut full = full.into_iter().skip_while(|(seq, _)| *seq < oldest).peekable();
        let seqs: Vec<u64> = (oldest..since).filter(|seq| !self.layout.is_cut(*seq)).collect();
        for seqs in seqs.chunks(PARALLEL * 4) {
            let known =
                seqs.iter().map(|seq| (*seq, full.next_if(|(of, _)| of == seq).and_then(|(_, table)| table)));
            let known: Vec<_> = known.collect();
            // What should be full and is not may have been left open.
            let found = self.reads.each(&known, |(seq, table)| match table {
                Some(table) if self.begins(table) => None,
                _ => Some(self.look(*seq)),
            });
            for (found, (_, table)) in found.into_iter().zip(known) {
                if let Some(found) = found.or(table.map(Found::Full)) {
                    log.replay(found);
                }
            }
        }
        behind.into_iter().for_each(|found| {
            log.replay(found);
        });
    }

    /// What lies where the segment with this sequence number should.
    fn look(&self, seq: u64) -> Found {
        let number = self.layout.number(seq);
        let Ok(table) = self.table(number) else { return Found::Unread };
        let (table, hidden) = match table {
            Some(table) if !self.fence.admits(table.seq, table.first) => (None, Some(table)),
            table => (table, None),
        };
        let table = match table {
            Some(table) if table.seq == seq && self.begins(&table) => return Found::Full(table),
            table => table,
        };
        let Ok(block) = self.reads.read(self.layout.start(number), BLOCK) else { return Found::Unread };
        let begins = first_of(&block);
        match begins {
            Some((of, order)) if of == seq as u32 && self.fence.admits(seq, order) => {
                match self.left_open(seq) {
                    Err(_) => return Found::Unread,
                    Ok(Some(open)) => return Found::Open(open),
                    Ok(None) => {}
                }
            }
            // It was opened again since, and left open: the log has come round.
            Some((of, order)) if is_later(of, seq) && self.fence.admits(seq, order) => {
                let later = seq + u64::from(of.wrapping_sub(seq as u32));
                if let Ok(Some(_)) = self.left_open(later) {
                    return Found::Other(Some(later));
                }
            }
            _ => {}
        }
        match (table, hidden.filter(|table| table.seq == seq), begins) {
            // Its records are lost, or this block is. What its keys had before does not come back, nor what was removed.
            (Some(table), ..) if table.seq == seq => Found::Full(table.without_answers()),
            (None, Some(Table { first, entries, .. }), _) if !entries.is_empty() => {
                Found::Void(Void { seq, first })
            }
            (None, None, Some((of, first))) if of == seq as u32 && !self.fence.admits(seq, first) => {
                match self.left_open(seq) {
                    Ok(Some(_)) => Found::Void(Void { seq, first }),
                    _ => Found::Other(None),
                }
            }
            (table, ..) => Found::Other(table.map(|table| table.seq)),
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
        let Some(first) = orders.first().copied() else { return Ok(None) };
        let mut image = image;
        let range = close_left(seq, entries.clone(), first, layout.identity, &mut image[..length]);
        let mut end = Buffer::new(range.len());
        end.copy_from_slice(&image[range.clone()]);
        Ok(Some(Open { seq, first, entries, end, from: range.start }))
    }
}

impl Log {
    fn new(layout: Layout, root: Root, index: Index, keeps: usize) -> Log {
        Log {
            layout,
            root,
            index,
            behind: Vec::new(),
            events: Vec::new(),
            keeps,
            left_open: Vec::new(),
            left_open_bytes: 0,
            voids: Vec::new(),
            newest: None,
            order: 0,
            replayed: 0,
            scanned: 0,
            unread: false,
            missing: 0,
            hidden: 0,
        }
    }

    /// Brings what was found into the index, after all that lies in older segments. True for something of this log.
    fn replay(&mut self, found: Found) -> bool {
        match found {
            // A life that had not found it has written what lies before.
            Found::Full(Table { seq, first, .. }) | Found::Open(Open { seq, first, .. })
                if first < self.order =>
            {
                self.voids.push(Void { seq, first });
                self.hidden += 1;
                return false;
            }
            Found::Void(void) => {
                self.voids.push(void);
                self.hidden += 1;
                return false;
            }
            Found::Full(Table { seq, first, entries }) => self.apply(seq, first, &entries),
            Found::Open(open) => {
                self.apply(open.seq, open.first, &open.entries);
                self.close(open, None);
            }
            Found::Unread => {
                self.unread = true;
                return false;
            }
            Found::Other(_) => return false,
        }
        true
    }

    fn apply(&mut self, seq: u64, first: u64, entries: &[Entry]) {
        debug_assert!(self.newest.is_none_or(|newest| newest < seq), "one after the other");
        let (layout, number) = (self.layout, self.layout.number(seq));
        self.missing += self.missing_before(seq);
        self.hidden = 0;
        let last = entries.last().map_or(first, |entry| entry.order);
        (self.newest, self.order) = (Some(seq), self.order.max(last + 1));
        // What it has was swept before its turn, and is not swept again.
        let departed = layout.overwritten_by(seq) < self.root.swept;
        for entry in entries.iter().filter(|entry| entry.order >= self.root.order) {
            let event = event_of(&layout, number, entry);
            match event.record().filter(|_| !departed) {
                Some((place, units)) => {
                    let bytes = units as usize * layout.unit as usize;
                    if layout.holds(place, bytes) {
                        self.index.insert(event.hash, Standing::Unknown.slot(place, bytes as u32));
                    }
                }
                None if self.root.digests.is_empty() => {
                    self.index.remove(event.hash);
                }
                None => {
                    self.index.bury(event.hash);
                }
            }
            self.replayed += 1;
            if self.keeps > 0 {
                self.events.push(event);
            }
        }
        if self.keeps > 0 && self.events.len() >= self.keeps {
            self.behind.push(Behind { order: last + 1, seq });
            self.events = Vec::new();
        }
    }

    /// Segments between this one and what was found before, which say nothing.
    fn missing_before(&self, seq: u64) -> u64 {
        let has_digests = !self.root.digests.is_empty();
        let from = self.newest.map(|newest| newest + 1).or(has_digests.then_some(self.root.seq));
        let Some(from) = from else { return 0 };
        let between = (from..seq).filter(|seq| !self.layout.is_cut(*seq)).count() as u64;
        between.saturating_sub(self.hidden)
    }

    /// The next fence replaces the one that hides a void, and behind it the log goes on: what it has must not come back then.
    fn close_voids(&mut self) {
        let (segment, newest) = (self.layout.segment as usize, self.newest);
        for Void { seq, first } in std::mem::take(&mut self.voids) {
            if newest.is_some_and(|newest| seq < newest) {
                let mut end = Buffer::new(BLOCK);
                Table { seq, first, entries: Vec::new() }.encode(self.layout.identity, &mut end);
                // Nothing counts as written before: a removal of what it had is not noted.
                self.close(Open { seq, first, entries: Vec::new(), end, from: segment - BLOCK }, Some(0));
            }
        }
    }

    /// A segment gets its table. `since`: see `Batch`.
    fn close(&mut self, open: Open, since: Option<Millis>) {
        let Open { seq, entries, end, from, .. } = open;
        let bytes = end.len() + entries.len() * size_of::<Entry>();
        if self.left_open_bytes + bytes > LEFT_OPEN {
            return;
        }
        self.left_open_bytes += bytes;
        let whole = 0..end.len();
        self.left_open.push(Batch {
            seq,
            since,
            base: from,
            ranges: vec![whole],
            image: Arc::new(end),
            filled: 0,
            entries,
            seal: true,
            left_open: true,
        });
    }

    /// What the engine goes on from.
    fn state(mut self, fence: &Fence) -> State {
        self.close_voids();
        let Log { layout, root, index, behind, events, left_open, newest, order, .. } = self;
        // Where they could not be read, what digests speak of and lie in is not written over.
        let digests = root.digests.iter().filter_map(|at| lies_in(&layout, at));
        let seq = newest.into_iter().chain(digests).max().map_or(root.seq, |newest| newest + 1);
        // What was newer may have been cut off.
        let seq = seq.max(layout.least_next());
        let end = order.max(root.order);
        let order = (end.max(fence.order) + SLACK).max(fence.life + LEAP);
        let blank = State::blank(layout, index);
        State { seq, order, end, root, behind, events, left_open, fence: *fence, is_first: false, ..blank }
    }
}

/// The segment with a digest's own record, which is its last one: a sequence number, unless it was cut off.
fn lies_in(layout: &Layout, at: &DigestAt) -> Option<u64> {
    layout.first_turn_from(layout.segment_of(at.place), at.last_seq)
}

/// Whether the lower half of a sequence number is one of a later turn.
fn is_later(of: u32, seq: u64) -> bool {
    (of.wrapping_sub(seq as u32) as i32) > 0
}

/// The sequence number and the order that a record at the beginning of some bytes claims to have.
pub fn first_of(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut fields = Fields(bytes.get(..UNIT)?);
    let is_record = fields.u32() == record::MAGIC;
    fields.0 = &bytes[44..UNIT];
    is_record.then(|| (fields.u32(), fields.u64()))
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

/// The root as it is on the medium.
pub fn root_of(reads: &Reads<'_>, layout: Layout) -> Root {
    Recovery { reads, layout, fence: Fence::default() }.root().0
}

/// What a segment lists, if it is of that turn; of one that was left open, what lies there.
pub fn entries_of(reads: &Reads<'_>, layout: Layout, seq: u64) -> io::Result<Vec<Entry>> {
    let found = Recovery { reads, layout, fence: Fence::default() }.look(seq);
    match found {
        Found::Full(Table { entries, .. }) | Found::Open(Open { entries, .. }) => Ok(entries),
        Found::Void(_) | Found::Other(_) => Ok(Vec::new()),
        Found::Unread => Err(io::Error::other("a segment does not come")),
    }
}

/// Answers that the table of a segment lists which does not begin as that says: they may be there, or lost.
pub fn doubtful_of(reads: &Reads<'_>, layout: Layout, seq: u64, entries: &[Entry]) -> io::Result<Vec<Entry>> {
    if entries.iter().any(|entry| entry.kind.is_answer()) {
        return Ok(Vec::new());
    }
    let table = read_table(reads, &layout, layout.number(seq))?.filter(|table| table.seq == seq);
    let listed = table.map_or(Vec::new(), |table| table.entries);
    Ok(listed.into_iter().filter(|entry| entry.kind.is_answer()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full index had the sweep come by where the replay begins.
    #[test]
    fn what_was_swept_before_its_turn_is_not_replayed() {
        let layout = Layout::new(64 << 10, 130, 7);
        let root = Root { generation: 1, swept: 135, ..Root::default() };
        let mut log = Log::new(layout, root, Index::of(&layout, 1_000), 0);
        let put = |n| Entry { hash: layout.mix(n), offset: 0, units: 2, order: n, kind: Kind::Object };
        log.apply(4, 1, &[put(1)]);
        log.apply(5, 2, &[put(2)]);
        let there = [1, 2].map(|n| log.index.find(layout.mix(n)).is_some());
        assert_eq!(there, [false, true]);
    }
}
