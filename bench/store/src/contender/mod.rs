//! Who is measured: one small trait, a file for each, and a table.

mod cosm;
mod files;
mod foyer;
mod log;

use crate::drive::{Ask, Tally};
use crate::hollow::Hollow;
use std::path::{Path, PathBuf};

/// Where a contender lives and what it is given: the same for all.
pub struct Place<'a> {
    pub folder: &'a Path,
    /// Bytes of disk.
    pub capacity: u64,
    pub objects: u64,
    /// Bytes of a body.
    pub body: usize,
    /// Bodies that no sample asks for are left out.
    pub hollow: Option<Hollow>,
    /// It was there before.
    pub again: bool,
}

pub trait Contender {
    /// Stores the object; waits while it is behind.
    fn put(&mut self, number: u64, body: &[u8]) -> Result<(), String>;
    /// Returns when all that was put is in the file, so that a kill takes nothing.
    fn flush(&mut self) -> Result<(), String>;
    /// A closed loop of gets. The bodies are checked.
    fn gets(&mut self, ask: &Ask) -> Result<Tally, String>;
    /// Returns when what a start left for later is done.
    fn settle(&mut self) {}
    /// The one file, where there is one.
    fn file(&self) -> Option<PathBuf> {
        None
    }
}

pub type Opened = Result<Box<dyn Contender>, String>;

pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub open: fn(&Place) -> Opened,
    /// Bytes of disk that an object of so many takes.
    pub takes: fn(u64) -> u64,
    /// Most objects for which it is run.
    pub most: u64,
}

pub const ALL: [Spec; 5] = [
    Spec {
        name: "cosm",
        about: "the store of this repository: one file, direct I/O, packets of 1 MiB, io_uring, everything admitted (a plain log, so that \
                all do the same), one thread that gets; key and checksum verified at each get",
        open: cosm::open,
        takes: |body| (body + 64 + 24).next_multiple_of(64),
        most: u64::MAX,
    },
    Spec {
        name: "foyer",
        about: "foyer 0.22, hybrid cache: direct I/O in files of 16 MiB (its own advice on a filesystem), psync engine (its default), \
                buffers of 16 MiB, FIFO, no compression, memory tier 1 MiB, entries put straight to the disk; two threads that get",
        open: |place| foyer::open(place, false),
        takes: |body| (body + 96).next_multiple_of(4096),
        most: 20_000_000,
    },
    Spec {
        name: "foyer-uring",
        about: "the same with its io_uring engine (one thread, depth 64), which polls and so takes a whole processor, also when idle",
        open: |place| foyer::open(place, true),
        takes: |body| (body + 96).next_multiple_of(4096),
        most: 2_000_000,
    },
    Spec {
        name: "log",
        about: "a plain cyclic log: one file, direct I/O, writes of 1 MiB by one thread, std's HashMap from 64 bits of hash to place, the \
                hashes of each MiB in memory for eviction, a thread with pread for each get at once; key verified, no checksum; a start \
                reads all of the log",
        open: log::open,
        takes: |body| (body + 32 + 24).next_multiple_of(64),
        most: 20_000_000,
    },
    Spec {
        name: "files",
        about: "a file an object, named by its hash, in 16×256 directories; create, write, close, and the oldest unlinked; open, read, \
                close by a thread for each get at once; through the page cache; syncfs is the flush; no index, nothing verified",
        open: files::open,
        takes: |body| body.next_multiple_of(4096) + 256,
        most: 1_500_000,
    },
];

pub fn named(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.name == name)
}
