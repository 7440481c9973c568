//! The command line. Exit status: 0 done, 1 failed, 2 wrong usage; an error is one line.

#[macro_use]
mod out;

mod lab;
mod look;
mod machine;
mod serve;
mod settings;
mod values;

use clap::{Arg, ArgAction, ArgMatches, Command};
use settings::{Setting, TABLE};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What went wrong, and whether the caller's words were at fault.
enum Failure {
    Usage(String),
    Failed(String),
}

fn main() -> ExitCode {
    let failure = match command().try_get_matches() {
        Ok(matches) => match run(&matches) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => Failure::Usage(first_line(&error.to_string())),
    };
    let (code, line) = match failure {
        Failure::Usage(line) => (2, format!("{line}; see cosm --help")),
        Failure::Failed(line) => (1, line),
    };
    proxy::say(line);
    ExitCode::from(code)
}

fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("serve", args)) => serve::serve(args),
        Some(("lab", args)) => lab::run(args),
        Some(("inspect", args)) => look::inspect(path(args), args.get_flag("json")).map_err(Failure::Failed),
        Some(("check", args)) => look::check(path(args), args.get_flag("json")).map_err(Failure::Failed),
        _ => Err(Failure::Usage("say what to do: serve, inspect, check or lab".into())),
    }
}

fn path(args: &ArgMatches) -> &Path {
    Path::new(args.get_one::<String>("PATH").map_or("", String::as_str))
}

/// clap explains at length; the first line says it.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn command() -> Command {
    let cache = Arg::new("PATH").required(true).help("The cache: a file or a block device");
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Machine-readable, on standard output");
    Command::new("cosm")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A caching web proxy that owns its disk layout")
        .after_help(
            "Without options `cosm serve` is a caching forward proxy on 127.0.0.1:3128:\n  \
             curl -x 127.0.0.1:3128 http://example.com/\n\nExit status: 0 done, 1 failed, 2 wrong usage.",
        )
        .subcommand_required(false)
        .subcommand(serve_command())
        .subcommand(lab::command())
        .subcommand(
            Command::new("inspect")
                .about("Say what a cache holds; never writes, also beside a running server")
                .args([cache.clone(), json.clone()]),
        )
        .subcommand(
            Command::new("check")
                .about(
                    "Verify every checksum of a cache; never writes; exit status 1 when records are damaged",
                )
                .args([cache, json]),
        )
}

fn serve_command() -> Command {
    let config = Arg::new("config").long("config").value_name("FILE").help(
        "Read settings from a file: lines `name value`, named as the options here; the command line goes before it",
    );
    let command = Command::new("serve")
        .about("Run the proxy")
        .after_help(
            "Sizes take KiB, MiB, GiB, TiB; times ms, s, min, h. All settings take effect at the start.\n\
             SIGTERM or ^C ends running requests, leaves a clean checkpoint and stops; the next start is warm, and \
             also after kill -9.",
        )
        .arg(config);
    command.args(TABLE.iter().map(argument))
}

/// A setting as an option.
fn argument(setting: &Setting) -> Arg {
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let help = format!("{}{default}", setting.help);
    Arg::new(setting.name).long(setting.name).value_name(setting.value).help(help).help_heading(setting.group)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
