//! The socket of a connection of HTTP/2 under the library: it says what was heard of the origin, and counts its frames.

use crate::clock;
use crate::message::flood::Counts;
use crate::message::frames::{Frame, Frames};
use crate::settings::http2::Http2;
use crate::transport::Socket;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Bytes that are read before those have their turn whom they are for.
const AT_ONCE: usize = 64 << 10;

/// What came of the origin.
#[derive(Clone, Default)]
pub struct Heard(Rc<Inner>);

#[derive(Default)]
struct Inner {
    any: Cell<bool>,
    /// Frames that are more than how the connection is used.
    answers: Cell<u64>,
    first: Notify,
}

impl Heard {
    /// Anything.
    pub fn any(&self) -> bool {
        self.0.any.get()
    }

    /// Frames, ever, without those by which the sides tell what they allow.
    pub fn answers(&self) -> u64 {
        self.0.answers.get()
    }

    /// Ready when anything has come: the first is what the origin allows (RFC 9113 section 3.4).
    pub async fn first(&self) {
        let first = self.0.first.notified();
        if !self.any() {
            first.await;
        }
    }

    /// Nothing more comes.
    pub fn ended(&self) {
        self.0.first.notify_waiters();
    }

    fn came(&self, frame: Frame) {
        if !matches!(frame.kind, Frame::SETTINGS | Frame::WINDOW_UPDATE) {
            self.0.answers.set(self.answers() + 1);
        }
        if !self.0.any.replace(true) {
            self.0.first.notify_waiters();
        }
    }
}

pub struct Wire {
    socket: Socket,
    heard: Heard,
    /// Bytes that came without a pause.
    at_once: usize,
    frames: Frames,
    counts: Counts,
    bounds: Http2,
}

impl Wire {
    /// An origin may do what a client may by these bounds.
    pub fn new(socket: Socket, heard: Heard, bounds: Http2) -> Wire {
        // Each of our requests may be reset.
        let bounds = Http2 { resets: u32::MAX, ..bounds };
        let (frames, counts) = (Frames::behind(0), Counts::new(clock::moment()));
        Wire { socket, heard, at_once: 0, frames, counts, bounds }
    }

    fn came(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Wire { frames, counts, bounds, heard, .. } = self;
        let mut flood = None;
        frames.feed(bytes, |frame| {
            heard.came(frame);
            flood = flood.or(counts.came(frame, bounds, clock::moment));
        });
        self.at_once += bytes.len();
        match flood {
            None => Ok(()),
            Some(flood) => Err(io::Error::other(format!("too many in a minute: {}", flood.name()))),
        }
    }

    fn went(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counts.sent(bytes, clock::moment);
        }
        written
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
        Poll::Ready(this.came(&buf.filled()[before..]))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.went(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.went(written)
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
