//! What a recipe is given: bytes of its caches, and its parameters.

use serde::{Deserialize, Serialize};

/// What a recipe is given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Bytes of the cache in memory and of the one on disk.
    pub memory: u64,
    pub disk: u64,
    /// Share of its file that the cache on disk may fill.
    pub utilization: f64,
    pub locality_buffers: usize,
    /// Reads that go together, and how long they wait at most, seconds.
    pub lazy_reads: (usize, f64),
    /// Blocks of 512 bytes above which BUDDY gives an object its own file.
    pub threshold: u64,
    /// Of the production store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget: Option<WriteBudget>,
}

/// Bytes that may be written in a time, by a clock of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBudget {
    pub bytes: u64,
    /// Of the clock.
    pub seconds: u64,
    pub clock: Clock,
}

/// What the time of the trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// As it says.
    Trace,
    /// Bytes asked for, a MiB a second: as if the load were even.
    Asked,
}

impl Default for Scale {
    /// As the papers have it.
    fn default() -> Scale {
        Scale {
            memory: 512 << 20,
            disk: 2 << 30,
            utilization: 0.71,
            locality_buffers: 128,
            lazy_reads: (10, 1.0),
            threshold: 256,
            write_budget: None,
        }
    }
}

impl Scale {
    /// Bytes of the mapped file of those that keep small objects in one: three quarters of all objects take somewhat more
    /// than a quarter of the bytes.
    pub fn mapped(&self) -> u64 {
        self.disk / 3
    }

    /// Bytes of the medium that a recipe has: of the file of those that have one. What is told what to keep fills a share of
    /// it (`disk`), what replaces by itself all.
    pub fn space(&self) -> u64 {
        (self.disk as f64 / self.utilization) as u64
    }
}
