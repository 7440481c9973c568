//! A connection to an origin that speaks HTTP/1.
//!
//! It leaves the pool for one request, and comes back only when that was sent to its end and its response read to its
//! end; in every other case it is closed.

use super::Origins;
use super::content::{Gate, Upload};
use super::interim::Interims;
use super::pool::Key;
use super::wire::Wire;
use crate::access::reach::Zone;
use crate::report::Exit;
use crate::report::counters::Number;
use crate::settings::Bounds;
use crate::transport::Socket;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, spawn_local};

/// Origins keep an idle connection open for at least this long.
pub const SURE: Duration = Duration::from_secs(1);

/// A connection to an origin.
pub struct Line {
    sender: SendRequest<Upload>,
    task: AbortHandle,
    /// The socket and what was read beyond the response, once the connection is no longer HTTP.
    ended: oneshot::Receiver<(Wire, Bytes)>,
    wire: Wire,
    pool: Weak<Origins>,
    key: Rc<Key>,
    /// Where a client has to be to reach its address, as it was judged after so many changes of what is reached.
    needs: Zone,
    judged: u64,
    /// What comes on it may be stored and shared.
    pub shareable: bool,
    reused: bool,
    since: Instant,
    exit: Rc<Exit>,
}

impl Line {
    /// Speaks HTTP/1 over a new connection, which goes back to that pool.
    pub async fn open(
        pool: &Rc<Origins>,
        key: &Key,
        socket: Socket,
        bounds: &Bounds,
        (needs, shareable, judged): (Zone, bool, u64),
    ) -> hyper::Result<Line> {
        let wire = Wire::new(socket, &pool.budget, bounds.head_bytes);
        let handshake = http1::Builder::new()
            .max_buf_size(bounds.head_bytes.max(64 << 10))
            .max_header_size(bounds.head_bytes)
            .handshake(TokioIo::new(wire.clone()))
            .await;
        let (sender, mut connection) = handshake?;
        pool.exit.add(Number::OriginOpen, 1);
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
            pool: Rc::downgrade(pool),
            // A URL's host lies in the buffer that its request was read into, which shall not wait here too.
            key: Rc::new(Key { hop: key.hop.copied(), ..*key }),
            needs,
            judged,
            shareable,
            reused: false,
            since: Instant::now(),
            exit: pool.exit.clone(),
        })
    }

    pub fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Upload>>>> + use<> {
        self.sender.try_send_request(request)
    }

    /// What it is spoken over, which is told when the head of a response is waited for.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Interim responses to the request under way.
    pub fn interims(&self) -> &Arc<Interims> {
        self.wire.interims()
    }

    /// It waited in the pool: its origin may have closed it meanwhile.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether one that waits is for a client of this zone, and for a request that can be sent only `once`.
    pub fn suits(&self, once: bool, client: Zone) -> bool {
        self.needs <= client && (!once || self.since.elapsed() <= SURE)
    }

    /// Whether one that waited can be used: nothing came on it meanwhile.
    pub fn is_ready_again(&mut self) -> bool {
        self.reused = true;
        self.sender.is_ready() && self.wire.is_quiet()
    }

    /// Whether one that waits may wait longer.
    pub fn is_wanted(&self, now: Instant, limit: Duration) -> bool {
        !self.sender.is_closed() && now.duration_since(self.since) < limit
    }

    /// The socket, after the response was 101.
    pub async fn into_stream(mut self) -> Option<(Socket, Bytes)> {
        let (wire, read) = (&mut self.ended).await.ok()?;
        drop(self);
        wire.into_socket().map(|socket| (socket, read))
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
            self.wait_in(&pool);
        } else if !self.sender.is_closed() {
            spawn_local(async move {
                if self.sender.ready().await.is_ok() {
                    self.wait_in(&pool);
                }
            });
        }
    }

    fn wait_in(mut self, origins: &Origins) {
        if self.judged != origins.reach_changes.get() {
            return;
        }
        self.since = Instant::now();
        let key = self.key.clone();
        origins.pool.borrow_mut().put(&key, self);
    }

    /// A response that came before the request was sent to its end leaves the connection unusable.
    pub fn sent(self, gate: &Gate) -> Line {
        if gate.is_done() { self } else { self.not_again() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
        self.exit.subtract(Number::OriginOpen, 1);
    }
}
