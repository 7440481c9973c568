//! Whether the uplink seems down: whatever was asked of late could not be reached, and nothing answered.
//!
//! Workers note it, each for all of them. Time is an argument.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// So far apart are two failures with no success between them where it seems down: one that fails says nothing of the others.
const SEEMS: Duration = Duration::from_secs(2);
/// What failed this long ago says nothing of now.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// How often one is tried meanwhile.
const PROBE: Duration = Duration::from_secs(1);

/// Moments are milliseconds after `born`; 0: none.
pub struct Uplink {
    born: Instant,
    /// The first failure since something answered.
    failing: AtomicU64,
    /// The last one.
    failed: AtomicU64,
    probed: AtomicU64,
    told: AtomicBool,
}

impl Default for Uplink {
    fn default() -> Uplink {
        let (failing, failed, probed, told) = Default::default();
        Uplink { born: Instant::now(), failing, failed, probed, told }
    }
}

impl Uplink {
    /// Something could be reached.
    pub fn answered(&self) {
        if self.failing.load(Relaxed) != 0 {
            self.failing.store(0, SeqCst);
            self.tell_end();
        }
    }

    fn tell_end(&self) {
        if self.told.swap(false, SeqCst) {
            tracing::info!(target: "origin", "origins can be reached again");
        }
    }

    /// Something could not be connected to, or its name not be looked up.
    pub fn failed(&self, now: Instant) {
        let now = self.moment(now);
        if now.saturating_sub(self.failed.swap(now, Relaxed)) > millis(FORGOTTEN) {
            self.failing.store(now, Relaxed);
        } else {
            let _ = self.failing.compare_exchange(0, now, Relaxed, Relaxed);
        }
    }

    pub fn seems_down(&self, now: Instant) -> bool {
        let (now, failing) = (self.moment(now), self.failing.load(Relaxed));
        let failed = self.failed.load(Relaxed);
        let is_down = failing != 0
            && failed.saturating_sub(failing) >= millis(SEEMS)
            && now.saturating_sub(failed) <= millis(FORGOTTEN);
        if is_down && !self.told.swap(true, SeqCst) {
            tracing::warn!(target: "origin", "no origin can be reached: stale responses answer (offline auto)");
            // What answered meanwhile found nothing told.
            if self.failing.load(SeqCst) == 0 {
                self.tell_end();
            }
        }
        is_down
    }

    /// Whether it is time to try one; then it is not for everybody else.
    pub fn is_probe_due(&self, now: Instant) -> bool {
        let (now, probed) = (self.moment(now), self.probed.load(Relaxed));
        let is_due = probed == 0 || now.saturating_sub(probed) >= millis(PROBE);
        is_due && self.probed.compare_exchange(probed, now, Relaxed, Relaxed).is_ok()
    }

    fn moment(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.born)) + 1
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_seems_down_while_all_that_is_tried_fails() {
        let uplink = Uplink::default();
        let at = |seconds: u64| uplink.born + Duration::from_secs(seconds);
        assert!(!uplink.seems_down(at(0)));
        uplink.failed(at(1));
        assert!(!uplink.seems_down(at(10)), "one failed, once");
        uplink.failed(at(2));
        assert!(!uplink.seems_down(at(10)), "twice, a moment after");
        uplink.failed(at(3));
        assert!(uplink.seems_down(at(3)));
        uplink.answered();
        assert!(!uplink.seems_down(at(3)));
        uplink.failed(at(4));
        assert!(!uplink.seems_down(at(6)), "it begins anew");
        uplink.failed(at(10));
        assert!(uplink.seems_down(at(70)) && !uplink.seems_down(at(71)), "that was long ago");
        uplink.failed(at(200));
        assert!(!uplink.seems_down(at(202)), "it begins anew");
        uplink.failed(at(202));
        assert!(uplink.seems_down(at(202)));
    }

    #[test]
    fn one_is_tried_now_and_then() {
        let uplink = Uplink::default();
        let due = |millis: u64| uplink.is_probe_due(uplink.born + Duration::from_millis(millis));
        assert!(due(0) && !due(0) && !due(999) && due(1000) && !due(1001));
    }
}
