//! The quiet part of the day, in which the disk has time for what nobody waits for: as the operator says, or as the load of the days
//! before was. The time of day is an argument, in minutes.

pub mod curve;

use curve::DayCurve;
use std::str::FromStr;

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// When off-peak is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OffPeak {
    /// The quietest hours, as learned; until that is, any.
    #[default]
    Auto,
    Any,
    Hours(Vec<Hours>),
}

/// From one minute of the day up to another, of the same day or the next; written `HH:MM-HH:MM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    to: u16,
}

impl OffPeak {
    /// The share of the day that is off-peak, if this minute is.
    pub fn share(&self, minute: u16, curve: &DayCurve) -> Option<f64> {
        let is_off_peak = |minute: u16| match self {
            OffPeak::Any => true,
            OffPeak::Auto => curve.is_quiet(minute),
            OffPeak::Hours(hours) => hours.iter().any(|hours| hours.contains(minute)),
        };
        let minutes = (0..DAY).filter(|minute| is_off_peak(*minute)).count();
        is_off_peak(minute % DAY).then(|| minutes as f64 / f64::from(DAY))
    }
}

impl Hours {
    fn contains(self, minute: u16) -> bool {
        let Hours { from, to } = self;
        match from < to {
            true => (from..to).contains(&minute),
            false => minute >= from || minute < to,
        }
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Hours, String> {
        let wrong = || format!("`{text}` is not a part of a day: write one like 01:00-06:00, in local time");
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            let is_time = digits(hour) && digits(minute);
            let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
            let minutes = hour * 60 + minute;
            (is_time && minute < 60 && minutes <= DAY).then_some(minutes)
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minute(from).ok_or_else(wrong)?, minute(to).ok_or_else(wrong)?);
        if from == to || from == DAY {
            return Err(wrong());
        }
        Ok(Hours { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_cross_midnight_and_overlap() {
        let hours = |text: &str| OffPeak::Hours(text.split(',').map(|h| h.parse().unwrap()).collect());
        let curve = DayCurve::default();
        let night = hours("22:00-04:00,01:30-06:00");
        for (minute, quiet) in
            [(0, true), (359, true), (360, false), (1_319, false), (1_320, true), (1_439, true)]
        {
            assert_eq!(night.share(minute, &curve), quiet.then_some(8.0 / 24.0), "{minute}");
        }
        assert_eq!(hours("00:00-24:00").share(700, &curve), Some(1.0));
        assert_eq!(OffPeak::Any.share(700, &curve), Some(1.0));
        assert_eq!(OffPeak::Auto.share(700, &curve), Some(1.0), "nothing is known yet");
    }

    #[test]
    fn what_is_no_part_of_a_day_is_refused() {
        for wrong in [
            "",
            "1:00-2:00",
            "01:00",
            "01:00-",
            "01:60-02:00",
            "24:01-02:00",
            "24:00-02:00",
            "03:00-03:00",
            "+1:00-02:00",
        ] {
            let why = wrong.parse::<Hours>().unwrap_err();
            assert!(why.contains("write one like 01:00-06:00"), "{wrong}: {why}");
        }
    }
}
