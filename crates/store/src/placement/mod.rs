//! Who is let into the log, and who is put there again: what a place is worth, from live counts.
//!
//! Until the log has come round, all is let in. From then on each byte put takes a place for a lap and shortens the stay of
//! all others: what is lost are the hits in the oldest part of the log. These, for each byte put, are the *price* of a byte (an eighth of all
//! hits at least). An object is put if what it may be expected to give in a lap is more than its bytes cost (docs/decisions.md):
//!
//! - seen once: as many hits as objects of its size gave, for each of them that took its place in vain. Those that were turned
//!   away count as well: they are remembered for a while;
//! - used, in memory or on the disk: a share of its uses, as large as those got that were put again before.
//!
//! What is replaced again and again, and was not used between, is let in once in a while alone.
//!
//! What was used is put again when it is used while it lies in the older half of the log: its bytes are at hand then, and no read
//! is needed. Readers and hits in memory count and ask without a lock (`Live`); the engine takes over what they counted, and publishes
//! what it makes of it, for each segment's worth of bytes that is put, or eight that are turned away: so nothing gets stuck.
//!
//! With a write budget a byte also costs what it costs to be written (`budget`), whether the log has come round or not, and with `Admission::All` that alone.

mod budget;
#[cfg(test)]
mod cases;
mod recent;
mod worth;

use crate::engine::Millis;
use crate::index::{Slot, USES_MAX};
use crate::{Admission, WriteBudget};
use budget::Budget;
#[cfg(test)]
pub(crate) use budget::Seen;
use recent::{MOST_TIMES, MOST_USES, Past, Recent};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use worth::{CLASSES, Counted, CountedClass, Rates, TAIL, Worth, class, value};

/// Of what is in memory alone: the first use mostly comes with what brought it.
const SURE: u8 = 2;
/// Nothing is put again before it is this old, whatever places cost: twice a lap at most.
const YOUNG: f64 = 0.5;
/// What had its place in vain once more gets the next one with this chance, each time from the second on.
const AFTER_VAIN: f64 = 0.25;
/// A byte turned away counts as one in so many bytes put, for when estimates are taken over and fade: also where nothing is put.
const TURNED_AWAY: u64 = 8;
/// What is worth more than so many times the budget's price is let in, what is worth less than one part in so many of it is not; between, chance decides.
const SPREAD: f64 = 2.0;

/// The engine's part.
pub(crate) struct Placement {
    live: Arc<Live>,
    worth: Worth,
    recent: Recent,
    /// Bytes of a segment, and those put or turned away since the estimates were taken over.
    segment: u64,
    passed: u64,
    budget: Option<Budget>,
    /// Objects that were turned away for the budget's sake.
    unaffordable: u64,
}

/// The part that needs no lock.
pub(crate) struct Live {
    /// Places have a price once the log has come round; otherwise none ever has, and nothing is put again.
    by_worth: bool,
    /// Otherwise all is let in.
    judges: bool,
    segments: u64,
    /// The log has come round.
    lapped: AtomicBool,
    /// The number of the segment that was opened last, and how many of the log are not swept: fewer than it has when an index that is
    /// full has some swept before their turn.
    open: AtomicU64,
    lap: AtomicU64,
    /// `Rates` of each class of size, as bits.
    price: AtomicU64,
    write_price: AtomicU64,
    shares: [AtomicU64; CLASSES],
    counts: Counts,
}

/// Since the engine took them over. Not on the lines that every hit reads.
#[repr(align(128))]
struct Counts {
    /// The value of hits, and of those in the oldest part.
    hits: AtomicU64,
    tail: AtomicU64,
    classes: [ClassCounts; CLASSES],
}

/// Of a class of size: what came back from the disk, what was used in memory before that, and hits on what was put again.
#[derive(Default)]
struct ClassCounts {
    came_back: AtomicU64,
    used_first: AtomicU64,
    again: AtomicU64,
}

/// What is known of something that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    New,
    /// It was used so often before.
    Used(u8),
    /// It takes the place of what is known by this slot.
    As(Slot),
    /// A start found it.
    Unknown,
}

