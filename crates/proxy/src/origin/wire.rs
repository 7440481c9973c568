//! The socket of a connection to an origin: the HTTP library reads and writes it, the allowance looks at it before it is used
//! again.
//!
//! Both are on one thread and neither keeps it borrowed while it waits.

use super::interim::Interims;
use crate::budget::{Allowance, Budget, ClientsClaim, HEAD, Shares, of_head};
use crate::transport::Socket;
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Clone)]
pub struct Wire(Rc<Inner>);

struct Inner {
    socket: RefCell<Socket>,
    interims: Arc<Interims>,
    /// Bytes that came since the request was sent, while its response's head is not here.
    head: Cell<Option<usize>>,
    /// Of a head of more than `HEAD` bytes.
    large_head: RefCell<Option<ClientsClaim>>,
    /// Who reads, and waits for that.
    reads: RefCell<Option<Waker>>,
    /// Bytes that this takes.
    head_most: usize,
    heads: Allowance,
    answered: Arc<Shares>,
    origins: Allowance,
}

/// Bytes that are read at once while memory is short: the library's buffers grow by what reads bring.
const LITTLE: usize = 16 << 10;

impl Wire {
    pub fn new(socket: Socket, budget: &Budget, head_max: usize) -> Wire {
        let (heads, answered, origins) =
            (budget.heads.clone(), budget.answered.clone(), budget.origins.clone());
        let (socket, interims, head, large_head) =
            (RefCell::new(socket), Arc::default(), Cell::default(), RefCell::default());
        Wire(Rc::new(Inner {
            socket,
            interims,
            head,
            large_head,
            reads: RefCell::default(),
            head_most: of_head(head_max),
            heads,
            answered,
            origins,
        }))
    }

    /// The head of a response is waited for. What it takes is of that client's share, or of nobody's.
    pub fn awaits_head(&self, charged: Option<IpAddr>) {
        self.0.large_head.replace(Some(ClientsClaim::new(&self.0.answered, charged)));
        self.0.head.set(Some(0));
    }

    /// It is here, or not waited for any more.
    pub fn has_head(&self) {
        self.0.head.set(None);
        self.0.large_head.take();
        if let Some(reads) = self.0.reads.take() {
            reads.wake();
        }
    }

    /// Nothing is there to be read, not even the end: what is, answers no request that is yet to be sent.
    pub fn is_quiet(&self) -> bool {
        self.0.socket.borrow_mut().is_quiet()
    }

    /// Interim responses to the current request.
    pub fn interims(&self) -> &Arc<Interims> {
        &self.0.interims
    }

    /// The socket, once nobody else has it.
    pub fn into_socket(self) -> Option<Socket> {
        Rc::try_unwrap(self.0).ok().map(|inner| inner.socket.into_inner())
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.0.interims.are_too_many() {
            let text = "interim responses without end";
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, text)));
        }
        let inner = &*self.0;
        let head = inner.head.get();
        if head.is_some_and(|came| came >= HEAD)
            && let Some(claim) = &mut *inner.large_head.borrow_mut()
            && claim.poll(cx, &inner.heads, inner.head_most).is_pending()
        {
            inner.reads.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(inner.poll_some(cx, buf))?;
        inner.head.set(head.map(|came| came + buf.filled().len() - before));
        Poll::Ready(Ok(()))
    }
}

impl Inner {
    fn poll_some(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut socket = self.socket.borrow_mut();
        if buf.remaining() <= LITTLE || self.origins.is_ample() {
            return Pin::new(&mut *socket).poll_read(cx, buf);
        }
        let mut some = ReadBuf::new(buf.initialize_unfilled_to(LITTLE - 1));
        ready!(Pin::new(&mut *socket).poll_read(cx, &mut some))?;
        let read = some.filled().len();
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.socket.borrow_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.socket.borrow_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.socket.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.socket.borrow_mut()).poll_shutdown(cx)
    }
}
