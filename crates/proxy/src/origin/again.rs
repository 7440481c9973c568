//! How often, and for how long, a request goes out again that its origin did not process.

use std::time::{Duration, Instant};

/// How often a request is sent, at least, while its origin answers no other. Several connections that began together may end
/// together.
pub const TRIES: u32 = 4;

/// An origin that is slow with what it takes answers none for a while; for so long it is waited for.
const QUIET: Duration = Duration::from_secs(1);

/// Before a request is sent for the third time; twice as long before each later one, `PAUSE_MOST` at most.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MOST: Duration = Duration::from_millis(320);

/// How a request has fared so far.
#[derive(Default)]
pub struct Again(Option<TurnedBack>);

struct TurnedBack {
    times: u32,
    since: Instant,
    /// Since the origin was last seen to have answered others: how often, since when, and what it had answered by then.
    vain: u32,
    quiet: Instant,
    answers: u64,
}

impl Again {
    /// It was turned back once more by an origin that has answered so many others; by a connection that went on or had processed some, if
    /// it `was_of_use`. Gives the pause before it goes out again, if it does.
    pub fn turned_back(
        &mut self,
        answers: u64,
        was_of_use: bool,
        patience: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let new = TurnedBack { times: 0, since: now, vain: 0, quiet: now, answers };
        let so_far = self.0.get_or_insert(new);
        if so_far.answers != answers {
            (so_far.vain, so_far.quiet, so_far.answers) = (0, now, answers);
        }
        so_far.times += 1;
        so_far.vain += 1;
        let may_be_slow = was_of_use && now.duration_since(so_far.quiet) < QUIET;
        if (so_far.vain >= TRIES && !may_be_slow) || now.duration_since(so_far.since) >= patience {
            return None;
        }
        Some(match so_far.times {
            ..2 => Duration::ZERO,
            // It may have as much to do as it takes.
            times => PAUSE_MOST.min(PAUSE * (1 << (times - 2).min(5))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds at which a request goes out, and when it is given up.
    fn sent(was_of_use: bool, answers: impl Fn(u64) -> u64, patience: u64) -> (Vec<u64>, u64) {
        let (mut again, begin, mut now, mut sent) = (Again::default(), Instant::now(), 0, vec![0]);
        loop {
            let at = begin + Duration::from_millis(now);
            let patience = Duration::from_millis(patience);
            match again.turned_back(answers(now), was_of_use, patience, at) {
                Some(pause) => now += pause.as_millis() as u64,
                None => return (sent, now),
            }
            sent.push(now);
        }
    }

    #[test]
    fn an_origin_is_given_time_that_may_be_slow_with_others() {
        let (times, end) = sent(true, |_| 0, 60_000);
        assert_eq!((&times[..6], end), (&[0, 0, 10, 30, 70, 150][..], 1270));
        assert_eq!(
            sent(false, |_| 0, 60_000),
            (vec![0, 0, 10, 30], 30),
            "its connections end when they begin"
        );
        // It answers others all the time, slowly.
        let (times, end) = sent(true, |now| now / 900, 60_000);
        assert!((60_000..60_320).contains(&end) && times.len() < 200, "{end} {}", times.len());
        assert!(sent(true, |now| now, 500).1 >= 500);
    }
}
