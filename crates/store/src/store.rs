//! The handle of one open store: opening, closing, and what is asked of it. `shared` does the work.

use crate::buffer::Pool;
use crate::digester::stretch;
use crate::disk::threads::ThreadReader;
use crate::disk::uring::RingReader;
use crate::disk::{Disk, Traffic};
use crate::format::Layout;
use crate::index::Index;
use crate::map::{LogMap, Plan};
use crate::opening::{DEFAULT_SIZE, choose_io, format, layout_of, open_disk};
use crate::reader::{Backend, Reader};
use crate::reads::Reads;
use crate::recovery::recover;
use crate::scrub;
use crate::shared::{Clock, End, POOL, Shared, work};
use crate::writer::Writer;
use crate::{
    Body, IoChoice, Key, OpenError, Options, Refused, Signs, Spans, Stats, Uses, Where, WriteBudget,
};
use rand::{SeedableRng, rngs::StdRng};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that write packets and read tables: as many writes as the engine has in flight.
const IO_THREADS: usize = 4;
/// How long `close` waits for the last writes; and when writes fail.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
const FAILING_PATIENCE: Duration = Duration::from_secs(2);
/// And then for its threads.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A handle to one open cache; cheap to clone, shared by all workers.
#[derive(Clone)]
pub struct Store(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    opened: String,
    was_blank: bool,
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

impl Store {
    /// Opens the cache at `options.path`, makes it when there is none, and recovers what it holds.
    pub fn open(options: &Options) -> Result<Store, OpenError> {
        let began = Instant::now();
        let (disk, layout) = open_disk(options)?;
        if disk.others_can_read() {
            let path = options.path.display();
            (options.tell)(&format!("cache {path} can be read by all users; chmod 600 makes it private"));
        }
        let again = || disk.file().try_clone().map_err(|e| OpenError::from(e.to_string()));
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
        let layout = match layout_of(Path::new("(a disk)"), &*disk, size)? {
            Some(found) if !options.anew => found,
            _ => format(options, &*disk, size)?,
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
        .map_err(|e| OpenError::from(format!("cannot read cache {name}: {e}")))?;
        if recovered.unread {
            (options.tell)(&format!(
                "reading cache {name} failed at its start: what could not be read counts as missing; check the disk"
            ));
        }
        if recovered.missing > 0 {
            (options.tell)(&format!(
                "{} packet(s) of cache {name} are missing (damaged, given up, or lost as a process was killed): what they removed may \
                 answer; to be sure, purge all",
                recovered.missing
            ));
        }
        let was_blank = state.is_blank() && !state.lossy;
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
        let start = |name: String, work: fn(&Shared, &dyn Disk)| {
            let (shared, disk) = (shared.clone(), disk.clone());
            let thread = std::thread::Builder::new().name(name).spawn(move || work(&shared, &*disk));
            thread.map_err(|e| OpenError::from(format!("cannot start a store thread: {e}")))
        };
        let threads = (0..IO_THREADS).map(|n| start(format!("store-{n}"), work)).collect::<Result<_, _>>()?;
        if options.scrub.is_some() {
            // Nobody waits for its end: it writes nothing, and a read may hang.
            start("scrub".into(), scrub::thread::run)?;
        }
        let (threads, thread_reader) = (Mutex::new(threads), Mutex::new(None));
        Ok(Store(Arc::new(Handle { shared, threads, opened, was_blank, ring, claim, disk, thread_reader })))
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

    /// Which of these pieces of a large body the index does not hold, with the certainty of `contains`.
    pub fn missing(&self, spans: &Spans, pieces: Range<u32>) -> impl Iterator<Item = u32> {
        self.0.shared.missing(spans, pieces)
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

    /// Goes on with an object of which the first pieces are stored, each of `span_size` bytes. The object under the key stays until
    /// `Writer::finish`, or `Writer::finish_part`; dropping the writer leaves it as it is.
    pub fn resume(&self, key: &Key, part: &Spans, expected: Option<u64>) -> Result<Writer, Refused> {
        self.0.shared.resume(key, part, expected)
    }

    /// Puts piece `n` of a stored body back, which went away: `body` is all of it, and is not admitted if it is not as long as that
    /// piece. Whatever it is worth, it is let in. Whoever calls sees to it that the object is still there; otherwise the piece lies
    /// unused until the log comes round.
    pub fn put_span(&self, spans: &Spans, n: u32, body: &[u8]) -> Result<(), Refused> {
        self.0.shared.put_span(spans, n, body)
    }

    /// Puts the head of a large object again as it is there, so that it does not leave before pieces that were put back. In vain
    /// where the store is behind.
    pub fn put_head_again(&self, key: &Key, meta: &[u8], spans: &Spans) {
        self.0.shared.put_head_again(key, meta, spans);
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

    /// After `close`, when the cache is another's to write: what lies under the key is found here no more.
    pub fn lose(&self, key: &Key) {
        let shared = &self.0.shared;
        shared.engine().drop_from_index(shared.hash(key));
    }

    /// Waits until the whole index is loaded; false when that takes longer.
    pub fn wait_until_loaded(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.0.shared.parts.left() > 0 {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Removes what the index knows by these hashes (`Key::index_hash`), as `remove` does.
    pub fn remove_all(&self, hashes: &[u64]) {
        /// Others have their turn in between.
        const TOGETHER: usize = 1 << 10;
        let shared = &self.0.shared;
        for hashes in hashes.chunks(TOGETHER) {
            let (mut engine, now) = (shared.engine(), shared.millis());
            hashes.iter().for_each(|hash| engine.remove(shared.layout.mix(*hash), now));
        }
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

    /// Whether the ledger that was set last is durable.
    pub fn is_ledger_written(&self) -> bool {
        self.0.shared.engine().is_ledger_written()
    }

    /// Blocks until what was put, updated, removed or set before is in the file and synced, so that neither a kill nor a loss of power
    /// can undo it. One sync is for all who wait when it begins. False when that takes longer than `patience`, or cannot be.
    pub fn persist(&self, patience: Duration) -> bool {
        let shared = &self.0.shared;
        let until = Instant::now() + patience;
        let (taken, mut written) = (shared.millis(), None);
        loop {
            {
                let mut engine = shared.engine();
                if written.is_none() && engine.unwritten_since().is_none_or(|since| since > taken) {
                    written = Some(engine.written());
                }
                if written.is_some_and(|written| engine.is_synced(written)) {
                    return true;
                }
                if Instant::now() > until || shared.is_abandoned() {
                    return false;
                }
                if written.is_none() {
                    engine.flush();
                }
            }
            shared.wake.notify_all();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Counts uses of an object in memory. True when it is worth to be put again from there (`put_again`).
    pub fn touch(&self, key: &Key, uses: Uses, body: &Body) -> bool {
        self.0.shared.touch(key, uses, body)
    }

    /// In which share of the day, now among it, there is time for what nobody waits for (`Options::scrub`); `None`: now there is not. Until
    /// this is called, all day.
    pub fn set_off_peak(&self, share: Option<f64>) {
        self.0.shared.engine().set_off_peak(share);
    }

    /// Writes what is in memory and ends the store's threads, and its claim to the cache. Blocking; bounded in time: threads that hang
    /// are left to themselves, and with a write that hangs the claim stays. False when not all could be written: the next start may
    /// find what was removed meanwhile. What is read afterwards is what the cache held
    /// then, or, where whoever has it now has written over it, nothing; no object is taken.
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
        shared.end(End::Closing);
        let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let until = Instant::now() + END_PATIENCE;
        while !threads.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        match threads.iter().all(JoinHandle::is_finished) {
            true => {
                join(threads);
                // Of who closed it before, a write may still hang.
                if !self.0.shared.health.is_writing() {
                    self.give_up_claim();
                }
            }
            // They begin nothing more.
            false => {
                self.leave();
                self.has_left();
            }
        }
        clean
    }

    /// Ends the store's threads as a kill would: nothing that is in memory is written, but for the writes under way.
    /// What asks the store afterwards finds what memory and disk have; nothing reaches the disk any more.
    pub fn abandon(&self) {
        self.end(End::Abandoned);
    }

    fn end(&self, how: End) {
        self.0.shared.end(how);
        join(std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner)));
        self.give_up_claim();
    }

    /// Has the store's threads end as a kill would, and does not wait for them: the medium may keep them for ever.
    pub fn leave(&self) {
        self.0.shared.end(End::Abandoned);
    }

    /// After `leave`: whether nothing of this store can reach the medium any more. Then the claim to it is given up, and it may be
    /// opened again.
    pub fn has_left(&self) -> bool {
        let has = self.0.shared.is_abandoned() && !self.0.shared.health.is_writing();
        if has {
            self.give_up_claim();
        }
        has
    }

    /// How the medium fares.
    pub fn signs(&self) -> Signs {
        let shared = &self.0.shared;
        let writes_fail = shared.engine().is_failing();
        shared.health.signs(writes_fail, shared.millis())
    }

    /// For how long the oldest has waited of what a kill would undo (`persist`), at least; `None`: there is nothing of that.
    pub fn unwritten_for(&self) -> Option<Duration> {
        let shared = &self.0.shared;
        let since = shared.engine().unwritten_since()?;
        // Of a millisecond nobody knows more.
        Some(Duration::from_millis(shared.millis().saturating_sub(since) + 2))
    }

    /// Where the log ended when the cache was opened: a number that grows with all that is put and removed; 0: nothing was in it.
    pub fn found_end(&self) -> u64 {
        self.0.shared.engine().found_end()
    }

    /// Where it ends in the file now, as far as is known: writes that are under way may have brought more. Whoever opens the same
    /// cache later finds no less. If it ends earlier then, it is an older copy, or lost what was written. Of what lies before its end it
    /// says nothing: a copy that was made while writes were under way may lack some of it.
    pub fn written_end(&self) -> u64 {
        self.0.shared.engine().written_end()
    }

    /// The random number of this cache.
    pub fn identity(&self) -> u64 {
        self.0.shared.layout.identity
    }

    /// Of this store among those that its user has (`Options::number`).
    pub fn number(&self) -> u16 {
        self.0.shared.number
    }

    /// Whether nothing was there when it was opened.
    pub fn was_blank(&self) -> bool {
        self.0.was_blank
    }

    /// Whether it is the same open store.
    pub fn is_same(&self, other: &Store) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn shares(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.0.shared, shared)
    }

    fn give_up_claim(&self) {
        // A ring that is torn down later may keep the file open for a while, but not our claim to it.
        if let Some(file) = &self.0.claim {
            let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock);
        }
    }

    /// The file or device, as it was given.
    pub fn name(&self) -> &str {
        &self.0.shared.name
    }

    /// One line for the log: what was opened and recovered, in how long, and how it is read.
    pub fn opened(&self) -> &str {
        &self.0.opened
    }

    /// Where the key's record lies, as far as the index is loaded. No disk access, no use counted.
    pub fn whereabouts(&self, key: &Key) -> Option<Where> {
        let (shared, layout) = (&self.0.shared, &self.0.shared.layout);
        let slot = shared.index.find(shared.hash(key))?;
        let segment = layout.segment_of(slot.place);
        Some(Where {
            offset: layout.offset(slot.place),
            segment,
            bytes: slot.length,
            uses: slot.uses,
            written: !shared.unwritten.has(layout, segment),
            age: self.plan().cell(segment, segment + 1).age,
        })
    }

    /// The log in so many cells, at most `CELLS`.
    pub fn map(&self, cells: u64) -> LogMap {
        /// More nobody can tell apart.
        const CELLS: u64 = 1024;
        self.plan().draw(cells.min(CELLS))
    }

    fn plan(&self) -> Plan {
        let shared = &self.0.shared;
        shared.engine().plan(shared.millis())
    }

    pub fn stats(&self) -> Stats {
        let shared = &self.0.shared;
        let engine = shared.engine();
        let now = shared.millis();
        let (counters, writes_fail) = (engine.counters(), engine.is_failing());
        let (parts_left, written_last_day) = (engine.parts_left() as u64, engine.written_last_day(now));
        let (filled, lap, waiting_writes) = (engine.filled(), engine.lap(now), engine.waiting_writes());
        let (digest_age, undigested) = engine.undigested(now);
        let (scrub, scrub_behind) = (engine.scrubbed(), engine.scrub_behind(now));
        let off_peak = engine.is_off_peak();
        drop(engine);
        Stats {
            size: shared.layout.size(),
            filled,
            objects: shared.index.len() as u64,
            index_bytes: shared.index.bytes() as u64,
            parts_left,
            engine: counters,
            writes_fail,
            device_reads: shared.traffic.reads.load(Relaxed),
            device_read_bytes: shared.traffic.read_bytes.load(Relaxed),
            device_writes: shared.traffic.writes.load(Relaxed),
            device_written_bytes: shared.traffic.written_bytes.load(Relaxed),
            waiting_reads: shared.readers.load(Relaxed),
            waiting_writes,
            lap,
            digest_age,
            undigested,
            written_last_day,
            write_budget: shared.write_budget.map_or(0, WriteBudget::in_a_day),
            group_reads: shared.groups.reads.load(Relaxed),
            saved_reads: shared.groups.all_saved.load(Relaxed),
            bad_records: shared.stats.bad_records.load(Relaxed),
            read_errors: shared.stats.read_errors.load(Relaxed),
            busy_reads: shared.stats.busy_reads.load(Relaxed),
            off_peak,
            scrub,
            scrub_behind,
        }
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(End::Closing);
    }
}
