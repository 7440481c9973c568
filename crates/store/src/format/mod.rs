//! The one author of disk bytes. `docs/format.md` draws the same layout; the golden test pins it.
//!
//! A cache is: two superblocks, a fence, two copies of the ledger, then segments of equal size. A segment holds records from its start upward and
//! its table of contents from its end downward. All integers are little-endian, all checksums XXH3-64 seeded
//! with the cache's random identity, so that nothing of an earlier cache on the same medium can be taken for ours.

pub mod contents;
pub mod fence;
pub mod ledger;
pub mod record;
pub mod superblock;
pub mod update;

/// Device offsets and lengths of direct writes are multiples of this.
pub const BLOCK: usize = 4096;
/// Records begin at multiples of this; the index counts in it.
pub const UNIT: usize = 64;
/// Where the first segment begins: superblocks and ledger have room before it, and large packets stay aligned.
pub const DATA_START: u64 = 1 << 20;
/// A block of the space between superblocks and ledger, written (with zeros) to see whether the medium takes writes.
pub const PROBE: u64 = 2 * BLOCK as u64;
/// Bumped by every change that an older reader would misread.
pub const VERSION: u32 = 2;

/// Sequence numbers and generations are below this: sums of them and of leaps do not overflow. No life comes near it.
pub const NUMBERS: u64 = 1 << 63;

/// Sizes that never change after a cache was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of one segment, a power of two.
    pub segment: u32,
    pub segments: u64,
    /// Seed of every checksum.
    pub identity: u64,
}

impl Layout {
    /// Bytes of the whole cache.
    pub fn size(&self) -> u64 {
        DATA_START + self.segments * u64::from(self.segment)
    }

    /// Offset of a segment.
    pub fn start(&self, segment: u64) -> u64 {
        DATA_START + segment * u64::from(self.segment)
    }

    /// The segment in which a place lies.
    pub fn segment_of(&self, place: u64) -> u64 {
        (place * UNIT as u64).saturating_sub(DATA_START) / u64::from(self.segment)
    }

    /// True when a record of this many units can lie at the place.
    pub fn holds(&self, place: u64, units: u16) -> bool {
        place >= DATA_START / UNIT as u64
            && self.segment_of(place) < self.segments
            && self.within(place) + usize::from(units) * UNIT <= self.segment as usize
    }

    /// Offset of a place within its segment, bytes.
    pub fn within(&self, place: u64) -> usize {
        ((place * UNIT as u64 - DATA_START) % u64::from(self.segment)) as usize
    }

    /// The place (in units from the start of the cache) of an offset within a segment.
    pub fn place(&self, segment: u64, offset: usize) -> u64 {
        (self.start(segment) + offset as u64) / UNIT as u64
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
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
