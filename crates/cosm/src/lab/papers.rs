//! `cosm lab papers`: the papers' experiments again, figure beside figure.

use super::media::Chosen;
use super::work::{Progress, on_all_cores};
use super::{json, names, number, seed, send};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::papers::{self, Experiment, Found};
use lab::recipe::named;
use lab::replay::Plan;
use lab::watch::Watch;

pub fn command() -> Command {
    let known = papers::ALL.iter().map(|one| format!("{} ({})", one.name, one.source)).collect::<Vec<_>>();
    let only = Arg::new("only")
        .long("only")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Experiments, separated by commas, or all: {}", known.join(", ")));
    Command::new("papers").about("Measure again what the papers measured, figure beside figure").args([
        only,
        seed(),
        json(),
    ])
}

/// Each experiment's recipes, then its figures beside the published ones.
pub fn papers(args: &ArgMatches) -> Result<(), Failure> {
    let experiments = papers::named(&names(args, "only")).map_err(Failure::Usage)?;
    let seed = number(args, "seed")?.unwrap_or(1);
    let jobs: Vec<(&Experiment, &str)> = experiments
        .iter()
        .flat_map(|experiment| experiment.recipes.iter().map(move |recipe| (experiment, *recipe)))
        .collect();
    let expected = jobs.iter().map(|(experiment, _)| experiment.requests).sum();
    let progress = Progress::new(jobs.len(), Some(expected));
    let work = |(experiment, name): &(&Experiment, &str)| {
        let recipe = &named(&[(*name).to_owned()])?[0];
        let (input, scale) = (experiment.input(seed)?, experiment.scale());
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: experiment.warm_up };
        let mut watch = Watch { requests: Some(&progress.requests), ..Watch::default() };
        send(&plan, &Chosen::modelled(experiment.medium, scale)?, &mut watch, false)
    };
    let mut rows = Vec::new();
    on_all_cores(
        usize::MAX,
        &jobs,
        &progress,
        work,
        |(experiment, name), row: Result<_, String>| match row {
            Ok(row) => {
                progress.say(format_args!("{}: {name}: {:.1} gets/s", experiment.name, row.gets_per_second));
                rows.push((experiment.name, row));
            }
            Err(why) => progress.fail(why),
        },
    );
    let found = Found(rows);
    if args.get_flag("json") {
        line!("{}", papers_json(&experiments, &found));
        return progress.failure("replays");
    }
    for experiment in &experiments {
        line!("{} (synthetic, like {}, seed {seed})", experiment.source, experiment.like);
        for figure in experiment.figures {
            let Some(value) = (figure.of)(&found, experiment.name) else { continue };
            let (least, most) = figure.published;
            let published = if least == most { format!("{least}") } else { format!("{least}-{most}") };
            let beside = figure.beside(value);
            line!("  {:<50} {published:>12} {value:>12.3} {beside:>8.2}", figure.what);
        }
    }
    progress.failure("replays")
}

fn papers_json(experiments: &[Experiment], found: &Found) -> serde_json::Value {
    let one = |experiment: &Experiment| {
        let figures: Vec<_> = experiment
            .figures
            .iter()
            .filter_map(|figure| {
                let value = (figure.of)(found, experiment.name)?;
                Some(
                    serde_json::json!({ "what": figure.what, "published": figure.published, "found": value }),
                )
            })
            .collect();
        let rows: Vec<_> =
            experiment.recipes.iter().filter_map(|name| found.row(experiment.name, name)).collect();
        serde_json::json!({
            "experiment": experiment.name, "source": experiment.source, "synthetic": true,
            "like": experiment.like, "figures": figures, "rows": rows,
        })
    };
    serde_json::Value::Array(experiments.iter().map(one).collect())
}
