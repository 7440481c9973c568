//! A request's content on its way to an origin: each piece is asked for when the one before it was taken.

use crate::budget::{Allowance, ClientsClaim, Lease};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Bytes of content for which nothing is taken.
const SMALL: u64 = 16 << 10;

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

    /// Content that is all here. `None` when there is none.
    pub fn whole(bytes: Bytes) -> Option<Content> {
        (!bytes.is_empty()).then_some(Content { begin: bytes, rest: None })
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

    /// What a connection has anyway is enough for what is still to come.
    fn is_small(&self) -> bool {
        let rest = self.rest.as_ref().map_or(Some(0), |rest| rest.size_hint().exact());
        rest.is_some_and(|rest| rest <= SMALL)
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
    /// What is still to come is read once it has this.
    claim: ClientsClaim,
    allowance: Allowance,
}

/// Bytes of memory that content on its way takes, in the buffers of both connections.
const UPLOAD: usize = 160 << 10;

/// What the sender of a request knows of its body.
pub struct Gate {
    open: Cell<bool>,
    done: Cell<bool>,
    moved: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// What was taken for the body: of one exchange, so that its response does not wait for what its content has.
    lease: RefCell<Option<Lease>>,
    has_taken: Cell<bool>,
}

impl Upload {
    /// With `expects`, the content is not read before the gate is opened. More than a little is taken from the allowance.
    pub fn new(
        content: Option<Content>,
        expects: bool,
        allowance: &Allowance,
        claim: ClientsClaim,
    ) -> (Upload, Rc<Gate>) {
        let done = content.as_ref().is_none_or(Body::is_end_stream);
        let gate = Rc::new(Gate {
            open: Cell::new(!expects || done),
            done: Cell::new(done),
            moved: Cell::new(0),
            waker: RefCell::new(None),
            lease: RefCell::new(None),
            has_taken: Cell::new(false),
        });
        let upload = Upload { content, gate: gate.clone(), claim, allowance: allowance.clone() };
        (upload, gate)
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

    /// What was taken for the body, for that of the response.
    pub fn take_lease(&self) -> Option<Lease> {
        self.lease.take()
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
        if !this.gate.has_taken.get() && !content.is_small() {
            ready!(this.claim.poll(cx, &this.allowance, UPLOAD));
            this.gate.lease.replace(this.claim.take_lease());
            this.gate.has_taken.set(true);
        }
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
