//! A request's content on its way to an origin: each piece is asked for when the one before it was taken.

use super::incoming::{at_once, when_gone};
use crate::access::forwarded::is_rewritten;
use crate::budget::{Allowance, ClientsClaim, Lease};
use crate::message::inflow::Inflow;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Bytes of content for which nothing is taken.
const SMALL: u64 = 16 << 10;

/// A request's content on its way here, by the protocol that its client speaks.
pub enum Arriving {
    Http1(Incoming),
    Http2(Box<Http2Content>),
    Nothing,
}

/// Content of a stream of HTTP/2. It takes the connection's window alone: what waits for memory would fill that, and nothing of what has
/// some could come.
pub struct Http2Content {
    inflow: Inflow,
    /// Bytes that came.
    came: u64,
    /// Bytes still to come, where the head said so: the library holds the client to it.
    left: Option<u64>,
    /// Called once, when it is asked for.
    wanted: Option<Box<dyn FnOnce()>>,
    /// Whether somebody waits for the client to send it.
    waits: Rc<Cell<bool>>,
}

impl Http2Content {
    pub fn new(
        inflow: Inflow,
        left: Option<u64>,
        wanted: Option<Box<dyn FnOnce()>>,
        waits: Rc<Cell<bool>>,
    ) -> Http2Content {
        Http2Content { inflow, came: 0, left, wanted, waits }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(wanted) = self.wanted.take() {
            wanted();
        }
        let frame = self.poll_next(cx);
        self.waits.set(frame.is_pending());
        frame
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let came = self.came;
        // The beginning is kept, so that it can be sent again.
        let frame = ready!(self.inflow.poll(cx, |flow, bytes| {
            if came + bytes.len() as u64 <= SMALL { at_once(flow, bytes) } else { when_gone(flow, bytes) }
        }));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            self.came += bytes;
            self.left = self.left.map(|left| left.saturating_sub(bytes));
        }
        Poll::Ready(frame)
    }
}

impl Drop for Http2Content {
    fn drop(&mut self) {
        self.waits.set(false);
    }
}

impl From<Incoming> for Arriving {
    fn from(incoming: Incoming) -> Arriving {
        Arriving::Http1(incoming)
    }
}

impl Arriving {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self {
            Arriving::Http1(incoming) => {
                Pin::new(incoming).poll_frame(cx).map(|frame| Some(frame?.map_err(io::Error::other)))
            }
            Arriving::Http2(content) => content.poll_frame(cx),
            Arriving::Nothing => Poll::Ready(None),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Arriving::Http1(incoming) => incoming.is_end_stream(),
            Arriving::Http2(content) => content.inflow.is_over(),
            Arriving::Nothing => true,
        }
    }

    /// Bytes still to come, at least and, where that is known, exactly.
    fn left(&self) -> (u64, Option<u64>) {
        match self {
            Arriving::Http1(incoming) => (incoming.size_hint().lower(), incoming.size_hint().exact()),
            Arriving::Http2(content) => (content.left.unwrap_or(0), content.left),
            Arriving::Nothing => (0, Some(0)),
        }
    }
}

/// A request's content: what was read of it, then what is still to come.
#[derive(Default)]
pub struct Content {
    begin: Bytes,
    rest: Option<Arriving>,
    /// Bytes that came.
    came: Rc<Cell<u64>>,
}

impl Content {
    /// Nothing was read yet; what is, is added to `came`. `None` when there is none.
    pub fn of(arriving: Arriving, came: impl FnOnce() -> Rc<Cell<u64>>) -> Option<Content> {
        (!arriving.is_over()).then(|| Content { begin: Bytes::new(), rest: Some(arriving), came: came() })
    }

    /// Content that is all here. `None` when there is none.
    pub fn whole(bytes: Bytes) -> Option<Content> {
        (!bytes.is_empty()).then(|| Content { begin: bytes, ..Content::default() })
    }

    /// Reads on until all is here, which is given as well, or until it is more than `most` bytes.
    pub async fn read(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        let mut read = BytesMut::from(&self.begin[..]);
        while let Some(rest) = &mut self.rest {
            let fits = rest.left().0 <= most.saturating_sub(read.len()) as u64;
            let frame = match fits {
                true => poll_fn(|cx| rest.poll_frame(cx)).await.transpose()?,
                false => break,
            };
            match frame.map(Frame::into_data) {
                None => self.rest = None,
                Some(Ok(bytes)) => {
                    self.came.set(self.came.get() + bytes.len() as u64);
                    read.extend_from_slice(&bytes);
                }
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
    fn takes_nothing(&self) -> bool {
        match &self.rest {
            None | Some(Arriving::Http2(_)) => true,
            Some(rest) => rest.left().1.is_some_and(|rest| rest <= SMALL),
        }
    }

    /// The same once more, if nothing is still to come.
    pub fn again(&self) -> Option<Content> {
        self.rest.is_none().then(|| Content { begin: self.begin.clone(), ..Content::default() })
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.begin.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.begin)))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let frame = ready!(rest.poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.came.set(self.came.get() + bytes as u64);
        }
        Poll::Ready(frame.map(|frame| frame.map(for_origin)))
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_empty() && self.rest.as_ref().is_none_or(Arriving::is_over)
    }

