//! `cosm smooth train`: rules from a table of examples, or from the days of a trace.

use super::strategies::{ROUNDS, loss_ratio};
use super::{of_trace, source};
use crate::Failure;
use crate::lab::{json, number, number_within, seed, text};
use crate::written;
use clap::{Arg, ArgMatches, Command, Id};
use learn::boost::boost;
use learn::candidate::PREFETCHABLE;
use learn::examples::{Examples, one_line, table};
use learn::judge::{Judge, Matrix};
use learn::ripper::{Learner, Step};
use learn::rules::Model;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

/// Characters of a class's name in a table.
const NAME_MAX: usize = 40;

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let of_traces: Vec<Id> =
        source::args().into_iter().chain(of_trace::args()).map(|arg| arg.get_id().clone()).collect();
    Command::new("train")
        .about("Learn rules from examples (RIPPER; thesis, 7.2)")
        .args(source::args())
        .arg(option("examples", "FILE", "Table to learn from, plain or compressed, instead of a trace").conflicts_with_all(of_traces))
        .arg(option("test", "FILE", "Table with the same columns to test the rules on"))
        .arg(option("out", "FILE", "Where the rules are written, instead of standard output"))
        .arg(
            option("positive", "CLASS", "Class of a table that rules are learned for; else all but the heaviest have rules")
                .conflicts_with_all(["TRACE", "world"]),
        )
        .arg(option(
            "loss-ratio",
            "N",
            "Cost of a false positive over that of a false negative: above 1 values accuracy, below 1 coverage",
        ))
        .arg(option("boost", "ROUNDS", "Learn so many sets of rules that vote (AdaBoost; the thesis: 10)"))
        .arg(
            option("optimizations", "N", "Passes in which each rule may be replaced or revised, at most 100").default_value("2"),
        )
        .args(of_trace::args())
        .arg(seed().default_value("7"))
        .arg(option("threads", "N", "Threads; the rules do not depend on them. Default: one for each processor"))
        .arg(json())
        .after_help(
            "A table is CSV, or TSV if its first line has a tab. The first line says each column's name and kind: number, nominal, \
             set, class, weight or skip. An empty field or `?` is missing; words of a set are separated by blanks.\n\n  \
             type:nominal,size:number,words:set,wanted:class,bytes:weight\n  \
             image/gif,2048,news logo,yes,2048\n\n\
             Of a trace, each night's candidates are examples, those that the peak missed being prefetchable.\n\n\
             Rules are text to read and edit. Equal seeds give equal rules.\n\n\
             Examples:\n  \
             cosm smooth train access.json --inventory inventories --servers all --out rules\n  \
             cosm smooth train --examples monday.csv --test tuesday.csv --positive yes --out rules",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let mut learner = learner(args)?;
    let is_table = text(args, "examples").is_some();
    if !is_table && text(args, "TRACE").or(text(args, "world")).is_none() {
        return Err(Failure::Usage("name a trace, a world by --world, or a table by --examples".into()));
    }
    if !is_table {
        learner.positive = Some(PREFETCHABLE.into());
    }
    let rounds = number_within(args, "boost", ROUNDS)?;
    let out = written::path(args, "out")?;
    let read_too = ["examples", "test", "TRACE", "inventory"].map(|name| text(args, name));
    out.iter().try_for_each(|out| written::not_over(out, &read_too))?;
    let classes: Vec<String> = learner.positive.iter().cloned().collect();
    let (examples, from) = match text(args, "examples") {
        Some(path) => {
            let examples = read(path, &classes)?;
            check_positive(&examples, &learner)?;
            (examples, path)
        }
        None => (of_trace::examples(args)?, text(args, "TRACE").unwrap_or("the world")),
    };
    let mut shown = Shown::default();
    let model = match rounds {
        None => {
            let mut progress = |step| shown.step(None, step, &examples);
            learner.learn_weighted(&examples, examples.weights(), &mut progress).map(Model::Rules)
        }
        Some(rounds) => boost(&learner, rounds as usize, &examples, &mut |round, step| {
            shown.step(Some(round), step, &examples)
        })
        .map(Model::Ensemble),
    };
    let model = model.map_err(|why| Failure::Failed(format!("{from}: {why}")))?;
    note(&examples);
    let known: Vec<String> = examples.classes().iter().map(String::from).collect();
    let matrix = |from: &str, examples: &Examples| {
        Matrix::of(&model, examples).map_err(|why| Failure::Failed(format!("{from}: {why}")))
    };
    let mut matrices = vec![("examples", matrix(from, &examples)?)];
    if let Some(path) = text(args, "test") {
        matrices.push(("test", matrix(path, &read(path, &known)?)?));
    }
    if let Some(path) = &out {
        written::write(path, &model.to_string())
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    }
    match (args.get_flag("json"), out.is_some()) {
        (true, _) => line!("{}", as_json(&model, &matrices, args)),
        (false, true) => matrices.iter().for_each(|(of, matrix)| print(of, matrix, "")),
        (false, false) => {
            crate::out::write(format_args!("{}", model.to_string().trim_end()));
            // Standard output is a file of rules: what else there is to say are its comments.
            matrices.iter().for_each(|(of, matrix)| print(of, matrix, "# "));
        }
    }
    Ok(())
}

