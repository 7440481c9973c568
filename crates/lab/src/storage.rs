//! A cache on disk: who stays, and where it lies.
//!
//! Most of the papers' policies are told what to store and what to delete by an LRU cache of a number of bytes (`Told`);
//! others replace by themselves.

use crate::content::Object;
use crate::layout::{FreeSpace, Layout, Stored};
use crate::medium::{Failed, Medium};
use crate::pipeline::Level;
use std::collections::HashSet;
use trace::Access;

/// What became of a request that memory did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    /// Fetched and stored.
    Stored,
    /// Fetched and not stored.
    Passed,
}

pub trait Storage {
    /// Once, before the first request; what it costs is not measured.
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed>;

    /// Reads what is asked for and checks it, or stores it.
    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed>;

    /// Does what still waits.
    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed>;

    /// Free pieces of its space, if it manages any: how many, and bytes in all.
    fn free_pieces(&self) -> Option<(u64, u64)>;

    /// Where they lie, if it says so.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }
}

/// A layout that is told what to do by an LRU cache.
pub struct Told {
    level: Level,
    layout: Box<dyn Layout>,
    /// What found no room.
    without: HashSet<u64>,
    gone: Vec<Object>,
}

impl Told {
    /// Bytes of the cache.
    pub fn new(bytes: u64, layout: Box<dyn Layout>) -> Told {
        Told { level: Level::new(bytes), layout, without: HashSet::new(), gone: Vec::new() }
    }
}

impl Storage for Told {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.layout.prepare(medium)
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        if let Some(object) = self.level.get(access) {
            if self.without.contains(&object.id) {
                return Ok(Outcome::Passed);
            }
            self.layout.read(medium, &object)?;
            return Ok(Outcome::Hit);
        }
        let mut gone = std::mem::take(&mut self.gone);
        gone.extend(self.level.remove(access.object));
        let new = self.level.insert(access, |object| gone.push(object));
        for object in gone.drain(..) {
            if !self.without.remove(&object.id) {
                self.layout.delete(medium, &object)?;
            }
        }
        self.gone = gone;
        let Some(object) = new else { return Ok(Outcome::Passed) };
        match self.layout.write(medium, &object)? {
            Stored::Yes => Ok(Outcome::Stored),
            Stored::No => {
                self.without.insert(object.id);
                Ok(Outcome::Passed)
            }
        }
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.layout.finish(medium)
    }

    fn free_pieces(&self) -> Option<(u64, u64)> {
        self.layout.free_pieces()
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.layout.free_space()
    }
}
