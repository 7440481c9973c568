//! One stream of a client's connection: requests and their responses, one at a time. HTTP/1 has one a connection.
//!
//! Nothing here knows how the connection frames what goes over it; that is `client`'s.

use crate::access::client::Client;
use crate::message::interim::Interim;
use crate::origin::Line;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use tokio::net::TcpStream;

/// Bytes of interim responses that wait to go out, about; more are dropped, which RFC 9110 section 15.2 allows.
const INTERIM_MAX: usize = 16 << 10;

pub struct Stream {
    pub client: Client,
    begun: Cell<u64>,
    ended: Cell<u64>,
    interims: RefCell<Vec<Interim>>,
    tunnel: RefCell<Option<Upstream>>,
    /// It is no HTTP any more, or will not be once the current response has gone.
    is_tunnel: Cell<bool>,
    waker: OnceCell<Waker>,
}

/// The origin's side of a tunnel.
pub enum Upstream {
    /// Connected for `CONNECT`.
    Connected(TcpStream),
    /// A connection whose response was 101.
    Upgraded(Box<Line>),
}

impl Stream {
    pub fn new(client: Client) -> Stream {
        Stream {
            client,
            begun: Cell::new(0),
            ended: Cell::new(0),
            interims: RefCell::default(),
            tunnel: RefCell::new(None),
            is_tunnel: Cell::new(false),
            waker: OnceCell::new(),
        }
    }

    /// Counts a request in; the returned guard counts it out when its response has gone.
    pub fn begin(self: &Rc<Stream>) -> Flight {
        self.begun.set(self.begun.get() + 1);
        Flight(self.clone())
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
    }

    pub fn is_tunnel(&self) -> bool {
        self.is_tunnel.get()
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
pub struct Flight(Rc<Stream>);

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.ended.set(self.0.ended.get() + 1);
    }
}
