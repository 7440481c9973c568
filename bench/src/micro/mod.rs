//! Each step of the hot paths by itself, in nanoseconds, beside a baseline that was saved earlier on the same machine.

mod paths;

use paths::{PATHS, Path as HotPath, Step};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A step that takes this much longer than in the baseline is pointed at.
const SLOWER: f64 = 1.2;

#[derive(clap::Args)]
pub struct Request {
    /// Keep these figures as the baseline.
    #[arg(long)]
    save: bool,
    /// The baseline, and a cache to write to.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Seconds for each step.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    #[arg(long, hide = true)]
    cosm: Option<PathBuf>,
    #[arg(long, hide = true)]
    command: Option<String>,
}

/// Nanoseconds a step, by its name.
type Baseline = BTreeMap<String, f64>;

pub fn run(request: &Request) -> Result<(), String> {
    std::fs::create_dir_all(&request.dir).map_err(|e| format!("create {}: {e}", request.dir.display()))?;
    let file = request.dir.join("micro.json");
    let baseline = read(&file)?;
    let mut measured = Baseline::new();
    println!("{:<42} {:>9} {:>9} {:>10}", "step", "ns", "spread", "baseline");
    for path in PATHS {
        let figures = measure(path, &request.dir, Duration::from_secs_f64(request.seconds))?;
        let beside = baseline.get(path.name).map(|was| (was, figures.median / was));
        let beside = beside.map_or("-".into(), |(was, ratio)| {
            format!("{was:.0} x {ratio:.2}{}", if ratio > SLOWER { "  slower" } else { "" })
        });
        println!("{:<42} {:>9.0} {:>8.0}% {beside:>10}", path.name, figures.median, figures.spread * 100.0);
        measured.insert(path.name.to_owned(), figures.median);
    }
    if request.save || baseline.is_empty() {
        let text = serde_json::to_string_pretty(&measured).map_err(|e| e.to_string())?;
        std::fs::write(&file, text).map_err(|e| format!("write {}: {e}", file.display()))?;
        println!("kept as the baseline in {}", file.display());
    }
    Ok(())
}

fn read(file: &Path) -> Result<Baseline, String> {
    match std::fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Baseline::new()),
        Err(error) => Err(format!("read {}: {error}", file.display())),
    }
}

struct Figures {
    median: f64,
    /// Half of the distance between the quartiles, as a share of the median.
    spread: f64,
}

/// Batches of about a millisecond, so that one interruption spoils one of many.
fn measure(path: &HotPath, folder: &Path, lasts: Duration) -> Result<Figures, String> {
    const BATCH: Duration = Duration::from_millis(1);
    let mut step = (path.prepare)(folder)?;
    let mut size = 1;
    while timed(&mut step, size) < BATCH && size < 1 << 24 {
        size *= 2;
    }
    let until = Instant::now() + lasts;
    let mut batches = Vec::new();
    while Instant::now() < until || batches.len() < 5 {
        batches.push(timed(&mut step, size).as_nanos() as f64 / size as f64);
    }
    batches.sort_by(f64::total_cmp);
    let quantile = |share: f64| batches[((batches.len() - 1) as f64 * share) as usize];
    let median = quantile(0.5);
    Ok(Figures { median, spread: (quantile(0.75) - quantile(0.25)) / 2.0 / median })
}

fn timed(step: &mut Step, times: u64) -> Duration {
    let begin = Instant::now();
    (0..times).for_each(|_| step());
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_can_be_taken() {
        let folder = tempfile::tempdir().unwrap();
        for path in PATHS {
            let mut step = (path.prepare)(folder.path()).unwrap();
            (0..3).for_each(|_| step());
        }
    }

    #[test]
    fn a_step_has_a_time() {
        let sleepy =
            HotPath { name: "", prepare: |_| Ok(Box::new(|| std::thread::sleep(Duration::from_millis(2)))) };
        let figures = measure(&sleepy, Path::new(""), Duration::ZERO).unwrap();
        assert!(figures.median >= 2e6 && figures.spread >= 0.0);
    }
}
