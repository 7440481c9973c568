//! Lines on standard error, for who started the proxy: what comes of that, and what cannot be told otherwise. What happens later is
//! an event of the error log (`tracing`).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};
use rustix::stdio::stderr;
use std::fmt::Display;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a reader of standard error that is behind is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// And for how long nobody waits for it then.
const AGAIN: Duration = Duration::from_secs(10);
/// Bytes that a pipe takes at once which has room (POSIX, PIPE_BUF on Linux).
const AT_ONCE: usize = 4096;

/// A line on standard error. That nobody reads it is no reason to stop, nor to wait for long.
pub fn say(line: impl Display) {
    let _ = write_stderr(format!("cosm: {line}\n").as_bytes());
}

/// Writes to standard error.
///
/// # Errors
/// It cannot be written, or whoever reads it is behind by more than a second. Some of it may be written.
pub fn write_stderr(mut bytes: &[u8]) -> io::Result<()> {
    // The standard library's lock is held while one waits, for however long.
    static BEHIND: Mutex<Option<Instant>> = Mutex::new(None);
    let mut behind = BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
    if behind.is_some_and(|since| since.elapsed() < AGAIN) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    *behind = None;
    while !bytes.is_empty() {
        let mut ready = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
        match poll(&mut ready, Some(&PATIENCE)) {
            Ok(0) => {
                *behind = Some(Instant::now());
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match write(stderr(), &bytes[..bytes.len().min(AT_ONCE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
