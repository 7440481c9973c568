//! Examples from the last days of a trace.

use super::evaluate::{Shown, same_kind, settings, settings_args};
use super::source::{Source, day_args};
use crate::Failure;
use crate::lab::number;
use clap::{Arg, ArgMatches};
use learn::day::{Day, NO_DATES};
use learn::evaluate::{Settings, Step, date, survey, walk};
use learn::examples::Examples;
use std::collections::VecDeque;

/// Beside those of the source.
pub fn args() -> Vec<Arg> {
    let last = Arg::new("last").long("last").value_name("DAYS").default_value("1");
    let last = last.help("Learn from so many last days of the trace together");
    let kind = same_kind(
        "Learn from the last days of the kind that the next peak after the trace is of: working days, or days at the weekend and holidays",
    );
    let of_kinds = settings_args().into_iter().map(|arg| match arg.get_id() == "holidays" {
        true => arg.requires("same-kind"),
        false => arg,
    });
    day_args().into_iter().chain(of_kinds).chain([last, kind]).collect()
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
    let no_dates = (!settings.calendar.has_dates).then_some(NO_DATES);
    source.note().into_iter().chain(no_dates).for_each(|note| proxy::say(format_args!("note: {note}")));
    // By kind, if that matters: of work, and free.
    let mut days: [VecDeque<(Day, Examples)>; 2] = Default::default();
    let mut last = 0;
    walk(
        &mut *open()?,
        &settings,
        &found,
        &mut |material| {
            show(Step::Day(material.day, material.facts.len()));
            last = material.day;
            let days = &mut days[usize::from(settings.same_kind && material.is_free)];
            days.push_back((last, material.examples));
            if days.len() > most {
                days.pop_front();
            }
            Ok(())
        },
        &mut |requests| show(Step::Requests(true, requests)),
    )
    .map_err(failed)?;
    shown.borrow().end();
    let mut days = match settings.same_kind {
        true => of_kind(days, next_peak(last, &settings), &settings),
        false => std::mem::take(&mut days[0]),
    };
    let (_, mut all) = days.pop_front().ok_or_else(|| {
        failed(format!(
            "no day is left to learn from: {} days have a peak, of which {} are to warm up; see --warm-up and --peak",
            found.days, settings.warm_up
        ))
    })?;
    for (_, day) in days {
        all.append(&day).map_err(failed)?;
    }
    if all.is_empty() {
        return Err(failed(
            "nothing could have been fetched: give an --inventory, or a --cache that forgets".into(),
        ));
    }
    Ok(all)
}

fn next_peak(last: Day, settings: &Settings) -> Day {
    let has_peak = |day: &Day| settings.peak.days.contains(settings.calendar.weekday(*day));
    (last + 1..).find(has_peak).expect("some day of the week has a peak")
}

/// Those that a day learns from: of its kind, and where there was none, of the other one.
fn of_kind(days: [VecDeque<(Day, Examples)>; 2], day: Day, settings: &Settings) -> VecDeque<(Day, Examples)> {
    let [work, free] = days;
    let is_free = settings.is_free(day);
    let (same, other) = if is_free { (free, work) } else { (work, free) };
    let chosen = if same.is_empty() { other } else { same };
    let from: Vec<String> = chosen.iter().map(|(day, _)| date(*day)).collect();
    let kind = if is_free { "free" } else { "working" };
    if !from.is_empty() {
        proxy::say(format_args!("rules for {}, a {kind} day, from {}", date(day), from.join(", ")));
    }
    chosen
}
