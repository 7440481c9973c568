//! Times as a person reads them in a log.

use jiff::{SignedDuration, Timestamp};
use std::fmt::Display;

/// Of seconds since 1970: `2027-02-23T15:15:02Z`.
pub fn date(seconds: u64) -> impl Display {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// Of seconds: `6h 5m 39s`.
pub fn span(seconds: u64) -> String {
    format!("{:#}", SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_one_reads_them() {
        assert_eq!(date(1_803_395_702).to_string(), "2027-02-23T15:15:02Z");
        assert_eq!(date(u64::MAX).to_string(), Timestamp::MAX.to_string());
        assert_eq!(span(21_939), "6h 5m 39s");
        assert!(!span(u64::MAX).is_empty());
    }
}
