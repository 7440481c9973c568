//! The bytes of a body between two offsets, as pieces that are shared and not copied.
//!
//! What always holds: pieces lie side by side without gaps; a byte is found in logarithmic time; small pieces are
//! copied together, so that neither the number of pieces nor what they keep alive goes beyond a few times the bytes.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Pieces of fewer bytes are copied: one may be part of a read buffer that would otherwise stay for its sake.
pub const SMALL: usize = 4 << 10;
/// Bytes of small pieces that are gathered into one.
pub const GATHERED: usize = 16 << 10;

#[derive(Default)]
pub struct Window {
    /// Whole pieces with the offset of each.
    pieces: VecDeque<(u64, Bytes)>,
    start: u64,
    end: u64,
    /// What small pieces came last, up to `end`: it still grows, so readers get copies.
    tail: BytesMut,
}

impl Window {
    /// Without bytes, for those from an offset on.
    pub fn from(offset: u64) -> Window {
        Window { start: offset, end: offset, ..Window::default() }
    }

    /// The offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        if bytes.len() < SMALL {
            self.tail.extend_from_slice(&bytes);
            self.end += bytes.len() as u64;
            if self.tail.len() >= GATHERED {
                self.close_tail();
            }
        } else {
            self.close_tail();
            let from = self.end;
            self.end += bytes.len() as u64;
            self.pieces.push_back((from, bytes));
        }
    }

    /// Bytes from an offset on, as many as lie in one piece; `None` outside of the window.
    pub fn at(&self, offset: u64) -> Option<Bytes> {
        if offset < self.start || offset >= self.end {
            return None;
        }
        let tail = self.end - self.tail.len() as u64;
        if offset >= tail {
            return Some(Bytes::copy_from_slice(&self.tail[(offset - tail) as usize..]));
        }
        let after = self.pieces.partition_point(|(from, _)| *from <= offset);
        let (from, piece) = self.pieces.get(after.checked_sub(1)?)?;
        Some(piece.slice((offset - from) as usize..))
    }

    /// Drops first pieces, as long as there are `max` bytes or more, that end at or before an offset.
    pub fn let_go(&mut self, max: usize, before: u64) {
        while self.len() >= max && self.start < self.end {
            let end = self.first_end();
            if end > before {
                break;
            }
            self.start = end;
            if self.pieces.pop_front().is_none() {
                self.tail = BytesMut::new();
            }
        }
    }

    /// The offset behind the first piece, which goes as a whole.
    pub fn first_end(&self) -> u64 {
        self.start + self.pieces.front().map_or(self.tail.len(), |(_, piece)| piece.len()) as u64
    }

    /// All of it, to be joined where nobody waits for it.
    pub fn pieces(&self) -> Vec<Bytes> {
        let whole = self.pieces.iter().map(|(_, piece)| piece.clone());
        let tail = (!self.tail.is_empty()).then(|| Bytes::copy_from_slice(&self.tail));
        whole.chain(tail).collect()
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail).freeze();
            self.pieces.push_back((self.end - tail.len() as u64, tail));
        }
    }
}

/// Pieces as one, in one exact allocation: each may be a small part of a large read buffer, which must not stay.
pub fn joined(pieces: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn single_bytes_become_few_pieces() {
        let mut window = Window::default();
        let buffer = Bytes::from(vec![7; 1 << 20]);
        for at in 0..buffer.len() {
            window.push(buffer.slice(at..at + 1));
        }
        assert_eq!(window.len(), 1 << 20);
        assert_eq!(window.pieces.len(), (1 << 20) / GATHERED);
        assert!(buffer.is_unique(), "nothing keeps what was read alive");
        let mut at = 0;
        let mut taken = 0;
        while let Some(bytes) = window.at(at) {
            at += bytes.len() as u64;
            taken += 1;
        }
        assert_eq!((at, taken), (1 << 20, window.pieces.len()));
    }

    proptest! {
        #[test]
        fn a_window_is_the_body_between_two_offsets(
            steps in prop::collection::vec((0usize..3 * SMALL, 0usize..4 * GATHERED, any::<u16>()), 1..60)
        ) {
            let mut body = Vec::new();
            let mut window = Window::default();
            for (length, max, before) in steps {
                let piece: Vec<u8> = (0..length).map(|n| (body.len() + n) as u8 ^ (n >> 8) as u8).collect();
                body.extend_from_slice(&piece);
                window.push(piece.into());
                let start = window.start();
                let before = u64::from(before) * 8;
                window.let_go(max, before);
                prop_assert!(window.start() == start || window.start() <= before);
                prop_assert_eq!(window.end(), body.len() as u64);
                prop_assert!(window.at(window.end()).is_none());
                prop_assert!(window.start() == 0 || window.at(window.start() - 1).is_none());
                let mut at = window.start();
                while let Some(bytes) = window.at(at) {
                    prop_assert!(!bytes.is_empty());
                    prop_assert_eq!(&bytes[..], &body[at as usize..at as usize + bytes.len()]);
                    at += bytes.len() as u64;
                }
                prop_assert_eq!(at, window.end());
                prop_assert_eq!(&joined(&window.pieces())[..], &body[window.start() as usize..]);
            }
        }
    }
}
