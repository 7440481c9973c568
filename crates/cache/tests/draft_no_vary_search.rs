//! draft-ietf-httpbis-no-vary-search-05: which queries a response answers alike.

mod common;

use cache::{NoVarySearch, Stored};
use common::*;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;

fn config(value: &str) -> NoVarySearch {
    NoVarySearch::of(&fields(&[("no-vary-search", value)]))
}

#[test]
fn s5_1_invalid_fields_are_the_default() {
    assert!(NoVarySearch::of(&HeaderMap::new()).is_default());
    for value in [
        "",
        "unknown-key",
        "&&",
        "key-order, &&",
        "Key-Order",
        "key-order=\"not a boolean\"",
        "key-order=(\"a\")",
        "params=\"not an inner list\"",
        "params=(not-a-string)",
        "params=(\"a\" 1)",
        "params=(\"a\"), except=(\"x\")",
        "params=(), except=()",
        "params=?0, except=(\"x\")",
        "params, except=(not-a-string)",
        "params, except=\"not an inner list\"",
        "params, except=?1",
        "except=?1",
        "except",
        "key-order, except=?1",
        "key-order, params=1",
        // Valid, and the default.
        "params=()",
        "params=?0",
        "key-order=?0",
        "key-order=?0, params=()",
    ] {
        assert!(config(value).is_default(), "{value}");
    }
}

#[test]
fn s5_1_valid_fields() {
    // Fields that mean the same.
    for (value, same) in [
        ("key-order", "key-order=?1"),
        ("key-order, params=()", "key-order, params=?0"),
        ("params=(\"a\")", "params=(\"%61\" \"a\");x, unknown=1"),
        ("params=(\"b\" \"a\")", "params=(\"a\" \"b\")"),
        ("except=(\"x\"), key-order", "key-order, except=(\"x\")"),
        // Revision 03 and before.
        ("except=()", "params"),
        ("except=()", "params=?1, except=()"),
        ("except=(\"x\")", "params, except=(\"x\")"),
    ] {
        assert_eq!(config(value), config(same), "{value}");
        assert!(!config(value).is_default(), "{value}");
    }
    let lines = fields(&[("no-vary-search", "key-order"), ("no-vary-search", "params=(\"a\")")]);
    assert_eq!(NoVarySearch::of(&lines), config("key-order, params=(\"a\")"));
}

#[test]
fn s6_equivalent_queries() {
    for (value, first, second, same) in [
        ("", None, Some(""), false),
        ("", Some("a=b&&&c"), Some("a=b&c="), false),
        ("", Some("a=b"), Some("a=b"), true),
        // 6.1
        ("key-order", None, Some(""), true),
        ("key-order", Some("a=x"), Some("%61=%78"), true),
        ("key-order", Some("a=é"), Some("a=%C3%A9"), true),
        ("key-order", Some("a=%f6"), Some("a=%ef%bf%bd"), true),
        ("key-order", Some("a=x&&&&"), Some("a=x"), true),
        ("key-order", Some("a="), Some("a"), true),
        ("key-order", Some("a=%20"), Some("a= &"), true),
        ("key-order", Some("a=+"), Some("a= &"), true),
        ("key-order", Some("a=%2B"), Some("a=+"), false),
        ("key-order", Some("a=%2"), Some("a=%252"), true),
        ("key-order", Some("a=%zz"), Some("a=%25zz"), true),
        ("key-order", Some("a=b=c"), Some("a=b%3Dc"), true),
        ("key-order", Some("a%3Db=c"), Some("a=b=c"), false),
        ("key-order", Some("a=b%26c=d"), Some("a=b&c=d"), false),
        ("key-order", Some("="), Some(""), false),
        ("key-order", Some("a=1&b=2"), Some("b=2&a=1"), true),
        ("key-order", Some("a=1&a=2"), Some("a=2&a=1"), false),
        ("key-order", Some("a=1&b=&a=2"), Some("b=&a=1&a=2"), true),
        ("key-order", Some("A=1"), Some("a=1"), false),
        // params
        ("params=(\"a\")", Some("a=1&b=2"), Some("b=2&a=3&a"), true),
        ("params=(\"a\")", Some("a=1"), None, true),
        ("params=(\"a\")", Some("b=1&c=2"), Some("c=2&b=1"), false),
        ("params=(\"a\")", Some("b=1"), Some("b=2"), false),
        ("params=(\"%C3%A9+%E6%B0%97\")", Some("é 気=1"), Some("%C3%A9%20気=3"), true),
        ("params=(\"%C3%A9+%E6%B0%97\")", Some("é+気=2"), None, true),
        ("params=(\"a+b\")", Some("a%2Bb=2"), None, false),
        // except
        ("except=(\"x\")", Some("x=1&a=2"), Some("b&x=1"), true),
        ("except=(\"x\")", Some("x=1"), Some("x=2"), false),
        ("except=(\"x\" \"y\")", Some("x=1&y=2"), Some("y=2&x=1"), false),
        ("except=(\"x\" \"y\"), key-order", Some("x=1&z&y=2"), Some("y=2&x=1"), true),
        ("except=()", Some("x=1&a=2"), None, true),
    ] {
        let config = config(value);
        let equal = config.normalise(first) == config.normalise(second);
        assert_eq!(equal, same, "{value}: {first:?} / {second:?}");
    }
}

