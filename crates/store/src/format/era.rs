//! Eras: which segment has which sequence number in a cache that was resized.
//!
//! An era is what was opened while the cache had one size. In it segments are opened in cyclic order, as in a cache that never
//! had another size. The next era goes on where the last one ended, and so writes over the oldest segment first:
//!
//!   10 segments, from 0 on     | 10 | 11 | 12 | 13 |  4 |  5 |  6 |  7 |  8 |  9 |
//!   14 segments, from 14 on    | 10 | 11 | 12 | 13 | 14 | 15 | 16 |  7 |  8 |  9 |    |    |    |    |   (the next is 17, and 20 is the first new one)
//!
//! What lies behind the end of a smaller cache is *cut off*, and is not there when it grows again.
//!
//! Always true, as the tests say: what is not cut off is written over in the order in which it was opened.

use super::Layout;

/// Eras that are known at once.
pub const MOST: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Era {
    /// Its first sequence number, and the segment that has it.
    pub seq: u64,
    pub number: u64,
    /// Segments that are opened in turn.
    pub segments: u64,
}

/// The eras of which something may lie in the cache, oldest first: one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eras {
    all: [Era; MOST],
    count: usize,
}

impl Eras {
    /// Of a cache that never had another size.
    pub fn of(segments: u64) -> Eras {
        let mut all = [Era::default(); MOST];
        all[0].segments = segments;
        Eras { all, count: 1 }
    }

    /// `None` when there are none or too many, or they do not follow one another.
    pub fn new(eras: &[Era]) -> Option<Eras> {
        let mut all = [Era::default(); MOST];
        all.get_mut(..eras.len())?.copy_from_slice(eras);
        let sane = !eras.is_empty()
            && eras.is_sorted_by_key(|era| era.seq)
            && eras.iter().all(|era| era.number < era.segments);
        sane.then_some(Eras { all, count: eras.len() })
    }

    pub fn list(&self) -> &[Era] {
        &self.all[..self.count]
    }

    /// The one to which a sequence number belongs. What was before the first is gone.
    fn of_seq(&self, seq: u64) -> usize {
        self.list().iter().rposition(|era| era.seq <= seq).unwrap_or(0)
    }
}

impl Era {
    fn number_of(&self, seq: u64) -> u64 {
        (self.number + seq.saturating_sub(self.seq) % self.segments) % self.segments
    }

    /// The first sequence number from `seq` on that a segment has.
    fn turn_from(&self, number: u64, seq: u64) -> u64 {
        seq + (number + self.segments - self.number_of(seq)) % self.segments
    }
}

impl Layout {
    /// The segment that has this sequence number. It may be cut off.
    pub fn number(&self, seq: u64) -> u64 {
        self.eras.all[self.eras.of_seq(seq)].number_of(seq)
    }

    fn last_era(&self) -> &Era {
        &self.eras.all[self.eras.count - 1]
    }

    /// The sequence numbers of an era end before this one.
    fn end_of(&self, era: usize) -> u64 {
        self.eras.list().get(era + 1).map_or(u64::MAX, |next| next.seq)
    }

    /// Segments of an era that a later one has cut off have this number or a higher one.
    fn cut_at(&self, era: usize) -> u64 {
        let later = self.eras.list().iter().skip(era + 1);
        // What the last era lacks is there until the cache is shorter.
        let between = later.rev().skip(1).map(|era| era.segments).min();
        between.unwrap_or(u64::MAX).min(self.segments)
    }

    /// Whether what was opened with this sequence number was cut off since, or was gone when the size changed.
    pub fn is_cut(&self, seq: u64) -> bool {
        let era = self.eras.of_seq(seq);
        seq < self.eras.all[0].seq || self.eras.all[era].number_of(seq) >= self.cut_at(era)
    }

    /// The youngest segment of the log not after `last` that has this number, if it was not cut off.
    pub fn seq_of(&self, number: u64, last: u64) -> Option<u64> {
        let newest = self.eras.of_seq(last);
        (0..=newest).rev().find_map(|nth| {
            let era = &self.eras.all[nth];
            let last = last.min(self.end_of(nth).checked_sub(1)?);
            let behind = (era.number_of(last) + era.segments).checked_sub(number)?;
            let seq = last.checked_sub(behind % era.segments)?;
            (number < era.segments.min(self.cut_at(nth)) && seq >= era.seq).then_some(seq)
        })
    }

    /// What lay where this segment is opened.
    pub fn before(&self, seq: u64) -> Option<u64> {
        self.seq_of(self.number(seq), seq.checked_sub(1)?)
    }

