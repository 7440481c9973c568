//! Entity tags of one If-None-Match line. Written out and joined, the tags read are the same tags again; strong
//! equality implies weak; a 304 comes exactly when a tag of the list is the stored one, or the list is `*`.
#![no_main]

use cache::fuzzing::{entity_tags, tags_equal};
use cache::{Answer, Asked, Head, answer};
use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let line = value.as_bytes();
    let tags = entity_tags(line);
    let written: Vec<Vec<u8>> = tags.iter().map(write).collect();
    assert_eq!(entity_tags(&written.join(&b", "[..])), tags);

    for (a, b) in written.iter().zip(written.iter().skip(1)) {
        let (strong, weak) = tags_equal(a, b);
        assert_eq!(tags_equal(b, a), (strong, weak));
        assert!(weak || !strong);
        assert!(!strong || a == b);
    }
    for (tag, (weak, opaque)) in written.iter().zip(&tags) {
        assert_eq!(tags_equal(tag, tag), (!weak, true));
        let plain = opaque.len() > 1 && opaque[0] == b'"' && opaque[1..].ends_with(b"\"");
        assert!(!plain || !opaque[1..opaque.len() - 1].contains(&b'"'));
    }

    let stored = written.last().cloned().unwrap_or_else(|| b"\"a\"".to_vec());
    let Ok(stored) = HeaderValue::from_bytes(&stored) else { return };
    let (parts, ()) = Response::builder().header(ETAG, stored).body(()).expect("valid").into_parts();
    let Ok(head) = Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts, 9, 9) else { return };
    let request: HeaderMap = [(IF_NONE_MATCH, value.clone())].into_iter().collect();
    let given = answer(&Asked::of(&Method::GET, &request), &request, &head, 4);
    let known = !tags.is_empty() || line.trim_ascii() == b"*";
    assert_eq!(given == Answer::NotModified, known, "{given:?}");
});

fn write((weak, opaque): &(bool, &[u8])) -> Vec<u8> {
    [if *weak { b"W/" } else { &b""[..] }, opaque].concat()
}
