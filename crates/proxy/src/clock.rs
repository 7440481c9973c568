//! The time of day, to the second, as caching counts it, and moments between which time is measured.

use cache::Time;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub fn now() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// For how long a response takes. Costs tens of nanoseconds: an answer from memory asks twice.
pub fn moment() -> Instant {
    #[cfg(test)]
    tests::ASKED.set(tests::ASKED.get() + 1);
    Instant::now()
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    thread_local! {
        /// How often this thread asked for a moment.
        pub static ASKED: Cell<u64> = const { Cell::new(0) };
    }
}
