//! Bodies on their way to a client: each piece is asked for when the one before it was taken.

use crate::answer::stream::Flight;
use crate::message::pieces::Pieces;
use crate::transfer::pump::Started;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response's body.
pub struct ReplyBody {
    source: Source,
    /// Counts the request out when the body has gone.
    _flight: Option<Flight>,
}

enum Source {
    Whole(Bytes),
    Pieces(Box<dyn Pieces>),
}

impl ReplyBody {
    pub fn empty() -> ReplyBody {
        ReplyBody::whole(Bytes::new())
    }

    pub fn whole(bytes: Bytes) -> ReplyBody {
        ReplyBody { source: Source::Whole(bytes), _flight: None }
    }

    pub fn pieces(pieces: impl Pieces) -> ReplyBody {
        ReplyBody { source: Source::Pieces(Box::new(pieces)), _flight: None }
    }

    pub fn carrying(mut self, flight: Flight) -> ReplyBody {
        self._flight = Some(flight);
        self
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Pieces(pieces) => pieces.poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Pieces(pieces) => pieces.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Pieces(pieces) => pieces.left().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl From<Started> for ReplyBody {
    fn from(started: Started) -> ReplyBody {
        match started {
            Started::Whole(bytes) => ReplyBody::whole(bytes),
            Started::Pieces(pieces) => ReplyBody::pieces(pieces),
        }
    }
}
