//! A client's connection that speaks HTTP/2 (RFC 9113): the library that does so, over a socket that is watched (`socket`).
//!
//! The connection's task reads, answers what can be answered at once, and writes; only a request that waits for something, and a response
//! for which there is no room, have a task of their own. A stream is an `answer::stream::Stream` with one request.

mod link;
mod piece;
mod pipe;
mod request;
mod sending;
mod socket;
mod turns;

pub use self::link::Link;

use self::link::Watch;
use self::piece::Piece;
use self::pipe::Pipe;
use self::request::Kind;
use self::sending::{Asked, Rest};
use self::socket::WatchedSocket;
use super::{http1, tunnel};
use crate::answer::body::ReplyBody;
use crate::answer::stream::{Flight, Stream};
use crate::answer::{self, Pending};
use crate::budget::{ClientsClaim, Lease, of_head};
use crate::message::fields;
use crate::message::inflow::Inflow;
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::origin::content::{Arriving, Http2Content};
use crate::report::counters::Number;
use crate::settings::http2::WINDOWS;
use crate::transport::Socket;
use crate::worker::Worker;
use aws_lc_rs::digest;
use bytes::Bytes;
use data_encoding::BASE64;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use std::cell::Cell;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// What a connection that ends may take to say so.
const LINGER: Duration = Duration::from_secs(2);

/// The window that each connection has at least (RFC 9113 section 6.9.2), bytes.
const LEAST_WINDOW: u32 = 65_535;

/// Bytes of a whole response that the library may have at once, where its client has room for it.
const WHOLE: usize = 256 << 10;

/// Requests that are answered before another connection has its turn.
const AT_ONCE: usize = 128;

/// Bytes by which small frames may exceed what they carry that are not taken from the library yet: more than come with one read.
const SMALL_FRAMES: usize = 2 << 20;

/// What a request takes, with the connection to its origin, beyond the first of a connection: bytes.
const STREAM: usize = 24 << 10;

/// The same of a response for which its client has no room: measured, with what the library keeps of it.
const SENDING: usize = 10 << 10;

/// Bytes of content that may wait in a connection's window while its request waits for memory.
const LITTLE: u64 = 4 << 10;

/// What comes for a stream that was reset is let pass for so long, and of so many of a connection: its client may have sent much before
/// it knew.
const STRAY: Duration = Duration::from_secs(10);
const RESETS: usize = 400;

/// For so long a request that was refused has its place among those that wait, and what it would have got is kept for the next.
const SPARE: Duration = Duration::from_secs(2);

/// Streams of a connection that wait for memory. More are refused where there is none.
const WAITING: usize = 8;

