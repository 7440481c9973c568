//! Files of settings: TOML, or lines `name value`. The first line that says something tells which of the two a file is:
//! one with `=` after its first word, or with a bracket, is TOML.
//!
//! In TOML a value is a string, a whole number, or a list of them where several may be given. In lines a value ends with
//! its line; `#` begins a comment at the start of a line, or after a blank.

use super::{Given, Setting, Source};
use std::fs::File as Opened;
use std::io::Read;
use toml::de::{DeTable, DeValue};

/// Bytes of a configuration at most.
pub const MOST: u64 = 16 << 20;

/// The text of a file, or of a pipe, which is waited for; no more of it than `MOST` bytes.
pub fn load(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let file = Opened::open(path).map_err(|error| error.to_string())?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST { Err(format!("it is larger than {MOST} bytes")) } else { Ok(text) }
}

/// The settings of a file, by rising lines; or what is wrong with it, a line each, which names the file.
pub fn read(text: &str, name: &str) -> Result<Vec<Given>, Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut file = File { name, given: Vec::new(), wrong: Vec::new() };
    if is_toml(text) {
        file.read_toml(text)
    } else {
        file.read_lines(text)
    }
    file.given.sort_by_key(|(line, _)| *line);
    match file.wrong.is_empty() {
        true => Ok(file.given.into_iter().map(|(_, given)| given).collect()),
        false => Err(file.wrong),
    }
}

fn is_toml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let name = first.split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
    first.starts_with(['[', '"', '\'']) || first[name.len()..].trim_start().starts_with('=')
}

struct File<'a> {
    name: &'a str,
    given: Vec<(usize, Given)>,
    wrong: Vec<String>,
}

impl File<'_> {
    fn read_lines(&mut self, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = value.trim();
            self.take(number, name, |_| match value.starts_with(['=', '"', '\'']) {
                false => Ok(value.to_owned()),
                true => Err("this is a file of lines `name value`, since its first setting is; drop `=` and quotes, or \
                     write all of it as TOML, name = \"value\""
                    .to_owned()),
            });
        }
    }

    fn read_toml(&mut self, text: &str) {
        let line = |offset: usize| {
            1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count()
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        let starts = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        if let Some(first) = errors.iter().min_by_key(|error| starts(error)) {
            let what = first.message().lines().collect::<Vec<_>>().join(", ");
            return self.wrong.push(format!(
                "{}:{}: {what}; this is a file of TOML, since its first setting is: name = \"value\"",
                self.name,
                line(starts(first))
            ));
        }
        for (name, value) in table.get_ref() {
            self.take(line(name.span().start), name.get_ref(), |setting| match value.get_ref() {
                DeValue::Array(_) if !setting.kind.is_list() => {
                    Err("it takes one value, not a list".to_owned())
                }
                value => text_of(value, setting.kind.separator()),
            });
        }
    }

    fn take(&mut self, line: usize, name: &str, value: impl FnOnce(&Setting) -> Result<String, String>) {
        let read = Setting::named(name).and_then(|setting| {
            let twice = self.given.iter().any(|(_, given)| given.name == setting.name);
            let value = match twice && !setting.kind.repeats() {
                true => Err("it is set twice in this file".to_owned()),
                false => value(setting),
            };
            Ok((setting, value.map_err(|why| format!("{name}: {why}"))?))
        });
        match read {
            Ok((setting, value)) => {
                let name = setting.name;
                if let Some((_, given)) = self.given.iter_mut().find(|(_, given)| given.name == name) {
                    given.value.push(setting.kind.separator());
                    given.value.push_str(&value);
                    return;
                }
                let source = Source::File(self.name.to_owned(), line);
                self.given.push((line, Given { name, value, source }));
            }
            Err(why) => self.wrong.push(format!("{}:{line}: {why}", self.name)),
        }
    }
}

/// A line up to `#` at its start, or after a blank.
fn without_comment(line: &str) -> &str {
    let begins = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices('#').map(|(at, _)| at).find(|at| begins(*at));
    &line[..comment.unwrap_or(line.len())]
}

