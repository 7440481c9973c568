//! A file for each object, in directories of many kinds: SIMPLE, SQUID and MULTIPLE-DIRS (USITS99; WebCoSM 3.2), SQUIDL
//! (Maltzahn 4.2.4.1).

use super::{Layout, Stored, check, unknown};
use crate::medium::{Dir, Failed, Medium, ROOT};
use crate::object::Object;
use std::collections::HashMap;
use trace::random::mix;

/// Which directory an object's file goes to.
#[derive(Clone, Copy, Debug)]
pub enum Directories {
    /// All in one.
    Single,
    /// Two levels of so many, one after the other.
    RoundRobin(u64, u64),
    /// One for each server.
    PerServer,
    /// Two levels of so many, by a hash of the server's name.
    HashedServer(u64, u64),
}

/// Bytes that a program reads and writes at a time; an object larger than that takes several calls.
#[derive(Clone, Copy, Debug)]
pub struct CallSizes {
    pub read: usize,
    pub write: usize,
}

impl CallSizes {
    /// As WebCoSM's and Maltzahn's generators do.
    pub const WHOLE: CallSizes = CallSizes { read: usize::MAX, write: usize::MAX };
}

pub struct Files {
    directories: Directories,
    pieces: CallSizes,
    levels: Vec<Dir>,
    servers: HashMap<u64, Dir>,
    stored: HashMap<u64, (Dir, u64)>,
    made: u64,
    buffer: Vec<u8>,
}

impl Files {
    pub fn new(directories: Directories, pieces: CallSizes) -> Files {
        Files {
            directories,
            pieces,
            levels: Vec::new(),
            servers: HashMap::new(),
            stored: HashMap::new(),
            made: 0,
            buffer: Vec::new(),
        }
    }

    fn dir_of(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Dir, Failed> {
        let count = self.levels.len() as u64;
        match self.directories {
            Directories::Single => Ok(ROOT),
            Directories::RoundRobin(..) => Ok(self.levels[(self.made % count) as usize]),
            Directories::HashedServer(..) => Ok(self.levels[(mix(object.server) % count) as usize]),
            Directories::PerServer => match self.servers.get(&object.server) {
                Some(dir) => Ok(*dir),
                None => {
                    let dir = medium.mkdir(ROOT, object.server)?;
                    self.servers.insert(object.server, dir);
                    Ok(dir)
                }
            },
        }
    }
}

impl Layout for Files {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        if let Directories::RoundRobin(first, second) | Directories::HashedServer(first, second) =
            self.directories
        {
            for upper in 0..first {
                let dir = medium.mkdir(ROOT, upper)?;
                for lower in 0..second {
                    self.levels.push(medium.mkdir(dir, lower)?);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        let dir = self.dir_of(medium, object)?;
        let name = self.made;
        self.made += 1;
        write_file(medium, (dir, name), object, self.pieces, &mut self.buffer)?;
        self.stored.insert(object.id, (dir, name));
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let place = *self.stored.get(&object.id).ok_or_else(|| unknown(object))?;
        read_file(medium, place, object, self.pieces, &mut self.buffer)
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let (dir, name) = self.stored.remove(&object.id).ok_or_else(|| unknown(object))?;
        medium.unlink(dir, name)
    }
}

/// Makes a file of an object.
pub fn write_file(
    medium: &mut dyn Medium,
    (dir, name): (Dir, u64),
    object: &Object,
    pieces: CallSizes,
    buffer: &mut Vec<u8>,
) -> Result<(), Failed> {
    let file = medium.create(dir, name)?;
    buffer.resize(object.size as usize, 0);
    object.fill(0, buffer);
    let mut at = 0;
    for piece in buffer.chunks(pieces.write.min(buffer.len())) {
        medium.write(file, at, piece)?;
        at += piece.len() as u64;
    }
    medium.close(file)
}

/// Opens, reads and checks the file of an object.
pub fn read_file(
    medium: &mut dyn Medium,
    (dir, name): (Dir, u64),
    object: &Object,
    pieces: CallSizes,
    buffer: &mut Vec<u8>,
) -> Result<(), Failed> {
    let file = medium.open(dir, name)?;
    buffer.resize(object.size as usize, 0);
    let (mut at, most) = (0, pieces.read.min(buffer.len()));
    for piece in buffer.chunks_mut(most) {
        medium.read(file, at, piece)?;
        at += piece.len() as u64;
    }
    check(object, 0, buffer)?;
    medium.close(file)
}
