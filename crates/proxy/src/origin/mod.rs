//! Origins: which hop a request goes to, over which connection, and what came back.
//!
//! `send` takes a connection from the worker's `pool` or has one `dial`led, and makes one `attempt` on it, or a second one
//! where the first connection proves to be closed.

mod again;
mod attempt;
pub mod body;
pub mod content;
mod dial;
mod dns;
pub mod fetch;
mod http2;
mod incoming;
mod interim;
mod line;
mod pool;
pub mod request;
mod way;
mod wire;

pub use self::line::Line;

use self::again::{Again, TRIES};
use self::attempt::Failed;
use self::content::{Content, Gate, Upload};
use self::dns::Resolver;
use self::http2::{WIDE, Wish};
use self::incoming::Incoming;
use self::pool::{Key, Pool, Protocol};
use self::way::Way;
use crate::access::reach::{Reach, Zone};
use crate::budget::{Budget, ClientsClaim};
use crate::message::interim::Interim;
use crate::message::refusal::{self, Refusal};
use crate::message::target::Target;
use crate::report::Exit;
use crate::route::Route;
use crate::scheme::Scheme;
use crate::settings::current::Current;
use crate::settings::{Offline, OriginHttp2, Settings};
use crate::tls::OriginTls;
use crate::transport::Hop;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use tokio::time::sleep;

/// Of the client connections that may be, one in so many idle connections to origins, of either protocol, for all workers together.
const IDLE_SHARE: usize = 4;

/// One worker's origins.
pub struct Origins {
    current: Rc<Current>,
    reach: RefCell<Rc<Reach>>,
    /// How often that changed, or what is wanted of origins over TLS.
    reach_changes: Cell<u64>,
    tls: RefCell<OriginTls>,
    protocols: Cell<OriginHttp2>,
    pub route: Route,
    exit: Rc<Exit>,
    /// What heads and bodies on their way are taken from.
    budget: Budget,
    resolver: Resolver,
    /// Connections that speak HTTP/1 and wait.
    pool: RefCell<Pool<Line>>,
    http2: RefCell<http2::Shared>,
}

/// A request on its way, in a form that can be sent twice if its content is here.
pub struct Outgoing<'a> {
    /// Makes the head, the same each time: origin-form, with the fields that the origin shall see.
    pub head: &'a dyn Fn() -> Result<Request<()>, Refusal>,
    pub content: Option<Content>,
    /// The content waits until the origin says 100, answers, or is silent for too long.
    pub expects: bool,
    /// Where the client is.
    pub client: Zone,
    /// Whose share is taken from for it, if anybody's alone.
    pub charged: Option<IpAddr>,
}

/// What came of a request, and what it came by.
pub struct Sent {
    pub response: Response<Incoming>,
    pub way: Way,
    /// What is known of its content.
    pub gate: Rc<Gate>,
    /// Where what the response takes of the memory belongs.
    pub claim: ClientsClaim,
}

impl Origins {
    /// Heads and bodies are taken from `budget`.
    pub fn new(current: Rc<Current>, exit: Rc<Exit>, budget: Budget) -> Rc<Origins> {
        let settings = current.get();
        let bounds = &settings.bounds;
        let in_all = (bounds.connections / IDLE_SHARE / settings.workers.max(1)).max(1);
        let pool = RefCell::new(Pool::new(bounds.idle_per_origin, in_all));
        let (reach, route) = (RefCell::new(Rc::new(Reach::new(&settings))), Route::new(&settings));
        Rc::new(Origins {
            current,
            reach,
            reach_changes: Cell::new(0),
            tls: RefCell::new(settings.origin_tls.clone()),
            protocols: Cell::new(settings.origin_http2),
            route,
            exit,
            budget,
            resolver: Resolver::default(),
            pool,
            http2: RefCell::new(http2::Shared::new(in_all)),
        })
    }

