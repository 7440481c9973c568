//! When a certificate is renewed, and when an order that failed is tried again. Time and chance are arguments.

use crate::certificate::Life;
use std::time::Duration;

/// After the first failure: Let's Encrypt bears five in an hour for a name.
const FIRST: Duration = Duration::from_secs(120);
const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// Of whatever life a certificate is, it is not ordered more often.
const SPACING: Duration = Duration::from_secs(30);
/// No time that is waited for lies further ahead.
const AHEAD: u64 = 24 * 3600;
/// How often an authority is asked when to renew, whatever it says itself (RFC 9773 section 4.3.2).
const ASKED: (u64, u64) = (60, 24 * 3600);

/// In which an authority wants to renew, in seconds since 1970 (RFC 9773 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u64,
    pub end: u64,
}

/// When to renew, in seconds since 1970: at a moment of the authority's window that chance (0 to 1) decides, else after two thirds of the
/// life; and never in its last quarter, so that there is time to try again.
///
/// Of a window that is longer than the certificate lasts, the first third of the life does not count, or half of all new ones would be
/// renewed at once. One that has ended by then means that: the certificate is revoked, or will be.
pub fn due(life: Life, window: Option<Window>, chance: f64) -> u64 {
    let latest = life.until.saturating_sub(life.length() / 4);
    let earliest = life.from.saturating_add(life.length() / 3);
    let wanted = match window {
        Some(Window { start, end }) if start < end => {
            let start = if end > earliest { start.max(earliest) } else { start };
            start + ((end - start) as f64 * chance) as u64
        }
        _ => life.from.saturating_add(life.length() / 3 * 2),
    };
    wanted.min(latest)
}

/// How long until the authority is asked again, by what it said itself. Of a life of minutes not longer than a tenth.
pub fn ask_again(said: Duration, life: Life) -> Duration {
    let most = ASKED.1.min((life.length() / 10).max(1));
    Duration::from_secs(said.as_secs().clamp(ASKED.0.min(most), most))
}

/// Whether a time is over that was to be waited for, both in seconds since 1970. One that lies too far ahead was set by a clock that
/// was wrong.
pub fn is_over(until: u64, now: u64) -> bool {
    until <= now || until > now.saturating_add(AHEAD)
}

/// How long after one order the next may be, though the certificate that came of it be due at once: a 20th of its life, at least half a
/// minute, at most 6 hours.
pub fn spacing(life: Life) -> Duration {
    twentieth(life).clamp(SPACING, LONGEST)
}

fn twentieth(life: Life) -> Duration {
    Duration::from_secs((life.length() / 20).max(1))
}

/// How long to wait after so many failures in a row: twice as long each time, spread by chance (0 to 1); a 20th of the life of the
/// certificate that there is, at most, so that one of minutes is renewed before it ends; and at least as long as the last failure wants.
pub fn pause(failures: u32, held: Option<Life>, least: Duration, chance: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST);
    let bounded = held.map_or(doubled, |life| doubled.min(twentieth(life)));
    bounded.max(least).mul_f64(1.0 + chance / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const FROM: u64 = 1_800_000_000;

    fn life(seconds: u64) -> Life {
        Life { from: FROM, until: FROM + seconds }
    }

    #[test]
    fn it_is_renewed_in_the_authoritys_window_or_after_two_thirds() {
        let life = life(90 * DAY);
        assert_eq!(due(life, None, 0.7), FROM + 60 * DAY);
        let window = Window { start: FROM + 40 * DAY, end: FROM + 42 * DAY };
        for (chance, at) in [(0.0, 40), (0.5, 41), (1.0, 42)] {
            assert_eq!(due(life, Some(window), chance), FROM + at * DAY);
        }
        // It is revoked: at once.
        assert!(due(life, Some(Window { start: FROM - 2 * DAY, end: FROM - DAY }), 0.5) < FROM);
        let wide = Window { start: FROM, end: FROM + 90 * DAY };
        assert_eq!(
            (due(life, Some(wide), 0.0), due(life, Some(wide), 0.5)),
            (FROM + 30 * DAY, FROM + 60 * DAY)
        );
        // What is no window, and one that comes too late.
        assert_eq!(due(life, Some(Window { start: 5, end: 5 }), 0.0), FROM + 60 * DAY);
        assert_eq!(
            due(life, Some(Window { start: FROM + 89 * DAY, end: u64::MAX }), 1.0),
            life.until - 45 * DAY / 2
        );
    }

    #[test]
    fn the_authority_is_asked_neither_too_often_nor_too_late() {
        let seconds = |said, of| ask_again(Duration::from_secs(said), life(of)).as_secs();
        assert_eq!(seconds(0, 90 * DAY), 60);
        assert_eq!(seconds(6 * 3600, 90 * DAY), 6 * 3600);
        assert_eq!(seconds(u64::MAX, 90 * DAY), DAY);
        assert_eq!(seconds(6 * 3600, 120), 12);
        assert_eq!(seconds(0, 0), 1);
    }

    #[test]
    fn a_clock_that_was_wrong_holds_nothing_back_for_long() {
        for (until, is) in [(0, true), (FROM, true), (FROM + 1, false), (FROM + DAY, false)] {
            assert_eq!(is_over(until, FROM), is, "{until}");
        }
        assert!(is_over(FROM + DAY + 1, FROM) && is_over(u64::MAX, FROM));
        // Every pause can be waited for.
        assert!(!is_over(FROM + pause(u32::MAX, None, LONGEST, 1.0).as_secs(), FROM));
    }

    #[test]
    fn one_order_follows_another_not_at_once() {
        let of = |seconds| spacing(life(seconds)).as_secs();
        assert_eq!((of(90 * DAY), of(6 * DAY), of(DAY), of(60), of(0)), (6 * 3600, 6 * 3600, 4320, 30, 30));
    }

    #[test]
    fn failures_wait_longer_each_time() {
        let hour = Duration::from_secs(3600);
        let waits = |held, chance| {
            (1..=9).map(|n| pause(n, held, Duration::ZERO, chance).as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits(None, 0.0), [120, 240, 480, 960, 1920, 3840, 7680, 15_360, 21_600]);
        assert_eq!(pause(u32::MAX, None, Duration::ZERO, 1.0).as_secs(), 23_760);
        // Five in the first hour.
        assert_eq!(
            waits(None, 0.0)
                .iter()
                .scan(0, |at, wait| {
                    *at += wait;
                    Some(*at)
                })
                .filter(|at| *at < 3600)
                .count(),
            4
        );
        assert_eq!(waits(Some(life(120)), 0.0), [6; 9]);
        assert_eq!(pause(1, None, hour, 0.0).as_secs(), 3600);
        assert_eq!(pause(1, Some(life(120)), hour, 0.0).as_secs(), 3600);
    }
}
