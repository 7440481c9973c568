//! Long work on all cores, and how far it is, on standard error: in one line that changes on a terminal, else in a line now and
//! then.

use crate::Failure;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is done of what.
pub struct Progress {
    began: Instant,
    terminal: bool,
    jobs: usize,
    done: AtomicUsize,
    /// Requests that were sent, by all jobs.
    pub requests: AtomicU64,
    /// That there will be; 0 while nobody knows.
    expected: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Progress {
    /// `expected` is how many requests all jobs have, if that is known.
    pub fn new(jobs: usize, expected: Option<u64>) -> Progress {
        Progress {
            began: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            jobs,
            done: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            expected: AtomicU64::new(expected.unwrap_or(0)),
            failures: Mutex::default(),
        }
    }

    /// Every job has as many requests as one had: a file's length shows when it was read.
    pub fn each_has(&self, requests: u64) {
        let all = requests.saturating_mul(self.jobs as u64);
        let _ = self.expected.compare_exchange(0, all, Relaxed, Relaxed);
    }

    /// Says a line without breaking that of the progress.
    pub fn say(&self, line: std::fmt::Arguments) {
        self.clear();
        proxy::say(line);
    }

    /// Says why a job failed, unless it is the only one, which ends with it, or another failed for the same reason.
    pub fn fail(&self, why: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if self.jobs > 1 && !failures.contains(&why) {
            self.say(format_args!("{why}"));
        }
        failures.push(why);
    }

    /// Whether all `what` went well.
    pub fn failure(&self, what: &str) -> Result<(), Failure> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match (&failures[..], self.jobs) {
            ([], _) => Ok(()),
            ([why], 1) => Err(Failure::Failed(why.clone())),
            (all, jobs) => Err(Failure::Failed(format!("{} of {jobs} {what} failed", all.len()))),
        }
    }

    fn clear(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn tell(&self) {
        let line = describe(
            (self.done.load(Relaxed), self.jobs),
            (self.requests.load(Relaxed), self.expected.load(Relaxed)),
            self.began.elapsed(),
        );
        match self.terminal {
            true => {
                self.clear();
                let _ = write!(std::io::stderr(), "{line}");
            }
            false => proxy::say(line),
        }
    }
}

fn describe((done, jobs): (usize, usize), (sent, expected): (u64, u64), so_far: Duration) -> String {
    let mut line = format!("{done} of {jobs} done, {sent} requests");
    if sent > 0 && expected >= sent {
        let left = so_far.as_secs_f64() * (expected - sent) as f64 / sent as f64;
        let percent = 100.0 * sent as f64 / expected as f64;
        line += &match left.round() as u64 {
            seconds @ ..100 => format!(" ({percent:.0} %), {seconds} s left"),
            seconds => format!(" ({percent:.0} %), {} min left", seconds.div_ceil(60)),
        };
    }
    line
}

/// Does all jobs on as many cores as there are, but so many at once at most, begun in their order; `end` gets what came of each, one after the other.
pub fn on_all_cores<J: Sync, T>(
    at_once: usize,
    jobs: &[J],
    progress: &Progress,
    work: impl Fn(&J) -> T + Sync,
    end: impl FnMut(&J, T) + Send,
) {
    let (next, end) = (AtomicUsize::new(0), Mutex::new(end));
    let every = Duration::from_secs(if progress.terminal { 1 } else { 10 });
    let (working, ended) = channel::<()>();
    let (next, end, work) = (&next, &end, &work);
    std::thread::scope(|scope| {
        for _ in 0..crate::machine::cores().min(jobs.len()).min(at_once) {
            let working = working.clone();
            scope.spawn(move || {
                // Dropped at the end: the last one stops the clock.
                let _working = working;
                while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                    let found = work(job);
                    progress.done.fetch_add(1, Relaxed);
                    let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
                    (*end)(job, found);
                }
            });
        }
        drop(working);
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
            progress.tell();
        }
    });
    progress.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_is_left() {
        let minute = Duration::from_secs(60);
        assert_eq!(describe((0, 3), (0, 300), minute), "0 of 3 done, 0 requests");
        assert_eq!(describe((1, 3), (150, 300), minute), "1 of 3 done, 150 requests (50 %), 60 s left");
        assert_eq!(describe((1, 3), (30, 300), minute), "1 of 3 done, 30 requests (10 %), 9 min left");
        assert_eq!(describe((1, 3), (150, 0), minute), "1 of 3 done, 150 requests");
    }

    #[test]
    fn all_jobs_are_done_once() {
        let jobs: Vec<u64> = (0..100).collect();
        let progress = Progress::new(jobs.len(), None);
        let mut found = Vec::new();
        on_all_cores(8, &jobs, &progress, |job| job * 2, |job, twice| found.push((*job, twice)));
        found.sort_unstable();
        assert_eq!(found, jobs.iter().map(|job| (*job, 2 * job)).collect::<Vec<_>>());
        on_all_cores(8, &[], &progress, |job: &u64| *job, |_, _| {});
    }
}
