//! Examples from the last days of a trace.

use super::evaluate::{Shown, settings, settings_args};
use super::source::{Source, day_args};
use crate::Failure;
use crate::lab::number;
use clap::{Arg, ArgMatches};
use learn::evaluate::{Step, survey, walk};
use learn::examples::Examples;
use std::collections::VecDeque;

/// Beside those of the source.
pub fn args() -> Vec<Arg> {
    let last = Arg::new("last").long("last").value_name("DAYS").default_value("1");
    let last = last.help("Learn from so many last days of the trace together");
    day_args().into_iter().chain(settings_args()).chain([last]).collect()
}

pub fn examples(args: &ArgMatches) -> Result<Examples, Failure> {
    let most = number(args, "last")?.unwrap_or(1) as usize;
    if most == 0 {
        return Err(Failure::Usage("--last: at least 1".into()));
    }
    let source = Source::of(args)?;
    let settings = settings(args, &source)?;
    let failed = |why: String| Failure::Failed(format!("{}: {why}", source.describe()));
    let shown = std::cell::RefCell::new(Shown::new());
    let show = |step: Step| shown.borrow_mut().step(&step);
    let open = || source.open(settings.calendar).map_err(failed);
    let found = survey(&mut *open()?, &settings, &mut |requests| show(Step::Requests(false, requests)))
        .map_err(failed)?;
    let mut days: VecDeque<Examples> = VecDeque::new();
    walk(
        &mut *open()?,
        &settings,
        &found,
        &mut |material| {
            show(Step::Day(material.day, material.facts.len()));
            days.push_back(material.examples);
            if days.len() > most {
                days.pop_front();
            }
            Ok(())
        },
        &mut |requests| show(Step::Requests(true, requests)),
    )
    .map_err(failed)?;
    shown.borrow().end();
    let mut all = days.pop_front().ok_or_else(|| {
        failed(format!(
            "no day is left to learn from: {} days have a peak, of which {} are to warm up; see --warm-up and --peak",
            found.days, settings.warm_up
        ))
    })?;
    for day in days {
        all.append(&day).map_err(failed)?;
    }
    if all.is_empty() {
        return Err(failed(
            "nothing could have been fetched: give an --inventory, or a --cache that forgets".into(),
        ));
    }
    Ok(all)
}
