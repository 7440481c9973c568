//! `--memory-total` divided: what of the process's memory each part of it may take. Printed by `--check` and, in one line, at
//! the start; what cannot fit is refused before anything is opened.

use crate::machine::Machine;
use crate::settings::Config;
use crate::values::say_size;
use store::Memory;

const MIB: u64 = 1 << 20;

/// The program itself: its file as far as it is in memory, threads of the store, tables that do not grow. Measured.
const PROGRAM: u64 = 16 * MIB;
/// A worker: its thread, its ring, and what its runtime and the allocator keep for it.
const WORKER: u64 = 2 * MIB;
/// A client's connection with a request that waits for its origin, and the connection to that (results/2026-11-21).
const CONNECTION: u64 = 40 << 10;
/// The allocator's, for each byte of the rest: pages that are partly used, and those that it keeps for a while.
const ALLOCATOR: u64 = 12;

/// Connections that `auto` is at least, and at most.
const CONNECTIONS: (u64, u64) = (64, 100_000);
/// Newer metadata of objects that stay where they lie, at least and at most.
const OVERLAY: (u64, u64) = (MIB, store::DEFAULT_OVERLAY as u64);
/// Bytes of disk for an object, marker or piece of a body, on average: the index has room for so many at least.
const OBJECT: u64 = 8 << 10;
/// The index of a cache that has many more.
const SMALL_OBJECT: u64 = 512;

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
    let disk = disk(config, workers);
    let usable = |total: u64| total - total / ALLOCATOR;

    let (auto, bounds) = (config.auto, &mut config.proxy.bounds);
    let connections = if auto.connections { CONNECTIONS.0 } else { bounds.connections as u64 };
    let program = PROGRAM + workers * WORKER;
    let index = disk.map_or(0, |disk| disk.index);
    let buffers = disk.map_or(0, |disk| disk.sum() - disk.index);
    let tier = if auto.memory { 0 } else { bounds.memory_bytes };
    let least = [program, index, buffers, tier, proxy::TRANSIT_LEAST, connections.saturating_mul(CONNECTION)];
    let least = least.into_iter().fold(0, u64::saturating_add);

    let mut parts = vec![
        Part { name: "program", bytes: program, from: format!("{workers} worker(s)") },
        Part { name: "index", bytes: index, from: String::new() },
        Part { name: "store buffers", bytes: buffers, from: "packets, reads, updates, checkpoints".into() },
        Part { name: "memory tier", bytes: tier, from: "--memory".into() },
        Part { name: "in transit", bytes: proxy::TRANSIT_LEAST, from: "bodies and large heads".into() },
        Part {
            name: "connections",
            bytes: connections * CONNECTION,
            from: format!("{connections} of --connections-max"),
        },
    ];
    if let Some(disk) = disk {
        parts[1].from = format!("of a cache of {}", say_size(disk.size));
    }
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
        let needs: Vec<String> = parts
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
    let mut overlay = OVERLAY.0;
    if let Some(disk) = disk {
        let more = (disk.size / SMALL_OBJECT * 15).saturating_sub(index).min(spare / 32);
        spare -= more;
        parts[1].bytes += more;
        let more = (spare / 16).min(OVERLAY.1 - OVERLAY.0) / 4 * 4;
        spare -= more / 4 * 5;
        parts[2].bytes += more / 4 * 5;
        overlay += more;
    }
    if auto.connections {
        let more = (spare / 4 / CONNECTION).min(CONNECTIONS.1 - CONNECTIONS.0);
        let count = (connections + more).min(machine.connections_by_descriptors()).max(CONNECTIONS.0);
        spare -= (count - connections) * CONNECTION;
        parts[5].bytes = count * CONNECTION;
        parts[5].from = format!("{count} of --connections-max");
        bounds.connections = count as usize;
    }
    let more = if auto.memory { spare / 4 } else { spare };
    spare -= more;
    parts[4].bytes += more;
    parts[3].bytes += spare;
    parts.push(Part { name: "allocator", bytes: total / ALLOCATOR, from: "a twelfth".into() });

    bounds.total_bytes = total;
    bounds.transit_bytes = parts[4].bytes;
    bounds.memory_bytes = parts[3].bytes;
    config.overlay_of(overlay as usize);
    config.index_of(Memory::entries(parts[1].bytes));
    Ok(parts)
}

/// What the cache on disk takes; nothing when there is none, or it cannot be opened, which opening it will tell.
fn disk(config: &mut Config, workers: u64) -> Option<Memory> {
    config.overlay_of(OVERLAY.0 as usize);
    Memory::of(config.store()?, workers, OBJECT).ok()
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
