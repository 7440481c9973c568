//! Foxy's experiment (WebCoSM 4.2, Table 3): robots offer more and more requests to caches whose origin takes a second,
//! until the mean response time breaks. Its figures are 18 to 20: throughput, response time, and what the origin sends.
//! There are as many robots as there are open requests, and one origin stands for the paper's four.

use super::super::contender::Tier;
use super::super::field::Field;
use super::super::figure;
use super::super::measured::Moment;
use super::super::running::{Need, Running};
use super::super::scale::Robots;
use super::curve::{Curve, Point};
use super::{Name, Results, SETTLE, plan, start_all};
use crate::cgroup::device_of;
use crate::load::{self, Offer, Order, Plan, Target, Workload};
use std::thread::sleep;
use std::time::Duration;

pub const ORIGIN_DELAY: Duration = Duration::from_secs(1);
/// A request that the generator sent this late was not offered when it should have been.
const LATE: f64 = 0.25;

struct Series {
    name: &'static str,
    close: bool,
    throttled: bool,
}

const ONCE: Series = Series { name: "Foxy, a connection a request", close: true, throttled: false };
const AGAIN: Series = Series { name: "Foxy, connections used again", close: false, throttled: false };
const SLOW: Series = Series { name: "Foxy, slow disk", close: true, throttled: true };

pub fn once(field: &Field, _wanted: &[Name], results: &mut Results) {
    series(field, &ONCE, &field.scale.foxy, results);
}

pub fn again(field: &Field, _wanted: &[Name], results: &mut Results) {
    series(field, &AGAIN, &field.scale.foxy, results);
}

pub fn throttled(field: &Field, _wanted: &[Name], results: &mut Results) {
    series(field, &SLOW, &field.scale.throttled, results);
}

/// Open requests: three quarters of what a process may open here.
fn most_open() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| limit as usize / 4 * 3)
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
        objects: robots.room,
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
                // What it held stays known when only the load beyond it could not be offered.
                runner.curve.cut_short = runner.holds;
                runner.holds = false;
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
    /// A rate that is not held is offered once more, and then that counts: it may have been the machine. Twice as much
    /// then shows what becomes of the response time.
    fn climb(&mut self, field: &Field, series: &Series, robots: &Robots, rate: f64) -> Result<(), String> {
        let mut found = self.try_rate(field, series, robots, rate);
        if found.as_ref().map_or(true, |point| point.broke.is_some()) {
            sleep(SETTLE);
            found = self.try_rate(field, series, robots, rate);
        }
        let point = found?;
        self.holds = point.broke.is_none();
        self.curve.points.push(point);
        if !self.holds {
            sleep(SETTLE);
            let beyond = self.try_rate(field, series, robots, 2.0 * rate)?;
            self.curve.points.push(beyond);
        }
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
            open: most_open(),
            check_every: 64,
            awake: Duration::MAX,
        };
        let mut moments = Vec::new();
        let running = &self.running;
        let offered = load::offer(&offer, &mut self.workload, || {
            moments.push(Moment::now(field, running)?);
            Ok(())
        })?;
        let [before, after] = &moments[..] else { return Err("the load did not end".into()) };
        if let Some(first) = offered.first_wrong {
            let path = format!("/s/{}/{}", first.size, first.number);
            return Err(format!("{} bodies were wrong at {rate}/s, {path} first", offered.wrong));
        }
        if offered.late_seconds > LATE {
            return Err(format!("the generator could not offer {rate}/s: its own limit"));
        }
        let point = Point::of(rate, &offered, before, after);
        eprintln!("  {:<14} {}", self.curve.contender, point.line());
        Ok(point)
    }
}
