//! Several cache files on a machine whose disk and processor are limited: what each holds, is given to write, and is read, against its
//! weight.

use super::Request;
use super::bed::{Bed, Proxy, number};
use super::report::{Report, summed};
use crate::cgroup::{Flow, Group, device_of};
use crate::load::{self, Order, Plan};
use crate::usage::Process;
use std::time::{Duration, Instant};

const OBJECT: u64 = 4 << 10;
const OFF: f64 = 0.10;
/// Objects that are put before what waits to be written is waited for.
const BURST: usize = 1_500;
/// Of the requests for what was stored, at least; where others keep the disk busy, some are fetched.
const HITS: f64 = 0.5;
/// A control group's own precision.
const BINDS: f64 = 1.05;

struct Scale {
    weights: &'static [&'static [u64]],
    rounds: u32,
    objects: u64,
    reading: Duration,
}

const WHOLE: Scale = Scale {
    weights: &[&[1, 1], &[1, 3], &[1, 1, 2, 4]],
    rounds: 3,
    objects: 16_000,
    reading: Duration::from_secs(12),
};
const QUICK: Scale =
    Scale { weights: &[&[1, 3]], rounds: 1, objects: 12_000, reading: Duration::from_secs(8) };

const READS: u32 = 600;
const WRITTEN: u64 = 4 << 20;
const PROCESSOR: u32 = 30;

/// What is counted of each disk.
const COUNTED: [(&str, &str); 3] = [
    ("objects", "objects"),
    ("device-written-bytes", "bytes written"),
    ("device-reads", "reads of the device"),
];

struct Round {
    /// Of each disk, the share of what is counted over the share of its weight.
    shares: Vec<[f64; COUNTED.len()]>,
    written_a_second: f64,
    reads_a_second: f64,
    cores: f64,
    hits: f64,
}

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let scale = if request.quick { &QUICK } else { &WHOLE };
    let limited = limits(bed);
    match &limited {
        Ok(_) => report.say(format!(
            "limits: {READS} reads and {} MiB written a second, {PROCESSOR} % of a core",
            WRITTEN >> 20
        )),
        Err(why) => report.say(format!("without limits: {why}")),
    }
    let free = one(bed, None, scale.weights[0], scale)?;
    report.say(format!("without limits, weights {}: {}", named(scale.weights[0]), free.speed()));
    let mut speeds = Vec::new();
    for weights in scale.weights {
        let rounds = (0..scale.rounds)
            .map(|_| one(bed, limited.as_ref().ok(), weights, scale))
            .collect::<Result<Vec<Round>, String>>()?;
        tell(weights, &rounds, report);
        speeds.extend(rounds.into_iter().map(|round| (round.reads_a_second, round.written_a_second)));
    }
    if limited.is_ok() {
        let most = |of: fn(&(f64, f64)) -> f64| speeds.iter().map(of).fold(0.0, f64::max);
        let (reads, written) = (most(|speed| speed.0), most(|speed| speed.1));
        let binds = |is: f64, limit: f64, free: f64| is <= BINDS * limit && free > BINDS * limit;
        let tells = [
            (
                binds(reads, READS.into(), free.reads_a_second),
                format!("the limit of reads binds: at most {reads:.0} a second"),
            ),
            (
                binds(written, WRITTEN as f64, free.written_a_second),
                format!("the limit of writes binds: at most {:.1} MiB a second", mib(written)),
            ),
        ];
        for (holds, what) in tells {
            // A machine that is busy with something else may be too slow for it.
            if request.quick && !holds {
                report.say(format!("not shown: {what}"))
            } else {
                report.judge(holds, what)
            }
        }
    }
    Ok(())
}

fn limits(bed: &Bed) -> Result<Group, String> {
    let device = device_of(&bed.folder).ok_or("the folder lies on no device of its own")?;
    let group = Group::of_device_and_processor()?;
    group.hold(device, Flow { reads: Some(READS), written_bytes: Some(WRITTEN), ..Flow::default() })?;
    group.limit_processor(PROCESSOR)?;
    Ok(group)
}

