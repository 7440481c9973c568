//! Closed loops of gets, by tasks and by threads, and what they count.

use crate::object::{Numbers, Random};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is asked for, by how many at once, until when.
#[derive(Clone, Debug)]
pub struct Ask {
    pub numbers: Numbers,
    pub depth: usize,
    pub lasts: Duration,
    /// Gets at most.
    pub most: u64,
    pub seed: u64,
}

/// What one of those who ask saw.
#[derive(Default)]
pub struct Tally {
    pub gets: u64,
    pub hits: u64,
    pub wrong: u64,
    pub nanos: Vec<u32>,
    pub asked: Vec<u64>,
    pub missed: Vec<u64>,
    /// From the first get to the last answer.
    pub took: Duration,
}

/// Numbers asked for and missed that are kept, each.
const KEPT: usize = 4096;

pub enum Answer {
    Hit,
    Miss,
    Wrong,
}

/// Where all who ask at once take their turns from.
pub struct Turns {
    left: AtomicU64,
    until: Instant,
}

impl Turns {
    pub fn of(ask: &Ask) -> Turns {
        Turns { left: AtomicU64::new(ask.most), until: Instant::now() + ask.lasts }
    }
    pub fn take(&self) -> bool {
        self.left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            && Instant::now() < self.until
    }
}

impl Ask {
    pub fn random(&self, nth: usize) -> Random {
        Random(self.seed.wrapping_mul(1_000_003).wrapping_add(nth as u64 * 7_919))
    }
}

impl Tally {
    pub fn count(&mut self, number: u64, began: Instant, answer: Answer) {
        self.gets += 1;
        self.nanos.push(began.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        if self.asked.len() < KEPT {
            self.asked.push(number);
        }
        match answer {
            Answer::Hit => self.hits += 1,
            Answer::Wrong => self.wrong += 1,
            Answer::Miss if self.missed.len() < KEPT => self.missed.push(number),
            Answer::Miss => {}
        }
    }

    pub fn join(mut self, other: Tally) -> Tally {
        self.gets += other.gets;
        self.hits += other.hits;
        self.wrong += other.wrong;
        self.nanos.extend(other.nanos);
        self.asked.extend(other.asked);
        self.missed.extend(other.missed);
        self.took = self.took.max(other.took);
        self
    }

    pub fn quantile_us(&mut self, share: f64) -> f64 {
        if self.nanos.is_empty() {
            return 0.0;
        }
        let at = ((self.nanos.len() - 1) as f64 * share) as usize;
        f64::from(*self.nanos.select_nth_unstable(at).1) / 1000.0
    }
}

/// `depth` tasks of this thread ask `get`, as streams of a worker do. Inside a local set.
pub async fn tasks<F: AsyncFn(u64) -> Answer + 'static>(ask: &Ask, get: F) -> Tally {
    let (shared, began) = (Rc::new((Turns::of(ask), ask.numbers.clone(), get)), Instant::now());
    let asks = |nth| {
        let (mut random, mut tally, shared) = (ask.random(nth), Tally::default(), shared.clone());
        tokio::task::spawn_local(async move {
            let (turns, numbers, get) = &*shared;
            while turns.take() {
                let number = numbers.pick(&mut random);
                let began = Instant::now();
                tally.count(number, began, get(number).await);
            }
            tally
        })
    };
    let askers: Vec<_> = (0..ask.depth).map(asks).collect();
    let mut tally = Tally::default();
    for asker in askers {
        tally = tally.join(asker.await.expect("a task that asks ends"));
    }
    Tally { took: began.elapsed(), ..tally }
}

/// `depth` threads ask, each with a getter of its own.
pub fn threads<G: FnMut(u64) -> Answer>(ask: &Ask, getter: impl Fn() -> G + Sync) -> Tally {
    let (turns, began) = (Turns::of(ask), Instant::now());
    let tally = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ask.depth)
            .map(|nth| {
                let (turns, getter) = (&turns, &getter);
                scope.spawn(move || {
                    let (mut random, mut tally, mut get) = (ask.random(nth), Tally::default(), getter());
                    while turns.take() {
                        let number = ask.numbers.pick(&mut random);
                        let began = Instant::now();
                        let answer = get(number);
                        tally.count(number, began, answer);
                    }
                    tally
                })
            })
            .collect();
        let tallies = askers.into_iter().map(|asker| asker.join().expect("a thread that asks ends"));
        tallies.fold(Tally::default(), Tally::join)
    });
    Tally { took: began.elapsed(), ..tally }
}

/// What this process and the device did in a while.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    pub seconds: f64,
    /// User and system, all threads of the process.
    pub cpu_seconds: f64,
    /// Of the process, as /proc/self/io counts.
    pub own_read_bytes: u64,
    pub own_written_bytes: u64,
    /// Of the whole device, as /proc/diskstats counts.
    pub device_reads: u64,
    pub device_read_bytes: u64,
    pub device_writes: u64,
    pub device_written_bytes: u64,
}
