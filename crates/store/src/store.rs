//! The thin shell around the engine: threads that carry out its I/O, the clock, opening and closing.

use crate::buffer::Pool;
use crate::digester::stretch;
use crate::disk::file::{self, Access, FileDisk, layout};
use crate::disk::threads::ThreadReader;
use crate::disk::uring::RingReader;
use crate::disk::{Disk, Traffic};
use crate::engine::{Answer, Engine, Io, Millis, Op, State, Unwritten};
use crate::format::digest::last_of_each;
use crate::format::record::{About, Found, HEADER, Kind, Record};
use crate::format::superblock::{self, COPIES, NotOurs};
use crate::format::{BLOCK, DATA_START, Layout, VERSION, align_down};
use crate::index::{Index, Slot, USES_MAX};
use crate::loader::Loaded;
use crate::placement::{Live, Standing};
use crate::reader::{Backend, Reader};
use crate::reads::Reads;
use crate::recovery::recover;
use crate::writer::Writer;
use crate::{Body, IoChoice, Key, OpenError, Options, Refused, Spans, Stats, Uses, span_key};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// Threads that write packets and read tables: as many writes as the engine has in flight.
const IO_THREADS: usize = 4;
/// Reads before a store is open, at most.
const FIRST_READS: usize = 64;
/// Largest piece of a body in one record, about: a whole number of them fills a segment.
const SPAN: usize = 256 << 10;
/// Bytes of a key of a span.
const SPAN_KEY: usize = 16;
/// How long `close` waits for the last writes; and when writes fail.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
const FAILING_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that each size of buffer may keep for reuse.
pub(crate) const POOL: usize = 4 << 20;

/// A handle to one open cache; cheap to clone, shared by all workers.
#[derive(Clone)]
pub struct Store(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    opened: String,
    /// Where reads go through rings: the file that they read.
    ring: Option<File>,
    /// Holds our claim to the file, if it is one.
    claim: Option<File>,
    disk: Arc<dyn Disk>,
    thread_reader: Mutex<Option<ThreadReader>>,
}

/// What a store is opened on.
struct Medium {
    disk: Arc<dyn Disk>,
    layout: Layout,
    traffic: Arc<Traffic>,
    ring: Option<File>,
    claim: Option<File>,
    /// How it is called in the log, and what is to be said of it there.
    name: String,
    note: &'static str,
}

pub(crate) struct Shared {
    engine: Mutex<Engine>,
    wake: Condvar,
    ending: AtomicU8,
    pub index: Arc<Index>,
    pub unwritten: Arc<Unwritten>,
    /// Told when a part of the index has been loaded.
    pub loaded: Notify,
    parts: Arc<Loaded>,
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
    pub stats: Counts,
    traffic: Arc<Traffic>,
    ids: Mutex<StdRng>,
    /// How often the engine is told the time when nothing else happens.
    tick: Duration,
    clock: Clock,
    /// How the cache is called, and who is told when writes, or reads before them, begin to fail or work again.
    name: String,
    tell: fn(&str),
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
    harm: Option<&'static str>,
}

/// How the store's threads end; the later one rules.
#[derive(Clone, Copy)]
enum End {
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

#[derive(Default)]
pub(crate) struct Counts {
    pub bad_records: AtomicU64,
    pub read_errors: AtomicU64,
    pub busy_reads: AtomicU64,
}

impl Store {
    /// Opens the cache at `options.path`, makes it when there is none, and recovers what it holds.
    pub fn open(options: &Options) -> Result<Store, OpenError> {
        let began = Instant::now();
        let (disk, layout) = open_disk(options).map_err(OpenError)?;
        if disk.others_can_read() {
            let path = options.path.display();
            (options.tell)(&format!("cache {path} can be read by all users; chmod 600 makes it private"));
        }
        let again = || disk.file().try_clone().map_err(|e| OpenError(e.to_string()));
        let ring = match choose_io(options.io, disk.file())? {
            IoChoice::Uring => Some(again()?),
            IoChoice::Auto | IoChoice::Threads => None,
        };
        let note = if disk.is_direct() { "" } else { " through the page cache (no direct I/O here)" };
        let (traffic, claim) = (disk.traffic().clone(), Some(again()?));
        let name = options.path.display().to_string();
        Store::start(
            Medium { disk: Arc::new(disk), layout, traffic, ring, claim, name, note },
            options,
            began,
        )
    }

