//! `cosm smooth evaluate`: strategies that learn from one day, tested on the next.

use super::analyze::warm_up;
use super::source::{self, Source, day_of};
use super::strategies::{self, NAMES};
use crate::Failure;
use crate::lab::{json, number, number_within, seed, text};
use crate::values::size;
use crate::written;
use clap::{Arg, ArgAction, ArgMatches, Command};
use learn::candidate::{ATTRIBUTES, Encoding};
use learn::evaluate::{Budget, DayOutcome, Offers, Positives, Report, Settings, Step, date, evaluate};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// What says how a day becomes examples; also of `cosm smooth train`.
pub fn settings_args() -> Vec<Arg> {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let known: Vec<&str> = ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
    let [cache, versions] = cache_args();
    vec![
        option("warm-up", "DAYS").default_value("2d").help("Whole days for which the cache fills before anything is measured"),
        cache,
        versions,
        option("servers", "N|all")
            .default_value("320")
            .help("Consider only so many servers with most prefetchable service over the whole trace"),
        option("positives", "WHICH").default_value("listed").help(
            "Prefetchable objects that count as examples: listed, those that the inventory has; log, all (thesis, 7.4)",
        ),
        option("attributes", "LIST")
            .default_value("all")
            .help(format!("What is learned from: all, thesis (age, type, size, server, domain), or some of {}", known.join(", "))),
        option("holidays", "DATES").help("Days that are as those at the weekend, such as 1998-05-25"),
    ]
}

/// What the cache has.
pub fn cache_args() -> [Arg; 2] {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let cache = "Size of a cache that forgets what was asked for least lately; otherwise it is infinite";
    let versions = "How a changed object is told: by date, by size, or auto: by date where the trace has modification dates";
    [option("cache", "SIZE").help(cache), option("versions", "HOW").default_value("auto").help(versions)]
}

/// Its size, and whether versions are told by date, as `cache_args` say.
pub fn cache(args: &ArgMatches) -> Result<(Option<u64>, Option<bool>), Failure> {
    let usage = |name: &str, why: String| Failure::Usage(format!("--{name}: {why}"));
    let by_date = match text(args, "versions").unwrap_or_default() {
        "auto" => None,
        "date" => Some(true),
        "size" => Some(false),
        other => return Err(usage("versions", format!("`{other}` is not auto, date or size"))),
    };
    let cache = text(args, "cache").map(size).transpose().map_err(|why| usage("cache", why))?;
    Ok((cache, by_date))
}

/// Whether a day learns from the last one of its kind.
pub fn same_kind(help: &'static str) -> Arg {
    Arg::new("same-kind").long("same-kind").action(ArgAction::SetTrue).help(help)
}

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("evaluate")
        .about("Test on each day what was learned from the day before it (thesis, 7.4 to 7.7)")
        .args(source::args())
        .args(source::day_args())
        .args(settings_args())
        .arg(
            option("strategies", "LIST")
                .default_value("all")
                .help(format!("What is tested: {}", NAMES.join(", "))),
        )
        .arg(option("budget", "WHAT").default_value("none").help(
            "Bytes of a night: none fetches all that is chosen (thesis, 7.7); room, what the off-peak has room for by the usage of \
             the day before (equation 6.2); or a size",
        ))
        .arg(
            same_kind("Learn for a working day from the last working day, and for a day at the weekend from the last such day")
                .conflicts_with("train-days"),
        )
        .arg(option("train-days", "N").help(
            "Learn once, from the first N days together; otherwise rules and trees learn from each day, and boosted rules from the first",
        ))
        .args(strategies::args())
        .arg(seed())
        .arg(option("rules-out", "DIR").help("Write what was learned there, a file for each strategy and day"))
        .arg(json())
        .arg(option("out", "DIR").help("Write a page with plots, and evaluation.json, there"))
        .after_help(
            "Positives are the objects that the peak missed and that were there unaltered since the night began. Negatives come from an \
             inventory (--inventory, --hindsight or --world); without one, from what was asked for on a day before. Figures are of bytes.\n\n\
             Examples:\n  \
             cosm smooth evaluate --world usual --out world\n  \
             cosm smooth evaluate access.json --inventory inventories --utc-offset +02:00 --servers all\n  \
             cosm smooth evaluate bu-all.tsv.zst --hindsight --utc-offset -05:00 --peak 09:00-21:00 --train-days 7",
        )
}

