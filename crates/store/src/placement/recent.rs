//! What was turned away, or overwritten, lately: fingerprints of keys with their uses, the latest ones of each bucket. What is older
//! goes as others come.

const BUCKET: usize = 8;
/// Keys of which one is remembered for each sixteen objects that the index has room for: seven, in 0.875 bytes an object.
const OF_SIXTEEN: u64 = 7;
/// A fingerprint has the lower bits, uses the upper ones.
const PRINT_BITS: u32 = 12;
const PRINT: u16 = (1 << PRINT_BITS) - 1;
/// Uses that are counted.
pub const MOST_USES: u8 = 15;

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

    /// The uses of a key, if it is remembered.
    pub fn find(&self, hash: u64) -> Option<u8> {
        let (bucket, print) = self.address(hash);
        let held = self.buckets[bucket].iter().find(|held| **held & PRINT == print)?;
        Some((held >> PRINT_BITS) as u8)
    }

    /// The same, and it is not any more.
    pub fn take(&mut self, hash: u64) -> Option<u8> {
        let (bucket, print) = self.address(hash);
        let bucket = &mut self.buckets[bucket];
        let at = bucket.iter().position(|held| held & PRINT == print)?;
        let uses = bucket[at] >> PRINT_BITS;
        bucket.copy_within(at + 1.., at);
        bucket[BUCKET - 1] = 0;
        Some(uses as u8)
    }

    /// Remembers a key that is not among them.
    pub fn put(&mut self, hash: u64, uses: u8) {
        let (bucket, print) = self.address(hash);
        let bucket = &mut self.buckets[bucket];
        bucket.copy_within(..BUCKET - 1, 1);
        bucket[0] = print | u16::from(uses.min(MOST_USES)) << PRINT_BITS;
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

    #[test]
    fn the_latest_are_remembered_and_nothing_else() {
        let mut recent = Recent::new(16_000);
        assert_eq!(recent.take(hash(1)), None);
        for n in 0..100_000 {
            recent.put(hash(n), (n % 16) as u8);
        }
        let known = |recent: &mut Recent, keys: std::ops::Range<u64>| {
            keys.filter(|n| {
                // One in hundreds is another's.
                recent.take(hash(*n)) == Some((*n % 16) as u8)
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