/// A value as the command line has it.
fn text_of(value: &DeValue, separator: char) -> Result<String, String> {
    match value {
        DeValue::Array(values) => {
            let items: Result<Vec<String>, String> = values
                .iter()
                .map(|value| match value.get_ref() {
                    DeValue::Array(_) => Err("a list in a list is no value".to_owned()),
                    value => text_of(value, separator),
                })
                .collect();
            Ok(items?.join(&separator.to_string()))
        }
        DeValue::String(text) if separator.is_control() && text.contains(separator) => {
            Err(format!("`{}` has a control character", text.escape_debug()))
        }
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("{number} is too large")),
        },
        DeValue::Table(_) => Err("no setting is a table; write name = \"value\"".to_owned()),
        other => Err(format!(
            "a {} is no value; write a string in quotes, a whole number, or a list of them",
            other.type_str()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(&'static str, String, usize)> {
        let line = |source| match source {
            Source::File(name, line) if name == "f" => line,
            other => panic!("{other:?}"),
        };
        let given = read(text, "f").unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        given.into_iter().map(|given| (given.name, given.value, line(given.source))).collect()
    }

    #[test]
    fn lines() {
        let text = "# cosm\nlisten 0.0.0.0:3128 # everywhere\n\n  cache-size   2 GiB\t#now\r\ncache /srv/a#b\nreach\n";
        let expected = [
            ("listen", "0.0.0.0:3128".to_owned(), 2),
            ("cache-size", "2 GiB".to_owned(), 4),
            ("cache", "/srv/a#b".to_owned(), 5),
            ("reach", String::new(), 6),
        ];
        assert_eq!(values(text), expected);
        assert_eq!(values("# nothing\n\n"), []);
    }

    #[test]
    fn several_caches() {
        let expected = [("cache", "/a,size=4MiB\n/b, c".to_owned(), 1)];
        assert_eq!(values("cache = [\"/a,size=4MiB\", \"/b, c\"]"), expected);
        assert_eq!(values("cache /a,size=4MiB\ncache /b, c"), expected);
    }

    #[test]
    fn toml_values() {
        let text = "\u{feff}# cosm\nlisten = [\"127.0.0.1:1\", '[::1]:1'] # both\ncache = \"/srv/a #b\"\nworkers = 0x1_0\n\
                    connect-ports = [443, 8443]\n\"cache-size\" = \"2 GiB\"\nallow = [\n  \"10.0.0.0/8\", # ours\n]\ncmax=3\n";
        let expected = [
            ("listen", "127.0.0.1:1,[::1]:1".to_owned(), 2),
            ("cache", "/srv/a #b".to_owned(), 3),
            ("workers", "16".to_owned(), 4),
            ("connect-ports", "443,8443".to_owned(), 5),
            ("cache-size", "2 GiB".to_owned(), 6),
            ("allow", "10.0.0.0/8".to_owned(), 7),
            ("cmax", "3".to_owned(), 10),
        ];
        assert_eq!(values(text), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_file_line_and_what_to_do() {
        let table = [
            ("cmax 1\nlisen 1", &["f:2: no setting is called `lisen`; did you mean `listen`?"][..]),
            ("cmax 1\ncmax 2", &["f:2: cmax: it is set twice in this file"]),
            ("cmax 1\nworkers = 2", &["f:2: workers: this is a file of lines"]),
            ("cmax 1\ncache \"/srv\"", &["f:2: cache: this is a file of lines"]),
            ("a 1\nb 2", &["f:1: no setting is called `a`", "f:2: no setting is called `b`"]),
            ("cmax = 1\nlisen = 1", &["f:2: no setting is called `lisen`; did you mean `listen`?"]),
            ("cmax = 1\ncmax = 2", &["f:2: duplicate key"]),
            ("cmax = 1\nworkers 2", &["f:2: "]),
            ("cmax = 1\n\nworkers = true", &["f:3: workers: a boolean is no value"]),
            ("memory = [\"a\", \"b\"]", &["f:1: memory: it takes one value, not a list"]),
            ("cache = [\"a\", \"b\\nc\"]", &["f:1: cache: `b\\nc` has a control character"]),
            ("cmax = 1.5", &["f:1: cmax: a float is no value"]),
            ("cmax = 99999999999999999999", &["f:1: cmax: 99999999999999999999 is too large"]),
            ("listen = [[\"a\"]]", &["f:1: listen: a list in a list"]),
            ("[cache]\nsize = 1", &["f:1: cache: no setting is a table"]),
            ("[[site]]\nname = 1", &["f:1: no setting is called `site`"]),
            ("cache.size = 1", &["f:1: cache: no setting is a table"]),
            ("cache = \"a\nb\"", &["f:1: "]),
            ("\"a\\nb\" = 1", &["f:1: no setting is called `a\\nb`"]),
        ];
        for (text, says) in table {
            let wrong = read(text, "f").unwrap_err();
            assert_eq!(wrong.len(), says.len(), "{text}: {wrong:?}");
            for (wrong, says) in wrong.iter().zip(says) {
                assert!(wrong.starts_with(says) && wrong.lines().count() == 1, "{text}: {wrong}");
            }
        }
    }
}
