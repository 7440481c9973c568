//! The model of the store: random histories of all that is asked of it, on a simulated disk, in virtual time, with all that fails.
//! A seed repeats a history to the byte.
//!
//! What must hold whatever fails: a key answers with the value put last, or not at all; every byte of it is right. A get that was
//! under way when its key changed may answer with what the key had since it began. After a crash a key may answer
//! with an earlier value, but none older than the last time everything was written and synced; after a loss of
//! power with unsynced writes or damage to the medium, with any earlier value of its own. Where nothing fails, no
//! record is ever found damaged; where the process is closed, or killed and nothing else fails, nothing is lost that had been
//! written. After a close the power may go as well.
//!
//! Where the process is killed and writes at most fail without a trace, what comes back is no older than what the engine
//! said was in the file: what was removed is not there a flush interval and the writes later, and the log ends no earlier than it said. Where all writes fail for a
//! while, nothing is lost that was taken before, and when they work again all goes on. Where one place takes no writes for
//! good, what was to lie there is given up. Where nothing fails any more, what is put is taken.
//!
//! Small values are put whole; large ones come in pieces, by a writer, and their pieces lie in spans. A large value that is found
//! may lack a span, but never has another's bytes. Of a body that breaks off nothing is found, or the part of it that was kept. Whoever
//! goes on with a part and gives up takes nothing away; a piece that is put back is there.
//!
//! With a write budget what is let in keeps to it: in any time to the budget of that time and a quarter of it all, since a start to less. What
//! is removed, and all that a start needs, is written all the same.
//!
//! What the scrub has gone through is what the index says of it, from then on: what was damaged there is not found any more. Where nothing
//! fails, it finds nothing.
//!
//! Nobody waits for anything but the disk: a reader for its own read, whoever asks for a part of the index until that is loaded. No
//! put sweeps more than a few segments. The index never has more entries than it may, also while it is loaded. Where nothing fails,
//! all that the index points to is there, and no older than a lap.
//!
//! The ledger is the one set last; after a crash the last one whose writing had completed, or a newer one, whatever became of one of
//! its copies; after damage to both perhaps none: always one that was set, whole.
//!
//! A start that cannot read some segments may find earlier values, or none. A later one may find what that one did not; but what
//! was put or removed meanwhile, found or not, and said to be in the file stays so. One that cannot read either copy of the ledger
//! says so.
//!
//! A start may give the cache another size, larger or smaller, and again and again until the store refuses that. What lies behind the end of
//! a smaller one is gone: what is said above of what a key may answer is true of all sizes together. What stays is there. A start that is
//! interrupted meanwhile, or that fails, leaves a cache that the next one makes of any size.
//!
//! In the end nothing fails any more. Then what is put is taken, and what is written answers after a kill, whatever failed before. Where
//! reads had never failed and nothing was damaged, all that the index had, of every kind, is there again; after a close too, and where
//! the process is killed what was in the file.
//!
//! `faults` says what a history is like, `traffic` what is asked, `starts` how a life ends and begins,
//! `resizing` how a start changes the size, `past` what a key may answer.

mod driver;
mod faults;
mod past;
mod readers;
mod resizing;
mod starts;
mod traffic;
mod values;
mod world;

use crate::Key;
use crate::disk::Disk;
use crate::format::record::{self, Kind};
use crate::index::Entry;
use crate::reads::Reads;
use crate::recovery::read_table;
use driver::{Run, number, run};
use faults::{Failing, Trouble};
use rand::RngExt;
use std::collections::HashSet;
use std::time::Duration;
use world::{Tally, World};

/// Seeds that once failed. Each says what it said only to the model that found it: what it found has a test of its own.
const FOUND: [u64; 7] = [7016, 531_981_509, 20_214_024, 60_101_266, 71_350_928, 72_655_610, 74_469_381];

pub(crate) fn key(n: u64) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

fn history(seed: u64) -> Tally {
    let mut world = World::new(seed);
    // What a digest forgets shows only in a longer life.
    let steps = if world.scenario.is_sure() { 200..1_200 } else { 50..400 };
    for _ in 0..world.rng.random_range(steps) {
        let time = world.rng.random_range(0..100);
        world.pass(time);
        world.act();
        world.check();
    }
    world.calm();
    if world.scenario.scrub.is_some() {
        world.scrub_all();
    }
    world.survey();
    (0..world.scenario.keys).for_each(|n| world.get(n));
    world.kill_in_the_calm();
    world.count_life();
    world.tally
}

