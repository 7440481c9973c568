//! The reading half of a worker: index, one device read, verification.

use crate::buffer::Buffer;
use crate::by_hand::ManualReads;
use crate::disk::threads::ThreadReader;
use crate::disk::uring::RingReader;
use crate::format::record::{self, Found, Kind};
use crate::format::{UNIT, align_down, align_up};
use crate::index::Slot;
use crate::store::Shared;
use crate::{Body, Key, Object, Spans, span_key};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
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
    waiting: Rc<RefCell<Waiting>>,
}

/// For how long a read waits for the disk.
#[derive(Clone, Copy)]
enum Wait<'a> {
    /// So long for its turn, and none while others have been waiting for longer.
    Yields(Duration),
    /// As long as a read that hangs, whatever others do, and as long again each time that this says so.
    Hangs(&'a dyn Fn() -> bool),
}

/// When the reads in flight were begun, in that order.
#[derive(Default)]
struct Waiting {
    /// `None`: it has ended, but one before it has not.
    since: VecDeque<Option<Instant>>,
    /// How many went before the first of them.
    gone: u64,
    /// A read was given up: until then none is begun by who has patience.
    hangs_until: Option<Instant>,
}

/// One read among them; ends when dropped.
struct Flight {
    waiting: Rc<RefCell<Waiting>>,
    number: u64,
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
        Reader { shared, backend, turns, waiting: Rc::default() }
    }

    /// How long an object is waited for (`Options::patience`).
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }

    /// Whether the disk keeps a read waiting for too long: then an object that is there is `Late`.
    pub fn is_late(&self) -> bool {
        Waiting::check(&self.waiting.borrow(), Some(self.shared.patience)).is_err()
    }

    /// As `get`, and tells when what may be there was not read since the disk is late.
    pub async fn look(&self, key: &Key) -> Lookup {
        let late = Cell::new(false);
        Lookup::of(self.find(key, &late).await, &late)
    }

    /// One device read for an object of up to 64 KiB, none when the index does not hold the key or its record is
    /// still in memory. A torn, corrupt or overwritten record is `None`, and so is any while the disk has kept a read
    /// waiting for longer than `Options::patience`. A large object (metadata first, then `span` by `span`) is returned
    /// only when all its spans are in the index.
    pub async fn get(&self, key: &Key) -> Option<Object> {
        self.find(key, &Cell::new(false)).await
    }

    async fn find(&self, key: &Key, late: &Cell<bool>) -> Option<Object> {
        let slot = self.shared.index.reference(key.index_hash(), 1)?;
        let (bytes, found) = self.record(key, slot, Wait::Yields(self.shared.patience), late).await?;
        let meta = bytes.slice(found.meta.clone());
        match found.about.kind {
            Kind::Object => {
                let newer = self.shared.overlay.meta(key.index_hash(), slot.place, found.sum);
                Some(Object { meta: newer.unwrap_or(meta), body: Body::Whole(bytes.slice(found.body)) })
            }
            Kind::Head => {
                let record::About { id, length, span, .. } = found.about;
                let spans = Spans { store: self.shared.number, id, length, span };
                self.shared.contains_spans(&spans).then_some(Object { meta, body: Body::Spans(spans) })
            }
            Kind::Span | Kind::Page | Kind::Root | Kind::Update | Kind::Overlay => None,
        }
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
        let slot = self.shared.index.reference(key.index_hash(), 1)?;
        let (bytes, found) = self.record(&key, slot, Wait::Hangs(stays), late).await?;
        (found.about.kind == Kind::Span).then(|| bytes.slice(found.body))
    }

    /// The record under the key at `slot`, verified. What proves to be something else leaves the index.
    async fn record(
        &self,
        key: &Key,
        slot: Slot,
        wait: Wait<'_>,
        late: &Cell<bool>,
    ) -> Option<(Bytes, Found)> {
        let found = match self.bytes(slot, wait).await {
            Ok(bytes) => {
                let found = record::parse(self.shared.layout.identity, &bytes)
                    .filter(|found| {
                        found.about.kind.is_answer() && bytes[found.key.clone()] == key.bytes()[..]
                    })
                    .map(|found| (bytes, found));
                self.shared.stats.bad_records.fetch_add(u64::from(found.is_none()), Relaxed);
                found
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.shared.stats.busy_reads.fetch_add(1, Relaxed);
                late.set(true);
                return None;
            }
            Err(error) => {
                self.shared.stats.read_errors.fetch_add(1, Relaxed);
                self.shared.tell_of_reading(&error);
                None
            }
        };
        if found.is_none() {
            self.shared.engine().forget(key.index_hash(), slot.place, self.shared.millis());
        }
        found
    }

    /// The bytes at `slot`: from an image that is not written yet, or else by one read.
    async fn bytes(&self, slot: Slot, wait: Wait<'_>) -> io::Result<Bytes> {
        let length = usize::from(slot.units) * UNIT;
        let image = self.shared.engine().peek(slot);
        if let Some(copy) = image {
            return Ok(Bytes::from_owner(copy).slice(..length));
        }
        let start = slot.place * UNIT as u64;
        let block = self.shared.read_block;
        let skip = start as usize - align_down(start as usize, block);
        let span = align_up(skip + length, block);
        let turn = self.turn(span, wait).await?;
        let flight = Waiting::join(&self.waiting, wait.patience())?;
        let buffer = self.shared.pool.take(span);
        let read = self.read(start - skip as u64, span, buffer, turn);
        let Some(buffer) = self.unless_it_hangs(read, wait).await else {
            // The buffer stays with whoever reads into it.
            self.waiting.borrow_mut().hangs_until = Some(Instant::now() + self.shared.patience);
            return Err(io::ErrorKind::WouldBlock.into());
        };
        drop(flight);
        Ok(Bytes::from_owner(buffer?).slice(skip..skip + length))
    }

    /// What comes of a read, or of waiting for its turn, if that is soon enough. It is the same one that is waited for again:
    /// what is given up is read nonetheless, so that a slow disk would only get slower by being asked once more.
    async fn unless_it_hangs<T>(&self, future: impl Future<Output = T>, wait: Wait<'_>) -> Option<T> {
        if !self.backend.has_clock() {
            return Some(future.await);
        }
        let mut future = pin!(future);
        loop {
            if let Ok(done) = timeout(HANGS * self.shared.patience, future.as_mut()).await {
                return Some(done);
            }
            if !matches!(wait, Wait::Hangs(stays) if stays()) {
                return None;
            }
        }
    }

    /// Waits until a read of so many bytes may begin. `WouldBlock` when that takes too long.
    async fn turn(&self, bytes: usize, wait: Wait<'_>) -> io::Result<OwnedSemaphorePermit> {
        let turns = if self.backend.has_clock() { bytes.div_ceil(TURN) as u32 } else { 1 };
        if let Ok(turn) = self.turns.clone().try_acquire_many_owned(turns) {
            return Ok(turn);
        }
        Waiting::check(&self.waiting.borrow(), wait.patience())?;
        let turn = self.turns.clone().acquire_many_owned(turns);
        let turn = match wait {
            Wait::Yields(patience) if self.backend.has_clock() => timeout(patience, turn).await.ok(),
            wait => self.unless_it_hangs(turn, wait).await,
        };
        turn.ok_or(io::ErrorKind::WouldBlock)?.map_err(io::Error::other)
    }

    async fn read(
        &self,
        offset: u64,
        length: usize,
        buffer: Buffer,
        turn: OwnedSemaphorePermit,
    ) -> io::Result<Buffer> {
        match &self.backend {
            Backend::Ring(ring) => ring.read(offset, length, buffer, turn).await,
            Backend::Threads(threads) => threads.read(offset, length, buffer, turn).await,
            Backend::Hand(desk) => desk.read(offset, length, buffer).await,
        }
    }
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

