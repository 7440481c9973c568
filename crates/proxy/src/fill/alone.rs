//! Keys whose responses are not worth waiting for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Keys whose last response was not for sharing: two generations, so that forgetting costs nothing.
pub(super) struct Alone {
    young: HashMap<u128, Instant>,
    old: HashMap<u128, Instant>,
    lifetime: Duration,
    max: usize,
}

impl Alone {
    /// Knows about `most` keys, for `lifetime` each.
    pub(super) fn new(lifetime: Duration, most: usize) -> Alone {
        Alone { young: HashMap::new(), old: HashMap::new(), lifetime, max: most / 2 }
    }

    pub(super) fn knows(&self, key: u128) -> bool {
        let since = self.young.get(&key).or_else(|| self.old.get(&key));
        since.is_some_and(|since| since.elapsed() < self.lifetime)
    }

    pub(super) fn remember(&mut self, key: u128) {
        if self.young.len() >= self.max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Instant::now());
    }

    pub(super) fn forget(&mut self, key: u128) {
        self.young.remove(&key);
        self.old.remove(&key);
    }
}
