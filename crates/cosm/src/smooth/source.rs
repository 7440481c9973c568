//! Where requests and inventories come from: a trace with files of rows, what the trace itself names, or a synthetic world.

use super::analyze::{offset, read_again};
use crate::Failure;
use crate::lab::{from_format, number, number_within, say_faults, strict, text};
use clap::{Arg, ArgAction, ArgMatches};
use lab::input::{From, Input, Reading};
use learn::day::{Calendar, Peak, Weekdays};
use learn::evaluate::Web;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use trace::inventory::{Inventory, Row};
use trace::world::{self, World};
use trace::{Access, Requests, format};

/// URLs that are kept of a trace that is its own inventory.
const NAMED_MAX: usize = 20_000_000;

/// What is read, again and again.
pub enum Source {
    Trace { input: Input, offered: Offered, said: Rc<Said> },
    World { settings: world::Settings, seed: u64 },
}

/// What is said once, though all is read again and again.
#[derive(Default)]
pub struct Said {
    /// What was malformed in the trace.
    faults: Cell<bool>,
    /// Inventories with rows that were left out.
    inventories: RefCell<HashSet<PathBuf>>,
}

#[derive(Clone)]
pub enum Offered {
    Nothing,
    /// Taken for every night.
    File(PathBuf),
    /// By the day from which on each counts, rising: as its file is called.
    Files(Vec<(i64, PathBuf)>),
    /// Every URL that the trace has, whenever it is asked for.
    Named(Rc<Vec<Row>>),
}

pub fn args() -> [Arg; 7] {
    let trace = Arg::new("TRACE").conflicts_with("world").help(
        "Trace to learn from and to test on, plain or compressed with gzip or zstd, also Cosm's own access log as JSON",
    );
    let inventory = inventory().help(
        "What servers had to offer, as JSON, an object a line: url, size, modified, created (seconds since 1970), content_type, \
         cacheable. Of a folder of files named 1998-05-18.jsonl and so on, each night takes the last one up to the day on which it \
         begins, which is mostly the day before its peak",
    );
    let hindsight = Arg::new("hindsight")
        .long("hindsight")
        .action(ArgAction::SetTrue)
        .requires("TRACE")
        .conflicts_with("inventory")
        .help("Take all URLs of the whole trace for the inventory, also those that are asked for only later");
    let world = Arg::new("world").long("world").value_name("SIZE").help(
        "A synthetic world with its inventories instead of a trace: small, usual (the thesis' two weeks: minutes of work) or large",
    );
    let days = Arg::new("world-days").long("world-days").value_name("N");
    let days = days.requires("world").conflicts_with("TRACE").help("Days of the world");
    let strict = strict().help(
        "Stop at the first malformed line, also at the first row of an inventory without a URL of a server",
    );
    let [format, strict, inventory] =
        [from_format(), strict, inventory].map(|arg| arg.conflicts_with("world"));
    [trace, format, strict, inventory, hindsight, world, days]
}

pub fn inventory() -> Arg {
    Arg::new("inventory").long("inventory").value_name("FILE|DIR").requires("TRACE")
}

/// When peak is.
pub fn day_args() -> [Arg; 3] {
    let peak = Arg::new("peak")
        .long("peak")
        .value_name("HH:MM-HH:MM")
        .default_value("04:30-16:30")
        .help("When peak is, in local time");
    let days = Arg::new("days")
        .long("days")
        .value_name("DAYS")
        .default_value("mon-sun")
        .help("Days that have a peak, such as mon-fri or sat,sun");
    let utc_offset = Arg::new("utc-offset")
        .long("utc-offset")
        .value_name("+HH:MM")
        .default_value("+00:00")
        .allow_hyphen_values(true)
        .help("What local time is ahead of UTC, the whole year");
    [peak, days, utc_offset]
}

/// When peak is, and the minutes that local time is ahead of UTC.
pub fn days(args: &ArgMatches) -> Result<(Peak, i16), Failure> {
    let usage = |name: &str, why: String| Failure::Usage(format!("--{name}: {why}"));
    let said = |name: &str| text(args, name).unwrap_or_default();
    let mut peak: Peak = said("peak").parse().map_err(|why| usage("peak", why))?;
    peak.days = said("days").parse::<Weekdays>().map_err(|why| usage("days", why))?;
    let utc_offset = offset(said("utc-offset")).map_err(|why| usage("utc-offset", why))?;
    Ok((peak, utc_offset))
}

/// Of an option that not every command has.
fn said<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    args.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

fn flag(args: &ArgMatches, name: &str) -> bool {
    args.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false)
}

