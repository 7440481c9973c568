//! Results that are kept: what was asked and what came of it, as JSON. What is read is checked, since others may have written
//! it.

pub mod score;

use crate::replay::Row;
use crate::scale::Scale;

use crate::replay::watch::{Head, Map, Seen};
use score::Origin;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Of the models and recipes: whoever changes what a replay measures raises it, so that nobody goes on from rows of before.
pub const MODEL: u32 = 4;

/// What was asked. Results that differ in it are not of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub version: String,
    /// `MODEL` of who measured.
    #[serde(default)]
    pub model: u32,
    /// In words; says so when it is synthetic.
    pub trace: String,
    pub synthetic: bool,
    /// Of the trace's file, when it was named.
    #[serde(default)]
    pub format: Option<String>,
    /// Of the trace's file.
    pub trace_bytes: Option<u64>,
    /// The random seed of a synthetic workload.
    pub seed: Option<u64>,
    /// At most.
    pub requests: Option<u64>,
    /// Bytes of the objects that were asked for, at most.
    #[serde(default)]
    pub largest: Option<u64>,
    /// Requests that were not measured.
    #[serde(default)]
    pub warm_up: u64,
    pub medium: String,
    /// Of memory for files.
    #[serde(default)]
    pub limit: Option<String>,
    /// Of all recipes' caches in memory, where it is not each one's own.
    #[serde(default)]
    pub memory_policy: Option<String>,
}

/// One trace through recipes on one scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    #[serde(flatten)]
    pub asked: Asked,
    #[serde(flatten)]
    pub scale: Scale,
    /// What misses cost: what follows from it is not kept.
    #[serde(default)]
    pub origin: Origin,
    pub rows: Vec<Row>,
    /// What was seen of a recipe, when somebody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Looked>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looked {
    pub recipe: String,
    #[serde(flatten)]
    pub seen: Seen,
}

/// Recipes on scales of their own: points of curves, and pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    pub asked: Asked,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// At most.
    pub requests: u64,
    #[serde(flatten)]
    pub scale: Scale,
    pub row: Row,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// Of a file: rows, points, kinds of operations and notes, names, and what a number may be. Far more than any run has.
const MOST_ROWS: usize = 10_000;
const MOST_KINDS: usize = 100;
const LONGEST_NAME: usize = 200;
pub const LARGEST_SIZE: u64 = 1 << 52;
const LARGEST: f64 = LARGEST_SIZE as f64;

impl Run {
    /// An error says what is wrong, in one line.
    pub fn read(text: &str) -> Result<Run, String> {
        let run: Run = parse(text)?;
        run.asked.check()?;
        check_scale(&run.scale)?;
        let Origin { delay, bandwidth } = run.origin;
        // In reciprocal seconds: none is infinitely slow.
        check_numbers("origin", [("delay", delay, LARGEST), ("1 / bandwidth", 1.0 / bandwidth, 1.0)])?;
        if run.rows.len() > MOST_ROWS {
            return Err(format!("{} rows are more than {MOST_ROWS}", run.rows.len()));
        }
        run.rows.iter().try_for_each(check_row)?;
        // Each has a column.
        let kinds: BTreeSet<_> = run.rows.iter().flat_map(|row| row.operations.0.keys()).collect();
        let notes: BTreeSet<_> = run.rows.iter().flat_map(|row| row.notes.keys()).collect();
        let most = kinds.len().max(notes.len());
        if most > MOST_KINDS {
            return Err(format!("{most} kinds of operations or notes are more than {MOST_KINDS}"));
        }
        if run.seen.len() > run.rows.len() {
            return Err(format!("pictures of {} recipes and rows of {}", run.seen.len(), run.rows.len()));
        }
        for looked in &run.seen {
            check_name("recipe", &looked.recipe)?;
            check_seen(&looked.seen)?;
        }
        Ok(run)
    }

    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }
}

