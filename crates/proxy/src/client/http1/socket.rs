//! A client's socket under the library: it walks the framing of what it reads, notes what the connection waits for, and lets interim
//! responses out between a request and its final response.

use super::Link;
use super::framing::Place;
use super::link::Interim;
use crate::budget::{HEAD, of_head};
use crate::client::protocol::Foreign;
use crate::message::interim;
use crate::report::Transaction;
use crate::transport::Socket;
use crate::worker::Worker;
use bytes::Bytes;
use http::StatusCode;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The client's socket, watched on behalf of its `Link`.
pub struct WatchedSocket {
    pub socket: Socket,
    /// What was read of it and is still to be served: by another process, or what is no HTTP/1.
    pub early: Bytes,
    /// The first bytes, too few to tell whether they begin HTTP/2's preface.
    pub begun: Bytes,
    pub link: Rc<Link>,
    pub worker: Rc<Worker>,
    /// What the socket said of it when it was last written to.
    pub taken: Cell<u64>,
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let link = this.link.clone();
        if link.poisoned.get() {
            return Poll::Ready(Err(broken_framing()));
        }
        let before = buf.filled().len();
        let place = link.walker.borrow().place();
        let waits = this.worker.holding.get() && (link.moves() || !this.worker.moving.get());
        if waits && place != Place::Body {
            // Whoever ends that wakes this task.
            return Poll::Pending;
        }
        let read = match place {
            Place::Body if this.worker.shared.budget.is_ample() => this.poll_bytes(cx, buf),
            Place::Body => this.poll_some(cx, buf),
            Place::Start | Place::Head => this.poll_head(cx, place, buf),
        };
        link.read_blocked.set(read.is_pending());
        ready!(read)?;
        if link.reads.get() == 0 {
            link.foreign.set(Foreign::begins(&buf.filled()[before..]));
            if link.foreign.get().is_some() {
                link.poisoned.set(true);
                this.early = [&buf.filled()[before..], &this.early].concat().into();
                buf.set_filled(before);
                return Poll::Ready(Err(broken_framing()));
            }
        }
        link.reads.set(link.reads.get() + 1);
        if let Err(clean) = link.walker.borrow_mut().feed(&mut buf.filled_mut()[before..]) {
            link.poisoned.set(true);
            buf.set_filled(before + clean);
            if clean == 0 {
                return Poll::Ready(Err(broken_framing()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn broken_framing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the body is not framed cleanly")
}

impl WatchedSocket {
    fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, buf);
        }
        let some = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early.split_to(some));
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    fn poll_next(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.link.reads.get() {
            0 => self.poll_first(cx, buf),
            _ => self.poll_bytes(cx, buf),
        }
    }

    /// Reads; of the first bytes as many as it takes to tell what they begin: TCP may bring them one by one.
    #[cold]
    fn poll_first(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            let begun = self.begun.len();
            buf.put_slice(&self.begun);
            let read = self.poll_bytes(cx, buf);
            let first = &buf.filled()[before..];
            let more = first.len() > begun;
            if !(read.is_pending() || more && Foreign::may_begin(first)) {
                self.begun.clear();
                return read;
            }
            if more {
                self.begun = Bytes::copy_from_slice(first);
            }
            buf.set_filled(before);
            ready!(read)?;
        }
    }

    /// Reads some of a head. No more at once than the library's buffer begins with: it grows by what is there, not by what may
    /// come.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        place: Place,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let WatchedSocket { link, worker, .. } = self;
        let number = link.walker.borrow().heads();
        let head = match link.head.get() {
            (before, bytes) if place == Place::Head && before == number => bytes,
            _ => 0,
        };
        if head >= HEAD {
            let most = of_head(worker.settings().bounds.head_bytes);
            ready!(link.large_head.borrow_mut().poll(cx, &worker.shared.budget.heads, most));
        }
        let (link, before) = (link.clone(), buf.filled().len());
        ready!(self.poll_some(cx, buf))?;
        link.head.set((number, head + buf.filled().len() - before));
        Poll::Ready(Ok(()))
    }

    /// Reads no more at once than the library's buffer begins with: it grows by what reads bring.
    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() <= HEAD {
            return self.poll_next(cx, buf);
        }
        let mut some = ReadBuf::new(buf.initialize_unfilled_to(HEAD - 1));
        ready!(self.poll_next(cx, &mut some))?;
        let read = some.filled().len();
        buf.advance(read);
        Poll::Ready(Ok(()))
    }

    /// Of a write of so many bytes.
    fn wrote<T>(&self, result: Poll<io::Result<T>>, bytes: usize) -> Poll<io::Result<T>> {
        self.link.write_blocked.set(result.is_pending());
        self.link.stream.set_full(result.is_pending() && !self.worker.shared.budget.is_ample());
        let taken = self.socket.taken();
        if taken != self.taken.replace(taken) || result.is_ready() {
            self.link.writes.set(self.link.writes.get() + 1);
        }
        match result.is_ready() {
            true => {}
            false => {
                self.link.behind.set(true);
                self.link.stream.count_unsent(bytes, &self.worker.shared.budget);
                // The last byte will tell little of the first.
                self.link.stream.note(Transaction::begins);
            }
        }
        result
    }

    /// What TLS has encrypted goes out; nothing else is kept here.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.socket).poll_flush(cx);
        match flush.is_pending() || self.link.write_blocked.get() {
            true => self.wrote(flush, 0),
            false => flush,
        }
    }

    /// Takes, in place of the client, what the library writes of its own accord: a status without a word.
    fn keeps_back(&self, bytes: &[u8]) -> bool {
        let link = &*self.link;
        if link.answered.get() {
            link.unread.set(bytes.get(9..12).and_then(|digits| StatusCode::from_bytes(digits).ok()));
        }
        link.answered.get()
    }

    /// Writes the interim responses that wait. Before a final response only those that have begun to go out: the others are
    /// dropped.
    fn poll_interim(&mut self, cx: &mut Context<'_>, is_final: bool) -> Poll<io::Result<()>> {
        let link = self.link.clone();
        let mut interim = link.interim.borrow_mut();
        match is_final {
            true if interim.sent == 0 => interim.bytes.clear(),
            true => {}
            false if !link.stream.interims_wait() => {}
            false => {
                let waiting = link.stream.take_interims();
                interim.bytes.extend(waiting.into_iter().flat_map(interim::Interim::http1));
            }
        }
        while !interim.bytes.is_empty() {
            let write = Pin::new(&mut self.socket).poll_write(cx, &interim.bytes[interim.sent..]);
            interim.sent += ready!(self.wrote(write, 0))?;
            if interim.sent == interim.bytes.len() {
                *interim = Interim::default();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.keeps_back(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(write, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.keeps_back(bufs.first().map_or(&[], |first| first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        ready!(self.poll_interim(cx, true))?;
        let write = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(write, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The library flushes when it has nothing of its own to write: all of a response has gone, and it is the place for interim
    /// responses.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.socket.is_tls() {
            ready!(self.poll_unsent(cx))?;
        }
        self.link.flushed();
        self.poll_interim(cx, false)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
