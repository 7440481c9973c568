//! What came of an offered load.

use super::connection::Answered;
use crate::body::Object;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Of the requests that arrived after the ramp.
#[derive(Clone, Debug)]
pub struct Offered {
    pub asked: u64,
    pub hits: Histogram<u64>,
    pub misses: Histogram<u64>,
    /// Responses other than 200.
    pub refused: u64,
    /// Checked bodies that were not what the origin has, and the first object that had one.
    pub wrong: u64,
    pub first_wrong: Option<Object>,
    /// Without an answer: given up, or closed by the server twice.
    pub lost: u64,
    /// Asked once more, since the server closed the connection.
    pub again: u64,
    /// Between one hit and the next, at most.
    pub longest_pause: Duration,
    last_hit: Option<Instant>,
    /// Of all requests, answered after the ramp and while the load lasted.
    pub in_time: u64,
    /// By how much the last request was late: the generator's own limit when it is more than a moment.
    pub late_seconds: f64,
    /// How long the generator had something to do while it counted.
    pub load_busy_seconds: f64,
}

impl Offered {
    pub fn nothing() -> Result<Offered, String> {
        let times = || Histogram::new_with_bounds(1, 600_000_000, 3).map_err(|e| e.to_string());
        Ok(Offered {
            asked: 0,
            hits: times()?,
            misses: times()?,
            refused: 0,
            wrong: 0,
            first_wrong: None,
            lost: 0,
            again: 0,
            longest_pause: Duration::ZERO,
            last_hit: None,
            in_time: 0,
            late_seconds: 0.0,
            load_busy_seconds: 0.0,
        })
    }

    pub fn take(&mut self, answer: &Answered, took: Duration, now: Instant) {
        if answer.hit {
            let pause = self.last_hit.replace(now).map_or(Duration::ZERO, |last| now - last);
            self.longest_pause = self.longest_pause.max(pause);
        }
        self.refused += u64::from(answer.status != 200);
        if answer.wrong {
            self.wrong += 1;
            self.first_wrong.get_or_insert(answer.object);
        }
        let times = if answer.hit { &mut self.hits } else { &mut self.misses };
        times.saturating_record(took.as_micros() as u64);
    }

    pub fn answered(&self) -> u64 {
        self.hits.len() + self.misses.len()
    }

    /// Of the answers, in seconds.
    pub fn mean(&self) -> f64 {
        let sum =
            |times: &Histogram<u64>| if times.is_empty() { 0.0 } else { average(times) * times.len() as f64 };
        (sum(&self.hits) + sum(&self.misses)) / self.answered() as f64
    }

    pub fn hit_mean(&self) -> f64 {
        average(&self.hits)
    }

    pub fn hit_median(&self) -> f64 {
        if self.hits.is_empty() { f64::NAN } else { self.hits.value_at_quantile(0.5) as f64 / 1e6 }
    }

    pub fn miss_mean(&self) -> f64 {
        average(&self.misses)
    }

    pub fn hit_share(&self) -> f64 {
        self.hits.len() as f64 / self.answered() as f64
    }
}

/// In seconds; nothing has no average.
fn average(times: &Histogram<u64>) -> f64 {
    if times.is_empty() { f64::NAN } else { times.mean() / 1e6 }
}
