//! The socket of a connection of HTTP/2 under the library: it says what has passed, and counts the origin's frames.

use super::room::Room;
use crate::access::reach::Zone;
use crate::clock;
use crate::message::flood::Counts;
use crate::message::frames::{Frame, Frames, PREFACE};
use crate::message::inflow::Inflows;
use crate::settings::http2::Http2;
use crate::transport::Socket;
use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Bytes that are read before those have their turn whom they are for.
const AT_ONCE: usize = 64 << 10;

/// What has passed on a connection, and who is told of it.
#[derive(Clone, Default)]
pub struct Passed(Rc<Inner>);

#[derive(Default)]
struct Inner {
    /// Anything came of the origin.
    any: Cell<bool>,
    /// Frames that are more than how the connection is used.
    answers: Cell<u64>,
    /// The last stream that was asked for, and the last one whose head has gone.
    asked: Cell<u32>,
    gone: Cell<u32>,
    /// Streams that were reset from here.
    resets: Cell<u32>,
    /// Of which is what was read last.
    read: RefCell<Vec<u32>>,
    told: OnceCell<(Rc<Room>, bool, Zone)>,
    heard: Notify,
}

impl Passed {
    /// The room of its hop, once it is one of that's.
    pub fn room(&self) -> Option<&Rc<Room>> {
        self.0.told.get().map(|(room, ..)| room)
    }

    /// Whom to tell of places, on a connection that is wide or narrow and for clients of this zone.
    pub fn tells(&self, room: Rc<Room>, wide: bool, needs: Zone) {
        let _ = self.0.told.set((room, wide, needs));
    }

    pub fn any(&self) -> bool {
        self.0.any.get()
    }

    /// Frames of the origin's, ever, without those by which the sides tell what they allow.
    pub fn answers(&self) -> u64 {
        self.0.answers.get()
    }

    /// Until something more comes, or the connection ends.
    pub async fn heard(&self) {
        self.0.heard.notified().await;
    }

    pub fn asked(&self, stream: u32) {
        self.0.asked.set(stream);
    }

    /// Heads of requests that the library has still to write.
    pub fn unsent(&self) -> usize {
        self.0.asked.get().saturating_sub(self.0.gone.get()).div_ceil(2) as usize
    }

    pub fn resets(&self) -> u32 {
        self.0.resets.get()
    }

    /// When the connection ended for what came, it may have been this stream's; or it was no stream's that was asked for.
    pub fn is_blamed(&self, stream: u32) -> bool {
        let read = self.0.read.borrow();
        read.is_empty() || read.contains(&stream)
    }

    /// A stream has ended.
    pub fn freed(&self, was_last: bool) {
        match self.0.told.get() {
            Some((room, ..)) if was_last => room.may_give_way(),
            Some((room, wide, needs)) => room.frees(*wide, *needs),
            None => {}
        }
    }

    /// What the origin allows has changed, or nothing more comes of it.
    pub fn changed(&self) {
        self.0.heard.notify_waiters();
        if let Some(room) = self.room() {
            room.changes();
        }
    }

    fn came(&self, frame: Frame) {
        if !matches!(frame.kind, Frame::SETTINGS | Frame::WINDOW_UPDATE) {
            self.0.answers.set(self.answers() + 1);
            self.0.heard.notify_waiters();
        }
        let mut read = self.0.read.borrow_mut();
        if (1..=self.0.asked.get()).contains(&frame.stream) && read.last() != Some(&frame.stream) {
            read.push(frame.stream);
        }
        if !self.0.any.replace(true) || matches!(frame.kind, Frame::SETTINGS | Frame::GOAWAY) {
            self.changed();
        }
    }

    /// What is read next begins; of what was read before, the last frame may go on.
    fn reads(&self, goes_on: bool) {
        let mut read = self.0.read.borrow_mut();
        let last = read.last().copied().filter(|_| goes_on);
        read.clear();
        read.extend(last);
    }

    fn went(&self, frame: Frame) {
        if frame.kind == Frame::RST_STREAM {
            self.0.resets.set(self.resets() + 1);
        }
        if matches!(frame.kind, Frame::HEADERS | Frame::RST_STREAM) && frame.stream > self.0.gone.get() {
            self.0.gone.set(frame.stream);
            self.freed(false);
        }
    }
}

pub struct Wire {
    socket: Socket,
    passed: Passed,
    inflows: Rc<Inflows>,
    /// Bytes that came without a pause.
    at_once: usize,
    incoming: Frames,
    outgoing: Frames,
    counts: Counts,
    bounds: Http2,
}

impl Wire {
    /// An origin may do what a client may by these bounds.
    pub fn new(socket: Socket, passed: Passed, inflows: Rc<Inflows>, bounds: Http2) -> Wire {
        // Each of our requests may be reset.
        let bounds = Http2 { resets: u32::MAX, ..bounds };
        let (incoming, outgoing) = (Frames::behind(0), Frames::behind(PREFACE));
        let counts = Counts::new(clock::moment());
        Wire { socket, passed, inflows, at_once: 0, incoming, outgoing, counts, bounds }
    }

    fn came(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Wire { incoming, counts, bounds, passed, inflows, .. } = self;
        let mut flood = None;
        passed.reads(!incoming.is_between());
        incoming.feed(bytes, |frame| {
            passed.came(frame);
            inflows.came(frame);
            flood = flood.or(counts.came(frame, bounds, clock::moment));
        });
        self.at_once += bytes.len();
        match flood {
            None => Ok(()),
            Some(flood) => Err(io::Error::other(format!("too many in a minute: {}", flood.name()))),
        }
    }

    fn went(&mut self, bufs: &[IoSlice<'_>], bytes: usize) {
        let Wire { outgoing, counts, bounds, passed, .. } = self;
        counts.sent(bytes, clock::moment);
        outgoing.feed_written(bufs, bytes, |frame| {
            passed.went(frame);
            // The origin's part of them is without a bound, so that there is none to meet.
            counts.went(frame, bounds, clock::moment);
        });
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.at_once >= AT_ONCE || this.inflows.is_due() {
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
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?;
        self.went(bufs, bytes);
        Poll::Ready(Ok(bytes))
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
