//! A large body, or a part of it, read from the store piece by piece as the client takes it. When a piece is damaged or
//! gone, the origin gives the rest (`mend`).

use crate::fill::repair::Repair;
use crate::message::pieces::Pieces;
use crate::transfer::mend::Mender;
use crate::worker::Worker;
use bytes::Bytes;
use http_body::Frame;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use store::{Looked, Reader, Spans};

/// Reads one span at a time; `fetch` is under way or none is.
pub struct SpanReader {
    reader: Reader,
    fetch: Option<Pin<Box<dyn Future<Output = Looked<Bytes>>>>>,
    /// How long a disk that is late is asked again.
    patience: Duration,
    late_since: Option<Instant>,
}

impl SpanReader {
    /// `patience`: how long a disk that is late is asked again, where nobody else can give the piece.
    pub fn new(reader: Reader, patience: Duration) -> SpanReader {
        SpanReader { reader, fetch: None, patience, late_since: None }
    }

    /// The bytes from `at` to the end of its span. Asking again continues the read under way, so `at` must stay.
    pub fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        spans: Spans,
        at: u64,
        mender: &Mender,
    ) -> Poll<io::Result<Bytes>> {
        let size = u64::from(spans.span.max(1));
        loop {
            let reader = &self.reader;
            let fetch = self.fetch.get_or_insert_with(|| {
                let reader = reader.clone();
                let n = u32::try_from(at / size).unwrap_or(u32::MAX);
                Box::pin(async move { reader.look_span(&spans, n).await })
            });
            let found = ready!(fetch.as_mut().poll(cx));
            self.fetch = None;
            let skipped = usize::try_from(at % size).unwrap_or(usize::MAX);
            return Poll::Ready(match found {
                Looked::Found(bytes) if bytes.len() > skipped => {
                    self.late_since = None;
                    Ok(bytes.slice(skipped..))
                }
                // A slow disk is better than a body that breaks off.
                Looked::Late if !mender.may_begin() && self.may_ask_again() => continue,
                Looked::Late => Err(io::Error::other("the disk does not give a piece of the stored body")),
                _ => Err(io::Error::other("a piece of the stored body went away")),
            });
        }
    }

    fn may_ask_again(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.late_since.get_or_insert(now)) < self.patience
    }
}

/// Bytes `at..end` of a stored body.
pub struct SpanBody {
    reader: SpanReader,
    mender: Mender,
    spans: Spans,
    at: u64,
    end: u64,
}

impl SpanBody {
    /// `repair` tells how the origin is asked for what the store cannot give.
    pub fn new(
        worker: &Rc<Worker>,
        reader: Reader,
        repair: Option<Arc<Repair>>,
        spans: Spans,
        (at, end): (u64, u64),
    ) -> SpanBody {
        let reader = SpanReader::new(reader, worker.settings().timeouts.origin_stall);
        let mender = Mender::new(worker.clone(), repair);
        SpanBody { reader, mender, spans, at, end }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.mender.mends() {
            match ready!(self.reader.poll_at(cx, self.spans, self.at, &self.mender)) {
                Ok(bytes) => return Poll::Ready(Some(Ok(bytes))),
                // The store has forgotten the piece, and with it the object is found no more.
                Err(error) => {
                    if !self.mender.begin(self.at, Some(self.end)) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
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

    fn left(&self) -> Option<u64> {
        Some(self.end - self.at)
    }

    fn is_over(&self) -> bool {
        self.at >= self.end
    }
}
