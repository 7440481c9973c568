//! What several tests need.

use rand::{SeedableRng, rngs::StdRng};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use store::Buffer;
use store::disk::Disk;
use store::disk::sim::SimDisk;

/// A disk whose reads hang while told so, and its writes.
pub struct Hanging {
    pub disk: SimDisk,
    /// Reads, and writes.
    hang: Mutex<[bool; 2]>,
    changed: Condvar,
    /// Reads so far, also those that hang.
    pub begun: AtomicUsize,
}

impl Hanging {
    pub fn new(size: u64, seed: u64) -> Arc<Hanging> {
        let disk = SimDisk::new(size as usize, StdRng::seed_from_u64(seed));
        Arc::new(Hanging {
            disk,
            hang: Mutex::default(),
            changed: Condvar::new(),
            begun: AtomicUsize::new(0),
        })
    }

    pub fn set(&self, hang: [bool; 2]) {
        *self.hang.lock().unwrap() = hang;
        self.changed.notify_all();
    }

    fn pass(&self, which: usize) {
        drop(self.changed.wait_while(self.hang.lock().unwrap(), |hang| hang[which]));
    }
}

impl Disk for Hanging {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.begun.fetch_add(1, SeqCst);
        self.pass(0);
        self.disk.read(offset, buffer, length)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.pass(1);
        self.disk.write(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
    fn read_block(&self) -> usize {
        self.disk.read_block()
    }
}
