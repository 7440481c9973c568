//! How much is measured.

use serde::Serialize;

/// Bytes of an object in the runs that go to the disk.
pub const DISK_OBJECT: u64 = 8192;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    pub quick: bool,
    /// Times that each figure is taken.
    pub rounds: u32,
    /// Seconds of one timed run.
    pub seconds: f64,
    /// Client connections.
    pub connections: usize,
    /// Few enough that all are in the memory tier, at every size.
    pub memory_hit_objects: u64,
    /// Of 8 KB, filled and then hit on disk.
    pub disk_objects: u64,
    pub cache_gib: u64,
    /// A cache that is full before its refill is measured.
    pub refill_cache_mib: u64,
    pub restarts: u32,
    pub restart_sample: u64,
    /// Of 1 KB, for the resident bytes of each.
    pub memory_objects: u64,
}

impl Scale {
    pub fn whole() -> Scale {
        Scale {
            quick: false,
            rounds: 5,
            seconds: 4.0,
            connections: 32,
            memory_hit_objects: 64,
            disk_objects: 200_000,
            cache_gib: 4,
            refill_cache_mib: 512,
            restarts: 5,
            restart_sample: 2000,
            memory_objects: 1_000_000,
        }
    }

    pub fn quick() -> Scale {
        Scale {
            quick: true,
            rounds: 3,
            seconds: 1.5,
            disk_objects: 40_000,
            refill_cache_mib: 128,
            restarts: 3,
            memory_objects: 200_000,
            ..Scale::whole()
        }
    }
}
