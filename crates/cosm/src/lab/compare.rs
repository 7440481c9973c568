//! `cosm lab compare`: one trace through many recipes.

use super::folder::{self, Folder};
use super::media::{self, Chosen};
use super::work::{Progress, on_all_cores};
use super::{
    asked, expected, input, input_args, json, known_recipes, names, scale, scale_args, send, text, warm_up,
};
use crate::Failure;
use crate::values::{duration, say_size};
use clap::{Arg, ArgMatches, Command};
use lab::experiments::papers::published_speed;
use lab::input::Input;
use lab::notes::CAVEATS;
use lab::recipe::{ALL, Recipe, named};
use lab::replay::Plan;
use lab::replay::Row;
use lab::replay::watch::Watch;
use lab::results::Run;
use lab::results::score::{Origin, scores};
use policy::replacement;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub fn command() -> Command {
    let recipes = Arg::new("recipes")
        .long("recipes")
        .value_name("NAMES")
        .default_value("all")
        .help(format!("Recipes (storage policies), separated by commas, or all: {}", known_recipes()));
    let out = folder::arg(
        "Also write rows.json, rows.csv and report.html to this directory; recipes already in it are not run again",
    );
    let memory_policy = Arg::new("memory-policy")
        .long("memory-policy")
        .value_name("NAME")
        .help("Replacement in memory for all recipes, as in `cosm lab simulate` [default: each recipe's own, mostly lru]");
    Command::new("compare")
        .about("Replay a trace through several recipes on a medium")
        .args(input_args())
        .arg(recipes)
        .args(scale_args())
        .arg(memory_policy)
        .args(media::arguments())
        .args(origin_args())
        .args([out, json()])
}

pub fn compare(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let mut recipes = named(&names(args, "recipes")).map_err(Failure::Usage)?;
    if let Some(name) = text(args, "memory-policy") {
        let policies = replacement::named(&[name.to_owned()]).map_err(Failure::Usage)?;
        let policy = policies.first().filter(|policy| policies.len() == 1 && !policy.foresees);
        let policy =
            policy.ok_or_else(|| Failure::Usage("--memory-policy: one that does not foresee".into()))?;
        recipes.iter_mut().for_each(|recipe| recipe.memory = *policy);
    }
    let scale = scale(args)?;
    let medium = Chosen::of(args, scale, recipes.len())?;
    // What cannot be opened is told once, not by every recipe.
    input.open().map_err(Failure::Failed)?;
    let folder = Folder::of(args)?;
    let origin = origin(args)?;
    let run = Run { asked: asked(args, &input)?, scale, origin, rows: Vec::new(), seen: Vec::new() };
    let mut run = Run { origin, ..kept(folder.as_ref(), run)? };
    if text(args, "capture").is_some() {
        // What was kept has no block trace: the one recipe runs again.
        run.rows.retain(|row| recipes.iter().all(|recipe| recipe.name != row.recipe));
    }
    let job = Job { input: &input, medium: &medium, warm_up: warm_up(args)? };
    let done = run_all(&job, &recipes, &mut run, folder.as_ref());
    if run.rows.is_empty() {
        return done;
    }
    if let Some(folder) = &folder {
        // Origins may take another time than when the rows were measured.
        folder.write_run(&run)?;
        folder.write_report()?;
    }
    // What was there of other recipes stays there.
    run.rows.retain(|row| recipes.iter().any(|recipe| recipe.name == row.recipe));
    run.seen.clear();
    if args.get_flag("json") {
        line!("{}", scored(&run).map_err(|error| Failure::Failed(error.to_string()))?);
    } else {
        print_rows(&run);
        print_scores(&run);
    }
    done
}

/// What was found, and what it is worth.
fn scored(run: &Run) -> serde_json::Result<serde_json::Value> {
    let mut value = serde_json::to_value(run)?;
    value["scores"] = serde_json::to_value(scores(&run.rows, &run.origin))?;
    Ok(value)
}

fn origin_args() -> [Arg; 2] {
    let delay = Arg::new("origin-delay").long("origin-delay").value_name("TIME").default_value("100ms");
    let rate =
        Arg::new("origin-bandwidth").long("origin-bandwidth").value_name("SIZE").default_value("10MiB");
    [
        delay.help("Time until an origin begins to answer a miss (for the score)"),
        rate.help("Bytes that an origin then sends a second (for the score)"),
    ]
}

fn origin(args: &ArgMatches) -> Result<Origin, Failure> {
    let delay = duration(text(args, "origin-delay").unwrap_or_default())
        .map_err(|why| Failure::Usage(format!("--origin-delay: {why}")))?;
    let bandwidth = super::bytes(args, "origin-bandwidth")?;
    match bandwidth {
        0 => Err(Failure::Usage("--origin-bandwidth: more than 0".into())),
        _ => Ok(Origin { delay: delay.as_secs_f64(), bandwidth: bandwidth as f64 }),
    }
}

/// What the folder has of the same run, or the run as it is.
pub fn kept(folder: Option<&Folder>, run: Run) -> Result<Run, Failure> {
    let Some(folder) = folder else { return Ok(run) };
    let Some(found) = folder.run()? else { return Ok(run) };
    if !folder.goes_on(&found.asked, &run.asked) {
        return Ok(run);
    }
    if found.scale != run.scale {
        proxy::say("what is there is of other sizes: begun anew");
        return Ok(run);
    }
    Ok(found)
}

/// What all recipes are given.
struct Job<'a> {
    input: &'a Input,
    medium: &'a Chosen,
    warm_up: u64,
}

