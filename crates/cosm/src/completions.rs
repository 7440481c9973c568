//! `cosm completions`: what a shell completes a command line of ours by, from that command line's own description.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use clap_complete::aot::{Bash, Fish, Generator, Zsh};

pub fn command() -> Command {
    let shell = Arg::new("SHELL")
        .required(true)
        .value_parser(PossibleValuesParser::new(["bash", "zsh", "fish"]))
        .hide_possible_values(true)
        .help("The shell: bash, zsh or fish");
    Command::new("completions")
        .about("Print what a shell completes commands and options of cosm by")
        .after_help(
            "Examples:\n  \
             cosm completions bash > /usr/share/bash-completion/completions/cosm\n  \
             cosm completions zsh > /usr/share/zsh/vendor-completions/_cosm\n  \
             cosm completions fish > /usr/share/fish/vendor_completions.d/cosm.fish",
        )
        .arg(shell)
}

/// The script for the shell that `args` name, of all that `whole` understands.
pub fn run(args: &ArgMatches, whole: Command) {
    let whole = with_values(whole);
    let text = match args.get_one::<String>("SHELL").map_or("", String::as_str) {
        "fish" => script(Fish, whole),
        "zsh" => script(Zsh, whole),
        _ => script(Bash, whole),
    };
    line!("{}", text.trim_end());
}

fn script(shell: impl Generator, mut whole: Command) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut whole, "cosm", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The same, and what a value's name says of it is known to clap, too.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    let takes_none = !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_none || !arg.get_possible_values().is_empty() {
        return arg;
    }
    let name = match arg.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => arg.get_id().to_string(),
    };
    let names = |of: &str| name.split(['|', '[', ',']).any(|part| part == of);
    let words: Vec<String> = name
        .split('|')
        .filter(|part| part.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
        .map(str::to_owned)
        .collect();
    if ["FILE", "PATH", "TRACE"].into_iter().any(names) {
        arg.value_hint(ValueHint::FilePath)
    } else if ["FOLDER", "DIR", "DIRECTORY"].into_iter().any(names) {
        arg.value_hint(ValueHint::DirPath)
    } else if words.is_empty() {
        arg.value_hint(ValueHint::Other)
    } else {
        arg.value_parser(PossibleValuesParser::new(words))
    }
}
