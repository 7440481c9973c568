//! Chores of this repository that need more than one shell line.

mod bench;
mod deps;
mod fuzz;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask deps [--advisories]   licences, sources and withdrawn versions of dependencies
       cargo xtask fuzz [--seconds N] [TARGET...]
                                         look for inputs that break a parser, 20 seconds each by default
       cargo xtask bench first-light [--quick] [--out FOLDER] [--dir FOLDER] [--only PART,…]
                                         build in release and measure; --help after it tells more";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["deps"] => deps::run(false),
        ["deps", "--advisories"] => deps::run(true),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["bench", run, ref rest @ ..] => bench::run(run, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
