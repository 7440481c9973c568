//! An event as a line: words for people, or JSON.

use crate::sink::Severity;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Bytes of a line in words, and of one text in JSON, whatever a client or an origin put into it.
const MOST: usize = 2 << 10;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The time, the level, the area, what happened, and each field as `name=value`.
    Text,
    Json,
}

/// What an event says.
#[derive(Default)]
pub struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    pub fn of(event: &Event<'_>) -> Fields {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }

    /// A status, by which troubles differ.
    pub fn status(&self) -> u64 {
        let found = self.others.iter().find(|(name, _)| *name == "status");
        found.and_then(|(_, value)| value.as_u64()).unwrap_or_default()
    }

    pub fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.others.push((name, value.into()));
    }

    fn note(&mut self, field: &Field, mut text: String) {
        text.truncate(text.floor_char_boundary(MOST));
        match field.name() {
            "message" => self.message = text,
            name => self.add(name, text),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.note(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }
}

pub fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        _ => Severity::Debug,
    }
}

pub fn word(level: Level) -> &'static str {
    match severity(level) {
        Severity::Error => "error",
        Severity::Warning => "warn",
        Severity::Info => "info",
        Severity::Debug => "debug",
    }
}

/// One line, with its end.
pub fn line(style: Style, at: Timestamp, level: Level, area: &str, fields: Fields) -> String {
    let time = format!("{at:.3}");
    if style == Style::Json {
        let head =
            [("time", time.as_str()), ("level", word(level)), ("area", area), ("message", &fields.message)];
        let head = head.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let others = fields.others.into_iter().map(|(name, value)| (name.to_owned(), value));
        let all: Map<String, Value> = head.into_iter().chain(others).collect();
        return format!("{}\n", Value::Object(all));
    }
    let mut line = format!("{time} {} {area}: {}", word(level), text(&fields));
    line.truncate(line.floor_char_boundary(MOST));
    line.push('\n');
    line
}

/// What an event says, in words: what happened, and each field.
pub fn text(fields: &Fields) -> String {
    let mut text = fields.message.clone();
    for (name, value) in &fields.others {
        let written = match value {
            Value::String(value) if is_bare(value) => write!(text, " {name}={value}"),
            value => write!(text, " {name}={value}"),
        };
        written.expect("a string takes all");
    }
    let mut text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    text.truncate(text.floor_char_boundary(MOST));
    text
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_millisecond(1_000_000_000_123).unwrap()
    }

    fn fields() -> Fields {
        let mut fields = Fields { message: "no answer".into(), ..Fields::default() };
        fields.add("hop", "127.0.0.1:80");
        fields.add("cause", "it \"broke\"\noff");
        fields.add("status", 502);
        fields
    }

    #[test]
    fn a_line_is_a_line_in_both_styles() {
        assert_eq!(
            line(Style::Text, at(), Level::WARN, "origin", fields()),
            "2001-09-09T01:46:40.123Z warn origin: no answer hop=127.0.0.1:80 cause=\"it \\\"broke\\\"\\noff\" status=502\n"
        );
        let json = line(Style::Json, at(), Level::ERROR, "request", fields());
        assert_eq!(json.matches('\n').count(), 1);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["time"], &json["level"]), (&"2001-09-09T01:46:40.123Z".into(), &"error".into()));
        assert_eq!((&json["area"], &json["message"]), (&"request".into(), &"no answer".into()));
        assert_eq!((&json["cause"], &json["status"]), (&"it \"broke\"\noff".into(), &502.into()));
        assert_eq!(fields().status(), 502);
    }

    #[test]
    fn a_message_makes_no_second_line_and_has_an_end() {
        let told = |message: &str| {
            let fields = Fields { message: message.into(), ..Fields::default() };
            line(Style::Text, at(), Level::INFO, "disk", fields)
        };
        assert!(told("a\r\nb").ends_with(" disk: a  b\n"));
        assert!(told(&"é".repeat(10_000)).len() <= MOST + 1);
    }
}
