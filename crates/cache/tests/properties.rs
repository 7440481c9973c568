//! What holds for every request, response and time.

mod common;

use cache::{Asked, Head, Outage, SetCookie, Stored, Time, Verdict};
use cache::{answer, freshen, invalidated, judge, make_conditional, may_serve_stale_on_error};
use common::*;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::collection::vec;
use proptest::prelude::*;

const RESPONSE_FIELDS: [&str; 15] = [
    "cache-control",
    "cache-control",
    "cdn-cache-control",
    "expires",
    "date",
    "age",
    "last-modified",
    "etag",
    "vary",
    "set-cookie",
    "connection",
    "content-type",
    "x-other",
    "content-length",
    "location",
];
const REQUEST_FIELDS: [&str; 9] = [
    "cache-control",
    "pragma",
    "if-none-match",
    "if-modified-since",
    "if-range",
    "range",
    "authorization",
    "foo",
    "upgrade",
];

/// Values that some field means something by, and any bytes a field can hold.
fn value() -> impl Strategy<Value = HeaderValue> {
    let sensible = prop_oneof![
        "(max-age|s-maxage|max-stale|min-fresh|stale-if-error|stale-while-revalidate)=[0-9]{1,4}(, (public|no-cache|must-revalidate))?",
        "(no-store|private|no-cache|public|only-if-cached|must-understand|max-stale|immutable)",
        "(W/)?\"[ab]\"(, \"[ab]\")?",
        "bytes=[0-9]{0,2}-[0-9]{0,2}(,[0-9]-)?",
        "[0-9]{1,3}",
        "(foo|accept)(, foo)?",
        "(foo|accept|close|\\*)(, x-other)?",
        "[-,=;\" a*/\\\\\t]{0,12}",
        (0u64..200_000).prop_map(|t| cache::http_date(NOW - 100_000 + t).to_str().unwrap().to_owned()),
    ];
    let none = HeaderValue::from_static("");
    prop_oneof![
        9 => sensible.prop_map(|text| HeaderValue::from_str(&text).expect("printable")),
        1 => vec(any::<u8>(), 0..20)
            .prop_map(move |bytes| HeaderValue::from_bytes(&bytes).unwrap_or(none.clone())),
    ]
}

fn headers(names: &'static [&'static str]) -> impl Strategy<Value = HeaderMap> {
    let field = (proptest::sample::select(names), value());
    vec(field, 0..8).prop_map(|list| list.into_iter().map(|(n, v)| (HeaderName::from_static(n), v)).collect())
}

fn asked() -> impl Strategy<Value = (Asked, HeaderMap)> {
    let method = proptest::sample::select(&[Method::GET, Method::GET, Method::HEAD, Method::POST][..]);
    (method, headers(&REQUEST_FIELDS)).prop_map(|(method, headers)| (Asked::of(&method, &headers), headers))
}

fn parts(status: u16, headers: HeaderMap) -> http::response::Parts {
    let mut parts = response(status, &[]);
    parts.headers = headers;
    parts
}

/// Stored responses of all kinds. One that may not be stored loses the fields that can forbid it and gains a tag.
fn any_head() -> impl Strategy<Value = Head> {
    let status = proptest::sample::select(&[200u16, 200, 200, 301, 302, 404, 500, 599][..]);
    (status, headers(&RESPONSE_FIELDS), 0u64..50).prop_map(|(status, mut headers, delay)| {
        let stored = Head::storable(&get(&[]), &parts(status, headers.clone()), NOW - delay, NOW);
        stored.unwrap_or_else(|_| {
            for name in ["cache-control", "cdn-cache-control", "vary", "set-cookie", "connection"] {
                headers.remove(name);
            }
            headers.insert("etag", HeaderValue::from_static("\"a\""));
            Head::storable(&get(&[]), &parts(200, headers), NOW - delay, NOW).expect("storable")
        })
    })
}

/// Later verdicts are never better than earlier ones.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fresh => 0,
        Verdict::ServeWhileRevalidating => 1,
        Verdict::ServeStale => 2,
        Verdict::Stale(_) => 3,
    }
}

