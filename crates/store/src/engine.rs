//! The store's core: what is written where, and when. It does no I/O itself and has no clock and no thread: callers
//! pass `now`, take the `Io`s it wants done, and report back. One seed replays a day of it with crashes.
//!
//! Always true:
//! - the index points only to records that were put whole, in an image or on the medium;
//! - records of one segment become durable before its table of contents does;
//! - segments are opened in cyclic order, each with a higher sequence number than the one before;
//! - a segment whose table the checkpoint in force needs is opened again only for a newer checkpoint's own records, and
//!   written when all that was opened before it is; its new table removes what the old one listed and is no more;
//! - a table is written only where a restart finds it: behind a gap in the log (segments that could not be read or written) not
//!   before the fence there is durable, and with a sequence number above all that may be on the medium;
//! - what has no image, no free write or no swept segment is refused (`Busy`), never waited for;
//! - a write that fails is tried again, and nothing of it is forgotten meanwhile. Only where one place fails while others
//!   take writes, what lies there is given up; then nothing counts as written until a later checkpoint is in force.

use crate::buffer::{Buffer, Pool};
use crate::checkpoint::{Checkpointer, overlay_most, page_bytes};
use crate::fence::Fencer;
use crate::format::contents::{self, Contents, Entry, Mark, Unreadable};
use crate::format::fence::Fence;
use crate::format::ledger::Ledger;
use crate::format::record::Record;
use crate::format::update::Target;
use crate::format::{BLOCK, Layout, PROBE, UNIT, align_up};
use crate::index::{Index, Packed, Slot};
use crate::ledger::LedgerWriter;
use crate::overlay::{Overlay, Update};
use crate::packetizer::{OpenSegment, Writes, bytes_of, gaps};
use crate::policy::Replacement;
use crate::retry::Retry;
use crate::{Key, Refused};
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Packets that wait for their write or are being written, at least, and their bytes; beyond, puts are refused. Room
/// for a burst, which does not shrink with the packets.
const QUEUE: usize = 16;
const QUEUE_BYTES: usize = 16 << 20;
/// Of these so many are written at once, the oldest first: a crash finds no wider gap in the order of segments.
const DEPTH: usize = 4;
/// Segments whose contents are read before their turn comes, at least, and their bytes.
const AHEAD: usize = 4;
const AHEAD_BYTES: usize = 4 << 20;
/// Bytes read from a segment's end at first: contents of up to 1,020 records.
pub const TABLE_READ: usize = 4 * BLOCK;
/// Segments that one `put` may open before it gives up: one large popular object fills several, in which nothing goes.
const PATIENCE: usize = 16;
/// A segment is worth opening when at least this share of it would be free.
const WORTH: usize = 16;
/// Segments that one `put` may open for an index that is full.
const MAKES_WAY: usize = 2;
/// Pages of a checkpoint written in one step: puts wait no longer than their copying takes.
const STEP: usize = 2;
/// Attempts to write one packet, each after another write succeeded, after which it is given up.
const ATTEMPTS: u32 = 4;

/// Packets of `segment` bytes that wait for their write or are being written, at most.
fn queue(segment: usize) -> usize {
    QUEUE.max(QUEUE_BYTES / segment)
}

/// Images of segments that are in memory, at most: the open one, those that wait, and copies of it that a flush writes.
pub(crate) fn images(segment: usize) -> usize {
    queue(segment) + 4
}

/// Milliseconds, of any steady clock.
pub type Millis = u64;

/// Something to be done on the medium; `Engine::done` takes the answer.
pub struct Io {
    pub id: u64,
    pub op: Op,
}

pub enum Op {
    Read { offset: u64, length: usize },
    Write { offset: u64, image: Arc<Buffer>, range: Range<usize> },
    Sync,
}

/// What the engine was built on; `recovery` makes it.
pub struct State {
    pub layout: Layout,
    pub index: Arc<Index>,
    pub overlay: Arc<Overlay>,
    /// The sequence number of the newest segment.
    pub seq: u64,
    /// The segment to open next.
    pub cursor: u64,
    /// Segments from here on were never written.
    pub virgin: u64,
    /// The newest superblock's generation.
    pub generation: u64,
    /// Places of the current checkpoint's records, in rising order.
    pub pins: Vec<u64>,
    /// That checkpoint needs the tables from this sequence number on.
    pub replay_seq: u64,
    /// What is not in the index, but on the medium: to be removed there too.
    pub removals: Vec<u64>,
    pub ledger: Ledger,
    /// The log may have gaps: see `Engine::mend`.
    pub mend: bool,
    /// Something could not be read that a later start may read: the fence is written before all else.
    pub unread: bool,
    /// Segments whose tables could not be read.
    pub doubtful: HashSet<u64>,
    /// Segments that hold a checkpoint which could not be read, and which a later start may go back to.
    pub spared: HashSet<u64>,
}

