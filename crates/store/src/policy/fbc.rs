//! Frequency-based cyclic replacement (Maltzahn 5.3.4).

use super::Replacement;

pub struct Fbc {
    /// Objects referenced fewer times than this are replaced when the sweep meets them.
    pub cmax: u8,
    /// Counts are halved when their average is greater than this.
    pub amax: u8,
}

impl Replacement for Fbc {
    fn survives(&self, count: u8) -> bool {
        count >= self.cmax
    }
    fn ages(&self, objects: u64, references: u64) -> bool {
        objects > 0 && references > objects * u64::from(self.amax)
    }
}
