//! RFC 9111 section 4.3: validating stored responses, and answering conditional and range requests from them
//! (RFC 9110 sections 13 and 14).

mod common;

use cache::{Answer, Asked, Head, NotStored, SetCookie, answer, freshen, freshen_by_head, make_conditional};
use common::*;
use http::Method;

#[test]
fn s4_3_1_conditional_request() {
    let client: Fields = &[
        ("if-none-match", "\"mine\""),
        ("if-modified-since", "x"),
        ("if-range", "\"mine\""),
        ("range", "bytes=0-1"),
        ("accept", "*/*"),
    ];
    let table: &[(Fields, Fields, bool)] = &[
        (&[("etag", "W/\"a\"")], &[("if-none-match", "W/\"a\"")], true),
        (&[("last-modified", "@-60")], &[("if-modified-since", "@-60")], true),
        (
            &[("etag", "\"a\""), ("last-modified", "@-60")],
            &[("if-none-match", "\"a\""), ("if-modified-since", "@-60")],
            true,
        ),
        (&[("last-modified", "yesterday")], &[], false),
        (&[], &[], false),
    ];
    for (validators, conditions, conditional) in table {
        let mut list = validators.to_vec();
        list.push(("cache-control", "max-age=60"));
        let mut request = fields(client);
        assert_eq!(make_conditional(&mut request, &head(&list)), *conditional, "{validators:?}");
        let mut expected = response(200, conditions).headers;
        expected.insert("accept", "*/*".parse().unwrap());
        assert_eq!(request, expected, "{validators:?}");
    }
}

#[test]
fn a_fetch_to_store_asks_for_everything() {
    let mut request =
        fields(&[("if-none-match", "*"), ("range", "bytes=0-1"), ("if-match", "*"), ("accept", "*/*")]);
    cache::make_unconditional(&mut request);
    assert_eq!(request, fields(&[("accept", "*/*")]));
}

#[test]
fn s4_3_4_which_304_updates_which_response() {
    let table: &[(Fields, Fields, bool)] = &[
        (&[("etag", "\"a\"")], &[("etag", "\"a\"")], true),
        (&[("etag", "\"a\"")], &[("etag", "\"b\"")], false),
        (&[("etag", "\"a\"")], &[("etag", "W/\"a\"")], true),
        (&[("etag", "W/\"a\"")], &[("etag", "W/\"a\"")], true),
        (&[("etag", "W/\"a\"")], &[("etag", "\"a\"")], false),
        (&[("etag", "\"a\"")], &[], true),
        (
            &[("etag", "\"a\""), ("last-modified", "@-9")],
            &[("etag", "\"a\""), ("last-modified", "@-8")],
            true,
        ),
        (&[("last-modified", "@-9")], &[("last-modified", "@-9")], true),
        (&[("last-modified", "@-9")], &[("last-modified", "@-8")], false),
        (&[("last-modified", "@-9")], &[("etag", "\"a\"")], false),
        (&[("last-modified", "@-9")], &[("etag", "\"a\""), ("last-modified", "@-9")], true),
        (&[("etag", "\"a\""), ("last-modified", "@-9")], &[("last-modified", "@-8")], false),
        (&[("last-modified", "@-9")], &[], true),
    ];
    for (stored, new, updates) in table {
        let head = head(&[stored, &[("cache-control", "max-age=60")][..]].concat());
        let fresh = freshen(&get(&[]), &head, &response(304, new), NOW + 99, NOW + 99);
        assert_eq!(fresh.is_some(), *updates, "{stored:?} {new:?}");
    }
}

