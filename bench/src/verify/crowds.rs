//! Thousands of clients that are no good, all at once, under a bound of memory: what others see of it, and what is left of it afterwards.

use super::Request;
use super::bed::{Bed, Proxy, until};
use super::report::Report;
use super::watch::{Sample, Seen, Watch};
use crate::figures::median;
use crate::load::{self, Among, Conduct, Crowd, Offer, Offered, Order, STORED, STORED_COUNT, Tally, offer};
use crate::usage;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// What others ask for, one kind in nine requests of ten: it is in memory or on the disk, and small enough to pass while memory for bodies is
/// used up. The other kind has to wait for its turn then.
struct Kind {
    name: &'static str,
    objects: u64,
    size: u64,
    share: f64,
}

const KINDS: [Kind; 2] = [
    Kind { name: "8 KiB", objects: 4_000, size: 8 << 10, share: 0.9 },
    Kind { name: "200 KiB", objects: 100, size: 200 << 10, share: 0.1 },
];
/// Of these so many that nobody asked for before.
const FRESH: f64 = 0.05;

struct Scale {
    crowd: [(Conduct, usize); 5],
    total: u64,
    rate: f64,
    lasts: Duration,
    /// Before and after.
    window: Duration,
    /// Latency is not judged.
    is_smoke: bool,
}

const WHOLE: Scale = Scale {
    crowd: [
        (Conduct::Idles, 10_000),
        (Conduct::SendsHead, 500),
        (Conduct::SendsContent, 500),
        (Conduct::ReadsNothing, 1_000),
        (Conduct::Herds, 5_000),
    ],
    total: 1_024,
    rate: 200.0,
    lasts: Duration::from_secs(600),
    window: Duration::from_secs(30),
    is_smoke: false,
};
const QUICK: Scale = Scale {
    crowd: [
        (Conduct::Idles, 500),
        (Conduct::SendsHead, 50),
        (Conduct::SendsContent, 50),
        (Conduct::ReadsNothing, 100),
        (Conduct::Herds, 300),
    ],
    total: 256,
    rate: 50.0,
    lasts: Duration::from_secs(25),
    window: Duration::from_secs(3),
    is_smoke: true,
};

/// Of the crowd, so many: who is sent away comes again a moment later.
const THERE: f64 = 0.9;
/// Seconds that others may wait meanwhile: for 99 of 100 small hits, and for what waits for its turn, which is given up after
/// `origin-stall-timeout`: half of that.
const SMALL: f64 = 1.0;
const LONGEST: f64 = 30.0;

