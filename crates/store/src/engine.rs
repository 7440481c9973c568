//! The store's core: what is written where, and when. It does no I/O itself and has no clock and no thread: callers
//! pass `now`, take the `Io`s it wants done, and report back. One seed replays a day of it with crashes.
//!
//! The medium is one log, written round and round: segments are opened in cyclic order, and what lies in the next one leaves the
//! index before it is written over. Nothing survives in place; what is worth keeping is put again.
//!
//! Always true:
//! - the index points only to records that were put whole, in an image or on the medium;
//! - every put and removal has an order, higher than all before it: a start goes by that;
//! - what has no image, no free write or no swept segment is refused (`Busy`), never waited for;
//! - a write that fails is tried again, and nothing of it is forgotten meanwhile. Only where one place fails while others
//!   take writes, what lies there is given up; what it said of its keys is then removed by records elsewhere.

use crate::buffer::{Buffer, Pool};
use crate::digester::{Behind, Digester, Wanted};
use crate::fence::Fencer;
use crate::format::digest::{self, Event};
use crate::format::fence::Fence;
use crate::format::ledger::Ledger;
use crate::format::record::{self, About, Kind, Record};
use crate::format::root::Root;
use crate::format::table::{Entry, Table, Unreadable};
use crate::format::{BLOCK, Layout, align_down, align_up};
use crate::index::{Index, Slot};
use crate::ledger::{Copies, LedgerWriter};
use crate::loader::{Loaded, Loader, Loading, TABLE_READ, Work, event_of};
use crate::placement::{Live, Placement, Standing};
use crate::retry::Retry;
use crate::segment::OpenSegment;
use crate::writes::{Batch, Write, WriteQueue};
use crate::{Admission, Refused};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Segments that wait for their write or are being written, at least, and their bytes; beyond, puts are refused. Room
/// for a burst, which does not shrink with the segments.
const QUEUE: usize = 4;
const QUEUE_BYTES: usize = 16 << 20;
/// Segments whose tables are read before their turn comes, at least, and their bytes.
const AHEAD: usize = 4;
const AHEAD_BYTES: usize = 8 << 20;
/// Records of a digest put in one step: puts wait no longer than their copying takes.
const STEP: usize = 2;
/// Removals of keys that the index does not know, while nothing can be written.
const UNKNOWN: usize = 1 << 20;
/// Segments before whose turn the records are read that are to be put again.
const KEEP_AHEAD: usize = 2;
/// Attempts to read the table of a segment whose turn comes.
const TABLE_ATTEMPTS: u32 = 4;
/// Segments that one put may sweep for an index that is full.
const MAKES_WAY: usize = 2;

/// Segments of so many bytes that wait for their write or are being written, at most.
fn queue(segment: usize) -> usize {
    QUEUE.max(QUEUE_BYTES / segment)
}

/// Images of segments that are in memory, at most: the open one, those that wait, what a flush of it writes, and those of which
/// records are to be put again.
pub(crate) fn images(segment: usize) -> usize {
    queue(segment) + 2 + KEEP_AHEAD
}

/// Milliseconds, of any steady clock.
pub type Millis = u64;

/// Something to be done outside; `Engine::done` takes the answer.
pub struct Io {
    pub id: u64,
    pub op: Op,
}

pub enum Op {
    Read {
        offset: u64,
        length: usize,
    },
    Write {
        offset: u64,
        image: Arc<Buffer>,
        range: Range<usize>,
    },
    Sync,
    /// These events are to be sorted (`digest::last_of_each`).
    Digest {
        events: Vec<Event>,
    },
    /// Work on the index (`Work::carry_out`).
    Index(Work),
}

/// What came of an `Op`.
pub enum Answer {
    Read(Buffer),
    Digested(Vec<Event>),
    /// Of work on the index: all that was to be brought in found room.
    Loaded {
        all: bool,
    },
    Done,
}

/// What the engine is built on; `recovery` makes it.
pub struct State {
    pub layout: Layout,
    pub index: Arc<Index>,
    /// Of the segment to open next; its predecessors were open once.
    pub seq: u64,
    /// Of the next event.
    pub order: u64,
    pub root: Root,
    /// Segments for which a digest is made (`digester::stretch`).
    pub stretch: Option<u64>,
    /// Since the root, in their order: events that are not in memory, and those after them. The index has all.
    pub behind: Vec<Behind>,
    pub events: Vec<Event>,
    /// Segments that were left open: their tables, to be written.
    pub left_open: Vec<Batch>,
    pub ledger: Ledger,
    pub copies: Copies,
    /// As it was found; one that could not read all raises another.
    pub fence: Fence,
    /// Something could not be read that a later start may read.
    pub lossy: bool,
}

impl State {
    /// Of a cache that holds nothing.
    pub fn blank(layout: Layout, index: Index) -> State {
        State {
            layout,
            index: Arc::new(index),
            seq: 0,
            order: 1,
            root: Root::default(),
            stretch: crate::digester::stretch(layout.segments),
            behind: Vec::new(),
            events: Vec::new(),
            left_open: Vec::new(),
            ledger: Ledger::default(),
            copies: Copies::Settled,
            fence: Fence::default(),
            lossy: false,
        }
    }
}

/// Which segments have records that are not on the medium, for readers that hold no lock.
#[derive(Default)]
pub struct Unwritten(AtomicU64);