impl World {
    /// Something happens.
    fn act(&mut self) {
        // A skewed choice: some keys are popular enough to be put again.
        let keys = self.scenario.keys;
        let n = self.rng.random_range(0..keys).min(self.rng.random_range(0..keys));
        let trouble = self.scenario.trouble;
        match self.rng.random_range(0..1_000) {
            0..340 => self.put_some(n),
            340..420 => self.push(),
            420..430 => self.read_along(),
            430..460 => self.remove(n),
            460..550 => self.get(n),
            550..610 => self.begin_reading(n),
            610..680 => self.go_on_reading(),
            680..760 => self.use_in_memory(n),
            760..950 => _ = self.step(),
            950..977 => self.tick(),
            977..985 => self.set_ledger(),
            985..988 => self.shared.engine().digest(),
            988..991 => {
                let digest = self.rng.random_bool(0.5);
                self.end_outage();
                self.barrier(digest);
                // At once, so that few keys were touched since.
                if self.scenario.only_kills() && self.rng.random_bool(0.5) {
                    self.crash();
                }
            }
            991..994 if trouble == Trouble::Nothing => self.close(),
            991..994
                if self.scenario.fails(Failing::AllTorn)
                    && (self.outage.is_some() || self.shared.engine().is_failing()) =>
            {
                self.end_outage();
            }
            991..994 => self.crash(),
            994 if trouble != Trouble::Nothing => self.close(),
            995..997 if matches!(trouble, Trouble::Nothing | Trouble::Kills) => self.wait(),
            995..997 => self.trouble(),
            997 if self.scenario.is_sure() => self.remove_what_went_and_kill(),
            997..999 => self.trouble(),
            _ => self.get(n),
        }
    }

    fn put_some(&mut self, n: u64) {
        let swept = self.shared.engine().counters().swept;
        let many = if self.scenario.many { self.rng.random_range(1..40) } else { 1 };
        (n..self.scenario.keys.min(n + many)).for_each(|n| self.put(n));
        let kills = self.scenario.is_sure() && self.scenario.trouble != Trouble::Nothing;
        if kills && self.shared.engine().counters().swept != swept && self.rng.random_bool(0.05) {
            self.remove_what_went_and_kill();
        }
    }

    /// What these segments list, as the index has it. What lay there before, of which the table was lost, stays in the index until it
    /// is asked for.
    fn listed(&self, seqs: HashSet<u64>) -> HashSet<(usize, u64, u64)> {
        let (layout, index) = (&self.layout, &self.shared.index);
        let disk = &*self.disk;
        let reads = Reads::in_order(disk, &self.pool, || disk.time());
        let of = |seq: u64| {
            let number = layout.number(seq);
            let table = read_table(&reads, layout, number).ok().flatten().filter(|table| table.seq == seq);
            let entries = table.map_or(Vec::new(), |table| table.entries).into_iter();
            entries.map(move |entry| {
                let place = layout.place(number, entry.offset as usize * layout.unit as usize);
                (index.part_of(entry.hash), index.print_of(entry.hash), place)
            })
        };
        seqs.into_iter().flat_map(of).collect()
    }

