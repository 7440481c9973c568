//! What is measured of everyone: one row each, one file a kind.

mod curve;
mod disk;
mod foxy;
mod memory_hit;
mod secure;
mod standing;

pub use curve::{Curve, Point};

use super::contender::Tier;
use super::field::Field;
use super::figure::{Figures, Refused, Row};
use super::running::{Need, Running};
use crate::load::{Order, Plan, Speaks};
use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    MemoryHit,
    DiskHit,
    Fill,
    /// Foxy's experiment, a connection a request.
    Foxy,
    /// The same with connections used again.
    FoxyReuse,
    /// A connection a request, on a slow disk.
    Throttled,
    Restart,
    Memory,
    /// Memory hits over TLS.
    TlsHit,
    /// Connections over TLS of one request each, with resumption and without.
    Handshake,
    /// Memory hits by HTTP/2 over TLS.
    Http2Hit,
    /// Objects that must be fetched, for clients that speak HTTP/2.
    Http2Fill,
}

/// What came of all.
#[derive(Default, Serialize)]
pub struct Results {
    pub rows: Vec<Row>,
    pub curves: Vec<Curve>,
    pub refused: Vec<Refused>,
}

struct Scenario {
    /// Those that are measured together, since they share a cache.
    names: &'static [Name],
    /// Who is at home there takes part.
    tier: Tier,
    run: fn(&Field, &[Name], &mut Results),
}

const ALL: [Scenario; 7] = [
    Scenario { names: &[Name::MemoryHit], tier: Tier::Memory, run: memory_hit::run },
    Scenario {
        names: &[Name::TlsHit, Name::Handshake, Name::Http2Hit, Name::Http2Fill],
        tier: Tier::Tls,
        run: secure::run,
    },
    Scenario { names: &[Name::Fill, Name::DiskHit], tier: Tier::Disk, run: disk::run },
    Scenario { names: &[Name::Memory, Name::Restart], tier: Tier::Disk, run: standing::run },
    Scenario { names: &[Name::Foxy], tier: Tier::Disk, run: foxy::once },
    Scenario { names: &[Name::FoxyReuse], tier: Tier::Disk, run: foxy::again },
    Scenario { names: &[Name::Throttled], tier: Tier::Disk, run: foxy::throttled },
];

impl Scenario {
    fn is_wanted(&self, wanted: &[Name]) -> bool {
        self.names.iter().any(|name| wanted.contains(name))
    }
}

/// All when none is named.
fn or_all(wanted: &[Name]) -> &[Name] {
    if wanted.is_empty() { Name::value_variants() } else { wanted }
}

/// Those of the wanted scenarios.
pub fn tiers(wanted: &[Name]) -> Vec<Tier> {
    let wanted = or_all(wanted);
    ALL.iter().filter(|scenario| scenario.is_wanted(wanted)).map(|scenario| scenario.tier).collect()
}

/// Those that are wanted; all when none is named.
pub fn run(field: &Field, wanted: &[Name], results: &mut Results) {
    let wanted = or_all(wanted);
    for scenario in ALL {
        if scenario.is_wanted(wanted) {
            (scenario.run)(field, wanted, results);
        }
    }
}

/// Another begins the next round: what a disk gives may depend on what it just gave.
fn next_begins<T>(all: &mut [T]) {
    all.rotate_left(1.min(all.len()));
}

impl Results {
    /// Keeps figures or the reason why there are none; whether there are some.
    fn take(
        &mut self,
        scenario: &str,
        one: &'static str,
        round: u32,
        found: Result<Figures, String>,
    ) -> bool {
        match found {
            Ok(figures) => {
                let shown: Vec<String> = figures
                    .iter()
                    .map(|(figure, value)| format!("{} {value:.*}", figure.label, figure.decimals))
                    .collect();
                eprintln!("  {scenario:<17} {one:<14} {}", shown.join("  "));
                self.rows.push(Row { scenario: scenario.into(), contender: one, round, figures });
                true
            }
            Err(why) => {
                eprintln!("  {scenario:<17} {one:<14} no figure: {why}");
                self.refused.push(Refused { scenario: scenario.into(), contender: one, why });
                false
            }
        }
    }
}

/// Starts all that are at home in a tier; who does not start is left out and said why.
fn start_all(field: &Field, need: &Need, scenario: &str, results: &mut Results) -> Vec<Running> {
    let mut all = Vec::new();
    for contender in field.at_home(need.tier) {
        match Running::start(field, contender, need) {
            Ok(running) => all.push(running),
            Err(why) => {
                results.take(scenario, contender.name, 0, Err(why));
            }
        }
    }
    all
}

/// A closed loop; the order is for each scenario to say.
fn plan(field: &Field, running: &Running, size: u64) -> Plan {
    Plan {
        target: running.target(),
        speaks: Speaks::Http,
        size,
        workload: None,
        order: Order::Once(0..0),
        connections: field.scale.connections,
        lasts: None,
        check_every: 64,
    }
}

/// A cache that did not keep this share of what it was given was not filled: some shed what comes too fast, and the
/// share that they kept stands beside their figures.
const KEPT: f64 = 0.5;

/// Until what was put last is on its way to the device: more than anyone's flush interval.
const SETTLE: Duration = Duration::from_millis(1500);

/// The disk is read only when the kernel has not kept what was written.
fn forget_pages() -> Result<(), String> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| format!("drop the page cache: {e}"))
}

fn disk_need(field: &Field) -> Need {
    let disk = &field.scale.disk;
    Need {
        tier: Tier::Disk,
        memory: disk.tier_bytes,
        objects: disk.objects,
        object_bytes: disk.object_bytes,
        limit: Some(disk.limit_bytes),
    }
}