    /// From each era the first sequence number from `first` on that a segment has.
    fn turns_from(&self, number: u64, first: u64) -> impl Iterator<Item = (usize, u64)> {
        let eras = self.eras.list().iter().enumerate().skip(self.eras.of_seq(first));
        eras.filter(move |(_, era)| number < era.segments)
            .map(move |(nth, era)| (nth, era.turn_from(number, first.max(era.seq))))
            .filter(|(nth, seq)| *seq < self.end_of(*nth))
    }

    /// The first sequence number from `first` on that a segment has, and that was not cut off.
    pub fn turn_from(&self, number: u64, first: u64) -> Option<u64> {
        self.turns_from(number, first).find_map(|(nth, seq)| (number < self.cut_at(nth)).then_some(seq))
    }

    /// The first sequence number from `first` on that a segment had, or has; `None` where that was cut off.
    pub fn first_turn_from(&self, number: u64, first: u64) -> Option<u64> {
        let (nth, seq) = self.turns_from(number, first).next()?;
        (first >= self.eras.all[0].seq && number < self.cut_at(nth)).then_some(seq)
    }

    /// The first sequence number from `seq` on that is not cut off.
    fn uncut(&self, mut seq: u64) -> u64 {
        seq = seq.max(self.eras.all[0].seq);
        while self.is_cut(seq) {
            let nth = self.eras.of_seq(seq);
            let era = &self.eras.all[nth];
            seq = (seq + era.segments - era.number_of(seq)).min(self.end_of(nth));
        }
        seq
    }

    /// The sequence number of the segment that is written over this one. What is cut off goes with what was opened next.
    pub fn overwritten_by(&self, seq: u64) -> u64 {
        self.next_turn(self.cut().uncut(seq))
    }

    fn next_turn(&self, seq: u64) -> u64 {
        self.turns_from(self.number(seq), seq + 1).next().map_or(u64::MAX, |(_, seq)| seq)
    }

    /// Whether nothing is left of this segment when `newest` has been opened.
    pub fn is_gone(&self, seq: u64, newest: u64) -> bool {
        self.is_cut(seq) || self.overwritten_by(seq) <= newest || self.next_turn(seq) <= newest
    }

    /// Segments with lower sequence numbers are gone when those before `end` have been opened.
    pub fn oldest(&self, end: u64) -> u64 {
        let era = self.last_era();
        if self.eras.count == 1 || end >= era.seq + era.segments {
            return end.saturating_sub(era.segments);
        }
        let (mut gone, mut there) = (0, end);
        while gone < there {
            let middle = gone + (there - gone) / 2;
            match self.overwritten_by(middle) < end {
                true => gone = middle + 1,
                false => there = middle,
            }
        }
        gone
    }

    /// Its size changes when `seq` is to be opened next; it has as many segments as before until it `is_cut_to`, if those are more.
    /// `None` where too many eras have something in the cache.
    pub fn resized(&self, seq: u64, segments: u64) -> Option<Layout> {
        let number = self.number(seq);
        let next = Era { seq, number: if number < segments { number } else { 0 }, segments };
        let oldest = self.oldest(seq);
        let gone =
            self.eras.list().iter().skip(1).take_while(|era| era.seq <= oldest && era.seq < seq).count();
        let eras = [&self.eras.list()[gone..], &[next]].concat();
        Some(Layout { segments: self.segments.max(segments), eras: Eras::new(&eras)?, ..*self })
    }

    /// Segments that are opened in turn. While a cache is shrinking, these are not all.
    pub fn in_turn(&self) -> u64 {
        self.last_era().segments
    }

    pub fn is_shrinking(&self) -> bool {
        self.in_turn() < self.segments
    }

    /// Without what is behind the segments that are opened in turn.
    pub fn cut(&self) -> Layout {
        Layout { segments: self.in_turn(), ..*self }
    }

    /// What had lower sequence numbers is gone.
    pub fn first(&self) -> u64 {
        self.eras.all[0].seq
    }

