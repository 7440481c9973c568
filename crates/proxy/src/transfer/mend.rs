//! A body that was begun and cannot go on: the origin is asked for the rest of it.
//!
//! A piece of a stored body may be damaged or gone, a reader too slow for a shared fetch, an origin's connection broken.
//! Where the response has a strong validator, a range of the same representation makes good for that, and the reader
//! sees nothing of it. What always holds: bytes of two representations are never mixed (`cache::Resume`); a body asks a
//! few times, a worker for a few bodies at once, and beyond that the response breaks off.

use crate::fill::repair::Repair;
use crate::message::pieces::Pieces;
use crate::origin::Outgoing;
use crate::origin::body::OriginBody;
use crate::origin::fetch::Fetched;
use crate::worker::Worker;
use bytes::Bytes;
use http_body::Frame;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// How often the origin is asked for the rest of one body.
const TRIES: u8 = 3;

/// For whom a body is repaired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// One reader, who may take it as slowly as it likes.
    One,
    /// All who read along.
    All,
}

impl For {
    /// Bodies that one worker repairs at once: some places are kept for those that many wait for.
    fn at_once(self) -> usize {
        match self {
            For::One => 48,
            For::All => 64,
        }
    }
}

impl Repair {
    /// Asks for the bytes `from..to` of the body, `to` of `None` for all from there on. `None` when something else comes.
    pub async fn fetch(&self, worker: &Rc<Worker>, whom: For, from: u64, to: Option<u64>) -> Option<Rest> {
        let busy = Busy::begin(worker, whom)?;
        let head = || {
            let mut head = self.request.clone();
            self.resume.ask(head.headers_mut(), from, to);
            Ok(head)
        };
        // Few of them are asked for at once.
        let (content, charged) = (None, None);
        let outgoing = Outgoing { head: &head, content, expects: false, client: self.client, charged };
        let Fetched { parts, body, shareable } =
            worker.origins.fetch(&self.target, outgoing, |_| {}).await.ok()?;
        let left = self.resume.continues(&parts, from, to)?;
        let promised = body.left().is_none_or(|promised| promised == left);
        // All who read along get it.
        (promised && shareable).then_some(Rest { body, left, _busy: busy })
    }
}

/// A place among the bodies that a worker repairs.
struct Busy(Rc<Worker>);

impl Busy {
    fn begin(worker: &Rc<Worker>, whom: For) -> Option<Busy> {
        let busy = worker.repairs.get();
        (busy < whom.at_once()).then(|| {
            worker.repairs.set(busy + 1);
            Busy(worker.clone())
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.repairs.set(self.0.repairs.get() - 1);
    }
}

/// The rest of a body as it comes from its origin: exactly as many bytes as were missing, or an error.
pub struct Rest {
    body: OriginBody,
    left: u64,
    _busy: Busy,
}

impl Pieces for Rest {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while self.left > 0 {
            let frame = match ready!(self.body.poll_piece(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => break,
            };
            // Trailers are not part of a body.
            let Ok(bytes) = frame.into_data() else { continue };
            let Some(left) = self.left.checked_sub(bytes.len() as u64) else { break };
            self.left = left;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let complete = self.left == 0;
        Poll::Ready(
            (!complete).then(|| Err(io::Error::other("the rest of the body is not what was asked for"))),
        )
    }

    fn left(&self) -> Option<u64> {
        Some(self.left)
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// How one body goes on when what gave it cannot.
pub struct Mender {
    worker: Rc<Worker>,
    repair: Option<Arc<Repair>>,
    tries: u8,
    state: State,
}

enum State {
    /// Nothing is wrong.
    Whole,
    Asking(Pin<Box<dyn Future<Output = Option<Rest>>>>),
    Reading(Box<Rest>),
}

impl Mender {
    pub fn new(worker: Rc<Worker>, repair: Option<Arc<Repair>>) -> Mender {
        Mender { worker, repair, tries: TRIES, state: State::Whole }
    }

    /// Whether the body comes from its origin now.
    pub fn mends(&self) -> bool {
        !matches!(self.state, State::Whole)
    }

    /// Whether the origin could be asked, which is so or not at each moment until it is asked.
    pub fn may_begin(&self) -> impl Fn() -> bool + use<> {
        let (can, worker) = (self.repair.is_some() && self.tries > 0, self.worker.clone());
        move || can && worker.repairs.get() < For::One.at_once()
    }

    /// Begins to ask for the bytes `from..to`; `false` when that cannot be.
    pub fn begin(&mut self, from: u64, to: Option<u64>) -> bool {
        let Some(repair) = self.repair.clone().filter(|_| self.tries > 0) else { return false };
        self.tries -= 1;
        let worker = self.worker.clone();
        self.state = State::Asking(Box::pin(async move { repair.fetch(&worker, For::One, from, to).await }));
        true
    }

    /// The next bytes, of which the first is that at `from`, after `begin`; `None` at the end.
    pub fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        from: u64,
        to: Option<u64>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let error = match &mut self.state {
                State::Whole => io::Error::other("nothing is being repaired"),
                State::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Some(rest) => {
                        self.state = State::Reading(Box::new(rest));
                        continue;
                    }
                    // Asking again would bring the same.
                    None => {
                        self.tries = 0;
                        io::Error::other(
                            "a piece of the body went away, and the origin has not the same any more",
                        )
                    }
                },
                State::Reading(rest) => match ready!(rest.poll_piece(cx)) {
                    None => return Poll::Ready(None),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => return Poll::Ready(Some(Ok(bytes))),
                        Err(_) => continue,
                    },
                    Some(Err(error)) => error,
                },
            };
            if !self.begin(from, to) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}
