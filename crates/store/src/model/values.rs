//! What is put: bytes that say in every place which value they are of.

use crate::format::ledger::UNREADABLE;

/// One in so many values is a larger one, and of these one in four a large one, of several pieces.
pub const LARGE: u64 = 7;
const HUGE: u64 = 4 * LARGE;
/// Bytes of a body, less than.
const LENGTHS: [usize; 3] = [3_000, 12_000, 60_000];

/// What was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub value: u64,
    /// Says what the body is: several values of a key may have the same.
    pub body: u64,
    /// Bytes of it that this is a part of, the first ones; 0: all of it.
    pub part: u64,
}

impl Value {
    pub fn meta(&self) -> Vec<u8> {
        let words = [self.value, self.body, self.part].map(u64::to_le_bytes);
        // Of several lengths, and so that places are used again by records of the same length.
        let more = vec![self.value as u8; self.value as usize % 3 * 100];
        [&words.concat()[..], &more].concat()
    }

    /// `None` for bytes that are no value's metadata.
    pub fn of(meta: &[u8]) -> Option<Value> {
        let word = |n: usize| Some(u64::from_le_bytes(meta.get(8 * n..8 * n + 8)?.try_into().ok()?));
        let value = Value { value: word(0)?, body: word(1)?, part: word(2)? };
        (value.meta() == meta).then_some(value)
    }

    /// What of the body there is.
    pub fn body(&self) -> Vec<u8> {
        let mut body = body(self.body);
        body.truncate(self.length());
        body
    }

    /// Bytes of what there is of it.
    pub fn length(&self) -> usize {
        match self.part {
            0 => length(self.body),
            part => part as usize,
        }
    }
}

fn length(body: u64) -> usize {
    let lengths = match (body.is_multiple_of(LARGE), body.is_multiple_of(HUGE)) {
        (_, true) => LENGTHS[2],
        (true, _) => LENGTHS[1],
        _ => LENGTHS[0],
    };
    mixed(body) as usize % lengths
}

fn body(value: u64) -> Vec<u8> {
    bytes(value, length(value))
}

/// Stands for the ledger that could not be read.
pub const UNREAD: u64 = u64::MAX;

/// A ledger that says which one it is, in every byte of it; now and then a long one.
pub fn ledger(value: u64) -> Vec<u8> {
    if value == UNREAD {
        return UNREADABLE.to_vec();
    }
    if value == 0 {
        return Vec::new();
    }
    let longest = if value.is_multiple_of(5) { 40_000 } else { 500 };
    let rest = bytes(value, mixed(value) as usize % longest);
    [&value.to_le_bytes()[..], &rest].concat()
}

/// Which ledger these bytes are, checked byte by byte.
pub fn ledger_of(bytes: &[u8]) -> u64 {
    if bytes == UNREADABLE {
        return UNREAD;
    }
    let value = bytes.get(..8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
    assert_eq!(bytes, ledger(value), "ledger {value}");
    value
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.next_multiple_of(8)];
    let mut word = mixed(seed);
    for bytes in bytes.as_chunks_mut::<8>().0 {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(GAMMA);
    }
    bytes.truncate(length);
    bytes
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(GAMMA);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
