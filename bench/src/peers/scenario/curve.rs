//! What a contender did at each offered rate, and which of them it held.

use super::super::measured::Moment;
use super::foxy::ORIGIN_DELAY;
use crate::load::Offered;
use serde::Serialize;

/// Mean response time, in origin delays, from which a cache is worse than none.
const BROKEN_MEAN: f64 = 1.1;
/// Of the offered requests, answered while they were offered.
const BROKEN_THROUGHPUT: f64 = 0.9;
/// Of the offered requests, answered otherwise than with 200 or not at all.
const BROKEN_FAILED: f64 = 0.01;

/// One contender's way through the rates.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub scenario: &'static str,
    pub contender: &'static str,
    pub points: Vec<Point>,
    /// No figure was to be had at a rate: what it sustains is not known.
    pub cut_short: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub offered_per_second: f64,
    /// Answered while the load lasted.
    pub throughput_per_second: f64,
    pub mean_seconds: f64,
    /// A request that waited for another's fetch is a hit, too; the median tells what others took.
    pub hit_seconds: f64,
    pub hit_median_seconds: f64,
    pub miss_seconds: f64,
    pub hit_share: f64,
    pub origin_bytes_per_second: f64,
    pub device_reads_per_second: f64,
    pub device_writes_per_second: f64,
    pub core: f64,
    pub load_core: f64,
    /// Why the contender did not hold this rate.
    pub broke: Option<String>,
}

impl Curve {
    /// The highest rate that it held, and all below.
    pub fn sustained(&self) -> Option<f64> {
        let held = self.points.iter().take_while(|point| point.broke.is_none());
        let known = !self.cut_short && !self.points.is_empty();
        known.then(|| held.last().map_or(0.0, |point| point.offered_per_second))
    }
}

impl Point {
    /// Both moments: when what counts began and ended.
    pub fn of(rate: f64, offered: &Offered, before: &Moment, after: &Moment) -> Point {
        let seconds = (after.at - before.at).as_secs_f64();
        let device = after.device.zip(before.device).map(|(after, before)| after - before);
        let device = device.unwrap_or_default();
        let asked = after.asked.since(before.asked);
        let mut point = Point {
            offered_per_second: rate,
            throughput_per_second: offered.in_time as f64 / seconds,
            mean_seconds: offered.mean(),
            hit_seconds: offered.hit_mean(),
            hit_median_seconds: offered.hit_median(),
            miss_seconds: offered.miss_mean(),
            hit_share: offered.hit_share(),
            origin_bytes_per_second: asked.bytes as f64 / seconds,
            device_reads_per_second: device.reads as f64 / seconds,
            device_writes_per_second: device.writes as f64 / seconds,
            core: (after.process - before.process).cpu_seconds() / seconds,
            load_core: (offered.load_busy_seconds + asked.busy_seconds) / seconds,
            broke: None,
        };
        let failed = (offered.refused + offered.lost) as f64 / offered.asked as f64;
        point.broke = point.verdict(failed);
        point
    }

    fn verdict(&self, failed: f64) -> Option<String> {
        if failed > BROKEN_FAILED {
            Some(format!("{:.1} % of the requests were not answered", 100.0 * failed))
        } else if self.mean_seconds > BROKEN_MEAN * ORIGIN_DELAY.as_secs_f64() {
            Some(format!("mean response {:.2} s", self.mean_seconds))
        } else if self.throughput_per_second < BROKEN_THROUGHPUT * self.offered_per_second {
            Some(format!("{:.0} requests/s answered", self.throughput_per_second))
        } else {
            None
        }
    }

    pub fn line(&self) -> String {
        format!(
            "{:>6.0}/s offered  {:>6.0}/s  mean {:.3} s  hits {:>4.1} % in {:>6.1} ms  misses {:.3} s  origin {:>5.0} \
             KB/s  reads {:.0}/s  writes {:.0}/s  core {:.2}  load's core {:.2}  {}",
            self.offered_per_second,
            self.throughput_per_second,
            self.mean_seconds,
            100.0 * self.hit_share,
            1e3 * self.hit_seconds,
            self.miss_seconds,
            self.origin_bytes_per_second / 1e3,
            self.device_reads_per_second,
            self.device_writes_per_second,
            self.core,
            self.load_core,
            self.broke.as_deref().unwrap_or("")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(offered: f64, throughput: f64, mean: f64) -> Point {
        Point {
            offered_per_second: offered,
            throughput_per_second: throughput,
            mean_seconds: mean,
            hit_seconds: 0.01,
            hit_median_seconds: 0.01,
            miss_seconds: 1.0,
            hit_share: 0.4,
            origin_bytes_per_second: 0.0,
            device_reads_per_second: 0.0,
            device_writes_per_second: 0.0,
            core: 0.1,
            load_core: 0.1,
            broke: None,
        }
    }

    #[test]
    fn a_rate_is_held_or_not() {
        assert_eq!(point(100.0, 97.0, 0.62).verdict(0.0), None);
        assert!(point(100.0, 97.0, 1.2).verdict(0.0).is_some());
        assert!(point(100.0, 80.0, 0.62).verdict(0.0).is_some());
        assert!(point(100.0, 97.0, 0.62).verdict(0.02).is_some());
    }

    #[test]
    fn sustained_is_the_last_rate_before_the_break() {
        let broken = Point { broke: Some("late".into()), ..point(300.0, 100.0, 3.0) };
        let points = vec![point(100.0, 99.0, 0.6), point(200.0, 199.0, 0.7), broken.clone()];
        let curve = |points| Curve { scenario: "", contender: "", points, cut_short: false };
        assert_eq!(curve(points).sustained(), Some(200.0));
        assert_eq!(curve(vec![broken]).sustained(), Some(0.0));
        assert_eq!(curve(Vec::new()).sustained(), None);
    }
}
