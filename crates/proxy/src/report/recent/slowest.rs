//! The slowest of many, in bounded memory.

use std::time::{Duration, SystemTime};

/// Of so many is told.
pub const MOST: usize = 24;
/// What is faster is not slow.
pub const LEAST: Duration = Duration::from_millis(1);

/// A request that took long.
#[derive(Clone, Debug)]
pub struct Slow {
    pub id: String,
    pub ended: SystemTime,
    pub method: String,
    pub url: String,
    pub outcome: &'static str,
    pub status: Option<u16>,
    /// From its head to the response's first byte, and to its last one.
    pub first: Duration,
    pub last: Duration,
    pub sent: u64,
}

#[derive(Default)]
pub struct Slowest(Vec<Slow>);

impl Slowest {
    /// How long one has to take to be among them.
    pub fn floor(&self) -> Duration {
        let least = self.0.iter().map(|slow| slow.first).min();
        least.filter(|_| self.0.len() >= MOST).unwrap_or(LEAST).max(LEAST)
    }

    pub fn add(&mut self, slow: Slow) {
        if self.0.len() >= MOST {
            let fastest = (0..self.0.len()).min_by_key(|at| self.0[*at].first);
            if let Some(fastest) = fastest.filter(|at| self.0[*at].first < slow.first) {
                self.0[fastest] = slow;
            }
            return;
        }
        self.0.push(slow);
    }

    pub fn all(&self) -> &[Slow] {
        &self.0
    }
}
