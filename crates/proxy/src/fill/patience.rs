//! For how long slow readers may hold up others.

use std::time::{Duration, Instant};

/// How long readers that are slow may hold up one that is not, in one go. In the long run it is a fifth of the time.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How much longer slow readers may hold up others: what they held up is taken away, and a fourth of the time in which
/// they did not comes back.
#[derive(Default)]
pub(super) struct Patience {
    spent: Duration,
    /// Since when they do, or do not.
    since: Option<Instant>,
    held: bool,
}

impl Patience {
    pub(super) fn note(&mut self, held: bool) -> Duration {
        // Nothing to note as long as nothing was ever held up: the clock is not asked.
        if !held && self.since.is_none() {
            return PATIENCE;
        }
        self.note_at(held, Instant::now())
    }

    fn note_at(&mut self, held: bool, now: Instant) -> Duration {
        let passed = now.duration_since(self.since.unwrap_or(now));
        self.spent = if self.held { self.spent + passed } else { self.spent.saturating_sub(passed / 4) };
        (self.since, self.held) = (Some(now), held);
        PATIENCE.saturating_sub(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_readers_have_a_second_and_a_fifth_of_the_time() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut patience = Patience::default();
        assert_eq!(patience.note_at(true, at(0)), PATIENCE);
        assert_eq!(patience.note_at(true, at(600)), PATIENCE * 4 / 10);
        // A byte now and then gives back no more than a fourth.
        assert_eq!(patience.note_at(false, at(800)), PATIENCE * 2 / 10);
        assert_eq!(patience.note_at(true, at(1_200)), PATIENCE * 3 / 10);
        assert_eq!(patience.note_at(true, at(1_500)), Duration::ZERO);
        let mut patience = Patience::default();
        for round in 0..1_000 {
            assert!(!patience.note_at(true, at(round * 50)).is_zero());
            assert!(!patience.note_at(false, at(round * 50 + 10)).is_zero());
        }
    }
}
