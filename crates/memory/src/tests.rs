use super::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::{HashMap, HashSet};

/// A key that looks like a hash.
fn key(n: u64) -> u128 {
    (u128::from(n) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

const SECRET: u128 = 0xF39C_C060_5CED_C834_9E37_79B9_7F4A_7C15;

/// What is asked for and, if it is not there, put: how much of it was there.
struct Client {
    tier: Tier<u64>,
    hits: u64,
    asked: u64,
}

impl Client {
    fn of(bytes: u64) -> Client {
        Client { tier: Tier::new(bytes, 1, 1, SECRET), hits: 0, asked: 0 }
    }

    fn ask(&mut self, n: u64, bytes: u64) -> bool {
        self.asked += 1;
        if self.tier.get(key(n)).is_some() {
            self.hits += 1;
            return true;
        }
        self.tier.insert(key(n), n, bytes, |_| {});
        false
    }
}

/// Whatever is done: values are right, bytes are the sum and keep to the bound, and each value leaves once.
#[test]
fn values_leave_once_and_bytes_keep_to_the_bound() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut bound = rng.random_range(1..20_000);
        let tier = Shard::new(bound);
        let (mut tier, mut next, mut sizes) = (tier, 0u64, HashMap::new());
        let (mut there, mut gone) = (HashMap::<u64, u64>::new(), HashSet::new());
        for _ in 0..2_000 {
            let n = rng.random_range(0..200u64);
            let mut left = Vec::new();
            match rng.random_range(0..20) {
                0..8 => assert!(tier.get(key(n)).is_none_or(|value| there[&n] == *value), "seed {seed}"),
                8..18 => {
                    next += 1;
                    let most = rng.random_range(1..2_000);
                    let bytes = rng.random_range(0..most);
                    sizes.insert(next, bytes);
                    tier.insert(key(n), next, bytes, &mut |value| left.push(value));
                    there.insert(n, next);
                }
                18 => left.extend(tier.remove(key(n))),
                _ => {
                    bound = rng.random_range(1..20_000);
                    tier.resize(bound, &mut |value| left.push(value));
                }
            }
            left.into_iter().for_each(|value| assert!(gone.insert(value), "seed {seed}: {value} left twice"));
            let stays = |value: &u64| !gone.contains(value);
            let kept: u64 = (1..=next).filter(stays).map(|value| sizes[&value]).sum();
            assert!(tier.bytes() == kept && kept <= bound, "seed {seed}");
            assert_eq!(tier.count() as usize, (1..=next).filter(stays).count());
            for (n, value) in &there {
                assert_eq!(tier.peek(key(*n)).is_some(), stays(value), "seed {seed}");
            }
        }
    }
}

#[test]
fn what_is_used_most_per_byte_stays() {
    let mut client = Client::of(1_000_000);
    for round in 0..100 {
        for n in 0..200 {
            client.ask(n, 1_000);
        }
        for n in 1_000..1_040 {
            client.ask(n, 30_000);
        }
        // Never asked for again.
        for n in 0..100 {
            client.ask(10_000 + round * 100 + n, 2_000);
        }
    }
    let there = |range: std::ops::Range<u64>| range.filter(|n| client.tier.peek(key(*n)).is_some()).count();
    let (small, large) = (there(0..200), there(1_000..1_040));
    assert!(small > 160 && large < 20, "{small} small ones, {large} large ones");
}

#[test]
fn what_was_just_put_is_there_whatever_its_size() {
    let mut client = Client::of(100_000);
    for n in 0..1_000 {
        client.ask(n % 300, 100);
        client.ask(n % 300, 100);
    }
    for n in 0..100 {
        client.ask(10_000 + n, 10_000);
        assert!(client.ask(10_000 + n, 10_000) && (n < 3 || client.ask(10_000 + n - 3, 10_000)));
    }
}

/// Where all are rich one leaves nonetheless, after a bounded number of looks, and what is poor beside them does.
#[test]
fn whoever_comes_waits_for_few_looks() {
    let mut shard = Shard::new(100_000);
    for n in 0..1_000 {
        shard.insert(key(n), n, 100, &mut |_| {});
    }
    for _ in 0..20 {
        (0..1_000).filter(|n| n % 10 > 0).for_each(|n| assert!(shard.get(key(n)).is_some()));
    }
    let mut left = Vec::new();
    (0..60).for_each(|n| shard.insert(key(5_000 + n), 5_000, 100, &mut |n| left.push(n)));
    let poor = left.iter().filter(|n| *n % 10 == 0).count();
    assert!(left.len() == 60 && poor > 50, "{left:?}");
}

/// Which differ in a few bits alone, wherever these are.
#[test]
fn chosen_keys_crowd_neither_a_shard_nor_a_place_in_its_table() {
    for place in 0..112 {
        for secret in [SECRET, SECRET.rotate_left(61), !SECRET] {
            let tier = Tier::new(8 << 20, 1, 1, secret);
            (0..1_000).for_each(|n| tier.insert(n << place, n, 1, |_| {}));
            let counts: Vec<u64> = tier.shards.iter().map(|shard| read(shard).count()).collect();
            assert!(counts.len() == 4 && counts.iter().all(|count| *count > 100), "{place}: {counts:?}");
            let places: HashSet<u32> = (0..1_000u128).map(|n| (tier.mix(n << place) >> 96) as u32).collect();
            assert!(places.len() > 990, "{place}: {}", places.len());
        }
    }
}

#[test]
fn threads_share_it() {
    let tier = Tier::new(8 << 20, 4_000, 4, SECRET);
    assert_eq!(tier.shards.len(), 8);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tier = &tier;
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(thread);
                for _ in 0..50_000 {
                    let n = rng.random_range(0..5_000u64);
                    match rng.random_range(0..10) {
                        0..7 => assert!(tier.get(key(n)).is_none_or(|value| value == n)),
                        7..9 => tier.insert(key(n), n, 4_000, |_| {}),
                        _ => drop(tier.remove(key(n))),
                    }
                }
            });
        }
    });
    assert!(tier.bytes() == tier.count() * 4_000 && tier.bytes() <= 8 << 20);
    tier.resize(1 << 20, |_| {});
    assert!(tier.bytes() <= 1 << 20);
}

#[test]
fn the_largest_have_room_in_every_shard_whoever_asks() {
    for (bytes, largest, threads, shards) in
        [(256 << 20, 1 << 20, 64, 16), (16 << 30, 1 << 20, 2, 256), (1 << 20, 16 << 10, 64, 1), (0, 0, 1, 1)]
    {
        assert_eq!(
            Tier::<()>::new(bytes, largest, threads, SECRET).shards.len(),
            shards,
            "{bytes} {largest}"
        );
    }
}

#[test]
fn what_is_larger_than_its_room_is_not_taken() {
    let tier = Tier::new(4 << 20, 4_000, 2, SECRET);
    let mut left = Vec::new();
    tier.insert(key(1), 'a', 1_000, |_| panic!("there is room"));
    tier.insert(key(1), 'b', 3 << 20, |value| left.push(value));
    assert!(left == ['a', 'b'] && tier.count() == 0);
}
