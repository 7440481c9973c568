//! Days, and how much is asked for at their hours.

use super::Settings;

/// A day of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// From 0.
    pub number: u32,
    /// Its midnight, seconds since 1970.
    pub begins: u64,
    pub kind: DayKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayKind {
    Weekday,
    Weekend,
    Holiday,
}

/// Seconds of a day.
pub const DAY: u64 = 86_400;
/// Seconds of an hour.
pub const HOUR: u64 = 3_600;

impl Day {
    pub fn of(settings: &Settings, number: u32) -> Day {
        let begins = settings.begins + u64::from(number) * DAY;
        // 1970 began on a Thursday.
        let weekday = (begins / DAY + 3) % 7;
        let kind = match weekday {
            5 | 6 => DayKind::Weekend,
            _ if settings.holidays.contains(&number) => DayKind::Holiday,
            _ => DayKind::Weekday,
        };
        Day { number, begins, kind }
    }
}

/// At each full hour, of the highest of a weekday. The shape is that of Figures 6.1 and 7.2 of the thesis: high from 4:30 to
/// 16:30; the levels of a peak average 0.74 of the highest and those of the time off peak 0.34 (4,968 MB and 2,297 MB in 48 levels each,
/// and 141 MB the highest).
const WEEKDAY: [f64; 24] = [
    0.24, 0.18, 0.15, 0.15, 0.24, 0.40, 0.60, 0.78, 0.90, 0.97, 1.00, 0.98, 0.88, 0.90, 0.85, 0.76, 0.66,
    0.60, 0.55, 0.51, 0.47, 0.44, 0.38, 0.31,
];
/// Of a weekend's day and of a holiday: lower, and later.
const OTHER: [f64; 24] = [
    0.20, 0.15, 0.11, 0.09, 0.08, 0.08, 0.09, 0.12, 0.16, 0.21, 0.25, 0.27, 0.28, 0.28, 0.28, 0.28, 0.28,
    0.28, 0.28, 0.29, 0.30, 0.29, 0.27, 0.24,
];

/// How much is asked for at a second of such a day, of the most of a weekday: from 0 to 1.
pub fn level(kind: DayKind, second: u64) -> f64 {
    let hours = hours(kind);
    let hour = (second / HOUR) as usize % 24;
    let part = (second % HOUR) as f64 / HOUR as f64;
    hours[hour] * (1.0 - part) + hours[(hour + 1) % 24] * part
}

/// The mean level of such a day.
pub fn mean_level(kind: DayKind) -> f64 {
    hours(kind).iter().sum::<f64>() / 24.0
}

fn hours(kind: DayKind) -> &'static [f64; 24] {
    if kind == DayKind::Weekday { &WEEKDAY } else { &OTHER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_two_weeks() {
        let settings = Settings::default();
        let kinds = (0..14).map(|number| match Day::of(&settings, number).kind {
            DayKind::Weekday => 'w',
            DayKind::Weekend => 'e',
            DayKind::Holiday => 'h',
        });
        assert_eq!(kinds.collect::<String>(), "wwwwweehwwwwee");
    }

    #[test]
    fn the_curve_is_as_high_as_the_thesis_says() {
        let mean = |from: u64, to: u64| {
            let quarters: Vec<u64> = (from..to).map(|quarter| quarter % 96 * 900 + 450).collect();
            quarters.iter().map(|second| level(DayKind::Weekday, *second)).sum::<f64>()
                / quarters.len() as f64
        };
        // The highest of levels that vary is higher than the curve.
        let (peak, off) = (mean(18, 66), mean(66, 114));
        assert!((0.74..0.84).contains(&peak) && (0.34..0.40).contains(&off), "{peak} {off}");
    }
}
