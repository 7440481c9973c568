//! What a certificate authority asks over HTTP, to see that a name is ours (RFC 8555 section 8.3). It may come from anywhere.

use crate::answer::body::ReplyBody;
use acme::Challenges;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};

/// `None`: something else is asked for, perhaps a challenge of whoever is behind this proxy.
pub fn answer<T>(challenges: &Challenges, request: &Request<T>) -> Option<Response<ReplyBody>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return None;
    }
    let text = challenges.http(request.uri().path())?;
    let mut response = Response::new(ReplyBody::whole(text.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}
