//! Settings for people: as options with their help, and as a file that says where each value comes from.

use super::{Config, Effect, Given, Kind, SEVERAL, Setting, Source, TABLE, Word, names};
use crate::machine::Machine;
use crate::values::{say_size, say_time};
use clap::{Arg, ArgAction};

/// Longer bounds are said once, below the help.
const SAID_BELOW: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

impl Setting {
    /// It as an option of the command line.
    pub fn argument(&self) -> Arg {
        let bounds = self.kind.bounds().map(|bounds| format!("; {bounds}")).unwrap_or_default();
        let help = format!("{} [default: {}{bounds}]", self.help, self.default);
        let arg = Arg::new(self.name).long(self.name).value_name(self.value()).help(help);
        let action = if self.kind.repeats() { ArgAction::Append } else { ArgAction::Set };
        arg.action(action).help_heading(self.topic)
    }

    /// What may be given, as help names it.
    pub(super) fn value(&self) -> String {
        let words = names(self.words);
        let mut kinds: Vec<&str> = vec![self.kind.value()];
        kinds.extend(words);
        kinds.retain(|kind| !kind.is_empty());
        kinds.join("|")
    }
}

impl Kind {
    fn value(&self) -> &'static str {
        match self {
            Kind::Size(..) | Kind::PowerOfTwo(..) => "SIZE",
            Kind::Time(..) => "TIME",
            Kind::Count(..) => "N",
            Kind::Address(_) => "ADDRESS:PORT|unix:PATH",
            Kind::Addresses(_) => "[tls:|redirect:]ADDRESS:PORT|unix:PATH,…",
            Kind::Networks(_) => "NETWORK,…",
            Kind::Peers(_) => "NETWORK|unix,…",
            Kind::Ports(_) => "PORT,…",
            Kind::Caches(_) => "PATH[,size=SIZE][,weight=N]",
            Kind::Other(name, _) => name,
            Kind::Choice => "",
        }
    }

    /// Its bounds, where there are any that are worth a word.
    fn bounds(&self) -> Option<String> {
        let (least, most) = match self {
            Kind::Size(bounds, _) | Kind::PowerOfTwo(bounds, _) if *bounds.end() == u64::MAX => {
                return (*bounds.start() > 0).then(|| format!("at least {}", say_size(*bounds.start())));
            }
            Kind::Size(bounds, _) | Kind::PowerOfTwo(bounds, _) => {
                (say_size(*bounds.start()), say_size(*bounds.end()))
            }
            Kind::Time(bounds, _) if *bounds.end() > SAID_BELOW => return None,
            Kind::Time(bounds, _) => (say_time(*bounds.start()), say_time(*bounds.end())),
            Kind::Count(bounds, _) => (bounds.start().to_string(), bounds.end().to_string()),
            _ => return None,
        };
        Some(format!("{least} to {most}"))
    }
}

/// All settings as a file of TOML, each with where its value comes from, and whether a reload changes it. `here` is what they
/// come to, if that is known.
pub fn as_file(given: &[Given], machine: &Machine, here: Option<&Config>) -> String {
    let mut lines = Vec::new();
    let mut topic = "";
    for setting in TABLE {
        if setting.topic != topic {
            topic = setting.topic;
            lines.push(format!("{}# {topic}", if lines.is_empty() { "" } else { "\n" }));
        }
        let given = setting.given(given);
        let text = given.map_or(setting.default, |given| &given.value);
        let source = given.map_or(&Source::Default, |given| &given.source);
        let stands_for = match (text, setting.words, here) {
            ("auto", [Word::Auto(number)], _) => Some(number(machine)),
            ("auto", [Word::Divided(_, number)], Some(config)) => Some(number(config)),
            _ => None,
        };
        let here = match (stands_for, &setting.kind) {
            (Some(bytes), Kind::Size(..)) => format!(", here {} MiB", bytes >> 20),
            (Some(number), _) => format!(", here {number}"),
            (None, _) => String::new(),
        };
        let reloads = if setting.effect == Effect::Reload { "; reloads" } else { "" };
        let several: Vec<String> = match setting.kind.repeats() {
            true => text.split(SEVERAL).map(quoted).collect(),
            false => Vec::new(),
        };
        let value = match several.len() {
            2.. => format!("[{}]", several.join(", ")),
            _ if is_number(text) => text.to_owned(),
            _ => quoted(text),
        };
        let line = format!("{} = {value}", setting.name);
        lines.push(format!("{line:<40} # {source}{here}{reloads}"));
    }
    lines.join("\n")
}

/// As TOML writes numbers, too.
fn is_number(text: &str) -> bool {
    text.parse().is_ok_and(|number: u32| number.to_string() == text)
}

/// A text as TOML's basic string.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const MACHINE: Machine = Machine { memory: 4 << 30, cores: 3, descriptors: 1 << 20 };

    #[test]
    fn what_is_printed_reads_as_it_was() {
        let given = |name: &str, value: &str, source| {
            let name = Setting::named(name).unwrap().name;
            Given { name, value: value.into(), source }
        };
        let all = [
            given("cache", "/srv/a \"b\\ #c\n/srv/b,size=4MiB", Source::File("x.toml".into(), 7)),
            given("cmax", "2", Source::Flag),
            given("pseudonym", "007", Source::Flag),
        ];
        let printed = as_file(&all, &MACHINE, None);
        assert!(printed.contains("# x.toml:7\n") && printed.contains("# command line\n"), "{printed}");
        assert!(
            printed.contains("workers = \"auto\"                         # default, here 3\n"),
            "{printed}"
        );
        let read = file::read(&printed, "printed").unwrap();
        assert_eq!(read.len(), TABLE.len());
        for setting in TABLE {
            let value = setting.given(&all).map_or(setting.default, |given| &given.value);
            assert_eq!(setting.given(&read).unwrap().value, value, "{}", setting.name);
        }
        let config = |given: &[Given]| format!("{:?}", Config::build(given, &MACHINE).unwrap());
        assert_eq!(config(&read), config(&all));
    }
}
