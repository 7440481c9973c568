//! Puts a body into the store and the memory tier.
//!
//! An object is stored only when its body came to its proper end. Small bodies are gathered and stored whole; larger
//! ones are written while they arrive. When the store yields (`Refused`), the body goes on to its readers, uncached; what
//! was written of it stays readable until the last of them has gone. What is written of a body that breaks off is kept as a part, if
//! the rest can be asked for. Each step is told the fill, whose machine has the
//! same ones (`fill::Keep`).

use crate::budget::Lease;
use crate::fill::{Keep, Producer};
use crate::report::counters::Number;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::{CacheEntry, EntryKind, StoredResponse};
use crate::tiers::{Disk, Finished, not_stored};
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use cache::{Head, NotStored};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key, Refused, Spans, Writer};

/// A store that is busy is asked again after this pause, so many times an object: half a second altogether.
pub(super) const PAUSE: Duration = Duration::from_millis(5);
pub(super) const PATIENCE: u32 = 100;

/// What is to be stored.
pub struct Object {
    pub key: Key,
    pub head: Head,
    /// Goes before what the origin sends: bytes, or pieces that lie in the store.
    pub begin: Body,
    /// There was such a begin.
    pub goes_on: bool,
    /// What is stored of the same representation, to be combined with.
    pub part: Option<Arc<CacheEntry>>,
    /// When what it is made of was asked for, or found.
    pub began: Moment,
    /// Otherwise it is only read along.
    pub stores: bool,
}

impl Object {
    pub fn new(key: Key, head: Head, began: Moment) -> Object {
        let begin = Body::Whole(Bytes::new());
        Object { key, head, begin, goes_on: false, part: None, began, stores: true }
    }

    /// What is in the store of it already.
    fn stored(&self) -> Option<&Spans> {
        match &self.begin {
            Body::Spans(spans) => Some(spans),
            Body::Whole(_) => None,
        }
    }
}

/// Puts a body into the store as it arrives.
pub struct Keeper {
    worker: Rc<Worker>,
    object: Object,
    /// The whole body's length, when known.
    pub expected: Option<u64>,
    /// Bytes that came.
    pub got: u64,
    keeping: Keeping,
    /// What the store was too busy to take.
    waiting: Bytes,
    /// How often it is still asked again.
    patience: u32,
    /// For the bytes that are gathered, or that the store's writer has, of one span at most.
    lease: Option<Lease>,
}

enum Keeping {
    /// All of it is in the fill's window, while it may be small.
    Gathering,
    Writing(Writer),
    /// Too large, or the store yields.
    Not,
}

/// Of a body that broke off, what is written.
enum Part {
    /// It is stored with this head.
    New(Box<Head>),
    /// The object that is stored has these pieces.
    Stored,
}

impl Keeper {
    /// And why nothing is kept, if that is known before the body comes.
    pub fn new(
        worker: &Rc<Worker>,
        object: Object,
        expected: Option<u64>,
    ) -> (Keeper, Result<(), NotStored>) {
        let large = expected.is_some_and(|expected| !is_small(worker, expected));
        let lease = worker.shared.budget.origins.try_spare(gathers(worker, expected.unwrap_or(FIRST)));
        // A disk that is late gets nothing.
        let (keeping, kept) = if !object.stores {
            (Keeping::Not, Err(NotStored::Busy))
        } else if lease.is_none() {
            worker.exit.add(Number::Crowded, 1);
            (Keeping::Not, Err(NotStored::Crowded))
        } else if large {
            match worker.shared.tiers.stores.begin(&object.key, object.stored(), expected) {
                Some(Ok(writer)) => (Keeping::Writing(writer), Ok(())),
                Some(Err(refused)) => (Keeping::Not, Err(not_stored(refused))),
                None => (Keeping::Gathering, Ok(())),
            }
        } else {
            (Keeping::Gathering, Ok(()))
        };
        let (worker, waiting) = (worker.clone(), Bytes::new());
        let got = object.stored().map_or(0, |stored| stored.length);
        let keeper = Keeper { worker, object, expected, got, keeping, waiting, patience: PATIENCE, lease };
        (keeper, kept)
    }