/// Fills new caches of these weights, and reads what they hold.
fn one(bed: &Bed, group: Option<&Group>, weights: &[u64], scale: &Scale) -> Result<Round, String> {
    let groups = group.map(Group::folders).unwrap_or_default();
    let all: u64 = weights.iter().sum();
    let paths: Vec<String> =
        (0..weights.len()).map(|n| bed.folder.join(format!("disk-{n}")).display().to_string()).collect();
    let mut options = Vec::new();
    for (path, weight) in paths.iter().zip(weights) {
        // Nobody has to leave.
        let size = 2 * scale.objects * OBJECT * weight / all + (64 << 20);
        options.extend(["--cache".into(), format!("{path},size={}MiB,weight={weight}", size >> 20)]);
    }
    let proxy = bed.start(&groups, &options)?;
    let began = counted(&proxy, &paths)?;
    let filling = Instant::now();
    // In bursts that find room in memory: what comes faster than it is written for longer is refused, and most by the disk of most weight.
    for first in (0..scale.objects).step_by(BURST) {
        let burst = first..scale.objects.min(first + BURST as u64);
        load::run(&proxy.plan(OBJECT, Order::Once(burst)))?.fault().map_or(Ok(()), Err)?;
        proxy.written()?;
    }
    let filled = filling.elapsed();
    let written: u64 = counted(&proxy, &paths)?.iter().zip(&began).map(|(now, then)| now[1] - then[1]).sum();
    proxy.settle()?;
    let (before, used) = (counted(&proxy, &paths)?, Process::of(proxy.server.pid())?);
    let random = Order::Random(0..scale.objects, 1);
    let read = load::run(&Plan { lasts: Some(scale.reading), ..proxy.plan(OBJECT, random) })?;
    read.fault().map_or(Ok(()), Err)?;
    if (read.hits as f64) < HITS * read.requests as f64 {
        return Err(format!("{} hits of {} requests for what was stored", read.hits, read.requests));
    }
    let used = Process::of(proxy.server.pid())? - used;
    let after = counted(&proxy, &paths)?;
    proxy.server.stop()?;
    for path in &paths {
        std::fs::remove_file(path).map_err(|e| format!("{path}: {e}"))?;
    }
    // Of what was put and written before; of reads, what came since.
    let figure =
        |n: usize, which: usize| if which == 2 { after[n][2] - before[n][2] } else { before[n][which] };
    let total = |which: usize| (0..weights.len()).map(|n| figure(n, which)).sum::<u64>() as f64;
    let share = |n: usize, which: usize| figure(n, which) as f64 / total(which);
    let of_weight = |n: usize| weights[n] as f64 / all as f64;
    Ok(Round {
        shares: (0..weights.len())
            .map(|n| std::array::from_fn(|which| share(n, which) / of_weight(n)))
            .collect(),
        written_a_second: written as f64 / filled.as_secs_f64(),
        reads_a_second: total(2) / read.seconds,
        cores: used.cpu_seconds() / read.seconds,
        hits: read.hits as f64 / read.requests as f64,
    })
}

/// In the order of the paths.
fn counted(proxy: &Proxy, paths: &[String]) -> Result<Vec<[u64; COUNTED.len()]>, String> {
    let stats = proxy.stats()?;
    let disks = stats["disks"].as_array().ok_or("/stats.json has no disks")?;
    let of_path = |path: &String| {
        let disk = disks.iter().find(|disk| disk["name"].as_str() == Some(path));
        let disk = disk.ok_or_else(|| format!("/stats.json has no disk {path}"))?;
        let mut figures = [0; COUNTED.len()];
        for (figure, (name, _)) in figures.iter_mut().zip(COUNTED) {
            *figure = number(disk, name)?;
        }
        Ok(figures)
    };
    paths.iter().map(of_path).collect()
}

fn tell(weights: &[u64], rounds: &[Round], report: &mut Report) {
    report.say("");
    let speeds: Vec<String> = rounds.iter().map(Round::speed).collect();
    report.say(format!("weights {}: {}", named(weights), speeds.join("; ")));
    let mut worst: f64 = 0.0;
    for (n, weight) in weights.iter().enumerate() {
        let of = |which: usize| rounds.iter().map(|round| round.shares[n][which]).collect::<Vec<f64>>();
        let figures: Vec<String> = (0..COUNTED.len())
            .map(|which| {
                worst = of(which).iter().fold(worst, |worst, share| worst.max((share - 1.0).abs()));
                format!("{} {}", COUNTED[which].1, summed(&of(which), 3))
            })
            .collect();
        report.say(format!("  disk of weight {weight}, over its share: {}", figures.join(", ")));
    }
    report.judge(worst <= OFF, format!("weights {}: off by {:.1} % at most", named(weights), 100.0 * worst));
}

impl Round {
    fn speed(&self) -> String {
        format!(
            "{:.1} MiB written a second, {:.0} reads a second with {:.2} of a core and {:.1} % hits",
            mib(self.written_a_second),
            self.reads_a_second,
            self.cores,
            100.0 * self.hits
        )
    }
}

fn named(weights: &[u64]) -> String {
    weights.iter().map(u64::to_string).collect::<Vec<_>>().join(":")
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
