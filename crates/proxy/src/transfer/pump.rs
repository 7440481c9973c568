//! Reads an origin's body once: into the window of a fill, and into the store.
//!
//! An object is stored only when its body came to its proper end. Small bodies are gathered and stored whole; larger
//! ones are written while they arrive. When the store yields (`Refused`), the body goes on to its readers, uncached; what
//! was written of it stays readable until the last of them has gone. When the origin breaks off, it is asked once more
//! for the rest, for all readers together (`mend`). Small frames that are there at once become one piece.

use crate::budget::Lease;
use crate::fill::repair::Repair;
use crate::fill::window::{GATHERED, SMALL, Window};
use crate::fill::{Answer, End, Lead, Opened, Piece, Room, Seat};
use crate::message::pieces::Pieces;
use crate::origin::body::OriginBody;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::{Entry, Held, Resident};
use crate::tiers::{Finished, not_stored};
use crate::transfer::mend::{For, Mender, Rest};
use crate::transfer::span::SpanReader;
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use cache::{Head, NotStored, Verdict};
use http_body::Frame;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use store::{Body, Key, Refused, Writer};
use tokio::task::spawn_local;

/// A store that is busy is asked again after this pause, so many times an object: half a second altogether.
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: u32 = 100;

/// For how long small frames are gathered while more of them are there. Nobody waits for one that is not.
const GATHERING: Duration = Duration::from_millis(5);

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
    /// Otherwise it is only read along.
    pub stores: bool,
}

impl Object {
    pub fn new(key: Key, head: Head, began: Moment) -> Object {
        Object { key, head, begin: Bytes::new(), part: None, began, stores: true }
    }
}

/// What was started.
pub struct Started {
    /// The leader's body.
    pub body: LeadersBody,
    /// It is stored, or being stored; or why it is not. What was removed meanwhile has no reason.
    pub kept: Result<(), Option<NotStored>>,
}

pub enum LeadersBody {
    Whole(Bytes),
    Pieces(SeatBody),
}

/// Stores a response, at once or while it is read. The returned body is the leader's, to whom the response is what
/// `verdict` says. `repair` tells how a body of that length goes on if it must.
pub fn start(
    worker: &Rc<Worker>,
    lead: Lead,
    mut body: OriginBody,
    object: Object,
    verdict: Verdict,
    repair: impl FnOnce(&Object, Option<u64>) -> Option<Repair>,
) -> Started {
    let length = body.left().map(|left| left + object.begin.len() as u64);
    if length.is_some_and(|length| length <= gather_max(worker))
        && let Some(whole) = body.take_whole()
    {
        return keep_whole(worker, lead, object, whole, verdict);
    }
    let names = &worker.shared.names;
    let held = Held::response(object.key.clone(), object.head.clone(), Body::Whole(Bytes::new()), names);
    let repair = repair(&object, length).map(Arc::new);
    let (keeper, kept) = Keeper::new(worker.clone(), object, length);
    let object = &keeper.object;
    lead.keeping(keeper.keeps());
    let opened = Opened { key: object.key.clone(), held, length, verdict, repair: repair.clone() };
    let seat = lead.open(opened);
    let counted = Counted::new(worker);
    let again = repair.clone();
    spawn_local(async move {
        pump(lead, Intake::new(body), keeper, again).await;
        drop(counted);
    });
    let body = LeadersBody::Pieces(SeatBody::new(worker, seat, length, repair));
    Started { body, kept: kept.map_err(Some) }
}

/// All of the body is here, for those who follow too.
fn keep_whole(
    worker: &Rc<Worker>,
    lead: Lead,
    mut object: Object,
    mut pieces: Vec<Bytes>,
    verdict: Verdict,
) -> Started {
    let begin = std::mem::take(&mut object.begin);
    if !begin.is_empty() {
        pieces.insert(0, begin);
    }
    let body = match &pieces[..] {
        [one] if !worker.shared.tiers.memory.takes(one.len()) => one.clone(),
        several => joined(several),
    };
    object.head.settle(body.len() as u64);
    let answer = lead.is_followed().then(|| {
        let (key, head) = (object.key.clone(), object.head.clone());
        let held = Held::response(key, head, Body::Whole(body.clone()), &worker.shared.names);
        Answer { held: Arc::new(held), validated: false, verdict }
    });
    let kept = keep(worker, object, body.clone());
    match answer {
        Some(answer) => lead.answered(answer),
        None => lead.again(),
    }
    Started { body: LeadersBody::Whole(body), kept }
}

