//! Who gives the readers of a fill its body: the pump's side.

use super::Fill;
use super::state::{End, Keep, Room, Stage, wake_readers};
use crate::budget::Lease;
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use tokio::time::sleep;

/// The duty to give a body, of which there is one while it comes. Dropping it breaks the body off.
pub struct Producer {
    pub(super) fill: Arc<Fill>,
}

impl Producer {
    /// The body's next bytes.
    pub fn push(&self, bytes: Bytes) {
        let mut state = self.fill.lock();
        if let Stage::Open(body, _) = &mut state.stage {
            body.window.push(bytes);
        }
        wake_readers(state);
    }

    /// Tells what the store does with the body from now on.
    pub fn keep(&self, keep: Keep) {
        self.fill.lock().keep(keep);
    }

    /// All of a body that is `Keep::Gathered`, so far.
    pub fn gathered(&self) -> Bytes {
        let pieces = match &self.fill.lock().stage {
            Stage::Open(body, _) => body.window.pieces(),
            Stage::Waiting(_) | Stage::Decided(_) | Stage::Over(..) => Vec::new(),
        };
        super::window::joined(&pieces)
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
                let Stage::Open(_, pump) = &mut state.stage else { return Poll::Ready(Room::NobodyReads) };
                let left = pump.patience.note(held);
                if let Some(room) = room {
                    return Poll::Ready(room);
                }
                if held && left.is_zero() {
                    state.cut_off();
                    continue;
                }
                pump.waker = Some(cx.waker().clone());
                if !held || timer.insert(Box::pin(sleep(left))).as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The body is over. From here on requests find the object, or fetch it anew. What it was taken from stays taken as long as
    /// somebody reads it.
    pub fn end(self, end: End, leases: [Option<Lease>; 2]) {
        self.fill.leave(|state| state.end(end, leases));
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if matches!(self.fill.lock().stage, Stage::Open(..)) {
            self.fill.leave(|state| state.end(End::Broken, [None, None]));
        }
    }
}
