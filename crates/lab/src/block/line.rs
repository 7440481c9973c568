//! One line of a block trace, of whatever tool.

use super::{Millis, Request, Transfer, Way};

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// Of our own format.
    Request(Request),
    /// Of the kernel's, or blkparse's.
    Event(Event),
    /// A flush, a discard, or a step of the kernel before the device.
    Other,
    /// Nothing, a remark, or a summary.
    Empty,
}

/// What happened to a request at the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    pub action: Action,
    /// Major and minor number.
    pub device: (u32, u32),
    pub at: Millis,
    pub transfer: Transfer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Issue,
    Complete,
}

/// Takes a line apart. An error says why it is malformed.
pub fn parse(line: &str) -> Result<Line, String> {
    for (name, action) in [(": block_rq_issue: ", Action::Issue), (": block_rq_complete: ", Action::Complete)]
    {
        if let Some((before, after)) = line.split_once(name) {
            return kernel(before, after, action);
        }
    }
    let mut words = line.split_whitespace();
    match words.next() {
        None => Ok(Line::Empty),
        Some(word) if word.starts_with('#') => Ok(Line::Empty),
        // What blkparse says in the end.
        Some(word) if word.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            match line.split_once("[LOST ") {
                Some(_) => Err("the kernel lost events here".into()),
                None if line.contains(':') => Ok(Line::Empty),
                None => Err(format!("`{}` begins no request", shorten(word))),
            }
        }
        Some(word) if word.contains(',') => blkparse(device(word)?, words),
        Some(word) => own(word, words),
    }
}

/// Microseconds, microseconds, way, sector, count.
fn own<'a>(issued: &str, mut words: impl Iterator<Item = &'a str>) -> Result<Line, String> {
    let issued = time(issued, MICROSECONDS)?;
    let took = match word(&mut words, "time taken")? {
        "-" => None,
        took => Some(time(took, MICROSECONDS)?),
    };
    let way = match word(&mut words, "kind")? {
        "R" => Way::Read,
        "W" => Way::Write,
        other => return Err(format!("`{}` is neither R nor W", shorten(other))),
    };
    let (sector, count) = (word(&mut words, "sector")?, word(&mut words, "count of sectors")?);
    match transfer(way, sector, count)? {
        Some(transfer) => Ok(Line::Request(Request { issued, took, transfer })),
        None => Err("no sectors".into()),
    }
}

/// Task, processor, flags and seconds; device, kind, bytes, command, sector + count, and more.
fn kernel(before: &str, after: &str, action: Action) -> Result<Line, String> {
    let at = time(before.split_whitespace().next_back().unwrap_or_default(), SECONDS)?;
    let mut words = after.split_whitespace();
    let device = device(word(&mut words, "device")?)?;
    let kind = word(&mut words, "kind")?;
    event(device, kind, words, (at, action))
}

/// After the device: processor, number, seconds, process, action, kind, sector + count, and more.
fn blkparse<'a>(device: (u32, u32), words: impl Iterator<Item = &'a str>) -> Result<Line, String> {
    let mut words = words.skip(2);
    let at = time(word(&mut words, "time")?, SECONDS)?;
    word(&mut words, "process")?;
    let action = match word(&mut words, "action")? {
        "D" => Action::Issue,
        "C" => Action::Complete,
        _ => return Ok(Line::Other),
    };
    let kind = word(&mut words, "kind")?;
    event(device, kind, words, (at, action))
}

fn device(text: &str) -> Result<(u32, u32), String> {
    let numbers =
        text.split_once(',').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.ok_or_else(|| format!("`{}` is no device", shorten(text)))
}

fn event<'a>(
    device: (u32, u32),
    kind: &str,
    words: impl Iterator<Item = &'a str>,
    (at, action): (Millis, Action),
) -> Result<Line, String> {
    // A flush before the write is told by an F in front of it.
    let way = match kind.strip_prefix('F').unwrap_or(kind).chars().next() {
        Some('R') => Way::Read,
        Some('W') => Way::Write,
        _ => return Ok(Line::Other),
    };
    let (mut sector, mut words) = ("", words.peekable());
    while let Some(word) = words.next_if(|word| *word != "+") {
        sector = word;
    }
    let count = words.nth(1).ok_or("the line ends before its count of sectors")?;
    Ok(match transfer(way, sector, count)? {
        Some(transfer) => Line::Event(Event { action, device, at, transfer }),
        None => Line::Other,
    })
}

/// Nothing when it has no sectors.
fn transfer(way: Way, sector: &str, count: &str) -> Result<Option<Transfer>, String> {
    let (sector, count) = (number(sector)?, number(count)?);
    if count == 0 {
        return Ok(None);
    }
    // More than any device has, and a request of gigabytes, are mistakes.
    match sector < 1 << 48 && count < 1 << 24 {
        true => Ok(Some(Transfer { way, sector, count })),
        false => Err(format!("{count} sectors at {sector} lie beyond any device")),
    }
}

fn word<'a>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("the line ends before its {what}"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{}` is no number of sectors", shorten(text)))
}

/// In milliseconds.
const MICROSECONDS: Millis = 0.001;
const SECONDS: Millis = 1000.0;

/// Up to thirty years.
fn time(text: &str, unit: Millis) -> Result<Millis, String> {
    let known = text.parse::<f64>().ok().map(|time| time * unit);
    let known = known.filter(|time| (0.0..=1e12).contains(time));
    known.ok_or_else(|| format!("`{}` is no time", shorten(text)))
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}
