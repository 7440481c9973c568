//! RFC 9111 section 5: Age, Cache-Control, Expires and Pragma.

mod common;

use cache::{Asked, NotStored, Pass, Plan, Stale, Verdict, judge};
use common::*;

/// What a response that always may be stored tells about its lifetime.
fn lifetime(list: Fields) -> u64 {
    let list = [list, &[("etag", "\"always stored\"")]].concat();
    store(200, &list).unwrap().lifetime()
}

#[test]
fn s5_1_age() {
    let table: &[(&[&str], u64)] = &[
        (&[], 0),
        (&["0"], 0),
        (&["30"], 30),
        (&["0030"], 30),
        (&[" 30 "], 30),
        // 1.2.2: "greater than the greatest integer it can represent"
        (&["2147483647"], 2_147_483_647),
        (&["2147483648"], 1 << 31),
        (&["99999999999999999999"], 1 << 31),
        // "a list-based Age field value": the first member
        (&["30, 40"], 30),
        (&["40, 30"], 40),
        (&["30", "40"], 30),
        (&["30, x"], 30),
        (&[",30"], 30),
        // "If the field value (after discarding additional members) is invalid": ignored
        (&["x, 30"], 0),
        (&["x", "30"], 0),
        (&["-1"], 0),
        (&["+30"], 0),
        (&["30.0"], 0),
        (&["30;x"], 0),
        (&["3 0"], 0),
        (&["0x1e"], 0),
        (&["\"30\""], 0),
        (&["30s"], 0),
        (&[""], 0),
    ];
    for (lines, age) in table {
        let mut list: Vec<_> = lines.iter().map(|line| ("age", *line)).collect();
        list.extend([("cache-control", "max-age=60"), ("date", "@0")]);
        assert_eq!(head(&list).age(NOW), *age, "{lines:?}");
    }
}

#[test]
fn s5_2_directives_are_compared_without_regard_to_case_and_take_both_forms_of_arguments() {
    for (control, expected) in [
        ("max-age=60", 60),
        ("MAX-AGE=60", 60),
        ("max-age=\"60\"", 60),
        ("Max-Age=60 ,foo", 60),
        (" , max-age=60,,", 60),
        ("s-maxage=\"60\", max-age=1", 60),
    ] {
        assert_eq!(lifetime(&[("cache-control", control)]), expected, "{control}");
    }
}

#[test]
fn s5_2_3_unrecognised_directives_are_ignored() {
    for control in [
        "max-age=60, foo",
        "foo=bar, max-age=60",
        "foo=\"max-age=1, no-store\", max-age=60",
        "foo=\"a\\\", no-store, \\\"b\", max-age=60",
        "xmax-age=1, max-age=60",
        "max-age-x=1, max-age=60",
        "x-private, max-age=60, no-storex",
        "foo=, =bar, max-age=60",
        // Directives of requests mean nothing in responses.
        "max-age=60, only-if-cached, min-fresh=90, max-stale",
    ] {
        assert_eq!(lifetime(&[("cache-control", control)]), 60, "{control}");
    }
}

#[test]
fn s4_2_1_of_several_values_one_counts_or_the_response_is_stale() {
    let table: &[(&[&str], u64)] = &[
        (&["max-age=60, max-age=30"], 30),
        (&["max-age=30", "max-age=60"], 30),
        (&["s-maxage=9, s-maxage=8, max-age=60"], 8),
        (&["max-age=60, max-age=x"], 0),
        // "invalid freshness information": stale
        (&["max-age"], 0),
        (&["max-age="], 0),
        (&["max-age=x"], 0),
        (&["max-age=-60"], 0),
        (&["max-age=60.5"], 0),
        (&["max-age=60s"], 0),
        (&["max-age=\"60"], 0),
        (&["max-age='60'"], 0),
        (&["max-age = 60"], 0),
        (&["max-age=60;foo"], 0),
        (&["max-age=60 foo"], 0),
        (&["s-maxage=x, max-age=60"], 0),
        (&["max-age=99999999999999999999"], 1 << 31),
    ];
    for (lines, expected) in table {
        let list: Vec<_> = lines.iter().map(|line| ("cache-control", *line)).collect();
        assert_eq!(lifetime(&list), *expected, "{lines:?}");
    }
}

