//! RFC 9110 section 5.6.7, RFC 9111 section 4.2: dates.

mod common;

use cache::{http_date, parse_http_date};
use common::NOW;

const SUNDAY: Option<u64> = Some(784_111_777);

#[test]
fn s5_6_7_a_recipient_must_accept_all_three_formats() {
    for (text, time) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", SUNDAY),
        ("Sunday, 06-Nov-94 08:49:37 GMT", SUNDAY),
        ("Sun Nov  6 08:49:37 1994", SUNDAY),
        ("Sun Nov 06 08:49:37 1994", SUNDAY),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
        ("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
        // 23:59:60 is a leap second.
        ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800)),
        // RFC 9111 section 4.2: "SHOULD match the field value case-insensitively".
        ("sun, 06 NOV 1994 08:49:37 gmt", SUNDAY),
        ("SUNDAY, 06-nov-94 08:49:37 GMT", SUNDAY),
    ] {
        assert_eq!(parse_http_date(text.as_bytes(), NOW), time, "{text}");
    }
}

#[test]
fn s5_6_7_a_year_of_two_digits_is_at_most_fifty_ahead() {
    // NOW is in 2025.
    for (text, same) in [
        ("Saturday, 01-Jan-00 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"),
        ("Wednesday, 01-Jan-25 00:00:00 GMT", "Wed, 01 Jan 2025 00:00:00 GMT"),
        ("Tuesday, 01-Jan-75 00:00:00 GMT", "Tue, 01 Jan 2075 00:00:00 GMT"),
        ("Thursday, 01-Jan-76 00:00:00 GMT", "Thu, 01 Jan 1976 00:00:00 GMT"),
        ("Friday, 01-Jan-99 00:00:00 GMT", "Fri, 01 Jan 1999 00:00:00 GMT"),
    ] {
        let read = |text: &str| parse_http_date(text.as_bytes(), NOW);
        assert!(read(text).is_some() && read(text) == read(same), "{text}");
    }
}

#[test]
fn s5_6_7_anything_else_is_no_date() {
    for text in [
        "",
        "0",
        "784111777",
        "Sun, 06 Nov 1994 08:49:37",
        // RFC 9111 section 4.2: "a zone abbreviation other than "GMT"".
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 EST",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun,  06 Nov 1994 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Xyz, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37.5 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37 GMT; x",
    ] {
        assert_eq!(parse_http_date(text.as_bytes(), NOW), None, "{text}");
    }
}

#[test]
fn s5_6_7_a_sender_must_generate_the_preferred_format() {
    assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(http_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}
