//! The reads of one start: what fails is tried again, within bounds.

use crate::buffer::{Buffer, Pool};
use crate::disk::Disk;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reads at once.
pub const PARALLEL: usize = 8;
/// Attempts to read one thing; one alone where it took so long that the device has tried for itself.
const ATTEMPTS: u32 = 3;
const LONG: Duration = Duration::from_secs(1);
/// After so many failures, or when they took so long, nothing is read any more.
const FAILURES: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// The reads of one start: what fails is tried again, within bounds.
pub struct Reads<'a> {
    disk: &'a dyn Disk,
    pool: &'a Arc<Pool>,
    /// Time since some moment.
    clock: Box<dyn Fn() -> Duration + Sync + 'a>,
    /// Reads at once.
    parallel: usize,
    failed: Mutex<Failed>,
}

/// Reads that failed.
#[derive(Default)]
struct Failed {
    times: u32,
    /// How long one or more of them were under way, and when the last one had ended.
    took: Duration,
    until: Duration,
}

impl<'a> Reads<'a> {
    pub fn new(disk: &'a dyn Disk, pool: &'a Arc<Pool>) -> Reads<'a> {
        let began = Instant::now();
        let clock = Box::new(move || began.elapsed());
        Reads { disk, pool, clock, parallel: PARALLEL, failed: Mutex::default() }
    }

    /// One after the other, and timed by the caller: a start that can be repeated.
    #[cfg(test)]
    pub fn in_order(
        disk: &'a dyn Disk,
        pool: &'a Arc<Pool>,
        clock: impl Fn() -> Duration + Sync + 'a,
    ) -> Reads<'a> {
        Reads { clock: Box::new(clock), parallel: 1, ..Reads::new(disk, pool) }
    }

    pub fn read(&self, offset: u64, length: usize) -> io::Result<Buffer> {
        if self.are_given_up() {
            return Err(io::Error::other("not read, for too much could not be read"));
        }
        let mut buffer = self.pool.take(length);
        let mut attempt = 1;
        loop {
            let began = (self.clock)();
            let Err(error) = self.disk.read(offset, &mut buffer, length) else { return Ok(buffer) };
            let took = self.count(began);
            if attempt == ATTEMPTS || took >= LONG || self.are_given_up() {
                return Err(error);
            }
            attempt += 1;
            self.disk.pause();
        }
    }

    /// A read failed that began then: how long it took.
    fn count(&self, began: Duration) -> Duration {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        failed.times += 1;
        let from = began.max(failed.until);
        failed.took += now.saturating_sub(from);
        failed.until = failed.until.max(now);
        now.saturating_sub(began)
    }

    /// By the clock of these reads.
    pub fn time(&self) -> Duration {
        (self.clock)()
    }

    pub fn are_given_up(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.times >= FAILURES || failed.took >= PATIENCE
    }

    /// What `read` gives for each of some, by several threads, in the order given.
    pub fn each<T: Sync, A: Send>(&self, some: &[T], read: impl Fn(&T) -> A + Sync) -> Vec<A> {
        if self.parallel == 1 {
            return some.iter().map(read).collect();
        }
        let share = some.len().div_ceil(self.parallel).max(1);
        let read = &read;
        std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .chunks(share)
                .map(|some| scope.spawn(move || some.iter().map(read).collect::<Vec<_>>()))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.flat_map(|t| t.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}
