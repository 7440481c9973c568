//! Pieces of a stored body that the disk lost, as they come from the origin again: one fetch for all who wait for them.
//!
//! What always holds: one piece is in one gap at most, so that nobody asks for what another asks for already; memory has one piece
//! at most, the one that comes (twice while it is put back), and a reader has a copy of `PIECE` bytes of it. A piece that was put
//! back (`transfer::heal` does that) is read from the store, so the fetch goes at the origin's pace and waits for no reader. Only
//! where a piece cannot be put back it stays until those who read it have it, as long as they hold up nobody for more than a
//! moment. A reader costs a place in two ordered maps.

use super::lock;
use crate::budget::{HELD_ANYWAY, Lease};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use store::Spans;
use tokio::time::timeout;

/// Bytes that a reader gets at once: a copy, of no more than its connection has anyway.
const PIECE: usize = HELD_ANYWAY;

/// Neighbouring pieces of one body.
struct Gap {
    spans: Spans,
    state: Mutex<State>,
}

struct State {
    /// What it brings. Pieces that came and were not put back are none of it any more.
    pieces: Range<u32>,
    /// The piece that comes, what of it is here, and what that is taken from.
    n: u32,
    bytes: BytesMut,
    lease: Option<Lease>,
    /// No more comes.
    over: bool,
    /// Since the request was refused that asked for it: another's may not be.
    refused: bool,
    /// How many readers are at which piece, and who waits for more of it, by the numbers of their seats.
    readers: BTreeMap<u32, usize>,
    wakers: BTreeMap<u64, Waker>,
    seats: u64,
    /// Waits for them.
    closer: Option<Waker>,
}

/// What a reader gets of a gap.
pub enum Given {
    Bytes(Bytes),
    /// It is to be looked for in the store.
    Stored,
    /// And this gap has nothing more for who has come so far.
    Beyond,
    /// It does not come.
    Lost,
    /// Nor does it, since the one who asked was refused.
    Refused,
}

/// The gaps that are being closed, of all workers. A reader is at one at most.
#[derive(Default)]
pub struct Gaps(Mutex<HashMap<Object, Vec<Arc<Gap>>>>);

/// The store that a body lies in, and its number there.
type Object = (u16, u64);

/// A reader's place at a gap.
pub struct Seat {
    gap: Arc<Gap>,
    number: u64,
    at: u32,
}

/// The duty to close a gap, of which there is one. Dropping it is the end, however far that came.
pub struct Closer {
    gap: Arc<Gap>,
    gaps: Arc<Gaps>,
}

impl Gaps {
    /// A place at the gap that has the first of these pieces; and the duty to close that, if nobody had: as far as the first of them
    /// that is in another gap.
    pub fn enter(self: &Arc<Gaps>, spans: &Spans, mut pieces: Range<u32>) -> (Seat, Option<Closer>) {
        let mut all = lock(&self.0);
        let of_body = all.entry(object(spans)).or_default();
        let n = pieces.start;
        let next = of_body.iter().filter_map(|gap| Some((lock(&gap.state).next_from(n)?, gap)));
        match next.min_by_key(|(next, _)| *next) {
            Some((next, gap)) if next == n => return (Seat::new(gap.clone(), n), None),
            Some((next, _)) => pieces.end = pieces.end.min(next),
            None => {}
        }
        let state = State {
            pieces,
            n,
            bytes: BytesMut::new(),
            lease: None,
            over: false,
            refused: false,
            readers: BTreeMap::new(),
            wakers: BTreeMap::new(),
            seats: 0,
            closer: None,
        };
        let gap = Arc::new(Gap { spans: *spans, state: Mutex::new(state) });
        of_body.push(gap.clone());
        (Seat::new(gap.clone(), n), Some(Closer { gap, gaps: self.clone() }))
    }

    /// A place at the gap that has a piece, if it is in one.
    pub fn find(&self, spans: &Spans, n: u32) -> Option<Seat> {
        let all = lock(&self.0);
        let gap = all.get(&object(spans))?.iter().find(|gap| lock(&gap.state).next_from(n) == Some(n))?;
        Some(Seat::new(gap.clone(), n))
    }

    /// Whether gaps of a body are being closed.
    pub fn are_closing(&self, spans: &Spans) -> bool {
        lock(&self.0).contains_key(&object(spans))
    }
}

fn object(spans: &Spans) -> Object {
    (spans.store, spans.id)
}

impl Seat {
    fn new(gap: Arc<Gap>, n: u32) -> Seat {
        let mut state = lock(&gap.state);
        *state.readers.entry(n).or_default() += 1;
        if let Some(closer) = state.closer.take() {
            closer.wake();
        }
        state.seats += 1;
        let number = state.seats;
        drop(state);
        Seat { gap, number, at: n }
    }

