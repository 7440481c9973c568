//! What a while costs this process and the device.

use crate::drive::Cost;
use crate::usage::{Device, Process};
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub struct Meter {
    folder: PathBuf,
    began: Instant,
    cpu: f64,
    process: Process,
    device: Device,
}

impl Meter {
    pub fn start(folder: &Path) -> Result<Meter, String> {
        Ok(Meter {
            folder: folder.to_path_buf(),
            process: Process::of(rustix::process::getpid())?,
            device: Device::under(folder).unwrap_or_default(),
            cpu: cpu(),
            began: Instant::now(),
        })
    }

    pub fn stop(self) -> Result<Cost, String> {
        let (seconds, cpu) = (self.began.elapsed().as_secs_f64(), cpu() - self.cpu);
        let process = Process::of(rustix::process::getpid())? - self.process;
        let device = Device::under(&self.folder).unwrap_or_default() - self.device;
        Ok(Cost {
            seconds,
            cpu_seconds: cpu,
            own_read_bytes: process.read_bytes,
            own_written_bytes: process.written_bytes,
            device_reads: device.reads,
            device_read_bytes: device.read_bytes,
            device_writes: device.writes,
            device_written_bytes: device.written_bytes,
        })
    }
}

/// Processor seconds of all threads of this process, finer than ticks.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes of this process's own memory that are resident: no pages of files.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
