//! A medium in memory that fails on command: for tests and simulation. What was written since the last sync may be
//! lost, torn in the middle of a block, or kept when the power goes; reads and writes may fail, be lost without a word or hit the
//! wrong place; bits may flip, on the medium or on their way; a file with holes may find no space. Whoever writes may be
//! interrupted. It is a file, which can be cut off, or a device, which has what it has.

use super::Disk;
use crate::buffer::Buffer;
use crate::format::BLOCK;
use rand::{RngExt, rngs::StdRng};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The medium keeps whole sectors, whatever happens.
const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Chances, of 1,000, that a read fails, a write fails, a write finds no space.
    pub read: u32,
    pub write: u32,
    pub no_space: u32,
    /// And of what is reported as done: a write changes nothing, a write goes elsewhere (never over the first block), one bit of what
    /// is read is another.
    pub lost: u32,
    pub misdirected: u32,
    pub flipped: u32,
    /// No blocks are left but those that were written before.
    pub full: bool,
    /// How long each read takes (`SimDisk::time`).
    pub pace: Duration,
}

pub struct SimDisk {
    state: Mutex<State>,
}

struct State {
    bytes: Vec<u8>,
    /// Blocks that were written.
    taken: Vec<bool>,
    /// Sectors as they were before writes that no sync has confirmed, oldest first: offsets, and one after the other their bytes.
    unsynced: Vec<usize>,
    before: Vec<u8>,
    faults: Faults,
    /// One less than so many more calls succeed; then all but reads fail.
    left: Option<u32>,
    is_device: bool,
    /// Where every write fails.
    bad: Range<u64>,
    /// Where every read fails.
    unreadable: Range<u64>,
    time: Duration,
    /// Reads of which a bit was flipped on its way.
    flipped: u64,
    rng: StdRng,
}

impl SimDisk {
    pub fn new(size: usize, rng: StdRng) -> SimDisk {
        let state = State {
            bytes: vec![0; size],
            taken: vec![false; size.div_ceil(BLOCK)],
            unsynced: Vec::new(),
            before: Vec::new(),
            faults: Faults::default(),
            left: None,
            is_device: false,
            bad: 0..0,
            unreadable: 0..0,
            time: Duration::ZERO,
            flipped: 0,
            rng,
        };
        SimDisk { state: Mutex::new(state) }
    }