    /// The bytes from `at` on, an offset in the whole body.
    pub fn poll_at(&mut self, cx: &mut Context<'_>, at: u64) -> Poll<Given> {
        let spans = &self.gap.spans;
        let (n, skipped) = (spans.piece_at(at), (at % u64::from(spans.span.max(1))) as usize);
        let mut state = lock(&self.gap.state);
        if n != self.at {
            *state.readers.entry(n).or_default() += 1;
            state.leaves(self.at);
            self.at = n;
        }
        let there = if n == state.n { state.bytes.get(skipped..).unwrap_or_default() } else { &[] };
        Poll::Ready(match there {
            _ if !state.pieces.contains(&n) => Given::Beyond,
            _ if n < state.n => Given::Stored,
            [] if state.over && state.refused => Given::Refused,
            [] if state.over => Given::Lost,
            [] => {
                state.wakers.insert(self.number, cx.waker().clone());
                return Poll::Pending;
            }
            there => Given::Bytes(Bytes::copy_from_slice(&there[..there.len().min(PIECE)])),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = lock(&self.gap.state);
        state.wakers.remove(&self.number);
        state.leaves(self.at);
    }
}

impl State {
    /// The first piece from `n` on that comes, or will. What was put back and is lost again is for another gap.
    fn next_from(&self, n: u32) -> Option<u32> {
        let next = n.max(self.n).max(self.pieces.start);
        self.pieces.contains(&next).then_some(next)
    }

    fn leaves(&mut self, n: u32) {
        if let Some(count) = self.readers.get_mut(&n) {
            *count -= 1;
            if *count == 0 {
                self.readers.remove(&n);
            }
        }
        if let Some(closer) = self.closer.take() {
            closer.wake();
        }
    }

    /// Somebody still takes the piece that is here.
    fn is_read(&self) -> bool {
        self.readers.first_key_value().is_some_and(|(first, _)| *first <= self.n)
    }

    /// Somebody waits for what comes after it.
    fn is_waited_for(&self) -> bool {
        self.readers.last_key_value().is_some_and(|(last, _)| *last > self.n)
    }
}

impl Closer {
    pub fn pieces(&self) -> Range<u32> {
        self.state().pieces.clone()
    }

    /// Takes what its piece is taken from.
    pub fn hold(&self, lease: Lease) {
        self.state().lease = Some(lease);
    }

    /// It brings nothing from this piece on.
    pub fn end_at(&self, end: u32) {
        let mut state = self.state();
        state.pieces.end = end;
        wake(state);
    }

    /// It brings what is missing of the pieces before `end` too, up to the next gap. Returns where that ends.
    pub fn extend(&self, end: u32) -> u32 {
        let (all, from) = (lock(&self.gaps.0), self.pieces().end);
        let of_body = all.get(&object(&self.gap.spans)).into_iter().flatten();
        let others = of_body.filter(|gap| !Arc::ptr_eq(gap, &self.gap));
        let next = others.filter_map(|gap| lock(&gap.state).next_from(from)).min();
        let end = next.unwrap_or(end).min(end).max(from);
        self.end_at(end);
        end
    }

    /// Whether somebody waits for it, or has yet to come to the end of it.
    pub fn is_wanted(&self) -> bool {
        !self.state().readers.is_empty()
    }

    /// The next bytes of the piece that comes, no more than it has.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.bytes.extend_from_slice(bytes);
        wake(state);
    }

    /// The piece that comes, and how many bytes of it are here.
    pub fn came(&self) -> (u32, usize) {
        let state = self.state();
        (state.n, state.bytes.len())
    }

    /// All of the piece that comes, so far.
    pub fn piece(&self) -> Bytes {
        Bytes::copy_from_slice(&self.state().bytes)
    }

    /// The piece was put back: the next one comes.
    pub fn put_back(&self) {
        let mut state = self.state();
        state.n += 1;
        state.bytes.clear();
        wake(state);
    }

    /// The pieces before this one are in the store: it comes next.
    pub fn pass_over(&self, next: u32) {
        let mut state = self.state();
        state.n = next;
        wake(state);
    }

    /// The piece cannot be put back: the next one comes when those who read it have it, or hold up others for longer than
    /// `patience`. False if none comes: those who read it have to take it without the fetch, for which there is a place as long as
    /// they `may_stay`, which is asked once in that time.
    pub async fn pass(&self, patience: Duration, may_stay: impl Fn() -> bool) -> bool {
        let mut ends = timeout(patience, self.until(|state| !state.is_read())).await;
        while ends.is_err() {
            if !self.state().is_waited_for() && !may_stay() {
                return false;
            }
            ends = timeout(patience, self.until(|state| !state.is_read() || state.is_waited_for())).await;
        }
        let mut state = self.state();
        state.pieces.start = state.n + 1;
        drop(state);
        self.put_back();
        true
    }

    /// The request that asked for it was refused, which is the end.
    pub fn refuse(&self) {
        self.state().refused = true;
    }

    /// Whether it holds what its piece is taken from.
    pub fn holds(&self) -> bool {
        self.state().lease.is_some()
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.state();
            if is_so(&state) {
                return Poll::Ready(());
            }
            state.closer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.gap.state)
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        let mut all = lock(&self.gaps.0);
        if let Some(of_body) = all.get_mut(&object(&self.gap.spans)) {
            of_body.retain(|gap| !Arc::ptr_eq(gap, &self.gap));
            if of_body.is_empty() {
                all.remove(&object(&self.gap.spans));
            }
        }
        drop(all);
        let mut state = self.state();
        state.over = true;
        if state.bytes.is_empty() {
            // Those who have yet to come to its end read the store.
            (state.bytes, state.lease) = (BytesMut::new(), None);
        }
        // It is put back no more.
        let left = state.bytes.len();
        state.lease.iter_mut().for_each(|lease| lease.shrink(left));
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

#[cfg(test)]
mod tests;
