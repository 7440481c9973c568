//! `cosm smooth`: bandwidth smoothing (Maltzahn, chapters 6 and 7; docs/smoothing.md). What is found goes to standard output, what goes on to
//! standard error.

mod analyze;
mod closed_loop;
mod evaluate;
mod of_trace;
mod plan;
mod rules;
mod source;
mod strategies;
mod target;
mod train;
mod world;

use crate::Failure;
use clap::{ArgMatches, Command};
use learn::examples::one_line;

pub fn command() -> Command {
    Command::new("smooth")
        .about("Measure how far the peak of the day could be lowered by fetching before it")
        .after_help(
            "The quiet hours of a day have room on the line. What is fetched then need not be fetched in the peak.\n\n\
             Example: the thesis' own day (Figure 7.2), in MB:\n  \
             cosm smooth target --b-pre 1965.93 --b-peak 4968.19 --b-off 2296.78 --l-max 140.667",
        )
        .subcommand_required(true)
        .subcommands(
            [
                analyze::command(),
                evaluate::command(),
                plan::command(),
                target::command(),
                train::command(),
                closed_loop::command(),
                world::command(),
            ]
            // `-1` is a number that is out of bounds, not an option that is unknown.
            .map(|command| {
                command.mut_args(|arg| match arg.get_action().takes_values() {
                    true => arg.allow_negative_numbers(true),
                    false => arg,
                })
            }),
        )
}

/// Names of files, classes and attributes are in what goes wrong, and may have anything in them.
pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    dispatch(args).map_err(|failure| match failure {
        Failure::Usage(line) => Failure::Usage(one_line(&line)),
        Failure::Failed(line) => Failure::Failed(one_line(&line)),
    })
}

fn dispatch(args: &ArgMatches) -> Result<(), Failure> {
    match args.subcommand() {
        Some(("analyze", args)) => analyze::run(args),
        Some(("evaluate", args)) => evaluate::run(args),
        Some(("plan", args)) => plan::run(args),
        Some(("target", args)) => target::run(args),
        Some(("train", args)) => train::run(args),
        Some(("loop", args)) => closed_loop::run(args),
        Some(("world", args)) => world::run(args),
        _ => Err(Failure::Usage(
            "name a command: analyze, evaluate, loop, plan, target, train or world".into(),
        )),
    }
}