impl State {
    /// Of a cache that nothing is known of but this.
    pub fn blank(layout: Layout, index: Index, overlay: Overlay, generation: u64) -> State {
        State {
            layout,
            index: Arc::new(index),
            overlay: Arc::new(overlay),
            seq: 0,
            cursor: 0,
            virgin: 0,
            generation,
            pins: Vec::new(),
            replay_seq: 0,
            removals: Vec::new(),
            ledger: Ledger::default(),
            mend: false,
            unread: false,
            doubtful: HashSet::new(),
            spared: HashSet::new(),
        }
    }
}

pub struct Engine {
    pub(crate) state: State,
    replacement: Box<dyn Replacement>,
    flush_interval: Millis,
    /// Entries that the index may have, about.
    index_max: usize,
    pool: Arc<Pool>,
    open: Option<OpenSegment>,
    /// When the oldest of what the open segment has to write was taken; a removal may have waited for a segment first.
    dirty_since: Option<Millis>,
    batches: Vec<Batch>,
    ahead: VecDeque<Ahead>,
    running: HashMap<u64, Running>,
    next_id: u64,
    /// What waits for a table to be noted in, and since when the first of it does. At most one for each object that was
    /// stored: while they wait nothing is put.
    removals: VecDeque<u64>,
    removals_since: Option<Millis>,
    checkpointer: Checkpointer,
    checkpoint_retry: Retry,
    keeper: LedgerWriter,
    fencer: Fencer,
    /// The highest sequence number behind which a restart's scan may not see: that of the last gap, or of what the start found.
    gap: u64,
    /// Segments passed in a row that gave no room.
    barren: u64,
    /// Segments passed over in a row since a restart may need what cannot be read of them.
    passed_over: u64,
    /// Something was given up or could not be read, or a checkpoint failed: tables on the medium may list what is long gone, or
    /// be missing where a restart looks for them, which only a checkpoint outdates.
    mend: bool,
    /// One is under way for that.
    mending: bool,
    /// Writes of packets that succeeded.
    proofs: u64,
    /// What failed last, and why.
    cause: (Failing, String),
    /// As of the last call that brought the time.
    now: Millis,
    counters: Counters,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub puts: u64,
    /// Records put and updates, bytes.
    pub put_bytes: u64,
    pub updates: u64,
    pub refused: u64,
    pub swept: u64,
    pub survived: u64,
    pub segments: u64,
    pub checkpoints: u64,
    /// Writes and syncs that failed; each is tried again.
    pub write_errors: u64,
    /// Packets that were given up, for their place takes no writes.
    pub given_up: u64,
    /// Objects for which the newest checkpoint had no room: a restart forgets them.
    pub omitted: u64,
}

/// What keeps the store from storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    Writing,
    /// Of segments that must be known before they are written over.
    Reading,
}

/// The writes of one seal or flush.
struct Batch {
    number: u64,
    seq: u64,
    /// When the oldest of what it writes was taken.
    since: Option<Millis>,
    image: Arc<Buffer>,
    writes: Writes,
    table_sent: bool,
    running: usize,
    retry: Retry,
    /// Failures after which other writes succeeded, and how many had at the last one.
    strikes: u32,
    proofs: u64,
    /// Another place was tried since the last failure.
    probed: bool,
    fresh: Vec<Entry>,
    /// For a seal, the bytes that are readable only from the image; for a flush, none.
    filled: Vec<Range<usize>>,
    seal: bool,
}

/// What a segment is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Object,
    Update,
    Checkpoint,
}

/// A segment whose turn comes soon.
struct Ahead {
    number: u64,
    contents: Foreseen,
}

enum Foreseen {
    Unread,
    Reading,
    /// More records than the first small read lists: to be read again, this many bytes.
    Longer(usize),
    Virgin,
    Known(Contents),
    /// No table: never written, torn or damaged.
    Invalid,
    /// The medium did not give it.
    Unreadable,
}

impl Foreseen {
    fn is_known(&self) -> bool {
        !matches!(self, Foreseen::Unread | Foreseen::Reading | Foreseen::Longer(_))
    }
}

enum Running {
    /// A write of the batch with this sequence number: some of its data, or its table.
    Batch {
        seq: u64,
        seal: bool,
        data: Option<Range<usize>>,
    },
    Probe,
    Contents {
        number: u64,
        length: usize,
    },
    Checkpoint,
    Ledger,
    Fence,
}

impl Engine {
    pub fn new(
        mut state: State,
        replacement: Box<dyn Replacement>,
        flush_interval: Millis,
        pool: Arc<Pool>,
    ) -> Engine {
        let mend = state.mend;
        let mut fencer = Fencer::default();
        if state.unread {
            fencer.raise();
        }
        Engine {
            checkpointer: Checkpointer::new(state.generation, state.pins.clone(), state.replay_seq),
            checkpoint_retry: Retry::default(),
            keeper: LedgerWriter::new(state.layout.identity, std::mem::take(&mut state.ledger)),
            fencer,
            gap: state.seq,
            removals_since: (!state.removals.is_empty()).then_some(0),
            removals: std::mem::take(&mut state.removals).into(),
            state,
            replacement,
            flush_interval,
            index_max: usize::MAX,
            pool,
            open: None,
            dirty_since: None,
            batches: Vec::new(),
            ahead: VecDeque::new(),
            running: HashMap::new(),
            next_id: 1,
            barren: 0,
            passed_over: 0,
            mend,
            mending: false,
            proofs: 0,
            cause: (Failing::Writing, String::new()),
            now: 0,
            counters: Counters::default(),
        }
    }

