//! `cosm inspect` and `cosm check`: a look at a cache, which never writes.

mod contents;
pub mod progress;

use self::contents::{Amount, Contents};
use self::progress::Progress;
use crate::values::{about_size, say_size};
use proxy::Membership;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a cache that `inspect` reads unless it is to read all.
pub const SAMPLE: u64 = 4 << 30;

/// Named figures, printed as a table or as one JSON object.
pub fn print(figures: &[(&str, Value)], json: bool) {
    if json {
        line!("{}", object(figures));
    } else {
        let widest = figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in figures {
            line!("{:<widest$} {}", name.replace('_', " "), plain(value));
        }
    }
}

fn object(figures: &[(&str, Value)]) -> Value {
    Value::Object(figures.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// As a text, without quotation marks.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a cache says of itself, and what it holds: the `hosts` largest hosts. `all`: however large it is.
pub fn inspect(path: &Path, hosts: usize, all: bool, json: bool) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut contents = Contents::new(now);
    let mut progress = Progress::new("segments");
    let limit = if all { u64::MAX } else { SAMPLE };
    let visit = |seen: store::Seen<'_>| contents.add(&seen);
    let (seen, surveyed) =
        store::survey(path, limit, visit, |done, of| progress.at(done, of)).map_err(|e| e.to_string())?;
    let is_sample = surveyed.read < surveyed.in_use;
    if is_sample {
        contents.scale(seen.used as f64 / surveyed.used.max(1) as f64);
    }
    let room = seen.segments * u64::from(seen.packet);
    let free = room.saturating_sub(seen.used);
    let size = |bytes: u64| if json { bytes.into() } else { Value::from(say_size(bytes)) };
    let share = |bytes: u64| match json {
        true => bytes.into(),
        false => format!("{} ({:.1} %)", about_size(bytes), bytes as f64 / room.max(1) as f64 * 100.0).into(),
    };
    let mut figures = vec![
        ("format", seen.format.into()),
        ("size", size(seen.size)),
        ("used", share(seen.used)),
        ("free", share(free)),
        ("objects", contents.objects().into()),
        ("entries", seen.objects.into()),
        ("packet", size(u64::from(seen.packet))),
        ("segments", seen.segments.into()),
        ("segments_in_use", surveyed.in_use.into()),
        ("segments_read", surveyed.read.into()),
        ("unsound", surveyed.unsound.into()),
        ("unreadable", surveyed.unreadable_segments.into()),
        ("identity", format!("{:016x}", seen.identity).into()),
        ("generation", seen.generation.into()),
        ("digests", seen.digests.into()),
        ("replayed", seen.replayed.into()),
        ("missing", seen.missing.into()),
        ("next_segment", seen.next_segment.into()),
        ("newest_sequence", seen.newest_sequence.into()),
    ];
    if let Some(set) = Membership::of(&seen.ledger) {
        let members: Vec<String> = set.members.iter().map(|identity| format!("{identity:016x}")).collect();
        figures.push(("set", if json { members.into() } else { members.join(" ").into() }));
        figures.push(("set_since", since(set.since, json)));
    }
    figures.extend(header(&seen.header));
    if json {
        figures.extend(contents.figures(hosts));
        print(&figures, true);
        return Ok(());
    }
    print(&figures, false);
    if is_sample {
        line!(
            "\nWhat follows, and the objects above, are estimates from {} of {} segments in use; --all reads all of them.",
            surveyed.read,
            surveyed.in_use
        );
    }
    table("kind", "records", "on disk", contents.kinds());
    table("body up to", "objects", "bodies", contents.sizes());
    table("age up to", "objects", "bodies", contents.ages());
    table("host", "objects", "bodies", contents.hosts(hosts));
    Ok(())
}

/// A time, milliseconds since 1970; printed as a date.
fn since(millis: u64, json: bool) -> Value {
    let date = i64::try_from(millis).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    match date {
        Some(date) if !json => format!("{date:.0}").into(),
        _ => millis.into(),
    }
}

/// Which copies of what lies before the segments are whole.
fn header(header: &store::Header) -> [(&'static str, Value); 5] {
    [
        ("superblocks", header.superblocks.into()),
        ("roots", header.roots.into()),
        ("ledgers", header.ledgers.into()),
        ("fence", u64::from(header.fence).into()),
        ("damaged_copies", header.damaged.into()),
    ]
}

fn table<'a>(what: &str, count: &str, bytes: &str, rows: impl IntoIterator<Item = (&'a str, Amount)>) {
    let rows: Vec<_> = rows.into_iter().filter(|(_, amount)| amount.count > 0).collect();
    let widest = rows.iter().map(|(name, _)| name.chars().count()).chain([what.len()]).max().unwrap_or(0);
    line!("\n{what:<widest$} {count:>12} {bytes:>12}");
    for (name, Amount { count, bytes }) in rows {
        line!("{name:<widest$} {count:>12} {:>12}", about_size(bytes));
    }
}

pub fn check(path: &Path, json: bool) -> Result<(), String> {
    let mut progress = Progress::new("segments");
    let checked = store::check(path, |done, of| progress.at(done, of)).map_err(|e| e.to_string())?;
    let mut figures = vec![
        ("segments", checked.segments.into()),
        ("without_table", checked.without_table.into()),
        ("damaged_tables", checked.damaged_tables.into()),
        ("digests", checked.digests.into()),
        ("damaged_digests", checked.damaged_digests.into()),
    ];
    figures.extend(header(&checked.header));
    figures.extend([
        ("sound", checked.sound.into()),
        ("sound_bytes", checked.sound_bytes.into()),
        ("superseded", checked.superseded.into()),
        ("damaged", checked.damaged.into()),
        ("unreadable", checked.unreadable_segments.into()),
    ]);
    print(&figures, json);
    let (missed, known) = (
        checked.damaged + checked.unreadable_segments,
        checked.damaged_tables + checked.damaged_digests + checked.header.damaged,
    );
    match (missed, known) {
        (0, 0) => Ok(()),
        (0, n) => Err(format!(
            "cache {}: {n} tables, digests or copies of the header are damaged; a start makes do with what says the same",
            path.display()
        )),
        (n, _) => Err(format!(
            "cache {}: {n} records or segments are damaged; they are served as misses",
            path.display()
        )),
    }
}

impl Contents {
    fn figures(&self, hosts: usize) -> Vec<(&'static str, Value)> {
        let amount = |Amount { count, bytes }| json!({ "count": count, "bytes": bytes });
        let by_name = |rows: &[(&str, Amount)]| {
            Value::Object(
                rows.iter().map(|(name, of)| ((*name).to_owned(), amount(*of))).collect::<Map<_, _>>(),
            )
        };
        let bounded = |rows: &[(Option<u64>, Amount)]| -> Value {
            rows.iter()
                .map(|(up_to, of)| json!({ "up_to": up_to, "count": of.count, "bytes": of.bytes }))
                .collect()
        };
        let hosts = self.hosts(hosts).into_iter();
        vec![
            ("kinds", by_name(&self.kinds())),
            ("body_bytes", bounded(&self.by_size())),
            ("age_seconds", bounded(&self.by_age())),
            (
                "hosts",
                hosts
                    .map(|(host, of)| json!({ "host": host, "count": of.count, "bytes": of.bytes }))
                    .collect(),
            ),
        ]
    }
}
