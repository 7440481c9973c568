//! What an offered load asks for.

use super::workload::unit;
use crate::body::{Object, mix};

pub trait Wishes {
    fn next(&mut self) -> Object;

    /// In [0, 1), evenly drawn: for arrival times.
    fn draw(&mut self) -> f64;
}

/// Each drawn evenly from these objects of one size; a share of the requests is for objects that nobody asked for yet.
pub struct Among {
    pub size: u64,
    pub numbers: Vec<u64>,
    pub fresh: f64,
    /// The next one that nobody asked for.
    pub unknown: u64,
    pub seed: u64,
    step: u64,
}

impl Among {
    pub fn new(size: u64, numbers: Vec<u64>, seed: u64) -> Among {
        Among { size, numbers, fresh: 0.0, unknown: 0, seed, step: 0 }
    }
}

impl Wishes for Among {
    fn next(&mut self) -> Object {
        if self.draw() < self.fresh {
            self.unknown += 1;
            return Object { size: self.size, number: self.unknown - 1 };
        }
        let at = (self.draw() * self.numbers.len() as f64) as usize;
        Object { size: self.size, number: self.numbers[at] }
    }

    fn draw(&mut self) -> f64 {
        self.step += 1;
        unit(mix(self.seed ^ mix(self.step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_asked_for_and_so_many_are_new() {
        let mut among = Among { fresh: 0.1, unknown: 100, ..Among::new(8, vec![3, 5], 1) };
        let asked: Vec<u64> = (0..10_000).map(|_| among.next().number).collect();
        let count = |of: &dyn Fn(u64) -> bool| asked.iter().filter(|number| of(**number)).count();
        assert!((900..1100).contains(&count(&|n| n >= 100)));
        assert!((4200..4800).contains(&count(&|n| n == 3)) && (4200..4800).contains(&count(&|n| n == 5)));
        let new: Vec<u64> = asked.into_iter().filter(|number| *number >= 100).collect();
        assert!(new.iter().zip(100..).all(|(number, nth)| *number == nth), "none twice");
    }
}
