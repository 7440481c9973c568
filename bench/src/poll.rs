//! Waiting for sockets without sleeping.
//!
//! Whoever sends to a process that sleeps on another core wakes that core: on a virtual machine some microseconds, a
//! sixth of what a cache spends on a hit, which no cache pays whose clients and origins are other machines. So load
//! and origin poll. Their share of a core is the time in which they had something to do.

use rustix::event::epoll::{self, CreateFlags, Event};
use rustix::io::Errno;
use rustix::thread::sched_yield;
use rustix::time::Timespec;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// An epoll that knows how long there was something to do.
pub struct Poll {
    epoll: OwnedFd,
    /// After so long without an event it sleeps until the next one.
    awake: Duration,
    busy: Duration,
    /// Since the last events came, if there was no other wait yet.
    begun: Option<Instant>,
    last: Instant,
}

impl Poll {
    pub fn new(awake: Duration) -> Result<Poll, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, awake, busy: Duration::ZERO, begun: None, last: Instant::now() })
    }

    /// The events that have come, none when it is `until`.
    pub fn wait(&mut self, events: &mut [Event], until: Option<Instant>) -> Result<usize, Errno> {
        let mut now = Instant::now();
        if let Some(begun) = self.begun.take() {
            self.busy += now - begun;
            self.last = now;
        }
        loop {
            let sleeps = now - self.last >= self.awake;
            let patience = if sleeps {
                until.map(|until| until.saturating_duration_since(now))
            } else {
                Some(Duration::ZERO)
            };
            let patience = patience.map(|wait| Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: i64::from(wait.subsec_nanos()),
            });
            let count = match epoll::wait(&self.epoll, &mut *events, patience.as_ref()) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            now = Instant::now();
            if count > 0 || until.is_some_and(|until| now >= until) {
                self.begun = Some(now);
                return Ok(count);
            }
            // Load and origin share a core.
            sched_yield();
        }
    }

    /// How long what came was worked on.
    pub fn busy(&self) -> Duration {
        self.busy + self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
