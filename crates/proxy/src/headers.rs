//! What of a message's fields goes on to the next hop (RFC 9110 section 7.6.1).

use crate::forwarded::Telling;
use crate::guard::Names;
use crate::respond::Refusal;
use crate::target::{SCHEME, Target};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, UPGRADE, VIA};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, Version};

/// The Cache-Status field (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The head of a client's request as the origin shall see it.
pub fn for_origin(
    request: &Parts,
    target: &Target,
    names: &Names,
    telling: &Telling<'_>,
) -> Result<Request<()>, Refusal> {
    /// Of what is added.
    const MORE: usize = 8;
    let mut headers = with_room(&request.headers, MORE);
    let upgrade = upgrade(request);
    let trailers = lists(&headers, TE, "trailers");
    cache::remove_hop_by_hop(&mut headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    } else if trailers {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if request.version < Version::HTTP_11 {
        headers.remove(EXPECT);
    }
    // As the key has it: an answer that tells how the host was written would be everybody's.
    let host = named_host(target).ok_or_else(|| Refusal::bad_request("the host is not valid"))?;
    telling.rewrite(&mut headers, &host);
    headers.insert(HOST, host);
    names.sign(&mut headers);
    let mut head = Request::new(());
    *head.method_mut() = request.method.clone();
    *head.uri_mut() = Uri::from(target.path.clone());
    *head.headers_mut() = headers;
    Ok(head)
}

/// A copy that takes `more` fields without growing: a clone has no room, and each field added to it may move all.
pub fn with_room(headers: &HeaderMap, more: usize) -> HeaderMap {
    let mut copy = HeaderMap::with_capacity(headers.len() + more);
    for (name, value) in headers {
        copy.append(name, value.clone());
    }
    copy
}

/// The host of a target as keys have it.
pub fn named_host(target: &Target) -> Option<HeaderValue> {
    HeaderValue::try_from(cache::key::authority(SCHEME, target.host())).ok()
}

/// Makes the fields of an origin's response those of the client's.
pub fn for_client(headers: &mut HeaderMap, names: &Names) {
    cache::remove_hop_by_hop(headers);
    add_via(headers, names);
}

pub fn add_via(headers: &mut HeaderMap, names: &Names) {
    if headers.contains_key(VIA) {
        headers.append(VIA, names.response.clone());
    } else {
        headers.insert(VIA, names.response.clone());
    }
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
fn lists(headers: &HeaderMap, name: HeaderName, member: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|found| found.trim().eq_ignore_ascii_case(member))
}

/// An interim response as bytes for the client. It has no body, whatever it says of one.
pub fn interim(status: http::StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let mut headers = headers.clone();
    cache::remove_hop_by_hop(&mut headers);
    for name in [TRAILER, CONTENT_LENGTH] {
        headers.remove(name);
    }
    let mut bytes =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("")).into_bytes();
    for (name, value) in &headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
