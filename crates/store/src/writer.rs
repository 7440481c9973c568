//! An object whose body arrives in pieces. Up to one span it becomes one record; beyond, each full span is put when
//! it is full, and the head (key, metadata, total length) last of all, so that a body that breaks off is never found. What was
//! written of one may be kept as a part (`finish_part`), with which another writer goes on (`resume`).

use crate::placement::Standing;
use crate::shared::Shared;
use crate::{Key, Refused, Spans, Store, span_key};
use std::sync::Arc;

pub struct Writer {
    shared: Arc<Shared>,
    key: Key,
    id: u64,
    /// Body bytes that no span has taken yet.
    rest: Vec<u8>,
    /// Body bytes that were taken, and the spans put of them; the last one may be shorter.
    length: u64,
    spans: u32,
    /// Of these, those that a head has: they stay.
    kept: u32,
    /// It was let in; asked when it proves to be larger than a span.
    standing: Option<Standing>,
    /// Of what the write budget keeps for it, what no span has taken.
    reserved: u64,
    failed: Option<Refused>,
    finished: bool,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: &Key,
        expected: Option<u64>,
        standing: Option<Standing>,
    ) -> Writer {
        let capacity = expected.unwrap_or(0).min(shared.span as u64) as usize;
        let id = shared.new_id();
        let rest = Vec::with_capacity(capacity);
        let key = key.clone();
        Writer {
            shared,
            key,
            id,
            rest,
            length: 0,
            spans: 0,
            kept: 0,
            reserved: standing.and(expected).unwrap_or(0),
            standing,
            failed: None,
            finished: false,
        }
    }

    /// Goes on behind a part, of which all pieces are as long as pieces are.
    pub(crate) fn resume(shared: Arc<Shared>, key: &Key, part: &Spans, standing: Standing) -> Writer {
        let mut writer = Writer::new(shared, key, None, Some(standing));
        let spans = part.count();
        (writer.id, writer.length, writer.spans, writer.kept) = (part.id, part.length, spans, spans);
        writer
    }

    /// Appends body bytes, and leaves those that were not taken. After `Busy` they may be pushed again, later; after
    /// any other error the object is abandoned, and further calls return the same.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<(), Refused> {
        if let Some(refused) = self.failed {
            return Err(refused);
        }
        if self.length + bytes.len() as u64 > self.shared.object_max {
            return self.fail(Refused::TooLarge);
        }
        while self.rest.len() + bytes.len() > self.shared.span {
            let (now, later) = bytes.split_at(self.shared.span - self.rest.len());
            self.rest.extend_from_slice(now);
            self.length += now.len() as u64;
            *bytes = later;
            match self.put_span() {
                Err(Refused::Busy) => return Err(Refused::Busy),
                Err(refused) => return self.fail(refused),
                Ok(()) => {}
            }
        }
        self.length += bytes.len() as u64;
        self.rest.extend_from_slice(std::mem::take(bytes));
        Ok(())
    }

    /// Whether it writes to this store.
    pub fn is_of(&self, store: &Store) -> bool {
        store.shares(&self.shared)
    }

    /// The complete spans written so far; what came after them is only with the writer.
    pub fn spans(&self) -> Spans {
        let span = self.shared.span as u32;
        let length = (u64::from(self.spans) * u64::from(span)).min(self.length);
        Spans { store: self.shared.number, id: self.id, length, span }
    }

    /// Commits the object. After `Busy` it may be tried again; after any `Err` its spans stay readable until the writer
    /// is dropped.
    pub fn finish(&mut self, meta: &[u8]) -> Result<(), Refused> {
        if let Some(refused) = self.failed {
            return Err(refused);
        }
        let result = self.commit(meta);
        self.finished = result.is_ok();
        result
    }

    /// Commits the complete spans written so far, as the body of a part of the object; what came after them is dropped, and no more
    /// is taken. After `Busy` it may be tried again; after any `Err` its spans stay readable until the writer is dropped.
    pub fn finish_part(&mut self, meta: &[u8]) -> Result<(), Refused> {
        if let Some(refused) = self.failed {
            return Err(refused);
        }
        let (spans, standing) = (self.spans(), self.standing()?);
        self.shared.put_head(&self.key, meta, &spans, standing)?;
        (self.kept, self.finished) = (self.spans, true);
        self.fail(Refused::TooLarge).or(Ok(()))
    }

    /// Leaves the spans that it has written: they are of an object that is stored.
    pub fn leave(&mut self) {
        self.kept = self.spans;
    }

    fn commit(&mut self, meta: &[u8]) -> Result<(), Refused> {
        if self.spans == 0 {
            return self.shared.put_whole(&self.key, meta, &self.rest);
        }
        if !self.rest.is_empty() {
            self.put_span()?;
        }
        let span = self.shared.span as u32;
        let spans = Spans { store: self.shared.number, id: self.id, length: self.length, span };
        let standing = self.standing()?;
        self.shared.put_head(&self.key, meta, &spans, standing)
    }

    fn standing(&mut self) -> Result<Standing, Refused> {
        match self.standing {
            Some(standing) => Ok(standing),
            None => {
                let standing = self.shared.admits_large(&self.key, self.length)?;
                self.reserved = self.length;
                Ok(*self.standing.insert(standing))
            }
        }
    }

    fn put_span(&mut self) -> Result<(), Refused> {
        self.standing()?;
        let key = span_key(self.id, self.spans);
        let about = self.shared.about_span(self.id, &self.rest);
        self.shared.put(&key, about, Standing::New, &[], &self.rest)?;
        self.reserved = self.reserved.saturating_sub(self.rest.len() as u64);
        self.spans += 1;
        self.rest.clear();
        Ok(())
    }

    fn fail(&mut self, refused: Refused) -> Result<(), Refused> {
        self.failed = Some(refused);
        self.rest = Vec::new();
        Err(refused)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.reserved > 0 && self.shared.write_budget.is_some() {
            self.shared.engine().release(self.reserved);
        }
        // Others may have gone on with the same part: what they put under these keys is the same.
        let is_mine = self.kept == 0;
        if !self.finished && is_mine {
            for n in 0..self.spans {
                let hash = self.shared.hash(&span_key(self.id, n));
                self.shared.index.remove(hash);
            }
        }
    }
}
