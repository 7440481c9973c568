//! Against the policies at full size, and what is promised of time, memory and what is lost.

use super::*;
use crate::replacement::Left;
use trace::Access;
use trace::random::{Random, zipf};
use trace::synthetic::{self, Synthetic};

const HOUR: u64 = 3_600_000;

fn policies(names: &str) -> Vec<Policy> {
    named(&names.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap()
}

/// One worker's load, applied as it comes.
fn tell(shadow: &Shadow, now: u64, load: impl Iterator<Item = (u64, u64, Found)>) {
    let teller = shadow.teller(0);
    for (key, size, found) in load {
        if teller.tell(mix(key), size, found) {
            shadow.apply(now);
        }
    }
    shadow.apply(now);
}

/// A full cache of a policy: hits and bytes of hits among requests since it overflowed, in shares.
fn simulated(policy: &Policy, size: u64, load: &[(u64, u64)]) -> Ratios {
    let (mut cache, mut numbers, mut overflows) = ((policy.new)(size), Vec::new(), false);
    let (mut requests, mut bytes, mut hits, mut hit_bytes) = (0.0, 0.0, 0.0, 0.0);
    let mut sizes: std::collections::HashMap<u64, (u32, u64)> = Default::default();
    for (key, size) in load.iter().copied() {
        let next = sizes.len() as u32;
        let (number, before) = sizes.get(&key).copied().unwrap_or((next, size));
        sizes.insert(key, (number, size));
        numbers.push(number);
        let here = cache.get(number);
        let hit = here && before == size;
        if here && !hit {
            cache.remove(number);
        }
        if !hit && size <= cache.largest() {
            cache.insert(number, size, &mut |left| {
                if matches!(left, Left::Cache(_)) && !overflows {
                    overflows = true;
                    (requests, bytes, hits, hit_bytes) = (0.0, 0.0, 0.0, 0.0);
                }
            });
        }
        (requests, bytes) = (requests + 1.0, bytes + size as f64);
        if hit {
            (hits, hit_bytes) = (hits + 1.0, hit_bytes + size as f64);
        }
    }
    Ratios { hits: hits / requests, bytes: hit_bytes / bytes }
}

fn synthetic(name: &str, requests: usize) -> Vec<(u64, u64)> {
    let mut workload = Synthetic::new(synthetic::named(name).unwrap(), 1);
    let mut access = Access::default();
    let usable = std::iter::from_fn(|| {
        workload.next(&mut access);
        Some(access.unusable().is_none().then_some((access.object, access.size)))
    });
    usable.take(requests).flatten().collect()
}

/// As long as all are in the sample it is no estimate: each policy and each size is simulated as it is.
#[test]
fn what_fits_is_simulated_as_it_is() {
    let (mut random, all) = (Random::of(5), policies("all"));
    let load: Vec<(u64, u64)> = (0..20_000)
        .map(|_| (zipf(random.unit(), 700, 0.8), random.below(200)))
        .map(|(key, luck)| (key, 1 + key % 50 + u64::from(luck == 0)))
        .collect();
    let shadow = Shadow::new(&all, 4000, 1, 7, 0);
    // Counting begins with what is applied next, so all of it is applied at once.
    let teller = shadow.teller(0);
    load.iter().for_each(|(key, size)| {
        teller.tell(*key, *size, Found::Nothing);
        shadow.apply(0);
    });
    let view = shadow.view(0);
    assert_eq!((view.size, view.requests, view.dropped), (4000, 20_000.0, 0));
    assert_eq!(view.points.len(), 7 * all.len());
    for (point, nth) in view.points.iter().zip(0..) {
        let Ratios { hits, bytes } = point.ratios.unwrap();
        let whole = simulated(&all[nth / 7], point.size, &load);
        assert_eq!((point.policy, point.size, point.rate), (all[nth / 7].name, 500 << (nth % 7), 1.0));
        let off = (hits - whole.hits).abs().max((bytes - whole.bytes).abs());
        assert!(off < 2e-3, "{} of {}: {hits} for {whole:?}", point.policy, point.size);
    }
}

/// Far more objects than there is room for.
#[test]
fn samples_tell_the_whole() {
    for (name, size) in [("dec", 256 << 20), ("one-hit", 64 << 20)] {
        let load = synthetic(name, 300_000);
        let some = policies("lru,s3-fifo,gdsf,w-tinylfu");
        let shadow = Shadow::new(&some, size, 1, 3, 0);
        tell(&shadow, 0, load.iter().map(|(key, size)| (*key, *size, Found::Nothing)));
        let view = shadow.view(0);
        let (mut sum, mut count) = (0.0, 0.0);
        for (point, nth) in view.points.iter().zip(0..) {
            let whole = simulated(&some[nth / 7], point.size, &load);
            let off = (point.ratios.unwrap().hits - whole.hits).abs();
            println!("{name} {} {} {:.4} {:.4} {:.5}", point.policy, point.size, off, whole.hits, point.rate);
            (sum, count) = (sum + off, count + 1.0);
            assert!(off < 0.05, "{name}: {point:?} for {whole:?}");
        }
        assert!(view.points.iter().any(|point| point.rate < 0.2));
        assert!(sum / count < 0.01, "{name}: {}", sum / count);
    }
}

/// What the cache found is old: nobody could answer.
#[test]
fn what_is_replaced_is_no_hit() {
    let shadow = Shadow::new(&policies("lru"), 1000, 1, 1, 0);
    tell(&shadow, 0, (0..100).map(|nth| (1, 10, if nth % 2 == 0 { Found::Old } else { Found::Hit })));
    let view = shadow.view(0);
    assert!(view.points.iter().all(|point| point.ratios.unwrap() == Ratios { hits: 0.5, bytes: 0.5 }));
    assert_eq!(view.ratios, Some(Ratios { hits: 0.5, bytes: 0.5 }));
}

#[test]
fn what_is_long_ago_counts_less() {
    let shadow = Shadow::new(&policies("lru"), 1 << 20, 1, 1, 0);
    tell(&shadow, 0, (0..20_000).map(|key| (key, 100, Found::Nothing)));
    assert!(shadow.view(0).points[3].ratios.unwrap().hits < 0.001);
    // A week later, what is asked for is asked for twice.
    let later = |_| 24 * 7 * HOUR;
    tell(
        &shadow,
        later(()),
        (0..20_000).map(|nth| (1_000_000 + nth / 2, 100, [Found::Nothing, Found::Hit][nth as usize % 2])),
    );
    let view = shadow.view(later(()));
    let ratios = view.points[3].ratios.unwrap();
    assert!((0.49..0.51).contains(&ratios.hits) && (0.49..0.51).contains(&ratios.bytes), "{ratios:?}");
    assert!((0.49..0.51).contains(&view.ratios.unwrap().hits), "{view:?}");
    // A clock that goes back changes nothing.
    assert_eq!(shadow.view(5).ratios, view.ratios);
}

/// Since when a ratio counts: since the cache was full.
#[test]
fn a_cold_cache_does_not_count_when_it_is_warm() {
    let shadow = Shadow::new(&policies("lru"), 8000, 1, 1, HOUR);
    let round = |now| tell(&shadow, now, (0..20).map(|key| (key, 100, Found::Nothing)));
    round(2 * HOUR);
    let points = shadow.view(2 * HOUR).points;
    // The smallest, of 1,000 bytes, is full; the others are not.
    let (small, others) = points.split_first().unwrap();
    assert_eq!((small.full, small.since, small.ratios), (true, 2 * HOUR, None));
    assert!(others.iter().all(|point| (point.full, point.since) == (false, HOUR)));
    (3..=6).for_each(|hour| round(hour * HOUR));
    let points = shadow.view(6 * HOUR).points;
    assert_eq!(points[0].ratios.unwrap().hits, 0.0);
    assert!((0.75..0.85).contains(&points[3].ratios.unwrap().hits));
}

/// What nobody applies is bounded; what is dropped changes no ratio.
#[test]
fn what_finds_no_place_is_dropped_and_counted() {
    let shadow = Shadow::new(&policies("lru"), 1 << 20, 2, 1, 0);
    let (one, other) = (shadow.teller(0), shadow.teller(1));
    let mut random = Random::of(2);
    let mut nudges = 0;
    for _ in 0..3 * WAITING {
        nudges += u32::from(one.tell(mix(random.below(100)), 100, Found::Hit));
    }
    other.tell(1, 100, Found::Hit);
    let view = shadow.view(0);
    assert_eq!((view.dropped, view.requests, nudges), (2 * WAITING, 3.0 * WAITING as f64 + 1.0, 1));
    let point = &view.points[3];
    assert_eq!(point.sampled, WAITING as f64 + 1.0);
    assert!((0.95..=1.0).contains(&point.ratios.unwrap().hits), "{point:?}");
}

#[test]
fn only_what_a_cache_could_be_is_named() {
    let names = |list: &str| policies(list).iter().map(|policy| policy.name).collect::<Vec<_>>();
    assert_eq!(names("lru,s3-fifo,lru"), ["lru", "s3-fifo"]);
    assert_eq!(names("all").len(), ALL.len() - 1);
    assert!(named(&["belady".to_owned()]).err().unwrap().contains("there is no replacement policy `belady`"));
}
