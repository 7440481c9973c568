//! The strategies that are tested, and how those learn that do.

use crate::Failure;
use crate::lab::{number, text};
use clap::{Arg, ArgMatches};
use learn::candidate::PREFETCHABLE;
use learn::evaluate::{Composition, How, Learn, Learned, Strategy, When};
use learn::ripper::Learner;

pub const NAMES: [&str; 5] = ["nothing", "seen-before", "rules", "boosted", "oracle"];

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
    let names = match text(args, "strategies").unwrap_or("all") {
        "all" => NAMES.to_vec(),
        list => list.split(',').map(str::trim).collect(),
    };
    names.into_iter().map(|name| Ok(Strategy { name: name.into(), how: how(name, args)? })).collect()
}

fn how(name: &str, args: &ArgMatches) -> Result<How<'static>, Failure> {
    let learner = learner(args)?;
    let rounds = number(args, "rounds")?.unwrap_or(10).clamp(1, 1000) as usize;
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
                let ensemble = learn::boost::boost(&learner, rounds, examples, &mut |_, _| {})?;
                Ok(Learned { text: Some(ensemble.to_string()), composition: None, judge: Box::new(ensemble) })
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
    let said = text(args, "loss-ratio").unwrap_or("1");
    let loss_ratio: f64 = said.parse().unwrap_or(0.0);
    if !(loss_ratio > 0.0 && loss_ratio.is_finite()) {
        return Err(Failure::Usage(format!("--loss-ratio: `{said}` is not a number above 0")));
    }
    Ok(Learner {
        seed: number(args, "seed")?.unwrap_or(1),
        loss_ratio,
        positive: Some(PREFETCHABLE.into()),
        threads: crate::machine::cores(),
        ..Learner::default()
    })
}
