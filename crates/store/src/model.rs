//! The model test of the store: random histories against a map, on the simulated disk, with crashes.
//!
//! What must hold whatever fails: a key answers with the value put last, or not at all. After a crash it may answer
//! with an earlier value, but none older than the last time everything was written and synced; after a loss of
//! power with unsynced writes or damage to the medium, with any earlier value of its own. Where nothing fails, no
//! record is ever found damaged; where the process is killed and nothing else fails, nothing is lost that had been
//! written.
//!
//! Where the process is killed and writes at most fail without a trace, what comes back is no older than what the engine
//! said was in the file: what was removed is not there a flush interval and the writes later. Where all writes fail for a
//! while, nothing is lost that was taken before, and when they work again all goes on. Where one place takes no writes for
//! good, what was to lie there is given up.
//!
//! Small values are put whole; large ones come in pieces, by a writer, and their pieces lie in spans. A large value that is found
//! may lack a span, but never has another's bytes. Where nothing fails, what was put finds room, and most of the medium is in use.
//!
//! The ledger is the one set last; after a crash the last one whose writing had completed, or a newer one, whatever became of one of
//! its copies; after damage to both perhaps none: always one that was set, whole.
//!
//! A start that cannot read some segments may find earlier values, or none. A later one may find what that one did not; but what
//! was put or removed meanwhile, found or not, and said to be in the file stays so. One that cannot read either copy of the ledger
//! says so.

use crate::buffer::{Buffer, Pool};
use crate::disk::Disk;
use crate::disk::sim::{Faults, SimDisk};
use crate::engine::{Answer, Io, Op};
use crate::format::digest::last_of_each;
use crate::format::ledger::{COPIES as COPIES_OF_LEDGER, UNREADABLE};
use crate::format::record::{self, Found, Kind};
use crate::format::{BLOCK, DATA_START, Layout, align_down, align_up};
use crate::index::{Index, Slot};
use crate::reads::Reads;
use crate::recovery::recover;
use crate::store::{Clock, Shared};
use crate::{Admission, Body, Key, Options, Refused, Uses, Writer, span_key};
use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const KEYS: u64 = 60;
/// The flush interval, milliseconds.
const INTERVAL: u64 = 500;
/// One in so many values is a larger one.
const LARGE: u64 = 7;

/// What was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    value: u64,
    /// Says what the body is: several values of a key may have the same.
    body: u64,
}

impl Value {
    fn meta(&self) -> Vec<u8> {
        let words = [self.value, self.body].map(u64::to_le_bytes);
        // Of several lengths, and so that places are used again by records of the same length.
        let more = vec![self.value as u8; self.value as usize % 3 * 100];
        [&words.concat()[..], &more].concat()
    }

    /// `None` for bytes that are no value's metadata.
    fn of(meta: &[u8]) -> Option<Value> {
        let word = |n: usize| Some(u64::from_le_bytes(meta.get(8 * n..8 * n + 8)?.try_into().ok()?));
        let value = Value { value: word(0)?, body: word(1)? };
        (value.meta() == meta).then_some(value)
    }
}

/// All values a key ever had, `None` for a removal; and from which one on a crash may bring it back.
#[derive(Default, Clone)]
struct History {
    values: Vec<Option<Value>>,
    /// When they were taken.
    times: Vec<u64>,
    /// Everything before was superseded durably.
    floor: usize,
    /// How many values there were when everything was written last.
    written: usize,
    /// What else a start may find, for an earlier one could not read all; until a later value than this one is durable.
    others: (usize, Vec<Value>),
}

impl History {
    fn push(&mut self, value: Option<Value>, now: u64) {
        self.values.push(value);
        self.times.push(now);
    }
}

/// How writes fail, beside kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// Now and then one, and reads too.
    Some,
    /// All for a while, and leave their marks. Nobody is killed meanwhile.
    AllTorn,
    /// All for a while.
    All,
    /// Those of some segments, until others fail instead.
    Place,
    /// Now and then a read, and at some starts all reads of some place.
    Reads,
    /// Both.
    ReadsAndPlace,
}

