//! `/proxy.pac`, which browsers ask a forward proxy for itself: no other path is the proxy's own.

use crate::answer::body::ReplyBody;
use crate::message::refusal::Refusal;
use crate::message::target::host_field;
use crate::settings::pac::{CONTENT_TYPE as PAC, PATHS, Pac, reached_at};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response};

/// `None`: something else is asked for. It was sent to a port that the client knows, and is told that one.
pub fn answer(pac: &Pac, request: &Parts) -> Option<Result<Response<ReplyBody>, Refusal>> {
    let is_asked = request.uri.authority().is_none()
        && PATHS.contains(&request.uri.path())
        && (request.method == Method::GET || request.method == Method::HEAD);
    if !is_asked || *pac == Pac::Off {
        return None;
    }
    let host = match host_field(&request.headers, request.version) {
        Ok(field) => field.and_then(|field| reached_at(field.to_str().ok()?)),
        Err(refusal) => return Some(Err(refusal)),
    };
    let Some((host, port)) = host else {
        return Some(Err(Refusal::bad_request("say in the Host field at which name this proxy is reached")));
    };
    let text = pac.text(host, port.unwrap_or(80))?;
    let mut response = Response::new(ReplyBody::whole(text.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PAC));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(Ok(response))
}
