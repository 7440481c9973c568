//! How a line is made of fields: JSON with all of them, or a text in which `$name` stands for one.

use super::field::{self, Entry, FIELDS, Field};
use http::HeaderValue;
use std::fmt::{self, Display, Write};
use std::str::FromStr;
use std::time::Duration;

/// Bytes of one field, at most; of a longer one the begin is logged.
const FIELD_MAX: usize = 8 << 10;

#[derive(Clone, Debug)]
pub struct Format(Shape);

#[derive(Clone, Debug)]
enum Shape {
    Json,
    Text(Vec<Piece>),
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(String),
    Field(&'static Field),
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Formats with a name, and what they stand for.
const NAMED: [(&str, &str); 2] = [
    (Format::COMBINED, "$client - - [$time_local] \"$request\" $status $bytes \"$referer\" \"$user_agent\""),
    (
        Format::SQUID,
        "$time_unix $milliseconds $client $squid_result/$squid_status $bytes $method $url - $squid_hierarchy $squid_type",
    ),
];

impl Format {
    pub const COMBINED: &str = "combined";
    pub const SQUID: &str = "squid";
    pub const JSON: &str = "json";

    /// Adds the line of an entry.
    pub fn write(&self, entry: &Entry<'_>, to: &mut Vec<u8>) {
        match &self.0 {
            Shape::Json => {
                to.push(b'{');
                // Squid's are others once more.
                for (n, field) in FIELDS.iter().filter(|field| is_in_json(field)).enumerate() {
                    to.extend_from_slice(if n == 0 { b"\"" } else { b",\"" });
                    to.extend_from_slice(field.name.as_bytes());
                    to.extend_from_slice(b"\":");
                    (field.write)(entry, &mut Line { to, is_json: true });
                }
                to.extend_from_slice(b"}\n");
            }
            Shape::Text(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Literal(text) => to.extend_from_slice(text.as_bytes()),
                        Piece::Field(field) => (field.write)(entry, &mut Line { to, is_json: false }),
                    }
                }
                to.push(b'\n');
            }
        }
    }
}

fn is_in_json(field: &Field) -> bool {
    !field.name.starts_with("squid_") && !["time_local", "milliseconds", "request"].contains(&field.name)
}

impl FromStr for Format {
    type Err = String;

    /// A name, or a text with `$name` or `${name}` for fields and `$$` for a dollar.
    fn from_str(text: &str) -> Result<Format, String> {
        if text == Format::JSON {
            return Ok(Format(Shape::Json));
        }
        let text = NAMED.iter().find(|(name, _)| *name == text).map_or(text, |(_, text)| text);
        if !text.contains('$') {
            return Err(format!(
                "`{text}` is no format: json, combined, squid, or a text with fields such as $client and $status"
            ));
        }
        if text.contains(['\n', '\r']) {
            return Err("a format is one line".into());
        }
        pieces(text).map(|pieces| Format(Shape::Text(pieces)))
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        if !before.is_empty() {
            pieces.push(Piece::Literal(before.into()));
        }
        if let Some(behind) = after.strip_prefix('$') {
            pieces.push(Piece::Literal("$".into()));
            rest = behind;
            continue;
        }
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or_else(|| format!("`${after}` lacks a `}}`"))?,
            None => {
                let of_name = |c: char| c.is_ascii_lowercase() || c == '_';
                after.split_at(after.find(|c| !of_name(c)).unwrap_or(after.len()))
            }
        };
        let field = field::find(name).ok_or_else(|| {
            let near =
                FIELDS.iter().map(|field| field.name).min_by_key(|other| strsim::levenshtein(name, other));
            format!("`${name}` is no field; is ${} meant?", near.unwrap_or_default())
        })?;
        pieces.push(Piece::Field(field));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest.into()));
    }
    Ok(pieces)
}

/// Where a field is written: what came from others is escaped, so that it neither ends a line nor a quoted string.
pub struct Line<'a> {
    to: &'a mut Vec<u8>,
    is_json: bool,
}

impl Line<'_> {
    pub fn missing(&mut self) {
        self.to.extend_from_slice(if self.is_json { b"null" } else { b"-" });
    }

    pub fn truth(&mut self, truth: bool) {
        self.to.extend_from_slice(if truth { b"true" } else { b"false" });
    }

    /// As it is.
    pub fn number(&mut self, number: impl Display) {
        let _ = write!(Raw(self.to), "{number}");
    }

    /// To the microsecond.
    pub fn seconds(&mut self, time: Duration) {
        self.number(format_args!("{}.{:06}", time.as_secs(), time.subsec_micros()));
    }

    pub fn optional(&mut self, text: Option<impl AsRef<str>>) {
        match text {
            Some(text) => self.text(text.as_ref()),
            None => self.missing(),
        }
    }

    pub fn field(&mut self, value: Option<&HeaderValue>) {
        match value {
            Some(value) => self.bytes(value.as_bytes()),
            None => self.missing(),
        }
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.quote();
        self.escaped(&bytes[..bytes.len().min(FIELD_MAX)]);
        self.quote();
    }

    pub fn show(&mut self, shown: impl Display) {
        self.quote();
        let _ = write!(Escaping(self), "{shown}");
        self.quote();
    }

    fn quote(&mut self) {
        if self.is_json {
            self.to.push(b'"');
        }
    }

    /// Quotes, backslashes, control bytes and what is not ASCII: as `\u00XX` in JSON, else as `\xXX`, like nginx.
    fn escaped(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'"' | b'\\' if self.is_json => self.to.extend_from_slice(&[b'\\', byte]),
                b'"' | b'\\' | ..0x20 | 0x7f.. => {
                    let sign = if self.is_json { "\\u00" } else { "\\x" };
                    let _ = write!(Raw(self.to), "{sign}{byte:02X}");
                }
                _ => self.to.push(byte),
            }
        }
    }
}

struct Raw<'a>(&'a mut Vec<u8>);

impl Write for Raw<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

struct Escaping<'a, 'b>(&'a mut Line<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.escaped(&text.as_bytes()[..text.len().min(FIELD_MAX)]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_names_or_texts_with_fields() {
        for fine in ["json", "combined", "squid", "$client $status", "${status}ms $$ $url", "$bytes"] {
            assert!(fine.parse::<Format>().is_ok(), "{fine}");
        }
        for (wrong, why) in [
            ("", "`` is no format"),
            ("common", "`common` is no format"),
            ("$stats", "is $status meant?"),
            ("${client", "lacks a `}`"),
            ("$client\n$status", "one line"),
            ("$", "`$` is no field"),
        ] {
            let said = wrong.parse::<Format>().map(|_| ()).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn what_others_say_neither_ends_a_line_nor_a_string() {
        let write = |is_json, bytes: &[u8]| {
            let mut to = Vec::new();
            Line { to: &mut to, is_json }.bytes(bytes);
            String::from_utf8(to).unwrap()
        };
        let all: Vec<u8> = (0..=255).collect();
        let text = write(false, &all);
        assert!(text.bytes().all(|b| (0x20..0x7f).contains(&b)) && !text.contains('"'));
        assert_eq!(write(false, b"a\"\n\xff b"), "a\\x22\\x0A\\xFF b");
        let json: String = serde_json::from_str(&write(true, &all)).unwrap();
        assert_eq!(json.chars().map(u32::from).collect::<Vec<_>>(), (0..=255).collect::<Vec<_>>());
        assert_eq!(write(true, &[b'a'; 9000]).len(), FIELD_MAX + 2);
    }
}
