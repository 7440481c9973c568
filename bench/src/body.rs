//! What the bytes of an object are: a function of its size and number, known to the origin and to whoever checks.
//!
//! A body begins with 16 hexadecimal digits that differ between objects and goes on with noise from a fixed buffer,
//! so that the origin writes it without making it and a mix-up of two objects shows at once.

use std::sync::OnceLock;

pub const TAG: usize = 16;
const NOISE: usize = 256 << 10;

/// One object that the origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    pub size: u64,
    pub number: u64,
}

impl Object {
    pub fn tag(self) -> [u8; TAG] {
        let mut value = self.identity();
        std::array::from_fn(|_| {
            value = value.rotate_left(4);
            b"0123456789abcdef"[(value & 15) as usize]
        })
    }

    /// The bytes from `position` on, as many as lie together; empty at the end.
    pub fn noise_at(self, position: u64) -> &'static [u8] {
        let noise = noise();
        let start = self.noise_start() + (position - TAG as u64);
        let at = (start % NOISE as u64) as usize;
        let length = (self.size - position).min((NOISE - at) as u64) as usize;
        &noise[at..at + length]
    }

    /// All of it.
    pub fn whole(self) -> Vec<u8> {
        let mut bytes = self.tag()[..TAG.min(self.size as usize)].to_vec();
        while (bytes.len() as u64) < self.size {
            bytes.extend_from_slice(self.noise_at(bytes.len() as u64));
        }
        bytes
    }

    /// Whether `bytes` are what the body holds from `position` on.
    pub fn holds(self, mut position: u64, mut bytes: &[u8]) -> bool {
        if position + bytes.len() as u64 > self.size {
            return false;
        }
        while !bytes.is_empty() {
            let tag = self.tag();
            let expected = match usize::try_from(position) {
                Ok(at) if at < TAG => &tag[at..],
                _ => self.noise_at(position),
            };
            let length = expected.len().min(bytes.len());
            if bytes[..length] != expected[..length] {
                return false;
            }
            position += length as u64;
            bytes = &bytes[length..];
        }
        true
    }

    /// In the first half, so that most bodies are one piece.
    fn noise_start(self) -> u64 {
        self.identity() % (NOISE as u64 / 2)
    }

    fn identity(self) -> u64 {
        mix(self.number ^ mix(self.size))
    }
}

/// SplitMix64's finaliser.
pub fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn noise() -> &'static [u8] {
    static BUFFER: OnceLock<Vec<u8>> = OnceLock::new();
    BUFFER.get_or_init(|| (0..NOISE as u64 / 8).flat_map(|n| mix(n).to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_checked_in_any_pieces() {
        for size in [0, 5, 16, 17, 1024, 600_000] {
            let object = Object { size, number: 7 };
            let bytes = object.whole();
            assert_eq!(bytes.len() as u64, size);
            for piece in [1, 10, 4096, 700_000] {
                let mut position = 0;
                for part in bytes.chunks(piece) {
                    assert!(object.holds(position, part));
                    position += part.len() as u64;
                }
            }
        }
    }

    #[test]
    fn another_object_or_a_flipped_bit_shows() {
        let object = Object { size: 1024, number: 7 };
        let mut bytes = object.whole();
        assert!(!Object { size: 1024, number: 8 }.holds(0, &bytes));
        assert!(!object.holds(1, &bytes[..1023]));
        bytes[1000] ^= 1;
        assert!(!object.holds(0, &bytes));
    }
}
