//! Reads an origin's body once: into the window of a fill, and into the store.
//!
//! An object is stored only when its body came to its proper end. Small bodies are gathered and stored whole; larger
//! ones are written while they arrive. When the store yields (`Refused`), the body goes on to its readers, uncached.

use crate::body::{OriginBody, ReplyBody, Stream};
use crate::fill::{End, Lead, Opened, Piece, Room, Seat};
use crate::invalidation::Moment;
use crate::memory::{Entry, Held, Resident};
use crate::span::SpanReader;
use crate::tiers::Finished;
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use cache::Head;
use http_body::Frame;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use store::{Body, Key, Refused, Writer};
use tokio::task::spawn_local;

/// A store that is busy is asked again after this pause, so many times an object: half a second altogether.
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: u32 = 100;

/// What is to be stored.
pub struct Object {
    pub key: Key,
    pub head: Head,
    /// Goes before what the origin sends.
    pub begin: Bytes,
    /// What is stored of the same representation, to be combined with.
    pub part: Option<Arc<Held>>,
    /// When what it is made of was asked for, or found.
    pub began: Moment,
}

impl Object {
    pub fn new(key: Key, head: Head, began: Moment) -> Object {
        Object { key, head, begin: Bytes::new(), part: None, began }
    }
}

/// Stores a response, at once or while it is read. The returned body is the leader's.
pub fn start(worker: &Rc<Worker>, lead: Lead, mut body: OriginBody, object: Object) -> ReplyBody {
    let length = body.left().map(|left| left + object.begin.len() as u64);
    if length.is_some_and(|length| length <= gather_max(worker))
        && let Some(whole) = body.take_whole()
    {
        return ReplyBody::whole(keep_whole(worker, lead, object, whole));
    }
    let names = &worker.shared.names;
    let held = Held::response(object.key.clone(), object.head.clone(), Body::Whole(Bytes::new()), names);
    lead.keeping(true);
    let seat = lead.open(Opened { key: object.key.clone(), held, length });
    let keeper = Keeper::new(worker.clone(), object, length);
    let counted = Counted::new(worker);
    spawn_local(async move {
        pump(lead, body, keeper).await;
        drop(counted);
    });
    ReplyBody::stream(SeatBody::new(worker, seat, length))
}

/// All of the body is here: whoever follows finds it where it is stored.
fn keep_whole(worker: &Rc<Worker>, lead: Lead, mut object: Object, mut pieces: Vec<Bytes>) -> Bytes {
    let begin = std::mem::take(&mut object.begin);
    if !begin.is_empty() {
        pieces.insert(0, begin);
    }
    let body = match &pieces[..] {
        [one] if !worker.shared.tiers.memory.takes(one.len()) => one.clone(),
        several => joined(several),
    };
    object.head.settle(body.len() as u64);
    keep(worker, object, body.clone());
    lead.again();
    body
}

/// The body of a follower.
pub fn follow(worker: &Rc<Worker>, seat: Seat, opened: &Opened) -> ReplyBody {
    ReplyBody::stream(SeatBody::new(worker, seat, opened.length))
}

/// Something that a stopping worker waits for.
pub struct Counted(Rc<Worker>);

impl Counted {
    pub fn new(worker: &Rc<Worker>) -> Counted {
        worker.pumps.set(worker.pumps.get() + 1);
        Counted(worker.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.pumps.set(self.0.pumps.get() - 1);
    }
}

async fn pump(lead: Lead, mut body: OriginBody, mut keeper: Keeper) {
    let worth_finishing = keeper.worker.settings.bounds.finish_bytes;
    let begin = std::mem::take(&mut keeper.object.begin);
    if !begin.is_empty() {
        keeper.take(&begin, &lead);
        lead.push(begin);
    }
    loop {
        match poll_fn(|cx| body.poll_piece(cx)).await {
            Some(Ok(frame)) => {
                // Trailers are not part of the object.
                let Ok(bytes) = frame.into_data() else { continue };
                keeper.take(&bytes, &lead);
                lead.keeping(keeper.keeps());
                lead.push(bytes);
                keeper.wait_for_store(&lead).await;
                let few_left = body.left().is_some_and(|left| left <= worth_finishing);
                if lead.room().await == Room::NobodyReads && !(few_left && keeper.keeps()) {
                    return lead.end(End::Broken);
                }
            }
            None => {
                Box::pin(keeper.commit(&lead)).await;
                return lead.end(End::Complete);
            }
            Some(Err(_)) => return lead.end(End::Broken),
        }
    }
}

/// Puts a body into the store and the memory tier as it arrives.
struct Keeper {
    worker: Rc<Worker>,
    object: Object,
    expected: Option<u64>,
    got: u64,
    state: Keeping,
    /// What the store was too busy to take.
    waiting: Bytes,
    /// How often it is still asked again.
    patience: u32,
}

enum Keeping {
    /// All of it so far, while it may be small.
    Gathered(Vec<Bytes>),
    Written(Writer),
    /// Too large, or the store yields.
    No,
}

impl Keeper {
    fn new(worker: Rc<Worker>, object: Object, expected: Option<u64>) -> Keeper {
        let state = Keeping::Gathered(Vec::new());
        Keeper { worker, object, expected, got: 0, state, waiting: Bytes::new(), patience: PATIENCE }
    }

    fn keeps(&self) -> bool {
        !matches!(self.state, Keeping::No)
    }

