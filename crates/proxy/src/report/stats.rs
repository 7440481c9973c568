//! All that is counted, as one table of names, and its values as JSON.

use super::counters::{Class, Counters, Kind, Number, Time};
use crate::budget::Budget;
use crate::tiers::Tiers;
use crate::tiers::memory::Memory;
use crate::tiers::stores::{DiskStats, State, Stores};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use store::Stats;

/// A value that is told, under `section.name`.
pub struct Row {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    source: Source,
}

#[derive(Clone, Copy)]
enum Source {
    Requests(Class),
    Bytes(Class),
    Number(Number),
    Time(Time),
    Budget(fn(&Budget) -> u64),
    Memory(fn(&Memory) -> u64),
    Store(fn(&Stats) -> u64),
    Stores(fn(&Stores) -> u64),
}

type StatRow<T> = (&'static str, Kind, &'static str, fn(&T) -> u64);

#[rustfmt::skip]
const BUDGET: &[StatRow<Budget>] = &[
    ("total", Kind::Gauge, "bytes of memory that the process may take", |b| b.total),
    ("heads", Kind::Gauge, "bytes of that for large heads of requests", |b| b.heads.size() as u64),
    ("heads-used", Kind::Gauge, "of these taken", |b| b.heads.taken() as u64),
    ("origins", Kind::Gauge, "bytes for bodies on their way from origins", |b| b.origins.size() as u64),
    ("origins-used", Kind::Gauge, "of these taken", |b| b.origins.taken() as u64),
    ("disk", Kind::Gauge, "bytes for what was read from the disk for a response", |b| b.disk.size() as u64),
    ("disk-used", Kind::Gauge, "of these taken", |b| b.disk.taken() as u64),
];

const MEMORY: &[StatRow<Memory>] = &[
    ("objects", Kind::Gauge, "responses and markers in the memory tier", Memory::count),
    ("bytes", Kind::Gauge, "bytes of memory that they take, about", Memory::weight),
    ("lent", Kind::Gauge, "bytes of bodies that left it while clients still take them", Memory::lent),
];

#[rustfmt::skip]
const STORE: &[StatRow<Stats>] = &[
    ("size", Kind::Gauge, "bytes of the cache file", |s| s.size),
    ("objects", Kind::Gauge, "records that the index knows: objects, markers, pieces of large bodies", |s| s.objects),
    ("index-bytes", Kind::Gauge, "bytes of memory of the index", |s| s.index_bytes),
    ("parts-left", Kind::Gauge, "parts of the index that are not loaded yet", |s| s.parts_left),
    ("puts", Kind::Counter, "records taken", |s| s.engine.puts),
    ("put-bytes", Kind::Counter, "bytes of records and updates taken", |s| s.engine.put_bytes),
    ("refused", Kind::Counter, "records not taken, for writes were behind or failed", |s| s.engine.refused),
    ("swept", Kind::Counter, "objects that left when the sweep came by", |s| s.engine.swept),
    ("put-again", Kind::Counter, "objects that were used, and written again to stay", |s| s.engine.put_again),
    ("not-admitted", Kind::Counter, "objects that were not worth their place, or to be written", |s| s.engine.turned_away),
    ("not-afforded", Kind::Counter, "of these, objects that were turned away for the write budget alone", |s| s.engine.unaffordable),
    ("segments", Kind::Counter, "segments that were opened", |s| s.engine.segments),
    ("digests", Kind::Counter, "digests of the log that were written", |s| s.engine.digests),
    ("write-errors", Kind::Counter, "writes and syncs that failed; each is tried again", |s| s.engine.write_errors),
    ("writes-fail", Kind::Gauge, "1 while a write has failed and was neither written nor given up", |s| s.writes_fail.into()),
    ("given-up", Kind::Counter, "packets whose place takes no writes", |s| s.engine.given_up),
    ("device-reads", Kind::Counter, "reads from the device", |s| s.device_reads),
    ("device-read-bytes", Kind::Counter, "bytes read from the device", |s| s.device_read_bytes),
    ("device-writes", Kind::Counter, "writes to the device", |s| s.device_writes),
    ("device-written-bytes", Kind::Counter, "bytes written to the device", |s| s.device_written_bytes),
    ("write-budget", Kind::Gauge, "bytes that may be written to the device in 24 hours; 0: any number", |s| s.write_budget),
    ("written-last-day", Kind::Gauge, "bytes given to the device to write in the last 24 hours, or since the start", |s| s.written_last_day),
    ("bad-records", Kind::Counter, "records that proved torn, damaged or overwritten when read", |s| s.bad_records),
    ("read-errors", Kind::Counter, "reads that failed", |s| s.read_errors),
    ("group-reads", Kind::Counter, "reads that brought what lies around, too", |s| s.group_reads),
    ("saved-reads", Kind::Counter, "reads that these saved", |s| s.saved_reads),
    ("busy-reads", Kind::Counter, "reads refused because the disk kept others waiting", |s| s.busy_reads),
    ("off-peak", Kind::Gauge, "1 in off-peak hours, when the scrub reads", |s| s.off_peak.into()),
    ("scrub-segments", Kind::Counter, "segments that the scrub has gone through", |s| s.scrub.segments),
    ("scrub-bytes", Kind::Counter, "bytes of records that it verified", |s| s.scrub.bytes),
    ("scrub-damaged", Kind::Counter, "records that it found damaged, and forgot", |s| s.scrub.damaged),
    ("scrub-unreadable", Kind::Counter, "records that it could not read, and forgot", |s| s.scrub.unreadable),
    ("scrub-tables", Kind::Counter, "segments whose table of contents it found damaged", |s| s.scrub.tables),
    ("scrub-behind", Kind::Gauge, "segments that it should have gone through by now, and has not", |s| s.scrub_behind),
    ("scrub-yields", Kind::Counter, "times that it waited for clients or writes", |s| s.scrub.yields),
    ("scrub-yielded", Kind::Counter, "milliseconds that it waited for them", |s| s.scrub.yielded),
];

