//! Origins that speak HTTP/2 (RFC 9113), by the library that does so: connections of which each carries many requests of this worker.
//!
//! Which protocol an origin over TLS speaks is asked in the handshake (ALPN) and remembered; while that is not known, one connection is
//! made, and whoever comes meanwhile waits for it. Connections are wide or narrow by what each of their streams may bring before it is
//! asked for: what a narrow one brings, every request has anyway; on a wide one each stream has taken its window from the budget.

mod connection;
mod room;
mod stream;
mod wire;

pub use self::connection::{Connection, Ticket};
pub use self::stream::attempt;

use self::room::Room;
use super::pool::Key;
use super::way::Way;
use super::{Origins, TRIES, broken};
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
use tokio::time::timeout_at;

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
    /// Connections that carry no request, at most.
    idle_most: usize,
}

#[derive(Default)]
struct Hop {
    known: Option<Known>,
    open: Vec<Rc<Connection>>,
    dialing: Vec<Rc<Dialing>>,
    /// Those who wait for a place.
    room: Rc<Room>,
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
            hop.known = None;
            hop.keeps(|_| false);
            !hop.dialing.is_empty()
        });
    }

    /// Closes connections that the origin closed, or that nobody needed for too long.
    pub fn sweep(&mut self, now: Instant, limit: Duration) {
        self.hops.retain(|_, hop| {
            hop.keeps(|connection| connection.is_wanted(now, limit));
            let is_http1 = hop.known.is_some_and(|known| known.is_http1(now));
            is_http1 || !hop.open.is_empty() || !hop.dialing.is_empty()
        });
        self.end_idle(self.idle_most);
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

    /// Those that have idled longest end, until there are so many.
    fn end_idle(&mut self, most: usize) {
        let all = self.hops.values().flat_map(|hop| &hop.open);
        let mut since: Vec<_> = all.filter(|open| open.is_idle()).map(|open| open.since()).collect();
        let Some(excess) = since.len().checked_sub(most).filter(|excess| *excess > 0) else { return };
        since.sort_unstable();
        let last = since[excess - 1];
        for hop in self.hops.values_mut() {
            hop.keeps(|connection| !connection.is_idle() || connection.since() > last);
        }
    }
}

/// What one does for whom no connection has room.
enum Next {
    /// For one that is being made, or for a place.
    Waits(Rc<Dialing>),
    Queues,
    Dials,
    /// Whether the hop speaks HTTP/2 by now, others find out.
    GoesByHttp1,
}

/// What came of that.
enum Waited {
    /// There may be a place.
    Told,
    Made(Result<Option<Way>, Refusal>),
    GoesByHttp1,
}

impl Hop {
    /// Lets go of the connections that are not kept. They take no more requests, and end when they carry none.
    fn keeps(&mut self, kept: impl FnMut(&Rc<Connection>) -> bool) {
        let before = self.open.len();
        self.open.retain(kept);
        if self.open.len() < before {
            self.room.changes();
        }
    }

    /// A place on a connection that suits, on the fullest one: so that others may end.
    fn take(&mut self, wish: Wish) -> Option<Ticket> {
        self.keeps(|connection| !connection.is_closed());
        let suits = |connection: &&Rc<Connection>| connection.suits(wish) && connection.has_room();
        let fullest = self.open.iter().filter(suits).max_by_key(|connection| connection.active())?;
        Some(Ticket::new(fullest.clone()))
    }

    /// With so many connections at most; `dials` if another may be tried for who asks.
    fn next(&mut self, wish: Wish, most: usize, dials: bool) -> Next {
        let is_alike = |dialing: &&Rc<Dialing>| dialing.client == wish.client && dialing.wide == wish.wide;
        if !dials {
            return Next::Queues;
        }
        if let Some(dialing) = self.dialing.iter().find(is_alike) {
            return match self.known {
                Some(Known::Http1Until(_)) => Next::GoesByHttp1,
                _ => Next::Waits(dialing.clone()),
            };
        }
        if self.open.iter().any(|connection| connection.suits(wish) && connection.may_have_room()) {
            return Next::Queues;
        }
        if self.open.len() >= most {
            let gives_way = |connection: &Rc<Connection>| {
                connection.is_used_up() || (connection.is_idle() && !connection.suits(wish))
            };
            let Some(at) = self.open.iter().position(gives_way) else { return Next::Queues };
            self.open.swap_remove(at);
        }
        Next::Dials
    }
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

