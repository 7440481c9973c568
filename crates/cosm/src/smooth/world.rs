//! `cosm smooth world`: a synthetic world as files, so that the other commands can be tried without a trace of one's own.

use super::source;
use crate::Failure;
use crate::lab::{number, number_within, seed, text};
use crate::written::{folder, write_to};
use clap::{Arg, ArgMatches, Command};
use learn::day::{Calendar, Peak};
use learn::evaluate::date;
use std::fs;
use std::io::Write;
use std::path::Path;
use trace::world::{self, World};
use trace::{Access, format};

const TRACE: &str = "trace.csv";

pub fn command() -> Command {
    let size = Arg::new("size").long("size").value_name("SIZE").default_value("usual");
    let days = Arg::new("days").long("days").value_name("N");
    Command::new("world")
        .about("Write a synthetic world as files: a trace, and what its sites had to offer each day")
        .args([
            size.help("Which: small, usual (the thesis' two weeks) or large"),
            days.help("Days from Monday, 18 May 1998 [default: 5 of a small world, 14 of others]"),
            Arg::new("out").long("out").value_name("DIR").required(true).help(
                "Folder to write: trace.csv, and inventory/1998-05-18.jsonl and so on, as of 16:30 of these days",
            ),
            seed(),
        ])
        .after_help(
            "It is the world of evaluate --world, and gives the same figures.\n\n\
             Example: a list for the next night, by rules that were learned from the days before:\n  \
             cosm smooth world --size small --out world\n  \
             cosm smooth train world/trace.csv --inventory world/inventory --servers all --out rules\n  \
             cosm smooth plan world/inventory/1998-05-22.jsonl --rules rules --trace world/trace.csv --inventory world/inventory --night 895854600 --budget 1MiB",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let days = number_within(args, "days", 1..=10_000)?;
    let settings = source::world("size", text(args, "size").unwrap_or_default(), days)?;
    let seed = number(args, "seed")?.unwrap_or(1);
    let Some(out) = folder(args, "out")? else { return Ok(()) };
    let inventories = out.join("inventory");
    fs::create_dir_all(&inventories)
        .map_err(|error| Failure::Failed(format!("{}: {error}", inventories.display())))?;
    let written = write_to(&out.join(TRACE), |into| write(settings, seed, &inventories, into));
    let night = written.map_err(Failure::Failed)?;
    proxy::say(format_args!(
        "written to {}; the night after it begins at {night} (plan --night)",
        out.display()
    ));
    Ok(())
}

/// Writes the trace, and at the end of each peak, when the night begins that plans by it, an inventory; when the last of them was.
fn write(
    settings: world::Settings,
    seed: u64,
    inventories: &Path,
    into: &mut dyn Write,
) -> Result<u64, String> {
    let mut writer = (format::named("csv")?.writer)();
    let (mut world, mut access, mut bytes) = (World::new(settings, seed)?, Access::default(), Vec::new());
    let mut night = 0;
    writer.header(&mut bytes);
    while let Some(day) = world.next_day() {
        let date = date(Calendar::UTC.day(day.begins));
        night = day.begins + 60 * u64::from(Peak::THESIS.to());
        let path = inventories.join(format!("{date}.jsonl"));
        let offered = write_to(&path, |into| inventory(&world, night, into))?;
        let mut requests = 0u64;
        while world.next(&mut access) {
            writer.write(&access, None, &mut bytes);
            requests += 1;
            if bytes.len() > 64 << 10 {
                into.write_all(&bytes).map_err(|error| error.to_string())?;
                bytes.clear();
            }
        }
        proxy::say(format_args!("{date}: {requests} requests, {offered} objects offered"));
    }
    into.write_all(&bytes).map_err(|error| error.to_string())?;
    Ok(night)
}

/// How many rows were written.
fn inventory(world: &World, at: u64, into: &mut dyn Write) -> Result<u64, String> {
    let (mut line, mut rows) = (Vec::new(), 0);
    for row in world.inventory(at) {
        line.clear();
        row.write(&mut line);
        into.write_all(&line).map_err(|error| error.to_string())?;
        rows += 1;
    }
    Ok(rows)
}
