//! What hit ratio other policies and other sizes would have, said of a live load: each is simulated in small.
//!
//! Objects are sampled by a hash of their keys, with all of their requests, and the caches are as much smaller as the sample (SHARDS;
//! `sample` has the papers). Each size has a sample of its own (`scale`), as large as its share of the memory allows. What is old
//! counts less and less.
//!
//! A worker tells of requests through a `Teller` of its own: one comparison, and for those in a sample a place in a bounded buffer.
//! What finds no place is dropped and counted. Somebody else applies what was told, now and then.

mod scale;
mod sums;

use crate::mix::mix;
use crate::replacement::{ALL, Policy};
use scale::Scale;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that all of it takes at most.
pub const MEMORY: u64 = 16 << 20;

/// Of these the buffers.
const BUFFERS: u64 = 2 << 20;
/// Requests that wait of a worker, at most.
const WAITING: u64 = 4096;
/// Bytes for an object, and for each policy beside it, at most: of arrays that doubled as they grew.
const OBJECT: u64 = 48;
const OBJECT_OF_POLICY: u64 = 72;
/// Sizes, in eighths of the cache's own.
const EIGHTHS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// After so many milliseconds what was counted counts half: a day.
const HALF_LIFE: f64 = 86_400_000.0;

/// A request for an object that a cache may store. Hashes are as good as random.
#[derive(Clone, Copy, Debug)]
struct Request {
    hash: u64,
    size: u64,
    /// It is not what it was before.
    changed: bool,
}

/// What the cache itself had for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Hit,
    Nothing,
    /// What it had is replaced: no cache could answer with that.
    Old,
}

/// One for all workers.
pub struct Shadow {
    sampling: Arc<Sampling>,
    tellers: Vec<Arc<Teller>>,
    caches: Mutex<Caches>,
}

/// What a worker looks at for each request.
struct Sampling {
    /// Who chooses keys does not know who is in the samples.
    secret: u64,
    /// Hashes below it are in one.
    below: AtomicU64,
}

/// One worker's.
pub struct Teller {
    sampling: Arc<Sampling>,
    counts: [AtomicU64; COUNTS],
    waiting: Mutex<Vec<Request>>,
    most: usize,
}

/// What a worker counts.
const REQUESTS: usize = 0;
const BYTES: usize = 1;
const HITS: usize = 2;
const HIT_BYTES: usize = 3;
const SAMPLED: usize = 4;
const DROPPED: usize = 5;
const COUNTS: usize = 6;

struct Caches {
    scales: Vec<Scale>,
    /// Of the cache itself: its counts as they fade.
    own: [f64; COUNTS],
    /// Up to where they were applied.
    seen: [u64; COUNTS],
    /// What a teller gets for what waits there.
    spare: Vec<Request>,
    began: u64,
    now: u64,
}

/// What is known now. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct View {
    /// Bytes of the cache itself.
    pub size: u64,
    pub since: u64,
    /// Requests that count, those long ago less.
    pub requests: f64,
    /// Of the cache itself.
    pub ratios: Option<Ratios>,
    /// Sampled requests that found no place, ever.
    pub dropped: u64,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    pub hits: f64,
    pub bytes: f64,
}

/// A policy and a size.
#[derive(Clone, Debug)]
pub struct Point {
    pub policy: &'static str,
    /// Bytes.
    pub size: u64,
    pub ratios: Option<Ratios>,
    /// Sampled requests that count, and the share of the objects that is in the sample.
    pub sampled: f64,
    pub rate: f64,
    /// When counting began: when the cache was full, or with all if it is not yet.
    pub since: u64,
    pub full: bool,
}

/// The policies of these names, `all` being all that a cache could have.
pub fn named(names: &[String]) -> Result<Vec<Policy>, String> {
    let possible: Vec<Policy> = ALL.into_iter().filter(|policy| !policy.foresees).collect();
    let mut named = crate::lookup::rows_named(names, &possible, |policy| policy.name, "replacement policy")?;
    let mut seen = Vec::new();
    named.retain(|policy| {
        !seen.contains(&policy.name) && {
            seen.push(policy.name);
            true
        }
    });
    Ok(named)
}

impl Shadow {
    /// Beside a cache of so many bytes. `secret` is a random number.
    pub fn new(policies: &[Policy], size: u64, workers: usize, secret: u64, now: u64) -> Shadow {
        let sampling = Arc::new(Sampling { secret, below: AtomicU64::new(u64::MAX) });
        let room = BUFFERS / size_of::<Request>() as u64 / (workers as u64 + 1);
        let most = room.min(WAITING) as usize;
        let teller = || Teller {
            sampling: sampling.clone(),
            counts: Default::default(),
            waiting: Mutex::new(Vec::with_capacity(most)),
            most,
        };
        let objects = objects(policies.len());
        let scale = |eighths: &u64| {
            let size = (u128::from(size) * u128::from(*eighths) / 8).min(u64::MAX.into()) as u64;
            Scale::new(policies, size, objects, now)
        };
        let (own, seen) = Default::default();
        let (scales, spare) = (EIGHTHS.iter().map(scale).collect(), Vec::with_capacity(most));
        let caches = Mutex::new(Caches { scales, own, seen, spare, began: now, now });
        Shadow { tellers: (0..workers).map(|_| Arc::new(teller())).collect(), sampling, caches }
    }

