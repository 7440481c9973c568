//! The ledger: a small piece of the caller's bytes that a restart gives back whole, or as it was before. Two copies
//! between the superblocks and the first segment, written in turn, so that a torn write leaves the other one.

use super::{BLOCK, Fields, NUMBERS, align_up};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMLEDG";
/// Bytes of one copy at most, its header among them.
pub const COPY: usize = 256 << 10;
/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [COPY as u64, 2 * COPY as u64];
const HEADER: usize = 64;
/// Bytes that a ledger can hold.
pub const MAX: usize = COPY - HEADER;
const CHECKED: usize = 24;
/// Content that stands for one that could not be read. With its header it is shorter than a sector, so that writing it is never
/// torn.
pub const UNREADABLE: [u8; 1] = [0xff];

/// The default is what a new cache has: both copies are written when it is made, the second with this generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The valid copy with the higher generation counts.
    pub generation: u64,
    pub bytes: Vec<u8>,
}

/// Why some bytes are no copy of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Never written, torn, damaged, or another cache's.
    Invalid,
    /// The copy is longer than the bytes given: its length.
    Longer(usize),
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { generation: COPIES.len() as u64 - 1, bytes: Vec::new() }
    }
}

/// Where the copy with this generation lies.
pub fn offset(generation: u64) -> u64 {
    COPIES[generation as usize % COPIES.len()]
}

impl Ledger {
    /// Bytes of a copy, whole blocks.
    pub fn size(&self) -> usize {
        align_up(HEADER + self.bytes.len(), BLOCK)
    }

    /// Writes a copy to the start of `image`, which has at least `size()` bytes. The content is at most `MAX` bytes.
    pub fn encode(&self, identity: u64, image: &mut [u8]) {
        assert!(self.bytes.len() <= MAX);
        let image = &mut image[..self.size()];
        image.fill(0);
        image[0..8].copy_from_slice(&MAGIC);
        image[8..16].copy_from_slice(&self.generation.to_le_bytes());
        image[16..24].copy_from_slice(&(self.bytes.len() as u64).to_le_bytes());
        let sum = checksum(identity, &image[..CHECKED], &self.bytes);
        image[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
        image[HEADER..HEADER + self.bytes.len()].copy_from_slice(&self.bytes);
    }

    /// Reads a copy from its first bytes, at least 64 of them.
    pub fn decode(identity: u64, copy: &[u8]) -> Result<Ledger, Unreadable> {
        let mut fields = Fields(&copy[MAGIC.len()..HEADER]);
        let (generation, length, sum) = (fields.u64(), fields.u64(), fields.u64());
        if copy[..MAGIC.len()] != MAGIC || length > MAX as u64 || generation >= NUMBERS {
            return Err(Unreadable::Invalid);
        }
        let end = HEADER + length as usize;
        let bytes = copy.get(HEADER..end).ok_or(Unreadable::Longer(end))?;
        if checksum(identity, &copy[..CHECKED], bytes) != sum {
            return Err(Unreadable::Invalid);
        }
        Ok(Ledger { generation, bytes: bytes.to_vec() })
    }
}

fn checksum(identity: u64, header: &[u8], bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, xxh3_64_with_seed(header, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::DATA_START;

    #[test]
    fn a_ledger_survives_its_encoding_and_flipped_bits_are_found() {
        for length in [0, 1, 100, BLOCK - HEADER, BLOCK - HEADER + 1, MAX] {
            let bytes = (0..length).map(|i| i as u8).collect();
            let ledger = Ledger { generation: 7, bytes };
            let mut image = vec![0x55; COPY];
            ledger.encode(3, &mut image);
            assert_eq!(Ledger::decode(3, &image), Ok(ledger.clone()));
            assert_eq!(Ledger::decode(3, &image[..ledger.size()]), Ok(ledger));
            assert_eq!(Ledger::decode(4, &image), Err(Unreadable::Invalid));
            if length > 0 {
                let short = &image[..HEADER + length - 1];
                assert_eq!(Ledger::decode(3, short), Err(Unreadable::Longer(HEADER + length)));
            }
            let checked = (0..CHECKED + 8).chain(HEADER..HEADER + length.min(200));
            for bit in checked.flat_map(|byte| byte * 8..byte * 8 + 8) {
                image[bit / 8] ^= 1 << (bit % 8);
                assert!(Ledger::decode(3, &image).is_err(), "bit {bit}");
                image[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert_eq!(Ledger::decode(3, &[0; BLOCK]), Err(Unreadable::Invalid));
        let mut image = vec![0; BLOCK];
        Ledger { generation: NUMBERS, bytes: Vec::new() }.encode(3, &mut image);
        assert_eq!(Ledger::decode(3, &image), Err(Unreadable::Invalid));
    }

    #[test]
    fn the_copies_lie_between_superblocks_and_segments() {
        let superblocks = crate::format::superblock::COPIES.map(|at| at + BLOCK as u64);
        assert!(superblocks.iter().all(|&end| end <= COPIES[0]));
        assert!(COPIES[0] + COPY as u64 <= COPIES[1] && COPIES[1] + COPY as u64 <= DATA_START);
    }
}
