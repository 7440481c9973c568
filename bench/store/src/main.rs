//! The store beside others, in one run on one machine: `cargo xtask bench store`.
//!
//! A process of its own for each contender and scale, so that memory and processor time are its own and its end is a kill.

mod bare;
mod cleanup;
mod contender;
mod drive;
mod hollow;
mod meter;
mod object;
mod report;
mod run;
mod scale;
mod serve;
mod turn;

// What the other benches look at the machine with.
#[allow(dead_code)]
#[path = "../../src/peers/cgroup.rs"]
mod cgroup;
#[allow(dead_code)]
#[path = "../../src/figures.rs"]
mod figures;
#[path = "../../src/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../../src/usage.rs"]
mod usage;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(name = "bench-store", about = "Measures the store beside others.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The store beside foyer, a plain cyclic log, a file an object, and a bare io_uring loop.
    #[command(after_help = HELP)]
    Store(Request),
    /// One contender at one scale; its parent starts it.
    #[command(hide = true)]
    Turn { json: String },
}

const HELP: &str = "\
Each contender is filled with as many objects as its scale says, then with as many again, so that the first ones leave, \
and is killed. What is left is opened by a new process, after the page cache was dropped (as root), and asked for objects \
that it has, at random, one and sixteen at once. Right after each round a bare io_uring loop reads as many bytes of the same file.

Scales (--only): 100k, 1m (objects of 8 KiB), 10m-1k (of 1 KiB) beside the others; 1m-hollow, 10m-hollow, 100m-hollow: the store \
alone, in a sparse file without the bodies that no sample asks for, and `cosm serve` on it. Without --only: the first three.
--quick: 20,000 objects, within a minute. --add keeps what store.json already has of other scales and contenders.

Disk: up to 13 GB at a time (10m-1k), 10 GB for 100m-hollow, 9 GB for 1m, in --dir, which is removed afterwards (100m-hollow in ten minutes where the filesystem discards what it frees). Memory and page cache are limited by a control group, as \
root; without root the report says that they were not.";

#[derive(Args)]
pub struct Request {
    /// Twenty thousand objects: within a minute.
    #[arg(long)]
    quick: bool,
    /// Scales, by their names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Contenders, by their names.
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<String>,
    /// Rounds of gets at each depth; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a round.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Keep the rest of an earlier report.
    #[arg(long)]
    add: bool,
    /// Where store.txt and store.json go; results/<date> by default.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the contenders' files go: on the device that is to be measured. target/bench-store/run by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    #[arg(long, hide = true)]
    cosm: PathBuf,
    #[arg(long, hide = true)]
    command: String,
}

fn main() -> ExitCode {
    let began = Instant::now();
    let done = match Cli::parse().command {
        Command::Store(request) => run::run(&request),
        Command::Turn { json } => {
            // A parent that was killed takes its child along.
            let signal = Some(rustix::process::Signal::KILL);
            let bound = rustix::process::set_parent_process_death_signal(signal);
            bound
                .map_err(|e| e.to_string())
                .and_then(|()| serde_json::from_str(&json).map_err(|e| e.to_string()))
                .and_then(|turn| turn::run(&turn, began))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-store: {error}");
            ExitCode::FAILURE
        }
    }
}
