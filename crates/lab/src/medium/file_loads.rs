//! What is done with many small files, the same on a real directory and on a modelled filesystem: what a device's speed alone does
//! not tell.

use super::{Dir, Failed, Medium, ROOT};
use trace::random::Random;

/// Something done with each of some files.
pub struct FileLoad {
    pub name: &'static str,
    pub about: &'static str,
    /// Files at random, or in the order in which they were made; or the first again and again.
    which: Which,
    turn: fn(&mut dyn Medium, Dir, u64) -> Result<(), Failed>,
}

#[derive(Clone, Copy)]
enum Which {
    Each,
    Any,
    First,
}

/// Bytes of a file.
pub const FILE: u64 = 8 << 10;
/// Two levels of directories, the files one after the other in each of the second.
const LEVELS: (u64, u64) = (16, 64);

/// In the order in which they are done: the first makes the files, the last removes them.
pub const FILE_LOADS: [FileLoad; 5] = [
    FileLoad {
        name: "create-8k",
        about: "files of 8 KiB made: create, write, close",
        which: Which::Each,
        turn: |medium, dir, name| {
            let file = medium.create(dir, name)?;
            medium.write(file, 0, &[7; FILE as usize])?;
            medium.close(file)
        },
    },
    FileLoad { name: "read-file-8k", about: "any of them: open, read, close", which: Which::Any, turn: read },
    FileLoad {
        name: "reread-8k",
        about: "one of them, in memory: the same",
        which: Which::First,
        turn: read,
    },
    FileLoad {
        name: "overwrite-8k",
        about: "any of them: open, write, close",
        which: Which::Any,
        turn: |medium, dir, name| {
            let file = medium.open(dir, name)?;
            medium.write(file, 0, &[8; FILE as usize])?;
            medium.close(file)
        },
    },
    FileLoad {
        name: "unlink-8k",
        about: "all of them removed",
        which: Which::Each,
        turn: |medium, dir, name| medium.unlink(dir, name),
    },
];

fn read(medium: &mut dyn Medium, dir: Dir, name: u64) -> Result<(), Failed> {
    let file = medium.open(dir, name)?;
    medium.read(file, 0, &mut [0; FILE as usize])?;
    medium.close(file)
}

/// So many files a second under each load, until what was written lies on the device. All should be several times the memory for files.
pub fn run(medium: &mut dyn Medium, files: u64) -> Result<[f64; FILE_LOADS.len()], Failed> {
    let mut dirs = Vec::new();
    for upper in 0..LEVELS.0 {
        let dir = medium.mkdir(ROOT, upper)?;
        for lower in 0..LEVELS.1 {
            dirs.push(medium.mkdir(dir, lower)?);
        }
    }
    medium.sync()?;
    let (mut random, mut speeds) = (Random::of(1), [0.0; FILE_LOADS.len()]);
    for (load, speed) in FILE_LOADS.iter().zip(&mut speeds) {
        let began = medium.seconds();
        for nth in 0..files {
            let name = match load.which {
                Which::Each => nth,
                Which::Any => random.below(files),
                Which::First => 0,
            };
            (load.turn)(medium, dirs[(name % dirs.len() as u64) as usize], name)?;
        }
        medium.sync()?;
        *speed = files as f64 / (medium.seconds() - began);
    }
    Ok(speeds)
}
