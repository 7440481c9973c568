//! HTTP-date. What httpdate reads means the same here; a written date reads back; neither case nor space around it
//! matters; a year of two digits never lies more than fifty ahead.
#![no_main]

use cache::{http_date, parse_http_date};
use cosm_fuzz::Input;
use http::HeaderValue;
use libfuzzer_sys::fuzz_target;
use std::time::UNIX_EPOCH;

const LAST_SECOND: u64 = 253_402_300_799;
const LONGEST_YEAR: u64 = 366 * 86_400;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let now = u64::from(input.u32());
    let Ok(value) = HeaderValue::from_bytes(input.rest()) else { return };
    let text = value.as_bytes();
    assert_eq!(parse_http_date(http_date(now).as_bytes(), now), Some(now));

    let read = parse_http_date(text, now);
    assert_eq!(parse_http_date(&text.to_ascii_uppercase(), now), read);
    assert_eq!(parse_http_date(&[b" ", text, b" "].concat(), now), read);
    let two_digits = text.contains(&b'-');
    if let Some(time) = read {
        assert!(time <= LAST_SECOND + 1, "a leap second at most");
        assert_eq!(parse_http_date(http_date(time).as_bytes(), now), Some(time.min(LAST_SECOND)));
        assert_eq!(parse_http_date(&[text, b"x"].concat(), now), None);
        assert!(!two_digits || time < now + 51 * LONGEST_YEAR);
    }
    // Of dates with two digits httpdate takes more than it should, and the century is each reader's own guess.
    let text = std::str::from_utf8(text).ok().filter(|_| !two_digits);
    if let Some(other) = text.and_then(|text| httpdate::parse_http_date(text).ok()) {
        let other = other.duration_since(UNIX_EPOCH).expect("httpdate knows no time before 1970").as_secs();
        assert_eq!(read, Some(other));
    }
});
