//! When a disk is left, and when it is tried again: a state machine for each, whose clock is the caller's.
//!
//! ```text
//! serves ─ writes fail, reads fail in a row, or what it was asked for does not come, for some time ─→ left
//!    ↑                                                                                              │ ↑
//!    └───────────────── works, and knows what it missed, or is empty ─────────── tried ←── pause ───┘ │
//!                                                                                  └── in vain ──────┘
//! ```
//!
//! The pause doubles with each attempt, and goes on to double for a disk that is left again soon.

use std::fmt;
use std::time::{Duration, Instant};
use store::Signs;

/// For how long a disk is put up with.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How often it is looked at.
    pub look: Duration,
    /// Between two ticks of the journal.
    pub tick: Duration,
    /// Writes that fail.
    pub writes: Duration,
    /// Reads that fail, in a row.
    pub reads: u32,
    /// A read or a write that does not come.
    pub late: Duration,
    /// Before it is tried for the first time, and between two attempts at most.
    pub pause: (Duration, Duration),
    /// It is left again soon.
    pub soon: Duration,
    /// A start waits for it to open, and a return for what it has to write.
    pub open: Duration,
    /// The process that had it is about to let go of it.
    pub takes_over: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            look: Duration::from_millis(250),
            tick: Duration::from_secs(1),
            writes: Duration::from_secs(5),
            reads: 16,
            late: Duration::from_secs(5),
            pause: (Duration::from_secs(1), Duration::from_secs(60)),
            soon: Duration::from_secs(600),
            open: Duration::from_secs(20),
            takes_over: false,
        }
    }
}

/// Why a disk is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Writes,
    Reads,
    Late,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Writes => "writing to it fails",
            Why::Reads => "reading it fails",
            Why::Late => "it does not answer",
        })
    }
}

#[derive(Debug)]
pub struct Care {
    patience: Patience,
    /// While it serves, since when writes fail.
    failing: Option<Instant>,
    /// Since it came back the last time.
    returned: Option<Instant>,
    pause: Duration,
    /// While it is left and is not being tried: when it is.
    next: Option<Instant>,
}

impl Care {
    pub fn new(patience: Patience) -> Care {
        Care { patience, failing: None, returned: None, pause: patience.pause.0, next: None }
    }

    /// Whether a disk that serves is to be left.
    pub fn look(&mut self, signs: Signs, now: Instant) -> Option<Why> {
        let failing = signs.writes_fail.then(|| *self.failing.get_or_insert(now));
        self.failing = failing;
        let failing = failing.is_some_and(|since| now.duration_since(since) >= self.patience.writes);
        [
            (failing, Why::Writes),
            (signs.failed_reads >= self.patience.reads, Why::Reads),
            (signs.late >= self.patience.late, Why::Late),
        ]
        .into_iter()
        .find_map(|(is, why)| is.then_some(why))
    }

    /// It is left, or could not be opened.
    pub fn left(&mut self, now: Instant) {
        let soon = self.returned.is_some_and(|since| now.duration_since(since) < self.patience.soon);
        if !soon {
            self.pause = self.patience.pause.0;
        }
        self.failing = None;
        self.wait(now);
    }

    /// Whether it is to be tried now; then it is being tried until `tried`.
    pub fn is_due(&mut self, now: Instant) -> bool {
        self.next.take_if(|next| now >= *next).is_some()
    }

    pub fn tried(&mut self, serves: bool, now: Instant) {
        match serves {
            true => self.returned = Some(now),
            false => self.wait(now),
        }
    }

    fn wait(&mut self, now: Instant) {
        self.next = Some(now + self.pause);
        self.pause = (2 * self.pause).min(self.patience.pause.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const WELL: Signs = Signs { writes_fail: false, failed_reads: 0, late: Duration::ZERO };

    #[test]
    fn a_disk_is_left_for_what_lasts() {
        let (mut care, start) = (Care::new(Patience::default()), Instant::now());
        let fails = Signs { writes_fail: true, ..WELL };
        assert_eq!(care.look(fails, start), None);
        assert_eq!(care.look(fails, start + 4 * SECOND), None);
        assert_eq!(care.look(WELL, start + 5 * SECOND), None);
        assert_eq!(care.look(fails, start + 6 * SECOND), None, "it had worked meanwhile");
        assert_eq!(care.look(fails, start + 11 * SECOND), Some(Why::Writes));
        for (reads, late, why) in [(15, 4, None), (16, 0, Some(Why::Reads)), (0, 5, Some(Why::Late))] {
            let signs = Signs { failed_reads: reads, late: late * SECOND, ..WELL };
            assert_eq!(Care::new(Patience::default()).look(signs, start), why);
        }
    }

    #[test]
    fn attempts_come_one_at_a_time_after_pauses_that_double_and_begin_anew_after_a_good_while() {
        let (mut care, mut now) = (Care::new(Patience::default()), Instant::now());
        let pauses = |care: &mut Care, now: &mut Instant, count: usize| -> Vec<u64> {
            let mut pauses = Vec::new();
            for _ in 0..count {
                let began = *now;
                while !care.is_due(*now) {
                    *now += SECOND / 4;
                }
                assert!(!care.is_due(*now + 1_000 * SECOND), "one at a time");
                pauses.push(now.duration_since(began).as_secs());
                care.tried(false, *now);
            }
            pauses
        };
        assert!(!care.is_due(now), "it serves");
        care.left(now);
        assert_eq!(pauses(&mut care, &mut now, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
        care.tried(true, now);
        care.left(now + 5 * SECOND);
        now += 5 * SECOND;
        assert_eq!(pauses(&mut care, &mut now, 1), [60], "it was left again soon");
        care.tried(true, now);
        now += 601 * SECOND;
        care.left(now);
        assert_eq!(pauses(&mut care, &mut now, 2), [1, 2]);
    }
}
