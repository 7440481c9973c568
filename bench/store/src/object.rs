//! What is stored: objects by number, of one size, and who asks for which.

use std::ops::Range;

/// Of a sampled object that is compared whole.
const WHOLE_EVERY: u64 = 64;
/// Bytes of noise from which bodies are cut.
const NOISE: usize = 1 << 20;

/// Cuts bodies out of the same noise, and marks each with its number: the cost of making one is a copy.
pub struct Bodies {
    noise: Vec<u8>,
    length: usize,
}

impl Bodies {
    pub fn new(length: usize) -> Bodies {
        let mut state = Random(7);
        let noise = (0..(NOISE + length) / 8 + 1).flat_map(|_| state.next().to_le_bytes()).collect();
        Bodies { noise, length }
    }

    pub fn fill(&self, number: u64, body: &mut Vec<u8>) {
        body.clear();
        body.extend_from_slice(self.cut(number));
        body[..8].copy_from_slice(&number.to_le_bytes());
    }

    /// Its length and its mark, and of some all bytes.
    pub fn is(&self, number: u64, body: &[u8]) -> bool {
        body.len() == self.length
            && body[..8] == number.to_le_bytes()
            && (!number.is_multiple_of(WHOLE_EVERY) || body[8..] == self.cut(number)[8..])
    }

    fn cut(&self, number: u64) -> &[u8] {
        let from = (number as usize).wrapping_mul(64) % NOISE;
        &self.noise[from..from + self.length]
    }
}

pub fn key(number: u64) -> bytes::Bytes {
    format!("http://bench.invalid/{number}").into()
}

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// Numbers of objects: every `every`th of a range, which begins with one of them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Numbers {
    pub range: Range<u64>,
    pub every: u64,
}

impl Numbers {
    pub fn pick(&self, random: &mut Random) -> u64 {
        let count = (self.range.end - self.range.start).div_ceil(self.every).max(1);
        self.range.start + random.next() % count * self.every
    }
}
