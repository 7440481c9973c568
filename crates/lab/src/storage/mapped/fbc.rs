//! Frequency-based cyclic replacement and cache compaction (Maltzahn 5.3.4, 5.3.5).

use super::slots::{Nth, Replacement, Segment};
use crate::layout::mapped::segments::CLASSES;
use std::cmp::Reverse;

/// Counts of at least this keep an object where it is, and make it popular.
const POPULAR: u32 = 3;
/// Counts up to this are not.
const UNPOPULAR: u32 = 1;
/// Above this average all counts are halved.
const AGED_ABOVE: u64 = 100;

pub struct Fbc {
    compacts: bool,
    counts: Vec<u32>,
    sum: u64,
    /// Segments of each class in the order of the file.
    order: [Vec<(u64, Nth)>; CLASSES],
    sorted: bool,
    /// Where in the file it looks next.
    pointer: u64,
}

impl Fbc {
    /// `compacts`: FBC/C.
    pub fn new(compacts: bool) -> Fbc {
        Fbc { compacts, counts: Vec::new(), sum: 0, order: Default::default(), sorted: false, pointer: 0 }
    }

    fn sort(&mut self) {
        if !self.sorted {
            self.order.iter_mut().for_each(|class| class.sort_unstable());
            self.sorted = true;
        }
    }

    fn count(&mut self, nth: Nth, count: u32) {
        let old = std::mem::replace(&mut self.counts[nth as usize], count);
        self.sum = self.sum + u64::from(count) - u64::from(old);
        if self.sum > AGED_ABOVE * self.counts.len() as u64 {
            self.counts.iter_mut().for_each(|count| *count = count.div_ceil(2));
            self.sum = self.counts.iter().map(|count| u64::from(*count)).sum();
        }
    }
}

impl Replacement for Fbc {
    fn put(&mut self, nth: Nth, segment: &Segment) {
        if nth as usize == self.counts.len() {
            self.counts.push(0);
            self.order[segment.class].push((segment.at, nth));
            self.sorted = false;
        }
        self.count(nth, 1);
    }

    fn hit(&mut self, nth: Nth, _: &Segment) {
        self.count(nth, self.counts[nth as usize].saturating_add(1));
    }

    /// The next unpopular one of its class behind the pointer; after a whole round, the first.
    fn target(&mut self, class: usize) -> Option<Nth> {
        self.sort();
        let order = &self.order[class];
        let first = order.partition_point(|(at, _)| *at < self.pointer);
        let round = || order[first..].iter().chain(&order[..first]);
        let unpopular = round().find(|(_, nth)| self.counts[*nth as usize] < POPULAR);
        let (at, nth) = *unpopular.or_else(|| round().next())?;
        self.pointer = at + 1;
        Some(nth)
    }

    /// The most popular objects go to the front of the file, where unpopular ones make way.
    fn compact(&mut self, segments: &[Segment]) -> Vec<(Nth, Nth)> {
        if !self.compacts {
            return Vec::new();
        }
        self.sort();
        let (counts, mut pairs) = (&self.counts, Vec::new());
        for class in &self.order {
            let count = |nth: &Nth| counts[*nth as usize];
            let in_order = || class.iter().map(|(_, nth)| *nth);
            let mut popular: Vec<Nth> = in_order().filter(|nth| count(nth) >= POPULAR).collect();
            popular.sort_by_key(|nth| Reverse(count(nth)));
            let swaps = popular.into_iter().zip(in_order().filter(|nth| count(nth) <= UNPOPULAR));
            pairs.extend(swaps.filter(|(from, to)| segments[*to as usize].at < segments[*from as usize].at));
        }
        pairs.iter().for_each(|(one, other)| self.counts.swap(*one as usize, *other as usize));
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Version;
    use trace::Access;

    /// Segments of one page, one behind the other.
    fn pages(fbc: &mut Fbc, count: u32) -> Vec<Segment> {
        let access = |nth| Access { object: nth, size: 8000, ..Access::default() };
        let page = |nth: u32| Segment {
            at: u64::from(nth) * 8192,
            class: 4,
            version: Version::of(&access(u64::from(nth))),
        };
        let pages: Vec<Segment> = (0..count).map(page).collect();
        (0..).zip(&pages).for_each(|(nth, page)| fbc.put(nth, page));
        pages
    }

    #[test]
    fn the_pointer_goes_round_and_passes_what_is_popular() {
        let mut fbc = Fbc::new(false);
        let pages = pages(&mut fbc, 4);
        (0..2).for_each(|_| fbc.hit(1, &pages[1]));
        let targets: Vec<Option<Nth>> = (0..4).map(|_| fbc.target(4)).collect();
        assert_eq!(targets, [Some(0), Some(2), Some(3), Some(0)], "three requests make it popular");
        assert_eq!(fbc.target(0), None, "there is none of this class");
        for nth in [0, 2, 3] {
            (0..2).for_each(|_| fbc.hit(nth, &pages[nth as usize]));
        }
        assert_eq!(fbc.target(4), Some(1), "all are popular: the next one");
        assert!(fbc.compact(&pages).is_empty());
    }

    #[test]
    fn counts_are_halved_when_they_grow() {
        let mut fbc = Fbc::new(false);
        let pages = pages(&mut fbc, 2);
        (0..198).for_each(|_| fbc.hit(0, &pages[0]));
        assert_eq!(fbc.counts, [199, 1], "a hundred on the average");
        fbc.hit(0, &pages[0]);
        assert_eq!((&fbc.counts[..], fbc.sum), (&[100, 1][..], 101));
    }

    #[test]
    fn popular_objects_go_to_the_front() {
        let mut fbc = Fbc::new(true);
        let pages = pages(&mut fbc, 5);
        for (nth, hits) in [(1, 2), (3, 9), (4, 4)] {
            (0..hits).for_each(|_| fbc.hit(nth, &pages[nth as usize]));
        }
        assert_eq!(fbc.compact(&pages), [(3, 0), (4, 2)], "1 has nowhere to go");
        assert_eq!(fbc.counts, [10, 3, 5, 1, 1]);
    }
}
