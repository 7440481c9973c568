//! HTTP-date: the three forms every recipient must read, and the one a sender writes (RFC 9110 section 5.6.7).
//!
//! A cache reads them without regard to case, and takes no zone but GMT (RFC 9111 section 4.2). Anything else is no
//! date: `None`, which each field's own rule turns into its safe meaning.

use crate::Time;
use http::HeaderValue;
use std::time::{Duration, UNIX_EPOCH};

/// `now` decides the century of the two-digit years of the RFC 850 form. Dates before 1970 are 1970.
pub fn parse_http_date(value: &[u8], now: Time) -> Option<Time> {
    let value = value.trim_ascii();
    imf_fixdate(Cursor(value)).or_else(|| rfc850(Cursor(value), now)).or_else(|| asctime(Cursor(value)))
}

/// The preferred form (IMF-fixdate). Times after the year 9999 are its last second.
pub fn http_date(time: Time) -> HeaderValue {
    let time = UNIX_EPOCH + Duration::from_secs(time.min(LAST_SECOND));
    HeaderValue::try_from(httpdate::fmt_http_date(time)).unwrap_or_else(|_| HeaderValue::from_static(EPOCH))
}

const LAST_SECOND: Time = 253_402_300_799;
const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
const SECONDS_PER_YEAR: u64 = 31_556_952;

const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(mut at: Cursor) -> Option<Time> {
    at.name(&DAYS)?;
    at.literal(b", ")?;
    let day = at.digits(2)?;
    at.literal(b" ")?;
    let month = at.name(&MONTHS)?;
    at.literal(b" ")?;
    let year = at.digits(4)?;
    at.literal(b" ")?;
    let time = at.time_of_day()?;
    at.literal(b" GMT")?;
    at.end()?;
    seconds(year, month, day, time)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(mut at: Cursor, now: Time) -> Option<Time> {
    at.name(&LONG_DAYS)?;
    at.literal(b", ")?;
    let day = at.digits(2)?;
    at.literal(b"-")?;
    let month = at.name(&MONTHS)?;
    at.literal(b"-")?;
    let year = century(at.digits(2)?, now);
    at.literal(b" ")?;
    let time = at.time_of_day()?;
    at.literal(b" GMT")?;
    at.end()?;
    seconds(year, month, day, time)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(mut at: Cursor) -> Option<Time> {
    at.name(&DAYS)?;
    at.literal(b" ")?;
    let month = at.name(&MONTHS)?;
    at.literal(b" ")?;
    let day = if at.literal(b" ").is_some() { at.digits(1)? } else { at.digits(2)? };
    at.literal(b" ")?;
    let time = at.time_of_day()?;
    at.literal(b" ")?;
    let year = at.digits(4)?;
    at.end()?;
    seconds(year, month, day, time)
}

/// What appears to lie more than fifty years ahead is the latest such year in the past.
fn century(two_digits: u64, now: Time) -> u64 {
    let this_year = 1970 + now.min(LAST_SECOND) / SECONDS_PER_YEAR;
    let year = this_year - this_year % 100 + 100 + two_digits;
    [0, 100, 200].into_iter().map(|back| year - back).find(|y| *y <= this_year + 50).unwrap_or(year - 200)
}

fn seconds(year: u64, month: usize, day: u64, time_of_day: u64) -> Option<Time> {
    if day == 0 || day > days_in_month(year, month) {
        return None;
    }
    if year < 1970 {
        return Some(0);
    }
    let years = year - 1;
    let leap_days = years / 4 - years / 100 + years / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months: u64 = (0..month).map(|m| days_in_month(year, m)).sum();
    Some(((year - 1970) * 365 + leap_days + months + day - 1) * 86_400 + time_of_day)
}

/// `month` counts from 0.
fn days_in_month(year: u64, month: usize) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 => 28 + u64::from(leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn literal(&mut self, expected: &[u8]) -> Option<()> {
        let (head, tail) = self.0.split_at_checked(expected.len())?;
        head.eq_ignore_ascii_case(expected).then(|| self.0 = tail)
    }

    fn name(&mut self, names: &[&[u8]]) -> Option<usize> {
        (0..names.len()).find(|i| self.literal(names[*i]).is_some())
    }

    fn digits(&mut self, count: usize) -> Option<u64> {
        let (head, tail) = self.0.split_at_checked(count)?;
        let value =
            head.iter().try_fold(0, |v, b| b.is_ascii_digit().then(|| v * 10 + u64::from(b - b'0')))?;
        self.0 = tail;
        Some(value)
    }

    /// `08:49:37`; the sixtieth second is a leap second.
    fn time_of_day(&mut self) -> Option<u64> {
        let hour = self.digits(2)?;
        self.literal(b":")?;
        let minute = self.digits(2)?;
        self.literal(b":")?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = 1_750_000_000; // June 2025

    #[test]
    fn rfc9110_5_6_7_three_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "SUN, 06 nov 1994 08:49:37 gmt",
            " Sun, 06 Nov 1994 08:49:37 GMT ",
        ] {
            assert_eq!(parse_http_date(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn rfc9110_5_6_7_two_digit_years() {
        for (text, now, year) in [
            ("Sunday, 01-Jan-75 00:00:00 GMT", NOW, 2075),
            ("Sunday, 01-Jan-76 00:00:00 GMT", NOW, 1976),
            ("Sunday, 01-Jan-25 00:00:00 GMT", NOW, 2025),
            ("Sunday, 01-Jan-05 00:00:00 GMT", 915_148_900, 2005),
        ] {
            assert_eq!(parse_http_date(text.as_bytes(), now), seconds(year, 0, 1, 0), "{text}");
        }
    }

    #[test]
    fn not_dates() {
        for text in [
            "",
            "0",
            "-1",
            "now",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 31 Feb 2050 02:01:18 GMT",
            "Thu, 29 Feb 2100 02:01:18 GMT",
            "Thu, 00 Feb 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
        ] {
            assert_eq!(parse_http_date(text.as_bytes(), NOW), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, now: Time) {
            parse_http_date(&bytes, now);
        }

        #[test]
        fn reads_what_it_writes(time in 0..=LAST_SECOND) {
            prop_assert_eq!(parse_http_date(http_date(time).as_bytes(), NOW), Some(time));
        }

        #[test]
        fn writes_any_time(time: Time) {
            http_date(time);
        }
    }
}
