//! RFC 9111 section 3: which responses a shared cache may store.

mod common;

use cache::{Asked, Head, NotStored, SetCookie, Stored, freshen, freshen_by_head};
use common::*;
use http::Method;

type Row<'a> = (u16, Fields<'a>, Result<(), NotStored>);

fn check(table: &[Row]) {
    for (status, fields, expected) in table {
        assert_eq!(store(*status, fields).map(|_| ()), *expected, "{status} {fields:?}");
    }
}

#[test]
fn s3_response_directives() {
    check(&[
        (200, &[("cache-control", "max-age=60")], Ok(())),
        (200, &[("cache-control", "s-maxage=60")], Ok(())),
        (200, &[("expires", "@60")], Ok(())),
        (200, &[("cache-control", "max-age=60, no-store")], Err(NotStored::NoStore)),
        (200, &[("cache-control", "max-age=60"), ("cache-control", "No-Store")], Err(NotStored::NoStore)),
        (200, &[("cache-control", "max-age=60, private")], Err(NotStored::Private)),
        (200, &[("cache-control", "max-age=60, private=\"x-name\"")], Err(NotStored::Private)),
        (200, &[("cache-control", "max-age=60, ext=\"private, no-store\"")], Ok(())),
        (200, &[("cache-control", "no-cache"), ("etag", "\"a\"")], Ok(())),
        (200, &[("cache-control", "no-cache, max-age=60")], Err(NotStored::NoFreshness)),
        (200, &[("cache-control", "unknown, max-age=60")], Ok(())),
        (200, &[("pragma", "no-cache"), ("cache-control", "max-age=60")], Ok(())),
    ]);
}

#[test]
fn s3_status_codes() {
    for status in [100, 101, 103] {
        assert_eq!(store(status, &[("cache-control", "max-age=60")]), Err(NotStored::Interim), "{status}");
    }
    check(&[
        (206, &[("cache-control", "max-age=60")], Err(NotStored::Partial)),
        (304, &[("cache-control", "max-age=60")], Err(NotStored::NotModified)),
        (201, &[("cache-control", "max-age=60")], Ok(())),
        (302, &[("cache-control", "max-age=60")], Ok(())),
        (302, &[("last-modified", "@-9000")], Err(NotStored::NoFreshness)),
        (302, &[("last-modified", "@-9000"), ("cache-control", "public")], Ok(())),
        (500, &[("expires", "@60")], Ok(())),
        (599, &[("cache-control", "max-age=60")], Ok(())),
        (599, &[("etag", "\"a\"")], Err(NotStored::NoFreshness)),
    ]);
    // RFC 6585: "MUST NOT be stored by a cache".
    // RFC 9110 section 15: what is above 599 is no status.
    for status in [428, 429, 431, 511, 600, 777, 999] {
        assert_eq!(store(status, &[("cache-control", "max-age=60")]), Err(NotStored::Status), "{status}");
    }
}

#[test]
fn s5_2_2_3_must_understand() {
    check(&[
        (200, &[("cache-control", "no-store, must-understand, max-age=60")], Ok(())),
        (404, &[("cache-control", "must-understand, max-age=60")], Ok(())),
        (499, &[("cache-control", "must-understand, max-age=60")], Err(NotStored::NotUnderstood)),
        (499, &[("cache-control", "no-store, must-understand, max-age=60")], Err(NotStored::NotUnderstood)),
    ]);
}

#[test]
fn s3_something_permits_it_and_it_can_be_used() {
    check(&[
        (200, &[], Err(NotStored::NoFreshness)),
        (200, &[("etag", "\"a\"")], Ok(())),
        (200, &[("last-modified", "@-9000")], Ok(())),
        (200, &[("last-modified", "@0")], Ok(())),
        (200, &[("last-modified", "yesterday")], Err(NotStored::NoFreshness)),
        (200, &[("cache-control", "max-age=0")], Err(NotStored::NoFreshness)),
        (200, &[("cache-control", "max-age=0"), ("etag", "\"a\"")], Ok(())),
        (200, &[("cache-control", "max-age=0, stale-if-error=60")], Ok(())),
        (200, &[("expires", "0")], Err(NotStored::NoFreshness)),
    ]);
}

#[test]
fn s3_5_authorization() {
    let asked = get(&[("authorization", "Basic eDp5")]);
    for (control, expected) in [
        ("max-age=60", Err(NotStored::Authorization)),
        ("max-age=60, public", Ok(())),
        ("s-maxage=60", Ok(())),
        ("max-age=60, must-revalidate", Ok(())),
        ("max-age=60, proxy-revalidate", Err(NotStored::Authorization)),
        ("max-age=60, public, private", Err(NotStored::Private)),
    ] {
        let stored = Head::storable(&asked, &response(200, &[("cache-control", control)]), NOW, NOW);
        assert_eq!(stored.map(|_| ()), expected, "{control}");
    }
}

