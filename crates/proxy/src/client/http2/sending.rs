//! A response on its way to a stream: at once as far as there is room for it, the rest by and by.

use super::link::{Link, Watch};
use super::piece::Piece;
use super::turns::{Turn, Urgency};
use crate::answer::body::ReplyBody;
use crate::answer::stream::{Flight, Stream};
use crate::budget::Lease;
use crate::client::departing;
use crate::report::Transaction;
use crate::worker::Worker;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::Body;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

/// Bytes of a piece that the library is given at a time.
const PIECE: usize = 64 << 10;

/// What is still to be sent.
pub struct Rest {
    link: Rc<Link>,
    stream: Rc<Stream>,
    outgoing: SendStream<Piece>,
    /// Of which nothing more is to come behind these bytes, or what else there is.
    bytes: Bytes,
    body: Option<ReplyBody>,
    urgency: Urgency,
}

/// Of a request, what its response goes by.
#[derive(Clone, Copy)]
pub struct Asked {
    pub urgency: Urgency,
    /// Of HEAD only the head is answered.
    pub is_head: bool,
}

impl Asked {
    pub fn of(method: &Method, headers: &HeaderMap) -> Asked {
        Asked { urgency: Urgency::of(headers), is_head: *method == Method::HEAD }
    }
}

/// Why the rest does not go on.
enum End {
    Whole,
    /// The client reset the stream, or left.
    Left,
    /// It takes nothing.
    Late,
    /// There is no more of the body, and it is not all.
    Broken,
}

/// Sends a response as far as there is room for it; gives what is left.
pub fn begin(
    worker: &Worker,
    link: &Rc<Link>,
    stream: Rc<Stream>,
    respond: &mut SendResponse<Piece>,
    (mut response, flight): (Response<ReplyBody>, Flight),
    asked: Asked,
) -> Option<Rest> {
    departing::finish(worker, &stream, link.speaks, &mut response);
    stream.note_response(&response);
    let status = response.status();
    response.body_mut().carry(flight, status);
    let (mut parts, body) = response.into_parts();
    let is_bodyless = asked.is_head || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    fields_of(&mut parts.headers, &body, is_bodyless);
    let is_over = is_bodyless || body.is_end_stream();
    let Ok(mut outgoing) = respond.send_response(Response::from_parts(parts, ()), is_over) else {
        drop(body);
        stream.broken_off();
        return None;
    };
    if is_over {
        drop(body);
        link.departs(stream);
        return None;
    }
    let (bytes, body) = match body.into_whole() {
        Ok(bytes) => (bytes, None),
        Err(body) => (Bytes::new(), Some(body)),
    };
    if body.is_none() && link.turns.is_free() {
        outgoing.reserve_capacity(bytes.len());
        if outgoing.capacity() >= bytes.len() {
            // What cannot be sent is dropped there.
            let _ = outgoing.send_data(Piece::counted(bytes, link, Some(stream)), true);
            return None;
        }
    }
    Some(Rest { link: link.clone(), stream, outgoing, bytes, body, urgency: asked.urgency })
}

