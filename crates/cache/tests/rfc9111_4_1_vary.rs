//! RFC 9111 section 4.1: which requests a stored response with Vary matches.

mod common;

use cache::{Vary, VaryStar, key};
use common::*;

fn vary(list: Fields) -> Result<Option<Vary>, VaryStar> {
    Vary::of(&fields(list))
}

fn same(names: &str, first: Fields, second: Fields) -> bool {
    let vary = vary(&[("vary", names)]).unwrap().unwrap();
    let key = |list| key::variant(b"GET http://h/", &vary, &fields(list));
    key(first) == key(second)
}

#[test]
fn s4_1_a_member_star_always_fails_to_match() {
    let stars: &[Fields] = &[
        &[("vary", "*")],
        &[("vary", " * ")],
        &[("vary", "*, accept")],
        &[("vary", "accept,*")],
        &[("vary", "accept"), ("vary", "*")],
        &[("vary", ""), ("vary", "*")],
        &[("vary", "*"), ("vary", "*")],
        // Not a field name: what it selects by cannot be known.
        &[("vary", "accept encoding")],
        &[("vary", "accept; encoding")],
        &[("vary", "\"accept\"")],
    ];
    for list in stars {
        assert_eq!(vary(list), Err(VaryStar), "{list:?}");
    }
    for list in [&[][..], &[("vary", "")], &[("vary", " ,, ")]] {
        assert_eq!(vary(list), Ok(None), "{list:?}");
    }
}

#[test]
fn s4_1_all_the_nominated_fields_match() {
    let table: &[(&str, Fields, Fields, bool)] = &[
        ("a", &[("a", "1")], &[("a", "1")], true),
        ("a", &[("a", "1")], &[("a", "2")], false),
        ("A", &[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "2")], true),
        ("a, b", &[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "2")], false),
        ("b, a", &[("a", "1"), ("b", "2")], &[("b", "2"), ("a", "1")], true),
        ("a, b", &[("a", "1")], &[("b", "1")], false),
        ("a, b", &[("a", "b:1")], &[("a", "b"), ("b", "1")], false),
    ];
    for (names, first, second, expected) in table {
        assert_eq!(same(names, first, second), *expected, "{names}: {first:?} {second:?}");
    }
}

#[test]
fn s4_1_an_absent_field_matches_only_an_absent_one() {
    assert!(same("a", &[], &[("b", "1")]));
    assert!(!same("a", &[], &[("a", "1")]));
    assert!(!same("a", &[], &[("a", "")]));
    assert!(same("a", &[("a", "")], &[("a", " ")]));
    assert!(!same("accept-encoding", &[], &[("accept-encoding", "")]));
}

#[test]
fn s4_1_a_field_that_the_origin_never_saw_matches_as_absent() {
    // RFC 9110 section 7.6.1: Connection takes it away before the request goes on.
    let table: &[(Fields, Fields, bool)] = &[
        (&[("a", "1"), ("connection", "a")], &[], true),
        (&[("a", "1"), ("connection", "close, A")], &[("a", "2"), ("connection", "a")], true),
        (&[("a", "1"), ("connection", "a")], &[("a", "1")], false),
        (&[("a", "1"), ("connection", "close"), ("connection", "a")], &[("a", "1")], false),
        (&[("a", "1"), ("connection", "close, b")], &[("a", "1")], true),
    ];
    for (first, second, expected) in table {
        assert_eq!(same("a", first, second), *expected, "{first:?} {second:?}");
    }
    // "A sender MUST NOT send a connection option corresponding to a field that is intended for all recipients".
    let list: Fields = &[("cache-control", "x"), ("connection", "cache-control")];
    assert!(!same("cache-control", list, &[]));
}

#[test]
fn s4_1_values_match_that_can_be_transformed_into_each_other() {
    let table: &[(&str, &str, &str, bool)] = &[
        // "adding or removing whitespace, where allowed in the header field's syntax"
        ("a", "x, y", "x,y", true),
        ("a", " x ,\ty ", "x,y", true),
        ("a", "x y", "xy", false),
        ("a", "\"x, y\"", "\"x,y\"", false),
        ("user-agent", "x (p, q)", "x (p,q)", false),
        ("cookie", "i=1; j=2", "i=1;j=2", false),
        // "reordering field values when order is not significant"
        ("a", "x, y", "y, x", false),
        ("accept-language", "de, en", "en, de", true),
        ("accept-language", "de, en;q=0.5", "en, de;q=0.5", false),
        ("accept", "text/html, text/plain", "text/plain, text/html", false),
        // "case-normalization, where values are defined to be case-insensitive"
        ("a", "X", "x", false),
        ("accept-encoding", "GZip", "gzip", true),
        ("accept-language", "EN-gb", "en-GB", true),
        ("accept", "Text/HTML", "text/html", false),
        // Weights are numbers (RFC 9110 section 12.4.2).
        ("accept-encoding", "br;q=1.0, gzip;q=0.50", "gzip ; q=0.5, br", true),
        ("accept-encoding", "br;q=0, gzip", "gzip", false),
        ("accept-encoding", "br;q=2", "br", false),
        ("accept-encoding", "identity", "", false),
    ];
    for (name, first, second, expected) in table {
        assert_eq!(same(name, &[(name, first)], &[(name, second)]), *expected, "{name}: {first} / {second}");
    }
}

#[test]
fn s4_1_lines_of_one_field_are_combined() {
    assert!(same("a", &[("a", "x"), ("a", "y")], &[("a", "x, y")]));
    assert!(!same("a", &[("a", "x"), ("a", "y")], &[("a", "y"), ("a", "x")]));
    let lines: Fields = &[("accept-language", "de;q=0.5"), ("accept-language", "en")];
    assert!(same("accept-language", lines, &[("accept-language", "en,de;q=0.5")]));
    assert!(same("user-agent", &[("user-agent", "x"), ("user-agent", "y")], &[("user-agent", "x, y")]));
}