fn learner(args: &ArgMatches) -> Result<Learner, Failure> {
    let known = Learner::default();
    let (is_table, loss_ratio) = (text(args, "examples").is_some(), loss_ratio(args)?);
    if is_table && text(args, "loss-ratio").is_some() && text(args, "positive").is_none() {
        return Err(Failure::Usage("--loss-ratio: name the positive class by --positive".into()));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Learner {
        seed: number(args, "seed")?.unwrap_or(known.seed),
        optimizations: number_within(args, "optimizations", 0..=100)?.unwrap_or(2) as usize,
        loss_ratio,
        positive: text(args, "positive").map(String::from),
        threads: number(args, "threads")?.map_or(processors, |threads| threads.clamp(1, 256) as usize),
        ..known
    })
}

fn read(path: &str, classes: &[String]) -> Result<Examples, Failure> {
    let at = |why: String| Failure::Failed(format!("{path}: {why}"));
    let file = std::fs::File::open(Path::new(path)).map_err(|e| at(e.to_string()))?;
    let input = trace::unpacked(Box::new(file)).map_err(|e| at(e.to_string()))?;
    let mut said = Instant::now();
    let progress = |rows| {
        if said.elapsed() > Duration::from_secs(2) {
            said = Instant::now();
            proxy::say(format_args!("{path}: {rows} rows"));
        }
    };
    table::read(BufReader::with_capacity(256 << 10, input), classes, progress).map_err(at)
}

/// An error if no example is of the class that rules are wanted for.
fn check_positive(examples: &Examples, learner: &Learner) -> Result<(), Failure> {
    let Some(positive) = &learner.positive else { return Ok(()) };
    let number = examples.classes().number(positive);
    if examples.class().iter().any(|class| Some(*class) == number) {
        return Ok(());
    }
    let others: Vec<&str> = examples.classes().iter().filter(|class| class != positive).take(20).collect();
    Err(Failure::Usage(format!(
        "--positive: no example is of the class `{positive}`; the table has {}",
        others.join(", ")
    )))
}

/// What is not a mistake, but hardly what was wanted.
fn note(examples: &Examples) {
    let mut count = vec![0u64; examples.classes().len()];
    examples.class().iter().for_each(|class| count[*class as usize] += 1);
    if let Some(only) = count.iter().position(|count| *count == examples.len() as u64) {
        proxy::say(format_args!(
            "note: all examples are of the class `{}`: there is nothing to tell apart, and only a default is learned",
            one_line(examples.classes().word(only as u32))
        ));
    }
}

#[derive(Default)]
struct Shown(Option<Instant>);

impl Shown {
    fn step(&mut self, round: Option<usize>, step: Step, examples: &Examples) {
        let began = *self.0.get_or_insert_with(Instant::now);
        if began.elapsed() < Duration::from_secs(2) {
            return;
        }
        self.0 = Some(Instant::now());
        let round = round.map_or(String::new(), |round| format!("round {}, ", round + 1));
        let class = one_line(examples.classes().word(step.class));
        proxy::say(format_args!("{round}class {class}: {} rules, {} examples", step.rules, step.left));
    }
}

fn print(of: &str, matrix: &Matrix, before: &str) {
    let Matrix { classes, weights, .. } = matrix;
    let names: Vec<String> = classes.iter().map(|class| short(class)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(14);
    line!("{before}{of}: {:.2} % right", 100.0 * matrix.right());
    let head: String = names.iter().map(|name| format!(" {name:>width$}")).collect();
    line!("{before}{:<width$}{head}   by weight, taken for", "is");
    for ((class, name), weights) in classes.iter().zip(&names).zip(weights) {
        let row: String = weights.iter().map(|weight| format!(" {weight:>width$.1}")).collect();
        let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.4}"));
        let (accuracy, coverage) = (share(matrix.accuracy(class)), share(matrix.coverage(class)));
        line!("{before}{name:<width$}{row}   accuracy {accuracy}, coverage {coverage}");
    }
}

/// A name for a column. Of one that is too long, the beginning, marked.
fn short(name: &str) -> String {
    let name = one_line(name);
    match name.char_indices().nth(NAME_MAX) {
        Some(_) => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        None => name,
    }
}

fn as_json(model: &Model, matrices: &[(&str, Matrix)], args: &ArgMatches) -> serde_json::Value {
    let sets: Vec<_> = match model {
        Model::Rules(rules) => vec![rules],
        Model::Ensemble(ensemble) => ensemble.members().iter().map(|(_, rules)| rules).collect(),
    };
    let mut value = serde_json::json!({
        "seed": text(args, "seed"),
        "classes": model.classes(),
        "sets": sets.len(),
        "rules": sets.iter().map(|rules| rules.rules().len()).sum::<usize>(),
        "conditions": sets.iter().map(|rules| rules.conditions()).sum::<usize>(),
        "text": model.to_string(),
    });
    for (of, matrix) in matrices {
        let by_class: Vec<_> = matrix
            .classes
            .iter()
            .map(|class| serde_json::json!({"class": class, "accuracy": matrix.accuracy(class), "coverage": matrix.coverage(class)}))
            .collect();
        value[*of] = serde_json::json!({
            "right": matrix.right(),
            "classes": by_class,
            "weights": matrix.weights,
            "counts": matrix.counts,
        });
    }
    value
}