    /// What the bytes were taken from that are gathered. What the store has is not in the window any more.
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take_if(|_| matches!(self.keeping, Keeping::Gathering))
    }

    /// What a fill begins with.
    pub fn keep(&self) -> Keep {
        match &self.keeping {
            Keeping::Gathering => Keep::Gathered,
            Keeping::Writing(writer) => Keep::written(writer),
            Keeping::Not => self.object.stored().map_or(Keep::given_up(None), Keep::stored),
        }
    }

    pub fn keeps(&self) -> bool {
        !matches!(self.keeping, Keeping::Not)
    }

    /// Takes the next bytes, which the fill's readers have already.
    pub fn take(&mut self, bytes: Bytes, producer: &Producer) {
        self.got += bytes.len() as u64;
        if self.got > self.worker.settings().bounds.object_bytes || !self.has_lease() {
            self.give_up(producer);
        }
        match self.keeping {
            Keeping::Not => {}
            Keeping::Gathering => {
                if self.expected.unwrap_or(self.got).max(self.got) > gather_max(&self.worker) {
                    self.write_gathered(producer);
                }
            }
            Keeping::Writing(_) => self.write(bytes, producer),
        }
    }

    /// Whether what is gathered is taken from the budget; of an unknown length more is as it comes.
    fn has_lease(&mut self) -> bool {
        if !self.keeps() {
            return true;
        }
        let Some(lease) = &mut self.lease else { return false };
        let wanted = gathers(&self.worker, self.expected.unwrap_or(self.got.max(FIRST)));
        if wanted > lease.bytes() {
            // By doubling, so that single bytes ask seldom.
            let more = gathers(&self.worker, 2 * wanted as u64).saturating_sub(lease.bytes());
            match self.worker.shared.budget.origins.try_spare(more) {
                Some(more) => lease.merge(more),
                None => {
                    self.worker.exit.add(Number::Crowded, 1);
                    return false;
                }
            }
        }
        true
    }

    /// An origin that is faster than the disk is read more slowly for a moment; then the object is given up.
    pub async fn wait_for_store(&mut self, producer: &Producer) {
        while !self.waiting.is_empty() {
            if !self.may_wait().await {
                return self.give_up(producer);
            }
            let waiting = std::mem::take(&mut self.waiting);
            self.write(waiting, producer);
        }
    }

    async fn may_wait(&mut self) -> bool {
        let may = self.patience > 0;
        if may {
            self.patience -= 1;
            tokio::time::sleep(PAUSE).await;
        }
        may
    }

    fn write_gathered(&mut self, producer: &Producer) {
        match self.worker.shared.tiers.stores.begin(&self.object.key, None, self.expected) {
            Some(Ok(writer)) => {
                producer.keep(Keep::written(&writer));
                self.keeping = Keeping::Writing(writer);
                self.write(producer.gathered(), producer);
            }
            Some(Err(_)) | None => self.give_up(producer),
        }
    }

    fn write(&mut self, bytes: Bytes, producer: &Producer) {
        let Keeping::Writing(writer) = &mut self.keeping else { return };
        let (before, mut left) = (writer.spans(), &bytes[..]);
        let result = writer.push(&mut left);
        if writer.spans() != before {
            producer.keep(Keep::written(writer));
        }
        match result {
            Ok(()) => {}
            // A span that is full waits in the writer, whatever is left.
            Err(Refused::Busy) => self.waiting = bytes.slice_ref(left),
            Err(_) => self.give_up(producer),
        }
    }

    /// The object is not stored; readers that fell behind still need what was.
    pub fn give_up(&mut self, producer: &Producer) {
        self.waiting = Bytes::new();
        match std::mem::replace(&mut self.keeping, Keeping::Not) {
            Keeping::Gathering => producer.keep(Keep::given_up(None)),
            Keeping::Writing(writer) => producer.keep(Keep::given_up(Some(writer))),
            Keeping::Not => {}
        }
    }

    /// The body came to its proper end.
    pub async fn commit(mut self, producer: &Producer) {
        if self.expected.is_some_and(|expected| expected != self.got) {
            return self.give_up(producer);
        }
        self.object.head.settle(self.got);
        match std::mem::replace(&mut self.keeping, Keeping::Not) {
            // The response has its head: whoever wants to know looks.
            Keeping::Gathering => drop(keep(&self.worker, self.object, producer.gathered())),
            Keeping::Writing(writer) => self.finish(writer, producer).await,
            // What was stored before goes on to be.
            Keeping::Not if !self.object.stores || self.object.stored().is_some() => {}
            // What the key held before is older than this response.
            Keeping::Not => self.worker.shared.tiers.remove(&self.object.key),
        }
    }

    /// The body did not come to its end, because its origin broke off or else because nobody reads it. What is written of it is kept,
    /// where the rest can be asked for.
    pub async fn break_off(mut self, producer: &Producer, by_origin: bool) {
        let kept = self.part().await;
        if by_origin && self.object.goes_on && !matches!(kept, Some(Part::New(_))) {
            self.note_vain();
        }
        if let Keeping::Writing(mut writer) = std::mem::replace(&mut self.keeping, Keeping::Not) {
            match kept {
                Some(Part::New(head)) => drop(self.put_head(&mut writer, &head, false).await),
                Some(Part::Stored) => writer.leave(),
                None => {}
            }
            return producer.keep(Keep::given_up(Some(writer)));
        }
        self.give_up(producer);
    }

    /// What becomes of the pieces that are written, if they are to stay: a part takes the place of a smaller one, of one of another
    /// representation, or of nothing.
    async fn part(&self) -> Option<Part> {
        let Keeping::Writing(writer) = &self.keeping else { return None };
        let (Worker { shared, readers, .. }, Object { key, head, .. }) = (&*self.worker, &self.object);
        let (head, spans, disk) = (head.cut_short(self.expected?)?, writer.spans(), Disk::default());
        let found = shared.tiers.find(key, readers, &shared.names, &disk).await;
        let found = found.as_deref().map(|held| &held.kind);
        if let Some(EntryKind::Response(StoredResponse { body: Body::Spans(old), .. })) = found
            && !self.object.goes_on
        {
            shared.fills.vain.forget(old);
        }
        let may = match found {
            _ if spans.is_empty() || disk.late.get() => false,
            None => true,
            // What is stored may be this body with gaps, some of which are closed now.
            Some(EntryKind::Response(StoredResponse { body: Body::Spans(old), .. }))
                if old.id == spans.id && old.length >= spans.length =>
            {
                return Some(Part::Stored);
            }
            Some(EntryKind::Response(StoredResponse { head: old, body, .. })) => {
                old.part().is_some() && (!old.is_of_same(&head) || body.len() < spans.length)
            }
            Some(_) => false,
        };
        may.then(|| Part::New(Box::new(head)))
    }

    /// The origin broke off what goes on with a part. Nothing new of it is kept: the next fetch is not to meet the same end.
    fn note_vain(&self) {
        let shared = &self.worker.shared;
        match (self.object.stored(), &self.keeping) {
            (Some(begin), Keeping::Writing(writer)) if writer.spans().length > begin.length => {}
            (Some(begin), _) => shared.fills.vain.note(begin),
            // It is small.
            (None, _) => shared.tiers.remove_unchanged(&self.object.key, self.object.began),
        }
    }

    async fn finish(mut self, mut writer: Writer, producer: &Producer) {
        let head = self.object.head.clone();
        if !self.put_head(&mut writer, &head, true).await {
            // No loss here either; but readers that fell behind still need what was written.
            producer.keep(Keep::given_up(Some(writer)));
        }
    }

    /// Whether what was written is an object now, `whole` or a part.
    async fn put_head(&mut self, writer: &mut Writer, head: &Head, whole: bool) -> bool {
        let meta = head.encode();
        loop {
            let (Object { key, began, .. }, tiers) = (&self.object, &self.worker.shared.tiers);
            let finished = match whole {
                true => tiers.finish(*began, key, writer, &meta),
                false => tiers.finish_part(*began, key, writer, &meta),
            };
            match finished {
                Finished::Stored => return true,
                Finished::Refused(Refused::Busy) if self.may_wait().await => {}
                Finished::Refused(_) | Finished::Removed => return false,
            }
        }
    }
}

