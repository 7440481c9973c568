//! `cosm lab report`: the page again, from what was kept.

use super::folder::Folder;
use super::traces::{out, write_out};
use crate::Failure;
use clap::{Arg, ArgAction, ArgMatches, Command};

pub fn command() -> Command {
    let from = Arg::new("from")
        .long("from")
        .value_name("DIR")
        .required(true)
        .num_args(1..)
        .action(ArgAction::Append)
        .help("Directories written by compare, replay or figures; several are shown side by side");
    Command::new("report").about("Make a page from the results of one or several runs").args([from, out()])
}

pub fn report(args: &ArgMatches) -> Result<(), Failure> {
    let mut sources = Vec::new();
    for path in args.get_many::<String>("from").into_iter().flatten() {
        let mut source = Folder::existing(path).source()?;
        if source.run.is_none() && source.points.is_none() {
            return Err(Failure::Failed(format!(
                "{path}: neither rows.json nor points.jsonl is there; name a folder that cosm lab wrote to"
            )));
        }
        if sources.iter().any(|other: &lab::report::Source| other.name == source.name) {
            source.name = path.clone();
        }
        sources.push(source);
    }
    let page = lab::report::page(&sources).map_err(Failure::Failed)?;
    write_out(args, |into| into.write_all(page.as_bytes()).map_err(|error| error.to_string()))
}
