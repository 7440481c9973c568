//! Answers that the proxy makes itself: one line of plain text that says what happened and what to do.

use crate::answer::body::ReplyBody;
use crate::message::refusal::Refusal;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

impl Refusal {
    pub fn response(self) -> Response<ReplyBody> {
        let mut response = Response::new(ReplyBody::whole(format!("{}\n", self.text).into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// An answer without content.
pub fn empty(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}
