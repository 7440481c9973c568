//! A connection to an origin that several requests share.
//!
//! A task of the worker that dialled it drives it. It ends when it is let go of here and its last stream has ended.

use super::room::Room;
use super::stream::Sending;
use super::wire::{Passed, Wire};
use super::{NARROW, WIDE, Wish};
use crate::access::reach::Zone;
use crate::message::inflow::{Inflow, Inflows};
use crate::origin::Origins;
use crate::origin::line::SURE;
use crate::report::Exit;
use crate::report::counters::Number;
use crate::transport::{Hop, Socket};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// What a connection that ends may take to say so.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes of a stream's content that wait in the library until they are sent.
const UNSENT: usize = 64 << 10;

/// Bytes by which small frames may exceed what they carry that are not taken from the library yet, all of a connection.
const SMALL_PIECES: usize = 4 << 20;

/// Streams of one connection at a time, whatever its origin allows.
const STREAMS: usize = 1000;

/// Heads of requests that wait in the library until they are written: an origin that reads nothing has no more of them kept.
const HEADS_UNSENT: usize = 64;

/// What comes for a stream that was reset is let pass for so long: the origin may have sent much before it knew.
const STRAY: Duration = Duration::from_secs(30);

/// A connection with so many streams that were reset from here takes no new ones. Of those that it still has, all may be reset, and what
/// comes for them let pass.
const RESETS: u32 = 500;
const RESETS_IN_ALL: usize = RESETS as usize + STREAMS;

/// Frames for which the library resets a stream, of one connection: what is not allowed, or came too late.
const ERRORS: usize = 1000;

/// No new requests go by a connection that is older: names and balancers change.
const OLD: Duration = Duration::from_secs(600);

/// A window of a connection that stops nothing: each stream has its own (RFC 9113 section 6.9.1).
const WINDOW: u32 = (1 << 31) - 1;

pub struct Connection {
    requests: SendRequest<Bytes>,
    pings: RefCell<PingPong>,
    wide: bool,
    /// Where a client has to be to reach its address.
    needs: Zone,
    shareable: bool,
    passed: Passed,
    inflows: Rc<Inflows>,
    active: Rc<Cell<usize>>,
    opened: Instant,
    /// Since when it is as active as it is.
    since: Cell<Instant>,
    is_late: Cell<bool>,
    /// It had rested when so much had come of it, and may have gone since.
    unsure: Cell<Option<u64>>,
    /// Requests that were given to it; how many had ended when it was last idle; and the first stream that the origin did not process.
    given: Cell<u32>,
    carried: Cell<u32>,
    turned_back: Cell<u32>,
    exit: Rc<Exit>,
    /// Its task ends soon when this is gone.
    _open: oneshot::Sender<()>,
}

/// A place for one stream on a connection, until it is dropped.
pub struct Ticket {
    pub(super) connection: Rc<Connection>,
    reused: bool,
    /// Nothing came of the connection since it idled for longer than origins surely keep one open.
    rested: bool,
    /// What had come of the origin before.
    answers: u64,
    /// Content on its way, which ends with the place.
    pub(super) sending: Option<Sending>,
}

