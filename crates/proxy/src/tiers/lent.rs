//! Bodies that left the memory tier while clients still take them.
//!
//! What always holds: a body is counted, once, from when it leaves until it is seen that nobody else has it, which is looked
//! at now and then. One that nobody takes when it leaves costs a look at its references. They tell only for bodies in memory of
//! their own (`CacheEntry::own`): no other is in the tier.

use super::memory::CacheEntry;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Smaller bodies are part of what a connection has anyway, which holds one at a time.
const SMALL: usize = 4 << 10;

/// The least time between two looks at who still takes what; and a look takes one in so many of the time at most.
const PAUSE: Duration = Duration::from_millis(20);
const OF_TIME: u32 = 16;

#[derive(Default)]
pub struct Lent {
    bytes: AtomicU64,
    bodies: Mutex<Bodies>,
}

#[derive(Default)]
struct Bodies {
    by_place: HashMap<usize, Bytes>,
    /// When they may be looked at again.
    next_look: Option<Instant>,
}

/// What leaves the tier for something that comes; dropped when no lock is held.
#[derive(Default)]
pub struct Leaving {
    /// The body of what comes, which it may have in common with what it replaces.
    stays: usize,
    /// Mostly no more leaves at once.
    gone: [Option<Arc<CacheEntry>>; 2],
}

impl Lent {
    /// Bytes of them, when last looked at.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts the body of what has left.
    pub fn left(&self, held: &Arc<CacheEntry>) {
        let in_use = |body: &Bytes| !body.is_unique() || Arc::strong_count(held) > 1;
        if held.whole().is_some_and(in_use) {
            self.add(held);
        }
    }

    /// Counts the body of what answers without having been in the tier.
    pub fn add(&self, held: &CacheEntry) {
        let Some(body) = held.whole().filter(|body| body.len() >= SMALL) else { return };
        if self.lock().by_place.insert(place(body), body.clone()).is_none() {
            self.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        }
    }

    /// Lets go of what nobody else has, unless that was done a moment ago.
    pub fn look(&self) {
        let mut bodies = self.lock();
        let began = Instant::now();
        if bodies.next_look.is_some_and(|next| began < next) {
            return;
        }
        bodies.by_place.retain(|_, body| {
            let is_lent = !body.is_unique();
            if !is_lent {
                self.bytes.fetch_sub(body.len() as u64, Ordering::Relaxed);
            }
            is_lent
        });
        let now = Instant::now();
        bodies.next_look = Some(now + PAUSE.max(OF_TIME * (now - began)));
    }

    fn lock(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaving {
    /// For what comes with this body.
    pub fn but_for(body: Option<&Bytes>) -> Leaving {
        Leaving { stays: body.map_or(0, place), ..Leaving::default() }
    }

    /// Counts what has left.
    pub fn take(&mut self, lent: &Lent, held: Arc<CacheEntry>) {
        if held.whole().is_none_or(|body| place(body) != self.stays) {
            lent.left(&held);
        }
        if let Some(free) = self.gone.iter_mut().find(|gone| gone.is_none()) {
            *free = Some(held);
        }
    }
}

fn place(body: &Bytes) -> usize {
    body.as_ptr() as usize
}
