//! One timed run: the load's outcome together with what proxy, origin, device and machine did meanwhile.

use super::field::Field;
use crate::load::{self, Outcome, Plan};
use crate::origin::{self, Asked};
use crate::process::Server;
use crate::usage::{Device, Process, machine_busy};
use serde::Serialize;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub scenario: String,
    pub contender: &'static str,
    pub round: u32,
    /// Bytes of the objects' bodies.
    pub object_bytes: u64,
    pub load: Outcome,
    pub proxy: Process,
    pub origin: Asked,
    /// Everyone's traffic on the device that holds the cache.
    pub device: Option<Device>,
    /// Cores that were busy with neither proxy nor load nor origin: others, and the kernel's own threads.
    pub others_cores: Option<f64>,
}

/// What a run is called and whom it measures.
pub struct Title<'a> {
    pub scenario: &'a str,
    pub contender: &'static str,
    pub round: u32,
    pub server: &'a Server,
}

/// Counts until `settle` after the last response: what a run leaves to be written belongs to it.
pub fn measure(field: &Field, title: &Title, plan: &Plan, settle: Duration) -> Result<Run, String> {
    let before = Moment::now(field, title.server)?;
    let load = load::run(plan)?;
    sleep(settle);
    let after = Moment::now(field, title.server)?;
    if let Some(fault) = load.fault() {
        return Err(format!("{}, {}: {fault}", title.scenario, title.contender));
    }
    let proxy = after.proxy - before.proxy;
    let ours = proxy.cpu_seconds() + after.origin - before.origin + load.load_cpu_seconds;
    let busy = after.busy.zip(before.busy).map(|(after, before)| after - before);
    let run = Run {
        scenario: title.scenario.into(),
        contender: title.contender,
        round: title.round,
        object_bytes: plan.size,
        proxy,
        origin: after.asked.since(before.asked),
        device: after.device.zip(before.device).map(|(after, before)| after - before),
        others_cores: busy.map(|busy| (busy - ours).max(0.0) / (after.at - before.at).as_secs_f64()),
        load,
    };
    eprintln!("  {}", run.line());
    Ok(run)
}

struct Moment {
    at: Instant,
    proxy: Process,
    origin: f64,
    asked: Asked,
    device: Option<Device>,
    busy: Option<f64>,
}

impl Moment {
    fn now(field: &Field, server: &Server) -> Result<Moment, String> {
        Ok(Moment {
            at: Instant::now(),
            proxy: Process::of(server.pid())?,
            origin: Process::of(field.origin.pid())?.cpu_seconds(),
            asked: origin::asked(field.origin.address())?,
            device: Device::under(&field.folder),
            busy: machine_busy(),
        })
    }
}

impl Run {
    pub fn per_cpu_second(&self) -> f64 {
        self.load.requests as f64 / self.proxy.cpu_seconds()
    }
    pub fn hit_share(&self) -> f64 {
        self.load.hits as f64 / self.load.requests as f64
    }
    /// Of one core, while the load ran.
    pub fn proxy_share(&self) -> f64 {
        self.proxy.cpu_seconds() / self.load.seconds
    }
    /// Of one core: generator and origin together, which share one.
    pub fn load_share(&self) -> f64 {
        (self.load.load_busy_seconds + self.origin.busy_seconds) / self.load.seconds
    }
    /// The proxy had to wait for the load: requests a second and latencies tell of the load's core.
    pub fn load_was_limit(&self) -> bool {
        self.load_share() > 0.9 && self.proxy_share() < 0.9
    }
    pub fn per_request(&self, count: u64) -> f64 {
        count as f64 / self.load.requests as f64
    }
    /// Bytes of bodies that went to clients; in a fill, those that were cached.
    pub fn body_bytes(&self) -> f64 {
        (self.load.requests * self.object_bytes) as f64
    }

    fn line(&self) -> String {
        format!(
            "{:<17} {:<5} {:>7.0} requests/CPU-s {:>7.0}/s  p50 {:>5.0} µs  p99 {:>6.0} µs  hits {:>5.1} %  \
             cores: proxy {:.2}, load {:.2}, others {:.2}",
            self.scenario,
            self.contender,
            self.per_cpu_second(),
            self.load.per_second(),
            self.load.p50_us,
            self.load.p99_us,
            100.0 * self.hit_share(),
            self.proxy_share(),
            self.load_share(),
            self.others_cores.unwrap_or(0.0)
        )
    }
}
