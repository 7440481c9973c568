//! One origin fetch for simultaneous misses: who leads, who follows, and the window of bytes they share.
//!
//! A shared fill has one leader at a time. What becomes of its fetch decides for those who wait:
//!
//! | the leader's fetch | those who wait | who asks then |
//! |---|---|---|
//! | brings a storable response | read along (`open`) | none |
//! | brings all of one at once, or validates what is stored | are answered from it (`answered`) | none |
//! | comes to nothing, whoever asks: no connection, no answer in time | get the failure (`failed`) | none |
//! | says that the resource is not for sharing: no-store, private, … | fetch alone; the key is remembered (`alone`) | all |
//! | says nothing of the resource: 5xx, 429, a connection that broke after the request (`unusable`) | who waits for longest takes over, the others wait on | 1, 2, 4, … |
//! | its client left | the same; beyond one fetch's time (`turn`) since the fill began, in growing numbers too | 1 |
//! | was for what has been invalidated meanwhile, or was answered from elsewhere (`again`) | look again | 1 |
//!
//! Of several that are called at once the first takes over the fill and the others fetch alone. Nobody waits for longer
//! than it takes to ask in doubled numbers: of N who wait, the last has its answer after `turn` times log2 N + 2.
//! Whom an answer does not suit (its variant, or what it asks for, is another) looks again, and each time more of
//! those may fetch beside the leader: 1, 4, 16, …
//!
//! What is storable is read once, by a pump (`pump`), into a bounded window from which every reader takes it at its own
//! pace, on whatever worker it runs.
//! What always holds: bytes leave the window only when every reader took them or the store can give them, except those of
//! readers that held up the others for too long, which are cut off; the window grows beyond its bound only by what is
//! gathered for the store anyway, at most one span; a reader costs a place in two ordered maps; everybody who joined
//! learns an outcome, and every reader whether the body ended or broke off.

pub mod repair;
pub mod window;

use self::repair::Repair;
use self::window::Window;
use crate::message::refusal::Refusal;
use crate::tiers::Tiers;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::Held;
use bytes::Bytes;
use cache::Verdict;
use http::StatusCode;
use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use store::{Key, Spans, Writer};
use tokio::time::sleep;

/// How long readers that are slow may hold up one that is not, in one go. In the long run it is a fifth of the time.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a request looks again after another's fetch did not suit it: then it fetches alone. By then nearly all
/// who are in the same case do, since their number grows.
pub const LOOKS: u32 = 8;

/// The fills in progress, of all workers.
pub struct Fills {
    table: Mutex<HashMap<u128, Arc<Fill>>>,
    alone: Mutex<Alone>,
    window: usize,
    turn: Duration,
}

/// Keys whose last response was not for sharing: two generations, so that forgetting costs nothing.
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
    /// Where it is found; a lone fetch is nowhere.
    home: Option<Arc<Fills>>,
    head: OnceLock<Arc<Opened>>,
    state: Mutex<State>,
    window: usize,
    since: Instant,
}

/// What the leader learned from the response's head.
pub struct Opened {
    /// The key under which the object will lie: the request's own, or its variant's.
    pub key: Key,
    /// The head and the fields of an answer; its body is empty.
    pub held: Held,
    /// The body's length, when the origin told.
    pub length: Option<u64>,
    /// What the response is to the leader itself.
    pub verdict: Verdict,
    /// How the origin is asked for what a reader misses.
    pub repair: Option<Arc<Repair>>,
}

