//! Origins that speak HTTP/2 (RFC 9113), by the library that does so: connections of which each carries many requests of this worker.
//!
//! Which protocol an origin over TLS speaks is asked in the handshake (ALPN) and remembered; while that is not known, one connection is
//! made, and whoever comes meanwhile waits for it. Connections are wide or narrow by what each of their streams may bring before it is
//! asked for: what a narrow one brings, every request has anyway; on a wide one each stream has taken its window from the budget.

mod connection;
mod stream;
mod wire;

pub use self::connection::{Connection, Ticket};
pub use self::stream::attempt;

use super::Origins;
use super::pool::Key;
use super::way::Way;
use crate::access::reach::Zone;
use crate::budget::HELD_ANYWAY;
use crate::message::refusal::{self, Refusal};
use crate::scheme::Scheme;
use crate::settings::OriginHttp2;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Bytes that a stream of a wide connection may bring before they are asked for; the same of a narrow one.
pub const WIDE: usize = 256 << 10;
const NARROW: usize = HELD_ANYWAY;

/// For so long an origin that does not speak HTTP/2, or wants HTTP/1.1 for what it was asked, is asked by that.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Hops of which something is remembered, at most.
const REMEMBERED: usize = 4096;

/// A worker's connections to origins that speak HTTP/2.
#[derive(Default)]
pub struct Shared {
    hops: HashMap<Rc<Key>, Hop>,
    /// Connections, at most, without those that carry requests.
    idle_most: usize,
}

#[derive(Default)]
struct Hop {
    known: Option<Known>,
    open: Vec<Rc<Connection>>,
    dialing: Vec<Rc<Dialing>>,
    /// Told when a stream has ended.
    freed: Rc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Http2,
    /// It did not agree on HTTP/2, or wants to be asked so; until then it is not asked again.
    Http1Until(Instant),
}

impl Known {
    fn http1(now: Instant) -> Option<Known> {
        Some(Known::Http1Until(now + REMEMBERED_FOR))
    }

    fn is_http1(self, now: Instant) -> bool {
        matches!(self, Known::Http1Until(until) if now < until)
    }
}

/// A connection that is being made, for all who wait for it.
struct Dialing {
    client: Zone,
    wide: bool,
    outcome: RefCell<Option<Result<Option<Way>, Refusal>>>,
    done: Notify,
}

/// What a request wants of the connection that it goes by.
#[derive(Clone, Copy)]
pub struct Wish {
    /// Where its client is.
    pub client: Zone,
    /// It can be sent only once.
    pub once: bool,
    /// It has taken its window.
    pub wide: bool,
}

impl Shared {
    pub fn new(idle_most: usize) -> Shared {
        Shared { idle_most, ..Shared::default() }
    }

    /// Nothing that was agreed on before is gone by.
    pub fn forget(&mut self) {
        // Who dials notices by itself.
        self.hops.retain(|_, hop| {
            (hop.known, hop.open) = (None, Vec::new());
            !hop.dialing.is_empty()
        });
    }

    /// Closes connections that the origin closed, or that nobody needed for too long.
    pub fn sweep(&mut self, now: Instant, limit: Duration) {
        self.hops.retain(|_, hop| {
            hop.open.retain(|connection| connection.is_wanted(now, limit));
            let is_http1 = hop.known.is_some_and(|known| known.is_http1(now));
            is_http1 || !hop.open.is_empty() || !hop.dialing.is_empty()
        });
    }

    fn hop(&mut self, key: &Key) -> &mut Hop {
        if !self.hops.contains_key(key) {
            if self.hops.len() >= REMEMBERED {
                self.hops.retain(|_, hop| !hop.open.is_empty() || !hop.dialing.is_empty());
            }
            // A URL's host lies in the buffer that its request was read into, which shall not wait here too.
            self.hops.insert(Rc::new(Key { hop: key.hop.copied(), ..*key }), Hop::default());
        }
        self.hops.get_mut(key).expect("it was inserted")
    }

    fn end_idle(&mut self) {
        let idle = || self.hops.values().flat_map(|hop| &hop.open).filter(|connection| connection.is_idle());
        if idle().count() < self.idle_most.max(1) {
            return;
        }
        let Some(oldest) = idle().min_by_key(|connection| connection.since()).cloned() else { return };
        for hop in self.hops.values_mut() {
            hop.open.retain(|connection| !Rc::ptr_eq(connection, &oldest));
        }
    }
}

impl Hop {
    /// A place on a connection that suits, on the fullest one: so that others may end.
    fn take(&mut self, wish: Wish) -> Option<Ticket> {
        self.open.retain(|connection| !connection.is_closed());
        let suits = |connection: &&Rc<Connection>| connection.suits(wish) && connection.has_room();
        let fullest = self.open.iter().filter(suits).max_by_key(|connection| connection.active())?;
        Some(Ticket::new(fullest.clone()))
    }
}

/// What one does for whom no connection has room.
enum Next {
    Waits(Rc<Dialing>),
    /// Until it is known what the origin allows on this one.
    Asks(Rc<Connection>),
    Queues(Rc<Notify>),
    Dials,
}

