//! The reading half of a worker: index, one device read, verification.

use crate::buffer::Buffer;
use crate::by_hand::ManualReads;
use crate::disk::threads::ThreadReader;
use crate::disk::uring::{DEPTH, RingReader};
use crate::flights::Flights;
use crate::format::record::{self, Found, Kind};
use crate::format::{align_down, align_up};
use crate::health::Turn;
use crate::index::{Index, Slot};
use crate::shared::Shared;
use crate::{Body, Key, Object, Spans, Store, span_key};
use bytes::Bytes;
use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A read that has begun is waited for so many times longer than one that has not: a disk that is only behind is about to
/// answer it.
const HANGS: u32 = 4;

/// A read counts as one for each of so many bytes, so that what is read at once has a bound in bytes too.
pub(crate) const TURN: usize = 32 << 10;

/// How often a record is looked for where it lies now, since it was moved or replaced while it was read.
const MOVES: usize = 3;

/// What a look for an object, or a piece of one, came to.
#[derive(Debug)]
pub enum Lookup<T = Object> {
    Found(T),
    /// It may be there, but the disk has kept a read waiting for longer than `Options::patience`.
    Late,
    Missing,
}

/// Reads for one worker thread.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
    backend: Backend,
    /// As many as reads of `TURN` bytes may be in flight: the others wait for them in the order in which they came.
    turns: Arc<Semaphore>,
    flights: Flights,
    /// A part of the index did not come in time: until then none is waited for.
    loads_late: Rc<Cell<Option<Instant>>>,
}

/// For how long a read waits for the disk.
#[derive(Clone, Copy)]
enum Wait<'a> {
    /// So long for its turn, and none while others have been waiting for longer.
    Yields(Duration),
    /// As long as a read that hangs, whatever others do, and as long again each time that this says so.
    Hangs(&'a dyn Fn() -> bool),
}

#[derive(Clone)]
pub(crate) enum Backend {
    Ring(RingReader),
    Threads(ThreadReader),
    Hand(ManualReads),
}

impl Wait<'_> {
    /// Which others may keep it waiting for.
    fn patience(self) -> Option<Duration> {
        match self {
            Wait::Yields(patience) => Some(patience),
            Wait::Hangs(_) => None,
        }
    }

    /// Asked each time that a read, or its turn, has not come in time.
    fn stays(self) -> bool {
        matches!(self, Wait::Hangs(stays) if stays())
    }
}

