//! Bodies that arrive in pieces.

use bytes::Bytes;
use http_body::Frame;
use std::io;
use std::task::{Context, Poll};

/// A body that arrives in pieces.
pub trait Pieces: 'static {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>>;
    /// Goes on with what was begun for the next piece, which nobody takes yet: it may hold what others wait for.
    fn poll_ahead(&mut self, _: &mut Context<'_>) {}
    /// Bytes still to come, when known.
    fn left(&self) -> Option<u64>;
    fn is_over(&self) -> bool;
}
