//! A picture of the log: which parts of the medium hold what was written when, and where it goes on.

use crate::engine::Millis;
use crate::format::Layout;
use crate::turns::Turns;
use std::time::Duration;

/// Segments that are looked at for one cell, at most.
const LOOKS: u64 = 32;

/// What a picture is drawn of. A copy: nobody waits while it is drawn.
pub struct Plan {
    pub layout: Layout,
    /// Of the segment to open next.
    pub seq: u64,
    /// Of the next one to be swept: what it will write over has not left the index yet.
    pub swept: u64,
    pub turns: Turns,
    pub now: Millis,
}

/// The log in the order of the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMap {
    pub segments: u64,
    /// Bytes of one.
    pub segment: u32,
    /// The segment that is opened next: there is the sweep.
    pub next: u64,
    /// Parts of the log, as long as one another.
    pub cells: Vec<Cell>,
}

/// A part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Of its segments that were looked at, how many hold something, and how many those were.
    pub held: u64,
    pub of: u64,
    /// Segments that were opened after the youngest of them, and how long ago that was opened, about; `None`: nothing is there,
    /// or it was before the start.
    pub behind: Option<u64>,
    pub age: Option<Duration>,
}

impl Plan {
    /// In so many cells, or as many as there are segments.
    pub fn draw(&self, cells: u64) -> LogMap {
        let Layout { segments, segment, .. } = self.layout;
        let cells = cells.clamp(1, segments.max(1));
        let begin = |cell: u64| (u128::from(cell) * u128::from(segments) / u128::from(cells)) as u64;
        let cell = |n: u64| self.cell(begin(n), begin(n + 1));
        let next = self.layout.number(self.seq);
        LogMap { segments, segment, next, cells: (0..cells).map(cell).collect() }
    }

    /// Of the segments with these numbers.
    pub fn cell(&self, begin: u64, end: u64) -> Cell {
        let step = (end - begin).div_ceil(LOOKS).max(1) as usize;
        let oldest = self.layout.oldest(self.swept);
        let turn = |number: u64| {
            let seq = self.layout.seq_of(number, self.seq.checked_sub(1)?)?;
            (seq >= oldest).then_some(seq)
        };
        let looked = || (begin..end).step_by(step);
        let youngest = looked().filter_map(turn).max();
        let opened = youngest.and_then(|seq| self.turns.opened(seq));
        Cell {
            held: looked().filter_map(turn).count() as u64,
            of: looked().count() as u64,
            behind: youngest.map(|seq| self.seq - 1 - seq),
            age: opened.map(|opened| Duration::from_millis(self.now.saturating_sub(opened))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(segments: u64, seq: u64, swept: u64, first: u64) -> Plan {
        let mut turns = Turns::of(segments);
        (first..seq).for_each(|seq| turns.note(seq, seq * 1000));
        Plan { layout: Layout::new(64 << 10, segments, 9), seq, swept, turns, now: seq * 1000 }
    }

    #[test]
    fn a_new_log_fills_from_its_begin() {
        let map = plan(10, 3, 3, 0).draw(256);
        assert_eq!((map.segments, map.next, map.cells.len()), (10, 3, 10));
        let behind: Vec<_> = map.cells.iter().map(|cell| cell.behind).collect();
        assert_eq!(behind[..4], [Some(2), Some(1), Some(0), None]);
        assert_eq!(map.cells[2].age, Some(Duration::from_secs(1)));
        assert_eq!(map.cells.iter().map(|cell| cell.held).sum::<u64>(), 3);
    }

    #[test]
    fn a_log_that_has_come_round_is_older_behind_the_sweep() {
        // 13 segments were opened, of which the start found 11; two more were swept before their turn.
        let map = plan(10, 13, 15, 11).draw(10);
        assert_eq!(map.next, 3);
        let behind: Vec<_> = map.cells.iter().map(|cell| cell.behind).collect();
        assert_eq!(behind[..6], [Some(2), Some(1), Some(0), None, None, Some(7)]);
        assert_eq!(map.cells[2].age, Some(Duration::from_secs(1)));
        assert_eq!(map.cells[5].age, None, "before the start");
    }

    #[test]
    fn a_large_log_has_few_cells_which_are_looked_at_in_samples() {
        let map = plan(100_000, 50_000, 50_000, 49_000).draw(256);
        assert_eq!(map.cells.len(), 256);
        assert!(map.cells.iter().all(|cell| (1..=LOOKS).contains(&cell.of)));
        let held: u64 = map.cells.iter().map(|cell| cell.held).sum();
        let of: u64 = map.cells.iter().map(|cell| cell.of).sum();
        assert!((0.49..0.51).contains(&(held as f64 / of as f64)), "{held} of {of}");
    }
}
