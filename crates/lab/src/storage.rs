//! A cache on disk: who stays, and where it lies.
//!
//! Most of the papers' policies are told what to store and what to delete by a replacement policy for a number of bytes
//! (`Told`), LRU unless it is said otherwise; others replace by themselves.

use crate::content::Object;
use crate::input::Reading;
use crate::layout::{FreeSpace, Layout, Stored};
use crate::medium::{Failed, Medium};
use crate::pipeline::Level;
use crate::replacement::Policy;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
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

/// Figures by name.
pub type Notes = BTreeMap<Cow<'static, str>, f64>;

/// Requests that passed because this storage takes no object as large.
pub const TOO_LARGE: &str = "passed_as_too_large";
/// 1 where a storage goes by servers and the trace has none.
pub const ONE_SERVER: &str = "all_of_one_server";

/// Notes without which a row is misread, and what they say.
pub const CAVEATS: [(&str, &str); 2] = [
    (TOO_LARGE, "requests that memory did not answer passed, as their objects are larger than a segment"),
    (ONE_SERVER, "it places objects by their server, and the trace tells none: all lie as if of one"),
];

pub trait Storage {
    /// Before all else, for those that know the future: `open` reads the trace from its beginning.
    fn foresee(&mut self, _open: &dyn Fn() -> Result<Reading, String>) -> Result<(), Failed> {
        Ok(())
    }

    /// Once, before the first request; what it costs is not measured.
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed>;

    /// Reads what is asked for and checks it, or stores it.
    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed>;

    /// Memory answered a request: for those that count uses.
    fn used(&mut self, _access: &Access) {}

    /// At every midnight of the trace, for those that put things in order then.
    fn night(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }

    /// Does what still waits.
    fn finish(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }

    /// Free pieces of its space, if it manages any: how many, and bytes in all.
    fn free_pieces(&self) -> Option<(u64, u64)> {
        None
    }

    /// Measuring begins now, for those that count.
    fn begin_notes(&mut self) {}

    /// What else a paper tells of it.
    fn notes(&self) -> Notes {
        Notes::default()
    }

    /// Where they lie, if it says so.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }
}

/// A layout that is told what to do by a replacement policy.
pub struct Told {
    level: Level,
    layout: Box<dyn Layout>,
    /// What found no room.
    without: HashSet<u64>,
    gone: Vec<Object>,
    /// Objects that the layout was told to delete.
    deletions: u64,
}

impl Told {
    /// Bytes of the cache.
    pub fn new(bytes: u64, policy: Policy, layout: Box<dyn Layout>) -> Told {
        Told {
            level: Level::new(bytes, policy),
            layout,
            without: HashSet::new(),
            gone: Vec::new(),
            deletions: 0,
        }
    }
}

impl Told {
    /// Writes an object; others go for it as long as the layout is full and the policy says who.
    fn store(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Outcome, Failed> {
        loop {
            let stored = self.layout.write(medium, object)?;
            if stored == Stored::Yes {
                return Ok(Outcome::Stored);
            }
            let mut next = None;
            if stored == Stored::No || !self.level.evict(|gone| next = Some(gone)) {
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
