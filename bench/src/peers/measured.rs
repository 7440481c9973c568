//! One timed run: the load's outcome together with what contender, origin, device and machine did meanwhile.

use super::field::Field;
use super::figure::{self, Figures};
use super::running::Running;
use crate::load::{self, Outcome, Plan};
use crate::origin::Asked;
use crate::usage::{Device, Process, machine_busy};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Measured {
    pub load: Outcome,
    pub process: Process,
    pub device: Option<Device>,
    /// What the origin was asked for meanwhile.
    pub asked: Asked,
    /// Cores that were busy with neither contender nor load nor origin: others, and the kernel's own threads.
    pub others_cores: f64,
}

/// Counts until `settle` after the last response, when all is on the device: what a run leaves to be written belongs
/// to it.
pub fn measure(field: &Field, running: &Running, plan: &Plan, settle: Duration) -> Result<Measured, String> {
    let before = Moment::now(field, running)?;
    let load = load::run(plan)?;
    if !settle.is_zero() {
        sleep(settle);
        rustix::fs::sync();
    }
    let after = Moment::now(field, running)?;
    load.fault().map_or(Ok(()), Err)?;
    let process = after.process - before.process;
    let ours = process.cpu_seconds() + after.origin - before.origin + load.load_cpu_seconds;
    Ok(Measured {
        load,
        process,
        device: after.device.zip(before.device).map(|(after, before)| after - before),
        asked: after.asked.since(before.asked),
        others_cores: (after.busy - before.busy - ours).max(0.0) / (after.at - before.at).as_secs_f64(),
    })
}

/// What is counted, at one time.
pub struct Moment {
    pub at: Instant,
    pub process: Process,
    pub origin: f64,
    pub device: Option<Device>,
    pub asked: Asked,
    pub busy: f64,
}

impl Moment {
    pub fn now(field: &Field, running: &Running) -> Result<Moment, String> {
        Ok(Moment {
            at: Instant::now(),
            process: Process::of_tree(running.server()?.pid()),
            origin: Process::of(field.origin.pid())?.cpu_seconds(),
            device: Device::under(&field.folder),
            asked: field.asked()?,
            busy: machine_busy().unwrap_or(f64::NAN),
        })
    }
}

impl Measured {
    /// The share of requests that the origin was not asked for.
    pub fn hit_share(&self) -> f64 {
        1.0 - self.asked.requests as f64 / self.load.requests as f64
    }

    /// A run in which more was fetched than that is not one of hits.
    pub fn all_hits(self, but: f64) -> Result<Measured, String> {
        if 1.0 - self.hit_share() <= but {
            return Ok(self);
        }
        Err(format!("the origin was asked for {} of {} hits", self.asked.requests, self.load.requests))
    }

    pub fn requests(&self) -> Figures {
        vec![
            (&figure::PER_CPU_SECOND, self.load.requests as f64 / self.process.cpu_seconds()),
            (&figure::PER_SECOND, self.load.per_second()),
            (&figure::P50, self.load.p50_us),
            (&figure::P99, self.load.p99_us),
            (&figure::CORE, self.process.cpu_seconds() / self.load.seconds),
            (&figure::LOAD_CORE, (self.load.load_busy_seconds + self.asked.busy_seconds) / self.load.seconds),
            (&figure::OTHERS, self.others_cores),
        ]
    }

    pub fn device_reads(&self) -> Figures {
        let Some(device) = self.device else { return Vec::new() };
        vec![
            (&figure::READS, self.per_request(device.reads)),
            (&figure::READ_BYTES, self.per_request(device.read_bytes)),
            (&figure::OWN_READ_BYTES, self.per_request(self.process.read_bytes)),
        ]
    }

    pub fn device_writes(&self) -> Figures {
        let Some(device) = self.device else { return Vec::new() };
        vec![
            (&figure::WRITES, self.per_request(device.writes)),
            (&figure::WRITTEN_BYTES, self.per_request(device.written_bytes)),
            (&figure::OWN_WRITTEN_BYTES, self.per_request(self.process.written_bytes)),
        ]
    }

    fn per_request(&self, count: u64) -> f64 {
        count as f64 / self.load.requests as f64
    }
}