impl Standing {
    pub(crate) fn slot(self, place: u64, length: u32) -> Slot {
        let (uses, again) = match self {
            Standing::New => (0, false),
            // Half of them are believed.
            Standing::Used(uses) => (uses.min(USES_MAX) / 2, true),
            Standing::As(slot) => (slot.uses, slot.again),
            // Whether it was used before, nobody knows: it shall say nothing of others.
            Standing::Unknown => (1, false),
        };
        Slot { place, length, uses, again }
    }
}

impl Placement {
    /// Of a log of so many segments, each of so many bytes, for about so many objects.
    pub fn new(
        admission: Admission,
        budget: Option<WriteBudget>,
        (segments, segment): (u64, u64),
        objects: u64,
    ) -> Placement {
        let live = Arc::new(Live::new(admission, budget.is_some(), segments));
        let recent = Recent::new(if live.judges { objects } else { 0 });
        let (worth, budget) = (Worth::new(segments, segment), budget.map(Budget::new));
        let placement = Placement { live, worth, recent, segment, passed: 0, budget, unaffordable: 0 };
        placement.publish();
        placement.publish_write_price();
        placement
    }

    /// Bytes of memory that it takes at most for so many objects.
    pub const fn most_bytes(objects: u64) -> u64 {
        Recent::most_bytes(objects)
    }

    pub fn live(&self) -> Arc<Live> {
        self.live.clone()
    }

    /// Whether an object of so many bytes that was just fetched is let in, and how it stands then, beside what is `there` under
    /// its key. What is not is remembered. `chance`, from 0 to 1, decides where the budget's price is about what it is worth (objects of a size
    /// are worth the same, and they shall not come in all together, or none of them), and of what had its places in vain.
    pub fn admits(&mut self, hash: u64, bytes: u64, there: Option<Slot>, chance: f64) -> Option<Standing> {
        if !self.live.judges {
            return Some(Standing::New);
        }
        let remembered = self.recent.find(hash);
        let vain = times_in_vain(remembered, there);
        match vain {
            0 if matches!(remembered, Some(Past::InVain(_))) => drop(self.recent.take(hash)),
            0 => {}
            _ => self.recent.put(hash, Past::InVain(vain)),
        }
        // The first time may be by chance.
        if vain > 1 && self.live.is_lapped() && chance > AFTER_VAIN.powi(i32::from(vain) - 1) {
            self.pass(bytes / TURNED_AWAY);
            return None;
        }
        let before = remembered.map(|past| match past {
            // What was turned away when it was seen first is remembered without uses.
            Past::Used(uses) => uses + 1,
            Past::InVain(_) => 1,
        });
        // Whoever replaces it has looked at it.
        let uses = before.max(there.map(|slot| slot.uses.saturating_sub(1).max(1)));
        let (rates, is_lapped) = (self.live.rates(bytes), self.live.is_lapped());
        let pays = |write_price| {
            let rates = Rates { write_price, ..rates };
            uses.is_some_and(|uses| rates.pays(uses, bytes)) || self.worth.pays(bytes, is_lapped, write_price)
        };
        let write_price = self.budget.as_ref().map_or(0.0, |budget| budget.price(bytes));
        if pays(write_price * SPREAD.powf(2.0 * chance - 1.0)) {
            return Some(uses.map_or(Standing::New, Standing::Used));
        }
        self.unaffordable += u64::from(pays(0.0));
        match uses {
            None => self.worth.seen_once(bytes),
            Some(1) if remembered.is_some() => self.worth.came_back(bytes),
            Some(_) => {}
        }
        if vain == 0 {
            self.recent.put(hash, Past::Used(uses.unwrap_or(0)));
        }
        self.pass(bytes / TURNED_AWAY);
        None
    }

    /// So many bytes were put, for an object of this size, or for a piece of one: `None`.
    pub fn was_put(&mut self, hash: u64, bytes: u64, object: Option<u64>, standing: Standing) {
        match (object, standing) {
            (Some(size), Standing::New) => self.worth.seen_once(size),
            (Some(size), Standing::Used(uses)) => {
                if let Some(Past::Used(before)) = self.recent.find(hash) {
                    self.recent.take(hash);
                    if before == 0 {
                        self.worth.came_back(size);
                    }
                }
                self.worth.put_again(size, uses.min(USES_MAX));
            }
            _ => {}
        }
        self.worth.put(bytes);
        self.pass(bytes);
    }

