//! What recipes ask of a medium, counted on its way.

use super::distances::Distances;
use super::{Busy, Dir, Failed, File, Medium, Track, Traffic};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Counts the calls by kind on their way to a medium.
pub struct Counted<'a> {
    medium: &'a mut dyn Medium,
    pub operations: Operations,
    /// Between reads, where they are wanted.
    pub distances: Option<Distances>,
}

/// How many calls of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Operations(pub BTreeMap<Cow<'static, str>, u64>);

impl<'a> Counted<'a> {
    pub fn new(medium: &'a mut dyn Medium) -> Counted<'a> {
        Counted { medium, operations: Operations::default(), distances: None }
    }

    fn count(&mut self, kind: &'static str) -> &mut dyn Medium {
        *self.operations.0.entry(Cow::Borrowed(kind)).or_default() += 1;
        self.medium
    }
}

impl Medium for Counted<'_> {
    fn mkdir(&mut self, parent: Dir, name: u64) -> Result<Dir, Failed> {
        self.count("mkdir").mkdir(parent, name)
    }

    fn create(&mut self, dir: Dir, name: u64) -> Result<File, Failed> {
        self.count("create").create(dir, name)
    }

    fn open(&mut self, dir: Dir, name: u64) -> Result<File, Failed> {
        self.count("open").open(dir, name)
    }

    fn close(&mut self, file: File) -> Result<(), Failed> {
        self.count("close").close(file)
    }

    fn unlink(&mut self, dir: Dir, name: u64) -> Result<(), Failed> {
        self.count("unlink").unlink(dir, name)
    }

    fn rename(&mut self, dir: Dir, from: u64, to: u64) -> Result<(), Failed> {
        self.count("rename").rename(dir, from, to)
    }

    fn write(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.count("write").write(file, at, bytes)
    }

    fn read(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        if let Some(distances) = &mut self.distances {
            distances.note(file, at, into.len() as u64);
        }
        self.count("read").read(file, at, into)
    }

    fn read_direct(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        if let Some(distances) = &mut self.distances {
            distances.note(file, at, into.len() as u64);
        }
        self.count("read").read_direct(file, at, into)
    }

    fn exists(&mut self, dir: Dir, name: u64) -> Result<bool, Failed> {
        self.count("stat").exists(dir, name)
    }

    fn store(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.medium.store(file, at, bytes)
    }

    fn load(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        self.medium.load(file, at, into)
    }

    fn sync(&mut self) -> Result<(), Failed> {
        self.count("fsync").sync()
    }

    fn sync_behind(&mut self) -> Result<(), Failed> {
        self.count("fsync").sync_behind()
    }

    fn seconds(&self) -> f64 {
        self.medium.seconds()
    }

    fn traffic(&self) -> Traffic {
        self.medium.traffic()
    }

    fn busy(&self) -> Option<Busy> {
        self.medium.busy()
    }

    fn settle(&mut self) -> Result<(), Failed> {
        self.medium.settle()
    }

    fn counted_by(&self) -> Option<&'static str> {
        self.medium.counted_by()
    }

    fn programmed(&self) -> Option<u64> {
        self.medium.programmed()
    }

    fn follow_head(&mut self) {
        self.medium.follow_head();
    }

    fn head_track(&self) -> Option<&Track> {
        self.medium.head_track()
    }
}
