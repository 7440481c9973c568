//! The leader of a fill: it decides for those who wait, and its pump gives them the body.

use super::state::{End, Outcome, Room, wake_readers};
use super::{Answer, Failure, Fill, Fills, Opened, Seat, lock};
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use store::{Key, Spans, Writer};
use tokio::time::sleep;

/// The duty to decide a fill; dropping it undecided calls another.
pub struct Lead {
    pub(super) fill: Arc<Fill>,
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
                let room = state.room(&self.fill.windows);
                let held = room.is_none() && state.slow_ones_hold();
                let left = state.patience.note(held);
                if let Some(room) = room {
                    return Poll::Ready(room);
                }
                if held && left.is_zero() {
                    state.cut_off();
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
