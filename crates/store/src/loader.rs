//! The index is loaded after a start, part by part, from the digests: parts that are asked for first, the others in the background.
//!
//! Of a key the newest digest that has it counts, unless the index knows something newer. Until a part is loaded, the index keeps
//! what was removed of it as a tombstone. Where a digest is damaged, or cannot be read, the tables of its segments say the same, and what
//! the life that made it could not read besides; what cannot be read of these either is lost.
//!
//! Who owns the loader holds a lock that puts need: here only accounts are kept. What takes long is handed out (`Op`): reads, the
//! sorting of what tables say, and the `Work` on the index, which locks out no more than the writers of one part at a time.

use crate::buffer::Buffer;
use crate::digester;
use crate::engine::{Answer, Op};
use crate::format::digest::{self, EVENTS, Event, Head, PAGE};
use crate::format::root::DigestAt;
use crate::format::table::{Table, Unreadable};
use crate::format::{BLOCK, Layout, align_down, align_up};
use crate::index::{Entry, Index, Slot};
use crate::placement::Standing;
use crate::recovery::first_of;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Bytes of pages that are read for one batch, about: memory and read sizes balance.
const BATCH: u64 = 4 << 20;
/// Bytes that may stand for digests of which only the tables can be read: as many as those of records of 4 KiB have. What they say
/// beyond is lost.
const TABLES: Range<u64> = 1 << 20..16 << 20;
/// Reads in flight.
const DEPTH: usize = 16;
/// Bytes read of a segment's end at first.
pub const TABLE_READ: usize = 4 * BLOCK;

/// Bytes that loading takes at most, about: a batch with its entries and its reads, what stands for damaged digests, and the
/// directories of digests of records of 1 KiB on average.
pub fn most_bytes(segments: u64, segment: u32) -> u64 {
    let Some(stretch) = digester::stretch(segments) else { return 0 };
    let pages = stretch * u64::from(segment) / 1024 / EVENTS as u64 + 1;
    3 * BATCH + most_of_tables(segments * u64::from(segment)) + segments.div_ceil(stretch) * pages * 8
}

fn most_of_tables(size: u64) -> u64 {
    (size / 4096 * size_of::<Event>() as u64).clamp(TABLES.start, TABLES.end)
}

/// Which parts of the index are loaded, for readers that hold no lock.
pub struct Loaded {
    parts: Box<[AtomicBool]>,
    left: AtomicUsize,
}

impl Loaded {
    pub fn has(&self, part: usize) -> bool {
        self.left() == 0 || self.parts[part].load(Acquire)
    }

    /// Parts that are not.
    pub fn left(&self) -> usize {
        self.left.load(Acquire)
    }

    fn set(&self, part: usize) {
        if !self.parts[part].swap(true, Release) {
            self.left.fetch_sub(1, Release);
        }
    }
}

pub struct Loader {
    layout: Layout,
    /// Newest first.
    sources: Vec<Source>,
    loaded: Arc<Loaded>,
    /// What lies in segments with lower sequence numbers has left the index, or is about to.
    departed: Arc<AtomicU64>,
    /// Entries that the index had before.
    before: usize,
    /// Bytes of pages of one batch, about.
    batch_bytes: u64,
    /// Parts that somebody waits for.
    wanted: VecDeque<usize>,
    /// Parts before this one are loaded.
    next: usize,
    /// A part of which only the hashes before this one are loaded.
    rest: Option<(usize, u64)>,
    batch: Option<Batch>,
    /// Parts that are loaded, but have their tombstones still.
    buried: VecDeque<Range<usize>>,
    /// Events of damaged digests that are in memory.
    held: usize,
    /// What the index does not know of may lie in the log: events are lost, or tables were read in a digest's stead. These may have had
    /// a removal that the digest does not name, so that a later start, which reads the digest, does not find it.
    pub lossy: bool,
    running: usize,
}

struct Source {
    at: DigestAt,
    state: State,
}