    /// The same store over any disk: it is formatted when it is blank (`options.size` bytes of it, which it has), else
    /// what it holds is recovered. Reads are by threads; the disk's traffic is not counted.
    pub fn over(disk: Arc<dyn Disk>, options: &Options) -> Result<Store, OpenError> {
        let began = Instant::now();
        let size = options.size.unwrap_or(DEFAULT_SIZE);
        let layout = match layout_of(Path::new("(a disk)"), &*disk, size).map_err(OpenError)? {
            None => format(options, &*disk, size).map_err(OpenError)?,
            Some(found) => found,
        };
        let (traffic, name) = (Arc::default(), "on a disk".to_owned());
        Store::start(
            Medium { disk, layout, traffic, ring: None, claim: None, name, note: "" },
            options,
            began,
        )
    }

    fn start(medium: Medium, options: &Options, began: Instant) -> Result<Store, OpenError> {
        let Medium { disk, layout, traffic, ring, claim, name, note } = medium;
        let pool = Pool::new(POOL);
        let (state, recovered) = recover(
            &Reads::new(&*disk, &pool),
            layout,
            stretch(layout.segments),
            Index::of(&layout, options.objects(&layout)),
        )
        .map_err(|e| OpenError(format!("cannot read cache {name}: {e}")))?;
        if recovered.unread {
            (options.tell)(&format!(
                "reading cache {name} failed at its start: what could not be read counts as missing; check the disk"
            ));
        }
        let ids = StdRng::from_rng(&mut rand::rng());
        let clock = Clock::Machine(began);
        let shared = Shared::new(state, options, pool, (traffic, disk.read_block()), ids, clock);
        shared.look_ahead(&*disk);
        let opened = format!(
            "cache {name} ({} MiB, {} packets) is open after {} ms, {} packets looked at; reads by {}{note}{}",
            layout.size() >> 20,
            match layout.segment >> 20 {
                0 => format!("{} KiB", layout.segment >> 10),
                mib => format!("{mib} MiB"),
            },
            began.elapsed().as_millis(),
            recovered.scanned,
            if ring.is_some() { "io_uring" } else { "threads" },
            if shared.parts.left() > 0 { "; loading the index in the background" } else { "" },
        );
        let threads = (0..IO_THREADS)
            .map(|n| {
                let (shared, disk) = (shared.clone(), disk.clone());
                std::thread::Builder::new().name(format!("store-{n}")).spawn(move || work(&shared, &*disk))
            })
            .collect::<io::Result<_>>()
            .map_err(|e| OpenError(format!("cannot start a store thread: {e}")))?;
        let (threads, thread_reader) = (Mutex::new(threads), Mutex::new(None));
        Ok(Store(Arc::new(Handle { shared, threads, opened, ring, claim, disk, thread_reader })))
    }

    /// The reading half of one worker thread (`!Send`); call inside that thread's local tokio runtime.
    pub fn reader(&self) -> io::Result<Reader> {
        let shared = self.0.shared.clone();
        let backend = if let Some(file) = &self.0.ring {
            Backend::Ring(RingReader::new(file, shared.traffic.clone())?)
        } else {
            let mut pool = self.0.thread_reader.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = match &*pool {
                Some(reader) => reader.clone(),
                None => pool.insert(ThreadReader::new(self.0.disk.clone())?).clone(),
            };
            Backend::Threads(reader)
        };
        Ok(Reader::new(shared, backend))
    }

