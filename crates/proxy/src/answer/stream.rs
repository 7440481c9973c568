//! One stream of a client's connection: requests and their responses, one at a time. HTTP/1 has one a connection, HTTP/2 one a request.
//!
//! Nothing here knows how the connection frames what goes over it; that is `client`'s. A request is counted in by `begin`; its
//! response has ended when the connection has sent on (`flushed`) what its `Flight` saw the end of, or when either breaks off.

use crate::access::client::Client;
use crate::answer::body::{ReplyBody, Source};
use crate::answer::respond::Reason;
use crate::budget::{Budget, ClientsClaim, HELD_ANYWAY, Lease};
use crate::message::fields::REQUEST_ID;
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::origin::Line;
use crate::report::{Exit, Id, Place, Transaction};
use crate::settings::pages::Pages;
use crate::transport::{Secured, Socket};
use cache::Report;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// Bytes of interim responses that wait to go out, about; more are dropped, which RFC 9110 section 15.2 allows.
const INTERIM_MAX: usize = 16 << 10;

pub struct Stream {
    client: RefCell<Rc<Client>>,
    begun: Cell<u64>,
    ended: Cell<u64>,
    exit: Rc<Exit>,
    /// What TLS has agreed on, if it is spoken.
    secured: OnceCell<Arc<Secured>>,
    /// Bytes that came of the content of the request under way, or through the tunnel.
    received: Rc<Cell<u64>>,
    /// The request under way, or whose response's end is with the connection.
    transaction: RefCell<Option<Transaction>>,
    /// The connection has all of the response, but for a tunnel's bytes.
    departing: Cell<bool>,
    /// A body that has ended, while the connection still has some of it: what it was taken from stays taken.
    departing_body: RefCell<Option<Source>>,
    /// The same for what was taken from nothing.
    unsent: RefCell<Option<Lease>>,
    /// The client takes nothing for now, and memory is short: what it has not taken is enough.
    full: Cell<bool>,
    interims: RefCell<Vec<Interim>>,
    tunnel: RefCell<Option<Upstream>>,
    /// It is no HTTP any more, or will not be once the current response has gone.
    is_tunnel: Cell<bool>,
    waker: OnceCell<Waker>,
}

/// The origin's side of a tunnel.
pub enum Upstream {
    /// Connected for `CONNECT`.
    Connected(Socket),
    /// A connection whose response was 101.
    Upgraded(Box<Line>),
}

impl Stream {
    pub fn new(client: impl Into<Rc<Client>>, exit: Rc<Exit>) -> Stream {
        Stream {
            client: RefCell::new(client.into()),
            begun: Cell::new(0),
            ended: Cell::new(0),
            exit,
            secured: OnceCell::new(),
            received: Rc::default(),
            transaction: RefCell::new(None),
            departing: Cell::new(false),
            departing_body: RefCell::default(),
            unsent: RefCell::default(),
            full: Cell::new(false),
            interims: RefCell::default(),
            tunnel: RefCell::new(None),
            is_tunnel: Cell::new(false),
            waker: OnceCell::new(),
        }
    }

    /// Of all requests from now on.
    pub fn secured_by(&self, secured: Arc<Secured>) {
        let _ = self.secured.set(secured);
    }

    pub fn secured(&self) -> Option<&Arc<Secured>> {
        self.secured.get()
    }

    pub fn client(&self) -> Rc<Client> {
        self.client.borrow().clone()
    }

    /// What is known of the client from now on.
    pub fn judge(&self, client: Client) {
        self.client.replace(Rc::new(client));
    }

    /// Counts a request in; the returned guard counts it out when its response has gone.
    pub fn begin(self: &Rc<Stream>, method: Method) -> Flight {
        // The connection holds responses to requests that came at once together.
        self.flushed();
        self.received.set(0);
        self.begun.set(self.begun.get() + 1);
        let (id, peer) = (self.exit.next_id(), self.client.borrow().peer);
        // In its place, as in `tell`.
        let transaction = &mut *self.transaction.borrow_mut();
        *transaction = Some(Transaction::new(id, peer, method));
        Flight { stream: self.clone(), sent: 0, over: false }
    }

