//! What recipes store on: files in directories, by the calls that a program makes.
//!
//! A medium is a real directory (`real`) or a modelled filesystem (`filesystem`) on a modelled device (`device`: `drive`, `flash`).
//! Either way the bytes are written and come back; what differs is where the time comes from. `table` lists them.

pub mod block_replay;
mod counted;
pub mod device;
pub mod distances;
pub mod drive;
pub mod file_loads;
pub mod filesystem;
pub mod flash;
pub mod hbench;
pub mod measured;
pub mod queue;
pub mod real;
pub(crate) mod sectors;
pub mod table;

pub use counted::{Counted, Operations};
pub use queue::{Busy, Track, Traffic};

/// A directory of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dir(pub u32);

/// A file of a medium, open or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct File(pub u32);

/// The directory that is always there.
pub const ROOT: Dir = Dir(0);

/// Why a medium could not: one line.
pub type Failed = String;

/// Files by number in directories by number; names are numbers, too, and media spell them.
pub trait Medium: Send {
    fn mkdir(&mut self, parent: Dir, name: u64) -> Result<Dir, Failed>;

    /// Makes an empty file and opens it.
    fn create(&mut self, dir: Dir, name: u64) -> Result<File, Failed>;

    fn open(&mut self, dir: Dir, name: u64) -> Result<File, Failed>;

    fn close(&mut self, file: File) -> Result<(), Failed>;

    fn unlink(&mut self, dir: Dir, name: u64) -> Result<(), Failed>;

    /// Gives a file another name in its directory. A file that had it is gone.
    fn rename(&mut self, dir: Dir, from: u64, to: u64) -> Result<(), Failed>;

    /// Writes at a byte of an open file, which grows if need be.
    fn write(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed>;

    /// Fills `into` from a byte of an open file; what was never written is zeros.
    fn read(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed>;

    /// The same past the memory of the filesystem, whole blocks (`O_DIRECT`), where the medium can.
    fn read_direct(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        self.read(file, at, into)
    }

    /// Whether there is a file of this name.
    fn exists(&mut self, dir: Dir, name: u64) -> Result<bool, Failed>;

    /// Writes to a file that is mapped into memory, within its size: no call, but the page must be there.
    fn store(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed>;

    /// Reads from a file that is mapped into memory.
    fn load(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed>;

    /// Until all that was written lies on the device.
    fn sync(&mut self) -> Result<(), Failed>;

    /// The same by another thread, which this one does not wait for, where the medium can: the device is as busy.
    fn sync_behind(&mut self) -> Result<(), Failed> {
        self.sync()
    }

    /// Seconds since the medium was made.
    fn seconds(&self) -> f64;

    /// What the device did since.
    fn traffic(&self) -> Traffic;

    /// How long the device was at it; nothing where nobody knows.
    fn busy(&self) -> Option<Busy> {
        None
    }

    /// At the end: what a filesystem of today still holds back is written, so that it is measured, too. Those of the papers
    /// let it be.
    fn settle(&mut self) -> Result<(), Failed> {
        Ok(())
    }

    /// Who counted `traffic`; nothing where nobody could.
    fn counted_by(&self) -> Option<&'static str> {
        Some("model")
    }

    /// Bytes that flash took, with those that the drive moved by itself; nothing where that is not known.
    fn programmed(&self) -> Option<u64> {
        None
    }

    /// Notes from now on where the disk's head is, if it has one that is known.
    fn follow_head(&mut self) {}

    /// What was noted.
    fn head_track(&self) -> Option<&Track> {
        None
    }
}
