//! Bytes of a response's body that the library has, and who wants to know when they have gone.

use super::link::Link;
use crate::answer::stream::Stream;
use bytes::{Buf, Bytes};
use std::io::IoSlice;
use std::rc::Rc;

pub struct Piece {
    bytes: Bytes,
    /// Bytes that count as unsent.
    counted: usize,
    link: Option<Rc<Link>>,
    /// Whose last piece it is.
    last_of: Option<Rc<Stream>>,
}

impl Piece {
    /// That nobody counts.
    pub fn of(bytes: Bytes) -> Piece {
        Piece { bytes, counted: 0, link: None, last_of: None }
    }

    pub fn counted(bytes: Bytes, link: &Rc<Link>, last_of: Option<Rc<Stream>>) -> Piece {
        let counted = bytes.len();
        link.turns.took(counted);
        Piece { bytes, counted, link: Some(link.clone()), last_of }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    /// The library may be in the middle of something: nothing of it is asked from here, and the last of a stream, which has handles of it, does
    /// not go here.
    fn drop(&mut self) {
        let Some(link) = &self.link else { return };
        link.turns.left(self.counted);
        match self.last_of.take() {
            Some(stream) if self.bytes.is_empty() => link.departs(stream),
            // The client left, or the connection did.
            Some(stream) => link.loses(stream),
            None => {}
        }
    }
}
