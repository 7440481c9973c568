//! The storage policies: a row each, of parts.

use crate::layout::Layout;
use crate::layout::buddy::Buddy;
use crate::layout::cern::Cern;
use crate::layout::files::{CallSizes, Directories, Files};
use crate::layout::mapped::Mapped;
use crate::layout::stream::{Parts, Stream};
use crate::layout::unified::Unified;
use crate::scale::Scale;
use crate::storage::cosm::{self, Cosm, Hint};
use crate::storage::cyclic_log::CyclicLog;
use crate::storage::log::{self, Admission, Again, Log, Memory, Order, Survivors, When};
use crate::storage::mapped::{Fbc, Future, LeastRecent, Slots};
use crate::storage::nginx::Nginx;
use crate::storage::rock::Rock;
use crate::storage::{Managed, Storage};
use policy::replacement::{GDSF, LRU, LRU_TH, MEMORY_TIER, Policy, S3_FIFO, SIEVE};

/// A storage policy.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub name: &'static str,
    pub about: &'static str,
    /// What it is given or does that most are or do not, for whoever compares; empty where nothing is.
    pub unlike: &'static str,
    /// Who stays in the cache in memory before it.
    pub memory: Policy,
    pub storage: fn(&Scale) -> Box<dyn Storage>,
}

/// The recipes that place objects by their server.
const BY_SERVER: [&str; 16] = [
    "multiple-dirs",
    "squidl",
    "squidml",
    "squidmla",
    "stream-loc",
    "lazy-reads-loc",
    "cern",
    "log-servers",
    "log-full",
    "cosm",
    "cosm-all",
    "cosm-chance",
    "cosm-direct",
    "cosm-direct-paced",
    "cosm-census",
    "cosm-all-census",
];

impl Recipe {
    /// Whether objects of one server lie together: a trace without servers is then another workload.
    pub fn goes_by_server(&self) -> bool {
        BY_SERVER.contains(&self.name)
    }
}

fn mapped(scale: &Scale, directories: Directories, aligned: bool) -> Box<dyn Storage> {
    managed(scale, Mapped::new(scale.mapped(), directories, aligned))
}

fn managed(scale: &Scale, layout: impl Layout + 'static) -> Box<dyn Storage> {
    managed_by(LRU, scale, layout)
}

fn managed_by(policy: Policy, scale: &Scale, layout: impl Layout + 'static) -> Box<dyn Storage> {
    Box::new(Managed::new(scale.disk, policy, Box::new(layout)))
}

fn log(scale: &Scale, parts: log::Parts) -> Box<dyn Storage> {
    Box::new(Log::new(scale.space(), parts))
}

/// Bytes of memory of which groups take one: as `cosm serve` has it.
const GROUP_SHARE: u64 = 32;
/// As `cosm serve` is by default.
const COSM: cosm::Parts = cosm::Parts {
    admission: store::Admission::Worth,
    hint: Hint::Origin,
    group: 32 << 10,
    group_memory: 0,
    direct: false,
    paced: false,
    write_budget: None,
    by_chance: false,
    census: false,
};
const DIRECT: cosm::Parts = cosm::Parts { direct: true, ..COSM };

fn cosm(scale: &Scale, parts: cosm::Parts) -> Box<dyn Storage> {
    let group_memory = if parts.group > 0 { (scale.memory / GROUP_SHARE) as usize } else { 0 };
    let write_budget = scale.write_budget;
    Box::new(Cosm::new(scale.space(), cosm::Parts { group_memory, write_budget, ..parts }))
}

const LOG: log::Parts = log::Parts {
    admission: Admission::All,
    again: Again::Never,
    when: When::Leaving,
    memory: Memory::Exact,
    survivors: Survivors::None,
    order: Order::Arrival,
    window: 0,
    segment: 4 << 20,
};
const PRICED: log::Parts = log::Parts { admission: Admission::Priced, again: Again::Priced, ..LOG };

const NONE: Parts = Parts { packetizer: false, lazy_reads: None, locality_buffers: 0 };

