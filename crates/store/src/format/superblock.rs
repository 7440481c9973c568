//! The superblock: what this file is. Two copies, the same bytes, written once, and again when the size of the cache changes.
//!
//! A cache that was resized lists its eras, and says so by its version: an older program would look for segments in the wrong
//! places.

use super::era::{Era, Eras, MOST};
use super::{BLOCK, DATA_START, Fields, Layout, NUMBERS, PLACE_BITS, Put, RESIZED, UNIT, VERSION};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMSTOR";
/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [0, BLOCK as u64];
const CHECKED: usize = 56;
/// Where the eras of a cache that was resized are listed, and bytes of each.
const ERAS: usize = 64;
const ERA: usize = 24;
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
    put.bytes(&MAGIC).u32(version(layout)).u32(layout.segment).u64(layout.segments).u64(layout.identity);
    // Behind the unit the identity again, as the first caches have it.
    put.u32(layout.unit).u32(0).u64(layout.identity);
    let eras = layout.eras.list();
    if version(layout) == RESIZED {
        put.u64(eras.len() as u64);
        put.1 = ERAS;
        eras.iter().for_each(|era| _ = put.u64(era.seq).u64(era.number).u64(era.segments));
    }
    let sum = checksum(layout.identity, &block);
    block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The format's, of a cache so divided.
pub fn version(layout: &Layout) -> u32 {
    if layout.eras == Eras::of(layout.segments) { VERSION } else { RESIZED }
}

/// Of the first fields, and of the eras that they say there are.
pub fn checksum(identity: u64, block: &[u8]) -> u64 {
    let sum = xxh3_64_with_seed(&block[..CHECKED], identity);
    let eras = match Fields(&block[8..]).u32() {
        RESIZED => Fields(&block[CHECKED - 8..]).u64().min(MOST as u64) as usize,
        _ => 0,
    };
    match block.get(ERAS..ERAS + eras * ERA).filter(|eras| !eras.is_empty()) {
        Some(eras) => xxh3_64_with_seed(eras, sum),
        None => sum,
    }
}

/// `block` holds at least 64 bytes.
pub fn decode(block: &[u8]) -> Result<Layout, NotOurs> {
    if block[..8] != MAGIC {
        return Err(if block.iter().all(|&b| b == 0) { NotOurs::Blank } else { NotOurs::Foreign });
    }
    let mut fields = Fields(&block[8..CHECKED + 8]);
    let version = fields.u32();
    if version != VERSION && version != RESIZED {
        return Err(NotOurs::Version(version));
    }
    let (segment, segments, identity, unit) = (fields.u32(), fields.u64(), fields.u64(), fields.u32());
    let (_number, _set, eras, sum) = (fields.u32(), fields.u64(), fields.u64(), fields.u64());
    if sum != checksum(identity, block) {
        return Err(NotOurs::Damaged);
    }
    let fits = |segments: u64| {
        let end = segments.checked_mul(u64::from(segment)).and_then(|bytes| bytes.checked_add(DATA_START));
        segments > 0 && end.is_some_and(|end| end / u64::from(unit) <= 1 << PLACE_BITS)
    };
    let sane = segment.is_power_of_two()
        && (4 * BLOCK..=SEGMENT).contains(&(segment as usize))
        && unit.is_power_of_two()
        && (UNIT..=BLOCK).contains(&(unit as usize))
        && fits(segments);
    if !sane {
        return Err(NotOurs::Damaged);
    }
    let eras = match version {
        VERSION => Some(Eras::of(segments)),
        _ => listed(block, eras).filter(|eras| {
            let all = eras.list();
            let last = all.last().map_or(0, |era| era.segments);
            last <= segments && all.iter().all(|era| fits(era.segments) && era.seq < NUMBERS)
        }),
    };
    Ok(Layout { segment, segments, unit, identity, eras: eras.ok_or(NotOurs::Damaged)? })
}

fn listed(block: &[u8], count: u64) -> Option<Eras> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
    let eras = block.get(ERAS..ERAS + count * ERA)?.chunks_exact(ERA).map(|bytes| {
        let mut fields = Fields(bytes);
        Era { seq: fields.u64(), number: fields.u64(), segments: fields.u64() }
    });
    Eras::new(&eras.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_survive_their_encoding_and_no_other_bytes_pass() {
        let once = Layout::new(1 << 20, 64, 0x1234).resized(70, 100).unwrap();
        let shrinking = once.resized(80, 30).unwrap();
        for layout in [once, shrinking, shrinking.cut()] {
            let block = encode(&layout);
            assert_eq!((decode(&block), block[8]), (Ok(layout), 4));
            let end = ERAS + layout.eras.list().len() * ERA;
            assert!(end <= 512, "in the first sector");
            for at in 12..end {
                let mut torn = block;
                torn[at] ^= 0x40;
                assert_eq!(decode(&torn), Err(NotOurs::Damaged), "byte {at}");
            }
            assert_eq!(decode(&block[..64]), Err(NotOurs::Damaged));
        }
        let eras = |eras: &[(u64, u64, u64)]| {
            let mut block = encode(&once);
            let mut put = Put(&mut block, CHECKED - 8);
            put.u64(eras.len() as u64);
            put.1 = ERAS;
            eras.iter().for_each(|(seq, number, segments)| _ = put.u64(*seq).u64(*number).u64(*segments));
            let sum = checksum(once.identity, &block);
            Put(&mut block, CHECKED).u64(sum);
            decode(&block).map(|layout| layout.eras.list().len())
        };
        assert_eq!(eras(&[(0, 0, 64), (70, 6, 100)]), Ok(2));
        for wrong in [
            &[][..],
            &[(0, 0, 64), (70, 6, 101)],
            &[(0, 0, 64), (70, 100, 100)],
            &[(0, 0, 64), (NUMBERS, 6, 100)],
            &[(0, 0, 0), (70, 6, 100)],
            &[(0, 0, 1 << 50), (70, 6, 100)],
            &[(9, 0, 64), (8, 6, 100)],
            &[(0, 0, 64); MOST + 1],
        ] {
            assert_eq!(eras(wrong), Err(NotOurs::Damaged), "{wrong:?}");
        }
    }

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
            Layout { segments: 0, eras: Eras::of(0), ..layout },
            Layout { segments: u64::MAX, eras: Eras::of(u64::MAX), ..layout },
            Layout { segments: 1 << 50, eras: Eras::of(1 << 50), ..layout },
            Layout { unit: 32, ..layout },
            Layout { unit: 8192, ..layout },
            Layout { segment: 3 << 19, ..layout },
            Layout { segment: 32 << 20, ..layout },
        ] {
            assert_eq!(decode(&encode(&wrong)), Err(NotOurs::Damaged), "{wrong:?}");
        }
    }
}
