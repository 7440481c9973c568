//! Parts of a representation: Content-Range of the first two lines, with the lengths of what came, and the request of
//! the others. A part says what its field says; what it answers it has; two are one only when they are of one
//! representation and meet, and then the whole is as long as both reach.
#![no_main]

use cache::{Answer, Asked, Head, Part, answer, ask_for_the_rest, can_answer, combined};
use cosm_fuzz::{Input, fields};
use http::header::{CONTENT_RANGE, ETAG, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response};
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_750_000_000;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let lengths = [u64::from(input.u16()), u64::from(input.u16())];
    let Some(one) = part(input.line(), "\"a\"", lengths[0]) else { return };
    let other = part(input.line(), "\"a\"", lengths[1]);
    let request = fields(input.rest());

    answers(&one, lengths[0], &request);
    let mut rest = HeaderMap::new();
    if ask_for_the_rest(&mut rest, &one, lengths[0]) {
        assert_eq!(rest[RANGE], format!("bytes={}-", lengths[0]));
        assert!(extent(&one, lengths[0]).is_some_and(|(first, end)| first == 0 && end == lengths[0]));
    }

    let Some(other) = other else { return };
    let both = combined(&one, lengths[0], &other, lengths[1]);
    let (Some(a), Some(b)) = (extent(&one, lengths[0]), extent(&other, lengths[1])) else { return };
    let Some(both) = both else { return };
    assert!(a.0 <= b.1 && b.0 <= a.1, "they meet");
    let (first, end) = (a.0.min(b.0), a.1.max(b.1));
    match both.part() {
        Some(part) => {
            assert_eq!(part.first, first);
            assert!(part.complete.is_none_or(|complete| end <= complete && end - first < complete));
        }
        None => assert!(first == 0 && both.status == 200),
    }
    answers(&both, end - first, &request);
    let strange = part_of(b"bytes 0-0/1", "\"b\"").expect("a part");
    assert!(combined(&one, lengths[0], &strange, 1).is_none());
});

/// What is promised lies in what is held.
fn answers(head: &Head, length: u64, request: &HeaderMap) {
    let asked = Asked::of(&Method::GET, request);
    let Some((from, end)) = extent(head, length) else { return };
    if !can_answer(&asked, request, head, length) {
        return;
    }
    match answer(&asked, request, head, length) {
        Answer::Part { first, last } => assert!(from <= first && first <= last && last < end),
        Answer::Parts(ranges) => {
            assert!(ranges.iter().all(|(first, last)| from <= *first && first <= last && *last < end));
        }
        _ => assert!(head.part().is_none(), "a part is never the whole"),
    }
}

/// Of a stored part: its first byte and the one behind its last.
fn extent(head: &Head, length: u64) -> Option<(u64, u64)> {
    let first = head.part().map_or(0, |part| part.first);
    Some((first, first.checked_add(length)?))
}

fn part(range: &[u8], tag: &'static str, length: u64) -> Option<Head> {
    let mut head = part_of(range, tag)?;
    let Part { first, complete, .. } = head.part().expect("a part");
    let said = std::str::from_utf8(range).expect("a range is text").trim().to_ascii_lowercase();
    let complete = complete.map_or("*".to_owned(), |complete| complete.to_string());
    assert!(
        plain(&said)
            .is_none_or(|(from, to, all)| (from, all) == (first.to_string(), complete) && !to.is_empty())
    );
    head.settle(length);
    assert_eq!(Head::decode(&head.encode()).map(|head| head.status), Some(head.status));
    Some(head)
}

/// The three numbers of a range, without zeros before them.
fn plain(range: &str) -> Option<(String, String, String)> {
    let (positions, complete) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = positions.split_once('-')?;
    let number = |text: &str| match text.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    };
    Some((number(first.trim()), number(last), number(complete)))
}

fn part_of(range: &[u8], tag: &'static str) -> Option<Head> {
    let response = Response::builder()
        .status(206)
        .header(ETAG, tag)
        .header("cache-control", "max-age=60")
        .header(CONTENT_RANGE, HeaderValue::from_bytes(range).ok()?);
    let (parts, ()) = response.body(()).expect("valid").into_parts();
    let request = [(RANGE, HeaderValue::from_static("bytes=0-"))].into_iter().collect();
    Head::storable(&Asked::of(&Method::GET, &request), &parts, NOW, NOW).ok()
}