impl Backend {
    /// It runs where time is told; who reads by hand has no such place.
    fn has_clock(&self) -> bool {
        !matches!(self, Backend::Hand(_))
    }
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, backend: Backend) -> Reader {
        let turns = match &backend {
            Backend::Ring(ring) => ring.turns().clone(),
            Backend::Threads(threads) => threads.turns().clone(),
            Backend::Hand(_) => Arc::new(Semaphore::new(1)),
        };
        let limit = backend.has_clock().then_some(HANGS * shared.patience);
        Reader { shared, backend, turns, flights: Flights::new(limit), loads_late: Rc::default() }
    }

    /// How long an object is waited for (`Options::patience`).
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }

    /// Whether it reads this store.
    pub fn is_of(&self, store: &Store) -> bool {
        store.shares(&self.shared)
    }

    /// Whether nothing is being read for it: then it can be dropped without waiting for the disk.
    pub fn is_idle(&self) -> bool {
        match &self.backend {
            Backend::Ring(_) => self.turns.available_permits() == DEPTH as usize,
            Backend::Threads(_) | Backend::Hand(_) => true,
        }
    }

    /// Whether the disk keeps a read waiting for too long: then an object that is there is `Late`.
    pub fn is_late(&self) -> bool {
        self.flights.check(Some(self.shared.patience)).is_err()
    }

    /// As `get`, and tells when what may be there was not read since the disk is late. A large object is found also when pieces of
    /// its body are missing (`Store::missing`).
    pub async fn look(&self, key: &Key) -> Lookup {
        let late = Cell::new(false);
        Lookup::of(self.find(key, &late).await, &late)
    }

    /// One device read for an object of up to 64 KiB, none when the index does not hold the key or its record is
    /// still in memory. A torn, corrupt or overwritten record is `None`, and so is any while the disk has kept a read
    /// waiting for longer than `Options::patience`. A large object (metadata first, then `span` by `span`) is returned
    /// only when all its spans are in the index.
    pub async fn get(&self, key: &Key) -> Option<Object> {
        let found = self.find(key, &Cell::new(false)).await;
        found.filter(|found| match &found.body {
            Body::Spans(spans) => self.is_whole(spans),
            Body::Whole(_) => true,
        })
    }

    fn is_whole(&self, spans: &Spans) -> bool {
        self.shared.missing(spans, 0..spans.count()).next().is_none()
    }

    /// As `look`, without a trace: no use is counted, and nothing is kept of what was read, or removed.
    pub async fn peek(&self, key: &Key) -> Lookup {
        let late = Cell::new(false);
        Lookup::of(self.find_unseen(key, &late).await, &late)
    }

    async fn find_unseen(&self, key: &Key, late: &Cell<bool>) -> Option<Object> {
        for _ in 0..MOVES {
            let slot = self.slot(key, late, Index::find).await?;
            let turn = self.turn_of(slot);
            let bytes = match self.image(slot) {
                Some(bytes) => Ok(bytes),
                None => {
                    let start = self.shared.layout.offset(slot.place);
                    self.read_aligned(start, self.length(slot), Wait::Yields(self.shared.patience)).await
                }
            };
            late.set(matches!(&bytes, Err(error) if error.kind() == io::ErrorKind::WouldBlock));
            if let Some((bytes, found)) = self.verified(key, bytes.ok()?, turn) {
                let meta = bytes.slice(found.meta.clone());
                let body = match found.about.kind {
                    Kind::Object => Body::Whole(bytes.slice(found.body)),
                    Kind::Head => Body::Spans(self.spans(found.about)),
                    Kind::Span | Kind::Pages | Kind::Digest | Kind::Removal => return None,
                };
                return Some(Object { meta, body });
            }
        }
        None
    }

    /// The turn of the segment in which a record lies.
    fn turn_of(&self, slot: Slot) -> u64 {
        self.shared.turn_of(self.shared.layout.segment_of(slot.place))
    }

    fn spans(&self, about: record::About) -> Spans {
        let record::About { id, length, span, .. } = about;
        Spans { store: self.shared.number, id, length, span }
    }

    async fn find(&self, key: &Key, late: &Cell<bool>) -> Option<Object> {
        let (bytes, found, slot) = self.record(key, Wait::Yields(self.shared.patience), late).await?;
        let meta = bytes.slice(found.meta.clone());
        match found.about.kind {
            Kind::Object => {
                self.shared.was_read(key, slot, &bytes, &found);
                Some(Object { meta, body: Body::Whole(bytes.slice(found.body)) })
            }
            Kind::Head => {
                let spans = self.spans(found.about);
                if self.is_whole(&spans) {
                    self.shared.was_read(key, slot, &bytes, &found);
                }
                Some(Object { meta, body: Body::Spans(spans) })
            }
            Kind::Span | Kind::Pages | Kind::Digest | Kind::Removal => None,
        }
    }

    /// Where the key's record lies, found in the index by `find`, as soon as its part of the index is loaded: that is waited for only so long.
    async fn slot(
        &self,
        key: &Key,
        late: &Cell<bool>,
        find: impl Fn(&Index, u64) -> Option<Slot>,
    ) -> Option<Slot> {
        let hash = self.shared.hash(key);
        let find = || find(&self.shared.index, hash);
        let slot = find();
        if slot.is_some() || self.shared.is_loaded(hash) {
            // It may have been loaded after the first look.
            return slot.or_else(find);
        }
        let loads = async {
            loop {
                let mut loaded = pin!(self.shared.loaded.notified());
                loaded.as_mut().enable();
                if self.shared.is_loaded(hash) {
                    return;
                }
                self.shared.want(hash);
                loaded.await;
            }
        };
        // Where one waited in vain just now, others hardly fare better.
        let now = Instant::now();
        let hopeless = !self.backend.has_clock() || self.loads_late.get().is_some_and(|until| now < until);
        let in_time = !hopeless && timeout(self.shared.patience, loads).await.is_ok();
        if !in_time && !hopeless {
            self.loads_late.set(Some(Instant::now() + self.shared.patience));
        }
        late.set(!in_time);
        if in_time { find() } else { None }
    }

    /// Piece `n` of a large body. It is missing when it went away meanwhile, and late when the disk keeps it waiting for more
    /// than four times `Options::patience`, and for as long again each time that it `stays`. A body on its way is harder to
    /// have from elsewhere than an object, so it does not yield because others wait.
    pub async fn look_span(&self, spans: &Spans, n: u32, stays: &dyn Fn() -> bool) -> Lookup<Bytes> {
        let late = Cell::new(false);
        Lookup::of(self.find_span(spans, n, stays, &late).await, &late)
    }

    /// The same, without telling why there is none.
    pub async fn span(&self, spans: &Spans, n: u32) -> Option<Bytes> {
        self.find_span(spans, n, &|| false, &Cell::new(false)).await
    }

    async fn find_span(
        &self,
        spans: &Spans,
        n: u32,
        stays: &dyn Fn() -> bool,
        late: &Cell<bool>,
    ) -> Option<Bytes> {
        let key = span_key(spans.id, n);
        let (bytes, found, slot) = self.record(&key, Wait::Hangs(stays), late).await?;
        let end = found.body.start + spans.length_of(n) as usize;
        // A shorter one is of this body as it was before it grew; a longer one, of what it has grown to.
        if found.about.kind != Kind::Span || end > found.body.end {
            self.tell(&key, slot, None);
            return None;
        }
        Some(bytes.slice(found.body.start..end))
    }

    /// The record under the key, verified, and its slot. What proves to be something else leaves the index.
    async fn record(&self, key: &Key, wait: Wait<'_>, late: &Cell<bool>) -> Option<(Bytes, Found, Slot)> {
        let mut slot = self.slot(key, late, Index::reference).await?;
        for _ in 0..MOVES {
            let turn = self.turn_of(slot);
            let read = self.look_at(slot, turn, key, wait).await;
            if let Ok(Some((bytes, found))) = read {
                return Some((bytes, found, slot));
            }
            if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                self.shared.stats.busy_reads.fetch_add(1, Relaxed);
                late.set(true);
                return None;
            }
            match self.shared.index.find(self.shared.hash(key)) {
                // It was moved before it was written, or replaced.
                Some(now) if now.place != slot.place || self.turn_of(now) != turn => slot = now,
                // The sweep came by.
                None if read.is_ok() => return None,
                _ => {
                    self.tell(key, slot, read.err());
                    return None;
                }
            }
        }
        None
    }

    /// What lies at `slot`, if it is what the index means: of this turn of its segment.
    async fn look_at(
        &self,
        slot: Slot,
        turn: u64,
        key: &Key,
        wait: Wait<'_>,
    ) -> io::Result<Option<(Bytes, Found)>> {
        if let Some(found) = self.in_a_group(key, slot, turn) {
            self.shared.groups.saved();
            return Ok(Some(found));
        }
        self.bytes(slot, turn, wait).await.map(|bytes| self.verified(key, bytes, turn))
    }

    /// A look came to nothing: for this error, or since what lies there is something else.
    fn tell(&self, key: &Key, slot: Slot, error: Option<io::Error>) {
        let stats = &self.shared.stats;
        match error {
            Some(error) => {
                stats.read_errors.fetch_add(1, Relaxed);
                self.shared.tell_of_reading(&error);
            }
            None => {
                stats.bad_records.fetch_add(1, Relaxed);
            }
        }
        self.shared.engine().forget(self.shared.hash(key), slot.place, self.shared.millis());
    }

    /// What lies behind the end of a segment that was written in part is of an earlier turn, and as sound as it was.
    fn verified(&self, key: &Key, bytes: Bytes, turn: u64) -> Option<(Bytes, Found)> {
        let found = record::parse(self.shared.layout.identity, &bytes)?;
        let is_meant = found.about.kind.is_answer()
            && found.seq == turn as u32
            && bytes[found.key.clone()] == key.bytes()[..];
        is_meant.then_some((bytes, found))
    }

    /// The record in a group that was read before: what the sweep has just made way for may have been read as of the next turn.
    fn in_a_group(&self, key: &Key, slot: Slot, turn: u64) -> Option<(Bytes, Found)> {
        let (shared, layout) = (&self.shared, &self.shared.layout);
        let bytes = shared.groups.find(turn, layout.offset(slot.place), self.length(slot))?;
        let (bytes, found) = self.verified(key, bytes, turn)?;
        Some((alone(&bytes), found))
    }

    /// Bytes of a record at most: lengths are about, and a segment ends.
    fn length(&self, slot: Slot) -> usize {
        let layout = &self.shared.layout;
        (slot.length as usize).min(layout.segment as usize - layout.within(slot.place))
    }

    /// The bytes at `slot`, where they lie in an image that is not written yet.
    fn image(&self, slot: Slot) -> Option<Bytes> {
        let (copy, length) = self.shared.engine().peek(slot)?;
        Some(Bytes::from_owner(copy).slice(..length))
    }

    /// The bytes at `slot`: from an image that is not written yet, or else by one read.
    async fn bytes(&self, slot: Slot, turn: u64, wait: Wait<'_>) -> io::Result<Bytes> {
        let (shared, layout) = (&self.shared, &self.shared.layout);
        let (number, length, start) =
            (layout.segment_of(slot.place), self.length(slot), layout.offset(slot.place));
        let written = !shared.unwritten.has(layout, number);
        if !written && let Some(image) = self.image(slot) {
            return Ok(image);
        }
        if let Some(group) = shared.groups.around(start, length).filter(|_| written) {
            match self.read_aligned(group.start, (group.end - group.start) as usize, wait).await {
                Ok(bytes) => {
                    shared.groups.keep(turn, group.start, bytes.clone());
                    let skip = (start - group.start) as usize;
                    return Ok(alone(&bytes[skip..skip + length]));
                }
                Err(late) if late.kind() == io::ErrorKind::WouldBlock => return Err(late),
                // What cannot be read may be its neighbours.
                Err(_) => {}
            }
        }
        self.read_aligned(start, length, wait).await
    }

    /// So many bytes at `start`, by a read of whole blocks.
    async fn read_aligned(&self, start: u64, length: usize, wait: Wait<'_>) -> io::Result<Bytes> {
        let block = self.shared.read_block;
        let skip = start as usize - align_down(start as usize, block);
        let span = align_up(skip + length, block);
        let _waits = Waits::new(&self.shared);
        let turn = self.turn(span, wait).await?;
        let flight = self.flights.begin(wait.patience())?;
        let buffer = self.shared.pool.take(span);
        let read = self.read(start - skip as u64, span, buffer, Turn::new(turn, self.shared.health.clone()));
        let Some(buffer) = flight.wait(read, || wait.stays()).await else {
            // The buffer stays with whoever reads into it.
            self.flights.hang_for(self.shared.patience);
            self.shared.health.gave_up(self.shared.millis());
            return Err(io::ErrorKind::WouldBlock.into());
        };
        drop(flight);
        self.shared.health.read(buffer.is_ok());
        Ok(Bytes::from_owner(buffer?).slice(skip..skip + length))
    }

    /// Waits until a read of so many bytes may begin. `WouldBlock` when that takes too long.
    async fn turn(&self, bytes: usize, wait: Wait<'_>) -> io::Result<OwnedSemaphorePermit> {
        let turns = if self.backend.has_clock() { (bytes.div_ceil(TURN) as u32).min(DEPTH) } else { 1 };
        if let Ok(turn) = self.turns.clone().try_acquire_many_owned(turns) {
            return Ok(turn);
        }
        self.flights.check(wait.patience())?;
        let turn = self.turns.clone().acquire_many_owned(turns);
        if !self.backend.has_clock() {
            return turn.await.map_err(io::Error::other);
        }
        let mut turn = pin!(turn);
        let limit = wait.patience().unwrap_or(HANGS * self.shared.patience);
        loop {
            match timeout(limit, turn.as_mut()).await {
                Ok(turn) => return turn.map_err(io::Error::other),
                Err(_) if wait.stays() => {}
                Err(_) => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    async fn read(&self, offset: u64, length: usize, buffer: Buffer, turn: Turn) -> io::Result<Buffer> {
        match &self.backend {
            Backend::Ring(ring) => ring.read(offset, length, buffer, turn).await,
            Backend::Threads(threads) => threads.read(offset, length, buffer, turn).await,
            Backend::Hand(desk) => desk.read(offset, length, buffer).await,
        }
    }
}

/// Counts a reader that waits for the device: what nobody waits for yields to it.
struct Waits<'a>(&'a Shared);

impl Waits<'_> {
    fn new(shared: &Shared) -> Waits<'_> {
        shared.readers.fetch_add(1, Relaxed);
        Waits(shared)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
    }
}