    /// Notes what a request's head says, if anybody wants to know, and takes over its id from a proxy that is trusted.
    pub fn note_request<B>(&self, request: &Request<B>) {
        if self.client.borrow().trusted
            && let Some(id) = request.headers().get(REQUEST_ID).and_then(Id::brought)
        {
            self.note(|transaction| transaction.id = id);
        }
        if self.exit.notes_heads() {
            self.note(|transaction| {
                transaction.heads.note_request(request);
                transaction.heads.tls = self.secured.get().cloned();
            });
        }
    }

    /// The same of a response's.
    #[inline]
    pub fn note_response<B>(&self, response: &Response<B>) {
        if self.exit.notes_heads() {
            self.note(|transaction| transaction.heads.note_response(response));
        }
    }

    /// Gives a response that goes out words, where it says why the request is not served.
    pub fn word(&self, response: &mut Response<ReplyBody>, pages: &Pages) {
        let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return };
        let Some(reason) = self.reason(&refusal, pages) else { return };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(reason.content_type));
        headers.insert(REQUEST_ID, reason.id);
        if reason.answers_head {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(reason.text.len()));
            return;
        }
        *response.body_mut() = ReplyBody::whole(reason.text.into());
    }

    /// What the client is told of why the request under way is not served.
    pub fn reason(&self, refusal: &Refusal, pages: &Pages) -> Option<Reason> {
        self.transaction.borrow().as_ref().map(|transaction| Reason::of(refusal, transaction, pages))
    }

    /// Where the bytes of its content are counted.
    pub fn received(&self) -> Rc<Cell<u64>> {
        self.received.clone()
    }

    /// Of the request under way.
    pub fn id(&self) -> Option<Id> {
        self.transaction.borrow().as_ref().map(|transaction| transaction.id.clone())
    }

    /// Notes something of the request under way.
    pub fn note(&self, note: impl FnOnce(&mut Transaction)) {
        if let Some(transaction) = &mut *self.transaction.borrow_mut() {
            note(transaction);
        }
    }

    /// A request is under way, and there is no response to it so far.
    pub fn is_unanswered(&self) -> bool {
        self.transaction.borrow().as_ref().is_some_and(|transaction| transaction.status.is_none())
    }

    /// The response is the memory tier's. What the proxy says itself is in nobody's memory but its own.
    pub fn is_of_memory(&self) -> bool {
        let transaction = self.transaction.borrow();
        transaction
            .as_ref()
            .is_some_and(|t| t.place == Place::Memory && t.hop.is_none() && t.report.is_some())
    }

    /// All that the connection had to send has gone.
    pub fn flushed(&self) {
        if self.departing.get() && !self.is_tunnel() {
            self.tell();
        }
    }

    /// The connection cannot send so many bytes now, of a response whose body has ended: they are taken from the budget if they
    /// can be, unless they are the memory tier's.
    pub fn count_unsent(&self, bytes: usize, budget: &Budget) {
        if bytes <= HELD_ANYWAY || !self.departing.get() || self.unsent.borrow().is_some() {
            return;
        }
        if self.is_of_memory() {
            return;
        }
        let (pool, shares) = match self.transaction.borrow().as_ref().map(|t| t.place) {
            Some(Place::Disk) => (&budget.disk, &budget.readers),
            _ => (&budget.origins, &budget.clients),
        };
        self.unsent.replace(ClientsClaim::try_take(shares, self.client().charged(), pool, bytes));
    }

    /// Nothing of any response is left here.
    #[inline(always)]
    pub fn release(&self) {
        if self.departing_body.borrow().is_some() {
            self.departing_body.take();
        }
        if self.unsent.borrow().is_some() {
            self.unsent.take();
        }
    }

    /// A tunnel has ended; `whole` when both sides did so. Bytes from and to the client.
    pub fn tunnelled(&self, received: u64, sent: u64, whole: bool) {
        self.received.set(received);
        self.note(|transaction| (transaction.sent, transaction.whole) = (sent, whole));
        self.tell();
    }

    /// The connection has ended: what did not go out by now does not.
    pub fn broken_off(&self) {
        self.note(|transaction| transaction.whole = false);
        self.tell();
    }

    fn tell(&self) {
        self.departing.set(false);
        // In its place: it is some hundred bytes, which a hit shall not move.
        let transaction = &mut *self.transaction.borrow_mut();
        if let Some(transaction) = transaction {
            transaction.received = self.received.get();
            self.exit.tell(transaction);
        }
        *transaction = None;
    }

    /// The client takes nothing, and memory is short; or it goes on.
    pub fn set_full(&self, full: bool) {
        if self.full.replace(full) && !full {
            self.wake();
        }
    }

    /// Requests that came, ever.
    pub fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// Requests whose response has gone, ever.
    pub fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Has an interim response go out when the request's service next waits.
    pub fn send_interim(&self, interim: Interim) {
        let mut waiting = self.interims.borrow_mut();
        waiting.push(interim);
        if waiting.iter().map(Interim::size).sum::<usize>() > INTERIM_MAX {
            waiting.pop();
        }
        drop(waiting);
        self.wake();
    }

    pub fn interims_wait(&self) -> bool {
        !self.interims.borrow().is_empty()
    }

    /// What is to go out; also drops what is not to any more.
    pub fn take_interims(&self) -> Vec<Interim> {
        self.interims.take()
    }

    /// After the current response the stream is a tunnel.
    pub fn tunnel_to(&self, upstream: Upstream) {
        *self.tunnel.borrow_mut() = Some(upstream);
        self.is_tunnel.set(true);
        self.note(|transaction| transaction.tunnel = true);
    }

    pub fn is_tunnel(&self) -> bool {
        self.is_tunnel.get()
    }

    /// It is none, for what opened it is not as it should be.
    pub fn no_tunnel(&self) {
        self.tunnel.take();
        self.is_tunnel.set(false);
        self.note(|transaction| transaction.tunnel = false);
    }

    pub fn take_tunnel(&self) -> Option<Upstream> {
        self.tunnel.take()
    }

    /// Whom to wake when there is something to be done beside the response: the first one counts.
    pub fn woken_by(&self, waker: &Waker) {
        self.waker.get_or_init(|| waker.clone());
    }

    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// A request between its head and the last byte of its response.
pub struct Flight {
    stream: Rc<Stream>,
    sent: u64,
    over: bool,
}

impl Flight {
    /// What the response is.
    pub fn answered(&mut self, status: StatusCode, report: Option<Report>, place: Place, over: bool) {
        self.over = over;
        self.stream.note(|transaction| {
            (transaction.status, transaction.report, transaction.place) = (Some(status), report, place)
        });
    }

    /// No more of the body is to be given for now. The connection asks again when it goes on.
    pub fn is_full(&self) -> bool {
        self.stream.full.get()
    }

    /// The body has ended; what it has of the memory is kept until its last byte has gone.
    pub(super) fn hold(&self, body: Source) {
        self.stream.departing_body.replace(Some(body));
    }

    /// Bytes of the body went out; `over` when they were the last.
    pub fn sent(&mut self, bytes: usize, over: bool) {
        self.sent += bytes as u64;
        self.over = over;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let stream = &self.stream;
        stream.ended.set(stream.ended.get() + 1);
        stream.note(|transaction| (transaction.sent, transaction.whole) = (self.sent, self.over));
        match self.over {
            true => stream.departing.set(true),
            false => stream.tell(),
        }
    }
}
