//! A disk that hangs, or is slow, when a test says so.

use rand::{SeedableRng, rngs::StdRng};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::Buffer;
use store::disk::{Disk, sim::SimDisk};

/// A disk whose reads wait while its gate is closed.
pub struct Gated {
    disk: SimDisk,
    closed: Mutex<bool>,
    opened: Condvar,
    /// Reads that wait.
    pub waiting: AtomicUsize,
    /// Milliseconds that each read takes, one after the other.
    pub slowness: AtomicU64,
    turn: Mutex<()>,
}

impl Gated {
    /// Of so many bytes.
    pub fn new(size: usize) -> Arc<Gated> {
        let disk = SimDisk::new(size, StdRng::seed_from_u64(1));
        Arc::new(Gated {
            disk,
            closed: Mutex::new(false),
            opened: Condvar::new(),
            waiting: AtomicUsize::new(0),
            slowness: AtomicU64::new(0),
            turn: Mutex::default(),
        })
    }

    pub fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

impl Disk for Gated {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.waiting.fetch_add(1, SeqCst);
        let closed = self.closed.lock().unwrap();
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        self.waiting.fetch_sub(1, SeqCst);
        let turn = self.turn.lock().unwrap();
        std::thread::sleep(Duration::from_millis(self.slowness.load(SeqCst)));
        drop(turn);
        self.disk.read(offset, buffer, length)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
    fn read_block(&self) -> usize {
        self.disk.read_block()
    }
}
