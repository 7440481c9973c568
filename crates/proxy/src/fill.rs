//! One origin fetch for simultaneous misses: who leads, who follows, and the window of bytes they share.
//!
//! The leader's fetch decides when the response's head is there: what is storable is read once, by a pump (`pump`),
//! into a bounded window from which every reader takes it at its own pace, on whatever worker it runs. What is not
//! storable sends the followers off on their own, and its key is remembered so that nobody waits for it again.
//! What always holds: bytes leave the window only when every reader took them or the store can give them; it grows
//! beyond its bound only by what is gathered for the store anyway, at most one span; every reader learns whether the
//! body ended or broke off.

use crate::invalidation::Moment;
use crate::memory::Held;
use crate::respond::Refusal;
use crate::tiers::Tiers;
use bytes::Bytes;
use http::StatusCode;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use store::{Key, Spans, Writer};

/// The fills in progress, of all workers.
pub struct Fills {
    table: Mutex<HashMap<u128, Arc<Fill>>>,
    alone: Mutex<Alone>,
    window: usize,
}

/// Keys whose last response was not storable: two generations, so that forgetting costs nothing.
struct Alone {
    young: HashMap<u128, Instant>,
    old: HashMap<u128, Instant>,
    lifetime: Duration,
    max: usize,
}

/// One fetch that several requests may share.
pub struct Fill {
    key: Key,
    /// What was removed later, it may be.
    began: Moment,
    head: OnceLock<Arc<Opened>>,
    state: Mutex<State>,
    window: usize,
}

/// What the leader learned from the response's head.
pub struct Opened {
    /// The key under which the object will lie: the request's own, or its variant's.
    pub key: Key,
    /// The head and the fields of an answer; its body is empty.
    pub held: Held,
    /// The body's length, when the origin told.
    pub length: Option<u64>,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    window: VecDeque<Bytes>,
    /// Offsets in the body of the window's two ends.
    start: u64,
    end: u64,
    ended: Option<End>,
    readers: HashMap<u64, Slot>,
    next: u64,
    pump: Option<Waker>,
    /// What of the body the store can give back: everything before `readable`.
    spans: Option<Spans>,
    readable: u64,
    /// The body is being kept: what the window holds is in memory anyway, until the store can give it.
    kept: bool,
    /// A write that the store broke off: what it wrote stays readable as long as somebody may read it.
    broken_off: Option<Writer>,
}

#[derive(Default)]
enum Outcome {
    #[default]
    Waiting,
    Open,
    /// The response is not for sharing.
    Alone,
    /// Look again: the stored response was validated, or the leader went away.
    Again,
    Failed(Failure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Complete,
    Broken,
}

struct Slot {
    at: u64,
    waker: Option<Waker>,
}

/// How a request takes part.
pub enum Joined {
    Leader(Lead),
    Follower(Seat),
    /// Not worth waiting: fetch alone.
    Alone,
}

/// The duty to decide a fill; dropping it undecided sends the followers to look again.
pub struct Lead {
    fill: Arc<Fill>,
    /// Where it is to be found; a lone fetch is nowhere.
    table: Option<Arc<Fills>>,
}

/// One reader's place in a fill.
pub struct Seat {
    fill: Arc<Fill>,
    id: u64,
}

/// Why an origin gave no answer of use.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the client is told, if nothing stands in.
    pub refusal: Refusal,
    /// The error that the origin did answer.
    pub answered: Option<StatusCode>,
}

/// What a follower learns.
pub enum News {
    Open(Arc<Opened>),
    Alone,
    Again,
    Failed(Failure),
}

/// The next thing for a reader.
pub enum Piece {
    Bytes(Bytes),
    /// The window moved on: the store has what is at this offset.
    Stored(Spans, u64),
    End(End),
}

/// What the pump is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Yes,
    NobodyReads,
}

impl Fills {
    pub fn new(window: usize, lifetime: Duration, remembered: usize) -> Arc<Fills> {
        let alone = Alone { young: HashMap::new(), old: HashMap::new(), lifetime, max: remembered / 2 };
        Arc::new(Fills { table: Mutex::default(), alone: Mutex::new(alone), window })
    }

    /// Joins the fetch of a key, or starts it. What was removed meanwhile is not joined, but fetched anew.
    pub fn join(self: &Arc<Fills>, key: &Key, tiers: &Tiers) -> Joined {
        let mut table = lock(&self.table);
        if let Some(fill) = table.get(&key.hash()).filter(|fill| !fill.is_outdated(tiers)) {
            let seat = if fill.is_for(key) { Seat::take(fill) } else { None };
            return seat.map_or(Joined::Alone, Joined::Follower);
        }
        if lock(&self.alone).knows(key.hash()) {
            return Joined::Alone;
        }
        let fill = Fill::new(key.clone(), tiers.now(), self.window);
        table.insert(key.hash(), fill.clone());
        Joined::Leader(Lead { fill, table: Some(self.clone()) })
    }

