//! Reads by a pool of threads: for kernels and containers that refuse io_uring.

use super::Disk;
use crate::buffer::Buffer;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

const THREADS: usize = 16;
/// Reads waiting or in flight; one more is refused.
const DEPTH: usize = 256;

struct Job {
    offset: u64,
    length: usize,
    buffer: Buffer,
    answer: oneshot::Sender<io::Result<Buffer>>,
}

/// The pool ends when its last handle is dropped.
#[derive(Clone)]
pub struct ThreadReader {
    jobs: SyncSender<Job>,
    waiting: Arc<AtomicUsize>,
}

impl ThreadReader {
    pub fn new(disk: Arc<dyn Disk>) -> io::Result<ThreadReader> {
        let (jobs, queue) = sync_channel(DEPTH);
        let queue = Arc::new(Mutex::new(queue));
        let waiting = Arc::new(AtomicUsize::new(0));
        for number in 0..THREADS {
            let (queue, disk, waiting) = (queue.clone(), disk.clone(), waiting.clone());
            std::thread::Builder::new()
                .name(format!("read-{number}"))
                .spawn(move || work(&queue, &*disk, &waiting))?;
        }
        Ok(ThreadReader { jobs, waiting })
    }

    /// Reads `length` bytes at `offset` into the buffer and gives it back. `WouldBlock` when too much is waiting.
    pub async fn read(&self, offset: u64, length: usize, buffer: Buffer) -> io::Result<Buffer> {
        let (answer, result) = oneshot::channel();
        if self.waiting.fetch_add(1, Relaxed) >= DEPTH {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let job = Job { offset, length, buffer, answer };
        self.jobs.try_send(job).map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

fn work(queue: &Mutex<Receiver<Job>>, disk: &dyn Disk, waiting: &AtomicUsize) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { offset, length, mut buffer, answer }) = job else { return };
        let result = disk.read(offset, &mut buffer, length).map(|()| buffer);
        waiting.fetch_sub(1, Relaxed);
        let _ = answer.send(result);
    }
}
