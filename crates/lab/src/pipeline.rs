//! The papers' two caches (WebCoSM 3.1): what misses a cache in memory goes to one on disk.

use crate::content::Object;
use crate::lru::Quick;
use crate::medium::{Failed, Medium};
use crate::replacement::{LRU, Left, Policy, Replacement};
use crate::storage::{Outcome, Storage};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use trace::Access;
use trace::statistics::is_unchanged;

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    pub gets: u64,
    pub bytes: u64,
    pub memory_hits: u64,
    pub disk_hits: u64,
    pub hit_bytes: u64,
    /// Fetched and stored on disk; fetched and not stored.
    pub stored: u64,
    pub passed: u64,
    /// Of disk hits and of what was stored: what goes to and from the medium, as the papers count it.
    #[serde(default)]
    pub moved_bytes: u64,
}

impl Outcomes {
    pub fn hit_ratio(&self) -> f64 {
        (self.memory_hits + self.disk_hits) as f64 / self.gets.max(1) as f64
    }

    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Requests and bytes that origins answered.
    pub fn fetched(&self) -> (u64, u64) {
        let hits = self.memory_hits + self.disk_hits;
        (self.gets.saturating_sub(hits), self.bytes.saturating_sub(self.hit_bytes))
    }
}

/// A cache in memory before a storage policy.
pub struct Pipeline {
    memory: Level,
    pub outcomes: Outcomes,
}

impl Pipeline {
    /// Bytes of the cache in memory.
    pub fn new(memory: u64) -> Pipeline {
        Pipeline { memory: Level::new(memory, LRU), outcomes: Outcomes::default() }
    }

    pub fn get(
        &mut self,
        storage: &mut dyn Storage,
        medium: &mut dyn Medium,
        access: &Access,
    ) -> Result<(), Failed> {
        let outcomes = &mut self.outcomes;
        outcomes.gets += 1;
        outcomes.bytes += access.size;
        if !access.is_cacheable() || access.size == 0 {
            outcomes.passed += 1;
            return Ok(());
        }
        if self.memory.get(access).is_some() {
            outcomes.memory_hits += 1;
            outcomes.hit_bytes += access.size;
            storage.used(access);
            return Ok(());
        }
        self.memory.remove(access.object);
        match storage.get(medium, access)? {
            Outcome::Hit => {
                outcomes.disk_hits += 1;
                outcomes.hit_bytes += access.size;
                outcomes.moved_bytes += access.size;
            }
            Outcome::Stored => {
                outcomes.stored += 1;
                outcomes.moved_bytes += access.size;
            }
            Outcome::Passed => outcomes.passed += 1,
        }
        self.memory.insert(access, |_| {});
        Ok(())
    }
}

/// Objects up to a number of bytes, by a replacement policy.
pub struct Level {
    replacement: Box<dyn Replacement>,
    /// By the objects' own numbers: those that the policy knows them by, small ones.
    numbers: Numbers,
    held: Vec<Held>,
    free: Vec<u32>,
}

type Numbers = HashMap<u64, u32, BuildHasherDefault<Quick>>;

/// A stored version.
#[derive(Clone, Copy)]
pub struct Held {
    pub object: Object,
    modified: u64,
    /// Or only remembered by the policy.
    here: bool,
}

impl Held {
    pub fn of(access: &Access) -> Held {
        Held { object: Object::of(access), modified: access.modified, here: true }
    }

    /// Whether what is asked for has not changed since.
    pub fn answers(&self, access: &Access) -> bool {
        is_unchanged((self.modified, self.object.size), (access.modified, access.size))
    }
}

impl Level {
    pub fn new(most: u64, policy: Policy) -> Level {
        let (numbers, replacement) = (HashMap::default(), (policy.new)(most));
        Level { replacement, numbers, held: Vec::new(), free: Vec::new() }
    }

    /// What is asked for, if it is here and unchanged.
    pub fn get(&mut self, access: &Access) -> Option<Object> {
        let number = *self.numbers.get(&access.object)?;
        let held = self.held[number as usize];
        let hit = self.replacement.get(number) && held.answers(access);
        hit.then_some(held.object)
    }

    pub fn remove(&mut self, id: u64) -> Option<Object> {
        let number = self.numbers.get(&id).copied().filter(|number| self.held[*number as usize].here)?;
        self.replacement.remove(number);
        self.numbers.remove(&id);
        self.free.push(number);
        Some(self.held[number as usize].object)
    }

    /// What would go next goes, and `gone` gets it. False when nothing is here, or the policy cannot say.
    pub fn evict(&mut self, gone: impl FnMut(Object)) -> bool {
        let Level { replacement, numbers, held, free } = self;
        replacement.evict(&mut leaving(numbers, held, free, gone))
    }

