//! What all handles, readers and writers of one open store share: the engine behind its lock, what is read without it, and the threads
//! that carry out its I/O.

use crate::buffer::Pool;
use crate::disk::{Disk, Traffic};
use crate::engine::{Answer, Engine, Io, Millis, Op, State, Unwritten};
use crate::format::digest::last_of_each;
use crate::format::record::{About, Found, HEADER, Kind, Record};
use crate::format::{BLOCK, Layout, align_down};
use crate::groups::Groups;
use crate::health::Health;
use crate::index::{Index, Slot, USES_MAX};
use crate::loader::Loaded;
use crate::placement::{Live, Standing};
use crate::retry::Retry;
use crate::writer::Writer;
use crate::{Body, Key, Options, Refused, Spans, Uses, WriteBudget, span_key};
use rand::{Rng, RngExt, rngs::StdRng};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// Reads before a store is open, at most.
const FIRST_READS: usize = 64;
/// Largest piece of a body in one record, about: a whole number of them fills a segment.
const SPAN: usize = 256 << 10;
/// Bytes of a key of a span.
const SPAN_KEY: usize = 16;
/// Bytes that each size of buffer may keep for reuse.
pub(crate) const POOL: usize = 4 << 20;

pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub wake: Condvar,
    /// Told when the store ends.
    pub ends: Condvar,
    /// Readers that wait for the device, or for their turn.
    pub readers: AtomicU64,
    ending: AtomicU8,
    pub index: Arc<Index>,
    pub unwritten: Arc<Unwritten>,
    /// Told when a part of the index has been loaded.
    pub loaded: Notify,
    pub parts: Arc<Loaded>,
    /// Of this store among its user's.
    pub number: u16,
    /// The granularity of reads, bytes.
    pub read_block: usize,
    pub pool: Arc<Pool>,
    pub layout: Layout,
    pub span: usize,
    pub patience: Duration,
    /// Bytes of the largest body.
    pub object_max: u64,
    pub live: Arc<Live>,
    pub groups: Groups,
    group_of: fn(&[u8]) -> u64,
    /// As `Engine::departed`.
    departed: Arc<AtomicU64>,
    pub write_budget: Option<WriteBudget>,
    pub stats: Counts,
    pub health: Arc<Health>,
    pub traffic: Arc<Traffic>,
    ids: Mutex<StdRng>,
    /// How often the engine is told the time when nothing else happens.
    tick: Duration,
    clock: Clock,
    /// How the cache is called, and who is told when writes, or reads before them, begin to fail or work again.
    pub name: String,
    tell: fn(&str),
    news: fn(&str),
    told: Mutex<Reported>,
    /// When it was said last that reads fail; 0: never.
    told_of_reading: AtomicU64,
    /// When it is looked next whether somebody else did something to the medium, and how often: milliseconds.
    look: AtomicU64,
    interval: Millis,
}

/// What was said last of what fails.
#[derive(Default)]
struct Reported {
    failing: bool,
    given_up: u64,
    /// When it is said once more that writes fail.
    again: Retry,
    harm: Option<&'static str>,
}

/// How the store's threads end; the later one rules.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// When there is nothing left to do.
    Closing = 1,
    /// At once.
    Abandoned = 2,
}

/// Who says what time it is.
pub(crate) enum Clock {
    /// The machine; milliseconds count from here.
    Machine(Instant),
    /// Whoever holds the store: milliseconds.
    Holder(AtomicU64),
}

impl Clock {
    /// Milliseconds since 1970 when it began; of a holder's, none.
    fn epoch(&self) -> Millis {
        match self {
            Clock::Machine(started) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                now.saturating_sub(started.elapsed()).as_millis() as Millis
            }
            Clock::Holder(_) => 0,
        }
    }
}

#[derive(Default)]
pub(crate) struct Counts {
    pub bad_records: AtomicU64,
    pub read_errors: AtomicU64,
    pub busy_reads: AtomicU64,
}

