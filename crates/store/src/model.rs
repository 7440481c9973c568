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
//! A value may get newer metadata. It answers with the newest; or with an older one of its own where the update was
//! lost in a crash, or where a caller has updated what was not there any more.
//!
//! The ledger is the one set last; after a crash the last one whose writing had completed, or a newer one; after damage
//! any earlier one, or none: always one that was set, whole.
//!
//! A start that cannot read some segments may find earlier values, or none; but what it finds is what later starts go on
//! from: what was removed after it, found or not, and said to be in the file stays removed. One that cannot read a copy of
//! the ledger says so.

use crate::buffer::Pool;
use crate::disk::Disk;
use crate::disk::sim::{Faults, SimDisk};
use crate::engine::{Engine, Io, Op};
use crate::format::ledger::{COPIES as COPIES_OF_LEDGER, UNREADABLE};
use crate::format::record::{self, About, Kind, Record};
use crate::format::superblock::{COPIES, Superblock};
use crate::format::update::Target;
use crate::format::{BLOCK, DATA_START, Layout, UNIT, align_down, align_up};
use crate::index::Index;
use crate::policy::Fbc;
use crate::recovery::{Reads, recover};
use crate::{DEFAULT_OVERLAY, Key, Refused};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const LAYOUT: Layout = Layout { segment: 32 << 10, segments: 10, identity: 0xfeed };
const KEYS: u64 = 60;
/// The flush interval, milliseconds.
const INTERVAL: u64 = 500;
/// One in so many values is a larger one.
const LARGE: u64 = 7;

/// What was put, and which of its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    value: u64,
    version: u64,
    /// Says what the body is: several values of a key may have the same.
    body: u64,
}

impl Value {
    fn meta(&self) -> Vec<u8> {
        let words = [self.value, self.version, self.body].map(u64::to_le_bytes);
        // Of several lengths, and so that places are used again by records of the same length.
        let more = vec![self.version as u8; self.version as usize % 3 * 100];
        [&words.concat()[..], &more].concat()
    }

    /// `None` for bytes that are no value's metadata.
    fn of(meta: &[u8]) -> Option<Value> {
        let word = |n: usize| Some(u64::from_le_bytes(meta.get(8 * n..8 * n + 8)?.try_into().ok()?));
        let value = Value { value: word(0)?, version: word(1)?, body: word(2)? };
        (value.meta() == meta).then_some(value)
    }

    /// True for this value with this metadata or older.
    fn was(&self, other: &Value) -> bool {
        (self.value, self.body) == (other.value, other.body) && self.version <= other.version
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
    disk: Arc<SimDisk>,
    pool: Arc<Pool>,
    engine: Engine,
    index: Arc<Index>,
    flying: Vec<Io>,
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
    /// Newer metadata may be forgotten: callers update what went meanwhile.
    forgetful: bool,
    overlay: usize,
    updates: u64,
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
}

pub(crate) fn key(n: u64) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

/// A body that says which value it is, in every byte of it.
fn body(value: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(value);
    let length =
        if value.is_multiple_of(LARGE) { rng.random_range(0..12_000) } else { rng.random_range(0..3_000) };
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
        let disk = Arc::new(SimDisk::new(LAYOUT.size() as usize, StdRng::seed_from_u64(rng.random())));
        let first = Superblock { layout: LAYOUT, generation: 1, checkpoint: Default::default() };
        disk.write(COPIES[1], &first.encode()).unwrap();
        disk.sync().unwrap();
        let pool = Pool::new(1 << 20);
        let forgetful = rng.random_bool(0.5);
        let overlay = if rng.random_bool(0.5) { rng.random_range(0..2_000) } else { DEFAULT_OVERLAY };
        // Few keys and always the same bodies: then a place is used again by the same key's same body.
        let (keys, again) = if rng.random_bool(0.1) { (6, 1.0) } else { (KEYS, 0.2) };
        let (engine, index) = open(&disk, &pool, overlay, 0..0);
        World {
            rng,
            disk,
            pool,
            engine,
            index,
            flying: Vec::new(),
            now: 0,
            values: LARGE * KEYS,
            history: HashMap::new(),
            hits: 0,
            gets: 0,
            only_kills: false,
            failing: None,
            outage: None,
            forgetful,
            overlay,
            updates: 0,
            keys,
            again,
            bad: 0,
            ledgers: vec![0],
            ledger_floor: 0,
            ledger_set: false,
        }
    }

