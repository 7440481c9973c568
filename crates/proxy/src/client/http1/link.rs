//! What the socket, the service and the sweep know of one connection.

use super::framing::{Ambiguous, Place, Walker};
use crate::access::client::{Admission, Client};
use crate::answer::stream::Stream;
use crate::budget::{ClientsClaim, Wanted};
use crate::client::protocol::Foreign;
use crate::message::refusal::Refusal;
use crate::settings::{Bounds, Timeouts};
use crate::transport::{Peer, Secured, Speaks};
use crate::worker::Worker;
use http::{StatusCode, Version};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

/// What the socket, the service and the sweep know of one connection.
pub struct Link {
    pub(super) stream: Rc<Stream>,
    /// On its listener.
    pub speaks: Speaks,
    /// By which settings its client was judged.
    pub(super) judged: Cell<u64>,
    /// A head of more than `HEAD` bytes. The library keeps what it needed for one as long as the connection is there.
    pub(super) large_head: RefCell<ClientsClaim>,
    /// Which head is being read, and bytes of it.
    pub(super) head: Cell<(u64, usize)>,
    /// The connection ends after the request under way.
    pub(super) closes: Cell<bool>,
    /// Of the request that was counted in last.
    pub(super) version: Cell<Version>,
    pub(super) walker: RefCell<Walker>,
    /// The body broke its framing: nothing more is read.
    pub(super) poisoned: Cell<bool>,
    /// What the client speaks is not HTTP/1.
    pub(super) foreign: Cell<Option<Foreign>>,
    /// All that was written of the responses so far has gone: what the library writes now is its own, for a request that it
    /// could not read.
    pub(super) answered: Cell<bool>,
    /// The status of what the library wrote of its own and was kept from the client, who gets a reason in words instead.
    pub(super) unread: Cell<Option<StatusCode>>,
    pub(super) reads: Cell<u64>,
    pub(super) read_blocked: Cell<bool>,
    pub(super) writes: Cell<u64>,
    pub(super) write_blocked: Cell<bool>,
    /// The client has not taken all of the responses so far, and whether a request waits for that.
    pub(super) behind: Cell<bool>,
    pub(super) waits_for_client: Cell<bool>,
    pub(super) interim: RefCell<Interim>,
    pub(super) seen: Cell<Option<(Wait, Instant)>>,
    /// Bytes that had moved when the client was last seen to move some, and when that was.
    pub(super) moved: Cell<(u64, Option<Instant>)>,
    pub(super) overdue: Cell<Option<Wait>>,
}

/// Interim responses that are going out.
#[derive(Default)]
pub(super) struct Interim {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
}

/// What a connection waits for its client to do; the number changes when the client did something of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
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
    pub(super) fn refresh(&self, worker: &Worker) {
        let version = worker.refresh();
        if self.judged.replace(version) != version {
            let client = Client::of(self.stream.client().peer, self.speaks, &worker.settings());
            self.stream.judge(client);
            self.pass_where_moving(worker);
        }
    }

    /// Whether it goes on in another process that takes over. Other connections end with the request that is under way, or comes next.
    pub(super) fn moves(&self) -> bool {
        self.speaks == Speaks::Http
    }

    /// What the next request gets is not from the cache, which the other process has.
    pub(super) fn pass_where_moving(&self, worker: &Worker) {
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
    pub(super) fn give_back_head(&self, worker: &Worker) {
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
    pub(super) async fn taken(&self) {
        poll_fn(|_| {
            self.waits_for_client.set(self.behind.get());
            if self.behind.get() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// The client has taken everything.
    pub(super) fn flushed(&self) {
        self.stream.flushed();
        self.answered.set(self.stream.begun() == self.stream.ended());
        self.stream.release();
        if self.behind.replace(false) {
            self.waits_for_client.set(false);
            self.wake();
        }
    }

    pub(super) fn interim_waits(&self) -> bool {
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
    pub(super) fn is_between_requests(&self) -> bool {
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
    pub(super) fn unread(&self, end: &Result<hyper::Result<()>, Wait>, worker: &Worker) -> Option<Refusal> {
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
    pub(super) fn has_content_to_come(&self) -> bool {
        let walker = self.walker.borrow();
        walker.place() == Place::Body && walker.heads() == self.stream.begun()
    }

    /// Whether the client may still be sending something that nobody will read.
    pub(super) fn is_mid_message(&self) -> bool {
        let walker = self.walker.borrow();
        walker.refused().is_some() || walker.place() != Place::Start || self.poisoned.get()
    }
}