struct World {
    rng: StdRng,
    layout: Layout,
    stretch: Option<u64>,
    admission: Admission,
    disk: Arc<SimDisk>,
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    flying: Vec<Io>,
    /// Work on the index that is done, and not reported yet.
    carried_out: Vec<(u64, Answer)>,
    /// Large values that are arriving: the key, the value, and how much of it was pushed.
    writers: Vec<(u64, Value, Writer, usize)>,
    /// Small values as the tier above has them: the last ones of their keys, since the last start.
    memory: HashMap<u64, Value>,
    now: u64,
    values: u64,
    history: HashMap<u64, History>,
    hits: u64,
    gets: u64,
    /// Nothing fails in this history but that the process is killed.
    only_kills: bool,
    failing: Option<Failing>,
    /// While all writes fail: what was there when they began to, how much had been swept, and how often each key had changed.
    outage: Option<(Vec<u64>, u64, HashMap<u64, usize>)>,
    keys: u64,
    /// How often a key is put with the same body again.
    again: f64,
    /// Records that were not what the index expected.
    bad: u64,
    /// All ledgers there ever were; 0: the empty one of a new cache.
    ledgers: Vec<u64>,
    /// Those before this one were superseded durably.
    ledger_floor: usize,
    /// One was set since the last crash: what was found may not have been synced.
    ledger_set: bool,
    /// Copies of it that may be damaged.
    spoilt: [bool; 2],
}

/// What a read came to.
enum Read {
    Nothing,
    Record(Buffer, usize, Found, Slot),
}

pub(crate) fn key(n: u64) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

/// A body that says which value it is, in every byte of it.
fn body(value: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(value);
    let length = match (value.is_multiple_of(LARGE), value.is_multiple_of(LARGE * 4)) {
        (_, true) => rng.random_range(0..60_000),
        (true, _) => rng.random_range(0..12_000),
        _ => rng.random_range(0..3_000),
    };
    (0..length).map(|_| rng.random()).collect()
}

/// Stands for the ledger that could not be read.
const UNREAD: u64 = u64::MAX;