impl Shared {
    /// Of the device: what counts its traffic, and the granularity of its reads.
    pub fn new(
        state: State,
        options: &Options,
        pool: Arc<Pool>,
        (traffic, read_block): (Arc<Traffic>, usize),
        ids: StdRng,
        clock: Clock,
    ) -> Arc<Shared> {
        let (layout, interval) = (state.layout, options.flush_interval);
        let index = state.index.clone();
        let engine = Engine::new(state, interval.as_millis() as u64, pool.clone())
            .with_index_of(options.index_max.unwrap_or(u64::MAX))
            .with_admission(options.admission, options.write_budget, options.objects(&layout))
            .with_cmax(options.cmax, options.group_of)
            .with_scrub(options.scrub, clock.epoch());
        let parts = engine.loaded();
        Arc::new(Shared {
            unwritten: engine.unwritten(),
            wake: Condvar::new(),
            ends: Condvar::new(),
            readers: AtomicU64::new(0),
            ending: AtomicU8::new(0),
            index,
            loaded: Notify::new(),
            number: options.number,
            read_block,
            pool,
            layout,
            patience: options.patience,
            span: span_size(&layout),
            // What does not fit with room to spare would only sweep the log.
            object_max: options.object_max.unwrap_or(layout.size() / 4).min(layout.size() / 4 * 3),
            live: engine.live(),
            groups: Groups::new(&layout, options.group, options.group_memory),
            group_of: options.group_of,
            departed: engine.departed(),
            engine: Mutex::new(engine),
            write_budget: options.write_budget,
            stats: Counts::default(),
            health: Arc::default(),
            traffic,
            ids: Mutex::new(ids),
            tick: (interval / 4).clamp(Duration::from_millis(10), Duration::from_millis(250)),
            clock,
            name: options.path.display().to_string(),
            tell: options.tell,
            news: options.news,
            told_of_reading: AtomicU64::new(0),
            look: AtomicU64::new(0),
            interval: interval.as_millis() as u64,
            told: Mutex::default(),
            parts,
        })
    }

    pub fn end(&self, how: End) {
        // Under the lock, or a thread that is about to wait would not hear of it.
        let mut engine = self.engine();
        self.ending.fetch_max(how as u8, Relaxed);
        engine.stop_loading();
        drop(engine);
        self.wake.notify_all();
        self.ends.notify_all();
    }

    pub fn is_ending(&self) -> bool {
        self.ending.load(Relaxed) != 0
    }

    pub fn is_abandoned(&self) -> bool {
        self.ending.load(Relaxed) == End::Abandoned as u8
    }

    /// The sequence number of the segment that lies there now, as far as the index speaks of it.
    pub fn turn_of(&self, number: u64) -> u64 {
        self.layout.turn_from(number, self.departed.load(Acquire)).unwrap_or(u64::MAX)
    }

    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the index knows the key by.
    pub fn hash(&self, key: &Key) -> u64 {
        self.layout.mix(key.index_hash())
    }

    /// Has the hash's part of the index loaded before others.
    pub fn want(&self, hash: u64) {
        self.engine().want(hash);
        self.wake.notify_all();
    }

    pub fn touch(&self, key: &Key, uses: Uses, body: &Body) -> bool {
        let hash = self.hash(key);
        // More are not counted.
        let slot = (0..uses.new.min(USES_MAX)).map_while(|_| self.index.reference(hash)).last();
        match (slot, body) {
            // Memory has the heads of these alone.
            (Some(slot), Body::Spans(spans)) => {
                self.live.was_hit(&slot, self.layout.segment_of(slot.place), spans.length);
                false
            }
            (None, Body::Spans(_)) => false,
            (Some(slot), Body::Whole(_)) => {
                self.live.was_used(&slot, self.layout.segment_of(slot.place), uses.all)
            }
            (None, Body::Whole(body)) => {
                let fits = body.len() <= self.span && body.len() as u64 <= self.object_max;
                let bytes = self.record_bytes(key, 0, body.len());
                fits && self.live.admits_used(uses.all, bytes) && self.is_loaded(hash)
            }
        }
    }

