//! The last events, for the operator's page.

use proxy::Event;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Events that are kept.
const MOST: usize = 100;

#[derive(Default)]
pub struct Recent(Mutex<VecDeque<Event>>);

impl Recent {
    pub fn add(&self, event: Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= MOST {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// The newest last.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_are_kept() {
        let recent = Recent::default();
        (0..250).for_each(|seconds| {
            recent.add(Event { seconds, level: "warn", area: "disk", text: String::new() });
        });
        let seconds: Vec<_> = recent.all().iter().map(|event| event.seconds).collect();
        assert_eq!(seconds, (150..250).collect::<Vec<_>>());
    }
}