/// A ledger that says which one it is, in every byte of it; now and then a long one.
fn ledger(value: u64) -> Vec<u8> {
    if value == UNREAD {
        return UNREADABLE.to_vec();
    }
    let mut rng = StdRng::seed_from_u64(value);
    let longest = if value.is_multiple_of(5) { 40_000 } else { 500 };
    let rest = rng.random_range(0..longest);
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.extend((0..rest).map(|_| rng.random::<u8>()));
    if value == 0 { Vec::new() } else { bytes }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let (segments, stretch) = [(10, None), (24, Some(1)), (40, Some(5))][rng.random_range(0..3)];
        let layout = Layout::new(32 << 10, segments, 0xfeed);
        let disk = Arc::new(SimDisk::new(layout.size() as usize, StdRng::seed_from_u64(rng.random())));
        crate::disk::file::format(&*disk, &layout).unwrap();
        let pool = Pool::new(1 << 20);
        // Few keys and always the same bodies: then a place is used again by the same key's same body.
        let (keys, again) = if rng.random_bool(0.1) { (6, 1.0) } else { (KEYS, 0.2) };
        let admission = [Admission::All, Admission::Worth][rng.random_range(0..2)];
        let shared = open(&disk, &pool, layout, stretch, admission, 0..0, rng.random());
        World {
            rng,
            layout,
            stretch,
            admission,
            disk,
            pool,
            shared,
            flying: Vec::new(),
            carried_out: Vec::new(),
            writers: Vec::new(),
            memory: HashMap::new(),
            now: 0,
            values: LARGE * KEYS,
            history: HashMap::new(),
            hits: 0,
            gets: 0,
            only_kills: false,
            failing: None,
            outage: None,
            keys,
            again,
            bad: 0,
            ledgers: vec![0],
            ledger_floor: 0,
            ledger_set: false,
            spoilt: [false; 2],
        }
    }

    fn set_time(&mut self) {
        self.shared.set_time(self.now);
    }

    fn is_there(&self, n: u64) -> bool {
        self.shared.index.find(self.shared.hash(&key(n))).is_some()
    }

    fn put(&mut self, n: u64) {
        self.set_time();
        self.values += 1;
        let body_of = if self.rng.random_bool(self.again) { LARGE * n } else { self.values };
        let value = Value { value: self.values, body: body_of };
        let body = body(value.body);
        if body.len() > self.shared.span {
            // One writer a key: which of several ends last is the caller's to say.
            if self.writers.len() < 3 && self.writers.iter().all(|(other, ..)| *other != n) {
                match self.shared.begin(&key(n), Some(body.len() as u64)) {
                    Ok(writer) => self.writers.push((n, value, writer, 0)),
                    // What is there stays until there is a body.
                    Err(refused) => {
                        assert_eq!((refused, self.admission), (Refused::NotAdmitted, Admission::Worth));
                    }
                }
            }
            return;
        }
        let put = self.shared.put_whole(&key(n), &value.meta(), &body);
        assert!(put != Err(Refused::TooLarge));
        // A refusal removes what was there.
        self.history.entry(n).or_default().push(put.is_ok().then_some(value), self.now);
        self.memory.insert(n, value);
    }

    /// Some more of a large value arrives.
    fn push(&mut self) {
        if self.writers.is_empty() {
            return;
        }
        self.set_time();
        let at = self.rng.random_range(0..self.writers.len());
        if self.rng.random_bool(0.05) {
            self.writers.swap_remove(at);
            return;
        }
        let (n, value, writer, pushed) = &mut self.writers[at];
        let body = body(value.body);
        let end = (*pushed + self.rng.random_range(1..9_000)).min(body.len());
        let mut bytes = &body[*pushed..end];
        let result = writer.push(&mut bytes);
        *pushed = end - bytes.len();
        let done = match result {
            Ok(()) if end == body.len() => writer.finish(&value.meta()),
            Ok(()) | Err(Refused::Busy | Refused::Broken) => return,
            Err(refused) => Err(refused),
        };
        let (n, value) = (*n, *value);
        self.writers.swap_remove(at);
        // Refused, what was under the key before is there or gone.
        if done.is_ok() {
            self.history.entry(n).or_default().push(Some(value), self.now);
            self.memory.remove(&n);
        }
    }

    /// Whether a small value is taken.
    fn is_taken(&mut self, n: u64) -> bool {
        self.set_time();
        self.values = (self.values + 1).next_multiple_of(LARGE) + 1;
        let value = Value { value: self.values, body: self.values };
        let put = self.shared.put_anyway(&key(n), &value.meta(), &body(value.body));
        self.history.entry(n).or_default().push(put.is_ok().then_some(value), self.now);
        self.memory.remove(&n);
        put.is_ok()
    }

    fn remove(&mut self, n: u64) {
        self.shared.engine().remove(self.shared.hash(&key(n)), self.now);
        self.history.entry(n).or_default().push(None, self.now);
        self.memory.remove(&n);
    }

    /// A key that the index has let go of is removed, and the process is killed as soon as the engine says that this is in
    /// the file.
    fn remove_what_went_and_kill(&mut self) {
        let went = |n: &u64| {
            let last = self.history.get(n).and_then(|h| h.values.last().copied().flatten());
            last.is_some() && !self.is_there(*n)
        };
        let all: Vec<u64> = (0..self.keys).filter(went).collect();
        if all.is_empty() || self.outage.is_some() {
            return;
        }
        self.now += 1;
        let taken = self.now;
        all.into_iter().for_each(|n| self.remove(n));
        for _ in 0..10_000 {
            if self.shared.engine().unwritten_since().is_none_or(|since| since > taken) {
                return self.kill();
            }
            self.now += 50;
            self.shared.engine().flush();
            self.shared.engine().tick(self.now);
            self.step();
        }
        // A digest that could not be made is owed for good: nothing counts as written any more.
        assert!(self.shared.engine().digester().owes, "a removal is never written");
    }

    /// What the store answers: the value, checked byte by byte.
    fn read(&mut self, n: u64) -> Option<Value> {
        let key = key(n);
        self.load(&key);
        let Read::Record(bytes, skip, found, slot) = self.record(&key) else { return None };
        let bytes = &bytes[skip..];
        self.shared.was_read(&key, slot, bytes, &found);
        let value = Value::of(&bytes[found.meta]).expect("metadata of a value");
        let expected = body(value.body);
        if found.about.kind == Kind::Object {
            assert!(bytes[found.body] == expected[..], "key {n} value {value:?}");
            return Some(value);
        }
        let record::About { id, length, span, .. } = found.about;
        assert_eq!(length, expected.len() as u64);
        for (at, part) in expected.chunks(span as usize).enumerate() {
            let key = span_key(id, at as u32);
            self.load(&key);
            let Read::Record(bytes, skip, found, _) = self.record(&key) else { return None };
            assert!(bytes[skip..][found.body] == *part, "key {n} value {value:?} span {at}");
        }
        Some(value)
    }

    /// Waits until the key's part of the index is loaded.
    fn load(&mut self, key: &Key) {
        let hash = self.shared.hash(key);
        for _ in 0..100_000 {
            if self.shared.is_loaded(hash) {
                return;
            }
            self.shared.engine().want(hash);
            self.step();
        }
        panic!("a part of the index is never loaded");
    }

    fn record(&mut self, key: &Key) -> Read {
        let hash = self.shared.hash(key);
        let Some(slot) = self.shared.index.reference(hash) else { return Read::Nothing };
        let copy = match self.shared.unwritten.has(&self.layout, self.layout.segment_of(slot.place)) {
            true => self.shared.engine().peek(slot),
            false => {
                assert!(self.shared.engine().peek(slot).is_none(), "a record in memory that no reader finds");
                None
            }
        };
        let (bytes, skip, length) = match copy {
            Some((copy, length)) => (copy, 0, length),
            None => {
                let start = self.layout.offset(slot.place) as usize;
                let length =
                    (slot.length as usize).min(self.layout.segment as usize - self.layout.within(slot.place));
                let skip = start - align_down(start, 512);
                let span = align_up(skip + length, 512);
                let mut buffer = self.pool.take(span);
                if self.disk.read((start - skip) as u64, &mut buffer, span).is_err() {
                    return Read::Nothing;
                }
                (buffer, skip, length)
            }
        };
        let found = record::parse(self.layout.identity, &bytes[skip..skip + length])
            .filter(|f| f.about.kind.is_answer() && bytes[skip..][f.key.clone()] == key.bytes()[..]);
        match found {
            Some(found) => Read::Record(bytes, skip, found, slot),
            None => {
                self.bad += 1;
                self.shared.engine().forget(hash, slot.place, self.now);
                Read::Nothing
            }
        }
    }

    fn set_ledger(&mut self) {
        self.values += 1;
        if self.shared.engine().set_ledger(&ledger(self.values), self.now).is_ok() {
            self.ledgers.push(self.values);
            self.ledger_set = true;
        }
    }

    /// Which ledger the engine has, checked byte by byte.
    fn read_ledger(&self) -> u64 {
        let bytes = self.shared.engine().ledger().to_vec();
        if bytes == UNREADABLE {
            return UNREAD;
        }
        let value = bytes.get(..8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
        assert_eq!(bytes, ledger(value), "ledger {value}");
        value
    }

    fn get_ledger(&mut self) {
        assert_eq!(Some(&self.read_ledger()), self.ledgers.last(), "an old ledger");
        if self.ledger_set && self.shared.engine().is_ledger_written() {
            self.ledger_floor = self.ledgers.len() - 1;
        }
    }

    fn get(&mut self, n: u64) {
        self.gets += 1;
        if let Some(value) = self.read(n) {
            self.hits += 1;
            let history = self.history.get(&n).unwrap_or_else(|| panic!("key {n} was never put"));
            let last = history.values.last().copied().flatten().expect("it was removed");
            assert_eq!(value, last, "key {n}");
            if self.rng.random_bool(0.5) && body(value.body).len() <= self.shared.span {
                self.memory.insert(n, value);
            }
        }
    }

    /// Memory answers, and the store is told.
    fn use_in_memory(&mut self, n: u64) {
        let Some(&value) = self.memory.get(&n) else { return };
        self.set_time();
        let (body, uses) = (Bytes::from(body(value.body)), Uses { new: 1, all: self.rng.random_range(1..4) });
        if self.shared.touch(&key(n), uses, &Body::Whole(body.clone()))
            && self.shared.put_again(&key(n), &value.meta(), &body, uses.all)
        {
            self.history.entry(n).or_default().push(Some(value), self.now);
        }
    }

    /// Carries out one I/O, in any order.
    fn step(&mut self) {
        while let Some(io) = self.shared.engine().next_io() {
            self.flying.push(io);
        }
        if let Some((id, answer)) = self.carried_out.pop_if(|_| self.rng.random()) {
            self.shared.engine().done(id, Ok(answer), self.now);
        }
        if self.flying.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.flying.len());
        let Io { id, op } = self.flying.swap_remove(at);
        let result = match op {
            Op::Read { offset, length } => {
                let mut buffer = self.pool.take(length);
                self.disk.read(offset, &mut buffer, length).map(|()| Answer::Read(buffer))
            }
            Op::Write { offset, image, range } => {
                self.disk.write(offset, &image[range]).map(|()| Answer::Done)
            }
            Op::Sync => self.disk.sync().map(|()| Answer::Done),
            Op::Digest { events } => Ok(Answer::Digested(last_of_each(events))),
            Op::Index(work) => {
                return self.carried_out.push((id, work.carry_out(&self.shared.index)));
            }
        };
        self.shared.engine().done(id, result, self.now);
        self.get_ledger();
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.now += 1_000;
            self.shared.engine().tick(self.now);
            self.step();
            if self.shared.engine().is_idle() && self.flying.is_empty() && self.carried_out.is_empty() {
                return;
            }
        }
        panic!("the engine never came to rest");
    }

    /// What the engine says is in the file is there after a kill: what fails leaves no half-written tables.
    fn is_sure(&self) -> bool {
        self.only_kills || self.reads_fail() || matches!(self.failing, Some(Failing::All | Failing::Place))
    }

    fn reads_fail(&self) -> bool {
        matches!(self.failing, Some(Failing::Reads | Failing::ReadsAndPlace))
    }

    /// A flush interval, and the writes: all that was taken before is in the file then.
    fn wait(&mut self) {
        let taken = self.now;
        self.now += INTERVAL;
        for _ in 0..200 {
            self.shared.engine().tick(self.now);
            self.step();
            while !self.flying.is_empty() {
                self.step();
            }
            if self.shared.engine().unwritten_since().is_none_or(|since| since > taken) {
                return;
            }
        }
        panic!("not written a flush interval later");
    }

    fn begin_outage(&mut self) {
        if self.outage.is_none() {
            // Of a large value the first spans may have been swept.
            let there = (0..KEYS).filter(|n| self.read(*n).is_some()).collect();
            let changes = self.history.iter().map(|(n, h)| (*n, h.values.len())).collect();
            self.outage = Some((there, self.shared.engine().counters().swept, changes));
        }
        self.disk.set_faults(match self.failing {
            Some(Failing::AllTorn) => Faults { write: 1_000, ..Faults::default() },
            _ => Faults { no_space: 1_000, ..Faults::default() },
        });
    }

    /// Writes work again: all goes on by itself, and nothing was lost.
    fn end_outage(&mut self) {
        self.disk.set_faults(Faults::default());
        let Some((there, swept, changes)) = self.outage.take() else { return };
        if swept == self.shared.engine().counters().swept {
            for n in there {
                let same = changes[&n] == self.history[&n].values.len();
                assert!(!same || self.read(n).is_some(), "key {n} is lost, and only writes had failed");
            }
        }
        self.settle();
        assert!(!self.shared.engine().is_failing());
        assert_eq!(self.shared.engine().counters().given_up, 0, "all writes failed, not those of one place");
        let n = self.rng.random_range(0..KEYS);
        // Before one removals may have to be noted, and segments written.
        let taken = (0..5).any(|_| {
            let taken = self.is_taken(n);
            self.settle();
            taken
        });
        assert!(taken, "nothing is put any more");
    }

    /// Everything written and synced: earlier values are gone for good.
    fn barrier(&mut self, digest: bool) {
        if digest {
            self.shared.engine().digest();
        }
        self.shared.engine().flush();
        self.settle();
        self.disk.sync().unwrap();
        for history in self.history.values_mut() {
            history.floor = history.values.len().saturating_sub(1);
            history.written = history.values.len();
        }
    }

    /// Small values that a mere kill must not cost, and where they lie: in the index, and not put or removed since everything was
    /// written.
    fn written(&self) -> HashMap<u64, u64> {
        let newest = self.shared.engine().newest();
        let untouched = self.history.iter().filter(|(_, h)| h.written == h.values.len());
        let small = untouched.filter(|(_, h)| {
            h.values.last().copied().flatten().is_some_and(|value| body(value.body).len() <= self.shared.span)
        });
        let lies = |n: u64| {
            let slot = self.shared.index.find(self.shared.hash(&key(n)))?;
            let number = self.layout.segment_of(slot.place);
            // What was put again since is lost with what is not written, as the sweep may come by before the index is loaded.
            let written = !self.shared.unwritten.has(&self.layout, number);
            Some((n, self.layout.seq_of(number, newest).filter(|_| written)?))
        };
        small.filter_map(|(n, _)| lies(*n)).collect()
    }

    fn crash(&mut self, power: bool, damage: bool) {
        // What is in flight may or may not have been carried out.
        for _ in 0..self.rng.random_range(0..=self.flying.len()) {
            self.step();
        }
        self.end(power, damage);
    }

    fn kill(&mut self) {
        self.end(false, false);
    }

    /// What the next start cannot read.
    fn unreadable(&mut self) -> Range<u64> {
        if !self.reads_fail() {
            return 0..0;
        }
        let (first, second) = (COPIES_OF_LEDGER[0], COPIES_OF_LEDGER[1]);
        let start = self.layout.start(self.rng.random_range(0..self.layout.segments));
        match self.rng.random_range(0..12) {
            0 => first..second,
            1 => second..DATA_START,
            2 => first..DATA_START,
            3 => second..start + 1,
            4..8 => start..start + u64::from(self.layout.segment) * self.rng.random_range(1..5),
            _ => 0..0,
        }
    }

    fn end(&mut self, power: bool, damage: bool) {
        let hostile = power || damage;
        let sure = self.is_sure();
        self.flying.clear();
        self.carried_out.clear();
        self.outage = None;
        let since = self.shared.engine().unwritten_since().unwrap_or(u64::MAX);
        let written = if self.only_kills { self.written() } else { HashMap::new() };
        // Sometimes a kill comes first, and what it left unsynced is lost only by the next crash.
        if power && self.rng.random_bool(0.7) {
            self.disk.lose_power();
        }
        let unread = self.unreadable();
        self.writers.clear();
        let seed = self.rng.random();
        self.memory.clear();
        self.shared =
            open(&self.disk, &self.pool, self.layout, self.stretch, self.admission, unread.clone(), seed);
        self.set_time();
        let hostile = hostile || unread.end > DATA_START;
        let ledger = self.read_ledger();
        // What counts as written is in both copies.
        let spoilt = self.spoilt.iter().filter(|spoilt| **spoilt).count();
        let possible = match COPIES_OF_LEDGER.iter().all(|copy| unread.contains(copy)) {
            true => ledger == UNREAD,
            false => self.ledgers[self.ledger_floor..].contains(&ledger) || spoilt == 2 && ledger == UNREAD,
        };
        assert!(possible, "ledger {ledger} came back, and could not");
        self.ledgers.push(ledger);
        self.ledger_set = false;
        for n in 0..KEYS {
            let answer = self.read(n);
            // The sweep may have come by since the start.
            let swept = self.shared.engine().swept();
            let lies = written.get(&n).is_some_and(|seq| swept.is_none_or(|swept| *seq > swept));
            assert!(answer.is_some() || !lies, "key {n} had been written, and is lost");
            let Some(history) = self.history.get_mut(&n) else {
                assert_eq!(answer, None);
                continue;
            };
            let durable = history.times.iter().rposition(|taken| sure && *taken < since).unwrap_or(0);
            let from = if hostile { 0 } else { history.floor.max(durable) };
            let values = &history.values[from.min(history.values.len())..];
            let mut possible: Vec<Value> = values.iter().flatten().copied().collect();
            if from <= history.others.0 {
                possible.extend(&history.others.1);
            }
            assert!(
                answer.is_none_or(|answer| possible.contains(&answer)),
                "key {n}: {answer:?} came back, but only {possible:?} could"
            );
            assert!(!lies || Some(&answer) == history.values.last(), "key {n}: an older value");
            history.push(answer, self.now);
            if unread.end > DATA_START {
                history.others = (history.values.len() - 1, possible);
            }
        }
    }
}

