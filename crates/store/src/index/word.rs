//! One entry in eight bytes: how a cache's size divides a word among fingerprint, count, length class and place.
//!
//! ```text
//!  63              p+9     p+6                           p          0
//! ┌──────────────────┬───────┬──────────────────┬──────────────────┐
//! │ fingerprint      │ uses  │ length class     │ place, p bits    │
//! │ 55 − p bits      │ 1 + 2 │ 6                │ 26 to 36         │
//! └──────────────────┴───────┴──────────────────┴──────────────────┘
//! ```
//!
//! Uses: whether it had been used before it was put, and how often since.
//!
//! Place 0 is nobody's, since the superblock lies there. A word of zeros is empty; any other with place 0 is a tombstone.

/// How often it was used, and whether it was used before it was put.
const COUNT_BITS: u32 = USES_BITS + 1;
const USES_BITS: u32 = 2;
const CLASS_BITS: u32 = 6;
const PLACE_BITS_MIN: u32 = 26;
const PLACE_BITS_MAX: u32 = 36;

/// The largest count of uses.
pub const USES_MAX: u8 = (1 << USES_BITS) - 1;

/// Objects of a part at most: copying them takes about a millisecond, and their table has a large page.
const PART_OBJECTS: u64 = 1 << 18;
const PART_BITS_MIN: u32 = 4;
const PART_BITS_MAX: u32 = 20;

/// Slots that entries may be displaced in a part as full as expected, as a power of two. In a part of a tenth of that a
/// displacement is below 51, which a table 0.86 full keeps: log2 of this is what position costs of the fingerprint.
pub(super) const REACH_BITS: u32 = 9;

/// Where a record lies, how much to read for it, and how often it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// In units from the start of the cache, at least 1.
    pub place: u64,
    /// Bytes, from 1 to `WordLayout::length_max`. What comes out of the index is the upper bound of the length's class.
    pub length: u32,
    /// Since it was put, and that were believed of it then; up to `USES_MAX`.
    pub uses: u8,
    /// It had been used before it was put.
    pub again: bool,
}

/// How words and hashes are divided. It depends on nothing but the two sizes, so that what one process wrote down of an index is
/// understood by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordLayout {
    unit_bits: u32,
    place_bits: u32,
    /// Bits of a hash that name its part.
    part_bits: u32,
    /// Bits of a hash that the index knows besides.
    print_bits: u32,
}

impl WordLayout {
    /// Of a cache of `size` bytes with `unit(size)`, for about so many objects. With more, everything still works: parts grow
    /// longer than copying them should take, and false matches become as many times more frequent.
    pub fn new(size: u64, objects: u64) -> WordLayout {
        let unit = Self::unit(size);
        let places = (size / u64::from(unit)).max(2);
        let place_bits = (64 - (places - 1).leading_zeros()).max(PLACE_BITS_MIN);
        let objects = objects.max(1);
        let part_bits = log2_up(objects.div_ceil(PART_OBJECTS)).clamp(PART_BITS_MIN, PART_BITS_MAX);
        let slots_bits = log2_up((objects * 9 / 8) >> part_bits).max(REACH_BITS + 1);
        let fingerprint_bits = 64 - COUNT_BITS - CLASS_BITS - place_bits;
        // A fingerprint covers twice the reach (see `table`).
        let print_bits = fingerprint_bits - 1 + slots_bits - REACH_BITS;
        WordLayout { unit_bits: unit.trailing_zeros(), place_bits, part_bits, print_bits }
    }

    /// Bytes of a unit in a cache of `size` bytes: 64 up to 4 TiB, from there on as much larger as the cache.
    pub const fn unit(size: u64) -> u32 {
        let mut unit = 64;
        while size.div_ceil(unit as u64) > 1 << PLACE_BITS_MAX {
            unit *= 2;
        }
        unit
    }

    /// The longest record, bytes: 8 MiB with units of 64 bytes.
    pub const fn length_max(&self) -> u32 {
        class_units((1 << CLASS_BITS) - 1) << self.unit_bits
    }

    /// The length that `find` will say of a record of `length` bytes: at least as much. The class is exact up to 8 units and at most
    /// a quarter more above.
    pub const fn length_bound(&self, length: u32) -> u32 {
        class_units(self.class(length)) << self.unit_bits
    }

    /// Parts of the index, a power of two: the hash's uppermost bits name the part.
    pub const fn parts(&self) -> usize {
        1 << self.part_bits
    }

    /// Bits of an `Entry`'s print, its uppermost ones; those below are zero.
    pub const fn print_bits(&self) -> u32 {
        self.print_bits
    }

    /// The probability that a key which is not there matches one of `objects` that are: then a lookup reads a record in vain, and
    /// an insertion displaces one.
    pub fn false_matches(&self, objects: u64) -> f64 {
        objects as f64 / 2f64.powi((self.part_bits + self.print_bits) as i32)
    }

    pub(super) const fn part_bits(&self) -> u32 {
        self.part_bits
    }

    pub(super) const fn print_mask(&self) -> u64 {
        u64::MAX << (64 - self.print_bits)
    }

    pub(super) const fn fingerprint_bits(&self) -> u32 {
        64 - COUNT_BITS - CLASS_BITS - self.place_bits
    }

    /// Where the fingerprint begins in a word.
    pub(super) const fn fingerprint_shift(&self) -> u32 {
        64 - self.fingerprint_bits()
    }

    /// Where a print's fingerprint goes in a word.
    const fn fingerprint(&self, print: u64) -> u64 {
        print << (self.print_bits - self.fingerprint_bits())
    }

