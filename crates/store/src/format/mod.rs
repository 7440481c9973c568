//! The one author of disk bytes. `docs/format.md` draws the same layout; the golden test pins it.
//!
//! A cache is: two superblocks, a fence, two roots, two copies of the ledger, then segments of equal size, which are written round and
//! round as one log. A segment holds records from its start upward and, when it is full, its table at its end. All integers are
//! little-endian, all checksums XXH3-64 seeded with the cache's random identity, so that nothing of an earlier cache on the
//! same medium can be taken for ours.

pub mod digest;
pub mod era;
pub mod fence;
pub mod ledger;
pub mod record;
pub mod root;
pub mod superblock;
pub mod table;

use era::Eras;

/// Device offsets and lengths of direct writes are multiples of this.
pub const BLOCK: usize = 4096;
/// The smallest unit: records begin at multiples of the cache's unit.
pub const UNIT: usize = 64;
/// Where the first segment begins: superblocks, roots and ledgers have room before it, and large writes stay aligned.
pub const DATA_START: u64 = 1 << 20;
/// A block of the space between superblocks and roots, written (with zeros) to see whether the medium takes writes.
pub const PROBE: u64 = 2 * BLOCK as u64;
/// Bumped by every change that an older reader would misread.
pub const VERSION: u32 = 3;
/// That of a cache that was resized.
pub const RESIZED: u32 = 4;

/// Bits of a place: the unit grows with the cache, so that they suffice.
pub const PLACE_BITS: u32 = 36;

/// Sequence numbers, orders and generations are below this: sums of them and of leaps do not overflow. No life comes near it.
pub const NUMBERS: u64 = 1 << 63;

/// How a cache is divided. All but the number of its segments never changes after it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of one segment, a power of two.
    pub segment: u32,
    pub segments: u64,
    /// Records begin at multiples of so many bytes, and places count in them: a power of two.
    pub unit: u32,
    /// Seed of every checksum.
    pub identity: u64,
    /// Which segment has which sequence number.
    pub eras: Eras,
}

impl Layout {
    /// With the smallest unit in which its places have `PLACE_BITS` bits.
    pub fn new(segment: u32, segments: u64, identity: u64) -> Layout {
        let end = DATA_START + segments * u64::from(segment);
        let mut unit = UNIT as u32;
        while end / u64::from(unit) > 1 << PLACE_BITS {
            unit *= 2;
        }
        Layout { segment, segments, unit, identity, eras: Eras::of(segments) }
    }

    /// Bytes of the whole cache.
    pub fn size(&self) -> u64 {
        DATA_START + self.segments * u64::from(self.segment)
    }

    /// Offset of a segment.
    pub fn start(&self, segment: u64) -> u64 {
        DATA_START + segment * u64::from(self.segment)
    }

    /// Offset of a place in the cache, bytes.
    pub fn offset(&self, place: u64) -> u64 {
        place * u64::from(self.unit)
    }

    /// The segment in which a place lies.
    pub fn segment_of(&self, place: u64) -> u64 {
        self.offset(place).saturating_sub(DATA_START) / u64::from(self.segment)
    }

    /// Offset of a place within its segment, bytes.
    pub fn within(&self, place: u64) -> usize {
        ((self.offset(place) - DATA_START) % u64::from(self.segment)) as usize
    }

    /// True when a record of this many bytes can lie at the place: none is longer than half a segment.
    pub fn holds(&self, place: u64, bytes: usize) -> bool {
        place < 1 << PLACE_BITS
            && (1..=self.segment as usize / 2).contains(&bytes)
            && self.offset(place) >= DATA_START
            && self.segment_of(place) < self.segments
            && self.within(place) + bytes <= self.segment as usize
    }

    /// The place of an offset within a segment.
    pub fn place(&self, segment: u64, offset: usize) -> u64 {
        (self.start(segment) + offset as u64) / u64::from(self.unit)
    }

    /// What index, tables and digests know a key by: `hash` is the upper half of its XXH3-128. Mixed with the identity, so that
    /// nobody can choose URLs that crowd one part of the index.
    pub fn mix(&self, hash: u64) -> u64 {
        // The finalizer of SplitMix64: every bit of the sum moves every bit of the result, and no two sums have one.
        let mut x = hash.wrapping_add(self.identity);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}

pub fn align_down(n: usize, to: usize) -> usize {
    n & !(to - 1)
}

pub fn align_up(n: usize, to: usize) -> usize {
    (n + to - 1) & !(to - 1)
}

/// Reads fixed-width integers one after the other; the caller has checked the length.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, tail) = self.0.split_at(N);
        self.0 = tail;
        head.try_into().expect("split_at gave N bytes")
    }
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Writes them the same way.
pub(crate) struct Put<'a>(pub &'a mut [u8], pub usize);

impl Put<'_> {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }
    pub fn u32(&mut self, n: u32) -> &mut Self {
        self.bytes(&n.to_le_bytes())
    }
    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.bytes(&n.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lead_back() {
        for (segment, segments) in [(16 << 10, 15), (1 << 20, 100), (4 << 20, 5 << 20)] {
            let layout = Layout::new(segment, segments, 9);
            assert!(layout.size() / u64::from(layout.unit) <= 1 << PLACE_BITS);
            for number in [0, 1, segments - 1] {
                let offset = segment as usize - layout.unit as usize;
                let place = layout.place(number, offset);
                assert_eq!((layout.segment_of(place), layout.within(place)), (number, offset));
                assert!(layout.holds(place, layout.unit as usize));
                assert!(!layout.holds(place, layout.unit as usize + 1));
            }
        }
        assert_eq!(Layout::new(4 << 20, (1 << 20) - 1, 9).unit, 64);
        assert_eq!(Layout::new(4 << 20, 1 << 20, 9).unit, 128);
    }
}