    /// Largest body that `put` takes, bytes; larger ones go through `begin`.
    pub fn span_size(&self) -> usize {
        self.0.shared.span
    }

    /// True when the index may hold the key: it does, or it is not loaded so far. No disk access, no use counted.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.shared.may_hold(key)
    }

    /// True when the index may hold a large object with all its spans; as `contains` otherwise.
    pub fn contains_all(&self, key: &Key, spans: &Spans) -> bool {
        self.contains(key) && self.0.shared.may_hold_spans(spans)
    }

    /// Bytes of the record that the index has for the key, about: no fewer. As `contains` otherwise.
    pub fn stored_bytes(&self, key: &Key) -> Option<usize> {
        let shared = &self.0.shared;
        match shared.index.find(shared.hash(key)) {
            Some(slot) => Some(slot.length as usize),
            None => shared.may_hold(key).then_some(shared.span),
        }
    }

    /// Stores a complete small object (body at most `span_size`) that was just fetched. Readable at once. Refused or not, what
    /// was under the key before is gone. What is not admitted may be put again when it is used (`touch`).
    pub fn put(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.0.shared.put_whole(key, meta, body)
    }

    /// The same for what others are found through: it is let in whatever it is worth.
    pub fn put_anyway(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.0.shared.put_anyway(key, meta, body)
    }

    /// Puts a small object from memory again because `touch` said so: as it is there, or in vain, if what it says is older than
    /// what is on the disk. Refused, what is on the disk stays.
    pub fn put_again(&self, key: &Key, meta: &[u8], body: &[u8], uses: u8) {
        let _ = self.0.shared.put_again(key, meta, body, uses);
    }

    /// Starts an object whose body arrives in pieces, of known or unknown length. Nothing is found under `key`
    /// until `Writer::finish`; dropping the writer abandons it.
    pub fn begin(&self, key: &Key, expected: Option<u64>) -> Result<Writer, Refused> {
        self.0.shared.begin(key, expected)
    }

    /// Replaces the metadata of a stored object whose body stays (`body` as `Reader::get` returned it, or as it was
    /// put). A small object is written anew, of a large one its head. Refused, the object is gone.
    pub fn put_meta(&self, key: &Key, meta: &[u8], body: &Body) -> Result<(), Refused> {
        match body {
            Body::Whole(bytes) => self.0.shared.renew(key, meta, bytes),
            Body::Spans(spans) => self.0.shared.renew_head(key, meta, spans),
        }
    }

    /// Removes the object: durable one flush interval and the write later, or when `persist` is true.
    pub fn remove(&self, key: &Key) {
        let shared = &self.0.shared;
        let hash = shared.hash(key);
        shared.engine().remove(hash, shared.millis());
    }

    /// The caller's ledger: what opening found, or what was set last. Empty in a new cache. The one byte 0xff when the disk
    /// did not give it at the start: it may have said anything.
    pub fn ledger(&self) -> Vec<u8> {
        self.0.shared.engine().ledger().to_vec()
    }

    /// True when the ledger is 0xff, but a later start may find what was set before. Else each one finds 0xff until another is set.
    pub fn may_ledger_return(&self) -> bool {
        self.0.shared.engine().may_ledger_return()
    }

    /// Replaces the ledger, whole: a restart finds these bytes or, when they were not durable yet, those before.
    /// Does not wait: durable one flush interval, two writes and their syncs later, or when `close` returns. Of several set
    /// within an interval the last one is written. `TooLarge` beyond `LEDGER_MAX` bytes.
    pub fn set_ledger(&self, bytes: &[u8]) -> Result<(), Refused> {
        let shared = &self.0.shared;
        shared.engine().set_ledger(bytes, shared.millis())
    }

