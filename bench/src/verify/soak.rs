//! Half of the load that can be served, for an hour, while things happen: purges, reloads, a disk of two that fails and comes back. What
//! may not grow is looked at again and again, and every body is compared.

use super::Request;
use super::bed::{Bed, Proxy, number, until};
use super::fault::{self, Fault};
use super::report::Report;
use super::watch::{Sample, Seen, TOLD, Watch};
use crate::figures::{median, slope};
use crate::load::{self, Offer, Offered, Order, Plan, Wishes, Workload, offer};
use crate::{admin, usage};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Of one of the two caches.
const CACHE: u64 = 256 * MIB;
const TOTAL: u64 = 384;

/// Nine of ten requests are for what was asked for before, the more so the older it is, of this size on average.
const REPEATS: f64 = 0.9;
const MEAN: f64 = 16_384.0;

/// What is purged: asked for by nobody else.
const PURGED: u64 = 20;
const OF_PURGED: u64 = 4_000;
const FIRST_PURGED: u64 = 1 << 40;

/// What was under way when a load ended is told of.
const SETTLES: Duration = Duration::from_secs(2);

/// Fewer than a listener's queue holds (4,096). The handshake of a connection beyond it is finished only when the client's kernel sends
/// something again, up to half a minute after the client has given up: the server would then see a request that breaks off.
const OPEN: usize = 4_000;

/// Until a disk is left, and until it is taken back: docs/settings.md.
const LEFT: Duration = Duration::from_secs(15);
const BACK: Duration = Duration::from_secs(90);

struct Scale {
    lasts: Duration,
    /// Objects that are there before.
    known: u64,
    measured: Duration,
    /// Rounds of that length before the one that counts: at first all that is asked for is stored, and little later on.
    before: u32,
    /// Of what can be served.
    share: f64,
    sample: Duration,
    /// Between purges and reloads, and between the ends and the beginnings of a disk's failures.
    beat: Duration,
    fails: Duration,
    /// MiB that may be resident more at the end.
    growth: f64,
    /// Descriptors and connections, which follow what the machine does meanwhile; fewer than there are reloads.
    more: f64,
    /// Bytes lent.
    lent: f64,
}

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let mut scale = match request.quick {
        true => Scale {
            lasts: Duration::from_secs(30),
            known: 4_000,
            measured: Duration::from_secs(1),
            before: 0,
            // What a second shows is not what a disk keeps up.
            share: 0.1,
            sample: Duration::from_millis(500),
            beat: Duration::from_secs(2),
            fails: Duration::from_secs(60),
            growth: 32.0,
            more: 500.0,
            lent: 16e6,
        },
        false => Scale {
            lasts: Duration::from_secs(3600),
            known: 30_000,
            measured: Duration::from_secs(30),
            before: 3,
            share: 0.5,
            sample: Duration::from_secs(5),
            beat: Duration::from_secs(20),
            fails: Duration::from_secs(240),
            growth: 12.0,
            more: 50.0,
            lent: 1e6,
        },
    };
    scale.lasts = request.lasts.unwrap_or(scale.lasts);
    let mut fault = chosen(bed, request.quick, report);
    let (good, bad) = (bed.folder.join("good").display().to_string(), fault.path().display().to_string());
    let (settings, log) = (bed.folder.join("settings"), bed.folder.join("errors"));
    let told = |path: &Path| path.display().to_string();
    let (size, total) = (format!("{}MiB", CACHE / MIB), format!("{TOTAL}MiB"));
    write(&settings, 0)?;
    let options = [
        ["--cache", &good],
        ["--cache", &bad],
        ["--cache-size", &size],
        ["--memory", "32MiB"],
        ["--memory-total", &total],
        ["--config", &told(&settings)],
        ["--error-log", &told(&log)],
    ];
    let options = options.concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let proxy = bed.start(&fault.groups(), &options)?;

    let mut workload = Workload::of_foxy(1);
    (workload.repeats, workload.mean_size, workload.known) = (REPEATS, MEAN, scale.known);
    let whose = workload.clone();
    let plan = |order, lasts| Plan { workload: Some(whose.clone()), lasts, ..proxy.plan(0, order) };
    sound(&load::run(&plan(Order::Once(0..scale.known), None))?)?;
    proxy.settle()?;
    for _ in 0..scale.before {
        one_after_another(&plan, &mut workload, scale.measured)?;
    }
    let most = one_after_another(&plan, &mut workload, scale.measured)?;
    // As they will come: one that comes by itself costs more, to both sides, than one that comes with others.
    let too_many = served(&proxy, &mut workload, most, scale.measured)?;
    sound_offered(&too_many)?;
    let most = too_many.in_time as f64 / scale.measured.as_secs_f64();
    let rate = request.rate.unwrap_or(most * scale.share);
    report.say(format!(
        "{most:.0} requests a second can be served, {rate:.0} are asked for, as they come, for {:.0} min; {} objects of {} KiB on average at first, \
         and one request of ten for another; two caches of {size}, memory of {total}",
        scale.lasts.as_secs_f64() / 60.0,
        scale.known,
        MEAN / 1024.0
    ));
    report.say(format!(
        "now and then {PURGED} objects are purged, the settings read again; and of one disk of two {}",
        fault.name()
    ));
    report.say("");

    // Of those who gave up while too much was asked for, the last may be told of a little later.
    sleep(SETTLES);
    let before = faults(&proxy)?;
    let watch = Watch::begin(&proxy, scale.sample);
    let over = AtomicBool::new(false);
    let (offered, happened) = std::thread::scope(|scope| {
        let events = scope.spawn(|| happen(&proxy, fault.as_mut(), &scale, &settings, &over));
        let offered = served(&proxy, &mut workload, rate, scale.lasts);
        over.store(true, Relaxed);
        let happened = events
            .join()
            .unwrap_or_else(|_| Err("the thread that has things happen ended in a panic".into()));
        (offered, happened)
    });
    let (seen, offered) = (watch.end()?, offered?);
    tell(&seen, report);
    match &happened {
        Ok(times) => report.judge(
            times.failures > 0,
            format!(
                "{} purges of {PURGED} objects held, {} reloads; the disk failed {} times, was left and came back each time, {:.1} s after it \
                 worked at most; alive and ready all the time",
                times.purges,
                times.reloads,
                times.failures,
                times.longest.as_secs_f64()
            ),
        ),
        Err(why) => report.judge(false, why),
    }
    judge_answers(&proxy, &offered, &before, report)?;
    judge_growth(&scale, &seen, report);
    let most = usage::most_resident(proxy.server.pid())?;
    report.judge(most < TOTAL * MIB, format!("{} MiB were resident at most, of {TOTAL} MiB", most / MIB));
    proxy.server.stop()?;
    judge_log(&log, &bad, report)
}