impl Waiting {
    /// `WouldBlock` when the oldest read has been waiting for longer than `patience`, or one was given up just now: those
    /// behind it will hardly fare better.
    fn check(&self, patience: Option<Duration>) -> io::Result<Instant> {
        let now = Instant::now();
        let oldest = self.since.front().copied().flatten();
        let hangs = |patience| {
            oldest.is_some_and(|oldest| now.duration_since(oldest) > patience)
                || self.hangs_until.is_some_and(|until| now < until)
        };
        if patience.is_some_and(hangs) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(now) }
    }

    /// Begins a read, after a `check`.
    fn join(waiting: &Rc<RefCell<Waiting>>, patience: Option<Duration>) -> io::Result<Flight> {
        let mut reads = waiting.borrow_mut();
        let now = reads.check(patience)?;
        let number = reads.gone + reads.since.len() as u64;
        reads.since.push_back(Some(now));
        Ok(Flight { waiting: waiting.clone(), number })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut reads = self.waiting.borrow_mut();
        let at = (self.number - reads.gone) as usize;
        reads.since[at] = None;
        while reads.since.front().is_some_and(Option::is_none) {
            reads.since.pop_front();
            reads.gone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_read_that_waits_for_too_long_none_is_begun() {
        let waiting = Rc::new(RefCell::new(Waiting::default()));
        let begin = |patience| Waiting::join(&waiting, patience);
        let (patient, soon) = (Some(Duration::from_secs(60)), Some(Duration::from_millis(20)));
        let (first, second) = (begin(patient).unwrap(), begin(patient).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        assert!(begin(soon).is_err() && begin(patient).is_ok() && begin(None).is_ok());
        let third = begin(patient).unwrap();
        drop(second);
        assert!(begin(soon).is_err(), "the first one waits still");
        drop(first);
        assert!(begin(soon).is_ok(), "the third one has just begun");
        drop(third);
        let reads = waiting.borrow();
        assert!(reads.since.is_empty() && reads.gone == 6, "{} read(s) are left", reads.since.len());
    }
}
