//! The superblock: what this file is and where its newest checkpoint lies. Two copies, written in turn, so that a
//! torn write leaves the other one.

use super::{BLOCK, DATA_START, Fields, Layout, NUMBERS, UNIT, VERSION};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMSTOR";
/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [0, BLOCK as u64];
const CHECKED: usize = 80;

/// Where a checkpoint's root record lies and from where the log must be replayed over it.
/// The default is what a new cache has: an empty index, and the whole log to replay over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// 0: there is none.
    pub root_place: u64,
    pub root_units: u16,
    /// Every segment with this sequence number or a later one may hold what the checkpoint does not.
    pub replay_seq: u64,
    /// The segment that had `replay_seq`.
    pub replay_from: u64,
    /// Segments from here on had never been written.
    pub virgin: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub layout: Layout,
    /// The valid copy with the higher generation counts.
    pub generation: u64,
    pub checkpoint: Checkpoint,
}

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

impl Superblock {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let Checkpoint { root_place, root_units, replay_seq, replay_from, virgin } = self.checkpoint;
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            block[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.layout.segment.to_le_bytes());
        put(&self.layout.segments.to_le_bytes());
        put(&self.layout.identity.to_le_bytes());
        put(&self.generation.to_le_bytes());
        put(&root_place.to_le_bytes());
        put(&u64::from(root_units).to_le_bytes());
        put(&replay_seq.to_le_bytes());
        put(&replay_from.to_le_bytes());
        put(&virgin.to_le_bytes());
        debug_assert_eq!(at, CHECKED);
        let sum = xxh3_64_with_seed(&block[..CHECKED], self.layout.identity);
        block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// `block` holds at least 88 bytes.
    pub fn decode(block: &[u8]) -> Result<Superblock, NotOurs> {
        if block[..8] != MAGIC {
            return Err(if block.iter().all(|&b| b == 0) { NotOurs::Blank } else { NotOurs::Foreign });
        }
        let mut fields = Fields(&block[8..CHECKED + 8]);
        let version = fields.u32();
        if version != VERSION {
            return Err(NotOurs::Version(version));
        }
        let layout = Layout { segment: fields.u32(), segments: fields.u64(), identity: fields.u64() };
        let generation = fields.u64();
        let (root_place, root_units) = (fields.u64(), fields.u64());
        let checkpoint = Checkpoint {
            root_place,
            root_units: u16::try_from(root_units).unwrap_or(u16::MAX),
            replay_seq: fields.u64(),
            replay_from: fields.u64(),
            virgin: fields.u64(),
        };
        let sum = fields.u64();
        let sane = layout.segment.is_power_of_two()
            && layout.segment as usize >= 4 * BLOCK
            && layout.segments > 0
            && layout
                .segments
                .checked_mul(u64::from(layout.segment))
                .is_some_and(|n| n.checked_add(DATA_START).is_some())
            && generation.max(checkpoint.replay_seq) < NUMBERS
            && checkpoint.replay_from < layout.segments
            && checkpoint.virgin <= layout.segments
            && root_place <= layout.size() / UNIT as u64;
        if !sane || sum != xxh3_64_with_seed(&block[..CHECKED], layout.identity) {
            return Err(NotOurs::Damaged);
        }
        Ok(Superblock { layout, generation, checkpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_survives_its_encoding_and_no_other_bytes_pass() {
        let checkpoint =
            Checkpoint { root_place: 77, root_units: 3, replay_seq: 12, replay_from: 4, virgin: 9 };
        for checkpoint in [Checkpoint::default(), checkpoint] {
            let layout = Layout { segment: 1 << 20, segments: 64, identity: 0x1234 };
            let superblock = Superblock { layout, generation: 5, checkpoint };
            let block = superblock.encode();
            assert_eq!(Superblock::decode(&block), Ok(superblock));
            for at in 12..CHECKED + 8 {
                let mut torn = block;
                torn[at] ^= 0x40;
                assert_eq!(Superblock::decode(&torn), Err(NotOurs::Damaged), "byte {at}");
            }
        }
        assert_eq!(Superblock::decode(&[0; BLOCK]), Err(NotOurs::Blank));
        assert_eq!(Superblock::decode(&[7; BLOCK]), Err(NotOurs::Foreign));
    }

    #[test]
    fn numbers_that_lead_nowhere_are_refused() {
        let layout = Layout { segment: 1 << 20, segments: 64, identity: 0x1234 };
        let end = layout.size() / UNIT as u64;
        let most = Checkpoint {
            root_place: end,
            root_units: 3,
            replay_seq: NUMBERS - 1,
            replay_from: 63,
            virgin: 64,
        };
        let decode = |generation, checkpoint| {
            Superblock::decode(&Superblock { layout, generation, checkpoint }.encode()).map(|s| s.checkpoint)
        };
        assert_eq!(decode(NUMBERS - 1, most), Ok(most));
        assert_eq!(decode(NUMBERS, most), Err(NotOurs::Damaged));
        for wrong in [
            Checkpoint { replay_seq: NUMBERS, ..most },
            Checkpoint { replay_from: 64, ..most },
            Checkpoint { virgin: 65, ..most },
            Checkpoint { root_place: end + 1, ..most },
        ] {
            assert_eq!(decode(1, wrong), Err(NotOurs::Damaged), "{wrong:?}");
        }
    }
}