    fn size_hint(&self) -> SizeHint {
        let begin = self.begin.len() as u64;
        match self.rest.as_ref().map_or(Some(0), |rest| rest.left().1) {
            Some(rest) => SizeHint::with_exact(begin + rest),
            None => SizeHint::default(),
        }
    }
}

/// Trailers without what heads lose too: origins may read one as the other.
fn for_origin(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Err(frame) => frame,
        Ok(mut trailers) => {
            cache::remove_hop_by_hop(&mut trailers);
            let told: Vec<_> = trailers.keys().filter(|name| is_rewritten(name.as_str())).cloned().collect();
            told.iter().for_each(|name| drop(trailers.remove(name)));
            Frame::trailers(trailers)
        }
    }
}

/// A request's body on its way to an origin.
pub struct Upload {
    content: Option<Content>,
    /// What went, while that is little: it can be sent again.
    kept: Option<BytesMut>,
    gate: Rc<Gate>,
    /// Who sends it tells when all of it has gone.
    is_told: bool,
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
    /// Who waits for that.
    awaits_done: Cell<Option<Waker>>,
    /// The client was asked for it; who waits for that.
    asked: Cell<bool>,
    awaits_asked: Cell<Option<Waker>>,
    broke_off: Cell<bool>,
    moved: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// The content takes more than its connection has anyway.
    takes: bool,
    /// What was taken for such content or for the response's body: both have one, so that neither waits for what the other
    /// has.
    lease: RefCell<Option<Lease>>,
    has_taken: Cell<bool>,
    /// Who waits for it: the content, the response's body.
    waiting: RefCell<[Option<Waker>; 2]>,
}