/// Descriptors of the program that are not for clients: to origins, files.
const OTHERS: u64 = 2_000;
/// Until all are there, and until all is as before.
const COME: Duration = Duration::from_secs(60);
const BACK: Duration = Duration::from_secs(120);

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let mut scale = if request.quick { QUICK } else { WHOLE };
    scale.lasts = request.lasts.unwrap_or(scale.lasts);
    fit(&mut scale, usage::many_files(), report);
    let all: usize = scale.crowd.iter().map(|(_, count)| count).sum();
    let count = |conduct| scale.crowd.iter().find(|(of, _)| *of == conduct).map_or(0, |(_, count)| *count);
    report.say(format!(
        "{} that idle, {} that send a byte a second of a head and {} of a content, {} that read nothing, {} that ask for one slow URL; \
         beside them {} requests a second, as they come",
        count(Conduct::Idles),
        count(Conduct::SendsHead),
        count(Conduct::SendsContent),
        count(Conduct::ReadsNothing),
        count(Conduct::Herds),
        scale.rate
    ));
    let cache = bed.folder.join("cache").display().to_string();
    let (total, connections) = (format!("{}MiB", scale.total), (all + all / 16).to_string());
    let options = ["--cache", &cache, "--cache-size", "512MiB", "--memory", "32MiB"];
    let bounds = ["--memory-total", &total, "--connections-max", &connections];
    let options: Vec<String> = options.iter().chain(&bounds).map(|word| (*word).to_owned()).collect();
    report.say(options[4..].join(" "));
    report.say("");
    let proxy = bed.start(&[], &options)?;
    let kinds = KINDS.iter().map(|kind| (kind.objects, kind.size));
    for (count, size) in kinds.chain([(STORED_COUNT, STORED)]) {
        let filled = load::run(&proxy.plan(size, Order::Once(0..count)))?;
        filled.fault().map_or(Ok(()), Err)?;
        proxy.settle()?;
    }
    let mut others = others();
    let before = served(&proxy, &scale, &mut others, scale.window)?;
    tell("before", &before, report);
    let look = || Sample::of(proxy.server.pid(), proxy.admin);
    let made_way = |proxy: &Proxy| super::bed::number(&proxy.stats()?["connections"], "made-way");
    let alone = look()?;

    let crowd = Crowd::gather(proxy.target(), &scale.crowd)?;
    let came = until("the crowd to come", COME, || {
        Ok(look()?.number("connections.open") >= (all - all / 50) as u64)
    })?;
    let watch = Watch::begin(&proxy, Duration::from_secs(1));
    let began = Instant::now();
    let meanwhile = served(&proxy, &scale, &mut others, scale.lasts)?;
    let lasted = began.elapsed();
    let seen = watch.end()?;
    let tally = crowd.leave()?;
    let most = usage::most_resident(proxy.server.pid())?;
    tell("meanwhile", &meanwhile, report);
    report.say(format!(
        "  the crowd came in {:.1} s; {} connections opened in {:.0} s, {} closed by the server and opened again, {} failed",
        came.as_secs_f64(),
        tally.opened,
        lasted.as_secs_f64(),
        tally.closed,
        tally.failed
    ));
    report.say(format!("  {} made way for who waited for memory", made_way(&proxy)?));
    describe(&seen, report);

    let is_back = |now: &Sample| {
        let held = [
            "budget.heads-used",
            "budget.origins-used",
            "budget.disk-used",
            "memory.lent",
            "store.waiting-reads",
            "store.waiting-writes",
        ];
        now.number("connections.open") <= 20
            && held.iter().all(|name| now.number(name) == 0)
            && now.descriptors <= alone.descriptors + 20
            && now.threads <= alone.threads + 8
    };
    let back = until("all to come back", BACK, || Ok(is_back(&look()?)));
    let after = served(&proxy, &scale, &mut others, scale.window)?;
    tell("after", &after, report);
    let last = look()?;
    judge(&scale, all, [&before, &meanwhile, &after], &seen, &tally, most, report);
    report.judge(
        back.is_ok(),
        match back {
            Ok(took) => format!(
                "{:.1} s after the crowd left no connection, buffer or descriptor of it is held",
                took.as_secs_f64()
            ),
            Err(_) => format!("{last:?} after {BACK:?}, {alone:?} before"),
        },
    );
    let allowed = alone.resident + scale.total * MIB / 8;
    report.judge(
        last.resident <= allowed,
        format!("{} MiB are resident after it, {} MiB before", last.resident / MIB, alone.resident / MIB),
    );
    proxy.server.stop()
}

/// Fewer where there may be too few open files.
fn fit(scale: &mut Scale, files: u64, report: &mut Report) {
    let all: u64 = scale.crowd.iter().map(|(_, count)| *count as u64).sum();
    let room = files.saturating_sub(OTHERS.min(files / 4));
    if all > room {
        report.say(format!("open files are limited to {files}: the crowds are {room} of {all}"));
        scale.crowd.iter_mut().for_each(|(_, count)| *count = (*count as u64 * room / all) as usize);
    }
}

/// What others ask for, of each kind.
fn others() -> [Among; 2] {
    KINDS.map(|kind| {
        let mut among = Among::new(kind.size, (0..kind.objects).collect(), kind.size);
        (among.fresh, among.unknown) = (FRESH, 1 << 32);
        among
    })
}

