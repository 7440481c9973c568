//! RFC 9111 sections 3.3 and 3.4, RFC 9110 section 14.4: stored parts.

mod common;

use cache::{Head, NotStored, Part, ask_for_the_rest, can_answer, combined};
use common::{Fields, NOW, fields, get, response};
use http::header::{IF_RANGE, RANGE};

const STRONG: (&str, &str) = ("etag", "\"a\"");

fn part(range: &str, validator: Option<(&str, &str)>) -> Result<Head, NotStored> {
    let mut list = vec![("cache-control", "max-age=60"), ("content-range", range)];
    list.extend(validator);
    let asked = get(&[("range", "bytes=0-")]);
    Head::storable(&asked, &response(206, &list), NOW, NOW)
}

/// A stored part whose body is as long as its range says.
fn stored(range: &str, validator: Option<(&str, &str)>) -> (Head, u64) {
    let (first, last) = range.split(['/', ' ']).nth(1).unwrap().split_once('-').unwrap();
    let length = last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1;
    let mut head = part(range, validator).unwrap();
    head.settle(length);
    (head, length)
}

#[test]
fn rfc9110_14_4_content_range() {
    for (text, expected) in [
        ("bytes 0-4/10", Some((0, Some(10)))),
        ("bytes 4-9/10", Some((4, Some(10)))),
        ("Bytes 4-9/*", Some((4, None))),
        ("bytes 4-10/10", None),
        ("bytes 5-4/10", None),
        ("bytes */10", None),
        ("bytes 0-4", None),
        ("bytes -4/10", None),
        ("bytes +0-4/10", None),
        ("seconds 0-4/10", None),
        ("bytes 0-99999999999999999999/*", None),
        ("bytes 0-18446744073709551615/10", None),
        ("bytes 0-9/10/10", None),
        ("bytes=0-9/10", None),
        ("bytes 0-9/10, bytes 0-9/10", None),
        ("", None),
    ] {
        let found =
            part(text, None).map(|head| head.part().map(|Part { first, complete, .. }| (first, complete)));
        assert_eq!(found, expected.ok_or(NotStored::Partial).map(Some), "{text}");
    }
}

#[test]
fn s3_4_a_part_answers_only_what_it_has() {
    for (range, request, answers) in [
        ("bytes 4-8/10", "bytes=4-8", true),
        ("bytes 4-8/10", "bytes=6-7", true),
        ("bytes 4-8/10", "bytes=3-7", false),
        ("bytes 4-8/10", "bytes=6-", false),
        ("bytes 4-8/10", "bytes=-1", false),
        ("bytes 4-9/10", "bytes=6-", true),
        ("bytes 4-9/10", "bytes=6-99", true),
        ("bytes 4-9/10", "bytes=-3", true),
        ("bytes 4-9/10", "bytes=-99", false),
        ("bytes 4-9/10", "bytes=10-", false),
        ("bytes 4-9/10", "bytes=4-5,7-8", true),
        ("bytes 4-8/10", "bytes=4-5,8-9", false),
        ("bytes 4-9/*", "bytes=4-9", true),
        ("bytes 4-9/*", "bytes=6-", false),
        ("bytes 4-9/*", "bytes=-3", false),
    ] {
        let (head, length) = stored(range, Some(STRONG));
        let list: Fields = &[("range", request)];
        assert_eq!(can_answer(&get(list), &fields(list), &head, length), answers, "{range} {request}");
        let other: Fields = &[("range", request), ("if-range", "\"b\"")];
        assert!(!can_answer(&get(other), &fields(other), &head, length), "{range} {request}");
    }
    let (head, length) = stored("bytes 4-9/10", None);
    assert!(!can_answer(&get(&[]), &fields(&[]), &head, length));
}