enum State {
    Unread,
    /// Or being sorted.
    Reading,
    Known(Head),
    /// It cannot be used: its segments' tables are read instead, from this sequence number on. What they say, in its order.
    Tables {
        next: u64,
        length: usize,
        sent: bool,
        /// The next one's table, until it is known that the segment begins as that says.
        listed: Option<Table>,
        events: Vec<Event>,
    },
    /// All of it, sorted by hash.
    Memory(Arc<[Event]>),
}

/// Hashes that are loaded together: those of some parts, or some of one part.
struct Batch {
    parts: Range<usize>,
    /// Hashes, both included.
    first: u64,
    last: u64,
    reads: VecDeque<Read>,
    running: usize,
    /// By source.
    events: Vec<Vec<Event>>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// A page is damaged: it begins anew when its digest's tables have been read.
    Broken,
    /// Its work was handed out.
    Sent,
}

/// Some pages of one record of pages.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    source: usize,
    /// Of the device, and how far in the bytes the first page begins.
    offset: u64,
    length: usize,
    skip: usize,
    pages: usize,
}

/// What was handed out.
#[derive(Clone, Copy, Debug)]
pub enum Loading {
    Head(usize, usize),
    Table(usize, usize),
    Sort(usize),
    Pages(Read),
    Batch,
    Tombstones,
}

/// Work on the index that is done with no lock held but those of its parts.
pub enum Work {
    Load(Box<Load>),
    /// These parts are loaded: tombstones are needed no more.
    ClearTombstones(Range<usize>),
}

impl Work {
    pub fn carry_out(self, index: &Index) -> Answer {
        let all = match self {
            Work::Load(load) => load.carry_out(index),
            Work::ClearTombstones(parts) => {
                parts.for_each(|part| index.clear_tombstones(part));
                true
            }
        };
        Answer::Loaded { all }
    }
}

/// A batch that has been read.
pub struct Load {
    layout: Layout,
    parts: Range<usize>,
    /// What was found of each digest, newest first, and the last segment that it is of.
    found: Vec<(u64, Found)>,
    departed: Arc<AtomicU64>,
    /// Entries that it may bring in.
    room: usize,
}

enum Found {
    /// As it was read.
    Pages(Vec<Event>),
    /// Those of these hashes, both included.
    Tables(Arc<[Event]>, u64, u64),
}

impl Loader {
    /// What lies in segments before `departed` is not loaded; the owner raises it before anything is swept.
    pub fn new(layout: Layout, digests: &[DigestAt], index: &Index, departed: Arc<AtomicU64>) -> Loader {
        let sources: Vec<Source> =
            digests.iter().rev().map(|at| Source { at: *at, state: State::Unread }).collect();
        let left = if sources.is_empty() { 0 } else { index.parts() };
        let parts = (0..left).map(|_| AtomicBool::new(false)).collect();
        Loader {
            layout,
            sources,
            loaded: Arc::new(Loaded { parts, left: AtomicUsize::new(left) }),
            departed,
            before: index.len(),
            batch_bytes: BATCH,
            wanted: VecDeque::new(),
            next: 0,
            rest: None,
            batch: None,
            buried: VecDeque::new(),
            held: 0,
            lossy: false,
            running: 0,
        }
    }

