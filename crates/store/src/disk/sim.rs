//! A medium in memory that fails on command: for tests and simulation. What was written since the last sync may be
//! lost, torn in the middle of a block, or kept when the power goes; reads and writes may fail; bits may flip.

use super::Disk;
use crate::buffer::Buffer;
use rand::{RngExt, rngs::StdRng};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The medium keeps whole sectors, whatever happens.
const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Chances, of 1,000, that a read fails, a write fails, a write finds no space.
    pub read: u32,
    pub write: u32,
    pub no_space: u32,
}

pub struct SimDisk {
    state: Mutex<State>,
}

struct State {
    bytes: Vec<u8>,
    /// Sectors as they were before writes that no sync has confirmed: (offset, old bytes), oldest first.
    undo: Vec<(usize, Vec<u8>)>,
    faults: Faults,
    /// Where every write fails.
    bad: Range<u64>,
    /// Where every read fails.
    unreadable: Range<u64>,
    rng: StdRng,
}

impl SimDisk {
    pub fn new(size: usize, rng: StdRng) -> SimDisk {
        let (bytes, undo, faults) = (vec![0; size], Vec::new(), Faults::default());
        let state = State { bytes, undo, faults, bad: 0..0, unreadable: 0..0, rng };
        SimDisk { state: Mutex::new(state) }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Writes that touch these bytes fail, and change nothing. An empty range ends that.
    pub fn fail_writes_in(&self, bytes: Range<u64>) {
        self.state().bad = bytes;
    }

    /// Reads that touch these bytes fail. An empty range ends that.
    pub fn fail_reads_in(&self, bytes: Range<u64>) {
        self.state().unreadable = bytes;
    }

    /// Power loss: of the sectors written since the last sync each keeps its new bytes or gets its old ones back.
    pub fn lose_power(&self) {
        let state = &mut *self.state();
        for (at, old) in state.undo.drain(..).rev() {
            if state.rng.random_bool(0.5) {
                state.bytes[at..at + old.len()].copy_from_slice(&old);
            }
        }
    }

    /// Flips one bit somewhere in `bytes`.
    pub fn flip_bit(&self, bytes: Range<usize>) {
        let state = &mut *self.state();
        let bit = state.rng.random_range(bytes.start * 8..bytes.end * 8);
        state.bytes[bit / 8] ^= 1 << (bit % 8);
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let state = &mut *self.state();
        if state.rng.random_ratio(state.faults.read, 1_000) {
            return Err(io::Error::other("simulated read error"));
        }
        if offset < state.unreadable.end && offset + length as u64 > state.unreadable.start {
            return Err(io::Error::other("simulated bad place"));
        }
        let at = offset as usize;
        let bytes = state.bytes.get(at..at + length).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer[..length].copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.state();
        let at = offset as usize;
        assert!(at + bytes.len() <= state.bytes.len(), "a write past the end of the cache");
        if state.rng.random_ratio(state.faults.no_space, 1_000) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if offset < state.bad.end && offset + bytes.len() as u64 > state.bad.start {
            return Err(io::Error::other("simulated bad place"));
        }
        let fails = state.rng.random_ratio(state.faults.write, 1_000);
        // A failed write may have reached some sectors.
        for (i, sector) in bytes.chunks(SECTOR).enumerate() {
            if fails && state.rng.random_bool(0.5) {
                continue;
            }
            let range = at + i * SECTOR..at + i * SECTOR + sector.len();
            state.undo.push((range.start, state.bytes[range.clone()].to_vec()));
            state.bytes[range].copy_from_slice(sector);
        }
        if fails { Err(io::Error::other("simulated write error")) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.state().undo.clear();
        Ok(())
    }

    fn read_block(&self) -> usize {
        SECTOR
    }
}