#[test]
fn what_came_is_believed_before_what_was_said() {
    let complete = |range: &str, length: u64| {
        let mut head = part(range, None).unwrap();
        head.settle(length);
        (head.status.as_u16(), head.part().and_then(|part| part.complete))
    };
    assert_eq!(complete("bytes 4-9/10", 5), (206, Some(9)));
    assert_eq!(complete("bytes 4-9/10", 9), (206, Some(13)));
    assert_eq!(complete("bytes 4-8/10", 4), (206, Some(10)));
    assert_eq!(complete("bytes 0-9/10", 10), (200, None));
    assert_eq!(complete("bytes 0-9/*", 10), (206, None));
}

#[test]
fn s3_4_parts_are_combined_by_a_strong_validator() {
    let weak = ("etag", "W/\"a\"");
    let dated = ("last-modified", "@-90");
    let changed = ("last-modified", "@0");
    for (one, other, validators, expected) in [
        ("bytes 0-4/10", "bytes 5-9/10", [Some(STRONG); 2], Some((200, 0))),
        ("bytes 5-9/10", "bytes 0-6/10", [Some(STRONG); 2], Some((200, 0))),
        ("bytes 2-4/10", "bytes 4-6/10", [Some(STRONG); 2], Some((206, 2))),
        ("bytes 0-4/10", "bytes 5-9/10", [Some(dated); 2], Some((200, 0))),
        ("bytes 0-4/*", "bytes 5-9/10", [Some(STRONG); 2], Some((200, 0))),
        ("bytes 0-4/10", "bytes 6-9/10", [Some(STRONG); 2], None),
        ("bytes 0-4/10", "bytes 5-9/12", [Some(STRONG); 2], None),
        ("bytes 0-4/10", "bytes 5-9/10", [Some(weak); 2], None),
        ("bytes 0-4/10", "bytes 5-9/10", [Some(changed); 2], None),
        ("bytes 0-4/10", "bytes 5-9/10", [Some(STRONG), Some(("etag", "\"b\""))], None),
        ("bytes 0-4/10", "bytes 5-9/10", [Some(STRONG), Some(dated)], None),
        ("bytes 0-4/10", "bytes 5-9/10", [None; 2], None),
    ] {
        let (one, one_length) = stored(one, validators[0]);
        let (other, other_length) = stored(other, validators[1]);
        let both = combined(&one, one_length, &other, other_length);
        let found = both.map(|head| (head.status.as_u16(), head.part().map_or(0, |part| part.first)));
        assert_eq!(found, expected, "{one:?} {other:?}");
    }
}

#[test]
fn s3_4_dates_do_not_combine_codings_or_versions() {
    let dated: [(&str, &str); 3] =
        [("cache-control", "max-age=60"), ("last-modified", "@-90"), ("date", "@0")];
    let part = |range, more: Fields| {
        let list = [&dated[..], &[("content-range", range)], more].concat();
        let mut head =
            Head::storable(&get(&[("range", "bytes=0-")]), &response(206, &list), NOW, NOW).unwrap();
        head.settle(5);
        head
    };
    let gzip: Fields = &[("content-encoding", "gzip")];
    let (old, new): (Fields, Fields) = (&[("etag", "W/\"a\"")], &[("etag", "W/\"b\"")]);
    for (one, other, combine) in
        [(gzip, gzip, true), (gzip, &[][..], false), (&[], gzip, false), (old, old, true), (old, new, false)]
    {
        let (one, other) = (part("bytes 0-4/10", one), part("bytes 5-9/10", other));
        assert_eq!(combined(&one, 5, &other, 5).is_some(), combine, "{one:?} {other:?}");
    }
}

