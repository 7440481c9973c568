//! `cosm man`: manual pages, from the same description of the command line as its help.

use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::path::Path;

pub fn command() -> Command {
    let of = Arg::new("COMMAND").num_args(0..).help("The command; none: cosm itself");
    let out = Arg::new("out")
        .long("out")
        .value_name("DIR")
        .conflicts_with("COMMAND")
        .help("Write the pages of all commands into this folder");
    Command::new("man")
        .about("Print the manual page of a command, or write all of them")
        .after_help(
            "Examples:\n  cosm man serve | man -l -\n  cosm man lab compare | man -l -\n  cosm man --out /usr/local/share/man/man1",
        )
        .args([of, out])
}

pub fn run(args: &ArgMatches, whole: Command) -> Result<(), Failure> {
    let mut whole = whole.disable_help_subcommand(true);
    whole.build();
    if let Some(folder) = args.get_one::<String>("out") {
        return write(&whole, folder.as_ref()).map_err(Failure::Failed);
    }
    let mut at = &whole;
    for word in args.get_many::<String>("COMMAND").into_iter().flatten() {
        at = at
            .find_subcommand(word)
            .ok_or_else(|| Failure::Usage(format!("there is no command `{word}`")))?;
    }
    line!("{}", page(at).trim_end());
    Ok(())
}

/// One file for each command.
fn write(command: &Command, folder: &Path) -> Result<(), String> {
    let path = folder.join(format!("{}.1", name(command)));
    fs::write(&path, page(command)).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    command.get_subcommands().try_for_each(|command| write(command, folder))
}

/// As of the page: `cosm-lab-compare`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> String {
    let mut page = Vec::new();
    let bin = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let has_commands = command.has_subcommands();
    let positionals: Vec<String> = command.get_positionals().map(positional).collect();
    let rest = if has_commands { vec!["COMMAND".to_owned()] } else { positionals };
    let usage = format!("{bin} [OPTIONS] {}", rest.join(" "));
    let man = Man::new(command.clone().override_usage(usage.trim_end().to_owned()))
        .title(name(command).to_uppercase())
        .date(date())
        .source(concat!("cosm ", env!("CARGO_PKG_VERSION")))
        .manual("Cosm");
    // Writing to memory cannot fail.
    let _ = man.render_title(&mut page);
    let _ = man.render_name_section(&mut page);
    let _ = man.render_synopsis_section(&mut page);
    let _ = man.render_options_section(&mut page);
    if has_commands {
        let _ = man.render_subcommands_section(&mut page);
    }
    if let Some(notes) = command.get_after_help() {
        let _ = self::notes(&notes.to_string()).to_writer(&mut page);
    }
    String::from_utf8_lossy(&page).into_owned()
}

/// Of the program: its pages change with it alone.
fn date() -> String {
    let changed = std::env::current_exe().and_then(fs::metadata).and_then(|file| file.modified());
    let time = changed.ok().and_then(|time| jiff::Timestamp::try_from(time).ok()).unwrap_or_default();
    time.strftime("%Y-%m-%d").to_string()
}

fn positional(arg: &Arg) -> String {
    let name = arg.get_id();
    let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let name = if many { format!("{name}...") } else { name.to_string() };
    if arg.is_required_set() { name } else { format!("[{name}]") }
}

/// What follows the options in help: paragraphs, with lines that are set in. Of these, some explain a name.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    for (n, paragraph) in text.split("\n\n").enumerate() {
        if n > 0 {
            roff.control("PP", []);
        }
        for line in paragraph.lines() {
            match (line.strip_prefix("  "), line.trim().split_once("  ")) {
                (Some(_), Some((name, text))) => {
                    roff.control("TP", ["18"]).text([roman(name)]).text([roman(text.trim_start())]);
                }
                (Some(_), None) => {
                    roff.control("RS", ["2"]).control("nf", []);
                    roff.text([roman(line.trim())]).control("fi", []).control("RE", []);
                }
                (None, _) => _ = roff.text([roman(line)]),
            }
        }
    }
    roff
}
