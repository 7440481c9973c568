//! The papers' two caches (WebCoSM 3.1): what misses a cache in memory goes to one on disk.

use crate::medium::{Failed, Medium};
use crate::object::Version;
use crate::object_cache::ObjectCache;
use crate::storage::{Outcome, Storage};
use policy::replacement::Policy;
use serde::{Deserialize, Serialize};
use trace::Access;

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
    memory: ObjectCache,
    /// What left memory for a request.
    left: Vec<(Version, u32)>,
    pub outcomes: Outcomes,
}

impl Pipeline {
    /// Bytes of the cache in memory.
    pub fn new(memory: u64, policy: Policy) -> Pipeline {
        let memory = ObjectCache::new(memory, policy);
        Pipeline { memory, left: Vec::new(), outcomes: Outcomes::default() }
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
            return storage.used(medium, access, self.memory.uses(access.object));
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
        let Pipeline { memory, left, .. } = self;
        let version = Version::of(access);
        if memory.insert_version(version, |version, uses| left.push((version, uses))).is_none() {
            left.push((version, 0));
        }
        storage.neighbours(&mut |version| {
            let is_new = !memory.has(version.object.id);
            if is_new && memory.insert_version(version, |gone, uses| left.push((gone, uses))).is_none() {
                left.push((version, 0));
            }
        });
        for (version, uses) in left.drain(..) {
            storage.evicted(medium, &version, uses)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::files::{CallSizes, Directories, Files};
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};
    use crate::storage::Managed;
    use policy::replacement::LRU;

    #[test]
    fn memory_then_disk_then_the_origin() {
        let mut pipeline = Pipeline::new(250, LRU);
        let layout = Box::new(Files::new(Directories::Single, CallSizes::WHOLE));
        let (mut storage, mut ufs) = (Managed::new(1000, LRU, layout), FileSystem::new(ST15150W, ULTRA_1));
        let mut ask = |object, size, modified| {
            let access = Access { object, size, modified, ..Access::default() };
            let before = pipeline.outcomes;
            pipeline.get(&mut storage, &mut ufs, &access).unwrap();
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

    /// Told what leaves memory, and gives a neighbour with each hit.
    #[derive(Default)]
    struct Listens {
        here: Vec<u64>,
        left: Vec<(u64, u32)>,
        used: Vec<(u64, u32)>,
        beside: Option<u64>,
    }

    impl Storage for Listens {
        fn prepare(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
            Ok(())
        }

        fn get(&mut self, _medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
            let hit = self.here.contains(&access.object);
            self.beside = hit.then_some(1000);
            self.here.push(access.object);
            Ok(if hit { Outcome::Hit } else { Outcome::Stored })
        }

        fn evicted(&mut self, _: &mut dyn Medium, version: &Version, uses: u32) -> Result<(), Failed> {
            self.left.push((version.object.id, uses));
            Ok(())
        }

        fn used(&mut self, _: &mut dyn Medium, access: &Access, uses: u32) -> Result<(), Failed> {
            self.used.push((access.object, uses));
            Ok(())
        }

        fn neighbours(&mut self, take: &mut dyn FnMut(Version)) {
            let object = self.beside.take();
            object
                .into_iter()
                .for_each(|object| take(Version::of(&Access { object, size: 100, ..Access::default() })));
        }
    }

    #[test]
    fn a_storage_is_told_what_leaves_memory_and_how_often_it_was_used() {
        let (mut pipeline, mut ufs) = (Pipeline::new(250, LRU), FileSystem::new(ST15150W, ULTRA_1));
        let mut storage = Listens::default();
        for (object, size) in
            [(1, 100), (1, 100), (1, 100), (2, 100), (3, 100), (4, 300), (1, 100), (1000, 100)]
        {
            let access = Access { object, size, modified: 0, ..Access::default() };
            pipeline.get(&mut storage, &mut ufs, &access).unwrap();
        }
        assert_eq!(storage.left, [(1, 2), (4, 0), (2, 0), (3, 0)], "the fourth is larger than memory");
        assert_eq!(storage.used, [(1, 1), (1, 2), (1000, 1)]);
        assert_eq!(pipeline.outcomes.memory_hits, 3, "two of the first, one of the neighbour");
    }
}
