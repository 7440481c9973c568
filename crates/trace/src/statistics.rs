//! What can be counted of a trace, to be held beside what is published of others.
//!
//! Memory grows with the objects: about 32 bytes each.

use crate::Access;
use std::collections::{HashMap, HashSet};

/// Servers asked last whose locality is counted.
const DEPTHS: usize = 64;
/// Sizes are counted by their logarithm, so many to a doubling.
const STEPS: f64 = 32.0;

#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub requests: u64,
    pub cacheable: u64,
    pub bytes: u64,
    /// Requests, and their bytes, that a cache without bounds would have answered: asked for before and not changed since.
    pub hits: u64,
    pub hit_bytes: u64,
    /// Requests that found something else than the one before.
    pub changed: u64,
    /// Objects that were asked for more than once.
    pub repeated: u64,
    pub first: u64,
    pub last: u64,
    objects: HashMap<u64, Known>,
    servers: HashSet<u64>,
    directories: HashSet<u64>,
    clients: HashSet<u64>,
    /// The one asked last first.
    recent: Vec<u64>,
    /// Requests for the server at each depth of `recent`.
    depths: Vec<u64>,
    sizes: Vec<u64>,
    up_to_8k: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    count: u32,
    modified: u64,
    size: u64,
}

impl Statistics {
    pub fn count(&mut self, access: &Access) {
        if self.requests == 0 {
            self.first = access.time;
        }
        self.last = self.last.max(access.time);
        self.requests += 1;
        self.cacheable += u64::from(access.is_cacheable());
        self.bytes += access.size;
        self.up_to_8k += u64::from(access.size <= 8192);
        let step = (STEPS * (access.size.max(1) as f64).log2()) as usize;
        if self.sizes.len() <= step {
            self.sizes.resize(step + 1, 0);
        }
        self.sizes[step] += 1;
        self.clients.insert(access.client);
        self.servers.insert(access.server);
        self.directories.extend(access.directory);
        self.count_server(access.server);
        let new = Known { count: 0, modified: access.modified, size: access.size };
        let known = self.objects.entry(access.object).or_insert(new);
        self.repeated += u64::from(known.count == 1);
        if known.count > 0 {
            if is_unchanged((known.modified, known.size), (access.modified, access.size)) {
                self.hits += 1;
                self.hit_bytes += access.size;
            } else {
                self.changed += 1;
            }
        }
        *known = Known { count: known.count.saturating_add(1), ..new };
    }

    fn count_server(&mut self, server: u64) {
        self.depths.resize(DEPTHS, 0);
        match self.recent.iter().position(|recent| *recent == server) {
            Some(depth) => {
                self.depths[depth] += 1;
                self.recent[..=depth].rotate_right(1);
            }
            None => {
                self.recent.insert(0, server);
                self.recent.truncate(DEPTHS);
            }
        }
    }

    pub fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    pub fn servers(&self) -> u64 {
        self.servers.len() as u64
    }

    /// 0 where the trace has none.
    pub fn objects_a_directory(&self) -> f64 {
        ratio(self.objects(), self.directories.len() as u64)
    }

    pub fn clients(&self) -> u64 {
        self.clients.len() as u64
    }

    /// Of requests, for a cache without bounds.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.requests)
    }

    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.bytes)
    }

    /// Of the requests for objects that were asked for more than once: those that found something else than the one before.
    pub fn changed_ratio(&self) -> f64 {
        ratio(self.changed, self.requests - (self.objects() - self.repeated))
    }

    /// Of objects, asked for more than once.
    pub fn repeated_ratio(&self) -> f64 {
        ratio(self.repeated, self.objects())
    }

    pub fn mean_size(&self) -> f64 {
        ratio(self.bytes, self.requests)
    }

    /// Bytes that half of the requests' sizes do not exceed, within 2 %.
    pub fn median_size(&self) -> f64 {
        let mut left = self.requests.div_ceil(2);
        let step = self.sizes.iter().position(|count| {
            left = left.saturating_sub(*count);
            left == 0
        });
        step.map_or(0.0, |step| ((step as f64 + 0.5) / STEPS).exp2())
    }

    /// Of requests, to answers of at most 8 KB.
    pub fn share_to_8k(&self) -> f64 {
        ratio(self.up_to_8k, self.requests)
    }

    /// Of requests, to one of the `count` servers asked last (at most 64).
    pub fn server_locality(&self, count: usize) -> f64 {
        ratio(self.depths.iter().take(count).sum(), self.requests)
    }

    /// The exponent of Zipf's law that fits best: a straight line through the logarithms of ranks and counts, at ranks that
    /// grow by a tenth, as far as objects are asked for at least twice.
    pub fn zipf_exponent(&self) -> f64 {
        let mut counts: Vec<u32> = self.objects.values().map(|known| known.count).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut points = Vec::new();
        let mut rank = 1.0_f64;
        while let Some(count) = counts.get(rank as usize - 1).filter(|count| **count > 1) {
            points.push((rank.floor().ln(), f64::from(*count).ln()));
            rank = (rank * 1.1).max(rank + 1.0);
        }
        -slope(&points)
    }
}

