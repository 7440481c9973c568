//! The storage policies: a row each, of parts.

use crate::layout::Layout;
use crate::layout::buddy::Buddy;
use crate::layout::cern::Cern;
use crate::layout::files::{Directories, Files, Pieces};
use crate::layout::stream::{Parts, Stream};
use crate::layout::unified::Unified;
use crate::mapped::{Fbc, Future, LeastRecent, Mapped, Slots};
use crate::medium::drive::ST15150W;
use crate::replacement::{LRU, LRU_TH, Policy, S3_FIFO, SIEVE};
use crate::replay::Row;
use crate::saved::Run;
use crate::storage::{Storage, Told};
use crate::today::cosm::Cosm;
use crate::today::cyclic_log::CyclicLog;
use crate::today::nginx::Nginx;
use crate::today::rock::Rock;
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
    /// Bytes of the mapped file of those that keep small objects in one: three quarters of all objects take somewhat more
    /// than a quarter of the bytes.
    fn mapped(&self) -> u64 {
        self.disk / 3
    }

    /// Bytes of the medium that a recipe has: of the file of those that have one. What is told what to keep fills a share of
    /// it (`disk`), what replaces by itself all.
    pub fn space(&self) -> u64 {
        (self.disk as f64 / self.utilization) as u64
    }
}

/// A storage policy.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub name: &'static str,
    pub about: &'static str,
    /// Gets a second in WebCoSM's Table 2.
    pub table_2: Option<f64>,
    /// What it is given or does that most are or do not, for whoever compares; empty where nothing is.
    pub unlike: &'static str,
    pub storage: fn(&Scale) -> Box<dyn Storage>,
}

/// The recipes that place objects by their server.
const BY_SERVER: [&str; 7] =
    ["multiple-dirs", "squidl", "squidml", "squidmla", "stream-loc", "lazy-reads-loc", "cern"];

impl Recipe {
    /// Whether objects of one server lie together: a trace without servers is then another workload.
    pub fn goes_by_server(&self) -> bool {
        BY_SERVER.contains(&self.name)
    }
}

fn mapped(scale: &Scale, directories: Directories, aligned: bool) -> Box<dyn Storage> {
    told(scale, Mapped::new(scale.mapped(), directories, aligned))
}

fn told(scale: &Scale, layout: impl Layout + 'static) -> Box<dyn Storage> {
    told_by(LRU, scale, layout)
}

fn told_by(policy: Policy, scale: &Scale, layout: impl Layout + 'static) -> Box<dyn Storage> {
    Box::new(Told::new(scale.disk, policy, Box::new(layout)))
}

const NONE: Parts = Parts { packetizer: false, lazy_reads: None, locality_buffers: 0 };

/// Gets a second of what Table 2 counts from BUDDY on: reads, writes and deletions, of which 1,058,206 gets caused a million
/// (USITS99, Tables 1 and 2).
pub const fn gets(operations: f64) -> f64 {
    operations * 1.058_206
}

/// What Table 2 has of a recipe, gets a second: where requests like the papers' went to their disk through caches as large as
/// theirs, and as many of them.
pub fn published(run: &Run, row: &Row) -> Option<f64> {
    let recipe = ALL.iter().find(|recipe| recipe.name == row.recipe && row.medium == ST15150W.name)?;
    let (gets, disk) = match recipe.name {
        "simple" | "squid" | "multiple-dirs" => (398_034, 1 << 30),
        _ => (1_058_206, 2 << 30),
    };
    let like = run.asked.like().is_some_and(|like| ["dec", "dec-small"].contains(&like));
    let usual = Scale { disk, ..Scale::default() };
    let alike = like && run.scale == usual && row.gets == gets && run.asked.warm_up == 0;
    recipe.table_2.filter(|_| alike)
}