    pub fn may_hold(&self, key: &Key) -> bool {
        let hash = self.hash(key);
        self.index.find(hash).is_some() || !self.is_loaded(hash)
    }

    /// Which of these pieces of a body are not there: the log overtook them, or they proved damaged.
    pub fn missing(&self, spans: &Spans, pieces: Range<u32>) -> impl Iterator<Item = u32> {
        let id = spans.id;
        (pieces.start..pieces.end.min(spans.count())).filter(move |n| !self.may_hold(&span_key(id, *n)))
    }

    /// True when the index knows all keys of the hash's part.
    pub fn is_loaded(&self, hash: u64) -> bool {
        self.parts.has(self.index.part_of(hash))
    }

    /// As the index will say of a record, so that what is put and what is hit are of the same class of size.
    fn record_bytes(&self, key: &Key, meta: usize, body: usize) -> u64 {
        let bytes = HEADER + key.bytes().len() + meta + body;
        self.index.layout().length_bound(u32::try_from(bytes).unwrap_or(u32::MAX)).into()
    }

    pub fn put_whole(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.takes(key, body.len())?;
        let bytes = self.record_bytes(key, meta.len(), body.len());
        match self.admits(key, bytes) {
            Ok(standing) => self.put(key, self.about_whole(body), standing, meta, body),
            Err(refused) => {
                self.engine().remove(self.hash(key), self.millis());
                Err(refused)
            }
        }
    }

    pub fn put_anyway(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.takes(key, body.len())?;
        self.put(key, self.about_whole(body), Standing::New, meta, body)
    }

    /// An object that was found valid was used. If it is not on the disk, it has to be worth a place there; and with a write budget to be
    /// written in any case.
    pub fn renew(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.takes(key, body.len())?;
        let hash = self.hash(key);
        let bytes = self.record_bytes(key, meta.len(), body.len());
        let standing = match self.index.find(hash) {
            Some(slot) if self.live.affords(slot.uses.max(2), bytes) => Standing::As(slot),
            None if !self.is_loaded(hash) && self.live.affords(2, bytes) => Standing::Unknown,
            None if self.live.admits_used(2, bytes) => Standing::Used(2),
            _ => {
                self.engine().remove(hash, self.millis());
                return Err(Refused::NotAdmitted);
            }
        };
        self.put(key, self.about_whole(body), standing, meta, body)
    }

    pub fn renew_head(&self, key: &Key, meta: &[u8], spans: &Spans) -> Result<(), Refused> {
        let standing = self.index.find(self.hash(key)).map_or(Standing::Unknown, Standing::As);
        self.put_head(key, meta, spans, standing)
    }

    /// Puts a piece of a stored body back. What that is worth was judged when the body was put. One of another length is of a body
    /// that was shorter, or is longer now.
    pub fn put_span(&self, spans: &Spans, n: u32, body: &[u8]) -> Result<(), Refused> {
        if body.len() as u64 != spans.length_of(n) {
            return Err(Refused::NotAdmitted);
        }
        self.put(&span_key(spans.id, n), self.about_span(spans.id, body), Standing::New, &[], body)
    }

    pub fn about_span(&self, id: u64, body: &[u8]) -> About {
        let (length, span) = (body.len() as u64, self.span as u32);
        About { kind: Kind::Span, id, length, span, written: self.seconds() }
    }

    /// Puts a head again as it is there, after pieces that are younger now. In vain where the store is busy, or has another.
    pub fn put_head_again(&self, key: &Key, meta: &[u8], spans: &Spans) {
        let hash = self.hash(key);
        let Some(slot) = self.index.find(hash) else { return };
        let Spans { id, length, span, .. } = *spans;
        let about = About { kind: Kind::Head, id, length, span, written: self.seconds() };
        if let Some(record) = Record::new(self.layout.identity, about, key.bytes(), meta, &[]) {
            self.give(|engine, now| engine.put_as(hash, &record, slot, now));
        }
    }

