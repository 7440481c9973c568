//! Answers made of what is stored.

use crate::answer::body::ReplyBody;
use crate::message::fields::CACHE_STATUS;
use crate::message::hops::add_via;
use crate::message::pieces::Pieces;
use crate::report::Place;
use crate::tiers::memory::StoredResponse;
use crate::transfer::span::{SpanBody, Supply};
use crate::worker::Worker;
use bytes::Bytes;
use cache::{Answer, Asked, Report, Time};
use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body as _, Frame};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use store::Body;

/// Answers a request from a stored response, its conditions and range evaluated.
///
/// `supply` is of a large body.
pub fn stored(
    worker: &Rc<Worker>,
    asked: &Asked,
    request: &HeaderMap,
    resident: &StoredResponse,
    (report, place): (Report, Place),
    now: Time,
    supply: &Supply,
) -> Response<ReplyBody> {
    let part = |from, to| part(worker, &resident.body, supply, from, to);
    let length = resident.body.len();
    let age = resident.head.age(now);
    let report = Report { ttl: Some(resident.head.ttl(now)), ..report };
    let status = report.value(&worker.shared.names.item);
    let mut response = match cache::answer(asked, request, &resident.head, length) {
        Answer::Full => {
            let mut headers = resident.fields(age, status);
            let body = if asked.is_head() {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
                ReplyBody::empty()
            } else {
                part(0, length)
            };
            response(resident.status(), headers, body)
        }
        Answer::NotModified => {
            let mut headers = cache::not_modified_headers(&resident.head);
            add_via(&mut headers, &worker.shared.names);
            headers.insert(AGE, HeaderValue::from(age));
            headers.insert(CACHE_STATUS, resident.status_field(status));
            response(StatusCode::NOT_MODIFIED, headers, ReplyBody::empty())
        }
        Answer::Part { first, last } => {
            let mut headers = resident.fields(age, status);
            let (begin, complete) = extent(resident);
            headers.insert(CONTENT_RANGE, cache::content_range(first, last, complete));
            let end = (last - begin).saturating_add(1).min(length);
            let body = part(first - begin, end);
            response(StatusCode::PARTIAL_CONTENT, headers, body)
        }
        Answer::Parts(ranges) => {
            let mut headers = resident.fields(age, status);
            let (begin, complete) = extent(resident);
            let kind = headers.remove(CONTENT_TYPE);
            let boundary = format!("cosm-{:016x}", RandomState::new().build_hasher().finish());
            let mut pieces = VecDeque::with_capacity(2 * ranges.len() + 1);
            for (first, last) in ranges {
                let range = cache::content_range(first, last, complete);
                pieces.push_back(ReplyBody::whole(part_head(&boundary, kind.as_ref(), &range)));
                pieces.push_back(part(first - begin, last - begin + 1));
            }
            pieces.push_back(ReplyBody::whole(format!("\r\n--{boundary}--\r\n").into()));
            if let Ok(kind) = HeaderValue::try_from(format!("multipart/byteranges; boundary={boundary}")) {
                headers.insert(CONTENT_TYPE, kind);
            }
            response(StatusCode::PARTIAL_CONTENT, headers, ReplyBody::pieces(Multipart(pieces)))
        }
        Answer::Unsatisfiable => {
            let mut headers = HeaderMap::new();
            add_via(&mut headers, &worker.shared.names);
            headers.insert(CONTENT_RANGE, cache::unsatisfied_content_range(length));
            headers.insert(CACHE_STATUS, status);
            response(StatusCode::RANGE_NOT_SATISFIABLE, headers, ReplyBody::empty())
        }
    };
    response.body_mut().tells(report, place);
    response
}

/// Where in its representation a stored body begins, and how long that is.
fn extent(resident: &StoredResponse) -> (u64, Option<u64>) {
    match resident.head.part() {
        Some(stored) => (stored.first, stored.complete),
        None => (0, Some(resident.body.len())),
    }
}

/// RFC 9110 section 14.6.
fn part_head(boundary: &str, kind: Option<&HeaderValue>, range: &HeaderValue) -> Bytes {
    let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
    for (name, value) in [("content-type", kind), ("content-range", Some(range))] {
        if let Some(value) = value {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// Several bodies, one after the other.
struct Multipart(VecDeque<ReplyBody>);

impl Pieces for Multipart {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while let Some(first) = self.0.front_mut() {
            match ready!(Pin::new(first).poll_frame(cx)) {
                Some(frame) => return Poll::Ready(Some(frame)),
                None => drop(self.0.pop_front()),
            }
        }
        Poll::Ready(None)
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(first) = self.0.front_mut() {
            first.poll_ahead(cx);
        }
    }

    fn left(&self) -> Option<u64> {
        self.0.iter().map(|piece| piece.size_hint().exact()).sum()
    }

    fn is_over(&self) -> bool {
        self.0.iter().all(ReplyBody::is_end_stream)
    }
}

pub fn response(status: StatusCode, headers: HeaderMap, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Bytes `from..to` of a stored body.
fn part(worker: &Rc<Worker>, body: &Body, supply: &Supply, from: u64, to: u64) -> ReplyBody {
    match body {
        Body::Whole(bytes) => ReplyBody::whole(slice(bytes, from, to)),
        Body::Spans(spans) => match worker.readers.at(spans) {
            Some(reader) => ReplyBody::pieces(SpanBody::new(
                worker,
                Rc::unwrap_or_clone(reader),
                supply,
                *spans,
                (from, to),
            )),
            // They come from a reader, so there is one.
            None => ReplyBody::empty(),
        },
    }
}

fn slice(bytes: &Bytes, from: u64, to: u64) -> Bytes {
    let end = usize::try_from(to).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(from).unwrap_or(usize::MAX).min(end);
    bytes.slice(start..end)
}