/// What a message of HTTP/2 has no other way to say, and what HTTP/1 adds by itself.
fn fields_of(headers: &mut HeaderMap, body: &ReplyBody, is_bodyless: bool) {
    headers.remove(CONNECTION);
    if !headers.contains_key(DATE) {
        let now = httpdate::fmt_http_date(SystemTime::now());
        headers.extend(HeaderValue::try_from(now).ok().map(|now| (DATE, now)));
    }
    if !is_bodyless
        && let Some(length) = body.size_hint().exact()
        && !headers.contains_key(CONTENT_LENGTH)
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

impl Rest {
    /// Nothing more is to come from elsewhere.
    pub fn is_here(&self) -> bool {
        self.body.is_none()
    }

    /// Until all of it is with the library, or nobody takes it. It begins once there is a lease.
    pub async fn send(mut self, worker: &Worker, watch: &Watch, lease: impl Future<Output = Option<Lease>>) {
        let link = self.link.clone();
        let mut turn = link.turns.turn(self.urgency, self.outgoing.stream_id().as_u32());
        let (mut lease, mut held) = (pin!(lease), None);
        let end = poll_fn(|cx| {
            if let Some(end) = self.poll_end(cx, watch) {
                return Poll::Ready(end);
            }
            if held.is_none() {
                let waits = lease.as_mut().poll(cx);
                // As for its turn.
                watch.turning.set(waits.is_pending());
                watch.waits.set(waits.is_pending());
                held = Some(ready!(waits));
            }
            self.poll(cx, worker, watch, &mut turn)
        })
        .await;
        watch.full.set(false);
        watch.turning.set(false);
        match end {
            End::Whole => {}
            End::Left => self.breaks_off(),
            End::Late => {
                self.outgoing.send_reset(Reason::CANCEL);
                self.breaks_off();
            }
            End::Broken => {
                self.breaks_off();
                link.breaks(self.outgoing);
            }
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        watch: &Watch,
        turn: &mut Turn<'_>,
    ) -> Poll<End> {
        loop {
            if let Some(end) = self.poll_end(cx, watch) {
                return Poll::Ready(end);
            }
            let room = self.poll_room(cx);
            watch.full.set(room.is_pending());
            let room = match room {
                Poll::Ready(Some(room)) => room,
                Poll::Ready(None) => return Poll::Ready(End::Left),
                Poll::Pending => {
                    self.waits(cx, worker);
                    turn.yields();
                    return Poll::Pending;
                }
            };
            let turns = turn.poll(cx).is_pending();
            watch.turning.set(turns);
            if turns {
                self.waits(cx, worker);
                return Poll::Pending;
            }
            if let Some(end) = ready!(self.poll_piece(cx, watch, room)) {
                return Poll::Ready(end);
            }
        }
    }

    /// Whether nothing more is to be sent, however much is left.
    fn poll_end(&mut self, cx: &mut Context<'_>, watch: &Watch) -> Option<End> {
        self.stream.woken_by(cx.waker());
        if watch.is_overdue() {
            return Some(End::Late);
        }
        // A reset, or the end of the connection.
        self.outgoing.poll_reset(cx).is_ready().then_some(End::Left)
    }

    /// Bytes that the client takes now; `None`: none any more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        self.outgoing.reserve_capacity(self.bytes.len().clamp(1, PIECE));
        match self.outgoing.capacity() {
            0 => self.outgoing.poll_capacity(cx).map(|room| room.and_then(Result::ok)),
            room => Poll::Ready(Some(room)),
        }
    }

    /// Sends one piece, if there is one; `Some` when that was the last.
    fn poll_piece(&mut self, cx: &mut Context<'_>, watch: &Watch, room: usize) -> Poll<Option<End>> {
        if self.bytes.is_empty() {
            let Some(body) = &mut self.body else { return Poll::Ready(Some(self.finish())) };
            match ready!(Pin::new(body).poll_frame(cx)) {
                None => return Poll::Ready(Some(self.finish())),
                Some(Err(_)) => return Poll::Ready(Some(End::Broken)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.bytes = bytes,
                    Err(frame) => return Poll::Ready(Some(self.trailers(frame.into_trailers().ok()))),
                },
            }
        }
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        // Of what has just come more may be taken than of what was unknown.
        let room = room.max(match self.poll_room(cx) {
            Poll::Ready(Some(room)) => room,
            _ => 0,
        });
        let some = self.bytes.split_to(room.min(self.bytes.len()).min(PIECE));
        watch.sent.set(watch.sent.get() + some.len() as u64);
        let is_last = self.bytes.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream);
        if is_last {
            self.body = None;
        }
        let piece = Piece::counted(some, &self.link, is_last.then(|| self.stream.clone()));
        let sent = self.outgoing.send_data(piece, is_last);
        Poll::Ready(match (sent, is_last) {
            (Err(_), _) => Some(End::Left),
            (Ok(()), true) => Some(End::Whole),
            (Ok(()), false) => None,
        })
    }

    /// The body has ended behind what was sent.
    fn finish(&mut self) -> End {
        self.body = None;
        let piece = Piece::counted(Bytes::new(), &self.link, Some(self.stream.clone()));
        match self.outgoing.send_data(piece, true) {
            Ok(()) => End::Whole,
            Err(_) => End::Left,
        }
    }

    fn trailers(&mut self, trailers: Option<HeaderMap>) -> End {
        self.body = None;
        let mut trailers = trailers.unwrap_or_default();
        cache::remove_hop_by_hop(&mut trailers);
        match self.outgoing.send_trailers(trailers) {
            Ok(()) => {
                self.link.departs(self.stream.clone());
                End::Whole
            }
            Err(_) => End::Left,
        }
    }

    /// The client takes nothing for now, or others go before.
    fn waits(&mut self, cx: &mut Context<'_>, worker: &Worker) {
        match &mut self.body {
            Some(body) => body.poll_ahead(cx),
            None => self.stream.count_unsent(self.bytes.len(), &worker.shared.budget),
        }
        self.stream.note(Transaction::begins);
    }

    fn breaks_off(&mut self) {
        self.body = None;
        self.stream.broken_off();
        self.stream.release();
    }
}
