//! Objects that a range of their origin did not make whole: a gap was not closed, or a part did not grow. Who asks next has all
//! of such an object fetched, so that what an origin does with ranges is nobody's end for ever. It is a hint, and may be forgotten.

use super::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use store::Spans;

/// Objects that are remembered, the newest.
const MOST: usize = 256;

/// For how long bodies under way do not ask for what did not come: they break off. And so many refusals have to come within it.
const RECENT: Duration = Duration::from_secs(10);

/// Then ranges may be tried again.
const STAYS: Duration = Duration::from_secs(60);

/// So many requests are refused one after the other, and others would be too: who comes next is spared that. Those under way ask
/// themselves.
const REFUSALS: u8 = 3;

#[derive(Default)]
pub struct Vain(Mutex<VecDeque<Entry>>);

struct Entry {
    object: (u16, u64),
    since: Instant,
    /// An origin that was asked often enough gave nothing.
    tried: bool,
    /// Of requests that may have been refused for what they say themselves.
    refusals: u8,
}

impl Vain {
    pub fn note(&self, spans: &Spans) {
        self.renew(spans, |entry| entry.tried = true);
    }

    /// One request was refused; another may not be.
    pub fn note_refusal(&self, spans: &Spans) {
        self.renew(spans, |entry| entry.refusals = entry.refusals.saturating_add(1));
    }

    fn renew(&self, spans: &Spans, note: impl FnOnce(&mut Entry)) {
        let (object, mut all) = ((spans.store, spans.id), lock(&self.0));
        let found = all.iter().position(|entry| entry.object == object).and_then(|at| all.remove(at));
        let new = || Entry { object, since: Instant::now(), tried: false, refusals: 0 };
        let mut entry = found.filter(|entry| entry.since.elapsed() < RECENT).unwrap_or_else(new);
        entry.since = Instant::now();
        note(&mut entry);
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(entry);
    }

    /// Ranges are as good as all of it: a fetch of that did not come to its end either, or a range did.
    pub fn forget(&self, spans: &Spans) {
        lock(&self.0).retain(|entry| entry.object != (spans.store, spans.id));
    }

    pub fn knows(&self, spans: &Spans) -> bool {
        let known =
            |entry: &Entry| (entry.tried || entry.refusals >= REFUSALS) && entry.since.elapsed() < STAYS;
        self.any(spans, known)
    }

    pub fn knows_recent(&self, spans: &Spans) -> bool {
        self.any(spans, |entry| entry.tried && entry.since.elapsed() < RECENT)
    }

    fn any(&self, spans: &Spans, known: impl Fn(&Entry) -> bool) -> bool {
        let object = (spans.store, spans.id);
        lock(&self.0).iter().any(|entry| entry.object == object && known(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_until_they_are_forgotten() {
        let (vain, spans) = (Vain::default(), |id| Spans { store: 0, id, length: 95, span: 10 });
        (0..MOST as u64 + 2).for_each(|id| vain.note(&spans(id)));
        vain.note(&spans(2));
        assert_eq!([0, 1, 2, 9].map(|id| vain.knows(&spans(id))), [false, false, true, true]);
        assert_eq!(lock(&vain.0).len(), MOST);
        // An object that has grown is the same.
        assert!(vain.knows_recent(&Spans { length: 99, ..spans(9) }));
        vain.forget(&spans(9));
        assert!(!vain.knows(&spans(9)) && !vain.knows_recent(&spans(9)));
        let known = [0; 3].map(|_| {
            vain.note_refusal(&spans(9));
            vain.knows(&spans(9))
        });
        assert_eq!(known, [false, false, true]);
        assert!(!vain.knows_recent(&spans(9)), "one client may be refused for what it says itself");
        let older = |by| lock(&vain.0).iter_mut().for_each(|entry| entry.since -= by);
        older(RECENT);
        vain.note_refusal(&spans(9));
        assert!(vain.knows(&spans(2)) && !vain.knows(&spans(9)), "in a row");
        older(STAYS);
        assert!(!vain.knows(&spans(2)));
    }
}
