//! The scrub beside clients: flipped bits are found in the set time, and what clients that read from the disk feel of it.

use super::Request;
use super::bed::{Bed, Proxy, until};
use super::report::{Report, summed};
use crate::body::mix;
use crate::figures::median;
use crate::load::{self, Among, Offer, Offered, Order, offer};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const OBJECT: u64 = 20_000;
const RISES: f64 = 1.10;
/// One of them is not now.
const NOT_NOW: [&str; 2] = ["03:00-04:00", "15:00-16:00"];
/// The proxy looks at the clock every five seconds.
const TAKES_EFFECT: Duration = Duration::from_secs(20);
/// A record: its magic, lengths of key, metadata and body, and where the key begins (docs/format.md).
const MAGIC: &[u8] = b"cREC\x01";
const KEY: usize = 64;
const ALIGNED: u64 = 64;

struct Scale {
    bytes: u64,
    minutes: u64,
    /// In which all has to be found.
    within: Duration,
    pairs: u32,
    window: Duration,
    flips: usize,
    /// Requests a second.
    rate: f64,
}

pub fn run(bed: &Bed, request: &Request, report: &mut Report) -> Result<(), String> {
    let scale = match request.quick {
        true => Scale {
            bytes: 96 << 20,
            minutes: 1,
            // A busy machine is given time.
            within: Duration::from_secs(150),
            pairs: 0,
            window: Duration::from_secs(1),
            flips: 200,
            rate: 50.0,
        },
        false => Scale {
            bytes: (request.size * f64::from(1 << 30)) as u64,
            minutes: request.minutes,
            within: Duration::from_secs(60 * request.minutes),
            pairs: request.pairs,
            window: Duration::from_secs(8),
            flips: 1_000,
            rate: 500.0,
        },
    };
    let cache = bed.folder.join("cache");
    let settings = bed.folder.join("settings");
    let clock = Clock { settings: &settings };
    clock.write(NOT_NOW[0])?;
    let options = [
        ("--cache", cache.display().to_string()),
        ("--cache-size", format!("{}MiB", scale.bytes >> 20)),
        ("--scrub", format!("{}min", scale.minutes)),
        ("--config", settings.display().to_string()),
    ];
    let options: Vec<String> = options.into_iter().flat_map(|(name, value)| [name.into(), value]).collect();
    let proxy = bed.start(&[], &options)?;
    clock.stop(&proxy)?;
    // Two thirds, with what a record has beside its body.
    let objects = scale.bytes * 2 / 3 / (OBJECT + 600);
    let filled = load::run(&proxy.plan(OBJECT, Order::Once(0..objects)))?;
    filled.fault().map_or(Ok(()), Err)?;
    proxy.settle()?;
    report.say(format!(
        "{objects} objects of {OBJECT} bytes in {:.2} GiB; a scrub of {} min; {} requests a second from the disk",
        scale.bytes as f64 / f64::from(1 << 30),
        scale.minutes,
        scale.rate
    ));
    let all: Vec<u64> = (0..objects).collect();
    if scale.pairs > 0 {
        windows(&proxy, &clock, &scale, &all, report)?;
    }
    let victims = flip(&cache, proxy.store("filled")?, scale.flips)?;
    let sound = all.into_iter().filter(|number| !victims.contains(number)).collect();
    find(&proxy, &clock, &scale, sound, victims.len() as u64, report)
}

/// Says when the scrub may read.
struct Clock<'a> {
    settings: &'a Path,
}

impl Clock<'_> {
    fn write(&self, off_peak: &str) -> Result<(), String> {
        let say = |e: std::io::Error| format!("{}: {e}", self.settings.display());
        fs::write(self.settings, format!("off-peak = \"{off_peak}\"\n")).map_err(say)
    }

    fn go(&self, proxy: &Proxy) -> Result<(), String> {
        self.set(proxy, "any", 1)
    }

    fn stop(&self, proxy: &Proxy) -> Result<(), String> {
        self.set(proxy, NOT_NOW[0], 0).or_else(|_| self.set(proxy, NOT_NOW[1], 0))
    }

    fn set(&self, proxy: &Proxy, off_peak: &str, is: u64) -> Result<(), String> {
        self.write(off_peak)?;
        proxy.server.reload()?;
        until("off-peak hours", TAKES_EFFECT, || Ok(proxy.store("off-peak")? == is)).map(|_| ())
    }
}

fn windows(
    proxy: &Proxy,
    clock: &Clock<'_>,
    scale: &Scale,
    numbers: &[u64],
    report: &mut Report,
) -> Result<(), String> {
    let mut ratios = [Vec::new(), Vec::new()];
    // What the first requests open and allocate is nobody's.
    served(proxy, numbers, 0, scale)?;
    eprintln!("windows begin");
    for pair in 0..scale.pairs {
        let mut took = [[0.0; 2]; 2];
        let mut hits = f64::INFINITY;
        let before = [proxy.store("scrub-bytes")?, proxy.store("scrub-yields")?];
        // Whoever is first in one pair is last in the next.
        let first = pair % 2 == 0;
        for with in [first, !first] {
            if with {
                clock.go(proxy)?
            } else {
                clock.stop(proxy)?
            }
            let offered = served(proxy, numbers, pair.into(), scale)?;
            hits = hits.min(offered.hit_share());
            took[usize::from(with)] = [0.5, 0.99].map(|share| offered.hits.value_at_quantile(share) as f64);
        }
        let [bytes, yields] =
            [proxy.store("scrub-bytes")? - before[0], proxy.store("scrub-yields")? - before[1]];
        let [[p50, p99], [p50_with, p99_with]] = took;
        report.say(format!(
            "p50 {p50} us without, {p50_with} with; p99 {p99} without, {p99_with} with; {} MiB scrubbed, {yields} waits; {:.1} % hits",
            bytes >> 20,
            100.0 * hits
        ));
        ratios[0].push(p50_with / p50);
        ratios[1].push(p99_with / p99);
    }
    eprintln!("windows end");
    let [p50, p99] = &ratios;
    let rises = median(p99.iter().copied()).unwrap_or(f64::NAN);
    report.say(format!("with the scrub over without: p50 {}, p99 {}", summed(p50, 3), summed(p99, 3)));
    report.judge(
        rises <= RISES,
        format!("p99 is {rises:.3} times as long, by the median of {} pairs", scale.pairs),
    );
    Ok(())
}

