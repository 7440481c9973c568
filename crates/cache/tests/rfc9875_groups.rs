//! RFC 9875: which groups a response belongs to, and which it ends.

mod common;

use cache::{groups, invalidated_groups};
use common::*;
use http::Method;

#[test]
fn s2_a_list_of_strings() {
    let table: &[(Fields, &[&str])] = &[
        (&[], &[]),
        (&[("cache-groups", "")], &[]),
        (&[("cache-groups", "\"scripts\"")], &["scripts"]),
        (&[("cache-groups", "\"a\", \"b\"")], &["a", "b"]),
        (&[("cache-groups", "\"a\",\t\"A\" , \"a\"")], &["a", "A"]),
        (&[("cache-groups", "\"a\""), ("cache-groups", "\"b\"")], &["a", "b"]),
        (&[("cache-groups", "\"a\";x=1;y, \"b\"")], &["a", "b"]),
        (&[("cache-groups", r#""a \"b\" \\", "a, b", """#)], &[r#"a "b" \"#, "a, b", ""]),
        (&[("cache-groups", "scripts")], &[]),
        (&[("cache-groups", "\"a\", b")], &[]),
        (&[("cache-groups", "\"a\", (\"b\")")], &[]),
        (&[("cache-groups", "\"a\", 1")], &[]),
        (&[("cache-groups", "\"a\",")], &[]),
        (&[("cache-groups", "\"a")], &[]),
        (&[("cache-groups", "\"é\"")], &[]),
        (&[("cache-groups", "\"a\""), ("cache-groups", "&")], &[]),
        (&[("cache-group-invalidation", "\"a\"")], &[]),
    ];
    for (list, expected) in table {
        assert_eq!(groups(&fields(list)), *expected, "{list:?}");
    }
}

#[test]
fn s2_limits() {
    let names: Vec<_> = (0..40).map(|n| format!("\"{n:032}\"")).collect();
    let found = groups(&fields(&[("cache-groups", &names.join(", "))]));
    assert_eq!((found.len(), &found[31][30..]), (32, "31"));
    let long = format!("\"{}\", \"b\", \"{}\"", "a".repeat(33), "c".repeat(32));
    assert_eq!(groups(&fields(&[("cache-groups", &long)])), ["b".to_owned(), "c".repeat(32)]);
}

#[test]
fn s3_what_a_response_ends() {
    let list = [("cache-group-invalidation", "\"a\", \"b\";x"), ("cache-groups", "\"c\"")];
    for (method, status, expected) in [
        ("POST", 200, &["a", "b"][..]),
        ("PUT", 204, &["a", "b"]),
        ("DELETE", 303, &["a", "b"]),
        ("NOBODY-KNOWS", 200, &["a", "b"]),
        ("POST", 404, &[]),
        ("POST", 500, &[]),
        ("GET", 200, &[]),
        ("HEAD", 200, &[]),
        ("OPTIONS", 200, &[]),
        ("QUERY", 200, &[]),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let found = invalidated_groups(&method, &response(status, &list));
        assert_eq!(found, *expected, "{method} {status}");
    }
    let invalid = response(200, &[("cache-group-invalidation", "a")]);
    assert!(invalidated_groups(&Method::POST, &invalid).is_empty());
}