/// Whose claim it is, of the two that share a lease.
#[derive(Clone, Copy)]
pub enum Side {
    Content,
    Response,
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
        let takes = !content.as_ref().is_none_or(Content::takes_nothing);
        let gate = Rc::new(Gate {
            takes,
            open: Cell::new(!expects || done),
            done: Cell::new(done),
            awaits_done: Cell::default(),
            asked: Cell::new(false),
            awaits_asked: Cell::default(),
            broke_off: Cell::new(false),
            moved: Cell::new(0),
            waker: RefCell::new(None),
            lease: RefCell::new(None),
            has_taken: Cell::new(false),
            waiting: RefCell::default(),
        });
        let kept = Some(BytesMut::new());
        let upload =
            Upload { content, kept, gate: gate.clone(), is_told: false, claim, allowance: allowance.clone() };
        (upload, gate)
    }

    /// All of the content as it was before anything went; `None` when that is not here any more.
    pub fn into_content(self) -> Option<Option<Content>> {
        let mut kept = self.kept?;
        let content = self.content.map(|content| {
            if let Some(Arriving::Http2(content)) = &content.rest {
                // Nobody waits for its client now.
                content.waits.set(false);
            }
            kept.extend_from_slice(&content.begin);
            Content { begin: kept.freeze(), ..content }
        });
        Some(content)
    }

    /// Its end is no matter of when it was read, but of when its sender says so to the gate, which is given.
    pub fn tells(&mut self) -> Rc<Gate> {
        self.is_told = true;
        self.gate.clone()
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(kept) = &mut self.kept else { return };
        match frame.data_ref() {
            Some(bytes) if (kept.len() + bytes.len()) as u64 <= SMALL => kept.extend_from_slice(bytes),
            _ => self.kept = None,
        }
    }

    /// Bytes of memory that it takes while it moves.
    pub fn takes(&self) -> usize {
        if self.content.as_ref().is_none_or(Content::takes_nothing) { 0 } else { UPLOAD }
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

    /// All of the body has gone: to the library of HTTP/1, or as far as the origin's window of HTTP/2 lets it.
    pub fn finish(&self) {
        self.done.set(true);
        self.awaits_done.take().into_iter().for_each(Waker::wake);
    }

    /// The client is asked for it, or nobody will.
    pub fn asks(&self) {
        if !self.asked.replace(true) {
            self.awaits_asked.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Ready once it was, which may take memory, or where there is none.
    pub fn poll_asked(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.asked.get() || self.is_done() {
            return Poll::Ready(());
        }
        self.awaits_asked.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Some of it has.
    pub fn moves(&self) {
        self.moved.set(self.moved.get() + 1);
    }

    pub fn is_done(&self) -> bool {
        self.done.get()
    }

    /// As `is_done`, which is waited for.
    pub fn poll_done(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_done() {
            return Poll::Ready(());
        }
        self.awaits_done.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// It ended before its end: the client left, or its connection broke.
    pub fn broke_off(&self) -> bool {
        self.broke_off.get()
    }

    /// Ready once there is a lease for both sides.
    pub fn poll_lease(
        &self,
        side: Side,
        cx: &mut Context<'_>,
        claim: &mut ClientsClaim,
        pool: &Allowance,
    ) -> Poll<()> {
        if self.has_taken.get() {
            claim.give_up();
            return Poll::Ready(());
        }
        if claim.poll(cx, pool, UPLOAD).is_pending() {
            self.waiting.borrow_mut()[side as usize] = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.lease.replace(claim.take_lease());
        self.has_taken.set(true);
        self.waiting.take().into_iter().flatten().for_each(Waker::wake);
        Poll::Ready(())
    }

    /// Whether there is a lease for both sides of so many bytes, `UPLOAD` at least, which is not waited for.
    pub fn try_take(&self, claim: &mut ClientsClaim, pool: &Allowance, bytes: usize) -> bool {
        if !claim.try_more(pool, bytes) {
            return false;
        }
        self.lease.replace(claim.take_lease());
        self.has_taken.set(true);
        true
    }

    pub fn has_taken(&self) -> bool {
        self.has_taken.get()
    }

    /// Whether there is, or will be, one lease for both sides.
    pub fn is_shared(&self) -> bool {
        self.has_taken.get() || (self.takes && !self.is_done())
    }

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
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if !this.gate.open.get() {
            this.gate.waker.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let Some(content) = &mut this.content else { return Poll::Ready(None) };
        if !content.takes_nothing() {
            ready!(this.gate.poll_lease(Side::Content, cx, &mut this.claim, &this.allowance));
        }
        let frame = Pin::new(&mut *content).poll_frame(cx);
        this.gate.asks();
        let frame = ready!(frame);
        this.gate.moves();
        if let Some(Ok(frame)) = &frame {
            this.keep(frame);
        }
        this.gate.broke_off.set(matches!(frame, Some(Err(_))));
        if !this.is_told && (frame.is_none() || this.is_end_stream()) {
            this.gate.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let is_over = self.content.as_ref().is_none_or(Body::is_end_stream);
        // Who asks does not ask for more.
        if is_over && !self.is_told {
            self.gate.finish();
        }
        is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.content.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn content_and_response_do_not_wait_for_each_other() {
        let budget = Budget::new(0, 0);
        let (pool, mut context) = (&budget.origins, Context::from_waker(Waker::noop()));
        let client = Some("192.0.2.1".parse().unwrap());
        let claim = || ClientsClaim::new(&budget.clients, client);
        let gate = || Upload::new(None, false, pool, claim()).1;
        for (first, second) in [(Side::Content, Side::Response), (Side::Response, Side::Content)] {
            // As many exchanges as there is memory for, of one side each, and one that has to wait.
            let mut exchanges = Vec::new();
            loop {
                let (gate, mut claim) = (gate(), claim());
                let is_held = gate.poll_lease(first, &mut context, &mut claim, pool).is_ready();
                exchanges.push((gate, claim));
                if !is_held {
                    break;
                }
            }
            let (waits, mut waiting) = exchanges.pop().unwrap();
            assert!(exchanges.len() > 2);
            for (gate, _) in &exchanges {
                assert!(gate.poll_lease(second, &mut context, &mut claim(), pool).is_ready());
            }
            let mut other = claim();
            assert!(waits.poll_lease(second, &mut context, &mut other, pool).is_pending());
            // Whichever side gets it, both have it, and the other takes nothing.
            exchanges.pop();
            assert!(waits.poll_lease(first, &mut context, &mut waiting, pool).is_ready());
            assert!(waits.poll_lease(second, &mut context, &mut other, pool).is_ready());
            drop(other);
            assert_eq!(pool.taken(), (exchanges.len() + 1) * UPLOAD);
            assert!(waits.take_lease().is_some_and(|lease| lease.bytes() == UPLOAD));
            drop((exchanges, waits));
            assert_eq!(pool.free(), pool.size());
        }
    }
}
