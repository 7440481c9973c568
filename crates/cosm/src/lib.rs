//! The command line. Exit status: 0 done, 1 failed, 2 wrong usage; an error is one line.

#[macro_use]
mod out;

pub mod access_log;
mod admin;
mod completions;
mod disks;
pub mod error_log;
mod init;
mod lab;
mod look;
pub mod machine;
mod manual;
mod memory;
mod pid_file;
mod preflight;
mod reload;
mod serve;
pub mod settings;
pub mod sink;
mod smooth;
mod systemd;
mod upgrade;
pub mod values;
mod warm;
mod written;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// What went wrong, and whether the caller's words were at fault.
enum Failure {
    Usage(String),
    Failed(String),
}

/// Does what the words of a command line say, of which the first is the program's name.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let failure = match command().try_get_matches_from(&words) {
        Ok(matches) => match dispatch(&matches) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        Err(error) if !error.use_stderr() => match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Failure::Failed(format!("standard output: {error}"))
            }
            _ => return ExitCode::SUCCESS,
        },
        Err(error) => Failure::Usage(one_line(&error)),
    };
    let (code, line) = match failure {
        Failure::Usage(line) => (2, format!("{line}; see {} --help", named(&words))),
        Failure::Failed(line) => (1, line),
    };
    proxy::say(line);
    ExitCode::from(code)
}

fn dispatch(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("serve", args)) => serve::serve(args),
        Some(("reload", args)) => admin::reload(args),
        Some(("lab", args)) => lab::run(args),
        Some(("smooth", args)) => smooth::run(args),
        Some(("inspect", args)) => {
            let hosts = usize::try_from(*args.get_one::<u64>("hosts").unwrap_or(&20)).unwrap_or(usize::MAX);
            look::inspect(path(args), hosts, args.get_flag("all"), args.get_flag("json"))
                .map_err(Failure::Failed)
        }
        Some(("check", args)) => look::check(path(args), args.get_flag("json")).map_err(Failure::Failed),
        Some(("top", args)) => admin::top(args),
        Some(("get", args)) => admin::get(args),
        Some(("log", args)) => admin::log(args),
        Some(("warm", args)) => warm::run(args),
        Some(("init", args)) => init::run(args),
        Some(("man", args)) => manual::run(args, command()),
        Some(("completions", args)) => {
            completions::run(args, command());
            Ok(())
        }
        _ => Err(Failure::Usage(
            "say what to do: serve, reload, top, get, log, warm, init, inspect, check, lab or smooth".into(),
        )),
    }
}

fn path(args: &ArgMatches) -> &Path {
    Path::new(args.get_one::<String>("PATH").map_or("", String::as_str))
}

/// clap explains at length: what it says first, what that is about, and what may have been meant.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let mut line = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    if line.ends_with(':') {
        let missing: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        line.push_str(&format!(" {}", missing.join(", ")));
    }
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
        match error.get(kind) {
            Some(ContextValue::String(meant)) => line.push_str(&format!("; did you mean {meant}?")),
            Some(ContextValue::Strings(meant)) if !meant.is_empty() => {
                line.push_str(&format!("; did you mean {}?", meant.join(", ")));
            }
            _ => {}
        }
    }
    line
}

/// The command that a command line names, as far as there is such a one: whose help tells what is right.
fn named(words: &[OsString]) -> String {
    let all = command();
    let (mut at, mut named) = (&all, String::from("cosm"));
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(found) = at.find_subcommand(word) else { break };
        named.push_str(&format!(" {word}"));
        at = found;
    }
    named
}

fn command() -> Command {
    let cache = Arg::new("PATH").required(true).help("The cache: a file or a block device");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON, on one line");
    let all = Arg::new("all")
        .long("all")
        .action(ArgAction::SetTrue)
        .help("Read the whole cache, however large it is, instead of a sample of 4 GiB");
    let hosts = Arg::new("hosts")
        .long("hosts")
        .value_name("N")
        .default_value("20")
        .value_parser(clap::value_parser!(u64).range(..=10_000))
        .help("How many hosts to list, largest first");
    Command::new("cosm")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A caching web proxy that owns its disk layout")
        .max_term_width(110)
        .after_help(
            "Without options `cosm serve` is a caching forward proxy on 127.0.0.1:3128:\n  \
             curl -x 127.0.0.1:3128 http://example.com/\n\nExit status: 0 done, 1 failed, 2 wrong usage.",
        )
        .subcommand_required(false)
        .subcommand(serve::command())
        .subcommands(admin::commands())
        .subcommand(warm::command())
        .subcommand(lab::command())
        .subcommand(smooth::command())
        .subcommand(
            Command::new("inspect")
                .about("Show what a cache holds: bytes used and free; objects by size, age and host")
                .after_help(
                    "It never writes, and works while a server uses the cache. It reads up to 4 GiB, evenly spread, \
                     and says so where figures are estimates from that sample. Memory: that of the index, as a \
                     server's, and one packet.",
                )
                .args([cache.clone(), json.clone(), hosts, all]),
        )
        .subcommand(
            Command::new("check")
                .about("Verify every checksum of a cache; exit status 1 when records are damaged")
                .after_help("It never writes, and works while a server uses the cache.")
                .args([cache, json]),
        )
        .subcommand(init::command())
        .subcommand(manual::command())
        .subcommand(completions::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn errors_of_the_command_line_say_what_was_meant_and_which_help_has_it() {
        let table = [
            ("cosm serve --lisen 1", "did you mean --listen?", "cosm serve"),
            ("cosm serv", "did you mean serve?", "cosm"),
            ("cosm lab compare --mediun x", "did you mean --medium?", "cosm lab compare"),
            ("cosm inspect", "<PATH>", "cosm inspect"),
        ];
        for (line, says, help) in table {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            let said = one_line(&error);
            assert!(said.contains(says) && said.lines().count() == 1, "{line}: {said}");
            assert_eq!(named(&words), help);
        }
    }
}
