//! The superblock: what this file is. Two copies, the same bytes, written once.

use super::{BLOCK, DATA_START, Fields, Layout, PLACE_BITS, Put, UNIT, VERSION};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMSTOR";
/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [0, BLOCK as u64];
const CHECKED: usize = 56;
/// Bytes of a segment, at most.
const SEGMENT: usize = 16 << 20;

/// Why a block is not one of our superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// Only zeros: nobody's.
    Blank,
    /// Another program's.
    Foreign,
    /// Ours, of a format this program does not read.
    Version(u32),
    /// Ours, but torn or damaged.
    Damaged,
}

pub fn encode(layout: &Layout) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = Put(&mut block, 0);
    put.bytes(&MAGIC).u32(VERSION).u32(layout.segment).u64(layout.segments).u64(layout.identity);
    // Of a set of disks that are one cache: its identity and this one's number in it. There are none yet.
    put.u32(layout.unit).u32(0).u64(layout.identity);
    let sum = xxh3_64_with_seed(&block[..CHECKED], layout.identity);
    block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    block
}

/// `block` holds at least 64 bytes.
pub fn decode(block: &[u8]) -> Result<Layout, NotOurs> {
    if block[..8] != MAGIC {
        return Err(if block.iter().all(|&b| b == 0) { NotOurs::Blank } else { NotOurs::Foreign });
    }
    let mut fields = Fields(&block[8..CHECKED + 8]);
    let version = fields.u32();
    if version != VERSION {
        return Err(NotOurs::Version(version));
    }
    let (segment, segments, identity, unit) = (fields.u32(), fields.u64(), fields.u64(), fields.u32());
    let sum = Fields(&block[CHECKED..]).u64();
    let layout = Layout { segment, segments, unit, identity };
    let end = segments.checked_mul(u64::from(segment)).and_then(|bytes| bytes.checked_add(DATA_START));
    let sane = segment.is_power_of_two()
        && (4 * BLOCK..=SEGMENT).contains(&(segment as usize))
        && segments > 0
        && unit.is_power_of_two()
        && (UNIT..=BLOCK).contains(&(unit as usize))
        && end.is_some_and(|end| end / u64::from(unit) <= 1 << PLACE_BITS);
    if !sane || sum != xxh3_64_with_seed(&block[..CHECKED], identity) {
        return Err(NotOurs::Damaged);
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_survives_its_encoding_and_no_other_bytes_pass() {
        let layout = Layout::new(1 << 20, 64, 0x1234);
        let block = encode(&layout);
        assert_eq!(decode(&block), Ok(layout));
        for at in 12..CHECKED + 8 {
            let mut torn = block;
            torn[at] ^= 0x40;
            assert_eq!(decode(&torn), Err(NotOurs::Damaged), "byte {at}");
        }
        assert_eq!(decode(&[0; BLOCK]), Err(NotOurs::Blank));
        assert_eq!(decode(&[7; BLOCK]), Err(NotOurs::Foreign));
        let mut older = block;
        older[8] = 2;
        assert_eq!(decode(&older), Err(NotOurs::Version(2)));
        for wrong in [
            Layout { segments: 0, ..layout },
            Layout { segments: u64::MAX, ..layout },
            Layout { segments: 1 << 50, ..layout },
            Layout { unit: 32, ..layout },
            Layout { unit: 8192, ..layout },
            Layout { segment: 3 << 19, ..layout },
            Layout { segment: 32 << 20, ..layout },
        ] {
            assert_eq!(decode(&encode(&wrong)), Err(NotOurs::Damaged), "{wrong:?}");
        }
    }
}