    /// The settings have changed.
    pub fn adopt(&self) {
        let settings = self.settings();
        let reach = Reach::new(&settings);
        let mut pool = self.pool.borrow_mut();
        pool.keep_at_most(settings.bounds.idle_per_origin);
        // What may be asked over a connection was decided when it was made.
        let tls = self.tls.replace(settings.origin_tls.clone());
        let http2 = self.protocols.replace(settings.origin_http2);
        let is_same = http2 == settings.origin_http2 && tls.is_same(&settings.origin_tls);
        if *self.reach() != reach || !is_same {
            pool.retain(|_| false);
            self.http2.borrow_mut().forget();
            self.reach_changes.set(self.reach_changes.get() + 1);
        }
        self.reach.replace(Rc::new(reach));
    }

    /// Who may reach what, as the settings now have it.
    pub fn reach(&self) -> Rc<Reach> {
        self.reach.borrow().clone()
    }

    /// Whether anything is fetched at all.
    pub fn may_ask(&self) -> Result<(), Refusal> {
        match self.settings().offline {
            Offline::On => {
                let text =
                    "this proxy is offline: it fetches nothing, and has nothing stored that may answer";
                Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, text).clients())
            }
            Offline::Auto | Offline::Off => Ok(()),
        }
    }

    fn settings(&self) -> Rc<Settings> {
        self.current.get()
    }

    /// Sends a request and waits for the head of its response. `relay` sees each interim response but 100. What is
    /// taken for the request's content is also the response's.
    ///
    /// What the origin has not processed is sent again, as long as it answers others. So is, once, what can safely be repeated, where its connection was there
    /// before, since the origin may have closed it meanwhile, or ended for the response to another.
    pub async fn send(
        self: &Rc<Origins>,
        target: &Target,
        outgoing: Outgoing<'_>,
        relay: impl Fn(Interim),
    ) -> Result<Sent, Refusal> {
        let Outgoing { head: make, mut content, expects, client, charged } = outgoing;
        let mut claim = ClientsClaim::new(&self.budget.clients, charged);
        let mut key = Key {
            hop: self.route.next_hop(target)?,
            scheme: self.route.scheme(target),
            protocol: Protocol::Http2,
        };
        // Whether it goes out once more, and whether it does for a connection that broke.
        let (mut so_far, mut is_again, mut is_repeated) = (Again::default(), false, false);
        loop {
            let mut head = make()?;
            let says = head.headers().get(CONTENT_LENGTH);
            if content.is_none() && says.is_some_and(|length| length != "0") {
                // The origin would take the next request for it.
                head.headers_mut().remove(CONTENT_LENGTH);
            }
            // HTTP/2 changes to no other protocol.
            if head.headers().contains_key(UPGRADE) || !self.may_speak_http2(&key) {
                key.protocol = Protocol::Http1;
            }
            let is_repeatable = is_idempotent(head.method());
            let again = content.as_ref().map(Content::again);
            let once = !is_repeatable || matches!(again, Some(None));
            let own = ClientsClaim::new(&self.budget.clients, charged);
            let (upload, gate) = Upload::new(content.take(), expects, &self.budget.origins, own);
            let wide = key.protocol == Protocol::Http2 && self.takes_window(&upload, &gate, &mut claim);
            let way = self.way(&key, Wish { client, once, wide }, is_again).await?;
            let is_reused = way.is_reused();
            let mut request = head.map(|()| upload);
            if request.body().is_end_stream() {
                // It may have come meanwhile; nobody reads what is not there.
                gate.finish();
            }
            let attempted = match way {
                Way::Http1(mut line) => {
                    claim.give_up();
                    says_chunked(&mut request);
                    let attempted = line.attempt(&self.settings(), charged, request, &gate, &relay).await;
                    attempted.map(|response| {
                        (response.map(Incoming::Http1), Way::Http1(Box::new(line.sent(&gate))))
                    })
                }
                Way::Http2(ticket) => {
                    let settings = self.settings();
                    Box::pin(http2::attempt(ticket, &settings, key.scheme, request, &gate, &relay)).await
                }
            };
            let failed = match attempted {
                Ok((response, way)) => return Ok(Sent { response, way, gate, claim }),
                Err(failed) => failed,
            };
            content = match failed {
                Failed::Unprocessed { content, wants_http1, was_of_use } => {
                    if wants_http1 {
                        self.wants_http1(&key);
                        key.protocol = Protocol::Http1;
                    } else {
                        let (answers, patience) =
                            (self.http2_answers(&key), self.settings().timeouts.origin_first_byte);
                        match so_far.turned_back(answers, was_of_use, patience, Instant::now()) {
                            Some(pause) if pause.is_zero() => {}
                            Some(pause) => sleep(pause).await,
                            None => return Err(broken(&key.hop, "it was not processed")),
                        }
                    }
                    let back = content.map_or(Some(None), |upload| upload.into_content());
                    match (back, again) {
                        (Some(content), _) => content,
                        (None, Some(Some(content))) => Some(content),
                        (None, _) => return Err(broken(&key.hop, "it was not processed")),
                    }
                }
                Failed::Broken(_) | Failed::Ruined(_) if gate.broke_off() => {
                    return Err(Refusal::closing("the request's content ended before its end").clients());
                }
                Failed::Broken(_) if is_reused && !once && !is_repeated => {
                    is_repeated = true;
                    again.flatten()
                }
                Failed::Ruined(_) if !once && !is_repeated => {
                    is_repeated = true;
                    // Where it can be, apart from who is asked for what ruins connections.
                    if key.scheme == Scheme::Https {
                        key.protocol = Protocol::Http1;
                    }
                    again.flatten()
                }
                Failed::Refused(refusal) => {
                    tracing::warn!(target: "origin", hop = %key.hop, cause = &*refusal.text, "an answer is of no use");
                    return Err(refusal);
                }
                Failed::Invalid(why) => {
                    let text = "the origin's response is not valid HTTP/2, or its head is too large";
                    tracing::warn!(target: "origin", hop = %key.hop, cause = why, "{text}");
                    return Err(Refusal::new(StatusCode::BAD_GATEWAY, text).personal());
                }
                Failed::Broken(why) | Failed::Ruined(why) => return Err(broken(&key.hop, &why)),
            };
            is_again = true;
        }
    }

    /// What a request goes by; with `is_again` no connection that waited, where it would have that alone.
    async fn way(self: &Rc<Origins>, key: &Key, wish: Wish, is_again: bool) -> Result<Way, Refusal> {
        let http1;
        let key = match key.protocol {
            Protocol::Http1 => key,
            Protocol::Http2 => {
                if let Some(way) = Box::pin(self.way_by_http2(key, wish)).await? {
                    return Ok(way);
                }
                http1 = Key { protocol: Protocol::Http1, ..key.clone() };
                &http1
            }
        };
        let waits = if is_again { None } else { self.checkout(key, wish.once, wish.client) };
        let line = match waits {
            Some(line) => line,
            None => Box::pin(self.connect(key, wish.client)).await?,
        };
        Ok(Way::Http1(Box::new(line)))
    }

    /// Whether there is memory for what a stream may bring before it is asked for, which is taken with what its content takes.
    fn takes_window(&self, upload: &Upload, gate: &Gate, claim: &mut ClientsClaim) -> bool {
        let pool = &self.budget.origins;
        match upload.takes() {
            0 => claim.holds() || (pool.can_spare(WIDE) && claim.try_more(pool, WIDE)),
            bytes => pool.can_spare(bytes + WIDE) && gate.try_take(claim, pool, bytes + WIDE),
        }
    }

    /// Closes connections that the origin closed, or that nobody needed for too long.
    pub fn sweep(&self, now: Instant) {
        let limit = self.settings().timeouts.origin_idle;
        self.pool.borrow_mut().retain(|line| line.is_wanted(now, limit));
        self.http2.borrow_mut().sweep(now, limit);
    }

    /// The connection that was used last, of those to an address that the client may reach and on which nothing came
    /// meanwhile: what is there before a request was sent is no answer to it. A request that can be sent only `once` gets none
    /// that the origin may be about to close.
    fn checkout(&self, key: &Key, once: bool, client: Zone) -> Option<Line> {
        let mut pool = self.pool.borrow_mut();
        while let Some(mut line) = pool.take(key, |line| line.suits(once, client)) {
            if line.is_ready_again() {
                return Some(line);
            }
        }
        None
    }
}

