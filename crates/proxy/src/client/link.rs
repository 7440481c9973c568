//! A client's connection as its worker looks after it, whatever it speaks: how long it waits, whether it may make way, and when it ends.

use super::http1;
use super::http2;
use crate::budget::Wanted;
use crate::settings::Timeouts;
use crate::transport::{Peer, Speaks};
use crate::worker::Worker;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

pub struct Link {
    /// What each connection is until something else is known of it.
    pub http1: Rc<http1::Link>,
    http2: OnceCell<Rc<http2::Link>>,
}

/// Asks whichever it is.
macro_rules! either {
    ($self:ident, $link:ident => $what:expr) => {
        match $self.http2.get() {
            Some($link) => $what,
            None => {
                let $link = &$self.http1;
                $what
            }
        }
    };
}

impl Link {
    pub fn new(worker: &Worker, peer: Peer, speaks: Speaks) -> Link {
        Link { http1: Rc::new(http1::Link::new(worker, peer, speaks)), http2: OnceCell::new() }
    }

    /// From now on it is one of HTTP/2.
    pub fn is_http2(&self, worker: &Worker) -> Rc<http2::Link> {
        self.http2.get_or_init(|| Rc::new(http2::Link::of(&self.http1, worker))).clone()
    }

    /// Looks whether this connection, or one of its streams, waits for too long; called every now and then by the worker's sweep.
    pub fn sweep(&self, now: Instant, timeouts: &Timeouts) {
        either!(self, link => link.sweep(now, timeouts));
    }

    /// Whose share what it takes is of, if anybody's.
    pub fn charged(&self) -> Option<IpAddr> {
        either!(self, link => link.charged())
    }

    /// Since when hardly anything moves of what takes of the memory that is `wanted`, which a hit in memory does not.
    pub fn slow_since(&self, wanted: Wanted) -> Option<Instant> {
        either!(self, link => link.slow_since(wanted))
    }

    /// Ends what `slow_since` is about.
    pub fn end_slow(&self, wanted: Wanted) {
        match self.http2.get() {
            Some(link) => link.end_slow(wanted),
            None => self.http1.make_way(),
        }
    }

    /// For a connection that waits for a request: since when, if a sweep has seen it. One that just came and has not asked yet is
    /// not idle.
    pub fn idle(&self) -> Option<Option<Instant>> {
        either!(self, link => link.idle())
    }

    /// Whether no request is under way; a head may be on its way.
    pub fn is_without_request(&self) -> bool {
        either!(self, link => link.is_without_request())
    }

    pub fn is_overdue(&self) -> bool {
        either!(self, link => link.is_overdue())
    }

    /// Ends a connection, with what is under way.
    pub fn make_way(&self) {
        either!(self, link => link.make_way());
    }

    pub fn wake(&self) {
        either!(self, link => link.wake());
    }
}
