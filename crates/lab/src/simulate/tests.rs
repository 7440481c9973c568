use super::*;
use crate::input::{From, Input};
use crate::object_cache::ObjectCache;
use policy::replacement::{self, ALL};
use trace::synthetic;

fn input(requests: u64) -> Input {
    let from = From::Synthetic { like: synthetic::named("dec").unwrap(), seed: 3 };
    Input { from, requests: Some(requests), largest: None }
}

fn plan<'a>(policies: &'a [Policy], sizes: &'a [u64]) -> Plan<'a> {
    let size_changes = SizeChanges::default();
    Plan { policies, sizes, warm_up: 0, size_changes, sampling: None, bound: false, threads: 2 }
}

fn run(requests: u64, plan: &Plan) -> Simulated {
    let mut told = 0;
    let mut reading = input(requests).open().unwrap();
    let done = simulate(&mut reading, plan, &|| 0.0, &mut |read| told = read).unwrap();
    assert_eq!((done.requests, told), (requests - plan.warm_up, requests));
    done
}

const SIZES: [u64; 2] = [1 << 20, 64 << 20];

/// What a cache of the pipeline does with the same requests.
#[test]
fn hits_are_those_of_the_replay() {
    let policies: Vec<Policy> = ALL.into_iter().filter(|policy| !policy.foresees).collect();
    for (requests, warm_up) in [(60_000, 0), (30_000, 10_000)] {
        let simulated = run(requests, &Plan { warm_up, ..plan(&policies, &SIZES) });
        for (nth, row) in simulated.rows.iter().enumerate() {
            assert_eq!((row.policy, row.size), (policies[nth / 2].name, SIZES[nth % 2]));
            let mut cache = ObjectCache::new(row.size, policies[nth / 2]);
            let (mut reading, mut access) = (input(requests).open().unwrap(), Access::default());
            let mut hits = 0;
            while reading.next(&mut access).unwrap() {
                if !access.is_cacheable() || access.size == 0 {
                    continue;
                }
                if cache.get(&access).is_some() {
                    hits += u64::from(reading.read > warm_up);
                    continue;
                }
                cache.remove(access.object);
                cache.insert(&access, |_| {});
            }
            assert_eq!(row.hits, hits, "{} of {} bytes", row.policy, row.size);
            assert!(hits > 1_000, "{}: {hits}", row.policy);
        }
    }
}

#[test]
fn threads_change_nothing() {
    let hits = |threads| {
        let plan = Plan { threads, warm_up: 10, bound: true, ..plan(&ALL, &SIZES) };
        run(40_000, &plan).rows.iter().map(|row| row.hits).collect::<Vec<_>>()
    };
    assert_eq!(hits(1), hits(5));
}

struct Few(Vec<Access>);

impl Requests for Few {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        let next = self.0.pop();
        *access = next.clone().unwrap_or_default();
        Ok(next.is_some())
    }
}

fn few(plan: &Plan, requests: &[(u64, u64, u64)]) -> Result<Simulated, String> {
    let one = |(object, size, modified): &(u64, u64, u64)| Access {
        object: *object,
        size: *size,
        modified: *modified,
        ..Access::default()
    };
    simulate(&mut Few(requests.iter().rev().map(one).collect()), plan, &|| 0.0, &mut |_| {})
}

/// A new version is no hit, nor what is too large.
#[test]
fn by_hand() {
    let requests = [(1, 9, 1), (1, 9, 1), (1, 9, 2), (1, 9, 2), (2, 101, 1), (2, 101, 1)];
    let done = few(&Plan { bound: true, ..plan(&ALL, &[100]) }, &requests).unwrap();
    for row in &done.rows {
        assert_eq!((row.hits, row.hit_ratio), (2, 2.0 / 6.0), "{}", row.policy);
        assert!((row.byte_hit_ratio - 18.0 / 238.0).abs() < 1e-9);
        assert_eq!(row.too_large, if row.policy == "bound" { 0 } else { 2 }, "{}", row.policy);
    }
    assert_eq!((done.objects, done.cacheable, done.changed), (2, 6, 1));
}

#[test]
fn a_warm_up_is_not_counted() {
    let requests = [(1, 9, 1), (1, 9, 1), (2, 9, 1), (1, 9, 1), (3, 9, 1), (2, 9, 1)];
    for (warm_up, hits) in [(0, 3), (1, 3), (3, 2), (5, 1)] {
        let done = few(&Plan { warm_up, bound: true, ..plan(&ALL, &[1000]) }, &requests).unwrap();
        assert_eq!(done.requests, 6 - warm_up);
        assert!(done.rows.iter().all(|row| row.hits == hits), "{warm_up}: {:?}", done.rows);
        let ratio = hits as f64 / done.requests as f64;
        assert!(done.rows.iter().all(|row| row.hit_ratio == ratio && row.byte_hit_ratio == ratio));
    }
    for warm_up in [6, 7, 1_000_000] {
        let error = few(&Plan { warm_up, ..plan(&ALL, &[1000]) }, &requests).unwrap_err();
        assert!(error.contains("leaves none"), "{error}");
    }
}

#[test]
fn what_a_change_of_size_means_is_said() {
    let requests = [(1, 1000, 0), (1, 1010, 0), (1, 1200, 0), (1, 1200, 0)];
    let hits = [SizeChanges::Tolerate, SizeChanges::Count, SizeChanges::Ignore].map(|size_changes| {
        let done = few(&Plan { size_changes, ..plan(&ALL[..1], &[10_000]) }, &requests).unwrap();
        (done.rows[0].hits, done.changed)
    });
    assert_eq!(hits, [(2, 1), (1, 2), (3, 0)]);
}

