//! In which order objects are asked for.

use crate::body::mix;
use std::ops::Range;
use std::sync::Arc;

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
    /// Each drawn evenly from these.
    Drawn(Arc<Vec<u64>>, u64),
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
            Order::Drawn(numbers, seed) => {
                let count = numbers.len() as u64;
                let draw = move |step| mix(seed ^ mix(step)) % count.max(1);
                Box::new((0u64..).map_while(move |step| numbers.get(draw(step) as usize).copied()))
            }
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
        let some = Order::Drawn(Arc::new(vec![5, 8]), 1);
        let twenty: Vec<u64> = some.walk().take(20).collect();
        assert!(twenty.contains(&5) && twenty.contains(&8) && twenty.iter().all(|n| [5, 8].contains(n)));
        assert_eq!(Order::Drawn(Arc::default(), 1).walk().next(), None);
        let drawn: Vec<u64> = Order::Random(10..20, 1).walk().take(1000).collect();
        assert!((10..20).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (10..20).contains(number)));
        assert_eq!(drawn, Order::Random(10..20, 1).walk().take(1000).collect::<Vec<_>>());
    }
}
