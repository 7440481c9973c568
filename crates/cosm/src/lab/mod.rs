//! `cosm lab`: traces and storage policies. What is found goes to standard output, what goes on to standard error.

mod chosen;
mod compare;
mod devices;
mod figures;
mod fill;
mod folder;
mod measure;
mod media;
mod papers;
mod replay;
mod report;
mod simulate;
mod traces;
mod work;

use crate::Failure;
use crate::values::{count, rate, size, size_within};
use clap::{Arg, ArgAction, ArgMatches, Command};
use lab::input::{From, Input, Reading};
use lab::recipe;
use lab::replay::Plan;
use lab::replay::Row;
use lab::replay::watch::Watch;
use lab::results::{Asked, LARGEST_SIZE, MODEL};
use lab::scale::{Clock, Scale, WriteBudget};
use media::Chosen;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use trace::{Faults, format, synthetic};

pub fn command() -> Command {
    Command::new("lab")
        .about("Replay traces through storage policies, and make or convert traces")
        .after_help(
            "Example: the papers' Table 2 on a model of their disk, with a synthetic workload like theirs:\n  \
             cosm lab compare --like dec --recipes all --medium st15150w --memory 512MiB --disk 2GiB --out table-2",
        )
        .subcommand_required(true)
        .subcommand(compare::command())
        .subcommand(replay::command())
        .subcommand(papers::command())
        .subcommand(chosen::command())
        .subcommand(figures::command())
        .subcommand(report::command())
        .subcommand(simulate::command())
        .subcommand(devices::command())
        .subcommand(measure::command())
        .subcommand(fill::command())
        .subcommand(traces::generate_command())
        .subcommand(traces::convert_command())
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    match args.subcommand() {
        Some(("compare", args)) => compare::compare(args),
        Some(("replay", args)) => replay::replay(args),
        Some(("papers", args)) => papers::papers(args),
        Some(("chosen", args)) => chosen::chosen(args),
        Some(("figures", args)) => figures::figures(args),
        Some(("report", args)) => report::report(args),
        Some(("simulate", args)) => simulate::run(args),
        Some(("devices", args)) => devices::devices(args),
        Some(("measure", args)) => measure::run(args),
        Some(("fill", args)) => fill::run(args),
        Some(("generate", args)) => traces::generate(args),
        Some(("convert", args)) => traces::convert(args),
        _ => Err(Failure::Usage(
            "name a command: compare, replay, papers, chosen, figures, report, simulate, devices, measure, fill, generate or convert".into(),
        )),
    }
}

/// Where requests come from.
fn input_args() -> [Arg; 7] {
    let largest = Arg::new("largest")
        .long("largest")
        .value_name("SIZE")
        .help("Skip requests for objects larger than this");
    let of_file = |arg: Arg| arg.conflicts_with("like");
    [of_file(trace()), of_file(from_format()), of_file(strict()), like(), requests(), seed(), largest]
}

/// What they are sent through.
fn scale_args() -> [Arg; 5] {
    let memory = Arg::new("memory")
        .long("memory")
        .value_name("SIZE")
        .default_value("512MiB")
        .help("Size of the cache in memory");
    let disk = Arg::new("disk")
        .long("disk")
        .value_name("SIZE")
        .default_value("2GiB")
        .help("Size of the cache on disk");
    let utilization = Arg::new("utilization")
        .long("utilization")
        .value_name("SHARE")
        .default_value("0.71")
        .help("Share of the file or device that the cache on disk may fill");
    let warm_up = Arg::new("warm-up")
        .long("warm-up")
        .value_name("N")
        .default_value("0")
        .help("Number of requests that fill the caches before measuring begins");
    let write_budget = Arg::new("write-budget")
        .long("write-budget")
        .value_name("SIZE/TIME")
        .help(
            "Bytes that cosm, cosm-all and cosm-chance may write in an hour, day or week of the trace, such as 200MiB/day, or for \
             bytes asked for, such as 75MiB/1GiB",
        );
    [memory, disk, utilization, warm_up, write_budget]
}

fn trace() -> Arg {
    Arg::new("trace")
        .long("trace")
        .value_name("FILE")
        .help("Trace to replay, plain or compressed with gzip or zstd")
}

pub(crate) fn like() -> Arg {
    let known: Vec<&str> = synthetic::ALL.iter().map(|like| like.name).collect();
    let help = format!("A synthetic workload: {}", known.join(", "));
    Arg::new("like").long("like").value_name("NAME").help(help)
}

pub(crate) fn requests() -> Arg {
    Arg::new("requests").long("requests").value_name("N").help("Maximum number of requests")
}

pub(crate) fn seed() -> Arg {
    Arg::new("seed")
        .long("seed")
        .value_name("N")
        .default_value("1")
        .help("Random seed; equal seeds give equal runs")
}

pub(crate) fn formats() -> String {
    trace::ALL.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn from_format() -> Arg {
    let help = format!("Format of the trace, if it cannot be recognised: {}", formats());
    Arg::new("format").long("format").value_name("NAME").help(help)
}

pub(crate) fn strict() -> Arg {
    Arg::new("strict").long("strict").action(ArgAction::SetTrue).help("Stop at the first malformed line")
}

pub(crate) fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print results as JSON")
}

