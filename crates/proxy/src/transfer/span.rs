//! A large body, or a part of it, read from the store piece by piece as the client takes it. A piece that is damaged or gone the
//! origin gives again (`heal`); where the disk hangs, the rest of the body (`mend`).

use crate::budget::ClientsClaim;
use crate::fill::gap::Given;
use crate::fill::repair::Repair;
use crate::message::pieces::Pieces;
use crate::report::counters::Number;
use crate::tiers::span_cache::most_bytes;
use crate::transfer::heal::Gaps;
use crate::transfer::mend::Mender;
use crate::worker::Worker;
use bytes::Bytes;
use http_body::Frame;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use store::{Lookup, Reader, Spans};
use tokio::time::{Sleep, sleep};

/// Bytes of a copy, when memory is short.
const PIECE: usize = 64 << 10;

/// For whom a large body is read.
#[derive(Clone, Default)]
pub struct Supply {
    /// Whose share of memory it takes.
    pub charged: Option<IpAddr>,
    /// How the origin is asked for what the store cannot give.
    pub repair: Option<Arc<Repair>>,
}

/// Reads one span at a time; `fetch` is under way or none is.
///
/// While memory is ample its reader has that span, and what the connection still holds of the one before it. When it is not,
/// small copies are given out, of spans that the worker has for all such readers (`tiers::span_cache`).
pub struct SpanReader {
    worker: Rc<Worker>,
    reader: Reader,
    fetch: Option<Pin<Box<dyn Future<Output = Lookup<Bytes>>>>>,
    /// How long a disk that is late is waited for where nothing else gives the rest.
    patience: Duration,
    /// Since when a span is.
    asked: Option<Instant>,
    claim: ClientsClaim,
    /// Which span is under way, and whether it is its own.
    reading: (Spans, u32),
    own: bool,
    /// It came before anybody took it.
    came: Option<Lookup<Bytes>>,
    /// Since it waits for room.
    waits: Option<Pin<Box<Sleep>>>,
}

impl SpanReader {
    /// `charged`: whose share of memory it takes.
    pub fn new(worker: &Rc<Worker>, reader: Reader, charged: Option<IpAddr>) -> SpanReader {
        SpanReader {
            worker: worker.clone(),
            reader,
            fetch: None,
            patience: worker.settings().timeouts.origin_stall,
            asked: None,
            claim: ClientsClaim::new(&worker.shared.budget.readers, charged),
            reading: (Spans { store: 0, id: 0, length: 0, span: 0 }, 0),
            own: false,
            came: None,
            waits: None,
        }
    }

    /// Bytes from `at` on, to the end of its span at most. Asking again continues the read under way, so `at` must stay. Where
    /// the mender could not go on, a disk that is late is waited for, for as long as an origin may stall.
    pub fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        spans: Spans,
        at: u64,
        mender: &Mender,
    ) -> Poll<io::Result<Bytes>> {
        let n = spans.piece_at(at);
        let skipped = (at % u64::from(spans.span.max(1))) as usize;
        loop {
            if self.fetch.is_none() && self.came.is_none() {
                self.own = match self.poll_room(cx, spans.span as usize) {
                    Poll::Ready(own) => own,
                    // Those who read slowly have all memory: as good as a disk that hangs.
                    Poll::Pending if mender.may_begin()() && self.has_waited(cx) => {
                        return Poll::Ready(Err(io::Error::other("too little memory for more readers")));
                    }
                    Poll::Pending => return Poll::Pending,
                };
                self.waits = None;
                if !self.own
                    && let Some(span) = self.worker.span_cache.get(&spans, n)
                {
                    return Poll::Ready(piece(&span, skipped));
                }
                let (worker, reader, own) = (self.worker.clone(), self.reader.clone(), self.own);
                self.reading = (spans, n);
                let (elsewhere, until) = (mender.may_begin(), self.until());
                self.fetch = Some(Box::pin(async move {
                    let _turn = if own { None } else { worker.span_cache.turn().await };
                    let stays = || !elsewhere() && Instant::now() < until;
                    reader.look_span(&spans, n, &stays).await
                }));
            }
            let found = match self.came.take() {
                Some(found) => found,
                None => ready!(self.poll_fetch(cx)),
            };
            let bytes = match found {
                Lookup::Found(bytes) => bytes,
                // It was given up for the origin, which cannot be asked any more.
                Lookup::Late if !mender.may_begin()() && Instant::now() < self.until() => continue,
                Lookup::Late => {
                    return Poll::Ready(Err(io::Error::other(
                        "the disk does not give a piece of the stored body",
                    )));
                }
                Lookup::Missing => Bytes::new(),
            };
            self.asked = None;
            return Poll::Ready(match self.own {
                _ if bytes.len() <= skipped => gone(),
                true => Ok(bytes.slice(skipped..)),
                false => {
                    self.worker.span_cache.put(&spans, n, bytes.clone());
                    piece(&bytes, skipped)
                }
            });
        }
    }

    fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<Lookup<Bytes>> {
        let Some(fetch) = &mut self.fetch else { return Poll::Pending };
        let found = ready!(fetch.as_mut().poll(cx));
        self.fetch = None;
        Poll::Ready(found)
    }

    /// Lets a read that was begun come to its end: until then the disk counts as one that keeps it waiting.
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        let Poll::Ready(found) = self.poll_fetch(cx) else { return };
        match found {
            Lookup::Found(bytes) if !self.own => {
                let (spans, n) = self.reading;
                self.worker.span_cache.put(&spans, n, bytes);
            }
            found => self.came = Some(found),
        }
    }

    /// Gives back what it holds: nothing more is read from here.
    pub fn release(&mut self) {
        (self.fetch, self.came, self.waits) = (None, None, None);
        self.claim.give_up();
    }

    fn has_waited(&mut self, cx: &mut Context<'_>) -> bool {
        let patience = 4 * self.reader.patience();
        self.waits.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx).is_ready()
    }

    /// Until when the span that is read now is waited for: a slow disk is better than a body that breaks off.
    pub(super) fn until(&mut self) -> Instant {
        *self.asked.get_or_insert_with(Instant::now) + self.patience
    }

    /// Whether there is room for spans of its own; waits for that of a copy.
    fn poll_room(&mut self, cx: &mut Context<'_>, span: usize) -> Poll<bool> {
        let pool = &self.worker.shared.budget.disk;
        let wanted = 2 * most_bytes(span);
        if pool.is_ample_for(wanted) {
            let has = self.claim.lease().map_or(0, |lease| lease.bytes());
            if has >= wanted || self.claim.try_more(pool, wanted - has) {
                return Poll::Ready(true);
            }
        } else if let Some(lease) = self.claim.lease() {
            lease.shrink(PIECE);
        }
        self.claim.poll(cx, pool, PIECE).map(|()| false)
    }
}

