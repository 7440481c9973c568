//! How soon the cache is warm after the proxy was killed.

use super::disk::{SETTLE, plan};
use super::field::Field;
use crate::body::mix;
use crate::load::{self, Order, Plan};
use crate::process::Server;
use serde::Serialize;
use std::thread::sleep;
use std::time::Instant;

#[derive(Clone, Debug, Serialize)]
pub struct Restart {
    /// From exec to the line that says where it listens.
    pub ready_seconds: f64,
    /// From exec to the last byte of the first object that came from disk.
    pub first_hit_seconds: Option<f64>,
    /// Of the sample, before the kill.
    pub hits_before: u64,
    /// Of those, after it.
    pub hits_after: u64,
}

impl Restart {
    pub fn kept(&self) -> f64 {
        self.hits_after as f64 / self.hits_before.max(1) as f64
    }
}

/// Kills and starts as often as wanted; each start recovers what the one before left.
pub fn measure(
    field: &Field,
    mut cosm: Server,
    start: impl Fn() -> Result<Server, String>,
) -> Result<Vec<Restart>, String> {
    let mut restarts = Vec::new();
    for round in 0..field.scale.restarts {
        sleep(SETTLE);
        let formerly = ask(field, &cosm, sample(field, u64::from(round)))?.hit_numbers;
        cosm.kill();
        cosm = start()?;
        restarts.push(after(field, &cosm, formerly)?);
    }
    Ok(restarts)
}

fn after(field: &Field, cosm: &Server, formerly: Vec<u64>) -> Result<Restart, String> {
    let hits_before = formerly.len() as u64;
    let asked = Instant::now();
    let outcome = ask(field, cosm, formerly)?;
    let since_exec = (asked - cosm.started()).as_secs_f64();
    let restart = Restart {
        ready_seconds: cosm.ready().as_secs_f64(),
        first_hit_seconds: outcome.first_hit_seconds.map(|seconds| since_exec + seconds),
        hits_before,
        hits_after: outcome.hits,
    };
    eprintln!(
        "  restart: ready after {:.1} ms, first hit after {:.1} ms, {} of {hits_before} hit again",
        1e3 * restart.ready_seconds,
        1e3 * restart.first_hit_seconds.unwrap_or(f64::NAN),
        restart.hits_after,
    );
    Ok(restart)
}

/// Numbers drawn from all objects; one may be drawn twice.
fn sample(field: &Field, seed: u64) -> Vec<u64> {
    let draw = |step| mix(mix(seed + 1000) ^ step) % field.scale.disk_objects;
    (0..field.scale.restart_sample).map(draw).collect()
}

/// One connection and every body checked: the first answer is what is timed.
fn ask(field: &Field, cosm: &Server, numbers: Vec<u64>) -> Result<load::Outcome, String> {
    let plan = Plan { order: Order::Listed(numbers), connections: 1, check_every: 1, ..plan(field, cosm) };
    let outcome = load::run(&plan)?;
    outcome.fault().map_or(Ok(outcome), |fault| Err(format!("restart: {fault}")))
}
