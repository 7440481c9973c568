//! The fence: with which numbers the cache goes on, in general and where a start could not read all of it. One block in the header,
//! of whose bytes the first sector alone counts, so that it is old or new and never torn; none means: this is the first life.

use super::{BLOCK, Fields, NUMBERS, Put};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMFENC";
/// Where it lies.
pub const OFFSET: u64 = 3 * BLOCK as u64;
/// More than the orders that a life gives, and the ledgers that are written from one fence to the next.
pub const LEAP: u64 = 1 << 40;
const CHECKED: usize = 40;

/// The default is what a cache has that never had one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The log goes on with this sequence number, and what is put or removed from then on has orders from `order` on. What lies in
    /// segments with this number and higher ones, and has lower orders, could not be read then, and counts no more.
    pub seq: u64,
    pub order: u64,
    /// The generation of the ledger then.
    pub ledger: u64,
    /// The order with which the last life began. The next one begins a leap above: so that what a life left and no start found, for
    /// the power had gone, has lower orders than what lies before it in the log.
    pub life: u64,
}

impl Fence {
    /// Whether what lies in the segment with this sequence number and begins with this order counts.
    pub fn admits(&self, seq: u64, order: u64) -> bool {
        seq < self.seq || order >= self.order
    }

    pub fn encode(&self, identity: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        Put(&mut block, 8).u64(self.seq).u64(self.order).u64(self.ledger).u64(self.life);
        let sum = xxh3_64_with_seed(&block[..CHECKED], identity);
        block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// `block` holds at least 48 bytes. `None` for what is not one of this cache.
    pub fn decode(identity: u64, block: &[u8]) -> Option<Fence> {
        let mut fields = Fields(&block[8..CHECKED + 8]);
        let (seq, order, ledger, life) = (fields.u64(), fields.u64(), fields.u64(), fields.u64());
        let fence = Fence { seq, order, ledger, life };
        let valid = block[..8] == MAGIC && fields.u64() == xxh3_64_with_seed(&block[..CHECKED], identity);
        (valid && seq.max(order).max(ledger).max(life) < NUMBERS).then_some(fence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{PROBE, ledger, superblock};

    #[test]
    fn a_fence_survives_its_encoding_and_no_other_bytes_pass() {
        let fence = Fence { seq: 5, order: 7 * LEAP, ledger: 3, life: 9 * LEAP };
        let block = fence.encode(5);
        assert_eq!(Fence::decode(5, &block), Some(fence));
        assert_eq!(Fence::decode(6, &block), None);
        assert_eq!(Fence::decode(5, &[0; BLOCK]), None);
        for wrong in [
            Fence { seq: NUMBERS, ..fence },
            Fence { order: NUMBERS, ..fence },
            Fence { ledger: NUMBERS, ..fence },
            Fence { life: NUMBERS, ..fence },
        ] {
            assert_eq!(Fence::decode(5, &wrong.encode(5)), None);
        }
        for bit in 0..8 * (CHECKED + 8) {
            let mut flipped = block;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Fence::decode(5, &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn its_block_is_nobody_elses() {
        let others = superblock::COPIES.into_iter().chain([PROBE]);
        assert!(others.map(|at| at + BLOCK as u64).all(|end| end <= OFFSET));
        assert!(OFFSET + BLOCK as u64 <= ledger::COPIES[0]);
    }
}