    pub fn put_head(&self, key: &Key, meta: &[u8], spans: &Spans, standing: Standing) -> Result<(), Refused> {
        let Spans { id, length, span, .. } = *spans;
        let about = About { kind: Kind::Head, id, length, span, written: self.seconds() };
        self.put(key, about, standing, meta, &[])
    }

    fn about_whole(&self, body: &[u8]) -> About {
        About { kind: Kind::Object, id: 0, length: body.len() as u64, span: 0, written: self.seconds() }
    }

    /// Whether a body of this length is taken. If not, what was under the key is gone.
    fn takes(&self, key: &Key, length: usize) -> Result<(), Refused> {
        if length <= self.span && length as u64 <= self.object_max {
            return Ok(());
        }
        self.engine().remove(self.hash(key), self.millis());
        Err(Refused::TooLarge)
    }

    /// Whether an object of so many bytes that was just fetched is let in.
    pub fn admits(&self, key: &Key, bytes: u64) -> Result<Standing, Refused> {
        let chance = self.chance();
        self.engine().admits(self.hash(key), bytes, chance, self.millis())
    }

    /// The same of a large one, which arrives in pieces: what it takes of the write budget is kept for it.
    pub fn admits_large(&self, key: &Key, bytes: u64) -> Result<Standing, Refused> {
        let chance = self.chance();
        let mut engine = self.engine();
        let standing = engine.admits(self.hash(key), bytes, chance, self.millis())?;
        engine.reserve(bytes);
        Ok(standing)
    }