#[test]
fn s3_4_the_new_parts_fields_update_the_stored_ones() {
    let list = [
        ("cache-control", "max-age=60"),
        ("content-range", "bytes 0-4/10"),
        ("etag", "\"a\""),
        ("date", "@0"),
        ("content-type", "text/css"),
        ("vary", "accept"),
        ("x-old", "1"),
    ];
    let mut first = Head::storable(&get(&[("range", "bytes=0-4")]), &response(206, &list), NOW, NOW).unwrap();
    first.settle(5);
    // RFC 9110 section 15.3.7: an answer to If-Range brings little more than what tells its age.
    let list = [
        ("cache-control", "max-age=90"),
        ("content-range", "bytes 5-9/10"),
        ("etag", "\"a\""),
        ("date", "@100"),
        ("age", "7"),
        ("vary", "accept"),
    ];
    let mut rest = Head::storable(&get(&[]), &response(206, &list), NOW + 100, NOW + 100).unwrap();
    rest.settle(5);
    let expected = [
        ("cache-control", "max-age=90"),
        ("etag", "\"a\""),
        ("date", "@100"),
        ("content-type", "text/css"),
        ("vary", "accept"),
        ("x-old", "1"),
    ];
    let whole = combined(&first, 5, &rest, 5).unwrap();
    assert_eq!((whole.status.as_u16(), &whole.headers), (200, &response(200, &expected).headers));
    assert_eq!((whole.age(NOW + 100), whole.lifetime()), (7, 90));
    assert!(whole.vary().is_some());
}

#[test]
fn s3_4_parts_are_stored_as_one_only_when_both_may_be() {
    let part = |range, control, request: Fields| {
        let list = [("cache-control", control), ("content-range", range), STRONG];
        let mut head = Head::storable(&get(request), &response(206, &list), NOW, NOW).unwrap();
        head.settle(5);
        head
    };
    let authorized: Fields = &[("range", "bytes=0-4"), ("authorization", "x")];
    let first = part("bytes 0-4/10", "public, max-age=60", authorized);
    let rest = |control| part("bytes 5-9/10", control, &[("range", "bytes=5-9")]);
    assert!(combined(&first, 5, &rest("public, max-age=60"), 5).is_some());
    assert!(combined(&first, 5, &rest("max-age=60"), 5).is_none(), "section 3.5");
}

#[test]
fn rfc9110_15_3_7_what_is_no_head_for_others_is_not_stored() {
    let range: Fields = &[("range", "bytes=0-9")];
    let if_range: Fields = &[("range", "bytes=0-9"), ("if-range", "\"a\"")];
    let kind = ("content-type", "text/css");
    let parts = ("content-type", "Multipart/Byteranges; boundary=x");
    for (request, status, more, expected) in [
        (range, 206, None, Ok(())),
        (if_range, 206, Some(kind), Ok(())),
        // The client has the other fields already, and nobody else.
        (if_range, 206, None, Err(NotStored::Partial)),
        // 15.3.7.2: what Content-Range says beside several parts is about none of them.
        (range, 206, Some(parts), Err(NotStored::Partial)),
        // 15.5.17: the answer to a range, not to the resource.
        (range, 416, Some(kind), Err(NotStored::Partial)),
    ] {
        let mut list = vec![("cache-control", "max-age=60"), ("content-range", "bytes 0-9/10"), STRONG];
        list.extend(more);
        let stored = Head::storable(&get(request), &response(status, &list), NOW, NOW);
        assert_eq!(stored.map(|_| ()), expected, "{status} {request:?} {more:?}");
    }
}

#[test]
fn s3_4_the_rest_is_asked_for() {
    for (range, validator, asked) in [
        ("bytes 0-4/10", Some(STRONG), Some((Some("bytes=5-"), Some("\"a\"")))),
        ("bytes 0-4/10", Some(("etag", "W/\"a\"")), Some((Some("bytes=5-"), None))),
        ("bytes 0-4/10", None, Some((Some("bytes=5-"), None))),
        ("bytes 0-4/*", Some(STRONG), None),
        ("bytes 1-4/10", Some(STRONG), None),
    ] {
        let (head, length) = stored(range, validator);
        let mut request = fields(&[]);
        let asks = ask_for_the_rest(&mut request, &head, length);
        let text = |name| request.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(asks.then(|| (text(RANGE), text(IF_RANGE))), asked, "{range} {validator:?}");
    }
}

#[test]
fn a_part_survives_its_encoding() {
    for range in ["bytes 4-9/10", "bytes 4-9/*"] {
        let (head, _) = stored(range, Some(STRONG));
        let back = Head::decode(&head.encode()).unwrap();
        let of = |head: &Head| head.part().map(|part| (part.first, part.complete));
        assert_eq!((of(&back), back.status), (of(&head), head.status));
    }
}
