//! The world of one history: the store on a simulated disk, what is under way, and what is known of each key. Time is virtual: it
//! passes when it is told to.

use super::faults::{Scenario, Trouble};
use super::past::Past;
use super::readers::{Hand, Reading};
use super::values::{LARGE, Value};
use crate::Spans;
use crate::Writer;
use crate::buffer::Pool;
use crate::digester::most_events;
use crate::disk::Disk;
use crate::disk::sim::{Faults, SimDisk};
use crate::engine::{Answer, Io, Millis, Op};
use crate::format::ledger::COPIES as LEDGERS;
use crate::format::{DATA_START, Layout};
use crate::scrub::Clients;
use crate::shared::Shared;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The flush interval, milliseconds.
pub const INTERVAL: Millis = 500;
/// Bytes of a segment.
pub const SEGMENT: u32 = 32 << 10;
/// Segments that one put may sweep: its own, and those for an index that is full.
const SWEPT_BY_A_PUT: u64 = 4;

pub struct World {
    pub rng: StdRng,
    pub scenario: Scenario,
    pub layout: Layout,
    pub disk: Arc<SimDisk>,
    pub pool: Arc<Pool>,
    pub shared: Arc<Shared>,
    pub hand: Hand,
    pub flying: Vec<Flying>,
    /// Work on the index that is done, and not reported yet.
    pub carried_out: Vec<(u64, Answer)>,
    /// Large values that are arriving.
    pub arrivals: Vec<Arrival>,
    /// Reads under way.
    pub readings: Vec<Reading>,
    /// What the tier above has, by key: of small values all, of large ones where they lie. None is older than what the store has.
    pub memory: Vec<Option<(Value, Option<Spans>)>>,
    pub now: Millis,
    pub values: u64,
    pub pasts: Vec<Past>,
    pub outage: Option<Outage>,
    pub ledgers: Ledgers,
    /// Entries that the index may have.
    pub most: usize,
    /// When this life began, and the least by which it let in more than its write budget had brought since.
    pub began: Millis,
    pub least_over: f64,
    pub tally: Tally,
}

/// What the engine wants done.
pub struct Flying {
    pub io: Io,
    /// Not before then.
    due: Millis,
}

impl Flying {
    fn is_of_scrub(&self) -> bool {
        matches!(self.io.op, Op::Verify(_))
    }
}

pub struct Arrival {
    pub n: u64,
    pub value: Value,
    pub body: Vec<u8>,
    pub writer: Writer,
    pub pushed: usize,
    /// Pieces of the part that it goes on with; 0: of none.
    pub kept: u32,
}

/// While writes fail: what was there when they began to, how much had been swept, and how often each key had changed.
pub struct Outage {
    pub there: Vec<u64>,
    pub swept: u64,
    pub changes: Vec<(usize, u64)>,
}

pub struct Ledgers {
    /// All there ever were; 0: the empty one of a new cache.
    pub all: Vec<u64>,
    /// Those before this one were superseded durably.
    pub floor: usize,
    /// One was set since the last crash: what was found may not have been synced.
    pub set: bool,
    /// A copy was being written when the process ended, and no later life has written both.
    pub torn: bool,
    /// The last start could read both, and makes them the same.
    pub both_read: bool,
    /// Copies of it that may be damaged.
    pub spoilt: [bool; 2],
}

/// What a history, or many, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub histories: u64,
    pub gets: u64,
    pub hits: u64,
    pub starts: u64,
    /// Changes of the size; starts that were to change it and were interrupted, or failed; and those that were refused.
    pub resized: u64,
    pub cut_short: u64,
    pub refused: u64,
    /// Bytes of objects put, of the segments that took them, and of what objects lay in at the end.
    pub put: u64,
    pub sealed: u64,
    pub live: u64,
    pub size: u64,
    /// Bytes of spans, among those that lay there, of which nobody knew the head.
    pub dead: u64,
    pub millis: u64,
    /// Reads that a group which was read before had saved.
    pub saved: u64,
    /// Objects that were turned away for the write budget.
    pub unaffordable: u64,
    /// Bytes that the scrub of a last life verified, and records that it found damaged.
    pub scrubbed: u64,
    pub spoilt: u64,
}

