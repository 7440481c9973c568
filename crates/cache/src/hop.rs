//! Hop-by-hop fields, which no intermediary passes on and no cache stores (RFC 9110 section 7.6.1).

use crate::list::members_of;
use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

/// Removes the fixed list and what Connection names. Who wants to keep an upgrade or `TE: trailers` puts it back.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if !headers.keys().any(is_hop_by_hop) {
        return;
    }
    for name in nominated(headers) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// True for the fields that are hop-by-hop in every message.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
}

#[rustfmt::skip]
const HOP_BY_HOP: [&str; 10] = [
    "connection", "proxy-connection", "keep-alive", "te", "transfer-encoding", "upgrade",
    "proxy-authenticate", "proxy-authorization", "proxy-authentication-info",
    // RFC 7540 section 3.2.1: beside an upgrade that no intermediary passes on.
    "http2-settings",
];

/// Fields that are meant for all recipients: RFC 9110 section 7.6.1 forbids to nominate them, and dropping one would
/// change what the message is, who may keep it, or whom the origin takes it to come from.
#[rustfmt::skip]
const END_TO_END: [&str; 12] = [
    "host", "content-length", "cache-control", "cdn-cache-control", "vary", "date", "expires", "age",
    "forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host",
];

/// Whether Connection takes this field away, so that the next hop does not see it.
pub(crate) fn is_nominated(headers: &HeaderMap, name: &HeaderName) -> bool {
    members_of(headers, CONNECTION).any(|option| option.eq_ignore_ascii_case(name.as_str().as_bytes()))
        && !END_TO_END.contains(&name.as_str())
}

fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    members_of(headers, CONNECTION)
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        .filter(|name| !END_TO_END.contains(&name.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn left(fields: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers: HeaderMap =
            fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(|n| n.as_str().to_owned()).collect();
        left.sort();
        left
    }

    #[test]
    fn rfc9110_7_6_1() {
        assert_eq!(left(&[("a", "1"), ("b", "2")]), ["a", "b"]);
        assert_eq!(
            left(&[("a", "1"), ("connection", "A , close"), ("connection", "B"), ("b", "2"), ("c", "3")]),
            ["c"]
        );
        assert_eq!(
            left(&[("keep-alive", "5"), ("te", "trailers"), ("upgrade", "x"), ("etag", "x")]),
            ["etag"]
        );
        assert_eq!(
            left(&[("transfer-encoding", "chunked"), ("proxy-connection", "x"), ("trailer", "x")]),
            ["trailer"]
        );
        assert_eq!(
            left(&[("proxy-authorization", "x"), ("http2-settings", "x"), ("authorization", "x")]),
            ["authorization"]
        );
        assert_eq!(
            left(&[("connection", "cache-control, host, \"x, a b"), ("cache-control", "private")]),
            ["cache-control"]
        );
        assert_eq!(
            left(&[
                ("connection", "x-forwarded-for, forwarded"),
                ("forwarded", "for=a"),
                ("x-forwarded-for", "a")
            ]),
            ["forwarded", "x-forwarded-for"]
        );
    }
}
