//! `cosm lab simulate`: hit ratios of replacement policies, without a medium.

use super::{self as options, input, number, say_faults, text};
use crate::values::size;
use crate::{Failure, machine};
use clap::{Arg, ArgAction, ArgMatches, Command};
use lab::simulate::{Plan, Row, Simulated, simulate};
use policy::replacement::{self, Policy};
use policy::sample::Sampling;
use std::io::IsTerminal;
use std::time::Instant;
use trace::statistics::SizeChanges;

/// Requests between two reports of progress, about.
const REPORT: u64 = 1 << 20;

pub fn command() -> Command {
    let policies = Arg::new("policies")
        .long("policies")
        .value_name("NAMES")
        .default_value("all")
        .help("Replacement policies (listed below), separated by commas, or all");
    let sizes = Arg::new("sizes")
        .long("sizes")
        .value_name("SIZES")
        .default_value("1GiB")
        .help("Cache sizes, separated by commas");
    let warm_up = Arg::new("warm-up")
        .long("warm-up")
        .value_name("N")
        .default_value("0")
        .help("Number of requests that fill the caches before counting begins");
    let meanings = SizeChanges::ALL.map(|(name, _, means)| format!("{name}: {means}")).join("; ");
    let size_changes = Arg::new("size-changes")
        .long("size-changes")
        .value_name("RULE")
        .default_value(SizeChanges::ALL[0].0)
        .help(format!("What a changed size means for an object without Last-Modified. {meanings}"));
    let sample = Arg::new("sample").long("sample").value_name("RATE").help(
        "Estimate from samples with this share of the objects, in caches smaller in proportion (SHARDS, FAST 2015): \
         0.01 or 0.001 for long traces. Hits are printed with a standard error",
    );
    let bound = Arg::new("bound").long("bound").action(ArgAction::SetTrue).help(
        "Also print an upper bound for all policies (PFOO-L, SIGMETRICS 2018). It keeps all requests in memory, about 50 bytes \
         each; belady keeps 24 bytes each",
    );
    Command::new("simulate")
        .about("Count hits of replacement policies and cache sizes, without a medium")
        .args(options::input_args())
        .args([policies, sizes, warm_up, size_changes, sample, bound, options::json()])
        .after_help(format!(
            "Policies:\n{}\nExamples, a log of a day after the one before, and a year by a thousandth of its objects:\n  \
             cosm lab simulate --trace access.log --policies lru,s3-fifo,gdsf --sizes 1GiB,10GiB --warm-up 500000 --bound\n  \
             cosm lab simulate --trace year.oracleGeneral.zst --sample 0.001 --sizes 100GiB",
            known()
        ))
}

fn known() -> String {
    let line = |policy: &Policy| format!("  {:<20} {} ({})\n", policy.name, policy.about, policy.source);
    replacement::ALL.iter().map(line).collect()
}

fn size_changes(args: &ArgMatches) -> Result<SizeChanges, Failure> {
    let asked = text(args, "size-changes").unwrap_or_default();
    let found = SizeChanges::ALL.into_iter().find(|(name, ..)| *name == asked);
    found.map(|(_, rule, _)| rule).ok_or_else(|| {
        let names = SizeChanges::ALL.map(|(name, ..)| name).join(", ");
        Failure::Usage(format!("--size-changes: `{asked}` is none of {names}"))
    })
}