impl Tally {
    pub fn add(&mut self, more: &Tally) {
        let Tally {
            histories,
            gets,
            hits,
            starts,
            resized,
            cut_short,
            refused,
            put,
            sealed,
            live,
            size,
            dead,
            millis,
            saved,
            unaffordable,
            scrubbed,
            spoilt,
        } = self;
        *histories += more.histories;
        *gets += more.gets;
        *hits += more.hits;
        *starts += more.starts;
        *resized += more.resized;
        *cut_short += more.cut_short;
        *refused += more.refused;
        *put += more.put;
        *sealed += more.sealed;
        *live += more.live;
        *size += more.size;
        *dead += more.dead;
        *millis += more.millis;
        *saved += more.saved;
        *unaffordable += more.unaffordable;
        *scrubbed += more.scrubbed;
        *spoilt += more.spoilt;
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let scenario = Scenario::of(seed, &mut rng);
        let layout = Layout::new(SEGMENT, scenario.segments, 0xfeed);
        let chance = StdRng::seed_from_u64(rng.random());
        let disk = Arc::new(match scenario.is_device {
            true => SimDisk::device(scenario.most_bytes(SEGMENT) as usize, chance),
            false => SimDisk::new(layout.size() as usize, chance),
        });
        let pool = Pool::new(1 << 20);
        if seed.is_multiple_of(4) {
            use_for_another(&disk, &pool, layout, &scenario, seed);
        }
        crate::disk::file::format(&*disk, &layout).unwrap();
        let shared = super::starts::open(&disk, &pool, layout, &scenario, 0..0, rng.random()).unwrap();
        let keys = scenario.keys as usize;
        let may_be_older =
            matches!(scenario.trouble, Trouble::Damage(kind) if kind != super::faults::Damage::Bits);
        let world = World {
            rng,
            layout,
            disk,
            pool,
            hand: Hand::new(&shared),
            shared,
            flying: Vec::new(),
            carried_out: Vec::new(),
            arrivals: Vec::new(),
            readings: Vec::new(),
            memory: vec![None; keys],
            now: 0,
            values: LARGE * scenario.keys,
            pasts: (0..keys).map(|_| Past::new(may_be_older)).collect(),
            outage: None,
            ledgers: Ledgers {
                all: vec![0],
                floor: 0,
                set: false,
                torn: false,
                both_read: true,
                spoilt: [false; 2],
            },
            most: scenario.index_max.map_or(usize::MAX, |most| most as usize),
            began: 0,
            least_over: 0.0,
            tally: Tally { histories: 1, ..Tally::default() },
            scenario,
        };
        world.disk.set_faults(world.scenario.faults());
        world
    }

    pub fn pass(&mut self, time: Millis) {
        self.now += time;
        self.shared.set_time(self.now);
    }

    pub fn tick(&mut self) {
        self.shared.engine().tick(self.now);
    }

    /// Carries out one of the engine's wishes that is due, in any order, or reports one. False when there was none.
    pub fn step(&mut self) -> bool {
        while self.flying.iter().filter(|flying| !flying.is_of_scrub()).count() < self.scenario.workers {
            let Some(io) = self.shared.engine().next_io() else { break };
            self.fly(io);
        }
        if self.scenario.scrub.is_some() && self.rng.random_bool(0.3) {
            let clients = match self.readings.is_empty() {
                true => [Clients::Away, Clients::Near][self.rng.random_range(0..2)],
                false => Clients::Wait,
            };
            let next = self.shared.engine().next_scrub(clients, self.now);
            next.into_iter().for_each(|io| self.fly(io));
        }
        let reported = self.carried_out.pop_if(|_| self.rng.random());
        let some = reported.is_some();
        if let Some((id, answer)) = reported {
            self.shared.engine().done(id, Ok(answer), self.now);
        }
        let due = self.flying.iter().filter(|flying| flying.due <= self.now).count();
        if due == 0 {
            return some;
        }
        let nth = self.rng.random_range(0..due);
        let now = self.now;
        let at = (0..self.flying.len()).filter(|at| self.flying[*at].due <= now).nth(nth);
        let Io { id, op } = self.flying.swap_remove(at.expect("counted")).io;
        let result = match op {
            Op::Index(work) => {
                let answer = work.carry_out(&self.shared.index);
                self.carried_out.push((id, answer));
                return true;
            }
            op => self.shared.carry_out(&*self.disk, op),
        };
        self.shared.engine().done(id, result, self.now);
        self.get_ledger();
        true
    }

    fn fly(&mut self, io: Io) {
        let due = self.now + self.scenario.takes(&mut self.rng);
        self.flying.push(Flying { io, due });
    }

    /// The scrub goes once round, whatever else happens.
    pub fn scrub_all(&mut self) {
        let all = self.layout.segments;
        self.shared.engine().scrub_for_tests().forget_for_tests();
        let begun = |world: &World| world.shared.engine().scrub_for_tests().at;
        let (from, mut left) = (begun(self), 200_000);
        while begun(self) <= from + all {
            left -= 1;
            assert!(left > 0, "the scrub never goes round");
            self.tick();
            if !self.turn() {
                self.pass(100);
            }
        }
    }

    /// Something is done, however long that takes; false when there is nothing to do.
    pub fn turn(&mut self) -> bool {
        if self.step() || !self.carried_out.is_empty() {
            return true;
        }
        let Some(due) = self.flying.iter().map(|flying| flying.due).min() else { return false };
        self.pass(due.saturating_sub(self.now));
        true
    }

