//! The socket of a connection to an origin: the HTTP library reads and writes it, the allowance looks at it before it is used
//! again.
//!
//! Both are on one thread and neither keeps it borrowed while it waits.

use super::interim::Interims;
use crate::budget::Allowance;
use crate::transport::Socket;
use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Clone)]
pub struct Wire(Rc<Inner>);

struct Inner {
    socket: RefCell<Socket>,
    interims: Arc<Interims>,
    allowance: Allowance,
}

/// Bytes that are read at once while memory is short: the library's buffers grow by what reads bring.
const LITTLE: usize = 16 << 10;

impl Wire {
    pub fn new(socket: Socket, allowance: Allowance) -> Wire {
        let (socket, interims) = (RefCell::new(socket), Arc::default());
        Wire(Rc::new(Inner { socket, interims, allowance }))
    }

    /// Nothing is there to be read, not even the end: what is, answers no request that is yet to be sent.
    pub fn is_quiet(&self) -> bool {
        self.0.socket.borrow().is_quiet()
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
        let mut socket = self.0.socket.borrow_mut();
        if buf.remaining() <= LITTLE || self.0.allowance.is_ample() {
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