impl Points {
    /// One line for what was asked, one for each point. A last line that was not written to its end is left out.
    pub fn read(text: &str) -> Result<Points, String> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.split('\n').zip(1..).filter(|(line, _)| !line.is_empty());
        let (first, _) = lines.next().ok_or("is empty")?;
        let asked: Asked = parse(first).map_err(|why| format!("line 1: {why}"))?;
        asked.check()?;
        let mut points = Vec::new();
        for (line, number) in lines {
            let at = |why| format!("line {number}: {why}");
            if points.len() == MOST_ROWS {
                return Err(at(format!("more than {MOST_ROWS} points")));
            }
            let point: Point = parse(line).map_err(at)?;
            check_scale(&point.scale).and_then(|()| check_row(&point.row)).map_err(at)?;
            point.seen.as_ref().map_or(Ok(()), check_seen).map_err(at)?;
            points.push(point);
        }
        Ok(Points { asked, points })
    }

    /// The line of what was asked, or of a point.
    pub fn line(of: &impl Serialize) -> Result<String, String> {
        serde_json::to_string(of).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    pub fn to_lines(&self) -> Result<String, String> {
        let points = self.points.iter().map(Points::line).collect::<Result<String, String>>()?;
        Ok(Points::line(&self.asked)? + &points)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("not results of this laboratory: {error}"))
}

impl Asked {
    /// Whether it can be kept. An error says what is wrong, in one line.
    pub fn check(&self) -> Result<(), String> {
        check_name("version", &self.version)?;
        check_name("medium", &self.medium)?;
        self.format.as_ref().map_or(Ok(()), |format| check_name("format", format))?;
        self.limit.as_ref().map_or(Ok(()), |limit| check_name("limit", limit))?;
        self.memory_policy.as_ref().map_or(Ok(()), |policy| check_name("policy of memory", policy))?;
        let named = !self.trace.is_empty() && self.trace.len() <= 20 * LONGEST_NAME;
        if named { Ok(()) } else { Err("the trace has no name, or too long a one".into()) }
    }

    /// The name of the synthetic workload, if it was one.
    pub fn like(&self) -> Option<&str> {
        self.trace.strip_prefix("synthetic, like ")?.split(',').next()
    }

    /// All of it by name, in words.
    pub fn fields(&self) -> [(&'static str, String); 13] {
        let number =
            |number: Option<u64>, none: &str| number.map_or(none.to_owned(), |number| number.to_string());
        let text = |text: &Option<String>, none: &str| text.clone().unwrap_or(none.to_owned());
        [
            ("version", self.version.clone()),
            ("model", self.model.to_string()),
            // Before the trace, whose name has it, too.
            ("seed", number(self.seed, "none")),
            ("trace", self.trace.clone()),
            ("synthetic", if self.synthetic { "yes".to_owned() } else { "no".to_owned() }),
            ("format", text(&self.format, "as it begins")),
            ("bytes of the trace", number(self.trace_bytes, "none")),
            ("requests at most", number(self.requests, "all")),
            ("largest object", number(self.largest, "any")),
            ("warm-up", self.warm_up.to_string()),
            ("medium", self.medium.clone()),
            ("limit", text(&self.limit, "what suits")),
            ("policy of memory", text(&self.memory_policy, "each recipe's own")),
        ]
    }

    /// Of it and another, what first differs, in words.
    pub fn difference(&self, other: &Asked) -> Option<String> {
        let mut pairs = self.fields().into_iter().zip(other.fields());
        let ((what, one), (_, two)) = pairs.find(|(one, two)| one != two)?;
        Some(format!("{what} is {one}, not {two}"))
    }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    match name {
        "" => Err(format!("{what} is empty")),
        name if name.len() > LONGEST_NAME => Err(format!("{what} is longer than {LONGEST_NAME} bytes")),
        name if name.chars().any(char::is_control) => Err(format!("{what} has control characters")),
        _ => Ok(()),
    }
}

fn check_numbers<'a>(of: &str, numbers: impl IntoIterator<Item = (&'a str, f64, f64)>) -> Result<(), String> {
    match numbers.into_iter().find(|(_, number, most)| !(0.0..=*most).contains(number)) {
        Some((name, number, most)) => Err(format!("{of}: {name} is {number}, not from 0 to {most}")),
        None => Ok(()),
    }
}