    /// Until nothing is left to be done.
    pub fn settle(&mut self) {
        for _ in 0..20_000 {
            self.tick();
            if self.step() {
                continue;
            }
            if self.shared.engine().is_idle() && self.flying.is_empty() && self.carried_out.is_empty() {
                return;
            }
            self.pass(INTERVAL);
        }
        panic!("the engine never came to rest");
    }

    /// What is under way may be done or not.
    pub fn some_steps(&mut self) {
        for _ in 0..self.rng.random_range(0..=self.flying.len()) {
            self.turn();
        }
    }

    /// The process ends while writes are under way: some have begun.
    pub fn tear(&mut self) {
        for Flying { io, .. } in std::mem::take(&mut self.flying) {
            if let Op::Write { offset, image, range } = io.op
                && self.rng.random_bool(0.3)
            {
                let blocks = range.len() / crate::format::BLOCK;
                let written = self.rng.random_range(0..=blocks) * crate::format::BLOCK;
                let _ = self.disk.write(offset, &image[range.start..range.start + written]);
                self.ledgers.torn |= (LEDGERS[0]..DATA_START).contains(&offset);
            }
        }
    }

    pub fn swept(&self) -> Option<u64> {
        self.shared.engine().swept()
    }

    /// Does what may put something, and checks that it did not cost others more than it may.
    pub fn putting<T>(&mut self, put: impl FnOnce(&mut World) -> T) -> T {
        let count = |world: &World| {
            let engine = world.shared.engine();
            let counters = engine.counters();
            (counters.puts + counters.put_again, engine.swept().map_or(0, |seq| seq + 1))
        };
        let before = count(self);
        let done = put(self);
        let (puts, swept) = count(self);
        let puts = puts - before.0;
        // While work on the index is under way that was given its room before.
        if self.flying.iter().any(|flying| matches!(flying.io.op, Op::Index(_))) {
            self.most = self.most.saturating_add(puts as usize);
        }
        let calls = puts.max(1);
        // What was cut off leaves with what was opened next.
        let swept = (before.1..swept).filter(|seq| !self.layout.is_cut(*seq)).count() as u64;
        assert!(swept <= calls * SWEPT_BY_A_PUT, "a put swept {swept} segments");
        done
    }

    /// The index keeps to its bound, also while it is loaded, and what waits for a digest to its own.
    pub fn check(&mut self) {
        let events = self.shared.engine().digester().events_in_memory();
        let least = most_events(self.scenario.stretch(self.layout.segments), SEGMENT);
        // Where a cache became smaller, one segment may have nothing but removals.
        let removals = if self.scenario.resizes > 0.0 { SEGMENT as usize / 64 } else { 0 };
        let most = least + self.scenario.keys as usize + removals;
        assert!(events <= 3 * most, "{events} events wait for a digest");
        self.check_budget();
        let Some(most) = self.scenario.index_max.map(|most| most as usize) else { return };
        let there = self.shared.index.len();
        assert!(there <= self.most, "{there} entries of {} at most", self.most);
        let works = self.flying.iter().any(|flying| matches!(flying.io.op, Op::Index(_)));
        if there <= most && !works && self.carried_out.is_empty() {
            self.most = most;
        }
    }

    /// What was paid for keeps to the budget of each time and its burst, and of a life to less; what was written is that, and what had to be.
    fn check_budget(&mut self) {
        let Some(budget) = self.scenario.write_budget else { return };
        let engine = self.shared.engine();
        let (seen, written) = (engine.budget_seen(), engine.counters().written_bytes);
        drop(engine);
        let (bytes, period) = (budget.bytes as f64, budget.period.as_millis() as f64);
        let paid = seen.let_in + seen.reserved;
        let over = paid as f64 - bytes * (self.now - self.began) as f64 / period;
        self.least_over = self.least_over.min(over);
        // Of what is put where something is left, a record.
        let record = f64::from(SEGMENT) / 2.0;
        assert!(over <= bytes / 8.0 + record, "{over} bytes too many since a start");
        assert!(over - self.least_over <= bytes / 4.0 + record, "{} bytes too many", over - self.least_over);
        assert!(written <= seen.let_in + seen.obliged, "{written} bytes were written, and fewer paid for");
    }

    pub fn bad(&self) -> u64 {
        self.shared.stats.bad_records.load(Relaxed)
    }
}

/// Another cache was there, with the same keys, which begins anew: nothing of it may be found.
fn use_for_another(disk: &Arc<SimDisk>, pool: &Arc<Pool>, layout: Layout, scenario: &Scenario, seed: u64) {
    let other = Layout { identity: layout.identity + 1, ..layout };
    crate::disk::file::format(&**disk, &other).unwrap();
    let shared = super::starts::open(disk, pool, other, scenario, 0..0, seed).unwrap();
    disk.set_faults(Faults::default());
    for n in 0..4 * scenario.keys {
        shared.set_time(n * INTERVAL);
        let _ = shared.put_whole(&super::key(n % scenario.keys), b"another's", &[7; 2_000]);
        shared.engine().tick(n * INTERVAL);
        shared.carry_out_all(&**disk);
    }
}
