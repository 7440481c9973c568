//! Live checks of what is claimed: each topic runs the program with real sockets and files, measures, judges, and writes a result. It
//! ends with an error when the claim does not hold.

mod bed;
mod crowds;
mod disk_fails;
mod disks;
mod fault;
mod grpc;
mod report;
mod scrub;
mod soak;
mod upgrade;
mod watch;

use crate::{cleanup, machine, process};
use bed::Bed;
use clap::Args;
use report::Report;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct Request {
    /// What is verified; without it, the topics are listed.
    topic: Option<String>,
    /// The program that is measured.
    #[arg(long, default_value = "target/release/cosm")]
    cosm: PathBuf,
    /// Small and short: a smoke that judges no latency and writes no result.
    #[arg(long)]
    quick: bool,
    /// Folder for temporary files, on the disk to measure.
    #[arg(long, default_value = "target/verify")]
    dir: PathBuf,
    /// Folder of the result [default: results/<date>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Of the cache that is scrubbed, GiB.
    #[arg(long, default_value_t = 10.0)]
    size: f64,
    /// Minutes in which it is scrubbed.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Pairs of windows, with the scrub and without.
    #[arg(long, default_value_t = 10)]
    pairs: u32,
    /// How long the load lasts, like 90s, 10m or 1h [default: as the topic needs]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    lasts: Option<Duration>,
    /// Requests a second of the soak [default: half of what can be served]
    #[arg(long)]
    rate: Option<f64>,
    /// The command that the result names.
    #[arg(long, hide = true, default_value = "bench verify")]
    command: String,
}

/// A number with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let seconds = found.and_then(|(number, of)| number.parse::<u64>().ok()?.checked_mul(of));
    seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or("no time like 90s, 5m, 1h".into())
}

struct Topic {
    name: &'static str,
    claim: &'static str,
    run: fn(&Bed, &Request, &mut Report) -> Result<(), String>,
}

const TOPICS: [Topic; 7] = [
    Topic {
        name: "disks",
        claim: "Disks share objects, writes and reads by weight within 10 %, also under limits.",
        run: disks::run,
    },
    Topic {
        name: "disk-fails",
        claim: "A disk of two that fails costs its share of hits, no error and no long wait; it comes back, and purges hold.",
        run: disk_fails::run,
    },
    Topic {
        name: "grpc",
        claim: "gRPC passes: messages, streams in both directions at once, trailers, deadlines, and calls that are left.",
        run: grpc::run,
    },
    Topic {
        name: "load",
        claim: "Under crowds that idle, are slow, read nothing, or ask all at once, memory stays under its bound, others are served, and all comes back.",
        run: crowds::run,
    },
    Topic {
        name: "scrub",
        claim: "The scrub finds every flipped bit in its time, and clients' p99 rises by at most a tenth.",
        run: scrub::run,
    },
    Topic {
        name: "upgrade",
        claim: "While new processes take over, no connection is refused, no request fails, and hits go on.",
        run: upgrade::run,
    },
    Topic {
        name: "soak",
        claim: "At half load, with purges, reloads, and a disk that fails and comes back, nothing grows, and no error is not the test's own.",
        run: soak::run,
    },
];

pub fn run(request: &Request) -> Result<(), String> {
    let Some(wanted) = &request.topic else {
        TOPICS.iter().for_each(|topic| println!("{:<12}{}", topic.name, topic.claim));
        return Ok(());
    };
    let topic = TOPICS.iter().find(|topic| topic.name == wanted).ok_or_else(|| {
        let names = TOPICS.map(|topic| topic.name).join(", ");
        format!("`{wanted}` is no topic: {names}")
    })?;
    std::fs::create_dir_all(&request.dir).map_err(|e| format!("{}: {e}", request.dir.display()))?;
    let folder = tempfile::Builder::new().prefix("verify-").tempdir_in(&request.dir);
    let folder = folder.map_err(|e| format!("{}: {e}", request.dir.display()))?;
    cleanup::at_signals(folder.path())?;
    let machine = machine::Machine::look(&request.cosm, folder.path());
    let cores = process::cores()?;
    process::open_many()?;
    process::pin(cores.1)?;
    let bed = Bed::open(&request.cosm, folder.path(), cores)?;
    let mut report = Report::begin(topic.claim, &request.command, &machine);
    let came = (topic.run)(&bed, request, &mut report);
    cleanup::run_last();
    came?;
    if !request.quick {
        let out = request.out.clone().unwrap_or_else(|| PathBuf::from("results").join(machine::today()));
        report.write(&out, topic.name)?;
    }
    report.verdict()
}

#[cfg(test)]
mod tests {
    use super::duration;
    use std::time::Duration;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "5", "m", "0s", "-1s", "1d", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
