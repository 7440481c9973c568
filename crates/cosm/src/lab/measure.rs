//! `cosm lab measure`: how fast a directory's device is, beside the modelled ones.

use super::{bytes, json, text};
use crate::Failure;
use crate::values::duration;
use clap::{Arg, ArgMatches, Command};
use lab::medium::device;
use lab::medium::measured::{LOADS, Load, modelled};
use lab::medium::real::measure::measure;
use std::path::Path;

/// Bytes of a file that is worth measuring.
const LEAST: u64 = 1 << 20;

pub fn command() -> Command {
    let directory =
        Arg::new("directory").required(true).value_name("DIRECTORY").help("Where a file is made and removed");
    let size =
        Arg::new("size").long("size").value_name("SIZE").default_value("1GiB").help("Size of the file");
    let time =
        Arg::new("time").long("time").value_name("TIME").default_value("3s").help("Time for each load");
    let out = Arg::new("out")
        .long("out")
        .value_name("FILE")
        .help("Also write the speeds to this file, for `--medium measured:FILE`");
    Command::new("measure")
        .about("Measure a directory's device past the page cache, beside the modelled devices")
        .after_help(
            "Example, a recipe on this machine's disk and on a model of it:\n  cosm lab measure /var/tmp --out disk.json\n  \
             cosm lab compare --like dec --recipes squid --medium dir:/var/tmp\n  \
             cosm lab compare --like dec --recipes squid --medium measured:disk.json",
        )
        .args([directory, size, time, out, json()])
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let directory = text(args, "directory").unwrap_or_default();
    let size = bytes(args, "size")?;
    if size < LEAST {
        return Err(Failure::Usage("--size: at least 1MiB".into()));
    }
    let time = duration(text(args, "time").unwrap_or_default())
        .map_err(|why| Failure::Usage(format!("--time: {why}")))?;
    let say = |load: &Load, _| proxy::say(load.about);
    let speeds = measure(Path::new(directory), size, time, &say).map_err(Failure::Failed)?;
    if let Some(path) = text(args, "out") {
        let failed = |why: String| Failure::Failed(format!("{path}: {why}"));
        let text = serde_json::to_string_pretty(&speeds).map_err(|error| failed(error.to_string()))?;
        std::fs::write(path, text + "\n").map_err(|error| failed(error.to_string()))?;
    }
    if args.get_flag("json") {
        line!("{}", serde_json::json!(speeds));
        return Ok(());
    }
    let models = device::ALL.iter().map(|kind| format!(" {:>10}", kind.name)).collect::<String>();
    line!("{:<44} {:>10}{models}", "transfers a second", "measured");
    for load in &LOADS {
        let beside: String = device::ALL
            .iter()
            .map(|kind| match modelled(kind, load, size) {
                Some(speed) => format!(" {speed:>10.0}"),
                None => format!(" {:>10}", "-"),
            })
            .collect();
        line!("{:<44} {:>10.0}{beside}", load.about, speeds.0[load.name]);
    }
    Ok(())
}
