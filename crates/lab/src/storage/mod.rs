//! A cache on disk: who stays, and where it lies.
//!
//! In most of the papers' policies a replacement policy decides and a layout places (`Managed`); others replace by themselves,
//! as the caches that people run do, and this one.

pub mod cosm;
pub mod cyclic_log;
pub mod log;
mod managed;
pub mod mapped;
pub mod nginx;
mod record;
pub mod rock;

pub use managed::Managed;

use crate::input::Reading;
use crate::layout::FreeSpace;
use crate::medium::{Failed, Medium};
use crate::notes::Notes;
use crate::object::Version;
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
    /// Before all else, for those that know the future: `open` reads the trace from its beginning.
    fn foresee(&mut self, _open: &dyn Fn() -> Result<Reading, String>) -> Result<(), Failed> {
        Ok(())
    }

    /// Once, before the first request; what it costs is not measured.
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed>;

    /// Reads what is asked for and checks it, or stores it.
    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed>;

    /// Bytes that it takes of the cache in memory.
    fn memory(&self) -> u64 {
        0
    }

    /// Memory answered a request, the so-manieth for it since it came: for those that count uses.
    fn used(&mut self, _medium: &mut dyn Medium, _access: &Access, _uses: u32) -> Result<(), Failed> {
        Ok(())
    }

    /// A version left memory, where it was used so often since it came: for those that write it then. Whoever fetched it or read
    /// it from the disk put it there.
    fn evicted(&mut self, _medium: &mut dyn Medium, _version: &Version, _uses: u32) -> Result<(), Failed> {
        Ok(())
    }

    /// Takes what was read beside the last hit: it may enter memory, as if nobody had asked for it.
    fn neighbours(&mut self, _take: &mut dyn FnMut(Version)) {}

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