impl Connection {
    pub async fn open(
        origins: &Origins,
        hop: &Hop,
        socket: Socket,
        wide: bool,
        (needs, shareable): (Zone, bool),
    ) -> Result<Rc<Connection>, h2::Error> {
        let settings = origins.settings();
        let head = u32::try_from(settings.bounds.head_bytes).unwrap_or(u32::MAX);
        let passed = Passed::default();
        let inflows = Rc::<Inflows>::default();
        let wire = Wire::new(socket, passed.clone(), inflows.clone(), settings.http2);
        let (requests, mut connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(if wide { WIDE } else { NARROW } as u32)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(head)
            .max_send_buffer_size(UNSENT)
            .max_concurrent_reset_streams(RESETS_IN_ALL)
            .reset_stream_duration(STRAY)
            .max_local_error_reset_streams(Some(ERRORS))
            .data_frame_budget(SMALL_PIECES)
            .handshake::<_, Bytes>(wire)
            .await?;
        origins.exit.add(Number::OriginOpen, 1);
        origins.exit.add(Number::OriginOpenHttp2, 1);
        let pings = RefCell::new(connection.ping_pong().expect("nobody has it yet"));
        let (open, mut closed) = oneshot::channel();
        let active = Rc::<Cell<usize>>::default();
        let (hop, ends, streams, coming) = (hop.copied(), passed.clone(), active.clone(), inflows.clone());
        spawn_local(async move {
            let mut driven = poll_fn(|cx| {
                let end = Pin::new(&mut connection).poll(cx);
                coming.look();
                end
            });
            let ended = tokio::select! {
                ended = &mut driven => ended,
                _ = &mut closed => timeout(LINGER, driven).await.unwrap_or(Ok(())),
            };
            ends.changed();
            // Whoever closes what idles needs no word.
            let is_said = |error: &h2::Error| {
                streams.get() > 0 || error.get_io().is_none_or(|error| error.kind() == ErrorKind::Other)
            };
            if let Some(error) = ended.err().filter(is_said) {
                tracing::warn!(target: "origin", %hop, cause = %error, "a connection of HTTP/2 ended");
            }
        });
        Ok(Rc::new(Connection {
            requests,
            pings,
            wide,
            needs,
            shareable,
            passed,
            inflows,
            active,
            opened: Instant::now(),
            since: Cell::new(Instant::now()),
            is_late: Cell::new(false),
            unsure: Cell::new(None),
            given: Cell::new(0),
            carried: Cell::new(0),
            turned_back: Cell::new(u32::MAX),
            exit: origins.exit.clone(),
            _open: open,
        }))
    }

    /// Who waits for places is told of them there.
    pub fn tells(&self, room: Rc<Room>) {
        self.passed.tells(room, self.wide, self.needs);
    }

    pub fn active(&self) -> usize {
        self.active.get()
    }

    pub fn is_idle(&self) -> bool {
        self.active() == 0
    }

    pub fn since(&self) -> Instant {
        self.since.get()
    }

    /// It takes no more requests.
    pub fn is_closed(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = self.requests.clone().poll_ready(&mut context);
        self.is_late.get()
            || self.passed.resets() >= RESETS
            || self.opened.elapsed() >= OLD
            || matches!(is_ready, Poll::Ready(Err(_)))
    }

    /// Whether it has idled for longer than origins surely keep one open, and nothing came of it since.
    fn is_unsure(&self) -> bool {
        let answers = self.passed.answers();
        if self.is_idle() && self.since().elapsed() > SURE {
            self.unsure.set(Some(answers));
        }
        self.unsure.get() == Some(answers)
    }

    pub fn suits(&self, wish: Wish) -> bool {
        self.needs <= wish.client && self.wide == wish.wide
    }

    pub fn has_room(&self) -> bool {
        self.active() < self.most() && self.passed.unsent() < HEADS_UNSENT && !self.is_used_up()
    }

    /// It would have room if the origin told what it allows, or read what was sent.
    pub fn may_have_room(&self) -> bool {
        (!self.passed.any() || self.is_blocked()) && !self.is_used_up()
    }

    /// Others of its hop ended when they had carried so many. One that has answered them all and goes on gets as many again.
    pub fn is_used_up(&self) -> bool {
        let most = || self.passed.room().map_or(u32::MAX, |room| room.carries());
        let given = self.given.get();
        given >= self.carried.get().saturating_mul(2) && given >= most()
    }

    /// What was sent is not read.
    pub fn is_blocked(&self) -> bool {
        self.active() < self.most() && self.passed.unsent() >= HEADS_UNSENT
    }

    /// Where the origin allows no stream at all, or has not said yet what it allows, one goes first.
    fn most(&self) -> usize {
        let allows = if self.passed.any() { self.requests.current_max_send_streams() } else { 1 };
        allows.clamp(1, STREAMS)
    }

    /// Whether it may stay open. What an origin does not read is not kept when nobody waits for it.
    pub fn is_wanted(&self, now: Instant, limit: Duration) -> bool {
        let limit = if self.passed.unsent() > 0 { limit.min(LINGER) } else { limit };
        let is_old = self.is_idle() && now.saturating_duration_since(self.since()) >= limit;
        !is_old && !self.is_closed()
    }

    pub(super) fn requests(&self) -> SendRequest<Bytes> {
        self.requests.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.exit.subtract(Number::OriginOpen, 1);
        self.exit.subtract(Number::OriginOpenHttp2, 1);
    }
}

impl Ticket {
    pub fn new(connection: Rc<Connection>) -> Ticket {
        let (active, answers) = (connection.active(), connection.passed.answers());
        let rested = connection.is_unsure();
        connection.active.set(active + 1);
        let given = connection.given.get();
        connection.given.set(given + 1);
        if connection.is_used_up() {
            // It may give way to another.
            connection.passed.changed();
        }
        connection.exit.add(Number::OriginStreams, 1);
        Ticket { connection, reused: given > 0, rested, answers, sending: None }
    }

