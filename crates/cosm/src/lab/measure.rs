//! `cosm lab measure`: how fast a directory's device and its filesystem are, beside the modelled ones.

use super::{bytes, json, text};
use crate::Failure;
use crate::values::duration;
use clap::{Arg, ArgMatches, Command, value_parser};
use lab::medium::device;
use lab::medium::file_loads::{self, FILE, FILE_LOADS};
use lab::medium::measured::{self, LOADS, modelled};
use lab::medium::real::measure::measure;
use lab::medium::table::{Given, Memory, named};
use lab::scale::Scale;
use std::path::{Path, PathBuf};

/// Bytes of a file that is worth measuring.
const LEAST: u64 = 1 << 20;

pub fn command() -> Command {
    let directory =
        Arg::new("directory").required(true).value_name("DIRECTORY").help("Where a file is made and removed");
    let size =
        Arg::new("size").long("size").value_name("SIZE").default_value("1GiB").help("Size of the file");
    let time =
        Arg::new("time").long("time").value_name("TIME").default_value("3s").help("Time for each load");
    let files = Arg::new("files")
        .long("files")
        .value_name("N")
        .value_parser(value_parser!(u64).range(1..=1_000_000))
        .default_value("30000")
        .help("Small files, of 8 KiB each");
    let out = Arg::new("out")
        .long("out")
        .value_name("FILE")
        .help("Also write the speeds to this file, for `--medium measured:FILE`");
    Command::new("measure")
        .about("Measure a directory's device past the page cache, and small files, beside the modelled devices")
        .after_help(
            "Example, a recipe on this machine's disk and on a model of it:\n  cosm lab measure /var/tmp --out disk.json\n  \
             cosm lab compare --like dec --recipes squid --medium dir:/var/tmp\n  \
             cosm lab compare --like dec --recipes squid --medium measured:disk.json",
        )
        .args([directory, size, time, files, out, json()])
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let directory = text(args, "directory").unwrap_or_default();
    let size = bytes(args, "size")?;
    if size < LEAST {
        return Err(Failure::Usage("--size: at least 1MiB".into()));
    }
    let files = args.get_one("files").copied().unwrap_or_default();
    let time = duration(text(args, "time").unwrap_or_default())
        .map_err(|why| Failure::Usage(format!("--time: {why}")))?;
    let speeds = measure(Path::new(directory), size, time, files, &|what| proxy::say(what))
        .map_err(Failure::Failed)?;
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
    let models: Vec<_> = device::ALL
        .iter()
        .map(|kind| files_of(kind.name, files))
        .collect::<Result<_, _>>()
        .map_err(Failure::Failed)?;
    line!("\n{:<44}", "files a second, with 64 MiB of memory");
    for (nth, load) in FILE_LOADS.iter().enumerate() {
        let beside: String = models.iter().map(|speeds| format!(" {:>10.0}", speeds[nth])).collect();
        line!("{:<44} {:>10.0}{beside}", load.about, speeds.0[load.name]);
    }
    let host = measured::host(&speeds).map_err(Failure::Failed)?;
    line!(
        "\nFor `measured:FILE`, microseconds: a call {:.1}, beyond that to make a file {:.1}, to remove one {:.1}",
        host.call * 1000.0,
        host.make * 1000.0,
        host.remove * 1000.0
    );
    Ok(())
}

/// Files a second of a modelled medium.
fn files_of(medium: &str, files: u64) -> Result<[f64; FILE_LOADS.len()], String> {
    let given = Given {
        scale: Scale { disk: 2 * files * FILE, ..Scale::default() },
        size: None,
        path: PathBuf::new(),
        memory: Memory::Bytes(0),
        capture: None,
        say: &|_| {},
    };
    file_loads::run(&mut *(named(medium)?.0.make)(&given)?, files)
}
