//! Random numbers that follow from a seed, the same on every machine and in every version.

/// SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Of the normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Of the exponential distribution of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A number that looks unlike its neighbours'.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A rank from 0 to `count` - 1 by Zipf's law, the first the likeliest: the inverse of the continuous law, which
/// misses the discrete one by a few per cent for the first ranks and by nothing beyond.
pub fn zipf(luck: f64, count: u64, exponent: f64) -> u64 {
    let most = count as f64;
    let power = 1.0 - exponent;
    let rank = if power.abs() < 1e-9 {
        (luck * (most + 1.0).ln()).exp()
    } else {
        (1.0 + luck * ((most + 1.0).powf(power) - 1.0)).powf(1.0 / power)
    };
    (rank as u64).clamp(1, count.max(1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_everywhere() {
        let mut random = Random::of(1);
        assert_eq!([random.bits(), random.bits()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
    }

    #[test]
    fn zipf_falls_as_its_law_says() {
        let (count, draws) = (1000, 400_000);
        let mut random = Random::of(7);
        for exponent in [0.6, 1.0] {
            let mut seen = vec![0u64; count as usize];
            (0..draws).for_each(|_| seen[zipf(random.unit(), count, exponent) as usize] += 1);
            let whole: f64 = (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum();
            for rank in [2usize, 10, 100] {
                let expected = (rank as f64).powf(-exponent) / whole * draws as f64;
                let off = seen[rank - 1] as f64 / expected;
                assert!((0.8..1.2).contains(&off), "rank {rank} of {exponent}: {off} of what is expected");
            }
        }
    }
}
