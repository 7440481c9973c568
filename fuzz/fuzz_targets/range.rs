//! How a stored response answers: the first line is its length, the others are the request's fields. A part lies
//! within the whole, several do not overlap, and plain ranges are what arithmetic without bounds says; only a GET of a
//! 200 gets them.
#![no_main]

use cache::{Answer, Asked, Head, answer, content_range, parse_http_date};
use cosm_fuzz::{Input, fields};
use http::header::{ETAG, IF_NONE_MATCH, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const NOW: u64 = 1_750_000_000;

fn head(status: u16) -> Head {
    let response = Response::builder()
        .status(status)
        .header(ETAG, "\"a\"")
        .header(LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT")
        .header("cache-control", "max-age=60");
    let (parts, ()) = response.body(()).expect("valid").into_parts();
    Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts, NOW, NOW).expect("storable")
}

static OK: LazyLock<Head> = LazyLock::new(|| head(200));
static GONE: LazyLock<Head> = LazyLock::new(|| head(410));

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let length = std::str::from_utf8(input.line()).ok().and_then(|text| text.parse().ok()).unwrap_or(10u64);
    let request = fields(input.rest());
    let asked = |method| Asked::of(&method, &request);
    let given = answer(&asked(Method::GET), &request, &OK, length);

    assert_eq!(answer(&asked(Method::GET), &request, &GONE, length), Answer::Full);
    let without_content = answer(&asked(Method::HEAD), &request, &OK, length);
    assert!(matches!(without_content, Answer::Full | Answer::NotModified));
    if let Answer::Part { first, last } = given {
        assert!(first <= last && last < length);
        assert_eq!(content_range(first, last, Some(length)), format!("bytes {first}-{last}/{length}"));
    }
    if let Answer::Parts(ranges) = &given {
        let mut sorted = ranges.clone();
        sorted.sort_unstable();
        assert!((2..=16).contains(&ranges.len()) && ranges.iter().all(|r| r.0 <= r.1 && r.1 < length));
        assert!(sorted.is_sorted_by(|a, b| a.1 < b.0), "{ranges:?}");
    }
    if given == Answer::NotModified && !request.contains_key(IF_NONE_MATCH) {
        let since = parse_http_date(request["if-modified-since"].as_bytes(), NOW);
        assert!(since >= OK.last_modified());
    }
    if !asked(Method::GET).is_conditional() && request.get_all(RANGE).iter().count() == 1 {
        let plain = plain(&request[RANGE]);
        let expected = plain.as_deref().map_or(Answer::Full, |ranges| expected(ranges, length.into()));
        if plain.is_some() && !request.contains_key("if-range") {
            assert_eq!(given, expected);
        }
        assert!(plain.is_none() || given == expected || given == Answer::Full);
    }
});

/// Nobody's range counts beyond these.
const LONGEST: usize = 16;

type Range = (Option<u128>, Option<u128>);

/// `bytes=` and ranges of plain digits.
fn plain(value: &HeaderValue) -> Option<Vec<Range>> {
    let ranges = value.to_str().ok()?.strip_prefix("bytes=")?;
    ranges.split(',').map(plain_range).collect()
}

fn plain_range(range: &str) -> Option<Range> {
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| match text {
        "" => Some(None),
        _ if text.len() < 20 && text.bytes().all(|b| b.is_ascii_digit()) => Some(Some(text.parse().ok()?)),
        _ => None,
    };
    let range = (number(first)?, number(last)?);
    (range != (None, None)).then_some(range)
}

fn expected(ranges: &[Range], length: u128) -> Answer {
    let invalid = |range: &Range| matches!(range, (Some(first), Some(last)) if first > last);
    let of_nothing = |range: &Range| length == 0 && matches!(range, (None, Some(1..)));
    if ranges.len() > LONGEST || ranges.iter().any(invalid) || ranges.iter().any(of_nothing) {
        return Answer::Full;
    }
    let found: Vec<_> = ranges.iter().filter_map(|range| within(*range, length)).collect();
    let overlap = |(i, a): (usize, &(u64, u64))| found[..i].iter().any(|b| a.0 <= b.1 && b.0 <= a.1);
    match found[..] {
        [] => Answer::Unsatisfiable,
        [(first, last)] => Answer::Part { first, last },
        _ if found.iter().enumerate().any(overlap) => Answer::Full,
        _ => Answer::Parts(found),
    }
}

fn within(range: Range, length: u128) -> Option<(u64, u64)> {
    let (first, last) = match range {
        (Some(first), last) => (first, last.unwrap_or(length).min(length.checked_sub(1)?)),
        (None, count) => (length - count.filter(|count| *count > 0)?.min(length), length.checked_sub(1)?),
    };
    (first < length).then_some((first as u64, last as u64))
}
