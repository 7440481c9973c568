//! The storage policies: a row each, of parts.

use crate::layout::Layout;
use crate::layout::buddy::Buddy;
use crate::layout::files::{Directories, Files, Pieces};
use crate::layout::stream::{Parts, Stream};
use crate::layout::unified::Unified;
use crate::storage::{Storage, Told};
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
        }
    }
}

impl Scale {
    /// Bytes of the file of those that have one.
    pub fn space(&self) -> u64 {
        (self.disk as f64 / self.utilization) as u64
    }
}

/// A storage policy.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub name: &'static str,
    pub about: &'static str,
    /// Gets a second in Table 2 of USITS99 and of WebCoSM.
    pub table_2: Option<(f64, f64)>,
    pub storage: fn(&Scale) -> Box<dyn Storage>,
}

fn told(scale: &Scale, layout: impl Layout + 'static) -> Box<dyn Storage> {
    Box::new(Told::new(scale.disk, Box::new(layout)))
}

const NONE: Parts = Parts { packetizer: false, lazy_reads: None, locality_buffers: 0 };

/// In the order of WebCoSM's Table 2.
pub const ALL: &[Recipe] = &[
    Recipe {
        name: "simple",
        about: "a file for each object, all in one directory (WebCoSM 3.2)",
        table_2: Some((14.0, 18.0)),
        storage: |scale| told(scale, Files::new(Directories::Single, Pieces::WHOLE)),
    },
    Recipe {
        name: "squid",
        about: "a file for each object, in 16 x 256 directories in turn (WebCoSM 3.2)",
        table_2: Some((20.0, 27.0)),
        storage: |scale| told(scale, Files::new(Directories::RoundRobin(16, 256), Pieces::WHOLE)),
    },
    Recipe {
        name: "multiple-dirs",
        about: "a file for each object, in a directory for each server (WebCoSM 3.2)",
        table_2: Some((23.0, 31.0)),
        storage: |scale| told(scale, Files::new(Directories::PerServer, Pieces::WHOLE)),
    },
    Recipe {
        name: "squidl",
        about: "a file for each object, in 16 x 256 directories by server (Maltzahn 4.2.2.1)",
        table_2: None,
        storage: |scale| told(scale, Files::new(Directories::HashedServer(16, 256), Pieces::WHOLE)),
    },
    Recipe {
        name: "buddy",
        about: "objects of one size share a file of slots (WebCoSM 2.1)",
        table_2: Some((133.0, 133.0)),
        storage: |scale| told(scale, Buddy::new(scale.threshold)),
    },
    Recipe {
        name: "stream",
        about: "one file, written round and round where there is room (WebCoSM 2.2.1)",
        table_2: Some((295.0, 295.0)),
        storage: |scale| told(scale, Stream::new(scale.space(), NONE)),
    },
    Recipe {
        name: "stream-packetizer",
        about: "and small writes gathered to pages (WebCoSM 3.3)",
        table_2: Some((358.0, 358.0)),
        storage: |scale| told(scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE })),
    },
    Recipe {
        name: "lazy-reads",
        about: "and reads that wait for others, sorted by place (WebCoSM 2.2.2)",
        table_2: Some((396.0, 396.0)),
        storage: |scale| {
            let parts = Parts { packetizer: true, lazy_reads: Some(scale.lazy_reads), ..NONE };
            told(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "stream-loc",
        about: "stream-packetizer with locality buffers for servers (WebCoSM 2.2.3)",
        table_2: Some((460.0, 460.0)),
        storage: |scale| {
            let parts = Parts { packetizer: true, locality_buffers: scale.locality_buffers, ..NONE };
            told(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "lazy-reads-loc",
        about: "lazy-reads with locality buffers for servers (WebCoSM 2.2.3)",
        table_2: Some((495.0, 495.0)),
        storage: |scale| {
            let parts = Parts {
                packetizer: true,
                lazy_reads: Some(scale.lazy_reads),
                locality_buffers: scale.locality_buffers,
            };
            told(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "unified",
        about: "one file, each object in one piece, into the largest free one (Chang and Lai)",
        table_2: None,
        storage: |scale| told(scale, Unified::new(scale.space())),
    },
];

/// The recipes of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Recipe>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(ALL.to_vec());
    }
    let one = |name: &String| {
        ALL.iter().find(|recipe| recipe.name == name).copied().ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|recipe| recipe.name).collect();
            format!("there is no recipe `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(one).collect()
}
