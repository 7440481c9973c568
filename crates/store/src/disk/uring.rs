//! Reads through a private io_uring of one worker thread. The ring's descriptor is watched by the worker's own
//! runtime, so that a read costs no other thread and no blocking call. Reads that one turn of the runtime brings are
//! submitted together, some at a time: if the device had to wait for the last of many, it would idle meanwhile, and
//! answer all of them at once the next time too.

use super::Traffic;
use crate::buffer::Buffer;
use crate::health::Turn;
use io_uring::{IoUring, opcode, types};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::{AbortHandle, spawn_local};

/// Reads in flight, one for each `TURN` bytes; others wait for their turn.
pub const DEPTH: u32 = 256;

/// Reads that are submitted as soon as so many wait; fewer, when the turn ends.
const TOGETHER: u32 = 4;

/// Until what the kernel did not take is submitted again.
const AGAIN: Duration = Duration::from_millis(1);

type Answer = oneshot::Sender<io::Result<Buffer>>;

/// A read in flight; its turn ends with it, whatever becomes of the future that asked.
struct Flying {
    buffer: Buffer,
    length: usize,
    answer: Answer,
    _turn: Turn,
}

#[derive(Clone)]
pub struct RingReader(Rc<Shared>);

struct Shared {
    ring: RefCell<Ring>,
    submit: Rc<Notify>,
    turns: Arc<Semaphore>,
    /// They wait for what never comes once that nobody reads: with them go the ring's descriptor and its memory.
    tasks: [AbortHandle; 2],
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// The ring and what it is reading into. Always true: a buffer whose address the kernel has is in `flying`.
struct Ring {
    ring: IoUring,
    file: File,
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    unsubmitted: u32,
    traffic: Arc<Traffic>,
}

impl RingReader {
    /// Must be called within the runtime (a local one) of the thread that will read.
    pub fn new(file: &File, traffic: Arc<Traffic>) -> io::Result<RingReader> {
        let ring = IoUring::builder().setup_coop_taskrun().setup_single_issuer().build(DEPTH)?;
        let file = file.try_clone()?;
        let descriptor = ring.as_fd().try_clone_to_owned()?;
        #[allow(unsafe_code)]
        // SAFETY: the AsyncFd owns this duplicate of the ring's descriptor: it stays open, and the same, until the
        // AsyncFd is dropped.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
        let ring = Ring {
            ring,
            file,
            flying: (0..DEPTH).map(|_| None).collect(),
            free: (0..DEPTH as usize).collect(),
            unsubmitted: 0,
            traffic,
        };
        let submit = Rc::new(Notify::new());
        let turns = Arc::new(Semaphore::new(DEPTH as usize));
        let shared = Rc::new_cyclic(|shared| {
            let complete = spawn_local(complete(watched, shared.clone()));
            let submit_together = spawn_local(submit_together(submit.clone(), shared.clone()));
            let tasks = [complete, submit_together].map(|task| task.abort_handle());
            Shared { ring: RefCell::new(ring), submit, turns, tasks }
        });
        Ok(RingReader(shared))
    }

    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.0.turns
    }

