//! Samples of a trace's objects: SHARDS (Waldspurger, Park, Garthwaite and Ahmad, FAST 2015), by caches made smaller (the same
//! with Saemundsson, Miniature simulations, USENIX ATC 2017), which any policy allows.
//!
//! An object is in a sample if a hash of it is in the sample's range, with all of its requests, and the cache is as much smaller as
//! the sample. Several samples have ranges of their own, so that how much they differ tells the error of their mean.
//!
//! Few popular objects make most of the difference: with them come requests and hits together. So what a sample has more or
//! fewer of requests than its rate corrects its hits. The paper (SHARDS-adj) takes all of that for hits. Any share of it leaves
//! the mean right; the one that leaves the least error is Σnh / Σn² over the objects, with n requests and h hits each, as in any
//! regression on a known total: 1 − 1/n of a popular object that never changes, less of one that does. `Count::nths` sums it without a count for
//! each object and cache. Bytes are counted as the sample has them.

use crate::mix::mix;
use serde::Serialize;

/// Samples at most, and of the objects in all, where there are more than two.
const MOST: f64 = 8.0;
const MOST_OF_ALL: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// Share of the objects that a sample has.
    rate: f64,
    samples: usize,
    /// Of the hash.
    seed: u64,
}

impl Sampling {
    /// From a millionth to a half; at least two samples, at most eight.
    pub fn new(rate: f64, seed: u64) -> Option<Sampling> {
        let samples = (MOST_OF_ALL / rate).clamp(2.0, MOST) as usize;
        (1e-6..=0.5).contains(&rate).then_some(Sampling { rate, samples, seed })
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    pub fn samples(&self) -> usize {
        self.samples
    }
}

/// Which part an object is in: of several samples, or of one that is all.
#[derive(Clone, Copy)]
pub struct Split {
    sampling: Option<Sampling>,
    /// Hashes of a range.
    range: u64,
}

impl Split {
    pub fn of(sampling: Option<Sampling>) -> Split {
        let range = sampling.map_or(u64::MAX, |sampling| (sampling.rate * u64::MAX as f64) as u64);
        Split { sampling, range }
    }

    pub fn samples(&self) -> usize {
        self.sampling.map_or(1, |sampling| sampling.samples)
    }

    pub fn is_sampled(&self) -> bool {
        self.sampling.is_some()
    }

    pub fn part_of(&self, object: u64) -> Option<usize> {
        let Some(Sampling { samples, seed, .. }) = self.sampling else { return Some(0) };
        let part = mix(mix(object) ^ seed) / self.range;
        (part < samples as u64).then_some(part as usize)
    }

    /// Bytes of a sample's cache.
    pub fn scaled(&self, size: u64) -> u64 {
        self.sampling.map_or(size, |sampling| (size as f64 * sampling.rate) as u64)
    }

    /// Requests of the whole trace that so many of all samples stand for.
    pub fn whole(&self, requests: u64) -> u64 {
        let share = self.sampling.map_or(1.0, |sampling| sampling.rate * sampling.samples as f64);
        (requests as f64 / share).round() as u64
    }

    /// What hits and their bytes of a part say of the whole: the share of its requests and of its bytes. `follow` is the share
    /// of hits among requests that a part has too many of.
    pub fn estimate(
        &self,
        (hits, bytes): (u64, u64),
        follow: f64,
        part: &Count,
        whole: &Count,
    ) -> (f64, f64) {
        let of_requests = whole.requests.max(1) as f64;
        let of_bytes = whole.bytes.max(1) as f64;
        let Some(Sampling { rate, .. }) = self.sampling else {
            return (hits as f64 / of_requests, bytes as f64 / of_bytes);
        };
        let (expected, cacheable) = (rate * whole.cacheable as f64, whole.cacheable as f64 / of_requests);
        let adjusted = (hits as f64 - follow * (part.cacheable as f64 - expected)) / expected.max(1.0);
        let share = bytes as f64 / part.cacheable_bytes.max(1) as f64;
        (adjusted.clamp(0.0, 1.0) * cacheable, share * (whole.cacheable_bytes as f64 / of_bytes))
    }
}

/// What there was of requests.
#[derive(Clone, Copy, Default)]
pub struct Count {
    pub requests: u64,
    pub bytes: u64,
    pub cacheable: u64,
    pub cacheable_bytes: u64,
    /// Of the cacheable ones, all together: the how manieth of its object each is.
    pub nths: u64,
}

/// The means of what samples say, and of several their standard errors.
pub fn mean(ratios: &[(f64, f64)]) -> ((f64, f64), Option<(f64, f64)>) {
    let count = ratios.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| ratios.iter().map(of).sum::<f64>() / count;
    let means = (mean(|ratio| ratio.0), mean(|ratio| ratio.1));
    let error = |of: fn(&(f64, f64)) -> f64, mean: f64| {
        let squares: f64 = ratios.iter().map(|ratio| (of(ratio) - mean).powi(2)).sum();
        (squares / (count - 1.0) / count).sqrt()
    };
    let errors =
        (ratios.len() > 1).then(|| (error(|ratio| ratio.0, means.0), error(|ratio| ratio.1, means.1)));
    (means, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_apart_and_of_their_rate() {
        assert!([0.0, 1e-7, 0.6, f64::NAN].into_iter().all(|rate| Sampling::new(rate, 1).is_none()));
        for (rate, samples) in [(0.5, 2), (0.1, 5), (0.01, 8)] {
            let sampling = Sampling::new(rate, 1).unwrap();
            assert_eq!(sampling.samples, samples);
            let split = Split::of(Some(sampling));
            let mut counts = vec![0; samples];
            (0..100_000).filter_map(|object| split.part_of(object)).for_each(|part| counts[part] += 1);
            let fits = |count: &i32| (f64::from(*count) / 1e5 - rate).abs() < 0.1 * rate;
            assert!(counts.iter().all(fits), "{rate}: {counts:?}");
            let other = Split::of(Sampling::new(rate, 2));
            assert!((0..1000).any(|object| split.part_of(object) != other.part_of(object)));
        }
    }

    #[test]
    fn errors_are_of_the_mean() {
        let ((hits, bytes), errors) = mean(&[(0.1, 0.5), (0.3, 0.5)]);
        assert!((hits - 0.2).abs() < 1e-12 && bytes == 0.5);
        let (hits, bytes) = errors.unwrap();
        assert!((hits - 0.1).abs() < 1e-12 && bytes == 0.0);
        assert_eq!(mean(&[(0.1, 0.5)]).1, None);
    }
}
