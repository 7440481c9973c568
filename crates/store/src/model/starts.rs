//! How a life of the store ends, what happens to the medium meanwhile, and what the next start may find.

use super::faults::{Failing, Scenario, Trouble};
use super::key;
use super::past::Start;
use super::readers::Got;
use super::values::UNREAD;
use super::world::{INTERVAL, Outage, World};
use crate::buffer::Pool;
use crate::disk::Disk;
use crate::disk::sim::{Faults, SimDisk};
use crate::engine::Millis;
use crate::format::ledger::COPIES as LEDGERS;
use crate::format::record;
use crate::format::root::{COPIES as ROOTS, COPY as ROOT};
use crate::format::{BLOCK, DATA_START, Layout, fence};
use crate::index::{Entry, Index};
use crate::opening::layout_of;
use crate::reads::Reads;
use crate::recovery::recover;
use crate::shared::{Clock, Shared};
use crate::{Key, Options};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Where the fence lies.
const FENCE: Range<u64> = fence::OFFSET..fence::OFFSET + BLOCK as u64;

/// What failed is tried again within so long, milliseconds.
const TRIED_AGAIN: Millis = 10_000;

/// Keys that are put when nothing fails any more.
const FRESH: u64 = 4;

/// Where something lies: what the index knows its key by, its place, and its segment's sequence number.
#[derive(Debug)]
struct Lying {
    part: usize,
    print: u64,
    place: u64,
    seq: u64,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Killed,
    /// The power goes, now or with the end after this one.
    PowerLost,
}

/// What a start is told.
pub fn options(scenario: &Scenario, seed: u64) -> Options {
    Options {
        admission: scenario.admission,
        write_budget: scenario.write_budget,
        cmax: scenario.cmax,
        flush_interval: Duration::from_millis(INTERVAL),
        object_max: Some(1 << 20),
        group_of: |key| u64::from(key.last().map_or(0, |byte| byte % 4)),
        group: 8 << 10,
        group_memory: [0, 64 << 10, 1 << 20][seed as usize % 3],
        index_max: scenario.index_max,
        scrub: scenario.scrub,
        // No real time counts.
        patience: Duration::from_secs(1 << 20),
        tell: |_| {},
        news: |_| {},
        ..Options::at("")
    }
}

/// A start that reads nothing in `unread`.
pub fn open(
    disk: &Arc<SimDisk>,
    pool: &Arc<Pool>,
    layout: Layout,
    scenario: &Scenario,
    unread: Range<u64>,
    seed: u64,
) -> io::Result<Arc<Shared>> {
    disk.set_faults(scenario.faults_at_start());
    disk.fail_writes_in(0..0);
    if unread.is_empty() {
        let found = layout_of(Path::new("the simulated disk"), &**disk, disk.size());
        assert!(found.as_ref().is_ok_and(|found| *found == Some(layout)), "{found:?}, not {layout:?}");
    }
    disk.fail_reads_in(unread);
    let options = options(scenario, seed);
    let index = Index::of(&layout, options.objects(&layout));
    let reads = Reads::in_order(&**disk, pool, || disk.time());
    let found = recover(&reads, layout, scenario.stretch(layout.segments), index);
    disk.fail_reads_in(0..0);
    disk.set_faults(scenario.faults());
    let (state, found) = found?;
    assert!(
        found.missing == 0 || scenario.trouble != Trouble::Nothing,
        "{} packets are missing",
        found.missing
    );
    let clock = Clock::Holder(AtomicU64::new(0));
    let device = (Arc::default(), disk.read_block());
    Ok(Shared::new(state, &options, pool.clone(), device, StdRng::seed_from_u64(seed), clock))
}

impl World {
    /// A life ends at any moment.
    pub fn crash(&mut self) {
        let end = match self.scenario.trouble {
            Trouble::Power => End::PowerLost,
            _ => End::Killed,
        };
        self.some_steps();
        if self.rng.random_bool(0.5) && !self.is_being_damaged() {
            self.tear();
        }
        self.end(end);
    }

