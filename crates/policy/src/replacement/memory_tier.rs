//! The memory tier of `cosm serve` (`memory::Tier`), under one lock.

use super::{Left, Replacement};
use memory::Tier;

pub struct MemoryTier {
    most: u64,
    tier: Tier<u32>,
}

impl MemoryTier {
    pub fn new(most: u64) -> MemoryTier {
        MemoryTier { most, tier: Tier::new(most, most, 0, 1) }
    }
}

impl Replacement for MemoryTier {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        self.tier.get(key(object)).is_some()
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        self.tier.insert(key(object), object, size, gone(left));
    }

    fn remove(&mut self, object: u32) {
        self.tier.remove(key(object));
    }

    fn resize(&mut self, most: u64, left: &mut dyn FnMut(Left)) {
        self.most = most;
        self.tier.resize(most, gone(left));
    }
}

/// Who is gone is forgotten.
fn gone(left: &mut dyn FnMut(Left)) -> impl FnMut(u32) {
    |object| {
        left(Left::Cache(object));
        left(Left::Memory(object));
    }
}

/// As good as a hash.
fn key(object: u32) -> u128 {
    (u128::from(object) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}
