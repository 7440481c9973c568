//! `cosm lab generate` and `convert`: traces are written.

use super::{formats, from_format, input, like, requests, say_faults, seed, strict, text, trace};
use crate::Failure;
use crate::written::write_to;
use clap::{Arg, ArgMatches, Command};
use lab::input::{From, Input};
use std::io::Write;
use trace::statistics::Statistics;
use trace::{Access, Requests, format};

pub fn generate_command() -> Command {
    Command::new("generate")
        .about("Generate a synthetic workload, and print its statistics beside the published ones")
        .args([like().required(true), requests(), seed(), out(), to_format()])
}

pub fn convert_command() -> Command {
    Command::new("convert").about("Convert a trace to another format").args([
        trace().required(true),
        from_format(),
        strict(),
        requests(),
        out(),
        to_format(),
    ])
}

pub fn out() -> Arg {
    Arg::new("out").long("out").value_name("FILE").required(true).help("File to write; - is standard output")
}

fn to_format() -> Arg {
    let help = format!("Format to write: {}", formats());
    Arg::new("to").long("to").value_name("NAME").default_value("csv").help(help)
}

/// Writes what `--out` names: standard output, or a file, which has all of its content in the end or what it had before.
pub fn write_out<T>(
    args: &ArgMatches,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, String>,
) -> Result<T, Failure> {
    let written = match text(args, "out").unwrap_or("-") {
        "-" => {
            let mut into = std::io::stdout().lock();
            let found = fill(&mut into).map_err(Failure::Failed)?;
            into.flush().map(|()| found).map_err(|error| format!("-: {error}"))
        }
        path => write_to(path.as_ref(), fill),
    };
    written.map_err(Failure::Failed)
}

pub fn generate(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    write_trace(args, &input)?;
    let From::Synthetic { like, .. } = &input.from else { return Ok(()) };
    let mut statistics = Statistics::default();
    let (mut reading, mut access) = (input.open().map_err(Failure::Failed)?, Access::default());
    while reading.next(&mut access).map_err(Failure::Failed)? {
        statistics.count(&access);
    }
    proxy::say(format_args!("{}: {} requests, {}", input.describe(), statistics.requests, like.about));
    for published in like.published {
        let (least, most) = published.value;
        let value = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        let found = (published.of)(&statistics);
        proxy::say(format_args!(
            "  {}: {found:.3}; published: {value} ({})",
            published.what, published.source
        ));
    }
    proxy::say(format_args!(
        "  {} objects, {} servers, {} clients; {:.1} % hits and {:.1} % of the bytes without bounds",
        statistics.objects(),
        statistics.servers(),
        statistics.clients(),
        100.0 * statistics.hit_ratio(),
        100.0 * statistics.byte_hit_ratio()
    ));
    Ok(())
}

pub fn convert(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    write_trace(args, &input)
}

fn write_trace(args: &ArgMatches, input: &Input) -> Result<(), Failure> {
    let format = format::named(text(args, "to").unwrap_or_default()).map_err(Failure::Usage)?;
    let (count, reading) = write_out(args, |into| trace::convert::convert(|| input.open(), format, into))?;
    say_faults(&reading);
    proxy::say(format_args!("{count} requests written to {}", text(args, "out").unwrap_or("-")));
    Ok(())
}