fn sampling(args: &ArgMatches) -> Result<Option<Sampling>, Failure> {
    let Some(asked) = text(args, "sample") else { return Ok(None) };
    let seed = number(args, "seed")?.unwrap_or(1);
    let sampling = asked.parse().ok().and_then(|rate| Sampling::new(rate, seed));
    sampling.map(Some).ok_or_else(|| Failure::Usage("--sample: a share from 0.000001 to 0.5".into()))
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let list = |name| text(args, name).unwrap_or_default().split(',').map(|item| item.trim().to_owned());
    let policies: Vec<Policy> =
        replacement::named(&list("policies").collect::<Vec<_>>()).map_err(Failure::Usage)?;
    let sizes = list("sizes").map(|item| size(&item)).collect::<Result<Vec<u64>, _>>();
    let sizes = sizes.map_err(|why| Failure::Usage(format!("--sizes: {why}")))?;
    let plan = Plan {
        policies: &policies,
        sizes: &sizes,
        warm_up: number(args, "warm-up")?.unwrap_or(0),
        size_changes: size_changes(args)?,
        sampling: sampling(args)?,
        bound: args.get_flag("bound"),
        threads: machine::cores(),
    };
    let mut reading = input.open().map_err(Failure::Failed)?;
    let (began, shows) = (Instant::now(), std::io::stderr().is_terminal());
    let mut progress = |requests: u64| {
        if shows && requests / REPORT != requests.saturating_sub(1 << 16) / REPORT {
            eprint!("\rcosm: {requests} requests");
        }
    };
    let found = simulate(&mut reading, &plan, &machine::thread_seconds, &mut progress);
    if shows {
        eprintln!();
    }
    let found = found.map_err(Failure::Failed)?;
    say_faults(&reading);
    reading.check().map_err(Failure::Failed)?;
    let left_out = reading.say_unusable();
    let seconds = began.elapsed().as_secs_f64();
    let taken: f64 = found.rows.iter().map(|row| row.seconds).sum();
    let caches = found.rows.iter().filter(|row| row.seconds > 0.0).count();
    let per_core = found.requests as f64 * caches as f64 / taken.max(1e-9);
    if args.get_flag("json") {
        let (trace, synthetic) = (input.describe(), input.is_synthetic());
        line!(
            "{}",
            serde_json::json!({
                "trace": trace, "synthetic": synthetic, "requests": found.requests, "bytes": found.bytes,
                "cacheable": found.cacheable, "changed": found.changed, "objects": found.objects,
                "warm_up": plan.warm_up, "size_changes": text(args, "size-changes"), "sampling": found.sampling,
                "left_out": left_out, "seconds": seconds, "read_seconds": found.read_seconds,
                "requests_per_second_per_core": per_core, "rows": found.rows,
            })
        );
        return Ok(());
    }
    print(&input.describe(), &found);
    line!(
        "{} requests for {} objects, read in {:.2} s; simulated at {:.1} million requests a second of a core; {seconds:.2} s in all",
        found.requests,
        found.objects,
        found.read_seconds,
        per_core / 1e6
    );
    if let Some(left_out) = left_out {
        line!("no hits, as no cache could answer them: requests {left_out}");
    }
    let rule = text(args, "size-changes").unwrap_or_default();
    line!("{} requests found a new version and are misses (--size-changes {rule})", found.changed);
    if let Some(sampling) = found.sampling {
        let (samples, rate) = (sampling.samples(), sampling.rate());
        line!("estimated by {samples} samples of {rate} of the objects each; ± is the standard error");
    }
    print_too_large(&found.rows);
    Ok(())
}

/// What a policy had no chance with.
fn print_too_large(rows: &[Row]) {
    for row in rows.iter().filter(|row| row.too_large > 0) {
        let Row { policy, size, too_large, too_large_for_sample, .. } = row;
        let by_sampling = match too_large_for_sample {
            0 => String::new(),
            some => format!(", {some} of them only for the smaller caches of samples"),
        };
        line!(
            "{policy} of {size} bytes: {too_large} requests were for objects larger than it takes{by_sampling}"
        );
    }
}

fn print(trace: &str, found: &Simulated) {
    line!("{trace}");
    let error = if found.sampling.is_some() { "       ±" } else { "" };
    line!(
        "{:<20} {:>14} {:>8}{error} {:>8}{error} {:>14}",
        "policy",
        "bytes",
        "hits",
        "of bytes",
        "requests/s"
    );
    for row in &found.rows {
        let (hits, bytes) = row.errors.unwrap_or_default();
        let error = |error: f64| match row.errors {
            Some(_) => format!(" {:>6.2}%", 100.0 * error),
            None => String::new(),
        };
        line!(
            "{:<20} {:>14} {:>7.2}%{} {:>7.2}%{} {:>14.0}",
            row.policy,
            row.size,
            100.0 * row.hit_ratio,
            error(hits),
            100.0 * row.byte_hit_ratio,
            error(bytes),
            row.requests_per_second
        );
    }
}
