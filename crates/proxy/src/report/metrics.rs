//! The same numbers in Prometheus' text format, version 0.0.4: the rows of `stats`, of the store once for each disk.

use super::counters::{BUCKETS, Kind};
use super::stats::{Now, Row, Source, Value, rows};
use crate::tiers::stores::{DiskStats, State};
use acme::Life;
use std::fmt::Write;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What all names begin with.
const PREFIX: &str = "cosm_";

/// A metric with all that its labels tell apart.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// What tells its values apart.
    pub labels: Vec<&'static str>,
    pub help: &'static str,
}

/// Of those that several rows are of, what they have in common.
const HELP: &[(&str, &str)] = &[
    ("requests_total", "requests by what came of them (docs/caching.md)"),
    ("sent_bytes_total", "bytes of bodies sent to clients, by what came of the request"),
    ("responses_total", "responses by the first digit of their status"),
    ("tls_handshakes_total", "TLS handshakes of clients, by what came of them (docs/tls.md)"),
    ("origin_tls_handshakes_total", "TLS handshakes with origins, by what came of them"),
    ("first_byte_seconds", "time from a request's head to the first byte of its response"),
    ("memory_part_limit_bytes", "bytes of memory that each part of the process may take (docs/settings.md)"),
    ("memory_part_used_bytes", "bytes of memory that parts of the process take now, where that is known"),
    ("transit_limit_bytes", "bytes of memory for what is on its way, by pool"),
    ("transit_used_bytes", "bytes of memory that what is on its way takes now, by pool"),
];

/// What is told of the program and of each disk beside the rows.
type DiskRow = (&'static str, &'static str, fn(&DiskStats) -> Option<f64>);

const DISKS: &[DiskRow] = &[
    ("disk_serves", "1 while the disk serves, 0 while it is left", |disk| match disk.state {
        State::Serves => Some(1.0),
        State::Left => Some(0.0),
    }),
    ("disk_keys_ratio", "share of the keys that belong to the disk, of 1", |disk| Some(disk.share)),
    (
        "disk_write_amplification_ratio",
        "bytes written to the device for each byte of records and updates taken, since the start",
        |disk| {
            let stats = disk.stats.as_ref()?;
            (stats.engine.put_bytes > 0)
                .then(|| stats.device_written_bytes as f64 / stats.engine.put_bytes as f64)
        },
    ),
];
const SHADOW: (&str, &str) = (
    "shadow_hit_ratio",
    "share of requests that another policy or size would have answered, of 1 (--shadow)",
);
/// Of each certificate that a listener has.
type CertificateRow = (&'static str, &'static str, fn(Life) -> u64);

const CERTIFICATES: [CertificateRow; 2] = [
    ("certificate_starts_seconds", "when the certificate begins to hold, in seconds since 1970", |life| {
        life.from
    }),
    ("certificate_expires_seconds", "when the certificate expires, in seconds since 1970", |life| life.until),
];
const BUILD: (&str, &str) = ("build_info", "1; which version this is");

/// A label of a disk.
const DISK: &str = "disk";
/// A label of a certificate: the first of its names.
const NAME: &str = "name";

/// Of the histogram's elements every second one ends a bucket, from the one below 16 microseconds on.
const ENDS: std::ops::Range<usize> = 4..BUCKETS - 1;

/// All that `text` tells.
pub fn families() -> Vec<Family> {
    let gauge = |name, help, labels: &[&'static str]| Family {
        name,
        kind: Kind::Gauge,
        labels: labels.to_vec(),
        help,
    };
    let (name, help) = BUILD;
    let mut families = vec![gauge(name, help, &["version"])];
    for row in rows() {
        let Some(metric) = row.metric else { continue };
        if families.iter().any(|family| family.name == metric.family) {
            continue;
        }
        let common = HELP.iter().find(|(name, _)| *name == metric.family);
        let labels = match row.source {
            Source::Store(_) => vec![DISK],
            _ => metric.label.iter().map(|(label, _)| *label).collect(),
        };
        let help = common.map_or(row.help, |(_, help)| help);
        families.push(Family { name: metric.family, kind: row.kind, labels, help });
    }
    families.extend(DISKS.iter().map(|(name, help, _)| gauge(name, help, &[DISK])));
    families.extend(CERTIFICATES.iter().map(|(name, help, _)| gauge(name, help, &[NAME])));
    families.push(gauge(SHADOW.0, SHADOW.1, &["policy", "size"]));
    families
}

