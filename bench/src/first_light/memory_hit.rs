//! Memory hits: a few hot objects, next to hyper and a bare epoll loop that answer without looking.

use super::field::{Field, discard};
use super::run::{Run, Title, measure as run};
use crate::load::{self, Order, Plan, Speaks};
use crate::process::Server;
use std::time::Duration;

const SIZES: [u64; 3] = [1 << 10, 4 << 10, 64 << 10];
const REFERENCES: [&str; 2] = ["hyper", "bare"];

/// Answers at one size.
struct Reference {
    name: &'static str,
    size: u64,
    server: Server,
}

pub fn measure(field: &Field) -> Result<Vec<Run>, String> {
    eprintln!("memory hits");
    let cache = field.cache_file("memory-hit");
    let cosm = field.cosm(&cache, "1GiB", "64MiB")?;
    let mut references = Vec::new();
    for size in SIZES {
        warm(&hot(field, &cosm, size))?;
        for name in REFERENCES {
            references.push(Reference { name, size, server: field.reference(name, size)? });
        }
    }
    let mut runs = Vec::new();
    for round in 0..field.scale.rounds {
        for size in SIZES {
            let rivals = references.iter().filter(|reference| reference.size == size);
            runs.extend(take_turns(field, &cosm, rivals, size, round)?);
        }
    }
    cosm.kill();
    discard(&cache)?;
    Ok(runs)
}

fn take_turns<'a>(
    field: &Field,
    cosm: &Server,
    rivals: impl Iterator<Item = &'a Reference>,
    size: u64,
    round: u32,
) -> Result<Vec<Run>, String> {
    let scenario = format!("memory hit {} KB", size >> 10);
    let one = |contender, server, plan: &Plan| {
        let title = Title { scenario: &scenario, contender, round, server };
        run(field, &title, plan, Duration::ZERO)
    };
    let mut runs = vec![all_hits(one("cosm", cosm, &hot(field, cosm, size))?)?];
    for rival in rivals {
        runs.push(one(rival.name, &rival.server, &fixed(field, &rival.server, size))?);
    }
    Ok(runs)
}

fn hot(field: &Field, server: &Server, size: u64) -> Plan {
    Plan {
        target: field.forward(server),
        speaks: Speaks::Http,
        size,
        workload: None,
        order: Order::Cycle(0..field.scale.memory_hit_objects),
        connections: field.scale.connections,
        lasts: Some(Duration::from_secs_f64(field.scale.seconds)),
        check_every: 256,
    }
}

/// The references hold one object, number 0.
fn fixed(field: &Field, server: &Server, size: u64) -> Plan {
    Plan { order: Order::Cycle(0..1), ..hot(field, server, size) }
}

fn warm(plan: &Plan) -> Result<(), String> {
    load::run(&Plan { connections: 1, lasts: Some(Duration::from_millis(500)), ..plan.clone() }).map(|_| ())
}

/// A run in which something was fetched is not one of memory hits.
fn all_hits(run: Run) -> Result<Run, String> {
    let missed = run.load.requests - run.load.hits;
    if missed > 0 {
        return Err(format!("{}: {missed} of {} requests were not hits", run.scenario, run.load.requests));
    }
    Ok(run)
}