/// The settings, as `settings_args` and those of the source say.
pub fn settings(args: &ArgMatches, source: &Source) -> Result<Settings, Failure> {
    let usage = |name: &str, why: String| Failure::Usage(format!("--{name}: {why}"));
    let said = |name: &str| text(args, name).unwrap_or_default();
    let (peak, utc_offset) = source::days(args)?;
    let encoding = match said("attributes") {
        "all" => Encoding::all(),
        "thesis" => Encoding::thesis(),
        list => {
            let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
            Encoding::named(names).map_err(|why| usage("attributes", why))?
        }
    };
    let (cache, by_date) = cache(args)?;
    let servers = match said("servers") {
        "all" => None,
        _ => match number(args, "servers")?.unwrap_or(0) as usize {
            0 => return Err(usage("servers", "a number from 1 on, or all".into())),
            most => Some(most),
        },
    };
    let positives = match said("positives") {
        "listed" => Positives::Listed,
        "log" => Positives::Log,
        other => return Err(usage("positives", format!("`{other}` is not listed or log"))),
    };
    let mut holidays = source.holidays();
    for date in said("holidays").split(',').map(str::trim).filter(|date| !date.is_empty()) {
        holidays.push(
            day_of(date).ok_or_else(|| usage("holidays", format!("`{date}` is no date like 1998-05-25")))?,
        );
    }
    let budget = match text(args, "budget") {
        None | Some("none") => Budget::None,
        Some("room") => Budget::Room,
        Some(bytes) => Budget::Bytes(size(bytes).map_err(|why| usage("budget", why))?),
    };
    let once = number_within(args, "train-days", 1..=u64::MAX)?.map(|days| days as usize);
    let warm_up = warm_up(said("warm-up")).map_err(|why| usage("warm-up", why))?.as_secs();
    if !warm_up.is_multiple_of(86_400) {
        return Err(usage("warm-up", format!("`{}` are no whole days", said("warm-up"))));
    }
    Ok(Settings {
        peak,
        calendar: source.calendar(utc_offset)?,
        warm_up: (warm_up / 86_400) as usize,
        cache,
        by_date,
        servers,
        offers: if source.has_inventory() { Offers::Listed } else { Offers::Seen },
        positives,
        budget,
        holidays,
        once,
        same_kind: args.try_get_one::<bool>("same-kind").ok().flatten().copied().unwrap_or(false),
        ..Settings::new(encoding)
    })
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let strategies = strategies::of(args)?;
    let source = Source::of(args)?;
    let settings = settings(args, &source)?;
    let (out, rules_out) = (written::folder(args, "out")?, written::folder(args, "rules-out")?);
    let mut keep = |name: &str, day: i64, text: &str| match &rules_out {
        None => Ok(()),
        Some(folder) => {
            written::write_in(folder, &format!("{name}-{}.rules", date(day).replace(' ', "-")), text)
                .map_err(|(Failure::Failed(why) | Failure::Usage(why))| why)
        }
    };
    let mut shown = Shown::new();
    let mut open = || source.open(settings.calendar);
    let report = evaluate(&mut open, &settings, &strategies, &mut keep, &mut |step| shown.step(&step));
    shown.end();
    let mut report = report.map_err(|why| Failure::Failed(format!("{}: {why}", source.describe())))?;
    report.notes.splice(0..0, source.note().map(String::from));
    let asked = asked(args);
    let value = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"), "asked": asked, "source": source.describe(), "synthetic": source.is_synthetic(),
        "evaluation": report,
    });
    match args.get_flag("json") {
        true => line!("{value}"),
        false => print(&source.describe(), &report),
    }
    if let Some(out) = out {
        let page = lab::report::next_day::page(&source.describe(), source.is_synthetic(), &asked, &report)
            .map_err(Failure::Failed)?;
        written::write_in(&out, "evaluation.json", &value.to_string())?;
        written::write_in(&out, "report.html", &page)?;
        proxy::say(format_args!("{}", out.join("report.html").display()));
    }
    Ok(())
}

/// Options as they were given.
pub fn asked(args: &ArgMatches) -> Vec<(String, String)> {
    let names = args.ids().map(|id| id.as_str());
    names
        .filter(|name| !["out", "rules-out", "json"].contains(name))
        .filter_map(|name| match args.try_get_one::<bool>(name) {
            Ok(flag) => flag.filter(|flag| **flag).map(|_| (name.to_owned(), "yes".to_owned())),
            Err(_) => text(args, name).map(|text| (name.to_owned(), text.to_owned())),
        })
        .collect()
}

/// How far it is, on standard error.
pub struct Shown {
    last: Instant,
    terminal: bool,
}

impl Shown {
    pub fn new() -> Shown {
        Shown { last: Instant::now(), terminal: std::io::stderr().is_terminal() }
    }

