//! A response's body on its way from an origin.

use crate::budget::{Allowance, ClientsClaim, FLOOR, HELD_ANYWAY, Lease};
use crate::message::pieces::Pieces;
use crate::origin::Line;
use crate::origin::content::{Gate, Side};
use crate::origin::incoming::Incoming;
use crate::origin::way::Way;
use crate::report::Exit;
use crate::report::counters::Number;
use bytes::Bytes;
use http_body::Frame;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};

/// A body as it comes from an origin. Its connection goes back to the allowance at its end.
pub struct OriginBody {
    incoming: Incoming,
    way: Option<Way>,
    exit: Rc<Exit>,
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// What comes behind what came with the head is read once it has this.
    claim: ClientsClaim,
    /// Of the request, if that has content, with which it shares what is taken.
    gate: Option<Rc<Gate>>,
    allowance: Allowance,
    moved: bool,
    /// What came with the head, and how the body ended if that was all.
    early: VecDeque<Frame<Bytes>>,
    ended: Option<io::Result<()>>,
    /// Its end is told by length or chunks, not by the end of the connection.
    framed: bool,
}

impl OriginBody {
    pub fn new(
        incoming: Incoming,
        way: Way,
        chunked: bool,
        patience: Duration,
        exit: Rc<Exit>,
        allowance: Allowance,
        (claim, gate): (ClientsClaim, Rc<Gate>),
    ) -> OriginBody {
        let gate = gate.is_shared().then_some(gate);
        let framed = incoming.is_framed(chunked);
        OriginBody {
            incoming,
            way: Some(way),
            exit,
            patience,
            timer: None,
            claim,
            gate,
            allowance,
            moved: true,
            early: VecDeque::new(),
            ended: None,
            framed,
        }
    }

    /// Takes in what came with the head, or comes while the worker sees to what else is ready: one message to the client
    /// then has both, and a small body is whole before anything is done with it. Waits for nothing.
    pub async fn gather(&mut self) {
        let small = self.claim.small(&self.allowance);
        // Of one that is larger, what its connection has anyway: the rest comes when there is memory for it.
        let most = match self.incoming.left() {
            Some(left) if left > small as u64 => HELD_ANYWAY,
            _ => small,
        };
        let mut gathered = 0;
        for more in [true, false] {
            while self.ended.is_none() && !self.incoming.is_end_stream() && gathered < most {
                let next = poll_fn(|cx| match self.incoming.poll_frame(cx) {
                    Poll::Ready(next) => Poll::Ready(Some(next)),
                    Poll::Pending => Poll::Ready(None),
                });
                match next.await {
                    Some(Some(Ok(frame))) => {
                        gathered += self.count(&frame);
                        self.early.push_back(frame);
                    }
                    Some(Some(Err(error))) => self.ended = Some(Err(error)),
                    Some(None) => self.ended = Some(Ok(())),
                    None => break,
                }
            }
            if self.incoming.is_end_stream() {
                self.ended.get_or_insert(Ok(()));
            }
            if !more || self.ended.is_some() || gathered >= most {
                break;
            }
            yield_now().await;
        }
        match self.ended {
            Some(Ok(())) => {
                // A stream has taken more, before it was known what comes.
                if let Some(lease) = self.claim.lease() {
                    lease.shrink(gathered);
                }
                self.release();
            }
            Some(Err(_)) => self.way = None,
            // What is here counts also while its client takes nothing.
            None if gathered > HELD_ANYWAY && !self.holds() => {
                _ = match &self.gate {
                    Some(gate) => gate.try_take(&mut self.claim, &self.allowance, FLOOR),
                    None => self.claim.try_more(&self.allowance, FLOOR),
                };
            }
            None => {}
        }
    }

    /// The pieces of the body, if all of it came with the head.
    pub fn take_whole(&mut self) -> Option<Vec<Bytes>> {
        let whole = self.framed && matches!(self.ended, Some(Ok(())));
        whole.then(|| self.early.drain(..).filter_map(|frame| frame.into_data().ok()).collect())
    }

    /// What was taken for it, when it has ended: its bytes may not have gone yet.
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.gate.as_ref().and_then(|gate| gate.take_lease()).or_else(|| self.claim.take_lease())
    }

    pub fn is_framed(&self) -> bool {
        self.framed
    }

    /// The connection, of which no body comes.
    pub fn into_line(self) -> Option<Line> {
        self.way?.into_line()
    }

    /// Counts what came, and says how many bytes that is.
    fn count(&self, frame: &Frame<Bytes>) -> usize {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.exit.add(Number::OriginBytes, bytes as u64);
        bytes
    }

    fn holds(&self) -> bool {
        self.claim.holds() || self.gate.as_ref().is_some_and(|gate| gate.has_taken())
    }

    /// What a connection has anyway is not enough for the rest.
    fn needs_more(&self) -> bool {
        let small = || self.claim.small(&self.allowance) as u64;
        !self.holds() && self.incoming.left().is_none_or(|rest| rest > small())
    }

    /// The client has its share of the memory: what is to come waits.
    pub fn has_to_wait(&self) -> bool {
        self.ended.is_none() && self.needs_more() && self.claim.is_used_up()
    }

    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(way) = self.way.take() {
            way.release();
        }
    }

    fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        if std::mem::take(&mut self.moved) {
            timer.as_mut().reset(Instant::now() + patience);
        }
        timer.as_mut().poll(cx)
    }
}

impl Pieces for OriginBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(frame) = self.early.pop_front() {
            if self.early.is_empty() {
                self.release_at_end();
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.ended {
            // What came before goes out first.
            Some(Err(_)) if std::mem::take(&mut self.moved) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(ended) => return Poll::Ready(std::mem::replace(ended, Ok(())).err().map(Err)),
            None => {}
        }
        if self.needs_more() {
            let this = &mut *self;
            let polled = match &this.gate {
                Some(gate) => gate.poll_lease(Side::Response, cx, &mut this.claim, &this.allowance),
                None => this.claim.poll(cx, &this.allowance, FLOOR),
            };
            if polled.is_pending() {
                ready!(self.poll_stall(cx));
                self.way = None;
                let error = io::Error::new(io::ErrorKind::OutOfMemory, "too little memory for more bodies");
                return Poll::Ready(Some(Err(error)));
            }
        }
        match self.incoming.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.moved = true;
                self.count(&frame);
                self.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.way = None;
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                self.release();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.poll_stall(cx));
                if let Some(way) = self.way.take() {
                    way.is_late();
                }
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the origin stalled"))))
            }
        }
    }

    fn left(&self) -> Option<u64> {
        let early = self.early.iter().try_fold(0, |sum, frame| Some(sum + frame.data_ref()?.len() as u64))?;
        let rest = match self.ended {
            None => self.incoming.left()?,
            Some(Ok(())) if self.framed => 0,
            Some(_) => return None,
        };
        Some(early + rest)
    }

    fn is_over(&self) -> bool {
        self.early.is_empty() && (self.incoming.is_end_stream() || matches!(self.ended, Some(Ok(()))))
    }
}