    /// Takes what was asked for and is not here; `gone` gets what goes for it. What is too large for the level, or of less worth
    /// to its policy than all that is here, is not taken.
    pub fn insert(&mut self, access: &Access, mut gone: impl FnMut(Object)) -> Option<Object> {
        let new = Held::of(access);
        let object = new.object;
        if object.size > self.replacement.largest() {
            return None;
        }
        let number = self.numbers.get(&object.id).copied().or_else(|| self.free.pop());
        let number = match number {
            Some(number) => {
                self.held[number as usize] = new;
                number
            }
            None => {
                self.held.push(new);
                self.held.len() as u32 - 1
            }
        };
        self.numbers.insert(object.id, number);
        let Level { replacement, numbers, held, free } = self;
        // What comes and goes at once was never here: nobody is told.
        let told = |left: Object| {
            if left.id != object.id {
                gone(left);
            }
        };
        replacement.insert(number, object.size, &mut leaving(numbers, held, free, told));
        self.held[number as usize].here.then_some(object)
    }
}

/// Keeps account of who leaves.
fn leaving(
    numbers: &mut Numbers,
    held: &mut [Held],
    free: &mut Vec<u32>,
    mut gone: impl FnMut(Object),
) -> impl FnMut(Left) {
    move |left| match left {
        Left::Cache(number) => {
            held[number as usize].here = false;
            gone(held[number as usize].object);
        }
        Left::Memory(number) => {
            numbers.remove(&held[number as usize].object.id);
            free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::files::{Directories, Files, Pieces};
    use crate::medium::drive::ST15150W;
    use crate::medium::ufs::{ULTRA_1, Ufs};
    use crate::replacement;
    use crate::storage::Told;
    use trace::chance::{Chance, zipf};

    #[test]
    fn memory_then_disk_then_the_origin() {
        let mut pipeline = Pipeline::new(250);
        let layout = Box::new(Files::new(Directories::Single, Pieces::WHOLE));
        let (mut told, mut ufs) = (Told::new(1000, LRU, layout), Ufs::new(ST15150W, ULTRA_1));
        let mut ask = |object, size, modified| {
            let access = Access { object, size, modified, ..Access::default() };
            let before = pipeline.outcomes;
            pipeline.get(&mut told, &mut ufs, &access).unwrap();
            let after = pipeline.outcomes;
            match (after.memory_hits - before.memory_hits, after.disk_hits - before.disk_hits) {
                (1, _) => 'm',
                (_, 1) => 'd',
                _ if after.stored > before.stored => 's',
                _ => 'p',
            }
        };
        let asked = [(1, 1), (1, 1), (2, 1), (3, 1), (1, 1), (3, 2), (4, 1), (5, 1)];
        let found: String = asked.into_iter().map(|(object, modified)| ask(object, 100, modified)).collect();
        assert_eq!(found, "smssdsss", "a new version is no hit");
        let found: String = (6..14).map(|object| ask(object, 100, 1)).collect();
        assert_eq!(found, "ssssssss");
        assert_eq!([ask(2, 100, 1), ask(10, 100, 1)], ['s', 'd'], "used least lately, it went");
        assert_eq!(ask(99, 1001, 1), 'p', "too large");
    }
    /// Whatever the policy: what is here was inserted last and has not gone, and never are there more bytes than may be.
    #[test]
    fn a_level_holds_what_has_not_gone() {
        for policy in replacement::ALL.into_iter().filter(|policy| !policy.foresees) {
            let (mut level, mut chance) = (Level::new(1000, policy), Chance::of(3));
            let mut here: HashMap<u64, Object> = HashMap::new();
            let mut hits = 0;
            for nth in 0..20_000 {
                // Every other one is asked for once.
                let object = if nth % 2 == 0 { 1000 + nth } else { zipf(chance.unit(), 100, 0.9) };
                let size = 1 + chance.below(60);
                let access = Access { object, size, modified: 1 + size / 50, ..Access::default() };
                let found = level.get(&access);
                assert!(found.is_none_or(|found| here.get(&object) == Some(&found)), "{}", policy.name);
                if found.is_some() {
                    hits += 1;
                    continue;
                }
                assert_eq!(level.remove(object), here.remove(&object), "{}", policy.name);
                let new = level.insert(&access, |gone| assert_eq!(here.remove(&gone.id), Some(gone)));
                here.extend(new.map(|new| (object, new)));
                assert!(here.values().map(|object| object.size).sum::<u64>() <= 1000);
            }
            assert!(hits > 1_000, "{}: {hits}", policy.name);
            assert!(level.held.len() < 2_000, "numbers are used again: {}", level.held.len());
        }
    }
}
