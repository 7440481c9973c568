//! Foxy's experiment (WebCoSM 4.2, Table 3): robots offer more and more requests to caches whose origin takes a second,
//! until the mean response time breaks. Its figures are 18 to 20: throughput, response time, and what the origin sends.

use super::super::cgroup::device_of;
use super::super::contender::Tier;
use super::super::field::Field;
use super::super::figure;
use super::super::measured::Moment;
use super::super::running::{Need, Running};
use super::super::scale::Robots;
use super::{Name, Results, SETTLE, plan, start_all};
use crate::load::{self, Offer, Offered, Order, Plan, Target, Workload};
use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;

const ORIGIN_DELAY: Duration = Duration::from_secs(1);
/// Mean response time, in origin delays, from which a cache is worse than none.
const BROKEN_MEAN: f64 = 1.1;
/// Of the offered requests, answered while they were offered.
const BROKEN_THROUGHPUT: f64 = 0.9;
/// Of the offered requests, answered otherwise than with 200 or not at all.
const BROKEN_FAILED: f64 = 0.01;
/// A request that the generator sent this late was not offered when it should have been.
const LATE: f64 = 0.25;
/// Below what a process may often open.
const OPEN: usize = 15_000;

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

struct Series {
    name: &'static str,
    close: bool,
    throttled: bool,
}

const ONCE: Series = Series { name: "Foxy, a connection a request", close: true, throttled: false };
const AGAIN: Series = Series { name: "Foxy, connections used again", close: false, throttled: false };
const SLOW: Series = Series { name: "Foxy, slow disk", close: true, throttled: true };

pub fn run(field: &Field, _wanted: &[Name], results: &mut Results) {
    series(field, &ONCE, &field.scale.foxy, results);
    series(field, &AGAIN, &field.scale.foxy, results);
}

pub fn throttled(field: &Field, _wanted: &[Name], results: &mut Results) {
    series(field, &SLOW, &field.scale.throttled, results);
}

/// A contender with what its robots know.
struct Runner {
    running: Running,
    workload: Workload,
    curve: Curve,
    holds: bool,
}

fn series(field: &Field, series: &Series, robots: &Robots, results: &mut Results) {
    eprintln!("{}", series.name);
    let need = Need {
        tier: Tier::Disk,
        memory: robots.tier_bytes,
        // The rates bring new objects of their own.
        objects: robots.objects * 4,
        object_bytes: 5120,
        limit: robots.limit_bytes,
    };
    let all = start_all(field, &need, series.name, results);
    let mut runners: Vec<Runner> = Vec::new();
    for running in all {
        let one = running.contender.name;
        match ready(field, running, series, robots) {
            Ok(runner) => runners.push(runner),
            Err(why) => {
                results.take(series.name, one, 0, Err(why));
            }
        }
    }
    for rate in robots.rates {
        for runner in runners.iter_mut().filter(|runner| runner.holds) {
            if let Err(why) = runner.climb(field, series, robots, f64::from(*rate)) {
                results.take(series.name, runner.curve.contender, 0, Err(why));
                (runner.holds, runner.curve.cut_short) = (false, true);
            }
        }
    }
    let _ = field.delay(Duration::ZERO);
    for runner in runners {
        let unbounded = 1_000_000;
        if let Some(device) = device_of(&field.folder).filter(|_| series.throttled) {
            // What still waits for the slow disk would keep its process from ending.
            let _ = runner.running.group.throttle(device, unbounded);
        }
        if let Some(rate) = runner.curve.sustained() {
            let figures = vec![(&figure::SUSTAINED, rate)];
            results.take(series.name, runner.curve.contender, 0, Ok(figures));
        }
        results.curves.push(runner.curve);
    }
}

/// Fills without delay or throttle; then both begin.
fn ready(field: &Field, running: Running, series: &Series, robots: &Robots) -> Result<Runner, String> {
    let mut workload = Workload::of_foxy(1);
    let fill = Plan {
        workload: Some(workload.clone()),
        order: Order::Once(0..robots.objects),
        ..plan(field, &running, 0)
    };
    load::run(&fill)?.fault().map_or(Ok(()), Err)?;
    workload.known = robots.objects;
    sleep(SETTLE);
    // Written, but not forgotten: what the limit of memory leaves in memory is the contender's to use.
    rustix::fs::sync();
    if series.throttled {
        let device = device_of(&field.folder).ok_or("the folder lies on no block device to throttle")?;
        running.group.throttle(device, field.scale.throttle)?;
    }
    let (scenario, contender) = (series.name, running.contender.name);
    let curve = Curve { scenario, contender, points: Vec::new(), cut_short: false };
    Ok(Runner { running, workload, curve, holds: true })
}

impl Runner {
    /// A rate that is not held is offered once more, and then that counts: it may have been the machine.
    fn climb(&mut self, field: &Field, series: &Series, robots: &Robots, rate: f64) -> Result<(), String> {
        let mut found = self.try_rate(field, series, robots, rate);
        if found.as_ref().map_or(true, |point| point.broke.is_some()) {
            sleep(SETTLE);
            found = self.try_rate(field, series, robots, rate);
        }
        let point = found?;
        self.holds = point.broke.is_none();
        self.curve.points.push(point);
        Ok(())
    }

    fn try_rate(
        &mut self,
        field: &Field,
        series: &Series,
        robots: &Robots,
        rate: f64,
    ) -> Result<Point, String> {
        field.delay(ORIGIN_DELAY)?;
        let offer = Offer {
            target: Target { close: series.close, ..self.running.target() },
            rate,
            ramp: Duration::from_secs_f64(robots.ramp_seconds),
            lasts: Duration::from_secs_f64(robots.seconds),
            patience: 10 * ORIGIN_DELAY,
            open: OPEN,
            check_every: 64,
        };
        let mut moments = Vec::new();
        let running = &self.running;
        let offered = load::offer(&offer, &mut self.workload, || {
            moments.push(Moment::now(field, running)?);
            Ok(())
        })?;
        let [before, after] = &moments[..] else { return Err("the load did not end".into()) };
        if offered.wrong > 0 {
            return Err(format!("{} bodies were wrong at {rate}/s", offered.wrong));
        }
        if offered.late_seconds > LATE {
            return Err(format!("the generator could not offer {rate}/s: its own limit"));
        }
        let point = Point::of(rate, &offered, before, after);
        eprintln!("  {:<14} {}", self.curve.contender, point.line());
        Ok(point)
    }
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
    fn of(rate: f64, offered: &Offered, before: &Moment, after: &Moment) -> Point {
        let seconds = (after.at - before.at).as_secs_f64();
        let device = after.device.zip(before.device).map(|(after, before)| after - before);
        let device = device.unwrap_or_default();
        let mut point = Point {
            offered_per_second: rate,
            throughput_per_second: offered.in_time as f64 / seconds,
            mean_seconds: offered.mean(),
            hit_seconds: offered.hit_mean(),
            hit_median_seconds: offered.hit_median(),
            miss_seconds: offered.miss_mean(),
            hit_share: offered.hit_share(),
            origin_bytes_per_second: after.asked.since(before.asked).bytes as f64 / seconds,
            device_reads_per_second: device.reads as f64 / seconds,
            device_writes_per_second: device.writes as f64 / seconds,
            core: (after.process - before.process).cpu_seconds() / seconds,
            load_core: (offered.load_cpu_seconds + after.origin - before.origin) / seconds,
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

    fn line(&self) -> String {
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
