//! When a write that failed is tried again: after a pause that doubles.

use crate::engine::Millis;

/// Before the second attempt, and at most before any.
const FIRST: Millis = 100;
const LONGEST: Millis = 10_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    /// The last pause; 0: it has not failed since it last succeeded.
    pause: Millis,
    until: Millis,
}

impl Retry {
    /// It failed. Of several failures at once the first counts.
    pub fn fail(&mut self, now: Millis) {
        if self.is_due(now) {
            self.pause = (2 * self.pause).clamp(FIRST, LONGEST);
            self.until = now + self.pause;
        }
    }

    pub fn is_failing(&self) -> bool {
        self.pause > 0
    }

    /// Always true of what has not failed.
    pub fn is_due(&self, now: Millis) -> bool {
        now >= self.until
    }

    /// Another write succeeded: this one need not wait for long.
    pub fn hasten(&mut self, now: Millis) {
        self.until = self.until.min(now + FIRST);
    }

    /// Somebody waits for it.
    pub fn now(&mut self) {
        self.until = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let (mut retry, mut now, mut pauses) = (Retry::default(), 5, Vec::new());
        assert!(retry.is_due(0) && !retry.is_failing());
        for _ in 0..9 {
            retry.fail(now);
            retry.fail(now);
            let until = (now..).find(|at| retry.is_due(*at)).unwrap();
            pauses.push(until - now);
            now = until;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        retry.fail(now);
        retry.hasten(now);
        assert!(retry.is_failing() && !retry.is_due(now + 99) && retry.is_due(now + 100));
    }
}
