//! What a full cache costs to hold in memory, and how soon it is warm again after `kill -9`.
//!
//! One contender after the other: a million files of each of them at a time would fill disks.

use super::super::contender::{Contender, Tier};
use super::super::field::Field;
use super::super::figure::{self, Figures};
use super::super::running::{Need, Running};
use super::{KEPT, Name, Results, SETTLE, forget_pages, plan};
use crate::body::mix;
use crate::load::{self, Order, Outcome, Plan};
use crate::usage::held;
use std::thread::sleep;
use std::time::Duration;

const MEMORY: &str = "memory";
const RESTART: &str = "restart";
/// A cache that reads nothing more from its store and had no hit by then has lost what it had.
const PATIENCE: Duration = Duration::from_secs(5);
const MIB: f64 = (1 << 20) as f64;

pub fn run(field: &Field, wanted: &[Name], results: &mut Results) {
    let standing = &field.scale.standing;
    eprintln!("memory and restart with {} objects", standing.objects);
    for contender in field.at_home(Tier::Disk) {
        match filled(field, contender) {
            Ok((mut running, figures)) => {
                if wanted.contains(&Name::Memory) {
                    results.take(MEMORY, contender.name, 0, Ok(figures));
                }
                let restarts = if wanted.contains(&Name::Restart) { standing.restarts } else { 0 };
                for round in 0..restarts {
                    if !results.take(RESTART, contender.name, round, restart(field, &mut running, round)) {
                        break;
                    }
                }
            }
            Err(why) => {
                results.take(MEMORY, contender.name, 0, Err(why));
            }
        }
    }
}

/// A full cache, and what each object took.
fn filled(field: &Field, contender: Contender) -> Result<(Running, Figures), String> {
    let standing = &field.scale.standing;
    let need = Need {
        tier: Tier::Disk,
        memory: 0,
        objects: standing.objects,
        object_bytes: standing.object_bytes,
        limit: None,
    };
    let running = Running::start(field, contender, &need)?;
    let once = |from, to| {
        let order = Order::Once(from..to);
        load::run(&Plan { order, ..plan(field, &running, standing.object_bytes) })
            .and_then(|outcome| outcome.fault().map_or(Ok(()), Err))
    };
    let held_now = || held(running.server()?.pid()).map(|bytes| bytes as f64);
    let tenth = standing.objects / 10;
    let empty = held_now()?;
    once(0, tenth)?;
    let begun = held_now()?;
    once(tenth, standing.objects)?;
    // The last packets are out then: what they held in memory is no growth for an object.
    sleep(SETTLE);
    let full = held_now()?;
    let there = ask(field, &running, sample(field, 0))?;
    let kept = there.hits as f64 / there.requests as f64;
    if kept < KEPT {
        return Err(format!("{:.1} % of what it fetched was there afterwards", 100.0 * kept));
    }
    let figures = vec![
        (&figure::PER_OBJECT, (full - empty) / (kept * standing.objects as f64)),
        (&figure::FURTHER_OBJECT, (full - begun) / (kept * (standing.objects - tenth) as f64)),
        (&figure::FIXED, empty / MIB),
        (&figure::FULL, full / MIB),
        (&figure::KEPT, 100.0 * kept),
    ];
    Ok((running, figures))
}

fn restart(field: &Field, running: &mut Running, round: u32) -> Result<Figures, String> {
    sleep(SETTLE);
    let mut formerly = ask(field, running, sample(field, 1 + u64::from(round)))?.hit_numbers.into_iter();
    let share = formerly.len() / 3;
    let mut some = || formerly.by_ref().take(share).collect::<Vec<_>>();
    let (first, second, mut others) = (some(), some(), some());
    if first.is_empty() {
        return Err("nothing was there before the restart".into());
    }
    running.kill();
    forget_pages()?;
    running.begin(field)?;
    let started = running.server()?.started();
    let before = started.elapsed().as_secs_f64();
    let at_once = ask(field, running, first)?;
    let mut first_hit = at_once.first_hit_seconds.map(|seconds| before + seconds);
    while first_hit.is_none()
        && (running.is_rebuilding() || started.elapsed() < PATIENCE)
        && let Some(other) = others.pop()
    {
        sleep(Duration::from_millis(5));
        let offset = started.elapsed().as_secs_f64();
        first_hit = ask(field, running, vec![other])?.first_hit_seconds.map(|seconds| offset + seconds);
    }
    let rebuilds = running.is_rebuilding();
    running.wait_rebuilt()?;
    let rebuilt = if rebuilds { 1e3 * started.elapsed().as_secs_f64() } else { f64::NAN };
    let later = ask(field, running, second)?;
    let percent = |outcome: &Outcome| 100.0 * outcome.hits as f64 / outcome.requests as f64;
    Ok(vec![
        (&figure::FIRST_HIT, 1e3 * first_hit.unwrap_or(f64::NAN)),
        (&figure::BACK, percent(&at_once)),
        (&figure::BACK_LATER, percent(&later)),
        (&figure::REBUILT, rebuilt),
    ])
}

/// Numbers drawn from all objects, each one time.
fn sample(field: &Field, seed: u64) -> Vec<u64> {
    let standing = &field.scale.standing;
    let mut numbers: Vec<u64> =
        (0..standing.sample).map(|step| mix(mix(seed + 1000) ^ step) % standing.objects).collect();
    numbers.sort_by_key(|number| mix(mix(seed) ^ *number));
    numbers.dedup();
    numbers
}

/// One connection and every body checked.
fn ask(field: &Field, running: &Running, numbers: Vec<u64>) -> Result<Outcome, String> {
    let size = field.scale.standing.object_bytes;
    let order = Order::Listed(numbers);
    let outcome = load::run(&Plan { order, connections: 1, check_every: 1, ..plan(field, running, size) })?;
    outcome.fault().map_or(Ok(outcome), Err)
}
