//! A body as one reader of a fill takes it: from the window, from the store where the window has moved on, and from the origin
//! where neither has it: what the store lost with all who lack it (`heal`), and the rest alone when the reader is too slow (`mend`).

use crate::fill::{End, FillReader, Piece};
use crate::message::pieces::Pieces;
use crate::transfer::intake::Next;
use crate::transfer::mend::Mender;
use crate::transfer::span::{HealingReader, Supply, is_lost};
use crate::worker::Worker;
use bytes::Bytes;
use http_body::Frame;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// One reader's body.
pub struct FillBody {
    worker: Rc<Worker>,
    /// Until the body has to be repaired: then the fill waits for it no longer.
    seat: Option<FillReader>,
    spans: Option<Box<HealingReader>>,
    supply: Supply,
    mender: Mender,
    at: u64,
    left: Option<u64>,
    /// Bytes went out since the connection last waited.
    moved: bool,
    failed: Option<io::Error>,
}

impl FillBody {
    pub fn new(worker: &Rc<Worker>, seat: FillReader, length: Option<u64>, supply: Supply) -> FillBody {
        let mender = Mender::new(worker.clone(), supply.repair.clone());
        FillBody {
            worker: worker.clone(),
            seat: Some(seat),
            spans: None,
            supply,
            mender,
            at: 0,
            left: length,
            moved: false,
            failed: None,
        }
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
        self.spans = self.spans.take().filter(|_| !begun);
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
                    if self.spans.is_none() {
                        let reader = self.worker.readers.at(&spans);
                        let healing = |reader| HealingReader::new(&self.worker, reader, &self.supply);
                        self.spans = reader.map(Rc::unwrap_or_clone).map(healing).map(Box::new);
                    }
                    let place = (at, spans.length);
                    let read =
                        self.spans.as_mut().map(|reader| reader.poll_at(cx, spans, place, &self.mender));
                    match read {
                        None => io::Error::other("this worker cannot read the store"),
                        Some(read) => match ready!(read) {
                            Ok(bytes) => {
                                seat.took(bytes.len() as u64);
                                return Poll::Ready(Some(Ok(bytes)));
                            }
                            Err(error) if is_lost(&error) => return Poll::Ready(Some(Err(error))),
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

impl Pieces for FillBody {
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

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(spans) = &mut self.spans {
            spans.poll_ahead(cx);
        }
    }

    fn left(&self) -> Option<u64> {
        self.left
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}