#[test]
fn s3_request_decides_too() {
    let response = response(200, &[("cache-control", "max-age=60")]);
    for (method, fields_, expected) in [
        (Method::GET, &[][..], Ok(())),
        (Method::GET, &[("range", "bytes=0-1")], Ok(())),
        (Method::GET, &[("cache-control", "no-cache")], Ok(())),
        (Method::GET, &[("cache-control", "no-store")], Err(NotStored::Request)),
        (Method::HEAD, &[], Err(NotStored::Method)),
        (Method::POST, &[], Err(NotStored::Method)),
    ] {
        let asked = Asked::of(&method, &fields(fields_));
        let stored = Head::storable(&asked, &response, NOW, NOW).map(|_| ());
        assert_eq!(stored, expected, "{method} {fields_:?}");
    }
}

#[test]
fn s4_1_vary_star_is_not_stored() {
    check(&[
        (200, &[("cache-control", "max-age=60"), ("vary", "*")], Err(NotStored::VaryStar)),
        (
            200,
            &[("cache-control", "max-age=60"), ("vary", "accept"), ("vary", "foo, *")],
            Err(NotStored::VaryStar),
        ),
        (200, &[("cache-control", "max-age=60"), ("vary", "accept")], Ok(())),
    ]);
    let head = head(&[("cache-control", "max-age=60"), ("vary", "Foo, Accept")]);
    assert_eq!(head.vary().unwrap().names(), ["accept", "foo"]);
}

#[test]
fn s7_3_cookies_are_shared_only_on_the_origins_word() {
    check(&[
        (200, &[("set-cookie", "a=b"), ("cache-control", "max-age=60")], Ok(())),
        (200, &[("set-cookie", "a=b"), ("expires", "@60")], Ok(())),
        (200, &[("set-cookie", "a=b"), ("last-modified", "@-9000")], Err(NotStored::SetCookie)),
        (
            200,
            &[("set-cookie", "a=b"), ("etag", "\"a\""), ("cache-control", "no-cache")],
            Err(NotStored::SetCookie),
        ),
    ]);
}

#[test]
fn cookies_are_shared_only_where_the_operator_permits_it_too() {
    let kept = |list: Fields, set_cookie| store(200, list).unwrap().obeying(set_cookie).map(|_| ());
    for word in ["max-age=60", "public, max-age=60", "s-maxage=60"] {
        let list = [("set-cookie", "a=b"), ("cache-control", word)];
        assert_eq!(kept(&list, SetCookie::Fresh), Ok(()), "{word}");
        assert_eq!(kept(&list, SetCookie::Never), Err(NotStored::SetCookie), "{word}");
        assert_eq!(kept(&list[1..], SetCookie::Never), Ok(()), "{word}");
    }
    let stored = head(&[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
    let update = [("cache-control", "max-age=60"), ("set-cookie", "a=b")];
    let by_304 = freshen(&get(&[]), &stored, &response(304, &update), NOW, NOW).unwrap();
    let by_head = freshen_by_head(&get(&[]), &stored, 10, &response(200, &update), NOW, NOW).unwrap();
    for head in [by_304, by_head] {
        assert_eq!(head.may_stay(SetCookie::Fresh), Ok(()));
        assert_eq!(head.may_stay(SetCookie::Never), Err(NotStored::SetCookie));
    }
}

#[test]
fn s3_1_fields_that_are_not_stored() {
    let head = head(&[
        ("cache-control", "max-age=60"),
        ("date", "@0"),
        ("connection", "x-hop, close"),
        ("x-hop", "1"),
        ("keep-alive", "5"),
        ("transfer-encoding", "chunked"),
        ("proxy-authenticate", "Basic"),
        ("trailer", "x"),
        ("age", "5"),
        ("content-length", "10"),
        ("x-end", "1"),
        ("x-end", "2"),
    ]);
    let expected =
        response(200, &[("cache-control", "max-age=60"), ("date", "@0"), ("x-end", "1"), ("x-end", "2")]);
    assert_eq!(head.headers, expected.headers);
}

#[test]
fn rfc9110_6_6_1_a_stored_response_has_a_date() {
    for date in [&[][..], &[("date", "soon")], &[("date", "@-50"), ("date", "@-60")]] {
        let mut list = vec![("cache-control", "max-age=60")];
        list.extend_from_slice(date);
        let head = head(&list);
        assert_eq!(head.date(), NOW);
        assert_eq!(head.headers.get_all("date").iter().count(), 1);
        assert_eq!(head.headers["date"], cache::http_date(NOW));
    }
}

#[test]
fn markers_and_responses_are_told_apart() {
    let head = head(&[("cache-control", "max-age=60"), ("vary", "accept")]);
    let marker = Stored::Varies(head.vary().unwrap().clone());
    assert_eq!(Stored::decode(&marker.encode()), Some(marker.clone()));
    assert!(Stored::is_vary_marker(&marker.encode()) && !Stored::is_vary_marker(&head.encode()));
    assert_eq!(Head::decode(&marker.encode()), None);
    assert_eq!(Stored::decode(&head.encode()), Some(Stored::Response(head)));
    assert_eq!(Stored::decode(&[]), None);
    assert_eq!(Stored::decode(&[2, 0]), None);
}
