//! `cosm lab simulate`: hit ratios of replacement policies, without a medium.

use super::{self as options, input, say_faults, text};
use crate::values::size;
use crate::{Failure, machine};
use clap::{Arg, ArgMatches, Command};
use lab::replacement::{self, Policy};
use lab::simulate::{Simulated, simulate};
use std::io::IsTerminal;
use std::time::Instant;

/// Requests between two reports of progress, about.
const REPORT: u64 = 1 << 20;

pub fn command() -> Command {
    let known: Vec<&str> = replacement::ALL.iter().map(|policy| policy.name).collect();
    let policies = Arg::new("policies")
        .long("policies")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Replacement policies, separated by commas, or all: {}", known.join(", ")));
    let sizes = Arg::new("sizes")
        .long("sizes")
        .value_name("SIZES")
        .default_value("1GiB")
        .help("Bytes of the cache, several separated by commas");
    Command::new("simulate")
        .about("Hit ratios alone: one trace through replacement policies and sizes, without a medium")
        .args(options::input_args())
        .args([policies, sizes, options::json()])
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let list = |name| text(args, name).unwrap_or_default().split(',').map(|item| item.trim().to_owned());
    let policies: Vec<Policy> =
        replacement::named(&list("policies").collect::<Vec<_>>()).map_err(Failure::Usage)?;
    let sizes = list("sizes").map(|item| size(&item)).collect::<Result<Vec<u64>, _>>();
    let sizes = sizes.map_err(|why| Failure::Usage(format!("--sizes: {why}")))?;
    let mut reading = input.open().map_err(Failure::Failed)?;
    let (began, shows) = (Instant::now(), std::io::stderr().is_terminal());
    let mut progress = |requests: u64| {
        if shows && requests / REPORT != requests.saturating_sub(1 << 16) / REPORT {
            eprint!("\rcosm: {requests} requests");
        }
    };
    let clock = &machine::thread_seconds;
    let found = simulate(&mut reading, &policies, &sizes, machine::cores(), clock, &mut progress);
    if shows {
        eprintln!();
    }
    let found = found.map_err(Failure::Failed)?;
    say_faults(&reading);
    let seconds = began.elapsed().as_secs_f64();
    let simulated = found.requests as f64 * found.rows.len() as f64;
    let per_core = simulated / found.rows.iter().map(|row| row.seconds).sum::<f64>().max(1e-9);
    if args.get_flag("json") {
        let (trace, synthetic) = (input.describe(), input.is_made_up());
        line!(
            "{}",
            serde_json::json!({
                "trace": trace, "synthetic": synthetic, "requests": found.requests, "bytes": found.bytes,
                "cacheable": found.cacheable, "objects": found.objects, "seconds": seconds,
                "read_seconds": found.read_seconds, "requests_per_second_per_core": per_core,
                "rows": found.rows,
            })
        );
        return Ok(());
    }
    print(&input.describe(), &found);
    line!(
        "{} requests for {} objects, read in {:.2} s; simulated at {:.1} million requests a second of a core; {seconds:.2} s in all",
        found.requests,
        found.objects,
        found.read_seconds,
        per_core / 1e6
    );
    Ok(())
}

fn print(trace: &str, found: &Simulated) {
    line!("{trace}");
    line!("{:<16} {:>14} {:>8} {:>8} {:>14}", "policy", "bytes", "hits", "of bytes", "requests/s");
    for row in &found.rows {
        line!(
            "{:<16} {:>14} {:>7.2}% {:>7.2}% {:>14.0}",
            row.policy,
            row.size,
            100.0 * row.hit_ratio,
            100.0 * row.byte_hit_ratio,
            row.requests_per_second
        );
    }
}
