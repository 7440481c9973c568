//! How a stored response answers: the first line is its length, the others are the request's fields. A part lies
//! within the whole, and a plain range is what arithmetic without bounds says; only a GET of a 200 gets one.
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
        assert_eq!(content_range(first, last, length), format!("bytes {first}-{last}/{length}"));
    }
    if given == Answer::NotModified && !request.contains_key(IF_NONE_MATCH) {
        let since = parse_http_date(request["if-modified-since"].as_bytes(), NOW);
        assert!(since >= OK.last_modified());
    }
    if !asked(Method::GET).is_conditional() && request.get_all(RANGE).iter().count() == 1 {
        let plain = plain(&request[RANGE]);
        let expected = plain.map_or(Answer::Full, |(first, last)| expected(first, last, length.into()));
        if plain.is_some() && !request.contains_key("if-range") {
            assert_eq!(given, expected);
        }
        assert!(plain.is_none() || given == expected || given == Answer::Full);
    }
});

/// `bytes=` and one range of plain digits.
fn plain(value: &HeaderValue) -> Option<(Option<u128>, Option<u128>)> {
    let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text {
        "" => Some(None),
        _ if text.len() < 20 && text.bytes().all(|b| b.is_ascii_digit()) => Some(Some(text.parse().ok()?)),
        _ => None,
    };
    let range = (number(first)?, number(last)?);
    (range != (None, None)).then_some(range)
}

fn expected(first: Option<u128>, last: Option<u128>, length: u128) -> Answer {
    let part = |first: u128, last: u128| Answer::Part { first: first as u64, last: last as u64 };
    match (first, last) {
        (Some(first), Some(last)) if first > last => Answer::Full,
        (Some(first), _) if first >= length => Answer::Unsatisfiable,
        (Some(first), last) => part(first, last.unwrap_or(length).min(length - 1)),
        (None, Some(0)) => Answer::Unsatisfiable,
        (None, _) if length == 0 => Answer::Full,
        (None, last) => part(length - last.unwrap_or(0).min(length), length - 1),
    }
}