    pub fn kill(&mut self) {
        self.end(End::Killed);
    }

    /// All is written and synced: whatever happens then, nothing is lost.
    pub fn close(&mut self) {
        self.end_outage();
        self.shared.engine().retry_now();
        self.shared.engine().finish();
        self.settle();
        assert!(self.shared.engine().unwritten_since().is_none() || self.shared.engine().digester().owes);
        // Of a digest that was given up, a root may be on its way.
        if self.rng.random_bool(0.5) {
            self.disk.lose_power();
        }
        self.end(End::Closed);
    }

    pub fn is_being_damaged(&self) -> bool {
        matches!(self.scenario.trouble, Trouble::Damage(_))
    }

    /// What the next start cannot read.
    pub fn unreadable(&mut self) -> Range<u64> {
        if self.scenario.is_calm {
            return 0..0;
        }
        let (first, second) = (LEDGERS[0], LEDGERS[1]);
        let roots = ROOTS.map(|at| at..at + ROOT as u64);
        if self.scenario.fails(Failing::Header) {
            return match self.rng.random_range(0..10) {
                0 => roots[0].clone(),
                1 => roots[1].clone(),
                2 => roots[0].start..roots[1].end,
                3 => FENCE,
                4 => roots[1].start..second,
                5 => first..DATA_START,
                _ => 0..0,
            };
        }
        if !self.scenario.reads_fail() {
            return 0..0;
        }
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

    /// The life ends here, and the next one begins.
    fn end(&mut self, end: End) {
        let unsynced = self.disk.is_unsynced();
        let written_before = match end {
            End::Closed => Some(u64::MAX),
            _ if self.scenario.is_sure() => Some(self.shared.engine().unwritten_since().unwrap_or(u64::MAX)),
            _ => None,
        };
        let (mut lies, mut written) = (self.lies(end), self.written(end));
        let (written_end, order) = self.log_end();
        self.count_life();
        self.flying.clear();
        self.carried_out.clear();
        self.outage = None;
        // Sometimes a kill comes first, and what it left unsynced is lost only by the next crash.
        if end == End::PowerLost && self.rng.random_bool(0.7) {
            self.disk.lose_power();
        }
        let flipped = self.disk.flipped();
        let resized = self.resize(end == End::PowerLost || !unsynced);
        let mut unread = self.unreadable();
        let seed = self.rng.random();
        let again = |world: &World, unread: Range<u64>| {
            open(&world.disk, &world.pool, world.layout, &world.scenario, unread, seed)
        };
        self.shared = match again(self, unread.clone()) {
            Ok(shared) => shared,
            Err(_) => {
                assert!(unread.contains(&FENCE.start), "a start was refused, and the fence was readable");
                unread = 0..0;
                again(self, 0..0).expect("all can be read")
            }
        };
        let newest = self.shared.engine().newest();
        let keeps = |seq: &u64| resized.keeps(&self.layout, *seq, newest);
        lies.iter_mut().for_each(|lies| *lies = lies.filter(keeps));
        written.retain(|lies| keeps(&lies.seq));
        self.forget_clients();
        self.pass(0);
        (self.began, self.least_over) = (self.now, 0.0);
        self.tally.starts += 1;
        self.most =
            self.scenario.index_max.map_or(usize::MAX, |most| most as usize).max(self.shared.index.len());
        let in_log = unread.end > ROOTS[0] && !(LEDGERS[0]..=DATA_START).contains(&unread.end)
            || unread.start < LEDGERS[0] && !unread.is_empty();
        let start = Start {
            anything: self.is_being_damaged() || in_log || end == End::PowerLost && unsynced,
            unread: in_log,
            written_before,
        };
        let found_end = self.shared.engine().found_end();
        // Another size cuts the log, and notes removals.
        let stays = self.scenario.resizes == 0.0;
        assert!(!stays || found_end <= order, "the log ends behind all that was put");
        let is_whole = stays && self.scenario.is_sure() && self.scenario.is_read_whole();
        assert!(!is_whole || found_end >= written_end, "the log ends at {found_end}, not {written_end}");
        self.start_finds_ledger(&unread, self.disk.flipped() - flipped);
        let start = self.load_badly_or_well(start);
        for (n, past) in self.pasts.iter_mut().enumerate() {
            past.started(&start, lies[n]);
        }
        if !written.is_empty() && (self.scenario.is_calm || self.rng.random_bool(0.3)) {
            self.load_all();
            self.has_still(&written);
        }
        // What places were worth was forgotten: all is let in until that is known again.
        let admits = self.scenario.write_budget.is_some() || self.shared.admits(&key(0), 1_000).is_ok();
        assert!(admits, "turned away by what nobody knows any more");
        // Some are asked for at once, the others as it comes.
        let share = [0.0, 0.1, 1.0][self.rng.random_range(0..3)];
        for n in 0..self.scenario.keys {
            if self.rng.random_bool(share) {
                self.get(n);
            }
        }
    }

    /// Where the log ends in the file, and in memory.
    fn log_end(&self) -> (u64, u64) {
        let engine = self.shared.engine();
        (engine.written_end(), engine.order())
    }

    /// Where reads fail, either all of the index is loaded while they do not, or what cannot be read is as if the start had not.
    fn load_badly_or_well(&mut self, start: Start) -> Start {
        if !self.scenario.may_load_badly() {
            return start;
        }
        if self.rng.random_bool(0.4) {
            return Start { anything: true, unread: true, ..start };
        }
        self.disk.set_faults(Faults::default());
        self.load_all();
        self.disk.set_faults(self.scenario.faults());
        start
    }

    /// `flipped`: reads of the start of which a bit was another.
    fn start_finds_ledger(&mut self, unread: &Range<u64>, flipped: u64) {
        let found = self.read_ledger();
        let spoilt = self.ledgers.spoilt.iter().filter(|spoilt| **spoilt).count() + flipped as usize;
        // What counts as written is in both copies.
        let ledgers = &self.ledgers;
        let unreadable = LEDGERS.iter().filter(|copy| unread.contains(copy)).count();
        let possible = match unreadable {
            2 => found == UNREAD,
            1 if ledgers.torn && found == UNREAD => true,
            _ if self.pasts[0].may_be_older => found == UNREAD || ledgers.all.contains(&found),
            _ => ledgers.all[ledgers.floor..].contains(&found) || spoilt >= 2 && found == UNREAD,
        };
        assert!(possible, "ledger {found} came back, and could not");
        self.ledgers.all.push(found);
        (self.ledgers.set, self.ledgers.both_read) = (false, unreadable == 0);
    }

    /// By key, the segments of small values that this end must not cost: in the index, on the medium, and not put or removed since
    /// everything was written.
    fn lies(&self, end: End) -> Vec<Option<u64>> {
        let newest = self.shared.engine().newest();
        let lies = |n: usize| {
            let past = &self.pasts[n];
            let is_small =
                past.last().is_some_and(|value| value.part == 0 && value.length() <= self.shared.span);
            let is_kept = is_small && (past.is_written() || end == End::Closed && past.is_known());
            let slot = self.shared.index.find(self.shared.hash(&key(n as u64))).filter(|_| is_kept)?;
            let number = self.layout.segment_of(slot.place);
            // What was put again since is lost with what is not written, as the sweep may come by before the index is loaded.
            let written = !self.shared.unwritten.has(&self.layout, number);
            self.layout.seq_of(number, newest).filter(|_| written)
        };
        let sure = self.scenario.loses_nothing();
        (0..self.pasts.len()).map(|n| lies(n).filter(|_| sure)).collect()
    }

    /// What the index has, of all kinds, that this end must not cost.
    fn written(&self, end: End) -> Vec<Lying> {
        let engine = self.shared.engine();
        let is_all_written = engine.unwritten_since().is_none();
        // What some start could not read, a later one may find: younger than what the index has.
        let is_harmless = self.scenario.is_read_whole() && self.scenario.index_max.is_none();
        let is_over = self.scenario.is_calm || end == End::Closed;
        let (some, all) = (self.scenario.loses_nothing(), is_over && is_harmless && is_all_written);
        if !some && !all {
            return Vec::new();
        }
        let newest = engine.newest();
        drop(engine);
        let mut lying = self.lying();
        lying.retain_mut(|lies| {
            let number = self.layout.segment_of(lies.place);
            lies.seq = self.layout.seq_of(number, newest).unwrap_or(0);
            let is_written = all || !self.shared.unwritten.has(&self.layout, number);
            is_written && (self.scenario.loses_nothing() || self.is_there(lies))
        });
        lying
    }

    /// Whether what the index points to is of its key: where the table of a segment is lost, what lay there stays in the index until
    /// it is asked for.
    fn is_there(&self, lies: &Lying) -> bool {
        let length = self.layout.segment as usize - self.layout.within(lies.place);
        let mut bytes = self.pool.take(length);
        let read = self.disk.read(self.layout.offset(lies.place), &mut bytes, length);
        let found = read.ok().and_then(|()| record::parse(self.layout.identity, &bytes[..length]));
        found.is_some_and(|found| {
            let hash = self.shared.hash(&Key::new(bytes[found.key].to_vec()));
            let index = &self.shared.index;
            (index.part_of(hash), index.print_of(hash)) == (lies.part, lies.print)
        })
    }

    /// What the index has.
    fn lying(&self) -> Vec<Lying> {
        let index = &self.shared.index;
        let of = |part| {
            let entries = index.entries(part);
            entries.map(move |Entry { print, slot }| Lying { part, print, place: slot.place, seq: 0 })
        };
        (0..index.parts()).flat_map(of).collect()
    }

    fn has_still(&self, written: &[Lying]) {
        let swept = self.swept();
        let there: HashMap<_, _> = self.lying().iter().map(|at| ((at.part, at.print), at.place)).collect();
        for lies in written.iter().filter(|lies| swept.is_none_or(|swept| lies.seq > swept)) {
            let found = there.get(&(lies.part, lies.print));
            assert_eq!(found, Some(&lies.place), "what was written is lost: {lies:?}");
        }
    }

    /// Adds what groups saved in this life.
    pub fn count_life(&mut self) {
        self.tally.saved += self.shared.groups.all_saved.load(Relaxed);
        self.tally.unaffordable += self.shared.engine().counters().unaffordable;
    }

    /// From here on nothing fails: the store is back in full service, and what was put and written then answers after a kill.
    pub fn calm(&mut self) {
        self.scenario.is_calm = true;
        self.end_outage();
        self.barrier(false);
        self.takes_again();
        let digest = self.rng.random();
        self.barrier(digest);
    }

    pub fn kill_in_the_calm(&mut self) {
        if self.is_being_damaged() {
            // Behind what was lost of the open segment nothing is found: the next life has another.
            self.close();
        }
        let mut put = Vec::new();
        for n in 0..self.scenario.keys.min(FRESH) {
            self.takes(n);
            put.push((n, self.pasts[n as usize].last()));
        }
        let digest = self.rng.random();
        self.barrier(digest);
        let place = |world: &World, n: u64| world.shared.index.find(world.shared.hash(&key(n)));
        let newest = self.shared.engine().newest();
        let seq = |world: &World, n| {
            let number = world.layout.segment_of(place(world, n)?.place);
            world.layout.seq_of(number, newest)
        };
        put.retain(|(n, _)| place(self, *n).is_some());
        let mut put: Vec<_> = put.into_iter().map(|(n, value)| (n, value, seq(self, n))).collect();
        assert!(!put.is_empty(), "what was put last is not there");
        self.kill();
        self.load_all();
        let is_kept = |seq: u64| self.swept().is_none_or(|swept| seq > swept) && !self.layout.is_cut(seq);
        put.retain(|(.., seq)| seq.is_some_and(is_kept));
        for (n, value, seq) in put {
            let got = self.hand.get(&*self.disk, &key(n));
            let found = matches!(got, Got::Value(got, _) if Some(got) == value);
            // Of the entries that a bounded index may have, each of its parts is loaded no more than its share.
            assert!(
                found || self.scenario.index_max.is_some(),
                "key {n}, put when nothing failed any more and written at {seq:?}: {got:?}"
            );
        }
        self.takes(0);
        self.barrier(false);
    }

    /// Keys that the index has let go of are removed, and the process is killed as soon as the engine says that this is in the
    /// file.
    pub fn remove_what_went_and_kill(&mut self) {
        let is_there = |n: u64| self.shared.index.find(self.shared.hash(&key(n))).is_some();
        let went = |n: &u64| self.pasts[*n as usize].last().is_some() && !is_there(*n);
        let all: Vec<u64> = (0..self.scenario.keys).filter(went).collect();
        if all.is_empty() || self.outage.is_some() {
            return;
        }
        self.pass(1);
        let taken = self.now;
        all.into_iter().for_each(|n| self.remove(n));
        for _ in 0..10_000 {
            if self.shared.engine().unwritten_since().is_none_or(|since| since > taken) {
                return self.kill();
            }
            self.pass(50);
            self.shared.engine().flush();
            self.tick();
            self.step();
        }
        // A digest that could not be made is owed for good: nothing counts as written any more.
        assert!(self.shared.engine().digester().owes, "a removal is never written");
    }

    /// A flush interval, and the writes: all that was taken before is in the file then.
    pub fn wait(&mut self) {
        let taken = self.now;
        self.pass(INTERVAL);
        for _ in 0..2_000 {
            self.tick();
            if self.shared.engine().unwritten_since().is_none_or(|since| since > taken) {
                return;
            }
            if !self.turn() {
                self.pass(INTERVAL / 5);
            }
        }
        // As in `remove_what_went_and_kill`.
        assert!(self.shared.engine().digester().owes, "not written a flush interval and the writes later");
    }

    /// Everything written and synced: earlier values are gone for good.
    pub fn barrier(&mut self, digest: bool) {
        if digest {
            self.shared.engine().digest();
        }
        self.shared.engine().flush();
        self.settle();
        let written = self.shared.engine().written();
        for _ in 0..1_000 {
            if self.shared.engine().is_synced(written) {
                break;
            }
            self.tick();
            if !self.turn() {
                self.pass(INTERVAL);
            }
        }
        assert!(self.shared.engine().is_synced(written), "what was written is never synced");
        self.pasts.iter_mut().for_each(|past| past.settled());
    }

    pub fn begin_outage(&mut self) {
        let Some(faults) = self.scenario.outage() else { return };
        if self.outage.is_none() {
            // Of a large value the first spans may have been swept.
            self.load_all();
            let swept = self.shared.engine().counters().swept;
            let is_there = |n: &u64| matches!(self.hand.get(&*self.disk, &key(*n)), Got::Value(..));
            let there = (0..self.scenario.keys).filter(is_there).collect();
            let changes = self.pasts.iter().map(|past| (past.changes(), past.shaken)).collect();
            self.outage = Some(Outage { there, swept, changes });
        }
        self.disk.set_faults(faults);
    }

    /// Writes work again: all goes on by itself, and nothing was lost.
    pub fn end_outage(&mut self) {
        self.disk.set_faults(self.scenario.faults());
        self.disk.fail_writes_in(0..0);
        let Some(Outage { there, swept, changes }) = self.outage.take() else { return };
        let all_failed = !self.scenario.fails(Failing::Full);
        for n in there.into_iter().filter(|_| all_failed) {
            let past = &self.pasts[n as usize];
            let same = changes[n as usize] == (past.changes(), past.shaken);
            let got = self.hand.get(&*self.disk, &key(n));
            // What is got may be put again, which sweeps others.
            let gone = swept != self.shared.engine().counters().swept;
            let found = matches!(got, Got::Value(..));
            assert!(!same || gone || found, "key {n} is lost, and only writes had failed");
        }
        self.settle();
        let given_up = self.shared.engine().counters().given_up;
        assert!(!all_failed || given_up == 0, "all writes failed, not those of one place");
        self.takes_again();
    }

    /// Nothing fails any more, and there is space: so what is put is taken.
    pub fn takes_again(&mut self) {
        assert!(!self.shared.engine().is_failing());
        self.disk.set_faults(Faults::default());
        let n = self.rng.random_range(0..self.scenario.keys);
        self.takes(n);
        self.disk.set_faults(self.scenario.faults());
    }

    /// A small value is put under the key.
    fn takes(&mut self, n: u64) {
        // Before one removals may have to be noted, segments written, tables read again, and room made in the index: what a start
        // found may be more than it may have, and each attempt sweeps some of it.
        let attempts = 8 + self.scenario.index_max.map_or(0, |_| self.layout.segments);
        let taken = (0..attempts).any(|_| {
            let taken = self.is_taken(n);
            self.settle();
            self.pass(TRIED_AGAIN);
            taken
        });
        assert!(taken, "nothing is put any more");
    }

    /// Something happens to the medium, or to the way there.
    pub fn trouble(&mut self) {
        match self.scenario.trouble {
            Trouble::Nothing | Trouble::Kills | Trouble::Power => {}
            Trouble::Damage(_) => self.damage(),
            Trouble::Failing(Failing::Some) => {
                self.disk.set_faults(Faults { read: 50, write: 30, no_space: 20, ..Faults::default() });
            }
            Trouble::Failing(Failing::Reads) => self.crash(),
            Trouble::Failing(Failing::Place | Failing::ReadsAndPlace) => {
                let start = self.layout.start(self.rng.random_range(0..self.layout.segments));
                let length = u64::from(self.layout.segment) * self.rng.random_range(1..5);
                self.disk.fail_writes_in(start..(start + length).min(self.layout.size()));
            }
            Trouble::Failing(Failing::Header) => {
                let copies = [ROOTS[0]..ROOTS[1], ROOTS[1]..LEDGERS[0], ROOTS[0]..LEDGERS[0], FENCE];
                let ledgers = [LEDGERS[0]..LEDGERS[1], LEDGERS[1]..DATA_START, LEDGERS[0]..DATA_START];
                let all = [&copies[..], &ledgers].concat();
                let which = self.rng.random_range(0..=all.len());
                self.disk.fail_writes_in(all.get(which).cloned().unwrap_or(0..0));
            }
            Trouble::Failing(_) if self.outage.is_some() => self.end_outage(),
            Trouble::Failing(_) => self.begin_outage(),
        }
    }

    /// A bit flips.
    fn damage(&mut self) {
        if self.scenario.trouble != Trouble::Damage(super::faults::Damage::Bits) {
            return;
        }
        let size = self.layout.size() as usize;
        match self.rng.random_range(0..6) {
            0..3 => self.disk.flip_bit(DATA_START as usize..size),
            3 => {
                let copy = self.rng.random_range(0..2);
                let at = LEDGERS[copy] as usize;
                self.disk.flip_bit(at..at + BLOCK);
                self.ledgers.spoilt[copy] = true;
            }
            4 => {
                let at = ROOTS[self.rng.random_range(0..2)] as usize;
                self.disk.flip_bit(at..at + 256);
            }
            // One superblock, and the fence.
            _ => {
                let at = [BLOCK, FENCE.start as usize][self.rng.random_range(0..2)];
                self.disk.flip_bit(at..at + 64);
            }
        }
    }
}
