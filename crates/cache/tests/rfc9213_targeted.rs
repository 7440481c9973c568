//! RFC 9213: CDN-Cache-Control in place of Cache-Control and Expires.

mod common;

use cache::{Asked, Head, NotStored, Stale, Verdict, freshen, judge};
use common::*;
use http::Method;

const FIELD: &str = "cdn-cache-control";

/// The lifetime of a response that every rule but no-store and private would keep.
fn lifetime(list: Fields) -> Result<u64, NotStored> {
    let mut list = list.to_vec();
    list.push(("etag", "\"a\""));
    store(200, &list).map(|head| head.lifetime())
}

#[test]
fn s2_1_only_a_dictionary_counts() {
    // CDN-Cache-Control beside Cache-Control: max-age=1
    for (value, expected) in [
        ("max-age=60", 60),
        ("foobar, max-age=60", 60),
        ("max-age=60;x=y", 60),
        ("max-age=60,s-maxage=90", 90),
        ("max-age=30, max-age=60", 60),
        ("max-age=60, &&&&&", 1),
        ("max-age=60,", 1),
        ("MaX-aGe=60", 1),
        ("max-age =60", 1),
        ("max-age= 60", 1),
        ("max-age=60, é", 1),
        ("max-age=9999999999999999", 1),
        ("", 1),
        ("  ", 1),
        ("max-age=99999999999", 1 << 31),
        ("max-age=2147483648", 1 << 31),
        ("max-age=0", 0),
        ("none", 0),
    ] {
        let list = [("cache-control", "max-age=1"), (FIELD, value)];
        assert_eq!(lifetime(&list), Ok(expected), "{value}");
    }
}

#[test]
fn s2_1_types_are_not_read_into_each_other() {
    for value in
        ["max-age=\"60\"", "max-age=1.5", "max-age=-1", "max-age=x", "max-age=(60)", "max-age", "max-age=?0"]
    {
        let list = [("cache-control", "max-age=9"), ("last-modified", "@-9000"), (FIELD, value)];
        assert_eq!(lifetime(&list), Ok(0), "{value}");
        let list = [("cache-control", "no-store"), (FIELD, value)];
        assert_eq!(store(200, &list).map(|_| ()), Err(NotStored::NoFreshness), "{value}");
    }
    for (value, expected) in [
        ("max-age=60, no-store", Err(NotStored::NoStore)),
        ("max-age=60, no-store=1", Err(NotStored::NoStore)),
        ("max-age=60, no-store=?0", Ok(60)),
        ("max-age=60, private", Err(NotStored::Private)),
        ("max-age=60, private=\"set-cookie\"", Err(NotStored::Private)),
        ("max-age=60, private=(a b)", Err(NotStored::Private)),
        ("max-age=60, private=?0", Ok(60)),
    ] {
        assert_eq!(lifetime(&[(FIELD, value)]), expected, "{value}");
    }
}

#[test]
fn s2_1_lines_are_joined() {
    let list = [(FIELD, "max-age=60"), ("cache-control", "no-store"), (FIELD, "must-revalidate")];
    assert_eq!(lifetime(&list), Ok(60));
    let list = [(FIELD, "max-age=60"), (FIELD, "&"), (FIELD, "x"), ("cache-control", "no-store")];
    assert_eq!(lifetime(&list), Err(NotStored::NoStore));
    assert_eq!(lifetime(&[(FIELD, "a"), (FIELD, "b"), (FIELD, "max-age=60")]), Ok(60));
}

#[test]
fn s2_2_cache_control_and_expires_do_not_count_beside_it() {
    let table: &[(Fields, Result<u64, NotStored>)] = &[
        (&[("cache-control", "no-store"), (FIELD, "max-age=60")], Ok(60)),
        (&[("cache-control", "private"), (FIELD, "max-age=60")], Ok(60)),
        (&[("cache-control", "s-maxage=9"), (FIELD, "max-age=60")], Ok(60)),
        (&[("cache-control", "max-age=60"), (FIELD, "max-age=1")], Ok(1)),
        (&[("expires", "0"), (FIELD, "max-age=60")], Ok(60)),
        (&[("expires", "@90"), (FIELD, "max-age=0")], Ok(0)),
        (&[("expires", "@90"), (FIELD, "none")], Ok(0)),
        (&[("expires", "@90"), (FIELD, "&")], Ok(90)),
        (&[("expires", "@90"), ("last-modified", "@-500"), (FIELD, "none")], Ok(50)),
        (&[("cache-control", "max-age=90"), (FIELD, "no-store")], Err(NotStored::NoStore)),
        (&[("cache-control", "max-age=90"), (FIELD, "private")], Err(NotStored::Private)),
        (&[("cache-control", "no-store"), (FIELD, "&, max-age=60")], Err(NotStored::NoStore)),
    ];
    for (list, expected) in table {
        assert_eq!(lifetime(list), *expected, "{list:?}");
    }
}

