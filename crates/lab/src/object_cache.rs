//! A cache of objects by their own numbers: what a replacement policy, which knows small numbers, holds of a trace.

use crate::object::{Object, Version};
use policy::collections::lru::Quick;
use policy::replacement::{Left, Policy, Replacement};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use trace::Access;

/// Objects up to a number of bytes, by a replacement policy.
pub struct ObjectCache {
    replacement: Box<dyn Replacement>,
    /// By the objects' own numbers: those that the policy knows them by, small ones.
    numbers: Numbers,
    held: Vec<Held>,
    free: Vec<u32>,
}

/// A version that is in the cache, or only remembered by the policy.
#[derive(Clone, Copy)]
struct Held {
    version: Version,
    here: bool,
    /// Since it came.
    uses: u32,
}

type Numbers = HashMap<u64, u32, BuildHasherDefault<Quick>>;

impl ObjectCache {
    pub fn new(most: u64, policy: Policy) -> ObjectCache {
        let (numbers, replacement) = (HashMap::default(), (policy.new)(most));
        ObjectCache { replacement, numbers, held: Vec::new(), free: Vec::new() }
    }

    /// What is asked for, if it is here and unchanged.
    pub fn get(&mut self, access: &Access) -> Option<Object> {
        let number = *self.numbers.get(&access.object)?;
        let held = &mut self.held[number as usize];
        let hit = self.replacement.get(number) && held.version.answers(access);
        held.uses += u32::from(hit);
        hit.then_some(held.version.object)
    }

    /// Whether a version of an object is here; that is no use.
    pub fn has(&self, id: u64) -> bool {
        self.numbers.get(&id).is_some_and(|number| self.held[*number as usize].here)
    }

    /// Hits on an object since it came; 0 of one that is not here.
    pub fn uses(&self, id: u64) -> u32 {
        self.numbers.get(&id).map_or(0, |number| self.held[*number as usize].uses)
    }

    pub fn remove(&mut self, id: u64) -> Option<Object> {
        let number = self.numbers.get(&id).copied().filter(|number| self.held[*number as usize].here)?;
        self.replacement.remove(number);
        self.numbers.remove(&id);
        self.free.push(number);
        Some(self.held[number as usize].version.object)
    }

    /// What would go next goes, and `gone` gets it. False when nothing is here, or the policy cannot say.
    pub fn evict(&mut self, mut gone: impl FnMut(Object)) -> bool {
        let ObjectCache { replacement, numbers, held, free } = self;
        replacement.evict(&mut leaving(numbers, held, free, |version, _| gone(version.object)))
    }

    /// Takes what was asked for and is not here; `gone` gets what goes for it. What is too large for the cache, or of less worth
    /// to its policy than all that is here, is not taken.
    pub fn insert(&mut self, access: &Access, mut gone: impl FnMut(Object)) -> Option<Object> {
        self.insert_version(Version::of(access), |version, _| gone(version.object))
    }

    /// The same of a version; `gone` gets what goes for it and how often it was used here.
    pub fn insert_version(&mut self, version: Version, mut gone: impl FnMut(Version, u32)) -> Option<Object> {
        let new = Held { version, here: true, uses: 0 };
        let object = new.version.object;
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
        let ObjectCache { replacement, numbers, held, free } = self;
        // What comes and goes at once was never here: nobody is told.
        let told = |left: Version, uses| {
            if left.object.id != object.id {
                gone(left, uses);
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
    mut gone: impl FnMut(Version, u32),
) -> impl FnMut(Left) {
    move |left| match left {
        Left::Cache(number) => {
            held[number as usize].here = false;
            gone(held[number as usize].version, held[number as usize].uses);
        }
        Left::Memory(number) => {
            numbers.remove(&held[number as usize].version.object.id);
            free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::replacement;
    use trace::random::{Random, zipf};

    /// Whatever the policy: what is here was inserted last and has not gone, and never are there more bytes than may be.
    #[test]
    fn a_cache_holds_what_has_not_gone() {
        for policy in replacement::ALL.into_iter().filter(|policy| !policy.foresees) {
            let (mut cache, mut random) = (ObjectCache::new(1000, policy), Random::of(3));
            let mut here: HashMap<u64, Object> = HashMap::new();
            let mut hits = 0;
            for nth in 0..20_000 {
                // Every other one is asked for once.
                let object = if nth % 2 == 0 { 1000 + nth } else { zipf(random.unit(), 100, 0.9) };
                let size = 1 + random.below(60);
                let access = Access { object, size, modified: 1 + size / 50, ..Access::default() };
                let found = cache.get(&access);
                assert!(found.is_none_or(|found| here.get(&object) == Some(&found)), "{}", policy.name);
                if found.is_some() {
                    hits += 1;
                    continue;
                }
                assert_eq!(cache.remove(object), here.remove(&object), "{}", policy.name);
                let new = cache.insert(&access, |gone| assert_eq!(here.remove(&gone.id), Some(gone)));
                here.extend(new.map(|new| (object, new)));
                assert!(here.values().map(|object| object.size).sum::<u64>() <= 1000);
            }
            assert!(hits > 1_000, "{}: {hits}", policy.name);
            assert!(cache.held.len() < 2_000, "numbers are used again: {}", cache.held.len());
        }
    }
}
