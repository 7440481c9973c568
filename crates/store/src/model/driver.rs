//! Many histories: by several threads, until all are done, the time is over, or one fails.

use super::history;
use super::world::Tally;
use std::env::var;
use std::ops::RangeInclusive;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a line says how far it is.
const TOLD: Duration = Duration::from_secs(10);

/// What to run.
pub struct Run<'a> {
    /// Seeds before the others.
    pub first: &'a [u64],
    pub seeds: RangeInclusive<u64>,
    pub until: Option<Duration>,
    pub threads: u64,
    /// Says every now and then how far it is.
    pub tells: bool,
}

/// What came of it.
pub struct Outcome {
    pub tally: Tally,
    /// The lowest seed that was not begun.
    pub reached: u64,
    /// A history that failed, if one did: what it said was printed by the panic.
    pub failed: Option<u64>,
    pub took: Duration,
}

impl Outcome {
    pub fn line(&self) -> String {
        let Tally {
            histories,
            gets,
            hits,
            starts,
            resized,
            cut_short,
            refused,
            put,
            sealed,
            live,
            size,
            dead,
            millis,
            saved,
            unaffordable,
            scrubbed,
            spoilt,
        } = self.tally;
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        format!(
            "{histories} histories, {:.0} a second; {gets} gets, {:.1} % hits; {saved} reads saved by groups; {starts} starts; {resized} other sizes, {cut_short} starts cut short, {refused} refused; {unaffordable} turned away for a budget; {} MiB scrubbed, {spoilt} damaged; \
             {} h of the stores' time; {} MiB put, {:.1} % of the segments that were filled; in the end {:.1} % of the log in use, {:.1} % of that by \
             spans without a head; seeds up to {}",
            histories as f64 / self.took.as_secs_f64().max(0.001),
            share(hits, gets),
            scrubbed >> 20,
            millis / 3_600_000,
            put >> 20,
            share(put, sealed),
            share(live, size),
            share(dead, live),
            self.reached,
        )
    }
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    let text = var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

pub fn run(run: &Run<'_>) -> Outcome {
    let began = Instant::now();
    let (next, base) = (AtomicU64::new(0), *run.seeds.start());
    let seeds = (run.seeds.end() - base).saturating_add(1 + run.first.len() as u64);
    let seed = |nth: u64| match run.first.get(nth as usize) {
        Some(seed) => *seed,
        None => base + (nth - run.first.len() as u64),
    };
    let (ends, tally, failed) = (AtomicBool::new(false), Mutex::new(Tally::default()), Mutex::new(None));
    let is_over = || ends.load(Relaxed) || run.until.is_some_and(|until| began.elapsed() > until);
    let so_far = || {
        let tally = *tally.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = *failed.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = seed(next.load(Relaxed).min(seeds).max(run.first.len() as u64));
        Outcome { tally, reached, failed, took: began.elapsed() }
    };
    let work = || {
        while !is_over() {
            let nth = next.fetch_add(1, Relaxed);
            if nth >= seeds {
                return;
            }
            match catch_unwind(|| history(seed(nth))) {
                Ok(more) => tally.lock().unwrap_or_else(PoisonError::into_inner).add(&more),
                Err(_) => {
                    ends.store(true, Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(seed(nth));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..run.threads).map(|_| scope.spawn(work)).collect();
        let mut told = Instant::now();
        while run.tells && !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() >= TOLD {
                told = Instant::now();
                println!("{:>5} s  {}", began.elapsed().as_secs(), so_far().line());
            }
        }
    });
    so_far()
}
