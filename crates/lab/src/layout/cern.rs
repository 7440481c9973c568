//! CERN (Maltzahn 2.1.2, 4.2.1.1): a directory for each of the URLs' directories, all state in files. Each holds its objects
//! and a file that says what is there; who adds one locks it by a file, too. Names of directories come from the
//! system's cache of names.

use super::files::{Pieces, read_file, write_file};
use super::{Layout, Stored, unknown};
use crate::content::Object;
use crate::medium::{Dir, Failed, Medium, ROOT};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Names beside those of the objects.
const META: u64 = u64::MAX - 1;
const LOCK: u64 = u64::MAX - 2;
/// Bytes that the meta file has for an object: its name, when it expires, its type.
const ENTRY: u64 = 96;

#[derive(Default)]
pub struct Cern {
    directories: HashMap<u64, Leaf>,
    stored: HashMap<u64, u64>,
    made: u64,
    buffer: Vec<u8>,
}

/// A URL's directory.
struct Leaf {
    dir: Dir,
    entries: u64,
    /// What the meta file holds.
    meta: Option<Object>,
}

impl Leaf {
    /// What every process does first: nobody may be adding, and the meta file says what is there.
    fn look(&self, medium: &mut dyn Medium, buffer: &mut Vec<u8>) -> Result<(), Failed> {
        if medium.exists(self.dir, LOCK)? {
            return Err("a lock was left behind".into());
        }
        match &self.meta {
            Some(meta) => read_file(medium, (self.dir, META), meta, Pieces::WHOLE, buffer),
            None => Ok(()),
        }
    }

    /// Writes the meta file anew; `version` tells it from all others.
    fn tell(&mut self, medium: &mut dyn Medium, version: u64, buffer: &mut Vec<u8>) -> Result<(), Failed> {
        if self.meta.take().is_some() {
            medium.unlink(self.dir, META)?;
        }
        if self.entries > 0 {
            let meta =
                Object { id: META, version: version as u32, size: ENTRY * self.entries, ..Object::default() };
            write_file(medium, (self.dir, META), &meta, Pieces::WHOLE, buffer)?;
            self.meta = Some(meta);
        }
        Ok(())
    }
}

impl Cern {
    fn leaf(&mut self, object: &Object) -> Result<&mut Leaf, Failed> {
        self.directories.get_mut(&object.directory).ok_or_else(|| unknown(object))
    }
}

impl Layout for Cern {
    fn prepare(&mut self, _: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        self.made += 1;
        let (name, mut buffer) = (self.made, std::mem::take(&mut self.buffer));
        let leaf = match self.directories.entry(object.directory) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let dir = medium.mkdir(ROOT, object.directory)?;
                new.insert(Leaf { dir, entries: 0, meta: None })
            }
        };
        leaf.look(medium, &mut buffer)?;
        let lock = medium.create(leaf.dir, LOCK)?;
        medium.close(lock)?;
        write_file(medium, (leaf.dir, name), object, Pieces::WHOLE, &mut buffer)?;
        leaf.entries += 1;
        leaf.tell(medium, name, &mut buffer)?;
        medium.unlink(leaf.dir, LOCK)?;
        self.stored.insert(object.id, name);
        self.buffer = buffer;
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let name = *self.stored.get(&object.id).ok_or_else(|| unknown(object))?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let leaf = self.leaf(object)?;
        leaf.look(medium, &mut buffer)?;
        read_file(medium, (leaf.dir, name), object, Pieces::WHOLE, &mut buffer)?;
        self.buffer = buffer;
        Ok(())
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let name = self.stored.remove(&object.id).ok_or_else(|| unknown(object))?;
        self.made += 1;
        let (version, mut buffer) = (self.made, std::mem::take(&mut self.buffer));
        let leaf = self.leaf(object)?;
        medium.unlink(leaf.dir, name)?;
        leaf.entries -= 1;
        leaf.tell(medium, version, &mut buffer)?;
        self.buffer = buffer;
        Ok(())
    }
}
