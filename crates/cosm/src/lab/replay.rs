//! `cosm lab replay`: one trace through one recipe, and all that can be seen of it.

use super::compare::{kept, print_rows, put};
use super::folder::{self, Folder};
use super::media::{self, Chosen};
use super::work::{Progress, on_all_cores};
use super::{
    asked, expected, input, input_args, json, known_recipes, scale, scale_args, send, text, warm_up,
};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::recipe::named;
use lab::replay::Plan;
use lab::replay::watch::Watch;
use lab::results::{Looked, Run};

pub fn command() -> Command {
    let recipe = Arg::new("recipe")
        .long("recipe")
        .value_name("NAME")
        .required(true)
        .help(format!("Recipe (storage policy): {}", known_recipes()));
    let out = folder::arg(
        "Also write rows.json, rows.csv and report.html to this directory, with plots of the head, the free space and the reads",
    );
    Command::new("replay")
        .about("Replay a trace through one recipe on a medium, with plots")
        .args(input_args())
        .arg(recipe)
        .args(scale_args())
        .args(media::arguments())
        .args([out, json()])
}

pub fn replay(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let recipe =
        match named(&[text(args, "recipe").unwrap_or_default().to_owned()]).map_err(Failure::Usage)?[..] {
            [recipe] => recipe,
            _ => return Err(Failure::Usage("--recipe: name one".into())),
        };
    let scale = scale(args)?;
    let medium = Chosen::of(args, scale, 1)?;
    let plan = Plan { input: &input, recipe: &recipe, scale: &scale, warm_up: warm_up(args)? };
    let folder = Folder::of(args)?;
    let (rows, seen, origin) = (Vec::new(), Vec::new(), Default::default());
    let run = Run { asked: asked(args, &input)?, scale, origin, rows, seen };
    let mut all = kept(folder.as_ref(), run.clone())?;
    let progress = Progress::new(1, expected(&input));
    let mut found = Err(String::new());
    let work = |_: &()| {
        let mut watch = Watch { requests: Some(&progress.requests), looks: true, ..Watch::default() };
        let row = send(&plan, &medium, &mut watch, true);
        row.map(|row| (row, watch.seen))
    };
    on_all_cores(1, &[()], &progress, work, |_, row| found = row);
    let (row, seen) = found.map_err(Failure::Failed)?;
    let mut one = Run { rows: vec![row.clone()], ..run };
    if let Some(folder) = &folder {
        put(&mut all, row);
        all.seen.retain(|looked| looked.recipe != recipe.name);
        all.seen.push(Looked { recipe: recipe.name.to_owned(), seen: seen.clone() });
        folder.write_run(&all)?;
        folder.write_report()?;
    }
    if args.get_flag("json") {
        one.seen.push(Looked { recipe: recipe.name.to_owned(), seen });
        line!("{}", serde_json::to_string(&one).map_err(|error| Failure::Failed(error.to_string()))?);
    } else {
        print_rows(&one);
        print_details(&one);
    }
    Ok(())
}

fn print_details(run: &Run) {
    for row in &run.rows {
        let outcomes = &row.outcomes;
        line!("");
        line!(
            "{} requests: {} hits in memory, {} on disk, {} stored, {} not stored",
            outcomes.gets,
            outcomes.memory_hits,
            outcomes.disk_hits,
            outcomes.stored,
            outcomes.passed
        );
        for (kind, count) in &row.operations.0 {
            line!("{kind:<18} {count:>9}");
        }
        for (note, value) in &row.notes {
            line!("{:<18} {value:>9.2}", note.replace('_', " "));
        }
        if let Some(who) = &row.counted_by {
            line!("device reads and writes were counted by: {who}");
        }
    }
}
