//! How far reads are from the one before (WebCoSM, Figure 15).

use super::File;
use serde::{Deserialize, Serialize};

/// Bytes of a block, by which distances are counted.
pub const BLOCK: u64 = 512;

/// From the last block of one read to the first of the next in the same file: 1 is the block that follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Pairs of reads that follow each other.
    pub pairs: u64,
    /// Of the block that follows.
    pub next: u64,
    /// Either way, by the first edge that is no less.
    pub upto: [u64; EDGES.len()],
    #[serde(skip)]
    last: Option<(File, u64)>,
}

/// Blocks.
pub const EDGES: [u64; 23] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    u64::MAX,
];

impl Distances {
    pub fn note(&mut self, file: File, at: u64, length: u64) {
        let (first, last) = (at / BLOCK, (at + length.max(1) - 1) / BLOCK);
        if let Some((before, end)) = self.last
            && before == file
        {
            self.pairs += 1;
            self.next += u64::from(first == end + 1);
            self.upto[EDGES.partition_point(|edge| *edge < first.abs_diff(end))] += 1;
        }
        self.last = Some((file, last));
    }

    /// Share of the pairs that are within so many blocks, for each edge but the last.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut sum = 0;
        EDGES.iter().zip(&self.upto).take(EDGES.len() - 1).map(move |(edge, count)| {
            sum += count;
            (*edge as f64, sum as f64 / self.pairs.max(1) as f64)
        })
    }

    /// Pairs within ten blocks.
    pub fn within_ten(&self) -> u64 {
        EDGES.iter().zip(&self.upto).take_while(|(edge, _)| **edge <= 10).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_from_the_end_of_a_read_to_the_next() {
        let mut distances = Distances::default();
        let reads =
            [(1, 0, 1024), (1, 1024, 512), (1, 1024, 512), (2, 8192, 10), (2, 0, 512), (2, 1 << 40, 1)];
        for (file, at, length) in reads {
            distances.note(File(file), at, length);
        }
        assert_eq!((distances.pairs, distances.next, distances.within_ten()), (4, 1, 2));
        assert_eq!(distances.upto[EDGES.len() - 1], 1);
        let shares: Vec<(f64, f64)> = distances.shares().collect();
        assert_eq!((shares[0], shares[4]), ((1.0, 0.5), (20.0, 0.75)), "16 blocks back");
    }
}
