//! Upgrades under load: requests at a rate that leaves room, slow downloads, WebSockets, and clients that come anew each time. Once
//! all hits are read from the disk; once there is a memory tier, which each new process fills anew.

mod chain;
mod guests;

use self::chain::Chain;
use self::guests::Guests;
use super::Request;
use super::bed::{Bed, Proxy};
use super::report::{Report, summed};
use crate::figures::thousands;
use crate::load::{self, Among, Offer, Offered, Order, Plan, offer};
use std::thread::sleep;
use std::time::{Duration, Instant};

const OBJECT: u64 = 4 << 10;
const OBJECTS: u64 = 10_000;
/// Of what one worker answers at most, and at most so many requests a second.
const SHARE: f64 = 0.6;
const RATE: f64 = 10_000.0;
/// Between two hits, beyond what there is without upgrades.
const PAUSE: Duration = Duration::from_millis(250);

struct Scale {
    /// Of the memory tier: a run each.
    memory: &'static [&'static str],
    upgrades: u32,
    /// From one upgrade to the next.
    apart: Duration,
    /// How long the highest rate is looked for.
    saturates: Duration,
    /// Without upgrades.
    calm: Duration,
    /// Not where the machine has other work.
    judges_pauses: bool,
}

const WHOLE: Scale = Scale {
    memory: &["0", "256MiB"],
    upgrades: 20,
    apart: Duration::from_secs(3),
    saturates: Duration::from_secs(5),
    calm: Duration::from_secs(40),
    judges_pauses: true,
};
const QUICK: Scale = Scale {
    memory: &["0"],
    upgrades: 2,
    apart: Duration::from_millis(1_500),
    saturates: Duration::from_secs(1),
    calm: Duration::from_secs(2),
    judges_pauses: false,
};

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let scale = if request.quick { &QUICK } else { &WHOLE };
    scale.memory.iter().try_for_each(|memory| upgrades(bed, scale, memory, report))
}

fn upgrades(bed: &Bed, scale: &Scale, memory: &str, report: &mut Report) -> Result<(), String> {
    let at = |name: &str| bed.folder.join(format!("{memory}-{name}")).display().to_string();
    let (pid_file, log) = (at("pid"), at("errors"));
    let options = [
        ["--cache", &at("cache")],
        ["--cache-size", "512MiB"],
        ["--memory", memory],
        // A device that others use is no matter of upgrades.
        ["--disk-patience", "20s"],
        ["--pid-file", &pid_file],
        ["--error-log", &log],
    ];
    let proxy = bed.start_forward(&options.concat().into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    let chain = Chain::of(proxy.server.pid(), pid_file.into(), log.into());
    let filled = load::run(&proxy.plan(OBJECT, Order::Once(0..OBJECTS)))?;
    filled.fault().map_or(Ok(()), Err)?;
    // A burst may be more than is taken.
    let again = load::run(&proxy.plan(OBJECT, Order::Once(0..OBJECTS)))?;
    again.fault().map_or(Ok(()), Err)?;
    proxy.settle()?;
    let most = Plan { lasts: Some(scale.saturates), ..proxy.plan(OBJECT, Order::Random(0..OBJECTS, 1)) };
    let most = load::run(&most)?;
    most.fault().map_or(Ok(()), Err)?;
    let rate = RATE.min(SHARE * most.per_second());
    let guests = Guests::invite(proxy.target())?;
    report.say(format!(
        "{} objects of {OBJECT} bytes, {}; one worker, and the process that takes over, on one core; load, origin and guests on the other",
        thousands(OBJECTS as f64),
        if memory == "0" { "all read from the disk".into() } else { format!("with a memory tier of {memory}") }
    ));
    report.say(format!(
        "at most {} requests a second; offered: {} ({:.0} %); beside them {guests}",
        thousands(most.per_second()),
        thousands(rate),
        100.0 * rate / most.per_second()
    ));
    report.say("");

    let mut wishes = Among::new(OBJECT, (0..OBJECTS).collect(), 2);
    let calm = served(&proxy, &mut wishes, rate, scale.calm)?;
    tell("without upgrades", &calm, report);
    let lasts = scale.apart * (scale.upgrades + 1);
    let (busy, took) = std::thread::scope(|scope| {
        let upgrades = scope.spawn(|| {
            let one = |_| {
                let began = Instant::now();
                let took = chain.upgrade();
                sleep(scale.apart.saturating_sub(began.elapsed()));
                took
            };
            sleep(scale.apart / 2);
            (0..scale.upgrades).map(one).collect::<Result<Vec<Duration>, String>>()
        });
        let busy = served(&proxy, &mut wishes, rate, lasts);
        let took = upgrades.join().map_err(|_| "the upgrading thread ended in a panic".to_owned())?;
        Ok::<_, String>((busy?, took?))
    })?;
    tell(&format!("{} upgrades", scale.upgrades), &busy, report);
    let took: Vec<f64> = took.iter().map(|took| took.as_secs_f64() * 1e3).collect();
    report.say(format!("an upgrade takes {} ms, from the signal to the line that says so", summed(&took, 0)));
    let said = guests.leave();
    report.say(format!("guests: {said}"));
    report.say("");

    let errors = busy.wrong + busy.refused + busy.lost + busy.again;
    report.judge(errors == 0, format!("{errors} requests failed or had to be asked again"));
    report.judge(said.wrong.is_empty(), format!("{} guests saw a fault", said.wrong.len()));
    said.wrong.iter().take(5).for_each(|why| report.say(format!("  {why}")));
    let misses = busy.misses.len();
    report.judge(misses == 0, format!("{misses} requests for what is stored were no hits"));
    let (pause, without) = (busy.longest_pause, calm.longest_pause);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let told =
        format!("hits pause for {:.1} ms at most, without upgrades for {:.1} ms", ms(pause), ms(without));
    match scale.judges_pauses {
        true => report
            .judge(pause <= without + PAUSE, format!("{told}; {} ms more are allowed", PAUSE.as_millis())),
        false => report.say(format!("not judged: {told}")),
    }
    let left = chain.end()?;
    report.judge(left == 0, format!("{left} processes stayed that had nothing more to do"));
    report.say("");
    Ok(())
}

fn served(proxy: &Proxy, wishes: &mut Among, rate: f64, lasts: Duration) -> Result<Offered, String> {
    let plan = Offer {
        target: proxy.target(),
        rate,
        ramp: Duration::from_millis(200),
        lasts,
        patience: Duration::from_secs(30),
        open: 20_000,
        awake: Duration::MAX,
        check_every: 16,
    };
    offer(&plan, wishes, || Ok(()))
}

fn tell(when: &str, told: &Offered, report: &mut Report) {
    let at = |share: f64| told.hits.value_at_quantile(share) as f64 / 1e3;
    report.say(format!(
        "{when:<17} {} requests, {} hits; p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.1} ms, most {:.1} ms; longest pause in hits {:.1} ms; {} \
         wrong, {} refused, {} lost, {} asked again",
        thousands(told.asked as f64),
        thousands(told.hits.len() as f64),
        at(0.5),
        at(0.99),
        at(0.999),
        told.hits.max() as f64 / 1e3,
        told.longest_pause.as_secs_f64() * 1e3,
        told.wrong,
        told.refused,
        told.lost,
        told.again
    ));
}