    pub fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }

    /// Somebody waits for a part.
    pub fn want(&mut self, part: usize) {
        if !self.loaded.has(part) && !self.wanted.contains(&part) {
            self.wanted.push_back(part);
        }
    }

    /// What is to be done next. `newest`: the youngest segment that was opened; the index takes no more than `most` entries: what
    /// finds no room is lost.
    pub fn next_io(&mut self, index: &Index, newest: u64, most: usize) -> Option<(Loading, Op)> {
        let next = if let Some(parts) = self.buried.pop_front() {
            (Loading::Tombstones, Op::Index(Work::ClearTombstones(parts)))
        } else if self.loaded.left() > 0 && self.running < DEPTH {
            self.next_source(newest)
                .or_else(|| self.next_pages(index, newest))
                .or_else(|| self.next_load(index, most))?
        } else {
            return None;
        };
        self.running += 1;
        Some(next)
    }

    /// What is to be known of the digests before a part can be loaded.
    fn next_source(&mut self, newest: u64) -> Option<(Loading, Op)> {
        let layout = self.layout;
        let oldest = layout.oldest(newest + 1);
        for (n, Source { at, state }) in self.sources.iter_mut().enumerate() {
            if matches!(state, State::Unread) && at.last_seq < oldest {
                *state = State::Memory(Arc::default());
            } else if matches!(state, State::Unread) && !layout.holds(at.place, at.bytes as usize) {
                // It was cut off: each later start does the same.
                *state = tables_of(at, &layout);
            }
            match state {
                State::Unread => {
                    *state = State::Reading;
                    let start = layout.offset(at.place);
                    let skip = start as usize % BLOCK;
                    let length = align_up(skip + at.bytes as usize, BLOCK);
                    return Some((Loading::Head(n, skip), Op::Read { offset: start - skip as u64, length }));
                }
                State::Tables { next, events, .. } if *next > at.last_seq => {
                    let events = std::mem::take(events);
                    *state = State::Reading;
                    return Some((Loading::Sort(n), Op::Digest { events }));
                }
                State::Tables { next, sent: sent @ false, listed: Some(_), .. } => {
                    *sent = true;
                    let start = layout.start(layout.number(*next));
                    return Some((Loading::Table(n, BLOCK), Op::Read { offset: start, length: BLOCK }));
                }
                State::Tables { next, length, sent: sent @ false, .. } => {
                    *sent = true;
                    let length = (*length).min(layout.segment as usize);
                    let end = layout.start(layout.number(*next)) + u64::from(layout.segment);
                    return Some((
                        Loading::Table(n, length),
                        Op::Read { offset: end - length as u64, length },
                    ));
                }
                _ => {}
            }
        }
        None
    }

    fn next_pages(&mut self, index: &Index, newest: u64) -> Option<(Loading, Op)> {
        if self.batch.is_none() {
            let ready = |source: &Source| matches!(source.state, State::Known(_) | State::Memory(_));
            if !self.sources.iter().all(ready) {
                return None;
            }
            self.begin(index, newest);
        }
        let batch = self.batch.as_mut()?;
        let read = batch.reads.pop_front()?;
        batch.running += 1;
        Some((Loading::Pages(read), Op::Read { offset: read.offset, length: read.length }))
    }

    /// Chooses what is loaded next, and what has to be read for it.
    fn begin(&mut self, index: &Index, newest: u64) {
        let pages = |source: &Source| match &source.state {
            State::Known(head) => head.pages(),
            _ => 0,
        };
        let pages: u64 = self.sources.iter().map(pages).sum();
        let part = (pages * PAGE as u64 / index.parts() as u64).max(1);
        let (parts, first) = match self.rest.take() {
            Some((part, first)) => (part..part + 1, first),
            None => {
                let parts = self.choose(part, index.parts());
                (parts.clone(), index.first_of(parts.start))
            }
        };
        if parts.is_empty() {
            return;
        }
        let end = last_of(index, &parts);
        // A part that has far more events than it will have entries comes in pieces: memory has a bound.
        let width = (end - index.first_of(parts.start)) / part.div_ceil(self.batch_bytes);
        let last = if parts.len() == 1 { end.min(first.saturating_add(width)) } else { end };
        let (mut reads, oldest) = (VecDeque::new(), self.layout.oldest(newest + 1));
        for (n, Source { at, state }) in self.sources.iter().enumerate() {
            let State::Known(head) = state else { continue };
            if at.last_seq < oldest {
                continue;
            }
            let pages = head.pages_of(first, last);
            let mut page = pages.start;
            while page < pages.end {
                let (record, nth) = head.record_of(page);
                let end = pages.end.min(page - nth + head.pages_in(record));
                let start = self.layout.offset(head.places[record]) + digest::page_at(nth) as u64;
                let offset = align_down(start as usize, BLOCK) as u64;
                let skip = (start - offset) as usize;
                let length = align_up(skip + (end - page) as usize * PAGE, BLOCK);
                reads.push_back(Read { source: n, offset, length, skip, pages: (end - page) as usize });
                page = end;
            }
        }
        let events = self.sources.iter().map(|_| Vec::new()).collect();
        self.batch = Some(Batch { parts, first, last, reads, running: 0, events, stage: Stage::Reading });
    }

    /// A part that somebody waits for, or else the next parts that nobody asked for: as many as the bytes of a batch are of.
    fn choose(&mut self, part: u64, parts: usize) -> Range<usize> {
        while let Some(wanted) = self.wanted.pop_front() {
            if !self.loaded.has(wanted) {
                return wanted..wanted + 1;
            }
        }
        while self.next < parts && self.loaded.has(self.next) {
            self.next += 1;
        }
        let most = (self.next + (self.batch_bytes / part).max(1) as usize).min(parts);
        let end = (self.next..most).find(|part| self.loaded.has(*part)).unwrap_or(most);
        self.next..end
    }

    /// The work of a batch that has been read.
    fn next_load(&mut self, index: &Index, most: usize) -> Option<(Loading, Op)> {
        let room = self.room(index.parts(), most).saturating_sub(index.len());
        let batch = self.batch.as_mut()?;
        if batch.stage != Stage::Reading || batch.running > 0 || !batch.reads.is_empty() {
            return None;
        }
        batch.stage = Stage::Sent;
        let read = std::mem::take(&mut batch.events);
        let found = self.sources.iter().zip(read).map(|(source, read)| {
            let found = match &source.state {
                State::Memory(events) => Found::Tables(events.clone(), batch.first, batch.last),
                _ => Found::Pages(read),
            };
            (source.at.last_seq, found)
        });
        let (layout, parts, departed) = (self.layout, batch.parts.clone(), self.departed.clone());
        let load = Load { layout, parts, found: found.collect(), departed, room };
        Some((Loading::Batch, Op::Index(Work::Load(Box::new(load)))))
    }

    /// Entries that the index may have when the batch is loaded: each part has its share of the room, or the last ones had none.
    fn room(&self, parts: usize, most: usize) -> usize {
        let batch = self.batch.as_ref().map_or(0, |batch| batch.parts.len());
        let loaded = (parts - self.loaded.left() + batch).min(parts) as u64;
        let spare = most.saturating_sub(self.before) as u64;
        self.before.min(most) + (u128::from(spare) * u128::from(loaded) / parts as u128) as usize
    }

    /// The outcome of what was handed out; `None`: it failed.
    pub fn done(&mut self, loading: Loading, answer: Option<Answer>, index: &Index, newest: u64) {
        self.running -= 1;
        let bytes = match &answer {
            Some(Answer::Read(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        match loading {
            Loading::Head(n, skip) => self.head_done(n, skip, bytes),
            Loading::Table(n, length) => self.table_done(n, length, bytes, newest),
            Loading::Pages(read) => self.pages_done(read, bytes),
            Loading::Sort(n) => {
                let Some(Answer::Digested(events)) = answer else { return };
                self.sources[n].state = State::Memory(events.into());
            }
            Loading::Batch => {
                self.lossy |= !matches!(answer, Some(Answer::Loaded { all: true }));
                self.batch_done(index);
            }
            Loading::Tombstones => {}
        }
    }

    fn head_done(&mut self, n: usize, skip: usize, bytes: Option<&[u8]>) {
        let (layout, Source { at, state }) = (&self.layout, &mut self.sources[n]);
        let head = bytes.and_then(|bytes| {
            digest::parse_head(layout.identity, at, &bytes[skip..skip + at.bytes as usize])
        });
        let head = head.filter(|head| {
            let mut places = head.places.iter().enumerate();
            places.all(|(n, place)| layout.holds(*place, digest::pages_size(head.pages_in(n))))
        });
        self.lossy |= head.is_none();
        *state = head.map_or_else(|| tables_of(at, layout), State::Known);
    }

    fn pages_done(&mut self, read: Read, bytes: Option<&[u8]>) {
        let Some(batch) = &mut self.batch else { return };
        batch.running -= 1;
        let identity = self.layout.identity;
        let decoded = bytes.and_then(|bytes| {
            let pages = bytes[read.skip..].chunks_exact(PAGE).take(read.pages);
            let decoded: Option<Vec<_>> = pages.map(|page| digest::decode_page(identity, page)).collect();
            Some(decoded?.into_iter().flatten())
        });
        match decoded {
            Some(events) => {
                let ours = events.filter(|event| (batch.first..=batch.last).contains(&event.hash));
                batch.events[read.source].extend(ours);
            }
            None => {
                let Source { at, state } = &mut self.sources[read.source];
                if matches!(state, State::Known(_)) {
                    self.lossy = true;
                    *state = tables_of(at, &self.layout);
                }
                batch.reads.clear();
                batch.stage = Stage::Broken;
            }
        }
        if batch.stage == Stage::Broken && batch.running == 0 {
            let (parts, first) = (batch.parts.clone(), batch.first);
            self.batch = None;
            match parts.len() {
                1 => self.rest = Some((parts.start, first)),
                _ => parts.rev().for_each(|part| self.wanted.push_front(part)),
            }
        }
    }

    fn table_done(&mut self, n: usize, read: usize, bytes: Option<&[u8]>, newest: u64) {
        let most = most_of_tables(self.layout.size()) as usize / size_of::<Event>();
        let (layout, Source { at, state }) = (&self.layout, &mut self.sources[n]);
        let State::Tables { next, length, sent, listed, events } = state else { return };
        *sent = false;
        if let Some(table) = listed.take() {
            // As at a start. And of what lives did not know to have been put, they have not noted the removal.
            let begins = bytes.is_none_or(|bytes| first_of(bytes) == Some((table.seq as u32, table.first)));
            let table = if begins && !at.partial { table } else { table.without_answers() };
            let before = events.len();
            let ours = events_of(layout, &table).filter(|(order, _)| (at.from..at.to).contains(order));
            events.extend(ours.map(|(_, event)| event));
            self.held += events.len() - before;
            return self.table_is_done(n, most);
        }
        let decoded = bytes.map(|bytes| Table::decode(layout, layout.number(*next), &bytes[..read]));
        match decoded {
            Some(Err(Unreadable::Longer(more))) => {
                *length = align_up(more, BLOCK);
                return;
            }
            Some(Ok(table)) if table.seq == *next => {
                *listed = Some(table);
                return;
            }
            // Overwritten since: nothing of it counts.
            _ if layout.is_gone(*next, newest) => {}
            _ => self.lossy = true,
        }
        self.table_is_done(n, most);
    }

    /// Goes on with the next one, while there is room for what they say.
    fn table_is_done(&mut self, n: usize, most: usize) {
        let state = &mut self.sources[n].state;
        let State::Tables { next, length, events, .. } = state else { return };
        *length = TABLE_READ;
        *next += 1;
        if self.held > most {
            self.held -= events.len();
            self.lossy = true;
            *state = State::Memory(Arc::default());
        }
    }

    fn batch_done(&mut self, index: &Index) {
        let Some(Batch { parts, last, .. }) = self.batch.take() else { return };
        if last < last_of(index, &parts) {
            self.rest = Some((parts.start, last + 1));
            return;
        }
        parts.clone().for_each(|part| self.loaded.set(part));
        self.buried.push_back(parts);
        if self.loaded.left() == 0 {
            (self.sources, self.wanted) = Default::default();
        }
    }

    /// Loads all there is, now. `read(offset, length)` gives the bytes, or `None` where they cannot be read.
    pub fn load_all(&mut self, index: &Index, newest: u64, read: impl Fn(u64, usize) -> Option<Buffer>) {
        while let Some((loading, op)) = self.next_io(index, newest, usize::MAX) {
            let answer = match op {
                Op::Read { offset, length } => read(offset, length).map(Answer::Read),
                Op::Digest { events } => Some(Answer::Digested(digest::last_of_each(events))),
                Op::Index(work) => Some(work.carry_out(index)),
                Op::Write { .. } | Op::Sync | Op::Verify(_) => None,
            };
            self.done(loading, answer, index, newest);
        }
    }
}

impl Load {
    /// True when all found room.
    fn carry_out(self, index: &Index) -> bool {
        let Load { layout, parts, found, departed, room } = self;
        let first_seq = departed.load(Acquire);
        let sources: Vec<Vec<Event>> = found
            .into_iter()
            .map(|(last_seq, found)| {
                let mut events = match found {
                    Found::Pages(events) => events,
                    Found::Tables(all, first, last) => {
                        let from = all.partition_point(|event| event.hash < first);
                        all[from..all.partition_point(|event| event.hash <= last)].to_vec()
                    }
                };
                // What the key had before lay in older segments, which have gone too.
                events.retain(|event| {
                    event.record().is_none_or(|(place, units)| {
                        layout.holds(place, units as usize * layout.unit as usize)
                            && layout
                                .seq_of(layout.segment_of(place), last_seq)
                                .is_some_and(|seq| seq >= first_seq)
                    })
                });
                // They come record by record of the digest, in any order.
                events.sort();
                events
            })
            .collect();
        let (whole, mut left) = fitting(&sources, index, room).unwrap_or((sources.len(), 0));
        let all = whole == sources.len();
        let fits = |(source, _): &(usize, Event)| {
            let partly = *source == whole && left > 0;
            left -= usize::from(partly);
            partly || *source < whole
        };
        let mut entries = Merged::new(&sources, index).filter(fits).peekable();
        // The sweep goes on meanwhile. It raises `departed` before it removes, so that it removes what is brought in before,
        // and what it no longer finds is not brought in behind it.
        let stays = |slot: Slot| {
            let seq = layout.turn_from(layout.segment_of(slot.place), first_seq);
            seq.is_some_and(|seq| seq >= departed.load(Relaxed))
        };
        for part in parts {
            let ours = std::iter::from_fn(|| entries.next_if(|(_, event)| index.part_of(event.hash) == part));
            let ours = ours.filter_map(|(_, event)| {
                let (place, units) = event.record()?;
                let slot = Standing::Unknown.slot(place, units * layout.unit);
                Some(Entry { print: index.print_of(event.hash), slot })
            });
            index.load(part, ours, stays);
        }
        all
    }
}

/// How many of the digests, newest first, have no more entries than there is room for, and how many the next one may have; `None`:
/// there is room for all.
fn fitting(sources: &[Vec<Event>], index: &Index, room: usize) -> Option<(usize, usize)> {
    if sources.iter().map(Vec::len).sum::<usize>() <= room {
        return None;
    }
    let mut counts = vec![0; sources.len()];
    Merged::new(sources, index).for_each(|(source, _)| counts[source] += 1);
    let mut left = room;
    let whole = counts.iter().position(|count| left.checked_sub(*count).map(|rest| left = rest).is_none());
    whole.map(|whole| (whole, left))
}

/// What digests say of each key, in the order of hashes: as the newest that has the key says, and what is removed not at all. Keys
/// of which the index knows the same are one.
struct Merged<'a> {
    index: &'a Index,
    events: Vec<&'a [Event]>,
    /// What the index knows of each one's next event, the lowest first, and of these the newest digest's.
    next: BinaryHeap<Reverse<((usize, u64), usize)>>,
}

impl<'a> Merged<'a> {
    /// Newest first, each in the order of hashes.
    fn new(sources: &'a [Vec<Event>], index: &'a Index) -> Merged<'a> {
        let events: Vec<&[Event]> = sources.iter().map(|events| &events[..]).collect();
        let mut merged = Merged { index, events, next: BinaryHeap::with_capacity(sources.len()) };
        (0..sources.len()).for_each(|source| merged.wait(source));
        merged
    }

    fn known(&self, event: &Event) -> (usize, u64) {
        (self.index.part_of(event.hash), self.index.print_of(event.hash))
    }

    fn wait(&mut self, source: usize) {
        if let Some(event) = self.events[source].first() {
            self.next.push(Reverse((self.known(event), source)));
        }
    }

    /// The events of a source that are of one key, for all that the index knows: a removal if one of them is.
    fn take(&mut self, known: (usize, u64), source: usize) -> Option<Event> {
        let mut taken: Option<Event> = None;
        while let Some((event, rest)) =
            self.events[source].split_first().filter(|(e, _)| self.known(e) == known)
        {
            taken = taken.filter(|taken| taken.record().is_none()).or(Some(*event));
            self.events[source] = rest;
        }
        self.wait(source);
        taken
    }
}