    /// A fetch that nobody follows.
    pub fn lone(&self, key: &Key, began: Moment) -> Lead {
        Lead { fill: Fill::new(key.clone(), began, self.window), table: None }
    }

    /// The object will lie under another key than was asked for: it is found under both.
    fn list_also(&self, key: &Key, fill: &Arc<Fill>) {
        lock(&self.table).entry(key.hash()).or_insert_with(|| fill.clone());
    }

    fn leave(&self, fill: &Arc<Fill>) {
        let mut table = lock(&self.table);
        for key in [Some(&fill.key), fill.head.get().map(|opened| &opened.key)].into_iter().flatten() {
            if table.get(&key.hash()).is_some_and(|found| Arc::ptr_eq(found, fill)) {
                table.remove(&key.hash());
            }
        }
    }
}

impl Alone {
    fn knows(&self, key: u128) -> bool {
        let since = self.young.get(&key).or_else(|| self.old.get(&key));
        since.is_some_and(|since| since.elapsed() < self.lifetime)
    }

    fn remember(&mut self, key: u128) {
        if self.young.len() >= self.max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Instant::now());
    }

    fn forget(&mut self, key: u128) {
        self.young.remove(&key);
        self.old.remove(&key);
    }
}

impl Lead {
    /// The response is storable: followers read along. Returns the leader's own seat.
    pub fn open(&self, opened: Opened) -> Seat {
        let opened = self.fill.head.get_or_init(|| Arc::new(opened));
        if let Some(table) = &self.table {
            table.list_also(&opened.key, &self.fill);
        }
        let seat = self.fill.seat();
        self.decide(Outcome::Open);
        seat
    }

    /// The response is not storable.
    pub fn alone(self, fills: &Fills) {
        lock(&fills.alone).remember(self.fill.key.hash());
        self.decide(Outcome::Alone);
    }

    /// The key's response is storable after all.
    pub fn worth_waiting(&self, fills: &Fills) {
        if self.table.is_none() {
            lock(&fills.alone).forget(self.fill.key.hash());
        }
    }

    pub fn again(self) {
        self.decide(Outcome::Again);
    }

    pub fn failed(self, failure: Failure) {
        self.decide(Outcome::Failed(failure));
    }

    fn decide(&self, outcome: Outcome) {
        let mut state = self.fill.lock();
        if matches!(state.outcome, Outcome::Waiting) {
            state.outcome = outcome;
        }
        wake_readers(state);
    }

    /// The pump's side.
    pub fn push(&self, bytes: Bytes) {
        let mut state = self.fill.lock();
        state.end += bytes.len() as u64;
        state.window.push_back(bytes);
        wake_readers(state);
    }

    /// Tells what of the body the store can give back.
    pub fn stored(&self, spans: Spans, readable: u64) {
        let mut state = self.fill.lock();
        state.spans = Some(spans);
        state.readable = readable;
    }

    /// Whether the body is being kept, so that the window may let go only of what the store can give.
    pub fn keeping(&self, kept: bool) {
        self.fill.lock().kept = kept;
    }

    /// Keeps what a refused write has written for the readers that fell behind.
    pub fn keep_written(&self, writer: Writer) {
        self.fill.lock().broken_off = Some(writer);
    }

    /// Waits until the window has room again, or nobody reads any more.
    pub async fn room(&self) -> Room {
        poll_fn(|cx| self.poll_room(cx)).await
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Room> {
        let mut state = self.fill.lock();
        state.make_room(self.fill.window);
        if state.readers.is_empty() {
            return Poll::Ready(Room::NobodyReads);
        }
        if state.filled() < self.fill.window || (state.kept && state.somebody_starves()) {
            return Poll::Ready(Room::Yes);
        }
        state.pump = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The body is over. From here on requests find the object, or fetch it anew.
    pub fn end(self, end: End) {
        let mut state = self.fill.lock();
        state.ended = Some(end);
        wake_readers(state);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.leave(&self.fill);
        }
        let mut state = self.fill.lock();
        if matches!(state.outcome, Outcome::Waiting) {
            state.outcome = Outcome::Again;
        }
        state.ended.get_or_insert(End::Broken);
        wake_readers(state);
    }
}

impl Fill {
    fn new(key: Key, began: Moment, window: usize) -> Arc<Fill> {
        Arc::new(Fill { key, began, head: OnceLock::new(), state: Mutex::default(), window })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether what it brings was removed since it began.
    fn is_outdated(&self, tiers: &Tiers) -> bool {
        tiers.is_removed_since(&self.key, self.began)
            || self.head.get().is_some_and(|opened| tiers.covers(&opened.held))
    }

    fn is_for(&self, key: &Key) -> bool {
        self.key == *key || self.head.get().is_some_and(|opened| opened.key == *key)
    }

    fn seat(self: &Arc<Fill>) -> Seat {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.readers.insert(id, Slot { at: 0, waker: None });
        Seat { fill: self.clone(), id }
    }
}

impl State {
    /// A reader took all there is. What is kept need not wait for the others: they find it in the store.
    fn somebody_starves(&self) -> bool {
        self.readers.values().any(|slot| slot.at >= self.end)
    }

