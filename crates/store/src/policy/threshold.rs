//! The admission threshold of LRU-TH, as in Foxy (WebCoSM section 4): documents larger than a size set beforehand
//! are not cached, so that a few large ones do not push out many small ones.

use super::Admission;

/// Admits bodies of at most this many bytes.
pub struct Threshold(pub u64);

impl Admission for Threshold {
    fn admits(&self, length: u64) -> bool {
        length <= self.0
    }
}