/// Of methods that mostly have no content, the library sends none whose length is not known, unless it is told to.
fn says_chunked(request: &mut Request<Upload>) {
    let is_unknown = !request.body().is_end_stream() && request.body().size_hint().exact().is_none();
    if is_unknown && matches!(*request.method(), Method::GET | Method::HEAD) {
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// RFC 9110 section 9.2.2, RFC 10008 section 2.
fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent() || method.as_str() == "QUERY"
}

fn broken(hop: &Hop, why: &str) -> Refusal {
    tracing::warn!(target: "origin", %hop, cause = why, "no answer");
    refusal::unreachable().personal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::current::InForce;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;
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
        while let Some(frame) = poll_fn(|cx| incoming.poll_frame(cx)).await {
            body.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        body
    }

    async fn ask(origins: &Rc<Origins>, target: &Target) -> (Vec<u8>, Way) {
        let head = || {
            let mut head = Request::new(());
            head.headers_mut().insert(http::header::HOST, target.host().parse().unwrap());
            Ok(head)
        };
        let outgoing =
            Outgoing { head: &head, content: None, expects: false, client: Zone::Loopback, charged: None };
        let Sent { response, way, .. } = origins.send(target, outgoing, |_| {}).await.ok().unwrap();
        (body_of(response.into_body()).await, way)
    }

    #[test]
    fn what_came_before_a_request_does_not_answer_it() {
        let early: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        for late in [Some(early), Some(b"\r"), None] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let (parts, ()) =
                Request::builder().uri(url).version(http::Version::HTTP_10).body(()).unwrap().into_parts();
            let target = Target::of(&parts, Scheme::Http, None).unwrap();
            let ((tell, told), (did, done)) = (channel(), channel());
            let origin = thread::spawn(move || origin(listener, late, told, did));
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            runtime.unwrap().block_on(async {
                let current = Current::of(&InForce::new(Settings::default()));
                let origins = Origins::new(current, exit(), Budget::new(0, 0));
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
        Rc::new(Exit::new(Arc::default(), Arc::new(|_: &crate::report::Transaction| {})))
    }

    /// One request to a loopback origin from a client of a zone, on a proxy that serves everybody.
    async fn status(origins: &Rc<Origins>, url: &str, client: Zone) -> u16 {
        let (parts, ()) = Request::get(url).header("host", "a").body(()).unwrap().into_parts();
        let target = Target::of(&parts, Scheme::Http, None).unwrap();
        let head = || Ok(Request::get(target.path.clone()).header("host", "a").body(()).unwrap());
        let outgoing = Outgoing { head: &head, content: None, expects: false, client, charged: None };
        match origins.send(&target, outgoing, |_| {}).await {
            Err(refusal) => refusal.status.as_u16(),
            Ok(Sent { response, way, .. }) => {
                assert!(response.into_body().is_end_stream());
                way.release();
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
        let current = Current::of(&InForce::new(settings));
        let origins = Origins::new(current, exit(), Budget::new(0, 0));
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

    #[tokio::test]
    async fn a_connection_that_was_judged_before_a_reload_is_not_used_after_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (parts, ()) = Request::get(url).version(http::Version::HTTP_10).body(()).unwrap().into_parts();
        let target = Target::of(&parts, Scheme::Http, None).unwrap();
        let in_force = InForce::new(Settings::default());
        let current = Current::of(&in_force);
        let origins = Origins::new(current.clone(), exit(), Budget::new(0, 0));
        let answer = async |listener: &tokio::net::TcpListener| {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            stream
        };
        let run = async {
            let ((_, line), _kept) = tokio::join!(ask(&origins, &target), answer(&listener));
            let reach = vec!["192.0.2.0/24".parse().unwrap()];
            in_force.replace(Settings { reach, ..Settings::default() });
            assert!(current.refresh());
            origins.adopt();
            line.release();
            tokio::task::yield_now().await;
            // It would wait for ever for a connection that nobody makes.
            let asked = async { tokio::join!(ask(&origins, &target), answer(&listener)) };
            tokio::time::timeout(Duration::from_secs(20), asked).await.expect("a connection of its own");
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }
}
