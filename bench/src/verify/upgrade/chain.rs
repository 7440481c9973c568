//! Processes of which each took over from the one before.

use crate::cleanup;
use crate::verify::bed::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::read_to_string;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is said of an upgrade that came to its end.
const SAID: &str = "serves; this one ends";
const SOON: Duration = Duration::from_secs(60);

pub struct Chain {
    pid_file: PathBuf,
    log: PathBuf,
    /// Those after the first, which whoever started it ends.
    started: Mutex<Vec<Pid>>,
    first: Pid,
}

impl Chain {
    pub fn of(first: Pid, pid_file: PathBuf, log: PathBuf) -> Chain {
        Chain { pid_file, log, started: Mutex::default(), first }
    }

    /// The one that serves.
    fn last(&self) -> Result<Pid, String> {
        let id = read_to_string(&self.pid_file).ok().and_then(|id| Pid::from_raw(id.trim().parse().ok()?));
        id.ok_or_else(|| format!("{} has no process's number", self.pid_file.display()))
    }

    fn log(&self) -> String {
        read_to_string(&self.log).unwrap_or_default()
    }

    /// Says how long it took.
    pub fn upgrade(&self) -> Result<Duration, String> {
        let (before, said) = (self.last()?, self.log().matches(SAID).count());
        let began = Instant::now();
        kill_process(before, Signal::USR2).map_err(|e| format!("signal: {e}"))?;
        loop {
            let log = self.log();
            if log.matches(SAID).count() > said {
                break;
            }
            if let Some(why) = log.lines().find(|line| line.contains("no upgrade: ")) {
                return Err(why.to_owned());
            }
            if began.elapsed() > SOON {
                return Err("an upgrade does not come to its end".into());
            }
            sleep(Duration::from_millis(1));
        }
        let (took, new) = (began.elapsed(), self.last()?);
        cleanup::remember(new);
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(new);
        Ok(took)
    }

    /// Stops the last one; how many of the others are there still.
    pub fn end(self) -> Result<usize, String> {
        let last = self.last()?;
        let others = || {
            let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.iter().chain([&self.first]).filter(|pid| **pid != last && is_running(**pid)).count()
        };
        // Nothing is under way any more.
        let _ = until("the others to end", Duration::from_secs(20), || Ok(others() == 0));
        let left = others();
        kill_process(last, Signal::TERM).map_err(|e| format!("stop: {e}"))?;
        until("the last one to end", SOON, || Ok(!is_running(last)))?;
        Ok(left)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for pid in self.started.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if is_running(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            cleanup::forget(pid);
        }
    }
}

/// One that has ended, and that nobody has asked about yet, is not.
fn is_running(pid: Pid) -> bool {
    let status = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
