//! `cosm lab devices`: a block trace on devices in a model, side by side.

use super::{json, number, strict, text};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::block::replay::{Outcome, Pace, replay};
use lab::block::{Trace, open};
use lab::medium::device::{self, Kind};
use std::path::Path;

pub fn command() -> Command {
    let known: Vec<String> =
        device::ALL.iter().map(|kind| format!("{} ({})", kind.name, kind.about)).collect();
    let trace = Arg::new("trace").long("trace").value_name("FILE").required(true).help(
        "A block trace: of `cosm lab compare --medium dir:… --capture FILE`, the output of blkparse, or the kernel's own lines",
    );
    let devices = Arg::new("devices")
        .long("devices")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Devices, separated by commas, or all: {}", known.join(", ")));
    let depth = Arg::new("depth").long("depth").value_name("N").help(
        "Issue as soon as fewer than N are under way, instead of as long after what was done before as in the trace",
    );
    Command::new("devices").about("One block trace on devices in a model, side by side").args([
        trace,
        devices,
        depth,
        strict(),
        json(),
    ])
}

pub fn devices(args: &ArgMatches) -> Result<(), Failure> {
    let path = text(args, "trace").unwrap_or_default();
    let names = text(args, "devices").unwrap_or_default();
    let kinds: Vec<&'static Kind> = match names {
        "all" => device::ALL.iter().collect(),
        names => names.split(',').map(device::named).collect::<Result<_, _>>().map_err(Failure::Usage)?,
    };
    let pace = match number(args, "depth")? {
        None => Pace::Own,
        Some(0) => return Err(Failure::Usage("--depth: at least 1".into())),
        Some(depth) => Pace::Full(usize::try_from(depth).unwrap_or(usize::MAX)),
    };
    let trace = open(Path::new(path), args.get_flag("strict")).map_err(Failure::Failed)?;
    super::say_malformed(&trace.faults, "line");
    if trace.left_out > 0 {
        proxy::say(format_args!(
            "{} lines were left out: neither reads nor writes of sectors",
            trace.left_out
        ));
    }
    let all: Vec<Outcome> = kinds
        .into_iter()
        .map(|kind| replay(&trace, kind, pace))
        .collect::<Result<_, _>>()
        .map_err(Failure::Failed)?;
    match args.get_flag("json") {
        true => {
            println!("{}", serde_json::json!({ "trace": path, "depth": number(args, "depth")?, "rows": all }))
        }
        false => print(path, &trace, &all),
    }
    Ok(())
}

fn print(path: &str, trace: &Trace, all: &[Outcome]) {
    println!("{path}: {} requests", trace.requests.len());
    println!(
        "{:<10} {:>10} {:>10} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>6}",
        "device",
        "seconds",
        "a second",
        "reads",
        "writes",
        "MB read",
        "written",
        "ms a read",
        "a write",
        "flash"
    );
    for one in all {
        println!(
            "{:<10} {:>10.3} {:>10.1} {:>9} {:>9} {:>8} {:>8} {:>9.3} {:>9.3} {:>6}",
            one.device,
            one.seconds,
            one.requests_per_second,
            one.reads,
            one.writes,
            one.bytes_read / 1_000_000,
            one.bytes_written / 1_000_000,
            one.mean_read_ms,
            one.mean_write_ms,
            one.write_amplification.map_or("-".to_owned(), |found| format!("{found:.2}"))
        );
    }
    if all.iter().any(|one| one.packed) {
        println!("flash, and what is smaller than the traced device, has the touched megabytes side by side");
    }
}
