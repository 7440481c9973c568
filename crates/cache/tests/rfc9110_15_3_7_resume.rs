//! RFC 9110 sections 13.1.5 and 15.3.7: going on with a response that broke off.

mod common;

use cache::{Head, Resume};
use common::{Fields, NOW, fields, get, head, response, store};
use http::header::{COOKIE, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn of(list: Fields, length: Option<u64>) -> Option<Resume> {
    Resume::of(&head(&[&[FRESH], list].concat()), length)
}

#[test]
fn only_a_strong_validator_says_what_the_rest_is_of() {
    let table: [(Fields, Option<&str>); 7] = [
        (&[("etag", "\"a\"")], Some("\"a\"")),
        (&[("etag", "\"a\""), ("last-modified", "@-60")], Some("\"a\"")),
        (&[("last-modified", "@-60"), ("date", "@0")], Some("date")),
        (&[("etag", "W/\"a\"")], None),
        (&[("etag", "a")], None),
        (&[("last-modified", "@0"), ("date", "@0")], None),
        (&[], None),
    ];
    for (list, condition) in table {
        let found = of(list, Some(10)).map(|resume| {
            let mut request = fields(&[("if-none-match", "\"x\""), ("if-match", "*"), ("cookie", "c")]);
            resume.ask(&mut request, 4, Some(10));
            assert!(!request.contains_key(IF_NONE_MATCH) && !request.contains_key(IF_MATCH));
            assert_eq!(
                (&request[RANGE], &request[COOKIE]),
                (&"bytes=4-9".parse().unwrap(), &"c".parse().unwrap())
            );
            request[IF_RANGE].to_str().unwrap().to_owned()
        });
        match condition {
            Some("date") => assert_eq!(found, Some(cache::http_date(NOW - 60).to_str().unwrap().to_owned())),
            condition => assert_eq!(found.as_deref(), condition, "{list:?}"),
        }
    }
    assert_eq!(Resume::of(&store(404, &[FRESH, ("etag", "\"a\"")]).unwrap(), Some(10)), None);
}

#[test]
fn only_exactly_the_rest_continues() {
    let etag = ("etag", "\"a\"");
    let known = of(&[etag], Some(10)).unwrap();
    let unknown = of(&[etag], None).unwrap();
    let range = |range| ("content-range", range);
    type Row<'a> = (&'a Resume, Option<u64>, u16, Fields<'a>, Option<u64>);
    let table: [Row; 15] = [
        (&known, Some(10), 206, &[etag, range("bytes 4-9/10")], Some(6)),
        (&known, Some(7), 206, &[etag, range("bytes 4-6/10")], Some(3)),
        (&known, None, 206, &[etag, range("bytes 4-9/10")], Some(6)),
        (&unknown, None, 206, &[etag, range("bytes 4-11/12")], Some(8)),
        (&unknown, None, 206, &[etag, range("bytes 4-11/13")], None),
        (&unknown, None, 206, &[etag, range("bytes 4-11/*")], None),
        (&known, Some(10), 200, &[etag, range("bytes 4-9/10")], None),
        (&known, Some(10), 206, &[etag, range("bytes 3-9/10")], None),
        (&known, Some(10), 206, &[etag, range("bytes 4-8/10")], None),
        (&known, Some(10), 206, &[etag, range("bytes 4-9/11")], None),
        (&known, Some(10), 206, &[etag, range("bytes 4-9/*")], None),
        (&known, Some(10), 206, &[("etag", "\"b\""), range("bytes 4-9/10")], None),
        (&known, Some(10), 206, &[("etag", "W/\"a\""), range("bytes 4-9/10")], None),
        (&known, Some(10), 206, &[range("bytes 4-9/10")], None),
        (&known, Some(10), 206, &[etag], None),
    ];
    for (resume, to, status, list, left) in table {
        assert_eq!(resume.continues(&response(status, list), 4, to), left, "{status} {list:?} {to:?}");
    }
}

/// What does not continue it may say something of the request, or nothing.
#[test]
fn all_of_the_same_representation_has_the_rest_of_it() {
    let (etag, date, br) = (("etag", "\"a\""), ("last-modified", "@-60"), ("content-encoding", "br"));
    let tagged = of(&[etag], Some(10)).unwrap();
    let dated = of(&[date, ("date", "@0"), br], Some(10)).unwrap();
    let table: [(&Resume, u16, Fields, Option<u64>, bool); 13] = [
        (&tagged, 200, &[etag], Some(10), true),
        (&dated, 200, &[date, br], Some(10), true),
        (&tagged, 200, &[etag], Some(11), false),
        (&tagged, 200, &[etag], None, false),
        (&tagged, 200, &[], Some(10), false),
        (&tagged, 200, &[("etag", "\"b\"")], Some(10), false),
        (&tagged, 200, &[("etag", "W/\"a\"")], Some(10), false),
        (&tagged, 200, &[etag, br], Some(10), false),
        (&tagged, 203, &[etag], Some(10), false),
        (&tagged, 206, &[etag], Some(10), false),
        (&dated, 200, &[date], Some(10), false),
        (&dated, 200, &[date, br, etag], Some(10), false),
        (&dated, 200, &[("last-modified", "@-59"), br], Some(10), false),
    ];
    for (resume, status, list, length, is_whole) in table {
        let found =
            [None, Some(7), Some(11)].map(|to| resume.within_whole(&response(status, list), length, (4, to)));
        let expected = [Some((4, 6)), Some((4, 3)), None].map(|found| found.filter(|_| is_whole));
        assert_eq!(found, expected, "{status} {list:?} {length:?}");
    }
    // Nobody knows how long it was.
    let unknown = of(&[etag], None).unwrap();
    assert_eq!(unknown.within_whole(&response(200, &[etag]), Some(10), (4, None)), None);
}

#[test]
fn an_answer_that_says_that_it_changed_or_is_gone_ends_it() {
    let (etag, date) = (("etag", "\"a\""), ("last-modified", "@-60"));
    let resume = of(&[etag], Some(10)).unwrap();
    let dated = of(&[date, ("date", "@0"), ("content-encoding", "br")], Some(10)).unwrap();
    let range = |range| ("content-range", range);
    let table: [(&Resume, u16, Fields, bool); 17] = [
        (&resume, 200, &[("etag", "\"b\"")], true),
        (&resume, 200, &[], true),
        (&dated, 200, &[date], true),
        (&resume, 404, &[], true),
        (&resume, 410, &[], true),
        (&resume, 416, &[range("bytes */4")], true),
        (&resume, 206, &[("etag", "\"b\""), range("bytes 4-9/10")], true),
        (&resume, 206, &[etag, range("bytes 4-9/11")], true),
        (&dated, 206, &[("last-modified", "@-59"), range("bytes 4-9/10")], true),
        // Fewer bytes than were asked for, and those that have no validator, or another coding.
        (&resume, 206, &[etag, range("bytes 4-6/10")], false),
        (&resume, 206, &[range("bytes 4-9/*")], false),
        (&dated, 206, &[date, range("bytes 4-9/10")], false),
        // All of it, from an origin without ranges.
        (&resume, 200, &[etag], false),
        (&resume, 302, &[("location", "/login")], false),
        (&resume, 401, &[], false),
        (&resume, 403, &[], false),
        (&resume, 503, &[], false),
    ];
    for (resume, status, list, ended) in table {
        assert_eq!(resume.is_ended_by(&response(status, list)), ended, "{status} {list:?}");
    }
}

#[test]
fn bytes_that_are_not_for_a_shared_cache_are_not_stored_with_the_others() {
    let alice = ("authorization", "alice");
    let table: [(Fields, Fields, bool); 6] = [
        (&[], &[("etag", "\"a\"")], true),
        (&[], &[("cache-control", "no-store")], false),
        (&[], &[("cache-control", "max-age=9, private")], false),
        (&[("cookie", "c")], &[("cache-control", "max-age=9")], true),
        (&[alice], &[("cache-control", "max-age=9")], false),
        (&[alice], &[("cache-control", "public")], true),
    ];
    for (request, list, may) in table {
        let request = fields(request);
        assert_eq!(Head::part_may_stay(&request, &response(206, list)), may, "{request:?} {list:?}");
    }
}

#[test]
fn what_shares_a_date_shares_coding_and_tag_too() {
    let date = ("last-modified", "@-60");
    let resume = of(&[date, ("date", "@0"), ("content-encoding", "br")], Some(10)).unwrap();
    let range = ("content-range", "bytes 4-9/10");
    let table: [(Fields, bool); 5] = [
        (&[date, range, ("content-encoding", "br")], true),
        (&[date, range], false),
        (&[date, range, ("content-encoding", "br"), ("etag", "W/\"1\"")], false),
        (&[("last-modified", "@-61"), range, ("content-encoding", "br")], false),
        (&[range, ("content-encoding", "br")], false),
    ];
    for (list, continues) in table {
        assert_eq!(resume.continues(&response(206, list), 4, None).is_some(), continues, "{list:?}");
    }
}

#[test]
fn a_part_goes_on_within_its_representation() {
    let list = [FRESH, ("etag", "\"a\""), ("content-range", "bytes 100-199/500")];
    let asked = get(&[("range", "bytes=100-199")]);
    let part = Head::storable(&asked, &response(206, &list), NOW, NOW).unwrap();
    assert_eq!(Resume::of(&part, None), None);
    let resume = Resume::of(&part, Some(100)).unwrap();
    let mut request = fields(&[]);
    resume.ask(&mut request, 30, Some(100));
    assert_eq!(request[RANGE], "bytes=130-199");
    let rest = |range| response(206, &[("etag", "\"a\""), ("content-range", range)]);
    assert_eq!(resume.continues(&rest("bytes 130-199/500"), 30, Some(100)), Some(70));
    assert_eq!(resume.continues(&rest("bytes 30-99/500"), 30, Some(100)), None);
}
