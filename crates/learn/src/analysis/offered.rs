//! A content inventory, as far as an analysis needs it: what there was before each off-peak, and how much.

use super::split::Amount;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use trace::hash;
use trace::inventory::Row;

/// Rows that may be held.
const ROWS_MAX: usize = 1 << 26;

#[derive(Debug, Default)]
pub struct Offered {
    /// Since when each object is as it is, in seconds since 1970, and its bytes.
    objects: HashMap<u64, (u64, u64)>,
    /// The same in the order of time, and the bytes of all up to there.
    cumulated: Vec<(u64, u64)>,
    pub counted: Rows,
}

/// What of an inventory was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    pub rows: u64,
    /// Left out: no cache may store them.
    pub not_cacheable: u64,
    /// Left out: nothing says since when they are as they are.
    pub undated: u64,
    /// Left out: of one URL the first row that says enough counts.
    pub twice: u64,
}

impl Offered {
    /// Takes the rows of an inventory; of one URL the first that can be used counts. An error is one line: a row's, or too many.
    pub fn of(rows: impl Iterator<Item = Result<Row, String>>) -> Result<Offered, String> {
        let mut offered = Offered::default();
        for row in rows {
            let row = row?;
            offered.counted.rows += 1;
            let object = hash(row.url.as_bytes());
            match row.modified.max(row.created) {
                _ if !row.cacheable => offered.counted.not_cacheable += 1,
                0 => offered.counted.undated += 1,
                since => match offered.objects.entry(object) {
                    Entry::Vacant(new) => {
                        new.insert((since, row.size));
                    }
                    Entry::Occupied(_) => offered.counted.twice += 1,
                },
            }
            if offered.objects.len() > ROWS_MAX {
                return Err(format!("the inventory has more than {ROWS_MAX} objects"));
            }
        }
        offered.cumulated = offered.objects.values().copied().collect();
        offered.cumulated.sort_unstable();
        let mut sum = 0u64;
        for (_, bytes) in &mut offered.cumulated {
            sum = sum.saturating_add(*bytes);
            *bytes = sum;
        }
        Ok(offered)
    }

    /// The bytes of an object, if it was there at a time as it is.
    pub fn at(&self, object: u64, time: u64) -> Option<u64> {
        self.objects.get(&object).filter(|(since, _)| *since <= time).map(|(_, bytes)| *bytes)
    }

    /// All that was there at a time as it is.
    pub fn all_at(&self, time: u64) -> Amount {
        let count = self.cumulated.partition_point(|(since, _)| *since <= time);
        let bytes = count.checked_sub(1).map_or(0, |last| self.cumulated[last].1);
        Amount { requests: count as u64, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_there_unaltered_counts() {
        let row = |url: &str, size, modified, created, cacheable| {
            Ok(Row { url: url.into(), size, modified, created, cacheable, ..Row::default() })
        };
        let rows = [
            row("http://a.test/1", 10, 100, 0, true),
            row("http://a.test/2", 20, 50, 200, true),
            row("http://a.test/3", 40, 0, 0, true),
            row("http://a.test/4", 80, 100, 0, false),
            row("http://a.test/1", 15, 110, 0, true),
        ];
        let offered = Offered::of(rows.into_iter()).unwrap();
        assert_eq!(offered.counted, Rows { rows: 5, not_cacheable: 1, undated: 1, twice: 1 });
        let all = [99, 100, 199, 200].map(|time| offered.all_at(time).bytes);
        assert_eq!(all, [0, 10, 10, 30]);
        let first = hash(b"http://a.test/1");
        assert_eq!([99, 100].map(|time| offered.at(first, time)), [None, Some(10)]);
        assert!(Offered::of([Err("x: line 1: bad".into())].into_iter()).is_err());
    }
}
