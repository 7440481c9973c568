//! What was purged, as the ledger keeps it. What decodes is encoded to what decodes to the same, and to no more bytes; cut
//! or longer bytes are refused; one more purge covers what it says, and what was purged stays so.
#![no_main]

use cache::{Asked, Head, Purges, Scope, key};
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response};
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_750_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Some(purges) = Purges::decode(bytes) else { return };
    let written = purges.encode();
    assert_eq!(Purges::decode(&written).as_ref(), Some(&purges));
    if !purges.is_empty() {
        assert!((1..written.len()).all(|end| Purges::decode(&written[..end]).is_none()));
    }
    assert_eq!(Purges::decode(&[&written[..], b"\0"].concat()), None);

    let mut head = head();
    let keys = [key::primary("http", "h:8080", "/a/b"), key::primary("http", "other", "/a")];
    let covered = |purges: &Purges, head: &Head| keys.each_ref().map(|key| purges.cover(key, head));
    if purges.newest() == u64::MAX {
        return;
    }
    let scopes = [
        (Scope::All, [true, true]),
        (Scope::Host("h"), [true, false]),
        (Scope::Origin("http://h:8080"), [true, false]),
        (Scope::Prefix("http://h:8080/a"), [true, false]),
        (Scope::Path("/a/b"), [true, false]),
        (Scope::PathPrefix("/a/"), [true, false]),
        (Scope::Url("http://other/a"), [false, true]),
        (Scope::Expression("h/a*"), [true, false]),
        (Scope::Group { origin: Some("http://other"), name: "g" }, [false, true]),
        (Scope::Group { origin: None, name: "g" }, [true, true]),
    ];
    for (scope, expected) in scopes {
        let mut more = purges.clone();
        more.purge(scope, 0);
        for known in [0, purges.newest()] {
            head.purges_known = known;
            let (before, after) = (covered(&purges, &head), covered(&more, &head));
            for (i, expected) in expected.into_iter().enumerate() {
                assert!(after[i] >= (before[i] || expected), "{scope:?} {known}");
            }
        }
        head.purges_known = more.newest();
        assert_eq!(covered(&more, &head), [false, false]);
        // Softly, it purges nothing.
        let mut softer = purges.clone();
        softer.purge_softly(scope, 0);
        head.purges_known = purges.newest();
        assert_eq!(covered(&softer, &head), [false, false]);
        for (key, expected) in keys.iter().zip(expected) {
            assert!(softer.cover_softly(key, &head).is_some() >= expected, "{scope:?}");
        }
        assert!(softer.encode().len() <= Purges::MAX.max(written.len()));
        assert!(more.encode().len() <= Purges::MAX.max(written.len()));
    }
});

fn head() -> Head {
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
    parts.headers.insert(HeaderName::from_static("cache-groups"), HeaderValue::from_static("\"g\""));
    Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts, NOW, NOW).expect("storable")
}
