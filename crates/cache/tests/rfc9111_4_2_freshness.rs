//! RFC 9111 section 4.2: freshness lifetime and age; section 5.2.1: what requests make of them.

mod common;

use cache::{Head, Stale, Verdict, judge};
use common::*;

#[test]
fn s4_2_1_lifetime() {
    let table: &[(Fields, u64)] = &[
        (&[("cache-control", "max-age=60")], 60),
        (&[("cache-control", "max-age=60, s-maxage=90")], 90),
        (&[("cache-control", "s-maxage=30"), ("cache-control", "max-age=60")], 30),
        (&[("cache-control", "max-age=60"), ("expires", "@-90"), ("date", "@0")], 60),
        (&[("cache-control", "max-age=60"), ("expires", "0")], 60),
        (&[("cache-control", "max-age=0"), ("expires", "@90")], 0),
        (&[("cache-control", "max-age=4294967296")], 1 << 31),
        (&[("expires", "@90"), ("date", "@-10")], 100),
        (&[("expires", "@90")], 90),
        (&[("expires", "@-90"), ("date", "@0")], 0),
        (&[("expires", "@90"), ("expires", "@91")], 0),
        (&[("expires", "-1")], 0),
        (&[("expires", "")], 0),
        (&[("expires", "Sunday, 15-Jun-25 15:07:40 GMT"), ("date", "@0")], 60),
        (&[("expires", "Sun Jun 15 15:07:40 2025"), ("date", "@0")], 60),
        (&[("expires", "Fri, 31 Dec 9999 23:59:59 GMT"), ("date", "@0")], 1 << 31),
        (&[("expires", "@-90"), ("last-modified", "@-9000"), ("date", "@0")], 0),
    ];
    for (list, lifetime) in table {
        let mut list = list.to_vec();
        list.push(("etag", "\"always stored\""));
        assert_eq!(head(&list).lifetime(), *lifetime, "{list:?}");
    }
}

#[test]
fn s4_2_2_heuristic_lifetime() {
    let lifetime = |status, list: Fields| store(status, list).ok().map(|head| head.lifetime());
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501] {
        assert_eq!(lifetime(status, &[("last-modified", "@-1000"), ("date", "@0")]), Some(100), "{status}");
    }
    for status in [201, 302, 303, 307, 400, 403, 500, 502, 503, 599] {
        assert_eq!(lifetime(status, &[("last-modified", "@-1000")]), None, "{status}");
        let public = &[("last-modified", "@-1000"), ("cache-control", "public")];
        assert_eq!(lifetime(status, public), Some(100), "{status}");
    }
    assert_eq!(lifetime(200, &[("last-modified", "@-100000000")]), Some(86_400));
    assert_eq!(lifetime(200, &[("last-modified", "@1000"), ("date", "@0")]), Some(0));
    assert_eq!(lifetime(200, &[("last-modified", "@-1000"), ("date", "@-500")]), Some(50));
}

#[test]
fn s4_2_3_age() {
    // age field, date, request sent, response there, asked at (all but the first against NOW), age
    for (age, date, sent, received, asked, expected) in [
        ("0", 0, 0, 0, 0, 0),
        ("0", 0, 0, 0, 50, 50),
        ("30", 0, 0, 0, 50, 80),
        ("0", -40, 0, 0, 50, 90),
        ("30", -40, 0, 0, 0, 40),
        ("50", -40, 0, 0, 0, 50),
        ("30", 0, -5, 0, 10, 45),
        ("0", 60, 0, 0, 10, 10),
        ("0", 0, 0, 0, -10, 0),
        ("7200, 0", 0, 0, 0, 0, 7200),
        ("0, 7200", 0, 0, 0, 0, 0),
        ("abc", 0, 0, 0, 0, 0),
        ("-7200", 0, 0, 0, 0, 0),
        ("7200.0", 0, 0, 0, 0, 0),
        ("99999999999", 0, 0, 0, 0, 1 << 31),
        ("", 0, 0, 0, 0, 0),
    ] {
        let at = |offset: i64| NOW.saturating_add_signed(offset);
        let date = format!("@{date}");
        let list = [("age", age), ("date", &date), ("cache-control", "max-age=9")];
        let head = Head::storable(&get(&[]), &response(200, &list), at(sent), at(received)).unwrap();
        assert_eq!(head.age(at(asked)), expected, "{age} {date} {sent} {received} {asked}");
    }
}

