//! RFC 9111 section 4.4: what an answer to an unsafe request invalidates.

mod common;

use cache::{invalidated, key};
use common::*;
use http::Method;

/// The paths whose responses a request to `http://h.example/a/b?q` invalidates.
fn paths(method: &str, status: u16, list: Fields) -> Vec<String> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let keys = invalidated(&method, "http", "h.example", "/a/b?q", &response(status, list));
    let start = key::primary("http", "h.example", "/").len() - 1;
    keys.iter().map(|key| String::from_utf8(key[start..].to_vec()).unwrap()).collect()
}

#[test]
fn s4_4_must_invalidate_the_target_of_unsafe_and_unknown_methods() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "LOCK", "NOBODY-KNOWS", "get"] {
        assert_eq!(paths(method, 200, &[]), ["/a/b?q"], "{method}");
    }
    // RFC 9110 section 9.2.1, RFC 4918, RFC 3253, RFC 5323, and QUERY.
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY"] {
        assert!(paths(method, 200, &[("location", "/x")]).is_empty(), "{method}");
    }
}

#[test]
fn s4_4_after_a_non_error_response() {
    for status in [200, 201, 202, 204, 205, 206, 299, 300, 301, 302, 303, 307, 308, 399] {
        assert_eq!(paths("POST", status, &[]), ["/a/b?q"], "{status}");
    }
    for status in [100, 103, 400, 401, 404, 409, 412, 499, 500, 503, 599] {
        assert!(paths("POST", status, &[("location", "/x")]).is_empty(), "{status}");
    }
}

#[test]
fn s4_4_may_invalidate_others_of_the_same_origin_and_must_not_of_another() {
    let table: &[(Fields, &[&str])] = &[
        (&[("location", "/x")], &["/a/b?q", "/x"]),
        (&[("content-location", "c")], &["/a/b?q", "/a/c"]),
        (
            &[("location", "../x?y#z"), ("content-location", "http://H.EXAMPLE:80/z")],
            &["/a/b?q", "/x?y", "/z"],
        ),
        (&[("location", "/x"), ("content-location", "/x")], &["/a/b?q", "/x"]),
        (&[("location", "b?q")], &["/a/b?q"]),
        (&[("location", "//h.example/x")], &["/a/b?q", "/x"]),
        // Another scheme, host or port is another origin (RFC 9110 section 4.3.1).
        (&[("location", "https://h.example/x")], &["/a/b?q"]),
        (&[("location", "http://other.example/x")], &["/a/b?q"]),
        (&[("location", "//other.example/x")], &["/a/b?q"]),
        (&[("location", "http://h.example:8080/x")], &["/a/b?q"]),
        (&[("location", "http://h.example.evil/x")], &["/a/b?q"]),
        (&[("location", "http://h.example@evil/x")], &["/a/b?q"]),
        (&[("content-location", "http://evil/http://h.example/x")], &["/a/b?q"]),
        (&[("location", "mailto:x@h.example")], &["/a/b?q"]),
    ];
    for (list, expected) in table {
        assert_eq!(paths("POST", 200, list), *expected, "{list:?}");
    }
}