#[test]
fn s2_2_directives_mean_what_they_mean_in_cache_control() {
    let verdict = |value: &str, later| {
        let head = head(&[("cache-control", "max-age=9"), (FIELD, value), ("etag", "\"a\"")]);
        judge(&get(&[("cache-control", "max-stale")]), &head, NOW + later)
    };
    assert_eq!(verdict("max-age=60, no-cache", 10), Verdict::Stale(Stale::NoCache));
    assert_eq!(verdict("max-age=60, no-cache=\"set-cookie\"", 10), Verdict::Stale(Stale::NoCache));
    assert_eq!(verdict("max-age=60, no-cache=?0", 10), Verdict::Fresh);
    assert_eq!(verdict("max-age=60", 70), Verdict::ServeStale);
    for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=60"] {
        let value = format!("max-age=60, {forbids}");
        assert_eq!(verdict(&value, 70), Verdict::Stale(Stale::Expired));
    }
    assert_eq!(store(599, &[(FIELD, "public=1, max-age=x"), ("etag", "\"a\"")]).map(|_| ()), Ok(()));
    assert_eq!(store(599, &[(FIELD, "public=1"), ("etag", "\"a\"")]), Err(NotStored::NoFreshness));
    assert!(store(599, &[(FIELD, "public"), ("etag", "\"a\"")]).is_ok());
    assert!(store(200, &[(FIELD, "no-store, must-understand, max-age=60")]).is_ok());
    assert_eq!(
        store(499, &[(FIELD, "no-store, must-understand, max-age=60")]),
        Err(NotStored::NotUnderstood)
    );
    assert_eq!(store(200, &[(FIELD, "no-store, must-understand=1, max-age=60")]), Err(NotStored::NoStore));
    let head = head(&[(FIELD, "max-age=1, stale-while-revalidate=5, stale-if-error=7, immutable")]);
    assert_eq!((head.stale_while_revalidate(), head.stale_if_error()), (Some(5), Some(7)));
    assert!(head.is_immutable());
}

#[test]
fn s2_2_it_permits_what_cache_control_would_permit() {
    let asked = get(&[("authorization", "Basic eDp5")]);
    for (list, expected) in [
        ([("cache-control", "public"), (FIELD, "max-age=60")], Err(NotStored::Authorization)),
        ([("cache-control", "private"), (FIELD, "max-age=60, public")], Ok(())),
        ([("cache-control", "private"), (FIELD, "s-maxage=60")], Ok(())),
        ([("cache-control", "private"), (FIELD, "max-age=60, must-revalidate")], Ok(())),
    ] {
        let stored = Head::storable(&asked, &response(200, &list), NOW, NOW);
        assert_eq!(stored.map(|_| ()), expected, "{list:?}");
    }
    // Section 7.3 of RFC 9111: the origin's word, here for this cache.
    for (value, expected) in [("max-age=60", Ok(())), ("none", Err(NotStored::SetCookie))] {
        let list = [("set-cookie", "a=b"), ("cache-control", "max-age=60"), (FIELD, value)];
        assert_eq!(store(200, &list).map(|_| ()), expected, "{value}");
    }
}

#[test]
fn s2_3_the_age_counts_as_ever_and_s3_the_field_is_passed_on() {
    let head = head(&[(FIELD, "max-age=3600"), ("age", "1800"), ("cache-control", "max-age=600")]);
    assert_eq!(head.age(NOW), 1800);
    assert!(head.is_fresh(NOW + 1799) && !head.is_fresh(NOW + 1800));
    assert_eq!(head.headers[FIELD], "max-age=3600");
    assert_eq!(head.headers["cache-control"], "max-age=600");
}

#[test]
fn rfc9111_4_3_4_a_304_updates_it() {
    let asked = Asked::of(&Method::GET, &Default::default());
    let list = [(FIELD, "max-age=60"), ("etag", "\"a\"")];
    let head = Head::storable(&asked, &response(200, &list), NOW, NOW).unwrap();
    let lifetime =
        |list: Fields| freshen(&get(&[]), &head, &response(304, list), NOW, NOW).unwrap().lifetime();
    assert_eq!(lifetime(&[(FIELD, "max-age=90")]), 90);
    assert_eq!(lifetime(&[("cache-control", "max-age=90")]), 60);
    assert_eq!(lifetime(&[("cache-control", "max-age=90"), (FIELD, "")]), 90);
}
