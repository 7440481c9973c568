//! `cosm get`: what is stored of a URL.

use super::ask::Admin;
use crate::values::say_time;
use serde_json::Value;
use std::time::Duration;

/// How wide the names are.
const NAMES: usize = 24;

pub fn run(admin: &Admin, url: &str, fields: &[&str], json: bool) -> Result<(), String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("url", url).extend_pairs(fields.iter().map(|field| ("field", field)));
    let object = admin.ask(&format!("/object.json?{}", query.finish()), "state")?;
    match json {
        true => line!("{object:#}"),
        false => lines(&object).into_iter().for_each(|line| line!("{line}")),
    }
    Ok(())
}

/// Rows of what is told: the name in JSON, the name for people, and how the value is written.
type Row = (&'static str, &'static str, fn(&Value) -> Option<String>);

const ROWS: &[Row] = &[
    ("varies-by", "varies by", list),
    ("status", "status", plain),
    ("body-bytes", "body, bytes", plain),
    ("pieces", "pieces", plain),
    ("part", "part", plain),
    ("received", "received", date),
    ("age", "age", seconds),
    ("fresh-for", "fresh for", seconds),
    ("stale-while-revalidate", "stale while revalidated", seconds),
    ("stale-if-error", "stale on error", seconds),
    ("in-memory", "in memory", |value| Some(if value.as_bool()? { "yes" } else { "no" }.into())),
];

fn lines(object: &Value) -> Vec<String> {
    let text = |value: &Value| clean(value.as_str().unwrap_or_default());
    let mut lines =
        vec![format!("{}: {}", text(&object["url"]), text(&object["state"])), text(&object["why"])];
    for (name, told, write) in ROWS {
        lines.extend(
            object.get(*name).and_then(write).map(|value| format!("{told:<NAMES$}{}", clean(&value))),
        );
    }
    for place in object["on-disk"].as_array().into_iter().flatten() {
        let pending = if place["written"] == false { ", to be written" } else { "" };
        lines.push(format!(
            "{:<NAMES$}{}, segment {}, offset {}, at most {} bytes, uses {}{pending}",
            "on disk",
            text(&place["disk"]),
            place["segment"],
            place["offset"],
            place["record-bytes-at-most"],
            place["uses"],
        ));
    }
    for field in object["fields"].as_array().into_iter().flatten() {
        lines.push(format!("  {}: {}", text(&field[0]), text(&field[1])));
    }
    lines
}

/// What an origin wrote must not move the cursor.
fn clean(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(parts) => {
            let parts = parts.iter().map(|(name, value)| format!("{} {value}", name.replace('-', " ")));
            Some(parts.collect::<Vec<_>>().join(", "))
        }
        value => Some(value.to_string()),
    }
}

fn list(value: &Value) -> Option<String> {
    Some(value.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
}

fn seconds(value: &Value) -> Option<String> {
    Some(say_time(Duration::from_secs(value.as_u64()?)))
}

fn date(value: &Value) -> Option<String> {
    let date = jiff::Timestamp::from_second(i64::try_from(value.as_u64()?).ok()?).ok()?;
    Some(date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_origin_wrote_stays_on_its_line() {
        let object = json!({
            "url": "http://a/", "state": "fresh", "why": "It answers.", "status": 200, "age": 90, "received": 0, "part": null,
            "in-memory": true, "varies-by": ["accept", "cookie"], "pieces": { "count": 3, "missing": 0 },
            "on-disk": [{ "disk": "c", "segment": 1, "offset": 2, "record-bytes-at-most": 3, "uses": 0, "written": false }],
            "fields": [["x-a", "\u{1b}[2Jb\r\nc"]],
        });
        let lines = lines(&object);
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:#?}");
        for expected in [
            "http://a/: fresh",
            "varies by               accept, cookie",
            "pieces                  count 3, missing 0",
            "received                1970-01-01T00:00:00Z",
            "on disk                 c, segment 1, offset 2, at most 3 bytes, uses 0, to be written",
            "  x-a:  [2Jb  c",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
        }
    }
}
