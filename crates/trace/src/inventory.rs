//! Content inventories: what servers had to offer at a time, and candidates for a prefetch, as JSON, an object a line.
//!
//! What an access log cannot say, since nobody asked for it (Maltzahn 7.3). Each line has `url` and, where they are known, `size` (bytes),
//! `modified` and `created` (seconds since 1970), `content_type` and `cacheable`. Other members are passed over. Reading holds one row.

use crate::{host, line, spelling};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// A longer line is an error; bytes.
pub const LINE_MAX: usize = 64 << 10;
/// Of a size; bytes, as of a trace.
const LARGEST: u64 = 1 << 40;
/// A mark of the byte order, with which some editors begin.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// What a server had at one URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub url: String,
    /// Bytes; 0 when it is not known.
    pub size: u64,
    /// When it was changed last, in seconds since 1970; 0 when it is not known.
    pub modified: u64,
    /// Since when there is something at the URL, in seconds since 1970; 0 when it is not known.
    pub created: u64,
    /// Without parameters, in lower case; empty when it is not known.
    pub content_type: String,
    /// Whether a shared cache may store it; taken to be so where nothing is said.
    pub cacheable: bool,
}

impl Default for Row {
    fn default() -> Row {
        let (url, content_type) = (String::new(), String::new());
        Row { url, size: 0, modified: 0, created: 0, content_type, cacheable: true }
    }
}

/// An inventory that is read.
pub struct Inventory {
    input: Box<dyn BufRead + Send>,
    name: String,
    line: Vec<u8>,
    number: u64,
    takes_any_url: bool,
}

impl Row {
    /// Of one line, whatever its `url` is. An error says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Row, String> {
        let row: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
        let member = |name: &str| row.get(name).filter(|value| !value.is_null());
        let shown = |value: &Value| value.to_string().chars().take(40).collect::<String>();
        let wrong = |name: &str, value: &Value, what: &str| format!("`{name}` is {}: {what}", shown(value));
        let text = |name: &str| match member(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(wrong(name, other, "a text is wanted")),
        };
        let number = |name: &str| match member(name) {
            None => Ok(0),
            Some(value) => value.as_u64().ok_or_else(|| wrong(name, value, "a whole number is wanted")),
        };
        let url = text("url")?.ok_or("there is no `url`")?;
        let size = number("size")?;
        if size > LARGEST {
            return Err(format!("a size of {size} is larger than any response"));
        }
        let content_type = text("content_type")?.unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let cacheable = match member("cacheable") {
            None => true,
            Some(Value::Bool(cacheable)) => *cacheable,
            Some(other) => return Err(wrong("cacheable", other, "true or false is wanted")),
        };
        let (modified, created) = (number("modified")?, number("created")?);
        Ok(Row { url: url.into(), size, modified, created, content_type, cacheable })
    }

    /// Whether its `url` is one of a server.
    pub fn has_server(&self) -> bool {
        !host(&self.url).is_empty() && !self.url.bytes().any(|byte| byte.is_ascii_control())
    }

    /// With the URL in one [`spelling`].
    pub fn respelled(mut self) -> Row {
        match spelling(&self.url) {
            one if one == self.url => {}
            one => self.url = one.into_owned(),
        }
        self
    }

    /// As a line, with its end. What is not known is left out.
    pub fn write(&self, into: &mut Vec<u8>) {
        let text = |text: &str| Value::from(text).to_string();
        into.extend_from_slice(format!("{{\"url\":{}", text(&self.url)).as_bytes());
        for (name, number) in [("size", self.size), ("modified", self.modified), ("created", self.created)] {
            if number > 0 {
                into.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
            }
        }
        if !self.content_type.is_empty() {
            into.extend_from_slice(format!(",\"content_type\":{}", text(&self.content_type)).as_bytes());
        }
        into.extend_from_slice(format!(",\"cacheable\":{}}}\n", self.cacheable).as_bytes());
    }
}

impl Inventory {
    /// Opens a file, packed by zstd or gzip or not at all. An error is one line.
    pub fn open(path: &Path) -> Result<Inventory, String> {
        let at = |error: std::io::Error| format!("{}: {error}", path.display());
        let input = crate::source::unpacked(Box::new(File::open(path).map_err(at)?)).map_err(at)?;
        Ok(Inventory::of(input, &path.display().to_string()))
    }

    /// Reads what is not packed; errors begin with the name.
    pub fn of(input: Box<dyn Read + Send>, name: &str) -> Inventory {
        let input = Box::new(BufReader::with_capacity(256 << 10, input));
        Inventory { input, name: name.into(), line: Vec::new(), number: 0, takes_any_url: false }
    }

