//! `cosm lab`: traces and storage policies. What is found goes to standard output, what goes on to standard error.

mod devices;
mod media;

use crate::values::{count, size};
use crate::{Failure, lab_fill, lab_simulate};
use clap::{Arg, ArgAction, ArgMatches, Command};
use lab::Row;
use lab::input::{From, Input, Reading};
use lab::papers::{self, Experiment, Found};
use lab::recipe::{Recipe, Scale, named};
use lab::replay::{Plan, replay};
use media::Chosen;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use trace::statistics::Statistics;
use trace::{Access, Faults, Requests, format, synthetic};

pub fn command() -> Command {
    Command::new("lab")
        .about("Replay traces through storage policies, and make or convert traces")
        .after_help(
            "Example, the papers' Table 2 on their disk in a model, with a workload like theirs:\n  \
             cosm lab compare --like dec --recipes all --medium st15150w --memory 512MiB --disk 2GiB",
        )
        .subcommand_required(true)
        .subcommand(compare_command())
        .subcommand(papers_command())
        .subcommand(devices::command())
        .subcommand(
            Command::new("generate")
                .about("Write a workload made up, and its statistics beside the published ones")
                .args([like().required(true), requests(), seed(), out(), to_format()]),
        )
        .subcommand(Command::new("convert").about("Write a trace in another format").args([
            trace().required(true),
            from_format(),
            strict(),
            requests(),
            out(),
            to_format(),
        ]))
        .subcommand(lab_simulate::command())
        .subcommand(lab_fill::command())
}

fn compare_command() -> Command {
    let recipes = Arg::new("recipes").long("recipes").value_name("NAMES").default_value("all").help(format!(
        "Storage policies, separated by commas, or all: {}",
        lab::recipe::ALL.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ")
    ));
    let memory =
        Arg::new("memory").long("memory").value_name("SIZE").default_value("512MiB").help("Cache in memory");
    let disk = Arg::new("disk").long("disk").value_name("SIZE").default_value("2GiB").help("Cache on disk");
    let utilization = Arg::new("utilization")
        .long("utilization")
        .value_name("SHARE")
        .default_value("0.71")
        .help("Of its space, what the cache on disk may fill");
    let largest =
        Arg::new("largest").long("largest").value_name("SIZE").help("Leave out requests for larger objects");
    let warm_up = Arg::new("warm-up")
        .long("warm-up")
        .value_name("N")
        .default_value("0")
        .help("Requests that fill the caches before anything is measured");
    Command::new("compare")
        .about("One trace through storage policies on a medium, side by side")
        .args([trace().conflicts_with("like"), from_format(), strict(), like(), requests(), seed()])
        .args([recipes, memory, disk, utilization, largest, warm_up, json()])
        .args(media::arguments())
}

fn papers_command() -> Command {
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

pub fn trace() -> Arg {
    Arg::new("trace").long("trace").value_name("FILE").help("A trace, also packed by gzip or zstd")
}

pub fn like() -> Arg {
    let known: Vec<&str> = synthetic::ALL.iter().map(|like| like.name).collect();
    let help = format!("A workload made up: {}", known.join(", "));
    Arg::new("like").long("like").value_name("NAME").help(help)
}

pub fn requests() -> Arg {
    Arg::new("requests").long("requests").value_name("N").help("At most so many requests")
}

pub fn seed() -> Arg {
    Arg::new("seed")
        .long("seed")
        .value_name("N")
        .default_value("1")
        .help("All that is left to chance follows from it")
}

fn out() -> Arg {
    Arg::new("out").long("out").value_name("FILE").required(true).help("Where to write; - is standard output")
}

fn formats() -> String {
    trace::ALL.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

pub fn from_format() -> Arg {
    let help = format!("Of the trace, when it is not told by how the file begins: {}", formats());
    Arg::new("format").long("format").value_name("NAME").help(help)
}

fn to_format() -> Arg {
    let help = format!("Format to write: {}", formats());
    Arg::new("to").long("to").value_name("NAME").default_value("csv").help(help)
}

pub fn strict() -> Arg {
    Arg::new("strict").long("strict").action(ArgAction::SetTrue).help("End at the first malformed line")
}

pub fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Machine-readable, on standard output")
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    match args.subcommand() {
        Some(("compare", args)) => compare(args),
        Some(("devices", args)) => devices::devices(args),
        Some(("papers", args)) => papers(args),
        Some(("generate", args)) => generate(args),
        Some(("convert", args)) => convert(args),
        Some(("simulate", args)) => lab_simulate::run(args),
        Some(("fill", args)) => lab_fill::run(args),
        _ => Err(Failure::Usage(
            "say what to do: compare, papers, devices, simulate, generate, convert or fill".into(),
        )),
    }
}

pub fn text<'a>(args: &'a ArgMatches, name: &str) -> Option<&'a str> {
    args.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