/// A response that is all here.
#[derive(Clone)]
pub struct Answer {
    pub held: Arc<Held>,
    /// The origin said that it holds; otherwise it sent it.
    pub validated: bool,
    /// What the response is to the leader itself.
    pub verdict: Verdict,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    /// How many were called last, after an answer that was of no use.
    called: usize,
    /// The leader's answer was of no use to the others.
    unusable: bool,
    /// Those who fetch beside the leader, since nothing suited them.
    beside: u32,
    window: Window,
    ended: Option<End>,
    /// In the order in which they came.
    readers: BTreeMap<u64, Slot>,
    next: u64,
    /// How many readers are where, without those that were cut off.
    places: BTreeMap<u64, usize>,
    /// Readers that wait for more bytes, or for news.
    hungry: usize,
    patience: Patience,
    pump: Option<Waker>,
    /// What of the body the store can give back: everything before `readable`.
    spans: Option<Spans>,
    readable: u64,
    /// The body is being kept: what the window holds is in memory anyway, until the store can give it.
    kept: bool,
    /// A write that came to nothing: what it wrote stays readable as long as somebody may read it.
    broken_off: Option<Writer>,
}

#[derive(Default)]
enum Outcome {
    #[default]
    Waiting,
    Open,
    Answered(Answer),
    /// The response is not for sharing.
    Alone,
    /// Look again.
    Again,
    Failed(Failure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Complete,
    Broken,
}

#[derive(Default)]
struct Slot {
    at: u64,
    waker: Option<Waker>,
    call: Option<Call>,
    /// It held up the others: nothing waits for it any more.
    cut: bool,
}

/// What one of those who wait is to do when the others wait on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Lead,
    Alone,
}

/// How a request takes part.
pub enum Joined {
    Leader(Lead),
    Follower(Seat),
    /// Not worth waiting: fetch alone.
    Alone,
}

/// The duty to decide a fill; dropping it undecided calls another.
pub struct Lead {
    fill: Arc<Fill>,
}

/// One reader's place in a fill.
pub struct Seat {
    fill: Arc<Fill>,
    id: u64,
    /// The response had not come yet when it joined.
    pub early: bool,
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
    Answered(Answer),
    /// It takes over.
    Lead(Lead),
    Alone,
    Again,
    Failed(Failure),
}

/// The next thing for a reader.
pub enum Piece {
    Bytes(Bytes),
    /// The window moved on: the store has what is at this offset.
    Stored(Spans, u64),
    /// The window moved on, and nothing has it any more.
    Gone,
    End(End),
}

/// What the pump is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Yes,
    NobodyReads,
}

impl Fills {
    /// `turn` is how long one fetch may take to its response's head.
    pub fn new(window: usize, lifetime: Duration, remembered: usize, turn: Duration) -> Arc<Fills> {
        let alone = Alone { young: HashMap::new(), old: HashMap::new(), lifetime, max: remembered / 2 };
        Arc::new(Fills { table: Mutex::default(), alone: Mutex::new(alone), window, turn })
    }

    /// Joins the fetch of a key, or starts it. What was removed since a fetch began is fetched anew. `vain` counts the fetches that did not suit the request, of which
    /// `refused` was the last, if that still goes on.
    pub fn join(
        self: &Arc<Fills>,
        key: &Key,
        tiers: &Tiers,
        vain: u32,
        refused: Option<&Arc<Opened>>,
    ) -> Joined {
        let mut table = lock(&self.table);
        if let Some(fill) = table.get(&key.hash()).filter(|fill| !fill.is_outdated(tiers)) {
            if !fill.is_for(key) {
                return Joined::Alone;
            }
            let open = fill.head.get();
            let same = open.zip(refused).is_some_and(|(open, refused)| Arc::ptr_eq(open, refused));
            if !same && let Some(joined) = fill.join(vain) {
                return joined;
            }
        }
        if lock(&self.alone).knows(key.hash()) {
            return Joined::Alone;
        }
        // It takes the place of one that is of no use to whoever comes now.
        let fill = Fill::new(key.clone(), tiers.now(), self.window, Some(self.clone()));
        table.insert(key.hash(), fill.clone());
        Joined::Leader(Lead { fill })
    }

    /// A fetch that nobody follows.
    pub fn lone(&self, key: &Key, began: Moment) -> Lead {
        Lead { fill: Fill::new(key.clone(), began, self.window, None) }
    }

