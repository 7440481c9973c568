//! A body as its fill takes it in: an origin's, and the rest of it when that broke off. Small frames that are there at once
//! become one piece.

use crate::budget::Lease;
use crate::fill::window::{GATHERED, SMALL};
use crate::message::pieces::Pieces;
use crate::origin::body::OriginBody;
use crate::transfer::mend::Rest;
use bytes::{Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// For how long small frames are gathered while more of them are there. Nobody waits for one that is not.
const GATHERING: Duration = Duration::from_millis(5);

/// What comes of a body, and how it ended.
pub type Next = Option<io::Result<Bytes>>;

pub struct Intake {
    first: OriginBody,
    pub rest: Option<Rest>,
    /// It came behind what was gathered.
    ahead: Option<Next>,
}

impl Intake {
    pub fn new(first: OriginBody) -> Intake {
        Intake { first, rest: None, ahead: None }
    }

    fn stream(&mut self) -> &mut dyn Pieces {
        match &mut self.rest {
            Some(rest) => rest,
            None => &mut self.first,
        }
    }

    /// Bytes still to come, when known.
    pub fn left(&mut self) -> Option<u64> {
        let ahead = match &self.ahead {
            Some(Some(Ok(bytes))) => bytes.len() as u64,
            _ => 0,
        };
        self.stream().left().map(|left| left + ahead)
    }

    /// As [`OriginBody::take_lease`].
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.first.take_lease()
    }

    pub fn is_over(&mut self) -> bool {
        self.ahead.is_none() && self.stream().is_over()
    }

    pub async fn next(&mut self) -> Next {
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
