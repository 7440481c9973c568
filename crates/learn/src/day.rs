//! When peak and off-peak are: the hours of a day, and which days have a peak (Maltzahn 6.2.2).
//!
//! Time is a number of seconds since 1970 in UTC; a `Calendar` makes local days of it. A day is a number, of days since 1970 in
//! local time. Each peak has an off-peak before it, which with the peak makes 24 hours. What is in neither, as the hours of a peak on
//! a day that has none, is `Outside`.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Seconds of a level: what is measured as one (6.2.4, footnote 2).
pub const LEVEL: u64 = 15 * 60;
/// Levels of a day.
pub const LEVELS: usize = 96;
/// Minutes of a level and of a day.
const LEVEL_MINUTES: u16 = 15;
const DAY_MINUTES: u16 = 24 * 60;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A day in local time: days since 1970.
pub type Day = i64;

/// How times become days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Calendar {
    /// Minutes that local time is ahead of UTC, the whole year.
    pub utc_offset: i16,
    /// Whether times count from 1970; else from an unknown moment, and days have no names.
    pub has_dates: bool,
}

/// What that means for figures.
pub const NO_DATES: &str = "The times of the trace count from its own beginning: no day has a name, each has a peak, and --utc-offset does not apply.";

/// Seconds: what begins in 1970 counts from its own beginning.
const YEAR: u64 = 365 * 24 * 60 * 60;

/// Which days of the week have a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weekdays(u8);

/// When peak is: from a minute of the day to another, of the same day or the next, on some days of the week. Both are on the
/// boundary of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    from: u16,
    to: u16,
    pub days: Weekdays,
}

/// What part of which day a time is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Before the peak of that day.
    OffPeak(Day),
    Peak(Day),
    Outside,
}

impl Calendar {
    pub const UTC: Calendar = Calendar { utc_offset: 0, has_dates: true };

    /// Of a trace whose first request is at a time, in seconds.
    pub fn begun(first: u64, utc_offset: i16) -> Calendar {
        match first >= YEAR {
            true => Calendar { utc_offset, has_dates: true },
            false => Calendar { utc_offset: 0, has_dates: false },
        }
    }

    /// Seconds since 1970 in local time.
    fn local(self, time: u64) -> i64 {
        time.min(i64::MAX as u64 / 2) as i64 + i64::from(self.utc_offset) * 60
    }

    pub fn day(self, time: u64) -> Day {
        self.local(time).div_euclid(DAY_SECONDS)
    }

    /// Which level of its day, from 0 to 95.
    pub fn level(self, time: u64) -> usize {
        (self.local(time).rem_euclid(DAY_SECONDS) / LEVEL as i64) as usize
    }

    /// Seconds since 1970 in UTC at which a minute of a day is, 0 where that is before 1970.
    pub fn time(self, day: Day, minute: i32) -> u64 {
        let local = day * DAY_SECONDS + i64::from(minute) * 60;
        u64::try_from(local - i64::from(self.utc_offset) * 60).unwrap_or(0)
    }

    /// 0 is Monday; `None` where days have no names.
    pub fn weekday(self, day: Day) -> Option<usize> {
        // 1 January 1970 was a Thursday.
        self.has_dates.then(|| (day + 3).rem_euclid(7) as usize)
    }
}

const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Weekdays {
    pub const ALL: Weekdays = Weekdays(0x7f);
    /// Monday to Friday.
    pub const WORKING: Weekdays = Weekdays(0x1f);

    /// 0 is Monday. A day without a name is one of them.
    pub fn contains(self, weekday: Option<usize>) -> bool {
        weekday.is_none_or(|weekday| self.0 >> weekday & 1 == 1)
    }
}

impl Peak {
    /// 4:30 to 16:30 from Monday to Friday (6.2.2).
    pub const THESIS: Peak = Peak { from: 4 * 60 + 30, to: 16 * 60 + 30, days: Weekdays::WORKING };

