//! What a design stands on: of each recipe what it answers, what it costs the device, and what it leaves to origins.
//!
//! A hit costs the device a read, a miss costs the origin's time: neither counts for nothing. All recipes of a run have the same
//! memory and the same bytes of the medium (`Scale::space`); what else is not alike, the row says.

use crate::recipe;
use crate::replay::Row;
use serde::{Deserialize, Serialize};

/// What an origin takes for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Seconds until the answer begins.
    pub delay: f64,
    /// Bytes a second from then on.
    pub bandwidth: f64,
}

impl Default for Origin {
    /// 100 ms and 10 MiB/s: set.
    fn default() -> Origin {
        Origin { delay: 0.1, bandwidth: (10 << 20) as f64 }
    }
}

/// Of one recipe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    pub recipe: String,
    pub hit_ratio: f64,
    pub byte_hit_ratio: f64,
    /// Seconds that the device was at reads, and at writes; nothing where nobody knows.
    pub device_read_seconds: Option<f64>,
    pub device_write_seconds: Option<f64>,
    pub origin_bytes: u64,
    /// What the device was given to write, and what flash took for it.
    pub bytes_written: Option<u64>,
    pub bytes_programmed: Option<u64>,
    /// Seconds of the medium and of origins for all requests, one after the other.
    pub service_seconds: f64,
    /// Those on the front that hit no less and cost the device no more, and one of the two is better.
    pub dominated_by: Vec<String>,
    /// What it is given or does that others are or do not.
    pub unlike: &'static str,
}

impl Score {
    pub fn device_seconds(&self) -> Option<f64> {
        Some(self.device_read_seconds? + self.device_write_seconds?)
    }

    /// Whether nothing that is known dominates it.
    pub fn is_on_front(&self) -> bool {
        self.device_seconds().is_some() && self.dominated_by.is_empty()
    }
}

/// Of all rows of one run, in their order.
pub fn scores(rows: &[Row], origin: &Origin) -> Vec<Score> {
    let mut scores: Vec<Score> = rows.iter().map(|row| alone(row, origin)).collect();
    let places: Vec<Option<(f64, f64)>> =
        scores.iter().map(|score| score.device_seconds().map(|seconds| (score.hit_ratio, seconds))).collect();
    let beats = |one: usize, other: usize| match (places[one], places[other]) {
        (Some(one), Some(other)) => one != other && one.0 >= other.0 && one.1 <= other.1,
        _ => false,
    };
    let all = 0..rows.len();
    let front: Vec<usize> = all.clone().filter(|one| !all.clone().any(|other| beats(other, *one))).collect();
    for at in all {
        let better = front.iter().filter(|one| beats(**one, at));
        scores[at].dominated_by = better.map(|one| rows[*one].recipe.clone()).collect();
    }
    scores
}

fn alone(row: &Row, origin: &Origin) -> Score {
    let (fetched, origin_bytes) = row.outcomes.fetched();
    let known = recipe::ALL.iter().find(|recipe| recipe.name == row.recipe);
    Score {
        recipe: row.recipe.clone(),
        hit_ratio: row.hit_ratio,
        byte_hit_ratio: row.byte_hit_ratio,
        device_read_seconds: row.device_read_seconds,
        device_write_seconds: row.device_write_seconds,
        origin_bytes,
        bytes_written: row.device_bytes_written,
        bytes_programmed: row.bytes_programmed,
        service_seconds: row.seconds + fetched as f64 * origin.delay + origin_bytes as f64 / origin.bandwidth,
        dominated_by: Vec::new(),
        unlike: known.map_or("", |recipe| recipe.unlike),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::pipeline::Outcomes;
    use crate::results::tests::row;

    fn with(recipe: &str, hit_ratio: f64, seconds: Option<f64>) -> Row {
        let device_write_seconds = seconds.map(|_| 10.0);
        Row { hit_ratio, device_read_seconds: seconds, device_write_seconds, ..row(recipe, 100.0) }
    }

    #[test]
    fn the_front_is_what_nobody_dominates() {
        let rows = [
            with("cyclic-log", 0.30, Some(5.0)),
            with("cosm", 0.40, Some(20.0)),
            with("stream", 0.35, Some(20.0)),
            with("squid", 0.25, Some(90.0)),
            with("buddy", 0.40, Some(20.0)),
            with("nginx", 0.50, None),
        ];
        let scores = scores(&rows, &Origin::default());
        let by = |nth: usize| scores[nth].dominated_by.join(" ");
        assert_eq!(
            [by(0), by(1), by(4), by(5)],
            [""; 4],
            "alike does not dominate, nor is what nobody counted"
        );
        assert_eq!([by(2), by(3)], ["cosm buddy", "cyclic-log cosm buddy"]);
        let front: Vec<bool> = scores.iter().map(Score::is_on_front).collect();
        assert_eq!(front, [true, true, false, false, true, false]);
    }

    #[test]
    fn a_miss_costs_the_origins_time() {
        let outcomes = Outcomes {
            gets: 100,
            bytes: 5_000_000,
            memory_hits: 30,
            disk_hits: 20,
            hit_bytes: 1_000_000,
            ..Outcomes::default()
        };
        let row = Row { seconds: 7.0, outcomes, ..row("cosm", 1.0) };
        let score = &scores(&[row], &Origin { delay: 0.5, bandwidth: 1e6 })[0];
        assert_eq!((score.origin_bytes, score.service_seconds), (4_000_000, 7.0 + 25.0 + 4.0));
        assert!(!score.unlike.is_empty());
    }
}
