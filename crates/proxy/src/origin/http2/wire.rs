//! The socket of a connection of HTTP/2 under the library: it says what was heard of the origin.

use crate::transport::Socket;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read before those have their turn whom they are for.
const AT_ONCE: usize = 64 << 10;

/// How much came, ever.
#[derive(Clone, Default)]
pub struct Heard(Rc<Cell<u64>>);

impl Heard {
    pub fn bytes(&self) -> u64 {
        self.0.get()
    }
}

pub struct Wire {
    socket: Socket,
    heard: Heard,
    /// Bytes that came without a pause.
    at_once: usize,
}

impl Wire {
    pub fn new(socket: Socket, heard: Heard) -> Wire {
        Wire { socket, heard, at_once: 0 }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.at_once >= AT_ONCE {
            this.at_once = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, buf);
        if read.is_pending() {
            this.at_once = 0;
        }
        ready!(read)?;
        let came = buf.filled().len() - before;
        this.at_once += came;
        this.heard.0.set(this.heard.bytes() + came as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