/// What another size says of a reply, where Last-Modified does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeChanges {
    /// Up to what heads make (5 % and 16 bytes) nothing; above it is a new version.
    #[default]
    Tolerate,
    /// Each is a new version.
    Count,
    /// Nothing: the name alone counts.
    Ignore,
}

impl SizeChanges {
    pub const ALL: [(&str, SizeChanges, &str); 3] = [
        (
            "tolerate",
            SizeChanges::Tolerate,
            "a new version, a miss, where the size differs by more than 5 % and 16 bytes, as heads differ by less",
        ),
        ("count", SizeChanges::Count, "a new version wherever the size differs"),
        (
            "ignore",
            SizeChanges::Ignore,
            "never a new version: the object's name alone counts, as in libCacheSim",
        ),
    ];

    /// Whether a reply is the one that came before: by Last-Modified where both tell it, else by size. Each is Last-Modified
    /// and bytes.
    pub fn are_unchanged(self, before: (u64, u64), now: (u64, u64)) -> bool {
        match (before.0, now.0, self) {
            (1.., 1.., _) => before.0 == now.0,
            (.., SizeChanges::Tolerate) => before.1.abs_diff(now.1) <= before.1 / 20 + 16,
            (.., SizeChanges::Count) => before.1 == now.1,
            (.., SizeChanges::Ignore) => true,
        }
    }
}

/// The same by the rule that stands for itself.
pub fn is_unchanged(before: (u64, u64), now: (u64, u64)) -> bool {
    SizeChanges::default().are_unchanged(before, now)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let (mut over, mut under) = (0.0, 0.0);
    for point in points {
        over += (point.0 - x) * (point.1 - y);
        under += (point.0 - x).powi(2);
    }
    if under > 0.0 { over / under } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, zipf};

    #[test]
    fn the_exponent_is_found_again() {
        let mut random = Random::of(4);
        let mut statistics = Statistics::default();
        for _ in 0..300_000 {
            let object = zipf(random.unit(), 20_000, 0.75);
            statistics.count(&Access { object, size: 100, ..Access::default() });
        }
        let found = statistics.zipf_exponent();
        assert!((0.7..0.8).contains(&found), "{found}");
    }

    #[test]
    fn hits_medians_and_servers_are_counted() {
        let mut statistics = Statistics::default();
        let rows = [(1, 7, 1000), (2, 8, 5000), (1, 7, 1010), (3, 9, 9000), (1, 7, 4000)];
        for (object, server, size) in rows {
            statistics.count(&Access { object, server, size, ..Access::default() });
        }
        assert_eq!((statistics.hits, statistics.objects(), statistics.servers()), (1, 3, 3));
        assert_eq!(statistics.server_locality(1), 0.0);
        assert_eq!(statistics.server_locality(2), 0.4);
        assert_eq!(statistics.share_to_8k(), 0.8);
        let median = statistics.median_size();
        assert!((3900.0..4100.0).contains(&median), "{median}");
    }

    #[test]
    fn a_reply_is_unchanged_by_date_or_by_size() {
        assert!(is_unchanged((0, 1000), (0, 1060)) && !is_unchanged((0, 1000), (0, 1070)));
        assert!(is_unchanged((5, 1000), (5, 9)) && !is_unchanged((5, 1000), (6, 1000)));
        assert!(is_unchanged((5, 1000), (0, 1000)));
        assert!(SizeChanges::Count.are_unchanged((0, 1000), (0, 1000)));
        assert!(!SizeChanges::Count.are_unchanged((0, 1000), (5, 1001)));
        assert!(SizeChanges::Ignore.are_unchanged((0, 1000), (5, 9)));
        assert!(!SizeChanges::Ignore.are_unchanged((6, 1000), (5, 1000)), "a date is a date");
    }
}
