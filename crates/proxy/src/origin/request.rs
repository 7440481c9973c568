//! The head of a client's request as its origin shall see it.

use crate::access::forwarded::Telling;
use crate::message::fields::{lists, upgrade, with_room};
use crate::message::hops::Names;
use crate::message::refusal::Refusal;
use crate::message::target::Target;
use http::header::{CONNECTION, EXPECT, HOST, TE, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Request, Uri, Version};

/// The head of a client's request as the origin shall see it.
pub fn head(
    request: &Parts,
    target: &Target,
    names: &Names,
    telling: &Telling,
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
    let host = target.host_field().ok_or_else(|| Refusal::bad_request("the host is not valid"))?;
    telling.rewrite(&mut headers, Some(&host));
    headers.insert(HOST, host);
    names.sign(&mut headers, request.version);
    let mut head = Request::new(());
    *head.method_mut() = request.method.clone();
    *head.uri_mut() = Uri::from(target.path.clone());
    *head.headers_mut() = headers;
    Ok(head)
}