/// Serves a connection until it ends. `early` was read from it before.
pub async fn serve(worker: Rc<Worker>, link: Rc<Link>, socket: Socket, early: Bytes) {
    let _open = Open::new(&worker);
    let socket = WatchedSocket::new(socket, early, link.clone(), worker.clone());
    let mut handshake = pin!(builder(&worker).handshake(socket));
    let begun = poll_fn(|cx| {
        link.woken_by(cx.waker());
        match link.is_overdue() {
            true => Poll::Ready(None),
            false => handshake.as_mut().poll(cx).map(Result::ok),
        }
    })
    .await;
    let Some(connection) = begun else { return };
    link.is_begun();
    let mut served = Served { worker: worker.clone(), link: link.clone(), connection, told: false };
    let why = poll_fn(|cx| served.poll(cx)).await;
    link.begins_no_more();
    if let Why::Ends(reason) = why {
        served.connection.abrupt_shutdown(reason);
        link.end_streams();
        let _ = timeout(LINGER, poll_fn(|cx| served.connection.poll_closed(cx))).await;
    }
    drop(served);
    // Tasks of streams see that, and end.
    poll_fn(|cx| {
        link.woken_by(cx.waker());
        if link.is_without_streams() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    link.ended();
    // What the client sends meanwhile would be met with a reset, by which it would lose what it has not read yet.
    if let Some(socket) = link.take_socket() {
        http1::linger(socket).await;
    }
}

fn builder(worker: &Worker) -> h2::server::Builder {
    let settings = worker.settings();
    let (http2, head) = (settings.http2, settings.bounds.head_bytes);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(http2.streams)
        .initial_window_size(http2.window)
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(http2.resets as usize)
        .max_concurrent_reset_streams(RESETS.max(http2.streams as usize))
        .reset_stream_duration(STRAY)
        .max_send_buffer_size(WHOLE)
        .data_frame_budget(SMALL_FRAMES)
        .enable_connect_protocol();
    builder
}

/// Why a connection is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It did by itself, or by what one of the two could not read.
    Ended,
    /// The proxy ends it.
    Ends(Reason),
}

struct Served {
    worker: Rc<Worker>,
    link: Rc<Link>,
    connection: Connection<WatchedSocket, Piece>,
    /// That it takes no more requests.
    told: bool,
}

impl Served {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Why> {
        self.link.woken_by(cx.waker());
        let mut left = AT_ONCE;
        loop {
            if let Some(why) = self.ends() {
                return Poll::Ready(why);
            }
            // What is answered at once goes out together.
            self.link.cork(true);
            let mut end = self.accept(cx, &mut left);
            self.link.cork(false);
            if end.is_pending() && !self.link.is_flooded() {
                match self.poll_request(cx, left > 0) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        self.begin(request, respond);
                        continue;
                    }
                    Poll::Ready(None) => end = Poll::Ready(Why::Ended),
                    Poll::Ready(Some(Err(error))) => {
                        self.note_end(&error);
                        end = Poll::Ready(Why::Ended);
                    }
                    Poll::Pending => {}
                }
            }
            self.link.inflows.look();
            if end.is_pending() && self.link.break_off() {
                continue;
            }
            self.link.has_more(left == 0);
            if left > 0 {
                self.link.has_begun_all();
            }
            self.link.tell();
            return match self.link.flood() {
                Some(_) => Poll::Ready(self.ends().unwrap_or(Why::Ended)),
                None => end,
            };
        }
    }

    /// Begins all requests that are here, of which as many are left.
    fn accept(&mut self, cx: &mut Context<'_>, left: &mut usize) -> Poll<Why> {
        while *left > 0 {
            *left -= 1;
            match self.poll_request(cx, true) {
                Poll::Ready(Some(Ok((request, respond)))) => self.begin(request, respond),
                Poll::Ready(Some(Err(error))) => {
                    self.note_end(&error);
                    return Poll::Ready(Why::Ended);
                }
                Poll::Ready(None) => return Poll::Ready(Why::Ended),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next request, if there may be one, and but while another process may answer it.
    #[allow(clippy::type_complexity)]
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        takes: bool,
    ) -> Poll<Option<Result<(Request<RecvStream>, SendResponse<Piece>), h2::Error>>> {
        let holds = self.worker.holding.get() && !self.worker.moving.get();
        match takes && !holds {
            true => self.connection.poll_accept(cx),
            false => self.connection.poll_closed(cx).map(|end| end.err().map(Err)),
        }
    }

    /// Whether, and why, the proxy ends the connection; and tells its client that there is an end to come.
    fn ends(&mut self) -> Option<Why> {
        let Served { worker, link, .. } = self;
        if let Some(flood) = link.flood() {
            let client = link.client(worker).peer;
            tracing::warn!(target: "client", %client, cause = flood.name(), "a connection of HTTP/2 ends: too many in a minute");
            worker.exit.add(Number::Http2Floods, 1);
            return Some(Why::Ends(Reason::ENHANCE_YOUR_CALM));
        }
        if link.is_overdue() {
            return Some(Why::Ends(Reason::NO_ERROR));
        }
        // One that has asked for nothing yet may, once: it may be about to.
        if !self.told && (worker.stopping.get() || (worker.moving.get() && link.has_begun())) {
            self.told = true;
            self.connection.graceful_shutdown();
        }
        None
    }

    /// Tells of a client that the library has ended for what it costs.
    fn note_end(&self, error: &h2::Error) {
        let is_calmed = error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
        if is_calmed && !self.link.is_flooded() {
            let client = self.link.client(&self.worker).peer;
            tracing::warn!(target: "client", %client, cause = %error, "a connection of HTTP/2 ends");
            self.worker.exit.add(Number::Http2Floods, 1);
        }
    }

    /// Answers a request, at once if that can be.
    fn begin(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Piece>) {
        let Served { worker, link, .. } = self;
        worker.exit.add(Number::Http2Streams, 1);
        let mut lease = None;
        if link.count() >= WAITING {
            let (budget, client) = (&worker.shared.budget, link.client(worker).charged());
            lease = ClientsClaim::try_take(&budget.askers, client, &budget.heads, SENDING);
            if lease.is_none() {
                link.resets();
                return respond.send_reset(Reason::REFUSED_STREAM);
            }
        }
        let number = respond.stream_id().as_u32();
        let mut head = link.take_held(number);
        if link.was_read_aside(number) {
            let (budget, client) = (&worker.shared.budget, link.client(worker).charged());
            let most = of_head(worker.settings().bounds.head_bytes);
            head = ClientsClaim::try_take(&budget.askers, client, &budget.heads, most);
            if head.is_none() {
                link.resets();
                return respond.send_reset(Reason::REFUSED_STREAM);
            }
        }
        let stream = Rc::new(Stream::new(link.client(worker), worker.exit.clone()));
        if let Some(secured) = &link.secured {
            stream.secured_by(secured.clone());
        }
        link.begins();
        let flight = stream.begin(request.method().clone());
        stream.note_request(&request);
        if worker.exit.notes_heads() {
            stream.note(|transaction| transaction.heads.stream = Some(number));
        }
        let (mut parts, incoming) = request.into_parts();
        let (has_content, length) = (!incoming.is_end_stream(), length(&parts.headers));
        let asked = Asked::of(&parts.method, &parts.headers);
        let waits = Rc::<Cell<bool>>::default();
        let mut tunnel = None;
        let answer = match request::settle(&mut parts, worker.settings().bounds.head_fields) {
            Err(refusal) => {
                stream.note(|transaction| transaction.note_accept(&parts.headers));
                Ok(refusal.response())
            }
            Ok(Kind::Plain) => {
                let content = match has_content {
                    false => Arriving::Nothing,
                    true => {
                        self.widen();
                        if !parts.headers.contains_key(CONTENT_LENGTH) {
                            // As HTTP/1 says that there is content, which no key knows.
                            let chunked = HeaderValue::from_static("chunked");
                            parts.headers.insert(TRANSFER_ENCODING, chunked);
                        }
                        let (expects, inflow) =
                            (fields::expects_continue(&parts), self.link.inflows.add(incoming));
                        content(&stream, length, expects, inflow, &waits)
                    }
                };
                answer::answer(&self.worker, &stream, Request::from_parts(parts, content))
            }
            Ok(kind) => {
                tunnel = Some((kind, link.inflows.add(incoming)));
                answer::answer(worker, &stream, Request::from_parts(parts, Arriving::Nothing))
            }
        };
        let Served { worker, link, .. } = self;
        let fills_window = has_content && tunnel.is_none() && length.is_none_or(|length| length > LITTLE);
        let running = |stream| {
            let watch = Watch::new(stream, waits);
            watch.holds.set(lease.is_some() || head.is_some());
            link.watch(number, &watch);
            Running {
                watch,
                link: link.clone(),
                worker: worker.clone(),
                number,
                lease: Cell::new(lease),
                first: Cell::new(false),
                head: Cell::new(head),
                fills_window,
            }
        };
        match answer {
            Ok(response) => {
                let going = (response, flight);
                if let Some(rest) = sending::begin(worker, link, stream.clone(), &mut respond, going, asked) {
                    spawn_local(running(stream).send(rest));
                }
            }
            Err(pending) => drop(spawn_local(running(stream).run(pending, flight, tunnel, respond, asked))),
        }
    }

    /// Lets more content come at once, while there is memory for it: until the connection ends.
    fn widen(&mut self) {
        let Served { worker, link, connection, .. } = self;
        let budget = &worker.shared.budget;
        let window = worker.settings().http2.window.saturating_mul(WINDOWS);
        let more = window.saturating_sub(LEAST_WINDOW) as usize;
        if link.is_wide() || more == 0 || !budget.origins.can_spare(more) {
            return;
        }
        let client = link.client(worker).charged();
        if let Some(lease) = ClientsClaim::try_take(&budget.clients, client, &budget.origins, more) {
            connection.set_target_window_size(window);
            link.widens(lease, &budget.origins);
        }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A request's content, for which its client waits to be asked where it says so.
fn content(
    stream: &Rc<Stream>,
    length: Option<u64>,
    expects: bool,
    incoming: Inflow,
    waits: &Rc<Cell<bool>>,
) -> Arriving {
    let wanted = expects.then(|| {
        let stream = stream.clone();
        let goes_on = move || {
            if stream.is_unanswered() {
                stream.send_interim(Interim { status: StatusCode::CONTINUE, headers: HeaderMap::new() });
            }
        };
        Box::new(goes_on) as Box<dyn FnOnce()>
    });
    Arriving::Http2(Box::new(Http2Content::new(incoming, length, wanted, waits.clone())))
}

/// Waits for memory in the place of a request that was refused for it, so that others make way as for any that waits; the client's next
/// one with content has it.
fn stand_in(worker: &Rc<Worker>, link: &Rc<Link>) {
    if !link.begins_to_stand_in() {
        return;
    }
    let (worker, link) = (worker.clone(), link.clone());
    spawn_local(async move {
        let budget = &worker.shared.budget;
        let mut claim = ClientsClaim::new(&budget.askers, link.client(&worker).charged());
        let waits = timeout(SPARE, poll_fn(|cx| claim.poll(cx, &budget.heads, STREAM)));
        if waits.await.is_ok() {
            link.has_spare(claim.take_lease());
            sleep(SPARE).await;
        }
        link.ends_to_stand_in();
    });
}

/// A stream with a task of its own; the connection waits for its end.
struct Running {
    watch: Rc<Watch>,
    link: Rc<Link>,
    worker: Rc<Worker>,
    number: u32,
    /// Of one beyond the first few of its connection.
    lease: Cell<Option<Lease>>,
    /// It has what its connection has anyway.
    first: Cell<bool>,
    /// Of a large head.
    head: Cell<Option<Lease>>,
    /// It has content that would, while it waits.
    fills_window: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.link.forget(self.number);
        self.gives_first();
    }
}

impl Running {
    /// Sends the rest of a response.
    async fn send(self, rest: Rest) {
        // A large head is answered, and does not wait for more of the memory that it has.
        let mut held = self.lease.take().or(self.head.take());
        if let Some(lease) = &mut held {
            lease.shrink(SENDING);
        }
        self.head.take();
        let lease = async {
            match held {
                None => self.beside(SENDING).await,
                held => held,
            }
        };
        rest.send(&self.worker, &self.watch, lease).await;
    }

    /// Another stream may have what the connection has anyway.
    fn gives_first(&self) {
        if self.first.replace(false) {
            self.link.makes_first();
        }
    }

    /// What a stream takes beside another of its connection, which has what one takes.
    async fn beside(&self, bytes: usize) -> Option<Lease> {
        if self.first.get() {
            return None;
        }
        let budget = &self.worker.shared.budget;
        let mut claim = ClientsClaim::new(&budget.askers, self.link.client(&self.worker).charged());
        tokio::select! {
            biased;
            () = self.link.goes_first() => {
                self.first.set(true);
                None
            }
            () = poll_fn(|cx| claim.poll(cx, &budget.heads, bytes)) => {
                self.watch.holds.set(true);
                claim.take_lease()
            }
        }
    }

    /// Waits for the response, and sends it.
    async fn run(
        self,
        pending: Pending,
        flight: Flight,
        tunnel: Option<(Kind, Inflow)>,
        mut respond: SendResponse<Piece>,
        asked: Asked,
    ) {
        // Until its last byte is with the library: the connection to the origin has buffers, too.
        let mut lease = None;
        let rest = self.answer(pending, flight, tunnel, &mut respond, asked, &mut lease).await;
        drop(respond);
        if let Some(rest) = rest {
            if let Some(lease) = &mut lease {
                lease.shrink(if rest.is_here() { SENDING } else { STREAM });
            }
            rest.send(&self.worker, &self.watch, ready(lease)).await;
        }
    }

    async fn answer(
        &self,
        pending: Pending,
        flight: Flight,
        tunnel: Option<(Kind, Inflow)>,
        respond: &mut SendResponse<Piece>,
        asked: Asked,
        lease: &mut Option<Lease>,
    ) -> Option<Rest> {
        let Running { watch, link, worker, .. } = self;
        let stream = &watch.stream;
        let mut response = match self.response(pending, respond, lease).await {
            Some(response) => response,
            // What was under way for it is dropped.
            None => {
                drop(flight);
                return None;
            }
        };
        let Some((kind, incoming)) = tunnel else {
            return sending::begin(worker, link, stream.clone(), respond, (response, flight), asked);
        };
        if let Kind::WebSocket(key) = &kind {
            response = upgraded(response, key, stream);
        }
        if !stream.is_tunnel() {
            return sending::begin(worker, link, stream.clone(), respond, (response, flight), asked);
        }
        *lease = None;
        watch.holds.set(false);
        self.gives_first();
        Box::pin(self.tunnel((response, flight), asked, incoming, respond)).await;
        None
    }

    /// The response, unless the client does not want it any more.
    async fn response(
        &self,
        pending: Pending,
        respond: &mut SendResponse<Piece>,
        lease: &mut Option<Lease>,
    ) -> Option<Response<ReplyBody>> {
        let Running { watch, worker, link, .. } = self;
        let stream = &watch.stream;
        let answer = async {
            // Whoever waits holds nothing that others wait for. What a large head takes is more than enough.
            drop(self.lease.take());
            *lease = self.head.take();
            watch.holds.set(lease.is_some());
            if lease.is_none() && self.fills_window {
                *lease = link.take_spare();
                watch.holds.set(lease.is_some());
            }
            // Content that waits would fill the connection's window, and keep others from what they need to end.
            let patience = match self.fills_window {
                true => Duration::ZERO,
                false => worker.settings().timeouts.origin_first_byte,
            };
            if lease.is_none() {
                match timeout(patience, self.beside(STREAM)).await {
                    Ok(held) => *lease = held,
                    Err(_) if self.fills_window => {
                        stand_in(worker, link);
                        return None;
                    }
                    Err(_) => return Some(crowded().response()),
                }
            }
            Some(pending.answer(worker, stream).await)
        };
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            stream.woken_by(cx.waker());
            if respond.poll_reset(cx).is_ready() {
                return Poll::Ready(None);
            }
            if watch.is_overdue() && !watch.waits_for_content() {
                return Poll::Ready(None);
            }
            if watch.is_overdue() {
                let text = "the request's content did not come in time";
                return Poll::Ready(Some(Refusal::new(StatusCode::REQUEST_TIMEOUT, text).response()));
            }
            let response = answer.as_mut().poll(cx);
            for Interim { status, headers } in stream.take_interims().into_iter().map(Interim::for_next_hop) {
                let mut interim = Response::new(());
                (*interim.status_mut(), *interim.headers_mut()) = (status, headers);
                let _ = respond.send_informational(interim);
            }
            if let Poll::Ready(None) = response {
                stream.note(|transaction| transaction.status = Some(StatusCode::SERVICE_UNAVAILABLE));
                link.resets();
                respond.send_reset(Reason::REFUSED_STREAM);
            }
            response
        })
        .await
    }

    /// Copies bytes both ways until the tunnel ends.
    async fn tunnel(
        &self,
        (mut response, flight): (Response<ReplyBody>, Flight),
        Asked { urgency, .. }: Asked,
        incoming: Inflow,
        respond: &mut SendResponse<Piece>,
    ) {
        let Running { watch, worker, .. } = self;
        let stream = &watch.stream;
        stream.note_response(&response);
        let status = response.status();
        response.body_mut().carry(flight, status);
        let (parts, body) = response.into_parts();
        drop(body);
        let (Ok(outgoing), Some(upstream)) =
            (respond.send_response(Response::from_parts(parts, ()), false), stream.take_tunnel())
        else {
            return stream.broken_off();
        };
        let pipe = Pipe::new(&self.link, urgency, incoming, outgoing);
        tunnel::run(worker, stream, pipe, Bytes::new(), upstream).await;
    }
}

