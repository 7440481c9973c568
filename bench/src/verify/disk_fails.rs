//! One of two disks fails under load, and works again: what clients see of it before, meanwhile and after.

use super::Request;
use super::bed::{Bed, Proxy, number, until};
use super::fault::{self, Fault};
use super::report::Report;
use crate::load::{self, Among, Offer, Offered, Order, Plan, offer};
use std::thread::sleep;
use std::time::Duration;

const OBJECT: u64 = 8 << 10;
/// Of one of the two caches.
const CACHE: u64 = 256 << 20;
/// Requests a second, and the share of them that nobody made before, where writes are what fails.
const RATE: f64 = 500.0;
const FRESH: f64 = 0.1;
/// Four times `--disk-patience`, after which a read is given up, and a moment.
const LONGEST: Duration = Duration::from_millis(1_000);
/// Hits may be fewer by so much of the requests.
const FEWER: f64 = 0.05;
/// Until a disk is left, and until it is taken back: docs/settings.md.
const LEFT: Duration = Duration::from_secs(15);
const BACK: Duration = Duration::from_secs(90);

struct Scale {
    objects: u64,
    purged: u64,
    window: Duration,
}

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let scale = match request.quick {
        true => Scale { objects: 4_000, purged: 50, window: Duration::from_secs(2) },
        false => Scale { objects: 20_000, purged: 200, window: Duration::from_secs(10) },
    };
    report.say(format!(
        "{} objects of {OBJECT} bytes on two disks of equal weight; {RATE} requests a second, as they come",
        scale.objects
    ));
    for fault in fault::all(&bed.folder, CACHE) {
        report.say("");
        match fault {
            Ok(mut fault) => one(bed, fault.as_mut(), &scale, report)?,
            Err(why) => report.say(format!("left out, for this machine cannot have it: {why}")),
        }
    }
    Ok(())
}

fn one(bed: &Bed, fault: &mut dyn Fault, scale: &Scale, report: &mut Report) -> Result<(), String> {
    report.say(fault.name());
    let good = bed.folder.join("good");
    let name = fault.path().display().to_string();
    let size = format!("{}MiB", CACHE >> 20);
    let options = ["--cache", &good.display().to_string(), "--cache", &name, "--cache-size", &size];
    let options = options.map(str::to_owned);
    let proxy = bed.start(&[], &options)?;
    let all = scale.objects + scale.purged;
    let filled = load::run(&proxy.plan(OBJECT, Order::Once(0..all)))?;
    filled.fault().map_or(Ok(()), Err)?;
    proxy.settle()?;
    let (share, filled) = (disk(&proxy, &name, "objects")?, disk(&proxy, &name, "filled")?);
    let share = share as f64 / proxy.store("objects")? as f64;
    proxy.server.stop()?;
    fault.prepare(filled)?;
    let proxy = bed.start(&fault.groups(), &options)?;
    until("the index", Duration::from_secs(60), || Ok(proxy.store("parts-left")? == 0))?;

    let mut load = Among::new(OBJECT, (0..scale.objects).collect(), 1);
    load.unknown = all;
    load.fresh = if fault.is_of_writes() { FRESH } else { 0.0 };
    let before = served(&proxy, &mut load, scale.window)?;
    tell("before", &before, report);

    let purges = proxy.plan(OBJECT, Order::Listed((scale.objects..all).collect()));
    let there = load::run(&purges)?;
    if before.hit_share() < 0.8 || there.hits < there.requests {
        let share = 100.0 * before.hit_share();
        return Err(format!("what was stored is not there: {share:.1} % hits, {} to be purged", there.hits));
    }

    fault.strike()?;
    // Struck anyhow, it has to end also where what follows fails.
    let came = meanwhile(&proxy, &mut load, scale);
    fault.end()?;
    let (at_first, then) = came?;
    tell("as it fails", &at_first, report);
    tell("without it", &then, report);
    let back = until("the disk to serve again", BACK, || Ok(proxy.store("disks-left")? == 0))?;
    report.say(format!("it serves again {:.1} s after it works", back.as_secs_f64()));
    let purged = load::run(&Plan { check_every: 1, ..purges })?;
    purged.fault().map_or(Ok(()), Err)?;
    let after = served(&proxy, &mut load, scale.window)?;
    tell("after", &after, report);

    let each = [&before, &at_first, &then, &after];
    let errors: u64 = each.iter().map(|told| told.wrong + told.refused + told.lost).sum();
    report.judge(errors == 0, format!("{errors} errors"));
    let longest = longest(&at_first).max(longest(&then));
    report.judge(
        longest <= LONGEST.as_secs_f64() * 1e3,
        format!(
            "nobody waits longer than {longest:.0} ms while it fails; {} ms are allowed",
            LONGEST.as_millis()
        ),
    );
    let should = before.hit_share() * (1.0 - share);
    report.judge(
        then.hit_share() >= should - FEWER,
        format!(
            "without it {:.1} % are hits, of {:.1} % before; it had {:.1} % of the objects",
            100.0 * then.hit_share(),
            100.0 * before.hit_share(),
            100.0 * share
        ),
    );
    // What was fetched meanwhile is newer than what it has, and has to be asked for once more.
    report.judge(
        after.hit_share() >= f64::midpoint(then.hit_share(), before.hit_share()),
        format!("after it {:.1} % are hits: most of what it has answers", 100.0 * after.hit_share()),
    );
    report.judge(
        purged.hits == 0,
        format!("{} of {} that were purged meanwhile answer after it", purged.hits, scale.purged),
    );
    proxy.server.stop()?;
    std::fs::remove_file(&good).map_err(|e| format!("{}: {e}", good.display()))
}