    fn put(&mut self, n: u64) {
        self.values += 1;
        let body_of = if self.rng.random_bool(self.again) { LARGE * n } else { self.values };
        let value = Value { value: self.values, version: 0, body: body_of };
        let (key, body) = (key(n), body(value.body));
        let about =
            About { kind: Kind::Object, id: 0, length: body.len() as u64, span: 0, written: self.now };
        let meta = value.meta();
        let record = Record::new(LAYOUT.identity, about, key.bytes(), &meta, &body).unwrap();
        let put = self.engine.put(&key, &record, self.now);
        assert!(put != Err(Refused::TooLarge));
        // A refusal removes what was there.
        self.history.entry(n).or_default().push(put.is_ok().then_some(value), self.now);
    }

    fn is_taken(&mut self, n: u64) -> bool {
        self.put(n);
        self.history[&n].values.last().is_some_and(|last| last.is_some())
    }

    /// Newer metadata for a value of the key: the one it has, or in forgetful histories sometimes an earlier one.
    fn update(&mut self, n: u64) {
        let key = key(n);
        let Some(slot) = self.index.find(key.index_hash()) else { return };
        let history = self.history.get_mut(&n).unwrap();
        let Some(&Some(current)) = history.values.last() else { panic!("key {n}: in the index, but gone") };
        let all: Vec<Value> = history.values.iter().flatten().copied().collect();
        let stale = self.forgetful && self.rng.random_bool(0.2);
        // Of an earlier value with the same body it would be an update of the current one, as a put of both is.
        let of = if stale { all[self.rng.random_range(0..all.len())] } else { current };
        let of = if of.body == current.body { current } else { of };
        self.updates += 1;
        let newest = Value { version: self.updates, ..of };
        let (meta, body) = (newest.meta(), body(of.body));
        let sum = record::part_sum(LAYOUT.identity, &body);
        let target = Target { place: slot.place, units: slot.units, sum };
        let names = target.encode();
        let about =
            About { kind: Kind::Update, id: 0, length: names.len() as u64, span: 0, written: self.now };
        let record = Record::new(LAYOUT.identity, about, key.bytes(), &meta, &names).unwrap();
        let update = self.engine.update(&key, &record, target, &meta, self.now);
        assert!(update != Err(Refused::TooLarge));
        // With another body it is no update of the current value.
        if update == Ok(true) && of == current {
            history.push(Some(newest), self.now);
        }
    }

    fn remove(&mut self, n: u64) {
        self.engine.remove(key(n).index_hash(), self.now);
        self.history.entry(n).or_default().push(None, self.now);
    }

    /// A key that the index has let go of is removed, and the process is killed as soon as the engine says that this is in
    /// the file.
    fn remove_what_went_and_kill(&mut self) {
        let went = |n: &u64| {
            let last = self.history.get(n).and_then(|h| h.values.last().copied().flatten());
            last.is_some() && self.index.find(key(*n).index_hash()).is_none()
        };
        let all: Vec<u64> = (0..self.keys).filter(went).collect();
        if all.is_empty() || self.outage.is_some() {
            return;
        }
        self.now += 1;
        let taken = self.now;
        all.into_iter().for_each(|n| self.remove(n));
        for _ in 0..10_000 {
            if self.engine.unwritten_since().is_none_or(|since| since > taken) {
                return self.kill();
            }
            self.now += 50;
            self.engine.flush();
            self.engine.tick(self.now);
            self.step();
        }
        panic!("a removal is never written");
    }

