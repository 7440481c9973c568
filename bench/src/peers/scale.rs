//! How much is measured.

use crate::machine::Machine;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    pub quick: bool,
    /// Times that each figure is taken.
    pub rounds: u32,
    /// Seconds of one timed run.
    pub seconds: f64,
    /// Client connections of a closed loop.
    pub connections: usize,
    pub memory: MemoryHits,
    pub disk: Disk,
    pub foxy: Robots,
    pub throttled: Robots,
    /// Disk reads a second, and writes, of the throttled run.
    pub throttle: u32,
    pub standing: Standing,
    /// Objects that each round of a fill over TLS fetches: fewer than its memory holds.
    pub fill_over_tls: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryHits {
    pub sizes: [u64; 3],
    /// Few enough that all are in memory, at every size.
    pub objects: u64,
    pub tier_bytes: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Disk {
    pub objects: u64,
    pub object_bytes: u64,
    /// Of the control group: the page cache cannot hide the disk.
    pub limit_bytes: u64,
    pub tier_bytes: u64,
}

/// Foxy's experiment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Robots {
    /// Offered, one after the other, until the response time breaks.
    pub rates: &'static [u32],
    pub seconds: f64,
    /// Of each rate, before anything counts.
    pub ramp_seconds: f64,
    /// In the cache before the first rate; and those that it has room for, since each rate brings new ones.
    pub objects: u64,
    pub room: u64,
    /// Where nothing bounds the page cache, which serves the hits of some, the memory tiers of the others are given as much
    /// as Cosm takes by itself: a quarter of the machine's.
    pub tier_bytes: u64,
    pub limit_bytes: Option<u64>,
}

/// What a full cache costs to hold and to open again.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Standing {
    pub objects: u64,
    pub object_bytes: u64,
    pub restarts: u32,
    /// Asked for before a restart; a third of them at once after it, a third when it is rebuilt.
    pub sample: u64,
}

const MIB: u64 = 1 << 20;

impl Scale {
    pub fn whole(machine: &Machine) -> Scale {
        Scale {
            quick: false,
            rounds: 5,
            seconds: 4.0,
            connections: 32,
            memory: MemoryHits { sizes: [1 << 10, 4 << 10, 64 << 10], objects: 64, tier_bytes: 256 * MIB },
            disk: Disk { objects: 200_000, object_bytes: 8192, limit_bytes: 512 * MIB, tier_bytes: 0 },
            foxy: Robots {
                rates: &[1000, 2000, 3000, 4000, 6000, 8000, 10_000, 12_000, 14_000, 16_000],
                seconds: 15.0,
                ramp_seconds: 5.0,
                objects: 100_000,
                room: 600_000,
                tier_bytes: machine.memory_bytes / 4,
                limit_bytes: None,
            },
            throttled: Robots {
                rates: &[50, 100, 150, 200, 300, 400, 600, 800, 1000, 1400, 2000],
                seconds: 15.0,
                ramp_seconds: 5.0,
                objects: 200_000,
                room: 300_000,
                tier_bytes: 64 * MIB,
                limit_bytes: Some(256 * MIB),
            },
            throttle: 150,
            standing: Standing { objects: 1_000_000, object_bytes: 1024, restarts: 3, sample: 6000 },
            fill_over_tls: 20_000,
        }
    }

    pub fn quick(machine: &Machine) -> Scale {
        let whole = Scale::whole(machine);
        Scale {
            quick: true,
            rounds: 3,
            seconds: 1.0,
            disk: Disk { objects: 30_000, limit_bytes: 160 * MIB, ..whole.disk },
            foxy: Robots {
                rates: &[1000, 3000],
                seconds: 3.0,
                ramp_seconds: 1.5,
                objects: 10_000,
                room: 40_000,
                ..whole.foxy
            },
            throttled: Robots {
                rates: &[100, 300],
                seconds: 4.0,
                ramp_seconds: 2.0,
                objects: 30_000,
                room: 40_000,
                tier_bytes: 16 * MIB,
                limit_bytes: Some(160 * MIB),
            },
            fill_over_tls: 5000,
            standing: Standing { objects: 30_000, restarts: 1, ..whole.standing },
            ..whole
        }
    }
}