/// A copy of the next bytes of a span.
fn piece(span: &Bytes, skipped: usize) -> io::Result<Bytes> {
    match span.get(skipped..).filter(|rest| !rest.is_empty()) {
        Some(rest) => Ok(Bytes::copy_from_slice(&rest[..rest.len().min(PIECE)])),
        None => gone(),
    }
}

fn gone<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::NotFound, "a piece of the stored body went away"))
}

/// The same with what the origin gives again of what the store lost.
pub struct HealingReader {
    worker: Rc<Worker>,
    reader: SpanReader,
    gaps: Gaps,
    /// The origin gave some of it.
    is_healed: bool,
}

impl HealingReader {
    pub fn new(worker: &Rc<Worker>, reader: Reader, supply: &Supply) -> HealingReader {
        let Supply { charged, repair } = supply.clone();
        let (reader, gaps) = (SpanReader::new(worker, reader, charged), Gaps::new(worker, repair));
        HealingReader { worker: worker.clone(), reader, gaps, is_healed: false }
    }

    /// Bytes from `at` on, as [`SpanReader::poll_at`], of a body that is read up to `end`. [`is_lost`] is what the origin does not
    /// give either.
    pub fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        spans: Spans,
        (at, end): (u64, u64),
        mender: &Mender,
    ) -> Poll<io::Result<Bytes>> {
        loop {
            match ready!(self.gaps.poll_at(cx, at)) {
                Given::Bytes(bytes) => {
                    if !std::mem::replace(&mut self.is_healed, true) {
                        self.worker.exit.add(Number::Healed, 1);
                    }
                    return Poll::Ready(Ok(bytes));
                }
                Given::Lost | Given::Refused => {}
                Given::Stored | Given::Beyond => match ready!(self.reader.poll_at(cx, spans, at, mender)) {
                    Err(error) if is_lost(&error) => {}
                    read => return Poll::Ready(read),
                },
            }
            if !self.gaps.close(&spans, at, end) {
                return Poll::Ready(gone());
            }
            self.reader.release();
        }
    }

    /// As [`SpanReader::poll_ahead`].
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.reader.poll_ahead(cx);
    }

    /// As [`SpanReader::release`].
    pub fn release(&mut self) {
        self.reader.release();
    }
}

/// Whether the store lost what was to be read: to ask for it alone is no use.
pub fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Bytes `at..end` of a stored body.
pub struct SpanBody {
    reader: HealingReader,
    mender: Mender,
    spans: Spans,
    at: u64,
    end: u64,
}

impl SpanBody {
    pub fn new(
        worker: &Rc<Worker>,
        reader: Reader,
        supply: &Supply,
        spans: Spans,
        (at, end): (u64, u64),
    ) -> SpanBody {
        let mender = Mender::new(worker.clone(), supply.repair.clone());
        SpanBody { reader: HealingReader::new(worker, reader, supply), mender, spans, at, end }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.mender.mends() {
            match ready!(self.reader.poll_at(cx, self.spans, (self.at, self.end), &self.mender)) {
                Ok(bytes) => return Poll::Ready(Some(Ok(bytes))),
                // For this reader alone.
                Err(error) if !is_lost(&error) && self.mender.begin(self.at, Some(self.end)) => {
                    self.reader.release();
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        self.mender.poll_bytes(cx, self.at, Some(self.end))
    }
}

impl Pieces for SpanBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.at >= self.end {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_bytes(cx));
        Poll::Ready(next.map(|bytes| {
            let mut bytes = bytes?;
            bytes.truncate(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
            self.at += bytes.len() as u64;
            Ok(Frame::data(bytes))
        }))
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.reader.poll_ahead(cx);
    }

    fn left(&self) -> Option<u64> {
        Some(self.end - self.at)
    }

    fn is_over(&self) -> bool {
        self.at >= self.end
    }
}
