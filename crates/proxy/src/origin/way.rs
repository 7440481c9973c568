//! What a request goes by: a connection that it has alone, or a stream of one that others share.

use super::http2::Ticket;
use super::line::Line;

pub enum Way {
    Http1(Box<Line>),
    Http2(Ticket),
}

impl Way {
    /// What comes on it may be stored and shared.
    pub fn is_shareable(&self) -> bool {
        match self {
            Way::Http1(line) => line.shareable,
            Way::Http2(ticket) => ticket.is_shareable(),
        }
    }

    /// It was there before the request.
    pub fn is_reused(&self) -> bool {
        match self {
            Way::Http1(line) => line.is_reused(),
            Way::Http2(ticket) => ticket.is_reused(),
        }
    }

    /// The response was read to its end.
    pub fn release(self) {
        if let Way::Http1(line) = self {
            line.release();
        }
    }

    /// A connection with this response is closed after it, if no other has a part in it.
    pub fn not_again(self) -> Way {
        match self {
            Way::Http1(line) => Way::Http1(Box::new(line.not_again())),
            stream @ Way::Http2(_) => stream,
        }
    }

    /// Nothing came for too long.
    pub fn is_late(&self) {
        if let Way::Http2(ticket) = self {
            ticket.is_late();
        }
    }

    /// What may become a tunnel.
    pub fn into_line(self) -> Option<Line> {
        match self {
            Way::Http1(line) => Some(*line),
            Way::Http2(_) => None,
        }
    }
}
