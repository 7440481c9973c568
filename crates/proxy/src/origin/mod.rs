//! Connections to origins: one pool per worker, of connections that are kept alive.
//!
//! A connection that leaves the pool comes back only when its response was read to the end and its request was sent
//! to the end; in every other case it is closed. It goes out again only while nothing is there to be read on it.

pub mod body;
pub mod content;
mod dns;
pub mod fetch;
mod idle;
mod interim;
pub mod request;
mod wire;

use self::content::{Content, Gate, Upload};
use self::dns::Resolver;
use self::idle::Idle;
use self::wire::Wire;
use crate::access::reach::{self, Reach, Zone};
use crate::authority::bare_host;
use crate::budget::Pool;
use crate::console::{Trouble, tell};
use crate::message::interim::Interim;
use crate::message::refusal::{self, Refusal};
use crate::message::target::Target;
use crate::report::Exit;
use crate::report::counters::Number;
use crate::settings::Settings;
use bytes::Bytes;
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Sleep, sleep};

/// Origins keep an idle connection open for at least this long.
const SURE: Duration = Duration::from_secs(1);

/// Of the client connections that may be, one in so many idle connections to origins, for all workers together.
const IDLE_SHARE: usize = 4;

/// One worker's origins.
pub struct Origins {
    pub reach: Reach,
    settings: Arc<Settings>,
    exit: Rc<Exit>,
    pool: Pool,
    resolver: Resolver,
    idle: RefCell<Idle<Line>>,
}

/// A connection to an origin.
pub struct Line {
    sender: SendRequest<Upload>,
    task: AbortHandle,
    /// The socket and what was read beyond the response, once the connection is no longer HTTP.
    ended: oneshot::Receiver<(Wire, Bytes)>,
    wire: Wire,
    pool: Weak<Origins>,
    origin: Rc<str>,
    /// Where a client has to be to reach its address.
    needs: Zone,
    /// What comes on it may be stored and shared.
    pub shareable: bool,
    reused: bool,
    since: Instant,
}

/// A request on its way, in a form that can be sent twice if its content is here.
pub struct Outgoing {
    /// Origin-form, with the fields that the origin shall see.
    pub head: Request<()>,
    pub content: Option<Content>,
    /// The content waits until the origin says 100, answers, or is silent for too long.
    pub expects: bool,
    /// Where the client is.
    pub client: Zone,
}

impl Origins {
    /// Bodies are taken from `pool`.
    pub fn new(settings: Arc<Settings>, exit: Rc<Exit>, pool: Pool) -> Rc<Origins> {
        let bounds = &settings.bounds;
        let in_all = (bounds.connections / IDLE_SHARE / settings.workers.max(1)).max(1);
        let idle = RefCell::new(Idle::new(bounds.idle_per_origin, in_all));
        let reach = Reach::new(&settings);
        Rc::new(Origins { reach, settings, exit, pool, resolver: Resolver::default(), idle })
    }

    /// Sends a request and waits for the head of its response. `relay` sees each interim response but 100.
    ///
    /// A connection from the pool may have been closed by the origin meanwhile: then a request that can safely be
    /// repeated is sent once more, on a new connection.
    pub async fn send(
        self: &Rc<Origins>,
        target: &Target,
        outgoing: Outgoing,
        relay: impl Fn(Interim),
    ) -> Result<(Response<Incoming>, Line), Refusal> {
        let Outgoing { mut head, mut content, expects, client } = outgoing;
        let once = !is_idempotent(head.method()) || content.as_ref().is_some_and(|c| c.again().is_none());
        let mut line = match self.checkout(target.hop.as_str(), once, client) {
            Some(line) => line,
            None => Box::pin(self.connect(target, client)).await?,
        };
        loop {
            let again = content.as_ref().map(Content::again);
            let repeats = line.reused && is_idempotent(head.method()) && !matches!(again, Some(None));
            let spare = repeats.then(|| (head.clone(), again.flatten()));
            let (upload, gate) = Upload::new(content.take(), expects);
            let failed = match self.attempt(&mut line, head.map(|()| upload), &gate, &relay).await {
                Ok(response) => return Ok((response, line.sent(&gate))),
                Err(failed) => failed,
            };
            (head, content) = match (failed, spare) {
                (Failed::Unsent(request), _) if line.reused => {
                    let (parts, upload) = request.into_parts();
                    (Request::from_parts(parts, ()), upload.into_content())
                }
                (Failed::Broken(_), Some(spare)) => spare,
                (Failed::Refused(refusal), _) => {
                    tell(Trouble::Answer, format_args!("`{}`: {}", target.hop, refusal.text));
                    return Err(refusal);
                }
                (Failed::Broken(why), _) => return Err(broken(target.hop.as_str(), &why)),
                (Failed::Unsent(_), _) => return Err(broken(target.hop.as_str(), "the connection closed")),
            };
            line = Box::pin(self.connect(target, client)).await?;
        }
    }

