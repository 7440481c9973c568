//! `cosm smooth plan`: tonight's list from candidates, rules and a budget.

use super::evaluate::{Shown, cache, cache_args};
use super::rules::{encoding, load};
use super::source::{self, Source, days};
use crate::Failure;
use crate::lab::{from_format, json, number, strict, text};
use crate::values::size;
use clap::{Arg, ArgMatches, Command};
use learn::candidate::{Beside, Candidate, Encoding, History, Source as From};
use learn::evaluate::{Offers, Settings, Step, Told, Web, survey, walk};
use learn::plan::{LeftOut, Order, Plan, Planner, rules_for_queries};
use learn::rules::Model;
use learn::target::{Performance, Usage};
use std::path::Path;
use trace::Access;
use trace::inventory::{Inventory, Row};

/// The numbers of equation 6.2 and what they are.
const USAGE: [(&str, &str); 4] = [
    ("b-pre", "B_pre: bytes of the last peak that could have been prefetched"),
    ("b-peak", "B_peak: bytes that the last peak fetched in all"),
    ("b-off", "B_o: bytes that the off-peak before it fetched in all"),
    ("l-max", "L_m: bytes of the highest quarter of an hour of the last peak"),
];

pub fn command() -> Command {
    let candidates = Arg::new("CANDIDATES").required(true).help(
        "What servers offer, as JSON, an object a line: url, size, modified, created (seconds since 1970), content_type, cacheable",
    );
    let rules = Arg::new("rules")
        .long("rules")
        .value_name("FILE")
        .required(true)
        .help("Rules, as cosm smooth train writes them");
    let budget = Arg::new("budget").long("budget").value_name("SIZE").help(
        "Bytes that may be fetched; else they follow from the usage of the last day by equation 6.2: --b-pre, --b-peak, --b-off, --l-max",
    );
    let usage = USAGE
        .map(|(name, help)| Arg::new(name).long(name).value_name("SIZE").conflicts_with("budget").help(help));
    let intervals = Arg::new("intervals")
        .long("intervals")
        .value_name("N")
        .default_value("48")
        .conflicts_with("budget")
        .help("Quarters of an hour of the off-peak");
    let history = Arg::new("TRACE").long("trace").value_name("FILE").help(
        "Requests of the days before, for rules that ask for them (uses, days, idle, shares), and to leave out what the cache has; \
         without, nothing was ever asked for",
    );
    let offered = source::inventory().help(
        "What servers offered in the nights before, for rules that ask for section-yield or section-readers. Of a folder of files named 1998-05-18.jsonl \
         and so on, each night takes the last one up to the day on which it begins",
    );
    let strict = strict().help(
        "Stop at the first malformed line of the trace, and at the first candidate or row of an inventory without a URL of a server",
    );
    let night = Arg::new("night")
        .long("night")
        .value_name("SECONDS")
        .help("When the night begins, in seconds since 1970, from which ages are counted; otherwise now");
    let confidence = Arg::new("confidence")
        .long("confidence")
        .value_name("SHARE")
        .default_value("0")
        .help("Leave out what is less likely to be asked for than this, from 0 to 1");
    Command::new("plan")
        .about("Make tonight's list of what to fetch, from candidates, rules and a budget")
        .args([candidates, rules, budget])
        .args(usage)
        .args([intervals, history, offered, from_format().requires("TRACE"), strict])
        .args(source::day_args().map(|arg| arg.requires("TRACE")))
        .args(cache_args().map(|arg| arg.requires("TRACE")))
        .args([night, confidence, json()])
        .after_help(
            "The likeliest come first; of those, the smaller. Links with credentials are left out, those of special-purpose addresses, \
             localhost and hosts beyond ASCII, and links with a query or to a program unless the rule that chose them says query=yes. Nothing is fetched.\n\n\
             Example:\n  \
             cosm smooth plan offered.jsonl --rules rules --budget 2GiB",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let budget = budget(args)?;
    let confidence = match text(args, "confidence").map(str::parse::<f64>) {
        Some(Ok(share)) if (0.0..=1.0).contains(&share) => share,
        _ => {
            let said = text(args, "confidence").unwrap_or_default();
            return Err(Failure::Usage(format!("--confidence: `{said}` is no share from 0 to 1")));
        }
    };
    let night = match text(args, "night") {
        Some(text) => text
            .parse()
            .map_err(|_| Failure::Usage(format!("--night: `{text}` are no seconds since 1970")))?,
        None => now(),
    };
    let path = text(args, "rules").unwrap_or_default();
    let model = load(path)?;
    let encoding = encoding(&model).map_err(|why| Failure::Failed(format!("{path}: {why}")))?;
    let told = told(args, night)?;
    for (source, lacks, without) in [
        (From::Requests, told.is_none(), "--trace: nothing was ever asked for"),
        (From::Nights, text(args, "inventory").is_none(), "--inventory: what nights offered is not known"),
    ] {
        let asked = encoding.taken_from(source).join(", ");
        if lacks && !asked.is_empty() {
            proxy::say(format_args!("the rules ask for {asked}, and without {without}"));
        }
    }
    let history = told.as_ref().map(|told| &told.history);
    let nothing = History::new(1);
    let query_rules = match &model {
        Model::Rules(rules) => rules_for_queries(rules),
        _ => Default::default(),
    };
    let candidates = text(args, "CANDIDATES").unwrap_or_default();
    let rows = || {
        let rows = Inventory::open(Path::new(candidates)).map_err(Failure::Failed)?;
        Ok::<_, Failure>(if args.get_flag("strict") { rows } else { rows.with_any_url() })
    };
    let mut beside = Beside::default();
    if encoding.asks_beside() {
        if !Path::new(candidates).is_file() {
            let asked = encoding.taken_from(From::Beside).join(", ");
            return Err(Failure::Failed(format!(
                "{candidates}: the rules ask for {asked}, so it is read twice and has to be a file"
            )));
        }
        for row in rows()? {
            beside.note(&row.map_err(Failure::Failed)?);
        }
    }
    let mut planner = Planner::new(&model, encoding, Order { budget, night, query_rules, confidence });
    let mut scratch = Access::default();
    for row in rows()? {
        let mut candidate = Candidate { row: row.map_err(Failure::Failed)?, ..Candidate::default() };
        candidate.remember(history.unwrap_or(&nothing), &beside, &mut scratch);
        let is_cached = told.as_ref().is_some_and(|told| told.has(scratch.object, &candidate.row));
        planner.add(candidate, is_cached).map_err(Failure::Failed)?;
    }
    let plan = planner.finish().map_err(Failure::Failed)?;
    if plan.candidates == 0 {
        return Err(Failure::Failed(format!("{candidates}: there is no candidate in it")));
    }
    match args.get_flag("json") {
        true => line!("{}", as_json(&plan, night)),
        false => print(&plan),
    }
    Ok(())
}

fn budget(args: &ArgMatches) -> Result<u64, Failure> {
    let bytes = |name: &str| match text(args, name) {
        Some(said) => size(said).map_err(|why| Failure::Usage(format!("--{name}: {why}"))),
        None => Err(Failure::Usage(format!(
            "--{name} is missing: name a --budget, or all of --b-pre, --b-peak, --b-off and --l-max"
        ))),
    };
    if text(args, "budget").is_some() {
        return bytes("budget");
    }
    let intervals = number(args, "intervals")?.unwrap_or_default();
    let usage = Usage {
        prefetchable: bytes("b-pre")? as f64,
        peak: bytes("b-peak")? as f64,
        off_peak: bytes("b-off")? as f64,
        level_max: bytes("l-max")? as f64,
        intervals: intervals as f64,
    };
    Ok(usage.target(Performance::PERFECT).map_err(Failure::Usage)?.extra as u64)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// What the days of a trace tell, and the offers of their nights: as `evaluate` has it.
fn told(args: &ArgMatches, night: u64) -> Result<Option<Told>, Failure> {
    if text(args, "TRACE").is_none() {
        return Ok(None);
    }
    let source = Source::of(args)?;
    let (peak, utc_offset) = days(args)?;
    let (cache, by_date) = cache(args)?;
    let calendar = source.calendar(utc_offset)?;
    let least = Encoding::named(["size"]).map_err(Failure::Failed)?;
    let offers = if source.has_inventory() { Offers::Listed } else { Offers::Seen };
    let settings = Settings {
        peak,
        calendar,
        offers,
        cache,
        by_date,
        warm_up: 0,
        servers: None,
        ..Settings::new(least)
    };
    let mut shown = Shown::new();
    let failed = |why: String| Failure::Failed(format!("{}: {why}", source.describe()));
    let open = || {
        let web = source.open(calendar).map_err(failed)?;
        Ok::<_, Failure>(Until { web, night, last: None, later: 0 })
    };
    let mut web = open()?;
    let survey = survey(&mut web, &settings, &mut |requests| shown.step(&Step::Requests(false, requests)));
    let survey = survey.map_err(failed)?;
    say_times(&web);
    let each = &mut |_| Ok(());
    let told = walk(&mut open()?, &settings, &survey, each, &mut |requests| {
        shown.step(&Step::Requests(true, requests));
    });
    shown.end();
    told.map(Some).map_err(failed)
}

/// Requests up to the night: what comes after it is not known then.
struct Until {
    web: Box<dyn Web>,
    night: u64,
    /// Of the latest request up to it, in seconds since 1970.
    last: Option<u64>,
    /// Requests after it.
    later: u64,
}

/// That the trace is not of the days before the night.
fn say_times(web: &Until) {
    const DAY: u64 = 86_400;
    if web.later > 0 {
        proxy::say(format_args!(
            "{} requests of the trace are later than the night: they are not looked at",
            web.later
        ));
    }
    match web.last {
        None => proxy::say("no request of the trace is before the night: as if nothing was ever asked for"),
        Some(last) if web.night - last > 2 * DAY => proxy::say(format_args!(
            "the trace ends {} days before the night: the last peak and the last requests that rules ask for are of then",
            (web.night - last) / DAY
        )),
        Some(_) => {}
    }
}

impl Web for Until {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        while self.web.next(access)? {
            let seconds = access.time / 1_000_000;
            if seconds <= self.night {
                self.last = self.last.max(Some(seconds));
                return Ok(true);
            }
            self.later += 1;
        }
        Ok(false)
    }

    fn offers(&mut self, at: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        self.web.offers(at, each)
    }
}

fn print(plan: &Plan) {
    for line in &plan.lines {
        line!(
            "{:>6.1} % {:>12}  {}\n{:>24}{}",
            100.0 * line.confidence,
            line.bytes,
            line.url,
            "",
            line.reason
        );
    }
    line!(
        "{} of {} candidates, {} of {} bytes; {:.0} are expected to be asked for",
        plan.lines.len(),
        plan.candidates,
        plan.bytes,
        plan.budget,
        plan.expected
    );
    for (why, count) in LeftOut::ALL.into_iter().zip(plan.left_out).filter(|(_, count)| *count > 0) {
        line!("{count:>9} left out: {}", why.words());
    }
}

fn as_json(plan: &Plan, night: u64) -> serde_json::Value {
    let lines: Vec<_> = plan
        .lines
        .iter()
        .map(|line| {
            serde_json::json!({
                "url": line.url, "bytes": line.bytes, "confidence": line.confidence, "rule": line.rule, "reason": line.reason,
            })
        })
        .collect();
    let left_out: serde_json::Map<String, serde_json::Value> = LeftOut::ALL
        .into_iter()
        .zip(plan.left_out)
        .map(|(why, count)| (why.key().into(), count.into()))
        .collect();
    serde_json::json!({
        "night": night, "budget": plan.budget, "bytes": plan.bytes, "expected": plan.expected, "candidates": plan.candidates,
        "left_out": left_out, "lines": lines,
    })
}