/// An open loop for so long; every request has to be answered well. Where others keep the disk busy, some are fetched.
fn served(proxy: &Proxy, numbers: &[u64], seed: u64, scale: &Scale) -> Result<Offered, String> {
    let plan = Offer {
        target: proxy.target(),
        rate: scale.rate,
        ramp: Duration::from_millis(300),
        lasts: scale.window,
        patience: Duration::from_secs(20),
        open: 1_000,
        check_every: 16,
        awake: Duration::MAX,
    };
    let offered = offer(&plan, &mut Among::new(OBJECT, numbers.to_vec(), seed), || Ok(()))?;
    let (wrong, refused, lost) = (offered.wrong, offered.refused, offered.lost);
    if wrong + refused + lost > 0 {
        return Err(format!("{wrong} wrong, {refused} refused, {lost} lost of {}", offered.asked));
    }
    Ok(offered)
}

/// Flips one bit each of records here and there, as a medium would: the numbers of the objects.
fn flip(cache: &Path, filled: u64, flips: usize) -> Result<BTreeSet<u64>, String> {
    let say = |e: std::io::Error| format!("{}: {e}", cache.display());
    let file = File::options().read(true).write(true).open(cache).map_err(say)?;
    let mut victims = BTreeSet::new();
    let mut bytes = vec![0; 96 << 10];
    // The first segments, but not the last ones: one is open still.
    let (from, to) = (1 << 20, filled.saturating_sub(8 << 20));
    let mut luck = 7u64;
    let mut draw = |below: u64| {
        luck = mix(luck);
        luck % below
    };
    while victims.len() < flips {
        let start = (from + draw(to - from)) / ALIGNED * ALIGNED;
        file.read_exact_at(&mut bytes, start).map_err(say)?;
        let Some((at, length, number)) = record(&bytes) else { continue };
        if !victims.insert(number) {
            continue;
        }
        let (byte, bit) = (start + at as u64 + draw(length as u64), draw(8));
        let mut one = [0];
        file.read_exact_at(&mut one, byte).map_err(say)?;
        file.write_all_at(&[one[0] ^ (1 << bit)], byte).map_err(say)?;
    }
    file.sync_all().map_err(say)?;
    Ok(victims)
}

/// The first object's record in these bytes: where it begins, how long it is, and which object it is of.
fn record(bytes: &[u8]) -> Option<(usize, usize, u64)> {
    let places = (0..bytes.len() - 1024).step_by(ALIGNED as usize);
    places.filter(|at| bytes[*at..].starts_with(MAGIC)).find_map(|at| {
        let field = |n: usize| Some(u32::from_le_bytes(bytes[at + n..at + n + 4].try_into().ok()?) as usize);
        let (key, meta, body) = (field(8)?, field(12)?, field(16)?);
        let text = String::from_utf8_lossy(bytes.get(at + KEY..at + KEY + key)?).into_owned();
        let number = text.split(&format!("/s/{OBJECT}/")).nth(1)?;
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        Some((at, KEY + key + meta + body, digits.parse().ok()?))
    })
}

/// Waits for what was flipped, while clients ask for what was not.
fn find(
    proxy: &Proxy,
    clock: &Clock<'_>,
    scale: &Scale,
    sound: Vec<u64>,
    flips: u64,
    report: &mut Report,
) -> Result<(), String> {
    let (before, began, over) = (proxy.store("scrub-bytes")?, Instant::now(), AtomicBool::new(false));
    clock.go(proxy)?;
    let (took, asked) = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                asked += served(proxy, &sound, asked, scale)?.asked;
            }
            Ok::<u64, String>(asked)
        });
        // What was found is judged below, also where it is too little.
        let _ = until("flipped bits", scale.within, || {
            Ok(clients.is_finished() || proxy.store("scrub-damaged")? >= flips)
        });
        let took = began.elapsed();
        over.store(true, Ordering::Relaxed);
        let asked = clients.join().map_err(|_| "the clients' thread ended in a panic".to_owned())??;
        Ok::<_, String>((took, asked))
    })?;
    let (damaged, read) = (proxy.store("scrub-damaged")?, proxy.store("scrub-bytes")? - before);
    let seconds = took.as_secs_f64();
    report.say(format!(
        "{damaged} of {flips} flipped bits found in {seconds:.0} s and {} MiB; {asked} requests meanwhile, none with an error",
        read >> 20
    ));
    report.judge(damaged == flips, format!("all are found in {} s", scale.within.as_secs()));
    let (tables, unreadable) = (proxy.store("scrub-tables")?, proxy.store("scrub-unreadable")?);
    report.judge(tables + unreadable == 0, "nothing else is taken for damaged");
    Ok(())
}
