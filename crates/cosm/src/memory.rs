//! `--memory-total` divided: what of the process's memory each part of it may take. Printed by `--check` and, in one line, at
//! the start; what cannot fit is refused before anything is opened.

use crate::access_log;
use crate::machine::Machine;
use crate::settings::{CacheMemory, Config};
use crate::values::say_size;
use proxy::{Answers, Speaks, say};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;
use store::{Memory, Options};

const MIB: u64 = 1 << 20;

/// The program itself: its file as far as it is in memory, threads of the store, tables that do not grow. Measured.
const PROGRAM: u64 = 16 * MIB;
/// A worker: its thread, its ring, and what its runtime and the allocator keep for it.
const WORKER: u64 = 2 * MIB;
/// A client's connection with a request that waits for its origin, and the connection to that (results/2026-11-21); heads up to
/// `budget::HEAD`, and of a response that is not taken up to `budget::HELD_ANYWAY`. One that idles takes half of it.
const CONNECTION: u64 = 40 << 10;
/// What one over TLS takes beside: the library's state and buffers, and a record that its client does not take (results/2026-11-25/tls.txt).
const TLS: u64 = 32 << 10;
/// What one of HTTP/2 takes beside: the library's buffers and tables (results/2026-11-25/http2.txt).
const HTTP2: u64 = 36 << 10;
/// The allocator's, for each byte of the rest: pages that are partly used, and those that it keeps for a while.
const ALLOCATOR: u64 = 12;

/// The least in which large pages (docs/decisions.md) have a place: what is freed in between small things stays in them, up to
/// as much again as what they hold.
const LARGE_PAGES: u64 = 512 * MIB;

const INDEX: &str = "index";

/// Of the memory tier, what group reads keep is one in so many bytes (docs/decisions.md).
const GROUPS: u64 = 32;

/// Connections that `auto` is at least, and at most.
const CONNECTIONS: (u64, u64) = (64, 100_000);
/// Bytes of disk for an object, marker or piece of a body, on average: the index has room for so many at least.
const OBJECT: u64 = 8 << 10;
/// The index of a cache that has many more.
const SMALL_OBJECT: u64 = 512;

/// For how long one of several disks is waited for, to see how large its cache is.
const ANSWER: Duration = Duration::from_secs(5);

/// A part of the budget.
#[derive(Debug)]
pub struct Part {
    pub name: &'static str,
    pub bytes: u64,
    /// What it follows from.
    pub from: String,
}

