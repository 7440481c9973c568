//! Responses on their way out, whatever their clients speak.

use crate::answer::body::ReplyBody;
use crate::answer::stream::Stream;
use crate::transport::Speaks;
use crate::worker::Worker;
use http::Response;
use http::header::STRICT_TRANSPORT_SECURITY;

/// Says why a request is not served, and tells clients to come over TLS, as the settings say, where the origin has not. They listen to that
/// over TLS alone (RFC 6797 section 7.2).
#[inline(always)]
pub fn finish(worker: &Worker, stream: &Stream, speaks: Speaks, response: &mut Response<ReplyBody>) {
    if response.status().as_u16() >= 400 {
        stream.word(response, &worker.settings().pages);
    }
    if speaks == Speaks::Tls
        && let Some(hsts) = &worker.settings().tls.hsts
    {
        response.headers_mut().entry(STRICT_TRANSPORT_SECURITY).or_insert_with(|| hsts.clone());
    }
}