    /// With an index of at most so many entries, checkpoints' own aside. One that is full has the sweep come by early: objects leave
    /// before the medium needs their place, and until enough of them did nothing is taken.
    pub fn with_index_of(self, entries: u64) -> Engine {
        Engine { index_max: usize::try_from(entries).unwrap_or(usize::MAX), ..self }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Puts a record under the key. What was under it before is gone, whether the new one is taken or not.
    pub fn put(&mut self, key: &Key, record: &Record<'_>, now: Millis) -> Result<(), Refused> {
        match self.append(key.index_hash(), record, Purpose::Object, now) {
            Ok(place) => {
                let slot = Slot { place, units: (record.size() / UNIT) as u16, count: 1 };
                self.state.overlay.remove(key.index_hash());
                self.state.index.insert(key.index_hash(), slot);
                self.counters.puts += 1;
                self.counters.put_bytes += record.size() as u64;
                Ok(())
            }
            Err(refused) => {
                self.remove(key.index_hash(), now);
                Err(self.refuse(refused))
            }
        }
    }

    /// Why something was not taken: while writes fail, that is why.
    fn refuse(&mut self, refused: Refused) -> Refused {
        self.counters.refused += 1;
        if refused == Refused::Busy && self.is_failing() { Refused::Broken } else { refused }
    }

    /// Gives the record that `target` names new metadata, by `record`, an update. False when that record is not (or no
    /// more) what is under the key, or when the overlay has no room: then nothing has changed. Refused, the metadata
    /// stays as it was.
    pub fn update(
        &mut self,
        key: &Key,
        record: &Record<'_>,
        target: Target,
        meta: &[u8],
        now: Millis,
    ) -> Result<bool, Refused> {
        let hash = key.index_hash();
        let layout = &self.state.layout;
        let fits = self.state.overlay.admits(hash, meta.len())
            && meta.len() <= page_bytes(layout)
            && self.state.overlay.bytes() + meta.len() <= overlay_most(layout);
        if !fits || !self.is_live(hash, &target) {
            return Ok(false);
        }
        let place = self.append(hash, record, Purpose::Update, now).map_err(|e| self.refuse(e))?;
        self.counters.updates += 1;
        self.counters.put_bytes += record.size() as u64;
        // Finding room may have swept it.
        let live = self.is_live(hash, &target);
        if live {
            let meta = Bytes::copy_from_slice(meta);
            self.state.overlay.insert(hash, Update { target, meta, record: Some(place) });
        }
        Ok(live)
    }

    fn is_live(&self, hash: u64, target: &Target) -> bool {
        let slot = self.state.index.find(hash);
        slot.is_some_and(|slot| slot.place == target.place && slot.units == target.units)
    }

    /// Removes what is under the hash: durable one flush interval and the writes later. What the index does not know costs
    /// nothing, for no restart finds it once all that was taken before is written. The index lets go of a key
    /// - by a put or a removal, which are noted in a table that is replayed after all that they outdate;
    /// - by the sweep, for which the segment's new table counts as taken when it is opened. Once that is written it does not
    ///   list the key, so that what a checkpoint says of the old one is a phantom. Tables that listed it earlier are
    ///   replayed only where they are needed; they then were replaced before, by tables that do not (`next_write`).
    ///   Where the old table was needed itself the new one has a removal (`gone`);
    /// - when a segment is given up, and until a checkpoint that began later is in force nothing counts as written;
    /// - when the record proves damaged as it is read (`forget`), or at a start has an update for which there is no room:
    ///   these are removals.
    ///
    /// Two keys with one print are one key to the index and to a replay alike.
    pub fn remove(&mut self, hash: u64, now: Millis) {
        self.state.overlay.remove(hash);
        if self.state.index.remove(hash).is_some() {
            self.queue_removal(hash, now);
            self.settle_removals();
        }
    }

    /// Removes what is under the hash if it still is the record at `place`, which proved to be damaged or another's: a
    /// restart might read it well.
    pub fn forget(&mut self, hash: u64, place: u64, now: Millis) {
        if self.state.index.remove_at(hash, place) {
            self.state.overlay.remove_at(hash, place);
            self.queue_removal(hash, now);
            self.settle_removals();
        }
    }

    fn queue_removal(&mut self, hash: u64, since: Millis) {
        self.removals.push_back(hash);
        self.removals_since = Some(self.removals_since.unwrap_or(since).min(since));
    }

    /// The bytes of a record whose write is not done: a copy.
    pub fn peek(&self, slot: Slot) -> Option<Buffer> {
        let number = self.state.layout.segment_of(slot.place);
        let start = self.state.layout.within(slot.place);
        let range = start..start + usize::from(slot.units) * UNIT;
        let bytes = match &self.open {
            Some(open) if open.number == number => open.peek(range)?,
            _ => {
                let batch = self.batches.iter().find(|b| b.seal && b.number == number)?;
                let ours = batch.filled.iter().any(|f| f.start <= range.start && range.end <= f.end);
                ours.then(|| &batch.image[range])?
            }
        };
        let mut copy = self.pool.take(bytes.len());
        copy[..bytes.len()].copy_from_slice(bytes);
        Some(copy)
    }

    /// What time brings: flushes, further attempts and the steps of a checkpoint. Call when `next_io` has nothing and time
    /// has passed.
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.settle_removals();
        self.keeper.tick(now, self.flush_interval);
        if self.mend {
            self.checkpoint();
        }
        self.step_checkpoint(now);
        // It may have opened the segment that they waited for.
        self.settle_removals();
        if self.dirty_since.is_some_and(|since| now.saturating_sub(since) >= self.flush_interval) {
            self.flush_open();
        }
    }

