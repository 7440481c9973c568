//! The time of day, to the second, as caching counts it.

use cache::Time;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn now() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
