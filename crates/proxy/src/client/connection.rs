//! One client connection: the library that speaks HTTP, over a socket that is watched.
//!
//! The watched socket does three jobs without a timer or a clock read per request: it walks the framing of what it
//! reads (`framing`), it notes what the connection waits for so that one sweep per worker finds the overdue ones,
//! and it lets interim responses out between a request and its final response.

use super::tunnel;
use crate::access::client::Client;
use crate::answer::answer;
use crate::answer::body::ReplyBody;
use crate::answer::stream::{Flight, Stream};
use crate::budget::{Claim, HEAD};
use crate::message::framing::{Ambiguous, Place, Walker};
use crate::message::interim;
use crate::message::refusal::Refusal;
use crate::report::{Exit, Transaction};
use crate::settings::{Bounds, Timeouts};
use crate::worker::Worker;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// What a refused client may still send before it is cut off, so that it gets to read why.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

/// What the socket, the service and the sweep know of one connection.
pub struct Link {
    stream: Rc<Stream>,
    /// A head of more than `HEAD` bytes. The library keeps what it needed for one as long as the connection is there.
    large_head: RefCell<Claim>,
    /// Bytes of the head that is being read.
    head: Cell<usize>,
    walker: RefCell<Walker>,
    /// The body broke its framing: nothing more is read.
    poisoned: Cell<bool>,
    /// What the client speaks is not HTTP/1.
    foreign: Cell<Option<Foreign>>,
    reads: Cell<u64>,
    read_blocked: Cell<bool>,
    writes: Cell<u64>,
    write_blocked: Cell<bool>,
    interim: RefCell<Interim>,
    seen: Cell<Option<(Wait, Instant)>>,
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
    Request(u64),
    Head(u64),
    Body(u64),
    Taking(u64),
}

impl Link {
    pub fn new(client: Client, exit: Rc<Exit>, bounds: &Bounds) -> Link {
        Link {
            stream: Rc::new(Stream::new(client, exit)),
            large_head: RefCell::default(),
            head: Cell::new(0),
            walker: RefCell::new(Walker::new(bounds.head_bytes)),
            poisoned: Cell::new(false),
            foreign: Cell::new(None),
            reads: Cell::new(0),
            read_blocked: Cell::new(false),
            writes: Cell::new(0),
            write_blocked: Cell::new(false),
            interim: RefCell::default(),
            seen: Cell::new(None),
            overdue: Cell::new(None),
        }
    }

    /// Why the request that was counted in last must be refused, if it must.
    pub fn refused(&self) -> Option<Ambiguous> {
        let (ordinal, why) = self.walker.borrow().refused()?;
        (ordinal <= self.stream.begun()).then_some(why)
    }

    pub fn wake(&self) {
        self.stream.wake();
    }

    fn interim_waits(&self) -> bool {
        self.stream.interims_wait() || !self.interim.borrow().bytes.is_empty()
    }

