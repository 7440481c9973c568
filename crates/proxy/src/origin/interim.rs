//! Interim responses of an origin, on their way from the connection's task to the request's.

use crate::message::interim::Interim;
use http::{HeaderMap, StatusCode};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Those of one connection: one request at a time is under way on it.
#[derive(Default)]
pub struct Interims {
    came: AtomicUsize,
    waiting: Mutex<(Vec<Interim>, Option<Waker>)>,
}

impl Interims {
    /// More than any request is answered with; what an origin sends beyond is read no more.
    pub const MAX: usize = 32;

    /// A request begins.
    pub fn begin(&self) {
        self.came.store(0, Relaxed);
        self.lock().0.clear();
    }

    pub fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut waiting = self.lock();
        if self.came.fetch_add(1, Relaxed) < Interims::MAX {
            waiting.0.push(Interim { status, headers: headers.clone() });
        }
        if let Some(waker) = waiting.1.take() {
            waker.wake();
        }
    }

    /// What came since the last time; the waker hears of more.
    pub fn take(&self, waker: &Waker) -> Vec<Interim> {
        let mut waiting = self.lock();
        if !waiting.1.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiting.1 = Some(waker.clone());
        }
        std::mem::take(&mut waiting.0)
    }

    pub fn are_too_many(&self) -> bool {
        self.came.load(Relaxed) > Interims::MAX
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Interim>, Option<Waker>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