    /// What the store answers: the value, checked byte by byte.
    fn read(&mut self, n: u64) -> Option<Value> {
        let key = key(n);
        let slot = self.index.reference(key.index_hash(), 1)?;
        let length = usize::from(slot.units) * UNIT;
        let (bytes, skip) = match self.engine.peek(slot) {
            Some(copy) => (copy, 0),
            None => {
                let start = slot.place as usize * UNIT;
                let skip = start - align_down(start, 512);
                let span = align_up(skip + length, 512);
                let mut buffer = self.pool.take(span);
                self.disk.read((start - skip) as u64, &mut buffer, span).ok()?;
                (buffer, skip)
            }
        };
        let bytes = &bytes[skip..skip + length];
        let found = record::parse(LAYOUT.identity, bytes)
            .filter(|f| f.about.kind.is_answer() && bytes[f.key.clone()] == key.bytes()[..]);
        let Some(found) = found else {
            self.bad += 1;
            self.engine.forget(key.index_hash(), slot.place, self.now);
            return None;
        };
        let newer = self.engine.state.overlay.meta(key.index_hash(), slot.place, found.sum);
        let value = Value::of(newer.as_deref().unwrap_or(&bytes[found.meta])).expect("metadata of a value");
        assert_eq!(bytes[found.body], body(value.body)[..], "key {n} value {value:?}");
        Some(value)
    }

    fn set_ledger(&mut self) {
        self.values += 1;
        if self.engine.set_ledger(&ledger(self.values), self.now).is_ok() {
            self.ledgers.push(self.values);
            self.ledger_set = true;
        }
    }

    /// Which ledger the engine has, checked byte by byte.
    fn read_ledger(&self) -> u64 {
        let bytes = self.engine.ledger();
        if bytes == UNREADABLE {
            return UNREAD;
        }
        let value = bytes.get(..8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
        assert_eq!(bytes, ledger(value), "ledger {value}");
        value
    }

    fn get_ledger(&mut self) {
        assert_eq!(Some(&self.read_ledger()), self.ledgers.last(), "an old ledger");
        if self.ledger_set && self.engine.is_ledger_written() {
            self.ledger_floor = self.ledgers.len() - 1;
        }
    }

    fn get(&mut self, n: u64) {
        self.gets += 1;
        if let Some(value) = self.read(n) {
            self.hits += 1;
            let history = self.history.get(&n).unwrap_or_else(|| panic!("key {n} was never put"));
            let last = history.values.last().copied().flatten().expect("it was removed");
            let right = if self.forgetful { value.was(&last) } else { value == last };
            assert!(right, "key {n}: {value:?}, not {last:?}");
        }
    }

    /// Carries out one I/O, in any order.
    fn step(&mut self) {
        while let Some(io) = self.engine.next_io() {
            self.flying.push(io);
        }
        if self.flying.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.flying.len());
        let Io { id, op } = self.flying.swap_remove(at);
        let result = match op {
            Op::Read { offset, length } => {
                let mut buffer = self.pool.take(length);
                self.disk.read(offset, &mut buffer, length).map(|()| Some(buffer))
            }
            Op::Write { offset, image, range } => self.disk.write(offset, &image[range]).map(|()| None),
            Op::Sync => self.disk.sync().map(|()| None),
        };
        self.engine.done(id, result, self.now);
        self.get_ledger();
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.now += 1_000;
            self.engine.tick(self.now);
            self.step();
            if self.engine.is_idle() && self.flying.is_empty() {
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
            self.engine.tick(self.now);
            self.step();
            while !self.flying.is_empty() {
                self.step();
            }
            if self.engine.unwritten_since().is_none_or(|since| since > taken) {
                return;
            }
        }
        panic!("not written a flush interval later");
    }

