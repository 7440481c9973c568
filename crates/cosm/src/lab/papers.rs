//! `cosm lab papers`: the papers' experiments again, number beside number.

use super::compare::print_caveats;
use super::media::Chosen;
use super::work::{Progress, on_all_cores};
use super::{from_format, input, json, names, number, seed, send, strict, text, trace};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::experiments::papers::{self, Experiment, Found, Quantity, StandIn, distinct};
use lab::recipe::named;
use lab::replay::Plan;
use lab::replay::watch::Watch;
use lab::results::score::{Origin, scores};

pub fn command() -> Command {
    let known = papers::ALL.iter().map(|one| format!("{} ({})", one.name, one.source)).collect::<Vec<_>>();
    let only = Arg::new("only")
        .long("only")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Experiments, separated by commas, or all: {}", known.join(", ")));
    let trace = trace().help(
        "Replay this trace instead of the synthetic workloads, with caches in proportion to its requests; of the published \
         numbers only ratios of two recipes are then shown",
    );
    Command::new("papers")
        .about("Repeat the papers' experiments, and print published beside measured numbers")
        .args([only, trace, from_format(), strict(), seed(), json()])
}

/// Each experiment's recipes, then its numbers beside the published ones.
pub fn papers(args: &ArgMatches) -> Result<(), Failure> {
    let experiments = papers::named(&names(args, "only")).map_err(Failure::Usage)?;
    let stand_in = match text(args, "trace") {
        Some(_) => StandIn::trace(input(args)?).map_err(Failure::Failed)?,
        None => StandIn::Synthetic { seed: number(args, "seed")?.unwrap_or(1) },
    };
    let experiments = distinct(experiments, &stand_in);
    let jobs: Vec<(&Experiment, &str)> = experiments
        .iter()
        .flat_map(|experiment| experiment.recipes.iter().map(move |recipe| (experiment, *recipe)))
        .collect();
    let requests = |experiment: &Experiment| experiment.requests as f64 * experiment.part(&stand_in);
    let expected = jobs.iter().map(|(experiment, _)| requests(experiment) as u64).sum();
    let progress = Progress::new(jobs.len(), Some(expected));
    let work = |(experiment, name): &(&Experiment, &str)| {
        let recipe = &named(&[(*name).to_owned()])?[0];
        let (input, scale) = (experiment.input(&stand_in)?, experiment.scale(&stand_in));
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: experiment.warm_up(&stand_in) };
        let mut watch = Watch { requests: Some(&progress.requests), ..Watch::default() };
        let medium = Chosen::in_proportion(experiment.medium, scale, experiment.part(&stand_in))?;
        send(&plan, &medium, &mut watch, false)
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
        line!("{}", papers_json(&experiments, &stand_in, &found));
        return progress.failure("replays");
    }
    for experiment in &experiments {
        line!("{} ({})", experiment.source, describe(experiment, &stand_in));
        for (quantity, value) in measured(experiment, &stand_in, &found) {
            let (least, most) = quantity.published;
            let published = if least == most { format!("{least}") } else { format!("{least}-{most}") };
            let beside = quantity.beside(value);
            line!("  {:<50} {published:>12} {value:>12.3} {beside:>8.2}", quantity.what);
        }
        if !stand_in.is_synthetic() {
            print_rows(experiment, &found);
        }
        print_caveats(&found.rows(experiment));
    }
    progress.failure("replays")
}

/// What is replayed for an experiment, in words.
fn describe(experiment: &Experiment, stand_in: &StandIn) -> String {
    match stand_in {
        StandIn::Synthetic { seed } => format!("synthetic, like {}, seed {seed}", experiment.like),
        StandIn::Trace { input, requests } => {
            let scale = experiment.scale(stand_in);
            let mib = |bytes: u64| bytes >> 20;
            format!(
                "{}, {} requests, memory {} MiB, disk {} MiB",
                input.describe(),
                experiment.requests.min(*requests),
                mib(scale.memory),
                mib(scale.disk)
            )
        }
    }
}

/// The numbers of an experiment that a trace has something to say of.
fn measured<'a>(
    experiment: &Experiment,
    stand_in: &StandIn,
    found: &'a Found,
) -> impl Iterator<Item = (&'static Quantity, f64)> + use<'a> {
    let (name, all) = (experiment.name, stand_in.is_synthetic());
    let quantities = experiment.quantities.iter().filter(move |quantity| all || quantity.is_ratio);
    quantities.filter_map(move |quantity| Some((quantity, (quantity.of)(found, name)?)))
}

/// Of a trace nothing is published: what each recipe did.
fn print_rows(experiment: &Experiment, found: &Found) {
    line!(
        "  {:<18} {:>9} {:>7} {:>7} {:>9} {:>9} {:>10} {:>10}",
        "recipe",
        "gets/s",
        "hits",
        "bytes",
        "reads",
        "writes",
        "reading s",
        "writing s"
    );
    let rows: Vec<_> = found.rows(experiment).into_iter().cloned().collect();
    for (row, score) in rows.iter().zip(scores(&rows, &Origin::default())) {
        let [reads, writes] = [row.device_reads, row.device_writes].map(Option::unwrap_or_default);
        let seconds = [score.device_read_seconds, score.device_write_seconds].map(Option::unwrap_or_default);
        line!(
            "  {:<18} {:>9.1} {:>6.1}% {:>6.1}% {reads:>9} {writes:>9} {:>10.0} {:>10.0}",
            row.recipe,
            row.gets_per_second,
            100.0 * row.hit_ratio,
            100.0 * row.byte_hit_ratio,
            seconds[0],
            seconds[1]
        );
    }
}

fn papers_json(experiments: &[Experiment], stand_in: &StandIn, found: &Found) -> serde_json::Value {
    let one = |experiment: &Experiment| {
        let quantities: Vec<_> = measured(experiment, stand_in, found)
            .map(|(quantity, value)| {
                serde_json::json!({ "what": quantity.what, "published": quantity.published, "found": value })
            })
            .collect();
        serde_json::json!({
            "experiment": experiment.name, "source": experiment.source, "synthetic": stand_in.is_synthetic(),
            "like": stand_in.is_synthetic().then_some(experiment.like), "workload": describe(experiment, stand_in), "figures": quantities, "rows": found.rows(experiment),
        })
    };
    serde_json::Value::Array(experiments.iter().map(one).collect())
}