    /// Where it decides.
    fn chance(&self) -> f64 {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// Whether it was put.
    pub fn put_again(&self, key: &Key, meta: &[u8], body: &[u8], uses: u8) -> bool {
        let record = self.record(self.about_whole(body), key, meta, body);
        record.filter(|_| body.len() <= self.span).is_some_and(|record| {
            self.give(|engine, now| engine.put_again(self.hash(key), &record, None, uses, now))
        })
    }

    /// What was read from `slot` answers: counts that, and puts it again, unless it was replaced or removed meanwhile, if it is to
    /// stay.
    pub fn was_read(&self, key: &Key, slot: Slot, bytes: &[u8], found: &Found) {
        let size = match found.about.kind {
            Kind::Object => u64::from(slot.length),
            Kind::Head => found.about.length,
            _ => return,
        };
        let again = self.live.was_hit(&slot, self.layout.segment_of(slot.place), size);
        if !again || found.about.kind != Kind::Object {
            return;
        }
        let part = |range: &Range<usize>| &bytes[range.clone()];
        let (meta, body) = (part(&found.meta), part(&found.body));
        if let Some(record) = self.record(found.about, key, meta, body) {
            let (hash, place) = (self.hash(key), Some(slot.place));
            self.give(|engine, now| engine.put_again(hash, &record, place, slot.uses, now));
        }
    }

    fn record<'a>(&self, about: About, key: &'a Key, meta: &'a [u8], body: &'a [u8]) -> Option<Record<'a>> {
        let record = Record::new(self.layout.identity, about, key.bytes(), meta, body)?;
        Some(record.of_group((self.group_of)(key.bytes())))
    }

    /// Sums outside the lock, copies inside.
    pub fn put(
        &self,
        key: &Key,
        about: About,
        standing: Standing,
        meta: &[u8],
        body: &[u8],
    ) -> Result<(), Refused> {
        match self.record(about, key, meta, body) {
            Some(record) => self.give(|engine, now| engine.put(self.hash(key), &record, standing, now)),
            None => {
                self.engine().remove(self.hash(key), self.millis());
                Err(Refused::TooLarge)
            }
        }
    }

    /// Has the engine take something, and wakes a thread when that gave it something to do.
    fn give<T>(&self, take: impl FnOnce(&mut Engine, Millis) -> T) -> T {
        let (result, work) = {
            let mut engine = self.engine();
            let before = engine.counters();
            let result = take(&mut engine, self.millis());
            let after = engine.counters();
            (result, after.refused != before.refused || after.segments != before.segments)
        };
        if work {
            self.wake.notify_all();
        }
        result
    }

    pub fn begin(self: &Arc<Shared>, key: &Key, expected: Option<u64>) -> Result<Writer, Refused> {
        let expected_bytes = expected.unwrap_or(0);
        if expected_bytes > self.object_max {
            return Err(Refused::TooLarge);
        }
        let standing = match expected_bytes > self.span as u64 {
            true => Some(self.admits_large(key, expected_bytes)?),
            // A small one is judged whole, and what is larger when that shows.
            false => None,
        };
        Ok(Writer::new(self.clone(), key, expected, standing))
    }

    /// The part was let in when it was begun, for all that it may become.
    pub fn resume(
        self: &Arc<Shared>,
        key: &Key,
        part: &Spans,
        expected: Option<u64>,
    ) -> Result<Writer, Refused> {
        let is_too_large = expected.unwrap_or(part.length) > self.object_max;
        let goes_on = part.span as usize == self.span && part.length.is_multiple_of(self.span as u64);
        if is_too_large || part.length == 0 || !goes_on {
            return Err(Refused::TooLarge);
        }
        let standing = self.index.find(self.hash(key)).map_or(Standing::Unknown, Standing::As);
        Ok(Writer::resume(self.clone(), key, part, standing))
    }

    pub fn carry_out(&self, disk: &dyn Disk, op: Op) -> io::Result<Answer> {
        match op {
            Op::Read { offset, length } => {
                let mut buffer = self.pool.take(length);
                disk.read(offset, &mut buffer, length).map(|()| Answer::Read(buffer))
            }
            Op::Write { offset, image, range } => disk.write(offset, &image[range]).map(|()| Answer::Done),
            Op::Sync => disk.sync().map(|()| Answer::Done),
            Op::Digest { events } => Ok(Answer::Digested(last_of_each(events))),
            Op::Index(work) => Ok(work.carry_out(&self.index)),
            Op::Verify(verify) => verify.carry_out(disk, &self.pool, &self.index).map(Answer::Verified),
        }
    }

    /// Reads the contents of the first segments, so that the first put finds room. All else, and all from the first failure on,
    /// is the threads' part: opening waits neither for the index nor for a disk that fails.
    pub fn look_ahead(&self, disk: &dyn Disk) {
        for _ in 0..FIRST_READS {
            let io = self.engine().next_read();
            let Some(Io { id, op }) = io else { return };
            let result = self.carry_out(disk, op);
            let failed = result.is_err();
            drop(self.done(id, result));
            if failed {
                return;
            }
        }
    }

    /// All that the engine wants done now, and whether there was anything.
    pub fn carry_out_all(&self, disk: &dyn Disk) -> bool {
        let mut some = false;
        loop {
            let io = self.engine().next_io();
            let Some(Io { id, op }) = io else { return some };
            let result = self.carry_out(disk, op);
            drop(self.done(id, result));
            some = true;
        }
    }

    /// Reports the outcome of an I/O to the engine, and to the operator when writes began to fail by it, or work again, or all of the
    /// index is loaded.
    pub(crate) fn done(&self, id: u64, result: io::Result<Answer>) -> MutexGuard<'_, Engine> {
        let mut engine = self.engine();
        let (before, parts) = (engine.is_failing(), engine.parts_left());
        engine.done(id, result, self.millis());
        let left = engine.parts_left();
        let (loaded, turned) = (left == 0 && parts > 0, engine.is_failing() != before);
        if left != parts {
            self.loaded.notify_waiters();
        }
        if !loaded && !turned {
            return engine;
        }
        drop(engine);
        if loaded {
            let (name, objects, millis) = (&self.name, self.index.len(), self.millis());
            (self.news)(&format!("the index of cache {name} is loaded after {millis} ms: {objects} entries"));
        }
        if turned {
            self.tell_of_writes();
        }
        self.engine()
    }

    /// Says that reading fails: at most once a minute.
    pub fn tell_of_reading(&self, error: &io::Error) {
        let now = self.millis();
        let due = |told: u64| (told == 0 || now.saturating_sub(told) > 60_000).then_some(now.max(1));
        if self.told_of_reading.try_update(Relaxed, Relaxed, due).is_ok() {
            (self.tell)(&format!(
                "reading cache {} fails ({error}): what cannot be read is fetched from the origins; check the disk",
                self.name
            ));
        }
    }

    /// True when `tell_of_harm` would look.
    fn looks_for_harm(&self) -> bool {
        self.millis() >= self.look.load(Relaxed)
    }

    /// Says what somebody else did to the medium, once. Looks once a flush interval.
    fn tell_of_harm(&self, disk: &dyn Disk) {
        let now = self.millis();
        let due = |next| (now >= next).then_some(now + self.interval);
        if self.look.try_update(Relaxed, Relaxed, due).is_err() {
            return;
        }
        let harm = disk.harm();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if harm != told.harm
            && let Some(harm) = harm
        {
            (self.tell)(&format!("cache {} {harm}", self.name));
        }
        told.harm = harm;
    }

    /// Says how writes are now, if that is not what was said last.
    fn tell_of_writes(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &self.name;
        let engine = self.engine();
        let (failing, given_up) = (engine.is_failing(), engine.counters().given_up);
        if failing && !told.failing {
            // One that fails now and then would fill a log.
            let now = self.millis();
            if !told.again.is_due(now) {
                return;
            }
            told.again.fail(now);
        }
        let line = match (told.failing, failing) {
            (false, true) => format!(
                "writing to cache {name} fails ({}) and is tried again; until it works, little is stored: check \
                 the disk, its free space and the permissions",
                engine.cause()
            ),
            (true, false) if given_up > told.given_up => format!(
                "writing to cache {name} works again, except for {} packet(s) that the disk does not accept",
                given_up - told.given_up
            ),
            (true, false) => format!("writing to cache {name} works again"),
            _ => return,
        };
        drop(engine);
        (told.failing, told.given_up) = (failing, given_up);
        (self.tell)(&line);
    }

    pub fn new_id(&self) -> u64 {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    pub fn millis(&self) -> Millis {
        match &self.clock {
            Clock::Machine(started) => started.elapsed().as_millis() as u64,
            Clock::Holder(millis) => millis.load(Relaxed),
        }
    }

    /// Tells the time where it is the holder's to say.
    pub fn set_time(&self, now: Millis) {
        if let Clock::Holder(millis) = &self.clock {
            millis.store(now, Relaxed);
        }
    }

    pub fn seconds(&self) -> u64 {
        match &self.clock {
            Clock::Machine(_) => {
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
            }
            Clock::Holder(millis) => millis.load(Relaxed) / 1000,
        }
    }
}