    /// The object will lie under another key than was asked for: it is found under both.
    fn list_also(&self, key: &Key, fill: &Arc<Fill>) {
        lock(&self.table).entry(key.hash()).or_insert_with(|| fill.clone());
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

/// The leader's side: each of these decides for those who wait.
impl Lead {
    /// The response is storable: followers read along. Returns the leader's own seat.
    pub fn open(&self, opened: Opened) -> Seat {
        let opened = self.fill.head.get_or_init(|| Arc::new(opened));
        if let Some(fills) = &self.fill.home {
            fills.list_also(&opened.key, &self.fill);
        }
        let seat = self.fill.seat(&mut self.fill.lock());
        self.decide(Outcome::Open);
        seat
    }

    /// All of a storable response is here.
    pub fn answered(self, answer: Answer) {
        self.close(Outcome::Answered(answer));
    }

    /// The resource's response is not for sharing.
    pub fn alone(self, fills: &Fills) {
        lock(&fills.alone).remember(self.fill.key.hash());
        self.close(Outcome::Alone);
    }

    /// The answer is of no use to the others, but theirs may be.
    pub fn unusable(self) {
        self.fill.lock().unusable = true;
    }

    /// What can be had is to be found in the cache, or under another key.
    pub fn again(self) {
        self.close(Outcome::Again);
    }

    pub fn failed(self, failure: Failure) {
        self.close(Outcome::Failed(failure));
    }

    /// The key's response is storable after all.
    pub fn worth_waiting(&self, fills: &Fills) {
        if !self.is_shared() {
            lock(&fills.alone).forget(self.fill.key.hash());
        }
    }

    /// Whether others may follow.
    pub fn is_shared(&self) -> bool {
        self.fill.home.is_some()
    }

    /// Whether others do.
    pub fn is_followed(&self) -> bool {
        !self.fill.lock().readers.is_empty()
    }

    pub fn is_for(&self, key: &Key) -> bool {
        self.fill.key == *key
    }

    /// Whoever comes from now on is too late for what is decided.
    fn close(&self, outcome: Outcome) {
        self.fill.leave();
        self.decide(outcome);
    }

    fn decide(&self, outcome: Outcome) {
        let mut state = self.fill.lock();
        if matches!(state.outcome, Outcome::Waiting) {
            state.outcome = outcome;
        }
        wake_readers(state);
    }
}

/// The pump's side.
impl Lead {
    pub fn push(&self, bytes: Bytes) {
        let mut state = self.fill.lock();
        state.window.push(bytes);
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

    /// Keeps what was written of an object that does not come to be, for the readers that fell behind.
    pub fn keep_written(&self, writer: Writer) {
        self.fill.lock().broken_off = Some(writer);
    }

    /// Waits until the window has room again, or nobody reads any more. Readers that hold up others for too long are
    /// cut off.
    pub async fn room(&self) -> Room {
        let mut timer = None;
        poll_fn(|cx| {
            let mut state = self.fill.lock();
            loop {
                let room = state.room(self.fill.window);
                let held = room.is_none() && state.slow_ones_hold();
                let left = state.patience.note(held);
                if let Some(room) = room {
                    return Poll::Ready(room);
                }
                if held && left.is_zero() {
                    state.cut_off(self.fill.window);
                    continue;
                }
                state.pump = Some(cx.waker().clone());
                if !held || timer.insert(Box::pin(sleep(left))).as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
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
        let fill = &self.fill;
        let home = fill.home.as_deref();
        // Nobody joins between the look at who waits and the end.
        let mut table = home.map(|fills| lock(&fills.table));
        let mut state = fill.lock();
        let turn = home.map_or(Duration::MAX, |fills| fills.turn);
        let waits = matches!(state.outcome, Outcome::Waiting);
        let succeeded = waits.then(|| state.succeed(fill.since.elapsed() > turn)).flatten();
        let wakers = succeeded.unwrap_or_else(|| {
            if let Some(table) = &mut table {
                fill.leave_table(table);
            }
            if matches!(state.outcome, Outcome::Waiting) {
                state.outcome = Outcome::Again;
            }
            state.ended.get_or_insert(End::Broken);
            state.wakers()
        });
        drop((state, table));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Fill {
    fn new(key: Key, began: Moment, window: usize, home: Option<Arc<Fills>>) -> Arc<Fill> {
        let since = Instant::now();
        Arc::new(Fill { key, began, home, head: OnceLock::new(), state: Mutex::default(), window, since })
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

    /// `None` when it is too late to follow.
    fn join(self: &Arc<Fill>, vain: u32) -> Option<Joined> {
        let mut state = self.lock();
        if !state.reaches_back() || state.ended == Some(End::Broken) {
            return None;
        }
        let most = 4_u32.saturating_pow(vain.saturating_sub(1));
        if matches!(state.outcome, Outcome::Waiting) && state.beside + 1 < most {
            state.beside += 1;
            return Some(Joined::Alone);
        }
        Some(Joined::Follower(self.seat(&mut state)))
    }

    fn seat(self: &Arc<Fill>, state: &mut State) -> Seat {
        let early = matches!(state.outcome, Outcome::Waiting);
        let id = state.next;
        state.next += 1;
        state.readers.insert(id, Slot::default());
        *state.places.entry(0).or_insert(0) += 1;
        Seat { fill: self.clone(), id, early }
    }

    fn leave(self: &Arc<Fill>) {
        if let Some(fills) = &self.home {
            self.leave_table(&mut lock(&fills.table));
        }
    }

    fn leave_table(self: &Arc<Fill>, table: &mut HashMap<u128, Arc<Fill>>) {
        for key in [Some(&self.key), self.head.get().map(|opened| &opened.key)].into_iter().flatten() {
            if table.get(&key.hash()).is_some_and(|found| Arc::ptr_eq(found, self)) {
                table.remove(&key.hash());
            }
        }
    }
}

impl State {
    /// The leader went away without a decision: calls the next of those who wait. The wakers of those who were called;
    /// `None` when nobody waits.
    fn succeed(&mut self, late: bool) -> Option<Vec<Waker>> {
        let grows = std::mem::take(&mut self.unusable) || late;
        let number = if grows { (2 * self.called).max(1) } else { 1 };
        let mut wakers = Vec::new();
        let mut call = Call::Lead;
        for slot in self.readers.values_mut().filter(|slot| slot.call.is_none()).take(number) {
            slot.call = Some(std::mem::replace(&mut call, Call::Alone));
            if let Some(waker) = slot.waker.take() {
                self.hungry -= 1;
                wakers.push(waker);
            }
        }
        if grows {
            self.called = number;
        }
        (call == Call::Alone).then_some(wakers)
    }

    fn room(&mut self, max: usize) -> Option<Room> {
        self.make_room(max);
        if self.places.is_empty() {
            return Some(Room::NobodyReads);
        }
        // What is kept need not wait for the slow ones: they find it in the store.
        let has_room = self.window.len() < max || (self.kept && self.hungry > 0);
        has_room.then_some(Room::Yes)
    }

    /// When full, lets go of pieces that the store can give, or, when nothing is kept, that every reader took. Until
    /// then they stay, for readers that are yet to come.
    fn make_room(&mut self, max: usize) {
        let slowest = || self.places.first_key_value().map_or(self.window.end(), |(at, _)| *at);
        let spared = if self.kept { self.readable } else { slowest().max(self.readable) };
        self.window.let_go(max, spared);
    }

    /// Some readers keep the fetch from going on for one that has taken everything.
    fn slow_ones_hold(&self) -> bool {
        !self.kept && self.hungry > 0 && self.places.len() > 1
    }

    /// Waits no longer for readers that are more than half of the window behind.
    fn cut_off(&mut self, max: usize) {
        let least = self.window.end().saturating_sub(max as u64 / 2).max(self.window.first_end());
        for slot in self.readers.values_mut().filter(|slot| slot.at < least) {
            slot.cut = true;
        }
        self.places = self.places.split_off(&least);
        self.patience = Patience::default();
    }

    /// Moves a reader on.
    fn advance(&mut self, id: u64, bytes: u64) {
        let Some(slot) = self.readers.get_mut(&id) else { return };
        let from = slot.at;
        slot.at += bytes;
        if !slot.cut {
            *self.places.entry(slot.at).or_insert(0) += 1;
            self.vacate(from);
        }
    }

    fn vacate(&mut self, place: u64) {
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
            }
        }
    }

    /// Takes a reader out.
    fn remove(&mut self, id: u64) -> Option<Slot> {
        let slot = self.readers.remove(&id)?;
        self.hungry -= usize::from(slot.waker.is_some());
        if !slot.cut {
            self.vacate(slot.at);
        }
        Some(slot)
    }

    /// Has a reader woken when there is more.
    fn wait(&mut self, id: u64, cx: &Context<'_>) {
        if let Some(slot) = self.readers.get_mut(&id)
            && slot.waker.replace(cx.waker().clone()).is_none()
        {
            self.hungry += 1;
        }
    }

    fn wakers(&mut self) -> Vec<Waker> {
        if self.hungry == 0 {
            return Vec::new();
        }
        self.hungry = 0;
        self.readers.values_mut().filter_map(|slot| slot.waker.take()).collect()
    }

    /// Whether a reader can still begin.
    fn reaches_back(&self) -> bool {
        self.window.start() == 0 || (self.spans.is_some() && self.readable >= self.window.start())
    }
}

impl Seat {
    /// Waits for the leader's decision, or for a call.
    pub async fn news(&self) -> News {
        poll_fn(|cx| {
            let mut state = self.fill.lock();
            let call = state.readers.get(&self.id).and_then(|slot| slot.call);
            Poll::Ready(match (call, &state.outcome) {
                (Some(Call::Lead), _) => {
                    state.remove(self.id);
                    News::Lead(Lead { fill: self.fill.clone() })
                }
                (Some(Call::Alone), _) | (None, Outcome::Alone) => News::Alone,
                (None, Outcome::Waiting) => {
                    state.wait(self.id, cx);
                    return Poll::Pending;
                }
                (None, Outcome::Open) => {
                    self.fill.head.get().map_or(News::Again, |head| News::Open(head.clone()))
                }
                (None, Outcome::Answered(answer)) => News::Answered(answer.clone()),
                (None, Outcome::Again) => News::Again,
                (None, Outcome::Failed(failure)) => News::Failed(failure.clone()),
            })
        })
        .await
    }

    /// The next bytes. What it gives counts as taken.
    pub fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut state = self.fill.lock();
        let Some(at) = state.readers.get(&self.id).map(|slot| slot.at) else {
            return Poll::Ready(Piece::End(End::Broken));
        };
        if at < state.window.start() {
            let spans = state.spans.filter(|_| at < state.readable);
            return Poll::Ready(spans.map_or(Piece::Gone, |spans| Piece::Stored(spans, at)));
        }
        if let Some(bytes) = state.window.at(at) {
            self.advance(state, bytes.len() as u64);
            return Poll::Ready(Piece::Bytes(bytes));
        }
        match state.ended {
            // The fetch may have ended since nobody else was left whom it went on for.
            Some(End::Broken) if state.readers.get(&self.id).is_some_and(|slot| slot.cut) => {
                Poll::Ready(Piece::Gone)
            }
            Some(end) => Poll::Ready(Piece::End(end)),
            None => {
                state.wait(self.id, cx);
                // Somebody has taken everything: what is full may have to go on.
                wake_pump(state);
                Poll::Pending
            }
        }
    }

    /// Bytes that came from the store count as taken too.
    pub fn took(&self, bytes: u64) {
        self.advance(self.fill.lock(), bytes);
    }

    fn advance(&self, mut state: MutexGuard<'_, State>, bytes: u64) {
        state.advance(self.id, bytes);
        state.make_room(self.fill.window);
        if state.window.len() < self.fill.window {
            wake_pump(state);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        let called = state.remove(self.id).and_then(|slot| slot.call);
        state.make_room(self.fill.window);
        wake_pump(state);
        if called == Some(Call::Lead) {
            // It left before it heard: another is called.
            drop(Lead { fill: self.fill.clone() });
        }
    }
}

/// How much longer slow readers may hold up others: what they held up is taken away, and a fourth of the time in which
/// they did not comes back.
#[derive(Default)]
struct Patience {
    spent: Duration,
    /// Since when they do, or do not.
    since: Option<Instant>,
    held: bool,
}

impl Patience {
    fn note(&mut self, held: bool) -> Duration {
        // Nothing to note as long as nothing was ever held up: the clock is not asked.
        if !held && self.since.is_none() {
            return PATIENCE;
        }
        self.note_at(held, Instant::now())
    }

    fn note_at(&mut self, held: bool, now: Instant) -> Duration {
        let passed = now.duration_since(self.since.unwrap_or(now));
        self.spent = if self.held { self.spent + passed } else { self.spent.saturating_sub(passed / 4) };
        (self.since, self.held) = (Some(now), held);
        PATIENCE.saturating_sub(self.spent)
    }
}

/// Nothing that holds these locks can panic halfway through a change; a poisoned one is as good as another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn wake_readers(mut state: MutexGuard<'_, State>) {
    let wakers = state.wakers();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::memory::Memory;
    use cache::SetCookie;
    use proptest::prelude::*;
    use std::pin::pin;

    const LONG: Duration = Duration::from_secs(3600);

    fn fills(turn: Duration) -> Arc<Fills> {
        Fills::new(64 << 10, LONG, 16, turn)
    }

    fn tiers() -> Tiers {
        Tiers::new(Memory::new(0, 0), None, SetCookie::Never)
    }

    fn join(fills: &Arc<Fills>, vain: u32) -> Joined {
        fills.join(&key(), &tiers(), vain, None)
    }

    fn key() -> Key {
        Key::new("k")
    }

    fn leader(fills: &Arc<Fills>) -> Lead {
        match join(fills, 0) {
            Joined::Leader(lead) => lead,
            _ => panic!("somebody leads already"),
        }
    }

    fn followers(fills: &Arc<Fills>, count: usize) -> Vec<Seat> {
        let follow = |_| match join(fills, 0) {
            Joined::Follower(seat) => seat,
            _ => panic!("nobody leads"),
        };
        (0..count).map(follow).collect()
    }

    fn news(seat: &Seat) -> Option<News> {
        match pin!(seat.news()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(news) => Some(news),
            Poll::Pending => None,
        }
    }

    /// What the seats hear now: the one that leads, how many go alone, and who still waits.
    fn hear(seats: &mut Vec<Seat>) -> (Option<Lead>, usize) {
        let (mut lead, mut alone) = (None, 0);
        seats.retain(|seat| match news(seat) {
            None => true,
            Some(News::Lead(called)) => {
                assert!(lead.replace(called).is_none(), "two lead");
                false
            }
            Some(News::Alone) => {
                alone += 1;
                false
            }
            Some(_) => panic!("decided"),
        });
        (lead, alone)
    }

    #[test]
    fn a_leader_that_leaves_is_succeeded_by_one() {
        let fills = fills(LONG);
        let mut lead = leader(&fills);
        let mut seats = followers(&fills, 10);
        for left in (0..10).rev() {
            assert!(hear(&mut seats).0.is_none());
            drop(lead);
            let (called, alone) = hear(&mut seats);
            assert_eq!((alone, seats.len()), (0, left));
            lead = called.expect("a successor");
        }
        assert_eq!(lock(&fills.table).len(), 1);
        drop(lead);
        assert!(lock(&fills.table).is_empty(), "nobody waits: whoever comes begins anew");
    }

    #[test]
    fn answers_of_no_use_call_twice_as_many_each_time() {
        let fills = fills(LONG);
        let mut lead = leader(&fills);
        let mut seats = followers(&fills, 20);
        for (beside, left) in [(0, 19), (1, 17), (3, 13), (7, 5), (4, 0)] {
            lead.unusable();
            let (called, alone) = hear(&mut seats);
            assert_eq!((alone, seats.len()), (beside, left));
            lead = called.unwrap();
        }
    }

    #[test]
    fn beyond_one_fetchs_time_departures_count_as_answers_of_no_use() {
        let fills = fills(Duration::ZERO);
        let mut lead = leader(&fills);
        let mut seats = followers(&fills, 20);
        for left in [19, 17, 13, 5, 0] {
            std::thread::sleep(Duration::from_millis(1));
            drop(lead);
            lead = hear(&mut seats).0.unwrap();
            assert_eq!(seats.len(), left);
        }
    }

    #[test]
    fn one_who_leaves_before_it_hears_of_its_call_is_succeeded_too() {
        let fills = fills(LONG);
        let lead = leader(&fills);
        let mut seats = followers(&fills, 3);
        drop(lead);
        seats.remove(0);
        let (called, _) = hear(&mut seats);
        assert!(called.is_some() && seats.len() == 1);
        drop(called);
        seats.clear();
        assert!(lock(&fills.table).is_empty());
    }

    #[test]
    fn what_was_removed_is_joined_by_nobody() {
        let (fills, tiers) = (fills(LONG), tiers());
        let Joined::Leader(lead) = fills.join(&key(), &tiers, 0, None) else { panic!("somebody leads") };
        let mut seats = followers(&fills, 2);
        tiers.remove(&key());
        let Joined::Leader(later) = fills.join(&key(), &tiers, 0, None) else { panic!("it was joined") };
        let Joined::Follower(seat) = fills.join(&key(), &tiers, 0, None) else { panic!("nobody leads") };
        // Those who asked before go on among themselves.
        drop(lead);
        assert!(hear(&mut seats).0.is_some() && news(&seat).is_none());
        drop(later);
        assert!(matches!(news(&seat), Some(News::Lead(_))));
    }

    #[test]
    fn whom_nothing_suits_may_fetch_beside_the_leader() {
        let fills = fills(LONG);
        let _lead = leader(&fills);
        for (vain, beside) in [(0, 0), (1, 0), (2, 3), (3, 12), (4, 48)] {
            let joined: Vec<_> = (0..100).map(|_| join(&fills, vain)).collect();
            let alone = joined.iter().filter(|joined| matches!(joined, Joined::Alone)).count();
            assert_eq!(alone, beside, "after {vain}");
        }
    }

    #[test]
    fn slow_readers_have_a_second_and_a_fifth_of_the_time() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut patience = Patience::default();
        assert_eq!(patience.note_at(true, at(0)), PATIENCE);
        assert_eq!(patience.note_at(true, at(600)), PATIENCE * 4 / 10);
        // A byte now and then gives back no more than a fourth.
        assert_eq!(patience.note_at(false, at(800)), PATIENCE * 2 / 10);
        assert_eq!(patience.note_at(true, at(1_200)), PATIENCE * 3 / 10);
        assert_eq!(patience.note_at(true, at(1_500)), Duration::ZERO);
        let mut patience = Patience::default();
        for round in 0..1_000 {
            assert!(!patience.note_at(true, at(round * 50)).is_zero());
            assert!(!patience.note_at(false, at(round * 50 + 10)).is_zero());
        }
    }

    #[test]
    fn five_thousand_readers_cost_no_more_than_their_places() {
        let fills = fills(LONG);
        let lead = leader(&fills);
        let seats = followers(&fills, 5_000);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..64 {
            lead.push(Bytes::from(vec![0; 8 << 10]));
            for seat in &seats {
                assert!(matches!(seat.poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
            }
            let state = lead.fill.lock();
            assert_eq!(state.places.len(), 1);
            assert!(state.window.len() <= fills.window);
        }
    }

    /// It has caught up, nobody else is left, and the fetch ends: it goes on by itself.
    #[test]
    fn one_who_was_cut_off_and_caught_up_is_not_broken_off() {
        let fills = fills(LONG);
        let lead = leader(&fills);
        let mut seats = followers(&fills, 3);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            lead.push(Bytes::from(vec![0; 16 << 10]));
        }
        assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
        while seats[2].poll_piece(&mut context).is_ready() {}
        lead.fill.lock().cut_off(fills.window);
        while seats[1].poll_piece(&mut context).is_ready() {}
        seats.pop();
        lead.end(End::Broken);
        assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Gone)));
    }

    /// What a test may do to a fill.
    #[derive(Clone, Debug)]
    enum Step {
        Join,
        Read(usize),
        Leave(usize),
        Push(usize),
        CutOff,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => Just(Step::Join),
            6 => any::<usize>().prop_map(Step::Read),
            1 => any::<usize>().prop_map(Step::Leave),
            4 => (1usize..20_000).prop_map(Step::Push),
            1 => Just(Step::CutOff),
        ]
    }

    proptest! {
        #[test]
        fn readers_get_the_body_in_order_and_are_where_the_maps_say(steps in prop::collection::vec(step(), 1..200)) {
            let fills = fills(LONG);
            let lead = leader(&fills);
            let mut seats: Vec<(Seat, u64)> = Vec::new();
            let mut context = Context::from_waker(Waker::noop());
            let byte = |at: u64| (at ^ (at >> 8)) as u8;
            for step in steps {
                match step {
                    Step::Join => if let Joined::Follower(seat) = join(&fills, 0) {
                        seats.push((seat, 0));
                    },
                    Step::Leave(n) if !seats.is_empty() => drop(seats.swap_remove(n % seats.len())),
                    Step::Read(n) if !seats.is_empty() => {
                        let n = n % seats.len();
                        let (seat, at) = &mut seats[n];
                        let cut = lead.fill.lock().readers[&seat.id].cut;
                        match seat.poll_piece(&mut context) {
                            Poll::Ready(Piece::Bytes(bytes)) => {
                                prop_assert!(bytes.iter().enumerate().all(|(n, b)| *b == byte(*at + n as u64)));
                                *at += bytes.len() as u64;
                            }
                            Poll::Ready(Piece::Gone) => prop_assert!(cut, "only who was cut off misses something"),
                            Poll::Pending => prop_assert_eq!(*at, lead.fill.lock().window.end()),
                            Poll::Ready(_) => prop_assert!(false),
                        }
                    }
                    Step::Push(length) if lead.fill.lock().room(fills.window).is_some() => {
                        let from = lead.fill.lock().window.end();
                        lead.push((from..from + length as u64).map(byte).collect());
                    }
                    Step::CutOff if lead.fill.lock().slow_ones_hold() => lead.fill.lock().cut_off(fills.window),
                    _ => {}
                }
                let state = lead.fill.lock();
                let mut places = BTreeMap::new();
                for slot in state.readers.values().filter(|slot| !slot.cut) {
                    *places.entry(slot.at).or_insert(0) += 1;
                }
                prop_assert_eq!(&places, &state.places);
                prop_assert_eq!(state.readers.values().filter(|slot| slot.waker.is_some()).count(), state.hungry);
                prop_assert!(state.window.len() < fills.window + 20_000);
            }
        }
    }
}
