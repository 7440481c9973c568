//! The index is loaded after a start, part by part, from the digests: parts that are asked for first, the others in the background.
//!
//! A part's events are applied from the newest digest to the oldest, where the index knows nothing newer of the key. Until a part
//! is loaded, the index keeps what was removed of it as a tombstone. Where a digest is damaged, or cannot be read, the tables of its
//! segments say the same; what cannot be read of these either is lost.

use crate::buffer::Buffer;
use crate::engine::Op;
use crate::format::digest::{self, Event, Head, PAGE};
use crate::format::root::DigestAt;
use crate::format::table::{Table, Unreadable};
use crate::format::{BLOCK, Layout, align_down, align_up};
use crate::index::{Index, Slot};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of pages that are read for one batch of parts, about: memory and read sizes balance.
const BATCH: u64 = 4 << 20;
/// Bytes that loading takes at most, about: a batch with its events, and reads in flight. Directories come on top, a fifth of a
/// per cent of the digests.
pub const MOST: u64 = 3 * BATCH;
/// Reads in flight.
const DEPTH: usize = 16;
/// Events applied in one step: puts wait no longer than that takes.
const STEP: usize = 2048;
/// Bytes read of a segment's end at first.
pub const TABLE_READ: usize = 4 * BLOCK;

pub struct Loader {
    layout: Layout,
    /// Newest first.
    sources: Vec<Source>,
    is_loaded: Vec<bool>,
    left: usize,
    /// Entries that the index had before.
    before: usize,
    /// Parts that somebody waits for.
    wanted: VecDeque<usize>,
    /// Parts before this one are loaded.
    next: usize,
    batch: Option<Batch>,
    /// Events are lost: what the index does not know of may lie in the log.
    pub lossy: bool,
    running: usize,
}

struct Source {
    at: DigestAt,
    state: State,
}

enum State {
    Unread,
    Reading,
    Known(Head),
    /// It cannot be used: its segments' tables are read instead, from this sequence number on. What they say.
    Tables {
        next: u64,
        length: usize,
        sent: bool,
        events: Vec<(u64, Event)>,
    },
    /// All of it, sorted by hash.
    Memory(Vec<Event>),
}

/// Parts that are loaded together.
struct Batch {
    parts: Range<usize>,
    /// Hashes, both included.
    first: u64,
    last: u64,
    reads: VecDeque<Read>,
    running: usize,
    /// By source.
    events: Vec<Vec<Event>>,
    /// What is applied next: a source, and an event of it.
    applied: (usize, usize),
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
    Pages(Read),
}