    /// Reads `length` bytes at `offset` into the buffer and gives it back. `turn` has one of `turns`.
    pub async fn read(&self, offset: u64, length: usize, buffer: Buffer, turn: Turn) -> io::Result<Buffer> {
        let (answer, result) = oneshot::channel();
        let first = self.0.ring.borrow_mut().push(offset, Flying { buffer, length, answer, _turn: turn })?;
        // It also comes back to what could not be submitted before.
        if first {
            self.0.submit.notify_one();
        }
        result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

impl Ring {
    /// True when nothing else waited for submission.
    fn push(&mut self, offset: u64, mut read: Flying) -> io::Result<bool> {
        let length = read.length;
        assert!(length <= read.buffer.len());
        let slot = self.free.pop().ok_or(io::ErrorKind::WouldBlock)?;
        let (file, to) = (types::Fd(self.file.as_raw_fd()), read.buffer.as_mut_ptr());
        let entry = opcode::Read::new(file, to, length as u32).offset(offset).build().user_data(slot as u64);
        self.flying[slot] = Some(read);
        #[allow(unsafe_code)]
        // SAFETY: the entry's address and length are those of a buffer that `flying` owns from here until its
        // completion is reaped, whatever becomes of the future that asked; dropping the ring waits for all of them.
        // The ring has as many entries as there are slots, so that the queue cannot be full.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        debug_assert!(pushed.is_ok());
        self.traffic.read(length);
        self.unsubmitted += 1;
        let first = self.unsubmitted == 1;
        if self.unsubmitted == TOGETHER {
            let _ = self.submit();
        }
        Ok(first)
    }

    /// An error leaves what was not taken in the queue. The kernel may take a part alone.
    fn submit(&mut self) -> io::Result<()> {
        if self.unsubmitted > 0 {
            self.unsubmitted -= self.ring.submit()? as u32;
        }
        match self.unsubmitted {
            0 => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Hands finished reads to who asked for them.
    fn reap(&mut self) {
        for done in self.ring.completion() {
            let slot = done.user_data() as usize;
            let Some(Flying { buffer, length, answer, .. }) = self.flying[slot].take() else { continue };
            self.free.push(slot);
            let result = match done.result() {
                n if n < 0 => Err(io::Error::from_raw_os_error(-n)),
                n if (n as usize) < length => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(buffer),
            };
            // Nobody waits any more: the buffer goes back to its pool.
            let _ = answer.send(result);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.free.len() < self.flying.len() {
            if self.ring.submit_and_wait(1).is_err_and(|e| e.kind() != io::ErrorKind::Interrupted) {
                // The kernel may still write to the buffers: they are given up rather than reused.
                std::mem::forget(std::mem::take(&mut self.flying));
                return;
            }
            self.reap();
        }
    }
}

async fn complete(watched: AsyncFd<OwnedFd>, shared: Weak<Shared>) {
    while let Ok(mut ready) = watched.readable().await {
        ready.clear_ready_matching(Ready::READABLE);
        let Some(shared) = shared.upgrade() else { return };
        shared.ring.borrow_mut().reap();
    }
}

async fn submit_together(submit: Rc<Notify>, shared: Weak<Shared>) {
    loop {
        submit.notified().await;
        let Some(shared) = shared.upgrade() else { return };
        let submitted = {
            let mut ring = shared.ring.borrow_mut();
            let submitted = ring.submit();
            ring.reap();
            submitted
        };
        if submitted.is_err() {
            // The kernel lacks something for the moment.
            tokio::time::sleep(AGAIN).await;
            submit.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use std::future::{Future, poll_fn};
    use std::io::Write;
    use std::pin::Pin;
    use std::task::Poll;

    fn turn(ring: &RingReader) -> Turn {
        Turn::new(ring.turns().clone().try_acquire_owned().unwrap(), Arc::default())
    }

    /// What becomes of reads that are all begun before the runtime has its next turn.
    #[test]
    fn many_reads_do_not_wait_for_the_last_of_them() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..64u8).flat_map(|n| [n; 4096]).collect::<Vec<u8>>()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let Ok(ring) = RingReader::new(&file, Arc::default()) else { return };
            let (ring, pool) = (&ring, Pool::new(0));
            let mut reads: Vec<Pin<Box<dyn Future<Output = io::Result<Buffer>>>>> = Vec::new();
            for n in 0..2 * u64::from(TOGETHER) + 2 {
                let turn = turn(ring);
                reads.push(Box::pin(ring.read(n * 4096, 4096, pool.take(4096), turn)));
            }
            poll_fn(|cx| {
                reads.iter_mut().for_each(|read| assert!(read.as_mut().poll(cx).is_pending()));
                Poll::Ready(())
            })
            .await;
            let waiting = ring.0.ring.borrow_mut().ring.submission().len();
            assert_eq!(waiting, 2, "all others are on their way");
            for (n, read) in reads.into_iter().enumerate() {
                assert_eq!(read.await.unwrap()[..4096], [n as u8; 4096]);
            }
        });
    }

    /// Else each disk that comes back would cost every worker a descriptor and a ring.
    #[test]
    fn nothing_of_a_reader_outlives_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let Ok(ring) = RingReader::new(&file, Arc::default()) else { return };
            let (pool, turn) = (Pool::new(0), turn(&ring));
            assert_eq!(ring.read(0, 4096, pool.take(4096), turn).await.unwrap()[..4096], [7; 4096]);
        });
        let all_tasks = async { tokio::time::timeout(Duration::from_secs(20), local).await };
        assert!(runtime.block_on(all_tasks).is_ok(), "a task waits for ever");
    }

    /// The kernel stops at an entry that it refuses, and says how many it took up to there.
    #[test]
    fn what_the_kernel_did_not_take_is_submitted_again() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let Ok(ring) = RingReader::new(&file, Arc::default()) else { return };
            let refused = opcode::Nop::new().build().personality(u16::MAX);
            {
                let mut ring = ring.0.ring.borrow_mut();
                #[allow(unsafe_code)]
                // SAFETY: the entry has no address.
                unsafe { ring.ring.submission().push(&refused.user_data(0)) }.unwrap();
                ring.unsubmitted += 1;
            }
            ring.0.submit.notify_one();
            let (pool, turn) = (Pool::new(0), turn(&ring));
            let read = ring.read(0, 4096, pool.take(4096), turn);
            let read = tokio::time::timeout(Duration::from_secs(60), read).await.expect("it is submitted");
            assert_eq!(read.unwrap()[..4096], [7; 4096]);
        });
    }
}
