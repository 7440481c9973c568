//! `cosm top`: what a running proxy does, in a terminal.

use super::ask::Admin;
use crate::values::{about_size, say_time};
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Rows of each table.
const ROWS: usize = 8;
/// Where a terminal does not say how large it is.
const SIZE: (usize, usize) = (120, 40);

/// The alternate screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What was told at a moment.
struct Look {
    at: Instant,
    stats: Value,
    recent: Value,
}

impl Look {
    fn at(admin: &Admin) -> Result<Look, String> {
        let (stats, recent) = (admin.ask("/stats.json", "requests")?, admin.ask("/recent.json", "hosts")?);
        Ok(Look { at: Instant::now(), stats, recent })
    }
}

pub fn run(admin: &Admin) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let first = Look::at(admin)?;
    runtime.block_on(async {
        if !stdout().is_terminal() {
            tokio::time::sleep(PAUSE).await;
            let lines = table(&admin.address.to_string(), &first, &Look::at(admin)?);
            lines.into_iter().for_each(|line| line!("{line}"));
            return Ok(());
        }
        let _screen = Screen::enter();
        watch(admin, first).await
    })
}

/// The terminal is as it was when this is dropped.
struct Screen;

impl Screen {
    fn enter() -> Screen {
        show(ENTER);
        Screen
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        show(LEAVE);
    }
}

/// Whether somebody may see it: a terminal that was closed takes nothing.
fn show(text: &str) -> bool {
    stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()).is_ok()
}

/// Until a signal says to stop, nobody answers, or nobody looks.
async fn watch(admin: &Admin, mut before: Look) -> Result<(), String> {
    let cannot = |error| format!("cannot wait for signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(cannot)?;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
        let now = Look::at(admin)?;
        if !show(&drawn(&table(&admin.address.to_string(), &before, &now), size())) {
            return Ok(());
        }
        before = now;
    }
}

/// Columns and lines.
fn size() -> (usize, usize) {
    tcgetwinsize(stdout())
        .map(|size| (size.ws_col.into(), size.ws_row.into()))
        .ok()
        .filter(|(columns, lines)| *columns > 0 && *lines > 0)
        .unwrap_or(SIZE)
}

/// Over what was drawn before, without a flicker.
fn drawn(lines: &[String], (columns, rows): (usize, usize)) -> String {
    let mut text = String::from("\x1b[H");
    for (n, line) in lines.iter().take(rows).enumerate() {
        if n > 0 {
            text.push_str("\r\n");
        }
        text.extend(line.chars().take(columns));
        text.push_str("\x1b[K");
    }
    text.push_str("\x1b[J");
    text
}

const HITS: [&str; 3] = ["hit-memory", "hit-disk", "hit-offline"];
const FETCHES: [&str; 3] = ["miss", "collapsed", "revalidated"];
const FAILED: [&str; 3] = ["refused-502", "refused-503", "refused-504"];

/// How much grew between two looks.
struct Grown<'a> {
    before: &'a Look,
    now: &'a Look,
}

impl Grown<'_> {
    fn seconds(&self) -> f64 {
        self.now.at.duration_since(self.before.at).as_secs_f64().max(0.001)
    }

    fn number(&self, section: &str, name: &str) -> u64 {
        let of = |look: &Look| look.stats[section][name].as_u64().unwrap_or(0);
        of(self.now).saturating_sub(of(self.before))
    }

    fn sum(&self, section: &str, names: &[&str]) -> u64 {
        names.iter().map(|name| self.number(section, name)).sum()
    }

    fn all(&self, section: &str) -> u64 {
        names(&self.now.stats[section]).map(|name| self.number(section, name)).sum()
    }

    fn rate(&self, number: u64) -> f64 {
        number as f64 / self.seconds()
    }

    fn size_rate(&self, bytes: u64) -> String {
        format!("{}/s", about_size(self.rate(bytes) as u64))
    }

    /// Of times to the first byte, in words: half of them, and 99 of 100, took no longer.
    fn times(&self, outcomes: &[&str]) -> String {
        let of = |look: &Look, name: &str, n: usize| look.stats["first-byte"][name][n].as_u64().unwrap_or(0);
        let count = self.now.stats["first-byte"][HITS[0]].as_array().map_or(0, Vec::len);
        let bucket = |n| {
            outcomes
                .iter()
                .map(|name| of(self.now, name, n).saturating_sub(of(self.before, name, n)))
                .sum::<u64>()
        };
        let buckets: Vec<u64> = (0..count).map(bucket).collect();
        let all: u64 = buckets.iter().sum();
        let within = |part: f64| {
            let mut rest = (part * all as f64).ceil() as u64;
            let at = buckets.iter().position(|here| {
                let found = rest <= *here;
                rest = rest.saturating_sub(*here);
                found
            });
            at.map_or_else(|| "-".into(), |n| micros(1 << n))
        };
        if all == 0 { "-".into() } else { format!("< {} (99 %: < {})", within(0.5), within(0.99)) }
    }
}