    /// Time brings the budget something.
    pub fn pass_time(&mut self, now: Millis) {
        self.charge(|budget| budget.pass_time(now));
    }

    /// Does something to the budget, if there is one.
    pub fn charge(&mut self, change: impl FnOnce(&mut Budget)) {
        if let Some(budget) = &mut self.budget {
            change(budget);
            self.publish_write_price();
        }
    }

    /// Whether the budget has room for a piece of a body.
    pub fn affords_piece(&self, bytes: u64) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.has_for_piece(bytes))
    }

    #[cfg(test)]
    pub(crate) fn budget_seen(&self) -> Seen {
        self.budget.as_ref().map(|budget| budget.seen).unwrap_or_default()
    }

    /// Nothing is left of the budget.
    pub fn is_spent(&self) -> bool {
        self.budget.as_ref().is_some_and(Budget::is_spent)
    }

    /// Objects that were turned away for the budget's sake alone.
    pub fn unaffordable(&self) -> u64 {
        self.unaffordable
    }

    /// What was used is being overwritten: it may come back. (What a start found counts as used once.)
    pub fn was_swept(&mut self, hash: u64, slot: &Slot) {
        if self.live.judges && slot.uses > 1 {
            // As often at least.
            self.recent.put(hash, Past::Used(2 * slot.uses));
        }
    }

    /// A segment was opened, by its number, and so many were swept before their turn. `full`: something lay there.
    pub fn opened(&self, number: u64, full: bool, early: u64) {
        let live = &self.live;
        live.lapped.store(live.by_worth && full, Relaxed);
        live.open.store(number, Relaxed);
        live.lap.store(live.segments.saturating_sub(early).max(1), Relaxed);
    }

    fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        while self.passed >= self.segment {
            self.passed -= self.segment;
            self.worth.turn(&self.live.take());
            self.publish();
        }
    }

    fn publish(&self) {
        let live = &self.live;
        live.price.store(self.worth.price().to_bits(), Relaxed);
        live.shares
            .iter()
            .zip(self.worth.shares())
            .for_each(|(to, share)| to.store(share.to_bits(), Relaxed));
    }

    fn publish_write_price(&self) {
        if let Some(budget) = &self.budget {
            self.live.write_price.store(budget.price(0).to_bits(), Relaxed);
        }
    }
}

/// How often in a row the key had a place in vain: what was put there is replaced, and only whoever replaces it has looked at it.
fn times_in_vain(remembered: Option<Past>, there: Option<Slot>) -> u8 {
    let before = match remembered {
        Some(Past::InVain(times)) => times,
        _ => 0,
    };
    match there {
        Some(slot) if slot.uses > 1 => 0,
        Some(_) => (before + 1).min(MOST_TIMES),
        None => before,
    }
}

impl Live {
    fn new(admission: Admission, has_budget: bool, segments: u64) -> Live {
        let by_worth = admission == Admission::Worth;
        Live {
            by_worth,
            judges: by_worth || has_budget,
            segments,
            lapped: AtomicBool::default(),
            open: AtomicU64::default(),
            lap: AtomicU64::new(segments.max(1)),
            price: AtomicU64::default(),
            write_price: AtomicU64::default(),
            shares: [const { AtomicU64::new(0) }; CLASSES],
            counts: Counts {
                hits: AtomicU64::default(),
                tail: AtomicU64::default(),
                classes: std::array::from_fn(|_| ClassCounts::default()),
            },
        }
    }

    fn take(&self) -> Counted {
        let take = |count: &AtomicU64| count.swap(0, Relaxed);
        let class = |ClassCounts { came_back, used_first, again }: &ClassCounts| CountedClass {
            came_back: take(came_back),
            used_first: take(used_first),
            again: take(again),
        };
        let Counts { hits, tail, classes } = &self.counts;
        Counted { hits: take(hits), tail: take(tail), classes: classes.each_ref().map(class) }
    }

    #[cfg(test)]
    fn oldest_for_tests(&self) -> u64 {
        (self.open.load(Relaxed) + 1) % self.segments
    }

