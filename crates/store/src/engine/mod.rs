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

mod append;
mod io;
mod scrub;
mod sweep;
mod unwritten;

use crate::buffer::{Buffer, Pool};
use crate::day::LastDay;
use crate::digester::{Behind, Digester};
use crate::fence::Fencer;
use crate::format::Layout;
use crate::format::digest::Event;
use crate::format::fence::Fence;
use crate::format::ledger::Ledger;
use crate::format::record::{Kind, Record};
use crate::format::root::Root;
use crate::index::{Index, Slot};
use crate::ledger::{Copies, LedgerWriter};
use crate::loader::{Loaded, Loader};
use crate::map::Plan;
use crate::placement::{Live, Placement, Standing};
use crate::retry::Retry;
use crate::scrub::Scrub;
use crate::segment::OpenSegment;
use crate::syncer::Syncer;
use crate::turns::Turns;
use crate::writes::{Batch, WriteQueue};
use crate::{Admission, Refused, WriteBudget};
use append::Purpose;
pub(crate) use append::images;
pub use io::{Answer, Io, Op, Placed};
use io::{LastSync, Running};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use sweep::Ahead;
pub use unwritten::Unwritten;

/// Removals of keys that the index does not know, while nothing can be written.
const UNKNOWN: usize = 1 << 20;

/// Milliseconds, of any steady clock.
pub type Millis = u64;

/// What the engine is built on; `recovery` makes it.
pub struct State {
    pub layout: Layout,
    pub index: Arc<Index>,
    /// Of the segment to open next; its predecessors were open once.
    pub seq: u64,
    /// Of the next event.
    pub order: u64,
    /// One above that of the last event that was found; 0: none was.
    pub end: u64,
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
    /// As it was found; each life raises its own before it writes.
    pub fence: Fence,
    /// A new cache, whose first life needs none.
    pub is_first: bool,
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
            end: 0,
            root: Root::default(),
            stretch: crate::digester::stretch(layout.segments),
            behind: Vec::new(),
            events: Vec::new(),
            left_open: Vec::new(),
            ledger: Ledger::default(),
            copies: Copies::Settled,
            fence: Fence::default(),
            is_first: true,
            lossy: false,
        }
    }
}

