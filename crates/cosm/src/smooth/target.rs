//! `cosm smooth target`: the level that a peak can be kept under, from seven numbers.

use crate::Failure;
use crate::lab::{json, text};
use clap::{Arg, ArgMatches, Command};
use learn::number::Number;
use learn::target::{Bound, Performance, Target, Usage};

/// An option, the default of those that have one, and its help.
const NUMBERS: [(&str, Option<&str>, &str); 7] = [
    ("b-pre", None, "B_pre: what of the peak could be prefetched"),
    ("b-peak", None, "B_peak: what the peak fetches in all"),
    ("b-off", None, "B_o: what the off-peak before it fetches in all, without prefetching"),
    ("l-max", None, "L_m: what the highest level of the peak fetches"),
    ("intervals", Some("48"), "Levels of the off-peak, from 1 to 95: 48 quarters of an hour are 12 hours"),
    ("accuracy", Some("1"), "P_a: the share of what is prefetched that was prefetchable"),
    ("coverage", Some("1"), "P_c: the share of what was prefetchable that is prefetched"),
];

pub fn command() -> Command {
    let arg = |(name, default, help): (&'static str, Option<&'static str>, &'static str)| {
        let arg = Arg::new(name).long(name).value_name("N").help(help).allow_negative_numbers(true);
        match default {
            Some(default) => arg.default_value(default),
            None => arg.required(true),
        }
    };
    Command::new("target")
        .about("Compute the level that a peak can be kept under by prefetching (thesis, 6.2.4 and 7.5)")
        .args(NUMBERS.map(arg))
        .arg(json())
        .after_help(
            "B_pre, B_peak, B_o and L_m are in one unit, such as MB, which the results are in as well.\n\n\
             Equation 7.5 is solved as P_c·B = P_a·B_extra(P_c·B). The recursion as printed misses its own stop condition \
             unless P_c is 1.\n\n\
             Example: the day of Figure 7.2, whose caption calls the off-peak's use B_extra; the level is 87.19, at \
             which 1888.6 are prefetched:\n  \
             cosm smooth target --b-pre 1965.93 --b-peak 4968.19 --b-off 2296.78 --l-max 140.667",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let number = |name: &str| {
        let text = text(args, name).unwrap_or_default();
        let wrong = || Failure::Usage(format!("--{name}: `{text}` is no number"));
        text.trim().parse::<f64>().map_err(|_| wrong())
    };
    let usage = Usage {
        prefetchable: number("b-pre")?,
        peak: number("b-peak")?,
        off_peak: number("b-off")?,
        level_max: number("l-max")?,
        intervals: number("intervals")?,
    };
    let performance = Performance { accuracy: number("accuracy")?, coverage: number("coverage")? };
    let target = usage.target(performance).map_err(Failure::Usage)?;
    match args.get_flag("json") {
        true => line!("{}", serde_json::to_string(&target).map_err(|e| Failure::Failed(e.to_string()))?),
        false => print(&usage, performance, &target),
    }
    Ok(())
}

fn print(usage: &Usage, performance: Performance, target: &Target) {
    let Target { target_level, smoothing_potential, spared, prefetched, extra, bound } = *target;
    let share = 100.0 * smoothing_potential / usage.level_max;
    line!("target level       {target_level:>12.2}  L_t: {share:.1} % below L_m, {:.2}", usage.level_max);
    line!("smoothing potential{smoothing_potential:>12.2}  L_m - L_t");
    line!("the peak is spared {spared:>12.2}  of B_pre, {:.2}", usage.prefetchable);
    line!(
        "prefetched         {prefetched:>12.2}  off-peak, at an accuracy of {}",
        Number(performance.accuracy)
    );
    line!("off-peak has room  {extra:>12.2}  B_extra: below L_t, beside B_o, {:.2}", usage.off_peak);
    line!(
        "{}",
        match bound {
            Bound::InVain => "At an accuracy of 0 nothing that is prefetched spares the peak anything.",
            Bound::Prefetchable => "The off-peak has room for all: there is no more to prefetch.",
            Bound::Room =>
                "The off-peak has no room for more: this is the fixed point of equations 6.4 and 7.5.",
            Bound::NoRoom => {
                "The off-peak fetches as much as fits under L_m, or more: there is no room to prefetch anything."
            }
        }
    );
}