    /// A word with the print's fingerprint. What comes from outside is in bounds, or the record would not be found again.
    pub(super) fn pack(&self, print: u64, slot: Slot) -> u64 {
        assert!(self.holds(slot), "{slot:?} is not of this cache");
        self.fingerprint(print)
            | u64::from(slot.again) << (self.uses_shift() + USES_BITS)
            | u64::from(slot.uses.min(USES_MAX)) << self.uses_shift()
            | u64::from(self.class(slot.length)) << self.place_bits
            | slot.place
    }

    pub(super) const fn holds(&self, slot: Slot) -> bool {
        slot.place > 0
            && slot.place >> self.place_bits == 0
            && slot.length > 0
            && slot.length <= self.length_max()
    }

    pub(super) const fn tombstone(&self, print: u64) -> u64 {
        self.fingerprint(print) | 1 << self.place_bits
    }

    pub(super) const fn is_tombstone(&self, word: u64) -> bool {
        word != 0 && word & ((1 << self.place_bits) - 1) == 0
    }

    /// `None` for a tombstone.
    pub(super) fn slot(&self, word: u64) -> Option<Slot> {
        let place = word & ((1 << self.place_bits) - 1);
        let class = (word >> self.place_bits) as u32 & ((1 << CLASS_BITS) - 1);
        let uses = (word >> self.uses_shift()) as u8;
        let (uses, again) = (uses & USES_MAX, uses >> USES_BITS & 1 > 0);
        (place > 0).then(|| Slot { place, length: class_units(class) << self.unit_bits, uses, again })
    }

    /// The word with one use more.
    pub(super) fn used(&self, word: u64) -> u64 {
        let uses = (word >> self.uses_shift()) as u8 & USES_MAX;
        if uses < USES_MAX { word + (1 << self.uses_shift()) } else { word }
    }

    const fn uses_shift(&self) -> u32 {
        self.place_bits + CLASS_BITS
    }

    const fn class(&self, length: u32) -> u32 {
        class_of(length.div_ceil(1 << self.unit_bits))
    }
}

/// Units that a class reads: 1 to 8 one by one, then four steps a doubling (10, 12, 14, 16, 20, 24, …) up to 131,072.
const fn class_units(class: u32) -> u32 {
    if class < 8 { class + 1 } else { (5 + class % 4) << (class / 4 - 1) }
}

/// The least class that covers so many units, at least 1.
const fn class_of(units: u32) -> u32 {
    if units <= 8 {
        return units - 1;
    }
    let doublings = (units - 1).ilog2();
    // The two bits below the highest count the steps.
    4 * (doublings - 1) + ((units - 1) >> (doublings - 2)) - 4
}

fn log2_up(n: u64) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn length_classes_cover_and_waste_at_most_a_quarter() {
        for class in 0..64 {
            assert_eq!(class_of(class_units(class)), class);
            let next = class_units(class) + 1;
            assert!(class == 63 || class_of(next) == class + 1, "{next} units");
        }
        for size in [GIB, 4 << 40, 5 << 40, 40 << 40] {
            let layout = WordLayout::new(size, 1000);
            let unit = WordLayout::unit(size);
            assert_eq!(layout.length_max(), 131_072 * unit);
            for length in (1..20_000).chain((20_000..layout.length_max()).step_by(9973)) {
                let (bound, aligned) = (layout.length_bound(length), length.next_multiple_of(unit));
                assert!(bound >= length && bound % unit == 0, "{bound} for {length}");
                assert!(bound == aligned || (bound - aligned) * 5 <= bound, "{bound} for {length}");
            }
        }
    }

    #[test]
    fn words_keep_what_they_are_given() {
        for (size, objects) in
            [(1 << 20, 10), (80 * GIB, 10_000_000), (1 << 40, 100_000_000), (18 << 40, 1 << 31)]
        {
            let layout = WordLayout::new(size, objects);
            let last = size / u64::from(WordLayout::unit(size)) - 1;
            for place in [1, 2, last / 3, last] {
                for (length, uses) in [(1, 0), (64, 1), (9000, 3), (layout.length_max(), 9)] {
                    let slot = Slot { place, length, uses, again: length == 64 };
                    let print = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 << (64 - layout.print_bits());
                    let word = layout.pack(print, slot);
                    let kept = Slot { place, length: layout.length_bound(length), uses: uses.min(3), ..slot };
                    assert_eq!(layout.slot(word), Some(kept));
                    assert!(word != 0 && !layout.is_tombstone(word));
                    let used = Slot { uses: (uses + 1).min(3), ..kept };
                    assert_eq!(layout.slot(layout.used(word)), Some(used));
                    assert_eq!((word ^ layout.tombstone(print)) >> layout.fingerprint_shift(), 0);
                }
            }
            assert!(layout.is_tombstone(layout.tombstone(0)) && layout.slot(layout.tombstone(0)).is_none());
        }
    }

    #[test]
    fn fingerprints_are_wide_enough_at_every_size() {
        for (size, objects, bits, least) in [
            (8 * GIB, 1_000_000, 28, 4e-6),
            (80 * GIB, 10_000_000, 24, 6e-5),
            (1 << 40, 100_000_000, 21, 5e-4),
            (16 << 40, 1_000_000_000, 19, 2e-3),
            (1 << 50, 1 << 37, 19, 2e-1),
        ] {
            let layout = WordLayout::new(size, objects);
            assert_eq!(layout.fingerprint_bits(), bits, "{layout:?}");
            assert!(layout.false_matches(objects) < least, "{} {layout:?}", layout.false_matches(objects));
            assert!(layout.part_bits() + layout.print_bits() <= 64);
        }
    }
}