    fn filled(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }

    /// When full, lets go of pieces that the store can give, or, when nothing is kept, that every reader took. Until
    /// then they stay, for readers that are yet to come.
    fn make_room(&mut self, max: usize) {
        let slowest = self.readers.values().map(|slot| slot.at).min().unwrap_or(self.end);
        let spared = if self.kept { self.readable } else { slowest.max(self.readable) };
        while self.filled() >= max
            && let Some(first) = self.window.front()
        {
            let end = self.start + first.len() as u64;
            if end > spared {
                break;
            }
            self.start = end;
            self.window.pop_front();
        }
    }

    /// The piece at an offset within the window, from that offset on.
    fn piece(&self, at: u64) -> Option<Bytes> {
        let mut from = self.start;
        for piece in &self.window {
            let end = from + piece.len() as u64;
            if at < end {
                return Some(piece.slice(usize::try_from(at - from).ok()?..));
            }
            from = end;
        }
        None
    }

    /// Whether a reader can still begin.
    fn reaches_back(&self) -> bool {
        self.start == 0 || (self.spans.is_some() && self.readable >= self.start)
    }
}

impl Seat {
    /// A place at the body's beginning, if that can still be had.
    fn take(fill: &Arc<Fill>) -> Option<Seat> {
        let fits = {
            let state = fill.lock();
            state.reaches_back() && state.ended != Some(End::Broken)
        };
        fits.then(|| fill.seat())
    }

    /// Waits for the leader's decision.
    pub async fn news(&self) -> News {
        poll_fn(|cx| {
            let mut state = self.fill.lock();
            let news = match &state.outcome {
                Outcome::Waiting => {
                    self.wait(&mut state, cx);
                    return Poll::Pending;
                }
                Outcome::Open => self.fill.head.get().map_or(News::Again, |head| News::Open(head.clone())),
                Outcome::Alone => News::Alone,
                Outcome::Again => News::Again,
                Outcome::Failed(failure) => News::Failed(failure.clone()),
            };
            Poll::Ready(news)
        })
        .await
    }

    /// The next bytes. What it gives counts as taken.
    pub fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut state = self.fill.lock();
        let Some(at) = state.readers.get(&self.id).map(|slot| slot.at) else {
            return Poll::Ready(Piece::End(End::Broken));
        };
        if at < state.start {
            let piece = state.spans.map_or(Piece::End(End::Broken), |spans| Piece::Stored(spans, at));
            return Poll::Ready(piece);
        }
        if let Some(bytes) = state.piece(at) {
            self.advance(state, bytes.len() as u64);
            return Poll::Ready(Piece::Bytes(bytes));
        }
        match state.ended {
            Some(end) => Poll::Ready(Piece::End(end)),
            None => {
                self.wait(&mut state, cx);
                Poll::Pending
            }
        }
    }

    /// Bytes that came from the store count as taken too.
    pub fn took(&self, bytes: u64) {
        self.advance(self.fill.lock(), bytes);
    }

    fn advance(&self, mut state: MutexGuard<'_, State>, bytes: u64) {
        if let Some(slot) = state.readers.get_mut(&self.id) {
            slot.at += bytes;
        }
        state.make_room(self.fill.window);
        if state.filled() < self.fill.window || state.somebody_starves() {
            wake_pump(state);
        }
    }

    fn wait(&self, state: &mut State, cx: &mut Context<'_>) {
        if let Some(slot) = state.readers.get_mut(&self.id) {
            slot.waker = Some(cx.waker().clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        state.readers.remove(&self.id);
        state.make_room(self.fill.window);
        wake_pump(state);
    }
}

/// Nothing that holds these locks can panic halfway through a change; a poisoned one is as good as another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn wake_readers(mut state: MutexGuard<'_, State>) {
    let wakers: Vec<Waker> = state.readers.values_mut().filter_map(|slot| slot.waker.take()).collect();
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

fn wake_pump(mut state: MutexGuard<'_, State>) {
    let waker = state.pump.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