#[test]
fn s3_2_fields_of_a_304_replace_the_stored_ones() {
    let stored = head(&[
        ("cache-control", "max-age=60"),
        ("etag", "\"a\""),
        ("date", "@0"),
        ("age", "7"),
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("x-old", "1"),
        ("x-both", "1"),
        ("x-both", "2"),
    ]);
    let not_modified = response(
        304,
        &[
            ("cache-control", "max-age=90"),
            ("date", "@100"),
            ("age", "3"),
            ("content-type", "text/html"),
            ("content-encoding", "br"),
            ("content-length", "0"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("x-both", "3"),
            ("x-new", "1"),
        ],
    );
    let fresh = freshen(&get(&[]), &stored, &not_modified, NOW + 100, NOW + 100).unwrap();
    let expected = response(
        200,
        &[
            ("cache-control", "max-age=90"),
            ("etag", "\"a\""),
            ("date", "@100"),
            ("content-type", "text/html"),
            ("content-encoding", "gzip"),
            ("x-old", "1"),
            ("x-both", "3"),
            ("x-new", "1"),
        ],
    );
    assert_eq!((fresh.status, &fresh.headers), (expected.status, &expected.headers));
    assert_eq!((fresh.age(NOW + 100), fresh.lifetime()), (3, 90));
    assert_eq!(fresh.may_stay(SetCookie::Fresh), Ok(()));
}

#[test]
fn s4_3_4_without_date_the_304_is_as_old_as_its_arrival() {
    let stored = head(&[("cache-control", "max-age=60"), ("etag", "\"a\""), ("date", "@-50")]);
    let fresh = freshen(&get(&[]), &stored, &response(304, &[]), NOW + 100, NOW + 100).unwrap();
    assert_eq!((fresh.age(NOW + 100), fresh.date()), (0, NOW + 100));
}

#[test]
fn s4_3_4_an_update_can_end_the_storing() {
    let plain: Fields = &[("last-modified", "@-9000"), ("etag", "\"a\""), ("vary", "accept")];
    for (name, value, stays) in [
        ("x", "1", Ok(())),
        ("vary", "Accept", Ok(())),
        ("cache-control", "no-store", Err(NotStored::NoStore)),
        ("cache-control", "private", Err(NotStored::Private)),
        ("set-cookie", "a=b", Err(NotStored::SetCookie)),
        ("vary", "accept, foo", Err(NotStored::VaryChanged)),
        ("vary", "*", Err(NotStored::VaryStar)),
    ] {
        let fresh = freshen(&get(&[]), &head(plain), &response(304, &[(name, value)]), NOW, NOW).unwrap();
        assert_eq!(fresh.may_stay(SetCookie::Fresh), stays, "{name}: {value}");
    }
    let asked = get(&[("authorization", "x")]);
    let shared = response(200, &[("cache-control", "public, max-age=60"), ("etag", "\"a\"")]);
    let shared = Head::storable(&asked, &shared, NOW, NOW).unwrap();
    let fresh =
        freshen(&get(&[]), &shared, &response(304, &[("cache-control", "max-age=60")]), NOW, NOW).unwrap();
    assert_eq!(fresh.may_stay(SetCookie::Fresh), Err(NotStored::Authorization));
}

#[test]
fn s3_5_an_update_for_one_user_needs_permission_to_reach_others() {
    let stored = head(&[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
    let authorized = get(&[("authorization", "Basic eDp5")]);
    for (control, stays) in [
        ("max-age=60", Err(NotStored::Authorization)),
        ("max-age=60, public", Ok(())),
        ("s-maxage=60", Ok(())),
        ("max-age=60, must-revalidate", Ok(())),
    ] {
        let update = response(304, &[("cache-control", control), ("set-cookie", "id=x"), ("etag", "\"a\"")]);
        let fresh = freshen(&authorized, &stored, &update, NOW, NOW).unwrap();
        assert_eq!(fresh.may_stay(SetCookie::Fresh), stays, "{control}");
        let fresh = freshen_by_head(&authorized, &stored, 10, &update, NOW, NOW).unwrap();
        assert_eq!(fresh.may_stay(SetCookie::Fresh), stays, "{control}");
    }
}

fn answered(method: Method, request: Fields, stored: &Head) -> Answer {
    // Dates in requests are written as in responses.
    let headers = response(200, request).headers;
    answer(&Asked::of(&method, &headers), &headers, stored, 100)
}

#[test]
fn s4_3_2_if_none_match() {
    for (stored, condition, modified) in [
        ("\"a\"", "\"a\"", false),
        ("\"a\"", "W/\"a\"", false),
        ("W/\"a\"", "\"a\"", false),
        ("W/\"a\"", "W/\"a\"", false),
        ("\"a\"", "\"b\"", true),
        ("\"a\"", "\"b\", \"a\"", false),
        ("\"a\"", "\"b\" , W/\"a\",\"c\"", false),
        ("\"a,b\"", "\"x\", \"a,b\"", false),
        ("\"a\"", "*", false),
        ("\"a\"", "\"*\"", true),
        ("a", "a", false),
        ("\"a\"", "", true),
    ] {
        let stored = head(&[("cache-control", "max-age=60"), ("etag", stored)]);
        let expected = if modified { Answer::Full } else { Answer::NotModified };
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(answered(method, &[("if-none-match", condition)], &stored), expected, "{condition}");
        }
    }
    let untagged = head(&[("cache-control", "max-age=60")]);
    assert_eq!(answered(Method::GET, &[("if-none-match", "\"a\"")], &untagged), Answer::Full);
    assert_eq!(answered(Method::GET, &[("if-none-match", "*")], &untagged), Answer::NotModified);
    let two = [("if-none-match", "\"b\""), ("if-none-match", "\"a\"")];
    let tagged = head(&[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
    assert_eq!(answered(Method::GET, &two, &tagged), Answer::NotModified);
}

#[test]
fn s4_3_2_if_modified_since() {
    let changed = head(&[("cache-control", "max-age=60"), ("last-modified", "@-60"), ("date", "@0")]);
    let undated = head(&[("cache-control", "max-age=60"), ("date", "@0")]);
    for (stored, since, modified) in [
        (&changed, "@-60", false),
        (&changed, "@-59", false),
        (&changed, "@-61", true),
        (&changed, "yesterday", true),
        (&undated, "@0", false),
        (&undated, "@-1", true),
    ] {
        let expected = if modified { Answer::Full } else { Answer::NotModified };
        assert_eq!(answered(Method::GET, &[("if-modified-since", since)], stored), expected, "{since}");
    }
    let twice = [("if-modified-since", "@0"), ("if-modified-since", "@0")];
    assert_eq!(answered(Method::GET, &twice, &changed), Answer::Full);
}

#[test]
fn rfc9110_13_2_2_precedence() {
    let stored = head(&[
        ("cache-control", "max-age=60"),
        ("etag", "\"a\""),
        ("last-modified", "@-60"),
        ("date", "@0"),
    ]);
    let table: &[(Fields, Answer)] = &[
        (&[("if-none-match", "\"b\""), ("if-modified-since", "@0")], Answer::Full),
        (&[("if-none-match", "\"a\""), ("if-modified-since", "@-90")], Answer::NotModified),
        (&[("if-none-match", "\"a\""), ("range", "bytes=0-1")], Answer::NotModified),
        (&[("if-none-match", "\"b\""), ("range", "bytes=0-1")], Answer::Part { first: 0, last: 1 }),
    ];
    for (request, expected) in table {
        assert_eq!(answered(Method::GET, request, &stored), *expected, "{request:?}");
    }
}

#[test]
fn only_stored_200s_are_tested() {
    let gone = store(410, &[("cache-control", "max-age=60"), ("etag", "\"a\"")]).unwrap();
    for request in [("if-none-match", "\"a\""), ("range", "bytes=0-1")] {
        assert_eq!(answered(Method::GET, &[request], &gone), Answer::Full, "{request:?}");
    }
}

#[test]
fn rfc9110_14_ranges() {
    let stored = head(&[("cache-control", "max-age=60")]);
    let part = |first, last| Answer::Part { first, last };
    for (range, expected) in [
        ("bytes=0-0", part(0, 0)),
        ("bytes=10-19", part(10, 19)),
        ("BYTES=10-19", part(10, 19)),
        ("bytes= 10-19 ,", part(10, 19)),
        ("bytes=90-", part(90, 99)),
        ("bytes=90-1000", part(90, 99)),
        ("bytes=0-99999999999999999999999", part(0, 99)),
        ("bytes=-10", part(90, 99)),
        ("bytes=-1000", part(0, 99)),
        ("bytes=100-", Answer::Unsatisfiable),
        ("bytes=99999999999999999999999-", Answer::Unsatisfiable),
        ("bytes=-0", Answer::Unsatisfiable),
        ("bytes=19-10", Answer::Full),
        ("bytes=0-1,5-6", Answer::Parts(vec![(0, 1), (5, 6)])),
        ("bytes=5-6, 0-1", Answer::Parts(vec![(5, 6), (0, 1)])),
        ("bytes=0-1,1-2", Answer::Full),
        ("bytes=", Answer::Full),
        ("bytes=-", Answer::Full),
        ("bytes=a-b", Answer::Full),
        ("bytes=1 - 2", Answer::Full),
        ("bytes=--1", Answer::Full),
        ("bytes=+1-2", Answer::Full),
        ("lines=0-1", Answer::Full),
        ("0-1", Answer::Full),
        ("", Answer::Full),
    ] {
        assert_eq!(answered(Method::GET, &[("range", range)], &stored), expected, "{range}");
        assert_eq!(answered(Method::HEAD, &[("range", range)], &stored), Answer::Full, "{range}");
    }
    let headers = fields(&[("range", "bytes=-5")]);
    assert_eq!(answer(&get(&[("range", "bytes=-5")]), &headers, &stored, 0), Answer::Full);
}

#[test]
fn rfc9110_13_1_5_if_range() {
    let strong = head(&[
        ("cache-control", "max-age=60"),
        ("etag", "\"a\""),
        ("last-modified", "@-60"),
        ("date", "@0"),
    ]);
    let weak = head(&[
        ("cache-control", "max-age=60"),
        ("etag", "W/\"a\""),
        ("last-modified", "@0"),
        ("date", "@0"),
    ]);
    for (stored, condition, holds) in [
        (&strong, "\"a\"", true),
        (&strong, "\"b\"", false),
        (&strong, "W/\"a\"", false),
        (&weak, "W/\"a\"", false),
        (&weak, "\"a\"", false),
        (&strong, "@-60", true),
        (&strong, "@-59", false),
        (&strong, "@-61", false),
        (&weak, "@0", false),
        (&strong, "junk", false),
    ] {
        let request = [("range", "bytes=0-1"), ("if-range", condition)];
        let expected = if holds { Answer::Part { first: 0, last: 1 } } else { Answer::Full };
        assert_eq!(answered(Method::GET, &request, stored), expected, "{condition}");
    }
}

#[test]
fn rfc9110_15_4_5_fields_of_a_304() {
    let all: Fields = &[
        ("cache-control", "max-age=60"),
        ("content-location", "/x"),
        ("date", "@0"),
        ("expires", "@60"),
        ("vary", "accept"),
    ];
    let more: Fields = &[("content-type", "text/plain"), ("last-modified", "@-60")];
    let names = |list: Fields| {
        let mut names: Vec<_> =
            cache::not_modified_headers(&head(list)).keys().map(|n| n.to_string()).collect();
        names.sort();
        names
    };
    let kept = ["cache-control", "content-location", "date", "etag", "expires", "vary"];
    assert_eq!(names(&[all, more, &[("etag", "\"a\"")]].concat()), kept);
    let kept = ["cache-control", "content-location", "date", "expires", "last-modified", "vary"];
    assert_eq!(names(&[all, more].concat()), kept);
}

#[test]
fn rfc9110_14_4_content_range() {
    assert_eq!(cache::content_range(0, 9, Some(100)), "bytes 0-9/100");
    assert_eq!(cache::content_range(0, 9, None), "bytes 0-9/*");
    assert_eq!(cache::unsatisfied_content_range(100), "bytes */100");
}