proptest! {
    #[test]
    fn decode_reads_what_encode_writes(head in any_head()) {
        let bytes = head.encode();
        prop_assert_eq!(Head::decode(&bytes), Some(head.clone()));
        prop_assert_eq!(Stored::decode(&bytes), Some(Stored::Response(head)));
        for end in 0..bytes.len() {
            prop_assert_eq!(Head::decode(&bytes[..end]), None);
        }
    }

    #[test]
    fn decode_takes_any_bytes(kind in 0u8..8, bytes: Vec<u8>) {
        let bytes = [&[kind][..], &bytes].concat();
        if let Some(stored) = Stored::decode(&bytes) {
            prop_assert_eq!(Stored::decode(&stored.encode()), Some(stored));
        }
    }

    #[test]
    fn decode_takes_damaged_bytes(head in any_head(), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = head.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Some(head) = Head::decode(&bytes) {
            head.age(Time::MAX);
            judge(&get(&[]), &head, 0);
        }
    }

    #[test]
    fn age_and_verdict_only_get_worse(
        head in any_head(), (asked, _) in asked(), start in NOW..NOW + 100_000, more in 0u64..100_000,
    ) {
        let (first, second) = (start, start + more);
        prop_assert!(head.age(first) <= head.age(second));
        let verdicts = (judge(&asked, &head, first), judge(&asked, &head, second));
        prop_assert!(rank(verdicts.0) <= rank(verdicts.1), "{:?}", verdicts);
        for outage in [Outage::Unreachable, Outage::Answered5xx] {
            let may = |now| may_serve_stale_on_error(&asked, &head, now, outage);
            prop_assert!(may(first) >= may(second), "{:?}", outage);
        }
        let may = |outage| may_serve_stale_on_error(&asked, &head, first, outage);
        prop_assert!(may(Outage::Unreachable) >= may(Outage::Answered5xx));
    }

    #[test]
    fn what_came_in_the_future_is_never_fresh(head in any_head(), (asked, _) in asked(), early in 11u64..1_000_000) {
        let now = NOW - early;
        prop_assert!(!head.is_fresh(now) && head.age(now) >= head.age(NOW).min(1 << 31));
        prop_assert!(judge(&asked, &head, now) != Verdict::Fresh);
        prop_assert!(head.ttl(now) <= 0);
    }

    #[test]
    fn age_counts_seconds(head in any_head(), seconds in 0u64..1_000_000) {
        prop_assert_eq!(head.age(NOW + seconds), head.age(NOW) + seconds);
    }

    #[test]
    fn a_part_lies_within_the_whole(head in any_head(), (asked, headers) in asked(), length in 0u64..40) {
        if let cache::Answer::Part { first, last } = answer(&asked, &headers, &head, length) {
            prop_assert!(first <= last && last < length);
        }
    }

    #[test]
    fn no_input_panics(
        head in any_head(), (asked, mut request) in asked(), response in headers(&RESPONSE_FIELDS),
        status in 100u16..600, times: [Time; 3],
    ) {
        let parts = parts(status, response);
        let _ = Head::storable(&asked, &parts, times[0], times[1]);
        if let Some(fresh) = cache::freshen_by_head(&asked, &head, times[0], &parts, times[1], times[2]) {
            prop_assert_eq!(Head::decode(&fresh.encode()), Some(fresh));
        }
        if let Some(fresh) = freshen(&get(&[]), &head, &parts, times[0], times[1]) {
            judge(&asked, &fresh, times[2]);
            prop_assert_eq!(Head::decode(&fresh.encode()), Some(fresh));
        }
        cache::not_modified_headers(&head);
        invalidated(&Method::POST, "http", "h", "/a", &parts);
        make_conditional(&mut request, &head);
        cache::invalidated_groups(&Method::POST, &parts);
        cache::remove_hop_by_hop(&mut request);
    }

    #[test]
    fn what_is_stored_may_stay(head in any_head()) {
        prop_assert_eq!(head.may_stay(SetCookie::Fresh), Ok(()));
    }
}

proptest! {
    #[test]
    fn ttl_falls_by_a_second_a_second_and_is_positive_while_fresh(head in any_head(), later in 0u64..1_000_000) {
        let (first, then) = (head.ttl(NOW), head.ttl(NOW + later));
        prop_assert_eq!(then, (first - later as i64).max(-(1 << 31)));
        prop_assert_eq!(then > 0, head.is_fresh(NOW + later));
        prop_assert_eq!(head.ttl(Time::MAX), -(1 << 31));
    }

    #[test]
    fn a_longer_age_never_makes_fresher(head in any_head(), more in 0u64..100_000) {
        let mut list = head.headers.clone();
        list.insert("age", HeaderValue::from(more));
        let plain = get(&[]);
        let (older, newer) =
            (parts(head.status.as_u16(), list), parts(head.status.as_u16(), head.headers.clone()));
        let stored = |response| Head::storable(&plain, &response, NOW, NOW);
        if let (Ok(older), Ok(newer)) = (stored(older), stored(newer)) {
            prop_assert_eq!(older.lifetime(), newer.lifetime());
            prop_assert!(older.age(NOW) >= newer.age(NOW) && older.age(NOW) >= more);
        }
    }

    #[test]
    fn no_part_panics(
        range in "(bytes |Bytes=)?[0-9]{0,21}-[0-9]{0,21}/([0-9]{0,21}|\\*)", length: u64, other: u64,
        (asked, headers) in asked(),
    ) {
        let part = |range: &str| {
            let list = [("cache-control", "max-age=60"), ("content-range", range), ("etag", "\"a\"")];
            Head::storable(&get(&[("range", "bytes=0-")]), &response(206, &list), NOW, NOW).ok()
        };
        let Some(mut head) = part(&range) else { return Ok(()) };
        head.settle(length);
        answer(&asked, &headers, &head, length);
        cache::can_answer(&asked, &headers, &head, length);
        cache::ask_for_the_rest(&mut HeaderMap::new(), &head, length);
        cache::combined(&head, length, &head, other);
        prop_assert_eq!(Head::decode(&head.encode()).map(|head| head.status), Some(head.status));
    }
}