    pub fn step(&mut self, step: &Step) {
        let every = Duration::from_secs(if self.terminal { 1 } else { 20 });
        if matches!(step, Step::Requests(..)) && self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let line = match step {
            Step::Requests(second, requests) => {
                format!("pass {} of 2: {requests} requests", 1 + u8::from(*second))
            }
            Step::Day(day, candidates) => format!("{}: {candidates} candidates", date(*day)),
            Step::Learning(name, examples) => format!("{name}: learning from {examples} examples"),
        };
        match self.terminal {
            true => eprint!("\r\x1b[Kcosm: {line}"),
            false => proxy::say(line),
        }
    }

    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn print(source: &str, report: &Report) {
    line!("{source}");
    line!(
        "{} requests; {} of {} servers with prefetchable service are chosen, which serve {:.1} % of it",
        report.requests,
        report.chosen_servers,
        report.servers,
        100.0 * report.chosen_share
    );
    line!("\nday             candidates      bytes prefetchable      bytes  not listed   budget");
    for day in &report.days {
        line!(
            "{:<10} {} {:>13} {:>10} {:>12} {:>10} {:>11} {:>8}",
            date(day.day),
            weekday(day.weekday),
            day.candidates,
            short(day.candidate_bytes),
            day.positives.objects + day.unlisted.objects,
            short(day.positives.bytes + day.unlisted.bytes),
            short(day.unlisted.bytes),
            day.budget.map_or("-".into(), short)
        );
    }
    for strategy in &report.strategies {
        line!("\n{}\n{:<15} {}", strategy.name, "", HEAD);
        for day in &strategy.days {
            let weekday =
                report.days.iter().find(|given| given.day == day.day).and_then(|given| given.weekday);
            line!("{:<10} {} {}", date(day.day), self::weekday(weekday), row(day));
        }
    }
    line!("\n{:<14} {}", "all days", TOTALS);
    for strategy in &report.strategies {
        let totals = &strategy.totals;
        line!(
            "{:<14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
            strategy.name,
            share(totals.accuracy),
            share(totals.coverage),
            share(totals.accuracy_in_objects),
            share(totals.coverage_in_objects),
            share(totals.timeliness),
            lower(totals.chosen_lower),
            lower(totals.chosen_highest_lower),
            lower(totals.all_lower),
            lower(totals.all_highest_lower)
        );
    }
    line!(
        "accuracy, coverage and timeliness are of bytes, the two beside them of objects; a peak is its highest quarter of an hour: of the \
         chosen servers the mean of the days and the highest of all, then of all servers"
    );
    for strategy in &report.strategies {
        let high = strategy.totals.nights_too_high;
        if high > 0 {
            line!(
                "{}: on {high} of {} days the night is higher than the peak that is left",
                strategy.name,
                strategy.totals.days
            );
        }
    }
    for note in &report.notes {
        line!("note: {note}");
    }
}

const HEAD: &str = "learned from   rules  fetched   A: hit  B: not  C: vain  D: left accuracy coverage   timely   peak  of all";
const TOTALS: &str = "accuracy coverage  objects  objects   timely      peak   highest  all: peak   highest";

fn row(day: &DayOutcome) -> String {
    let lower = |peak: [u64; 2]| lower(learn::evaluate::lower(peak));
    format!(
        "{:<12} {:>7} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7}",
        day.learned_from.map_or("-".into(), date),
        day.composition.map_or("-".into(), |composition| composition.rules.to_string()),
        short(day.bytes.hit + day.bytes.vain),
        short(day.bytes.hit),
        short(day.bytes.missed),
        short(day.bytes.vain),
        short(day.bytes.left),
        share(day.accuracy),
        share(day.coverage),
        share(day.timeliness),
        lower(day.chosen_peak),
        lower(day.all_peak)
    )
}

fn weekday(of: Option<usize>) -> &'static str {
    of.and_then(|weekday| WEEKDAYS.get(weekday)).copied().unwrap_or("   ")
}

fn share(of: Option<f64>) -> String {
    of.map_or("-".into(), |share| format!("{share:.3}"))
}

fn lower(by: f64) -> String {
    match -100.0 * by {
        none if none.abs() < 0.05 => "0 %".into(),
        by => format!("{by:.1} %"),
    }
}

/// Bytes, three digits of them.
fn short(bytes: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];
    match UNITS.iter().find(|(_, unit)| bytes as f64 >= *unit) {
        Some((name, unit)) => {
            let number = bytes as f64 / unit;
            let decimals = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
            format!("{number:.decimals$}{name}")
        }
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::evaluate::Matrix;

    #[test]
    fn numbers_are_short() {
        assert_eq!([7, 1_500, 12_345_678, 999_000_000_000].map(short), ["7", "1.50k", "12.3M", "999G"]);
        assert_eq!([0.105, 0.0, -0.02].map(lower), ["-10.5 %", "0 %", "2.0 %"]);
    }

    #[test]
    fn where_nothing_was_missed_no_peak_is_lower() {
        let day = DayOutcome {
            day: 0,
            learned_from: None,
            composition: None,
            bytes: Matrix::default(),
            objects: Matrix::default(),
            timeliness: None,
            late: 0,
            accuracy: None,
            coverage: None,
            over_budget: 0,
            chosen_peak: [0, 0],
            all_peak: [0, 0],
            raised: [0.0, 0.0],
            chosen: Vec::new(),
            all: Vec::new(),
        };
        assert!(row(&day).ends_with("    0 %     0 %"), "{}", row(&day));
    }
}