    /// Begins a checkpoint unless one is under way, or has just failed.
    pub fn checkpoint(&mut self) {
        if !self.checkpoint_retry.is_due(self.now) {
            return;
        }
        let (seq, number) = match &self.open {
            Some(open) => (open.seq, open.number),
            None => (self.state.seq + 1, self.state.cursor),
        };
        let replay = crate::format::superblock::Checkpoint {
            root_place: 0,
            root_units: 0,
            replay_seq: seq,
            replay_from: number,
            virgin: self.state.virgin,
        };
        if self.checkpointer.begin(replay, self.counters.put_bytes) {
            self.mending |= std::mem::take(&mut self.mend);
        }
    }

    /// True when nothing is in memory only, nothing is in flight and no checkpoint is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
            && self.batches.is_empty()
            && self.removals.is_empty()
            && !self.open.as_ref().is_some_and(|o| o.is_dirty())
            && !self.checkpointer.is_active()
            && !self.mend
            && !self.fencer.is_raised()
            && self.keeper.is_idle()
    }

    /// True from a write's failure until all that failed was written, or given up.
    pub fn is_failing(&self) -> bool {
        let others = [self.keeper.retry, self.fencer.retry, self.checkpoint_retry];
        self.batches.iter().map(|b| b.retry).chain(others).any(|retry| retry.is_failing())
    }

    /// What failed last, and why.
    pub fn cause(&self) -> (Failing, &str) {
        (self.cause.0, &self.cause.1)
    }

    /// What failed is tried again without a pause.
    pub fn retry_now(&mut self) {
        let batches = self.batches.iter_mut().map(|b| &mut b.retry);
        let others = [&mut self.keeper.retry, &mut self.fencer.retry, &mut self.checkpoint_retry];
        batches.chain(others).for_each(Retry::now);
    }

    /// When the oldest of what was taken and is not in the file yet, or not where a restart finds it, was taken; `None`
    /// when there is nothing of that.
    pub fn unwritten_since(&self) -> Option<Millis> {
        if self.mend || self.mending {
            return Some(0);
        }
        let batches = self.batches.iter().filter_map(|b| b.since);
        let others = [self.dirty_since, self.removals_since, self.keeper.unwritten_since()];
        batches.chain(others.into_iter().flatten()).min()
    }

    /// Writes out what is in memory without waiting for the interval.
    pub fn flush(&mut self) {
        self.keeper.flush();
        self.flush_open();
    }

    fn flush_open(&mut self) {
        let queue = self.queue();
        let Some(open) = self.open.as_mut().filter(|o| o.is_dirty()) else { return };
        if self.batches.len() > queue || self.batches.iter().any(|b| b.seq == open.seq) {
            return;
        }
        let writes = open.take_writes(self.state.layout.identity);
        let mut copy = self.pool.take(open.image.len());
        for range in writes.data.iter().chain([&writes.table]) {
            copy[range.clone()].copy_from_slice(&open.image[range.clone()]);
        }
        let (fresh, image) = (open.fresh().to_vec(), Arc::new(copy));
        self.batches.push(Batch {
            number: open.number,
            seq: open.seq,
            since: self.dirty_since.take(),
            image,
            writes,
            table_sent: false,
            running: 0,
            retry: Retry::default(),
            strikes: 0,
            proofs: self.proofs,
            probed: false,
            fresh,
            filled: Vec::new(),
            seal: false,
        });
    }

    /// The next thing to do on the medium, if any.
    pub fn next_io(&mut self) -> Option<Io> {
        let next = self
            .next_fence_io()
            .or_else(|| self.next_ledger_io())
            .or_else(|| self.next_contents())
            .or_else(|| self.next_write())
            .or_else(|| self.next_checkpoint_io())?;
        Some(self.hand_out(next))
    }

    /// The next of these that is a read, if any: of the contents of segments whose turn comes soon.
    pub fn next_read(&mut self) -> Option<Io> {
        let next = self.next_contents()?;
        Some(self.hand_out(next))
    }

    fn hand_out(&mut self, (running, op): (Running, Op)) -> Io {
        let id = self.next_id;
        self.next_id += 1;
        self.running.insert(id, running);
        Io { id, op }
    }

    /// Takes the outcome of an `Io`; reads bring their bytes. Its other resources must have been dropped.
    pub fn done(&mut self, id: u64, result: io::Result<Option<Buffer>>, now: Millis) {
        self.now = now;
        let error = result.as_ref().err().map(ToString::to_string);
        let ok = error.is_none();
        let running = self.running.remove(&id);
        if let Some(cause) = error
            && !matches!(running, Some(Running::Contents { .. } | Running::Probe))
        {
            self.counters.write_errors += 1;
            self.cause = (Failing::Writing, cause);
        }
        match running {
            Some(Running::Batch { seq, seal, data }) => self.batch_done(seq, seal, data, ok),
            Some(Running::Contents { number, length }) => {
                self.contents_done(number, length, result.ok().flatten())
            }
            Some(Running::Checkpoint) => self.checkpoint_done(ok),
            Some(Running::Ledger) => self.keeper.io_done(ok, now),
            Some(Running::Fence) => self.fencer.io_done(ok, now),
            Some(Running::Probe) if ok => self.wrote(),
            Some(Running::Probe) => {}
            None => debug_assert!(false, "an answer to nothing"),
        }
        self.tick(now);
    }

    // Appending

    /// Finds room for a record: its place.
    fn append(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        purpose: Purpose,
        now: Millis,
    ) -> Result<u64, Refused> {
        if record.size() > self.state.layout.segment as usize / 2 {
            return Err(Refused::TooLarge);
        }
        self.settle_removals();
        // A checkpoint may open the segment that they wait for.
        if !self.removals.is_empty() && purpose != Purpose::Checkpoint {
            return Err(Refused::Busy);
        }
        if purpose == Purpose::Object && !self.has_index_room() {
            return Err(Refused::Busy);
        }
        let mark = if purpose == Purpose::Update { Mark::Update } else { Mark::Put };
        for _ in 0..PATIENCE {
            if self.open.is_none() && !self.open_next(purpose) {
                return Err(Refused::Busy);
            }
            let Some(open) = &mut self.open else { continue };
            if let Some(at) = open.append(hash, record, mark) {
                self.dirty_since.get_or_insert(now);
                return Ok(self.state.layout.place(open.number, at));
            }
            if !self.seal() {
                return Err(Refused::Busy);
            }
        }
        Err(Refused::Busy)
    }

    /// Whether the index has room for one more; a full one is made some by opening segments.
    fn has_index_room(&mut self) -> bool {
        for _ in 0..MAKES_WAY {
            if self.state.index.len() < self.index_max || !self.seal() || !self.open_next(Purpose::Object) {
                break;
            }
        }
        self.state.index.len() < self.index_max
    }

    /// Notes the removals that wait in the open segment, or the next one.
    fn settle_removals(&mut self) {
        while let Some(&hash) = self.removals.front() {
            if self.open.is_none() && !self.open_next(Purpose::Object) {
                return;
            }
            let Some(open) = &mut self.open else { continue };
            if open.append_removal(hash) {
                self.removals.pop_front();
                self.dirty_since = self.dirty_since.into_iter().chain(self.removals_since).min();
            } else if !self.seal() {
                return;
            }
        }
        self.removals_since = None;
    }

    fn queue(&self) -> usize {
        queue(self.state.layout.segment as usize)
    }

    /// Hands the open segment to be written; false when too much is in flight.
    fn seal(&mut self) -> bool {
        let in_flight = self.batches.iter().filter(|b| b.seal).count();
        if in_flight >= self.queue() {
            return false;
        }
        if let Some(mut open) = self.open.take() {
            let writes = open.take_writes(self.state.layout.identity);
            self.counters.segments += 1;
            self.batches.push(Batch {
                number: open.number,
                seq: open.seq,
                since: self.dirty_since.take(),
                writes,
                table_sent: false,
                running: 0,
                retry: Retry::default(),
                strikes: 0,
                proofs: self.proofs,
                probed: false,
                fresh: open.fresh().to_vec(),
                filled: open.filled(),
                image: Arc::new(open.image),
                seal: true,
            });
        }
        true
    }

    // The sweep

    /// Opens the next segment: its unpopular objects go, the survivors stay where they lie. False when its contents
    /// are not known yet, or are needed. Afterwards `open` may still be `None`: the segment had no room to give.
    fn open_next(&mut self, purpose: Purpose) -> bool {
        if self.batches.len() > self.queue() {
            return false;
        }
        self.look_ahead();
        if !self.ahead.front().is_some_and(|a| a.contents.is_known()) {
            return false;
        }
        let needed = self.replaces_needed(self.state.seq + 1);
        if needed && purpose != Purpose::Checkpoint {
            self.checkpoint();
            return false;
        }
        let Some(Ahead { number, contents }) = self.ahead.pop_front() else { return false };
        debug_assert_eq!((number, number), (self.state.cursor, self.state.seq % self.state.layout.segments));
        self.state.seq += 1;
        self.state.cursor = (number + 1) % self.state.layout.segments;
        if number >= self.state.virgin {
            self.state.virgin = number + 1;
        }
        let unknown = matches!(contents, Foreseen::Invalid | Foreseen::Unreadable);
        let unreadable = matches!(contents, Foreseen::Unreadable);
        let pinned = unknown && self.checkpointer.pins_in(number, &self.state.layout);
        if unreadable && needed || pinned || self.state.spared.contains(&number) {
            return self.pass_over();
        }
        self.passed_over = 0;
        // A needed table would have named the keys whose older records a restart must not find.
        self.mend |= unknown && needed;
        let listed = match contents {
            Foreseen::Known(contents) => contents.entries,
            Foreseen::Invalid | Foreseen::Unreadable => {
                let layout = self.state.layout;
                self.state.index.retain(|_, slot| layout.segment_of(slot.place) != number);
                self.state.overlay.retain(|_, target| layout.segment_of(target.place) != number);
                Vec::new()
            }
            _ => Vec::new(),
        };
        if needed && self.state.doubtful.remove(&number) {
            // It can be read now: what it lists may be newer than what the index has of these keys.
            for entry in listed.iter().filter(|e| !e.is_update()) {
                self.state.index.remove(entry.hash);
                self.state.overlay.remove(entry.hash);
            }
        }
        let entries = self.live_entries(number, &listed, needed);
        let survivors: Vec<Entry> =
            entries.iter().filter(|(_, stays)| *stays).map(|(entry, _)| *entry).collect();
        let segment = self.state.layout.segment as usize;
        let free: usize = gaps(segment, &survivors).iter().map(|g| g.len()).sum();
        let barren = free < segment / WORTH;
        let mut keep: Vec<Entry> = if barren {
            entries.iter().map(|(entry, _)| *entry).collect()
        } else {
            for (entry, _) in entries.iter().filter(|(_, stays)| !stays) {
                let place = self.state.layout.place(number, bytes_of(entry).start);
                self.state.overlay.remove_at(entry.hash, place);
                self.counters.swept += u64::from(self.state.index.remove_at(entry.hash, place));
            }
            self.counters.survived += survivors.len() as u64;
            survivors
        };
        if needed {
            keep.extend(self.gone(&listed, &keep));
        }
        let (objects, references) = self.state.index.totals();
        if self.replacement.ages(objects, references) {
            self.state.index.age();
        }
        let image = self.pool.take(segment);
        self.open = Some(OpenSegment::new(number, self.state.seq, image, keep));
        self.dirty_since.get_or_insert(self.now);
        let bytes = objects * Packed::BYTES as u64 + self.state.overlay.bytes() as u64;
        if self.checkpointer.due(self.counters.put_bytes, bytes, &self.state.layout) {
            self.checkpoint();
        }
        if barren {
            // Its table is written all the same: a recovery that reads every segment must not find removed keys.
            self.seal();
            self.count_barren();
        } else {
            self.barren = 0;
        }
        true
    }

    /// Leaves a segment as it is: a restart may read it, and needs what it says or holds. False when all are: it is tried again
    /// after a pause, like a write that fails.
    fn pass_over(&mut self) -> bool {
        self.mend = true;
        self.gap = self.gap.max(self.state.seq);
        self.fencer.raise();
        self.passed_over += 1;
        let all = self.passed_over >= self.state.layout.segments;
        if all {
            self.passed_over = 0;
            self.checkpointer.abandon();
            self.checkpoint_retry.fail(self.now);
            self.cause = (Failing::Reading, "its packets cannot be read, and are still needed".into());
        }
        !all
    }

    /// True when the segment opened as number `seq` had a table that the checkpoint in force needs. Turns are strict:
    /// its number a cycle ago is known. Behind a leap all tables count as needed until a checkpoint is in force.
    fn replaces_needed(&self, seq: u64) -> bool {
        seq > self.state.layout.segments && self.checkpointer.needs(seq - self.state.layout.segments)
    }

    /// The entries that the index still points to, and whether each survives. Updates do not: what they say is in
    /// the overlay. But until a checkpoint has it, only they tell a restart.
    fn live_entries(&self, number: u64, listed: &[Entry], needed: bool) -> Vec<(Entry, bool)> {
        let layout = &self.state.layout;
        let end = contents::start(layout.segment as usize, listed.len());
        let stays = |entry: &Entry| {
            let place = layout.place(number, bytes_of(entry).start);
            if self.checkpointer.pins(place) {
                return Some(true);
            }
            if entry.is_update() {
                return (needed && self.state.overlay.is_from(entry.hash, place)).then_some(true);
            }
            self.state.index.live(entry.hash, place).map(|count| self.replacement.survives(count))
        };
        let records = listed.iter().filter(|e| !e.is_removal() && bytes_of(e).end <= end);
        records.filter_map(|e| stays(e).map(|stays| (*e, stays))).collect()
    }

    /// Removals of the keys that a needed table lists and that are no more. Without them a restart would find what the
    /// checkpoint has for them: the segment that it is in may have kept its old table, when a crash took the new one. An
    /// update that stays keeps nothing.
    fn gone(&self, listed: &[Entry], keep: &[Entry]) -> Vec<Entry> {
        let kept: HashSet<u64> = keep.iter().filter(|e| !e.is_update()).map(|e| e.hash).collect();
        let keys: BTreeSet<u64> = listed.iter().filter(|e| !e.is_update()).map(|e| e.hash).collect();
        keys.into_iter()
            .filter(|hash| !kept.contains(hash) && self.state.index.find(*hash).is_none())
            .map(Entry::removal)
            .collect()
    }

    /// When a whole cycle found no room, everything is popular: counts age at once, or nothing would ever go.
    fn count_barren(&mut self) {
        self.barren += 1;
        if self.barren >= self.state.layout.segments {
            self.state.index.age();
            self.barren = 0;
        }
    }

    /// Notes the segments whose turn comes soon.
    fn look_ahead(&mut self) {
        let ahead = AHEAD.max(AHEAD_BYTES / self.state.layout.segment as usize);
        while self.ahead.len() < ahead.min(self.state.layout.segments as usize / 2) {
            let last = self.ahead.back().map(|a| a.number);
            let number = last.map_or(self.state.cursor, |n| (n + 1) % self.state.layout.segments);
            // A segment whose table is still being written is looked at when that is done.
            let busy = self.batches.iter().any(|b| b.number == number)
                || self.open.as_ref().is_some_and(|o| o.number == number);
            if busy {
                return;
            }
            let virgin = number >= self.state.virgin;
            let contents = if virgin { Foreseen::Virgin } else { Foreseen::Unread };
            self.ahead.push_back(Ahead { number, contents });
        }
    }

    fn next_contents(&mut self) -> Option<(Running, Op)> {
        self.look_ahead();
        let segment = self.state.layout.segment as usize;
        let (number, length) = self.ahead.iter_mut().find_map(|a| {
            let length = match a.contents {
                Foreseen::Unread => TABLE_READ.min(segment),
                Foreseen::Longer(length) => length,
                _ => return None,
            };
            a.contents = Foreseen::Reading;
            Some((a.number, length))
        })?;
        Some(self.read_contents(number, length))
    }

    fn read_contents(&self, number: u64, length: usize) -> (Running, Op) {
        let end = self.state.layout.start(number) + u64::from(self.state.layout.segment);
        (Running::Contents { number, length }, Op::Read { offset: end - length as u64, length })
    }

    fn contents_done(&mut self, number: u64, length: usize, bytes: Option<Buffer>) {
        let Some(at) = self.ahead.iter().position(|a| a.number == number) else { return };
        let segment = self.state.layout.segment as usize;
        self.ahead[at].contents = match bytes {
            None => Foreseen::Unreadable,
            Some(bytes) => {
                match contents::decode(self.state.layout.identity, number, segment, &bytes[..length]) {
                    Ok(contents) => Foreseen::Known(contents),
                    Err(Unreadable::Invalid) => Foreseen::Invalid,
                    Err(Unreadable::Longer(length)) => Foreseen::Longer(align_up(length, BLOCK)),
                }
            }
        };
    }

    // Writing

    fn next_write(&mut self) -> Option<(Running, Op)> {
        if self.fencer.is_raised() {
            return None;
        }
        for at in 0..self.batches.len().min(DEPTH) {
            // What a flush of this segment is writing is not written to at the same time.
            let seq = self.batches[at].seq;
            if self.batches[..at].iter().any(|b| b.seq == seq) {
                continue;
            }
            // A needed table may supersede what an older one lists that is not overwritten yet.
            if at > 0 && self.replaces_needed(seq) {
                continue;
            }
            let batch = &mut self.batches[at];
            let has_more = !batch.writes.data.is_empty() || batch.running == 0 && !batch.table_sent;
            if !has_more || !batch.retry.is_due(self.now) {
                continue;
            }
            if batch.retry.is_failing() && batch.proofs == self.proofs && !batch.probed {
                batch.probed = true;
                let image = Arc::new(Buffer::new(BLOCK));
                return Some((Running::Probe, Op::Write { offset: PROBE, image, range: 0..BLOCK }));
            }
            let data = batch.writes.data.pop();
            batch.table_sent |= data.is_none();
            batch.running += 1;
            let range = data.clone().unwrap_or_else(|| batch.writes.table.clone());
            let offset = self.state.layout.start(batch.number) + range.start as u64;
            let running = Running::Batch { seq: batch.seq, seal: batch.seal, data };
            return Some((running, Op::Write { offset, image: batch.image.clone(), range }));
        }
        None
    }

    fn batch_done(&mut self, seq: u64, seal: bool, data: Option<Range<usize>>, ok: bool) {
        if ok {
            self.wrote();
        }
        let Some(at) = self.batches.iter().position(|b| b.seq == seq && b.seal == seal) else { return };
        let batch = &mut self.batches[at];
        batch.running -= 1;
        if !ok {
            match data {
                Some(range) => batch.writes.data.push(range),
                None => batch.table_sent = false,
            }
            if batch.retry.is_due(self.now) {
                batch.strikes += u32::from(self.proofs > batch.proofs);
                (batch.proofs, batch.probed) = (self.proofs, false);
                batch.retry.fail(self.now);
            }
        }
        if batch.running > 0 {
            return;
        }
        if batch.strikes >= ATTEMPTS {
            return self.give_up(seq);
        }
        if batch.table_sent && batch.writes.data.is_empty() {
            self.batches.remove(at);
        }
    }

    /// A packet was written: what failed need not wait for long.
    fn wrote(&mut self) {
        self.proofs += 1;
        let batches = self.batches.iter_mut().map(|b| &mut b.retry);
        let others = [&mut self.keeper.retry, &mut self.fencer.retry, &mut self.checkpoint_retry];
        batches.chain(others).for_each(|retry| retry.hasten(self.now));
    }

    /// Gives up a segment that cannot be written, none of whose writes is under way. What was put there is gone. What was
    /// removed there, and older records of what was put, a restart may find until a checkpoint is in force that knows nothing
    /// of them: so long nothing counts as written.
    fn give_up(&mut self, seq: u64) {
        let (given_up, left) = std::mem::take(&mut self.batches).into_iter().partition(|b| b.seq == seq);
        let given_up: Vec<Batch> = given_up;
        self.batches = left;
        let Some(number) = given_up.first().map(|b| b.number) else { return };
        let mut fresh: Vec<Entry> = given_up.into_iter().flat_map(|b| b.fresh).collect();
        if let Some(open) = self.open.take_if(|open| open.seq == seq) {
            self.dirty_since = None;
            fresh.extend_from_slice(open.fresh());
        }
        for entry in fresh.iter().filter(|e| !e.is_update() && !e.is_removal()) {
            let place = self.state.layout.place(number, bytes_of(entry).start);
            self.state.index.remove_at(entry.hash, place);
            self.state.overlay.remove_at(entry.hash, place);
        }
        self.gap = self.gap.max(seq);
        self.counters.given_up += 1;
        self.checkpointer.abandon();
        self.mend = true;
        self.fencer.raise();
    }

    fn next_fence_io(&mut self) -> Option<(Running, Op)> {
        let fence = Fence { seq: self.gap + 1, ledger: self.keeper.generation() };
        let op = self.fencer.next_io(fence, self.state.layout.identity, self.now)?;
        Some((Running::Fence, op))
    }

    // Checkpoints

    fn step_checkpoint(&mut self, now: Millis) {
        if !self.checkpointer.is_active() {
            return;
        }
        let (index, overlay) = (self.state.index.clone(), self.state.overlay.clone());
        let layout = self.state.layout;
        for _ in 0..STEP {
            let Some(pending) = self.checkpointer.take_record(&index, &overlay, &layout) else { break };
            let placed = pending
                .record(&layout)
                .map(|r| (self.append(pending.key.index_hash(), &r, Purpose::Checkpoint, now), r.size()));
            match placed {
                Some((Ok(place), length)) => {
                    self.checkpointer.placed(&pending, place, length, self.state.seq)
                }
                Some((Err(Refused::Busy), _)) => {
                    self.checkpointer.give_back(pending);
                    break;
                }
                Some((Err(_), _)) | None => {
                    self.checkpointer.abandon();
                    self.checkpoint_retry.fail(now);
                    self.cause = (Failing::Writing, "a record of a checkpoint is too large".into());
                    self.mend = true;
                }
            }
        }
        if self.checkpointer.wants_flush(self.open.as_ref().map(|o| o.seq)) {
            self.flush_open();
        }
        let oldest_unwritten = self
            .batches
            .iter()
            .map(|b| b.seq)
            .chain(self.open.as_ref().filter(|o| o.is_dirty()).map(|o| o.seq))
            .min();
        self.checkpointer.written_up_to(oldest_unwritten);
    }

    fn checkpoint_done(&mut self, ok: bool) {
        if !ok {
            self.checkpoint_retry.fail(self.now);
        }
        let Some(in_force) = self.checkpointer.io_done(ok) else { return };
        if in_force {
            self.counters.checkpoints += 1;
            self.counters.omitted = self.checkpointer.omitted;
            self.mending = false;
            self.state.doubtful.clear();
            self.state.spared.clear();
            self.checkpoint_retry = Retry::default();
        } else {
            self.mend = true;
        }
    }

    fn next_checkpoint_io(&mut self) -> Option<(Running, Op)> {
        if !self.checkpoint_retry.is_due(self.now) {
            return None;
        }
        let op = self.checkpointer.next_io(&self.state.layout)?;
        Some((Running::Checkpoint, op))
    }

    // The ledger

    /// What recovery found, or what was set last.
    pub fn ledger(&self) -> &[u8] {
        self.keeper.bytes()
    }

    /// Replaces the ledger; durable one flush interval, a write and a sync later. Of several that wait the last one is
    /// written. `TooLarge` beyond `format::ledger::MAX` bytes.
    pub fn set_ledger(&mut self, bytes: &[u8], now: Millis) -> Result<(), Refused> {
        self.keeper.set(bytes, now)
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