impl Unwritten {
    const COUNT_BITS: u32 = 16;
    /// So many or more: any may be among them.
    const ALL: u64 = (1 << Self::COUNT_BITS) - 1;

    /// Segments with numbers from `first` on, round and round.
    pub(crate) fn set(&self, first: u64, count: u64) {
        self.0.store(first << Self::COUNT_BITS | count.min(Self::ALL), Ordering::Release);
    }

    /// True for a segment that may be among them.
    pub fn has(&self, layout: &Layout, number: u64) -> bool {
        let word = self.0.load(Ordering::Acquire);
        let (first, count) = (word >> Self::COUNT_BITS, word & Self::ALL);
        count == Self::ALL || (number + layout.segments - first) % layout.segments < count
    }
}

pub struct Engine {
    layout: Layout,
    index: Arc<Index>,
    flush_interval: Millis,
    /// Entries that the index may have, about.
    index_max: usize,
    /// Small objects that were used so often are put again; 0: none is.
    cmax: u8,
    placement: Placement,
    pool: Arc<Pool>,
    seq: u64,
    order: u64,
    open: Option<OpenSegment>,
    /// When the oldest of what the open segment has to write was taken; a removal may have waited for a segment first.
    dirty_since: Option<Millis>,
    writes: WriteQueue,
    unwritten: Arc<Unwritten>,
    /// The next segments, in order.
    ahead: VecDeque<Ahead>,
    /// Segments before these, from `seq` on, of which nothing is left in the index: they were swept before their turn.
    early: u64,
    running: HashMap<u64, Running>,
    next_id: u64,
    /// What waits for a segment to be noted in, and since when the first of it does: one for each object that was stored, since
    /// nothing is put while they wait, and `UNKNOWN` of keys that the index does not know.
    removals: VecDeque<u64>,
    removals_since: Option<Millis>,
    digester: Digester,
    last_sync: LastSync,
    loader: Loader,
    loads: bool,
    /// What lies in segments with lower sequence numbers has left the index, or leaves it now.
    departed: Arc<AtomicU64>,
    keeper: LedgerWriter,
    fencer: Fencer,
    /// A segment was given up: nothing counts as written before those with lower sequence numbers than this are, since what they
    /// have of its keys stands for what it said of them. The highest number: nothing does any more, as a removal was lost.
    owed: u64,
    /// Removals are noted also of keys that the index does not know.
    lossy: bool,
    /// What failed last.
    cause: String,
    /// As of the last call that brought the time.
    now: Millis,
    counters: Counters,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub puts: u64,
    pub put_bytes: u64,
    pub refused: u64,
    /// Objects that were not worth their place.
    pub turned_away: u64,
    /// Objects that left with their segment.
    pub swept: u64,
    /// Objects that were used, and put again to stay.
    pub put_again: u64,
    pub segments: u64,
    pub digests: u64,
    /// Writes and syncs that failed; each is tried again.
    pub write_errors: u64,
    /// Segments that were given up, for their place takes no writes.
    pub given_up: u64,
}

/// How far the sync of a clean end is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastSync {
    Wanted,
    Sent,
    Done,
}

/// What a segment takes records for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Object,
    Other,
}

/// A segment whose turn comes soon.
struct Ahead {
    contents: Foreseen,
    /// Of its table: attempts that failed, and when the next one is due.
    failures: u32,
    retry: Retry,
}

impl From<Foreseen> for Ahead {
    fn from(contents: Foreseen) -> Ahead {
        Ahead { contents, failures: 0, retry: Retry::default() }
    }
}

enum Foreseen {
    Unread,
    Reading,
    /// More records than the first small read lists: to be read again, this many bytes.
    Longer(usize),
    /// Some of what it lists may be worth putting again.
    Listed(Table),
    Fetching(Table, Vec<Entry>),
    Known(Table, Kept),
    /// Nothing leaves the index when it is opened: it was never written, or its table is lost.
    Nothing,
}

impl Foreseen {
    fn is_known(&self) -> bool {
        matches!(self, Foreseen::Known(..) | Foreseen::Nothing)
    }
}

/// Records of a segment that is about to be opened which are put again: its bytes from some offset on.
#[derive(Default)]
struct Kept {
    from: usize,
    bytes: Option<Buffer>,
    entries: Vec<Entry>,
}

enum Running {
    Write(Write),
    /// Records to be put again.
    Kept {
        seq: u64,
        from: usize,
    },
    /// The table of the segment that will be opened with this sequence number.
    Table {
        seq: u64,
        length: usize,
    },
    Digest,
    /// Of a table that a digest is made of.
    Gather,
    Ledger,
    Fence,
    LastSync,
    Load(Loading),
}

