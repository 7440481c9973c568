//! A sum over the last 24 hours.

use crate::engine::Millis;

const HOUR: Millis = 3_600_000;
const HOURS: u64 = 24;
pub const DAY: Millis = HOURS * HOUR;

/// By the hour: what is older than 23 to 24 hours is forgotten.
#[derive(Default)]
pub struct LastDay {
    hours: [u64; HOURS as usize],
    /// The last of them, since the clock's beginning.
    hour: u64,
}

impl LastDay {
    pub fn add(&mut self, more: u64, now: Millis) {
        let hour = (now / HOUR).max(self.hour);
        for passed in (self.hour + 1..=hour).take(HOURS as usize) {
            self.hours[(passed % HOURS) as usize] = 0;
        }
        self.hour = hour;
        self.hours[(hour % HOURS) as usize] += more;
    }

    /// How long the time is that `total` is of.
    pub fn covers(now: Millis) -> Millis {
        if now < DAY { now } else { DAY - HOUR + now % HOUR }
    }

    pub fn total(&self, now: Millis) -> u64 {
        let first = (now / HOUR + 1).saturating_sub(HOURS);
        let known = (self.hour + 1).saturating_sub(HOURS);
        (first.max(known)..=self.hour).map(|hour| self.hours[(hour % HOURS) as usize]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_a_day_does_not_count() {
        let mut day = LastDay::default();
        for hour in 0..100 {
            day.add(1, hour * HOUR);
            assert_eq!(day.total(hour * HOUR + 5), (hour + 1).min(24), "{hour}");
            assert_eq!(LastDay::covers(hour * HOUR + 5), hour.min(23) * HOUR + 5, "{hour}");
        }
        assert_eq!(day.total(110 * HOUR), 13);
        assert_eq!(day.total(123 * HOUR), 0);
        day.add(5, 500 * HOUR);
        assert_eq!(day.total(500 * HOUR), 5);
        day.add(2, 499 * HOUR);
        assert_eq!(day.total(523 * HOUR), 7, "a clock that goes back");
    }
}
