//! The figures of the first release, in one run on one machine: the proxy alone on one core, load and origin together
//! on another.
//!
//! Runs that are compared with each other take turns, so that a noisy machine harms all alike; the tables give
//! medians. What a run used is what the kernel counted for the proxy's process, all of its threads together.

mod disk;
mod field;
mod memory;
mod memory_hit;
mod report;
mod restart;
mod run;
mod scale;

use crate::{cleanup, machine, process};
use clap::Args;
use field::Field;
use report::Report;
use scale::Scale;
use std::fs::create_dir_all;
use std::path::PathBuf;

#[derive(Args)]
pub struct Request {
    /// The cosm to measure.
    #[arg(long)]
    cosm: PathBuf,
    /// Fewer objects and shorter runs: a look, not a result.
    #[arg(long)]
    quick: bool,
    /// Folder of the report [default: results/<date>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Folder for temporary files, on the disk to measure.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Part::ALL)]
    only: Vec<Part>,
    /// The command that the report names.
    #[arg(long, hide = true, default_value = "bench first-light")]
    command: String,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    MemoryHit,
    /// Fill, disk hit and restart: they share one cache.
    Disk,
    /// Fill of a cache that is full already.
    Refill,
    Memory,
}

impl Part {
    const ALL: [Part; 4] = [Part::MemoryHit, Part::Disk, Part::Refill, Part::Memory];
}

pub fn run(request: &Request) -> Result<(), String> {
    let folder = temporary(&request.dir)?;
    cleanup::at_signals(folder.path())?;
    let machine = machine::Machine::look(&request.cosm, folder.path());
    let cores = process::cores()?;
    process::pin(cores.1)?;
    let scale = if request.quick { Scale::quick() } else { Scale::whole() };
    let field = Field::open(request.cosm.clone(), folder.path().to_path_buf(), cores, scale)?;
    let mut report = Report::begin(request.command.clone(), machine, scale, cores);
    measure(&field, &request.only, &mut report)?;
    let out = request.out.clone().unwrap_or_else(|| PathBuf::from("results").join(machine::today()));
    report.write(&out)
}

fn measure(field: &Field, parts: &[Part], report: &mut Report) -> Result<(), String> {
    let wanted = |part| parts.contains(&part);
    if wanted(Part::MemoryHit) {
        report.runs.extend(memory_hit::measure(field)?);
    }
    if wanted(Part::Disk) {
        let (runs, restarts) = disk::measure(field)?;
        report.runs.extend(runs);
        report.restarts = restarts;
    }
    if wanted(Part::Refill) {
        report.runs.extend(disk::refill(field)?);
    }
    if wanted(Part::Memory) {
        report.memory = Some(memory::measure(field)?);
    }
    Ok(())
}

fn temporary(within: &PathBuf) -> Result<tempfile::TempDir, String> {
    let say = |e: std::io::Error| format!("temporary folder in {}: {e}", within.display());
    create_dir_all(within).map_err(say)?;
    tempfile::Builder::new().prefix("first-light-").tempdir_in(within).map_err(say)
}