    /// Responses that came of a hop by HTTP/2, as long as it is known.
    pub(super) fn http2_answers(&self, key: &Key) -> u64 {
        self.http2.borrow().hops.get(key).map_or(0, |hop| hop.room.answers())
    }

    /// The hop wants to be asked by HTTP/1.1 for what it was asked.
    pub(super) fn wants_http1(&self, key: &Key) {
        let mut shared = self.http2.borrow_mut();
        let hop = shared.hop(key);
        hop.known = Known::http1(Instant::now());
        hop.room.changes();
    }

    /// A stream of a connection, once there is one; `None`: the hop speaks HTTP/1.
    pub(super) async fn way_by_http2(
        self: &Rc<Origins>,
        key: &Key,
        wish: Wish,
    ) -> Result<Option<Way>, Refusal> {
        if wish.once {
            // Who ends a connection says so, which is read first.
            yield_now().await;
        }
        // Whether one has just been made, how many were of no use when they were, and why none could be.
        let (mut is_made, mut vain, mut failed, mut answers) = (false, 0, None, 0);
        // Until when it waits, for whatever.
        let mut until = None;
        loop {
            if !self.may_speak_http2(key) {
                return Ok(None);
            }
            let taken = self.http2.borrow_mut().hop(key).take(wish);
            if let Some(ticket) = taken {
                if wish.once && !ticket.is_sure().await {
                    continue;
                }
                return Ok(Some(Way::Http2(ticket)));
            }
            let settings = self.settings();
            let (next, room) = {
                let mut shared = self.http2.borrow_mut();
                let hop = shared.hop(key);
                if !hop.open.iter().any(|connection| connection.suits(wish)) {
                    if let Some(refusal) = failed {
                        return Err(refusal);
                    }
                    vain += u32::from(std::mem::take(&mut is_made));
                    if hop.room.answers() != answers {
                        // One that answered somebody was of use.
                        (vain, answers) = (0, hop.room.answers());
                    }
                    if vain == TRIES {
                        return Err(broken(&key.hop, "its connections end when they begin"));
                    }
                }
                let most = settings.bounds.idle_per_origin.max(1);
                (hop.next(wish, most, failed.is_none()), hop.room.clone())
            };
            let place = room.waited_for(wish).notified();
            let waits = async {
                match next {
                    Next::GoesByHttp1 => Waited::GoesByHttp1,
                    Next::Dials => Waited::Made(self.dial_shared(key, wish).wait().await),
                    Next::Waits(dialing) => tokio::select! {
                        biased;
                        outcome = dialing.wait() => Waited::Made(outcome),
                        () = place => Waited::Told,
                    },
                    Next::Queues => {
                        place.await;
                        Waited::Told
                    }
                }
            };
            let patience = settings.timeouts.origin_first_byte;
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            match timeout_at(until.into(), waits).await {
                Ok(Waited::GoesByHttp1) => return Ok(None),
                Ok(Waited::Told) => {}
                Ok(Waited::Made(Ok(None))) => is_made = true,
                Ok(Waited::Made(Ok(way))) => return Ok(way),
                Ok(Waited::Made(Err(refusal))) => failed = Some(refusal),
                Err(_) => {
                    let mut shared = self.http2.borrow_mut();
                    shared.hop(key).keeps(|connection| !(connection.suits(wish) && connection.is_blocked()));
                    return Err(failed.unwrap_or_else(refusal::too_slow));
                }
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
            let hop = shared.hop(&key);
            hop.dialing.retain(|other| !Rc::ptr_eq(other, &made));
            hop.room.changes();
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
                let most = shared.idle_most.max(1);
                shared.end_idle(most - 1);
                let hop = shared.hop(key);
                hop.known = Some(Known::Http2);
                connection.tells(hop.room.clone());
                hop.open.push(connection);
                Ok(None)
            }
        }
    }
}
