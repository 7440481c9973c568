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
//! What is storable is read once, by a pump (`transfer::pump`), into a bounded window from which every reader takes it at its
//! own pace, on whatever worker it runs. `state.rs` draws the machine that a fill is.
//! What always holds: bytes leave the window only when every reader took them or the store can give them, except those of
//! readers that held up the others for too long, which are cut off; the window grows beyond its bound only by what is
//! gathered for the store anyway, at most one span; a reader costs a place in two ordered maps; everybody who joined
//! learns an outcome, and every reader whether the body ended or broke off.
//! What is removed is not looked for here: who joins a fill finds out whether it is outdated, so a removal costs the same
//! however many fills there are.

mod alone;
pub mod gap;
mod leader;
mod patience;
mod producer;
mod reader;
mod readers;
pub mod repair;
mod state;
#[cfg(test)]
mod tests;
pub mod vain;
pub mod window;
mod window_size;

pub use self::leader::Leader;
pub use self::producer::Producer;
pub use self::reader::{FillReader, News, Piece};
pub use self::state::{End, Keep, Room};
pub use self::window_size::Windows;

use self::alone::Alone;
use self::gap::Gaps;
use self::repair::Repair;
use self::state::{State, wake_readers};
use self::vain::Vain;
use crate::message::refusal::Refusal;
use crate::tiers::Tiers;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::CacheEntry;
use cache::Verdict;
use http::StatusCode;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::Key;

/// How often a request looks again after another's fetch did not suit it: then it fetches alone. By then nearly all
/// who are in the same case do, since their number grows.
pub const LOOKS: u32 = 8;

/// The fills in progress, of all workers.
pub struct Fills {
    table: Mutex<HashMap<u128, Arc<Fill>>>,
    alone: Mutex<Alone>,
    windows: Windows,
    pub gaps: Arc<Gaps>,
    pub vain: Vain,
    /// Milliseconds.
    turn: AtomicU64,
}

/// One fetch that several requests may share.
pub struct Fill {
    key: Key,
    /// What was removed later, it may be.
    began: Moment,
    /// Where it is found; a lone fetch is nowhere.
    home: Option<Arc<Fills>>,
    state: Mutex<State>,
    windows: Windows,
    since: Instant,
}

/// What the leader learned from the response's head.
pub struct Opened {
    /// The key under which the object will lie: the request's own, or its variant's.
    pub key: Key,
    /// The head and the fields of an answer; its body is empty.
    pub held: CacheEntry,
    /// How much of the body the store has already: the rest comes.
    pub from: u64,
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
    pub held: Arc<CacheEntry>,
    /// The origin said that it holds; otherwise it sent it.
    pub validated: bool,
    /// What the response is to the leader itself.
    pub verdict: Verdict,
}

/// How a request takes part.
pub enum Joined {
    Leader(Leader),
    Follower(FillReader),
    /// Not worth waiting: fetch alone.
    Alone,
    /// Another's fetch came to its end since the request looked: look again.
    Again,
}

/// Why an origin gave no answer of use.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the client is told, if nothing stands in.
    pub refusal: Refusal,
    /// The error that the origin did answer.
    pub answered: Option<StatusCode>,
}

impl Fills {
    /// `turn` is how long one fetch may take to its response's head.
    pub fn new(windows: Windows, lifetime: Duration, remembered: usize, turn: Duration) -> Arc<Fills> {
        let alone = Mutex::new(Alone::new(lifetime, remembered));
        let (table, gaps, vain, turn_now) = Default::default();
        let fills = Fills { table, alone, windows, gaps, vain, turn: turn_now };
        fills.set_turn(turn);
        Arc::new(fills)
    }

    pub fn set_turn(&self, turn: Duration) {
        self.turn.store(u64::try_from(turn.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn turn(&self) -> Duration {
        Duration::from_millis(self.turn.load(Ordering::Relaxed))
    }

    /// Joins the fetch of a key, or starts it, unless something was stored since the request looked (`looked`). What was removed
    /// since a fetch began is fetched anew. `vain` counts the fetches that did not suit the request, of which `refused` was the
    /// last, if that still goes on.
    pub fn join(
        self: &Arc<Fills>,
        key: &Key,
        tiers: &Tiers,
        looked: Option<Moment>,
        vain: u32,
        refused: Option<&Arc<Opened>>,
    ) -> Joined {
        let mut table = lock(&self.table);
        if let Some(fill) = table.get(&key.hash())
            && !tiers.is_removed_since(&fill.key, fill.began)
        {
            let mut state = fill.lock();
            let head = state.head();
            if !head.is_some_and(|head| tiers.covers(&head.held)) {
                if fill.key != *key && head.is_none_or(|head| head.key != *key) {
                    return Joined::Alone;
                }
                let same = head.zip(refused).is_some_and(|(head, refused)| Arc::ptr_eq(head, refused));
                if !same && let Some(joined) = fill.join(&mut state, vain) {
                    return joined;
                }
            }
        }
        if lock(&self.alone).knows(key.hash()) {
            return Joined::Alone;
        }
        // A fetch leaves the table after what it brought was stored.
        if looked.is_some_and(|looked| tiers.is_replaced_since(key, looked)) {
            return Joined::Again;
        }
        // It takes the place of one that is of no use to whoever comes now.
        let fill = Fill::new(key.clone(), tiers.now(), self.windows.clone(), Some(self.clone()));
        table.insert(key.hash(), fill.clone());
        Joined::Leader(Leader { fill })
    }

    /// A fetch that nobody follows.
    pub fn lone(&self, key: &Key, began: Moment) -> Leader {
        Leader { fill: Fill::new(key.clone(), began, self.windows.clone(), None) }
    }
}

impl Fill {
    fn new(key: Key, began: Moment, windows: Windows, home: Option<Arc<Fills>>) -> Arc<Fill> {
        let since = Instant::now();
        Arc::new(Fill { key, began, home, state: Mutex::default(), windows, since })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// `None` when it is too late to follow.
    fn join(self: &Arc<Fill>, state: &mut State, vain: u32) -> Option<Joined> {
        match state.reaches_back() {
            false => None,
            true if state.lets_go(vain) => Some(Joined::Alone),
            true => Some(Joined::Follower(self.seat(state))),
        }
    }

    fn seat(self: &Arc<Fill>, state: &mut State) -> FillReader {
        FillReader { fill: self.clone(), id: state.readers.add(), early: state.is_waiting() }
    }

    /// Takes a step after which nobody joins.
    fn leave(self: &Arc<Fill>, step: impl FnOnce(&mut State)) {
        let mut table = self.home.as_deref().map(|fills| lock(&fills.table));
        let mut state = self.lock();
        if let Some(table) = &mut table {
            self.unlist(&state, table);
        }
        step(&mut state);
        drop(table);
        wake_readers(state);
    }

    fn unlist(self: &Arc<Fill>, state: &State, table: &mut HashMap<u128, Arc<Fill>>) {
        for key in [Some(&self.key), state.head().map(|head| &head.key)].into_iter().flatten() {
            if table.get(&key.hash()).is_some_and(|found| Arc::ptr_eq(found, self)) {
                table.remove(&key.hash());
            }
        }
    }
}

/// Nothing that holds these locks can panic halfway through a change; a poisoned one is as good as another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
