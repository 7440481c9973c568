//! Spans that were read for clients that are slow, while memory is short: each takes small copies, and a few spans serve all of
//! them. One that was put away meanwhile is read again.
//!
//! What always holds: the spans here and those that are being read for it are within the worker's part of the `disk` pool.

use crate::budget::{Budget, Lease};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use store::Spans;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Where a span is from: its store, its body, and its number there.
type Place = (u16, u64, u32);

/// A worker's spans, the one that was used last in front.
pub struct SpanCache {
    spans: RefCell<VecDeque<(Place, Bytes)>>,
    places: usize,
    reads: Semaphore,
    /// What they take, when all of it could be had.
    _lease: Option<Lease>,
}

impl SpanCache {
    /// An eighth of the pool is for the caches of all workers, a place and a read for each at least.
    pub fn new(budget: &Budget, workers: usize) -> SpanCache {
        let share = budget.disk.size() / 8 / workers.max(1);
        let places = (share / 2 / most_bytes(SPAN)).clamp(1, 16);
        let lease = budget.disk.try_take(2 * places * most_bytes(SPAN));
        SpanCache { spans: RefCell::default(), places, reads: Semaphore::new(places), _lease: lease }
    }

    /// Piece `n` of a body, if it is here.
    pub fn get(&self, spans: &Spans, n: u32) -> Option<Bytes> {
        let mut all = self.spans.borrow_mut();
        let at = all.iter().position(|(key, _)| *key == (spans.store, spans.id, n))?;
        let found = all.remove(at)?;
        all.push_front(found);
        all.front().map(|(_, bytes)| bytes.clone())
    }

    /// Waits until one may be read for it.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.reads.acquire().await.ok()
    }

    pub fn put(&self, spans: &Spans, n: u32, bytes: Bytes) {
        let mut all = self.spans.borrow_mut();
        all.truncate(self.places - 1);
        all.push_front(((spans.store, spans.id, n), bytes));
    }
}

/// Bytes of the largest span.
const SPAN: usize = 256 << 10;

/// Bytes of memory that a span of so many takes: its record lies somewhere in whole blocks, in a buffer of the next size.
pub fn most_bytes(span: usize) -> usize {
    (span + (8 << 10)) * 5 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let budget = Budget::new(0, 0);
        let span_cache = SpanCache::new(&budget, 1);
        let places = span_cache.places as u32;
        let spans = Spans { store: 0, id: 7, length: 1 << 30, span: SPAN as u32 };
        for n in 0..=places {
            span_cache.put(&spans, n, Bytes::from(vec![n as u8]));
            assert!(span_cache.get(&spans, 0).is_some() || n > 0 && places == 1);
        }
        assert_eq!(span_cache.spans.borrow().len(), span_cache.places);
        assert_eq!(span_cache.get(&spans, places).unwrap()[..], [places as u8]);
        assert!(places == 1 || span_cache.get(&spans, 1).is_none() && span_cache.get(&spans, 0).is_some());
        assert!(span_cache.get(&Spans { id: 8, ..spans }, places).is_none());
        assert!(budget.disk.taken() >= 2 * span_cache.places * SPAN);
    }
}
