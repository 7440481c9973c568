//! All that is counted, as one table of names, and its values as JSON.

use super::counters::{BUCKETS, Class, Counters, Kind, Metric, Number, Time, labelled, plain};
use super::shadow::Shadow;
use crate::budget::Budget;
use crate::tiers::Tiers;
use crate::tiers::memory::Memory;
use crate::tiers::stores::{DiskStats, State, Stores};
use crate::tls::NamedLife;
use serde_json::{Map, Value as Json, json};
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use store::Stats;

/// A value that is told, under `section.name`.
pub struct Row {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    /// What Prometheus calls it; the sum of a histogram is part of that.
    pub metric: Option<Metric>,
    pub help: &'static str,
    pub(super) source: Source,
}

#[derive(Clone, Copy)]
pub(super) enum Source {
    Requests(Class),
    Bytes(Class),
    Number(Number),
    Time(Time),
    Sum(Time),
    Lost,
    Offline,
    Watchers,
    Process(fn(&Process) -> u64),
    Budget(fn(&Budget) -> u64),
    /// Of a part of the process's memory: its bytes, and those that are taken.
    Part(&'static str),
    Taken(&'static str),
    Memory(fn(&Memory) -> u64),
    Store(fn(&Stats) -> u64),
    Stores(fn(&Stores) -> u64),
}

type StatRow<T> = (&'static str, Kind, Metric, &'static str, fn(&T) -> u64);

#[rustfmt::skip]
const BUDGET: &[StatRow<Budget>] = &[
    ("total", Kind::Gauge, plain("memory_limit_bytes"), "bytes of memory that the process may take", |b| b.total),
    ("heads", Kind::Gauge, labelled("transit_limit_bytes", "pool", "heads"), "bytes of that for large heads, and requests of HTTP/2 beside others", |b| b.heads.size() as u64),
    ("heads-used", Kind::Gauge, labelled("transit_used_bytes", "pool", "heads"), "of these taken", |b| b.heads.taken() as u64),
    ("origins", Kind::Gauge, labelled("transit_limit_bytes", "pool", "origins"), "bytes for bodies on their way from origins", |b| b.origins.size() as u64),
    ("origins-used", Kind::Gauge, labelled("transit_used_bytes", "pool", "origins"), "of these taken", |b| b.origins.taken() as u64),
    ("disk", Kind::Gauge, labelled("transit_limit_bytes", "pool", "disk"), "bytes for what was read from the disk for a response", |b| b.disk.size() as u64),
    ("disk-used", Kind::Gauge, labelled("transit_used_bytes", "pool", "disk"), "of these taken", |b| b.disk.taken() as u64),
];

type PartRow = (&'static str, Metric, &'static str, Source);

const fn limit(part: &'static str) -> Metric {
    labelled("memory_part_limit_bytes", "part", part)
}

const fn used(part: &'static str) -> Metric {
    labelled("memory_part_used_bytes", "part", part)
}

#[rustfmt::skip]
const PARTS: &[PartRow] = &[
    ("program", limit("program"), "bytes of `budget.total` for the program itself", Source::Part("program")),
    ("index", limit("index"), "bytes of that for the index of the cache on disk", Source::Part("index")),
    ("index-used", used("index"), "of these taken", Source::Taken("index")),
    ("store-buffers", limit("store buffers"), "bytes for packets, reads, digests", Source::Part("store buffers")),
    ("memory-tier", limit("memory tier"), "bytes for the memory tier", Source::Part("memory tier")),
    ("memory-tier-used", used("memory tier"), "of these taken, with what was lent", Source::Taken("memory tier")),
    ("group-reads", limit("group reads"), "bytes for what group reads keep", Source::Part("group reads")),
    ("in-transit", limit("in transit"), "bytes for bodies and large heads on their way", Source::Part("in transit")),
    ("in-transit-used", used("in transit"), "of these taken", Source::Taken("in transit")),
    ("connections", limit("connections"), "bytes for connections", Source::Part("connections")),
    ("connections-used", used("connections"), "of these taken, as much for each that is open", Source::Taken("connections")),
    ("access-log", limit("access log"), "bytes for lines of the access log on their way", Source::Part("access log")),
    ("shadow", limit("shadow"), "bytes for simulated policies", Source::Part("shadow")),
    ("allocator", limit("allocator"), "bytes for what the allocator keeps", Source::Part("allocator")),
];

#[rustfmt::skip]
const MEMORY: &[StatRow<Memory>] = &[
    ("objects", Kind::Gauge, plain("memory_tier_objects"), "responses and markers in the memory tier", Memory::count),
    ("bytes", Kind::Gauge, plain("memory_tier_bytes"), "bytes of memory that the memory tier takes, about", Memory::weight),
    ("lent", Kind::Gauge, plain("memory_tier_lent_bytes"), "bytes of bodies that left the memory tier while clients still take them", Memory::lent),
];

#[rustfmt::skip]
const STORE: &[StatRow<Stats>] = &[
    ("size", Kind::Gauge, plain("store_size_bytes"), "bytes of the cache file", |s| s.size),
    ("filled", Kind::Gauge, plain("store_filled_bytes"), "bytes of the segments that hold something: all, once the log has come round", |s| s.filled),
    ("lap", Kind::Gauge, plain("store_lap_seconds"), "seconds until the log comes round and an object leaves, as it is written in the last 24 hours; 0: not written", |s| s.lap),
    ("objects", Kind::Gauge, plain("store_objects"), "records that the index knows: objects, markers, pieces of large bodies", |s| s.objects),
    ("index-bytes", Kind::Gauge, plain("store_index_bytes"), "bytes of memory of the index", |s| s.index_bytes),
    ("parts-left", Kind::Gauge, plain("store_parts_left"), "parts of the index that are not loaded yet", |s| s.parts_left),
    ("puts", Kind::Counter, plain("store_puts_total"), "records taken", |s| s.engine.puts),
    ("put-bytes", Kind::Counter, plain("store_put_bytes_total"), "bytes of records and updates taken", |s| s.engine.put_bytes),
    ("refused", Kind::Counter, plain("store_refused_puts_total"), "records not taken, for writes were behind or failed", |s| s.engine.refused),
    ("swept", Kind::Counter, plain("store_swept_objects_total"), "objects that left when the sweep came by", |s| s.engine.swept),
    ("put-again", Kind::Counter, plain("store_put_again_objects_total"), "objects that were used, and written again to stay", |s| s.engine.put_again),
    ("not-admitted", Kind::Counter, plain("store_not_admitted_total"), "objects that were not worth their place, or to be written", |s| s.engine.turned_away),
    ("not-afforded", Kind::Counter, plain("store_not_afforded_total"), "objects that were turned away for the write budget alone", |s| s.engine.unaffordable),
    ("segments", Kind::Counter, plain("store_segments_total"), "segments that were closed, full or not", |s| s.engine.segments),
    ("digests", Kind::Counter, plain("store_digests_total"), "digests of the log that were written", |s| s.engine.digests),
    ("digest-age", Kind::Gauge, plain("store_digest_age_seconds"), "seconds since a digest of the log was written last, or since the start", |s| s.digest_age),
    ("undigested", Kind::Gauge, plain("store_undigested_segments"), "segments since the last digest, whose tables a start reads", |s| s.undigested),
    ("write-errors", Kind::Counter, plain("store_write_errors_total"), "writes and syncs that failed; each is tried again", |s| s.engine.write_errors),
    ("writes-fail", Kind::Gauge, plain("store_writes_fail"), "1 while a write has failed and was neither written nor given up", |s| s.writes_fail.into()),
    ("given-up", Kind::Counter, plain("store_packets_given_up_total"), "packets whose place takes no writes", |s| s.engine.given_up),
    ("device-reads", Kind::Counter, plain("store_device_reads_total"), "reads from the device", |s| s.device_reads),
    ("device-read-bytes", Kind::Counter, plain("store_device_read_bytes_total"), "bytes read from the device", |s| s.device_read_bytes),
    ("device-writes", Kind::Counter, plain("store_device_writes_total"), "writes to the device", |s| s.device_writes),
    ("device-written-bytes", Kind::Counter, plain("store_device_written_bytes_total"), "bytes written to the device", |s| s.device_written_bytes),
    ("waiting-reads", Kind::Gauge, plain("store_waiting_reads"), "reads that wait for the device now", |s| s.waiting_reads),
    ("waiting-writes", Kind::Gauge, plain("store_waiting_writes"), "packets and flushes that are being written, or wait for that", |s| s.waiting_writes),
    ("write-budget", Kind::Gauge, plain("store_write_budget_bytes"), "bytes that may be written to the device in 24 hours; 0: any number", |s| s.write_budget),
    ("written-last-day", Kind::Gauge, plain("store_written_last_day_bytes"), "bytes given to the device to write in the last 24 hours, or since the start", |s| s.written_last_day),
    ("bad-records", Kind::Counter, plain("store_bad_records_total"), "records that proved torn, damaged or overwritten when read", |s| s.bad_records),
    ("read-errors", Kind::Counter, plain("store_read_errors_total"), "reads that failed", |s| s.read_errors),
    ("group-reads", Kind::Counter, plain("store_group_reads_total"), "reads that brought what lies around, too", |s| s.group_reads),
    ("saved-reads", Kind::Counter, plain("store_saved_reads_total"), "reads that group reads saved", |s| s.saved_reads),
    ("busy-reads", Kind::Counter, plain("store_busy_reads_total"), "reads refused because the disk kept others waiting", |s| s.busy_reads),
    ("off-peak", Kind::Gauge, plain("store_off_peak"), "1 in off-peak hours, when the scrub reads", |s| s.off_peak.into()),
    ("scrub-segments", Kind::Counter, plain("store_scrub_segments_total"), "segments that the scrub has gone through", |s| s.scrub.segments),
    ("scrub-bytes", Kind::Counter, plain("store_scrub_verified_bytes_total"), "bytes of records that the scrub verified", |s| s.scrub.bytes),
    ("scrub-damaged", Kind::Counter, plain("store_scrub_damaged_records_total"), "records that the scrub found damaged, and forgot", |s| s.scrub.damaged),
    ("scrub-unreadable", Kind::Counter, plain("store_scrub_unreadable_records_total"), "records that the scrub could not read, and forgot", |s| s.scrub.unreadable),
    ("scrub-tables", Kind::Counter, plain("store_scrub_damaged_tables_total"), "segments whose table of contents the scrub found damaged or missing", |s| s.scrub.tables),
    ("scrub-behind", Kind::Gauge, plain("store_scrub_behind_segments"), "segments that the scrub should have gone through by now, and has not", |s| s.scrub_behind),
    ("scrub-yields", Kind::Counter, plain("store_scrub_yields_total"), "times that the scrub waited for clients or writes", |s| s.scrub.yields),
    ("scrub-yielded", Kind::Counter, Metric { per: 1000, ..plain("store_scrub_yielded_seconds_total") }, "time that the scrub waited for clients or writes; in stats.json milliseconds", |s| s.scrub.yielded),
];

#[rustfmt::skip]
const STORES: &[StatRow<Stores>] = &[
    ("disks", Kind::Gauge, plain("disks_serving"), "disks that serve", |s| s.count(State::Serves)),
    ("disks-left", Kind::Gauge, plain("disks_left"), "disks that are left until they work", |s| s.count(State::Left)),
    ("remembered", Kind::Gauge, plain("disks_remembered_keys"), "changed keys that a disk has to be told of when it comes back, at most 262,144", Stores::remembered),
];

#[rustfmt::skip]
const PROCESS: &[StatRow<Process>] = &[
    ("start-time", Kind::Gauge, plain("start_time_seconds"), "when it was started, in seconds since 1970", |p| p.start_time),
    ("uptime", Kind::Gauge, plain("uptime_seconds"), "seconds since then", |p| p.uptime),
    ("resident-bytes", Kind::Gauge, plain("resident_memory_bytes"), "bytes of memory that the process has; 0: unknown", |p| p.resident),
];

/// The process that serves.
pub(super) struct Process {
    start_time: u64,
    uptime: u64,
    resident: u64,
}

impl Process {
    fn since(started: SystemTime) -> Process {
        let start_time = started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let uptime = started.elapsed().map_or(0, |since| since.as_secs());
        Process { start_time, uptime, resident: resident().unwrap_or(0) }
    }
}

/// As Linux tells it.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// All that is told. Names stay as they are.
pub fn rows() -> Vec<Row> {
    let row = |section, name, kind, metric, help, source| Row { section, name, kind, metric, help, source };
    let mut rows = Vec::new();
    let counter = |section, family, (name, help), source| {
        row(section, name, Kind::Counter, Some(labelled(family, "outcome", name)), help, source)
    };
    for &(class, about) in Class::ALL {
        rows.push(counter("requests", "requests_total", about, Source::Requests(class)));
    }
    for &(class, about) in Class::ALL {
        rows.push(counter("bytes", "sent_bytes_total", about, Source::Bytes(class)));
    }
    for &(number, (section, name, kind, metric, help)) in Number::ALL {
        rows.push(row(section, name, kind, Some(metric), help, Source::Number(number)));
    }
    for &(time, (section, name, sum, metric, help)) in Time::ALL {
        rows.push(row(section, name, Kind::Histogram, Some(metric), help, Source::Time(time)));
        rows.push(row(section, sum, Kind::Counter, None, "nanoseconds of these together", Source::Sum(time)));
    }
    rows.push(row(
        "origin",
        "offline",
        Kind::Gauge,
        Some(plain("offline")),
        "1 while stale responses answer without asking origins (--offline)",
        Source::Offline,
    ));
    add(&mut rows, "process", PROCESS, Source::Process);
    rows.push(row(
        "access-log",
        "lost",
        Kind::Counter,
        Some(plain("access_log_lost_lines_total")),
        "lines of the access log that could not be written, or were too many at once",
        Source::Lost,
    ));
    rows.push(row(
        "access-log",
        "watchers",
        Kind::Gauge,
        Some(plain("access_log_watchers")),
        "who read the requests as they end (cosm log)",
        Source::Watchers,
    ));
    add(&mut rows, "budget", BUDGET, Source::Budget);
    let of_part =
        |&(name, metric, help, source): &PartRow| row("parts", name, Kind::Gauge, Some(metric), help, source);
    rows.extend(PARTS.iter().map(of_part));
    add(&mut rows, "memory", MEMORY, Source::Memory);
    add(&mut rows, "store", STORE, Source::Store);
    add(&mut rows, "store", STORES, Source::Stores);
    rows
}

fn add<T>(
    rows: &mut Vec<Row>,
    section: &'static str,
    table: &[StatRow<T>],
    source: fn(fn(&T) -> u64) -> Source,
) {
    rows.extend(table.iter().map(|&(name, kind, metric, help, of)| Row {
        section,
        name,
        kind,
        metric: Some(metric),
        help,
        source: source(of),
    }));
}

/// What is counted now, of all workers.
pub struct Now<'a> {
    workers: &'a [Arc<Counters>],
    budget: &'a Budget,
    tiers: &'a Tiers,
    process: Process,
    lost: u64,
    /// Of all stores that serve, if there are any.
    stats: Option<Stats>,
    pub(super) shadow: Option<&'a Shadow>,
    is_offline: bool,
    watchers: u64,
    parts: Vec<Part>,
    pub(super) disks: Vec<DiskStats>,
    pub(super) certificates: Vec<NamedLife>,
}

/// A part of the process's memory.
pub struct Part {
    pub name: &'static str,
    pub bytes: u64,
    /// Of these, where that is known.
    pub taken: Option<u64>,
}

/// What a row says.
pub(super) enum Value {
    Number(u64),
    /// The elements, and the sum in nanoseconds.
    Histogram(Box<[u64; BUCKETS]>, u64),
}

impl<'a> Now<'a> {
    pub fn of(
        workers: &'a [Arc<Counters>],
        (budget, tiers): (&'a Budget, &'a Tiers),
        started: SystemTime,
        lost: u64,
    ) -> Now<'a> {
        let disks = tiers.stores.disks();
        let stats = disks.iter().filter_map(|disk| disk.stats).reduce(Stats::and);
        Now {
            workers,
            budget,
            tiers,
            process: Process::since(started),
            lost,
            stats,
            shadow: None,
            is_offline: false,
            watchers: 0,
            parts: Vec::new(),
            disks,
            certificates: Vec::new(),
        }
    }

