//! `cosm smooth loop`: strategies beside each other in a synthetic world, seed after seed.

use super::evaluate::asked;
use super::strategies::{ROUNDS, listed, loss_ratio};
use crate::Failure;
use crate::lab::{json, number, number_within, seed, text};
use crate::written::{folder, write_in};
use clap::{Arg, ArgMatches, Command};
use lab::report::nights::{Tried, page};
use lab::smooth::{Night, Run, Saved, Settings, Strategy, run as go};
use serde_json::{Value, json};
use trace::world;

/// An option of a whole number, and what it is.
const COUNTS: [(&str, &str); 9] = [
    ("sites", "Sites of the world"),
    ("clients", "Clients: each visits up to three sites a day by habit"),
    ("sessions", "Sessions of a weekday beside those"),
    ("days", "Days from Monday, 18 May 1998; the second Monday is a holiday"),
    ("upheaval", "Day, from 0, in whose midnight other sites become popular, with other habits"),
    ("first", "Day, from 0, in whose night something is fetched first"),
    ("nights", "Nights that are learned from, the last so many"),
    ("rounds", "Sets of rules that are boosted"),
    ("seeds", "Worlds: the seed and those after it"),
];

/// An option of another number.
const NUMBERS: [(&str, &str); 3] = [
    (
        "negatives",
        "Share of the examples of what was not asked for that is learned from, weighted to stand for all",
    ),
    ("confidence", "What is chosen is at least so likely, as its learner says, to be asked for"),
    ("loss-ratio", "Cost of a false positive over that of a false negative (thesis, 7.8)"),
];

