//! Spans that were read for clients that are slow, while memory is short: each takes small copies, and a few spans serve all of
//! them. One that was put away meanwhile is read again.
//!
//! What always holds: `MEMORY` bytes are enough for the spans here and those that are being read for it. They are a worker's own,
//! not part of the budget of bytes in transit.

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
    reads: Semaphore,
}

/// Spans that are kept, and as many that may be read at once.
const PLACES: usize = 2;

/// Bytes that a worker's cache takes at most.
pub const MEMORY: u64 = 2 * PLACES as u64 * most_bytes(SPAN) as u64;

impl Default for SpanCache {
    fn default() -> SpanCache {
        SpanCache { spans: RefCell::default(), reads: Semaphore::new(PLACES) }
    }
}

impl SpanCache {
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
        all.truncate(PLACES - 1);
        all.push_front(((spans.store, spans.id, n), bytes));
    }
}

/// Bytes of the largest span.
const SPAN: usize = 256 << 10;

/// Bytes of memory that a span of so many takes: its record lies somewhere in whole blocks, in a buffer of the next size.
pub const fn most_bytes(span: usize) -> usize {
    (span + (8 << 10)) * 5 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let cache = SpanCache::default();
        let spans = Spans { store: 0, id: 7, length: 1 << 30, span: SPAN as u32 };
        for n in 0..=PLACES as u32 {
            cache.put(&spans, n, Bytes::from(vec![n as u8]));
            assert_eq!(cache.get(&spans, 0).unwrap()[..], [0]);
        }
        assert_eq!(cache.spans.borrow().len(), PLACES);
        assert_eq!(cache.get(&spans, PLACES as u32).unwrap()[..], [PLACES as u8]);
        assert!(cache.get(&spans, 1).is_none());
        for other in [Spans { id: 8, ..spans }, Spans { store: 1, ..spans }] {
            assert!(cache.get(&other, 0).is_none());
        }
    }
}