    /// Connects to the first address that the client may reach and that answers; says where one has to be to reach it.
    pub async fn dial(
        &self,
        authority: &Authority,
        port: u16,
        client: Zone,
    ) -> Result<(TcpStream, Zone), Refusal> {
        let timeouts = &self.settings.timeouts;
        let mut last = None;
        for address in self.resolver.lookup(bare_host(authority), timeouts.dns).await? {
            let Some(needs) = self.reach.needs(address).filter(|needs| *needs <= client) else { continue };
            let address = SocketAddr::new(address, port);
            match tokio::time::timeout(timeouts.origin_connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    self.exit.add(Number::Connections, 1);
                    return Ok((stream, needs));
                }
                Ok(Err(error)) => last = Some((refusal::unreachable(), format!("{address}: {error}"))),
                Err(_) => {
                    let why = format!("{address}: no connection within {:?}", timeouts.origin_connect);
                    last = Some((refusal::too_slow(), why));
                }
            }
        }
        let (refusal, why) = last.ok_or_else(reach::refused)?;
        tell(Trouble::Connect, format_args!("cannot connect to `{authority}`: {why}"));
        Err(refusal)
    }

    /// Closes connections that the origin closed, or that nobody needed for too long.
    pub fn sweep(&self, now: Instant) {
        let limit = self.settings.timeouts.origin_idle;
        let wanted = |line: &Line| !line.sender.is_closed() && now.duration_since(line.since) < limit;
        self.idle.borrow_mut().retain(wanted);
    }

    /// The connection that was used last, of those to an address that the client may reach and on which nothing came
    /// meanwhile: what is there before a request was sent is no answer to it. A request that can be sent only `once` gets none
    /// that the origin may be about to close.
    fn checkout(&self, origin: &str, once: bool, client: Zone) -> Option<Line> {
        let mut idle = self.idle.borrow_mut();
        let suits = |line: &Line| line.needs <= client && (!once || line.since.elapsed() <= SURE);
        while let Some(mut line) = idle.take(origin, suits) {
            if line.sender.is_ready() && line.wire.is_quiet() {
                line.reused = true;
                return Some(line);
            }
        }
        None
    }

    fn put(&self, mut line: Line) {
        line.since = Instant::now();
        let origin = line.origin.clone();
        self.idle.borrow_mut().put(&origin, line);
    }

    async fn connect(self: &Rc<Origins>, target: &Target, client: Zone) -> Result<Line, Refusal> {
        let (socket, needs) = self.dial(&target.hop, target.port(), client).await?;
        let wire = Wire::new(socket, self.pool.clone());
        let bounds = &self.settings.bounds;
        let handshake = http1::Builder::new()
            .max_buf_size(bounds.head_bytes.max(64 << 10))
            .max_header_size(bounds.head_bytes)
            .handshake(TokioIo::new(wire.clone()))
            .await;
        let (sender, mut connection) =
            handshake.map_err(|error| broken(target.hop.as_str(), &error.to_string()))?;
        let (give, ended) = oneshot::channel();
        let task = spawn_local(async move {
            let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
            let parts = connection.into_parts();
            let wire = parts.io.into_inner();
            let _ = give.send((wire, parts.read_buf));
        });
        Ok(Line {
            sender,
            task: task.abort_handle(),
            ended,
            wire,
            pool: Rc::downgrade(self),
            origin: target.hop.as_str().into(),
            needs,
            shareable: self.reach.is_for_all(&target.hop, needs),
            reused: false,
            since: Instant::now(),
        })
    }

    async fn attempt(
        &self,
        line: &mut Line,
        mut request: Request<Upload>,
        gate: &Gate,
        relay: &impl Fn(Interim),
    ) -> Result<Response<Incoming>, Failed> {
        let interims = line.wire.interims().clone();
        interims.begin();
        let seen = interims.clone();
        hyper::ext::on_informational(&mut request, move |interim| {
            seen.push(interim.status(), interim.headers())
        });
        let mut response = pin!(line.sender.try_send_request(request));
        let mut patience = pin!(Patience::new(&self.settings, gate));
        poll_fn(|cx| {
            let answered = response.as_mut().poll(cx);
            if interims.are_too_many() {
                let text = "the origin sent interim responses without end";
                return Poll::Ready(Err(Failed::Refused(
                    Refusal::new(StatusCode::BAD_GATEWAY, text).personal(),
                )));
            }
            // Both may have come in one piece: the interim responses go first.
            for interim in interims.take(cx.waker()) {
                if interim.status == StatusCode::CONTINUE {
                    gate.open();
                } else {
                    relay(interim);
                }
            }
            if let Poll::Ready(result) = answered {
                return Poll::Ready(result.map_err(|mut error| match error.take_message() {
                    Some(request) => Failed::Unsent(Box::new(request)),
                    None => Failed::Broken(describe(error.error())),
                }));
            }
            patience.as_mut().poll_end(cx, gate).map(|refusal| Err(Failed::Refused(refusal)))
        })
        .await
    }
}

