//! A reader of a fill: it waits for what the leader decides, then takes the body at its own pace.

use super::readers::Call;
use super::state::{Decision, End, Stage, State, wake_pump};
use super::{Answer, Failure, Fill, Leader, Opened};
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use store::Spans;

/// One reader's place in a fill.
pub struct FillReader {
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
    Leader(Leader),
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

impl FillReader {
    /// Waits for the leader's decision, or for a call.
    pub async fn news(&self) -> News {
        poll_fn(|cx| {
            let state = &mut *self.fill.lock();
            let call = state.readers.get(self.id).and_then(|slot| slot.call);
            Poll::Ready(match (call, &state.stage) {
                (Some(Call::Leader), _) => {
                    state.readers.remove(self.id);
                    News::Leader(Leader { fill: self.fill.clone() })
                }
                (Some(Call::Alone), _) | (None, Stage::Decided(Decision::Alone)) => News::Alone,
                (None, Stage::Waiting(_)) => {
                    state.readers.wait(self.id, cx);
                    return Poll::Pending;
                }
                (None, Stage::Open(body, _) | Stage::Over(body, _)) => News::Open(body.head.clone()),
                (None, Stage::Decided(Decision::Answered(answer))) => News::Answered(answer.clone()),
                (None, Stage::Decided(Decision::Again)) => News::Again,
                (None, Stage::Decided(Decision::Failed(failure))) => News::Failed(failure.clone()),
            })
        })
        .await
    }

    /// The next bytes. What it gives counts as taken.
    pub fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut state = self.fill.lock();
        let (Some(slot), Some(body)) = (state.readers.get(self.id), state.body()) else {
            return Poll::Ready(Piece::End(End::Broken));
        };
        let at = slot.at;
        if at < body.window.start() {
            let readable = body.readable().filter(|readable| readable.has(at));
            return Poll::Ready(readable.map_or(Piece::Gone, |readable| Piece::Stored(readable.spans, at)));
        }
        if let Some(bytes) = body.window.at(at) {
            self.advance(state, bytes.len() as u64);
            return Poll::Ready(Piece::Bytes(bytes));
        }
        match state.stage {
            // The fetch may have ended since nobody else was left whom it went on for.
            Stage::Over(_, End::Broken) if slot.cut => Poll::Ready(Piece::Gone),
            Stage::Over(_, end) => Poll::Ready(Piece::End(end)),
            _ => {
                state.readers.wait(self.id, cx);
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
        state.readers.advance(self.id, bytes);
        state.make_room();
        if state.body().is_some_and(|body| body.window.len() < body.size.bytes()) {
            wake_pump(state);
        }
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        let called = state.readers.remove(self.id).and_then(|slot| slot.call);
        state.make_room();
        wake_pump(state);
        if called == Some(Call::Leader) {
            // It left before it heard: another is called.
            drop(Leader { fill: self.fill.clone() });
        }
    }
}
