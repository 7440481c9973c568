//! Bodies in both directions: what a client is sent, and what an origin is sent.
//!
//! Nothing is gathered here: each piece is asked for when the other side took the one before it.

use crate::connection::Flight;
use crate::origin::Line;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};

/// A response's body.
pub struct ReplyBody {
    source: Source,
    /// Counts the request out when the body has gone.
    _flight: Option<Flight>,
}

enum Source {
    Whole(Bytes),
    Stream(Box<dyn Stream>),
}

/// A body that arrives in pieces.
pub trait Stream: 'static {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>>;
    /// Bytes still to come, when known.
    fn left(&self) -> Option<u64>;
    fn is_over(&self) -> bool;
}

impl ReplyBody {
    pub fn empty() -> ReplyBody {
        ReplyBody::whole(Bytes::new())
    }

    pub fn whole(bytes: Bytes) -> ReplyBody {
        ReplyBody { source: Source::Whole(bytes), _flight: None }
    }

    pub fn stream(stream: impl Stream) -> ReplyBody {
        ReplyBody { source: Source::Stream(Box::new(stream)), _flight: None }
    }

    pub fn carrying(mut self, flight: Flight) -> ReplyBody {
        self._flight = Some(flight);
        self
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Stream(stream) => stream.poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Stream(stream) => stream.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Stream(stream) => stream.left().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// A body as it comes from an origin. Its connection goes back to the pool at its end.
pub struct OriginBody {
    incoming: Incoming,
    line: Option<Line>,
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    moved: bool,
    /// What came with the head, and how the body ended if that was all.
    early: VecDeque<Frame<Bytes>>,
    ended: Option<io::Result<()>>,
    /// Its end is told by length or chunks, not by the end of the connection.
    framed: bool,
}

/// Bytes of a body that are taken in with the head.
const EARLY: usize = 64 << 10;

impl OriginBody {
    pub fn new(incoming: Incoming, line: Line, chunked: bool, patience: Duration) -> OriginBody {
        let framed = chunked || incoming.size_hint().exact().is_some();
        OriginBody {
            incoming,
            line: Some(line),
            patience,
            timer: None,
            moved: true,
            early: VecDeque::new(),
            ended: None,
            framed,
        }
    }

    /// Takes in what came with the head, or comes while the worker sees to what else is ready: one message to the client
    /// then has both, and a small body is whole before anything is done with it. Waits for nothing.
    pub async fn gather(&mut self) {
        let mut gathered = 0;
        for more in [true, false] {
            while self.ended.is_none() && !self.incoming.is_end_stream() && gathered < EARLY {
                let next = poll_fn(|cx| match Pin::new(&mut self.incoming).poll_frame(cx) {
                    Poll::Ready(next) => Poll::Ready(Some(next)),
                    Poll::Pending => Poll::Ready(None),
                });
                match next.await {
                    Some(Some(Ok(frame))) => {
                        gathered += frame.data_ref().map_or(0, Bytes::len);
                        self.early.push_back(frame);
                    }
                    Some(Some(Err(error))) => self.ended = Some(Err(io::Error::other(error))),
                    Some(None) => self.ended = Some(Ok(())),
                    None => break,
                }
            }
            if self.incoming.is_end_stream() {
                self.ended.get_or_insert(Ok(()));
            }
            if !more || self.ended.is_some() || gathered >= EARLY {
                break;
            }
            yield_now().await;
        }
        match self.ended {
            Some(Ok(())) => self.release(),
            Some(Err(_)) => self.line = None,
            None => {}
        }
    }

    /// The pieces of the body, if all of it came with the head.
    pub fn take_whole(&mut self) -> Option<Vec<Bytes>> {
        let whole = self.framed && matches!(self.ended, Some(Ok(())));
        whole.then(|| self.early.drain(..).filter_map(|frame| frame.into_data().ok()).collect())
    }

    pub fn is_framed(&self) -> bool {
        self.framed
    }

    /// The connection, of which no body comes.
    pub fn into_line(self) -> Option<Line> {
        self.line
    }

    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(line) = self.line.take() {
            line.release();
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

impl Stream for OriginBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(frame) = self.early.pop_front() {
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
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.moved = true;
                self.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.line = None;
                Poll::Ready(Some(Err(io::Error::other(error))))
            }
            Poll::Ready(None) => {
                self.release();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.poll_stall(cx));
                self.line = None;
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the origin stalled"))))
            }
        }
    }