impl Iterator for Merged<'_> {
    type Item = (usize, Event);

    fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            let Reverse((known, newest)) = self.next.pop()?;
            let event = self.take(known, newest)?;
            while let Some(&Reverse((_, older))) = self.next.peek().filter(|next| next.0.0 == known) {
                self.next.pop();
                self.take(known, older);
            }
            if event.record().is_some() {
                return Some((newest, event));
            }
        }
    }
}

/// The last hash of these parts.
fn last_of(index: &Index, parts: &Range<usize>) -> u64 {
    if parts.end < index.parts() { index.first_of(parts.end) - 1 } else { u64::MAX }
}

fn tables_of(at: &DigestAt, layout: &Layout) -> State {
    // A segment's earlier turns are gone.
    let next = at.first_seq.max(layout.oldest(at.last_seq + 1));
    State::Tables { next, length: TABLE_READ, sent: false, listed: None, events: Vec::new() }
}

/// What a table lists, with its orders.
pub fn events_of(layout: &Layout, table: &Table) -> impl Iterator<Item = (u64, Event)> {
    let number = layout.number(table.seq);
    table.entries.iter().map(move |entry| (entry.order, event_of(layout, number, entry)))
}

pub fn event_of(layout: &Layout, number: u64, entry: &crate::format::table::Entry) -> Event {
    match entry.kind.is_answer() {
        true => {
            let at = entry.offset as usize * layout.unit as usize;
            Event::put(entry.hash, layout.place(number, at), entry.units)
        }
        false => Event::removal(entry.hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use std::cell::Cell;

    #[test]
    fn a_digest_of_many_turns_costs_each_segment_one_read() {
        let layout = Layout::new(16 << 10, 20, 7);
        let index = Index::of(&layout, 1_000);
        // Its place is none of the cache, so that the tables are read instead.
        let at = DigestAt {
            from: 0,
            to: 9,
            first_seq: 0,
            last_seq: 1000,
            place: u64::MAX,
            bytes: u32::MAX,
            partial: false,
        };
        let mut loader = Loader::new(layout, &[at], &index, Arc::default());
        let reads = Cell::new(0);
        loader.load_all(&index, at.last_seq, |offset, length| {
            assert!(offset + length as u64 <= layout.size());
            reads.set(reads.get() + 1);
            None
        });
        assert!(loader.lossy && index.is_empty());
        assert_eq!(reads.get(), layout.segments);
    }

    /// Power went while it was written: a start does not count it, and nor may who reads it for want of a digest.
    #[test]
    fn a_table_does_not_count_whose_segment_does_not_begin_as_it_says() {
        let options = crate::Options { packet: 64 << 10, ..crate::Options::at("") };
        let disk = crate::cases::filled(&options, 20_000, 100);
        let (state, _) = crate::cases::recovered(&disk, &options);
        let (layout, last_seq) = (state.layout, state.seq - 1);
        let at = DigestAt {
            from: 0,
            to: 1 << 62,
            first_seq: 0,
            last_seq,
            place: u64::MAX,
            bytes: u32::MAX,
            partial: false,
        };
        let in_third = || {
            let index = Index::of(&layout, 20_000);
            Loader::new(layout, &[at], &index, Arc::default()).load_all(
                &index,
                last_seq,
                |offset, length| {
                    let mut buffer = Buffer::new(length);
                    disk.read(offset, &mut buffer, length).ok().map(|()| buffer)
                },
            );
            let mut places = Vec::new();
            index.each(|slot| places.push(layout.segment_of(slot.place)));
            (places.iter().filter(|number| **number == 3).count(), places.len())
        };
        let (there, all) = in_third();
        assert!(there > 100 && all > 10_000, "{there} of {all}");
        disk.write(layout.start(3), &[0; BLOCK]).unwrap();
        assert_eq!(in_third(), (0, all - there));
    }

    /// What was replayed at the start is more than the index may have, and some of it has left since.
    #[test]
    fn room_is_never_above_the_bound() {
        let layout = Layout::new(16 << 10, 20, 7);
        let index = Index::of(&layout, 1_000);
        (0..50).for_each(|n| _ = index.insert(layout.mix(n), Standing::Unknown.slot(1 << 15, 64)));
        let at =
            DigestAt { from: 0, to: 9, first_seq: 0, last_seq: 9, place: 1 << 15, bytes: 64, partial: false };
        let loader = Loader::new(layout, &[at], &index, Arc::default());
        assert_eq!((loader.before, loader.room(index.parts(), 40)), (50, 40));
        assert!(loader.room(index.parts(), 200) < 200 && loader.room(index.parts(), 60) >= 50);
    }

    #[test]
    fn a_part_of_many_events_comes_in_pieces() {
        let options = crate::Options { packet: 64 << 10, ..crate::Options::at("") };
        let disk = crate::cases::filled(&options, 20_000, 100);
        let (state, _) = crate::cases::recovered(&disk, &options);
        let read = |offset, length| {
            let mut buffer = Buffer::new(length);
            disk.read(offset, &mut buffer, length).unwrap();
            Some(buffer)
        };
        let mut loader = Loader::new(state.layout, &state.root.digests, &state.index, Arc::default());
        loader.batch_bytes = 4096;
        let mut pieces = 0;
        while let Some((loading, op)) = loader.next_io(&state.index, state.seq - 1, usize::MAX) {
            pieces += usize::from(matches!(loading, Loading::Batch));
            let answer = match op {
                Op::Read { offset, length } => read(offset, length).map(Answer::Read),
                Op::Index(work) => Some(work.carry_out(&state.index)),
                _ => panic!("nothing is damaged"),
            };
            loader.done(loading, answer, &state.index, state.seq - 1);
        }
        assert!(pieces > 3 * state.index.parts() && state.index.len() == 20_000, "{pieces}");
    }

    /// Of these sources, the newest first: hash and place, 0 where it is removed.
    fn loaded(sources: &[&[(u64, u64)]], room: usize) -> (Vec<(u64, u64)>, bool) {
        let layout = Layout::new(16 << 10, 20, 7);
        let index = Index::of(&layout, 1_000);
        let unit = u64::from(layout.unit);
        let event = |(hash, at): (u64, u64)| match at {
            0 => Event::removal(hash),
            _ => Event::put(hash, layout.place(0, (at * unit) as usize), 1),
        };
        let found =
            sources.iter().map(|events| (0, Found::Pages(events.iter().copied().map(event).collect())));
        let load =
            Load { layout, parts: 0..index.parts(), found: found.collect(), departed: Arc::default(), room };
        let all = load.carry_out(&index);
        let hashes = sources.iter().flat_map(|events| events.iter()).map(|(hash, _)| *hash);
        let mut hashes: Vec<u64> = hashes.collect();
        hashes.sort_unstable();
        hashes.dedup();
        let at = |hash| Some((hash, layout.within(index.find(hash)?.place) as u64 / unit));
        (hashes.into_iter().filter_map(at).collect(), all)
    }

    const A: u64 = 5 << 40;
    const B: u64 = 3 << 62;
    const C: u64 = u64::MAX;

    #[test]
    fn the_newest_digest_that_has_a_key_counts() {
        let sources: [&[_]; 3] = [&[(B, 0)], &[(C, 3), (A, 4)], &[(A, 5), (B, 6), (C, 7)]];
        assert_eq!(loaded(&sources, 9), (vec![(A, 4), (C, 3)], true));
        // For all that the index knows, these are one key.
        assert_eq!(loaded(&[&[(A, 0)], &[(A + 1, 2)]], 9), (vec![], true));
        assert_eq!(loaded(&[&[(A, 1), (A + 1, 0)]], 9), (vec![], true));
    }

    #[test]
    fn what_finds_no_room_is_the_oldest() {
        let sources: [&[_]; 3] = [&[(A, 1)], &[(A, 4), (B, 2)], &[(A, 5), (B, 6), (C, 7)]];
        assert_eq!(loaded(&sources, 3), (vec![(A, 1), (B, 2), (C, 7)], true));
        assert_eq!(loaded(&sources, 2), (vec![(A, 1), (B, 2)], false));
        assert_eq!(loaded(&sources, 1), (vec![(A, 1)], false));
        assert_eq!(loaded(&sources, 0), (vec![], false));
    }
}
