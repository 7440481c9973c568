//! A reader of a fill: it waits for what the leader decides, then takes the body at its own pace.

use super::state::{Call, End, Outcome, State, wake_pump};
use super::{Answer, Failure, Fill, Lead, Opened};
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use store::Spans;

/// One reader's place in a fill.
pub struct Seat {
    pub(super) fill: Arc<Fill>,
    pub(super) id: u64,
    /// The response had not come yet when it joined.
    pub early: bool,
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
        state.make_room();
        if state.window.len() < state.reach.bytes() {
            wake_pump(state);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        let called = state.remove(self.id).and_then(|slot| slot.call);
        state.make_room();
        wake_pump(state);
        if called == Some(Call::Lead) {
            // It left before it heard: another is called.
            drop(Lead { fill: self.fill.clone() });
        }
    }
}