    /// Looks whether this connection waits for too long; called every now and then by the worker's sweep.
    pub fn sweep(&self, now: Instant, timeouts: &Timeouts) {
        let wait = self.wait();
        let limit = match wait {
            Wait::Nothing => return self.seen.set(None),
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

    /// For a connection that waits for a request: since when, if a sweep has seen it. One that just came and has not asked yet is
    /// not idle.
    pub fn idle(&self) -> Option<Option<Instant>> {
        let wait = self.wait();
        let seen = self.seen.get().filter(|(before, _)| *before == wait).map(|(_, since)| since);
        let idle = matches!(wait, Wait::Request(answered) if answered > 0 || seen.is_some());
        idle.then_some(seen)
    }

    /// Whether no request is under way; a head may be on its way.
    pub fn is_without_request(&self) -> bool {
        matches!(self.wait(), Wait::Request(_) | Wait::Head(_))
    }

    /// Ends a connection without a request under way.
    pub fn make_way(&self) {
        self.overdue.set(Some(self.wait()));
        self.wake();
    }

    fn wait(&self) -> Wait {
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

    /// Whether the client may still be sending something that nobody will read.
    fn is_mid_message(&self) -> bool {
        let walker = self.walker.borrow();
        walker.refused().is_some() || walker.place() != Place::Start || self.poisoned.get()
    }
}

/// Serves one connection until it ends.
pub async fn run(worker: Rc<Worker>, link: Rc<Link>, stream: TcpStream) {
    let io = TokioIo::new(Watched { stream, link: link.clone(), worker: worker.clone() });
    let door = Door { worker: worker.clone(), link: link.clone() };
    let mut connection = builder(&worker.settings.bounds).serve_connection(io, door);
    let mut told = false;
    let end = poll_fn(|cx| {
        link.stream.woken_by(cx.waker());
        if let Some(wait) = link.overdue.get() {
            return Poll::Ready(Err(wait));
        }
        if worker.stopping.get() && !told {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        connection.poll_without_shutdown(cx).map(Ok)
    })
    .await;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner().stream;
    if let Some(foreign) = link.foreign.get() {
        let _ = stream.try_write(foreign.answer().as_bytes());
    }
    let upstream = link.stream.take_tunnel().filter(|_| matches!(end, Ok(Ok(()))));
    if upstream.is_none() {
        link.stream.broken_off();
    }
    match (end, upstream) {
        (_, Some(upstream)) => tunnel::run(&worker, &link.stream, stream, parts.read_buf, upstream).await,
        (Ok(_), _) if link.is_mid_message() => Box::pin(linger(stream)).await,
        (Err(Wait::Head(_)), _) if !worker.stopping.get() => {
            const LATE: &[u8] =
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.try_write(LATE);
            let _ = stream.shutdown().await;
        }
        // Closing says so too, in one system call.
        _ => {}
    }
}

/// Where one connection's requests come in.
struct Door {
    worker: Rc<Worker>,
    link: Rc<Link>,
}

/// A response that is there, or one to wait for.
enum Answering {
    Now(Option<Response<ReplyBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let Door { worker, link } = self;
        let flight = link.stream.begin(request.method().clone());
        let answered = match link.refused() {
            Some(why) => Ok(refusal(why)),
            None => answer(worker, &link.stream, request),
        };
        let later = match answered {
            Ok(response) => return Answering::Now(Some(departing(response, flight))),
            Err(later) => later,
        };
        let (worker, link) = (worker.clone(), link.clone());
        Answering::Later(Box::pin(async move {
            let mut response = later.answer(&worker, &link.stream).await;
            // The body may have turned out to be ambiguous while it was passed on.
            if let Some(why) = link.refused() {
                response = refusal(why);
            }
            if link.interim_waits() {
                tokio::task::yield_now().await;
            }
            link.stream.take_interims();
            if link.stream.is_tunnel() {
                link.walker.borrow_mut().stop();
            }
            // The head goes out at once, whatever the body waits for.
            link.stream.note(Transaction::begins);
            departing(response, flight)
        }))
    }
}

fn departing(response: Response<ReplyBody>, flight: Flight) -> Response<ReplyBody> {
    let status = response.status();
    response.map(|body| body.carrying(flight, status))
}

fn refusal(why: Ambiguous) -> Response<ReplyBody> {
    Refusal::closing(format!("refused: {}", why.text())).response()
}

impl Future for Answering {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answering::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Answering::Later(future) => future.as_mut().poll(cx).map(Ok),
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
async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut left = LINGER.1;
        let mut buffer = [0; 4096];
        while let Ok(n) = stream.read(&mut buffer).await {
            if n == 0 || n > left {
                break;
            }
            left -= n;
        }
    };
    let _ = tokio::time::timeout(LINGER.0, drain).await;
}

/// The client's socket, watched on behalf of its `Link`.
struct Watched {
    stream: TcpStream,
    link: Rc<Link>,
    worker: Rc<Worker>,
}

impl AsyncRead for Watched {
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
        let read = match place {
            Place::Body => Pin::new(&mut this.stream).poll_read(cx, buf),
            Place::Start | Place::Head => this.poll_head(cx, place, buf),
        };
        link.read_blocked.set(read.is_pending());
        ready!(read)?;
        if link.reads.get() == 0 {
            link.foreign.set(Foreign::begins(&buf.filled()[before..]));
            if link.foreign.get().is_some() {
                link.poisoned.set(true);
                buf.set_filled(before);
                return Poll::Ready(Err(broken_framing()));
            }
        }
        link.reads.set(link.reads.get() + 1);
        if let Err(clean) = link.walker.borrow_mut().feed(&buf.filled()[before..]) {
            link.poisoned.set(true);
            buf.set_filled(before + clean);
            if clean == 0 {
                return Poll::Ready(Err(broken_framing()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What a connection may begin with that is no HTTP/1, and that its client is told of in words.
#[derive(Clone, Copy)]
enum Foreign {
    Tls,
    Http2,
}

impl Foreign {
    /// The record of a TLS handshake (RFC 8446 section 5.1); the preface of HTTP/2 (RFC 9113 section 3.4).
    fn begins(bytes: &[u8]) -> Option<Foreign> {
        match bytes {
            [0x16, ..] => Some(Foreign::Tls),
            _ if bytes.starts_with(b"PRI * HTTP/2") => Some(Foreign::Http2),
            _ => None,
        }
    }

    fn answer(self) -> String {
        let (status, text) = match self {
            Foreign::Tls => ("400 Bad Request", "this port speaks HTTP, not TLS: use http:// for it\n"),
            Foreign::Http2 => ("505 HTTP Version Not Supported", "this port speaks HTTP/1.1, not HTTP/2\n"),
        };
        let length = text.len();
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{text}"
        )
    }
}

fn broken_framing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the body is not framed cleanly")
}

impl Watched {
    /// Reads some of a head. No more at once than the library's buffer begins with: it grows by what is there, not by what may
    /// come.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        place: Place,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Watched { stream, link, worker } = self;
        let head = if place == Place::Start { 0 } else { link.head.get() };
        if head >= HEAD {
            // The buffer that it lies in grows by doubling.
            let most = 2 * worker.settings.bounds.head_bytes;
            ready!(link.large_head.borrow_mut().poll(cx, &worker.shared.budget.heads, most));
        }
        let before = buf.filled().len();
        if buf.remaining() <= HEAD {
            ready!(Pin::new(&mut *stream).poll_read(cx, buf))?;
        } else {
            let mut some = ReadBuf::new(buf.initialize_unfilled_to(HEAD - 1));
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut some))?;
            let read = some.filled().len();
            buf.advance(read);
        }
        link.head.set(head + buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }

    fn wrote<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.link.write_blocked.set(result.is_pending());
        self.link.stream.set_full(result.is_pending() && !self.worker.shared.budget.is_ample());
        match result.is_ready() {
            true => self.link.writes.set(self.link.writes.get() + 1),
            // The last byte will tell little of the first.
            false => self.link.stream.note(Transaction::begins),
        }
        result
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
            let write = Pin::new(&mut self.stream).poll_write(cx, &interim.bytes[interim.sent..]);
            interim.sent += ready!(self.wrote(write))?;
            if interim.sent == interim.bytes.len() {
                *interim = Interim::default();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The library flushes when it has nothing of its own to write: all of a response has gone, and it is the place for interim
    /// responses.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.stream.flushed();
        self.poll_interim(cx, false)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