/// Fills in what the settings leave to `--memory-total`, and says how that is divided; or what would do.
pub fn divide(config: &mut Config, machine: &Machine) -> Result<Vec<Part>, String> {
    let workers = config.proxy.workers as u64;
    let disks = disks(config, workers);
    let disk = disks.iter().copied().reduce(both);
    let usable = |total: u64| total - total / ALLOCATOR;

    let recent = if config.proxy.admin.is_some() { proxy::RECENT } else { 0 };
    let is_tls = config.proxy.listen.iter().any(|listen| listen.speaks == Speaks::Tls);
    let is_http2 = config.proxy.http2.on;
    let connection = CONNECTION + if is_tls { TLS } else { 0 } + if is_http2 { HTTP2 } else { 0 };
    let (auto, bounds) = (config.auto, &mut config.proxy.bounds);
    let connections = if auto.connections { CONNECTIONS.0 } else { bounds.connections as u64 };
    // First what each part takes at least.
    let mut sizes = Sizes {
        program: PROGRAM
            + workers * (WORKER + proxy::SPAN_CACHE + recent)
            + if is_tls { proxy::TLS_BEYOND as u64 } else { 0 },
        index: disk.map_or(0, |disk| disk.index),
        buffers: disk.map_or(0, |disk| disk.sum() - disk.index)
            + if disks.len() > 1 { proxy::JOURNAL } else { 0 },
        tier: if auto.memory { 0 } else { bounds.memory_bytes },
        groups: 0,
        transit: proxy::transit_least(bounds.head_bytes),
        connection,
        connections: connections.saturating_mul(connection),
        log: config.access_log.to.as_ref().map_or(0, |_| access_log::memory(workers)),
        shadow: if config.proxy.shadow.is_empty() { 0 } else { policy::shadow::MEMORY },
    };
    let cache = disk.map_or(0, |disk| disk.size);
    let least = sizes.sum();
    // The least of which as much is usable, in whole MiB.
    let mut enough = least / MIB * ALLOCATOR / (ALLOCATOR - 1);
    while usable(enough * MIB) < least {
        enough += 1;
    }
    if auto.total {
        config.memory_total = (machine.memory / 2).max(enough * MIB).min(machine.memory);
    }
    let total = config.memory_total;
    let Some(mut spare) = usable(total).checked_sub(least) else {
        let needs: Vec<String> = sizes
            .parts(workers, cache)
            .iter()
            .filter(|part| part.bytes > 0)
            .map(|p| format!("{} {}", p.name, mib(p.bytes)))
            .collect();
        return Err(format!(
            "--memory-total {} is too little: {}; at least {enough}MiB would do",
            say_size(total),
            needs.join(", ")
        ));
    };
    // What is spare goes first to what makes hits cheap to find, then to those who ask, then to what answers at once.
    if let Some(disk) = disk {
        let more = (disk.size / SMALL_OBJECT * 11).saturating_sub(sizes.index).min(spare / 32);
        spare -= more;
        sizes.index += more;
    }
    if auto.connections {
        let more = (spare / 4 / connection).min(CONNECTIONS.1 - CONNECTIONS.0);
        let count = (connections + more).min(machine.connections_by_descriptors()).max(CONNECTIONS.0);
        spare -= (count - connections) * connection;
        sizes.connections = count * connection;
        bounds.connections = count as usize;
    }
    let more = if auto.memory { spare / 4 } else { spare };
    spare -= more;
    sizes.transit += more;
    sizes.tier += spare;
    if config.stores().iter().any(|store| store.group > 0) {
        sizes.groups = sizes.tier / GROUPS;
        sizes.tier -= sizes.groups;
    }
    let share = |bytes: u64, n: usize| {
        let size = disks.get(n).map_or(0, |disk| disk.size);
        (u128::from(bytes) * u128::from(size) / u128::from(cache.max(1))) as u64
    };
    // Each has what it needs at least, which is not in proportion to its size.
    let least = |n: usize| disks.get(n).map_or(0, |disk| disk.index);
    let more = sizes.index - disk.map_or(0, |disk| disk.index);
    config.give_memory(|n| CacheMemory {
        entries: Some(Memory::entries(least(n) + share(more, n))),
        groups: share(sizes.groups, n),
    });
    let bounds = &mut config.proxy.bounds;
    bounds.total_bytes = total;
    bounds.transit_bytes = sizes.transit;
    bounds.memory_bytes = sizes.tier;
    let mut parts = sizes.parts(workers, cache);
    parts.push(Part { name: "allocator", bytes: total / ALLOCATOR, from: "a twelfth".into() });
    config.proxy.memory_parts = parts.iter().map(|part| (part.name, part.bytes)).collect();
    Ok(parts)
}

/// Bytes of each part.
struct Sizes {
    program: u64,
    index: u64,
    buffers: u64,
    tier: u64,
    groups: u64,
    transit: u64,
    /// One, and all of them.
    connection: u64,
    connections: u64,
    log: u64,
    shadow: u64,
}

