//! A process and what it tells of itself, looked at again and again while something goes on.

use super::bed::Proxy;
use crate::{admin, usage};
use rustix::process::Pid;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is looked at of `/stats.json`: queues, and what is held by requests under way.
pub const TOLD: [&str; 10] = [
    "connections.open",
    "origin.open",
    "budget.heads-used",
    "budget.origins-used",
    "budget.disk-used",
    "memory.lent",
    "store.index-bytes",
    "store.waiting-reads",
    "store.waiting-writes",
    "store.remembered",
];

/// Of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub at: Duration,
    pub resident: u64,
    pub descriptors: u64,
    pub threads: u64,
    /// In the order of `TOLD`.
    pub told: [u64; TOLD.len()],
    /// Of the kernel for TCP, of all programs of this machine.
    pub kernel: u64,
}

impl Sample {
    pub fn of(pid: Pid, admin: SocketAddr) -> Result<Sample, String> {
        let told = admin::stats(admin)?;
        let mut sample = Sample {
            resident: usage::resident(pid)?,
            descriptors: usage::entries(pid, "fd")?,
            threads: usage::entries(pid, "task")?,
            kernel: usage::kernel_for_tcp().unwrap_or(0),
            ..Sample::default()
        };
        for (number, name) in sample.told.iter_mut().zip(TOLD) {
            *number = name.split('.').fold(&told, |of, part| &of[part]).as_u64().unwrap_or(0);
        }
        Ok(sample)
    }

    /// One of `TOLD`.
    pub fn number(&self, name: &str) -> u64 {
        TOLD.iter().zip(self.told).find(|(told, _)| **told == name).map_or(0, |(_, number)| number)
    }
}

/// What was seen.
#[derive(Default)]
pub struct Seen {
    pub samples: Vec<Sample>,
    /// Who takes the memory, when it was most: the parts as `/state.json` has them.
    pub parts: serde_json::Value,
}

impl Seen {
    /// The most of a figure, and the moments at which nothing was told.
    pub fn most(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(of).max().unwrap_or(0)
    }
}

pub struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Result<Seen, String>>,
}

impl Watch {
    /// Until it is told to end.
    pub fn begin(proxy: &Proxy, every: Duration) -> Watch {
        let (pid, admin) = (proxy.server.pid(), proxy.admin);
        let (end, ends) = channel();
        let thread = std::thread::spawn(move || {
            let (began, mut seen) = (Instant::now(), Seen::default());
            loop {
                let sample = Sample { at: began.elapsed(), ..Sample::of(pid, admin)? };
                if sample.resident > seen.most(|sample| sample.resident) {
                    seen.parts = admin::told(admin, "/state.json")?["memory"].take();
                }
                seen.samples.push(sample);
                match ends.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return Ok(seen),
                }
            }
        });
        Watch { end, thread }
    }

    pub fn end(self) -> Result<Seen, String> {
        drop(self.end);
        self.thread.join().map_err(|_| "the thread that looks on ended in a panic".to_owned())?
    }
}
