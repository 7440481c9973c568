//! One request on a stream: its head, its content by a task of its own, and the head of its response.

use super::connection::Ticket;
use crate::message::inflow::LARGE;
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::origin::attempt::{Failed, Patience};
use crate::origin::content::{Gate, Upload};
use crate::origin::incoming::{Http2Incoming, Incoming};
use crate::origin::interim::Interims;
use crate::origin::way::Way;
use crate::scheme::Scheme;
use crate::settings::Settings;
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRAILER};
use http::uri::{Authority, Parts as UriParts, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, spawn_local};

/// What a request's content is on its way by.
pub struct Sending {
    upload: Rc<RefCell<Option<Upload>>>,
    task: AbortHandle,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A stream whose content is not all sent is reset when its response is let go of, too: what of it waits to be sent goes at once.
struct Unfinished {
    to: SendStream<Bytes>,
    is_over: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_over {
            self.to.send_reset(Reason::CANCEL);
        }
    }
}

/// Sends a request on a stream, and gives the head of its response. `relay` sees each interim response but 100.
pub async fn attempt(
    mut ticket: Ticket,
    settings: &Settings,
    scheme: Scheme,
    request: Request<Upload>,
    gate: &Gate,
    relay: &impl Fn(Interim),
) -> Result<(Response<Incoming>, Way), Failed> {
    let (head, upload) = request.into_parts();
    let is_head = head.method == Method::HEAD;
    let (head, is_over) = match as_http2(Request::from_parts(head, ()), scheme, &upload) {
        Some(head) => (head, upload.is_end_stream()),
        None => return Err(Failed::Refused(Refusal::bad_request("the request's host or path is not valid"))),
    };
    let (response, to) = match ticket.connection.requests().send_request(head, is_over) {
        Ok(sent) => sent,
        // It ended meanwhile; else the library does not take the head.
        Err(error) if error.is_io() || error.is_go_away() => return Err(Failed::unsent(upload)),
        Err(_) => return Err(Failed::Refused(Refusal::bad_request("the request has no form in HTTP/2"))),
    };
    let stream = response.stream_id().as_u32();
    ticket.asked(stream);
    if !is_over {
        ticket.sending = Some(Sending::new(upload, to));
    }
    let mut response = Answer { response, came: 0, asks: false, head: None };
    let mut patience = pin!(Patience::new(settings, gate));
    let attempted = poll_fn(|cx| {
        let answered = response.poll(cx, gate, relay);
        if answered.is_ready() {
            return answered;
        }
        // A head that waits for the content to be asked for waits for no longer than an origin would.
        patience.as_mut().poll_end(cx, gate).map(|late| response.head.take().ok_or(Ended::Late(late)))
    })
    .await;
    match attempted {
        Ok(response) => {
            ticket.answered();
            let (mut head, stream) = response.into_parts();
            // What is known of it goes by what it says, and not by how it was said.
            head.version = Version::HTTP_11;
            names_trailers(&mut head.headers);
            let is_without =
                is_head || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
            let length = || head.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
            let left = if is_without { Some(0) } else { length() };
            let incoming = Incoming::Http2(Http2Incoming::new(ticket.comes(stream), left));
            Ok((Response::from_parts(head, incoming), Way::Http2(ticket)))
        }
        Err(Ended::Late(refusal)) => {
            ticket.is_late();
            Err(Failed::Refused(refusal))
        }
        Err(Ended::Endless) => {
            let text = "the origin sent interim responses without end";
            Err(Failed::Refused(Refusal::new(StatusCode::BAD_GATEWAY, text).personal()))
        }
        Err(Ended::Switched) => Err(Failed::Invalid("101, which HTTP/2 does not have".into())),
        Err(Ended::Failed(error)) => {
            let is_blamed = ticket.is_blamed(stream);
            if error.is_remote() && error.is_go_away() && error.reason() == Some(Reason::NO_ERROR) {
                ticket.turned_back(stream);
            }
            let was_of_use = !error.is_go_away() || ticket.was_of_use();
            Err(failed(&error, (is_blamed, was_of_use), ticket.sending.take()))
        }
    }
}

