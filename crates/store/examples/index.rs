//! Measures the index: `cargo run --release -p store --example index -- OBJECTS EXPECTED [old] [alone]`, one index a process, since
//! what it takes is read from /proc/self/status. Unless alone, another thread looks up while it grows.

use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::format::Layout;
use store::index::{Index, Slot, WordLayout};

/// A KiB figure of this process.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(name)).expect("listed");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// For how long this thread has run: what others do on the machine is not in it.
fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The longest of many calls, by the clock and on the processor.
struct Longest {
    clock: Duration,
    processor: Duration,
    calls: u64,
    /// At the end of the last call.
    ran: Duration,
}

impl Longest {
    fn new() -> Longest {
        Longest { clock: Duration::ZERO, processor: Duration::ZERO, calls: 0, ran: on_processor() }
    }

    fn call<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.clock = self.clock.max(start.elapsed());
        let ran = on_processor();
        self.processor = self.processor.max(ran - self.ran);
        (self.ran, self.calls) = (ran, self.calls + 1);
        result
    }

    fn other(&mut self) {
        self.ran = on_processor();
    }
}

impl Display for Longest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3?} ({:.3?} on the processor)", self.clock, self.processor)
    }
}

/// Mixed hashes of objects 0, 1, 2, ….
fn hash(n: u64) -> u64 {
    Layout::new(1 << 20, 20, 7).mix(n)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| args.get(n).and_then(|arg| arg.parse::<u64>().ok());
    let objects = number(0).unwrap_or(1_000_000);
    let expected = number(1).unwrap_or(objects);
    let size = expected * 8192;
    let layout = WordLayout::new(size, expected);
    println!("{layout:?}, false matches {:.1e}", layout.false_matches(objects));
    measure("index", &Index::new(layout), objects, size);
}

fn measure(name: &str, index: &Index, objects: u64, size: u64) {
    let before = status("VmRSS");
    let slot = |n: u64| Slot { place: 1 + n * 127 % (size / 64 - 1), length: 8300, uses: 1, again: false };
    let (mut worst, mut inserts) = (BTreeMap::new(), Longest::new());
    let (done, inserted) = (AtomicBool::new(false), AtomicU64::new(0));
    let alone = std::env::args().any(|arg| arg == "alone");
    let growth = Instant::now();
    let finds = std::thread::scope(|scope| {
        let finder = scope.spawn(|| {
            let (mut state, mut finds) = (1u64, Longest::new());
            while !alone && !done.load(Relaxed) {
                let there = inserted.load(Relaxed);
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if there > 0 {
                    let hash = hash((state >> 20) % there);
                    finds.call(|| black_box(index.find(hash)));
                }
            }
            finds
        });
        for n in 0..objects {
            inserts.call(|| index.insert(hash(n), slot(n)));
            inserted.store(n + 1, Relaxed);
            if n % (objects / 2000).max(1) == 0 && n > objects / 100 {
                let resident = (status("VmRSS") - before) as f64 * 1024.0 / (n + 1) as f64;
                let most = worst.entry(n * 10 / objects).or_insert(0f64);
                *most = most.max(resident);
                if n % (objects / 10).max(1) == 0 {
                    eprintln!(
                        "{n}: {resident:.2} bytes an object, longest insert {inserts}, {:?}",
                        growth.elapsed()
                    );
                }
                inserts.other();
            }
        }
        done.store(true, Relaxed);
        finder.join().expect("it ends")
    });
    let growth = growth.elapsed();
    let processor = on_processor().as_nanos() / u128::from(objects);
    let resident = (status("VmRSS") - before) as f64 * 1024.0 / objects as f64;
    println!(
        "{name} {objects}: {:.2} s to grow, {processor} ns of processor an object; longest insert {inserts}, longest of {} finds meanwhile {finds}",
        growth.as_secs_f64(),
        finds.calls,
    );
    println!(
        "  resident bytes an object: {resident:.2} at the end (tables {:.2}, {} entries, large pages {} MiB); most by tenths of growth {}",
        index.bytes() as f64 / objects as f64,
        index.len(),
        large_pages(),
        worst.values().map(|most| format!("{most:.2}")).collect::<Vec<_>>().join(" "),
    );
    let copies = (0..).map_while(|part| {
        let start = Instant::now();
        (part < index.parts()).then(|| {
            index.load(part, [], |_| true);
            start.elapsed()
        })
    });
    let mut copies: Vec<Duration> = copies.collect();
    copies.sort_unstable();
    if let (Some(median), Some(longest)) = (copies.get(copies.len() / 2), copies.last()) {
        println!("  copying one of {} parts: {median:?}, at most {longest:?}", copies.len());
    }
    let probes = objects.min(4_000_000);
    let scattered = |i: u64| i.wrapping_mul(0xd134_2543_de82_ef95) % objects;
    let time = |what: &str, each: &mut dyn FnMut(u64)| {
        let start = on_processor();
        (0..probes).for_each(|i| each(scattered(i)));
        print!("  {what} {:.0} ns", (on_processor() - start).as_nanos() as f64 / probes as f64);
    };
    time("find", &mut |n| assert!(black_box(index.find(hash(n))).is_some() || n < u64::MAX));
    let mut matches = 0;
    time("find nothing", &mut |n| matches += u64::from(index.find(hash(n + objects)).is_some()));
    time("insert over", &mut |n| {
        index.insert(hash(n), slot(n));
    });
    let mut removed = 0;
    time("remove", &mut |n| removed += u64::from(index.remove(hash(n)).is_some()));
    time("insert again", &mut |n| {
        index.insert(hash(n), slot(n));
    });
    // As in a cache that is full: one comes, one goes.
    time("insert and remove", &mut |n| {
        index.remove(hash(n));
        index.insert(hash(n), slot(n));
    });
    println!("; false matches {matches} of {probes}, removed {removed}");
    let (mut most, mut removals) = (0f64, Longest::new());
    for n in 0..objects * 9 / 10 {
        removals.call(|| index.remove(hash(n)));
        if n % (objects / 1000).max(1) == 0 {
            most = most.max((status("VmRSS") - before) as f64 * 1024.0 / (index.len() + 1) as f64);
            removals.other();
        }
    }
    println!("  while nine tenths leave: at most {most:.2} bytes an object, longest removal {removals}",);
}

fn large_pages() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = rollup.lines().find(|line| line.starts_with("AnonHugePages")).unwrap_or("x 0 kB");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) / 1024
}