pub fn command() -> Command {
    let arg =
        |(name, help): (&'static str, &'static str)| Arg::new(name).long(name).value_name("N").help(help);
    let strategies = Strategy::ALL.map(Strategy::name).join(", ");
    Command::new("loop")
        .about("Fetch ahead in a synthetic world, night after night, through the real cache and store")
        .args(COUNTS.map(arg))
        .args(NUMBERS.map(arg))
        .arg(Arg::new("strategies").long("strategies").value_name("NAMES").default_value("all").help(format!(
            "Who chooses: some of {strategies}, separated by commas"
        )))
        .arg(seed())
        .arg(json())
        .arg(Arg::new("out").long("out").value_name("DIR").help("Write a page with plots, and loop.json, there"))
        .after_help(
            "At midnight the sites' inventories are the candidates; what is chosen of them is fetched until 4:30, as far as the night has \
             room under the target level. Compared is the highest quarter of an hour of the peak, 4:30 to 16:30, with and \
             without.\n\n\
             Example: the rules beside what could be had at best, in three worlds:\n  \
             cosm smooth loop --strategies rules,oracle --seeds 3",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let settings = settings(args)?;
    let strategies: Vec<Strategy> = match text(args, "strategies").unwrap_or("all") {
        "all" => Strategy::ALL.to_vec(),
        some => {
            let names = listed(some)?.into_iter();
            names.map(Strategy::named).collect::<Result<_, _>>().map_err(Failure::Usage)?
        }
    };
    let out = folder(args, "out")?;
    let first_seed = settings.seed;
    let seeds = number_within(args, "seeds", 1..=1_000)?.unwrap_or(1);
    let mut found: Vec<Tried> = strategies.iter().map(|strategy| (*strategy, Vec::new())).collect();
    let mut first = None;
    for seed in (0..seeds).map(|nth| first_seed.wrapping_add(nth)) {
        let settings = Settings { seed, ..settings.clone() };
        let one = |strategy: Strategy| {
            // Of a large world, the first day comes late.
            let (name, sites) = (strategy.name(), settings.world.sites);
            proxy::say(format_args!("seed {seed}, {name}: making a world of {sites} sites"));
            let run = go(&settings, strategy, &mut |day, run| {
                proxy::say(format_args!(
                    "seed {seed}, {name}: day {}, {} requests",
                    day.number, run.requests
                ));
            });
            run.map_err(Failure::Failed)
        };
        let without = one(Strategy::Nothing)?;
        for (strategy, runs) in &mut found {
            let run = match *strategy {
                Strategy::Nothing => without.clone(),
                strategy => one(strategy)?,
            };
            let saved = run.against(&without);
            let all = run.totals();
            let shown = |value: Option<f64>| value.map_or("-".into(), share);
            proxy::say(format_args!(
                "seed {seed}, {}: accuracy {}, coverage {}, highest level {}",
                strategy.name(),
                shown(all.accuracy()),
                shown(all.coverage()),
                percent(saved.highest)
            ));
            runs.push((run, saved));
        }
        first.get_or_insert(without);
    }
    let value = as_json(&settings, &found);
    match args.get_flag("json") {
        true => line!("{value}"),
        false => print(&found),
    }
    if let (Some(out), Some(without)) = (out, first) {
        let page = page(&asked(args), &without, &found).map_err(Failure::Failed)?;
        write_in(&out, "loop.json", &value.to_string())?;
        write_in(&out, "report.html", &page)?;
        proxy::say(format_args!("{}", out.join("report.html").display()));
    }
    Ok(())
}

fn settings(args: &ArgMatches) -> Result<Settings, Failure> {
    let mut settings = Settings { seed: number(args, "seed")?.unwrap_or(1), ..Settings::default() };
    let count = |name: &str| -> Result<Option<u32>, Failure> {
        let large = |_| Failure::Usage(format!("--{name}: at most {}", u32::MAX));
        number(args, name)?.map(u32::try_from).transpose().map_err(large)
    };
    let world::Settings { sites, clients, sessions, days, upheaval, .. } = &mut settings.world;
    *sites = count("sites")?.unwrap_or(*sites);
    *clients = count("clients")?.unwrap_or(*clients);
    *sessions = count("sessions")?.map_or(*sessions, f64::from);
    *days = count("days")?.unwrap_or(*days);
    *upheaval = count("upheaval")?;
    settings.first = count("first")?.unwrap_or(settings.first);
    let least_one =
        |name: &str, most: u64| Ok(number_within(args, name, 1..=most)?.map(|number| number as usize));
    settings.nights = least_one("nights", 1_000)?.unwrap_or(settings.nights);
    settings.rounds = least_one("rounds", *ROUNDS.end())?.unwrap_or(settings.rounds);
    let share = |name: &str, default: f64, most: f64| match text(args, name) {
        None => Ok(default),
        Some(text) => match text.trim().parse::<f64>() {
            Ok(number) if number > 0.0 && number <= most => Ok(number),
            _ => Err(Failure::Usage(format!("--{name}: `{text}` is no number above 0 and up to {most}"))),
        },
    };
    settings.negatives = share("negatives", settings.negatives, 1.0)?;
    settings.confidence = share("confidence", settings.confidence, 1.0)?;
    settings.learner.loss_ratio = loss_ratio(args)?;
    settings.learner.threads = crate::machine::cores();
    settings.world.check().map_err(Failure::Usage)?;
    let last = settings.world.days;
    if last == 0 || settings.first >= last {
        return Err(Failure::Usage(format!(
            "--days: {last}, but the first night in which something is fetched is that of day {}",
            settings.first
        )));
    }
    if let Some(day) = settings.world.upheaval.filter(|day| *day >= last) {
        return Err(Failure::Usage(format!("--upheaval: there is no day {day}, but from 0 to {}", last - 1)));
    }
    Ok(settings)
}

fn print(found: &[Tried]) {
    line!("of the bytes of all peaks; over the seeds: the median, and the least and the most\n");
    line!(
        "{:<12} {:>20} {:>20} {:>20} {:>22} {:>22} {:>22}",
        "strategy",
        "accuracy",
        "coverage",
        "timeliness",
        "highest level",
        "mean of the peaks' own",
        "bytes of the peaks"
    );
    for (strategy, runs) in found {
        let of = |value: &dyn Fn(&Run, &Saved) -> Option<f64>| {
            runs.iter().filter_map(|(run, saved)| value(run, saved)).collect::<Vec<f64>>()
        };
        let totals = |value: fn(&Night) -> Option<f64>| of(&|run, _| value(&run.totals()));
        line!(
            "{:<12} {:>20} {:>20} {:>20} {:>22} {:>22} {:>22}",
            strategy.name(),
            spread(&totals(Night::accuracy), share),
            spread(&totals(Night::coverage), share),
            spread(&totals(Night::timeliness), share),
            spread(&of(&|_, saved| Some(saved.highest)), percent),
            spread(&of(&|_, saved| Some(mean(&saved.each))), percent),
            spread(&of(&|_, saved| Some(saved.peaks)), percent),
        );
    }
    for (strategy, runs) in found.iter().filter(|(strategy, _)| *strategy != Strategy::Nothing) {
        line!(
            "\n{}, by day: accuracy, coverage, highest level, highest level of the night by the target level; medians over the seeds",
            strategy.name()
        );
        let days = runs.first().map_or(0, |(run, _)| run.peaks.len());
        for nth in 0..days {
            let of = |value: &dyn Fn(&Night) -> Option<f64>| {
                let all: Vec<f64> = runs.iter().filter_map(|(run, _)| value(run.peaks.get(nth)?)).collect();
                if all.is_empty() { "-".into() } else { share(median(all)) }
            };
            let each: Vec<f64> = runs.iter().filter_map(|(_, saved)| saved.each.get(nth).copied()).collect();
            let day = runs.first().and_then(|(run, _)| run.peaks.get(nth)).map_or(0, |night| night.day);
            line!(
                "  day {day:>3} {:>6} {:>6} {:>9} {:>6}",
                of(&Night::accuracy),
                of(&Night::coverage),
                percent(median(each)),
                of(&|night| (night.target > 0).then(|| night.highest_ahead as f64 / night.target as f64))
            );
        }
        print_likely(runs);
    }
}

/// How likely was what the peaks asked for, to those who know all habits.
fn print_likely(runs: &[(Run, Saved)]) {
    let nights: Vec<&Night> = runs.iter().flat_map(|(run, _)| &run.peaks).collect();
    let Some(ranges) = nights.first().map(|night| night.likely.len()).filter(|ranges| *ranges > 0) else {
        return;
    };
    let of = |nth: usize| nights.iter().filter_map(move |night| night.likely.get(nth));
    let all: u64 = (0..ranges).flat_map(of).map(|range| range.prefetchable).sum();
    line!(
        "\nlikelihood, of all habits  candidates, MB  prefetchable, MB  of the prefetchable  of the candidates"
    );
    for nth in 0..ranges {
        let (mut offered, mut prefetchable, mut from) = (0, 0, 0.0);
        for range in of(nth) {
            (offered, prefetchable, from) =
                (offered + range.offered, prefetchable + range.prefetchable, range.from);
        }
        let part = |of: u64| prefetchable as f64 / of.max(1) as f64;
        line!(
            "from {from:<21} {:>14.1} {:>17.1} {:>20.3} {:>18.4}",
            offered as f64 / 1e6,
            prefetchable as f64 / 1e6,
            part(all),
            part(offered)
        );
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (half, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    match values.get(half) {
        None => 0.0,
        Some(middle) if is_odd => *middle,
        Some(middle) => (values[half - 1] + middle) / 2.0,
    }
}

fn share(value: f64) -> String {
    format!("{value:.2}")
}

/// By how much something is lower; nothing has no sign.
fn percent(value: f64) -> String {
    match -100.0 * value {
        none if none.abs() < 0.05 => "0.0 %".into(),
        by => format!("{by:+.1} %"),
    }
}

fn spread(values: &[f64], show: fn(f64) -> String) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        0 => "-".into(),
        1 => show(values[0]),
        _ => {
            let bare = |value: f64| show(value).trim_end_matches(" %").to_owned();
            let mut ends = [bare(least), bare(most)];
            if least > 0.0 && show(least).starts_with('-') {
                ends.reverse();
            }
            format!("{} ({} to {})", show(median(values.to_vec())), ends[0], ends[1])
        }
    }
}

fn as_json(settings: &Settings, found: &[Tried]) -> Value {
    let world = &settings.world;
    let strategies = found.iter().map(|(strategy, runs)| {
        let runs: Vec<Value> = runs
            .iter()
            .map(|(run, saved)| {
                let totals = run.totals();
                json!({
                    "run": run, "lower": saved, "accuracy": totals.accuracy(), "coverage": totals.coverage(),
                    "timeliness": totals.timeliness(),
                })
            })
            .collect();
        json!({ "strategy": strategy.name(), "runs": runs })
    });
    json!({
        "world": {
            "sites": world.sites, "clients": world.clients, "sessions": world.sessions, "days": world.days,
            "holidays": world.holidays, "site_zipf": world.site_zipf, "upheaval": world.upheaval,
        },
        "first": settings.first, "nights": settings.nights, "negatives": settings.negatives,
        "confidence": settings.confidence, "loss_ratio": settings.learner.loss_ratio, "rounds": settings.rounds,
        "space": settings.space,
        "strategies": strategies.collect::<Vec<Value>>(),
    })
}