    fn begin_outage(&mut self) {
        let faults = match self.failing {
            Some(Failing::AllTorn) => Faults { write: 1_000, ..Faults::default() },
            _ => Faults { no_space: 1_000, ..Faults::default() },
        };
        self.disk.set_faults(faults);
        if self.outage.is_none() {
            let there = |n: &u64| self.index.find(key(*n).index_hash()).is_some();
            let changes = self.history.iter().map(|(n, h)| (*n, h.values.len())).collect();
            self.outage = Some(((0..KEYS).filter(there).collect(), self.engine.counters().swept, changes));
        }
    }

    /// Writes work again: all goes on by itself, and nothing was lost.
    fn end_outage(&mut self) {
        self.disk.set_faults(Faults::default());
        let Some((there, swept, changes)) = self.outage.take() else { return };
        if swept == self.engine.counters().swept {
            for n in there {
                let same = changes[&n] == self.history[&n].values.len();
                assert!(!same || self.read(n).is_some(), "key {n} is lost, and only writes had failed");
            }
        }
        self.settle();
        assert!(!self.engine.is_failing());
        assert_eq!(self.engine.counters().given_up, 0, "all writes failed, not those of one place");
        let n = self.rng.random_range(0..KEYS);
        // Before one a checkpoint may have to be written.
        let taken = (0..5).any(|_| {
            let taken = self.is_taken(n);
            self.settle();
            taken
        });
        assert!(taken, "nothing is put any more");
    }

    /// Everything written and synced: earlier values are gone for good.
    fn barrier(&mut self, checkpoint: bool) {
        if checkpoint {
            self.engine.checkpoint();
        }
        self.engine.flush();
        self.settle();
        self.disk.sync().unwrap();
        for history in self.history.values_mut() {
            history.floor = history.values.len().saturating_sub(1);
            history.written = history.values.len();
        }
    }

    /// Keys that a mere kill must not cost: in the index, and not put or removed since everything was written.
    fn written(&self) -> Vec<u64> {
        let untouched = |n: &u64| self.history.get(n).is_some_and(|h| h.written == h.values.len());
        (0..KEYS).filter(untouched).filter(|n| self.index.find(key(*n).index_hash()).is_some()).collect()
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
        let start = LAYOUT.start(self.rng.random_range(0..LAYOUT.segments));
        match self.rng.random_range(0..12) {
            0 => first..second,
            1 => second..DATA_START,
            2 => first..DATA_START,
            3 => second..start + 1,
            4..8 => start..start + u64::from(LAYOUT.segment) * self.rng.random_range(1..5),
            _ => 0..0,
        }
    }

    fn end(&mut self, power: bool, damage: bool) {
        let hostile = power || damage;
        let sure = self.is_sure();
        self.flying.clear();
        self.outage = None;
        let since = self.engine.unwritten_since().unwrap_or(u64::MAX);
        let written = if self.only_kills { self.written() } else { Vec::new() };
        // Sometimes a kill comes first, and what it left unsynced is lost only by the next crash.
        if power && self.rng.random_bool(0.7) {
            self.disk.lose_power();
        }
        let unread = self.unreadable();
        (self.engine, self.index) = open(&self.disk, &self.pool, self.overlay, unread.clone());
        let hostile = hostile || unread.end > DATA_START;
        let ledger = self.read_ledger();
        let possible = match COPIES_OF_LEDGER.iter().any(|copy| unread.contains(copy)) {
            true => &[UNREAD][..],
            false => &self.ledgers[if damage { 0 } else { self.ledger_floor }..],
        };
        // Damage to one copy and a tear in the other leave none.
        let possible = possible.contains(&ledger) || damage && ledger == UNREAD;
        assert!(possible, "ledger {ledger} came back, and could not");
        self.ledgers.push(ledger);
        self.ledger_set = false;
        for n in 0..KEYS {
            let answer = self.read(n);
            assert!(answer.is_some() || !written.contains(&n), "key {n} had been written, and is lost");
            let Some(history) = self.history.get_mut(&n) else {
                assert_eq!(answer, None);
                continue;
            };
            let durable = history.times.iter().rposition(|taken| sure && *taken < since).unwrap_or(0);
            let from = if hostile { 0 } else { history.floor.max(durable) };
            let possible = &history.values[from.min(history.values.len())..];
            // Metadata that was forgotten may be found again in the log.
            let known = |value: &Value| history.values.iter().flatten().any(|v| value.was(v));
            let could =
                |value: &Value| known(value) && possible.iter().flatten().any(|p| p.value == value.value);
            assert!(
                answer.as_ref().is_none_or(could),
                "key {n}: {answer:?} came back, but only {possible:?} could"
            );
            if written.contains(&n) && !self.forgetful {
                assert_eq!(
                    Some(&answer),
                    history.values.last(),
                    "key {n}: an update had been written, and is lost"
                );
            }
            history.push(answer, self.now);
        }
    }
}

