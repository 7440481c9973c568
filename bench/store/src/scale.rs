//! How many objects, of which size, with how much memory: a table.

use crate::hollow::Hollow;

pub struct Scale {
    pub name: &'static str,
    pub objects: u64,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a contender's own memory and page cache together.
    pub memory: u64,
    /// For the store alone: objects of which this many are written whole.
    pub samples: Option<u64>,
    pub quick: bool,
}

const MIB: u64 = 1 << 20;
const LARGE: u64 = 16 << 30;

pub const ALL: [Scale; 7] = [
    Scale { name: "quick", objects: 20_000, body: 8192, memory: 96 * MIB, samples: None, quick: true },
    Scale { name: "100k", objects: 100_000, body: 8192, memory: 160 * MIB, samples: None, quick: false },
    Scale { name: "1m", objects: 1_000_000, body: 8192, memory: 512 * MIB, samples: None, quick: false },
    Scale {
        name: "10m-1k",
        objects: 10_000_000,
        body: 1024,
        memory: 2048 * MIB,
        samples: None,
        quick: false,
    },
    Scale {
        name: "1m-hollow",
        objects: 1_000_000,
        body: 8192,
        memory: LARGE,
        samples: Some(100_000),
        quick: false,
    },
    Scale {
        name: "10m-hollow",
        objects: 10_000_000,
        body: 8192,
        memory: LARGE,
        samples: Some(100_000),
        quick: false,
    },
    Scale {
        name: "100m-hollow",
        objects: 100_000_000,
        body: 8192,
        memory: LARGE,
        samples: Some(100_000),
        quick: false,
    },
];

impl Scale {
    pub fn hollow(&self) -> Option<Hollow> {
        self.samples.map(|samples| Hollow { every: (self.objects / samples).max(1) })
    }

    /// Bytes of disk that each contender gets: what the objects take in the store, and a little more, so that a lap of the log holds all.
    pub fn capacity(&self) -> u64 {
        let meta = if self.samples.is_some() { 192 } else { 0 };
        let record = (self.body as u64 + 64 + 40 + meta).next_multiple_of(64);
        // What does not fit at the end of a packet of 1 MiB, tables, digests.
        let with_waste = self.objects * record / 100 * 102 + self.objects * 60;
        (with_waste + 40 * MIB).next_multiple_of(16 * MIB)
    }
}

pub fn named(name: &str) -> Option<&'static Scale> {
    ALL.iter().find(|scale| scale.name == name)
}