    fn take(&mut self, bytes: &Bytes, lead: &Lead) {
        self.got += bytes.len() as u64;
        if self.got > self.worker.settings.bounds.object_bytes {
            self.give_up(lead);
            self.state = Keeping::No;
        }
        match &mut self.state {
            Keeping::No => {}
            Keeping::Gathered(pieces) => {
                pieces.push(bytes.clone());
                if self.expected.unwrap_or(self.got).max(self.got) > gather_max(&self.worker) {
                    self.write_gathered(lead);
                }
            }
            Keeping::Written(_) => self.write(bytes.clone(), lead),
        }
    }

    /// An origin that is faster than the disk is read more slowly for a moment; then the object is given up.
    async fn wait_for_store(&mut self, lead: &Lead) {
        while !self.waiting.is_empty() {
            if !self.may_wait().await {
                self.give_up(lead);
                return lead.keeping(false);
            }
            let waiting = std::mem::take(&mut self.waiting);
            self.write(waiting, lead);
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

    fn write_gathered(&mut self, lead: &Lead) {
        let Keeping::Gathered(pieces) = std::mem::replace(&mut self.state, Keeping::No) else { return };
        let Some(store) = &self.worker.shared.tiers.store else { return };
        if let Ok(writer) = store.begin(&self.object.key, self.expected) {
            self.state = Keeping::Written(writer);
            self.write(joined(&pieces), lead);
        }
    }

    fn write(&mut self, bytes: Bytes, lead: &Lead) {
        let Keeping::Written(writer) = &mut self.state else { return };
        let mut left = &bytes[..];
        let result = writer.push(&mut left);
        let spans = writer.spans();
        let size = u64::from(spans.span.max(1));
        lead.stored(spans, spans.length / size * size);
        match result {
            Ok(()) => {}
            // A span that is full waits in the writer, whatever is left.
            Err(Refused::Busy) => self.waiting = bytes.slice_ref(left),
            Err(_) => self.give_up(lead),
        }
    }

    /// The object is not stored; readers that fell behind still need what was.
    fn give_up(&mut self, lead: &Lead) {
        self.waiting = Bytes::new();
        if let Keeping::Written(writer) = std::mem::replace(&mut self.state, Keeping::No) {
            lead.keep_written(writer);
        }
    }

    /// The body came to its proper end.
    async fn commit(mut self, lead: &Lead) {
        if self.expected.is_some_and(|expected| expected != self.got) {
            return;
        }
        self.object.head.settle(self.got);
        match std::mem::replace(&mut self.state, Keeping::No) {
            Keeping::Gathered(pieces) => keep(&self.worker, self.object, joined(&pieces)),
            Keeping::Written(writer) => self.finish(writer, lead).await,
            // What the key held before is older than this response.
            Keeping::No => self.worker.shared.tiers.remove(&self.object.key),
        }
    }

    async fn finish(mut self, mut writer: Writer, lead: &Lead) {
        let meta = self.object.head.encode();
        loop {
            let Object { key, began, .. } = &self.object;
            match self.worker.shared.tiers.finish(*began, key, &meta, &mut writer) {
                Finished::Stored => return,
                Finished::Refused(Refused::Busy) if self.may_wait().await => {}
                // No loss here either; but readers that fell behind still need what was written.
                Finished::Refused(_) | Finished::Removed => return lead.keep_written(writer),
            }
        }
    }
}

/// Bodies up to this size are stored in one piece.
fn gather_max(worker: &Worker) -> u64 {
    match &worker.shared.tiers.store {
        Some(store) => store.span_size() as u64,
        None => worker.shared.tiers.memory.object_max(),
    }
}

/// Where the memory tier takes it, the body is an allocation of its own.
fn keep(worker: &Worker, object: Object, mut body: Bytes) {
    let shared = &worker.shared;
    let Object { key, mut head, part, began, .. } = object;
    if let Some((both, whole)) = part.and_then(|part| combine(&part, &head, &body, gather_max(worker))) {
        (head, body) = (both, whole);
    }
    shared.tiers.put(began, key, head, body, &shared.names);
}

/// A stored part and a new one as one, where they fit together and stay small.
fn combine(stored: &Held, head: &Head, body: &Bytes, most: u64) -> Option<(Head, Bytes)> {
    let Entry::Response(Resident { head: old, body: Body::Whole(earlier), .. }) = &stored.entry else {
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

/// One exact allocation: pieces may be small parts of a large read buffer, which must not stay.
fn joined(pieces: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}

/// A body as one reader of a fill takes it.
struct SeatBody {
    seat: Seat,
    spans: Option<SpanReader>,
    left: Option<u64>,
}

impl SeatBody {
    fn new(worker: &Worker, seat: Seat, length: Option<u64>) -> SeatBody {
        SeatBody { seat, spans: worker.reader.clone().map(SpanReader::new), left: length }
    }

    fn took(&mut self, bytes: Bytes) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Stream for SeatBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match ready!(self.seat.poll_piece(cx)) {
            Piece::Bytes(bytes) => self.took(bytes),
            Piece::End(End::Complete) => Poll::Ready(None),
            Piece::End(End::Broken) => {
                Poll::Ready(Some(Err(io::Error::other("the origin's body broke off"))))
            }
            Piece::Stored(spans, at) => {
                let Some(reader) = &mut self.spans else {
                    return Poll::Ready(Some(Err(io::Error::other("this worker cannot read the store"))));
                };
                match ready!(reader.poll_at(cx, spans, at)) {
                    Ok(bytes) => {
                        self.seat.took(bytes.len() as u64);
                        self.took(bytes)
                    }
                    Err(error) => Poll::Ready(Some(Err(error))),
                }
            }
        }
    }

    fn left(&self) -> Option<u64> {
        self.left
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}
