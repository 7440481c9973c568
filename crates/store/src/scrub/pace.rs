//! How fast the scrub goes: how many segments are due is a function of the time since 1970. So a restart goes on about where the
//! last life was, and no segment waits for much longer than the period.

use crate::engine::Millis;
use std::time::Duration;

/// A life begins so far behind, since the one before may have waited for its night; but no further than so many parts of the period.
const BEHIND: Millis = crate::day::DAY;
const PARTS: Millis = 4;
/// What is behind is made up for at so many times the pace that the period asks for.
const HASTE: f64 = 2.0;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    period: Millis,
    /// Milliseconds since 1970 at the engine's beginning of time.
    epoch: Millis,
    pub segments: u64,
    /// Bytes of one.
    segment: u64,
}

impl Pace {
    pub fn new(period: Duration, epoch: Millis, segments: u64, segment: u32) -> Pace {
        let period = (period.as_millis() as Millis).max(1);
        Pace { period, epoch, segments, segment: segment.into() }
    }

    /// Segments that are to be begun by now, of all since 1970; the remainder by their number is the segment.
    pub fn due(&self, now: Millis) -> u64 {
        self.in_all(self.epoch.saturating_add(now))
    }

    /// Where a life begins.
    pub fn start(&self) -> u64 {
        self.in_all(self.epoch.saturating_sub(BEHIND.min(self.period / PARTS)))
    }

    fn in_all(&self, time: Millis) -> u64 {
        (u128::from(time) * u128::from(self.segments) / u128::from(self.period)) as u64
    }

    /// Bytes in a millisecond, at most, where there is such a share of the day for it.
    pub fn most(&self, share: f64) -> f64 {
        HASTE * self.segments as f64 * self.segment as f64 / self.period as f64 / share.clamp(0.01, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::day::DAY;

    #[test]
    fn every_segment_comes_once_in_a_period_and_a_restart_goes_on() {
        let month = Duration::from_millis(30 * DAY);
        let epoch = 20_000 * DAY + 12_345;
        let pace = Pace::new(month, epoch, 3_000, 1 << 20);
        assert_eq!(pace.due(30 * DAY) - pace.due(0), 3_000);
        assert_eq!(pace.due(0) - pace.start(), 100, "a day");
        // Ten days later.
        let again = Pace::new(month, epoch + 10 * DAY, 3_000, 1 << 20);
        assert_eq!((again.due(0), again.start()), (pace.due(10 * DAY), pace.due(9 * DAY)));
        let minute = Pace::new(Duration::from_secs(60), epoch, 3_000, 1 << 20);
        assert_eq!(minute.due(0) - minute.start(), 750, "a quarter");
        assert_eq!(minute.most(1.0), 2.0 * 3_000.0 * 1_048_576.0 / 60_000.0);
        assert_eq!(minute.most(0.25), 4.0 * minute.most(1.0));
    }

    #[test]
    fn no_time_overflows() {
        let pace = Pace::new(Duration::from_millis(1), Millis::MAX / 2, 1 << 32, 16 << 20);
        let _ = (pace.due(Millis::MAX), pace.start(), pace.most(0.0));
    }
}
