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
//! A body that begins with a gap waits for that before its head is sent (`comes`): where the origin gives nothing, the request can
//! still be answered otherwise. An origin without ranges sends all of the body: then what is missing further on is taken from that too.
//!
//! What always holds: of a gap there is one request at a time, and no byte that came is asked for again, but for a reader that was too
//! slow for a piece that could not be put back, or where an origin without ranges broke off.

use crate::fill::gap::{Closer, Given, Seat};
use crate::fill::repair::Repair;
use crate::message::pieces::Pieces as _;
use crate::message::target::Target;
use crate::transfer::keeper::{PATIENCE, PAUSE};
use crate::transfer::mend::{For, NoRest, REST, Rest, may_begin};
use crate::worker::Worker;
use bytes::{Buf as _, Bytes};
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
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Instant, sleep, timeout};

/// Bytes that are asked for at once, about.
const MOST: u32 = 4 << 20;

/// Pieces that are looked at before others of the worker have their turn.
const LOOK: u32 = 1 << 10;

/// How often the origin is asked for one piece.
const TRIES: u8 = 3;

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

/// Waits for the first of these bytes of a body, which the store lost. False where the origin does not give it.
pub async fn comes(worker: &Rc<Worker>, repair: &Arc<Repair>, spans: &Spans, bytes: Range<u64>) -> bool {
    let (shared, n) = (&worker.shared, spans.piece_at(bytes.start));
    let pieces = n..spans.piece_at(bytes.end - 1).saturating_add(1);
    for _ in 0..TRIES {
        if shared.fills.vain.knows(spans) {
            return false;
        }
        let seat = enter(worker, repair, spans, pieces.clone(), 0);
        // It was put back meanwhile.
        if shared.tiers.stores.at(spans).is_none_or(|store| store.missing(spans, n..n + 1).next().is_none()) {
            return true;
        }
        let Some(mut seat) = seat else { return false };
        match poll_fn(|cx| seat.poll_at(cx, bytes.start)).await {
            Given::Bytes(_) | Given::Stored => {
                repair.keep_seat(seat);
                return true;
            }
            Given::Lost => return false,
            // Who asks next may not be.
            Given::Refused | Given::Beyond => {}
        }
    }
    false
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
        let seat = repair.as_ref().and_then(|repair| repair.take_seat());
        let stored = repair.as_ref().and_then(|repair| repair.stored);
        let size = stored.map_or(1, |spans| u64::from(spans.span.max(1)));
        Gaps { worker: worker.clone(), repair, seat, size, run: 0..0, missed: NOWHERE }
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
        let is_stored =
            || store.as_ref().is_some_and(|store| store.missing(spans, n..n + 1).next().is_none());
        let is_back = || times == 1 && is_stored();
        if is_back() {
            return true;
        }
        // Where one lies bad beside the other, more will: but only the disk tells, when it is read.
        let suspect = if n == self.run.end { self.run.len() as u32 } else { 0 };
        let end = self.piece(end - 1).saturating_add(1);
        self.seat = enter(&self.worker, repair, spans, n..end, suspect);
        // Or since then, by who closed the gap that it was in.
        if is_back() {
            self.seat = None;
            return true;
        }
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
    let certain = match worker.shared.tiers.stores.at(spans) {
        // The disk has just shown that the first is.
        Some(store) => {
            let missing = store.missing(spans, n + 1..most).zip(n + 1..);
            missing.take_while(|(missing, next)| missing == next).count() as u32 + 1
        }
        // It is left, and all that it holds with it.
        None => most - n,
    };
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
        let mut tries = TRIES;
        while self.closer.is_wanted() && !self.is_closed() {
            let before = self.closer.came().0;
            let asked = self.ask().await;
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
        if self.is_closed() {
            shared.fills.vain.forget(&self.spans);
        }
    }

    fn is_closed(&self) -> bool {
        self.closer.came().0 >= self.closer.pieces().end
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

    /// Asks for what has not come yet, and takes it in. False where those who wait have to ask again.
    async fn ask(&self) -> Result<bool, NoRest> {
        let ((first, came), mut end) = (self.closer.came(), self.closer.pieces().end);
        let (from, to) = (self.spans.offset(first) + came as u64, self.spans.offset(end));
        let mut rest = self.repair.fetch(&self.worker, For::All, from, Some(to)).await?;
        // An origin that does not answer holds none.
        if !self.closer.holds() {
            let patience = self.worker.settings().timeouts.origin_stall;
            let lease = self.worker.shared.budget.origins.take(memory(&self.spans));
            let Ok(lease) = timeout(patience, lease).await else { return Ok(false) };
            self.closer.hold(lease);
        }
        if rest.is_whole {
            let asked = std::mem::replace(&mut end, self.closer.extend(self.spans.count()));
            rest.extend(self.spans.offset(end) - self.spans.offset(asked));
        }
        let may_stay = || may_begin(&self.worker, &self.repair.target, For::One);
        let (mut beyond, mut n) = (Bytes::new(), first);
        while n < end && self.closer.is_wanted() {
            self.take(n, &mut rest, &mut beyond).await?;
            let next = if rest.is_whole { self.next_missing(n + 1, end).await } else { n + 1 };
            if rest.may_be_stored && self.put_back(n, next == end).await {
                self.closer.put_back();
            } else if !self.closer.pass(HELD_UP, may_stay).await {
                return Ok(false);
            }
            self.closer.pass_over(next);
            let sound = self.spans.offset(next) - self.spans.offset(n + 1);
            let here = beyond.len().min(usize::try_from(sound).unwrap_or(usize::MAX));
            beyond.advance(here);
            rest.pass_over(sound - here as u64);
            n = next;
        }
        Ok(true)
    }

    /// The first piece from `n` on that the store has not, or `end`.
    async fn next_missing(&self, mut n: u32, end: u32) -> u32 {
        let Some(store) = self.worker.shared.tiers.stores.at(&self.spans) else { return n };
        while n < end {
            let to = end.min(n.saturating_add(LOOK));
            if let Some(missing) = store.missing(&self.spans, n..to).next() {
                return missing;
            }
            n = to;
            yield_now().await;
        }
        end
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
            let put = shared.tiers.put_back(key, (spans, n, last), &piece, readers, &shared.names);
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
