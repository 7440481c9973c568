//! A stream as what a tunnel copies from and to: bytes both ways, each of which ends by itself.

use super::link::Link;
use super::piece::Piece;
use super::turns::{Turn, Urgency};
use crate::message::inflow::Inflow;
use bytes::{Buf, Bytes};
use h2::{Reason, SendStream};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one write.
const WRITE: usize = 16 << 10;

pub struct Pipe<'a> {
    link: &'a Rc<Link>,
    turn: Turn<'a>,
    incoming: Inflow,
    /// What came and was not read.
    read: Bytes,
    outgoing: SendStream<Piece>,
    /// Nothing more goes to the client.
    has_ended: bool,
}

impl Pipe<'_> {
    pub fn new(link: &Rc<Link>, urgency: Urgency, incoming: Inflow, outgoing: SendStream<Piece>) -> Pipe<'_> {
        let turn = link.turns.turn(urgency, outgoing.stream_id().as_u32());
        Pipe { link, turn, incoming, read: Bytes::new(), outgoing, has_ended: false }
    }
}

impl AsyncRead for Pipe<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read.is_empty() {
            match ready!(this.incoming.poll(cx, |_, bytes| bytes)).transpose() {
                Ok(Some(frame)) => this.read = frame.into_data().unwrap_or_default(),
                Ok(None) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(io::Error::new(ErrorKind::ConnectionReset, error))),
            }
        }
        let some = this.read.len().min(buf.remaining());
        buf.put_slice(&this.read[..some]);
        this.read.advance(some);
        this.incoming.may_come(some);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let gone = || Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.outgoing.poll_reset(cx).is_ready() {
            self.turn.yields();
            return gone();
        }
        self.outgoing.reserve_capacity(buf.len().min(WRITE));
        let room = match self.outgoing.capacity() {
            0 => match self.outgoing.poll_capacity(cx) {
                Poll::Ready(Some(Ok(room))) => room,
                Poll::Ready(_) => {
                    self.turn.yields();
                    return gone();
                }
                Poll::Pending => {
                    self.turn.yields();
                    return Poll::Pending;
                }
            },
            room => room,
        };
        ready!(self.turn.poll(cx));
        let some = Bytes::copy_from_slice(&buf[..room.min(buf.len()).min(WRITE)]);
        let (bytes, piece) = (some.len(), Piece::counted(some, self.link, None));
        match self.outgoing.send_data(piece, false) {
            Ok(()) => Poll::Ready(Ok(bytes)),
            Err(_) => gone(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.has_ended = true;
        let _ = self.outgoing.send_data(Piece::of(Bytes::new()), true);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe<'_> {
    /// What breaks off is a reset (RFC 9113 section 8.5).
    fn drop(&mut self) {
        if !self.has_ended {
            self.outgoing.send_reset(Reason::CANCEL);
        }
    }
}