#[test]
fn what_was_stored_under_a_clock_that_was_fast_is_validated() {
    let head = head(&[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
    for (behind, fresh) in [(0, true), (10, true), (11, false), (3600, false), (NOW, false)] {
        let verdict = judge(&get(&[]), &head, NOW - behind);
        assert_eq!(head.is_fresh(NOW - behind), fresh, "{behind}");
        assert_eq!(verdict == Verdict::Fresh, fresh, "{behind}: {verdict:?}");
    }
    assert_eq!(judge(&get(&[("cache-control", "max-stale=100")]), &head, 0), Verdict::Stale(Stale::Expired));
}

#[test]
fn s4_2_a_response_is_fresh_while_its_lifetime_exceeds_its_age() {
    let head = head(&[("cache-control", "max-age=60"), ("age", "10")]);
    assert!(head.is_fresh(NOW + 49));
    assert!(!head.is_fresh(NOW + 50));
    assert_eq!(judge(&get(&[]), &head, NOW + 49), Verdict::Fresh);
    assert_eq!(judge(&get(&[]), &head, NOW + 50), Verdict::Stale(Stale::Expired));
}

#[test]
fn s5_2_1_request_directives() {
    use Verdict::*;
    let expired = Stale(cache::Stale::Expired);
    // request, response, seconds later
    for (request, response, later, verdict) in [
        ("", "max-age=60", 10, Fresh),
        ("no-cache", "max-age=60", 10, Stale(cache::Stale::RequestNoCache)),
        ("no-cache, max-stale", "max-age=60", 70, Stale(cache::Stale::RequestNoCache)),
        ("max-age=10", "max-age=60", 10, Fresh),
        ("max-age=9", "max-age=60", 10, Stale(cache::Stale::RequestMaxAge)),
        ("max-age=0", "max-age=60", 0, Fresh),
        ("max-age=0", "max-age=60", 1, Stale(cache::Stale::RequestMaxAge)),
        ("min-fresh=50", "max-age=60", 10, Fresh),
        ("min-fresh=51", "max-age=60", 10, Stale(cache::Stale::MinFresh)),
        ("min-fresh=99999999999", "max-age=60", 10, Stale(cache::Stale::MinFresh)),
        ("max-stale", "max-age=60", 60, ServeStale),
        ("max-stale=10", "max-age=60", 70, ServeStale),
        ("max-stale=10", "max-age=60", 71, expired),
        ("max-stale=0", "max-age=60", 60, ServeStale),
        ("max-stale=x", "max-age=60", 61, expired),
        ("max-stale, max-age=65", "max-age=60", 66, expired),
        ("max-stale", "max-age=60, must-revalidate", 60, expired),
        ("max-stale", "max-age=60, proxy-revalidate", 60, expired),
        ("max-stale", "s-maxage=60", 60, expired),
        ("max-stale", "max-age=60, no-cache", 10, Stale(cache::Stale::NoCache)),
        ("only-if-cached", "max-age=60", 10, Fresh),
    ] {
        let head = head(&[("cache-control", response), ("etag", "\"a\"")]);
        let asked = get(&[("cache-control", request)]);
        assert_eq!(judge(&asked, &head, NOW + later), verdict, "{request} / {response} + {later}");
    }
    let fresh = head(&[("cache-control", "max-age=60")]);
    let verdict = judge(&get(&[("pragma", "no-cache")]), &fresh, NOW);
    assert_eq!(verdict, Stale(cache::Stale::RequestNoCache), "section 5.4");
}