fn crowded() -> Refusal {
    let text = "too little memory for more requests at once: those before did not end in time";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).personal()
}

/// An origin's answer to a request for a WebSocket, as HTTP/2 says it (RFC 8441 section 5): 200 opens the tunnel.
fn upgraded(mut response: Response<ReplyBody>, key: &HeaderValue, stream: &Stream) -> Response<ReplyBody> {
    let accepts = response.headers().get(SEC_WEBSOCKET_ACCEPT) == accepted(key).as_ref();
    match (stream.is_tunnel(), response.status()) {
        (true, StatusCode::SWITCHING_PROTOCOLS) if accepts => {
            *response.status_mut() = StatusCode::OK;
            let headers = response.headers_mut();
            headers.remove(http::header::CONNECTION);
            headers.remove(UPGRADE);
            headers.remove(SEC_WEBSOCKET_ACCEPT);
            response
        }
        (false, status) if !status.is_success() => response,
        _ => {
            stream.no_tunnel();
            Refusal::new(StatusCode::BAD_GATEWAY, "the origin did not change to the protocol of WebSockets")
                .response()
        }
    }
}

/// What proves that an origin has read the key (RFC 6455 section 4.2.2).
fn accepted(key: &HeaderValue) -> Option<HeaderValue> {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let both = [key.as_bytes(), GUID].concat();
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &both);
    HeaderValue::try_from(BASE64.encode(digest.as_ref())).ok()
}

/// A connection, which is counted while it is open.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: &Rc<Worker>) -> Open {
        worker.exit.add(Number::OpenHttp2, 1);
        Open(worker.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.exit.subtract(Number::OpenHttp2, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 section 1.3.
    #[test]
    fn an_origin_proves_that_it_has_read_the_key() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted(&key).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