    /// One that keeps its size, and what lies behind the end of a cache.
    pub fn device(size: usize, rng: StdRng) -> SimDisk {
        let disk = SimDisk::new(size, rng);
        disk.state().is_device = true;
        disk
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

    /// Whoever writes is interrupted after so many more calls: one write stops anywhere, and then all but reads fail. `None` ends that.
    pub fn interrupt_after(&self, calls: Option<u32>) {
        self.state().left = calls.map(|calls| calls + 1);
    }

    /// Power loss: of the sectors written since the last sync each keeps its new bytes or gets its old ones back.
    pub fn lose_power(&self) {
        let state = &mut *self.state();
        for (at, old) in state.unsynced.drain(..).zip(state.before.chunks_exact(SECTOR)).rev() {
            if state.rng.random_bool(0.5) {
                state.bytes[at..at + SECTOR].copy_from_slice(old);
            }
        }
        state.before.clear();
    }

    /// True when a loss of power may undo something.
    pub fn is_unsynced(&self) -> bool {
        !self.state().unsynced.is_empty()
    }

    /// Flips one bit somewhere in `bytes`.
    pub fn flip_bit(&self, bytes: Range<usize>) {
        let state = &mut *self.state();
        let bit = state.rng.random_range(bytes.start * 8..bytes.end * 8);
        state.bytes[bit / 8] ^= 1 << (bit % 8);
    }

    /// How long all reads so far took.
    pub fn time(&self) -> Duration {
        self.state().time
    }

    /// Reads so far that a bit was flipped of.
    pub fn flipped(&self) -> u64 {
        self.state().flipped
    }

    pub fn size(&self) -> u64 {
        self.state().bytes.len() as u64
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Of 1,000.
    fn happens(&mut self, chance: u32) -> bool {
        chance > 0 && self.rng.random_ratio(chance, 1_000)
    }

    /// Counts a call that is no read.
    fn goes_on(&mut self) -> io::Result<()> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.left == Some(0) { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    /// Whole sectors.
    fn store(&mut self, at: usize, bytes: &[u8]) {
        let all = at..at + bytes.len();
        self.unsynced.extend(all.clone().step_by(SECTOR));
        self.before.extend_from_slice(&self.bytes[all.clone()]);
        self.bytes[all.clone()].copy_from_slice(bytes);
        self.taken[all.start / BLOCK..all.end.div_ceil(BLOCK)].fill(true);
    }
}

impl Disk for SimDisk {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let state = &mut *self.state();
        state.time += state.faults.pace;
        if state.happens(state.faults.read) {
            return Err(io::Error::other("simulated read error"));
        }
        if offset < state.unreadable.end && offset + length as u64 > state.unreadable.start {
            return Err(io::Error::other("simulated bad place"));
        }
        let at = offset as usize;
        let bytes = state.bytes.get(at..at + length).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer[..length].copy_from_slice(bytes);
        if state.happens(state.faults.flipped) {
            let bit = state.rng.random_range(0..length * 8);
            buffer[bit / 8] ^= 1 << (bit % 8);
            state.flipped += 1;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.state();
        let mut at = offset as usize;
        assert!(at + bytes.len() <= state.bytes.len(), "a write past the end of the cache");
        assert!(at.is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR), "sectors are written whole");
        if state.left == Some(0) {
            return Err(io::Error::other("interrupted"));
        }
        if state.happens(state.faults.no_space) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if offset < state.bad.end && offset + bytes.len() as u64 > state.bad.start {
            return Err(io::Error::other("simulated bad place"));
        }
        if state.faults.full && state.taken[at / BLOCK..(at + bytes.len()).div_ceil(BLOCK)].contains(&false) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if state.happens(state.faults.write) {
            // It may have reached some sectors.
            for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                if state.rng.random() {
                    state.store(at + i * SECTOR, sector);
                }
            }
            return Err(io::Error::other("simulated write error"));
        }
        if state.happens(state.faults.lost) {
            return Ok(());
        }
        if state.happens(state.faults.misdirected) {
            let blocks = (state.bytes.len() - bytes.len()) / BLOCK;
            at = state.rng.random_range(1..=blocks) * BLOCK;
        }
        let stops = state.left == Some(1);
        let sectors =
            if stops { state.rng.random_range(0..=bytes.len() / SECTOR) } else { bytes.len() / SECTOR };
        state.store(at, &bytes[..sectors * SECTOR]);
        state.goes_on()
    }

    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.state();
        state.goes_on()?;
        state.unsynced.clear();
        state.before.clear();
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let state = &mut *self.state();
        state.goes_on()?;
        if state.is_device && bytes <= state.bytes.len() as u64 {
            return Ok(());
        }
        if state.is_device || state.faults.full || state.happens(state.faults.no_space) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = state.bytes.len().max(bytes as usize);
        state.bytes.resize(bytes, 0);
        state.taken.resize(bytes.div_ceil(BLOCK), false);
        Ok(())
    }

    fn cut_off(&self, bytes: u64) -> io::Result<()> {
        let state = &mut *self.state();
        state.goes_on()?;
        if state.is_device {
            return Ok(());
        }
        state.bytes.truncate(bytes as usize);
        state.taken.truncate((bytes as usize).div_ceil(BLOCK));
        // What is cut off does not come back.
        let (unsynced, before) = (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.before));
        for (at, old) in unsynced.into_iter().zip(before.chunks_exact(SECTOR)) {
            if at < bytes as usize {
                state.unsynced.push(at);
                state.before.extend_from_slice(old);
            }
        }
        Ok(())
    }

    fn read_block(&self) -> usize {
        SECTOR
    }
}