/// The body of a follower.
pub fn follow(worker: &Rc<Worker>, seat: Seat, opened: &Opened) -> SeatBody {
    SeatBody::new(worker, seat, opened.length, opened.repair.clone())
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

async fn pump(lead: Lead, mut body: Intake, mut keeper: Keeper, mut repair: Option<Arc<Repair>>) {
    let worth_finishing = keeper.worker.settings.bounds.finish_bytes;
    let begin = std::mem::take(&mut keeper.object.begin);
    if !begin.is_empty() {
        keeper.take(&begin, &lead);
        lead.push(begin);
    }
    loop {
        match body.next().await {
            Some(Ok(bytes)) => {
                keeper.take(&bytes, &lead);
                lead.keeping(keeper.keeps());
                lead.push(bytes);
                keeper.wait_for_store(&lead).await;
                // All is here: what is kept need not wait for its readers.
                if body.is_over() {
                    continue;
                }
                let few_left = body.left().is_some_and(|left| left <= worth_finishing);
                if lead.room().await == Room::NobodyReads && !(few_left && keeper.keeps()) {
                    break;
                }
            }
            None => {
                Box::pin(keeper.commit(&lead)).await;
                return lead.end(End::Complete);
            }
            // Once a fill: an origin that breaks off again is no better the third time.
            Some(Err(_)) => match repair.take() {
                Some(repair) => {
                    match repair.fetch(&keeper.worker, For::All, keeper.got, keeper.expected).await {
                        Some(rest) => body.rest = Some(rest),
                        None => break,
                    }
                }
                None => break,
            },
        }
    }
    keeper.give_up(&lead);
    lead.end(End::Broken);
}

/// What comes of a body, and how it ended.
type Next = Option<io::Result<Bytes>>;

/// A body as its fill takes it in: an origin's, and the rest of it when that broke off.
struct Intake {
    first: OriginBody,
    rest: Option<Rest>,
    /// It came behind what was gathered.
    ahead: Option<Next>,
}

impl Intake {
    fn new(first: OriginBody) -> Intake {
        Intake { first, rest: None, ahead: None }
    }

    fn stream(&mut self) -> &mut dyn Pieces {
        match &mut self.rest {
            Some(rest) => rest,
            None => &mut self.first,
        }
    }

    /// Bytes still to come, when known.
    fn left(&mut self) -> Option<u64> {
        let ahead = match &self.ahead {
            Some(Some(Ok(bytes))) => bytes.len() as u64,
            _ => 0,
        };
        self.stream().left().map(|left| left + ahead)
    }

    fn is_over(&mut self) -> bool {
        self.ahead.is_none() && self.stream().is_over()
    }

    async fn next(&mut self) -> Next {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => poll_fn(|cx| self.poll_bytes(cx)).await,
        };
        match next {
            Some(Ok(bytes)) if bytes.len() < SMALL => Some(Ok(self.gather(bytes).await)),
            next => next,
        }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            match ready!(self.stream().poll_piece(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => return Poll::Ready(Some(Ok(bytes))),
                    // Trailers are not part of the object.
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// Small frames that are there, or come while the worker sees to what else is ready, as one.
    async fn gather(&mut self, first: Bytes) -> Bytes {
        let until = Instant::now() + GATHERING;
        let mut gathered = BytesMut::new();
        while gathered.len() < GATHERED && !self.stream().is_over() && Instant::now() < until {
            step_back().await;
            match poll_fn(|cx| Poll::Ready(self.poll_bytes(cx))).await {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(bytes))) if bytes.len() < SMALL => {
                    if gathered.is_empty() {
                        gathered.extend_from_slice(&first);
                    }
                    gathered.extend_from_slice(&bytes);
                }
                Poll::Ready(next) => {
                    self.ahead = Some(next);
                    break;
                }
            }
        }
        if gathered.is_empty() { first } else { gathered.freeze() }
    }
}

/// Lets run once what else is ready. Unlike the runtime's own, it does not look at the sockets first.
async fn step_back() {
    let mut stepped = false;
    poll_fn(|cx| match std::mem::replace(&mut stepped, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
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
    /// The bytes that are gathered, or that the store's writer has, of one span at most.
    _lease: Option<Lease>,
}

enum Keeping {
    /// All of it so far, while it may be small.
    Gathered(Window),
    Written(Writer),
    /// Too large, or the store yields.
    No,
}

impl Keeper {
    /// And why nothing is kept, if that is known before the body comes.
    fn new(worker: Rc<Worker>, object: Object, expected: Option<u64>) -> (Keeper, Result<(), NotStored>) {
        let large = expected.is_some_and(|expected| !is_small(&worker, expected));
        let span = expected.unwrap_or(u64::MAX).min(gather_max(&worker)) as usize;
        let lease = worker.shared.budget.origins.try_spare(span);
        let (state, kept) = match &worker.shared.tiers.store {
            _ if lease.is_none() => (Keeping::No, Err(NotStored::Busy)),
            // The disk is late.
            _ if !object.stores => (Keeping::No, Err(NotStored::Busy)),
            Some(store) if large => match store.begin(&object.key, expected) {
                Ok(writer) => (Keeping::Written(writer), Ok(())),
                Err(refused) => (Keeping::No, Err(not_stored(refused))),
            },
            _ => (Keeping::Gathered(Window::default()), Ok(())),
        };
        let keeper = Keeper {
            worker,
            object,
            expected,
            got: 0,
            state,
            waiting: Bytes::new(),
            patience: PATIENCE,
            _lease: lease,
        };
        (keeper, kept)
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
            self.write(pieces.joined(), lead);
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
            return self.give_up(lead);
        }
        self.object.head.settle(self.got);
        match std::mem::replace(&mut self.state, Keeping::No) {
            // The response has its head: whoever wants to know looks.
            Keeping::Gathered(pieces) => drop(keep(&self.worker, self.object, pieces.joined())),
            Keeping::Written(writer) => self.finish(writer, lead).await,
            Keeping::No if !self.object.stores => {}
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

/// Whether a body of this length is stored in one piece.
pub fn is_small(worker: &Worker, length: u64) -> bool {
    length <= gather_max(worker)
}

/// Bodies up to this size are stored in one piece.
fn gather_max(worker: &Worker) -> u64 {
    match &worker.shared.tiers.store {
        Some(store) => store.span_size() as u64,
        None => worker.shared.tiers.memory.object_max(),
    }
}

/// Where the memory tier takes it, the body is an allocation of its own.
fn keep(worker: &Worker, object: Object, mut body: Bytes) -> Result<(), Option<NotStored>> {
    let shared = &worker.shared;
    let Object { key, mut head, part, began, .. } = object;
    if let Some((both, whole)) = part.and_then(|part| combine(&part, &head, &body, gather_max(worker))) {
        (head, body) = (both, whole);
    }
    shared.tiers.put(began, key, head, body, &shared.names)
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
pub struct SeatBody {
    /// Until the body has to be repaired: then the fill waits for it no longer.
    seat: Option<Seat>,
    spans: Option<SpanReader>,
    mender: Mender,
    at: u64,
    left: Option<u64>,
    /// Bytes went out since the connection last waited.
    moved: bool,
    failed: Option<io::Error>,
}

impl SeatBody {
    fn new(worker: &Rc<Worker>, seat: Seat, length: Option<u64>, repair: Option<Arc<Repair>>) -> SeatBody {
        let spans = worker.reader.clone().map(|reader| SpanReader::new(worker, reader));
        let mender = Mender::new(worker.clone(), repair);
        SeatBody { seat: Some(seat), spans, mender, at: 0, left: length, moved: false, failed: None }
    }

    fn took(&mut self, bytes: Bytes) -> io::Result<Frame<Bytes>> {
        let length = bytes.len() as u64;
        self.at += length;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(length).ok_or_else(|| io::Error::other("the body is too long"))?;
        }
        Ok(Frame::data(bytes))
    }

    fn end(&self) -> Option<u64> {
        self.left.map(|left| self.at + left)
    }

    /// Goes on without the fill, if that can be.
    fn mend(&mut self, error: io::Error) -> io::Result<()> {
        let begun = self.mender.begin(self.at, self.end());
        self.seat = self.seat.take().filter(|_| !begun);
        if begun { Ok(()) } else { Err(error) }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        while let Some(seat) = &self.seat {
            let error = match ready!(seat.poll_piece(cx)) {
                Piece::Bytes(bytes) => return Poll::Ready(Some(Ok(bytes))),
                Piece::End(End::Complete) if self.left.unwrap_or(0) == 0 => return Poll::Ready(None),
                Piece::End(_) => {
                    return Poll::Ready(Some(Err(io::Error::other("the origin's body broke off"))));
                }
                Piece::Gone => io::Error::other("too slow for a fetch that others share"),
                Piece::Stored(spans, at) => {
                    let read = self.spans.as_mut().map(|reader| reader.poll_at(cx, spans, at));
                    match read {
                        None => io::Error::other("this worker cannot read the store"),
                        Some(read) => match ready!(read) {
                            Ok(bytes) => {
                                seat.took(bytes.len() as u64);
                                return Poll::Ready(Some(Ok(bytes)));
                            }
                            Err(error) => error,
                        },
                    }
                }
            };
            self.mend(error)?;
        }
        self.mender.poll_bytes(cx, self.at, self.end())
    }
}

impl Pieces for SeatBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match self.failed.take() {
            Some(error) => Some(Err(error)),
            None => ready!(self.poll_bytes(cx)).map(|bytes| self.took(bytes?)),
        };
        let moved = std::mem::replace(&mut self.moved, matches!(next, Some(Ok(_))));
        match next {
            // What came before goes out first.
            Some(Err(error)) if moved => {
                self.failed = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            next => Poll::Ready(next),
        }
    }

    fn left(&self) -> Option<u64> {
        self.left
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}