    fn left(&self) -> Option<u64> {
        let early = self.early.iter().try_fold(0, |sum, frame| Some(sum + frame.data_ref()?.len() as u64))?;
        let rest = match self.ended {
            None => self.incoming.size_hint().exact()?,
            Some(Ok(())) if self.framed => 0,
            Some(_) => return None,
        };
        Some(early + rest)
    }

    fn is_over(&self) -> bool {
        self.early.is_empty() && (self.incoming.is_end_stream() || matches!(self.ended, Some(Ok(()))))
    }
}

/// A request's content: what was read of it, then what is still to come.
#[derive(Default)]
pub struct Content {
    begin: Bytes,
    rest: Option<Incoming>,
}

impl Content {
    /// Nothing was read yet. `None` when there is none.
    pub fn of(incoming: Incoming) -> Option<Content> {
        (!incoming.is_end_stream()).then_some(Content { begin: Bytes::new(), rest: Some(incoming) })
    }

    /// Reads on until all is here, which is given as well, or until it is more than `most` bytes.
    pub async fn read(&mut self, most: usize) -> Result<Option<Bytes>, hyper::Error> {
        let mut read = BytesMut::from(&self.begin[..]);
        while let Some(rest) = &mut self.rest {
            let fits = rest.size_hint().lower() <= most.saturating_sub(read.len()) as u64;
            let frame = match fits {
                true => poll_fn(|cx| Pin::new(&mut *rest).poll_frame(cx)).await.transpose()?,
                false => break,
            };
            match frame.map(Frame::into_data) {
                None => self.rest = None,
                Some(Ok(bytes)) => read.extend_from_slice(&bytes),
                // Trailers.
                Some(Err(_)) => {}
            }
            if read.len() > most {
                break;
            }
        }
        self.begin = read.freeze();
        Ok(self.rest.is_none().then(|| self.begin.clone()))
    }

    /// The same once more, if nothing is still to come.
    pub fn again(&self) -> Option<Content> {
        self.rest.is_none().then(|| Content { begin: self.begin.clone(), rest: None })
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if !self.begin.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.begin)))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let begin = self.begin.len() as u64;
        match self.rest.as_ref().map_or(Some(0), |rest| rest.size_hint().exact()) {
            Some(rest) => SizeHint::with_exact(begin + rest),
            None => SizeHint::default(),
        }
    }
}

/// A request's body on its way to an origin.
pub struct Upload {
    content: Option<Content>,
    gate: Rc<Gate>,
}

/// What the sender of a request knows of its body.
pub struct Gate {
    open: Cell<bool>,
    done: Cell<bool>,
    moved: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Upload {
    /// With `expects`, the content is not read before the gate is opened.
    pub fn new(content: Option<Content>, expects: bool) -> (Upload, Rc<Gate>) {
        let done = content.as_ref().is_none_or(Body::is_end_stream);
        let gate = Rc::new(Gate {
            open: Cell::new(!expects || done),
            done: Cell::new(done),
            moved: Cell::new(0),
            waker: RefCell::new(None),
        });
        (Upload { content, gate: gate.clone() }, gate)
    }

    pub fn into_content(self) -> Option<Content> {
        self.content
    }
}

impl Gate {
    pub fn open(&self) {
        self.open.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    /// The body was handed over to its end.
    pub fn is_done(&self) -> bool {
        self.done.get()
    }

    /// Changes when the body moves.
    pub fn moved(&self) -> u64 {
        self.moved.get()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if !this.gate.open.get() {
            this.gate.waker.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let Some(content) = &mut this.content else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *content).poll_frame(cx));
        this.gate.moved.set(this.gate.moved.get() + 1);
        if frame.is_none() || content.is_end_stream() {
            this.gate.done.set(true);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.content.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.content.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
