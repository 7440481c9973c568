//! How a usable stored response answers a request: preconditions in the order of RFC 9110 section 13.2.2 as far as they
//! are a cache's to evaluate (RFC 9111 section 4.3.2), then Range (RFC 9110 section 14).

use crate::list::members;
use crate::validators::{EntityTag, entity_tags};
use crate::{Asked, Head, Part, Time, date};
use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, RANGE, VARY,
};
use http::{HeaderMap, StatusCode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The stored status and the whole body.
    Full,
    /// 304 with [`not_modified_headers`].
    NotModified,
    /// 206 with [`content_range`]; both ends count.
    Part { first: u64, last: u64 },
    /// 206 with a `multipart/byteranges` body; two or more ranges that do not overlap, in the order asked for.
    Parts(Vec<(u64, u64)>),
    /// 416 with [`unsatisfied_content_range`].
    Unsatisfiable,
}

/// `length` is the stored body's. Only stored 200s and parts of them are tested; every other status answers as it is.
/// Of a part the positions are the representation's, and [`can_answer`](crate::can_answer) says whether it has them.
pub fn answer(asked: &Asked, request: &HeaderMap, head: &Head, length: u64) -> Answer {
    let tested = head.status == StatusCode::OK || head.part.is_some();
    if !tested || !(asked.is_conditional() || asked.has_range()) {
        return Answer::Full;
    }
    if asked.is_conditional() && not_modified(request, head) {
        return Answer::NotModified;
    }
    if asked.has_range() && !asked.is_head() && if_range_holds(request, head) {
        return match head.part {
            None => part(request, length),
            Some(Part { complete: Some(complete), .. }) => part(request, complete),
            // Where the end is not known, only a range with both ends can be told.
            Some(Part { complete: None, .. }) => match ranges(request)[..] {
                [Spec::From(first, last)] if last < u64::MAX => Answer::Part { first, last },
                _ => Answer::Full,
            },
        };
    }
    Answer::Full
}

/// The fields of a 304 (RFC 9110 section 15.4.5).
pub fn not_modified_headers(head: &Head) -> HeaderMap {
    static FIELDS: [HeaderName; 7] = [
        CACHE_CONTROL,
        HeaderName::from_static("cdn-cache-control"),
        CONTENT_LOCATION,
        DATE,
        ETAG,
        EXPIRES,
        VARY,
    ];
    let mut fields = HeaderMap::with_capacity(FIELDS.len() + 1);
    for name in &FIELDS {
        copy(name, &head.headers, &mut fields);
    }
    // Last-Modified alone tells a client that has no tag which of its responses is meant.
    if !fields.contains_key(ETAG) {
        copy(&http::header::LAST_MODIFIED, &head.headers, &mut fields);
    }
    fields
}

/// `bytes first-last/complete` (RFC 9110 section 14.4).
pub fn content_range(first: u64, last: u64, complete: Option<u64>) -> HeaderValue {
    number_value(match complete {
        Some(complete) => format!("bytes {first}-{last}/{complete}"),
        None => format!("bytes {first}-{last}/*"),
    })
}

/// `bytes */length`, for a 416.
pub fn unsatisfied_content_range(length: u64) -> HeaderValue {
    number_value(format!("bytes */{length}"))
}

/// 13.1.2 and 13.1.3: If-None-Match decides alone when it is there.
fn not_modified(request: &HeaderMap, head: &Head) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        return matches_any(request, head);
    }
    let since = only(request, IF_MODIFIED_SINCE)
        .and_then(|value| date::parse_http_date(value.as_bytes(), head.response_time()));
    // 4.3.2: without Last-Modified, Date stands in (and a stored response always has one).
    since.is_some_and(|since| head.last_modified().unwrap_or(head.date()) <= since)
}

fn matches_any(request: &HeaderMap, head: &Head) -> bool {
    let stored = head.etag().map(|tag| EntityTag::parse(tag.as_bytes()));
    request.get_all(IF_NONE_MATCH).iter().any(|line| {
        line.as_bytes().trim_ascii() == b"*"
            || stored.is_some_and(|stored| entity_tags(line.as_bytes()).any(|tag| tag.weakly_equals(&stored)))
    })
}