fn sound_offered(offered: &Offered) -> Result<(), String> {
    match offered.wrong + offered.refused {
        0 => Ok(()),
        bad => Err(format!(
            "{bad} of the answers were wrong or refused when more was asked for than can be served"
        )),
    }
}

/// Requests a second on each connection as soon as the one before is answered, of the mix that goes on as it will: a miss costs more
/// than a hit.
fn one_after_another(
    plan: &impl Fn(Order, Option<Duration>) -> Plan,
    workload: &mut Workload,
    measured: Duration,
) -> Result<f64, String> {
    let mut ahead = workload.clone();
    // More than can be asked for in this time.
    let mix = (0..measured.as_secs() * 100_000).map(|_| ahead.next().number).collect();
    let outcome = load::run(&plan(Order::Listed(mix), Some(measured)))?;
    sound(&outcome)?;
    (0..outcome.requests).for_each(|_| _ = workload.next());
    Ok(outcome.per_second())
}

/// A device that hangs, where that can be had; in a smoke a file that is cut off.
fn chosen(bed: &Bed, quick: bool, report: &mut Report) -> Box<dyn Fault> {
    let cut = || fault::cut(&bed.folder, CACHE);
    if quick {
        return cut();
    }
    fault::hangs(&bed.folder, CACHE).unwrap_or_else(|why| {
        report.say(format!("without a device that hangs, which this machine cannot have: {why}"));
        cut()
    })
}

/// What was done, and went well.
#[derive(Default)]
struct Times {
    purges: u64,
    reloads: u64,
    failures: u64,
    /// Until the disk was back.
    longest: Duration,
}

