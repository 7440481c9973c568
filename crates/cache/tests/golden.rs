//! The bytes of stored metadata, pinned: caches on disk are full of them. `wire.rs` draws them. When this fails, another
//! layout needs another first byte; names are only ever added at the end.

use cache::{Head, Purges, Scope, Stored};

/// Names that take one byte, in the order of their bytes.
const NAMES: &str = "date content-type last-modified etag cache-control expires vary server content-encoding \
    content-language content-location content-disposition location accept-ranges via set-cookie accept-encoding \
    accept-language accept user-agent cookie origin authorization referer link pragma alt-svc retry-after allow \
    content-range strict-transport-security content-security-policy x-content-type-options x-frame-options \
    x-xss-protection referrer-policy access-control-allow-origin access-control-allow-methods \
    access-control-allow-headers access-control-expose-headers access-control-allow-credentials \
    access-control-max-age cache-status x-cache x-powered-by timing-allow-origin cross-origin-resource-policy \
    cdn-cache-control x-own";

#[test]
fn a_response_is_stored_as_it_was() {
    // Kind; status 206, no flags; date, request and response at 10^9 and the seconds after; age 7 s, lifetime 1 h.
    let mut bytes =
        b"\x01\xce\x01\x00\x80\x94\xeb\xdc\x03\x81\x94\xeb\xdc\x03\x82\x94\xeb\xdc\x03\x07\x90\x1c".to_vec();
    // Last modified at 10^9 - 1, stale-while-revalidate 60 s, no stale-if-error, from byte 10 of 300, 9 purges known.
    bytes.extend(b"\x80\x94\xeb\xdc\x03\x3d\x00\x0b\xad\x02\x09");
    // Varies by accept-encoding and x-own.
    bytes.extend(b"\x02\x11\x00\x05x-own");
    bytes.push(49);
    (1..=48).for_each(|name| bytes.extend([name, 1, b'v']));
    bytes.extend(b"\x00\x05x-own\x02yz");

    let head = Head::decode(&bytes).expect("a response");
    assert_eq!((head.status.as_u16(), head.date(), head.lifetime()), (206, 1_000_000_000, 3600));
    assert_eq!((head.request_time(), head.response_time()), (1_000_000_001, 1_000_000_002));
    assert_eq!((head.last_modified(), head.age(1_000_000_002)), (Some(999_999_999), 7));
    assert_eq!((head.stale_while_revalidate(), head.stale_if_error()), (Some(60), None));
    let vary = head.vary().expect("it varies").names();
    assert_eq!(vary, ["accept-encoding", "x-own"]);
    let names: Vec<&str> = head.headers.keys().map(|name| name.as_str()).collect();
    assert_eq!(names.join(" "), NAMES);
    assert_eq!(
        (&head.headers["etag"], &head.headers["x-own"]),
        (&"v".parse().unwrap(), &"yz".parse().unwrap())
    );
    assert_eq!(head.encode(), bytes);
    assert_eq!(Head::decode(&bytes[..bytes.len() - 1]).map(|head| head.encode()), None);
}

#[test]
fn markers_are_stored_as_they_were() {
    for bytes in [&b"\x02\x02\x11\x00\x05x-own"[..], b"\x03", b"\x04the key", b"\x05\x01\x01\x01a"] {
        let marker = Stored::decode(bytes).expect("a marker");
        assert_eq!(marker.encode(), bytes, "{marker:?}");
        let is_ours = match bytes[0] {
            2 => matches!(&marker, Stored::Varies(vary) if vary.names() == ["accept-encoding", "x-own"]),
            3 => matches!(marker, Stored::Queries),
            4 => matches!(&marker, Stored::SameAs(key) if key == b"the key"),
            _ => matches!(marker, Stored::NoVarySearch(_)),
        };
        assert!(is_ours, "{marker:?}");
    }
}

#[test]
fn purges_are_stored_as_they_were() {
    // Newest 9, all before 3, and a host at 9.
    let older = b"\x06\x09\x03\x01\x09\x06host h";
    let mut purges = Purges::decode(older).expect("purges");
    assert_eq!((purges.newest(), purges.len(), &purges.encode()[..]), (9, 1, &older[..]));
    purges.purge_softly(Scope::Url("http://h/"), 10);
    // No buckets; soft ones: none before, one URL, no buckets.
    let bytes = b"\x08\x0a\x03\x01\x09\x06host h\x00\x00\x00\x01\x0a\x0durl http://h/\x00\x00";
    assert_eq!(purges.encode(), bytes);
    assert_eq!(Purges::decode(bytes), Some(purges));
    let expression = b"\x08\x0a\x03\x01\x0a\x11expression *.h/a*\x00\x00\x00\x00\x00\x00";
    assert_eq!(Purges::decode(expression).map(|purges| purges.encode()), Some(expression.to_vec()));
    assert_eq!(Purges::decode(b"\x08\x0a\x03\x01\x0a\x0dexpression h:8\x00\x00\x00\x00\x00\x00"), None);
}