#[test]
fn s5_2_1_request_directives() {
    let fresh = head(&[("cache-control", "max-age=60")]);
    let verdict = |lines: &[&str]| {
        let list: Vec<_> = lines.iter().map(|line| ("cache-control", *line)).collect();
        judge(&get(&list), &fresh, NOW + 10)
    };
    let stale = Verdict::Stale;
    let table: &[(&[&str], Verdict)] = &[
        (&["max-age=10"], Verdict::Fresh),
        (&["max-age=\"9\""], stale(Stale::RequestMaxAge)),
        (&["MAX-AGE=9"], stale(Stale::RequestMaxAge)),
        (&["max-age=99, max-age=9"], stale(Stale::RequestMaxAge)),
        (&["max-age=99", "max-age=9"], stale(Stale::RequestMaxAge)),
        (&["max-age"], stale(Stale::RequestMaxAge)),
        (&["max-age=x"], stale(Stale::RequestMaxAge)),
        (&["min-fresh=50"], Verdict::Fresh),
        (&["min-fresh=\"51\""], stale(Stale::MinFresh)),
        (&["min-fresh=1, min-fresh=51"], stale(Stale::MinFresh)),
        (&["No-Cache"], stale(Stale::RequestNoCache)),
        (&["no-cache=\"x\""], stale(Stale::RequestNoCache)),
        (&["foo, no-cache"], stale(Stale::RequestNoCache)),
        // 5.2.3, and directives of responses mean nothing in requests.
        (&["foo=\"no-cache, max-age=1\""], Verdict::Fresh),
        (&["private, must-revalidate, s-maxage=1, immutable, public"], Verdict::Fresh),
        // 5.2.1.6: nothing is transformed.
        (&["no-transform"], Verdict::Fresh),
    ];
    for (lines, expected) in table {
        assert_eq!(verdict(lines), *expected, "{lines:?}");
    }
}

#[test]
fn s5_2_1_5_and_7_no_store_and_only_if_cached() {
    let asked = |control| get(&[("cache-control", control)]);
    for control in ["no-store", "NO-STORE", "max-age=1, no-store", "no-store=x", "no-store=\"x\""] {
        assert_eq!(asked(control).plan(), Plan::Pass(Pass::NoStore), "{control}");
    }
    for control in ["foo=\"no-store\"", "no-storage", "xno-store"] {
        assert_eq!(asked(control).plan(), Plan::Lookup, "{control}");
    }
    assert!(asked("Only-If-Cached").only_if_cached() && !asked("foo=\"only-if-cached\"").only_if_cached());
    assert!(asked("only-if-cached, max-age=0").only_if_cached());
}

#[test]
fn s5_2_2_what_responses_forbid() {
    use NotStored::{NoStore, NotUnderstood, Private};
    let table: &[(&[&str], Result<(), NotStored>)] = &[
        (&["no-store"], Err(NoStore)),
        (&["No-Store, max-age=60"], Err(NoStore)),
        (&["max-age=60", "no-store"], Err(NoStore)),
        (&["no-store=\"x\", max-age=60"], Err(NoStore)),
        (&["foo=\"bar, no-store"], Err(NoStore)),
        (&["private"], Err(Private)),
        (&["public, private"], Err(Private)),
        // 5.2.2.7: "handled by caches as if an unqualified private directive was received"
        (&["private=\"set-cookie\", max-age=60"], Err(Private)),
        (&["private=set-cookie, max-age=60"], Err(Private)),
        // 5.2.2.3
        (&["no-store, must-understand, max-age=60"], Ok(())),
        (&["must-understand, private"], Err(Private)),
    ];
    for (lines, expected) in table {
        let mut list: Vec<_> = lines.iter().map(|line| ("cache-control", *line)).collect();
        list.push(("etag", "\"a\""));
        assert_eq!(store(200, &list).map(|_| ()), *expected, "{lines:?}");
    }
    let unknown = store(499, &[("cache-control", "must-understand, max-age=60, no-store")]);
    assert_eq!(unknown, Err(NotUnderstood));
}

