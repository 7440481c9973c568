//! A body that was begun and cannot go on: the origin is asked for the rest of it.
//!
//! The disk may hang, a reader be too slow for a shared fetch, an origin's connection break. What the disk lost of a stored body is
//! asked for with the same means, but for all of its readers (`heal`).
//! Where the response has a strong validator, a range of the same representation makes good for that, and the reader
//! sees nothing of it. What always holds: bytes of two representations are never mixed (`cache::Resume`); a body asks a
//! few times, a worker asks one origin for a few bodies at once, and beyond that the response breaks off.
//!
//! An origin without ranges sends all of the representation. What comes before the rest is skipped then, if the rest is for all who
//! read along: for each reader alone that would be too much.

use crate::fill::repair::{Busy, Repair};
use crate::message::pieces::Pieces;
use crate::message::target::Target;
use crate::origin::Outgoing;
use crate::origin::body::OriginBody;
use crate::origin::fetch::Fetched;
use crate::transport::Hop;
use crate::worker::Worker;
use bytes::{Buf as _, Bytes};
use cache::Head;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode, response};
use http_body::Frame;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::sleep;

/// How often the origin is asked for the rest of one body.
const TRIES: u8 = 3;

/// The pause before an origin is asked again that gave no answer.
pub const REST: Duration = Duration::from_millis(100);

/// For whom a body is repaired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// One reader, who may take it as slowly as it likes.
    One,
    /// All who read along.
    All,
}

impl For {
    /// Bodies that one worker asks one origin for at once: some places are kept for those that many wait for.
    fn at_once(self) -> usize {
        match self {
            For::One => 48,
            For::All => 64,
        }
    }
}

/// Why no bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRest {
    /// Nobody was asked: there is too little memory, or the origin is asked for too many bodies at once.
    NoPlace,
    /// No answer came, or not all of one.
    Again,
    /// Not in time: who asks again may wait as long.
    Late,
    /// Asking again would bring the same.
    Never,
    /// Unless somebody else asks: this request is refused.
    Refused,
}

impl Repair {
    /// Asks for the bytes `from..to` of the body, `to` of `None` for all from there on. Where the origin says that it has another
    /// representation now, an object of which the piece there is missing is of no use any more, and goes.
    pub async fn fetch(
        &self,
        worker: &Rc<Worker>,
        whom: For,
        from: u64,
        to: Option<u64>,
    ) -> Result<Rest, NoRest> {
        let hop = worker.origins.route.next_hop(&self.target).map_err(|_| NoRest::Never)?;
        if !has_place(worker, &hop, whom) {
            return Err(NoRest::NoPlace);
        }
        let busy = worker.repairs.begin(hop);
        let head = || {
            let mut head = self.request.clone();
            self.resume.ask(head.headers_mut(), from, to);
            Ok(head)
        };
        // Few of them are asked for at once.
        let (content, charged) = (None, None);
        let outgoing = Outgoing { head: &head, content, expects: false, client: self.client, charged };
        let fetched = worker.origins.fetch(&self.target, outgoing, |_| {}).await;
        let Fetched { parts, body, shareable } = fetched.map_err(|refusal| match refusal.status {
            StatusCode::GATEWAY_TIMEOUT => NoRest::Late,
            _ => NoRest::Again,
        })?;
        if !shareable {
            // All who read along would get it.
            return Err(NoRest::Refused);
        }
        let may_be_stored = Head::part_may_stay(self.request.headers(), &parts);
        let promised = body.left();
        if whom == For::All
            && let Some((skip, left)) = self.resume.within_whole(&parts, promised, (from, to))
        {
            return Ok(Rest { body, skip, left, is_whole: true, may_be_stored, _busy: busy });
        }
        let Some(left) = self.resume.continues(&parts, from, to) else {
            if is_hidden(&self.request, &parts) {
                return Err(NoRest::Refused);
            }
            if let Some(spans) = self.stored.as_ref().filter(|_| self.resume.is_ended_by(&parts)) {
                let shared = &worker.shared;
                let piece = (spans, spans.piece_at(from));
                shared.tiers.give_up(&self.key, piece, &worker.readers, &shared.names).await;
            }
            if parts.status.is_server_error() || parts.status == StatusCode::TOO_MANY_REQUESTS {
                return Err(NoRest::Again);
            }
            return Err(if is_of_request(&parts) { NoRest::Refused } else { NoRest::Never });
        };
        match promised.is_none_or(|promised| promised == left) {
            true => Ok(Rest { body, skip: 0, left, is_whole: false, may_be_stored, _busy: busy }),
            false => Err(NoRest::Never),
        }
    }
}

