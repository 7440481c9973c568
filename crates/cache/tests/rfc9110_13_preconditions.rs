//! RFC 9110 sections 8.8 and 13: preconditions of requests that a stored response can answer, and their order.

mod common;

use cache::{Answer, Asked, Head, Pass, Plan, answer};
use common::*;
use http::Method;

const LENGTH: u64 = 100;
const PART: Answer = Answer::Part { first: 0, last: 4 };

fn answered(method: Method, request: Fields, stored: &Head) -> Answer {
    // Dates in requests are written as in responses.
    let headers = response(200, request).headers;
    answer(&Asked::of(&method, &headers), &headers, stored, LENGTH)
}

/// Fresh, last modified a minute before its date, with a strong tag.
fn strong() -> Head {
    head(&[("cache-control", "max-age=60"), ("etag", "\"a\""), ("last-modified", "@-60"), ("date", "@0")])
}

#[test]
fn s8_8_3_2_weak_comparison_of_if_none_match() {
    // The table of section 8.8.3.2.
    for (stored, asked, matches) in [
        ("W/\"1\"", "W/\"1\"", true),
        ("W/\"1\"", "W/\"2\"", false),
        ("W/\"1\"", "\"1\"", true),
        ("\"1\"", "\"1\"", true),
        // "W/" is case-sensitive, and a tag is an opaque quoted string.
        ("\"1\"", "w/\"1\"", false),
        ("\"a\"", "\"A\"", false),
        ("\"1\"", "1", false),
        ("\"\"", "\"\"", true),
        ("\"a\\\"", "\"a\\\"", true),
        ("\"\u{e9}\"", "\"\u{e9}\"", true),
    ] {
        let stored = head(&[("cache-control", "max-age=60"), ("etag", stored)]);
        let expected = if matches { Answer::NotModified } else { Answer::Full };
        assert_eq!(
            answered(Method::GET, &[("if-none-match", asked)], &stored),
            expected,
            "{stored:?} {asked}"
        );
    }
}

#[test]
fn s8_8_3_2_strong_comparison_of_if_range() {
    for (stored, asked, matches) in [
        ("W/\"1\"", "W/\"1\"", false),
        ("W/\"1\"", "\"1\"", false),
        ("\"1\"", "W/\"1\"", false),
        ("\"1\"", "\"1\"", true),
    ] {
        let stored = head(&[("cache-control", "max-age=60"), ("etag", stored)]);
        let request = [("range", "bytes=0-4"), ("if-range", asked)];
        let expected = if matches { PART } else { Answer::Full };
        assert_eq!(answered(Method::GET, &request, &stored), expected, "{stored:?} {asked}");
    }
}

#[test]
fn s13_1_3_when_if_modified_since_is_ignored() {
    let table: &[(Fields, Answer)] = &[
        (&[("if-modified-since", "@-60")], Answer::NotModified),
        (&[("if-modified-since", "@-61")], Answer::Full),
        // "MUST ignore if the request contains an If-None-Match header field"
        (&[("if-modified-since", "@-60"), ("if-none-match", "\"b\"")], Answer::Full),
        (&[("if-modified-since", "@-61"), ("if-none-match", "\"a\"")], Answer::NotModified),
        (&[("if-modified-since", "@-60"), ("if-none-match", "")], Answer::Full),
        // "not a valid HTTP-date, the field value has more than one member"
        (&[("if-modified-since", "yesterday")], Answer::Full),
        (&[("if-modified-since", "")], Answer::Full),
        (&[("if-modified-since", "@-60"), ("if-modified-since", "@-60")], Answer::Full),
    ];
    for (request, expected) in table {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(answered(method, request, &strong()), *expected, "{request:?}");
        }
    }
}

#[test]
fn s13_1_5_if_range_with_a_date() {
    let weak = head(&[("cache-control", "max-age=60"), ("last-modified", "@0"), ("date", "@0")]);
    let undated = head(&[("cache-control", "max-age=60"), ("etag", "\"a\""), ("date", "@0")]);
    for (stored, date, holds) in [
        (&strong(), "@-60", true),
        // "by exact match", unlike If-Unmodified-Since
        (&strong(), "@-59", false),
        (&strong(), "@-61", false),
        // 8.8.2.2: weak, as Date is not a second later
        (&weak, "@0", false),
        (&undated, "@0", false),
        (&strong(), "soon", false),
    ] {
        let expected = if holds { PART } else { Answer::Full };
        assert_eq!(
            answered(Method::GET, &[("range", "bytes=0-4"), ("if-range", date)], stored),
            expected,
            "{date}"
        );
    }
    let twice = [("range", "bytes=0-4"), ("if-range", "\"a\""), ("if-range", "\"a\"")];
    assert_eq!(answered(Method::GET, &twice, &strong()), Answer::Full);
    // "MUST ignore an If-Range header field received in a request that does not contain a Range"
    assert_eq!(answered(Method::GET, &[("if-range", "\"b\"")], &strong()), Answer::Full);
}

#[test]
fn s13_2_1_only_what_would_be_a_success_has_preconditions() {
    for status in [301, 404, 410, 500] {
        let stored = store(status, &[("cache-control", "max-age=60"), ("etag", "\"a\"")]).unwrap();
        let request = [("if-none-match", "\"a\""), ("if-modified-since", "@0"), ("range", "bytes=0-4")];
        assert_eq!(answered(Method::GET, &request, &stored), Answer::Full, "{status}");
    }
}

#[test]
fn s13_2_2_the_order_of_preconditions() {
    let (hit, miss) = (("if-none-match", "\"a\""), ("if-none-match", "\"b\""));
    let (same, since) = (("if-modified-since", "@-60"), ("if-modified-since", "@-61"));
    let (holds, fails) = (("if-range", "\"a\""), ("if-range", "\"b\""));
    let range = ("range", "bytes=0-4");
    let table: &[(Fields, Answer)] = &[
        // 3. If-None-Match: false is 304, true goes on to 5.
        (&[hit, range, holds], Answer::NotModified),
        (&[hit, range, fails], Answer::NotModified),
        (&[miss, same, range], PART),
        (&[miss, range, holds], PART),
        (&[miss, range, fails], Answer::Full),
        // 4. If-Modified-Since, without If-None-Match: likewise.
        (&[same, range, holds], Answer::NotModified),
        (&[since, range], PART),
        (&[since, range, fails], Answer::Full),
        // 5. If-Range, for GET.
        (&[range, holds], PART),
        (&[range, fails], Answer::Full),
        // 6. Otherwise.
        (&[range], PART),
        (&[], Answer::Full),
    ];
    for (request, expected) in table {
        assert_eq!(answered(Method::GET, request, &strong()), *expected, "{request:?}");
        // Range, and with it If-Range, is for GET alone (14.2).
        let expected = if *expected == Answer::NotModified { Answer::NotModified } else { Answer::Full };
        assert_eq!(answered(Method::HEAD, request, &strong()), expected, "HEAD {request:?}");
    }
}

#[test]
fn s13_2_2_steps_1_and_2_are_the_origins() {
    for name in ["if-match", "if-unmodified-since"] {
        for method in [Method::GET, Method::HEAD] {
            let asked = Asked::of(&method, &fields(&[(name, "\"a\""), ("if-none-match", "\"a\"")]));
            assert_eq!(asked.plan(), Plan::Pass(Pass::Precondition), "{method} {name}");
        }
    }
}
