//! What comes on streams of HTTP/2 and waits for its reader: taken from the library as soon as it is there.
//!
//! The library keeps each frame's content as a part of the block that was read with it, in an entry of some hundred bytes. One byte that
//! waits would hold a block of many kilobytes, so what is little is copied together. Its window is given back when it is read, and not
//! before: what waits here is bounded by that.

use super::frames::Frame as Head;
use bytes::{Bytes, BytesMut};
use h2::{FlowControl, RecvStream};
use http_body::Frame;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Bytes of a piece that is large enough to be kept as it is.
pub const LARGE: usize = 4 << 10;

/// Of a stream that has told why.
const BROKEN: io::ErrorKind = io::ErrorKind::ConnectionReset;

/// Bytes by which a frame may exceed its content (RFC 9113 section 6.1).
const PADDING: usize = 256;

/// All of one connection.
#[derive(Default)]
pub struct Inflows {
    all: RefCell<HashMap<u32, Rc<RefCell<Waiting>>>>,
    /// Streams of which something little has come since the last look.
    fresh: RefCell<Vec<u32>>,
    is_due: Cell<bool>,
}

/// Of one stream.
pub struct Inflow {
    stream: u32,
    waiting: Rc<RefCell<Waiting>>,
    of: Rc<Inflows>,
}

struct Waiting {
    stream: RecvStream,
    pieces: VecDeque<Bytes>,
    /// What is little, behind those.
    little: BytesMut,
    /// What comes last: trailers, an error, or nothing.
    last: Option<Option<io::Result<Frame<Bytes>>>>,
    reader: Option<Waker>,
}

impl Inflows {
    pub fn add(self: &Rc<Inflows>, incoming: RecvStream) -> Inflow {
        let stream = incoming.stream_id().as_u32();
        let (pieces, little, last, reader) = Default::default();
        let waiting = Rc::new(RefCell::new(Waiting { stream: incoming, pieces, little, last, reader }));
        waiting.borrow_mut().take_all();
        self.all.borrow_mut().insert(stream, waiting.clone());
        Inflow { stream, waiting, of: self.clone() }
    }

    pub fn are_none(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// A frame was read.
    pub fn came(&self, frame: Head) {
        if frame.kind != Head::DATA || frame.length as usize > LARGE + PADDING {
            return;
        }
        self.is_due.set(true);
        let mut fresh = self.fresh.borrow_mut();
        if fresh.last() != Some(&frame.stream) {
            fresh.push(frame.stream);
        }
    }

    /// Nothing more is to be read before the next look.
    pub fn is_due(&self) -> bool {
        self.is_due.get()
    }

    /// Takes what has come since the last look.
    pub fn look(&self) {
        if self.is_due.replace(false) {
            for stream in self.fresh.take() {
                let waiting = self.all.borrow().get(&stream).cloned();
                waiting.into_iter().for_each(|waiting| waiting.borrow_mut().take_all());
            }
        }
    }
}

impl Waiting {
    /// Takes from the library what it has; what comes later wakes the reader, as if that had looked.
    fn take_all(&mut self) {
        let reader = self.reader.clone();
        let mut cx = Context::from_waker(reader.as_ref().unwrap_or(Waker::noop()));
        while self.last.is_none() {
            let Poll::Ready(next) = poll_next(&mut self.stream, &mut cx) else { return };
            match next.map(|next| next.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) if bytes.len() < LARGE => self.little.extend_from_slice(&bytes),
                Some(Ok(Ok(bytes))) => {
                    self.end_little();
                    self.pieces.push_back(bytes);
                }
                Some(Ok(Err(trailers))) => self.last = Some(Some(Ok(trailers))),
                Some(Err(error)) => self.last = Some(Some(Err(error))),
                None => self.last = Some(None),
            }
        }
    }

    fn end_little(&mut self) {
        if !self.little.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.little).freeze());
        }
    }

    fn piece(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.end_little();
        }
        self.pieces.pop_front()
    }
}

impl Inflow {
    /// The next of the data, then the trailers. As much may come again, once who `takes` the data has it so.
    pub fn poll(
        &self,
        cx: &mut Context<'_>,
        takes: impl FnOnce(&mut FlowControl, Bytes) -> Bytes,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let waiting = &mut *self.waiting.borrow_mut();
        let mut piece = waiting.piece();
        if piece.is_none() {
            match &mut waiting.reader {
                Some(reader) => reader.clone_from(cx.waker()),
                None => waiting.reader = Some(cx.waker().clone()),
            }
            waiting.take_all();
            piece = waiting.piece();
        }
        match piece {
            Some(bytes) => {
                let bytes = takes(waiting.stream.flow_control(), bytes);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            // Behind the last there is nothing, and what broke stays so.
            None => match &mut waiting.last {
                Some(Some(Err(error))) => Poll::Ready(Some(Err(std::mem::replace(error, BROKEN.into())))),
                Some(last) => Poll::Ready(last.take()),
                None => Poll::Pending,
            },
        }
    }

    /// As much more may come, of what was read before.
    pub fn may_come(&self, bytes: usize) {
        let _ = self.waiting.borrow_mut().stream.flow_control().release_capacity(bytes);
    }

    /// All of it was read, but for an error.
    pub fn is_over(&self) -> bool {
        let waiting = self.waiting.borrow();
        let is_read = waiting.pieces.is_empty() && waiting.little.is_empty();
        is_read && waiting.last.as_ref().map_or_else(|| waiting.stream.is_end_stream(), Option::is_none)
    }
}

impl Drop for Inflow {
    /// What was not read may come again, of other streams.
    fn drop(&mut self) {
        let waiting = &mut *self.waiting.borrow_mut();
        let unread = waiting.little.len() + waiting.pieces.iter().map(Bytes::len).sum::<usize>();
        let _ = waiting.stream.flow_control().release_capacity(unread);
        self.of.all.borrow_mut().remove(&self.stream);
    }
}

fn poll_next(stream: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    if let Some(data) = ready!(stream.poll_data(cx)) {
        return Poll::Ready(Some(data.map(Frame::data).map_err(io::Error::other)));
    }
    let trailers = ready!(stream.poll_trailers(cx)).map_err(io::Error::other)?;
    Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
}