/// A start that reads nothing in `unread`.
fn open(
    disk: &Arc<SimDisk>,
    pool: &Arc<Pool>,
    layout: Layout,
    stretch: Option<u64>,
    admission: Admission,
    unread: Range<u64>,
    seed: u64,
) -> Arc<Shared> {
    disk.set_faults(Faults::default());
    disk.fail_reads_in(unread);
    let options = Options {
        admission,
        cmax: (layout.segments == 24).into(),
        flush_interval: Duration::from_millis(INTERVAL),
        object_max: Some(1 << 20),
        ..Options::at("")
    };
    let index = Index::of(&layout, options.objects(&layout));
    let (state, _) = recover(&Reads::new(&**disk, pool), layout, stretch, index).unwrap();
    disk.fail_reads_in(0..0);
    let clock = Clock::Holder(AtomicU64::new(0));
    let device = (Arc::default(), disk.read_block());
    Shared::new(state, &options, pool.clone(), device, StdRng::seed_from_u64(seed), clock)
}

/// One history; its share of hits.
fn history(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    let hostile = seed % 5;
    world.only_kills = hostile == 4;
    let kinds = [
        Failing::Some,
        Failing::AllTorn,
        Failing::All,
        Failing::Place,
        Failing::Reads,
        Failing::ReadsAndPlace,
    ];
    world.failing = (hostile == 1).then_some(kinds[(seed / 5) as usize % kinds.len()]);
    // What a digest forgets shows only in a longer life.
    let steps = if world.is_sure() { 400..1_600 } else { 50..400 };
    for _ in 0..world.rng.random_range(steps) {
        world.now += world.rng.random_range(0..100);
        if world.reads_fail() {
            world.disk.set_faults(Faults { read: 200, ..Faults::default() });
        }
        // A skewed choice: some keys are popular enough to survive the sweep.
        let n = world.rng.random_range(0..world.keys).min(world.rng.random_range(0..world.keys));
        match world.rng.random_range(0..1_000) {
            0..370 => {
                let swept = world.shared.engine().counters().swept;
                world.put(n);
                if world.is_sure()
                    && world.shared.engine().counters().swept != swept
                    && world.rng.random_bool(0.05)
                {
                    world.remove_what_went_and_kill();
                }
            }
            370..450 => world.push(),
            450..480 => world.remove(n),
            480..600 => world.get(n),
            600..700 => world.use_in_memory(n),
            700..950 => world.step(),
            950..977 => world.shared.engine().tick(world.now),
            977..985 => world.set_ledger(),
            985..989 => world.shared.engine().digest(),
            989..992 => {
                let digest = world.rng.random_bool(0.5);
                world.end_outage();
                world.barrier(digest);
                // At once, so that few keys were touched since.
                if world.only_kills && world.rng.random_bool(0.5) {
                    world.crash(false, false);
                }
            }
            992..995
                if world.failing == Some(Failing::AllTorn)
                    && (world.outage.is_some() || world.shared.engine().is_failing()) =>
            {
                world.end_outage()
            }
            992..995 if hostile > 0 => world.crash(hostile == 3, hostile == 2),
            995..997 if hostile == 1 => match world.failing {
                Some(Failing::Some) => {
                    world.disk.set_faults(Faults { read: 50, write: 30, no_space: 20 });
                }
                Some(Failing::Reads) => world.crash(false, false),
                Some(Failing::Place | Failing::ReadsAndPlace) => {
                    let start = world.layout.start(world.rng.random_range(0..world.layout.segments));
                    let length = u64::from(world.layout.segment) * world.rng.random_range(1..5);
                    world.disk.fail_writes_in(start..(start + length).min(world.layout.size()));
                }
                _ if world.outage.is_some() => world.end_outage(),
                _ => world.begin_outage(),
            },
            995..997 if world.only_kills || hostile == 0 => world.wait(),
            997..999 if world.is_sure() => world.remove_what_went_and_kill(),
            997 if hostile == 2 => world.disk.flip_bit(DATA_START as usize..world.layout.size() as usize),
            998 if hostile == 2 => {
                let copy = world.rng.random_range(0..2);
                let at = COPIES_OF_LEDGER[copy] as usize;
                world.disk.flip_bit(at..at + BLOCK);
                world.spoilt[copy] = true;
            }
            _ => world.get(n),
        }
    }
    world.end_outage();
    world.barrier(false);
    (0..KEYS).for_each(|n| world.get(n));
    assert!(hostile > 0 || world.bad == 0, "{} damaged records, and nothing had failed", world.bad);
    (world.hits, world.gets)
}

/// Seeds that once failed.
const FOUND: [u64; 1] = [7016];

#[test]
fn ten_thousand_histories() {
    let runs: u64 = std::env::var("COSM_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let base: u64 = std::env::var("COSM_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    println!("seeds {base}..{} (COSM_SEED and COSM_HISTORIES change them)", base + runs);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn(move || {
                    let mut sums = (0, 0);
                    for seed in FOUND.into_iter().chain(base..base + runs).filter(|s| s % threads == t) {
                        let result = std::panic::catch_unwind(|| history(seed));
                        let (hits, gets) = result.unwrap_or_else(|_| panic!("seed {seed} failed"));
                        sums = (sums.0 + hits, sums.1 + gets);
                    }
                    sums
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().expect("a history failed; its seed is printed above"))
            .collect::<Vec<_>>()
    });
    let (hits, gets) = totals.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    println!("{hits} hits of {gets} gets");
    assert!(hits * 2 > gets, "the store forgets too much: {hits} hits of {gets}");
}
