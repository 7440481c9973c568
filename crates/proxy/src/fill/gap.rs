//! Pieces of a stored body that the disk lost, as they come from the origin again: one fetch for all who wait for them.
//!
//! What always holds: one piece is in one gap at most, so that nobody asks for what another asks for already; memory has one piece
//! at most, the one that comes (twice while it is put back), and a reader has a copy of `PIECE` bytes of it. A piece that was put
//! back (`transfer::heal` does that) is read from the store, so the fetch goes at the origin's pace and waits for no reader. Only
//! where a piece cannot be put back it stays until those who read it have it, as long as they hold up nobody for more than a
//! moment.

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
    /// How many readers are at which piece, and who waits for more of it.
    readers: BTreeMap<u32, usize>,
    wakers: Vec<Waker>,
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
}

/// The gaps that are being closed, of all workers. A reader is at one at most.
#[derive(Default)]
pub struct Gaps(Mutex<HashMap<Object, Vec<Arc<Gap>>>>);

/// The store that a body lies in, and its number there.
type Object = (u16, u64);

/// A reader's place at a gap.
pub struct Seat {
    gap: Arc<Gap>,
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
        let gap_of = |n: u32| of_body.iter().find(|gap| lock(&gap.state).brings(n));
        if let Some(gap) = gap_of(n) {
            return (Seat::new(gap.clone(), n), None);
        }
        pieces.end = pieces.clone().find(|n| gap_of(*n).is_some()).unwrap_or(pieces.end);
        let state = State {
            pieces,
            n,
            bytes: BytesMut::new(),
            lease: None,
            over: false,
            readers: BTreeMap::new(),
            wakers: Vec::new(),
            closer: None,
        };
        let gap = Arc::new(Gap { spans: *spans, state: Mutex::new(state) });
        of_body.push(gap.clone());
        (Seat::new(gap.clone(), n), Some(Closer { gap, gaps: self.clone() }))
    }

    /// A place at the gap that has a piece, if it is in one.
    pub fn find(&self, spans: &Spans, n: u32) -> Option<Seat> {
        let all = lock(&self.0);
        let gap = all.get(&object(spans))?.iter().find(|gap| lock(&gap.state).brings(n))?;
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
        drop(state);
        Seat { gap, at: n }
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
            [] if state.over => Given::Lost,
            [] => {
                if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            there => Given::Bytes(Bytes::copy_from_slice(&there[..there.len().min(PIECE)])),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.gap.state).leaves(self.at);
    }
}