impl State {
    /// Nothing was ever put or removed.
    pub fn is_blank(&self) -> bool {
        self.seq == 0 && self.root.generation == 0 && self.index.is_empty()
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
    /// `Options::group_of`.
    group_of: fn(&[u8]) -> u64,
    placement: Placement,
    pool: Arc<Pool>,
    seq: u64,
    order: u64,
    /// `State::end`
    found_end: u64,
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
    /// When a digest was in force last.
    digested: Millis,
    syncer: Syncer,
    last_sync: LastSync,
    loader: Loader,
    loads: bool,
    load_is_next: bool,
    /// What lies in segments with lower sequence numbers has left the index, or leaves it now.
    departed: Arc<AtomicU64>,
    scrub: Scrub,
    keeper: LedgerWriter,
    fencer: Fencer,
    /// A segment was given up: nothing counts as written before those with lower sequence numbers than this are, since what they
    /// have of its keys stands for what it said of them. The highest number: nothing does any more, as a removal was lost.
    owed: u64,
    /// Removals are noted also of keys that the index does not know.
    lossy: bool,
    /// All that is to be written was put: nothing more is.
    finished: bool,
    /// What failed last.
    cause: String,
    /// As of the last call that brought the time.
    now: Millis,
    counters: Counters,
    written: LastDay,
    turns: Turns,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub puts: u64,
    pub put_bytes: u64,
    pub refused: u64,
    /// Objects that were not worth their place, or to be written; and those of them that were turned away for the write budget's sake.
    pub turned_away: u64,
    pub unaffordable: u64,
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
    /// Bytes that the device was given to write.
    pub written_bytes: u64,
}

impl Counters {
    /// Of several together.
    pub fn and(self, other: Counters) -> Counters {
        Counters {
            puts: self.puts + other.puts,
            put_bytes: self.put_bytes + other.put_bytes,
            refused: self.refused + other.refused,
            turned_away: self.turned_away + other.turned_away,
            unaffordable: self.unaffordable + other.unaffordable,
            swept: self.swept + other.swept,
            put_again: self.put_again + other.put_again,
            segments: self.segments + other.segments,
            digests: self.digests + other.digests,
            write_errors: self.write_errors + other.write_errors,
            given_up: self.given_up + other.given_up,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

impl Engine {
    pub fn new(state: State, flush_interval: Millis, pool: Arc<Pool>) -> Engine {
        let State { layout, index, seq, order, root, ledger, lossy, .. } = state;
        let State { stretch, behind, events, left_open, copies, is_first, end, .. } = state;
        let (life, ledger_then) = (order, ledger.generation);
        let fence = match lossy {
            true => Fence { seq, order, ledger: ledger_then, life },
            false => Fence { life, ..state.fence },
        };
        // More than there is where what had the sweep go on was never written.
        let early = root.swept.saturating_sub(seq).min(layout.segments);
        let mut writes = WriteQueue::default();
        left_open.into_iter().for_each(|batch| writes.push(batch));
        let departed = Arc::new(AtomicU64::new(layout.oldest(seq + early)));
        let engine = Engine {
            loader: Loader::new(layout, &root.digests, &index, departed.clone()),
            digester: Digester::new(
                &layout,
                stretch,
                root,
                (behind, events),
                fence,
                if lossy { order } else { 0 },
            ),
            layout,
            index,
            flush_interval,
            index_max: usize::MAX,
            cmax: 0,
            group_of: |_| 0,
            placement: Placement::new(Admission::All, None, (layout.segments, layout.segment.into()), 0),
            pool,
            seq,
            order,
            found_end: end,
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
            digested: 0,
            syncer: Syncer::default(),
            last_sync: LastSync::Done,
            loads: true,
            load_is_next: true,
            departed,
            scrub: Scrub::new(None),
            fencer: match is_first {
                true => Fencer::default(),
                false => Fencer::raise(fence),
            },
            keeper: LedgerWriter::new(layout.identity, ledger, copies),
            owed: 0,
            lossy,
            finished: false,
            cause: String::new(),
            now: 0,
            counters: Counters::default(),
            written: LastDay::default(),
            turns: Turns::of(layout.segments),
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
    pub fn with_cmax(self, cmax: u8, group_of: fn(&[u8]) -> u64) -> Engine {
        Engine { cmax, group_of, ..self }
    }

    /// That lets in what is worth its place, and to be written, with about so many objects.
    pub fn with_admission(self, admission: Admission, budget: Option<WriteBudget>, objects: u64) -> Engine {
        let Layout { segments, segment, .. } = self.layout;
        let placement = Placement::new(admission, budget, (segments, segment.into()), objects);
        let engine = Engine { placement, ..self };
        engine.tell_placement();
        engine
    }

    /// What readers and hits in memory count and ask, without a lock.
    pub(crate) fn live(&self) -> Arc<Live> {
        self.placement.live()
    }

    #[cfg(test)]
    pub(crate) fn budget_seen(&self) -> crate::placement::Seen {
        self.placement.budget_seen()
    }

    #[cfg(test)]
    pub(crate) fn placement_for_tests(&mut self) -> &mut Placement {
        &mut self.placement
    }

    pub fn counters(&self) -> Counters {
        Counters { unaffordable: self.placement.unaffordable(), ..self.counters }
    }

    /// Bytes that the device was given to write in the last 24 hours.
    pub fn written_last_day(&self, now: Millis) -> u64 {
        self.written.total(now)
    }

    /// Seconds in which the log comes round, as it is written in the last 24 hours, or since the start; 0: not written.
    pub fn lap(&self, now: Millis) -> u64 {
        let log = u128::from(self.layout.segments) * u128::from(self.layout.segment);
        let millis = log * u128::from(LastDay::covers(now)) / u128::from(self.written.total(now).max(1));
        if self.written.total(now) == 0 { 0 } else { u64::try_from(millis / 1000).unwrap_or(u64::MAX) }
    }

    /// The log as it is now, which takes a while to draw.
    pub fn plan(&self, now: Millis) -> Plan {
        Plan { layout: self.layout, seq: self.seq, swept: self.next_swept(), turns: self.turns.clone(), now }
    }

    /// Bytes of the segments that hold something.
    pub fn filled(&self) -> u64 {
        let held = self.seq - self.layout.oldest(self.seq);
        held.min(self.layout.segments) * u64::from(self.layout.segment)
    }

    pub fn waiting_writes(&self) -> u64 {
        self.writes.len() as u64
    }

    /// Seconds since a digest was in force last, or since the start; and segments that were opened since.
    pub fn undigested(&self, now: Millis) -> (u64, u64) {
        let segments = self.seq.saturating_sub(self.digester.covered()).min(self.layout.segments);
        (now.saturating_sub(self.digested) / 1000, segments)
    }

    #[cfg(test)]
    pub(crate) fn scrub_for_tests(&mut self) -> &mut Scrub {
        &mut self.scrub
    }

    #[cfg(test)]
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    #[cfg(test)]
    pub(crate) fn digester(&self) -> &Digester {
        &self.digester
    }

    pub fn unwritten(&self) -> Arc<Unwritten> {
        self.unwritten.clone()
    }

    /// The lowest sequence number of a segment of which something may be in the index; raised before anything of it leaves.
    pub fn departed(&self) -> Arc<AtomicU64> {
        self.departed.clone()
    }

    /// Whether an object of so many bytes that was just fetched is worth its place. Who is turned away is remembered. `chance`: from 0 to 1.
    pub fn admits(&mut self, hash: u64, bytes: u64, chance: f64, now: Millis) -> Result<Standing, Refused> {
        self.placement.pass_time(now);
        let standing = self.placement.admits(hash, bytes, self.index.find(hash), chance);
        self.counters.turned_away += u64::from(standing.is_none());
        standing.ok_or(Refused::NotAdmitted)
    }

    /// So many bytes of a large object that was let in are about to arrive: the write budget has them.
    pub fn reserve(&mut self, bytes: u64) {
        self.placement.charge(|budget| budget.reserve(bytes));
    }

    /// So many of them do not.
    pub fn release(&mut self, bytes: u64) {
        self.placement.charge(|budget| budget.release(bytes));
    }

    /// Puts a record under the key with this mixed hash. What was under it before is gone, whether the new one is taken or not.
    pub fn put(
        &mut self,
        hash: u64,
        record: &Record<'_>,
        standing: Standing,
        now: Millis,
    ) -> Result<(), Refused> {
        if self.finished {
            self.drop_from_index(hash);
            return Err(Refused::Broken);
        }
        let is_piece = record.kind() == Kind::Span;
        let affords = !is_piece || self.placement.affords_piece(record.size(self.layout.unit) as u64);
        let placed = match affords {
            true => self.place(hash, record, standing, Purpose::Object, now),
            false => Err(Refused::NotAdmitted),
        };
        match placed {
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
        let uses = there.map_or(uses, |slot| uses.max(slot.uses));
        place.is_none_or(is_there)
            && has_room
            && self.has_time()
            && self.again(hash, record, uses, Purpose::Other, now)
    }

    /// Puts the record again that is known by this slot, if that is still there, and leaves it as it stands. It yields as
    /// `put_again` does.
    pub fn put_as(&mut self, hash: u64, record: &Record<'_>, slot: Slot, now: Millis) {
        let there = self.index.find(hash).filter(|there| there.place == slot.place);
        if let Some(there) = there.filter(|_| self.has_time()) {
            let _ = self.place(hash, record, Standing::As(there), Purpose::Other, now);
        }
    }

    /// Whether there is time for what may as well be left undone, and something left of the write budget.
    fn has_time(&mut self) -> bool {
        if self.finished || self.writes.sealed() >= self.queue() / 2 || self.placement.is_spent() {
            return false;
        }
        self.settle_removals();
        self.removals.is_empty()
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

    /// Removes what is under the hash, and notes that whether the index knows it or not.
    pub fn remove_anyway(&mut self, hash: u64, now: Millis) {
        self.index.remove(hash);
        self.note_removal(hash, now);
    }

    /// What is under the hash is found here no more, and nobody is told: where the cache is another's to write.
    pub fn drop_from_index(&mut self, hash: u64) {
        self.index.remove(hash);
        self.bury(hash);
    }

    /// Removes what is under the hash if it still is the record at `place`, which proved to be damaged or another's: a
    /// restart might read it well. Whether it was.
    pub fn forget(&mut self, hash: u64, place: u64, now: Millis) -> bool {
        let was_there = self.index.remove_at(hash, place).is_some();
        if was_there {
            self.note_removal(hash, now);
        }
        was_there
    }

    /// Removals wait for a segment.
    pub fn has_removals(&self) -> bool {
        !self.removals.is_empty()
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
        self.placement.pass_time(now);
        self.settle_removals();
        self.keeper.tick(now, self.flush_interval);
        let (order, seq) = self.untold();
        self.digester.tick(order, seq, false, now);
        self.step_digest(now);
        if self.dirty_since.is_some_and(|since| now.saturating_sub(since) >= self.flush_interval) {
            self.flush_open();
        }
    }

    /// Has a digest made of what happened since the last one.
    pub fn digest(&mut self) {
        let (order, seq) = self.untold();
        self.digester.tick(order, seq, true, self.now);
    }

    /// True when nothing is in memory only, and no write is in flight.
    pub fn is_idle(&self) -> bool {
        let writes = |running: &Running| {
            matches!(
                running,
                Running::Write(_)
                    | Running::Digest
                    | Running::Ledger
                    | Running::Fence
                    | Running::Sync
                    | Running::LastSync
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
            || [self.keeper.retry, self.digester.retry, self.fencer.retry, self.syncer.retry]
                .iter()
                .any(|r| r.is_failing())
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
            &mut self.syncer.retry,
        ])
    }

    /// When the oldest of what was taken and is not in the file yet, or not where a restart finds it, was taken; `None`
    /// when there is nothing of that.
    pub fn unwritten_since(&self) -> Option<Millis> {
        if self.digester.is_urgent() || self.digester.owes { Some(0) } else { self.unlogged_since() }
    }

    /// The same where a restart looks at all of the log.
    pub fn unlogged_since(&self) -> Option<Millis> {
        if self.owed == u64::MAX || self.oldest_unwritten().is_some_and(|seq| seq < self.owed) {
            return Some(0);
        }
        let others = [self.dirty_since, self.removals_since, self.keeper.unwritten_since()];
        self.writes.since().into_iter().chain(others.into_iter().flatten()).min()
    }

    /// How much is written (`is_synced`).
    pub fn written(&self) -> u64 {
        self.syncer.written()
    }

    /// Whether a loss of power leaves that too, as far as the medium keeps what it says; if not, it will be synced.
    pub fn is_synced(&mut self, written: u64) -> bool {
        self.syncer.is_synced(written)
    }

    /// One above the order of the last event that recovery found in the log; 0: there was none.
    pub fn found_end(&self) -> u64 {
        self.found_end
    }

    /// The same of the last event that is known to be in the file.
    pub fn written_end(&self) -> u64 {
        self.found_end.max(self.writes.end())
    }

    /// Writes out what is in memory for good, and syncs: the next start finds no segment left open, also after a loss of power. From
    /// here on no object is taken.
    pub fn finish(&mut self) {
        self.finished = true;
        self.keeper.flush();
        self.digester.finish();
        self.last_sync = LastSync::Wanted;
        if self.open.as_ref().is_none_or(|open| open.filled() == 0) || !self.seal() {
            self.flush_open();
        }
    }

    /// Writes out what is in memory without waiting for the interval.
    pub fn flush(&mut self) {
        self.keeper.flush();
        self.flush_open();
    }

    /// The index is loaded no further: it is about to go.
    pub fn stop_loading(&mut self) {
        self.loads = false;
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
}