    /// And places have a price.
    fn is_lapped(&self) -> bool {
        self.lapped.load(Relaxed)
    }

    fn rates(&self, bytes: u64) -> Rates {
        let read = |bits: &AtomicU64| f64::from_bits(bits.load(Relaxed));
        let price = if self.is_lapped() { read(&self.price) } else { 0.0 };
        let share = read(&self.shares[class(bytes)]);
        Rates { price, write_price: read(&self.write_price), share }
    }

    /// Whether what was used so often, and has its place, is worth to be written there once more.
    pub fn affords(&self, uses: u8, bytes: u64) -> bool {
        Rates { price: 0.0, ..self.rates(bytes) }.pays(uses, bytes)
    }

    /// Of a segment, by its number: from 0, the one that is open, to nearly 1, the next to be overwritten.
    fn age(&self, segment: u64) -> f64 {
        let behind = (self.open.load(Relaxed) + self.segments - segment) % self.segments;
        (behind as f64 / self.lap.load(Relaxed) as f64).min(1.0)
    }

    /// The disk answered with an object of so many bytes in this segment. The slot has this use. Whether it is worth to be put again,
    /// if that can be done.
    pub fn was_hit(&self, slot: &Slot, segment: u64, bytes: u64) -> bool {
        // Of each object the first uses alone count: else one drives up the price for itself and all others, and speaks for its class.
        if slot.uses < USES_MAX {
            self.counts.hits.fetch_add(value(bytes), Relaxed);
            if self.age(segment) >= 1.0 - TAIL {
                self.counts.tail.fetch_add(value(bytes), Relaxed);
            }
            let counts = &self.counts.classes[class(bytes)];
            if slot.again {
                counts.again.fetch_add(1, Relaxed);
            } else if slot.uses == 1 {
                counts.came_back.fetch_add(1, Relaxed);
            }
        }
        self.goes_again(slot, segment, bytes)
    }

    /// Memory answered with an object in this segment, for the `all`th time since it was put or read. The slot has this use. Whether it
    /// is worth to be put again.
    pub fn was_used(&self, slot: &Slot, segment: u64, all: u8) -> bool {
        let bytes = slot.length.into();
        if slot.uses == 1 && !slot.again && all == 1 {
            self.counts.classes[class(bytes)].used_first.fetch_add(1, Relaxed);
        }
        self.goes_again(slot, segment, bytes)
    }

    fn goes_again(&self, slot: &Slot, segment: u64, bytes: u64) -> bool {
        let age = self.age(segment);
        self.is_lapped() && age >= YOUNG && self.rates(bytes).pays_again(slot.uses, bytes, age)
    }