/// The rows that are missing, as many at once as there are cores; each is kept as soon as it is there.
fn run_all(job: &Job, recipes: &[Recipe], run: &mut Run, folder: Option<&Folder>) -> Result<(), Failure> {
    let is_there = |recipe: &&Recipe| run.rows.iter().any(|row| row.recipe == recipe.name);
    let (there, missing): (Vec<&Recipe>, Vec<&Recipe>) = recipes.iter().partition(is_there);
    if !there.is_empty() {
        proxy::say(format_args!("{} of {} recipes are there already", there.len(), recipes.len()));
    }
    let scale = run.scale;
    let progress = Progress::new(missing.len(), None);
    if let Some(requests) = expected(job.input) {
        progress.each_has(requests);
    }
    // All read the same trace: once is enough.
    let first = AtomicBool::new(true);
    let Job { input, medium, warm_up } = *job;
    let work = |recipe: &&Recipe| {
        let mut watch = Watch { requests: Some(&progress.requests), ..Watch::default() };
        let plan = Plan { input, recipe, scale: &scale, warm_up };
        send(&plan, medium, &mut watch, first.swap(false, Relaxed))
    };
    let mut unwritten = None;
    on_all_cores(medium.at_once(), &missing, &progress, work, |_, row| match row {
        Ok(row) => {
            progress.each_has(row.gets + job.warm_up);
            progress.say(format_args!("{}: {:.0} gets/s", row.recipe, row.gets_per_second));
            put(run, row);
            let written = folder.map_or(Ok(()), |folder| folder.write_run(run));
            unwritten = unwritten.take().or(written.err());
        }
        Err(why) => progress.fail(why),
    });
    unwritten.map_or_else(|| progress.failure("recipes"), Err)
}

/// A row at its place, which is that of its recipe; one of the same recipe goes.
pub fn put(run: &mut Run, row: Row) {
    run.rows.retain(|other| other.recipe != row.recipe);
    run.rows.push(row);
    run.rows.sort_by_key(|row| ALL.iter().position(|recipe| recipe.name == row.recipe));
}

pub fn print_rows(run: &Run) {
    line!("{}", run.asked.trace);
    // A column of its own where there is flash: bytes programmed for each that was written.
    let on_flash = run.rows.iter().any(|row| row.write_amplification.is_some());
    line!(
        "{:<18} {:>9} {:>9} {:>10} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8}{}",
        "recipe",
        "gets/s",
        "seconds",
        "published",
        "hits",
        "bytes",
        "reads",
        "writes",
        "MB read",
        "written",
        if on_flash { "  flash" } else { "" }
    );
    for row in &run.rows {
        let published = published_speed(run, row).map_or(String::new(), |gets| format!("{gets:.0}"));
        line!(
            "{:<18} {:>9.1} {:>9.0} {:>10} {:>6.1}% {:>6.1}% {:>9} {:>9} {:>8} {:>8}{}",
            row.recipe,
            row.gets_per_second,
            row.seconds,
            published,
            100.0 * row.hit_ratio,
            100.0 * row.byte_hit_ratio,
            known(row.device_reads, 1),
            known(row.device_writes, 1),
            known(row.device_bytes_read, 1_000_000),
            known(row.device_bytes_written, 1_000_000),
            row.write_amplification.map_or(String::new(), |found| format!("{found:>7.2}"))
        );
    }
    print_caveats(&run.rows.iter().collect::<Vec<_>>());
}

/// What a reader of the rows has to know.
pub fn print_caveats(rows: &[&Row]) {
    for (note, says) in CAVEATS {
        let noted = rows.iter().filter_map(|row| Some((&row.recipe, *row.notes.get(note)?)));
        let who: Vec<String> = noted
            .filter(|(_, count)| *count > 0.0)
            .map(|(recipe, count)| if count > 1.0 { format!("{recipe} ({count})") } else { recipe.clone() })
            .collect();
        if !who.is_empty() {
            line!("{}: {says}", who.join(", "));
        }
    }
}

fn print_scores(run: &Run) {
    line!("");
    line!(
        "{} of memory and {} MB of the medium each; origins take {} ms and send {} a second",
        say_size(run.scale.memory),
        run.scale.space() / 1_000_000,
        run.origin.delay * 1000.0,
        say_size(run.origin.bandwidth as u64)
    );
    line!(
        "{:<18} {:>7} {:>7} {:>9} {:>9} {:>10} {:>8} {:>10} {:>10}  dominated by; unlike others",
        "score",
        "hits",
        "bytes",
        "reading s",
        "writing s",
        "origins MB",
        "written",
        "programmed",
        "service s"
    );
    let seconds = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
    for score in scores(&run.rows, &run.origin) {
        let by = if score.is_on_front() { "nobody".to_owned() } else { score.dominated_by.join(", ") };
        line!(
            "{:<18} {:>6.1}% {:>6.1}% {:>9} {:>9} {:>10} {:>8} {:>10} {:>10.0}  {}{}{}",
            score.recipe,
            100.0 * score.hit_ratio,
            100.0 * score.byte_hit_ratio,
            seconds(score.device_read_seconds),
            seconds(score.device_write_seconds),
            score.origin_bytes / 1_000_000,
            known(score.bytes_written, 1_000_000),
            known(score.bytes_programmed, 1_000_000),
            score.service_seconds,
            by,
            if score.unlike.is_empty() { "" } else { "; " },
            score.unlike
        );
    }
}

fn known(count: Option<u64>, unit: u64) -> String {
    count.map_or("-".to_owned(), |count| (count / unit).to_string())
}