/// One of the store's threads: takes what the engine wants done, does it, reports back.
pub(crate) fn work(shared: &Shared, disk: &dyn Disk) {
    let mut engine = shared.engine();
    while !shared.is_abandoned() {
        if shared.looks_for_harm() {
            drop(engine);
            shared.tell_of_harm(disk);
            engine = shared.engine();
            continue;
        }
        if let Some(Io { id, op }) = engine.next_io() {
            let (moves, writes) = (op.is_of_the_medium(), op.is_write());
            if moves {
                shared.health.begin(writes, shared.millis());
            }
            drop(engine);
            let result = shared.carry_out(disk, op);
            if moves {
                shared.health.end(writes, shared.millis());
            }
            engine = shared.done(id, result);
            continue;
        }
        if shared.is_ending() {
            return;
        }
        engine = shared.wake.wait_timeout(engine, shared.tick).unwrap_or_else(PoisonError::into_inner).0;
        engine.tick(shared.millis());
    }
}

/// Bytes of a body in one record, so that a whole number of records with their spans fill a segment but for its table.
fn span_size(layout: &Layout) -> usize {
    let segment = layout.segment as usize;
    let parts = (segment / SPAN).clamp(4, 16);
    align_down((segment - BLOCK) / parts, layout.unit as usize) - HEADER - SPAN_KEY
}