/// In the order of WebCoSM's Table 2; then others, and those of today.
pub const ALL: &[Recipe] = &[
    Recipe {
        name: "simple",
        about: "a file for each object, all in one directory (WebCoSM 3.2)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Files::new(Directories::Single, CallSizes::WHOLE)),
    },
    Recipe {
        name: "squid",
        about: "a file for each object, in 16 x 256 directories in turn (WebCoSM 3.2)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Files::new(Directories::RoundRobin(16, 256), CallSizes::WHOLE)),
    },
    Recipe {
        name: "multiple-dirs",
        about: "a file for each object, in a directory for each server (WebCoSM 3.2)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Files::new(Directories::PerServer, CallSizes::WHOLE)),
    },
    Recipe {
        name: "squidl",
        about: "a file for each object, in 16 x 256 directories by server (Maltzahn 4.2.4.1)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Files::new(Directories::HashedServer(16, 256), CallSizes::WHOLE)),
    },
    Recipe {
        name: "buddy",
        about: "objects of one size share a file of slots (WebCoSM 2.1)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Buddy::new(scale.threshold)),
    },
    Recipe {
        name: "stream",
        about: "one file, written round and round where there is room (WebCoSM 2.2.1)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Stream::new(scale.space(), NONE)),
    },
    Recipe {
        name: "stream-packetizer",
        about: "and small writes gathered to pages (WebCoSM 3.3)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE })),
    },
    Recipe {
        name: "lazy-reads",
        about: "and reads that wait for others, sorted by place (WebCoSM 2.2.2)",
        unlike: "",
        memory: LRU,
        storage: |scale| {
            let parts = Parts { packetizer: true, lazy_reads: Some(scale.lazy_reads), ..NONE };
            managed(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "stream-loc",
        about: "stream-packetizer with locality buffers for servers (WebCoSM 2.2.3)",
        unlike: "128 buffers of 64 KB beside",
        memory: LRU,
        storage: |scale| {
            let parts = Parts { packetizer: true, locality_buffers: scale.locality_buffers, ..NONE };
            managed(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "lazy-reads-loc",
        about: "lazy-reads with locality buffers for servers (WebCoSM 2.2.3)",
        unlike: "128 buffers of 64 KB beside",
        memory: LRU,
        storage: |scale| {
            let parts = Parts {
                packetizer: true,
                lazy_reads: Some(scale.lazy_reads),
                locality_buffers: scale.locality_buffers,
            };
            managed(scale, Stream::new(scale.space(), parts))
        },
    },
    Recipe {
        name: "unified",
        about: "one file, each object in one piece, into the largest free one (Chang and Lai)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Unified::new(scale.space())),
    },
    Recipe {
        name: "squid-2.4",
        about: "squid, written in pieces of 8 KB and read in those of 4 KB (Chang and Lai 3.1)",
        unlike: "",
        memory: LRU,
        storage: |scale| {
            let pieces = CallSizes { read: 4096, write: 8192 };
            managed(scale, Files::new(Directories::RoundRobin(16, 256), pieces))
        },
    },
    Recipe {
        name: "cern",
        about: "a directory for each URL's, with a meta file and lock files (Maltzahn 4.2.3.1)",
        unlike: "",
        memory: LRU,
        storage: |scale| managed(scale, Cern::default()),
    },
    Recipe {
        name: "squidm",
        about: "squid, objects up to 8 KB in a mapped file (Maltzahn 4.2.4.2)",
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        memory: LRU,
        storage: |scale| mapped(scale, Directories::RoundRobin(16, 256), false),
    },
    Recipe {
        name: "squidml",
        about: "squidl, objects up to 8 KB in a mapped file (Maltzahn 4.2.4.3)",
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        memory: LRU,
        storage: |scale| mapped(scale, Directories::HashedServer(16, 256), false),
    },
    Recipe {
        name: "squidmla",
        about: "squidml, no object across a page boundary (Maltzahn 4.2.4.4)",
        unlike: "a third of --disk is a mapped file, which memory for pages keeps",
        memory: LRU,
        storage: |scale| mapped(scale, Directories::HashedServer(16, 256), true),
    },
    Recipe {
        name: "lru",
        about: "a mapped file alone, LRU among segments of one size (Maltzahn 5.3.3)",
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        memory: LRU,
        storage: |scale| Box::new(Slots::new(scale.space(), LeastRecent::default())),
    },
    Recipe {
        name: "fbc",
        about: "a mapped file alone, replaced round and round but for what is popular (Maltzahn 5.3.4)",
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        memory: LRU,
        storage: |scale| Box::new(Slots::new(scale.space(), Fbc::new(false))),
    },
    Recipe {
        name: "fbc-c",
        about: "fbc, popular objects go to the front every midnight of the trace (Maltzahn 5.3.5)",
        unlike: "objects above 8 KB pass; fills its file; memory for pages keeps it",
        memory: LRU,
        storage: |scale| Box::new(Slots::new(scale.space(), Fbc::new(true))),
    },
    Recipe {
        name: "future",
        about: "a mapped file alone, placed by who knows the whole trace (Maltzahn 5.3.2)",
        unlike: "knows the trace; objects above 8 KB pass; fills its file; memory for pages keeps it",
        memory: LRU,
        storage: |scale| Box::new(Future::new(scale.space())),
    },
    Recipe {
        name: "lru-th",
        about: "stream-packetizer as Foxy has it: with watermarks and without large objects (WebCoSM 4.1)",
        unlike: "objects above 4 MB pass; fills 90 to 95 % of what it may",
        memory: LRU,
        storage: |scale| {
            managed_by(LRU_TH, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "s3-fifo",
        about: "stream-packetizer with S3-FIFO replacement (Yang and others, SOSP 2023)",
        unlike: "",
        memory: LRU,
        storage: |scale| {
            managed_by(S3_FIFO, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "sieve",
        about: "stream-packetizer with SIEVE replacement (Zhang and others, NSDI 2024)",
        unlike: "",
        memory: LRU,
        storage: |scale| {
            managed_by(SIEVE, scale, Stream::new(scale.space(), Parts { packetizer: true, ..NONE }))
        },
    },
    Recipe {
        name: "cyclic-log",
        about: "a log written round and round, as Traffic Server's",
        unlike: "fills its file; a buffer of 4 MB beside",
        memory: LRU,
        storage: |scale| Box::new(CyclicLog::new(scale.space())),
    },
    Recipe {
        name: "log",
        about: "a log of segments: all is written, nothing is kept",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, LOG),
    },
    Recipe {
        name: "log-cut",
        about: "log, written at once up to 8 KiB; what was used goes again from the oldest 40 %",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| {
            log(scale, log::Parts { admission: Admission::UpTo(8 << 10), again: Again::Oldest(0.4), ..LOG })
        },
    },
    Recipe {
        name: "log-second",
        about: "log, written when it comes back (Cache-on-second-hit)",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| {
            log(scale, log::Parts { admission: Admission::UpTo(0), again: Again::Oldest(0.4), ..LOG })
        },
    },
    Recipe {
        name: "log-frequency",
        about: "log, written if asked for more often than what goes (TinyLFU: Einziger and others, 2017)",
        unlike: "fills its file; a segment in memory beside; knows exact counts of all objects",
        memory: LRU,
        storage: |scale| {
            log(scale, log::Parts { admission: Admission::Frequency, again: Again::Oldest(0.4), ..LOG })
        },
    },
    Recipe {
        name: "log-priced",
        about: "log, written once and again if it pays; that is decided when something leaves memory",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, PRICED),
    },
    Recipe {
        name: "log-used",
        about: "log-priced, decided when something is used instead of when it leaves memory",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { when: When::Used, ..PRICED }),
    },
    Recipe {
        name: "log-production",
        about: "log-used, and who was turned away is known to Bloom filters alone",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { when: When::Used, memory: Memory::Filters, ..PRICED }),
    },
    Recipe {
        name: "log-survivors",
        about: "log-priced, and survivors that pay are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { survivors: Survivors::Priced, ..PRICED }),
    },
    Recipe {
        name: "log-densest",
        about: "log-cut, and the densest 15 % of a segment are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| {
            log(
                scale,
                log::Parts {
                    admission: Admission::UpTo(8 << 10),
                    survivors: Survivors::Densest(0.15),
                    ..LOG
                },
            )
        },
    },
    Recipe {
        name: "log-around-16",
        about: "log-priced, and 16 KiB around a hit are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { window: 16 << 10, ..PRICED }),
    },
    Recipe {
        name: "log-around-32",
        about: "log-priced, and 32 KiB around a hit are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { window: 32 << 10, ..PRICED }),
    },
    Recipe {
        name: "log-around-64",
        about: "log-priced, and 64 KiB around a hit are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { window: 64 << 10, ..PRICED }),
    },
    Recipe {
        name: "log-gdsf",
        about: "log-around-16 behind GDSF in memory",
        unlike: "fills its file; a segment in memory beside; GDSF in memory",
        memory: GDSF,
        storage: |scale| log(scale, log::Parts { window: 16 << 10, ..PRICED }),
    },
    Recipe {
        name: "log-s3-fifo",
        about: "log-around-16 behind S3-FIFO in memory",
        unlike: "fills its file; a segment in memory beside; S3-FIFO in memory",
        memory: S3_FIFO,
        storage: |scale| log(scale, log::Parts { window: 16 << 10, ..PRICED }),
    },
    Recipe {
        name: "log-servers",
        about: "log-around-32, segments sorted by server (WebCoSM 2.2.3)",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { window: 32 << 10, order: Order::Server, ..PRICED }),
    },
    Recipe {
        name: "log-sessions",
        about: "log-around-32, segments sorted by client and time",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| log(scale, log::Parts { window: 32 << 10, order: Order::Session(10), ..PRICED }),
    },
    Recipe {
        name: "log-full",
        about: "log-servers, and survivors that pay are read",
        unlike: "fills its file; a segment in memory beside",
        memory: LRU,
        storage: |scale| {
            let parts =
                log::Parts { window: 32 << 10, order: Order::Server, survivors: Survivors::Priced, ..PRICED };
            log(scale, parts)
        },
    },
    Recipe {
        name: "rock",
        about: "one file of fixed slots, as Squid's rock store",
        unlike: "fills its file",
        memory: LRU,
        storage: |scale| Box::new(Rock::new(scale.space())),
    },
    Recipe {
        name: "nginx",
        about: "a file for each object, in directories by a hash, as nginx's",
        unlike: "fills more until its manager looks",
        memory: LRU,
        storage: |scale| Box::new(Nginx::new(scale.disk)),
    },
    Recipe {
        name: "cosm",
        about: "the production store of cosm serve",
        unlike: "fills its file; its index and packets in memory beside",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, COSM),
    },
    Recipe {
        name: "cosm-all",
        about: "the same with --admission all",
        unlike: "fills its file; its index and packets in memory beside",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { admission: store::Admission::All, ..COSM }),
    },
    Recipe {
        name: "cosm-chance",
        about: "cosm-all, where chance alone keeps to --write-budget",
        unlike: "fills its file; its index and packets in memory beside",
        memory: MEMORY_TIER,
        storage: |scale| {
            cosm(scale, cosm::Parts { admission: store::Admission::All, by_chance: true, ..COSM })
        },
    },
    Recipe {
        name: "cosm-direct",
        about: "cosm, whose reads go past the filesystem's memory, as cosm serve's do",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, DIRECT),
    },
    Recipe {
        name: "cosm-direct-arrival",
        about: "cosm-direct, in the order of arrival instead of by server",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Arrival, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-directory",
        about: "cosm-direct, by directory instead of by server",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Directory, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-page",
        about: "cosm-direct, by page instead of by server (Referer)",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Page, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-client",
        about: "cosm-direct, by client instead of by server",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Client, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-next",
        about: "cosm-direct, by who asks for it next",
        unlike: "knows the trace; fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Next, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-paced",
        about: "cosm-direct, which writes a second of the trace later what is not full",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { paced: true, ..DIRECT }),
    },
    Recipe {
        name: "cosm-direct-alone",
        about: "cosm-direct-arrival without group reads",
        unlike: "fills its file; its index and packets in memory beside; no memory of the filesystem for reads",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { hint: Hint::Arrival, group: 0, ..DIRECT }),
    },
    Recipe {
        name: "cosm-census",
        about: "cosm, and what its log's bytes are: reads all of it now and then",
        unlike: "fills its file; its index and packets in memory beside",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { census: true, ..COSM }),
    },
    Recipe {
        name: "cosm-all-census",
        about: "cosm-all, and what its log's bytes are: reads all of it now and then",
        unlike: "fills its file; its index and packets in memory beside",
        memory: MEMORY_TIER,
        storage: |scale| cosm(scale, cosm::Parts { admission: store::Admission::All, census: true, ..COSM }),
    },
];

/// The recipes of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Recipe>, String> {
    policy::lookup::rows_named(names, ALL, |recipe| recipe.name, "recipe")
}