impl Engine {
    pub fn new(state: State, flush_interval: Millis, pool: Arc<Pool>) -> Engine {
        let State { layout, index, seq, order, root, ledger, lossy, .. } = state;
        let State { stretch, behind, events, left_open, copies, .. } = state;
        let fence = if lossy { Fence { seq, order, ledger: ledger.generation } } else { state.fence };
        // Not all of the log: it has to go on.
        let early = root.swept.saturating_sub(seq).min(layout.segments / 2);
        let mut writes = WriteQueue::default();
        left_open.into_iter().for_each(|batch| writes.push(batch));
        let departed = Arc::new(AtomicU64::new((seq + early).saturating_sub(layout.segments)));
        let engine = Engine {
            loader: Loader::new(layout, &root.digests, &index, departed.clone()),
            digester: Digester::new(&layout, stretch, root, (behind, events), fence, lossy),
            layout,
            index,
            flush_interval,
            index_max: usize::MAX,
            cmax: 0,
            placement: Placement::new(Admission::All, layout.segments, layout.segment.into(), 0),
            pool,
            seq,
            order,
            open: None,
            dirty_since: None,
            writes,
            unwritten: Arc::default(),
            ahead: VecDeque::new(),
            early,
            running: HashMap::new(),
            next_id: 1,
            removals: VecDeque::new(),
            removals_since: None,
            last_sync: LastSync::Done,
            loads: true,
            departed,
            fencer: match lossy {
                true => Fencer::raise(fence),
                false => Fencer::default(),
            },
            keeper: LedgerWriter::new(layout.identity, ledger, copies),
            owed: 0,
            lossy,
            cause: String::new(),
            now: 0,
            counters: Counters::default(),
        };
        engine.publish();
        engine
    }

    /// With an index of at most so many entries. One that is full has the sweep come by early: objects leave before the medium needs
    /// their place.
    pub fn with_index_of(self, entries: u64) -> Engine {
        Engine { index_max: usize::try_from(entries).unwrap_or(usize::MAX), ..self }
    }

    /// That puts small objects again which were used so often when their turn to leave comes; 0: none.
    pub fn with_cmax(self, cmax: u8) -> Engine {
        Engine { cmax, ..self }
    }

    /// That lets in what is worth its place, with about so many objects.
    pub fn with_admission(self, admission: Admission, objects: u64) -> Engine {
        let Layout { segments, segment, .. } = self.layout;
        let placement = Placement::new(admission, segments, segment.into(), objects);
        placement.opened(self.seq, self.early);
        Engine { placement, ..self }
    }

    /// What readers and hits in memory count and ask, without a lock.
    pub(crate) fn live(&self) -> Arc<Live> {
        self.placement.live()
    }

    #[cfg(test)]
    pub(crate) fn placement_for_tests(&mut self) -> &mut Placement {
        &mut self.placement
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[cfg(test)]
    pub(crate) fn digester(&self) -> &Digester {
        &self.digester
    }

    pub fn unwritten(&self) -> Arc<Unwritten> {
        self.unwritten.clone()
    }

    /// Whether an object of so many bytes that was just fetched is worth its place. Who is turned away is remembered.
    pub fn admits(&mut self, hash: u64, bytes: u64) -> Result<Standing, Refused> {
        let standing = self.placement.admits(hash, bytes, self.index.find(hash));
        self.counters.turned_away += u64::from(standing.is_none());
        standing.ok_or(Refused::NotAdmitted)
    }

    /// Puts a record under the key with this mixed hash. What was under it before is gone, whether the new one is taken or not.
    pub fn put(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        standing: Standing,
        now: Millis,
    ) -> Result<(), Refused> {
        match self.place(hash, record, standing, Purpose::Object, now) {
            Ok(()) => {
                self.counters.puts += 1;
                Ok(())
            }
            Err(refused) => {
                self.remove(hash, now);
                self.counters.refused += 1;
                Err(if refused == Refused::Busy && self.is_failing() { Refused::Broken } else { refused })
            }
        }
    }

    /// Puts what was used so often under the key again, if what is there still is at `place`; `None`: in any case. Whether it did:
    /// otherwise all stays as it is. It yields to what is fetched, in the queue of writes and in the index.
    pub fn put_again(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        place: Option<u64>,
        uses: u8,
        now: Millis,
    ) -> bool {
        let there = self.index.find(hash);
        let is_there = |place| there.is_some_and(|slot| slot.place == place);
        let has_room = there.is_some() || self.index.len() < self.index_max;
        let is_busy = self.writes.sealed() >= queue(self.layout.segment as usize) / 2;
        if !place.is_none_or(is_there) || !has_room || is_busy {
            return false;
        }
        self.settle_removals();
        let uses = there.map_or(uses, |slot| uses.max(slot.uses));
        self.removals.is_empty() && self.again(hash, record, uses, Purpose::Other, now)
    }

    fn again(&mut self, hash: u64, record: &Record<'_>, uses: u8, purpose: Purpose, now: Millis) -> bool {
        let placed = self.place(hash, record, Standing::Used(uses), purpose, now).is_ok();
        self.counters.put_again += u64::from(placed);
        placed
    }

    fn place(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        standing: Standing,
        purpose: Purpose,
        now: Millis,
    ) -> Result<(), Refused> {
        let (place, _) = self.append(hash, record, purpose, now)?;
        let bytes = record.size(self.layout.unit);
        self.index.insert(hash, standing.slot(place, bytes as u32));
        let object = match record.kind() {
            Kind::Head => record.length_of_large(),
            Kind::Object => Some(bytes as u64),
            _ => None,
        };
        self.placement.was_put(hash, bytes as u64, object, standing);
        self.counters.put_bytes += bytes as u64;
        Ok(())
    }

    /// Removes what is under the hash: durable one flush interval and the write later. What the index does not know costs nothing,
    /// once the part of it is loaded, and nothing was lost in a start.
    pub fn remove(&mut self, hash: u64, now: Millis) {
        let known = self.index.remove(hash).is_some();
        if !known && !self.may_lie_in_the_log(hash) {
            return;
        }
        if !known && self.removals.len() >= UNKNOWN {
            // A restart may find it: whoever asks is told that nothing is written.
            self.owed = u64::MAX;
            return self.bury(hash);
        }
        self.note_removal(hash, now);
    }

    /// Removes what is under the hash if it still is the record at `place`, which proved to be damaged or another's: a
    /// restart might read it well.
    pub fn forget(&mut self, hash: u64, place: u64, now: Millis) {
        if self.index.remove_at(hash, place).is_some() {
            self.note_removal(hash, now);
        }
    }

    fn may_lie_in_the_log(&self, hash: u64) -> bool {
        self.lossy || self.loader.lossy || self.early > 0 || !self.is_loaded(hash)
    }

    /// What is loaded later does not bring the key back.
    fn bury(&self, hash: u64) {
        if !self.is_loaded(hash) {
            self.index.bury(hash);
        }
    }

    fn note_removal(&mut self, hash: u64, since: Millis) {
        self.bury(hash);
        self.removals.push_back(hash);
        self.removals_since = Some(self.removals_since.unwrap_or(since).min(since));
        self.settle_removals();
    }

    /// True when the index knows all keys that share the hash's part.
    pub fn is_loaded(&self, hash: u64) -> bool {
        self.loader.loaded().has(self.index.part_of(hash))
    }

    /// The same for readers that hold no lock.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loader.loaded().clone()
    }

