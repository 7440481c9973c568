//! When segments were opened, about: so many moments of a turn of the log.

use crate::engine::Millis;
use std::collections::VecDeque;

/// Moments that are known of a whole turn.
const MOST: u64 = 256;

/// Sequence numbers and when they were opened, in this life of the cache.
#[derive(Clone, Debug)]
pub struct Turns {
    marks: VecDeque<(u64, Millis)>,
    /// Of so many segments one is noted.
    every: u64,
}

impl Turns {
    pub fn of(segments: u64) -> Turns {
        Turns { marks: VecDeque::new(), every: segments.div_ceil(MOST).max(1) }
    }

    pub fn note(&mut self, seq: u64, now: Millis) {
        if self.marks.back().is_some_and(|(last, _)| seq < last + self.every) {
            return;
        }
        self.marks.push_back((seq, now));
        if self.marks.len() as u64 > MOST + 1 {
            self.marks.pop_front();
        }
    }

    /// When this segment was opened, or one shortly before it; `None`: before the start.
    pub fn opened(&self, seq: u64) -> Option<Millis> {
        let after = self.marks.partition_point(|(marked, _)| *marked <= seq);
        self.marks.get(after.checked_sub(1)?).map(|(_, when)| *when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_known_to_a_256th_and_takes_bounded_memory() {
        for segments in [1, 7, 256, 10_000] {
            let mut turns = Turns::of(segments);
            (40..40 + 5 * segments).for_each(|seq| turns.note(seq, seq * 10));
            assert!(turns.marks.len() <= 257, "{segments}");
            for seq in 40 + 4 * segments..40 + 5 * segments {
                let opened = turns.opened(seq).unwrap();
                assert!(opened <= seq * 10 && seq * 10 - opened <= segments.div_ceil(256) * 10, "{seq}");
            }
            assert_eq!(turns.opened(39), None, "before the start");
        }
    }
}