/// Whether an answer without the bytes may say something of the request alone: who asked, and with which fields.
fn is_of_request(answer: &response::Parts) -> bool {
    let is_gone = matches!(answer.status.as_u16(), 404 | 410 | 416);
    (answer.status.is_redirection() || answer.status.is_client_error()) && !is_gone
}

/// Whether an answer may deny what others may have: some say so that it is not there.
fn is_hidden(request: &Request<()>, answer: &response::Parts) -> bool {
    request.headers().contains_key(AUTHORIZATION) && matches!(answer.status.as_u16(), 404 | 410)
}

/// Whether a worker has a place for one more body that this target's origin is asked for.
pub fn may_begin(worker: &Worker, target: &Target, whom: For) -> bool {
    worker.origins.route.next_hop(target).is_ok_and(|hop| has_place(worker, &hop, whom))
}

fn has_place(worker: &Worker, hop: &Hop, whom: For) -> bool {
    worker.repairs.of(hop) < whom.at_once()
}

/// The rest of a body as it comes from its origin: exactly as many bytes as were missing, or an error.
pub struct Rest {
    body: OriginBody,
    /// Bytes that come before the next of the rest.
    skip: u64,
    left: u64,
    /// The origin sends all of the representation.
    pub is_whole: bool,
    /// Its bytes may go into the cache.
    pub may_be_stored: bool,
    _busy: Busy,
}

impl Rest {
    /// So many bytes behind what was asked for are wanted too, of what is whole.
    pub fn extend(&mut self, bytes: u64) {
        self.left += bytes;
    }

    /// The next bytes are not wanted after all.
    pub fn pass_over(&mut self, bytes: u64) {
        self.skip += bytes;
        self.left -= bytes;
    }
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
            let Ok(mut bytes) = frame.into_data() else { continue };
            let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            bytes.advance(skipped);
            self.skip -= skipped as u64;
            if self.is_whole {
                bytes.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            }
            if bytes.is_empty() {
                continue;
            }
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
    Asking(Pin<Box<dyn Future<Output = Result<Rest, NoRest>>>>),
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
        let (repair, worker) = (self.repair.clone().filter(|_| self.tries > 0), self.worker.clone());
        move || repair.as_ref().is_some_and(|repair| may_begin(&worker, &repair.target, For::One))
    }

    /// Begins to ask for the bytes `from..to`; `false` when that cannot be.
    pub fn begin(&mut self, from: u64, to: Option<u64>) -> bool {
        let Some(repair) = self.repair.clone().filter(|_| self.tries > 0) else { return false };
        self.tries -= 1;
        let (worker, was_asked) = (self.worker.clone(), matches!(self.state, State::Asking(_)));
        self.state = State::Asking(Box::pin(async move {
            if was_asked {
                sleep(REST).await;
            }
            repair.fetch(&worker, For::One, from, to).await
        }));
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
                    Ok(rest) => {
                        self.state = State::Reading(Box::new(rest));
                        continue;
                    }
                    Err(why) => {
                        if !matches!(why, NoRest::Again | NoRest::NoPlace) {
                            self.tries = 0;
                        }
                        io::Error::other("a piece of the body went away, and the origin does not give it")
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