    /// Whether an object that memory answered with so often, and is not on the disk, is let in.
    pub fn admits_used(&self, uses: u8, bytes: u64) -> bool {
        let rates = self.rates(bytes);
        // Where nothing has a price, all is put.
        let believed = uses >= SURE || rates.price + rates.write_price == 0.0 && !self.is_lapped();
        believed && rates.pays(uses.clamp(1, MOST_USES), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
    }

    const SEGMENTS: u64 = 64;
    const MIB: u64 = 1 << 20;

    fn lapped() -> Placement {
        with(Admission::Worth, SEGMENTS + 1)
    }

    fn with(admission: Admission, opened: u64) -> Placement {
        let placement = Placement::new(admission, None, (SEGMENTS, MIB), 16_000);
        placement.opened((opened - 1) % SEGMENTS, opened > SEGMENTS, 0);
        placement
    }

    /// Whether it was put.
    fn fetched(placement: &mut Placement, n: u64, bytes: u64) -> bool {
        let standing = placement.admits(hash(n), bytes, None, 0.5);
        if let Some(standing) = standing {
            placement.was_put(hash(n), 0, Some(bytes), standing);
        }
        standing.is_some()
    }

    fn slot(uses: u8, again: bool, length: u32) -> Slot {
        Slot { place: 1, length, uses, again }
    }

    /// A byte costs something: of 10 MiB five hits of 8 KiB fall in the oldest part.
    fn with_a_price(placement: &mut Placement) {
        for _ in 0..5 {
            placement.live.was_hit(&slot(2, false, 8192), 1, 8192);
        }
        placement.was_put(0, 10 * MIB, None, Standing::New);
    }

    #[test]
    fn all_is_let_in_until_the_log_has_come_round() {
        let mut placement = with(Admission::Worth, SEGMENTS);
        with_a_price(&mut placement);
        (0..1000).for_each(|n| assert!(fetched(&mut placement, n, 100 * MIB)));
        assert!(placement.live.admits_used(1, 100 * MIB));
        assert!(!placement.live.was_used(&slot(3, true, 100), 1, 3), "nothing is overwritten so far");
        placement.opened(0, true, 0);
        let admitted = (0..1000).filter(|n| fetched(&mut placement, 5_000 + n, 100 * MIB)).count();
        assert!(admitted < 1000, "{admitted}");
        assert!(!placement.live.admits_used(1, MIB));
    }

    #[test]
    fn told_so_it_lets_all_in_and_puts_nothing_again() {
        let mut placement = with(Admission::All, SEGMENTS + 1);
        with_a_price(&mut placement);
        (0..200)
            .for_each(|_| assert!(placement.admits(hash(0), 100 * MIB, None, 0.5) == Some(Standing::New)));
        assert!(!placement.live.was_used(&slot(3, true, 100), 1, 3));
    }

    #[test]
    fn where_nothing_is_hit_at_its_end_places_cost_nothing() {
        let mut placement = lapped();
        placement.live.was_hit(&slot(1, false, 8192), 0, 8192);
        placement.was_put(0, 10 * MIB, None, Standing::New);
        assert!(placement.admits(7, 100 * MIB, None, 0.5).is_some());
    }

    #[test]
    fn sizes_that_come_back_are_let_in_and_others_when_they_come_back() {
        let mut placement = lapped();
        for _ in 0..1000 {
            placement.worth.seen_once(4_000);
            placement.worth.seen_once(40_000);
            placement.live.was_hit(&slot(1, false, 4_000), 32, 4_000);
        }
        with_a_price(&mut placement);
        assert_eq!(placement.admits(hash(7), 4_000, None, 0.5), Some(Standing::New));
        assert_eq!(placement.admits(hash(8), 40_000, None, 0.5), None);
        assert_eq!(placement.admits(hash(8), 40_000, None, 0.5), Some(Standing::Used(1)));
        // Nothing gets stuck: what is turned away and comes back counts as well.
        for n in 10_000..12_000 {
            let _ = (fetched(&mut placement, n, 40_000), fetched(&mut placement, n, 40_000));
        }
        assert_eq!(placement.admits(hash(9), 40_000, None, 0.5), Some(Standing::New));
    }

    #[test]
    fn what_is_used_goes_again_as_it_grows_old() {
        let mut placement = lapped();
        with_a_price(&mut placement);
        let live = placement.live();
        // Segment 0 is open; the higher the number the younger the segment.
        let goes = |uses, segment| live.was_used(&slot(uses, false, 4_000), segment, 3);
        assert!(goes(1, 1) && !goes(1, 63), "old and young");
        assert!(!goes(0, 1));
        assert!(live.admits_used(2, 4_000) && !live.admits_used(1, 4_000));
    }

    /// However large, what is asked for again and again pays: a hit counts by its bytes.
    #[test]
    fn nothing_is_too_large_to_pay() {
        let mut placement = lapped();
        with_a_price(&mut placement);
        (0..200).for_each(|_| placement.worth.seen_once(1 << 30));
        assert_eq!(placement.admits(hash(7), 1 << 30, None, 0.5), None);
        assert_eq!(placement.admits(hash(7), 1 << 30, None, 0.5), Some(Standing::Used(1)));
    }

    #[test]
    fn what_memory_answered_first_says_nothing_of_its_size() {
        let mut placement = lapped();
        for _ in 0..1000 {
            placement.worth.seen_once(4_000);
            placement.live.was_used(&slot(1, false, 4_000), 63, 1);
        }
        with_a_price(&mut placement);
        assert!(placement.worth.pays(4_000, true, 0.0), "as if none had been seen");
    }
}
