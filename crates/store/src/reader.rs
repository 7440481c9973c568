//! The reading half of a worker: index, one device read, verification.

use crate::buffer::Buffer;
use crate::disk::threads::ThreadReader;
use crate::disk::uring::RingReader;
use crate::format::record::{self, Found, Kind};
use crate::format::{UNIT, align_down, align_up};
use crate::index::Slot;
use crate::store::Shared;
use crate::{Body, Key, Object, Spans, span_key};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reads for one worker thread.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shared: Arc<Shared>,
    pub(crate) backend: Backend,
}

#[derive(Clone)]
pub(crate) enum Backend {
    Ring(RingReader),
    Threads(ThreadReader),
}

impl Reader {
    /// One device read for an object of up to 64 KiB, none when the index does not hold the key or its record is
    /// still in memory. A torn, corrupt or overwritten record is `None`. A large object (metadata first, then
    /// `span` by `span`) is returned only when all its spans are in the index.
    pub async fn get(&self, key: &Key) -> Option<Object> {
        let slot = self.shared.index.reference(key.index_hash(), 1)?;
        let (bytes, found) = self.record(key, slot).await?;
        let meta = bytes.slice(found.meta.clone());
        match found.about.kind {
            Kind::Object => {
                let newer = self.shared.overlay.meta(key.index_hash(), slot.place, found.sum);
                Some(Object { meta: newer.unwrap_or(meta), body: Body::Whole(bytes.slice(found.body)) })
            }
            Kind::Head => {
                let spans = Spans { id: found.about.id, length: found.about.length, span: found.about.span };
                let whole = (0..spans.count()).all(|n| self.shared.contains(&span_key(spans.id, n)));
                whole.then_some(Object { meta, body: Body::Spans(spans) })
            }
            Kind::Span | Kind::Page | Kind::Root | Kind::Update | Kind::Overlay => None,
        }
    }

    /// Piece `n` of a large body; `None` when it went away meanwhile.
    pub async fn span(&self, spans: &Spans, n: u32) -> Option<Bytes> {
        let key = span_key(spans.id, n);
        let slot = self.shared.index.reference(key.index_hash(), 1)?;
        let (bytes, found) = self.record(&key, slot).await?;
        (found.about.kind == Kind::Span).then(|| bytes.slice(found.body))
    }

    /// The record under the key at `slot`, verified. What proves to be something else leaves the index.
    async fn record(&self, key: &Key, slot: Slot) -> Option<(Bytes, Found)> {
        let found = match self.bytes(slot).await {
            Ok(bytes) => record::parse(self.shared.layout.identity, &bytes)
                .filter(|found| found.about.kind.is_answer() && bytes[found.key.clone()] == key.bytes()[..])
                .map(|found| (bytes, found)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.shared.stats.busy_reads.fetch_add(1, Relaxed);
                return None;
            }
            Err(_) => {
                self.shared.stats.read_errors.fetch_add(1, Relaxed);
                None
            }
        };
        if found.is_none() {
            self.shared.stats.bad_records.fetch_add(1, Relaxed);
            self.shared.index.remove_at(key.index_hash(), slot.place);
        }
        found
    }

    /// The bytes at `slot`: from an image that is not written yet, or else by one read.
    async fn bytes(&self, slot: Slot) -> io::Result<Bytes> {
        let length = usize::from(slot.units) * UNIT;
        let image = self.shared.engine().peek(slot);
        if let Some(copy) = image {
            return Ok(Bytes::from_owner(copy).slice(..length));
        }
        let start = slot.place * UNIT as u64;
        let block = self.shared.disk.read_block();
        let skip = start as usize - align_down(start as usize, block);
        let span = align_up(skip + length, block);
        let buffer = self.shared.pool.take(span);
        let buffer = self.read(start - skip as u64, span, buffer).await?;
        Ok(Bytes::from_owner(buffer).slice(skip..skip + length))
    }

    async fn read(&self, offset: u64, length: usize, buffer: Buffer) -> io::Result<Buffer> {
        match &self.backend {
            Backend::Ring(ring) => ring.read(offset, length, buffer).await,
            Backend::Threads(threads) => threads.read(offset, length, buffer).await,
        }
    }
}
