//! How far a command is, on standard error: only of one that takes longer than a moment.

use std::fmt::Arguments;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// What ends sooner says nothing.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Progress {
    of_what: &'static str,
    /// When to speak next.
    next: Instant,
    pause: Duration,
    /// One line that is written over.
    on_terminal: bool,
    has_spoken: bool,
}

impl Progress {
    pub fn new(of_what: &'static str) -> Progress {
        let on_terminal = stderr().is_terminal();
        let pause = if on_terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        Progress { of_what, next: Instant::now() + PATIENCE, pause, on_terminal, has_spoken: false }
    }

    pub fn at(&mut self, done: u64, of: u64) {
        let of_what = self.of_what;
        self.tell(done == of, format_args!("{done} of {of} {of_what}"));
    }

    /// The same in other words.
    pub fn tell(&mut self, is_end: bool, text: Arguments<'_>) {
        let now = Instant::now();
        if now < self.next && !(self.has_spoken && is_end) {
            return;
        }
        (self.next, self.has_spoken) = (now + self.pause, true);
        let (before, after) = match self.on_terminal {
            true => ("\r", if is_end { "\n" } else { "" }),
            false => ("", "\n"),
        };
        eprint!("{before}cosm: {text}{after}");
    }
}