    /// What the index points to at the end.
    fn survey(&mut self) {
        let mut engine = self.shared.engine();
        let (newest, swept, counters) = (engine.newest(), engine.swept(), engine.counters());
        let (gone_through, scrubbed) = (engine.scrub_for_tests().gone_through.clone(), engine.scrubbed());
        drop(engine);
        let index = &self.shared.index;
        let of = |part| index.entries(part).map(move |entry| (part, entry));
        let there: Vec<_> = (0..index.parts()).flat_map(of).collect();
        assert_eq!(there.len(), index.len(), "the index has miscounted");
        let verified = self.listed(gone_through);
        let (mut heads, mut spans) = (HashSet::new(), Vec::new());
        let sound = self.scenario.trouble == Trouble::Nothing;
        let found = [scrubbed.damaged, scrubbed.unreadable, scrubbed.tables];
        assert!(found == [0; 3] || !sound, "the scrub found damage where nothing was: {found:?}");
        self.tally.scrubbed += scrubbed.bytes;
        self.tally.spoilt += scrubbed.damaged;
        for (part, Entry { print, slot }) in there {
            let at = self.layout.offset(slot.place);
            let length =
                (slot.length as usize).min(self.layout.segment as usize - self.layout.within(slot.place));
            let seq = self.layout.seq_of(self.layout.segment_of(slot.place), newest);
            let younger = seq.is_some_and(|seq| swept.is_none_or(|swept| seq > swept));
            assert!(younger || !sound, "the index has what was swept");
            self.tally.live += u64::from(slot.length);
            let mut bytes = self.pool.take(length);
            if self.disk.read(at, &mut bytes, length).is_err() {
                continue;
            }
            let found = record::parse(self.layout.identity, &bytes[..length]);
            let verified = verified.contains(&(part, print, slot.place));
            assert!(found.is_some() || !sound && !verified, "the index points to nothing");
            let Some(found) = found else { continue };
            let key = Key::new(bytes[found.key.clone()].to_vec());
            let there = self.shared.index.find(self.shared.hash(&key)).map(|slot| slot.place);
            let is_own = there == Some(slot.place) && seq.is_some_and(|seq| found.seq == seq as u32);
            assert!(is_own || !sound && !verified, "the index points to another key's record");
            match found.about.kind {
                Kind::Head => _ = heads.insert(found.about.id),
                Kind::Span => spans.push((found.about.id, slot.length)),
                _ => {}
            }
        }
        let sealed = counters.segments * u64::from(self.layout.segment);
        heads.extend(self.arrivals.iter().map(|arrival| arrival.writer.spans().id));
        let dead = spans.iter().filter(|(id, _)| !heads.contains(id));
        self.tally.dead += dead.map(|(_, length)| u64::from(*length)).sum::<u64>();
        self.tally.size += self.layout.size();
        self.tally.put += counters.put_bytes;
        self.tally.sealed += sealed;
        self.tally.millis += self.now;
    }
}

#[test]
fn whatever_fails_the_store_keeps_what_it_promises() {
    let (base, histories) = (number("COSM_SEED").unwrap_or(1), number("COSM_HISTORIES").unwrap_or(20_000));
    println!("seeds from {base} on (COSM_SEED and COSM_HISTORIES change them)");
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
    let seeds = base..=base + histories - 1;
    let done = run(&Run { first: &FOUND, seeds, until: None, threads, tells: false });
    println!("{}", done.line());
    if let Some(seed) = done.failed {
        panic!("history {seed} failed, as told above: cargo xtask sim --seed {seed}");
    }
    let Tally { histories, hits, gets, put, sealed, saved, unaffordable, spoilt, .. } = done.tally;
    let Tally { resized, cut_short, refused, .. } = done.tally;
    assert!(put * 5 > sealed * 4, "{put} bytes took {sealed} of the log");
    assert!(hits * 3 > gets, "the store forgets too much: {hits} hits of {gets}");
    assert!(unaffordable > histories, "{unaffordable} objects were turned away for a budget");
    assert!(spoilt * 100 > histories, "the scrub found {spoilt} damaged records");
    let changes = [resized * 4, cut_short * 30, refused * 300];
    assert!(changes.iter().all(|share| *share > histories), "few other sizes: {changes:?}");
    assert!(saved * 50 > hits, "groups have saved {saved} reads of {hits}");
}

#[test]
fn a_seed_repeats_a_history() {
    for seed in 1..=40 {
        assert_eq!(history(seed), history(seed), "history {seed}");
    }
}

/// What `cargo xtask sim` runs.
#[test]
#[ignore = "runs for as long as it is told"]
fn histories_for_a_while() {
    let seconds = number("COSM_SIM_SECONDS").unwrap_or(60);
    let base = number("COSM_SEED").unwrap_or_else(|| u64::from(rand::rng().random::<u32>()));
    let threads = number("COSM_SIM_THREADS").unwrap_or(1).max(1);
    println!("seeds from {base} on, {threads} thread(s)");
    let (seeds, until) = match seconds {
        0 => (base..=base, None),
        _ => (base..=u64::MAX, Some(Duration::from_secs(seconds))),
    };
    let done = run(&Run { first: &[], seeds, until, threads, tells: true });
    println!("{}", done.line());
    match done.failed {
        Some(seed) => panic!("history {seed} failed, as told above: cargo xtask sim --seed {seed}"),
        None => println!("none failed in {} s", done.took.as_secs()),
    }
}
