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
