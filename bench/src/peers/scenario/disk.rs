//! Fill and disk hits, on one cache without a memory tier and under a limit of memory, so that the disk is really read.

use super::super::field::Field;
use super::super::figure::{self, Figures};
use super::super::measured::measure;
use super::super::running::Running;
use super::{KEPT, Name, Results, SETTLE, disk_need, forget_pages, next_begins, plan, start_all};
use crate::body::mix;
use crate::load::{self, Order, Plan};
use std::sync::Arc;
use std::time::Duration;

/// Hits that may be misses after all.
const LOST: f64 = 0.02;
/// Times that everything is asked for, until what was there stays there.
const PASSES: u32 = 5;
const ASKED_AGAIN: u64 = 1000;

const FILL: &str = "fill 8 KB";
const HIT: &str = "disk hit 8 KB";

pub fn run(field: &Field, wanted: &[Name], results: &mut Results) {
    eprintln!("fill and disk hits");
    let rounds = field.scale.rounds;
    let mut all = start_all(field, &disk_need(field), FILL, results);
    for round in 0..rounds {
        // One whose fill was refused may still have hits: it goes on.
        for running in &all {
            results.take(FILL, running.contender.name, round, fill(field, running, round));
        }
        next_begins(&mut all);
    }
    if wanted.contains(&Name::DiskHit) {
        let mut ready = Vec::new();
        for running in all {
            let name = running.contender.name;
            match there(field, &running) {
                Ok(there) => ready.push((running, there)),
                Err(why) => {
                    results.take(HIT, name, 0, Err(why));
                }
            }
        }
        if let Err(why) = forget_pages() {
            eprintln!("  {why}");
        }
        for round in 0..rounds {
            ready.retain(|(running, there)| {
                results.take(HIT, running.contender.name, round, hit(field, running, there, round))
            });
            next_begins(&mut ready);
        }
    }
    if !wanted.contains(&Name::Fill) {
        results.rows.retain(|row| row.scenario != FILL);
    }
}

/// Its share of the objects, each for the first time.
fn fill(field: &Field, running: &Running, round: u32) -> Result<Figures, String> {
    let disk = &field.scale.disk;
    let bound = |round: u32| disk.objects * u64::from(round) / u64::from(field.scale.rounds);
    let (from, to) = (bound(round), bound(round + 1));
    let plan = plan(field, running, disk.object_bytes);
    let once = Plan { order: Order::Once(from..to), ..plan.clone() };
    let measured = measure(field, running, &once, SETTLE)?;
    if measured.asked.requests < to - from {
        return Err(format!("the origin was asked for {} of {} misses", measured.asked.requests, to - from));
    }
    let again = (0..ASKED_AGAIN).map(|nth| from + mix(nth) % (to - from)).collect();
    let again = load::run(&Plan { order: Order::Listed(again), check_every: 1, ..plan })?;
    again.fault().map_or(Ok(()), Err)?;
    let kept = again.hits as f64 / again.requests as f64;
    if kept < KEPT {
        return Err(format!("{:.1} % of what it fetched was there afterwards", 100.0 * kept));
    }
    let mut figures = measured.requests();
    figures.splice(4..4, measured.device_writes());
    figures.push((&figure::KEPT, 100.0 * kept));
    Ok(figures)
}

/// The objects that are there: those that a cache did not keep, or displaced again, are no disk hits.
fn there(field: &Field, running: &Running) -> Result<Arc<Vec<u64>>, String> {
    let objects = field.scale.disk.objects;
    let mut there: Vec<u64> = (0..objects).collect();
    for _ in 0..PASSES {
        let order = Order::Listed(there.clone());
        let outcome = load::run(&Plan { order, ..plan(field, running, field.scale.disk.object_bytes) })?;
        outcome.fault().map_or(Ok(()), Err)?;
        let missed = outcome.requests - outcome.hits;
        there = outcome.hit_numbers;
        if (missed as f64) < LOST / 4.0 * outcome.requests as f64
            && there.len() as f64 > KEPT * objects as f64
        {
            return Ok(Arc::new(there));
        }
    }
    Err(format!("{} of {objects} objects were still there after {PASSES} passes", there.len()))
}

fn hit(field: &Field, running: &Running, there: &Arc<Vec<u64>>, round: u32) -> Result<Figures, String> {
    let disk = &field.scale.disk;
    let random = Plan {
        order: Order::Drawn(Arc::clone(there), u64::from(round)),
        lasts: Some(Duration::from_secs_f64(field.scale.seconds)),
        ..plan(field, running, disk.object_bytes)
    };
    let measured = measure(field, running, &random, Duration::ZERO)?.all_hits(LOST)?;
    let mut figures = measured.requests();
    figures.splice(4..4, measured.device_reads());
    figures.push((&figure::HITS, 100.0 * measured.hit_share()));
    Ok(figures)
}