impl Sizes {
    fn sum(&self) -> u64 {
        let Sizes { program, index, buffers, tier, groups, transit, connections, log, shadow, .. } = *self;
        [program, index, buffers, tier, groups, transit, connections, log, shadow]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    fn parts(&self, workers: u64, cache: u64) -> Vec<Part> {
        let part = |name, bytes, from: String| Part { name, bytes, from };
        vec![
            part("program", self.program, format!("{workers} worker(s)")),
            part(INDEX, self.index, format!("of a cache of {}", say_size(cache))),
            part("store buffers", self.buffers, "packets, reads, digests".into()),
            part("memory tier", self.tier, "--memory".into()),
            part("group reads", self.groups, "a 32nd of --memory".into()),
            part("in transit", self.transit, "bodies and large heads".into()),
            part(
                "connections",
                self.connections,
                format!("{} of --connections-max", self.connections / self.connection),
            ),
            part("access log", self.log, "lines on their way".into()),
            part("shadow", self.shadow, "simulated policies".into()),
        ]
    }
}

/// What each cache on disk takes. One that cannot be looked at is thought to be as large as its setting says, or as the others; where it
/// is alone it takes nothing, and opening it will tell why.
fn disks(config: &Config, workers: u64) -> Vec<Memory> {
    let stores = config.stores();
    let found = match &stores[..] {
        [alone] => vec![Memory::of(alone, workers, OBJECT).ok()],
        stores => look(stores, workers),
    };
    let sizes: Vec<u64> = found.iter().flatten().map(|disk| disk.size).collect();
    if sizes.is_empty() {
        return Vec::new();
    }
    let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
    let unseen = |store: &Options| {
        let (path, size) = (PathBuf::new(), store.size.or(Some(mean)));
        Memory::of(&Options { path, size, ..store.clone() }, workers, OBJECT).ok()
    };
    stores.iter().zip(found).filter_map(|(store, found)| found.or_else(|| unseen(store))).collect()
}

/// Each by a thread of its own: a disk that does not answer is not waited for.
fn look(stores: &[Options], workers: u64) -> Vec<Option<Memory>> {
    let (send, received) = channel();
    for (n, store) in stores.iter().enumerate() {
        let (send, store) = (send.clone(), store.clone());
        std::thread::spawn(move || send.send((n, Memory::of(&store, workers, OBJECT).ok())));
    }
    drop(send);
    let mut found = vec![None; stores.len()];
    let names = stores.iter().map(|store| store.path.display().to_string());
    Answers::new(received, names, ANSWER, say).for_each(|(n, memory)| found[n] = memory);
    found
}

/// Two caches as one.
fn both(one: Memory, other: Memory) -> Memory {
    Memory {
        size: one.size + other.size,
        index: one.index + other.index,
        packets: one.packets + other.packets,
        digests: one.digests + other.digests,
        reads: one.reads + other.reads,
    }
}

/// Has the kernel give small pages alone where memory is too little for large ones.
pub fn page_sizes(total: u64) {
    if total < LARGE_PAGES {
        // A kernel that does not know it takes more memory, as it did.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

/// Says so when what a cache holds already needs a larger index than there is memory for.
pub fn index_too_large(parts: &[Part], bytes: u64) -> Option<String> {
    let part = parts.iter().find(|part| part.name == INDEX)?;
    (bytes > part.bytes).then(|| {
        format!(
            "the index of what this cache holds takes {}, and --memory-total leaves {} for it: objects leave until it fits",
            mib(bytes),
            mib(part.bytes)
        )
    })
}

/// The division as lines of a table.
pub fn table(total: u64, parts: &[Part]) -> Vec<String> {
    let line = |part: &Part| format!("  {:<14}{:>12}  {}", part.name, mib(part.bytes), part.from);
    let mut lines = vec![format!("memory {}:", mib(total))];
    lines.extend(parts.iter().filter(|part| part.bytes > 0).map(line));
    lines
}

/// The division on one line.
pub fn summary(total: u64, parts: &[Part]) -> String {
    let parts: Vec<String> =
        parts.iter().filter(|part| part.bytes > 0).map(|p| format!("{} {}", p.name, mib(p.bytes))).collect();
    format!("memory {} at most: {}", mib(total), parts.join(", "))
}

fn mib(bytes: u64) -> String {
    match bytes >> 20 {
        0..10 => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        whole => format!("{whole} MiB"),
    }
}