/// RFC 9110 section 9.2.2, RFC 10008 section 2.
fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent() || method.as_str() == "QUERY"
}

/// How an attempt came to nothing.
enum Failed {
    /// Nothing was sent: the request comes back.
    Unsent(Box<Request<Upload>>),
    /// The connection broke before a response came.
    Broken(String),
    Refused(Refusal),
}

fn describe(error: &hyper::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn broken(origin: &str, why: &str) -> Refusal {
    tell(Trouble::Answer, format_args!("`{origin}` did not answer: {why}"));
    refusal::unreachable().personal()
}

impl Line {
    /// The socket, after the response was 101.
    pub async fn into_stream(mut self) -> Option<(TcpStream, Bytes)> {
        let (wire, read) = (&mut self.ended).await.ok()?;
        drop(self);
        wire.into_stream().map(|stream| (stream, read))
    }

    /// The connection is closed after this response.
    pub fn not_again(mut self) -> Line {
        self.pool = Weak::new();
        self
    }

    /// Back to the pool: the response was read to its end.
    pub fn release(mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        if self.sender.is_ready() {
            pool.put(self);
        } else if !self.sender.is_closed() {
            spawn_local(async move {
                if self.sender.ready().await.is_ok() {
                    pool.put(self);
                }
            });
        }
    }

    /// A response that came before the request was sent to its end leaves the connection unusable.
    fn sent(self, gate: &Gate) -> Line {
        if gate.is_done() { self } else { self.not_again() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long the response's head is waited for: first for a 100, then for content to move, then for the head.
struct Patience<'a> {
    settings: &'a Settings,
    timer: Pin<Box<Sleep>>,
    moved: u64,
    sent: bool,
}

impl<'a> Patience<'a> {
    fn new(settings: &'a Settings, gate: &Gate) -> Patience<'a> {
        let timeouts = &settings.timeouts;
        let sent = gate.is_done();
        let first = match (sent, gate.is_open()) {
            (true, _) => timeouts.origin_first_byte,
            (false, true) => timeouts.origin_stall,
            (false, false) => timeouts.expect,
        };
        Patience { settings, timer: Box::pin(sleep(first)), moved: 0, sent }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, gate: &Gate) -> Poll<Refusal> {
        let timeouts = &self.settings.timeouts;
        while self.timer.as_mut().poll(cx).is_ready() {
            let more = if !gate.is_open() {
                gate.open();
                timeouts.origin_stall
            } else if gate.is_done() && !self.sent {
                self.sent = true;
                timeouts.origin_first_byte
            } else if !self.sent && gate.moved() != self.moved {
                self.moved = gate.moved();
                timeouts.origin_stall
            } else {
                let text = if self.sent { "did not answer" } else { "did not take the request" };
                return Poll::Ready(Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    format!("the origin {text} in time"),
                ));
            };
            self.timer.set(sleep(more));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use http_body::Body;
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::{Builder, LocalOptions};

    fn read_head(stream: &mut TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
    }

    /// Answers on its first connection; when told, sends or closes on it what is there to do, and says that it did. Then
    /// answers on its second one.
    fn origin(listener: TcpListener, late: Option<&'static [u8]>, told: Receiver<()>, did: Sender<()>) {
        let (mut first, _) = listener.accept().unwrap();
        read_head(&mut first);
        first.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none").unwrap();
        told.recv().unwrap();
        match late {
            Some(bytes) => first.write_all(bytes).unwrap(),
            None => first.shutdown(std::net::Shutdown::Write).unwrap(),
        }
        did.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        read_head(&mut second);
        second.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo").unwrap();
    }

    async fn body_of(mut incoming: Incoming) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
            body.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        body
    }

    async fn ask(origins: &Rc<Origins>, target: &Target) -> (Vec<u8>, Line) {
        let mut head = Request::new(());
        head.headers_mut().insert(http::header::HOST, target.host().parse().unwrap());
        let outgoing = Outgoing { head, content: None, expects: false, client: Zone::Loopback };
        let (response, line) = origins.send(target, outgoing, |_| {}).await.ok().unwrap();
        (body_of(response.into_body()).await, line)
    }

    #[test]
    fn what_came_before_a_request_does_not_answer_it() {
        let early: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        for late in [Some(early), Some(b"\r"), None] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let (parts, ()) =
                Request::builder().uri(url).version(http::Version::HTTP_10).body(()).unwrap().into_parts();
            let target = Target::of(&parts, None).unwrap();
            let ((tell, told), (did, done)) = (channel(), channel());
            let origin = thread::spawn(move || origin(listener, late, told, did));
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            runtime.unwrap().block_on(async {
                let origins = Origins::new(Arc::new(Settings::default()), exit(), Budget::new(0, 0).origins);
                let (one, line) = ask(&origins, &target).await;
                line.release();
                assert_eq!(one, b"one");
                // While this thread is busy, so that nobody but the kernel knows of it.
                tell.send(()).unwrap();
                done.recv().unwrap();
                assert_eq!(ask(&origins, &target).await.0, b"two");
            });
            origin.join().unwrap();
        }
    }

    fn exit() -> Rc<Exit> {
        Rc::new(Exit::new(Arc::default(), |_| {}))
    }

    /// One request to a loopback origin from a client of a zone, on a proxy that serves everybody.
    async fn status(origins: &Rc<Origins>, url: &str, client: Zone) -> u16 {
        let (parts, ()) = Request::get(url).header("host", "a").body(()).unwrap().into_parts();
        let target = Target::of(&parts, None).unwrap();
        let head = Request::get(target.path.clone()).header("host", "a").body(()).unwrap();
        let outgoing = Outgoing { head, content: None, expects: false, client };
        match origins.send(&target, outgoing, |_| {}).await {
            Err(refusal) => refusal.status.as_u16(),
            Ok((response, line)) => {
                assert!(response.into_body().is_end_stream());
                line.release();
                200
            }
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_kept_is_for_those_who_may_reach_its_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let accepted = Rc::new(Cell::new(0));
        let count = accepted.clone();
        let serve = async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.set(count.get() + 1);
                tokio::task::spawn_local(async move {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                    }
                });
            }
        };
        let settings = Settings { listen: vec!["0.0.0.0:1".parse().unwrap()], ..Settings::default() };
        let origins = Origins::new(Arc::new(settings), exit(), Budget::new(0, 0).origins);
        let ask = async {
            assert_eq!(status(&origins, &url, Zone::Loopback).await, 200);
            tokio::task::yield_now().await;
            assert_eq!(status(&origins, &url, Zone::Private).await, 403, "a connection of its own");
            assert_eq!(status(&origins, &url, Zone::Public).await, 403, "a connection of its own");
            assert_eq!(status(&origins, &url, Zone::Loopback).await, 200);
            assert_eq!(accepted.get(), 1, "and it was kept for whom it suits");
        };
        tokio::task::LocalSet::new()
            .run_until(async {
                tokio::select! {
                    () = ask => {}
                    () = serve => {}
                }
            })
            .await;
    }
}