#[rustfmt::skip]
const STORES: &[StatRow<Stores>] = &[
    ("disks", Kind::Gauge, "disks that serve", |s| s.count(State::Serves)),
    ("disks-left", Kind::Gauge, "disks that are left until they work", |s| s.count(State::Left)),
    ("remembered", Kind::Gauge, "changed keys that a disk has to be told of when it comes back, at most 262,144", Stores::remembered),
];

/// All that is told. Names stay as they are.
pub fn rows() -> Vec<Row> {
    let row = |section, name, kind, help, source| Row { section, name, kind, help, source };
    let mut rows = Vec::new();
    for &(class, (name, help)) in Class::ALL {
        rows.push(row("requests", name, Kind::Counter, help, Source::Requests(class)));
    }
    for &(class, (name, help)) in Class::ALL {
        rows.push(row("bytes", name, Kind::Counter, help, Source::Bytes(class)));
    }
    for &(number, (section, name, kind, help)) in Number::ALL {
        rows.push(row(section, name, kind, help, Source::Number(number)));
    }
    for &(time, (name, help)) in Time::ALL {
        rows.push(row("first-byte", name, Kind::Histogram, help, Source::Time(time)));
    }
    rows.extend(
        BUDGET.iter().map(|&(name, kind, help, of)| row("budget", name, kind, help, Source::Budget(of))),
    );
    rows.extend(
        MEMORY.iter().map(|&(name, kind, help, of)| row("memory", name, kind, help, Source::Memory(of))),
    );
    rows.extend(
        STORE.iter().map(|&(name, kind, help, of)| row("store", name, kind, help, Source::Store(of))),
    );
    rows.extend(
        STORES.iter().map(|&(name, kind, help, of)| row("store", name, kind, help, Source::Stores(of))),
    );
    rows
}

/// What is counted now, of all workers, as a JSON object of sections. Without a store, there is no section of it.
pub fn json(workers: &[Arc<Counters>], budget: &Budget, tiers: &Tiers) -> String {
    let stats = tiers.stores.stats();
    let sum = |of: &dyn Fn(&Counters) -> u64| -> Value {
        workers.iter().fold(0u64, |sum, counters| sum.wrapping_add(of(counters))).into()
    };
    let mut sections = Map::new();
    for row in rows() {
        let value = match row.source {
            Source::Requests(class) => sum(&|counters| counters.requests(class)),
            Source::Bytes(class) => sum(&|counters| counters.bytes(class)),
            Source::Number(number) => sum(&|counters| counters.number(number)),
            Source::Time(time) => {
                let all: Vec<_> = workers.iter().map(|counters| counters.times(time)).collect();
                (0..super::counters::BUCKETS).map(|n| all.iter().map(|times| times[n]).sum::<u64>()).collect()
            }
            Source::Budget(of) => of(budget).into(),
            Source::Memory(of) => of(&tiers.memory).into(),
            Source::Store(of) => match &stats {
                Some(stats) => of(stats).into(),
                None => continue,
            },
            Source::Stores(_) if stats.is_none() => continue,
            Source::Stores(of) => of(&tiers.stores).into(),
        };
        let section = sections.entry(row.section).or_insert_with(|| Map::new().into());
        section[row.name] = value;
    }
    let disks: Vec<Value> = tiers.stores.disks().iter().map(disk).collect();
    if !disks.is_empty() {
        sections.insert("disks".into(), disks.into());
    }
    format!("{:#}\n", Value::Object(sections))
}

/// One of several disks.
fn disk(disk: &DiskStats) -> Value {
    let state = match disk.state {
        State::Serves => "serves",
        State::Left => "left",
    };
    let mut told = json!({ "name": disk.name, "state": state, "share": disk.share });
    for (name, _, _, of) in STORE {
        if let Some(stats) = &disk.stats {
            told[*name] = of(stats).into();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_operators_tells_all() {
        let page = include_str!("../../../../docs/caching.md");
        let lines = rows().into_iter().filter_map(|Row { section, name, kind, help, .. }| match section {
            "requests" => Some(format!("| `requests.{name}`, `bytes.{name}` | {kind:?} | {help} |")),
            "bytes" => None,
            _ => Some(format!("| `{section}.{name}` | {kind:?} | {help} |")),
        });
        let lacks: Vec<_> = lines.filter(|line| !page.lines().any(|found| found == line)).collect();
        assert!(lacks.is_empty(), "docs/caching.md lacks:\n{}", lacks.join("\n"));
    }
}
