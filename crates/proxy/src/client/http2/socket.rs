//! A client's socket under the library: it counts frames as they pass, sends small ones together, and says what the connection waits for.

use super::link::Link;
use crate::budget::{ClientsClaim, HEAD, of_head};
use crate::clock;
use crate::message::flood::Counts;
use crate::message::frames::{Frame, Frames, PREFACE};
use crate::settings::http2::Http2;
use crate::transport::Socket;
use crate::worker::Worker;
use bytes::{Buf, Bytes, BytesMut};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of small writes that wait for others, at most.
const TOGETHER: usize = 16 << 10;
/// Bytes of a write that is not copied.
const LARGE: usize = 4 << 10;
/// Pieces of one write.
const PIECES: usize = 16;

pub struct WatchedSocket {
    /// Goes to the link when the library is done with it.
    socket: Option<Socket>,
    /// What was read of it before.
    early: Bytes,
    link: Rc<Link>,
    worker: Rc<Worker>,
    bounds: Http2,
    incoming: Frames,
    outgoing: Frames,
    counts: Counts,
    /// Bytes of the head that is being read.
    head: usize,
    /// What is taken for the rest of it.
    claim: Option<ClientsClaim>,
    /// One of the worker's few heads that are read without that; who waits to be one.
    aside: Option<OwnedSemaphorePermit>,
    goes_aside: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>>>>>,
    /// Small writes.
    out: BytesMut,
    /// What the socket said of it when it was last written to.
    taken: Cell<u64>,
}

impl WatchedSocket {
    pub fn new(mut socket: Socket, early: Bytes, link: Rc<Link>, worker: Rc<Worker>) -> WatchedSocket {
        socket.gather();
        let bounds = worker.settings().http2;
        WatchedSocket {
            socket: Some(socket),
            early,
            link,
            worker,
            bounds,
            incoming: Frames::behind(PREFACE),
            outgoing: Frames::behind(0),
            counts: Counts::new(clock::moment()),
            head: 0,
            claim: None,
            aside: None,
            goes_aside: None,
            out: BytesMut::new(),
            taken: Cell::default(),
        }
    }

    fn socket(&mut self) -> io::Result<Pin<&mut Socket>> {
        self.socket.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return self.socket()?.poll_read(cx, buf);
        }
        let some = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early.split_to(some));
        Poll::Ready(Ok(()))
    }

    /// Follows what the client sent.
    fn came(&mut self, bytes: &[u8]) {
        let WatchedSocket { incoming, counts, bounds, link, worker, head, claim, aside, goes_aside, .. } =
            self;
        incoming.feed(bytes, |frame| {
            link.inflows.came(frame);
            if let Some(flood) = counts.came(frame, bounds, clock::moment) {
                link.flooded(flood);
            }
            if !frame.is_of_head() {
                return;
            }
            let before = *head;
            *head += frame.length as usize;
            if before <= HEAD && *head > HEAD {
                let client = link.client(worker).charged();
                *claim = Some(ClientsClaim::new(&worker.shared.budget.askers, client));
            }
            link.reads_head(!frame.ends_head());
            link.reads_head_of(frame.stream);
            if frame.ends_head() {
                *head = 0;
                // What is here already is of a frame's size at most, which a stream has anyway.
                *claim = None;
                (*aside, *goes_aside) = (None, None);
            }
        });
        // A frame that is not all here is one that is waited for.
        link.reads_frame(!incoming.is_between());
    }

    /// So many bytes of what the library wrote were taken.
    fn went(&mut self, bufs: &[IoSlice<'_>], bytes: usize) {
        let WatchedSocket { outgoing, counts, bounds, link, .. } = self;
        counts.sent(bytes, clock::moment);
        outgoing.feed_written(bufs, bytes, |frame| {
            if frame.kind == Frame::RST_STREAM && link.reset_by_itself() {
                return;
            }
            if let Some(flood) = counts.went(frame, bounds, clock::moment) {
                link.flooded(flood);
            }
        });
    }

    /// Notes whether the client takes what is written.
    fn wrote<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let taken = self.socket.as_ref().map_or(0, Socket::taken);
        self.link.writes(result.is_ready(), taken != self.taken.replace(taken));
        result
    }

    /// Writes what waits.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let WatchedSocket { socket, out, .. } = self;
            let Some(socket) = socket else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
            let write = Pin::new(socket).poll_write(cx, out);
            let n = ready!(self.wrote(write))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(n);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what waits and what comes behind it; gives the bytes of that which were taken.
    fn poll_all(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let WatchedSocket { socket, out, .. } = self;
            let Some(socket) = socket else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let all = [IoSlice::new(out)].into_iter().chain(bufs.iter().map(|buf| IoSlice::new(buf)));
            let mut count = 0;
            for (piece, buf) in pieces.iter_mut().zip(all.filter(|buf| !buf.is_empty())) {
                (*piece, count) = (buf, count + 1);
            }
            let write = Pin::new(socket).poll_write_vectored(cx, &pieces[..count]);
            let n = ready!(self.wrote(write))?;
            let before = n.min(self.out.len());
            self.out.advance(before);
            if n > before || n == 0 {
                return Poll::Ready(Ok(n - before));
            }
        }
    }
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.link.is_flooded() {
            return Poll::Pending;
        }
        if this.link.inflows.is_due() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(claim) = &mut this.claim {
            let most = of_head(this.worker.settings().bounds.head_bytes);
            if claim.poll(cx, &this.worker.shared.budget.heads, most).is_ready() {
                this.link.holds(this.claim.take().and_then(|mut claim| claim.take_lease()));
                this.goes_aside = None;
            } else if this.link.inflows.are_none() {
                this.goes_aside = None;
                return Poll::Pending;
            } else {
                // Content behind it is of those who have the memory.
                let slots = this.worker.heads_aside.clone();
                let goes = this
                    .goes_aside
                    .get_or_insert_with(|| Box::pin(async move { slots.acquire_owned().await.ok() }));
                this.aside = ready!(goes.as_mut().poll(cx));
                this.link.reads_aside();
                (this.claim, this.goes_aside) = (None, None);
            }
        }
        let before = buf.filled().len();
        ready!(this.poll_bytes(cx, buf))?;
        this.came(&buf.filled()[before..]);
        if this.link.is_flooded() {
            // None of it is worth reading. The connection's task ends it.
            buf.set_filled(before);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        let taken = if bytes >= LARGE {
            ready!(this.poll_all(cx, bufs))?
        } else {
            if this.out.len() + bytes > TOGETHER {
                ready!(this.poll_out(cx))?;
            }
            bufs.iter().for_each(|buf| this.out.extend_from_slice(buf));
            bytes
        };
        this.went(bufs, taken);
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// While requests are being answered, their answers wait for each other.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.link.is_corked() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_out(cx))?;
        let flush = this.socket()?.poll_flush(cx);
        ready!(this.wrote(flush))?;
        if this.out.capacity() > LARGE {
            this.out = BytesMut::new();
        }
        this.link.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        self.socket()?.poll_shutdown(cx)
    }
}

impl Drop for WatchedSocket {
    fn drop(&mut self) {
        self.link.gives_back(self.socket.take());
    }
}
