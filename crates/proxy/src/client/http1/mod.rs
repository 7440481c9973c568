//! A client's connection that speaks HTTP/1: the library that does so, over a socket that is watched.
//!
//! The watched socket does three jobs without a timer or a clock read per request: it walks the framing of what it
//! reads (`framing`), it notes what the connection waits for so that one sweep per worker finds the overdue ones,
//! and it lets interim responses out between a request and its final response.

pub mod framing;

use self::framing::{Ambiguous, Place, Walker};
use super::departing;
use super::protocol::Foreign;
use super::tunnel;
use crate::access::client::{Admission, Client};
use crate::answer;
use crate::answer::body::ReplyBody;
use crate::answer::stream::{Flight, Stream};
use crate::budget::{ClientsClaim, HEAD, Wanted, of_head};
use crate::message::interim;
use crate::message::refusal::Refusal;
use crate::phase::Moved;
use crate::report::Transaction;
use crate::settings::{Bounds, Timeouts};
use crate::transport::{Peer, Secured, Socket, Speaks};
use crate::worker::Worker;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// What a refused client may still send before it is cut off, so that it gets to read why.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

/// What the socket, the service and the sweep know of one connection.
pub struct Link {
    stream: Rc<Stream>,
    /// On its listener.
    pub speaks: Speaks,
    /// By which settings its client was judged.
    judged: Cell<u64>,
    /// A head of more than `HEAD` bytes. The library keeps what it needed for one as long as the connection is there.
    large_head: RefCell<ClientsClaim>,
    /// Which head is being read, and bytes of it.
    head: Cell<(u64, usize)>,
    /// The connection ends after the request under way.
    closes: Cell<bool>,
    /// Of the request that was counted in last.
    version: Cell<Version>,
    walker: RefCell<Walker>,
    /// The body broke its framing: nothing more is read.
    poisoned: Cell<bool>,
    /// What the client speaks is not HTTP/1.
    foreign: Cell<Option<Foreign>>,
    /// All that was written of the responses so far has gone: what the library writes now is its own, for a request that it
    /// could not read.
    answered: Cell<bool>,
    /// The status of what the library wrote of its own and was kept from the client, who gets a reason in words instead.
    unread: Cell<Option<StatusCode>>,
    reads: Cell<u64>,
    read_blocked: Cell<bool>,
    writes: Cell<u64>,
    write_blocked: Cell<bool>,
    /// The client has not taken all of the responses so far, and whether a request waits for that.
    behind: Cell<bool>,
    waits_for_client: Cell<bool>,
    interim: RefCell<Interim>,
    seen: Cell<Option<(Wait, Instant)>>,
    /// Bytes that had moved when the client was last seen to move some, and when that was.
    moved: Cell<(u64, Option<Instant>)>,
    overdue: Cell<Option<Wait>>,
}

/// Interim responses that are going out.
#[derive(Default)]
struct Interim {
    bytes: Vec<u8>,
    sent: usize,
}

/// What a connection waits for its client to do; the number changes when the client did something of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Handshake,
    Request(u64),
    Head(u64),
    Body(u64),
    Taking(u64),
}

impl Link {
    pub fn new(worker: &Worker, peer: Peer, speaks: Speaks) -> Link {
        let (version, settings) = (worker.refresh(), worker.settings());
        let client = Client::of(peer, speaks, &settings);
        let large_head = ClientsClaim::new(&worker.shared.budget.askers, client.charged()).into();
        Link {
            stream: Rc::new(Stream::new(client, worker.exit.clone())),
            speaks,
            judged: Cell::new(version),
            large_head,
            head: Cell::new((0, 0)),
            closes: Cell::new(false),
            version: Cell::new(Version::HTTP_11),
            walker: RefCell::new(Walker::new(settings.bounds.head_bytes)),
            poisoned: Cell::new(false),
            foreign: Cell::new(None),
            answered: Cell::new(true),
            unread: Cell::new(None),
            reads: Cell::new(0),
            read_blocked: Cell::new(false),
            writes: Cell::new(0),
            write_blocked: Cell::new(false),
            behind: Cell::new(false),
            waits_for_client: Cell::new(false),
            interim: RefCell::default(),
            seen: Cell::new(None),
            moved: Cell::new((0, None)),
            overdue: Cell::new(None),
        }
    }

