//! A layout, and a replacement policy that tells it what to store and what to delete.

use super::{Outcome, Storage};
use crate::layout::{FreeSpace, Layout, Stored};
use crate::medium::{Failed, Medium};
use crate::notes::Notes;
use crate::object::Object;
use crate::object_cache::ObjectCache;
use policy::replacement::Policy;
use std::collections::HashSet;
use trace::Access;

pub struct Managed {
    cache: ObjectCache,
    layout: Box<dyn Layout>,
    /// What found no room.
    without: HashSet<u64>,
    gone: Vec<Object>,
    /// Objects that the layout was told to delete.
    deletions: u64,
}

impl Managed {
    /// Bytes of the cache.
    pub fn new(bytes: u64, policy: Policy, layout: Box<dyn Layout>) -> Managed {
        Managed {
            cache: ObjectCache::new(bytes, policy),
            layout,
            without: HashSet::new(),
            gone: Vec::new(),
            deletions: 0,
        }
    }
}

impl Managed {
    /// Writes an object; others go for it as long as the layout is full and the policy says who.
    fn store(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Outcome, Failed> {
        loop {
            let stored = self.layout.write(medium, object)?;
            if stored == Stored::Yes {
                return Ok(Outcome::Stored);
            }
            let mut next = None;
            if stored == Stored::No || !self.cache.evict(|gone| next = Some(gone)) {
                self.without.insert(object.id);
                return Ok(Outcome::Passed);
            }
            match next {
                Some(gone) if gone.id == object.id => return Ok(Outcome::Passed),
                Some(gone) => self.delete(medium, &gone)?,
                None => {}
            }
        }
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        if self.without.remove(&object.id) {
            return Ok(());
        }
        self.deletions += 1;
        self.layout.delete(medium, object)
    }
}

impl Storage for Managed {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.layout.prepare(medium)
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        if let Some(object) = self.cache.get(access) {
            if self.without.contains(&object.id) {
                return Ok(Outcome::Passed);
            }
            self.layout.read(medium, &object)?;
            return Ok(Outcome::Hit);
        }
        let mut gone = std::mem::take(&mut self.gone);
        gone.extend(self.cache.remove(access.object));
        let new = self.cache.insert(access, |object| gone.push(object));
        for object in gone.drain(..) {
            self.delete(medium, &object)?;
        }
        self.gone = gone;
        let Some(object) = new else { return Ok(Outcome::Passed) };
        self.store(medium, &object)
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.layout.finish(medium)
    }

    fn free_pieces(&self) -> Option<(u64, u64)> {
        self.layout.free_pieces()
    }

    fn begin_notes(&mut self) {
        self.deletions = 0;
        self.layout.begin_notes();
    }

    fn notes(&self) -> Notes {
        let mut notes = self.layout.notes();
        notes.insert("deletions".into(), self.deletions as f64);
        notes
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.layout.free_space()
    }
}