fn happen(
    proxy: &Proxy,
    fault: &mut dyn Fault,
    scale: &Scale,
    settings: &Path,
    over: &AtomicBool,
) -> Result<Times, String> {
    let (began, mut times, mut next) = (Instant::now(), Times::default(), Duration::ZERO);
    let needed = scale.fails / 2;
    while !over.load(Relaxed) {
        purge(proxy)?;
        times.purges += 1;
        times.reloads += 1;
        write(settings, times.reloads)?;
        proxy.server.reload()?;
        state(proxy, "")?;
        if began.elapsed() >= next && (times.failures == 0 || began.elapsed() + needed < scale.lasts) {
            times.longest = times.longest.max(fail(proxy, fault, scale)?);
            times.failures += 1;
            next = began.elapsed() + scale.fails;
        }
        let until = Instant::now() + scale.beat;
        while !over.load(Relaxed) && Instant::now() < until {
            sleep(Duration::from_millis(100));
        }
    }
    Ok(times)
}

/// The disk fails, is left, and comes back; says how long that took after it worked.
fn fail(proxy: &Proxy, fault: &mut dyn Fault, scale: &Scale) -> Result<Duration, String> {
    fault.prepare(CACHE)?;
    fault.strike()?;
    let mut meanwhile = || {
        until("the disk to be left", LEFT, || {
            fault.go_on()?;
            Ok(proxy.store("disks-left")? == 1)
        })?;
        state(proxy, "1 of 2 disks are left")?;
        purge(proxy)?;
        sleep(scale.beat);
        state(proxy, "1 of 2 disks are left")
    };
    let came = meanwhile();
    fault.end()?;
    came?;
    until("the disk to serve again", BACK, || Ok(proxy.store("disks-left")? == 0))
}

/// It is alive, ready, and says this beside.
fn state(proxy: &Proxy, beside: &str) -> Result<(), String> {
    let (alive, ready) = (admin::state(proxy.admin, "/healthz")?, admin::state(proxy.admin, "/readyz")?);
    let is_true = alive.0 == 200 && ready.0 == 200 && ready.1.contains(beside);
    is_true.then_some(()).ok_or_else(|| format!("/healthz: {alive:?}, /readyz: {ready:?}, not \"{beside}\""))
}

/// What was purged answers no more.
fn purge(proxy: &Proxy) -> Result<(), String> {
    let numbers = FIRST_PURGED..FIRST_PURGED + PURGED;
    let plan = Plan {
        order: Order::Once(numbers.clone()),
        connections: 4,
        check_every: 1,
        ..proxy.plan(OF_PURGED, Order::Once(0..0))
    };
    sound(&load::run(&plan)?)?;
    numbers.clone().try_for_each(|number| proxy.purge(OF_PURGED, number))?;
    let after = load::run(&plan)?;
    sound(&after)?;
    match after.hits {
        0 => Ok(()),
        hits => Err(format!("{hits} of {PURGED} objects answered after they were purged")),
    }
}

fn sound(outcome: &load::Outcome) -> Result<(), String> {
    outcome.fault().map_or(Ok(()), Err)
}

/// Settings that differ from those before.
fn write(settings: &Path, nth: u64) -> Result<(), String> {
    let text = format!("client-idle-timeout {}s\n", 60 + nth % 2);
    fs::write(settings, text).map_err(|e| format!("{}: {e}", settings.display()))
}

fn served(proxy: &Proxy, workload: &mut Workload, rate: f64, lasts: Duration) -> Result<Offered, String> {
    let plan = Offer {
        target: proxy.target(),
        rate,
        ramp: Duration::ZERO,
        lasts,
        patience: Duration::from_secs(30),
        open: OPEN,
        check_every: 1,
        awake: Duration::ZERO,
    };
    offer(&plan, workload, || Ok(()))
}

/// A row for each tenth of the time.
fn tell(seen: &Seen, report: &mut Report) {
    report.say("    min    MiB descriptors threads  open  heads origins   disk  reads writes  keys");
    let step = (seen.samples.len() / 10).max(1);
    for sample in seen.samples.iter().step_by(step) {
        let number = |name| sample.number(name);
        report.say(format!(
            "{:>7.1}{:>7.1}{:>12}{:>8}{:>6}{:>7}{:>8}{:>7}{:>7}{:>7}{:>6}",
            sample.at.as_secs_f64() / 60.0,
            sample.resident as f64 / MIB as f64,
            sample.descriptors,
            sample.threads,
            number("connections.open"),
            number("budget.heads-used"),
            number("budget.origins-used"),
            number("budget.disk-used"),
            number("store.waiting-reads"),
            number("store.waiting-writes"),
            number("store.remembered"),
        ));
    }
    report.say("");
}