    pub fn teller(&self, worker: usize) -> Arc<Teller> {
        self.tellers[worker].clone()
    }

    /// Takes what was told up to now.
    pub fn apply(&self, now: u64) {
        let caches = &mut *lock(&self.caches);
        let below = caches.apply(&self.tellers, now);
        self.sampling.below.store(below, Relaxed);
    }

    /// The same, and says what is known then.
    pub fn view(&self, now: u64) -> View {
        self.apply(now);
        lock(&self.caches).view()
    }
}

/// Objects of each size's sample: with one more, arrays are of a power of two.
fn objects(policies: usize) -> usize {
    let each = OBJECT + OBJECT_OF_POLICY * policies as u64;
    let room = (MEMORY - BUFFERS) / EIGHTHS.len() as u64 / each;
    (1 << room.max(1).ilog2()) - 1
}

impl Teller {
    /// Tells of a request for an object of this key and of so many bytes. True when there is so much to apply that it should be done.
    pub fn tell(&self, key: u64, size: u64, found: Found) -> bool {
        self.add(REQUESTS, 1);
        self.add(BYTES, size);
        if found == Found::Hit {
            self.add(HITS, 1);
            self.add(HIT_BYTES, size);
        }
        let hash = mix(key ^ self.sampling.secret);
        if hash >= self.sampling.below.load(Relaxed) {
            return false;
        }
        self.sampled(Request { hash, size: size.max(1), changed: found == Found::Old })
    }

    fn sampled(&self, request: Request) -> bool {
        self.add(SAMPLED, 1);
        let waiting = &mut *lock(&self.waiting);
        if waiting.len() >= self.most {
            self.add(DROPPED, 1);
            return false;
        }
        waiting.push(request);
        waiting.len() == self.most.div_ceil(2)
    }

    /// Nobody else adds.
    fn add(&self, count: usize, by: u64) {
        let count = &self.counts[count];
        count.store(count.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

impl Caches {
    /// Says which hashes are sampled from now on.
    fn apply(&mut self, tellers: &[Arc<Teller>], now: u64) -> u64 {
        let counts: [u64; COUNTS] =
            std::array::from_fn(|n| tellers.iter().map(|teller| teller.counts[n].load(Relaxed)).sum());
        let new: [f64; COUNTS] = std::array::from_fn(|n| counts[n].wrapping_sub(self.seen[n]) as f64);
        let faded = 0.5f64.powf(now.saturating_sub(self.now) as f64 / HALF_LIFE);
        (self.seen, self.now) = (counts, now);
        for (own, new) in self.own.iter_mut().zip(new) {
            *own = *own * faded + new;
        }
        self.scales.iter_mut().flat_map(|scale| &mut scale.caches).for_each(|cache| cache.sums.fade(faded));
        for teller in tellers {
            std::mem::swap(&mut *lock(&teller.waiting), &mut self.spare);
            for request in self.spare.drain(..) {
                let samples = self.scales.iter_mut().filter(|scale| request.hash < scale.below);
                samples.for_each(|scale| scale.ask(&request));
            }
        }
        // What was dropped is as if it had not been.
        let kept = 1.0 - new[DROPPED] / new[SAMPLED].max(1.0);
        self.scales.iter_mut().for_each(|scale| scale.settle(new[REQUESTS] * kept, now));
        self.scales.iter().map(|scale| scale.below).max().unwrap_or(0)
    }

    fn view(&self) -> View {
        let own = self.own;
        let ratios = (own[REQUESTS] > 0.0)
            .then(|| Ratios { hits: own[HITS] / own[REQUESTS], bytes: own[HIT_BYTES] / own[BYTES].max(1.0) });
        let (policies, sizes) = (self.scales.first().map_or(0, |scale| scale.caches.len()), &self.scales);
        let point = |policy: usize, scale: &Scale| {
            let (cache, rate) = (&scale.caches[policy], scale.rate());
            Point {
                policy: cache.policy,
                size: scale.size,
                ratios: cache.sums.hit_ratios(rate).map(|(hits, bytes)| Ratios { hits, bytes }),
                sampled: cache.sums.sampled,
                rate,
                since: cache.since,
                full: cache.full,
            }
        };
        let points = (0..policies).flat_map(|policy| sizes.iter().map(move |scale| (policy, scale)));
        View {
            size: sizes
                .iter()
                .zip(EIGHTHS)
                .find(|(_, eighths)| *eighths == 8)
                .map_or(0, |(scale, _)| scale.size),
            since: self.began,
            requests: own[REQUESTS],
            ratios,
            dropped: self.seen[DROPPED],
            points: points.map(|(policy, scale)| point(policy, scale)).collect(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