    /// What is simulated beside.
    pub fn beside(self, shadow: Option<&'a Shadow>) -> Now<'a> {
        Now { shadow, ..self }
    }

    pub fn watched(self, watchers: u64) -> Now<'a> {
        Now { watchers, ..self }
    }

    pub fn certified(self, certificates: Vec<NamedLife>) -> Now<'a> {
        Now { certificates, ..self }
    }

    pub fn offline(self, is_offline: bool) -> Now<'a> {
        Now { is_offline, ..self }
    }

    /// As the settings divide the memory of the process, with so many connections at most.
    pub fn divided(mut self, parts: &[(&'static str, u64)], connections: usize) -> Now<'a> {
        let (budget, memory, open) = (self.budget, &self.tiers.memory, self.number(Number::Open));
        let taken = |name: &str, bytes: u64| match name {
            "index" => self.stats.as_ref().map(|stats| stats.index_bytes),
            "memory tier" => Some(memory.weight() + memory.lent()),
            "in transit" => Some(
                [&budget.heads, &budget.origins, &budget.disk].map(|pool| pool.taken() as u64).iter().sum(),
            ),
            "connections" => Some(bytes / connections.max(1) as u64 * open),
            _ => None,
        };
        self.parts =
            parts.iter().map(|&(name, bytes)| Part { name, bytes, taken: taken(name, bytes) }).collect();
        self
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.workers.iter().fold(0u64, |sum, counters| sum.wrapping_add(of(counters)))
    }

    pub(super) fn requests(&self, class: Class) -> u64 {
        self.sum(|counters| counters.requests(class))
    }

    pub(super) fn bytes(&self, class: Class) -> u64 {
        self.sum(|counters| counters.bytes(class))
    }

    pub(super) fn number(&self, number: Number) -> u64 {
        self.sum(|counters| counters.number(number))
    }

    pub(super) fn times(&self, time: Time) -> [u64; BUCKETS] {
        let all: Vec<_> = self.workers.iter().map(|counters| counters.times(time)).collect();
        std::array::from_fn(|n| all.iter().map(|times| times[n]).sum())
    }

    /// Of all stores that serve, if there are any.
    pub fn store(&self) -> Option<&Stats> {
        self.stats.as_ref()
    }

    /// Of a store, without one, nothing.
    pub(super) fn value(&self, source: Source) -> Option<Value> {
        Some(Value::Number(match source {
            Source::Requests(class) => self.requests(class),
            Source::Bytes(class) => self.bytes(class),
            Source::Number(number) => self.number(number),
            Source::Sum(time) => self.sum(|counters| counters.sum(time)),
            Source::Time(time) => {
                let sum = self.sum(|counters| counters.sum(time));
                return Some(Value::Histogram(Box::new(self.times(time)), sum));
            }
            Source::Lost => self.lost,
            Source::Watchers => self.watchers,
            Source::Offline => self.is_offline.into(),
            Source::Process(of) => of(&self.process),
            Source::Budget(of) => of(self.budget),
            Source::Part(name) => self.part(name).map_or(0, |part| part.bytes),
            Source::Taken(name) => self.part(name).and_then(|part| part.taken).unwrap_or(0),
            Source::Memory(of) => of(&self.tiers.memory),
            Source::Store(of) => of(self.stats.as_ref()?),
            Source::Stores(of) if !self.disks.is_empty() => of(&self.tiers.stores),
            Source::Stores(_) => return None,
        }))
    }
}

/// As a JSON object of sections. Without a store, there is no section of it.
pub fn json(now: &Now<'_>) -> String {
    let mut sections = Map::new();
    for row in rows() {
        let value = match now.value(row.source) {
            Some(Value::Number(number)) => number.into(),
            Some(Value::Histogram(elements, _)) => elements.to_vec().into(),
            None => continue,
        };
        let section = sections.entry(row.section).or_insert_with(|| Map::new().into());
        section[row.name] = value;
    }
    if now.disks.len() > 1 {
        sections.insert("disks".into(), now.disks.iter().map(disk).collect());
    }
    if let Some(shadow) = now.shadow {
        sections.insert("shadow".into(), shadow.json());
    }
    format!("{:#}\n", Json::Object(sections))
}

/// One of several disks.
fn disk(disk: &DiskStats) -> Json {
    let state = match disk.state {
        State::Serves => "serves",
        State::Left => "left",
    };
    let mut told = json!({ "name": disk.name, "state": state, "share": disk.share });
    for (name, _, _, _, of) in STORE {
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
