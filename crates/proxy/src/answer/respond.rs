//! Answers that the proxy makes itself: a line or a page that says what happened and what to do.

use crate::answer::body::ReplyBody;
use crate::message::refusal::Refusal;
use crate::report::Transaction;
use crate::settings::pages::{Pages, Style, Words};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};

impl Refusal {
    /// Its content is written when it goes out (`Reason::of`).
    pub fn response(self) -> Response<ReplyBody> {
        let mut response = empty(self.status);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Bytes of a method that are logged.
const METHOD: usize = 64;

/// Why a request is not served, as its client reads it.
pub struct Reason {
    pub text: String,
    pub content_type: &'static str,
    pub id: HeaderValue,
    /// The text's length is all that the client gets of it.
    pub answers_head: bool,
}

impl Reason {
    /// It is also told to the operator, if the proxy or an origin is at fault.
    pub fn of(refusal: &Refusal, transaction: &Transaction, pages: &Pages) -> Reason {
        let Refusal { status, text, clients, .. } = refusal;
        let (id, method) = (transaction.id.to_string(), transaction.method.as_str());
        if status.is_server_error() && !clients {
            tracing::error!(
                target: "request",
                id,
                status = status.as_u16(),
                method = &method[..method.floor_char_boundary(METHOD)],
                host = transaction.host().unwrap_or_default(),
                "{text}"
            );
        }
        let (style, content_type) = match transaction.asks_for_html {
            true => (Style::Html, "text/html; charset=utf-8"),
            false => (Style::Text, "text/plain; charset=utf-8"),
        };
        let reason = status.canonical_reason().unwrap_or("Error");
        let words = Words { status: status.as_u16(), reason, message: text, id: &id };
        Reason {
            text: pages.say(&words, style),
            content_type,
            id: transaction.id.value(),
            answers_head: transaction.method == Method::HEAD,
        }
    }
}

/// An answer of a line of text.
pub fn text(status: StatusCode, text: &'static str) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer without content.
pub fn empty(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}
