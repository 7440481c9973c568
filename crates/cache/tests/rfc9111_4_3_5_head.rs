//! RFC 9111 section 4.3.5: what a 200 to HEAD makes of a stored response to GET.

mod common;

use cache::{Head, NotStored, SetCookie, freshen_by_head};
use common::*;

/// Of the stored bodies.
const LENGTH: u64 = 10;

fn updated(stored: &Head, list: Fields) -> Option<Head> {
    freshen_by_head(&get(&[]), stored, LENGTH, &response(200, list), NOW + 100, NOW + 100)
}

#[test]
fn s4_3_5_matching_values_for_any_received_validator_and_the_length() {
    let (tag, other) = (("etag", "\"a\""), ("etag", "\"b\""));
    let (date, later) = (("last-modified", "@-90"), ("last-modified", "@-80"));
    // stored, received: updated, or else stale
    let table: &[(Fields, Fields, bool)] = &[
        (&[tag, date], &[], true),
        (&[tag, date], &[tag, date], true),
        (&[tag, date], &[tag], true),
        (&[tag, date], &[date], true),
        (&[tag, date], &[other, date], false),
        (&[tag, date], &[tag, later], false),
        (&[tag], &[("etag", "W/\"a\"")], false),
        (&[tag], &[date], false),
        (&[date], &[tag], false),
        (&[], &[tag], false),
        (&[], &[], true),
        (&[tag], &[tag, ("content-length", "10")], true),
        (&[tag], &[tag, ("content-length", "11")], false),
        (&[], &[("content-length", "10")], true),
        (&[], &[("content-length", "9")], false),
        (&[], &[("content-length", "ten")], false),
    ];
    for (stored, received, updates) in table {
        let head = head(&[stored, &[("cache-control", "max-age=60")][..]].concat());
        assert_eq!(updated(&head, received).is_some(), *updates, "{stored:?} {received:?}");
    }
}

#[test]
fn s4_3_5_the_fields_of_the_head_response_update_the_stored_ones() {
    let stored = head(&[
        ("cache-control", "max-age=60"),
        ("etag", "\"a\""),
        ("date", "@0"),
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("x-old", "1"),
    ]);
    let fresh = updated(
        &stored,
        &[
            ("cache-control", "max-age=90"),
            ("etag", "\"a\""),
            ("date", "@100"),
            ("age", "5"),
            ("content-length", "10"),
            ("content-type", "text/html"),
            ("content-encoding", "br"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
        ],
    );
    let expected = [
        ("cache-control", "max-age=90"),
        ("etag", "\"a\""),
        ("date", "@100"),
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("x-old", "1"),
    ];
    let fresh = fresh.unwrap();
    assert_eq!(fresh.headers, response(200, &expected).headers);
    assert_eq!((fresh.age(NOW + 100), fresh.lifetime()), (5, 90));
}

#[test]
fn s4_3_5_an_update_can_end_the_storing() {
    let stored = head(&[("cache-control", "max-age=60"), ("vary", "accept")]);
    for (name, value, stays) in [
        ("x", "1", Ok(())),
        ("cache-control", "no-store", Err(NotStored::NoStore)),
        ("cache-control", "private, max-age=9", Err(NotStored::Private)),
        ("vary", "accept, foo", Err(NotStored::VaryChanged)),
        ("vary", "*", Err(NotStored::VaryStar)),
    ] {
        let fresh = updated(&stored, &[(name, value)]).unwrap();
        assert_eq!(fresh.may_stay(SetCookie::Fresh), stays, "{name}: {value}");
    }
}

#[test]
fn s4_3_5_a_part_is_not_updated_by_what_is_said_of_the_whole() {
    let list = [("cache-control", "max-age=60"), ("content-range", "bytes 0-9/20"), ("etag", "\"a\"")];
    let part = Head::storable(&get(&[("range", "bytes=0-9")]), &response(206, &list), NOW, NOW).unwrap();
    assert!(updated(&part, &[("etag", "\"a\""), ("content-length", "20")]).is_none());
    let fresh = updated(&part, &[("etag", "\"a\"")]).unwrap();
    assert_eq!((fresh.status.as_u16(), fresh.part().map(|part| part.complete)), (206, Some(Some(20))));
}