    /// Parts of the index that are not loaded yet.
    pub fn parts_left(&self) -> usize {
        self.loader.loaded().left()
    }

    /// Somebody waits for the part of the index in which the hash is.
    pub fn want(&mut self, hash: u64) {
        self.loader.want(self.index.part_of(hash));
    }

    /// The bytes of a record whose write is not done, as many as there are: a copy.
    pub fn peek(&self, slot: Slot) -> Option<(Buffer, usize)> {
        let number = self.layout.segment_of(slot.place);
        let start = self.layout.within(slot.place);
        let bytes = match &self.open {
            Some(open) if self.layout.number(open.seq) == number => {
                open.image.get(start..open.filled().min(start + slot.length as usize))?
            }
            _ => {
                let seq = self.layout.seq_of(number, self.seq.checked_sub(1)?)?;
                self.writes.peek(seq, start, slot.length as usize)?
            }
        };
        let mut copy = self.pool.take(bytes.len().max(1));
        copy[..bytes.len()].copy_from_slice(bytes);
        Some((copy, bytes.len()))
    }

    /// What time brings: flushes, further attempts and the steps of a digest. Call when `next_io` has nothing and time
    /// has passed.
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.settle_removals();
        self.keeper.tick(now, self.flush_interval);
        let seq = self.open.as_ref().map_or(self.seq, |open| open.seq);
        self.digester.tick(self.order, seq, false, now);
        self.step_digest(now);
        if self.dirty_since.is_some_and(|since| now.saturating_sub(since) >= self.flush_interval) {
            self.flush_open();
        }
    }

    /// Has a digest made of what happened since the last one.
    pub fn digest(&mut self) {
        let seq = self.open.as_ref().map_or(self.seq, |open| open.seq);
        self.digester.tick(self.order, seq, true, self.now);
    }

    /// True when nothing is in memory only, and no write is in flight.
    pub fn is_idle(&self) -> bool {
        let writes = |running: &Running| {
            matches!(
                running,
                Running::Write(_) | Running::Digest | Running::Ledger | Running::Fence | Running::LastSync
            )
        };
        !self.running.values().any(writes)
            && self.writes.len() == 0
            && self.removals.is_empty()
            && !self.open.as_ref().is_some_and(|o| o.is_dirty())
            && !self.digester.is_active()
            && !self.digester.is_urgent()
            && self.keeper.is_idle()
            && self.last_sync == LastSync::Done
            && !self.fencer.is_raised()
    }

    /// True from a write's failure until all that failed was written, or given up.
    pub fn is_failing(&self) -> bool {
        self.writes.is_failing()
            || [self.keeper.retry, self.digester.retry, self.fencer.retry].iter().any(|r| r.is_failing())
    }

    /// What failed last.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// What failed is tried again without a pause.
    pub fn retry_now(&mut self) {
        self.retries().for_each(Retry::now);
    }

    fn retries(&mut self) -> impl Iterator<Item = &mut Retry> {
        self.writes.retries().chain([
            &mut self.keeper.retry,
            &mut self.digester.retry,
            &mut self.fencer.retry,
        ])
    }

    /// When the oldest of what was taken and is not in the file yet, or not where a restart finds it, was taken; `None`
    /// when there is nothing of that.
    pub fn unwritten_since(&self) -> Option<Millis> {
        if self.digester.is_urgent()
            || self.digester.owes
            || self.owed == u64::MAX
            || self.oldest_unwritten().is_some_and(|seq| seq < self.owed)
        {
            return Some(0);
        }
        let others = [self.dirty_since, self.removals_since, self.keeper.unwritten_since()];
        self.writes.since().into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Writes out what is in memory for good, and syncs: the next start finds no segment left open, also after a loss of power.
    pub fn finish(&mut self) {
        self.keeper.flush();
        self.digester.finish();
        self.last_sync = LastSync::Wanted;
        if self.open.as_ref().is_none_or(|open| open.filled() == 0) || !self.seal() {
            self.flush_open();
        }
    }

    /// The lowest sequence number of a segment with records that are not written.
    fn oldest_unwritten(&self) -> Option<u64> {
        let dirty = self.open.as_ref().filter(|open| open.is_dirty()).map(|open| open.seq);
        self.writes.oldest().into_iter().chain(dirty).min()
    }

    /// Writes out what is in memory without waiting for the interval.
    pub fn flush(&mut self) {
        self.keeper.flush();
        self.flush_open();
    }

    fn flush_open(&mut self) {
        let queue = queue(self.layout.segment as usize);
        let Some(open) = self.open.as_mut().filter(|o| o.is_dirty()) else { return };
        if self.writes.len() > queue || self.writes.is_writing(open.seq) {
            return;
        }
        let range = open.take_flush();
        let whole = 0..range.len();
        let mut copy = self.pool.take(range.len());
        copy[..range.len()].copy_from_slice(&open.image[range.clone()]);
        self.writes.push(Batch {
            seq: open.seq,
            since: self.dirty_since.take(),
            image: Arc::new(copy),
            base: range.start,
            ranges: vec![whole],
            filled: 0,
            entries: open.entries().to_vec(),
            seal: false,
            left_open: false,
        });
    }

    /// The next thing to be done, if any.
    pub fn next_io(&mut self) -> Option<Io> {
        let next = self
            .next_fence_io()
            .or_else(|| self.next_ledger_io())
            .or_else(|| self.next_table())
            .or_else(|| self.next_kept())
            .or_else(|| self.next_write())
            .or_else(|| self.next_digest_io())
            .or_else(|| self.next_last_sync())
            .or_else(|| self.next_load())?;
        Some(self.hand_out(next))
    }

    /// The next of these that is a read of a table, if any.
    pub fn next_read(&mut self) -> Option<Io> {
        let next = self.next_table()?;
        Some(self.hand_out(next))
    }

    fn hand_out(&mut self, (running, op): (Running, Op)) -> Io {
        let id = self.next_id;
        self.next_id += 1;
        self.running.insert(id, running);
        Io { id, op }
    }

    /// Takes the outcome of an `Io`. Its other resources must have been dropped.
    pub fn done(&mut self, id: u64, result: io::Result<Answer>, now: Millis) {
        self.now = now;
        let ok = result.is_ok();
        let running = self.running.remove(&id);
        if let (
            Err(error),
            Some(Running::Write(Write::Range { .. }) | Running::Digest | Running::Ledger | Running::Fence),
        ) = (&result, &running)
        {
            self.counters.write_errors += 1;
            self.cause = error.to_string();
        }
        let bytes = match &result {
            Ok(Answer::Read(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        match running {
            Some(Running::Write(write)) => self.write_done(write, ok),
            Some(Running::Table { seq, length }) => self.table_done(seq, length, bytes),
            Some(Running::Kept { seq, from }) => {
                let bytes = match result {
                    Ok(Answer::Read(bytes)) => Some(bytes),
                    _ => None,
                };
                self.fetched(seq, from, bytes);
                return self.tick(now);
            }
            Some(Running::Load(loading)) => {
                let newest = self.newest();
                self.loader.done(loading, result.ok(), &self.index, newest);
            }
            Some(Running::Digest) => match result {
                Ok(Answer::Digested(events)) => self.digester.sorted(events),
                _ => self.counters.digests += u64::from(self.digester.io_done(ok, now)),
            },
            Some(Running::Gather) => self.digester.gathered(bytes, self.newest(), now),
            Some(Running::Ledger) => self.keeper.io_done(ok, now),
            Some(Running::Fence) => self.fencer.io_done(ok, now),
            // Whoever ends the store does not wait for a disk that fails.
            Some(Running::LastSync) => self.last_sync = LastSync::Done,
            None => debug_assert!(false, "an answer to nothing"),
        }
        self.tick(now);
    }

    // Appending

    /// Finds room for a record: its place, and the segment's sequence number.
    fn append(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        purpose: Purpose,
        now: Millis,
    ) -> Result<(u64, u64), Refused> {
        let unit = self.layout.unit;
        if record.size(unit) > self.layout.segment as usize / 2 {
            return Err(Refused::TooLarge);
        }
        if purpose == Purpose::Object {
            self.settle_removals();
            if !self.removals.is_empty() || !self.has_index_room() {
                return Err(Refused::Busy);
            }
        }
        loop {
            if self.open.is_none() && !self.open_next() {
                return Err(Refused::Busy);
            }
            let Some(open) = &mut self.open else { return Err(Refused::Busy) };
            if let Some(at) = open.append(self.order, hash, record, unit) {
                self.order += 1;
                self.dirty_since.get_or_insert(now);
                let (seq, number) = (open.seq, self.layout.number(open.seq));
                let place = self.layout.place(number, at);
                if let Some(entry) = open.entries().last().filter(|_| record.kind().is_event()) {
                    self.digester.note(event_of(&self.layout, number, entry));
                }
                return Ok((place, seq));
            }
            if !self.seal() {
                return Err(Refused::Busy);
            }
        }
    }

    /// Whether the index has room for one more; a full one is made some by sweeping segments before their turn.
    fn has_index_room(&mut self) -> bool {
        for _ in 0..MAKES_WAY {
            if self.index.len() < self.index_max {
                break;
            }
            // Those that were never opened have nothing to sweep.
            let blank = self.layout.segments.saturating_sub(self.next_swept());
            self.ahead.drain(..self.ahead.len().min(blank as usize));
            self.early += blank;
            self.look_ahead();
            let Some(next) = self.ahead.pop_front_if(|next| next.contents.is_known()) else { break };
            drop(self.sweep(next.contents));
            self.early += 1;
        }
        let full = self.index.len() >= self.index_max;
        if full && self.open.as_ref().is_some_and(|o| o.seq + self.layout.segments == self.next_swept()) {
            // All that is left lies in it.
            self.seal();
        }
        self.look_ahead();
        self.index.len() < self.index_max
    }

    /// Notes the removals that wait.
    fn settle_removals(&mut self) {
        while let Some(&hash) = self.removals.front() {
            let about = About { kind: Kind::Removal, id: hash, length: 0, span: 0, written: 0 };
            let record = Record::new(self.layout.identity, about, &[], &[], &[]).expect("a small record");
            let since = self.removals_since.unwrap_or(self.now);
            if self.append(hash, &record, Purpose::Other, since).is_err() {
                return;
            }
            self.dirty_since = self.dirty_since.into_iter().chain(self.removals_since).min();
            self.removals.pop_front();
        }
        self.removals_since = None;
    }

    /// Hands the open segment to be written; false when too much is in flight.
    fn seal(&mut self) -> bool {
        if self.writes.sealed() >= queue(self.layout.segment as usize) {
            return false;
        }
        if let Some(mut open) = self.open.take() {
            let ranges = open.seal(self.layout.identity);
            self.counters.segments += 1;
            self.writes.push(Batch {
                seq: open.seq,
                since: self.dirty_since.take(),
                base: 0,
                ranges,
                filled: open.filled(),
                entries: open.entries().to_vec(),
                seal: true,
                left_open: false,
                image: Arc::new(open.image),
            });
        }
        true
    }

    // The sweep

    /// The youngest segment that was opened; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.seq.saturating_sub(1)
    }

    /// Segments with this sequence number and lower ones have left the index.
    pub fn swept(&self) -> Option<u64> {
        self.next_swept().checked_sub(self.layout.segments + 1)
    }

    /// The sequence number that the next segment to be swept will be opened with: that of the first in `ahead`.
    fn next_swept(&self) -> u64 {
        self.seq + self.early
    }

    /// Opens the next segment: what lies there leaves the index. False when that is not known yet.
    fn open_next(&mut self) -> bool {
        if self.writes.len() > queue(self.layout.segment as usize) {
            return false;
        }
        self.look_ahead();
        let mut kept = Kept::default();
        if self.early > 0 {
            self.early -= 1;
        } else {
            let Some(Ahead { contents, .. }) = self.ahead.pop_front_if(|a| a.contents.is_known()) else {
                return false;
            };
            kept = self.sweep(contents);
        }
        let image = self.pool.take(self.layout.segment as usize);
        self.open = Some(OpenSegment::new(self.seq, image));
        self.seq += 1;
        self.placement.opened(self.seq, self.early);
        // What was swept stays so once something of this segment is written.
        self.dirty_since.get_or_insert(self.now);
        self.publish();
        self.keep(kept);
        true
    }

    /// What the table lists leaves the index, unless there is something newer of its key; of what is to be put again, what did.
    fn sweep(&mut self, contents: Foreseen) -> Kept {
        // First: what is being loaded meanwhile is left out, or else it is found here.
        self.departed.store((self.next_swept() + 1).saturating_sub(self.layout.segments), Ordering::Release);
        let Foreseen::Known(table, mut kept) = contents else { return Kept::default() };
        let mut left = HashSet::new();
        for entry in table.entries.iter().filter(|entry| entry.kind.is_answer()) {
            let Some(slot) = self.index.remove_at(entry.hash, self.place_of(table.seq, entry)) else {
                continue;
            };
            left.insert(entry.offset);
            if matches!(entry.kind, Kind::Object | Kind::Head) {
                self.placement.was_swept(entry.hash, &slot);
            }
        }
        self.counters.swept += left.len() as u64;
        kept.entries.retain(|entry| left.contains(&entry.offset));
        kept
    }

    fn place_of(&self, seq: u64, entry: &Entry) -> u64 {
        self.layout.place(self.layout.number(seq), entry.offset as usize * self.layout.unit as usize)
    }

    /// Of what a segment lists, the small objects that were used often enough to be put again: at most half of it.
    fn worth_keeping(&self, table: &Table) -> Vec<Entry> {
        let mut used: Vec<(u8, Entry)> = table
            .entries
            .iter()
            .filter(|entry| entry.kind == Kind::Object)
            .filter_map(|entry| {
                let slot = self.index.find(entry.hash)?;
                let stays = slot.place == self.place_of(table.seq, entry) && slot.uses >= self.cmax;
                stays.then_some((slot.uses, *entry))
            })
            .collect();
        used.sort_by_key(|(uses, entry)| (std::cmp::Reverse(*uses), entry.units));
        let (mut kept, mut units) = (Vec::new(), 0);
        for (_, entry) in used {
            units += u64::from(entry.units) * u64::from(self.layout.unit);
            if units > u64::from(self.layout.segment) / 2 {
                break;
            }
            kept.push(entry);
        }
        kept
    }

    /// The next read of records that are to be put again.
    fn next_kept(&mut self) -> Option<(Running, Op)> {
        for at in 0..self.ahead.len().min(KEEP_AHEAD) {
            let Foreseen::Listed(_) = self.ahead[at].contents else { continue };
            let contents = std::mem::replace(&mut self.ahead[at].contents, Foreseen::Nothing);
            let Foreseen::Listed(table) = contents else { continue };
            let kept = self.worth_keeping(&table);
            let unit = self.layout.unit as usize;
            let first = kept.iter().map(|entry| entry.offset as usize * unit).min();
            let end = kept.iter().map(|entry| (entry.offset + entry.units) as usize * unit).max();
            let (Some(first), Some(end)) = (first, end) else {
                self.ahead[at].contents = Foreseen::Known(table, Kept::default());
                continue;
            };
            let (from, end) = (align_down(first, BLOCK), align_up(end, BLOCK));
            let offset = self.layout.start(self.layout.number(table.seq)) + from as u64;
            self.ahead[at].contents = Foreseen::Fetching(table, kept);
            let seq = self.next_swept() + at as u64;
            return Some((Running::Kept { seq, from }, Op::Read { offset, length: end - from }));
        }
        None
    }

    fn fetched(&mut self, seq: u64, from: usize, bytes: Option<Buffer>) {
        let Some(ahead) = seq.checked_sub(self.next_swept()).and_then(|at| self.ahead.get_mut(at as usize))
        else {
            return;
        };
        let contents = std::mem::replace(&mut ahead.contents, Foreseen::Nothing);
        let Foreseen::Fetching(table, entries) = contents else { return };
        ahead.contents = Foreseen::Known(table, Kept { from, bytes, entries });
    }

    /// Puts records again that have just left the index. What proves to be damaged does not come back.
    fn keep(&mut self, kept: Kept) {
        let Kept { from, bytes: Some(bytes), entries } = kept else { return };
        let unit = self.layout.unit as usize;
        for entry in entries {
            let at = entry.offset as usize * unit - from;
            let Some(found) =
                record::parse(self.layout.identity, &bytes[at..at + entry.units as usize * unit])
            else {
                continue;
            };
            let part = |range: Range<usize>| &bytes[at..][range];
            let (key, meta, body) = (part(found.key), part(found.meta), part(found.body));
            let hash = self.layout.mix(crate::Key::new(key.to_vec()).index_hash());
            let record = Record::new(self.layout.identity, found.about, key, meta, body);
            let Some(record) = record.filter(|_| hash == entry.hash && found.about.kind == entry.kind) else {
                continue;
            };
            self.again(hash, &record, self.cmax, Purpose::Other, self.now);
        }
    }

    /// Tells readers which segments to look for in memory.
    fn publish(&self) {
        let first = self.writes.oldest().into_iter().chain(self.open.as_ref().map(|o| o.seq)).min();
        match first {
            Some(first) => self.unwritten.set(self.layout.number(first), self.seq - first),
            None => self.unwritten.set(0, 0),
        }
    }

    /// Notes the segments whose turn comes soon.
    fn look_ahead(&mut self) {
        let layout = self.layout;
        let wanted = AHEAD.max(AHEAD_BYTES / layout.segment as usize).min(layout.segments as usize / 2);
        while self.ahead.len() < wanted {
            let seq = self.next_swept() + self.ahead.len() as u64;
            if seq >= self.seq + layout.segments {
                return;
            }
            let Some(before) = seq.checked_sub(layout.segments) else {
                self.ahead.push_back(Foreseen::Nothing.into());
                continue;
            };
            // A segment whose table is still being written is looked at when that is done.
            if self.writes.is_writing(before) || self.open.as_ref().is_some_and(|o| o.seq == before) {
                return;
            }
            self.ahead.push_back(Foreseen::Unread.into());
        }
    }

    fn next_table(&mut self) -> Option<(Running, Op)> {
        self.look_ahead();
        let (segment, now) = (self.layout.segment as usize, self.now);
        let (at, length) = self.ahead.iter_mut().enumerate().find_map(|(at, ahead)| {
            let length = match ahead.contents {
                _ if !ahead.retry.is_due(now) => return None,
                Foreseen::Unread => TABLE_READ.min(segment),
                Foreseen::Longer(length) => length,
                _ => return None,
            };
            ahead.contents = Foreseen::Reading;
            Some((at, length))
        })?;
        let seq = self.next_swept() + at as u64;
        let end = self.layout.start(self.layout.number(seq)) + segment as u64;
        Some((Running::Table { seq, length }, Op::Read { offset: end - length as u64, length }))
    }

    fn table_done(&mut self, seq: u64, length: usize, bytes: Option<&[u8]>) {
        let layout = self.layout;
        let Some(ahead) = seq.checked_sub(self.next_swept()).and_then(|at| self.ahead.get_mut(at as usize))
        else {
            return;
        };
        let table = bytes.map(|bytes| Table::decode(&layout, layout.number(seq), &bytes[..length]));
        ahead.contents = match table {
            Some(Ok(table)) if table.seq + layout.segments == seq => match self.cmax {
                0 => Foreseen::Known(table, Kept::default()),
                _ => Foreseen::Listed(table),
            },
            Some(Err(Unreadable::Longer(length))) => Foreseen::Longer(align_up(length, BLOCK)),
            None if ahead.failures + 1 < TABLE_ATTEMPTS => {
                ahead.failures += 1;
                ahead.retry.fail(self.now);
                Foreseen::Longer(length)
            }
            // What lies there stays in the index until it is asked for, and proves to be something else.
            _ => Foreseen::Nothing,
        };
    }

    // Writing

    fn next_write(&mut self) -> Option<(Running, Op)> {
        if self.fencer.is_raised() {
            return None;
        }
        let (write, op) = self.writes.next(&self.layout, self.now)?;
        Some((Running::Write(write), op))
    }

    fn write_done(&mut self, write: Write, ok: bool) {
        let given_up = self.writes.done(write, ok, self.now);
        if ok {
            let now = self.now;
            self.retries().for_each(|retry| retry.hasten(now));
        }
        if let Some(seq) = given_up {
            self.give_up(seq);
        }
        self.publish();
    }

    /// Gives up a segment that cannot be written, none of whose writes is under way. What was put there is gone. What a restart may
    /// find of its keys in older segments is removed by records elsewhere.
    fn give_up(&mut self, seq: u64) {
        let mut entries = self.writes.give_up(seq);
        if let Some(open) = self.open.take_if(|open| open.seq == seq) {
            self.dirty_since = None;
            entries.extend_from_slice(open.entries());
        }
        for entry in entries.iter().filter(|entry| entry.kind.is_answer()) {
            let place = self.place_of(seq, entry);
            if self.is_loaded(entry.hash) {
                self.index.remove_at(entry.hash, place);
            } else if self.index.find(entry.hash).is_some_and(|slot| slot.place == place) {
                // What is being loaded may not take its place before it is noted as removed.
                self.index.bury(entry.hash);
            }
        }
        self.counters.given_up += 1;
        self.owed = self.owed.max(self.seq);
        self.digester.given_up(seq);
        // And what lay there before stays swept: one record at least says that the log has gone on.
        let gone = entries.iter().map(|entry| entry.hash).filter(|hash| self.index.find(*hash).is_none());
        let gone: Vec<u64> = gone.chain([0]).collect();
        gone.into_iter().for_each(|hash| self.note_removal(hash, 0));
    }

    // Digests

    fn step_digest(&mut self, now: Millis) {
        if let Some(seq) = self.digester.gathers_up_to() {
            let is_open = |open: &OpenSegment| open.seq <= seq && open.filled() > 0;
            let sealed = !self.open.as_ref().is_some_and(is_open) || self.seal();
            if sealed && self.writes.oldest().is_none_or(|oldest| oldest > seq) {
                self.digester.sealed();
            }
        }
        for _ in 0..STEP {
            let Some(Wanted { kind, key, body }) = self.digester.wanted() else { break };
            let written = 0;
            let record = digest::record(self.layout.identity, kind, &key, written, &body);
            let Some(record) = record else { break };
            let (place, seq) = match self.append(0, &record, Purpose::Other, now) {
                Ok(placed) => placed,
                Err(Refused::TooLarge) => return self.digester.give_up(),
                Err(_) => break,
            };
            self.digester.placed(kind, place, record.size(self.layout.unit), seq);
        }
        if let Some(seq) = self.digester.waits_for() {
            if self.open.as_ref().is_some_and(|open| open.seq == seq) {
                self.flush_open();
            }
            let oldest = self.oldest_unwritten();
            self.digester.written_up_to(oldest);
        }
    }

    fn next_digest_io(&mut self) -> Option<(Running, Op)> {
        let (newest, swept) = (self.newest(), self.next_swept());
        let op = self.digester.next_io(newest, swept, self.now)?;
        Some((if matches!(op, Op::Read { .. }) { Running::Gather } else { Running::Digest }, op))
    }

    // Loading

    /// The index is loaded no further: it is about to go.
    pub fn stop_loading(&mut self) {
        self.loads = false;
    }

    fn next_load(&mut self) -> Option<(Running, Op)> {
        if !self.loads {
            return None;
        }
        let newest = self.newest();
        let (loading, op) = self.loader.next_io(&self.index, newest, self.index_max)?;
        Some((Running::Load(loading), op))
    }

    // The ledger

    /// The sync of the end, when all is written.
    fn next_last_sync(&mut self) -> Option<(Running, Op)> {
        if self.last_sync != LastSync::Wanted || self.oldest_unwritten().is_some() {
            return None;
        }
        self.last_sync = LastSync::Sent;
        Some((Running::LastSync, Op::Sync))
    }

    fn next_fence_io(&mut self) -> Option<(Running, Op)> {
        Some((Running::Fence, self.fencer.next_io(self.layout.identity, self.now)?))
    }

    /// What recovery found, or what was set last.
    pub fn ledger(&self) -> &[u8] {
        self.keeper.bytes()
    }

    /// Replaces the ledger; durable one flush interval, two writes and their syncs later. Of several that wait the last one is
    /// written. `TooLarge` beyond `format::ledger::MAX` bytes.
    pub fn set_ledger(&mut self, bytes: &[u8], now: Millis) -> Result<(), Refused> {
        self.keeper.set(bytes, now)
    }

    /// The ledger could not be read, but a later start may.
    pub fn may_ledger_return(&self) -> bool {
        self.keeper.may_return
    }

    /// True when what was set last is durable.
    pub fn is_ledger_written(&self) -> bool {
        self.keeper.is_idle()
    }

    fn next_ledger_io(&mut self) -> Option<(Running, Op)> {
        if self.fencer.is_raised() {
            return None;
        }
        Some((Running::Ledger, self.keeper.next_io()?))
    }
}
