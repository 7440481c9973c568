//! What robots ask for: the workload of WebCoSM's Table 3, as Web Polygraph made it.
//!
//! A request repeats an earlier one with the offered hit ratio's chance, else it is for an object nobody asked for yet.
//! Which one is repeated follows Zipf's law, older objects being more popular; sizes are exponential. All follows from
//! the seed.

use super::Wishes;
use crate::body::{Object, mix};

#[derive(Clone, Debug)]
pub struct Workload {
    pub seed: u64,
    /// Share of requests that repeat an earlier one.
    pub repeats: f64,
    /// Exponent of Zipf's law; not 1.
    pub zipf: f64,
    pub mean_size: f64,
    /// Objects 0 to this were asked for.
    pub known: u64,
    step: u64,
}

/// Enough for a body that can be told from others, little enough that no single one matters.
const SIZES: (f64, f64) = (64.0, 262_144.0);

impl Workload {
    pub fn of_foxy(seed: u64) -> Workload {
        Workload { seed, repeats: 0.4, zipf: 0.6, mean_size: 5120.0, known: 0, step: 0 }
    }

    /// One that nobody asked for yet.
    pub fn fresh(&mut self) -> Object {
        self.known += 1;
        self.object(self.known - 1)
    }

    pub fn object(&self, number: u64) -> Object {
        Object { size: exponential(unit(mix(number ^ mix(self.seed + 1))), self.mean_size), number }
    }
}

impl Wishes for Workload {
    fn next(&mut self) -> Object {
        let repeats = self.draw() < self.repeats;
        let luck = self.draw();
        if repeats && self.known > 0 {
            return self.object(zipf_rank(luck, self.known, self.zipf) - 1);
        }
        self.fresh()
    }

    fn draw(&mut self) -> f64 {
        self.step += 1;
        unit(mix(self.seed ^ mix(self.step)))
    }
}

/// In [0, 1).
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

fn exponential(luck: f64, mean: f64) -> u64 {
    (-mean * (1.0 - luck).ln()).clamp(SIZES.0, SIZES.1) as u64
}

/// A rank from 1 to `count` by the inverse of the continuous law: what it misses of the discrete one is within a few
/// per cent for the first ranks and nothing beyond.
fn zipf_rank(luck: f64, count: u64, exponent: f64) -> u64 {
    let power = 1.0 - exponent;
    let reach = (count as f64 + 1.0).powf(power) - 1.0;
    let rank = (1.0 + luck * reach).powf(1.0 / power);
    (rank as u64).clamp(1, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_as_zipf_says() {
        let (count, draws) = (1000, 400_000);
        let mut seen = vec![0u64; count as usize + 1];
        for step in 0..draws {
            seen[zipf_rank(unit(mix(step)), count, 0.6) as usize] += 1;
        }
        let whole: f64 = (1..=count).map(|rank| (rank as f64).powf(-0.6)).sum();
        for rank in [2usize, 10, 100] {
            let expected = (rank as f64).powf(-0.6) / whole * draws as f64;
            let off = seen[rank] as f64 / expected;
            assert!((0.85..1.15).contains(&off), "rank {rank}: {off} of what is expected");
        }
        assert!(seen[0] == 0 && seen[1] > seen[10]);
    }

    #[test]
    fn sizes_and_repeats_are_as_table_3_has_them() {
        let mut workload = Workload::of_foxy(1);
        let asked: Vec<Object> = (0..100_000).map(|_| workload.next()).collect();
        let mean = asked.iter().map(|object| object.size as f64).sum::<f64>() / asked.len() as f64;
        assert!((4900.0..5400.0).contains(&mean), "{mean}");
        let repeats = 1.0 - workload.known as f64 / asked.len() as f64;
        assert!((0.39..0.41).contains(&repeats), "{repeats}");
    }

    #[test]
    fn an_object_keeps_its_size() {
        let mut workload = Workload::of_foxy(7);
        let first: Vec<Object> = (0..50).map(|_| workload.fresh()).collect();
        assert!(first.iter().all(|object| workload.object(object.number) == *object));
    }
}