/// What is counted now.
pub fn text(now: &Now<'_>) -> String {
    let (rows, mut out) = (rows(), String::new());
    for family in families() {
        let mut samples = Samples { name: family.name, text: String::new() };
        if family.name == BUILD.0 {
            samples.add("", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        }
        let of_family = |row: &&Row| row.metric.is_some_and(|metric| metric.family == family.name);
        rows.iter().filter(of_family).for_each(|row| samples.add_row(row, now));
        for (_, _, of) in DISKS.iter().filter(|(name, ..)| *name == family.name) {
            for (disk, value) in now.disks.iter().filter_map(|disk| Some((disk, of(disk)?))) {
                samples.add("", &[(DISK, &disk.name)], value);
            }
        }
        for (_, _, of) in CERTIFICATES.iter().filter(|(name, ..)| *name == family.name) {
            now.certificates.iter().for_each(|one| samples.add("", &[(NAME, &one.name)], of(one.life)));
        }
        if family.name == SHADOW.0 {
            for (policy, size, ratio) in now.shadow.iter().flat_map(|shadow| shadow.hit_ratios()) {
                samples.add("", &[("policy", policy), ("size", &size.to_string())], ratio);
            }
        }
        if samples.text.is_empty() {
            continue;
        }
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let Family { name, help, .. } = family;
        let head = format!("# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n");
        out.push_str(&head);
        out.push_str(&samples.text);
    }
    out
}

/// Lines of one family.
struct Samples {
    name: &'static str,
    text: String,
}

impl Samples {
    fn add_row(&mut self, row: &Row, now: &Now<'_>) {
        let Some(metric) = row.metric else { return };
        let scaled = |number: u64| match metric.per {
            1 => number.to_string(),
            per => (number as f64 / per as f64).to_string(),
        };
        if let Source::Store(of) = row.source {
            for disk in &now.disks {
                if let Some(stats) = &disk.stats {
                    self.add("", &[(DISK, &disk.name)], scaled(of(stats)));
                }
            }
            return;
        }
        let labels = metric.label.as_slice();
        match now.value(row.source) {
            Some(Value::Number(number)) => self.add("", labels, scaled(number)),
            Some(Value::Histogram(elements, nanos)) => self.add_histogram(labels, &elements, nanos),
            None => {}
        }
    }

    fn add_histogram(&mut self, labels: &[(&str, &str)], elements: &[u64; BUCKETS], nanos: u64) {
        let (mut count, mut begins) = (0, 0);
        for end in ENDS.step_by(2) {
            count += elements[begins..=end].iter().sum::<u64>();
            begins = end + 1;
            let limit = ((1u64 << end) as f64 / 1e6).to_string();
            self.add("_bucket", &[labels, &[("le", &limit)]].concat(), count);
        }
        count += elements[begins..].iter().sum::<u64>();
        self.add("_bucket", &[labels, &[("le", "+Inf")]].concat(), count);
        self.add("_sum", labels, nanos as f64 / 1e9);
        self.add("_count", labels, count);
    }

    fn add(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.text, "{PREFIX}{}{suffix}", self.name);
        for (n, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{value}\"", if n == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_the_conventions() {
        for Family { name, kind, .. } in families() {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        }
    }

    #[test]
    fn a_family_of_several_rows_says_what_they_have_in_common() {
        let rows = rows();
        for Family { name, kind, .. } in families() {
            let of: Vec<_> =
                rows.iter().filter(|row| row.metric.is_some_and(|metric| metric.family == name)).collect();
            assert!(of.iter().all(|row| row.kind == kind), "{name}");
            assert_eq!(of.len() > 1, HELP.iter().any(|(common, _)| *common == name), "{name}");
        }
    }

    #[test]
    fn a_histogram_adds_up() {
        let mut samples = Samples { name: "x_seconds", text: String::new() };
        let elements = std::array::from_fn(|n| n as u64);
        samples.add_histogram(&[("a", "\"b\\\n")], &elements, 1_500_000_000);
        let lines: Vec<_> = samples.text.lines().collect();
        assert_eq!(lines[0], r#"cosm_x_seconds_bucket{a="\"b\\\n",le="0.000016"} 10"#);
        assert_eq!(lines[11], r#"cosm_x_seconds_bucket{a="\"b\\\n",le="67.108864"} 351"#);
        assert_eq!(lines[12], r#"cosm_x_seconds_bucket{a="\"b\\\n",le="+Inf"} 378"#);
        assert_eq!(
            lines[13..],
            [r#"cosm_x_seconds_sum{a="\"b\\\n"} 1.5"#, r#"cosm_x_seconds_count{a="\"b\\\n"} 378"#]
        );
    }

    #[test]
    fn the_page_lists_all() {
        let page = include_str!("../../../../docs/metrics.md");
        let expected: Vec<String> = families()
            .iter()
            .map(|Family { name, kind, labels, help }| {
                let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
                format!("| `{PREFIX}{name}` | {kind:?} | {labels} | {help} |")
            })
            .collect();
        let listed: Vec<_> = page.lines().filter(|line| line.starts_with("| `cosm_")).collect();
        assert_eq!(listed, expected, "docs/metrics.md should have:\n{}", expected.join("\n"));
    }
}