#[test]
fn s5_2_2_when_responses_must_be_validated() {
    let stale = Verdict::Stale;
    // response, seconds later, to a client that takes anything stale
    for (control, later, expected) in [
        ("max-age=60, no-cache", 1, stale(Stale::NoCache)),
        // 5.2.2.4: "handled by caches as if an unqualified no-cache directive was received"
        ("max-age=60, no-cache=\"set-cookie\"", 1, stale(Stale::NoCache)),
        ("max-age=60, no-cache=set-cookie", 1, stale(Stale::NoCache)),
        ("max-age=60", 61, Verdict::ServeStale),
        ("max-age=60, must-revalidate", 59, Verdict::Fresh),
        ("max-age=60, must-revalidate", 61, stale(Stale::Expired)),
        ("max-age=60, Proxy-Revalidate", 61, stale(Stale::Expired)),
        ("max-age=60, must-revalidate=x", 61, stale(Stale::Expired)),
        // 5.2.2.10: "incorporates the semantics of the proxy-revalidate response directive"
        ("s-maxage=60", 61, stale(Stale::Expired)),
    ] {
        let head = head(&[("cache-control", control), ("etag", "\"a\"")]);
        let asked = get(&[("cache-control", "max-stale")]);
        assert_eq!(judge(&asked, &head, NOW + later), expected, "{control} + {later}");
    }
}

#[test]
fn s5_3_expires() {
    let table: &[(Fields, u64)] = &[
        (&[("expires", "@60"), ("date", "@0")], 60),
        (&[("expires", "@60"), ("date", "@-60")], 120),
        (&[("expires", "@60"), ("date", "@60")], 0),
        (&[("expires", "@60"), ("date", "soon")], 60),
        (&[("expires", "Sunday, 15-Jun-25 15:07:40 GMT"), ("date", "@0")], 60),
        (&[("expires", "Sun Jun 15 15:07:40 2025"), ("date", "@0")], 60),
        // "invalid date formats, especially the value "0"": already expired
        (&[("expires", "0"), ("last-modified", "@-9000")], 0),
        (&[("expires", "-1"), ("last-modified", "@-9000")], 0),
        (&[("expires", ""), ("last-modified", "@-9000")], 0),
        (&[("expires", "Sun, 15 Jun 2025 15:07:40 CEST"), ("last-modified", "@-9000")], 0),
        (&[("expires", "60"), ("last-modified", "@-9000")], 0),
        (&[("expires", "@60"), ("expires", "@60")], 0),
        // "a recipient MUST ignore the Expires header field"
        (&[("expires", "@60"), ("cache-control", "max-age=30")], 30),
        (&[("expires", "@60"), ("cache-control", "s-maxage=30")], 30),
        (&[("expires", "@60"), ("cache-control", "max-age=x")], 0),
        (&[("expires", "0"), ("cache-control", "max-age=30")], 30),
        (&[("expires", "@60"), ("date", "@0"), ("cache-control", "public, foo=1")], 60),
    ];
    for (list, expected) in table {
        assert_eq!(lifetime(list), *expected, "{list:?}");
    }
}

#[test]
fn s5_4_pragma_is_for_requests_without_cache_control() {
    let fresh = head(&[("cache-control", "max-age=60")]);
    let verdict = |list| judge(&get(list), &fresh, NOW + 10);
    let table: &[(Fields, Verdict)] = &[
        (&[("pragma", "no-cache")], Verdict::Stale(Stale::RequestNoCache)),
        (&[("pragma", "foo, No-Cache")], Verdict::Stale(Stale::RequestNoCache)),
        (&[("pragma", "foo=\"no-cache\"")], Verdict::Fresh),
        (&[("pragma", "no-cache"), ("cache-control", "max-age=10")], Verdict::Fresh),
        (&[("pragma", "no-cache"), ("cache-control", "")], Verdict::Fresh),
    ];
    for (list, expected) in table {
        assert_eq!(verdict(list), *expected, "{list:?}");
    }
    // Its meaning in responses "was never specified".
    assert_eq!(lifetime(&[("pragma", "no-cache"), ("cache-control", "max-age=60")]), 60);
    let asked = Asked::of(&http::Method::GET, &fields(&[("pragma", "no-store")]));
    assert_eq!(asked.plan(), Plan::Lookup);
}