/// A world of a size that an option names.
pub fn world(option: &str, size: &str, days: Option<u64>) -> Result<world::Settings, Failure> {
    let mut settings = match size {
        // Two days to warm up, one to learn from, and two to test on.
        "small" => world::Settings { days: 5, ..world::Settings::small() },
        "usual" => world::Settings::default(),
        "large" => world::Settings::large(),
        other => {
            return Err(Failure::Usage(format!("--{option}: `{other}` is not small, usual or large")));
        }
    };
    if let Some(days) = days {
        settings.days = days as u32;
    }
    Ok(settings)
}

impl Source {
    /// With `--hindsight` the trace is read.
    pub fn of(args: &ArgMatches) -> Result<Source, Failure> {
        if let Some(size) = said(args, "world") {
            let seed = number(args, "seed")?.unwrap_or(1);
            let settings = world("world", size, number_within(args, "world-days", 1..=10_000)?)?;
            return Ok(Source::World { settings, seed });
        }
        let Some(path) = text(args, "TRACE") else {
            return Err(Failure::Usage("name a trace, or a world by --world".into()));
        };
        let format = text(args, "format").map(format::named).transpose().map_err(Failure::Usage)?;
        let from = From::File { path: PathBuf::from(path), format, strict: args.get_flag("strict") };
        let input = Input { from, requests: None, largest: None };
        read_again(&input, "it is read twice")?;
        let offered = match text(args, "inventory").map(Path::new) {
            Some(path) if path.is_dir() => Offered::Files(files(path)?),
            Some(path) => Offered::File(path.to_owned()),
            None if flag(args, "hindsight") => Offered::Named(Rc::new(named(&input)?)),
            None => Offered::Nothing,
        };
        Ok(Source::Trace { input, offered, said: Rc::default() })
    }

    /// By the first request, whether days have names.
    pub fn calendar(&self, utc_offset: i16) -> Result<Calendar, Failure> {
        let first = match self {
            Source::World { settings, .. } => Some(settings.begins),
            Source::Trace { input, .. } => {
                let failed = |why: String| Failure::Failed(format!("{}: {why}", self.describe()));
                let (mut reading, mut access) = (input.open().map_err(failed)?, Access::default());
                reading.next(&mut access).map_err(failed)?.then_some(access.time / 1_000_000)
            }
        };
        Ok(first.map_or(Calendar { utc_offset, has_dates: true }, |first| Calendar::begun(first, utc_offset)))
    }

    /// The days of the world that are holidays.
    pub fn holidays(&self) -> Vec<i64> {
        match self {
            Source::Trace { .. } => Vec::new(),
            Source::World { settings, .. } => {
                let first = (settings.begins / 86_400) as i64;
                settings.holidays.iter().map(|day| first + i64::from(*day)).collect()
            }
        }
    }

    pub fn has_inventory(&self) -> bool {
        !matches!(self, Source::Trace { offered: Offered::Nothing, .. })
    }

    /// What limits the figures beside what the evaluation finds.
    pub fn note(&self) -> Option<&'static str> {
        match self {
            Source::Trace { offered: Offered::Named(_), .. } => Some(
                "the inventory is all that the trace ever names, known in hindsight: what was never asked for is not among the negatives, \
                 and what was not there yet is offered too",
            ),
            Source::Trace { offered: Offered::File(_), .. } => Some(
                "the inventory is of one time, and is offered in every night: what was altered later is in no night before that, neither as a \
                 positive nor as a negative, and what is there without a date is offered too early; a folder with a file for each day has neither",
            ),
            _ => None,
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Source::Trace { input, offered, .. } => {
                let offered = match offered {
                    Offered::Nothing => "without an inventory".into(),
                    Offered::File(path) => format!("inventory {}", path.display()),
                    Offered::Files(files) => format!("{} inventories", files.len()),
                    Offered::Named(rows) => format!("inventory in hindsight, {} URLs", rows.len()),
                };
                format!("{}, {offered}", input.describe())
            }
            Source::World { settings, seed } => format!(
                "synthetic world, {} sites, {} clients, {} days, seed {seed}",
                settings.sites, settings.clients, settings.days
            ),
        }
    }

    pub fn is_synthetic(&self) -> bool {
        matches!(self, Source::World { .. })
    }

    pub fn open(&self, calendar: Calendar) -> Result<Box<dyn Web>, String> {
        Ok(match self {
            Source::Trace { input, offered, said } => Box::new(OfTrace {
                reading: input.open()?,
                offered: offered.clone(),
                calendar,
                is_strict: matches!(input.from, From::File { strict: true, .. }),
                said: said.clone(),
            }),
            Source::World { settings, seed } => {
                Box::new(OfWorld { world: World::new(settings.clone(), *seed)?, begun: false })
            }
        })
    }
}