/// The head as HTTP/2 has it (RFC 9113 section 8.3.1), of one in origin-form.
fn as_http2(head: Request<()>, scheme: Scheme, upload: &Upload) -> Option<Request<()>> {
    let (mut head, ()) = head.into_parts();
    let host = head.headers.remove(HOST)?;
    head.headers.remove(CONNECTION);
    if let (Some(length), false) = (upload.size_hint().exact(), upload.is_end_stream())
        && !head.headers.contains_key(CONTENT_LENGTH)
    {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let mut uri = UriParts::default();
    uri.scheme = scheme.as_str().parse().ok();
    uri.authority = Authority::try_from(host.as_bytes()).ok();
    uri.path_and_query = head.uri.path_and_query().cloned().or(Some(PathAndQuery::from_static("/")));
    head.uri = Uri::from_parts(uri).ok()?;
    head.version = Version::HTTP_2;
    Some(Request::from_parts(head, ()))
}

/// HTTP/1.1 passes on trailers that the head names, which those of gRPC does not.
fn names_trailers(headers: &mut HeaderMap) {
    let is_grpc =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc && !headers.contains_key(TRAILER) {
        headers
            .insert(TRAILER, HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin"));
    }
}

/// The head of a response, which is waited for.
struct Answer {
    response: ResponseFuture,
    /// Interim responses that came.
    came: usize,
    /// The origin asked for the content, and the client is to be asked before it sees a response.
    asks: bool,
    /// The head, which waits for that.
    head: Option<Response<RecvStream>>,
}

/// Why no head came.
enum Ended {
    Failed(h2::Error),
    Late(Refusal),
    /// Interim responses did not end.
    Endless,
    /// To another protocol (RFC 9113 section 8.6).
    Switched,
}

impl Answer {
    /// Interim responses come before, and go first.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        gate: &Gate,
        relay: &impl Fn(Interim),
    ) -> Poll<Result<Response<RecvStream>, Ended>> {
        while self.head.is_none()
            && let Poll::Ready(Some(interim)) = self.response.poll_informational(cx)
        {
            let (head, ()) = interim.map_err(Ended::Failed)?.into_parts();
            self.came += 1;
            if self.came > Interims::MAX {
                return Poll::Ready(Err(Ended::Endless));
            }
            match head.status {
                StatusCode::CONTINUE => {
                    self.asks = true;
                    gate.open();
                }
                StatusCode::SWITCHING_PROTOCOLS => return Poll::Ready(Err(Ended::Switched)),
                status => relay(Interim { status, headers: head.headers }),
            }
        }
        if self.head.is_none() {
            let head = ready!(Pin::new(&mut self.response).poll(cx)).map_err(Ended::Failed)?;
            // A client that sees a response first sends nothing; this one may go on only with what it sends.
            if !gate.is_open() && head.status().is_success() && !head.body().is_end_stream() {
                self.asks = true;
                gate.open();
            }
            self.head = Some(head);
        }
        if self.asks {
            ready!(gate.poll_asked(cx));
            self.asks = false;
            // Who reads the client has its turn before who writes to it.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.head.take().map_or(Poll::Pending, |head| Poll::Ready(Ok(head)))
    }
}

/// What is known of a request that got no response, and that may be to blame for the end of its connection, which may have been of use.
fn failed(error: &h2::Error, (is_blamed, was_of_use): (bool, bool), sending: Option<Sending>) -> Failed {
    let is_theirs = error.is_remote();
    let reason = error.reason();
    let wants_http1 = is_theirs && reason == Some(Reason::HTTP_1_1_REQUIRED);
    // RFC 9113 sections 6.8 and 8.7: streams behind the last one that a GOAWAY names, and those that were refused, were not processed.
    let is_unprocessed = is_theirs && (error.is_go_away() || reason == Some(Reason::REFUSED_STREAM));
    if wants_http1 || is_unprocessed {
        let content = sending.and_then(|sending| sending.upload.take()).map(Box::new);
        return Failed::Unprocessed { content, wants_http1, was_of_use };
    }
    if error.is_library() {
        let ended = error.is_go_away() && !is_blamed;
        return if ended { Failed::Ruined(error.to_string()) } else { Failed::Invalid(error.to_string()) };
    }
    Failed::Broken(error.to_string())
}

impl Sending {
    fn new(mut upload: Upload, to: SendStream<Bytes>) -> Sending {
        let gate = upload.tells();
        let upload = Rc::new(RefCell::new(Some(upload)));
        let task = spawn_local(send(upload.clone(), gate, to)).abort_handle();
        Sending { upload, task }
    }
}

/// Sends content to its end, and says so; until the stream has no use for it.
async fn send(upload: Rc<RefCell<Option<Upload>>>, gate: Rc<Gate>, to: SendStream<Bytes>) {
    let mut to = Unfinished { to, is_over: false };
    to.is_over = send_pieces(&upload, &gate, &mut to.to).await;
    gate.asks();
    if to.is_over {
        gate.finish();
    }
}

/// A little piece that the library has.
struct Given {
    bytes: Bytes,
    _gone: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends content as there is room for it; whether that was all of it. Of little pieces the library has one at a time: the next ones
/// gather meanwhile.
async fn send_pieces(upload: &RefCell<Option<Upload>>, gate: &Gate, to: &mut SendStream<Bytes>) -> bool {
    let mut given = None::<oneshot::Receiver<()>>;
    loop {
        let next = poll_fn(|cx| {
            if to.poll_reset(cx).is_ready() {
                return Poll::Ready(None);
            }
            let mut upload = upload.borrow_mut();
            let Some(upload) = &mut *upload else { return Poll::Ready(None) };
            if given.as_mut().is_some_and(|gone| Pin::new(gone).poll(cx).is_pending()) {
                return Poll::Pending;
            }
            given = None;
            let frame = ready!(Pin::new(&mut *upload).poll_frame(cx));
            Poll::Ready(Some((frame, upload.is_end_stream())))
        });
        let Some((frame, is_last)) = next.await else { return false };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(mut bytes))) => {
                if bytes.len() < LARGE && !is_last {
                    let (_gone, waits) = oneshot::channel();
                    (bytes, given) = (Bytes::from_owner(Given { bytes, _gone }), Some(waits));
                }
                match send_all(to, bytes, is_last, gate).await {
                    true if is_last => return true,
                    true => {}
                    false => return false,
                }
            }
            Some(Ok(Err(frame))) => {
                return to.send_trailers(frame.into_trailers().unwrap_or_default()).is_ok();
            }
            None => return to.send_data(Bytes::new(), true).is_ok(),
            // The client broke off.
            Some(Err(_)) => return false,
        }
    }
}

/// Whether the stream took all of it.
async fn send_all(to: &mut SendStream<Bytes>, mut bytes: Bytes, is_last: bool, gate: &Gate) -> bool {
    loop {
        to.reserve_capacity(bytes.len());
        let room = match bytes.is_empty() {
            true => 0,
            false => match poll_fn(|cx| to.poll_capacity(cx)).await {
                Some(Ok(room)) => room.min(bytes.len()),
                _ => return false,
            },
        };
        let some = bytes.split_to(room);
        if to.send_data(some, is_last && bytes.is_empty()).is_err() {
            return false;
        }
        gate.moves();
        if bytes.is_empty() {
            return true;
        }
    }
}