fn names(section: &Value) -> impl Iterator<Item = &str> {
    section.as_object().into_iter().flatten().map(|(name, _)| name.as_str())
}

fn micros(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1} %", part as f64 / of as f64 * 100.0) }
}

/// Nothing in it moves the cursor.
fn clean(value: &Value, most: usize) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(most).collect()
}

fn table(admin: &str, before: &Look, now: &Look) -> Vec<String> {
    let grown = Grown { before, now };
    let (stats, recent) = (&now.stats, &now.recent);
    let number = |section: &str, name: &str| stats[section][name].as_u64().unwrap_or(0);
    let hits = |section: &str| percent(grown.sum(section, &HITS), grown.all(section));
    let uptime = say_time(Duration::from_secs(number("process", "uptime")));
    let mut lines = vec![format!("cosm on {admin}, up {uptime}"), String::new()];
    let mut pair = |name: &str, value: String, other: &str, value_of_other: String| {
        lines.push(format!("{name:<14}{value:<30}{other:<16}{value_of_other}"));
    };
    pair("hit ratio", hits("requests"), "byte hit ratio", hits("bytes"));
    pair(
        "requests",
        format!("{:.1}/s", grown.rate(grown.all("requests"))),
        "failed",
        format!("{:.1}/s", grown.rate(grown.sum("requests", &FAILED))),
    );
    pair(
        "to clients",
        grown.size_rate(grown.all("bytes")),
        "from origins",
        grown.size_rate(grown.number("origin", "bytes")),
    );
    pair("hits take", grown.times(&HITS), "fetches take", grown.times(&FETCHES));
    let limit = match number("budget", "total") {
        0 | u64::MAX => String::new(),
        total => format!(" of {}", about_size(total)),
    };
    pair(
        "connections",
        format!("{}, {} to origins", number("connections", "open"), number("origin", "open")),
        "memory",
        format!("{}{limit}", about_size(number("process", "resident-bytes"))),
    );
    if stats["store"].is_object() {
        pair(
            "disks",
            format!(
                "{} serve, {} left{}",
                number("store", "disks"),
                number("store", "disks-left"),
                if number("store", "writes-fail") > 0 { ", writes fail" } else { "" }
            ),
            "on disk",
            format!(
                "{} of {}, {} reads and {} writes wait",
                about_size(number("store", "filled")),
                about_size(number("store", "size")),
                number("store", "waiting-reads"),
                number("store", "waiting-writes")
            ),
        );
    }
    lines.extend(outcomes(&grown));
    lines.extend(most(recent, "hosts"));
    lines.extend(most(recent, "urls"));
    lines.extend(origins(recent));
    lines.extend(slowest(recent));
    lines.extend(simulated(stats));
    lines.extend(events(recent));
    lines
}

fn outcomes(grown: &Grown<'_>) -> Vec<String> {
    let requests = &grown.now.stats["requests"];
    let count = |name: &str| requests[name].as_u64().unwrap_or(0);
    let mut seen: Vec<&str> = names(requests).filter(|name| count(name) > 0).collect();
    seen.sort_by_key(|name| std::cmp::Reverse(count(name)));
    let all: u64 = seen.iter().map(|name| count(name)).sum();
    let head = format!("{:<20}{:>12}{:>16}{:>10}{:>14}", "outcome", "now, /s", "since start", "", "bytes");
    let row = |name: &&str| {
        let bytes = grown.now.stats["bytes"][*name].as_u64().unwrap_or(0);
        let (rate, count) = (grown.rate(grown.number("requests", name)), count(name));
        format!("{name:<20}{rate:>12.1}{count:>16}{:>10}{:>14}", percent(count, all), about_size(bytes))
    };
    titled(head, seen.iter().take(2 * ROWS).map(row))
}

fn rows(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten().take(ROWS)
}

/// A table that is not there where it has no rows.
fn titled(head: String, rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows = rows.peekable();
    match rows.peek() {
        Some(_) => [String::new(), head].into_iter().chain(rows).collect(),
        None => Vec::new(),
    }
}

fn most(recent: &Value, what: &str) -> Vec<String> {
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap_or(0);
        let share = percent(number("hits"), number("requests").saturating_sub(number("error")));
        format!(
            "{:>10}{share:>10}{:>14}  {}",
            number("requests"),
            about_size(number("bytes")),
            clean(&row["name"], 200)
        )
    };
    let head =
        format!("{:>10}{:>10}{:>14}  {what} of the last half to full hour", "requests", "hits", "bytes");
    titled(head, rows(&recent[what]["most"]).map(row))
}

fn origins(recent: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap_or(0);
        let mean = row["mean-microseconds"].as_u64().map_or_else(|| "-".into(), micros);
        let mut text = format!(
            "{:>10}{:>10}{:>8}{mean:>12}  {}",
            number("fetches"),
            number("failed"),
            number("server-errors"),
            clean(&row["name"], 100)
        );
        if let Some(why) = row["cause"].as_str() {
            write!(text, "  ({})", clean(&why.into(), 100)).expect("a string takes all");
        }
        text
    };
    let head = format!("{:>10}{:>10}{:>8}{:>12}  origins", "fetches", "failed", "5xx", "mean");
    titled(head, rows(&recent["origins"]).map(row))
}

