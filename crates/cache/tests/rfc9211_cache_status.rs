//! RFC 9211 section 2: what Cache-Status says.

mod common;

use cache::{Item, Miss, NotStored, Outcome, Pass, Report, Stale};
use common::*;
use http::StatusCode;

fn said(report: impl Into<Report>) -> String {
    report.into().value(&Item::new("cosm")).to_str().unwrap().to_owned()
}

#[test]
fn s2_2_fwd_tells_why_from_most_specific_to_least() {
    use Outcome::{Miss as Missed, Pass as Passed};
    for (outcome, fwd) in [
        // "The cache was configured to not handle this request."
        (Passed(Pass::NoStore), "bypass"),
        (Passed(Pass::Upgrade), "bypass"),
        (Passed(Pass::Content), "bypass"),
        (Passed(Pass::Precondition), "bypass"),
        // "The request method's semantics require the request to be forwarded."
        (Passed(Pass::Method), "method"),
        (Missed(Miss::Uri), "uri-miss"),
        (Missed(Miss::Vary), "vary-miss"),
        // "able to select a fresh response for the request, but the request's semantics did not allow its use"
        (Missed(Miss::Stale(Stale::RequestNoCache)), "request"),
        (Missed(Miss::Stale(Stale::RequestMaxAge)), "request"),
        (Missed(Miss::Stale(Stale::MinFresh)), "request"),
        // "able to select a response for the request, but it was stale"
        (Missed(Miss::Stale(Stale::Expired)), "stale"),
        (Missed(Miss::Stale(Stale::NoCache)), "stale"),
        // "able to select a partial response, but it did not contain all of the requested ranges"
        (Missed(Miss::Partial), "partial"),
    ] {
        let said = said(outcome);
        let found = said.split("; ").find_map(|parameter| parameter.strip_prefix("fwd="));
        assert_eq!(found, Some(fwd), "{said}");
    }
}

#[test]
fn s3_the_sections_own_examples() {
    let uri_miss = Report::from(Outcome::Miss(Miss::Uri));
    for (report, expected) in [
        (Outcome::Hit.into(), "cosm; hit"),
        (Report { ttl: Some(376), ..Outcome::Hit.into() }, "cosm; hit; ttl=376"),
        (uri_miss, "cosm; fwd=uri-miss"),
        (Outcome::Revalidated(Stale::Expired).into(), "cosm; fwd=stale; fwd-status=304"),
        (Report { collapsed: Some(true), ..uri_miss }, "cosm; fwd=uri-miss; collapsed"),
        (Report { collapsed: Some(true), stored: true, ..uri_miss }, "cosm; fwd=uri-miss; stored; collapsed"),
    ] {
        assert_eq!(said(report), expected);
    }
}

#[test]
fn s2_3_fwd_status_is_the_next_hops() {
    let partial = Report::from(Outcome::Miss(Miss::Partial));
    let with = |status| Report { fwd_status: Some(status), ..partial };
    assert_eq!(said(with(StatusCode::PARTIAL_CONTENT)), "cosm; fwd=partial; fwd-status=206");
    let error = Report { fwd_status: Some(StatusCode::SERVICE_UNAVAILABLE), ..Outcome::StaleOnError.into() };
    assert_eq!(said(error), "cosm; fwd=stale; detail=stale-on-error; fwd-status=503");
    // It is said once.
    let revalidated = Outcome::Revalidated(Stale::Expired);
    let report = Report { fwd_status: Some(StatusCode::NOT_MODIFIED), ..revalidated.into() };
    assert_eq!(said(report), said(revalidated));
}

#[test]
fn s2_4_ttl_is_the_remaining_lifetime_and_negative_when_stale() {
    // lifetime, age on arrival, seconds later
    for (control, age, later, ttl) in [
        ("max-age=60", "0", 0, 60),
        ("max-age=60", "0", 59, 1),
        ("max-age=60", "0", 60, 0),
        ("max-age=60", "10", 62, -12),
        ("max-age=0", "0", 5, -5),
        ("s-maxage=90, max-age=60", "0", 0, 90),
        ("max-age=99999999999", "0", 0, 1 << 31),
        ("max-age=60", "0", u64::MAX, -(1 << 31)),
    ] {
        let list = [("cache-control", control), ("age", age), ("date", "@0"), ("etag", "\"a\"")];
        let now = NOW.saturating_add(later);
        assert_eq!(head(&list).ttl(now), ttl, "{control} {age} + {later}");
    }
    // "This includes freshness assigned by the cache through, for example, heuristics"
    assert_eq!(head(&[("last-modified", "@-1000"), ("date", "@0")]).ttl(NOW + 30), 70);
}

#[test]
fn s2_8_detail_is_a_token() {
    for reason in NotStored::ALL {
        let report = Report { not_stored: Some(reason), ..Outcome::Miss(Miss::Uri).into() };
        let text = said(report);
        let detail = text.strip_prefix("cosm; fwd=uri-miss; detail=").unwrap();
        assert!(detail.starts_with(|c: char| c.is_ascii_alphabetic()), "{detail}");
        assert!(detail.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{detail}");
    }
}

#[test]
fn s2_the_member_is_the_caches_name_as_token_or_string() {
    for (name, item) in [
        ("cosm", "cosm"),
        ("edge-7.example.net", "edge-7.example.net"),
        ("*", "*"),
        // RFC 9651 section 3.3.4: a token begins with a letter or `*`.
        ("007", "\"007\""),
        ("-edge", "\"-edge\""),
        ("two words", "\"two words\""),
        ("a\"b\\c", "\"a\\\"b\\\\c\""),
        ("", "\"\""),
    ] {
        assert_eq!(Report::from(Outcome::Hit).value(&Item::new(name)), format!("{item}; hit"));
    }
    let long = Report::from(Outcome::Hit).value(&Item::new(&"a".repeat(1000)));
    assert_eq!(long, format!("{}; hit", "a".repeat(Item::MAX)));
}
