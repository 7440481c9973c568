//! The strategies that are tested, and how those learn that do.

use crate::Failure;
use crate::lab::{number, number_within, text};
use clap::{Arg, ArgMatches};
use learn::candidate::PREFETCHABLE;
use learn::evaluate::{Composition, How, Learn, Learned, Strategy, When};
use learn::ripper::{LOSS_RATIOS, Learner, Step};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

pub const NAMES: [&str; 6] = ["nothing", "seen-before", "rules", "boosted", "trees", "oracle"];

/// Between two words on what takes long.
const EVERY: Duration = Duration::from_secs(20);
/// Sets of rules that may be boosted.
pub const ROUNDS: RangeInclusive<u64> = 1..=1000;

pub fn args() -> Vec<Arg> {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    vec![
        option("loss-ratio", "N").default_value("1").help(
            "Cost of a false positive over that of a false negative: above 1 values accuracy, below 1 coverage (thesis, 7.8)",
        ),
        option("rounds", "N").default_value("10").help("Sets of rules that are boosted"),
    ]
}

pub fn of(args: &ArgMatches) -> Result<Vec<Strategy<'static>>, Failure> {
    let names: Vec<&str> = match text(args, "strategies").unwrap_or("all") {
        "all" => NAMES.to_vec(),
        list => listed(list)?,
    };
    names.into_iter().map(|name| Ok(Strategy { name: name.into(), how: how(name, args)? })).collect()
}

/// Names between commas. An error if one is empty, or there twice: its figures would be.
pub fn listed(list: &str) -> Result<Vec<&str>, Failure> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    match names.iter().enumerate().find(|(nth, name)| name.is_empty() || names[..*nth].contains(name)) {
        Some((_, &"")) => Err(Failure::Usage(format!("--strategies: `{list}` lacks a name at a comma"))),
        Some((_, name)) => Err(Failure::Usage(format!("--strategies: `{name}` is there twice"))),
        None => Ok(names),
    }
}

fn how(name: &str, args: &ArgMatches) -> Result<How<'static>, Failure> {
    let learner = learner(args)?;
    let rounds = number_within(args, "rounds", ROUNDS)?.unwrap_or(10) as usize;
    let (when, learn): (When, Learn) = match name {
        "nothing" => return Ok(How::Nothing),
        "seen-before" => return Ok(How::SeenBefore),
        "oracle" => return Ok(How::Oracle),
        "rules" => (
            When::Daily,
            Box::new(move |examples| {
                let rules = learner.learn(examples)?;
                let (text, composition) = (Some(rules.to_string()), Some(Composition::of(&rules)));
                Ok(Learned { judge: Box::new(rules), text, composition })
            }),
        ),
        "boosted" => (
            When::Once,
            Box::new(move |examples| {
                let mut said = Instant::now();
                let mut progress = |round: usize, Step { rules, left, .. }| {
                    if said.elapsed() > EVERY {
                        said = Instant::now();
                        proxy::say(format_args!(
                            "boosted: round {} of {rounds}, {rules} rules, {left} examples",
                            round + 1
                        ));
                    }
                };
                let ensemble = learn::boost::boost(&learner, rounds, examples, &mut progress)?;
                Ok(Learned { text: Some(ensemble.to_string()), composition: None, judge: Box::new(ensemble) })
            }),
        ),
        "trees" => (
            When::Daily,
            Box::new(move |examples| {
                let positives = examples.class().iter().filter(|class| **class == 0).count();
                if positives == 0 || positives == examples.len() {
                    // There is nothing to tell apart: a default is all there is to learn.
                    let judge = Box::new(learner.learn(examples)?);
                    return Ok(Learned { judge, text: None, composition: None });
                }
                let settings = trees::Settings {
                    positive: PREFETCHABLE.into(),
                    seed: learner.seed,
                    loss_ratio: learner.loss_ratio,
                    threads: learner.threads,
                    ..trees::Settings::default()
                };
                let judge = Box::new(trees::Trees::learn(examples, &settings)?);
                Ok(Learned { judge, text: None, composition: None })
            }),
        ),
        other => {
            return Err(Failure::Usage(format!(
                "--strategies: `{other}` is not one of {}",
                NAMES.join(", ")
            )));
        }
    };
    Ok(How::Learned { when, learn })
}

fn learner(args: &ArgMatches) -> Result<Learner, Failure> {
    Ok(Learner {
        seed: number(args, "seed")?.unwrap_or(1),
        loss_ratio: loss_ratio(args)?,
        positive: Some(PREFETCHABLE.into()),
        threads: crate::machine::cores(),
        ..Learner::default()
    })
}

/// 1 if it is not said.
pub fn loss_ratio(args: &ArgMatches) -> Result<f64, Failure> {
    let said = text(args, "loss-ratio").unwrap_or("1");
    let (least, most) = (LOSS_RATIOS.start(), LOSS_RATIOS.end());
    let ratio = said.parse().ok().filter(|ratio| LOSS_RATIOS.contains(ratio));
    ratio.ok_or_else(|| {
        Failure::Usage(format!("--loss-ratio: `{said}` is not a number from {least:e} to {most:e}"))
    })
}