    /// Since the last change of its size no sequence number is below this.
    pub fn least_next(&self) -> u64 {
        self.last_era().seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    #[test]
    fn a_segment_has_one_number_a_turn() {
        let layout = Layout::new(1 << 20, 10, 9);
        assert_eq!(layout.seq_of(3, 25), Some(23));
        assert_eq!(layout.seq_of(5, 25), Some(25));
        assert_eq!(layout.seq_of(6, 25), Some(16));
        assert_eq!(layout.seq_of(6, 5), None);
        assert_eq!((layout.before(9), layout.before(10), layout.overwritten_by(3)), (None, Some(0), 13));
        assert_eq!((layout.oldest(0), layout.oldest(10), layout.oldest(25)), (0, 0, 15));
    }

    /// What is drawn above.
    #[test]
    fn a_larger_cache_goes_on_with_the_oldest_segment() {
        let layout = Layout::new(1 << 20, 10, 9).resized(14, 14).unwrap();
        let numbers: Vec<u64> = (13..26).map(|seq| layout.number(seq)).collect();
        assert_eq!(numbers, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 1]);
        assert_eq!((layout.before(17), layout.before(20), layout.before(24)), (Some(7), None, Some(10)));
        assert_eq!((layout.oldest(17), layout.oldest(24), layout.oldest(25)), (7, 10, 11));
    }

    #[test]
    fn a_smaller_cache_has_what_is_not_cut_off() {
        let whole = Layout::new(1 << 20, 10, 9);
        let shrinking = whole.resized(18, 6).unwrap();
        assert!(shrinking.is_shrinking() && shrinking.segments == 10 && shrinking.seq_of(7, 17) == Some(17));
        let cut = shrinking.cut();
        assert!(!cut.is_shrinking() && cut.segments == 6 && cut.seq_of(7, 17).is_none());
        let numbers: Vec<u64> = (18..25).map(|seq| cut.number(seq)).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!((cut.before(18), cut.before(23), cut.before(24)), (Some(10), Some(15), Some(18)));
        assert!(cut.is_gone(17, 17) && cut.is_gone(9, 17) && !cut.is_gone(15, 17) && cut.is_gone(15, 23));
    }

    /// Segments that are opened, and sizes that change, beside a list of what lies where.
    #[test]
    fn eras_say_what_lies_where() {
        let mut refused = 0;
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut layout = Layout::new(16 << 10, rng.random_range(1..20), 9);
            let mut there: Vec<Option<u64>> = vec![None; layout.segments as usize];
            let (mut seq, mut all) = (0, Vec::new());
            for _ in 0..rng.random_range(1..12) {
                for _ in 0..rng.random_range(0..40) {
                    let number = layout.number(seq) as usize;
                    let oldest = there.iter().flatten().min();
                    assert!(there[number].is_none() || there[number].as_ref() == oldest, "{seed}");
                    assert_eq!(layout.before(seq), there[number], "seed {seed}, {seq} of {layout:?}");
                    there[number] = Some(seq);
                    all.push(seq);
                    seq += 1;
                    agree(&layout, &there, seq, &all);
                }
                let Some(next) = layout.resized(seq, rng.random_range(1..20)) else {
                    refused += 1;
                    break;
                };
                assert_eq!(next.least_next(), seq);
                // As long as it shrinks, nothing is gone.
                there.resize(next.segments as usize, None);
                for (number, lies) in there.iter().enumerate().filter(|_| seq > 0) {
                    assert_eq!(next.seq_of(number as u64, seq - 1), *lies, "{seed}");
                }
                for opened in all.iter().rev().take(100) {
                    let is_there = there.contains(&Some(*opened));
                    assert_eq!(next.is_gone(*opened, seq - 1), !is_there, "{seed}, {opened} of {next:?}");
                }
                layout = next.cut();
                there.truncate(layout.segments as usize);
                agree(&layout, &there, seq, &all);
            }
        }
        assert!(refused < 150, "{refused}");
    }

    /// `next` is to be opened.
    fn agree(layout: &Layout, there: &[Option<u64>], next: u64, all: &[u64]) {
        let Some(newest) = next.checked_sub(1) else { return };
        let oldest = layout.oldest(next);
        for (number, seq) in there.iter().enumerate() {
            let number = number as u64;
            assert_eq!(layout.seq_of(number, newest), *seq, "{number} of {layout:?}");
            assert!(seq.is_none_or(|seq| seq >= oldest));
            let turn = layout.turn_from(number, oldest).unwrap();
            assert!(seq.map_or(turn >= next, |seq| seq == turn));
        }
        for seq in all.iter().rev().take(100) {
            assert_eq!(layout.is_gone(*seq, newest), !there.contains(&Some(*seq)), "{seq} of {layout:?}");
        }
        // All that is opened before the oldest is written over lies where nothing is.
        let full = layout.overwritten_by(oldest);
        assert!((next..full).all(|seq| layout.before(seq).is_none_or(|before| before >= next)), "{layout:?}");
        assert!(there.iter().flatten().next().is_none() || layout.before(full).is_some(), "{layout:?}");
    }
}
