//! CERN (Maltzahn 2.1.2, 4.2.3.1): a directory for each of the URLs' directories, in one for their server; all state in files.
//! Each holds its objects and a file that says what is there; who adds one locks it by a file, too. Names of directories come from the
//! system's cache of names.

use super::files::{CallSizes, read_file, write_file};
use super::{Layout, Stored, unknown};
use crate::medium::{Dir, Failed, Medium, ROOT};
use crate::object::Object;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Names beside those of the objects.
const META: u64 = u64::MAX - 1;
const LOCK: u64 = u64::MAX - 2;
/// Bytes that the meta file has for an object: its name, when it expires, its type.
const ENTRY: u64 = 96;

#[derive(Default)]
pub struct Cern {
    /// Each server's, in the root; each URL's, in its server's.
    servers: HashMap<u64, Dir>,
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
            Some(meta) => read_file(medium, (self.dir, META), meta, CallSizes::WHOLE, buffer),
            None => Ok(()),
        }
    }

    /// Writes to the meta file what it says now, over what it said: it is updated (Maltzahn and others, USENIX 1999, 2.3.1).
    /// `version` tells it from all others. It is made with the first object of the directory, and never becomes shorter.
    fn tell(&mut self, medium: &mut dyn Medium, version: u64, buffer: &mut Vec<u8>) -> Result<(), Failed> {
        let held = self.meta.as_ref().map(|meta| meta.size);
        let size = held.unwrap_or(0).max(ENTRY * self.entries);
        let meta = Object { id: META, version: version as u32, size, ..Object::default() };
        match held {
            None => write_file(medium, (self.dir, META), &meta, CallSizes::WHOLE, buffer)?,
            Some(_) => {
                let file = medium.open(self.dir, META)?;
                buffer.resize(size as usize, 0);
                meta.fill(0, buffer);
                medium.write(file, 0, buffer)?;
                medium.close(file)?;
            }
        }
        self.meta = Some(meta);
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
                let server = match self.servers.entry(object.server) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(medium.mkdir(ROOT, object.server)?),
                };
                let dir = medium.mkdir(server, object.directory)?;
                new.insert(Leaf { dir, entries: 0, meta: None })
            }
        };
        leaf.look(medium, &mut buffer)?;
        let lock = medium.create(leaf.dir, LOCK)?;
        medium.close(lock)?;
        write_file(medium, (leaf.dir, name), object, CallSizes::WHOLE, &mut buffer)?;
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
        read_file(medium, (leaf.dir, name), object, CallSizes::WHOLE, &mut buffer)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Counted;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    /// What is there of a directory is updated in its file, which is not made again.
    #[test]
    fn the_meta_file_is_made_once() {
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        let (mut medium, mut cern) = (Counted::new(&mut ufs), Cern::default());
        let object = |id| Object { id, size: 100, ..Object::default() };
        for id in 0..5 {
            cern.write(&mut medium, &object(id)).unwrap();
        }
        cern.delete(&mut medium, &object(2)).unwrap();
        (0..5).filter(|id| *id != 2).for_each(|id| cern.read(&mut medium, &object(id)).unwrap());
        let calls = |kind: &str| medium.operations.0[kind];
        assert_eq!(
            (calls("create"), calls("unlink")),
            (5 + 5 + 1, 5 + 1),
            "objects, locks, and one meta file"
        );
    }
}