fn check_scale(scale: &Scale) -> Result<(), String> {
    let numbers = [
        ("memory", scale.memory as f64, LARGEST),
        ("disk", scale.disk as f64, LARGEST),
        ("utilization", scale.utilization, 1.0),
        (
            "write_budget",
            scale.write_budget.map_or(0, |budget| budget.bytes.max(budget.seconds)) as f64,
            LARGEST,
        ),
    ];
    check_numbers("scale", numbers)
}

fn check_row(row: &Row) -> Result<(), String> {
    check_name("recipe", &row.recipe)?;
    check_name("medium", &row.medium)?;
    row.operations.0.keys().try_for_each(|kind| check_name("operation", kind))?;
    row.notes.keys().try_for_each(|note| check_name("note", note))?;
    row.counted_by.as_ref().map_or(Ok(()), |who| check_name("counted_by", who))?;
    let numbers = [
        ("gets", row.gets as f64, LARGEST),
        ("seconds", row.seconds, LARGEST),
        ("gets_per_second", row.gets_per_second, LARGEST),
        ("hit_ratio", row.hit_ratio, 1.0),
        ("byte_hit_ratio", row.byte_hit_ratio, 1.0),
        ("device_reads", row.device_reads.unwrap_or(0) as f64, LARGEST),
        ("device_writes", row.device_writes.unwrap_or(0) as f64, LARGEST),
        ("device_bytes_read", row.device_bytes_read.unwrap_or(0) as f64, LARGEST),
        ("device_bytes_written", row.device_bytes_written.unwrap_or(0) as f64, LARGEST),
        ("device_read_seconds", row.device_read_seconds.unwrap_or(0.0), LARGEST),
        ("device_write_seconds", row.device_write_seconds.unwrap_or(0.0), LARGEST),
        ("write_amplification", row.write_amplification.unwrap_or(0.0), LARGEST),
        ("bytes_programmed", row.bytes_programmed.unwrap_or(0) as f64, LARGEST),
    ];
    let notes = row.notes.iter().map(|(note, number)| (note.as_ref(), *number, LARGEST));
    check_numbers(&row.recipe, numbers.into_iter().chain(notes))
}

fn check_seen(seen: &Seen) -> Result<(), String> {
    let looks = seen.free.looks.len() <= MOST_ROWS;
    let edges = seen.free.looks.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let distances = &seen.distances;
    let sum = distances.upto.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
    let head = seen.head.as_ref().is_none_or(|head| {
        head.intervals.len() <= Head::MOST
            && head.capacity as f64 <= LARGEST
            && head.intervals.iter().all(|one| one.places.len() <= Head::PLACES as usize)
            && head.intervals.iter().all(|one| one.places.iter().all(|place| *place < Head::PLACES))
            && head.intervals.iter().all(|one| one.mean <= one.most && one.most <= head.capacity)
    });
    let map = |map: &Map| {
        map.cells.len() <= Map::COLUMNS * Map::ROWS
            && map.cells.bytes().all(|digit| digit.is_ascii_digit())
            && (map.from as f64).max(map.cell as f64) <= LARGEST
    };
    let faults = [
        ("looks at the free space", looks && edges),
        ("distances", sum == Some(distances.pairs) && distances.next <= distances.pairs),
        ("head", head),
        ("maps", seen.maps.len() <= 2 && seen.maps.iter().all(map)),
    ];
    match faults.into_iter().find(|(_, fine)| !fine) {
        Some((what, _)) => Err(format!("the {what} cannot be so")),
        None => Ok(()),
    }
}

#[cfg(test)]
pub mod tests;