/// A start that reads nothing in `unread`.
pub(crate) fn open(
    disk: &Arc<SimDisk>,
    pool: &Arc<Pool>,
    overlay: usize,
    unread: Range<u64>,
) -> (Engine, Arc<Index>) {
    let mut buffer = pool.take(2 * BLOCK);
    let faults = Faults::default();
    disk.set_faults(faults);
    disk.read(0, &mut buffer, 2 * BLOCK).unwrap();
    let mut superblocks: Vec<Superblock> = COPIES
        .iter()
        .filter_map(|&at| Superblock::decode(&buffer[at as usize..at as usize + BLOCK]).ok())
        .collect();
    superblocks.sort_by_key(|s| std::cmp::Reverse(s.generation));
    disk.fail_reads_in(unread);
    let (state, _) = recover(&Reads::new(&**disk, pool), &superblocks, overlay).unwrap();
    disk.fail_reads_in(0..0);
    let index = state.index.clone();
    (Engine::new(state, Box::new(Fbc { cmax: 3, amax: 100 }), INTERVAL, pool.clone()), index)
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
    // What an automatic checkpoint forgets shows only in a longer life.
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
                let swept = world.engine.counters().swept;
                world.put(n);
                if world.is_sure() && world.engine.counters().swept != swept && world.rng.random_bool(0.05) {
                    world.remove_what_went_and_kill();
                }
            }
            370..450 => world.update(n),
            450..480 => world.remove(n),
            480..700 => world.get(n),
            700..950 => world.step(),
            950..977 => world.engine.tick(world.now),
            977..985 => world.set_ledger(),
            985..989 => world.engine.checkpoint(),
            989..992 => {
                let checkpoint = world.rng.random_bool(0.5);
                world.end_outage();
                world.barrier(checkpoint);
                // At once, so that few keys were touched since.
                if world.only_kills && world.rng.random_bool(0.5) {
                    world.crash(false, false);
                }
            }
            992..995
                if world.failing == Some(Failing::AllTorn)
                    && (world.outage.is_some() || world.engine.is_failing()) =>
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
                    let start = LAYOUT.start(world.rng.random_range(0..LAYOUT.segments));
                    let length = u64::from(LAYOUT.segment) * world.rng.random_range(1..5);
                    world.disk.fail_writes_in(start..(start + length).min(LAYOUT.size()));
                }
                _ if world.outage.is_some() => world.end_outage(),
                _ => world.begin_outage(),
            },
            995..997 if world.only_kills || hostile == 0 => world.wait(),
            997..999 if world.is_sure() => world.remove_what_went_and_kill(),
            997 if hostile == 2 => world.disk.flip_bit(DATA_START as usize..LAYOUT.size() as usize),
            998 if hostile == 2 => {
                let copy = COPIES_OF_LEDGER[world.rng.random_range(0..2)] as usize;
                world.disk.flip_bit(copy..copy + BLOCK);
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

/// Seeds that once showed an older value coming back after a kill.
const FOUND: [u64; 5] = [4_371, 19_376, 153_171, 9_002_644, 9_010_549];

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
