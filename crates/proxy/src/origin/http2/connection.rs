//! A connection to an origin that several requests share.
//!
//! A task of the worker that dialled it drives it. It ends when it is let go of here and its last stream has ended.

use super::stream::Sending;
use super::wire::{Heard, Wire};
use super::{NARROW, WIDE, Wish};
use crate::access::reach::Zone;
use crate::origin::Origins;
use crate::report::Exit;
use crate::report::counters::Number;
use crate::transport::{Hop, Socket};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// What a connection that ends may take to say so.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes of a stream's content that wait in the library until they are sent.
const UNSENT: usize = 64 << 10;

/// Bytes by which small pieces of bodies that wait here may exceed what they carry, all of a connection.
const SMALL_PIECES: usize = 4 << 20;

/// Streams that the origin makes us reset by what is not allowed, of one connection.
const ERRORS: usize = 256;

/// A window of a connection that stops nothing: each stream has its own (RFC 9113 section 6.9.1).
const WINDOW: u32 = (1 << 31) - 1;

pub struct Connection {
    requests: SendRequest<Bytes>,
    wide: bool,
    /// Where a client has to be to reach its address.
    needs: Zone,
    shareable: bool,
    heard: Heard,
    active: Cell<usize>,
    /// Since when it is as active as it is.
    since: Cell<Instant>,
    is_late: Cell<bool>,
    /// A request was sent on it.
    used: Cell<bool>,
    freed: OnceCell<Rc<Notify>>,
    exit: Rc<Exit>,
    /// Its task ends soon when this is gone.
    _open: oneshot::Sender<()>,
}

/// A place for one stream on a connection, until it is dropped.
pub struct Ticket {
    pub(super) connection: Rc<Connection>,
    reused: bool,
    heard: u64,
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
        let heard = Heard::default();
        let wire = Wire::new(socket, heard.clone(), settings.http2);
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(if wide { WIDE } else { NARROW } as u32)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(head)
            .max_send_buffer_size(UNSENT)
            .max_local_error_reset_streams(Some(ERRORS))
            .data_frame_budget(SMALL_PIECES)
            .handshake::<_, Bytes>(wire)
            .await?;
        origins.exit.add(Number::OriginOpen, 1);
        origins.exit.add(Number::OriginOpenHttp2, 1);
        let (open, mut closed) = oneshot::channel();
        let (hop, ends) = (hop.copied(), heard.clone());
        spawn_local(async move {
            let mut connection = connection;
            let ended = tokio::select! {
                ended = &mut connection => ended,
                _ = &mut closed => timeout(LINGER, connection).await.unwrap_or(Ok(())),
            };
            ends.ended();
            if let Err(error) = ended {
                tracing::warn!(target: "origin", %hop, cause = %error, "a connection of HTTP/2 ended");
            }
        });
        Ok(Rc::new(Connection {
            requests,
            wide,
            needs,
            shareable,
            heard,
            active: Cell::new(0),
            since: Cell::new(Instant::now()),
            is_late: Cell::new(false),
            used: Cell::new(false),
            freed: OnceCell::new(),
            exit: origins.exit.clone(),
            _open: open,
        }))
    }

    /// Whom to tell when a stream has ended.
    pub fn tells(&self, freed: Rc<Notify>) {
        let _ = self.freed.set(freed);
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

    /// The origin takes no more requests on it.
    pub fn is_closed(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = self.requests.clone().poll_ready(&mut context);
        self.is_late.get() || matches!(is_ready, Poll::Ready(Err(_)))
    }

    pub fn suits(&self, wish: Wish) -> bool {
        self.needs <= wish.client && self.wide == wish.wide
    }

    /// Where the origin allows no stream at all, or has not said yet what it allows, one goes first.
    pub fn has_room(&self) -> bool {
        let allows = if self.is_new() { 1 } else { self.requests.current_max_send_streams() };
        self.active() < allows.max(1)
    }

    /// Nothing came of the origin yet.
    pub fn is_new(&self) -> bool {
        !self.heard.any()
    }

    pub async fn is_heard_of(&self) {
        self.heard.first().await;
    }

    /// Whether it may stay open.
    pub fn is_wanted(&self, now: Instant, limit: Duration) -> bool {
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
        let (active, heard) = (connection.active(), connection.heard.answers());
        connection.active.set(active + 1);
        let reused = connection.used.replace(true);
        connection.exit.add(Number::OriginStreams, 1);
        Ticket { connection, reused, heard, sending: None }
    }

    pub fn is_shareable(&self) -> bool {
        self.connection.shareable
    }

    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Its response did not come in time. A connection on which nothing came since its request was sent may be gone.
    pub fn is_late(&self) {
        if self.connection.heard.answers() == self.heard {
            self.connection.is_late.set(true);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.active.set(connection.active() - 1);
        connection.since.set(Instant::now());
        if let Some(freed) = connection.freed.get() {
            freed.notify_one();
        }
    }
}