impl Hop {
    /// With so many connections at most.
    fn next(&self, wish: Wish, most: usize) -> Next {
        let is_alike = |dialing: &&Rc<Dialing>| dialing.client == wish.client && dialing.wide == wish.wide;
        if let Some(dialing) = self.dialing.iter().find(is_alike) {
            return Next::Waits(dialing.clone());
        }
        let mut open = self.open.iter();
        match open.find(|connection| connection.suits(wish) && connection.is_new()) {
            Some(new) => Next::Asks(new.clone()),
            None if self.open.len() >= most => Next::Queues(self.freed.clone()),
            None => Next::Dials,
        }
    }
}

fn late(_: Elapsed) -> Refusal {
    refusal::too_slow()
}

impl Dialing {
    async fn wait(&self) -> Result<Option<Way>, Refusal> {
        loop {
            let done = self.done.notified();
            if let Some(outcome) = &mut *self.outcome.borrow_mut() {
                return match outcome {
                    // One of those who wait has it.
                    Ok(way) => Ok(way.take()),
                    Err(refusal) => Err(refusal.clone()),
                };
            }
            done.await;
        }
    }
}

/// What a connection turned out to be.
pub(super) enum Made {
    Http1(super::Line),
    Http2(Rc<Connection>),
}

impl Origins {
    /// Whether a request to a hop may go by HTTP/2.
    pub(super) fn may_speak_http2(&self, key: &Key) -> bool {
        match (self.settings().origin_http2, key.scheme) {
            (OriginHttp2::Off, _) | (OriginHttp2::Auto, Scheme::Http) => return false,
            (OriginHttp2::Auto | OriginHttp2::PriorKnowledge, _) => {}
        }
        let known = self.http2.borrow().hops.get(key).and_then(|hop| hop.known);
        !known.is_some_and(|known| known.is_http1(Instant::now()))
    }

    /// The hop wants to be asked by HTTP/1.1 for what it was asked.
    pub(super) fn wants_http1(&self, key: &Key) {
        self.http2.borrow_mut().hop(key).known = Known::http1(Instant::now());
    }

    /// A stream of a connection, once there is one; `None`: the hop speaks HTTP/1.
    pub(super) async fn way_by_http2(
        self: &Rc<Origins>,
        key: &Key,
        wish: Wish,
    ) -> Result<Option<Way>, Refusal> {
        let settings = self.settings();
        if wish.once {
            // Who ends a connection says so, which is read first.
            yield_now().await;
        }
        loop {
            let next = {
                let mut shared = self.http2.borrow_mut();
                let hop = shared.hop(key);
                if let Some(ticket) = hop.take(wish) {
                    return Ok(Some(Way::Http2(ticket)));
                }
                if hop.known.is_some_and(|known| known.is_http1(Instant::now())) {
                    return Ok(None);
                }
                hop.next(wish, settings.bounds.idle_per_origin.max(1))
            };
            let patience = settings.timeouts.origin_first_byte;
            let way = match next {
                Next::Waits(dialing) => dialing.wait().await?,
                Next::Dials => self.dial_shared(key, wish).wait().await?,
                Next::Asks(new) => timeout(patience, new.is_heard_of()).await.map(|()| None).map_err(late)?,
                Next::Queues(freed) => {
                    timeout(patience, freed.notified()).await.map(|()| None).map_err(late)?
                }
            };
            if way.is_some() {
                return Ok(way);
            }
        }
    }

    /// Begins a connection in a task of its own: whoever asked for it may leave.
    fn dial_shared(self: &Rc<Origins>, key: &Key, wish: Wish) -> Rc<Dialing> {
        let dialing = Rc::new(Dialing {
            client: wish.client,
            wide: wish.wide,
            outcome: RefCell::default(),
            done: Notify::new(),
        });
        let key = Key { hop: key.hop.copied(), ..*key };
        self.http2.borrow_mut().hop(&key).dialing.push(dialing.clone());
        let (origins, made) = (self.clone(), dialing.clone());
        spawn_local(async move {
            let outcome = origins.made(&key, wish).await;
            let mut shared = origins.http2.borrow_mut();
            shared.hop(&key).dialing.retain(|other| !Rc::ptr_eq(other, &made));
            drop(shared);
            made.outcome.replace(Some(outcome));
            made.done.notify_waiters();
        });
        dialing
    }

    /// A new connection, which all may share if it speaks HTTP/2.
    async fn made(self: &Rc<Origins>, key: &Key, wish: Wish) -> Result<Option<Way>, Refusal> {
        let judged = self.reach_changes.get();
        let made = self.connect_as(key, wish).await?;
        let mut shared = self.http2.borrow_mut();
        if judged != self.reach_changes.get() {
            return Ok(None);
        }
        match made {
            Made::Http1(line) => {
                shared.hop(key).known = Known::http1(Instant::now());
                Ok(Some(Way::Http1(Box::new(line))))
            }
            Made::Http2(connection) => {
                shared.end_idle();
                let hop = shared.hop(key);
                hop.known = Some(Known::Http2);
                connection.tells(hop.freed.clone());
                hop.open.push(connection);
                Ok(None)
            }
        }
    }
}
