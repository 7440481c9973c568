//! `cosm lab devices`: a block trace on modelled devices, side by side.

use super::{json, names, number, strict, text};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::block::{Trace, open};
use lab::medium::block_replay::{Outcome, Pace, replay};
use lab::medium::device::{self, DeviceModel};
use std::path::Path;

pub fn command() -> Command {
    let known: Vec<String> =
        device::ALL.iter().map(|kind| format!("{} ({})", kind.name, kind.about)).collect();
    let trace = Arg::new("trace").long("trace").value_name("FILE").required(true).help(
        "Block trace: from `cosm lab compare --medium dir:… --capture FILE`, blkparse, or the kernel's trace events",
    );
    let devices = Arg::new("devices")
        .long("devices")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Devices, separated by commas, or all: {}", known.join(", ")));
    let depth = Arg::new("depth")
        .long("depth")
        .value_name("N")
        .help("Issue each request as soon as fewer than N are in flight, instead of at the trace's pace");
    Command::new("devices").about("Replay a block trace on modelled devices").args([
        trace,
        devices,
        depth,
        strict(),
        json(),
    ])
}

pub fn devices(args: &ArgMatches) -> Result<(), Failure> {
    let path = text(args, "trace").unwrap_or_default();
    let names = names(args, "devices");
    let all = names.iter().any(|name| name == "all");
    let kinds: Vec<&'static DeviceModel> = match all {
        true => device::ALL.iter().collect(),
        false => {
            names.iter().map(|name| device::named(name)).collect::<Result<_, _>>().map_err(Failure::Usage)?
        }
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
    let mut found = Vec::new();
    for kind in kinds {
        match replay(&trace, kind, pace) {
            Ok(one) => found.push(one),
            // The others may be large enough.
            Err(why) if all => proxy::say(why),
            Err(why) => return Err(Failure::Failed(why)),
        }
    }
    match args.get_flag("json") {
        true => {
            line!("{}", serde_json::json!({ "trace": path, "depth": number(args, "depth")?, "rows": found }))
        }
        false => print(path, &trace, &found),
    }
    Ok(())
}

fn print(path: &str, trace: &Trace, all: &[Outcome]) {
    line!("{path}: {} requests", trace.requests.len());
    line!(
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
        line!(
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
        line!("flash, and what is smaller than the traced device, has the touched megabytes side by side");
    }
}