    /// Blocks until what was put, updated, removed or set before is in the file, so that a kill cannot undo it; the
    /// ledger is durable then. False when that takes longer than `patience`, or cannot be.
    pub fn persist(&self, patience: Duration) -> bool {
        let shared = &self.0.shared;
        let until = Instant::now() + patience;
        let taken = shared.millis();
        loop {
            {
                let mut engine = shared.engine();
                if engine.unwritten_since().is_none_or(|since| since > taken) {
                    return true;
                }
                if Instant::now() > until || shared.is_abandoned() {
                    return false;
                }
                engine.flush();
            }
            shared.wake.notify_all();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Counts uses of an object in memory. True when it is worth to be put again from there (`put_again`).
    pub fn touch(&self, key: &Key, uses: Uses, body: &Body) -> bool {
        self.0.shared.touch(key, uses, body)
    }

    /// Writes what is in memory and ends the store's threads. Blocking; bounded in time. False when
    /// not all could be written: the next start may find what was removed meanwhile.
    pub fn close(&self) -> bool {
        let shared = &self.0.shared;
        {
            let mut engine = shared.engine();
            engine.retry_now();
            engine.finish();
        }
        let began = Instant::now();
        let clean = loop {
            shared.wake.notify_all();
            let engine = shared.engine();
            let patience = if engine.is_failing() { FAILING_PATIENCE } else { CLOSE_PATIENCE };
            let clean = engine.is_idle();
            if clean || began.elapsed() > patience || shared.is_abandoned() {
                break clean || engine.unwritten_since().is_none();
            }
            drop(engine);
            std::thread::sleep(Duration::from_millis(1));
        };
        self.end(End::Closing);
        clean
    }

    /// Ends the store's threads as a kill would: nothing that is in memory is written, but for the writes under way.
    /// What asks the store afterwards finds what memory and disk have; nothing reaches the disk any more.
    pub fn abandon(&self) {
        self.end(End::Abandoned);
    }

    fn end(&self, how: End) {
        self.0.shared.end(how);
        for thread in self.0.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        // A ring that is torn down later may keep the file open for a while, but not our claim to it.
        if let Some(file) = &self.0.claim {
            let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock);
        }
    }

    /// One line for the log: what was opened and recovered, in how long, and how it is read.
    pub fn opened(&self) -> &str {
        &self.0.opened
    }

    pub fn stats(&self) -> Stats {
        let shared = &self.0.shared;
        let (engine, writes_fail, parts_left) = {
            let engine = shared.engine();
            (engine.counters(), engine.is_failing(), engine.parts_left() as u64)
        };
        Stats {
            size: shared.layout.size(),
            objects: shared.index.len() as u64,
            index_bytes: shared.index.bytes() as u64,
            parts_left,
            engine,
            writes_fail,
            device_reads: shared.traffic.reads.load(Relaxed),
            device_read_bytes: shared.traffic.read_bytes.load(Relaxed),
            device_writes: shared.traffic.writes.load(Relaxed),
            device_written_bytes: shared.traffic.written_bytes.load(Relaxed),
            bad_records: shared.stats.bad_records.load(Relaxed),
            read_errors: shared.stats.read_errors.load(Relaxed),
            busy_reads: shared.stats.busy_reads.load(Relaxed),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(End::Closing);
    }
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
            .with_admission(options.admission, options.objects(&layout))
            .with_cmax(options.cmax);
        let parts = engine.loaded();
        Arc::new(Shared {
            unwritten: engine.unwritten(),
            wake: Condvar::new(),
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
            engine: Mutex::new(engine),
            stats: Counts::default(),
            traffic,
            ids: Mutex::new(ids),
            tick: (interval / 4).clamp(Duration::from_millis(10), Duration::from_millis(250)),
            clock,
            name: options.path.display().to_string(),
            tell: options.tell,
            told_of_reading: AtomicU64::new(0),
            look: AtomicU64::new(0),
            interval: interval.as_millis() as u64,
            told: Mutex::default(),
            parts,
        })
    }

    fn end(&self, how: End) {
        // Under the lock, or a thread that is about to wait would not hear of it.
        let mut engine = self.engine();
        self.ending.fetch_max(how as u8, Relaxed);
        engine.stop_loading();
        drop(engine);
        self.wake.notify_all();
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Relaxed) != 0
    }

