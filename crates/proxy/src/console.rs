//! Lines on standard error, for the operator.
//!
//! Why requests fail at origins is told here alone: clients are told no address and no cause. Of each kind of trouble one line a second is written at most; it says how many were left out before it. Workers never
//! wait for whoever reads them.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A line on standard error. That nobody reads it any more is no reason to stop.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "cosm: {line}");
}

/// What went wrong; each kind has a second of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Lookup,
    Connect,
    Answer,
}

/// Between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a line, whatever a client put into it.
const LINE: usize = 400;
/// Lines that wait for standard error; more are left out.
const WAITING: usize = 16;

/// Says what went wrong, unless it was just said.
pub fn tell(trouble: Trouble, what: impl Display) {
    static KINDS: [Mutex<Rate>; 3] = [const { Mutex::new(Rate::NEW) }; 3];
    static WRITER: OnceLock<Option<SyncSender<String>>> = OnceLock::new();
    let mut rate = KINDS[trouble as usize].lock().unwrap_or_else(PoisonError::into_inner);
    let Some(left_out) = rate.admits(Instant::now()) else { return };
    let Some(writer) = WRITER.get_or_init(writer) else { return };
    if writer.try_send(line(&what.to_string(), left_out)).is_err() {
        rate.left_out = left_out + 1;
    }
}

fn line(what: &str, left_out: u64) -> String {
    let mut line: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.truncate(line.floor_char_boundary(LINE));
    if left_out > 0 {
        line.push_str(&format!(" (and {left_out} more like this before)"));
    }
    line
}

fn writer() -> Option<SyncSender<String>> {
    let (lines, waiting) = sync_channel::<String>(WAITING);
    let thread = std::thread::Builder::new().name("trouble".into());
    thread.spawn(move || waiting.into_iter().for_each(say)).ok()?;
    Some(lines)
}

struct Rate {
    last: Option<Instant>,
    left_out: u64,
}

impl Rate {
    const NEW: Rate = Rate { last: None, left_out: 0 };

    /// How many were left out since the last line, when the next may be written now.
    fn admits(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_counts_those_between() {
        let (mut rate, start) = (Rate::NEW, Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let lines: Vec<_> = [0, 1, 999, 1_000, 1_001, 3_000].map(|ms| rate.admits(at(ms))).into();
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn lines_are_lines_and_short() {
        assert_eq!(line("a\r\nb", 0), "a  b");
        assert_eq!(line("a", 7), "a (and 7 more like this before)");
        assert!(line(&"é".repeat(10_000), u64::MAX).len() < LINE + 60);
    }
}
