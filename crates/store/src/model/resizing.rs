//! A start gives the cache another size, now and then, and does not always come to its end.

use super::faults::{Failing, Trouble};
use super::starts::options;
use super::world::{SEGMENT, World};
use crate::Options;
use crate::disk::sim::Faults;
use crate::format::era::MOST;
use crate::format::{BLOCK, DATA_START, Layout};
use crate::opening::layout_of;
use crate::reads::Reads;
use crate::resize::Resizing;
use rand::RngExt;
use std::path::Path;

/// Why another size is not there.
const KEEPS: &str = "it keeps its size";

/// What changes of the size may have cost, besides what they cut off.
#[derive(Default)]
pub struct Resized {
    /// The oldest segment: a write of the removals over it stopped half-way.
    oldest: bool,
    /// Anything that was there, but for its being removed.
    anything: bool,
}

impl Resized {
    /// Whether what lay in this segment is there all the same. `newest`: the youngest one that the start found.
    pub fn keeps(&self, layout: &Layout, seq: u64, newest: u64) -> bool {
        let is_torn = self.oldest && layout.overwritten_by(seq) <= newest + 1;
        !self.anything && !layout.is_cut(seq) && !is_torn
    }
}

impl World {
    /// Before a start. `power`: whether the power may go meanwhile, for that undoes nothing of what was before.
    pub fn resize(&mut self, power: bool) -> Resized {
        let mut resized = Resized::default();
        if !self.rng.random_bool(self.scenario.resizes) {
            return resized;
        }
        self.let_it_work();
        let attempts = if self.scenario.is_calm { 0 } else { self.rng.random_range(0..3) };
        for _ in 0..attempts {
            let size = self.some_size();
            let goes_on = self.layout_there().is_shrinking();
            self.make_it_fail();
            let done = self.start_with(size);
            self.let_it_work();
            // It may have gone on without what it could not read.
            resized.anything |= goes_on;
            if done.is_err() {
                self.tally.cut_short += 1;
                self.ledgers.torn = true;
                resized.oldest = true;
            }
            if power && self.rng.random_bool(0.3) {
                resized.anything |= self.disk.is_unsynced();
                self.disk.lose_power();
            }
        }
        // Whatever the disk says is written may be elsewhere.
        if self.is_being_damaged() && !self.scenario.is_calm {
            self.disk.set_faults(self.scenario.faults());
            let size = self.some_size();
            let done = self.start_with(size);
            self.let_it_work();
            if done.is_ok() {
                return resized;
            }
        }
        let size = self.some_size();
        if let Err(why) = self.start_with(size) {
            assert_eq!(why, KEEPS);
            assert_eq!(self.layout_there().eras.list().len(), MOST, "it was not changed too often");
            self.tally.refused += 1;
            self.start_with(None).expect("a start without a size");
        }
        resized
    }

    /// That of the beginning, any other, or none: it stays as it is.
    fn some_size(&mut self) -> Option<u64> {
        let sizes = self.scenario.sizes.clone();
        match self.rng.random_range(0..10) {
            0 => None,
            1..4 => Some(self.scenario.segments.max(sizes.start)),
            _ => Some(self.rng.random_range(sizes)),
        }
    }

    fn make_it_fail(&mut self) {
        if self.rng.random_bool(0.5) {
            let calls = if self.rng.random() { 0..12 } else { 0..120 };
            self.disk.interrupt_after(Some(self.rng.random_range(calls)));
        }
        if self.rng.random_bool(0.5) {
            return;
        }
        self.disk.set_faults(self.scenario.faults_of_a_change());
        let unread = self.unreadable();
        self.disk.fail_reads_in(unread);
        let size = self.disk.size();
        let segment = u64::from(SEGMENT);
        let unwritten = match self.scenario.trouble {
            Trouble::Failing(Failing::Place | Failing::ReadsAndPlace) => {
                let start = self.rng.random_range(DATA_START..size);
                start..start + segment * self.rng.random_range(1..5)
            }
            Trouble::Failing(Failing::Header) => {
                let start = self.rng.random_range(0..DATA_START / segment) * segment;
                [start..start + segment, 0..BLOCK as u64, BLOCK as u64..segment][self.rng.random_range(0..3)]
                    .clone()
            }
            _ => 0..0,
        };
        self.disk.fail_writes_in(unwritten);
    }

    fn let_it_work(&self) {
        self.disk.interrupt_after(None);
        self.disk.set_faults(Faults::default());
        self.disk.fail_reads_in(0..0);
        self.disk.fail_writes_in(0..0);
    }

    fn found(&self) -> Result<Layout, String> {
        let found = layout_of(Path::new("the simulated disk"), &*self.disk, self.disk.size())?;
        Ok(found.expect("a cache"))
    }

    fn layout_there(&self) -> Layout {
        self.found().expect("all can be read")
    }

    /// A start as far as it changes the size, if it is told one.
    fn start_with(&mut self, segments: Option<u64>) -> Result<(), String> {
        let size = segments.map(|segments| DATA_START + segments * u64::from(SEGMENT));
        let options = Options { size, ..options(&self.scenario, 0) };
        let reads = Reads::in_order(&*self.disk, &self.pool, || self.disk.time());
        let stretch = |segments| self.scenario.stretch(segments);
        let resizing = Resizing { disk: &*self.disk, reads: &reads, options: &options, stretch: &stretch };
        let layout = self.found().and_then(|there| resizing.of_size(there)).inspect_err(|why| {
            assert!(why.lines().count() == 1, "{why}");
        })?;
        assert!(!layout.is_shrinking());
        self.tally.resized += u64::from(layout != self.layout);
        self.layout = layout;
        match segments.is_none_or(|segments| segments == layout.segments) {
            true => Ok(()),
            false => Err(KEEPS.into()),
        }
    }
}
