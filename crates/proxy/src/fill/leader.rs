//! The leader of a fill: it decides for those who wait.

use super::state::{Decision, Keep, Stage, wake_readers};
use super::{Answer, Failure, Fill, FillReader, Fills, Opened, Producer, lock};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use store::Key;

/// The duty to decide a fill, of which there is one while it waits. Dropping it undecided calls another.
pub struct Leader {
    pub(super) fill: Arc<Fill>,
}

impl Leader {
    /// The response is storable: followers read along. Returns who gives them the body, and the leader's own seat.
    pub fn open(self, opened: Opened, keep: Keep) -> (Producer, FillReader) {
        let fill = self.fill.clone();
        let opened = Arc::new(opened);
        // Those who hear of it find it under both keys.
        let mut table = fill.home.as_deref().map(|fills| lock(&fills.table));
        if let Some(table) = &mut table {
            table.entry(opened.key.hash()).or_insert_with(|| fill.clone());
        }
        let mut state = fill.lock();
        state.open(opened, keep);
        let seat = fill.seat(&mut state);
        drop(table);
        wake_readers(state);
        (Producer { fill }, seat)
    }

    /// All of a storable response is here.
    pub fn answered(self, answer: Answer) {
        self.decide(Decision::Answered(answer));
    }

    /// The resource's response is not for sharing.
    pub fn alone(self, fills: &Fills) {
        lock(&fills.alone).remember(self.fill.key.hash());
        self.decide(Decision::Alone);
    }

    /// The answer is of no use to the others, but theirs may be.
    pub fn unusable(self) {
        if let Stage::Waiting(election) = &mut self.fill.lock().stage {
            election.unusable = true;
        }
    }

    /// What can be had is to be found in the cache, or under another key.
    pub fn again(self) {
        self.decide(Decision::Again);
    }

    pub fn failed(self, failure: Failure) {
        self.decide(Decision::Failed(failure));
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
    fn decide(self, decision: Decision) {
        self.fill.leave(|state| state.decide(decision));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let fill = &self.fill;
        let home = fill.home.as_deref();
        // Nobody joins between the look at who waits and the end.
        let mut table = home.map(|fills| lock(&fills.table));
        let mut state = fill.lock();
        if !state.is_waiting() {
            return;
        }
        let turn = home.map_or(Duration::MAX, |fills| fills.turn());
        let wakers = state.succeed(fill.since.elapsed() > turn).unwrap_or_else(|| {
            if let Some(table) = &mut table {
                fill.unlist(&state, table);
            }
            state.decide(Decision::Again);
            state.readers.wakers()
        });
        drop((state, table));
        wakers.into_iter().for_each(Waker::wake);
    }
}