#[test]
fn normalised_queries_are_queries() {
    assert_eq!(config("").normalise(None), "");
    assert_eq!(config("").normalise(Some("")), "?");
    assert_eq!(config("").normalise(Some("b&&a")), "?b&&a");
    assert_eq!(config("key-order").normalise(Some("b=*-._~&a=x y/ß&c")), "?a=x+y%2F%C3%9F&b=*-._%7E&c=");
    assert_eq!(config("except=()").normalise(Some("b")), "");
}

/// Decoded parameters. Names are few, so that lists meet.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(("[ab ]{0,1}(é|=)?", "[x&+% ]{0,2}"), 0..5)
}

/// One of several ways to write them.
fn written(pairs: &[(String, String)], how: &[bool]) -> String {
    let mut how = how.iter().copied().cycle();
    let mut escape = |text: &str| -> String {
        let bytes = text.bytes().map(|byte| match byte {
            b' ' if how.next() == Some(true) => "+".to_owned(),
            b'a' | b'b' | b'x' if how.next() == Some(true) => char::from(byte).to_string(),
            _ => format!("%{byte:02x}"),
        });
        bytes.collect()
    };
    let members: Vec<_> = pairs.iter().map(|(n, v)| format!("{}={}", escape(n), escape(v))).collect();
    members.join(if how.next() == Some(true) { "&" } else { "&&" })
}

/// Section 6 on decoded parameters.
fn equivalent(
    names: &[String],
    only: bool,
    order: bool,
    a: &[(String, String)],
    b: &[(String, String)],
) -> bool {
    let reduce = |pairs: &[(String, String)]| {
        let mut kept = pairs.to_vec();
        kept.retain(|(name, _)| names.contains(name) == only);
        if !order {
            kept.sort_by_key(|(name, _)| name.clone());
        }
        kept
    };
    reduce(a) == reduce(b)
}

proptest! {
    #[test]
    fn equal_texts_are_equivalent_queries(
        a in pairs(), other in pairs(), turn: prop::sample::Index, same: bool, how: [bool; 7], how_too: [bool; 5],
        names in vec("[ab]?(é|=)?", 0..3), only: bool, order: bool,
    ) {
        let mut b = if same { a.clone() } else { other };
        if !b.is_empty() {
            let turn = turn.index(b.len());
            b.rotate_left(turn);
        }
        let list: Vec<_> = names.iter().map(|n| format!("\"{}\"", written(&[(n.clone(), String::new())], &how_too))).collect();
        let list = list.join(" ").replace("=\"", "\"");
        let order_counts = if order { "" } else { "key-order, " };
        let config = config(&format!("{order_counts}{}=({list})", if only { "except" } else { "params" }));
        prop_assume!(!config.is_default());
        let texts = (config.normalise(Some(&written(&a, &how))), config.normalise(Some(&written(&b, &how_too))));
        prop_assert_eq!(texts.0 == texts.1, equivalent(&names, only, order, &a, &b), "{:?}", texts);
    }

    #[test]
    fn normalising_twice_is_normalising_once(value in any_field(), query in "[ab=&+%0-9é]{0,16}", other: Option<String>) {
        for query in [Some(query.as_str()), other.as_deref()] {
            let config = config(&value);
            let once = config.normalise(query);
            prop_assert_eq!(&config.normalise(once.strip_prefix('?')), &once);
        }
    }

    #[test]
    fn decode_reads_what_encode_writes(value in any_field(), end: prop::sample::Index) {
        let config = config(&value);
        let bytes = config.encode();
        prop_assert_eq!(NoVarySearch::decode(&bytes), Some(config.clone()));
        prop_assert_eq!(Stored::decode(&bytes), Some(Stored::NoVarySearch(config)));
        prop_assert_eq!(NoVarySearch::decode(&bytes[..end.index(bytes.len())]), None);
    }

    #[test]
    fn no_field_panics(bytes: Vec<u8>, close in "[a-z=\"() ,?01-]{0,24}") {
        let mut headers = HeaderMap::new();
        for value in [HeaderValue::from_bytes(&bytes), HeaderValue::from_str(&close)].into_iter().flatten() {
            headers.insert(HeaderName::from_static("no-vary-search"), value);
            NoVarySearch::of(&headers).normalise(Some(&close));
        }
        NoVarySearch::decode(&bytes);
    }
}

fn any_field() -> impl Strategy<Value = String> {
    "(key-order(=\\?0)?, )?((params|except)=\\((\"[ab%+0-9]{0,3}\" ?){0,3}\\)|params(, except=\\(\"a\"\\))?|x)"
}