struct OfTrace {
    reading: Reading,
    offered: Offered,
    calendar: Calendar,
    is_strict: bool,
    said: Rc<Said>,
}

impl OfTrace {
    /// Leaves out rows without a URL of a server, as a plan does, and says at the first time how many they are.
    fn rows(&self, path: &Path, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        let mut rows = Inventory::open(path)?;
        if self.is_strict {
            return rows.try_for_each(|row| each(row?));
        }
        let mut others = 0u64;
        for row in rows.with_any_url() {
            match row? {
                row if row.has_server() => each(row)?,
                _ => others += 1,
            }
        }
        if others > 0 && self.said.inventories.borrow_mut().insert(path.to_owned()) {
            let path = path.display();
            proxy::say(format_args!(
                "{path}: rows without a URL of a server are left out: {others}; --strict stops at the first"
            ));
        }
        Ok(())
    }
}

impl Web for OfTrace {
    /// At the first end, says what was malformed; an error if nothing can be used.
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        let more = self.reading.next(access)?;
        if !more && !self.said.faults.replace(true) {
            say_faults(&self.reading);
            return self.reading.why_unusable().map_or(Ok(false), Err);
        }
        Ok(more)
    }

    fn offers(&mut self, at: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        match &self.offered {
            Offered::Nothing => Ok(()),
            Offered::Named(rows) => rows.iter().cloned().try_for_each(each),
            Offered::File(path) => self.rows(path, each),
            Offered::Files(files) => {
                let day = self.calendar.day(at);
                match files.iter().rfind(|(from, _)| *from <= day) {
                    Some((_, path)) => self.rows(path, each),
                    None => Ok(()),
                }
            }
        }
    }
}

struct OfWorld {
    world: World,
    begun: bool,
}

impl Web for OfWorld {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        loop {
            if self.begun && self.world.next(access) {
                return Ok(true);
            }
            self.begun = true;
            if self.world.next_day().is_none() {
                return Ok(false);
            }
        }
    }

    fn offers(&mut self, at: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        self.world.inventory(at).try_for_each(each)
    }
}

/// Files of a folder whose names begin with a date.
fn files(folder: &Path) -> Result<Vec<(i64, PathBuf)>, Failure> {
    let at = |error: std::io::Error| Failure::Failed(format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(date) = name.get(..10).filter(|date| looks_like_a_day(date)) else { continue };
        let day = day_of(date).ok_or_else(|| {
            Failure::Failed(format!("{}: there is no day {date}: give the file another name", path.display()))
        })?;
        files.push((day, path));
    }
    files.sort();
    if let Some([(_, one), (_, other)]) = files.array_windows().find(|[one, other]| one.0 == other.0) {
        return Err(Failure::Failed(format!(
            "{} and {} are of one day: leave one of them there",
            one.display(),
            other.display()
        )));
    }
    if files.is_empty() {
        return Err(Failure::Failed(format!(
            "{}: no inventory is there: their names begin with a date, like 1998-05-18.jsonl",
            folder.display()
        )));
    }
    Ok(files)
}

/// Whether a text has the form of `1998-05-18`.
fn looks_like_a_day(text: &str) -> bool {
    let form = "0000-00-00".bytes();
    text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).eq(form)
}

/// `1998-05-18` as days since 1970.
pub fn day_of(text: &str) -> Option<i64> {
    let date: jiff::civil::Date = text.parse().ok()?;
    let first = jiff::civil::date(1970, 1, 1);
    Some(i64::from(date.since(first).ok()?.get_days()))
}

/// Each cacheable URL of a trace once, as it was first.
fn named(input: &Input) -> Result<Vec<Row>, Failure> {
    let mut reading = input.open().map_err(Failure::Failed)?;
    let (mut access, mut known, mut rows, mut url) =
        (Access::default(), HashSet::new(), Vec::new(), Vec::new());
    while reading.next(&mut access).map_err(Failure::Failed)? {
        if access.unusable().is_some() || !known.insert(access.object) {
            continue;
        }
        if rows.len() >= NAMED_MAX {
            return Err(Failure::Failed(format!("--hindsight: the trace has more than {NAMED_MAX} URLs")));
        }
        url.clear();
        access.write_url(&mut url);
        let url = String::from_utf8_lossy(&url).into_owned();
        rows.push(Row { url, size: access.size, modified: access.modified, ..Row::default() });
    }
    Ok(rows)
}
