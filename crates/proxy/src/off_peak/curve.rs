//! The load of a day, learned: requests in each quarter of an hour, of which older days count less and less.

/// Quarters of an hour in a day, and minutes in one.
const SLOTS: usize = 96;
const SLOT: u16 = 15;
/// What a new day counts for, beside all before it.
const NEW: f64 = 1.0 / 3.0;
/// So many of the quietest slots are off-peak: a quarter of the day.
const QUIET: usize = SLOTS / 4;
/// A slot is judged with so many on each side, so that quiet hours hang together.
const SIDES: usize = 2;

#[derive(Clone, Debug, Default)]
pub struct DayCurve {
    /// Requests of each slot; `None`: none was seen whole.
    slots: Vec<Option<f64>>,
    /// The slot that is being counted.
    now: Option<Counted>,
    /// Load up to which a slot is quiet, once all of a day is known, and that of each slot.
    most: f64,
    smooth: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    slot: usize,
    requests: u64,
    /// From its beginning.
    is_whole: bool,
}

impl DayCurve {
    /// So many requests came since this was called last, now being this minute of the day. To be called several times in each slot.
    pub fn note(&mut self, minute: u16, requests: u64) {
        let slot = usize::from(minute / SLOT) % SLOTS;
        let now = self.now.get_or_insert(Counted { slot, requests: 0, is_whole: false });
        now.requests += requests;
        if now.slot == slot {
            return;
        }
        // Where the clock was put forward or back, neither of the two slots was seen whole.
        let follows = slot == (now.slot + 1) % SLOTS;
        let ended = *now;
        self.now = Some(Counted { slot, requests: 0, is_whole: follows });
        if ended.is_whole && follows {
            self.learn(ended.slot, ended.requests as f64);
        }
    }

    fn learn(&mut self, slot: usize, requests: f64) {
        self.slots.resize(SLOTS, None);
        let before = self.slots[slot].unwrap_or(requests);
        self.slots[slot] = Some(before + (requests - before) * NEW);
        let Some(slots) = self.slots.iter().copied().collect::<Option<Vec<f64>>>() else { return };
        let around = |n: usize| (0..=2 * SIDES).map(|side| slots[(n + SLOTS + side - SIDES) % SLOTS]).sum();
        self.smooth = (0..SLOTS).map(around).collect();
        let mut sorted = self.smooth.clone();
        sorted.sort_by(f64::total_cmp);
        self.most = sorted[QUIET - 1];
    }

    /// Requests of each quarter of an hour from midnight on, as learned; nothing where none was seen whole.
    pub fn loads(&self) -> Vec<Option<f64>> {
        let mut loads = self.slots.clone();
        loads.resize(SLOTS, None);
        loads
    }

    /// Whether this minute of the day is among the quietest. Each one is, until all of a day is known.
    pub fn is_quiet(&self, minute: u16) -> bool {
        let load = self.smooth.get(usize::from(minute / SLOT) % SLOTS);
        load.is_none_or(|load| *load <= self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many days of a load of each hour, noted every five minutes.
    fn days(curve: &mut DayCurve, days: usize, load: impl Fn(u16) -> u64) {
        for _ in 0..days {
            (0..24 * 60).step_by(5).for_each(|minute| curve.note(minute, load(minute / 60)));
        }
    }

    fn quiet(curve: &DayCurve) -> Vec<u16> {
        (0..24).filter(|hour| curve.is_quiet(hour * 60 + 30)).collect()
    }

    #[test]
    fn the_quietest_quarter_of_the_day_is_learned() {
        let night = |hour: u16| if (2..8).contains(&hour) { 3 } else { 100 + u64::from(hour) };
        let mut curve = DayCurve::default();
        days(&mut curve, 1, night);
        assert_eq!(
            quiet(&curve).len(),
            24,
            "the first slot was not seen whole, and the last one has not ended"
        );
        days(&mut curve, 1, night);
        assert_eq!(quiet(&curve), [2, 3, 4, 5, 6, 7]);
        let share = (0..1_440).filter(|minute| curve.is_quiet(*minute)).count();
        assert!((300..=400).contains(&share), "{share} minutes");
    }

    #[test]
    fn another_life_is_learned_within_days() {
        let mut curve = DayCurve::default();
        days(&mut curve, 10, |hour| if hour < 6 { 1 } else { 100 });
        assert_eq!(quiet(&curve), [0, 1, 2, 3, 4, 5]);
        days(&mut curve, 1, |hour| if hour >= 18 { 1 } else { 100 });
        assert_eq!(quiet(&curve), [0, 1, 2, 3, 4, 5], "one holiday changes nothing");
        days(&mut curve, 4, |hour| if hour >= 18 { 1 } else { 100 });
        assert_eq!(quiet(&curve), [18, 19, 20, 21, 22, 23]);
    }

    /// No slot is more off-peak than another that is as quiet.
    #[test]
    fn where_nobody_asks_it_is_always_quiet() {
        let mut curve = DayCurve::default();
        days(&mut curve, 3, |_| 0);
        assert_eq!(quiet(&curve).len(), 24);
    }

    #[test]
    fn what_was_not_seen_whole_does_not_count() {
        let mut curve = DayCurve::default();
        // A machine that sleeps, and clocks that are put forward and back.
        for _ in 0..200 {
            for minute in [100, 110, 116, 500, 130, 110, 1_439, 0, 20] {
                curve.note(minute, 5);
            }
        }
        assert!(
            curve.smooth.is_empty() && curve.slots.iter().flatten().all(|requests| *requests <= 5.0),
            "{curve:?}"
        );
    }
}
