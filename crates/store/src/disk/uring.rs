//! Reads through a private io_uring of one worker thread. The ring's descriptor is watched by the worker's own
//! runtime, so that a read costs no other thread and no blocking call, and all reads that one turn of the runtime
//! brings are submitted together.

use super::Traffic;
use crate::buffer::Buffer;
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
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// Reads in flight, one for each `TURN` bytes; others wait for their turn.
pub const DEPTH: u32 = 256;

/// Until what the kernel did not take is submitted again.
const AGAIN: Duration = Duration::from_millis(1);

type Answer = oneshot::Sender<io::Result<Buffer>>;

/// A read in flight; its turn ends with it, whatever becomes of the future that asked.
struct Flying {
    buffer: Buffer,
    length: usize,
    answer: Answer,
    _turn: OwnedSemaphorePermit,
}

#[derive(Clone)]
pub struct RingReader(Rc<Shared>);

struct Shared {
    ring: RefCell<Ring>,
    submit: Rc<Notify>,
    turns: Arc<Semaphore>,
}

/// The ring and what it is reading into. Always true: a buffer whose address the kernel has is in `flying`.
struct Ring {
    ring: IoUring,
    file: File,
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    unsubmitted: bool,
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
            unsubmitted: false,
            traffic,
        };
        let submit = Rc::new(Notify::new());
        let turns = Arc::new(Semaphore::new(DEPTH as usize));
        let shared = Rc::new(Shared { ring: RefCell::new(ring), submit: submit.clone(), turns });
        tokio::task::spawn_local(complete(watched, Rc::downgrade(&shared)));
        tokio::task::spawn_local(submit_together(submit, Rc::downgrade(&shared)));
        Ok(RingReader(shared))
    }

    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.0.turns
    }

    /// Reads `length` bytes at `offset` into the buffer and gives it back. `turn` is one of `turns`.
    pub async fn read(
        &self,
        offset: u64,
        length: usize,
        buffer: Buffer,
        turn: OwnedSemaphorePermit,
    ) -> io::Result<Buffer> {
        let (answer, result) = oneshot::channel();
        let first = self.0.ring.borrow_mut().push(offset, Flying { buffer, length, answer, _turn: turn })?;
        if first {
            self.0.submit.notify_one();
        }
        result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

impl Ring {
    /// True when nothing else waits for submission yet.
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
        Ok(!std::mem::replace(&mut self.unsubmitted, true))
    }

    /// An error leaves what was not taken in the queue.
    fn submit(&mut self) -> io::Result<usize> {
        self.unsubmitted = false;
        self.ring.submit()
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
