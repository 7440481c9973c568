//! What was turned away, overwritten, or stored in vain lately: fingerprints of keys with what is known of them, the latest ones of each
//! bucket. What is older goes as others come.

const BUCKET: usize = 8;
/// Keys of which one is remembered for each sixteen objects that the index has room for: seven, in 0.875 bytes an object.
const OF_SIXTEEN: u64 = 7;
/// A fingerprint has the lower bits, what is remembered the upper ones.
const PRINT_BITS: u32 = 12;
const PRINT: u16 = (1 << PRINT_BITS) - 1;
/// Uses that are counted.
pub const MOST_USES: u8 = 11;
/// Times in vain that are counted.
pub const MOST_TIMES: u8 = 15 - MOST_USES;

/// What is remembered of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It was used so often.
    Used(u8),
    /// It had a place in vain so often in a row, at least once.
    InVain(u8),
}

impl Past {
    fn bits(self) -> u16 {
        let bits = match self {
            Past::Used(uses) => uses.min(MOST_USES),
            Past::InVain(times) => MOST_USES + times.clamp(1, MOST_TIMES),
        };
        u16::from(bits) << PRINT_BITS
    }

    fn of(held: u16) -> Past {
        let bits = (held >> PRINT_BITS) as u8;
        match bits.checked_sub(MOST_USES) {
            None | Some(0) => Past::Used(bits),
            Some(times) => Past::InVain(times),
        }
    }
}

pub struct Recent {
    /// The latest first. A fingerprint is never zero.
    buckets: Vec<[u16; BUCKET]>,
}

impl Recent {
    /// Beside an index of about so many objects.
    pub fn new(objects: u64) -> Recent {
        let buckets = (objects * OF_SIXTEEN / 16).div_ceil(BUCKET as u64).max(1);
        Recent { buckets: vec![[0; BUCKET]; buckets as usize] }
    }

    /// Bytes that it takes at most beside an index of so many objects.
    pub const fn most_bytes(objects: u64) -> u64 {
        objects
    }

    pub fn find(&self, hash: u64) -> Option<Past> {
        let (bucket, print) = self.address(hash);
        self.buckets[bucket].iter().find(|held| **held & PRINT == print).map(|held| Past::of(*held))
    }

    /// The same, and it is not remembered any more.
    pub fn take(&mut self, hash: u64) -> Option<Past> {
        let (bucket, print) = self.address(hash);
        let bucket = &mut self.buckets[bucket];
        let at = bucket.iter().position(|held| held & PRINT == print)?;
        let past = Past::of(bucket[at]);
        bucket.copy_within(at + 1.., at);
        bucket[BUCKET - 1] = 0;
        Some(past)
    }

    /// Remembers a key anew.
    pub fn put(&mut self, hash: u64, past: Past) {
        self.take(hash);
        let (bucket, print) = self.address(hash);
        let bucket = &mut self.buckets[bucket];
        bucket.copy_within(..BUCKET - 1, 1);
        bucket[0] = print | past.bits();
    }

    /// Hashes are mixed: the upper bits choose the bucket, the lower ones are the fingerprint.
    fn address(&self, hash: u64) -> (usize, u16) {
        let bucket = (u128::from(hash) * self.buckets.len() as u128) >> 64;
        (bucket as usize, (hash as u16 & PRINT).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
    }

    /// Each of those there are.
    fn of(n: u64) -> Past {
        match (n % 16) as u8 {
            uses @ ..=MOST_USES => Past::Used(uses),
            more => Past::InVain(more - MOST_USES),
        }
    }

    #[test]
    fn the_latest_are_remembered_and_nothing_else() {
        let mut recent = Recent::new(16_000);
        assert_eq!(recent.take(hash(1)), None);
        for n in 0..100_000 {
            recent.put(hash(n), of(n));
        }
        let known = |recent: &mut Recent, keys: std::ops::Range<u64>| {
            keys.filter(|n| {
                // One in hundreds is another's.
                recent.take(hash(*n)) == Some(of(*n))
            })
            .count()
        };
        assert!(known(&mut recent, 100_000..110_000) < 30, "they were never turned away");
        assert!(known(&mut recent, 99_000..100_000) > 980);
        assert!(known(&mut recent, 99_000..100_000) < 10, "they were taken");
        let all = known(&mut recent, 0..99_000);
        assert!((4_500..=6_100).contains(&all), "{all}");
        assert!(size_of_val(&*recent.buckets) as u64 <= Recent::most_bytes(16_000));
    }
}