/// In the order of WebCoSM's Table 2; then others, and those of today.
pub const ALL: &[Recipe] = &[
    Recipe {
        name: "simple",
        about: "a file for each object, all in one directory (WebCoSM 3.2)",
        table_2: Some(18.0),
        unlike: "",
        storage: |scale| told(scale, Files::new(Directories::Single, Pieces::WHOLE)),
    },
    Recipe {
        name: "squid",
        about: "a file for each object, in 16 x 256 directories in turn (WebCoSM 3.2)",
        table_2: Some(27.0),
        unlike: "",
        storage: |scale| told(scale, Files::new(Directories::RoundRobin(16, 256), Pieces::WHOLE)),
    },
    Recipe {
        name: "multiple-dirs",
        about: "a file for each object, in a directory for each server (WebCoSM 3.2)",
        table_2: Some(31.0),
        unlike: "",
        storage: |scale| told(scale, Files::new(Directories::PerServer, Pieces::WHOLE)),
    },
    Recipe {
        name: "squidl",
        about: "a file for each object, in 16 x 256 directories by server (Maltzahn 4.2.4.1)",
        table_2: None,
        unlike: "",
        storage: |scale| told(scale, Files::new(Directories::HashedServer(16, 256), Pieces::WHOLE)),
    },
    Recipe {
        name: "buddy",
        about: "objects of one size share a file of slots (WebCoSM 2.1)",
        table_2: Some(gets(133.0)),
        unlike: "",
        storage: |scale| told(scale, Buddy::new(scale.threshold)),
    },
    Recipe {
        name: "stream",
        about: "one file, written round and round where there is room (WebCoSM 2.2.1)",
        table_2: Some(gets(295.0)),
        unlike: "",
        storage: |scale| told(scale, Stream::new(scale.space(), NONE)),
    },
    Recipe {
        name: "stream-packetizer",
        about: "and small writes gathered to pages (WebCoSM 3.3)",
        table_2: Some(gets(358.0)),
        unlike: "",
        storage: |scale| told(scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE })),
    },
    Recipe {
        name: "lazy-reads",
        about: "and reads that wait for others, sorted by place (WebCoSM 2.2.2)",
        table_2: Some(gets(396.0)),
        unlike: "",
        storage: |scale| {
            let parts = Parts { packetizer: true, lazy_reads: Some(scale.lazy_reads), ..NONE };
            told(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "stream-loc",
        about: "stream-packetizer with locality buffers for servers (WebCoSM 2.2.3)",
        table_2: Some(gets(460.0)),
        unlike: "128 buffers of 64 KB beside",
        storage: |scale| {
            let parts = Parts { packetizer: true, locality_buffers: scale.locality_buffers, ..NONE };
            told(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "lazy-reads-loc",
        about: "lazy-reads with locality buffers for servers (WebCoSM 2.2.3)",
        table_2: Some(gets(495.0)),
        unlike: "128 buffers of 64 KB beside",
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
        unlike: "",
        storage: |scale| told(scale, Unified::new(scale.space())),
    },
    Recipe {
        name: "squid-2.4",
        about: "squid, written in pieces of 8 KB and read in those of 4 KB (Chang and Lai 3.1)",
        table_2: None,
        unlike: "",
        storage: |scale| {
            let pieces = Pieces { read: 4096, write: 8192 };
            told(scale, Files::new(Directories::RoundRobin(16, 256), pieces))
        },
    },
    Recipe {
        name: "cern",
        about: "a directory for each URL's, with a meta file and lock files (Maltzahn 4.2.3.1)",
        table_2: None,
        unlike: "",
        storage: |scale| told(scale, Cern::default()),
    },
    Recipe {
        name: "squidm",
        about: "squid, objects up to 8 KB in a mapped file (Maltzahn 4.2.4.2)",
        table_2: None,
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        storage: |scale| mapped(scale, Directories::RoundRobin(16, 256), false),
    },
    Recipe {
        name: "squidml",
        about: "squidl, objects up to 8 KB in a mapped file (Maltzahn 4.2.4.3)",
        table_2: None,
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        storage: |scale| mapped(scale, Directories::HashedServer(16, 256), false),
    },
    Recipe {
        name: "squidmla",
        about: "squidml, no object across a page boundary (Maltzahn 4.2.4.4)",
        table_2: None,
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        storage: |scale| mapped(scale, Directories::HashedServer(16, 256), true),
    },
    Recipe {
        name: "lru",
        about: "a mapped file alone, LRU among segments of one size (Maltzahn 5.3.3)",
        table_2: None,
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        storage: |scale| Box::new(Slots::new(scale.space(), LeastRecent::default())),
    },
    Recipe {
        name: "fbc",
        about: "a mapped file alone, replaced round and round but for what is popular (Maltzahn 5.3.4)",
        table_2: None,
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        storage: |scale| Box::new(Slots::new(scale.space(), Fbc::new(false))),
    },
    Recipe {
        name: "fbc-c",
        about: "fbc, popular objects go to the front every midnight of the trace (Maltzahn 5.3.5)",
        table_2: None,
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        storage: |scale| Box::new(Slots::new(scale.space(), Fbc::new(true))),
    },
    Recipe {
        name: "future",
        about: "a mapped file alone, placed by who knows the whole trace (Maltzahn 5.3.2)",
        table_2: None,
        unlike: "knows the trace; objects above 8 KB pass; fills its file; memory for pages keeps it",
        storage: |scale| Box::new(Future::new(scale.space())),
    },
    Recipe {
        name: "lru-th",
        about: "stream-packetizer as Foxy has it: with watermarks and without large objects (WebCoSM 4.1)",
        table_2: None,
        unlike: "objects above 4 MB pass; fills 90 to 95 % of what it may",
        storage: |scale| {
            told_by(LRU_TH, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "s3-fifo",
        about: "stream-packetizer with S3-FIFO replacement (Yang and others, SOSP 2023)",
        table_2: None,
        unlike: "",
        storage: |scale| {
            told_by(S3_FIFO, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "sieve",
        about: "stream-packetizer with SIEVE replacement (Zhang and others, NSDI 2024)",
        table_2: None,
        unlike: "",
        storage: |scale| {
            told_by(SIEVE, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "cyclic-log",
        about: "a log written round and round, as Traffic Server's",
        table_2: None,
        unlike: "fills its file; a buffer of 4 MB beside",
        storage: |scale| Box::new(CyclicLog::new(scale.space())),
    },
    Recipe {
        name: "rock",
        about: "one file of fixed slots, as Squid's rock store",
        table_2: None,
        unlike: "fills its file",
        storage: |scale| Box::new(Rock::new(scale.space())),
    },
    Recipe {
        name: "nginx",
        about: "a file for each object, in directories by a hash, as nginx's",
        table_2: None,
        unlike: "fills more until its manager looks",
        storage: |scale| Box::new(Nginx::new(scale.disk)),
    },
    Recipe {
        name: "cosm",
        about: "the production store of cosm serve",
        table_2: None,
        unlike: "fills its file; its index and packets in memory beside",
        storage: |scale| Box::new(Cosm::new(scale.space())),
    },
];

/// The recipes of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Recipe>, String> {
    crate::rows_named(names, ALL, |recipe| recipe.name, "recipe")
}