/// Each kind by a thread of its own.
fn served(
    proxy: &Proxy,
    scale: &Scale,
    others: &mut [Among; 2],
    lasts: Duration,
) -> Result<Vec<Offered>, String> {
    let plan = |kind: &Kind| Offer {
        target: proxy.target(),
        rate: scale.rate * kind.share,
        ramp: Duration::from_millis(300),
        lasts,
        patience: Duration::from_secs(65),
        open: 2_000,
        check_every: 1,
        awake: Duration::ZERO,
    };
    std::thread::scope(|scope| {
        let each = KINDS.iter().zip(others);
        let threads: Vec<_> =
            each.map(|(kind, among)| scope.spawn(move || offer(&plan(kind), among, || Ok(())))).collect();
        let panicked = |_| Err("a thread that asks ended in a panic".into());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

fn tell(when: &str, told: &[Offered], report: &mut Report) {
    let at = |times: &hdrhistogram::Histogram<u64>| {
        let at = |share: f64| times.value_at_quantile(share) as f64 / 1e3;
        let (half, most) = (at(0.5), times.max() as f64 / 1e3);
        format!("p50 {half:.1}, p99 {:.1}, p99.9 {:.1}, most {most:.0} ms", at(0.99), at(0.999))
    };
    for (kind, told) in KINDS.iter().zip(told) {
        report.say(format!(
            "  {when:<10}{:<8} {} wrong, {} refused, {} lost of {}; {} hits: {}; {} fetched: {}",
            kind.name,
            told.wrong,
            told.refused,
            told.lost,
            told.asked,
            told.hits.len(),
            at(&told.hits),
            told.misses.len(),
            at(&told.misses),
        ));
    }
}

/// What the program had at most, and who had it.
fn describe(seen: &Seen, report: &mut Report) {
    let most = |name: &str| seen.most(|sample| sample.number(name));
    report.say(format!(
        "  at most {} connections, {} to origins, {} descriptors, {} threads; in transit {:.1} MiB of heads, {:.1} from origins, {:.1} from the disk; \
         the kernel had {} MiB for TCP, both ends",
        most("connections.open"),
        most("origin.open"),
        seen.most(|sample| sample.descriptors),
        seen.most(|sample| sample.threads),
        most("budget.heads-used") as f64 / MIB as f64,
        most("budget.origins-used") as f64 / MIB as f64,
        most("budget.disk-used") as f64 / MIB as f64,
        seen.most(|sample| sample.kernel) / MIB,
    ));
    for part in seen.parts.as_array().into_iter().flatten().filter(|part| part["bytes"] != 0) {
        let bytes = |what: &str| part[what].as_f64().map(|bytes| bytes / MIB as f64);
        let (name, of) = (part["name"].as_str().unwrap_or_default(), bytes("bytes").unwrap_or(0.0));
        let taken = bytes("taken").map_or("?".into(), |taken| format!("{taken:.1}"));
        report.say(format!("    {name:<14}{taken:>8} MiB of {of:.1}"));
    }
}

fn judge(
    scale: &Scale,
    all: usize,
    each: [&[Offered]; 3],
    seen: &Seen,
    tally: &Tally,
    most: u64,
    report: &mut Report,
) {
    let bound = scale.total * MIB;
    report.judge(most < bound, format!("{} MiB were resident at most, of {} MiB", most / MIB, scale.total));
    let there =
        median(seen.samples.iter().map(|sample| sample.number("connections.open") as f64)).unwrap_or(0.0);
    report.judge(
        there >= THERE * all as f64,
        format!("{there} of {all} were there, by the median of the seconds"),
    );
    let meanwhile = each[1];
    let each = || each.into_iter().flatten();
    let bad: u64 = each().map(|told| told.wrong + told.refused + told.lost).sum();
    let asked: u64 = each().map(|told| told.asked).sum();
    report.judge(
        bad == 0,
        format!("{bad} of {asked} requests of others were answered wrongly, refused or lost"),
    );
    let small = meanwhile[0].hits.value_at_quantile(0.99) as f64 / 1e6;
    let longest = |told: &Offered| told.hits.max().max(told.misses.max()) as f64 / 1e6;
    let longest = meanwhile.iter().map(longest).fold(0.0, f64::max);
    report.judge(
        scale.is_smoke || (small <= SMALL && longest <= LONGEST),
        format!("of 100 small hits 99 came within {small:.2} s ({SMALL} are allowed), and all of others within {longest:.1} s ({LONGEST})"),
    );
    let (rounds, last) = (tally.rounds.len(), tally.rounds.len().saturating_sub(1));
    // The last one was left in the middle.
    let herd = &tally.rounds[..last];
    let sum = |of: fn(&load::Round) -> u64| herd.iter().map(of).sum::<u64>();
    let longest = herd.iter().map(|round| round.longest).max().unwrap_or_default();
    report.judge(
        rounds > 1 && sum(|round| round.answered) == sum(|round| round.asked) && tally.wrong == 0 && tally.refused == 0,
        format!(
            "{} of {} requests of the herd were answered, {} times by a fetch of their own, in {} rounds, after {:.1} s at most; {} wrong, {} refused",
            sum(|round| round.answered),
            sum(|round| round.asked),
            sum(|round| round.fetched),
            last,
            longest.as_secs_f64(),
            tally.wrong,
            tally.refused
        ),
    );
}