/// What a body of unknown length is thought to have at first, bytes.
const FIRST: u64 = 32 << 10;

/// How much of so many bytes is in memory until the store has it.
fn gathers(worker: &Worker, bytes: u64) -> usize {
    bytes.min(gather_max(worker)) as usize
}

/// Whether a body of this length is stored in one piece.
pub fn is_small(worker: &Worker, length: u64) -> bool {
    length <= gather_max(worker)
}

/// Bodies up to this size are stored in one piece.
pub fn gather_max(worker: &Worker) -> u64 {
    let tiers = &worker.shared.tiers;
    tiers.stores.piece_max().unwrap_or_else(|| tiers.memory.object_max())
}

/// Stores a body that is all here. Where the memory tier takes it, it is an allocation of its own.
pub fn keep(worker: &Worker, object: Object, mut body: Bytes) -> Result<(), Option<NotStored>> {
    let shared = &worker.shared;
    let Object { key, mut head, part, began, .. } = object;
    if let Some((both, whole)) = part.and_then(|part| combine(&part, &head, &body, gather_max(worker))) {
        (head, body) = (both, whole);
    }
    shared.tiers.put(began, key, head, body, &shared.names)
}

/// A stored part and a new one as one, where they fit together and stay small.
fn combine(stored: &CacheEntry, head: &Head, body: &Bytes, most: u64) -> Option<(Head, Bytes)> {
    let EntryKind::Response(StoredResponse { head: old, body: Body::Whole(earlier), .. }) = &stored.kind
    else {
        return None;
    };
    let both = cache::combined(old, earlier.len() as u64, head, body.len() as u64)?;
    let (earlier_at, at) = (old.part()?.first, head.part()?.first);
    let begin = earlier_at.min(at);
    let end = (earlier_at + earlier.len() as u64).max(at + body.len() as u64);
    let length = usize::try_from(end - begin).ok().filter(|length| *length as u64 <= most)?;
    let mut whole = BytesMut::zeroed(length);
    // The new part counts where they overlap.
    for (at, bytes) in [(earlier_at, earlier), (at, body)] {
        let at = (at - begin) as usize;
        whole[at..at + bytes.len()].copy_from_slice(bytes);
    }
    Some((both, whole.freeze()))
}
