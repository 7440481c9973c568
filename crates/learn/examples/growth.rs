//! Time and memory of learning as examples grow: `growth [--threads N] [--boost ROUNDS] ROWS...`. Each number of rows is learned in a process
//! of its own, so that the peak of its memory is its own.
//!
//! The examples are like those of 7.4: few are positive, weights are sizes, and hidden rules with a tenth of errors say which.

use learn::boost::boost;
use learn::examples::{Examples, Kind, Schema, Value};
use learn::judge::Matrix;
use learn::ripper::Learner;
use learn::rules::Rules;
use std::process::{Command, ExitCode};
use std::time::Instant;
use trace::random::{Random, zipf};

const SERVERS: u64 = 20_000;
const WORDS: u64 = 5_000;
const TYPES: [&str; 6] =
    ["image/gif", "image/jpeg", "text/html", "text/css", "application/pdf", "video/mpeg"];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str, default: usize| match args.iter().position(|arg| arg == name) {
        Some(at) if at + 1 < args.len() => {
            args.drain(at..=at + 1).next_back().and_then(|said| said.parse().ok()).unwrap_or(default)
        }
        _ => default,
    };
    let (threads, rounds) = (option("--threads", 2), option("--boost", 0));
    match &args[..] {
        [] => {
            eprintln!("growth [--threads N] [--boost ROUNDS] ROWS...");
            return ExitCode::from(2);
        }
        [one, rows] if one == "--one" => learn(rows.parse().unwrap_or(0), threads, rounds),
        several => {
            println!(
                "      rows  positive    made s  learn s   cpu s  examples MiB  peak MiB  rules  conditions  accuracy  coverage"
            );
            for rows in several {
                let options = [threads, rounds].map(|number| number.to_string());
                let options = ["--threads", &options[0], "--boost", &options[1], "--one", rows];
                let done =
                    std::env::current_exe().and_then(|program| Command::new(program).args(options).status());
                if !done.is_ok_and(|status| status.success()) {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn learn(rows: u64, threads: usize, rounds: usize) {
    let began = Instant::now();
    let examples = examples(rows, 1);
    let made = began.elapsed();
    let (before, idle) = (memory("VmRSS"), processor());
    let began = Instant::now();
    let learner = Learner { positive: Some("yes".into()), threads, ..Learner::default() };
    let (sets, learned, matrix) = match rounds {
        0 => {
            let rules = learner.learn(&examples).expect("there are examples");
            let learned = (began.elapsed(), processor() - idle);
            let matrix = Matrix::of(&rules, &examples);
            (vec![rules], learned, matrix)
        }
        _ => {
            let ensemble = boost(&learner, rounds, &examples, &mut |_, _| {}).expect("there are examples");
            let learned = (began.elapsed(), processor() - idle);
            let matrix = Matrix::of(&ensemble, &examples);
            (ensemble.members().iter().map(|(_, rules)| rules.clone()).collect(), learned, matrix)
        }
    };
    let matrix = matrix.expect("the same attributes");
    let positives: u64 = matrix.counts[0].iter().sum();
    println!(
        "{rows:>10} {positives:>9} {:>9.2} {:>8.2} {:>7.2} {before:>13} {:>9} {:>6} {:>11} {:>9.4} {:>9.4}",
        made.as_secs_f64(),
        learned.0.as_secs_f64(),
        learned.1,
        memory("VmHWM"),
        sets.iter().map(|rules| rules.rules().len()).sum::<usize>(),
        sets.iter().map(Rules::conditions).sum::<usize>(),
        matrix.accuracy("yes").unwrap_or(0.0),
        matrix.coverage("yes").unwrap_or(0.0)
    );
}

/// Seconds of processor time so far, of all threads: a busy machine makes the others longer, but hardly these.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    // Linux counts them in hundredths of a second, whatever the processor.
    ticks / 100.0
}

/// MiB.
fn memory(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(of));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn examples(rows: u64, seed: u64) -> Examples {
    let schema = Schema::new([
        ("age", Kind::Number),
        ("size", Kind::Number),
        ("type", Kind::Nominal),
        ("server", Kind::Nominal),
        ("domain", Kind::Nominal),
        ("words", Kind::Set),
    ]);
    let mut examples = Examples::new(schema.expect("names differ"), ["yes", "no"]);
    let mut random = Random::of(seed);
    for _ in 0..rows {
        let age = random.exponential(200.0);
        let size = (8.0 + 1.5 * random.normal()).exp().round() + 1.0;
        let kind = zipf(random.unit(), TYPES.len() as u64, 1.0) as usize;
        let server = zipf(random.unit(), SERVERS, 0.9);
        let domain = ["com", "org", "edu", "net", "de"][(server % 5) as usize];
        let words: Vec<u64> = (0..3).map(|_| zipf(random.unit(), WORDS, 0.8)).collect();
        let wanted = match server {
            0..=9 => age <= 20.0 && kind != 2,
            10..=39 => age <= 2.0 && size <= 20_000.0,
            40..=199 => words.contains(&7) && kind == 1,
            _ => domain == "edu" && age <= 1.0 && words.contains(&3),
        };
        let wanted = wanted != (random.unit() < if wanted { 0.1 } else { 0.001 });
        let server = format!("www{server}.{domain}");
        let words: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let values = [
            Value::Number(age),
            Value::Number(size),
            Value::Nominal(TYPES[kind]),
            Value::Nominal(&server),
            Value::Nominal(domain),
            Value::Set(&words),
        ];
        examples.push(&values, if wanted { "yes" } else { "no" }, size).expect("it fits");
    }
    examples
}