impl Loader {
    pub fn new(layout: Layout, digests: &[DigestAt], index: &Index) -> Loader {
        let sources: Vec<Source> =
            digests.iter().rev().map(|at| Source { at: *at, state: State::Unread }).collect();
        let loaded = sources.is_empty();
        let left = if loaded { 0 } else { index.parts() };
        Loader {
            layout,
            sources,
            is_loaded: vec![loaded; index.parts()],
            left,
            before: index.len(),
            wanted: VecDeque::new(),
            next: 0,
            batch: None,
            lossy: false,
            running: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    pub fn is_loaded(&self, part: usize) -> bool {
        self.left == 0 || self.is_loaded[part]
    }

    /// Parts that are not loaded yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Somebody waits for a part.
    pub fn want(&mut self, part: usize) {
        if !self.is_loaded(part) && !self.wanted.contains(&part) {
            self.wanted.push_back(part);
        }
    }

    pub fn next_io(&mut self, index: &Index, newest: u64) -> Option<(Loading, Op)> {
        if self.left == 0 || self.running >= DEPTH {
            return None;
        }
        let next = self.next_source(newest).or_else(|| self.next_pages(index, newest))?;
        self.running += 1;
        Some(next)
    }

    /// What is to be known of the digests before a part can be loaded.
    fn next_source(&mut self, newest: u64) -> Option<(Loading, Op)> {
        let layout = self.layout;
        for (n, Source { at, state }) in self.sources.iter_mut().enumerate() {
            match state {
                State::Unread if at.last_seq + layout.segments <= newest => {
                    *state = State::Memory(Vec::new())
                }
                State::Unread => {
                    let sane = layout.holds(at.place, at.bytes as usize);
                    if !sane {
                        *state = tables_of(at, &layout);
                        continue;
                    }
                    *state = State::Reading;
                    let start = layout.offset(at.place);
                    let skip = start as usize % BLOCK;
                    let length = align_up(skip + at.bytes as usize, BLOCK);
                    return Some((Loading::Head(n, skip), Op::Read { offset: start - skip as u64, length }));
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

    /// Chooses the next parts, and what has to be read for them.
    fn begin(&mut self, index: &Index, newest: u64) {
        let parts = loop {
            let Some(part) = self.wanted.pop_front() else { break self.background() };
            if !self.is_loaded[part] {
                break part..part + 1;
            }
        };
        if parts.is_empty() {
            return;
        }
        let first = index.first_of(parts.start);
        let last = if parts.end < index.parts() { index.first_of(parts.end) - 1 } else { u64::MAX };
        let mut reads = VecDeque::new();
        for (n, Source { at, state }) in self.sources.iter().enumerate() {
            let State::Known(head) = state else { continue };
            if at.last_seq + self.layout.segments <= newest {
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
        let events = self.sources.iter().map(|source| match &source.state {
            State::Memory(events) => {
                let from = events.partition_point(|event| event.hash < first);
                let to = events.partition_point(|event| event.hash <= last);
                events[from..to].to_vec()
            }
            _ => Vec::new(),
        });
        let events = events.collect();
        self.batch = Some(Batch { parts, first, last, reads, running: 0, events, applied: (0, 0) });
    }

    /// The next parts that nobody asked for: as many as `BATCH` bytes are of.
    fn background(&mut self) -> Range<usize> {
        while self.next < self.is_loaded.len() && self.is_loaded[self.next] {
            self.next += 1;
        }
        let pages = |source: &Source| match &source.state {
            State::Known(head) => head.pages(),
            _ => 0,
        };
        let pages: u64 = self.sources.iter().map(pages).sum();
        let part = (pages * PAGE as u64 / self.is_loaded.len() as u64).max(1);
        let most = self.next + (BATCH / part).max(1) as usize;
        let mut end = self.next;
        while end < most.min(self.is_loaded.len()) && !self.is_loaded[end] {
            end += 1;
        }
        self.next..end
    }

    /// The outcome of what was handed out.
    pub fn done(&mut self, loading: Loading, bytes: Option<&[u8]>, newest: u64) {
        self.running -= 1;
        match loading {
            Loading::Head(n, skip) => {
                let Source { at, state } = &mut self.sources[n];
                let identity = self.layout.identity;
                let head = bytes.and_then(|bytes| {
                    digest::parse_head(identity, at, &bytes[skip..skip + at.bytes as usize])
                });
                let layout = &self.layout;
                let head = head.filter(|head| {
                    let mut places = head.places.iter().enumerate();
                    places.all(|(n, place)| layout.holds(*place, digest::pages_size(head.pages_in(n))))
                });
                *state = head.map_or_else(|| tables_of(at, layout), State::Known);
            }
            Loading::Table(n, length) => self.table_done(n, length, bytes, newest),
            Loading::Pages(read) => self.pages_done(read, bytes),
        }
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
                    *state = tables_of(at, &self.layout);
                }
                // It begins anew when the tables have been read.
                batch.reads.clear();
                batch.applied = (usize::MAX, 0);
            }
        }
        if batch.applied.0 == usize::MAX && batch.running == 0 {
            let parts = batch.parts.clone();
            self.batch = None;
            parts.rev().for_each(|part| self.wanted.push_front(part));
        }
    }

    fn table_done(&mut self, n: usize, read: usize, bytes: Option<&[u8]>, newest: u64) {
        let (layout, Source { at, state }) = (&self.layout, &mut self.sources[n]);
        let State::Tables { next, length, sent, events } = state else { return };
        *sent = false;
        let decoded = bytes.map(|bytes| Table::decode(layout, layout.number(*next), &bytes[..read]));
        match decoded {
            Some(Err(Unreadable::Longer(more))) => {
                *length = align_up(more, BLOCK);
                return;
            }
            Some(Ok(table)) if table.seq == *next => {
                events
                    .extend(events_of(layout, &table).filter(|(order, _)| (at.from..at.to).contains(order)));
            }
            // Overwritten since: nothing of it counts.
            _ if *next + layout.segments <= newest => {}
            _ => self.lossy = true,
        }
        *length = TABLE_READ;
        *next += 1;
        if *next > at.last_seq {
            let mut events = std::mem::take(events);
            events.sort_by_key(|(order, _)| *order);
            let events = events.into_iter().map(|(_, event)| event).collect();
            *state = State::Memory(digest::last_of_each(events));
        }
    }

    /// Loads all there is, now. `read(offset, length)` gives the bytes, or `None` where they cannot be read.
    pub fn load_all(
        &mut self,
        index: &Index,
        newest: u64,
        swept: Option<u64>,
        read: impl Fn(u64, usize) -> Option<Buffer>,
    ) {
        while !self.is_done() {
            if let Some((loading, Op::Read { offset, length })) = self.next_io(index, newest) {
                let bytes = read(offset, length);
                self.done(loading, bytes.as_deref(), newest);
            } else {
                self.step(index, swept, usize::MAX);
            }
        }
    }

    /// True when a batch has been read, and is to be applied.
    pub fn has_work(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.reads.is_empty() && batch.running == 0)
    }

    /// Entries that the index may have when the batch is loaded: each part has its share of the room, or the last ones had none.
    fn room(&self, most: usize) -> usize {
        let parts = self.is_loaded.len();
        let batch = self.batch.as_ref().map_or(0, |batch| batch.parts.len());
        let loaded = (parts - self.left + batch).min(parts) as u64;
        let spare = most.saturating_sub(self.before) as u64;
        self.before + (u128::from(spare) * u128::from(loaded) / parts as u128) as usize
    }

    /// Applies some of what was read; true when that was not all. `swept`: segments with this sequence number and lower ones
    /// have left the index. It takes no more than `most` entries: what finds no room is lost.
    pub fn step(&mut self, index: &Index, swept: Option<u64>, most: usize) -> bool {
        let room = self.room(most);
        let Some(batch) = self.batch.as_mut().filter(|b| b.reads.is_empty() && b.running == 0) else {
            return false;
        };
        for _ in 0..STEP {
            let (source, n) = batch.applied;
            let Some(events) = batch.events.get(source) else {
                for part in batch.parts.clone() {
                    index.clear_tombstones(part);
                    self.left -= usize::from(!std::mem::replace(&mut self.is_loaded[part], true));
                }
                self.batch = None;
                if self.left == 0 {
                    (self.sources, self.wanted) = Default::default();
                }
                return self.left > 0;
            };
            let Some(event) = events.get(n) else {
                batch.applied = (source + 1, 0);
                continue;
            };
            batch.applied.1 += 1;
            let at = &self.sources[source].at;
            match event.record() {
                Some((place, units)) => {
                    let bytes = units as usize * self.layout.unit as usize;
                    let lives = self.layout.holds(place, bytes)
                        && self
                            .layout
                            .seq_of(self.layout.segment_of(place), at.last_seq)
                            .is_some_and(|seq| swept.is_none_or(|swept| seq > swept));
                    // What the key had before lay in older segments, which have gone too.
                    if lives && index.len() >= room {
                        self.lossy = true;
                    } else if lives {
                        index.insert_if_absent(event.hash, Slot { place, length: bytes as u32, count: 0 });
                    }
                }
                None if index.find(event.hash).is_none() => {
                    index.bury(event.hash);
                }
                None => {}
            }
        }
        true
    }
}

fn tables_of(at: &DigestAt, layout: &Layout) -> State {
    // A segment's earlier turns are gone.
    let next = at.first_seq.max((at.last_seq + 1).saturating_sub(layout.segments));
    State::Tables { next, length: TABLE_READ, sent: false, events: Vec::new() }
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
    use std::cell::Cell;

    #[test]
    fn a_digest_of_many_turns_costs_each_segment_one_read() {
        let layout = Layout::new(16 << 10, 20, 7);
        let index = Index::of(&layout, 1_000);
        // Its place is none of the cache, so that the tables are read instead.
        let at = DigestAt { from: 0, to: 9, first_seq: 0, last_seq: 1000, place: u64::MAX, bytes: u32::MAX };
        let mut loader = Loader::new(layout, &[at], &index);
        let reads = Cell::new(0);
        loader.load_all(&index, at.last_seq, None, |offset, length| {
            assert!(offset + length as u64 <= layout.size());
            reads.set(reads.get() + 1);
            None
        });
        assert!(loader.lossy && index.is_empty());
        assert_eq!(reads.get(), layout.segments);
    }
}
