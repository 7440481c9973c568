//! A response's body as it comes from the library that speaks its protocol.

use crate::message::inflow::Inflow;
use bytes::Bytes;
use h2::FlowControl;
use http_body::{Body, Frame};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(Http2Incoming),
}

/// The body of one stream of HTTP/2.
pub struct Http2Incoming {
    inflow: Inflow,
    /// Bytes still to come, where the head says so.
    left: Option<u64>,
}

impl Incoming {
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self {
            Incoming::Http1(incoming) => {
                Pin::new(incoming).poll_frame(cx).map(|frame| Some(frame?.map_err(io::Error::other)))
            }
            Incoming::Http2(incoming) => incoming.poll_frame(cx),
        }
    }

    pub fn is_end_stream(&self) -> bool {
        match self {
            Incoming::Http1(incoming) => incoming.is_end_stream(),
            Incoming::Http2(incoming) => incoming.inflow.is_over(),
        }
    }

    /// Bytes still to come, when known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Incoming::Http1(incoming) => incoming.size_hint().exact(),
            Incoming::Http2(incoming) if incoming.inflow.is_over() => Some(0),
            Incoming::Http2(incoming) => incoming.left,
        }
    }

    /// Its end is told by more than the end of the connection.
    pub fn is_framed(&self, chunked: bool) -> bool {
        match self {
            Incoming::Http1(_) => chunked || self.left().is_some(),
            Incoming::Http2(_) => true,
        }
    }
}

impl Http2Incoming {
    pub fn new(inflow: Inflow, left: Option<u64>) -> Http2Incoming {
        Http2Incoming { inflow, left }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(self.inflow.poll(cx, at_once));
        // The library looks at it too, but for what has no length of its own, such as 204.
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                if self.left.is_some_and(|left| bytes > left) {
                    return Poll::Ready(Some(Err(ErrorKind::InvalidData.into())));
                }
                self.left = self.left.map(|left| left - bytes);
            }
            None if self.left.is_some_and(|left| left > 0) => {
                return Poll::Ready(Some(Err(ErrorKind::UnexpectedEof.into())));
            }
            _ => {}
        }
        Poll::Ready(frame)
    }
}

/// As much may come again now.
pub fn at_once(flow: &mut FlowControl, bytes: Bytes) -> Bytes {
    let _ = flow.release_capacity(bytes.len());
    bytes
}

/// As much may come again when all of it is gone from here: until then it takes what the connection's window takes, and no more.
pub fn when_gone(flow: &mut FlowControl, bytes: Bytes) -> Bytes {
    Bytes::from_owner(Here { bytes, flow: flow.clone() })
}

struct Here {
    bytes: Bytes,
    flow: FlowControl,
}

impl AsRef<[u8]> for Here {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = self.flow.release_capacity(self.bytes.len());
    }
}
