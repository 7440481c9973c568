//! Looks on while a trace is replayed, for the pictures of WebCoSM: where the head is (Figures 8 and 9), what of the file is
//! free (13 and 14), how far apart reads are (15). What is kept is bounded, however long the trace.

use crate::layout::FreeSpace;
use crate::medium::distances::{BLOCK, Distances};
use crate::medium::{Counted, Medium, Track};
use crate::storage::Storage;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who looks on.
#[derive(Default)]
pub struct Watch<'a> {
    /// Counts requests, for whoever waits.
    pub requests: Option<&'a AtomicU64>,
    /// Whether more is noted than that.
    pub looks: bool,
    pub seen: Seen,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub free: FreeSizes,
    pub distances: Distances,
    /// Of the last two minutes, where the medium knows its head.
    pub head: Option<Head>,
    /// Of the space at the end: all, and a part of it enlarged. None where the policy has no one space.
    pub maps: Vec<Map>,
}

impl Watch<'_> {
    pub fn begin(&mut self, counted: &mut Counted) {
        if self.looks {
            self.seen = Seen::default();
            counted.distances = Some(Distances::default());
            counted.follow_head();
        }
    }

    /// After a request, which was the `nth`, from one.
    pub fn look(&mut self, nth: u64, storage: &dyn Storage) {
        if let Some(requests) = self.requests {
            requests.fetch_add(1, Relaxed);
        }
        if self.looks
            && nth.is_multiple_of(self.seen.free.every)
            && let Some((pieces, bytes)) = storage.free_pieces()
        {
            self.seen.free.note(nth, pieces, bytes);
        }
    }

    /// After the last request, while buffers are still full.
    pub fn end(&mut self, counted: &mut Counted, storage: &dyn Storage) {
        if self.looks {
            self.seen.distances = counted.distances.take().unwrap_or_default();
            self.seen.head = counted.head_track().map(Head::of);
            self.seen.maps = storage.free_space().map_or(Vec::new(), |free| Map::both(&free));
        }
    }
}

/// The free space over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreeSizes {
    /// Requests from one look to the next.
    pub every: u64,
    /// Requests so far, free pieces, bytes of them all.
    pub looks: Vec<(u64, u64, u64)>,
}

impl Default for FreeSizes {
    fn default() -> FreeSizes {
        FreeSizes { every: 64, looks: Vec::new() }
    }
}

impl FreeSizes {
    /// When there are as many looks, every other one is forgotten.
    pub const MOST: usize = 256;

    fn note(&mut self, nth: u64, pieces: u64, bytes: u64) {
        self.looks.push((nth, pieces, bytes));
        if self.looks.len() == FreeSizes::MOST {
            self.every *= 2;
            self.looks.retain(|(nth, ..)| nth.is_multiple_of(self.every));
        }
    }

    /// Requests so far, and the mean size of a free piece, bytes.
    pub fn means(&self) -> impl Iterator<Item = (f64, f64)> {
        self.looks.iter().map(|(nth, pieces, bytes)| (*nth as f64, *bytes as f64 / (*pieces).max(1) as f64))
    }
}

/// Where the head was, by intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Bytes of the disk.
    pub capacity: u64,
    pub intervals: Vec<Interval>,
}

/// Half a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Which parts of the disk were accessed, of `PLACES`; sorted.
    pub places: Vec<u32>,
    /// From one access to the next, mean and longest, bytes.
    pub mean: u64,
    pub most: u64,
}

impl Head {
    pub const PLACES: u32 = 320;
    /// Milliseconds of an interval, and how many there are at most.
    pub const INTERVAL: f64 = 500.0;
    pub const MOST: usize = 241;

    fn of(track: &Track) -> Head {
        const SECTOR: u64 = 512;
        let Some((begin, mut before)) = track.transfers.front().copied() else { return Head::default() };
        let mut intervals: Vec<Interval> = Vec::new();
        let (mut sum, mut count) = (0, 0);
        for (done, sector) in &track.transfers {
            let nth = ((done - begin) / Head::INTERVAL) as usize;
            if nth >= intervals.len() {
                intervals.resize(nth.min(Head::MOST - 1) + 1, Interval::default());
                (sum, count) = (0, 0);
            }
            let distance = sector.abs_diff(before) * SECTOR;
            (sum, count, before) = (sum + distance, count + 1, *sector);
            if let Some(interval) = intervals.last_mut() {
                let place =
                    u128::from(*sector) * u128::from(Head::PLACES) / u128::from(track.capacity.max(1));
                interval.places.push(place as u32);
                (interval.mean, interval.most) = (sum / count, interval.most.max(distance));
            }
        }
        for interval in &mut intervals {
            interval.places.sort_unstable();
            interval.places.dedup();
        }
        Head { capacity: track.capacity * SECTOR, intervals }
    }
}

