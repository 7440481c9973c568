//! The papers' two caches (WebCoSM 3.1): what misses a cache in memory goes to one on disk.

use crate::content::Object;
use crate::lru::Lru;
use crate::medium::{Failed, Medium};
use crate::storage::{Outcome, Storage};
use serde::{Deserialize, Serialize};
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
}

impl Outcomes {
    pub fn hit_ratio(&self) -> f64 {
        (self.memory_hits + self.disk_hits) as f64 / self.gets.max(1) as f64
    }

    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes.max(1) as f64
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
        Pipeline { memory: Level::new(memory), outcomes: Outcomes::default() }
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
            return Ok(());
        }
        self.memory.remove(access.object);
        match storage.get(medium, access)? {
            Outcome::Hit => {
                outcomes.disk_hits += 1;
                outcomes.hit_bytes += access.size;
            }
            Outcome::Stored => outcomes.stored += 1,
            Outcome::Passed => outcomes.passed += 1,
        }
        self.memory.insert(access, |_| {});
        Ok(())
    }
}

/// Objects up to a number of bytes; what was used least lately goes.
pub struct Level {
    objects: Lru<u64, Held>,
    bytes: u64,
    most: u64,
}

#[derive(Clone, Copy)]
struct Held {
    object: Object,
    modified: u64,
}

impl Level {
    pub fn new(most: u64) -> Level {
        Level { objects: Lru::default(), bytes: 0, most }
    }

    /// What is asked for, if it is here and unchanged.
    pub fn get(&mut self, access: &Access) -> Option<Object> {
        let held = self.objects.get(&access.object)?;
        let before = (held.modified, held.object.size);
        is_unchanged(before, (access.modified, access.size)).then_some(held.object)
    }

    pub fn remove(&mut self, id: u64) -> Option<Object> {
        let held = self.objects.remove(&id)?;
        self.bytes -= held.object.size;
        Some(held.object)
    }

    /// Takes what was asked for and is not here; `gone` gets what goes for it. What is too large for the level is not taken.
    pub fn insert(&mut self, access: &Access, mut gone: impl FnMut(Object)) -> Option<Object> {
        let object = Object {
            id: access.object,
            server: access.server,
            version: (access.modified ^ access.size) as u32,
            size: access.size,
        };
        if object.size > self.most {
            return None;
        }
        while self.bytes + object.size > self.most {
            let Some((_, oldest)) = self.objects.pop_oldest() else { break };
            self.bytes -= oldest.object.size;
            gone(oldest.object);
        }
        self.bytes += object.size;
        self.objects.insert(object.id, Held { object, modified: access.modified });
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::files::{Directories, Files, Pieces};
    use crate::medium::drive::ST15150W;
    use crate::medium::ufs::{ULTRA_1, Ufs};
    use crate::storage::Told;

    #[test]
    fn memory_then_disk_then_the_origin() {
        let mut pipeline = Pipeline::new(250);
        let layout = Box::new(Files::new(Directories::Single, Pieces::WHOLE));
        let (mut told, mut ufs) = (Told::new(1000, layout), Ufs::new(ST15150W, ULTRA_1));
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
}
