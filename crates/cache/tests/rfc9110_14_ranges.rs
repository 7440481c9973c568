//! RFC 9110 sections 14.1.1, 14.1.2 and 14.2: ranges of a stored representation.

mod common;

use Answer::{Full, Unsatisfiable};
use cache::{Answer, answer};
use common::*;

fn part(first: u64, last: u64) -> Answer {
    Answer::Part { first, last }
}

fn parts(list: &[(u64, u64)]) -> Answer {
    Answer::Parts(list.to_vec())
}

fn check(length: u64, table: &[(&str, Answer)]) {
    let stored = head(&[("cache-control", "max-age=60")]);
    for (range, expected) in table {
        let list = [("range", *range)];
        assert_eq!(answer(&get(&list), &fields(&list), &stored, length), *expected, "{range} of {length}");
    }
}

#[test]
fn s14_1_2_the_sections_own_examples() {
    check(
        10_000,
        &[
            ("bytes=0-499", part(0, 499)),
            ("bytes=500-999", part(500, 999)),
            ("bytes=-500", part(9500, 9999)),
            ("bytes=9500-", part(9500, 9999)),
            ("bytes=0-0,-1", parts(&[(0, 0), (9999, 9999)])),
            ("bytes= 0-999, 4500-5499, -1000", parts(&[(0, 999), (4500, 5499), (9000, 9999)])),
            ("bytes=500-600,601-999", parts(&[(500, 600), (601, 999)])),
            // These overlap, which a server may ignore (14.2).
            ("bytes=500-700,601-999", Full),
        ],
    );
}

#[test]
fn s14_1_2_positions() {
    check(
        10,
        &[
            ("bytes=0-0", part(0, 0)),
            ("bytes=9-9", part(9, 9)),
            ("bytes=0-", part(0, 9)),
            // "the value is greater than or equal to the current length": the remainder
            ("bytes=5-10", part(5, 9)),
            ("bytes=5-18446744073709551615", part(5, 9)),
            ("bytes=5-18446744073709551616", part(5, 9)),
            ("bytes=00005-0006", part(5, 6)),
            // "If the selected representation is shorter": all of it
            ("bytes=-10", part(0, 9)),
            ("bytes=-11", part(0, 9)),
            ("bytes=-99999999999999999999999", part(0, 9)),
        ],
    );
}

#[test]
fn s14_1_2_satisfiable_ranges() {
    check(
        10,
        &[
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-20", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=10-20,-0", Unsatisfiable),
            // "if it contains at least one range-spec that is satisfiable"
            ("bytes=10-20,0-1", part(0, 1)),
            ("bytes=-0,0-1,5-6", parts(&[(0, 1), (5, 6)])),
        ],
    );
    // Of nothing, only a suffix is satisfiable, and no Content-Range can say what it is: "MAY ignore" (14.2).
    check(
        0,
        &[
            ("bytes=0-", Unsatisfiable),
            ("bytes=-1", Full),
            ("bytes=-0", Unsatisfiable),
            ("bytes=0-,-1", Full),
        ],
    );
}

#[test]
fn s14_1_1_an_invalid_specifier_is_ignored() {
    let invalid = [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-",
        "bytes=1",
        "bytes=2-1",
        "bytes=0-1,2-1",
        "bytes=0-1,x",
        "bytes=0-1;2-3",
        "bytes=0--1",
        "bytes=+0-1",
        "bytes=0x0-1",
        "bytes=0 - 1",
        "bytes=\"0-1\"",
        "0-1",
        // "MUST ignore a Range header field that contains a range unit it does not understand"
        "none=0-1",
        "seconds=0-1",
        "byte=0-1",
        "bytes, lines=0-1",
    ];
    check(10, &invalid.map(|range| (range, Full)));
    // Unit names are case-insensitive, and empty members of a list do not count (5.6.1).
    check(10, &[("Bytes=0-1", part(0, 1)), ("bytes=,0-1,,", part(0, 1))]);
    let list = [("range", "bytes=0-1"), ("range", "bytes=5-6")];
    assert_eq!(answer(&get(&list), &fields(&list), &head(&[("cache-control", "max-age=60")]), 10), Full);
}

#[test]
fn s14_2_several_ranges() {
    let many =
        |count: u64| (0..count).map(|n| format!("{}-{}", n * 10, n * 10)).collect::<Vec<_>>().join(",");
    let all = |count: u64| (0..count).map(|n| (n * 10, n * 10)).collect::<Vec<_>>();
    check(
        1_000,
        &[
            // 15.3.7.2: "in the same order"
            ("bytes=20-29,0-9", parts(&[(20, 29), (0, 9)])),
            ("bytes=0-9,990-,2000-", parts(&[(0, 9), (990, 999)])),
            ("bytes=0-9,9-10", Full),
            ("bytes=0-,-1", Full),
            ("bytes=0-0,0-0", Full),
            (&format!("bytes={}", many(16)), parts(&all(16))),
            // "a set of many small ranges": denial of service (17.15)
            (&format!("bytes={}", many(17)), Full),
        ],
    );
}