/// `before`: `faults` before it began.
fn judge_answers(
    proxy: &Proxy,
    offered: &Offered,
    before: &[u64],
    report: &mut Report,
) -> Result<(), String> {
    let mut all = offered.hits.clone();
    // Both have the same bounds.
    let _ = all.add(&offered.misses);
    let at = |share: f64| all.value_at_quantile(share) as f64 / 1e3;
    report.say(format!(
        "{} requests, {:.1} % hits; p50 {:.1}, p99 {:.1}, most {:.0} ms",
        offered.asked,
        100.0 * offered.hit_share(),
        at(0.5),
        at(0.99),
        all.max() as f64 / 1e3
    ));
    let Offered { wrong, refused, lost, .. } = offered;
    report.judge(
        wrong + refused + lost == 0,
        format!("{wrong} of the answers were wrong, {refused} refused, {lost} lost; each was compared"),
    );
    for ((section, name), (now, then)) in FAULTS.into_iter().zip(faults(proxy)?.into_iter().zip(before)) {
        let by_plan =
            if *then > 0 { format!(", and {then} while too much was asked for") } else { String::new() };
        report.judge(now == *then, format!("{section}.{name}: {}{by_plan}", now - then));
    }
    Ok(())
}

/// What is counted of responses and connections that did not go well.
const FAULTS: [(&str, &str); 5] = [
    ("responses", "5xx"),
    ("responses", "broken-off"),
    ("origin", "failed"),
    ("connections", "made-way"),
    ("access-log", "lost"),
];

fn faults(proxy: &Proxy) -> Result<Vec<u64>, String> {
    let stats = proxy.stats()?;
    FAULTS.iter().map(|(section, name)| number(&stats[section], name)).collect()
}

/// Parts of the time, each longer than the disk fails in it: what rises only while it fails is not their median.
const PARTS: usize = 16;

/// Of what may not grow, by the slope of the medians of the last three quarters' parts.
fn judge_growth(scale: &Scale, seen: &Seen, report: &mut Report) {
    let parts = seen.samples.chunks(seen.samples.len().div_ceil(PARTS).max(1));
    let parts: Vec<&[Sample]> = parts.skip(PARTS / 4).collect();
    let mut judge = |name: &str, of: &dyn Fn(&Sample) -> f64, allowed: f64| {
        let middle =
            |of: &dyn Fn(&Sample) -> f64, part: &[Sample]| median(part.iter().map(of)).unwrap_or(f64::NAN);
        let at = |sample: &Sample| sample.at.as_secs_f64();
        let points: Vec<(f64, f64)> =
            parts.iter().map(|part| (middle(&at, part), middle(of, part))).collect();
        let lasted = points.last().zip(points.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        let grows = slope(&points).unwrap_or(f64::NAN) * lasted;
        let middle = median(points.iter().map(|point| point.1)).unwrap_or(f64::NAN);
        report.judge(
            grows <= allowed,
            format!("{name}: {middle:.1} by the median, {grows:+.1} by the slope of the last three quarters ({allowed} allowed)"),
        );
    };
    judge("resident, MiB", &|sample| sample.resident as f64 / MIB as f64, scale.growth);
    judge("descriptors", &|sample| sample.descriptors as f64, scale.more);
    judge("threads", &|sample| sample.threads as f64, 8.0);
    for name in TOLD.into_iter().filter(|name| *name != "store.index-bytes" && *name != "store.remembered") {
        let allowed =
            if name.starts_with("budget") || name.starts_with("memory") { scale.lent } else { scale.more };
        judge(name, &|sample| sample.number(name) as f64, allowed);
    }
}

/// Warnings and errors are about the disk that failed.
fn judge_log(log: &Path, bad: &str, report: &mut Report) -> Result<(), String> {
    let text = fs::read_to_string(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let is_event =
        |line: &&str| line.split(' ').nth(1).is_some_and(|level| level == "warn" || level == "error");
    let (own, others): (Vec<&str>, Vec<&str>) =
        text.lines().filter(is_event).partition(|line| line.contains(bad));
    let first = others.first().map_or(String::new(), |line| format!(": {line}"));
    report.judge(
        others.is_empty(),
        format!(
            "{} warnings and errors in the log are of the disk that failed, {} of something else{first}",
            own.len(),
            others.len()
        ),
    );
    Ok(())
}