/// 13.1.5: a strong tag that is strongly equal, or the very date of a Last-Modified that is strong; anything else, and
/// Range does not count.
fn if_range_holds(request: &HeaderMap, head: &Head) -> bool {
    if !request.contains_key(IF_RANGE) {
        return true;
    }
    let Some(condition) = only(request, IF_RANGE) else { return false };
    let tag = EntityTag::parse(condition.as_bytes());
    if tag.is_quoted() {
        return head.etag().is_some_and(|stored| tag.strongly_equals(&EntityTag::parse(stored.as_bytes())));
    }
    let date: Option<Time> = date::parse_http_date(condition.as_bytes(), head.response_time());
    date.is_some() && date == head.last_modified() && last_modified_is_strong(head)
}

/// 8.8.2.2: the response was made at least a second after the last change, so a second change would show.
pub(crate) fn last_modified_is_strong(head: &Head) -> bool {
    head.last_modified().is_some_and(|changed| changed < head.date())
}

/// 14.2: what cannot be read, is no range of bytes, or asks for more than it should gets the whole.
fn part(request: &HeaderMap, length: u64) -> Answer {
    let specs = ranges(request);
    // No Content-Range can say "the last bytes of nothing".
    if specs.is_empty() || (length == 0 && specs.iter().any(|spec| matches!(spec, Spec::Suffix(1..)))) {
        return Answer::Full;
    }
    let found: Vec<(u64, u64)> = specs.iter().filter_map(|spec| spec.within(length)).collect();
    match found.len() {
        0 => Answer::Unsatisfiable,
        1 => Answer::Part { first: found[0].0, last: found[0].1 },
        _ if overlap(&mut found.clone()) => Answer::Full,
        _ => Answer::Parts(found),
    }
}

/// 14.2: who asks for the same bytes more than once is not to be served.
fn overlap(ranges: &mut [(u64, u64)]) -> bool {
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}

/// More ranges than this in one request are not answered as such.
const RANGES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spec {
    From(u64, u64),
    Suffix(u64),
}

impl Spec {
    fn within(self, length: u64) -> Option<(u64, u64)> {
        match self {
            Spec::Suffix(0) => None,
            Spec::Suffix(count) => Some((length.saturating_sub(count), length.checked_sub(1)?)),
            Spec::From(first, _) if first >= length => None,
            Spec::From(first, last) => Some((first, last.min(length - 1))),
        }
    }
}

/// 14.1.1, 14.1.2: none for what is not a valid set of byte ranges.
fn ranges(request: &HeaderMap) -> Vec<Spec> {
    let Some(value) = only(request, RANGE) else { return Vec::new() };
    let value = value.as_bytes();
    let Some(at) = value.iter().position(|b| *b == b'=') else { return Vec::new() };
    if !value[..at].trim_ascii().eq_ignore_ascii_case(b"bytes") {
        return Vec::new();
    }
    let specs: Option<Vec<Spec>> = members(&value[at + 1..]).take(RANGES + 1).map(spec).collect();
    specs.filter(|specs| specs.len() <= RANGES).unwrap_or_default()
}

fn spec(text: &[u8]) -> Option<Spec> {
    let dash = text.iter().position(|b| *b == b'-')?;
    match (&text[..dash], &text[dash + 1..]) {
        (b"", suffix) => position(suffix).map(Spec::Suffix),
        (first, b"") => position(first).map(|first| Spec::From(first, u64::MAX)),
        (first, last) => {
            let (first, last) = (position(first)?, position(last)?);
            (first <= last).then_some(Spec::From(first, last))
        }
    }
}

/// Digits; what does not fit is beyond every end.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit))
    })
}

/// A field that has one line.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut lines = headers.get_all(name).into_iter();
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}

fn copy(name: &HeaderName, from: &HeaderMap, to: &mut HeaderMap) {
    for value in from.get_all(name) {
        to.append(name, value.clone());
    }
}

fn number_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("bytes */*"))
}