impl State {
    /// It comes, or will. What was put back and is lost again is for another gap.
    fn brings(&self, n: u32) -> bool {
        n >= self.n && self.pieces.contains(&n)
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

    /// It brings nothing from this piece on after all.
    pub fn end_at(&self, end: u32) {
        let mut state = self.state();
        state.pieces.end = end;
        wake(state);
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

    /// The piece cannot be put back: the next one comes when those who read it have it, or hold up others for longer than that.
    pub async fn pass(&self, patience: Duration) {
        let _ = timeout(patience, self.until(|state| !state.is_read())).await;
        self.until(|state| !state.is_read() || state.is_waited_for()).await;
        let mut state = self.state();
        state.pieces.start = state.n + 1;
        drop(state);
        self.put_back();
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
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;

    const SPANS: Spans = Spans { store: 0, id: 7, length: 95, span: 10 };

    fn begin(gaps: &Arc<Gaps>, pieces: Range<u32>) -> (Seat, Closer) {
        let (seat, closer) = gaps.enter(&SPANS, pieces);
        (seat, closer.expect("somebody closes it already"))
    }

    fn given(seat: &mut Seat, at: u64) -> String {
        match seat.poll_at(&mut Context::from_waker(Waker::noop()), at) {
            Poll::Pending => "waits".into(),
            Poll::Ready(Given::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            Poll::Ready(Given::Stored) => "stored".into(),
            Poll::Ready(Given::Beyond) => "beyond".into(),
            Poll::Ready(Given::Lost) => "lost".into(),
        }
    }

    #[test]
    fn a_piece_is_in_one_gap_at_most() {
        let gaps = Arc::<Gaps>::default();
        let (seat, closer) = begin(&gaps, 3..6);
        assert!([3..4, 5..9].into_iter().all(|pieces| gaps.enter(&SPANS, pieces).1.is_none()));
        let (_, before) = begin(&gaps, 1..9);
        assert_eq!((before.pieces(), closer.pieces()), (1..3, 3..6));
        assert!(gaps.find(&SPANS, 5).is_some_and(|seat| Arc::ptr_eq(&seat.gap, &closer.gap)));
        assert!(gaps.find(&SPANS, 6).is_none() && gaps.find(&Spans { id: 8, ..SPANS }, 5).is_none());
        closer.end_at(4);
        let (_, after) = begin(&gaps, 4..9);
        assert_eq!(after.pieces(), 4..9);
        drop((closer, before, after));
        assert!(!gaps.are_closing(&SPANS) && lock(&gaps.0).is_empty());
        drop(seat);
        begin(&gaps, 3..4);
    }

    #[test]
    fn readers_get_what_comes_then_what_is_stored_and_are_told_when_no_more_does() {
        let gaps = Arc::<Gaps>::default();
        let (mut seat, closer) = begin(&gaps, 3..5);
        assert!(closer.is_wanted());
        assert_eq!(given(&mut seat, 30), "waits");
        closer.push(b"01234");
        assert_eq!(given(&mut seat, 32), "234");
        assert_eq!([given(&mut seat, 35), given(&mut seat, 40)], ["waits", "waits"]);
        assert_eq!([given(&mut seat, 29), given(&mut seat, 50)], ["beyond", "beyond"]);
        closer.push(b"56789");
        assert_eq!((closer.piece(), closer.came()), ("0123456789".into(), (3, 10)));
        closer.put_back();
        closer.push(b"x");
        assert_eq!([given(&mut seat, 39), given(&mut seat, 40)], ["stored", "x"]);
        // Who reads the store is still on the way to what comes.
        assert_eq!((given(&mut seat, 30).as_str(), closer.is_wanted()), ("stored", true));
        drop(closer);
        assert_eq!([given(&mut seat, 40), given(&mut seat, 41)], ["x", "lost"]);
    }

    #[test]
    fn what_it_was_taken_from_goes_back_when_it_is_closed_wherever_its_readers_are() {
        let pool = crate::budget::Budget::new(0, 0).origins;
        let gaps = Arc::<Gaps>::default();
        let (mut seat, closer) = begin(&gaps, 3..4);
        closer.hold(pool.try_take(1 << 10).unwrap());
        closer.push(b"0123456789");
        assert!(given(&mut seat, 30) == "0123456789" && pool.taken() > 0);
        closer.put_back();
        drop(closer);
        assert_eq!((given(&mut seat, 31).as_str(), pool.taken()), ("stored", 0));
    }

    #[test]
    fn a_reader_gets_no_more_at_once_than_its_connection_has_anyway() {
        let spans = Spans { span: 1 << 20, length: 1 << 30, ..SPANS };
        let (mut seat, closer) = Arc::<Gaps>::default().enter(&spans, 0..1);
        closer.as_ref().unwrap().push(&[b'x'; 1 << 20]);
        assert_eq!(given(&mut seat, 0).len(), HELD_ANYWAY);
    }

    #[tokio::test]
    async fn what_is_not_put_back_stays_until_its_readers_have_it() {
        let gaps = Arc::<Gaps>::default();
        let (mut first, closer) = begin(&gaps, 3..6);
        let mut second = gaps.find(&SPANS, 3).unwrap();
        closer.push(b"0123456789");
        let context = &mut Context::from_waker(Waker::noop());
        let mut pass = pin!(closer.pass(Duration::ZERO));
        // However long both take.
        assert!(pass.as_mut().poll(context).is_pending());
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(given(&mut first, 39) == "9" && pass.as_mut().poll(context).is_pending());
        // One that waits for the next piece is held up by the other no longer than that.
        assert_eq!(given(&mut first, 40), "waits");
        let mut patient = pin!(closer.pass(Duration::from_secs(600)));
        assert!(patient.as_mut().poll(context).is_pending());
        assert!(pass.as_mut().poll(context).is_ready());
        assert_eq!((given(&mut second, 30).as_str(), closer.pieces()), ("beyond", 4..6));
        // Somebody else may ask for it again.
        assert!(gaps.find(&SPANS, 3).is_none());
        closer.push(b"x");
        assert_eq!((closer.came(), given(&mut first, 40).as_str()), ((4, 1), "x"));
    }
}