    pub fn is_shareable(&self) -> bool {
        self.connection.shareable
    }

    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the connection is there still: where it has rested, a PING asks. One that is not takes no more requests.
    pub async fn is_sure(&self) -> bool {
        if !self.rested {
            return true;
        }
        let Connection { pings, passed, is_late, .. } = &*self.connection;
        // The answer to the last one makes way; one that is under way will do.
        let _ = pings.borrow_mut().poll_pong(&mut Context::from_waker(Waker::noop()));
        let _ = pings.borrow_mut().send_ping(Ping::opaque());
        let heard = async {
            while passed.answers() == self.answers && !self.connection.is_closed() {
                passed.heard().await;
            }
        };
        let is_sure = timeout(SURE, heard).await.is_ok() && passed.answers() != self.answers;
        is_late.set(!is_sure || is_late.get());
        is_sure
    }

    /// Its response did not come in time. A connection on which nothing came since its request was sent may be gone.
    pub fn is_late(&self) {
        if self.connection.passed.answers() == self.answers {
            self.connection.is_late.set(true);
            self.connection.passed.changed();
        }
    }

    /// A request went by it, as that stream.
    pub(super) fn asked(&self, stream: u32) {
        self.connection.passed.asked(stream);
    }

    /// The body of its response.
    pub(super) fn comes(&self, body: RecvStream) -> Inflow {
        self.connection.inflows.add(body)
    }

    /// Its response came.
    pub(super) fn answered(&self) {
        if let Some(room) = self.connection.passed.room() {
            room.answered();
        }
    }

    /// The origin ended the connection and did not process that stream: it had processed all before (RFC 9113 section 6.8).
    pub(super) fn turned_back(&self, stream: u32) {
        let Connection { turned_back, passed, .. } = &*self.connection;
        let before = turned_back.get();
        turned_back.set(before.min(stream));
        if let (Some(room), true) = (passed.room(), (2..before).contains(&stream)) {
            room.carried(stream / 2, before == u32::MAX);
        }
    }

    /// The origin said that it had processed some, when it ended the connection.
    pub(super) fn was_of_use(&self) -> bool {
        (2..u32::MAX).contains(&self.connection.turned_back.get())
    }

    /// Whether what ended the connection may have been of that stream.
    pub(super) fn is_blamed(&self, stream: u32) -> bool {
        self.connection.passed.is_blamed(stream)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.active.set(connection.active() - 1);
        connection.since.set(Instant::now());
        let was_used_up = connection.is_used_up();
        if connection.is_idle() {
            connection.carried.set(connection.given.get());
        }
        match was_used_up && connection.is_idle() {
            // It has room for as many again.
            true => connection.passed.changed(),
            false => connection.passed.freed(connection.is_idle()),
        }
    }
}
