//! Closes a gap in a stored body: asks the origin for the pieces that the disk lost, and for nothing else, gives them to those
//! who wait (`fill::gap`), and puts each back that came whole. Then the body goes on from the disk, and the next request finds all
//! of it. What is put back is of the object that lies under the key at that moment (`tiers`); where that is gone, the store behind,
//! or the answer not for a shared cache, those who wait get the bytes all the same.
//!
//! ```text
//! finds out how far the gap goes → asks ⇄ waits for memory → takes a piece → puts it back, or passes it → … → closed
//!                                                       ↓ nothing of use `TRIES` times, or what says that more is in vain
//!                                                      lost: the bodies break off, and the next request fetches all (`fill::vain`)
//! ```
//!
//! Where a request was refused for what it may have said itself, the next of those who wait asks.
//!
//! What always holds: of a gap there is one request at a time, and no byte that came is asked for again.

use crate::fill::gap::{Closer, Given, Seat};
use crate::fill::repair::Repair;
use crate::message::pieces::Pieces as _;
use crate::message::target::Target;
use crate::transfer::keeper::{PATIENCE, PAUSE};
use crate::transfer::mend::{For, NoRest, Rest, may_begin};
use crate::worker::Worker;
use bytes::Bytes;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use store::{Lookup, Refused, Spans};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

/// Bytes that are asked for at once, about.
const MOST: u32 = 4 << 20;

/// How often the origin is asked for one piece, and the pause before it is asked again.
const TRIES: u8 = 3;
const REST: Duration = Duration::from_millis(100);

/// For how long who reads a piece that is not put back may hold up those who wait for the next one.
const HELD_UP: Duration = Duration::from_secs(1);

/// Whether a gap of a body could be closed that somebody comes upon now.
pub fn can_close(worker: &Worker, target: &Target, spans: &Spans) -> bool {
    let fills = &worker.shared.fills;
    let is_spared = || worker.shared.budget.origins.can_spare(memory(spans));
    let has_room = || is_spared() && may_begin(worker, target, For::All);
    !fills.vain.knows(spans) && (fills.gaps.are_closing(spans) || has_room())
}

/// Bytes that closing one takes: the piece that comes, and a copy while that is put back.
fn memory(spans: &Spans) -> usize {
    2 * spans.span as usize
}

const NOWHERE: (u64, u8) = (u64::MAX, 0);

/// What one reader of a stored body has to do with its gaps.
pub struct Gaps {
    worker: Rc<Worker>,
    /// Who is asked for what the store lost.
    repair: Option<Arc<Repair>>,
    /// While a gap is closed that the reader is at, or will come to.
    seat: Option<Seat>,
    /// Bytes of a piece.
    size: u64,
    /// Pieces of gaps that came one right after the other, the last ones.
    run: Range<u32>,
    /// Where the store had nothing the last time, and how often.
    missed: (u64, u8),
}

impl Gaps {
    pub fn new(worker: &Rc<Worker>, repair: Option<Arc<Repair>>) -> Gaps {
        Gaps { worker: worker.clone(), repair, seat: None, size: 1, run: 0..0, missed: NOWHERE }
    }

    /// What the origin gives of the bytes from `at` on.
    pub fn poll_at(&mut self, cx: &mut Context<'_>, at: u64) -> Poll<Given> {
        let Some(seat) = &mut self.seat else { return Poll::Ready(Given::Stored) };
        let polled = seat.poll_at(cx, at);
        match &polled {
            Poll::Ready(Given::Bytes(_) | Given::Stored) => {
                let n = self.piece(at);
                if !self.run.contains(&n) {
                    let start = if n == self.run.end { self.run.start } else { n };
                    self.run = start..n + 1;
                }
            }
            Poll::Ready(Given::Beyond | Given::Lost) => self.seat = None,
            // That says nothing of what this reader's request would bring.
            Poll::Ready(Given::Refused) => (self.seat, self.missed) = (None, NOWHERE),
            Poll::Pending => {}
        }
        polled
    }

    /// The store has not the bytes from `at` on, of a body that is read up to `end`: they come from the origin (`poll_at`), or back
    /// into the store. False when they do not.
    pub fn close(&mut self, spans: &Spans, at: u64, end: u64) -> bool {
        self.size = u64::from(spans.span.max(1));
        let times = if self.missed.0 == at { self.missed.1 + 1 } else { 1 };
        self.missed = (at, times);
        let (n, store) = (self.piece(at), self.worker.shared.tiers.stores.at(spans));
        let Some(repair) = self.repair.as_ref().filter(|_| times <= TRIES) else { return false };
        // It was put back since the store was asked.
        if times == 1 && store.is_some_and(|store| store.missing(spans, n..n + 1).next().is_none()) {
            return true;
        }
        // Where one lies bad beside the other, more will: but only the disk tells, when it is read.
        let suspect = if n == self.run.end { self.run.len() as u32 } else { 0 };
        let end = self.piece(end - 1).saturating_add(1);
        self.seat = enter(&self.worker, repair, spans, n..end, suspect);
        self.seat.is_some()
    }

    fn piece(&self, at: u64) -> u32 {
        u32::try_from(at / self.size).unwrap_or(u32::MAX)
    }
}

