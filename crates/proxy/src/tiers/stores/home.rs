//! Which of several disks a key belongs to: weighted rendezvous hashing over the disks' identities. The order of the settings means
//! nothing, and where the set changes, those keys alone move whose disk came or went.

/// The best of these disks, each by its place, identity and weight, for a key's hash.
pub fn home(disks: impl Iterator<Item = (usize, u64, f64)>, hash: u128) -> Option<usize> {
    let costs = disks.map(|(place, identity, weight)| (cost(identity, weight, hash), place));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place)
}

/// Exponentially distributed, with the weight as its rate: the least of several is this one's with a chance in proportion to that.
fn cost(identity: u64, weight: f64, hash: u128) -> f64 {
    let bits = mix(mix(identity ^ hash as u64) ^ (hash >> 64) as u64) >> 11;
    let chance = (bits as f64 + 0.5) / (1u64 << 53) as f64;
    -chance.ln() / weight
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Key;

    const KEYS: usize = 40_000;

    fn homes(disks: &[(u64, f64)]) -> Vec<u64> {
        let all = || disks.iter().enumerate().map(|(n, (identity, weight))| (n, *identity, *weight));
        let key = |n: usize| Key::new(format!("GET http://example.com/{n}").into_bytes()).hash();
        (0..KEYS).map(|n| disks[home(all(), key(n)).unwrap()].0).collect()
    }

    fn share(homes: &[u64], of: u64) -> f64 {
        homes.iter().filter(|home| **home == of).count() as f64 / KEYS as f64
    }

    #[test]
    fn keys_are_shared_by_weight() {
        let sets: [&[(u64, f64)]; 4] = [
            &[(1, 1.0), (2, 1.0)],
            &[(1, 1.0), (2, 3.0)],
            &[(7, 5e9), (8, 5e9), (9, 5e9), (10, 5e9)],
            &[(1, 1e12), (2, 2e12), (3, 3e12), (4, 4e12)],
        ];
        for disks in sets {
            let (homes, total) = (homes(disks), disks.iter().map(|disk| disk.1).sum::<f64>());
            for (identity, weight) in disks {
                let (is, should) = (share(&homes, *identity), weight / total);
                assert!((is / should - 1.0).abs() < 0.05, "{identity} of {disks:?}: {is} for {should}");
            }
        }
    }

    #[test]
    fn order_means_nothing_and_only_what_must_moves() {
        let three = homes(&[(1, 1.0), (2, 2.0), (3, 1.0)]);
        assert_eq!(homes(&[(3, 1.0), (1, 1.0), (2, 2.0)]), three);
        let two = homes(&[(1, 1.0), (3, 1.0)]);
        assert!(three.iter().zip(&two).all(|(before, after)| *before == 2 || before == after));
        assert_eq!(home(std::iter::empty(), 7), None);
    }
}
