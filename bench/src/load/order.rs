//! In which order objects are asked for.

use crate::body::mix;
use std::ops::Range;

#[derive(Clone, Debug)]
pub enum Order {
    /// From the first to the last, then again.
    Cycle(Range<u64>),
    /// Each drawn evenly from all; the seed makes it repeatable.
    Random(Range<u64>, u64),
    /// Each one time, then the load ends.
    Once(Range<u64>),
    /// These, each one time.
    Listed(Vec<u64>),
}

impl Order {
    pub fn walk(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Order::Cycle(range) => Box::new(range.clone().cycle()),
            Order::Random(range, seed) => {
                let (start, count, seed) = (range.start, range.end - range.start, *seed);
                Box::new((0u64..).map(move |step| start + mix(seed ^ mix(step)) % count.max(1)))
            }
            Order::Once(range) => Box::new(range.clone()),
            Order::Listed(numbers) => Box::new(numbers.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        assert_eq!(Order::Cycle(3..5).walk().take(5).collect::<Vec<_>>(), [3, 4, 3, 4, 3]);
        assert_eq!(Order::Once(3..5).walk().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(Order::Listed(vec![9, 1]).walk().collect::<Vec<_>>(), [9, 1]);
        let drawn: Vec<u64> = Order::Random(10..20, 1).walk().take(1000).collect();
        assert!((10..20).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (10..20).contains(number)));
        assert_eq!(drawn, Order::Random(10..20, 1).walk().take(1000).collect::<Vec<_>>());
    }
}