fn known_recipes() -> String {
    recipe::ALL.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn text<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    args.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

/// Names separated by commas.
fn names(args: &ArgMatches, name: &str) -> Vec<String> {
    text(args, name).unwrap_or("all").split(',').map(|name| name.trim().to_owned()).collect()
}

pub(crate) fn number(args: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    number_within(args, name, 0..=u64::MAX)
}

pub(crate) fn number_within(
    args: &ArgMatches,
    name: &str,
    bounds: RangeInclusive<u64>,
) -> Result<Option<u64>, Failure> {
    let parse = |text| count(text, &bounds).map_err(|why| Failure::Usage(format!("--{name}: {why}")));
    text(args, name).map(parse).transpose()
}

fn bytes(args: &ArgMatches, name: &str) -> Result<u64, Failure> {
    size_within(text(args, name).unwrap_or_default(), &(0..=LARGEST_SIZE))
        .map_err(|why| Failure::Usage(format!("--{name}: {why}")))
}

fn input(args: &ArgMatches) -> Result<Input, Failure> {
    let from = match (text(args, "trace"), text(args, "like")) {
        (Some(path), _) => From::File {
            path: PathBuf::from(path),
            format: text(args, "format").map(format::named).transpose().map_err(Failure::Usage)?,
            strict: args.get_flag("strict"),
        },
        (None, Some(like)) => From::Synthetic {
            like: synthetic::named(like).map_err(Failure::Usage)?,
            seed: number(args, "seed")?.unwrap_or(1),
        },
        (None, None) => {
            return Err(Failure::Usage("name a trace by --trace, or a workload by --like".into()));
        }
    };
    let largest = text(args, "largest").map(|_| bytes(args, "largest")).transpose()?;
    Ok(Input { from, requests: number(args, "requests")?, largest })
}

/// How many requests there will be, where that is known before all are read.
fn expected(input: &Input) -> Option<u64> {
    match &input.from {
        From::Synthetic { like, .. } if input.largest.is_none() => {
            Some(input.requests.unwrap_or(like.requests))
        }
        _ => None,
    }
}

fn scale(args: &ArgMatches) -> Result<Scale, Failure> {
    let utilization: f64 = text(args, "utilization").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    if !(0.05..=0.99).contains(&utilization) {
        return Err(Failure::Usage("--utilization: a share from 0.05 to 0.99".into()));
    }
    let write_budget = text(args, "write-budget").map(write_budget).transpose();
    let write_budget = write_budget.map_err(|why| Failure::Usage(format!("--write-budget: {why}")))?;
    let (memory, disk) = (bytes(args, "memory")?, bytes(args, "disk")?);
    Ok(Scale { memory, disk, utilization, write_budget, ..Scale::default() })
}

/// In a time, or for a size that is asked for.
fn write_budget(text: &str) -> Result<WriteBudget, String> {
    let (clock, (bytes, seconds)) = match text.split_once('/').map(|(bytes, of)| (size(bytes), size(of))) {
        Some((Ok(bytes), Ok(of))) => (Clock::Asked, (bytes, of >> 20)),
        _ => (Clock::Trace, rate(text).map(|(bytes, period)| (bytes, period.as_secs()))?),
    };
    match bytes.min(seconds) {
        0 => Err(format!("`{text}` is too small: at least 1 byte in a time, or for 1MiB")),
        _ => Ok(WriteBudget { bytes, seconds, clock }),
    }
}

/// What is not fit to be kept is refused before it costs anything.
fn asked(args: &ArgMatches, input: &Input) -> Result<Asked, Failure> {
    let (trace_bytes, format, seed) = match &input.from {
        From::File { path, format, .. } => {
            (path.metadata().ok().map(|file| file.len()), format.map(|format| format.name.to_owned()), None)
        }
        From::Synthetic { seed, .. } => (None, None, Some(*seed)),
    };
    let asked = Asked {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: MODEL,
        trace: input.describe(),
        synthetic: input.is_synthetic(),
        format,
        trace_bytes,
        seed,
        requests: input.requests,
        largest: input.largest,
        warm_up: warm_up(args).unwrap_or_default(),
        medium: text(args, "medium").unwrap_or_default().to_owned(),
        limit: text(args, "limit").map(str::to_owned),
        memory_policy: text(args, "memory-policy").map(str::to_owned),
    };
    asked.check().map_err(Failure::Usage)?;
    Ok(asked)
}

fn warm_up(args: &ArgMatches) -> Result<u64, Failure> {
    Ok(number(args, "warm-up")?.unwrap_or(0))
}

/// Sends a trace through a recipe; `says_faults` tells what of it was malformed.
fn send(plan: &Plan, medium: &Chosen, watch: &mut Watch, says_faults: bool) -> Result<Row, String> {
    let (row, reading) = lab::replay::replay(plan, &mut *medium.make()?, &medium.name, watch)?;
    if says_faults {
        say_faults(&reading);
    }
    Ok(row)
}

/// What was malformed, said on standard error.
pub(crate) fn say_faults(reading: &Reading) {
    if let Some((faults, unit)) = reading.faults() {
        say_malformed(faults, unit);
    }
}

fn say_malformed(faults: &Faults, unit: &str) {
    if faults.count == 0 {
        return;
    }
    proxy::say(format_args!("{} malformed {unit}s were left out:", faults.count));
    for (number, why) in &faults.first {
        proxy::say(format_args!("  {unit} {number}: {why}"));
    }
}