    /// Minutes of the day; an error says what is wrong with them.
    pub fn new(from: u16, to: u16, days: Weekdays) -> Result<Peak, String> {
        let on_boundary = from.is_multiple_of(LEVEL_MINUTES) && to.is_multiple_of(LEVEL_MINUTES);
        match (from % DAY_MINUTES, to % DAY_MINUTES) {
            _ if !on_boundary || from > DAY_MINUTES || to > DAY_MINUTES => {
                Err("a peak begins and ends at a full quarter of an hour".into())
            }
            (from, to) if from == to => Err("a peak is shorter than a day, and longer than nothing".into()),
            (from, to) => Ok(Peak { from, to, days }),
        }
    }

    /// The minute of the day at which it begins.
    pub fn from(self) -> u16 {
        self.from
    }

    /// The minute of a day, its own or the next, at which it ends.
    pub fn to(self) -> u16 {
        self.to
    }

    /// Levels that it has.
    pub fn levels(self) -> usize {
        usize::from(((self.to + DAY_MINUTES - self.from) % DAY_MINUTES) / LEVEL_MINUTES)
    }

    /// Levels that the off-peak before it has.
    pub fn off_peak_levels(self) -> usize {
        LEVELS - self.levels()
    }

    pub fn is_on(self, day: Day, calendar: Calendar) -> bool {
        self.days.contains(calendar.weekday(day))
    }

    /// Begin of the off-peak before the peak of a day, begin and end of the peak; seconds since 1970.
    pub fn times(self, day: Day, calendar: Calendar) -> [u64; 3] {
        let from = i32::from(self.from);
        let end = from + (self.levels() as i32) * i32::from(LEVEL_MINUTES);
        [end - i32::from(DAY_MINUTES), from, end].map(|minute| calendar.time(day, minute))
    }

    /// Where a time is.
    pub fn period(self, time: u64, calendar: Calendar) -> Period {
        let level_of_day = calendar.level(time) as u16;
        // Levels since a peak began; the day is that on which it did.
        let since = (level_of_day + LEVELS as u16 - self.from / LEVEL_MINUTES) % LEVELS as u16;
        let began = calendar.day(time) - i64::from(level_of_day < self.from / LEVEL_MINUTES);
        match usize::from(since) < self.levels() {
            true if self.is_on(began, calendar) => Period::Peak(began),
            false if self.is_on(began + 1, calendar) => Period::OffPeak(began + 1),
            _ => Period::Outside,
        }
    }
}

impl Default for Peak {
    fn default() -> Peak {
        Peak::THESIS
    }
}

/// `mon-fri`, `sat,sun`, `fri-mon`.
impl FromStr for Weekdays {
    type Err = String;

    fn from_str(text: &str) -> Result<Weekdays, String> {
        let wrong = || format!("`{text}` are no days of the week: write some like mon-fri or sat,sun");
        let day = |name: &str| NAMES.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
        let mut days = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (mut at, last) = (day(first).ok_or_else(wrong)?, day(last).ok_or_else(wrong)?);
            days |= 1 << at;
            while at != last {
                at = (at + 1) % NAMES.len();
                days |= 1 << at;
            }
        }
        Ok(Weekdays(days))
    }
}

/// `04:30-16:30`, from Monday to Friday.
impl FromStr for Peak {
    type Err = String;

