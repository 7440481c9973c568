//! The bandwidth profile: what each quarter of an hour fetched (Maltzahn, Figures 6.1 and 6.2), and where its peak is.
//!
//! Memory grows with the days, 4 KiB each, of which there may be `DAYS_MAX`.

use crate::day::{Calendar, Day, LEVELS, Peak, Weekdays};
use serde::Serialize;
use std::collections::BTreeMap;

/// Days from the first to the last; a trace of more has a wrong time in it.
pub const DAYS_MAX: i64 = 4000;
/// Levels of a peak that is looked for: 12 hours, as the thesis' (6.2.2).
const FOUND: usize = 48;

/// Bytes of one level, or of several summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// What clients asked for.
    pub referenced: u64,
    /// What an infinite cache missed of it.
    pub missed: u64,
    /// What a finite cache missed of it.
    pub missed_finite: u64,
    /// What of `missed` was prefetchable; counted in peaks alone.
    pub prefetchable: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Profile {
    days: BTreeMap<Day, Box<[Level; LEVELS]>>,
}

/// The mean of some days: bytes a level.
#[derive(Clone, Debug, Serialize)]
pub struct MeanDay {
    /// Of how many days.
    pub days: usize,
    pub referenced: Vec<f64>,
    pub missed: Vec<f64>,
    pub missed_finite: Vec<f64>,
    pub prefetchable: Vec<f64>,
}

impl Profile {
    /// The level of a day. An error is one line: the day is too far from others.
    pub fn level(&mut self, day: Day, level: usize) -> Result<&mut Level, String> {
        if !self.days.contains_key(&day) {
            let first = self.first().unwrap_or(day).min(day);
            let last = self.last().unwrap_or(day).max(day);
            if last - first >= DAYS_MAX {
                return Err(format!(
                    "the trace has requests that are {} days apart, more than {DAYS_MAX}: one of their times is wrong",
                    last - first
                ));
            }
        }
        let levels = self.days.entry(day).or_insert_with(|| Box::new([Level::default(); LEVELS]));
        Ok(&mut levels[level % LEVELS])
    }

    pub fn first(&self) -> Option<Day> {
        self.days.keys().next().copied()
    }

    pub fn last(&self) -> Option<Day> {
        self.days.keys().next_back().copied()
    }

    /// The levels of the peak of a day, from its begin on.
    pub fn peak(&self, day: Day, peak: Peak) -> Vec<Level> {
        let first = usize::from(peak.from()) / (24 * 60 / LEVELS);
        (first..first + peak.levels()).map(|nth| self.at(day, nth)).collect()
    }

    /// Level `nth` of a day, or of the next.
    fn at(&self, day: Day, nth: usize) -> Level {
        let levels = self.days.get(&(day + (nth / LEVELS) as i64));
        levels.map_or(Level::default(), |levels| levels[nth % LEVELS])
    }

    /// The mean over the days from the first to the last of this kind, of which some may have no request.
    pub fn mean(&self, is_one: impl Fn(Day) -> bool) -> MeanDay {
        let (first, last) = (self.first().unwrap_or(0), self.last().unwrap_or(-1));
        let days: Vec<Day> = (first..=last).filter(|day| is_one(*day)).collect();
        let count = days.len().max(1) as f64;
        let mean = |of: fn(&Level) -> u64| {
            let sum = |level: usize| days.iter().map(|day| of(&self.at(*day, level)) as f64).sum::<f64>();
            (0..LEVELS).map(|level| sum(level) / count).collect()
        };
        MeanDay {
            days: days.len(),
            referenced: mean(|level| level.referenced),
            missed: mean(|level| level.missed),
            missed_finite: mean(|level| level.missed_finite),
            prefetchable: mean(|level| level.prefetchable),
        }
    }

    /// The 12 hours of the day in which most was asked for, summed over the days of the week that have a peak. `None` if nothing was asked
    /// for on them.
    pub fn find_peak(&self, days: Weekdays, calendar: Calendar) -> Option<Peak> {
        let day = self.mean(|day| days.contains(calendar.weekday(day))).referenced;
        let sum = |first: usize| (first..first + FOUND).map(|nth| day[nth % LEVELS]).sum::<f64>();
        let first = (0..LEVELS).max_by(|a, b| sum(*a).total_cmp(&sum(*b)).then(b.cmp(a)))?;
        let minute = |level: usize| (level % LEVELS * (24 * 60 / LEVELS)) as u16;
        (sum(first) > 0.0).then(|| Peak::new(minute(first), minute(first + FOUND), days).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_found_where_most_is_asked_for_also_across_midnight() {
        for begins in [0, 18, 40, 70, 95] {
            let mut profile = Profile::default();
            for day in 0..7 {
                for nth in 0..LEVELS {
                    let level = profile.level(day, (begins + nth) % LEVELS).unwrap();
                    level.referenced = if nth < 48 { 100 } else { 99 };
                }
            }
            // Days 2 and 3, a weekend, are of another habit.
            for day in [2, 3] {
                profile.level(day, (begins + 60) % LEVELS).unwrap().referenced = 1 << 40;
            }
            let peak = profile.find_peak(Weekdays::WORKING, Calendar::UTC).unwrap();
            assert_eq!((peak.from(), peak.levels()), (begins as u16 * 15, 48));
        }
        assert_eq!(Profile::default().find_peak(Weekdays::ALL, Calendar::UTC), None);
    }

    #[test]
    fn the_mean_counts_days_without_requests_and_days_apart_are_an_error() {
        let mut profile = Profile::default();
        profile.level(10, 5).unwrap().missed = 30;
        profile.level(12, 5).unwrap().missed = 60;
        let mean = profile.mean(|_| true);
        assert_eq!((mean.days, mean.missed[5], mean.missed[6]), (3, 30.0, 0.0));
        assert!(profile.level(10 + DAYS_MAX, 0).unwrap_err().contains("4000 days apart"));
        assert!(profile.level(9 + DAYS_MAX, 0).is_ok());
    }
}
