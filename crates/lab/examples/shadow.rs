//! How far `--shadow` is off: each trace, at each size, beside the same policies in full.
//!
//!     cargo run --release -p lab --example shadow -- SIZE POLICIES TRACE...
//!
//! SIZE is the cache's, in MiB. TRACE is a file, or the name of a synthetic workload, with `:REQUESTS` behind it if not all. In
//! full, too, what counts begins when the cache is full.

use lab::input::{From, Input};
use policy::mix::mix;
use policy::replacement::{Left, Policy};
use policy::shadow::{Found, Point, Shadow, named};
use std::collections::HashMap;
use trace::{Access, Requests, synthetic};

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1);
    let mut word = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let size: u64 = word("SIZE")?.parse().map_err(|_| "SIZE is in MiB")?;
    let policies: Vec<String> = word("POLICIES")?.split(',').map(str::to_owned).collect();
    let policies = named(&policies)?;
    println!("trace  policy  size (MiB)  hits in full  off  of bytes in full  off  rate");
    for trace in words {
        let load = load(&trace)?;
        let shadow = Shadow::new(&policies, size << 20, 1, 0x5eed, 0);
        let teller = shadow.teller(0);
        for (object, size) in &load {
            if teller.tell(mix(*object), *size, Found::Nothing) {
                shadow.apply(0);
            }
        }
        let (mut off, mut most) = (0.0, 0.0f64);
        let points = shadow.view(0).points;
        for point in &points {
            let policy = policies.iter().find(|policy| policy.name == point.policy).ok_or("a policy")?;
            let error = compare(&trace, policy, point, &load);
            (off, most) = (off + error, most.max(error));
        }
        println!("{trace}: mean {:.4}, most {most:.4}, {} requests", off / points.len() as f64, load.len());
    }
    Ok(())
}

/// What a cache could answer, of a file or a synthetic workload.
fn load(trace: &str) -> Result<Vec<(u64, u64)>, String> {
    let (name, requests) = match trace.split_once(':') {
        Some((name, requests)) => (name, Some(requests.parse().map_err(|_| "REQUESTS is a number")?)),
        None => (trace, None),
    };
    let from = match synthetic::named(name) {
        Ok(like) => From::Synthetic { like, seed: 1 },
        Err(_) => From::File { path: name.into(), format: None, strict: false },
    };
    let mut reading = Input { from, requests, largest: None }.open()?;
    let (mut load, mut access) = (Vec::new(), Access::default());
    while reading.next(&mut access)? {
        if access.unusable().is_none() {
            load.push((access.object, access.size));
        }
    }
    Ok(load)
}

/// Prints a line; by how much the hit ratio is off.
fn compare(trace: &str, policy: &Policy, point: &Point, load: &[(u64, u64)]) -> f64 {
    let (hits, bytes) = in_full(policy, point.size, load);
    let (size, rate) = (point.size as f64 / (1 << 20) as f64, point.rate);
    let Some(found) = point.ratios else {
        println!("{trace}  {}  {size}  {hits:.4}  nothing counted", point.policy);
        return 0.0;
    };
    let off = found.hits - hits;
    println!(
        "{trace}  {}  {size}  {hits:.4}  {off:+.4}  {bytes:.4}  {:+.4}  {rate:.5}",
        point.policy,
        found.bytes - bytes
    );
    off.abs()
}

/// Shares of requests and of bytes that hit, since the cache was full.
fn in_full(policy: &Policy, size: u64, load: &[(u64, u64)]) -> (f64, f64) {
    let (mut cache, mut overflows) = ((policy.new)(size), false);
    let mut objects: HashMap<u64, (u32, u64)> = HashMap::new();
    let (mut requests, mut bytes, mut hits, mut hit_bytes) = (0.0, 0.0, 0.0, 0.0);
    for (object, size) in load.iter().copied() {
        let next = objects.len() as u32;
        let (number, before) = *objects.entry(object).or_insert((next, size));
        objects.insert(object, (number, size));
        let here = cache.get(number);
        let hit = here && before == size;
        if here && !hit {
            cache.remove(number);
        }
        let was_full = overflows;
        if !hit && size <= cache.largest() {
            cache.insert(number, size, &mut |left| overflows |= matches!(left, Left::Cache(_)));
        }
        if overflows && !was_full {
            (requests, bytes, hits, hit_bytes) = (0.0, 0.0, 0.0, 0.0);
        }
        (requests, bytes) = (requests + 1.0, bytes + size as f64);
        if hit {
            (hits, hit_bytes) = (hits + 1.0, hit_bytes + size as f64);
        }
    }
    (hits / f64::max(requests, 1.0), hit_bytes / f64::max(bytes, 1.0))
}