/// A copy of a record that came with others: whoever sends it slowly holds no more than that.
fn alone(record: &[u8]) -> Bytes {
    Bytes::copy_from_slice(record)
}

impl<T> Lookup<T> {
    fn of(found: Option<T>, late: &Cell<bool>) -> Lookup<T> {
        match found {
            Some(found) => Lookup::Found(found),
            None if late.get() => Lookup::Late,
            None => Lookup::Missing,
        }
    }
}

#[cfg(test)]
mod beside_the_sweep {
    use super::*;
    use crate::by_hand::ByHand;
    use crate::disk::sim::SimDisk;
    use crate::{Admission, Options};
    use rand::{SeedableRng, rngs::StdRng};
    use std::task::{Context, Waker};

    /// A reader that found a record just before it was swept reads it just after: what it keeps is not of the segment's next turn.
    #[test]
    fn a_group_read_beside_the_sweep_is_of_the_turn_that_it_was_read_of() {
        const SIZE: u64 = 4 << 20;
        let options = Options {
            packet: 128 << 10,
            group: 16 << 10,
            group_memory: 1 << 20,
            index_max: Some(120),
            admission: Admission::All,
            ..Options::at("")
        };
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options, 1).unwrap();
        let shared = store.shared_for_tests();
        let key = Key::new(b"K".to_vec());
        let mut now = 0;
        let mut put = |key: &Key, body: u8| {
            for _ in 0..10 {
                let done = store.put(key, b"", &[body; 5_000]);
                if done.is_ok() {
                    return;
                }
                now += 2_000;
                store.turn(&disk, now);
            }
            panic!("not put");
        };
        put(&key, b'o');
        let hash = shared.hash(&key);
        let slot = shared.index.find(hash).unwrap();
        let mut n = 0u32;
        while shared.index.find(hash).is_some() {
            n += 1;
            put(&Key::new(n.to_le_bytes().to_vec()), b'f');
        }
        assert!(!shared.unwritten.has(&shared.layout, shared.layout.segment_of(slot.place)));
        // The reader that had this slot.
        let desk = ManualReads::default();
        let reader = Reader::new(shared.clone(), Backend::Hand(desk.clone()));
        {
            let turn = shared.turn_of(shared.layout.segment_of(slot.place));
            let mut reading = pin!(reader.look_at(slot, turn, &key, Wait::Yields(Duration::ZERO)));
            let mut context = Context::from_waker(Waker::noop());
            while reading.as_mut().poll(&mut context).is_pending() {
                desk.take().unwrap().carry_out(&disk);
            }
        }
        // The same key comes to the same place in the next lap.
        loop {
            put(&key, b'n');
            if shared.index.find(hash).unwrap().place == slot.place {
                break;
            }
        }
        let Some(crate::Object { body: Body::Whole(body), .. }) = store.get(&disk, &key) else {
            panic!("missing")
        };
        assert_eq!(body[0] as char, 'n');
    }
}