    /// Gives rows whose `url` is no URL of a server, too; else they are errors.
    pub fn with_any_url(self) -> Inventory {
        Inventory { takes_any_url: true, ..self }
    }

    /// Reads text.
    pub fn of_text(text: &str) -> Inventory {
        Inventory::of(Box::new(Cursor::new(text.to_owned())), "inventory")
    }

    fn fetch(&mut self) -> Result<Option<Row>, String> {
        loop {
            if !line(&mut *self.input, LINE_MAX, &mut self.line).map_err(|error| error.to_string())? {
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 && self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
            if self.line.len() > LINE_MAX {
                return Err(format!("longer than {LINE_MAX} bytes"));
            }
            if !self.line.is_empty() && self.line[0] != b'#' {
                let row = Row::parse(&self.line)?;
                if !self.takes_any_url && !row.has_server() {
                    // The URL is not shown: it may carry a password.
                    return Err("`url` is no URL of a server".into());
                }
                return Ok(Some(row));
            }
        }
    }
}

/// Ends after the first error, which is one line: file, line and what is wrong.
impl Iterator for Inventory {
    type Item = Result<Row, String>;

    fn next(&mut self) -> Option<Result<Row, String>> {
        let row = self.fetch();
        if row.is_err() {
            self.input = Box::new(std::io::empty());
        }
        row.map_err(|why| format!("{}: line {}: {why}", self.name, self.number)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_has_what_is_known() {
        let line =
            r#"{"url":"http://a.test/b","size":7,"modified":9,"content_type":"Image/GIF; q=1","x":[1]}"#;
        let row = Row {
            url: "http://a.test/b".into(),
            size: 7,
            modified: 9,
            content_type: "image/gif".into(),
            ..Row::default()
        };
        assert_eq!(Row::parse(line.as_bytes()), Ok(row));
        assert_eq!(Row::parse(br#"{"url":"http://a.test/","size":null}"#).map(|row| row.size), Ok(0));
    }

    #[test]
    fn a_mark_of_the_byte_order_may_come_first() {
        let row = "{\"url\":\"http://a.test/x\"}\n";
        for before in ["\u{feff}", "\u{feff}# remark\n"] {
            assert!(Inventory::of_text(&format!("{before}{row}")).all(|row| row.is_ok()), "{before:?}");
        }
        assert!(Inventory::of_text(&format!("{row}\u{feff}{row}")).any(|row| row.is_err()));
    }

    #[test]
    fn an_error_has_its_line() {
        for (line, says) in [
            ("{\"url\":\"http://a.test/", "no JSON object"),
            ("{}", "there is no `url`"),
            ("{\"url\":\"/only/a/path\"}", "is no URL of a server"),
            ("{\"url\":\"http://a.test/\\n\"}", "is no URL of a server"),
            ("{\"url\":\"http://a.test/\",\"size\":-1}", "`size` is -1: a whole number is wanted"),
            ("{\"url\":\"http://a.test/\",\"size\":9999999999999}", "larger than any response"),
            ("{\"url\":\"http://a.test/\",\"cacheable\":1}", "true or false"),
        ] {
            let text = format!("{{\"url\":\"http://a.test/x\"}}\n\n# remark\n{line}\n{{}}\n");
            let found: Vec<_> = Inventory::of_text(&text).collect();
            assert!(found.len() == 2 && found[0].is_ok(), "{line}");
            let why = found[1].clone().unwrap_err();
            assert!(why.starts_with("inventory: line 4: ") && why.contains(says), "{why}");
            assert!(!why.contains('\n'));
        }
        let long = format!("{{\"url\":\"http://a.test/{}\"}}", "x".repeat(LINE_MAX));
        assert!(Inventory::of_text(&long).next().unwrap().unwrap_err().contains("longer than"));
        let odd = "{\"url\":\"http:/me:secret@a.test/\"}\n{\"url\":\"\"}\n";
        assert!(!Inventory::of_text(odd).next().unwrap().unwrap_err().contains("secret"));
        assert_eq!(Inventory::of_text(odd).with_any_url().filter(Result::is_ok).count(), 2);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            path in "\\PC{0,20}", size in 0u64..1 << 40, modified: u64, created: u64, kind in "[a-z]{0,5}/?[a-z]{0,5}",
            cacheable: bool,
        ) {
            let row = Row { url: format!("http://a.test/{path}"), size, modified, created, content_type: kind, cacheable };
            let mut line = Vec::new();
            row.write(&mut line);
            prop_assert_eq!(Row::parse(&line), Ok(row));
        }

        #[test]
        fn any_bytes_are_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Row::parse(&bytes);
        }
    }
}