pub fn number(args: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let parse = |text| count(text, 0, u64::MAX).map_err(|why| Failure::Usage(format!("--{name}: {why}")));
    text(args, name).map(parse).transpose()
}

fn bytes(args: &ArgMatches, name: &str) -> Result<u64, Failure> {
    size(text(args, name).unwrap_or_default()).map_err(|why| Failure::Usage(format!("--{name}: {why}")))
}

fn names(args: &ArgMatches, name: &str) -> Vec<String> {
    text(args, name).unwrap_or("all").split(',').map(str::to_owned).collect()
}

pub fn input(args: &ArgMatches) -> Result<Input, Failure> {
    let from = match (text(args, "trace"), text(args, "like")) {
        (Some(path), _) => From::File {
            path: PathBuf::from(path),
            format: text(args, "format").map(format::named).transpose().map_err(Failure::Usage)?,
            strict: args.get_flag("strict"),
        },
        (None, Some(like)) => From::Made {
            like: synthetic::named(like).map_err(Failure::Usage)?,
            seed: number(args, "seed")?.unwrap_or(1),
        },
        (None, None) => {
            return Err(Failure::Usage("name a trace by --trace, or a workload by --like".into()));
        }
    };
    let largest = text(args, "largest").map(|_| bytes(args, "largest")).transpose()?;
    Ok(Input { from, requests: number(args, "requests")?, largest })
}

/// What was malformed, said on standard error.
pub fn say_faults(reading: &Reading) {
    if let Some((faults, unit)) = reading.faults() {
        say_malformed(faults, unit);
    }
}

fn say_malformed(faults: &Faults, unit: &str) {
    if faults.count == 0 {
        return;
    }
    proxy::say(format_args!("{} malformed {unit}s were left out:", faults.count));
    for (number, why) in &faults.first {
        proxy::say(format_args!("  {unit} {number}: {why}"));
    }
}

fn create(path: &str) -> Result<Box<dyn Write>, Failure> {
    match path {
        "-" => Ok(Box::new(std::io::stdout().lock())),
        path => match File::create(Path::new(path)) {
            Ok(file) => Ok(Box::new(BufWriter::new(file))),
            Err(error) => Err(Failure::Failed(format!("{path}: {error}"))),
        },
    }
}

fn generate(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    write_trace(args, &input)?;
    let From::Made { like, .. } = &input.from else { return Ok(()) };
    let mut statistics = Statistics::default();
    let (mut reading, mut access) = (input.open().map_err(Failure::Failed)?, Access::default());
    while reading.next(&mut access).map_err(Failure::Failed)? {
        statistics.count(&access);
    }
    proxy::say(format_args!("{}: {} requests, {}", input.describe(), statistics.requests, like.about));
    for published in like.published {
        let (least, most) = published.value;
        let value = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        let found = (published.of)(&statistics);
        proxy::say(format_args!(
            "  {}: {found:.3}; published: {value} ({})",
            published.what, published.source
        ));
    }
    proxy::say(format_args!(
        "  {} objects, {} servers, {} clients; {:.1} % hits and {:.1} % of the bytes without bounds",
        statistics.objects(),
        statistics.servers(),
        statistics.clients(),
        100.0 * statistics.hit_ratio(),
        100.0 * statistics.byte_hit_ratio()
    ));
    Ok(())
}

fn convert(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    write_trace(args, &input)
}

fn write_trace(args: &ArgMatches, input: &Input) -> Result<(), Failure> {
    let format = format::named(text(args, "to").unwrap_or_default()).map_err(Failure::Usage)?;
    let path = text(args, "out").unwrap_or("-");
    let mut into = create(path)?;
    let count = trace::convert::convert(|| input.open(), format, &mut into).map_err(Failure::Failed)?;
    proxy::say(format_args!("{count} requests written to {path}"));
    Ok(())
}

fn compare(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let recipes = named(&names(args, "recipes")).map_err(Failure::Usage)?;
    let utilization: f64 = text(args, "utilization").and_then(|text| text.parse().ok()).unwrap_or(0.0);
    if !(0.05..=0.99).contains(&utilization) {
        return Err(Failure::Usage("--utilization: a share from 0.05 to 0.99".into()));
    }
    let scale =
        Scale { memory: bytes(args, "memory")?, disk: bytes(args, "disk")?, utilization, ..Scale::default() };
    let medium = Chosen::of(args, scale, recipes.len())?;
    let warm_up = number(args, "warm-up")?.unwrap_or(0);
    let at_once = if medium.is_alone() { 1 } else { crate::machine::cores() };
    let rows = in_parallel(at_once, &recipes, |nth, recipe| {
        // All read the same trace: what is malformed is said once.
        let row = run_one(&Plan { input: &input, recipe, scale: &scale, warm_up }, &medium, nth == 0)?;
        if std::io::stderr().is_terminal() {
            proxy::say(format_args!("{}: {:.0} gets/s", row.recipe, row.gets_per_second));
        }
        Ok(row)
    })?;
    if args.get_flag("json") {
        let all = serde_json::json!({
            "trace": input.describe(), "synthetic": input.is_made_up(), "memory": scale.memory,
            "disk": scale.disk, "utilization": utilization, "rows": rows,
        });
        println!("{all}");
    } else {
        print_rows(&input, &recipes, &rows);
    }
    Ok(())
}