    /// Why the request that was counted in last must be refused, if it must.
    pub fn refused(&self) -> Option<Ambiguous> {
        let (ordinal, why) = self.walker.borrow().refused()?;
        (ordinal <= self.stream.begun()).then_some(why)
    }

    /// Takes the newest settings before a request.
    fn refresh(&self, worker: &Worker) {
        let version = worker.refresh();
        if self.judged.replace(version) != version {
            let client = Client::of(self.stream.client().peer, self.speaks, &worker.settings());
            self.stream.judge(client);
            self.pass_where_moving(worker);
        }
    }

    /// Whether it goes on in another process that takes over. Other connections end with the request that is under way, or comes next.
    fn moves(&self) -> bool {
        self.speaks == Speaks::Http
    }

    /// What the next request gets is not from the cache, which the other process has.
    fn pass_where_moving(&self, worker: &Worker) {
        let client = self.stream.client();
        if worker.moving.get() && !self.moves() && client.admission == Admission::Served {
            self.stream.judge(Client { admission: Admission::Passed, ..Client::clone(&client) });
        }
    }

    pub fn peer(&self) -> Peer {
        self.stream.client().peer
    }

    pub fn charged(&self) -> Option<IpAddr> {
        self.stream.client().charged()
    }

    /// The handshake is done.
    pub fn secured_by(&self, secured: Arc<Secured>) {
        self.stream.secured_by(secured);
        self.seen.set(None);
    }

    pub fn secured(&self) -> Option<Arc<Secured>> {
        self.stream.secured().cloned()
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue.get().is_some()
    }

    pub fn woken_by(&self, waker: &Waker) {
        self.stream.woken_by(waker);
    }

    /// The library keeps the memory of a large head as long as the connection is there. While there is little for others, the
    /// connection ends after this request, so that no idle one keeps it.
    fn give_back_head(&self, worker: &Worker) {
        let head = self.large_head.borrow();
        if head.holds() && !(head.is_ample() && worker.shared.budget.heads.is_ample()) {
            self.closes.set(true);
            self.wake();
        }
    }

    pub fn wake(&self) {
        self.stream.wake();
    }

