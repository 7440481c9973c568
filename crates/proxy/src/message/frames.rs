//! Frames as they pass (RFC 9113 section 4.1), of which the heads alone are read: the library says nothing of most of them.

use std::io::IoSlice;

/// Bytes that a connection begins with (RFC 9113 section 3.4).
pub const PREFACE: usize = 24;

const HEAD: usize = 9;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// Bytes of its payload.
    pub length: u32,
}

impl Frame {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;

    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    pub fn is_of_head(&self) -> bool {
        matches!(self.kind, Frame::HEADERS | Frame::CONTINUATION)
    }

    pub fn ends_head(&self) -> bool {
        self.is_of_head() && self.flags & Frame::END_HEADERS != 0
    }

    /// It brings nothing, and ends nothing.
    pub fn is_empty(&self) -> bool {
        let ends = match self.kind {
            Frame::DATA => Frame::END_STREAM,
            Frame::HEADERS | Frame::CONTINUATION => Frame::END_HEADERS,
            _ => return false,
        };
        self.length == 0 && self.flags & ends == 0
    }
}

/// Follows the frames of one direction, in pieces of any size.
pub struct Frames {
    head: [u8; HEAD],
    /// Bytes of the head that are here.
    have: usize,
    /// Bytes that belong to no head, before the next.
    left: usize,
}

impl Frames {
    /// Behind so many bytes.
    pub fn behind(bytes: usize) -> Frames {
        Frames { head: [0; HEAD], have: 0, left: bytes }
    }

    pub fn feed(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Frame)) {
        loop {
            let payload = self.left.min(bytes.len());
            self.left -= payload;
            bytes = &bytes[payload..];
            let more = (HEAD - self.have).min(bytes.len());
            if more == 0 {
                return;
            }
            self.head[self.have..self.have + more].copy_from_slice(&bytes[..more]);
            self.have += more;
            bytes = &bytes[more..];
            if self.have == HEAD {
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                let stream = u32::from_be_bytes(stream) & !(1 << 31);
                (self.have, self.left) = (0, length as usize);
                seen(Frame { kind, flags, stream, length });
            }
        }
    }

    /// So many bytes of what was to be written.
    pub fn feed_written(&mut self, bufs: &[IoSlice<'_>], mut bytes: usize, mut seen: impl FnMut(Frame)) {
        for buf in bufs {
            let taken = bytes.min(buf.len());
            self.feed(&buf[..taken], &mut seen);
            bytes -= taken;
        }
    }

    /// Nothing of a frame's payload, nor of a head, is still to come.
    pub fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(all: &[(u8, u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![7; PREFACE];
        for (kind, flags, payload) in all {
            bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
            bytes.extend_from_slice(&[*kind, *flags, 0x80, 0, 1, 1]);
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    proptest! {
        #[test]
        fn cutting_differently_changes_nothing(
            all in prop::collection::vec((any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            cut in 1usize..50,
        ) {
            let (mut walker, mut seen) = (Frames::behind(PREFACE), Vec::new());
            for piece in frames(&all).chunks(cut) {
                walker.feed(piece, |frame| seen.push(frame));
            }
            let expected: Vec<_> = all
                .iter()
                .map(|(kind, flags, payload)| Frame { kind: *kind, flags: *flags, stream: 257, length: payload.len() as u32 })
                .collect();
            prop_assert_eq!(seen, expected);
            prop_assert!(walker.is_between());
        }
    }

    #[test]
    fn what_is_empty_and_ends_nothing() {
        let frame = |kind, flags, length| Frame { kind, flags, stream: 1, length };
        assert!(frame(Frame::DATA, 0, 0).is_empty() && !frame(Frame::DATA, 1, 0).is_empty());
        assert!(frame(Frame::HEADERS, 1, 0).is_empty() && !frame(Frame::HEADERS, 4, 0).is_empty());
        assert!(frame(Frame::CONTINUATION, 0, 0).is_empty() && !frame(Frame::CONTINUATION, 0, 1).is_empty());
        assert!(!frame(Frame::SETTINGS, 0, 0).is_empty());
    }
}