/// No policy exceeds the bound; who knows the future comes near it; and all bytes there are reach it.
#[test]
fn nobody_exceeds_the_bound() {
    let sizes = [1 << 20, 8 << 20, 1 << 40];
    let rows = run(30_000, &Plan { bound: true, warm_up: 1000, ..plan(&ALL, &sizes) }).rows;
    let (rows, bounds) = rows.split_at(rows.len() - sizes.len());
    for (bound, size) in bounds.iter().zip(sizes) {
        let same = || rows.iter().filter(|row| row.size == size && row.policy != "lru-th");
        assert!(same().all(|row| row.hits <= bound.hits), "{bound:?}");
        assert!(same().all(|row| row.byte_hit_ratio <= bound.byte_hit_ratio + 1e-9), "{bound:?}");
        let best = same().map(|row| row.byte_hit_ratio).fold(0.0, f64::max);
        assert!(best > 0.7 * bound.byte_hit_ratio, "{best} of {bound:?}");
    }
    assert_eq!(rows[2].hits, bounds[2].hits, "where nobody has to leave");
}

/// What a workload makes for a sample alone is what a sample takes of all that it makes.
#[test]
fn a_workload_sampled_as_it_is_made_is_one_sampled_afterwards() {
    let policies = replacement::named(&["lru", "s3-fifo"].map(str::to_owned)).unwrap();
    let sampled = Plan { sampling: Sampling::new(0.05, 1), warm_up: 1000, ..plan(&policies, &SIZES) };
    let (mut all, mut reading, mut access) = (Vec::new(), input(60_000).open().unwrap(), Access::default());
    while reading.next(&mut access).unwrap() {
        all.push(access.clone());
    }
    all.reverse();
    let [made, taken] =
        [run(60_000, &sampled), simulate(&mut Few(all), &sampled, &|| 0.0, &mut |_| {}).unwrap()];
    assert_eq!((made.objects, made.changed, made.cacheable), (taken.objects, taken.changed, taken.cacheable));
    let ratios = |done: &Simulated| -> Vec<_> {
        done.rows.iter().map(|row| (row.hits, row.hit_ratio, row.byte_hit_ratio, row.errors)).collect()
    };
    assert_eq!(ratios(&made), ratios(&taken));
}

/// Samples say what the whole trace says, within the error that they tell.
#[test]
fn samples_tell_the_whole_and_their_error() {
    let policies = replacement::named(&["lru", "arc", "gdsf", "s3-fifo"].map(str::to_owned)).unwrap();
    let sizes = [64 << 20];
    let whole = run(200_000, &plan(&policies, &sizes));
    let sampling = Sampling::new(0.05, 1);
    let sampled = run(200_000, &Plan { sampling, bound: true, ..plan(&policies, &sizes) });
    assert_eq!(sampled.cacheable, whole.cacheable);
    let near = |one: u64, other: u64| (one as f64 / other as f64 - 1.0).abs() < 0.05;
    assert!(near(sampled.bytes, whole.bytes), "{} of {}", sampled.bytes, whole.bytes);
    assert!(near(sampled.objects, whole.objects) && near(sampled.changed, whole.changed));
    for (row, of) in sampled.rows.iter().zip(&whole.rows) {
        let ((hits, bytes), off) = (row.errors.unwrap(), (row.hit_ratio - of.hit_ratio).abs());
        assert!((0.0001..0.02).contains(&hits) && bytes > 0.0001, "{}: {hits}, {bytes}", row.policy);
        assert!(off < 3.0 * hits, "{}: {off} off, {hits}", row.policy);
        assert!(row.hits.abs_diff((row.hit_ratio * 200_000.0) as u64) <= 1);
        assert!(row.hit_ratio <= sampled.rows[4].hit_ratio);
    }
    // What the whole cache would take and a sample's does not is said.
    let sampled = run(40_000, &Plan { sampling, ..plan(&policies, &[4 << 20]) });
    let whole = run(40_000, &plan(&policies, &[4 << 20]));
    assert!(sampled.rows.iter().all(|row| row.too_large_for_sample > 0));
    assert!(whole.rows.iter().all(|row| row.too_large_for_sample == 0));
}

/// With objects that change, too, over many choices of the samples: near the whole, and as near as the error says.
#[test]
fn errors_of_samples_are_small_and_cover() {
    let requests = 1_000_000;
    let policies = replacement::named(&["lru", "s3-fifo"].map(str::to_owned)).unwrap();
    let sizes = [256 << 20];
    let whole = run(requests, &plan(&policies, &sizes));
    assert!(whole.changed > requests / 20);
    let (mut squares, mut stated, mut within) = (0.0, 0.0, [0; 2]);
    let rows = (1..=24).flat_map(|seed| {
        let sampling = Sampling::new(0.005, seed);
        let sampled = run(requests, &Plan { sampling, ..plan(&policies, &sizes) });
        sampled.rows.into_iter().zip(&whole.rows)
    });
    for (row, of) in rows {
        let (off, error) = (row.hit_ratio - of.hit_ratio, row.errors.unwrap().0);
        squares += off * off / 48.0;
        stated += error * error / 48.0;
        within[0] += u32::from(off.abs() <= error);
        within[1] += u32::from(off.abs() <= 2.0 * error);
    }
    let (off, said) = (squares.sqrt(), stated.sqrt());
    assert!(off < 0.005 && (0.8..1.25).contains(&(off / said)), "{off} off, {said} said");
    // Of eight samples: 65 and 91 % (Student's distribution).
    assert!((24..=38).contains(&within[0]) && within[1] >= 40, "{within:?} of 48, {off} off, {said} said");
}