    fn from_str(text: &str) -> Result<Peak, String> {
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            let (hour, minute) =
                (digits(hour) && digits(minute)).then(|| (hour.parse::<u16>(), minute.parse::<u16>()))?;
            let (hour, minute) = (hour.ok()?, minute.ok()?);
            (hour <= 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let ends = text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
        let wrong = || format!("`{text}` is no part of a day: write one like 04:30-16:30, in local time");
        let (from, to) = ends.ok_or_else(wrong)?;
        Peak::new(from, to, Weekdays::WORKING).map_err(|why| format!("`{text}`: {why}"))
    }
}

impl fmt::Display for Weekdays {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if *self == Weekdays::WORKING {
            return f.write_str("mon-fri");
        }
        if *self == Weekdays::ALL {
            return f.write_str("mon-sun");
        }
        let days: Vec<&str> = (0..7).filter(|day| self.contains(Some(*day))).map(|day| NAMES[day]).collect();
        f.write_str(&days.join(","))
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Peak { from, to, .. } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

impl Serialize for Weekdays {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    #[test]
    fn each_peak_has_the_off_peak_before_it() {
        let period = |hours: f64| Peak::THESIS.period((hours * 3600.0) as u64, Calendar::UTC);
        // Of the first day, a Thursday.
        assert_eq!(period(0.0), Period::OffPeak(0));
        assert_eq!(period(4.49), Period::OffPeak(0));
        assert_eq!(period(4.5), Period::Peak(0));
        assert_eq!(period(16.49), Period::Peak(0));
        assert_eq!(period(16.5), Period::OffPeak(1));
        // Saturday has no peak, and nothing is before it; Sunday's evening is before Monday.
        assert_eq!(period(24.0 + 16.5), Period::Outside);
        assert_eq!(period(48.0 + 12.0), Period::Outside);
        assert_eq!(period(72.0 + 12.0), Period::Outside);
        assert_eq!(period(72.0 + 17.0), Period::OffPeak(4));
        assert_eq!(period(96.0 + 5.0), Period::Peak(4));
        let times = Peak::THESIS.times(4, Calendar::UTC).map(|time| time as f64 / 3600.0);
        assert_eq!(times, [72.0 + 16.5, 96.0 + 4.5, 96.0 + 16.5]);
        assert_eq!((Peak::THESIS.levels(), Peak::THESIS.off_peak_levels()), (48, 48));
    }

    #[test]
    fn a_peak_may_cross_midnight_and_belongs_to_the_day_on_which_it_begins() {
        let peak = Peak { days: Weekdays::ALL, ..("18:00-02:00".parse().unwrap()) };
        let period = |hours: u64| peak.period(hours * HOUR, Calendar::UTC);
        assert_eq!(
            [17, 18, 25, 26].map(period),
            [Period::OffPeak(0), Period::Peak(0), Period::Peak(0), Period::OffPeak(1)]
        );
        assert_eq!(peak.times(0, Calendar::UTC)[1..], [18 * HOUR, 26 * HOUR]);
        assert_eq!(peak.times(1, Calendar::UTC)[0], 26 * HOUR);
    }

    #[test]
    fn local_time_and_days_without_names() {
        let boston = Calendar { utc_offset: -300, has_dates: true };
        assert_eq!((boston.day(0), boston.level(0)), (-1, 19 * 4));
        assert_eq!(boston.time(0, 0), 5 * HOUR);
        assert_eq!(Peak::THESIS.period(10 * HOUR, boston), Period::Peak(0));
        let nameless = Calendar::begun(5 * HOUR, -300);
        assert_eq!(Calendar::begun(YEAR, -300), boston);
        assert_eq!(Peak::THESIS.period(48 * HOUR + 12 * HOUR, nameless), Period::Peak(2));
    }

    #[test]
    fn peaks_and_days_read_as_people_write_them() {
        for (text, days) in [("mon-fri", 0x1f), ("sat,sun", 0x60), ("fri-mon", 0x71), ("Wed", 4)] {
            assert_eq!(text.parse(), Ok(Weekdays(days)));
        }
        assert_eq!(("mon,tue-sun".parse::<Weekdays>().unwrap().to_string().as_str()), "mon-sun");
        assert_eq!(Peak::THESIS.to_string().parse(), Ok(Peak::THESIS));
        assert!("00:00-24:00".parse::<Peak>().unwrap_err().contains("shorter than a day"));
        for wrong in ["", "4:30-16:30", "04:31-16:30", "04:30", "25:00-26:00", "04:30-04:30", "24:15-01:00"] {
            let why = wrong.parse::<Peak>().unwrap_err();
            assert!(!why.contains('\n') && !why.is_empty(), "{wrong}: {why}");
        }
        assert!("mon-".parse::<Weekdays>().is_err() && "".parse::<Weekdays>().is_err());
    }
}