    /// Waits until the client has taken what was answered before: requests that it sends without end bring no responses without
    /// end.
    async fn taken(&self) {
        poll_fn(|_| {
            self.waits_for_client.set(self.behind.get());
            if self.behind.get() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// The client has taken everything.
    fn flushed(&self) {
        self.stream.flushed();
        self.answered.set(self.stream.begun() == self.stream.ended());
        self.stream.release();
        if self.behind.replace(false) {
            self.waits_for_client.set(false);
            self.wake();
        }
    }

    fn interim_waits(&self) -> bool {
        self.stream.interims_wait() || !self.interim.borrow().bytes.is_empty()
    }

    /// Looks whether this connection waits for too long; called every now and then by the worker's sweep.
    pub fn sweep(&self, now: Instant, timeouts: &Timeouts) {
        let wait = self.wait();
        self.look_for_slowness(wait, now);
        let limit = match wait {
            Wait::Nothing => return self.seen.set(None),
            Wait::Handshake => timeouts.client_handshake,
            Wait::Request(_) => timeouts.client_idle,
            Wait::Head(_) => timeouts.client_header,
            Wait::Body(_) | Wait::Taking(_) => timeouts.client_stall,
        };
        match self.seen.get() {
            Some((before, since)) if before == wait => {
                if now.duration_since(since) >= limit {
                    self.overdue.set(Some(wait));
                    self.wake();
                }
            }
            _ => self.seen.set(Some((wait, now))),
        }
    }

    /// A client from which so little comes, or to which so little goes, is as good as one that stalls.
    fn look_for_slowness(&self, wait: Wait, now: Instant) {
        const LITTLE: u64 = 4 << 10;
        let moved = match wait {
            // The kernel takes more of a response only when a good part of what it has is gone.
            Wait::Taking(writes) => writes.wrapping_mul(LITTLE),
            Wait::Body(_) => self.stream.received().get(),
            _ => return self.moved.set((0, None)),
        };
        let (before, since) = self.moved.get();
        if since.is_none() || moved.abs_diff(before) >= LITTLE {
            self.moved.set((moved, Some(now)));
        }
    }

    /// Since when hardly anything moves of what takes memory in transit, which a hit in memory does not; or a
    /// large head is read, or its memory idles with its connection.
    pub fn slow_since(&self, wanted: Wanted) -> Option<Instant> {
        let (wait, has_head) = (self.wait(), self.large_head.borrow().holds());
        match (wait, wanted) {
            (_, Wanted::Heads) if !has_head => None,
            (Wait::Head(_) | Wait::Request(_), Wanted::Heads) => self.seen_since(wait),
            (Wait::Taking(_), Wanted::Bodies) if self.stream.is_of_memory() => None,
            (Wait::Taking(_) | Wait::Body(_), _) => self.moved.get().1,
            _ => None,
        }
    }

    /// Since when it waits for this, if a sweep has seen it.
    fn seen_since(&self, wait: Wait) -> Option<Instant> {
        self.seen.get().filter(|(before, _)| *before == wait).map(|(_, since)| since)
    }

    /// For a connection that waits for a request: since when, if a sweep has seen it. One that just came and has not asked yet is
    /// not idle.
    pub fn idle(&self) -> Option<Option<Instant>> {
        let wait = self.wait();
        let seen = self.seen_since(wait);
        let idle = match wait {
            Wait::Request(answered) => answered > 0 || seen.is_some(),
            // The oldest of those makes way (`Handshakes`).
            _ => false,
        };
        idle.then_some(seen)
    }

    /// Whether all requests are answered and all answers have gone; of the next request a head may be on its way.
    fn is_between_requests(&self) -> bool {
        let is_quiet =
            self.stream.begun() == self.stream.ended() && self.answered.get() && !self.behind.get();
        let is_sound = !self.poisoned.get() && self.walker.borrow().refused().is_none();
        is_quiet && is_sound && self.walker.borrow().place() != Place::Body && !self.closes.get()
    }

    /// Whether no request is under way; a head may be on its way.
    pub fn is_without_request(&self) -> bool {
        matches!(self.wait(), Wait::Handshake | Wait::Request(_) | Wait::Head(_))
    }

    /// Ends a connection, with what is under way.
    pub fn make_way(&self) {
        self.overdue.set(Some(self.wait()));
        self.wake();
    }

    fn wait(&self) -> Wait {
        if self.speaks == Speaks::Tls && self.stream.secured().is_none() {
            return Wait::Handshake;
        }
        if self.write_blocked.get() {
            return Wait::Taking(self.writes.get());
        }
        // Who waits for whom in a tunnel is not known here; it looks after itself.
        if self.stream.is_tunnel() {
            return Wait::Nothing;
        }
        let walker = self.walker.borrow();
        let answering = self.stream.begun() > self.stream.ended();
        match walker.place() {
            Place::Body if self.read_blocked.get() => Wait::Body(self.reads.get()),
            _ if answering => Wait::Nothing,
            Place::Body => Wait::Body(self.reads.get()),
            Place::Head => Wait::Head(walker.heads()),
            Place::Start => Wait::Request(self.stream.ended()),
        }
    }

    /// Why a connection that ended so ended on a request that was never counted in.
    fn unread(&self, end: &Result<hyper::Result<()>, Wait>, worker: &Worker) -> Option<Refusal> {
        match end {
            Err(Wait::Head(_)) if self.large_head.borrow().waits() => {
                let text = "too little memory for more large heads: those before did not end in time";
                Some(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text))
            }
            Err(Wait::Head(_)) if !worker.stopping.get() => {
                let text = "the request's head did not come to its end in time";
                Some(Refusal::new(StatusCode::REQUEST_TIMEOUT, text))
            }
            Ok(Err(error)) if error.is_parse() => {
                let mut status = self.unread.get().unwrap_or(StatusCode::BAD_REQUEST);
                // The walker may be ahead: what it refused may be in a later request.
                let next = self.stream.begun() + 1;
                let ambiguous = self.walker.borrow().refused().filter(|(ordinal, _)| *ordinal <= next);
                if let Some((_, Ambiguous::Version)) = ambiguous {
                    status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
                }
                let text = match ambiguous {
                    Some((_, why)) => why.text().into(),
                    None if error.is_parse_too_large() => {
                        let Bounds { head_bytes, head_fields, .. } = worker.settings().bounds;
                        format!(
                            "its head is too large; the limits are {head_bytes} bytes and {head_fields} fields"
                        )
                    }
                    None => format!("it is not valid HTTP: {error}"),
                };
                Some(Refusal::new(status, format!("refused: {text}")).clients())
            }
            _ => None,
        }
    }

    /// Whether some content of the request that was counted in last has not come yet. The walker may be ahead, in a later request.
    fn has_content_to_come(&self) -> bool {
        let walker = self.walker.borrow();
        walker.place() == Place::Body && walker.heads() == self.stream.begun()
    }

    /// Whether the client may still be sending something that nobody will read.
    fn is_mid_message(&self) -> bool {
        let walker = self.walker.borrow();
        walker.refused().is_some() || walker.place() != Place::Start || self.poisoned.get()
    }
}

/// Why a connection is not served any more, other than that it came to its end.
enum Why {
    Waited(Wait),
    /// Another process goes on with it.
    Moves,
}

/// Serves a connection until it ends, or gives it back, with what was read of it, when it begins with what is no HTTP/1. `early` was
/// read from it before.
pub async fn serve(
    worker: Rc<Worker>,
    link: Rc<Link>,
    socket: Socket,
    early: Bytes,
) -> Option<(Foreign, Socket, Bytes)> {
    let io = TokioIo::new(WatchedSocket {
        socket,
        early,
        begun: Bytes::new(),
        link: link.clone(),
        worker: worker.clone(),
        taken: Cell::default(),
    });
    let service = Http1Service { worker: worker.clone(), link: link.clone() };
    let mut connection = builder(&worker.settings().bounds).serve_connection(io, service);
    let mut told = false;
    let end = poll_fn(|cx| {
        link.stream.woken_by(cx.waker());
        if let Some(wait) = link.overdue.get() {
            return Poll::Ready(Err(Why::Waited(wait)));
        }
        let moving = worker.moving.get();
        if moving && link.moves() && link.is_between_requests() {
            return Poll::Ready(Err(Why::Moves));
        }
        let leaves = moving && !link.moves();
        if leaves {
            link.pass_where_moving(&worker);
        }
        // One that has asked for nothing yet may, once: it may be about to.
        let ends = worker.stopping.get() || link.closes.get() || (leaves && link.stream.begun() > 0);
        // Told earlier, the library drops what of a last response its client has not taken yet.
        if ends && !told && !link.behind.get() {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let end = connection.poll_without_shutdown(cx).map(Ok);
        match end.is_pending() && moving && link.moves() && link.is_between_requests() {
            true => Poll::Ready(Err(Why::Moves)),
            false => end,
        }
    })
    .await;
    let end = match end {
        Ok(end) => Ok(end),
        Err(Why::Waited(wait)) => Err(wait),
        Err(Why::Moves) => {
            let parts = connection.into_parts();
            let WatchedSocket { socket, early, begun, .. } = parts.io.into_inner();
            let read = match early.is_empty() && begun.is_empty() {
                true => parts.read_buf,
                false => [parts.read_buf, begun, early].concat().into(),
            };
            if let Ok(socket) = socket.into_descriptor() {
                worker.shared.handover.pass(Moved { socket, read });
            }
            return None;
        }
    };
    let stalled = matches!(end, Err(Wait::Body(_))) && link.stream.is_unanswered();
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request's content did not come in time");
    let late = stalled.then(|| {
        link.stream.note(|transaction| transaction.status = Some(StatusCode::REQUEST_TIMEOUT));
        message(&link, &worker, &late())
    });
    let parts = connection.into_parts();
    let WatchedSocket { mut socket, early, .. } = parts.io.into_inner();
    if let Some(foreign) = link.foreign.get() {
        return Some((foreign, socket, early));
    }
    let upstream = link.stream.take_tunnel().filter(|_| matches!(end, Ok(Ok(()))));
    if upstream.is_none() {
        link.stream.broken_off();
    }
    if let Some(late) = late {
        let _ = socket.try_write(late.as_bytes());
    }
    let unread = link.unread(&end, &worker);
    if let Some(refusal) = &unread {
        refuse_unread(&link, &worker, &mut socket, refusal);
    }
    match (end, upstream) {
        (_, Some(upstream)) => {
            // It lies in the library's buffer, which goes.
            let read = Bytes::copy_from_slice(&parts.read_buf);
            drop(parts.read_buf);
            link.large_head.borrow_mut().give_up();
            tunnel::run(&worker, &link.stream, socket, read, upstream).await;
        }
        // What broke off does not end with the word that it is whole (RFC 8446 section 6.1).
        (Ok(Err(_)), _) if socket.is_tls() && unread.is_none() => {}
        (Ok(_), _) if link.is_mid_message() || unread.is_some() => Box::pin(linger(socket)).await,
        (Err(_), _) if unread.is_some() || stalled => Box::pin(say_end(&worker, socket)).await,
        // What ends without a word may have been cut off by anybody.
        (Ok(_), _) if socket.is_tls() => Box::pin(say_end(&worker, socket)).await,
        // Closing says so too, in one system call.
        _ => {}
    }
    None
}

/// Answers a request that could not be read, in words, and tells of it at the exit, where its method is `-`. Nothing is written
/// where the library wrote its own answer behind a response that had not gone yet.
pub fn refuse_unread(link: &Link, worker: &Worker, client: &mut Socket, refusal: &Refusal) {
    let mut flight = link.stream.begin(Method::from_bytes(b"-").expect("a token"));
    let (answer, mut over) = (message(link, worker, refusal), true);
    if link.answered.get() {
        over = client.try_write(answer.as_bytes()).is_ok_and(|n| n == answer.len());
        let head = answer.find("\r\n\r\n").map_or(0, |end| end + 4);
        flight.sent(answer.len() - head, over);
    }
    flight.answered(refusal.status, None, Default::default(), over);
    drop(flight);
    link.stream.flushed();
}

/// A refusal as a message, for where the library is not there any more.
fn message(link: &Link, worker: &Worker, refusal: &Refusal) -> String {
    let reason = link.stream.reason(refusal, &worker.settings().pages);
    let (text, fields) = reason.map_or_else(Default::default, |reason| {
        let id = reason.id.to_str().unwrap_or_default();
        let fields = format!("content-type: {}\r\nx-request-id: {id}\r\n", reason.content_type);
        (reason.text, fields)
    });
    format!(
        "HTTP/1.1 {} {}\r\nconnection: close\r\n{fields}\
         cache-control: no-store\r\ncontent-length: {}\r\n\r\n{text}",
        refusal.status.as_u16(),
        refusal.status.canonical_reason().unwrap_or_default(),
        text.len()
    )
}

/// Where one connection's requests come in.
struct Http1Service {
    worker: Rc<Worker>,
    link: Rc<Link>,
}

/// A response that is there, or one to wait for.
enum ResponseFuture {
    Now(Option<Response<ReplyBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

impl Service<Request<Incoming>> for Http1Service {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let Http1Service { worker, link } = self;
        link.refresh(worker);
        link.answered.set(false);
        link.give_back_head(worker);
        link.version.set(request.version());
        let flight = link.stream.begin(request.method().clone());
        link.stream.note_request(&request);
        if link.behind.get() {
            let (worker, link) = (worker.clone(), link.clone());
            return ResponseFuture::Later(Box::pin(async move {
                link.taken().await;
                match link.answer(&worker, request) {
                    Ok(response) => link.departing(&worker, response, flight),
                    Err(later) => link.answer_later(&worker, later, flight).await,
                }
            }));
        }
        match link.answer(worker, request) {
            Ok(response) => ResponseFuture::Now(Some(link.departing(worker, response, flight))),
            Err(later) => {
                let (worker, link) = (worker.clone(), link.clone());
                ResponseFuture::Later(Box::pin(
                    async move { link.answer_later(&worker, later, flight).await },
                ))
            }
        }
    }
}

impl Link {
    /// Answers a request that was counted in, at once if that can be.
    fn answer(
        &self,
        worker: &Rc<Worker>,
        request: Request<Incoming>,
    ) -> Result<Response<ReplyBody>, answer::Pending> {
        match self.refused() {
            Some(why) => Ok(refusal(why)),
            None => answer::answer(worker, &self.stream, request),
        }
    }

    async fn answer_later(
        &self,
        worker: &Rc<Worker>,
        later: answer::Pending,
        flight: Flight,
    ) -> Response<ReplyBody> {
        let mut response = later.answer(worker, &self.stream).await;
        // The body may have turned out to be ambiguous while it was passed on.
        if let Some(why) = self.refused() {
            response = refusal(why);
        }
        if self.interim_waits() {
            tokio::task::yield_now().await;
        }
        self.stream.take_interims();
        if self.stream.is_tunnel() {
            self.walker.borrow_mut().stop();
        }
        // The head goes out at once, whatever the body waits for.
        self.stream.note(Transaction::begins);
        self.departing(worker, response, flight)
    }

    fn departing(
        &self,
        worker: &Worker,
        response: Response<ReplyBody>,
        flight: Flight,
    ) -> Response<ReplyBody> {
        let mut response = departing::finish(worker, &self.stream, self.speaks, response);
        // What is left of a request's content behind its response is not read, so that no other can follow (RFC 9112 section 9.3).
        // In an upgrade a client over TLS is told that this is the end.
        let leaves = self.speaks != Speaks::Http && worker.moving.get();
        let ends = leaves || self.has_content_to_come();
        if ends && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // To a response of 1.1 the library would add that the connection stays.
        if self.version.get() == Version::HTTP_10
            && response.headers().get(CONNECTION).is_some_and(|says| says == "close")
        {
            *response.version_mut() = Version::HTTP_10;
        }
        self.stream.note_response(&response);
        let status = response.status();
        response.map(|body| body.carrying(flight, status))
    }
}

fn refusal(why: Ambiguous) -> Response<ReplyBody> {
    Refusal::closing(format!("refused: {}", why.text())).response()
}

impl Future for ResponseFuture {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            ResponseFuture::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            ResponseFuture::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}

fn builder(bounds: &Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_header_size(bounds.head_bytes).max_buf_size(bounds.head_bytes.max(8 << 10));
    // The library keeps up to 100 fields on its stack, and that is its default.
    if bounds.head_fields != 100 {
        builder.max_headers(bounds.head_fields);
    }
    builder
}

/// A client in the middle of a message gets a moment to read the answer before the rest of what it sends is met with a
/// reset.
pub async fn linger(mut socket: Socket) {
    let drain = async {
        // Over TLS it waits for a client that takes nothing.
        if socket.shutdown().await.is_err() {
            return;
        }
        let mut left = LINGER.1;
        let mut buffer = [0; 4096];
        while let Ok(n) = socket.read(&mut buffer).await {
            if n == 0 || n > left {
                break;
            }
            left -= n;
        }
    };
    let _ = tokio::time::timeout(LINGER.0, drain).await;
}

/// Sends what a connection over TLS may still have, and that this is the end.
async fn say_end(worker: &Worker, mut socket: Socket) {
    let limit = worker.settings().timeouts.client_stall;
    let _ = tokio::time::timeout(limit, socket.shutdown()).await;
}

/// The client's socket, watched on behalf of its `Link`.
struct WatchedSocket {
    socket: Socket,
    /// What was read of it and is still to be served: by another process, or what is no HTTP/1.
    early: Bytes,
    /// The first bytes, too few to tell whether they begin HTTP/2's preface.
    begun: Bytes,
    link: Rc<Link>,
    worker: Rc<Worker>,
    /// What the socket said of it when it was last written to.
    taken: Cell<u64>,
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let link = this.link.clone();
        if link.poisoned.get() {
            return Poll::Ready(Err(broken_framing()));
        }
        let before = buf.filled().len();
        let place = link.walker.borrow().place();
        let waits = this.worker.holding.get() && (link.moves() || !this.worker.moving.get());
        if waits && place != Place::Body {
            // Whoever ends that wakes this task.
            return Poll::Pending;
        }
        let read = match place {
            Place::Body if this.worker.shared.budget.is_ample() => this.poll_bytes(cx, buf),
            Place::Body => this.poll_some(cx, buf),
            Place::Start | Place::Head => this.poll_head(cx, place, buf),
        };
        link.read_blocked.set(read.is_pending());
        ready!(read)?;
        if link.reads.get() == 0 {
            link.foreign.set(Foreign::begins(&buf.filled()[before..]));
            if link.foreign.get().is_some() {
                link.poisoned.set(true);
                this.early = [&buf.filled()[before..], &this.early].concat().into();
                buf.set_filled(before);
                return Poll::Ready(Err(broken_framing()));
            }
        }
        link.reads.set(link.reads.get() + 1);
        if let Err(clean) = link.walker.borrow_mut().feed(&mut buf.filled_mut()[before..]) {
            link.poisoned.set(true);
            buf.set_filled(before + clean);
            if clean == 0 {
                return Poll::Ready(Err(broken_framing()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn broken_framing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the body is not framed cleanly")
}

impl WatchedSocket {
    fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, buf);
        }
        let some = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early.split_to(some));
        Poll::Ready(Ok(()))
    }

    /// Reads; of the first bytes as many as it takes to tell what they begin: TCP may bring them one by one.
    fn poll_first(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.link.reads.get() > 0 {
            return self.poll_bytes(cx, buf);
        }
        let before = buf.filled().len();
        loop {
            let begun = self.begun.len();
            buf.put_slice(&self.begun);
            let read = self.poll_bytes(cx, buf);
            let first = &buf.filled()[before..];
            let more = first.len() > begun;
            if !(read.is_pending() || more && Foreign::may_begin(first)) {
                self.begun.clear();
                return read;
            }
            if more {
                self.begun = Bytes::copy_from_slice(first);
            }
            buf.set_filled(before);
            ready!(read)?;
        }
    }

    /// Reads some of a head. No more at once than the library's buffer begins with: it grows by what is there, not by what may
    /// come.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        place: Place,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let WatchedSocket { link, worker, .. } = self;
        let number = link.walker.borrow().heads();
        let head = match link.head.get() {
            (before, bytes) if place == Place::Head && before == number => bytes,
            _ => 0,
        };
        if head >= HEAD {
            let most = of_head(worker.settings().bounds.head_bytes);
            ready!(link.large_head.borrow_mut().poll(cx, &worker.shared.budget.heads, most));
        }
        let (link, before) = (link.clone(), buf.filled().len());
        ready!(self.poll_some(cx, buf))?;
        link.head.set((number, head + buf.filled().len() - before));
        Poll::Ready(Ok(()))
    }

    /// Reads no more at once than the library's buffer begins with: it grows by what reads bring.
    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() <= HEAD {
            return self.poll_first(cx, buf);
        }
        let mut some = ReadBuf::new(buf.initialize_unfilled_to(HEAD - 1));
        ready!(self.poll_first(cx, &mut some))?;
        let read = some.filled().len();
        buf.advance(read);
        Poll::Ready(Ok(()))
    }

    /// Of a write of so many bytes.
    fn wrote<T>(&self, result: Poll<io::Result<T>>, bytes: usize) -> Poll<io::Result<T>> {
        self.link.write_blocked.set(result.is_pending());
        self.link.stream.set_full(result.is_pending() && !self.worker.shared.budget.is_ample());
        let taken = self.socket.taken();
        if taken != self.taken.replace(taken) || result.is_ready() {
            self.link.writes.set(self.link.writes.get() + 1);
        }
        match result.is_ready() {
            true => {}
            false => {
                self.link.behind.set(true);
                self.link.stream.count_unsent(bytes, &self.worker.shared.budget);
                // The last byte will tell little of the first.
                self.link.stream.note(Transaction::begins);
            }
        }
        result
    }

    /// What TLS has encrypted goes out; nothing else is kept here.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.socket).poll_flush(cx);
        match flush.is_pending() || self.link.write_blocked.get() {
            true => self.wrote(flush, 0),
            false => flush,
        }
    }

    /// Takes, in place of the client, what the library writes of its own accord: a status without a word.
    fn keeps_back(&self, bytes: &[u8]) -> bool {
        let link = &*self.link;
        if link.answered.get() {
            link.unread.set(bytes.get(9..12).and_then(|digits| StatusCode::from_bytes(digits).ok()));
        }
        link.answered.get()
    }

    /// Writes the interim responses that wait. Before a final response only those that have begun to go out: the others are
    /// dropped.
    fn poll_interim(&mut self, cx: &mut Context<'_>, is_final: bool) -> Poll<io::Result<()>> {
        let link = self.link.clone();
        let mut interim = link.interim.borrow_mut();
        match is_final {
            true if interim.sent == 0 => interim.bytes.clear(),
            true => {}
            false if !link.stream.interims_wait() => {}
            false => {
                let waiting = link.stream.take_interims();
                interim.bytes.extend(waiting.into_iter().flat_map(interim::Interim::http1));
            }
        }
        while !interim.bytes.is_empty() {
            let write = Pin::new(&mut self.socket).poll_write(cx, &interim.bytes[interim.sent..]);
            interim.sent += ready!(self.wrote(write, 0))?;
            if interim.sent == interim.bytes.len() {
                *interim = Interim::default();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.keeps_back(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(write, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.keeps_back(bufs.first().map_or(&[], |first| first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(write, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The library flushes when it has nothing of its own to write: all of a response has gone, and it is the place for interim
    /// responses.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.socket.is_tls() {
            ready!(self.poll_unsent(cx))?;
        }
        self.link.flushed();
        self.poll_interim(cx, false)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
