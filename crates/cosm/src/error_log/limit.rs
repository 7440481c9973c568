//! Of each kind of trouble one line a second.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;

/// Between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(1);

/// Where in the program it is said, and the status, if one is said. There are as many as the program has of these.
pub type Kind = (Identifier, u64);

#[derive(Default)]
pub struct Limit(HashMap<Kind, Rate>);

struct Rate {
    last: Instant,
    left_out: u64,
}

impl Limit {
    /// How many of a kind were left out since its last line, if the next may be written now.
    pub fn admits(&mut self, kind: Kind, now: Instant) -> Option<u64> {
        let Some(rate) = self.0.get_mut(&kind) else {
            self.0.insert(kind, Rate { last: now, left_out: 0 });
            return Some(0);
        };
        if now.duration_since(rate.last) < PAUSE {
            rate.left_out += 1;
            return None;
        }
        rate.last = now;
        Some(std::mem::take(&mut rate.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::callsite::Callsite;

    struct Site;

    impl Callsite for Site {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}
        fn metadata(&self) -> &tracing::Metadata<'_> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn one_line_a_second_counts_those_between() {
        static SITE: Site = Site;
        let (mut limit, start) = (Limit::default(), Instant::now());
        let mut at =
            |ms, status| limit.admits((Identifier(&SITE), status), start + Duration::from_millis(ms));
        let lines = [0, 1, 999, 1_000, 1_001, 3_000].map(|ms| at(ms, 502));
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(at(3_001, 504), Some(0), "another kind");
    }
}
