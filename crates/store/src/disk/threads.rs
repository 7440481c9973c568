//! Reads by a pool of threads: for kernels and containers that refuse io_uring.

use super::Disk;
use crate::buffer::Buffer;
use crate::health::Turn;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, oneshot};

const THREADS: usize = 16;
/// Reads in the queue or in flight, one for each `TURN` bytes; others wait for their turn.
pub const DEPTH: usize = 256;

struct Job {
    offset: u64,
    length: usize,
    buffer: Buffer,
    answer: oneshot::Sender<io::Result<Buffer>>,
    turn: Turn,
}

/// The pool ends when its last handle is dropped.
#[derive(Clone)]
pub struct ThreadReader {
    jobs: SyncSender<Job>,
    turns: Arc<Semaphore>,
}

impl ThreadReader {
    pub fn new(disk: Arc<dyn Disk>) -> io::Result<ThreadReader> {
        let (jobs, queue) = sync_channel(DEPTH);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..THREADS {
            let (queue, disk) = (queue.clone(), disk.clone());
            std::thread::Builder::new().name(format!("read-{number}")).spawn(move || work(&queue, &*disk))?;
        }
        Ok(ThreadReader { jobs, turns: Arc::new(Semaphore::new(DEPTH)) })
    }

    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// Reads `length` bytes at `offset` into the buffer and gives it back. `turn` has one of `turns`, and is kept until the read
    /// has ended, whatever becomes of the future.
    pub async fn read(&self, offset: u64, length: usize, buffer: Buffer, turn: Turn) -> io::Result<Buffer> {
        let (answer, result) = oneshot::channel();
        let job = Job { offset, length, buffer, answer, turn };
        self.jobs.try_send(job).map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

fn work(queue: &Mutex<Receiver<Job>>, disk: &dyn Disk) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { offset, length, mut buffer, answer, turn }) = job else { return };
        let result = disk.read(offset, &mut buffer, length).map(|()| buffer);
        drop(turn);
        let _ = answer.send(result);
    }
}