/// What of a space is free, in cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Map {
    /// Byte of the space that it begins at, and bytes of a cell.
    pub from: u64,
    pub cell: u64,
    /// A digit for each cell: 0 is all used, 9 all free.
    pub cells: String,
}

impl Map {
    /// The picture's, which is filled column after column.
    pub const COLUMNS: usize = 160;
    pub const ROWS: usize = 96;
    const CELLS: u64 = (Map::COLUMNS * Map::ROWS) as u64;
    /// How much larger the part is shown than all.
    const ENLARGED: u64 = 64;

    /// All, and the part whose free space is the median one of such parts.
    fn both(free: &FreeSpace) -> Vec<Map> {
        let cell = |bytes: u64| bytes.div_ceil(Map::CELLS).next_multiple_of(BLOCK).max(BLOCK);
        let all = Map::of(free, 0, cell(free.bytes));
        let part = cell(free.bytes / Map::ENLARGED);
        let window = part * Map::CELLS;
        let mut parts: Vec<(u64, u64)> =
            spread(free, 0, window, (free.bytes / window) as usize).into_iter().zip(0..).collect();
        parts.sort_unstable();
        let median = parts.get(parts.len() / 2);
        [Some(all), median.map(|(_, nth)| Map::of(free, nth * window, part))].into_iter().flatten().collect()
    }

    fn of(free: &FreeSpace, from: u64, cell: u64) -> Map {
        let count = (free.bytes - from).div_ceil(cell).min(Map::CELLS) as usize;
        let digit = |bytes: u64| char::from(b'0' + (bytes * 9).div_ceil(cell).min(9) as u8);
        Map { from, cell, cells: spread(free, from, cell, count).into_iter().map(digit).collect() }
    }
}

/// Free bytes in each of so many cells from a byte on.
fn spread(free: &FreeSpace, from: u64, cell: u64, count: usize) -> Vec<u64> {
    let mut cells = vec![0; count];
    let end = from + cell * count as u64;
    for (at, length) in &free.pieces {
        let (mut at, stop) = ((*at).max(from), (at + length).min(end));
        while at < stop {
            let nth = (at - from) / cell;
            let next = (from + (nth + 1) * cell).min(stop);
            cells[nth as usize] += next - at;
            at = next;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn looks_at_the_free_space_are_bounded_and_even() {
        let mut free = FreeSizes::default();
        for nth in (1..=1_000_000u64).filter(|nth| nth % 64 == 0) {
            if nth.is_multiple_of(free.every) {
                free.note(nth, 2, nth);
            }
        }
        assert!((FreeSizes::MOST / 4..FreeSizes::MOST).contains(&free.looks.len()));
        assert!(free.looks.iter().zip(1..).all(|((at, ..), nth)| *at == nth * free.every));
        assert_eq!(free.means().next(), Some((free.every as f64, free.every as f64 / 2.0)));
    }

    #[test]
    fn the_head_is_followed_by_half_seconds() {
        let transfers = [(1000.0, 0), (1200.0, 1000), (1300.0, 1001), (2600.0, 500)].into();
        let head = Head::of(&Track { transfers, capacity: 1002 });
        assert_eq!((head.capacity, head.intervals.len()), (1002 * 512, 4));
        let first = Interval { places: vec![0, 319], mean: 1001 * 512 / 3, most: 512_000 };
        assert_eq!(head.intervals[0], first);
        assert_eq!(head.intervals[2], Interval::default());
        assert_eq!(head.intervals[3], Interval { places: vec![159], mean: 501 * 512, most: 501 * 512 });
    }

    proptest! {
        /// Whatever is free is seen where it lies.
        #[test]
        fn a_map_shows_all_that_is_free(
            bytes in 1u64..40_000_000,
            pieces in proptest::collection::vec((0u64..100_000, 1u64..50), 0..40),
        ) {
            let mut at = 0;
            let mut free = FreeSpace { bytes, pieces: Vec::new() };
            for (gap, length) in pieces {
                at += 1 + gap;
                if at + length * 512 > bytes {
                    break;
                }
                free.pieces.push((at, length * 512));
                at += length * 512;
            }
            let sum: u64 = free.pieces.iter().map(|(_, length)| length).sum();
            let maps = Map::both(&free);
            prop_assert!(maps.len() == 1 || maps[1].from + maps[1].cell * Map::CELLS <= bytes);
            for map in &maps {
                prop_assert!(map.cells.len() as u64 <= Map::CELLS && map.cell % BLOCK == 0);
                let cells = spread(&free, map.from, map.cell, map.cells.len());
                for (digit, cell) in map.cells.bytes().zip(cells) {
                    prop_assert_eq!(digit == b'0', cell == 0);
                    prop_assert_eq!(digit == b'9', cell * 9 > map.cell * 8);
                }
            }
            prop_assert_eq!(spread(&free, 0, maps[0].cell, maps[0].cells.len()).iter().sum::<u64>(), sum);
        }
    }
}
