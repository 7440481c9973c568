//! The medium: bytes at offsets, nothing more.

pub mod file;
pub mod sim;
pub mod threads;
pub mod uring;

use crate::buffer::Buffer;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocking access to the medium; offsets and lengths are multiples of `BLOCK` when written, of `read_block` when read.
pub trait Disk: Send + Sync {
    /// Fills the first `length` bytes of `buffer` from `offset`.
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()>;
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// What was written before is on the medium when this returns.
    fn sync(&self) -> io::Result<()>;
    /// Has space for so many bytes; what fails leaves the medium as it was.
    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives back what is behind so many bytes, if it can.
    fn cut_off(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
    /// The granularity of reads, bytes: 512 or 4096.
    fn read_block(&self) -> usize;
    /// Waits a little before a start reads again what it could not read; only where time can help.
    fn pause(&self) {}
    /// What somebody else did to the medium while it is open, for a line in the log; one cheap call.
    fn harm(&self) -> Option<&'static str> {
        None
    }
}

/// What went to and came from the device.
#[derive(Default, Debug)]
pub struct Traffic {
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub written_bytes: AtomicU64,
}

impl Traffic {
    pub fn read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }
    pub fn wrote(&self, bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }
}
