//! RFC 9110 sections 8.5 and 12.5.4: which stored language answers which client.

mod common;

use cache::{Stored, preferred_language, sole_language};
use common::*;

#[test]
fn s12_5_4_preferred_language() {
    let table: &[(Fields, Option<&str>)] = &[
        (&[], None),
        (&[("accept-language", "")], None),
        (&[("accept-language", "en-GB")], Some("en-gb")),
        (&[("accept-language", "de;q=0.8, EN;q=0.9")], Some("en")),
        (&[("accept-language", "de;q=0.8"), ("accept-language", "fr")], Some("fr")),
        (&[("accept-language", "de, en;q=0.999")], Some("de")),
        (&[("accept-language", "de, en")], None),
        (&[("accept-language", "de, DE;q=1.0")], Some("de")),
        (&[("accept-language", "de;q=0.5, de")], Some("de")),
        (&[("accept-language", "*")], None),
        (&[("accept-language", "*, de")], None),
        (&[("accept-language", "*, de;q=0.5")], None),
        (&[("accept-language", "de, *;q=0.5")], Some("de")),
        (&[("accept-language", "de;q=0.001")], Some("de")),
        (&[("accept-language", "de;q=0")], None),
        (&[("accept-language", "de;q=0, *;q=0")], None),
        (&[("accept-language", "de, en;q=x")], None),
        (&[("accept-language", "de-*")], None),
        (&[("accept-language", "de_AT")], None),
    ];
    for (request, expected) in table {
        assert_eq!(preferred_language(&fields(request)).as_deref(), *expected, "{request:?}");
    }
}

#[test]
fn s8_5_sole_language() {
    let table: &[(Fields, Option<&str>)] = &[
        (&[], None),
        (&[("content-language", "")], None),
        (&[("content-language", "de")], Some("de")),
        (&[("content-language", ", de-AT ,")], Some("de-at")),
        (&[("content-language", "mi, en")], None),
        (&[("content-language", "mi"), ("content-language", "en")], None),
        (&[("content-language", "*")], None),
        (&[("content-language", "toolongasubtag")], None),
        (&[("content-language", "de-")], None),
        (&[("content-language", "d e")], None),
    ];
    for (list, expected) in table {
        let mut list = list.to_vec();
        list.push(("cache-control", "max-age=60"));
        assert_eq!(sole_language(&head(&list)).as_deref(), *expected, "{list:?}");
    }
}

#[test]
fn a_marker_stands_for_another_key() {
    let marker = Stored::SameAs(b"GET http://h/\0accept-language:de\n".to_vec());
    assert_eq!(Stored::decode(&marker.encode()), Some(marker.clone()));
    assert!(!Stored::is_vary_marker(&marker.encode()));
    assert_eq!(Stored::decode(&marker.encode()[..1]), None);
}