/// A place at the gap that begins with the first of these pieces, and has as many of them as are missing. `suspect` pieces behind the
/// missing ones may be too. `None`: the origin did not give what is missing, a moment ago, or refused this request for it.
fn enter(
    worker: &Rc<Worker>,
    repair: &Arc<Repair>,
    spans: &Spans,
    pieces: Range<u32>,
    suspect: u32,
) -> Option<Seat> {
    let fills = &worker.shared.fills;
    if let Some(seat) = fills.gaps.find(spans, pieces.start) {
        return Some(seat);
    }
    if fills.vain.knows_recent(spans) || repair.refused.load(Relaxed) {
        return None;
    }
    let n = pieces.start;
    let most = pieces.end.min(n + (MOST / spans.span.max(1)).max(1));
    let missing = worker.shared.tiers.stores.at(spans)?.missing(spans, n + 1..most);
    // The disk has just shown that the first is.
    let certain = missing.zip(n + 1..).take_while(|(missing, next)| missing == next).count() as u32 + 1;
    let pieces = n..most.min(n + certain.max(1 + suspect));
    let (seat, closer) = fills.gaps.enter(spans, pieces);
    if let Some(closer) = closer {
        let (worker, repair, patience) = (worker.clone(), repair.clone(), Cell::new(PATIENCE));
        let healer = Healer { worker, repair, spans: *spans, closer, patience };
        spawn_local(healer.run(n + certain));
    }
    Some(seat)
}

struct Healer {
    worker: Rc<Worker>,
    repair: Arc<Repair>,
    spans: Spans,
    closer: Closer,
    /// How often a store that is behind is still asked again.
    patience: Cell<u32>,
}

impl Healer {
    /// Goes on as long as somebody wants it, and to the end of a piece that has begun to come. Pieces before `suspect` are missing.
    async fn run(self, suspect: u32) {
        let shared = &self.worker.shared;
        // For a place among the bodies that are repaired.
        let until = Instant::now() + self.worker.settings().timeouts.origin_stall;
        self.find_end(suspect).await;
        let (end, mut tries) = (self.closer.pieces().end, TRIES);
        while self.closer.is_wanted() && self.closer.came().0 < end {
            let before = self.closer.came().0;
            let asked = self.ask(end).await;
            let goes_on = self.closer.came().0 > before;
            if goes_on {
                tries = TRIES;
            }
            match asked {
                Ok(true) => {}
                Ok(false) => return,
                Err(NoRest::Late) if goes_on => {}
                Err(NoRest::NoPlace) if Instant::now() < until => sleep(REST).await,
                Err(NoRest::NoPlace) => return,
                Err(NoRest::Again) if tries > 1 => {
                    tries -= 1;
                    sleep(REST).await;
                }
                Err(NoRest::Again | NoRest::Late | NoRest::Never) => {
                    return shared.fills.vain.note(&self.spans);
                }
                Err(NoRest::Refused) => {
                    self.repair.refused.store(true, Relaxed);
                    self.closer.refuse();
                    return shared.fills.vain.note_refusal(&self.spans);
                }
            }
        }
        if self.closer.came().0 == end {
            shared.fills.vain.forget(&self.spans);
        }
    }

    /// Looks which of the suspects are missing too: up to the first that is not.
    async fn find_end(&self, suspect: u32) {
        let Some(reader) = self.worker.readers.at(&self.spans) else { return };
        for n in suspect..self.closer.pieces().end {
            if !matches!(reader.look_span(&self.spans, n, &|| false).await, Lookup::Missing) {
                return self.closer.end_at(n);
            }
        }
    }

    /// Asks for what has not come yet of the pieces before `end`, and takes it in. False where those who wait have to ask again.
    async fn ask(&self, end: u32) -> Result<bool, NoRest> {
        let (first, came) = self.closer.came();
        let (from, to) = (self.spans.offset(first) + came as u64, self.spans.offset(end));
        let mut rest = self.repair.fetch(&self.worker, For::All, from, Some(to)).await?;
        // An origin that does not answer holds none.
        if !self.closer.holds() {
            let patience = self.worker.settings().timeouts.origin_stall;
            let lease = self.worker.shared.budget.origins.take(memory(&self.spans));
            let Ok(lease) = timeout(patience, lease).await else { return Ok(false) };
            self.closer.hold(lease);
        }
        let may_stay = || may_begin(&self.worker, &self.repair.target, For::One);
        let mut beyond = Bytes::new();
        for n in first..end {
            if !self.closer.is_wanted() {
                break;
            }
            self.take(n, &mut rest, &mut beyond).await?;
            if rest.may_be_stored && self.put_back(n, n + 1 == end).await {
                self.closer.put_back();
            } else if !self.closer.pass(HELD_UP, may_stay).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the rest of a piece; `beyond` came behind the one before.
    async fn take(&self, n: u32, rest: &mut Rest, beyond: &mut Bytes) -> Result<(), NoRest> {
        let mut left = self.spans.length_of(n) as usize - self.closer.came().1;
        while left > 0 {
            if beyond.is_empty() {
                let frame = match poll_fn(|cx| rest.poll_piece(cx)).await {
                    Some(Ok(frame)) => frame,
                    Some(Err(error)) if error.kind() == ErrorKind::TimedOut => return Err(NoRest::Late),
                    Some(Err(_)) | None => return Err(NoRest::Again),
                };
                let Ok(bytes) = frame.into_data() else { continue };
                *beyond = bytes;
            }
            let bytes = beyond.split_to(left.min(beyond.len()));
            left -= bytes.len();
            self.closer.push(&bytes);
        }
        Ok(())
    }

    /// A store that is behind is asked again for a moment in all.
    async fn put_back(&self, n: u32, last: bool) -> bool {
        let (Worker { shared, readers, .. }, piece) = (&*self.worker, self.closer.piece());
        let (key, spans) = (&self.repair.key, &self.spans);
        loop {
            let put = shared.tiers.put_back(key, (spans, n, last), &piece, readers.at(spans), &shared.names);
            match put.await {
                Some(Ok(())) => return true,
                Some(Err(Refused::Busy)) if self.patience.get() > 0 => {
                    self.patience.set(self.patience.get() - 1);
                    sleep(PAUSE).await;
                }
                Some(Err(_)) | None => return false,
            }
        }
    }
}
