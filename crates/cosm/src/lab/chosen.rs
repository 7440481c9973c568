//! `cosm lab chosen`: every figure that was chosen, why, and what it moves.

use super::work::{Progress, on_all_cores};
use super::{json, number, seed, text};
use crate::Failure;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lab::experiments::chosen::{Chosen, OUTCOMES, STEP, Setting, figures, measure, media, moves};
use trace::synthetic;

/// Those whose figures have rows.
const WORKLOADS: [&str; 3] = ["dec", "dec-small", "pages"];

pub fn command() -> Command {
    let like = Arg::new("like").long("like").value_name("NAME").default_value("dec");
    let requests = Arg::new("requests").long("requests").value_name("N").default_value("100000");
    let known: Vec<&str> = media().collect();
    let medium = Arg::new("medium")
        .long("medium")
        .value_name("NAME")
        .default_value("st15150w")
        .help(format!("The device, filesystem and computer: {}", known.join(", ")));
    let list = Arg::new("list").long("list").action(ArgAction::SetTrue);
    Command::new("chosen")
        .about("List the chosen numbers of a workload and a medium, with their reasons and effects")
        .args([
            like.help(format!("The workload: {}", WORKLOADS.join(", "))),
            medium,
            requests.help("Number of requests of each replay; caches are in proportion"),
            list.help("List only, without measuring"),
            seed(),
            json(),
        ])
}

/// One of the figures' three values: a fifth less, as it is, a fifth more.
struct Job {
    figure: Option<usize>,
    factor: f64,
}

pub fn chosen(args: &ArgMatches) -> Result<(), Failure> {
    let like = synthetic::named(text(args, "like").unwrap_or_default()).map_err(Failure::Usage)?;
    if !WORKLOADS.contains(&like.name) {
        return Err(Failure::Usage(format!("--like: one of {}", WORKLOADS.join(", "))));
    }
    let medium = text(args, "medium").unwrap_or_default();
    let usual = Setting::of(like, medium).map_err(|why| Failure::Usage(format!("--medium: {why}")))?;
    let rows: Vec<&Chosen> = figures(&usual).collect();
    if args.get_flag("list") {
        say(args, &usual, None);
        return Ok(());
    }
    let requests = number(args, "requests")?.unwrap_or(0);
    if requests < 1_000 {
        return Err(Failure::Usage("--requests: at least 1000".into()));
    }
    let seed = number(args, "seed")?.unwrap_or(1);
    let mut jobs = vec![Job { figure: None, factor: 1.0 }];
    for figure in 0..rows.len() {
        jobs.extend([1.0 / STEP, STEP].map(|factor| Job { figure: Some(figure), factor }));
    }
    let progress = Progress::new(jobs.len(), None);
    let work = |job: &Job| {
        let mut setting = usual;
        if let Some(figure) = job.figure {
            let Chosen { get, set, .. } = *rows[figure];
            // A share stays one.
            let most = if get(&usual) < 1.0 { 0.99 } else { f64::INFINITY };
            set(&mut setting, (job.factor * get(&usual)).min(most));
        }
        measure(&setting, requests, seed)
    };
    let mut found = vec![None; jobs.len()];
    on_all_cores(usize::MAX, &jobs, &progress, work, |job, outcome| match outcome {
        Ok(outcome) => {
            let at = job.figure.map_or(0, |figure| 1 + 2 * figure + usize::from(job.factor > 1.0));
            found[at] = Some(outcome);
        }
        Err(why) => progress.fail(why),
    });
    progress.failure("replays")?;
    let found: Vec<[f64; OUTCOMES.len()]> = found.into_iter().flatten().collect();
    say(args, &usual, Some(&found));
    Ok(())
}

/// The table; `found` has what was measured as it is, and for each figure with less and with more of it.
fn say(args: &ArgMatches, usual: &Setting, found: Option<&[[f64; OUTCOMES.len()]]>) {
    let moved = |figure: usize| found.map(|all| moves(&all[1 + 2 * figure], &all[0], &all[2 + 2 * figure]));
    if args.get_flag("json") {
        let row = |(figure, chosen): (usize, &Chosen)| {
            serde_json::json!({
                "name": chosen.name, "value": (chosen.get)(usual), "unit": chosen.unit, "why": chosen.why,
                "moves_per_cent": moved(figure),
            })
        };
        let outcomes: Vec<_> = OUTCOMES
            .iter()
            .enumerate()
            .map(|(nth, outcome)| {
                serde_json::json!({
                    "name": outcome.name, "unit": outcome.unit, "value": found.map(|all| all[0][nth]),
                })
            })
            .collect();
        line!(
            "{}",
            serde_json::json!({
                "synthetic": true, "like": usual.workload.name, "medium": text(args, "medium"), "from": 1.0 / STEP, "to": STEP,
                "outcomes": outcomes, "chosen": figures(usual).enumerate().map(row).collect::<Vec<_>>(),
            })
        );
        return;
    }
    line!("synthetic, like {}, on {}", usual.workload.name, text(args, "medium").unwrap_or_default());
    if let Some(all) = found {
        for (outcome, value) in OUTCOMES.iter().zip(all[0]) {
            line!("  {:<28} {value:>9.1} {}", outcome.name, outcome.unit);
        }
        line!(
            "by how many per cent these change when a figure goes from a fifth less to a fifth more; ± 2 left out:"
        );
    }
    for (figure, chosen) in figures(usual).enumerate() {
        line!("{:<46} {:>12} {:<12} {}", chosen.name, short((chosen.get)(usual)), chosen.unit, chosen.why);
        let Some(moved) = moved(figure) else { continue };
        let large = OUTCOMES.iter().zip(moved).filter(|(_, by)| by.abs() >= 2.0);
        let said: Vec<String> = large.map(|(outcome, by)| format!("{} {by:+.0}", outcome.name)).collect();
        line!("    {}", if said.is_empty() { "nothing".to_owned() } else { said.join(", ") });
    }
}

/// With as many digits as it has.
fn short(value: f64) -> String {
    let text = format!("{value:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn figures_have_no_more_digits_than_they_have() {
        assert_eq!([0.00037, 0.505, 42.0, 268_435_456.0].map(short), ["0.00037", "0.505", "42", "268435456"]);
    }
}