/// From the moment at which it strikes until the disk is left, and after that, when some are purged.
fn meanwhile(proxy: &Proxy, load: &mut Among, scale: &Scale) -> Result<(Offered, Offered), String> {
    let at_first = served(proxy, load, scale.window)?;
    until("the disk to be left", LEFT, || Ok(proxy.store("disks-left")? == 1))?;
    let first = load.numbers.len() as u64;
    let then = std::thread::scope(|scope| {
        let purges = scope.spawn(move || {
            (first..first + scale.purged).try_for_each(|number| {
                sleep(Duration::from_millis(2));
                proxy.purge(OBJECT, number)
            })
        });
        let then = served(proxy, load, scale.window);
        purges.join().map_err(|_| "the purging thread ended in a panic".to_owned())??;
        then
    })?;
    Ok((at_first, then))
}

fn served(proxy: &Proxy, load: &mut Among, lasts: Duration) -> Result<Offered, String> {
    let plan = Offer {
        target: proxy.target(),
        rate: RATE,
        ramp: Duration::ZERO,
        lasts,
        patience: Duration::from_secs(30),
        open: 20_000,
        check_every: 4,
        awake: Duration::MAX,
    };
    offer(&plan, load, || Ok(()))
}

/// One number of one disk.
fn disk(proxy: &Proxy, name: &str, what: &str) -> Result<u64, String> {
    let stats = proxy.stats()?;
    let disk = stats["disks"].as_array().and_then(|all| all.iter().find(|disk| disk["name"] == *name));
    number(disk.ok_or_else(|| format!("/stats.json has no disk {name}"))?, what)
}

/// Milliseconds.
fn longest(told: &Offered) -> f64 {
    told.hits.max().max(told.misses.max()) as f64 / 1e3
}

fn tell(when: &str, told: &Offered, report: &mut Report) {
    let mut all = told.hits.clone();
    // Both have the same bounds.
    let _ = all.add(&told.misses);
    let at = |share: f64| all.value_at_quantile(share) as f64 / 1e3;
    report.say(format!(
        "  {when:<12} hits {:.1} % of {}; p50 {:.2} ms, p99 {:.1} ms, most {:.0} ms; {} wrong, {} refused, {} lost",
        100.0 * told.hit_share(),
        told.asked,
        at(0.5),
        at(0.99),
        longest(told),
        told.wrong,
        told.refused,
        told.lost
    ));
}