    fn is_abandoned(&self) -> bool {
        self.ending.load(Relaxed) == End::Abandoned as u8
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

    /// Whether all spans may be there: the first is the first to go, others may have proved damaged.
    pub fn may_hold_spans(&self, spans: &Spans) -> bool {
        (0..spans.count()).all(|n| self.may_hold(&span_key(spans.id, n)))
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

    /// An object that was found valid was used. If it is not on the disk, it has to be worth a place there.
    pub fn renew(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.takes(key, body.len())?;
        let hash = self.hash(key);
        let bytes = self.record_bytes(key, meta.len(), body.len());
        let standing = match self.index.find(hash) {
            Some(slot) => Standing::As(slot),
            None if !self.is_loaded(hash) => Standing::Unknown,
            None if self.live.admits_used(2, bytes) => Standing::Used(2),
            None => {
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
        self.engine().admits(self.hash(key), bytes)
    }

    /// Whether it was put.
    pub fn put_again(&self, key: &Key, meta: &[u8], body: &[u8], uses: u8) -> bool {
        let record = Record::new(self.layout.identity, self.about_whole(body), key.bytes(), meta, body);
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
        if let Some(record) = Record::new(self.layout.identity, found.about, key.bytes(), meta, body) {
            let (hash, place) = (self.hash(key), Some(slot.place));
            self.give(|engine, now| engine.put_again(hash, &record, place, slot.uses, now));
        }
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
        match Record::new(self.layout.identity, about, key.bytes(), meta, body) {
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
            true => Some(self.admits(key, expected_bytes)?),
            // A small one is judged whole, and what is larger when that shows.
            false => None,
        };
        Ok(Writer::new(self.clone(), key, expected, standing))
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
        }
    }

    /// Reads the contents of the first segments, so that the first put finds room. All else, and all from the first failure on,
    /// is the threads' part: opening waits neither for the index nor for a disk that fails.
    fn look_ahead(&self, disk: &dyn Disk) {
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
    fn done(&self, id: u64, result: io::Result<Answer>) -> MutexGuard<'_, Engine> {
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
            (self.tell)(&format!("the index of cache {name} is loaded after {millis} ms: {objects} entries"));
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
fn work(shared: &Shared, disk: &dyn Disk) {
    let mut engine = shared.engine();
    while !shared.is_abandoned() {
        if shared.looks_for_harm() {
            drop(engine);
            shared.tell_of_harm(disk);
            engine = shared.engine();
        }
        if let Some(Io { id, op }) = engine.next_io() {
            drop(engine);
            let result = shared.carry_out(disk, op);
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

/// Filesystems behind another process or machine: there a submission to a ring may wait until the read is done, and the worker
/// with it. FUSE, NFS, SMB, CIFS, 9P, Ceph.
const REMOTE: [i64; 6] = [0x6573_5546, 0x6969, 0xfe53_4d42, 0xff53_4d42, 0x0102_1997, 0x00c3_6400];

fn choose_io(choice: IoChoice, file: &File) -> Result<IoChoice, OpenError> {
    let kind = rustix::fs::fstatfs(file).map(|found| found.f_type).ok();
    if choice == IoChoice::Auto && kind.is_some_and(|kind| REMOTE.contains(&kind)) {
        return Ok(IoChoice::Threads);
    }
    let works = io_uring::IoUring::new(8).and_then(|ring| {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(io_uring::opcode::Read::CODE))
    });
    match (choice, works) {
        (IoChoice::Threads, _) | (IoChoice::Auto, Ok(false) | Err(_)) => Ok(IoChoice::Threads),
        (_, Ok(true)) => Ok(IoChoice::Uring),
        (IoChoice::Uring, Ok(false)) => {
            Err(OpenError("this kernel's io_uring cannot read; use --io threads".into()))
        }
        (IoChoice::Uring, Err(error)) => {
            Err(OpenError(format!("io_uring is not available here ({error}); use --io threads")))
        }
    }
}

/// Opens or makes the cache. What is not ours is not touched.
fn open_disk(options: &Options) -> Result<(FileDisk, Layout), String> {
    let path = &options.path;
    let disk = match FileDisk::open(path, Access::Own)? {
        Some(disk) => disk,
        None => {
            let size = options.size.unwrap_or(DEFAULT_SIZE);
            layout(size, options.packet, 0)?;
            FileDisk::create(path, size)?;
            FileDisk::open(path, Access::Own)?.ok_or_else(|| format!("cache {} went away", path.display()))?
        }
    };
    let there = match layout_of(path, &disk, disk.size())? {
        None => format(options, &disk, disk.size())?,
        Some(found) => found,
    };
    if let Some(size) = options.size
        && layout(size, there.segment, there.identity)? != there
    {
        return Err(format!(
            "cache {} has {} MiB, not {} MiB as --cache-size says; drop the option to keep it, or remove the file to \
             create a new one",
            path.display(),
            there.size() >> 20,
            size >> 20
        ));
    }
    Ok((disk, there))
}

/// Size of a cache that is made without being told, bytes.
pub const DEFAULT_SIZE: u64 = 1 << 30;

/// The layout of the cache on a disk of `size` bytes; `None` when the medium is blank.
pub(crate) fn layout_of(path: &Path, disk: &dyn Disk, size: u64) -> Result<Option<Layout>, String> {
    let path = path.display();
    if size == 0 {
        return Ok(None);
    }
    if size < DATA_START {
        return Err(format!("{path} is not a Cosm cache (or was cut off); name another path or remove it"));
    }
    let pool = Pool::new(0);
    let reads = Reads::new(disk, &pool);
    let first_bytes = |length| reads.read(0, length).map_err(|e| format!("cannot read cache {path}: {e}"));
    let first = first_bytes(COPIES.len() * BLOCK)?;
    let copies = COPIES.map(|at| superblock::decode(&first[at as usize..at as usize + BLOCK]));
    if let Some(layout) = copies.iter().find_map(|copy| copy.ok()) {
        if layout.size() > size {
            return Err(format!(
                "cache {path} was cut off: {} MiB are left of {} MiB; remove it to create a new one",
                size >> 20,
                layout.size() >> 20
            ));
        }
        return Ok(Some(layout));
    }
    for copy in copies {
        match copy {
            Err(NotOurs::Version(version)) => {
                return Err(format!(
                    "cache {path} has format {version}, this program reads format {VERSION}; name another path or \
                     remove it"
                ));
            }
            Err(NotOurs::Damaged) => {
                return Err(format!(
                    "cache {path} is damaged in both superblocks; remove it to create a new one"
                ));
            }
            _ => {}
        }
    }
    if first_bytes(DATA_START as usize)?.iter().all(|&b| b == 0) {
        return Ok(None);
    }
    Err(format!("{path} holds something that is not a Cosm cache; name another path"))
}

/// Makes a cache on a blank disk of `there` bytes.
fn format(options: &Options, disk: &dyn Disk, there: u64) -> Result<Layout, String> {
    let path = options.path.display();
    let size = options.size.map_or(there, |s| s.min(there));
    if there == 0 {
        return Err(format!(
            "cache {path} is an empty file; remove it, and a start creates it with its space reserved"
        ));
    }
    let identity = rand::rng().next_u64();
    let layout = layout(size, options.packet, identity)?;
    file::format(disk, &layout).map_err(|e| format!("cannot write cache {path}: {e}"))?;
    Ok(layout)
}

/// Bytes of a body in one record, so that a whole number of records with their spans fill a segment but for its table.
fn span_size(layout: &Layout) -> usize {
    let segment = layout.segment as usize;
    let parts = (segment / SPAN).clamp(4, 16);
    align_down((segment - BLOCK) / parts, layout.unit as usize) - HEADER - SPAN_KEY
}