/// So many at once; the results in the order of the jobs.
fn in_parallel<J: Sync, T: Send>(
    at_once: usize,
    jobs: &[J],
    run: impl Fn(usize, &J) -> Result<T, String> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let nth = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(nth) else { break };
            let result = run(nth, job);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((nth, result));
        }
    };
    std::thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, result)| result.map_err(Failure::Failed)).collect()
}

/// Each experiment's recipes, then its figures beside the published ones.
fn papers(args: &ArgMatches) -> Result<(), Failure> {
    let experiments = papers::named(&names(args, "only")).map_err(Failure::Usage)?;
    let seed = number(args, "seed")?.unwrap_or(1);
    let jobs: Vec<(&Experiment, &str)> = experiments
        .iter()
        .flat_map(|experiment| experiment.recipes.iter().map(move |recipe| (experiment, *recipe)))
        .collect();
    let rows = in_parallel(crate::machine::cores(), &jobs, |_, (experiment, name)| {
        let recipe = &named(&[(*name).to_owned()])?[0];
        let (input, scale) = (experiment.input(seed)?, experiment.scale());
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: experiment.warm_up };
        let row = run_one(&plan, &Chosen::modelled(experiment.medium, scale)?, false)?;
        proxy::say(format_args!("{}: {name}: {:.1} gets/s", experiment.name, row.gets_per_second));
        Ok((experiment.name, row))
    })?;
    let found = Found(rows);
    if args.get_flag("json") {
        println!("{}", papers_json(&experiments, &found));
        return Ok(());
    }
    for experiment in &experiments {
        println!("{} (synthetic, like {}, seed {seed})", experiment.source, experiment.like);
        for figure in experiment.figures {
            let Some(value) = (figure.of)(&found) else { continue };
            let (least, most) = figure.published;
            let published = if least == most { format!("{least}") } else { format!("{least}-{most}") };
            let beside = figure.beside(value);
            println!("  {:<50} {published:>12} {value:>12.3} {beside:>8.2}", figure.what);
        }
    }
    Ok(())
}

fn papers_json(experiments: &[Experiment], found: &Found) -> serde_json::Value {
    let one = |experiment: &Experiment| {
        let figures: Vec<_> = experiment
            .figures
            .iter()
            .filter_map(|figure| {
                let value = (figure.of)(found)?;
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

fn run_one(plan: &Plan, medium: &Chosen, says_faults: bool) -> Result<Row, String> {
    let (row, reading) = replay(plan, &mut *medium.make()?, &medium.name)?;
    if says_faults {
        say_faults(&reading);
    }
    Ok(row)
}

fn print_rows(input: &Input, recipes: &[Recipe], rows: &[Row]) {
    println!("{}", input.describe());
    println!(
        "{:<18} {:>9} {:>9} {:>10} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8} {:>6}",
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
        "flash"
    );
    let known = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
    let megabytes = |bytes: Option<u64>| known(bytes.map(|bytes| bytes / 1_000_000));
    for row in rows {
        let published =
            recipes.iter().find(|recipe| recipe.name == row.recipe).and_then(|recipe| recipe.table_2);
        let published = published.map_or(String::new(), |(least, most)| match least == most {
            true => format!("{least}"),
            false => format!("{least}-{most}"),
        });
        println!(
            "{:<18} {:>9.1} {:>9.0} {:>10} {:>6.1}% {:>6.1}% {:>9} {:>9} {:>8} {:>8} {:>6}",
            row.recipe,
            row.gets_per_second,
            row.seconds,
            published,
            100.0 * row.hit_ratio,
            100.0 * row.byte_hit_ratio,
            known(row.device_reads),
            known(row.device_writes),
            megabytes(row.device_bytes_read),
            megabytes(row.device_bytes_written),
            row.write_amplification.map_or("-".to_owned(), |found| format!("{found:.2}"))
        );
    }
    if let Some(who) = rows.iter().find_map(|row| row.counted_by.as_deref()).filter(|who| *who != "model") {
        println!("what the device did, by the kernel's {who}: with all that others asked of it meanwhile");
    }
}
