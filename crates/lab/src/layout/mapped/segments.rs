//! Segments of five sizes in a mapped file, and Maltzahn's packing algorithm (4.2.4.4, Algorithm 1).

use crate::object::Object;

/// Bytes of a page: the largest segment.
pub const PAGE: u64 = 8192;
const SMALLEST: u64 = 512;
/// 512, 1024, 2048, 4096 and 8192 bytes.
pub const CLASSES: usize = 5;

/// Which segments an object takes; none when it is larger than a page.
pub fn class_of(object: &Object) -> Option<usize> {
    (0..CLASSES).find(|class| object.size <= bytes_of(*class))
}

pub fn bytes_of(class: usize) -> u64 {
    SMALLEST << class
}

/// Gives out a file's bytes, from its beginning on, as segments.
pub struct Packer {
    bytes: u64,
    /// A segment of each size that is left of a larger one.
    left: [Option<u64>; CLASSES],
    end: u64,
    aligned: bool,
}

impl Packer {
    /// `aligned`: no segment crosses a page boundary, for which Algorithm 1 changes their order a little. Otherwise they
    /// follow each other.
    pub fn new(bytes: u64, aligned: bool) -> Packer {
        Packer { bytes, left: [None; CLASSES], end: 0, aligned }
    }

    /// Where the next segment of a class begins, while there is room.
    pub fn place(&mut self, class: usize) -> Option<u64> {
        if !self.aligned {
            return self.take(bytes_of(class));
        }
        let found = (class..CLASSES - 1).find(|larger| self.left[*larger].is_some());
        let (from, at) = match found {
            Some(larger) => (larger, self.left[larger].take()?),
            None => (CLASSES - 1, self.take(PAGE)?),
        };
        for rest in class..from {
            self.left[rest] = Some(at + bytes_of(rest));
        }
        Some(at)
    }

    /// Bytes of the file that were given out.
    pub fn end(&self) -> u64 {
        self.end
    }

    fn take(&mut self, bytes: u64) -> Option<u64> {
        let at = self.end;
        (at + bytes <= self.bytes).then(|| self.end = at + bytes)?;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example beside Algorithm 1: 512, then 1 K twice.
    #[test]
    fn what_is_left_of_a_page_is_used() {
        let mut packer = Packer::new(1 << 20, true);
        assert_eq!(packer.place(4), Some(0));
        assert_eq!(packer.place(0), Some(8192));
        assert_eq!(packer.left, [Some(8704), Some(9216), Some(10240), Some(12288), None]);
        assert_eq!(packer.place(1), Some(9216));
        assert_eq!(packer.place(1), Some(10240));
        assert_eq!(packer.left, [Some(8704), Some(11264), None, Some(12288), None]);
    }

    #[test]
    fn without_alignment_segments_follow_each_other() {
        let mut packer = Packer::new(10_000, false);
        assert_eq!([packer.place(0), packer.place(4), packer.place(4)], [Some(0), Some(512), None]);
        assert_eq!(packer.place(1), Some(8704));
    }

    proptest! {
        #[test]
        fn segments_do_not_overlap_nor_cross_pages(classes in proptest::collection::vec(0..CLASSES, 1..300)) {
            let mut packer = Packer::new(200_000, true);
            let mut taken = std::collections::BTreeMap::new();
            for class in classes {
                if let Some(at) = packer.place(class) {
                    prop_assert!(at + bytes_of(class) <= 200_000);
                    prop_assert_eq!(at / PAGE, (at + bytes_of(class) - 1) / PAGE);
                    taken.insert(at, at + bytes_of(class));
                }
            }
            let ends: Vec<(u64, u64)> = taken.into_iter().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}
