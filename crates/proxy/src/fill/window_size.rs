//! How much of a body a fill's window may hold: little at first, more the more was taken and the more memory is free.

use crate::budget::{Allowance, Lease};

/// What a window has at least, bytes: a part of what every body takes (`budget::FLOOR`).
const LEAST: usize = 32 << 10;

/// A window may take so much of what is free at once, and so much of what went through it.
const OF_FREE: usize = 256;
const OF_TAKEN: u64 = 8;

/// What the windows of all fills have in common.
#[derive(Clone)]
pub struct Windows {
    /// Bytes of one at most.
    pub most: usize,
    pub allowance: Allowance,
}

/// What one window may hold; of what it is beyond the least it has a lease.
pub struct WindowSize {
    lease: Option<Lease>,
    bytes: usize,
}

impl Default for WindowSize {
    fn default() -> WindowSize {
        WindowSize { lease: None, bytes: LEAST }
    }
}

impl WindowSize {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows by doubling, while there is plenty of memory, for a body of which so many bytes came.
    pub fn widen(&mut self, windows: &Windows, came: u64) {
        let Windows { most, allowance } = windows;
        let earned = usize::try_from(came / OF_TAKEN).unwrap_or(usize::MAX).max(allowance.free() / OF_FREE);
        while self.bytes < *most && 2 * self.bytes <= earned && allowance.is_plenty() {
            let next = (2 * self.bytes).min(*most);
            let Some(lease) = allowance.try_take(next - self.bytes) else { return };
            match &mut self.lease {
                Some(all) => all.merge(lease),
                None => self.lease = Some(lease),
            }
            self.bytes = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn a_window_grows_with_what_went_through_it_while_there_is_plenty() {
        let allowance = Budget::new(32 << 20, 0).origins;
        let windows = Windows { most: 1 << 20, allowance: allowance.clone() };
        let mut size = WindowSize::default();
        let mut sizes = Vec::new();
        for mib in 0..10 {
            size.widen(&windows, mib << 20);
            sizes.push(size.bytes() >> 10);
        }
        assert_eq!(sizes, [64, 128, 256, 256, 512, 512, 512, 512, 1024, 1024]);
        assert_eq!(allowance.taken(), (1 << 20) - LEAST);
        // Those who come when it is not have the least.
        let rest = allowance.try_take(9 << 20);
        let mut late = WindowSize::default();
        late.widen(&windows, 1 << 30);
        assert_eq!((late.bytes(), rest.is_some()), (LEAST, true));
        drop(size);
        assert_eq!(allowance.taken(), 9 << 20);
    }

    #[test]
    fn much_memory_is_a_large_window_at_once() {
        let windows = Windows { most: 1 << 20, allowance: Budget::new(1 << 30, 0).origins };
        let mut size = WindowSize::default();
        size.widen(&windows, 0);
        assert_eq!(size.bytes(), 1 << 20);
    }
}
