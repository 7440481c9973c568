//! What readers know of the engine without its lock.

use crate::format::Layout;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which segments have records that are not on the medium, for readers that hold no lock.
#[derive(Default)]
pub struct Unwritten(AtomicU64);

impl Unwritten {
    const COUNT_BITS: u32 = 16;
    /// So many or more: any may be among them.
    const ALL: u64 = (1 << Self::COUNT_BITS) - 1;

    /// Segments with numbers from `first` on, round and round.
    pub(crate) fn set(&self, first: u64, count: u64) {
        self.0.store(first << Self::COUNT_BITS | count.min(Self::ALL), Ordering::Release);
    }

    /// True for a segment that may be among them.
    pub fn has(&self, layout: &Layout, number: u64) -> bool {
        let word = self.0.load(Ordering::Acquire);
        let (first, count) = (word >> Self::COUNT_BITS, word & Self::ALL);
        count == Self::ALL || (number + layout.segments - first) % layout.segments < count
    }
}