fn slowest(recent: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let first = row["first-microseconds"].as_u64().map_or_else(|| "-".into(), micros);
        format!(
            "{:<20}{first:>12}{:>8}  {:<20}{}",
            stamp(row),
            row["status"].as_u64().unwrap_or(0),
            clean(&row["outcome"], 18),
            clean(&row["url"], 200)
        )
    };
    let head = format!(
        "{:<20}{:>12}{:>8}  {:<20}slowest of the last half to full hour",
        "when", "first byte", "", ""
    );
    titled(head, rows(&recent["slowest"]).map(row))
}

/// What other policies and sizes would hit (`--shadow`), a row for each policy.
fn simulated(stats: &Value) -> Vec<String> {
    let curve: Vec<&Value> = stats["shadow"]["curve"].as_array().into_iter().flatten().collect();
    let mut policies: Vec<&str> = curve.iter().filter_map(|point| point["policy"].as_str()).collect();
    policies.dedup();
    let row = |policy: &&str| {
        let points = curve.iter().filter(|point| point["policy"].as_str() == Some(policy));
        let points = points.map(|point| {
            let ratio = point["hit-ratio"]
                .as_f64()
                .map_or_else(|| "-".into(), |ratio| format!("{:.1} %", 100.0 * ratio));
            format!("{} {ratio}", about_size(point["size"].as_u64().unwrap_or(0)))
        });
        format!("{policy:<14}{}", points.collect::<Vec<_>>().join(", "))
    };
    titled("hit ratios that other policies and sizes would have".into(), policies.iter().map(row))
}

/// When a row happened, in UTC.
fn stamp(row: &Value) -> String {
    let at = row["at"].as_i64().and_then(|at| jiff::Timestamp::from_second(at).ok());
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn events(recent: &Value) -> Vec<String> {
    let events = recent["events"].as_array().into_iter().flatten().rev().take(ROWS);
    let row = |event: &Value| {
        format!(
            "{} {} {}: {}",
            stamp(event),
            clean(&event["level"], 8),
            clean(&event["area"], 12),
            clean(&event["text"], 300)
        )
    };
    titled("error log, the newest first".into(), events.map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look(at: Instant, hits: u64, misses: u64) -> Look {
        let mut times = vec![0; 28];
        times[10] = hits;
        Look {
            at,
            stats: json!({
                "process": { "uptime": 90, "resident-bytes": 1 << 20 },
                "requests": { "hit-memory": hits, "miss": misses, "own": 0 },
                "bytes": { "hit-memory": hits * 100, "miss": misses * 100, "own": 0 },
                "first-byte": { "hit-memory": times, "hit-disk": vec![0; 28] },
                "origin": { "bytes": misses * 100, "open": 1 },
                "connections": { "open": 2 },
                "shadow": { "curve": [
                    { "policy": "lru", "size": 1 << 20, "hit-ratio": 0.25 },
                    { "policy": "lru", "size": 2 << 20, "hit-ratio": null },
                ] },
            }),
            recent: json!({
                "slowest": [{ "at": 0, "first-microseconds": 2500, "status": 200, "outcome": "miss", "url": "http://a/" }],
                "hosts": { "most": [{ "name": "a\u{1b}[31m", "requests": 3, "error": 0, "hits": 1, "bytes": 7 }] },
                "events": [{ "at": 0, "level": "warn", "area": "origin", "text": "no answer" }],
            }),
        }
    }

    #[test]
    fn what_grew_between_two_looks_is_shown_by_the_second() {
        let began = Instant::now();
        let (before, now) = (look(began, 100, 100), look(began + Duration::from_secs(2), 130, 110));
        let lines = table("here", &before, &now);
        let all = lines.join("\n");
        for expected in [
            "cosm on here, up ",
            "hit ratio     75.0 %",
            "requests      20.0/s",
            "hits take     < 1.0 ms (99 %: < 1.0 ms)",
            "hit-memory                  15.0             130    54.2 %",
            "a [31m",
            "1970-01-01T00:00:00Z      2.5 ms     200  miss                http://a/",
            "lru           1.0 MiB 25.0 %, 2.0 MiB -",
            "1970-01-01T00:00:00Z warn origin: no answer",
        ] {
            assert!(all.contains(expected), "{expected}:\n{all}");
        }
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{all}");
    }

    #[test]
    fn a_drawing_fits_its_terminal() {
        let lines = vec!["é".repeat(100), "b".into(), "c".into()];
        let drawn = drawn(&lines, (10, 2));
        assert_eq!(drawn, format!("\x1b[H{}\x1b[K\r\nb\x1b[K\x1b[J", "é".repeat(10)));
    }
}
