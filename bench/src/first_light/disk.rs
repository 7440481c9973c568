//! Fill, disk hits and restart on one cache without a memory tier; and fill of a cache that is full.

use super::field::{Field, discard};
use super::restart::{self, Restart};
use super::run::{Run, Title, measure as run};
use super::scale::DISK_OBJECT;
use crate::load::{self, Order, Plan, Speaks};
use crate::process::Server;
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// Until what was put last is on the device: more than the flush interval.
pub const SETTLE: Duration = Duration::from_millis(2500);

pub fn measure(field: &Field) -> Result<(Vec<Run>, Vec<Restart>), String> {
    eprintln!("fill of new space, disk hits, restart");
    let cache = field.cache_file("disk");
    let start = || field.cosm(&cache, &format!("{}GiB", field.scale.cache_gib), "0");
    let cosm = start()?;
    let mut runs = fill(field, &cosm, "fill, new space", 0..field.scale.disk_objects)?;
    for round in 0..field.scale.rounds {
        runs.push(hit(field, &cosm, round)?);
    }
    let restarts = restart::measure(field, cosm, start)?;
    discard(&cache)?;
    Ok((runs, restarts))
}

pub fn refill(field: &Field) -> Result<Vec<Run>, String> {
    eprintln!("fill of a full cache");
    let cache = field.cache_file("refill");
    let mebibytes = field.scale.refill_cache_mib;
    let cosm = field.cosm(&cache, &format!("{mebibytes}MiB"), "0")?;
    // Once around and a quarter more: the sweep is at work, and all space was written before.
    let before = (mebibytes << 20) * 5 / 4 / DISK_OBJECT;
    load::run(&Plan { order: Order::Once(0..before), ..plan(field, &cosm) })?;
    sleep(SETTLE);
    let runs = fill(field, &cosm, "fill, full cache", before..before + field.scale.disk_objects)?;
    cosm.kill();
    discard(&cache)?;
    Ok(runs)
}

/// As many runs as there are rounds, each with its share of the objects.
fn fill(field: &Field, cosm: &Server, scenario: &str, objects: Range<u64>) -> Result<Vec<Run>, String> {
    let rounds = field.scale.rounds;
    let bound = |round| objects.start + (objects.end - objects.start) * u64::from(round) / u64::from(rounds);
    let one = |round| {
        let title = Title { scenario, contender: "cosm", round, server: cosm };
        let order = Order::Once(bound(round)..bound(round + 1));
        run(field, &title, &Plan { order, ..plan(field, cosm) }, SETTLE)
    };
    (0..rounds).map(one).collect()
}

fn hit(field: &Field, cosm: &Server, round: u32) -> Result<Run, String> {
    let title = Title { scenario: "disk hit 8 KB", contender: "cosm", round, server: cosm };
    let plan = Plan {
        order: Order::Random(0..field.scale.disk_objects, u64::from(round)),
        lasts: Some(Duration::from_secs_f64(field.scale.seconds)),
        ..plan(field, cosm)
    };
    run(field, &title, &plan, Duration::ZERO)
}

/// What all loads of these parts have in common; the order is for each to say.
pub fn plan(field: &Field, server: &Server) -> Plan {
    Plan {
        target: field.forward(server),
        speaks: Speaks::Http,
        size: DISK_OBJECT,
        workload: None,
        order: Order::Once(0..0),
        connections: field.scale.connections,
        lasts: None,
        check_every: 64,
    }
}
