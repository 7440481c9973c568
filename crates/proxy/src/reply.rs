//! Answers made of what is stored.

use crate::body::ReplyBody;
use crate::headers::{CACHE_STATUS, add_via};
use crate::memory::Resident;
use crate::span::SpanBody;
use crate::worker::Worker;
use bytes::Bytes;
use cache::{Answer, Asked, Report, Time};
use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use store::Body;

/// Answers a request from a stored response, its conditions and range evaluated.
pub fn stored(
    worker: &Worker,
    asked: &Asked,
    request: &HeaderMap,
    resident: &Resident,
    report: Report,
    now: Time,
) -> Response<ReplyBody> {
    let length = resident.body.len();
    let age = resident.head.age(now);
    match cache::answer(asked, request, &resident.head, length) {
        Answer::Full => {
            let mut headers = resident.fields(age, report.value());
            let body = if asked.is_head() {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
                ReplyBody::empty()
            } else {
                part(worker, &resident.body, 0, length)
            };
            response(resident.status(), headers, body)
        }
        Answer::NotModified => {
            let mut headers = cache::not_modified_headers(&resident.head);
            add_via(&mut headers, &worker.shared.names);
            headers.insert(AGE, HeaderValue::from(age));
            headers.insert(CACHE_STATUS, report.value());
            response(StatusCode::NOT_MODIFIED, headers, ReplyBody::empty())
        }
        Answer::Part { first, last } => {
            let mut headers = resident.fields(age, report.value());
            // Positions are the representation's; of a stored part the body begins later.
            let (begin, complete) = match resident.head.part() {
                Some(stored) => (stored.first, stored.complete),
                None => (0, Some(length)),
            };
            headers.insert(CONTENT_RANGE, cache::content_range(first, last, complete));
            let end = (last - begin).saturating_add(1).min(length);
            let body = part(worker, &resident.body, first - begin, end);
            response(StatusCode::PARTIAL_CONTENT, headers, body)
        }
        Answer::Unsatisfiable => {
            let mut headers = HeaderMap::new();
            add_via(&mut headers, &worker.shared.names);
            headers.insert(CONTENT_RANGE, cache::unsatisfied_content_range(length));
            headers.insert(CACHE_STATUS, report.value());
            response(StatusCode::RANGE_NOT_SATISFIABLE, headers, ReplyBody::empty())
        }
    }
}

pub fn response(status: StatusCode, headers: HeaderMap, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Bytes `from..to` of a stored body.
fn part(worker: &Worker, body: &Body, from: u64, to: u64) -> ReplyBody {
    match (body, &worker.reader) {
        (Body::Whole(bytes), _) => ReplyBody::whole(slice(bytes, from, to)),
        (Body::Spans(spans), Some(reader)) => {
            ReplyBody::stream(SpanBody::new(reader.clone(), *spans, from, to))
        }
        // Spans come from a reader, so there is one.
        (Body::Spans(_), None) => ReplyBody::empty(),
    }
}

fn slice(bytes: &Bytes, from: u64, to: u64) -> Bytes {
    let end = usize::try_from(to).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(from).unwrap_or(usize::MAX).min(end);
    bytes.slice(start..end)
}
