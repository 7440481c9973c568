//! What of a message's fields goes on to the next hop (RFC 9110 section 7.6.1).

use crate::message::hops::{Names, add_via};
use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Version};

/// The Cache-Status field (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// Of which proxies and origins made a convention; no standard has it.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A copy that takes `more` fields without growing: a clone has no room, and each field added to it may move all.
pub fn with_room(headers: &HeaderMap, more: usize) -> HeaderMap {
    let mut copy = HeaderMap::with_capacity(headers.len() + more);
    for (name, value) in headers {
        copy.append(name, value.clone());
    }
    copy
}

/// Makes the fields of an origin's response those of the client's.
pub fn for_client(headers: &mut HeaderMap, names: &Names) {
    cache::remove_hop_by_hop(headers);
    add_via(headers, names);
}

/// The protocols that the client asks to change to and that go on to the origin.
pub fn upgrade(request: &Parts) -> Option<HeaderValue> {
    if request.version < Version::HTTP_11 {
        return None;
    }
    let protocols: Vec<&[u8]> = cache::upgrades(&request.headers).collect();
    if protocols.is_empty() { None } else { HeaderValue::from_bytes(&protocols.join(&b", "[..])).ok() }
}

/// The client waits for 100 before it sends content (RFC 9110 section 10.1.1).
pub fn expects_continue(request: &Parts) -> bool {
    request.version >= Version::HTTP_11
        && request
            .headers
            .get(EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Whether a list field has this member.
pub fn lists(headers: &HeaderMap, name: HeaderName, member: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|found| found.trim().eq_ignore_ascii_case(member))
}
