//! Resident bytes of the proxy for each object on disk.

use super::disk::SETTLE;
use super::field::{Field, discard};
use crate::load::{self, Order, Plan};
use crate::process::Server;
use crate::usage::resident;
use serde::Serialize;
use std::ops::Range;
use std::thread::sleep;

const SIZE: u64 = 1024;
const STEPS: u64 = 10;
const ASKED_AGAIN: u64 = 2000;

#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    pub objects: u64,
    pub samples: Vec<Sample>,
    /// Of a few objects asked for again: growth means something only if they are there.
    pub hit_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub objects: u64,
    pub resident_bytes: u64,
}

impl Memory {
    /// Ready, before the first request.
    pub fn fixed(&self) -> u64 {
        self.samples.first().map_or(0, |sample| sample.resident_bytes)
    }
    /// Growth from the first request to the last object, buffers and connections included.
    pub fn bytes_per_object(&self) -> f64 {
        growth(self.samples.first(), self.samples.last())
    }
    /// Growth from the first tenth on, when buffers and connections are there.
    pub fn bytes_per_further_object(&self) -> f64 {
        growth(self.samples.get(1), self.samples.last())
    }
}

fn growth(from: Option<&Sample>, to: Option<&Sample>) -> f64 {
    let Some((from, to)) = from.zip(to) else { return f64::NAN };
    (to.resident_bytes as f64 - from.resident_bytes as f64) / (to.objects - from.objects) as f64
}

pub fn measure(field: &Field) -> Result<Memory, String> {
    let objects = field.scale.memory_objects;
    eprintln!("memory of {objects} objects");
    let cache = field.cache_file("memory");
    let cosm = field.cosm(&cache, &format!("{}GiB", field.scale.cache_gib), "0")?;
    let mut samples = vec![sample(&cosm, 0)?];
    for step in 0..STEPS {
        let part = objects * step / STEPS..objects * (step + 1) / STEPS;
        samples.push(fill(field, &cosm, part)?);
    }
    // The last packets are out now: what they held in memory is no growth for an object.
    sleep(SETTLE);
    samples.push(sample(&cosm, objects)?);
    let hit_share = ask_again(field, &cosm, objects)?;
    cosm.kill();
    discard(&cache)?;
    Ok(Memory { objects, samples, hit_share })
}

fn fill(field: &Field, cosm: &Server, part: Range<u64>) -> Result<Sample, String> {
    let outcome = load::run(&plan(field, cosm, Order::Once(part.clone())))?;
    let sample = sample(cosm, part.end)?;
    let rate = outcome.per_second();
    eprintln!("  {:>8} objects, {:>4} MiB resident, {rate:.0}/s", part.end, sample.resident_bytes >> 20);
    outcome.fault().map_or(Ok(sample), Err)
}

fn sample(cosm: &Server, objects: u64) -> Result<Sample, String> {
    Ok(Sample { objects, resident_bytes: resident(cosm.pid())? })
}

fn ask_again(field: &Field, cosm: &Server, objects: u64) -> Result<f64, String> {
    let some = (0..ASKED_AGAIN).map(|nth| nth * objects / ASKED_AGAIN).collect();
    let outcome = load::run(&plan(field, cosm, Order::Listed(some)))?;
    Ok(outcome.hits as f64 / outcome.requests as f64)
}

fn plan(field: &Field, cosm: &Server, order: Order) -> Plan {
    Plan { size: SIZE, order, ..super::disk::plan(field, cosm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_taken_from_the_start_and_from_the_first_tenth() {
        let sample = |objects, resident_bytes| Sample { objects, resident_bytes };
        let samples = vec![sample(0, 1000), sample(100, 3000), sample(1000, 12_000)];
        let memory = Memory { objects: 1000, samples, hit_share: 1.0 };
        assert_eq!(memory.fixed(), 1000);
        assert_eq!(memory.bytes_per_object(), 11.0);
        assert_eq!(memory.bytes_per_further_object(), 10.0);
    }
}
