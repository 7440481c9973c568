//! The write budget: how many bytes a time the device is given to write (`WriteBudget`), and what a byte costs for that.
//!
//! What may be written is a *level*: time raises it at the budget's rate, up to a quarter of the budget, and each byte that is taken or written
//! lowers it. The price of a byte follows from the level alone: nothing while it is full, without bound as it runs out. So the less is left, the more an
//! object must be worth to be let in, and the level comes to rest where as much is written as time brings. It does not swing by itself: the lower it is, the
//! less is let in and the faster it rises. It follows where loads and estimates change.
//!
//! - In any time the budget of that time and a quarter of the budget more is paid for, at most, as long as removals, markers, digests,
//!   the ledger, and what fills up their blocks take less than the budget: these are written whatever is left. They count, and until the
//!   level has made up for them nothing else is let in. What large objects that were still arriving had paid for before may be written as well.
//! - A start begins with half of the full level, an eighth of the budget, whatever was left before: what is not known yet is let in then, unless it is large.
//! - An object costs what the level says when it is paid for; one that is larger is not let in. A large one is paid for when it is let in, so that
//!   several at once find what is left; what it does not take is given back.
//! - Records are paid for when they are taken, all else when it is written: what waits in memory is not let in twice.

use crate::WriteBudget;
use crate::engine::Millis;
use crate::format::record::Kind;

/// The share of the budget that is the full level: six hours' worth of a day's.
const BURST: f64 = 0.25;
/// The share of the full level at a start.
const AT_START: f64 = 0.5;
/// How steeply the price rises: over the middle of the level, from a tenth to nine tenths, by six orders of magnitude, which is as far as worth goes.
const STEEPNESS: i32 = 3;

pub struct Budget {
    /// Bytes a millisecond.
    rate: f64,
    full: f64,
    level: f64,
    /// When the level was as it is; the first time that is told brings nothing.
    now: Option<Millis>,
    /// Bytes that were paid for, and are not written so far.
    ahead: u64,
    /// Bytes that were paid for, and are not taken so far: of large objects that are arriving.
    reserved: u64,
    #[cfg(test)]
    pub seen: Seen,
}

/// What was taken because it was let in, what was paid for and is not taken so far, and all else that was taken or written.
#[cfg(test)]
#[derive(Clone, Copy, Default)]
pub struct Seen {
    pub let_in: u64,
    pub reserved: u64,
    pub obliged: u64,
}

impl Budget {
    pub fn new(budget: WriteBudget) -> Budget {
        let full = BURST * budget.bytes as f64;
        let rate = budget.bytes as f64 / (budget.period.as_millis() as f64).max(1.0);
        Budget {
            rate,
            full,
            level: AT_START * full,
            now: None,
            ahead: 0,
            reserved: 0,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }

    pub fn pass_time(&mut self, now: Millis) {
        let before = *self.now.get_or_insert(now);
        let passed = now.saturating_sub(before);
        self.level = (self.level + passed as f64 * self.rate).min(self.full);
        self.now = Some(now.max(before));
    }

    /// What a byte of so many costs, the value of hits that it has to bring: as once all of them are paid for, so that no large object takes most of
    /// what is left for less than that is worth. At half of the full level, a hit's for each byte of it.
    pub fn price(&self, bytes: u64) -> f64 {
        let left = self.level - bytes as f64;
        match left > 0.0 {
            true => ((self.full - left) / left).powi(STEEPNESS),
            false => f64::INFINITY,
        }
    }

    /// Nothing is left.
    pub fn is_spent(&self) -> bool {
        self.level <= 0.0
    }

    /// Whether a piece of a body may be taken: it is paid for, or something is left.
    pub fn has_for_piece(&self, bytes: u64) -> bool {
        self.reserved >= bytes || !self.is_spent()
    }

    /// A large object was let in.
    pub fn reserve(&mut self, bytes: u64) {
        self.level -= bytes as f64;
        self.reserved += bytes;
        #[cfg(test)]
        (self.seen.reserved = self.reserved);
    }

    /// It did not take so much of what was reserved.
    pub fn release(&mut self, bytes: u64) {
        let bytes = bytes.min(self.reserved);
        self.reserved -= bytes;
        self.level = (self.level + bytes as f64).min(self.full);
        #[cfg(test)]
        (self.seen.reserved = self.reserved);
    }

    /// A record was taken.
    pub fn take(&mut self, bytes: u64, kind: Kind) {
        let reserved = if matches!(kind, Kind::Span | Kind::Head) { bytes.min(self.reserved) } else { 0 };
        self.reserved -= reserved;
        self.level -= (bytes - reserved) as f64;
        self.ahead += bytes;
        #[cfg(test)]
        {
            self.seen.reserved = self.reserved;
            match kind {
                Kind::Object | Kind::Span => self.seen.let_in += bytes,
                _ => self.seen.obliged += bytes,
            }
        }
    }

    /// Bytes are given to the device: records that were paid for, and what was not.
    pub fn write(&mut self, bytes: u64) {
        let paid = bytes.min(self.ahead);
        self.ahead -= paid;
        self.level -= (bytes - paid) as f64;
        #[cfg(test)]
        (self.seen.obliged += bytes - paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use std::time::Duration;

    const HOUR: Millis = 3_600_000;
    const DAY: u64 = 24 << 20;

    fn budget() -> Budget {
        Budget::new(WriteBudget { bytes: DAY, period: Duration::from_millis(24 * HOUR) })
    }

    /// Objects of a KiB, of any worth from a thousandth to a thousand, so many times the budget of each hour. What was let in, by the hour: as many
    /// MiB as the budget has hours.
    fn hours(budget: &mut Budget, times: impl Fn(u64) -> u64, hours: u64) -> Vec<f64> {
        let mut chance = StdRng::seed_from_u64(1);
        let began = budget.now.unwrap_or(0);
        (0..hours)
            .map(|hour| {
                let (asked, mut written) = (1024 * times(hour), 0);
                for nth in 0..asked {
                    budget.pass_time(began + hour * HOUR + nth * HOUR / asked);
                    let worth = 10f64.powf(chance.random_range(-3.0..3.0));
                    if worth > budget.price(1024) {
                        budget.take(1024, Kind::Object);
                        written += 1024;
                    }
                }
                budget.pass_time(began + (hour + 1) * HOUR);
                written as f64 / (DAY / 24) as f64
            })
            .collect()
    }

    #[test]
    fn a_steady_load_is_let_in_steadily() {
        for times in [2, 10, 50] {
            let written = hours(&mut budget(), |_| times, 60);
            let settled = &written[12..];
            assert!(settled.iter().all(|hour| (0.9..1.1).contains(hour)), "{times}: {written:?}");
        }
        let written = hours(&mut budget(), |_| 1, 60);
        assert!(
            written[36..].iter().all(|hour| *hour > 0.75),
            "little is turned away where little comes: {written:?}"
        );
    }

    /// A burst of a thousand times the budget in an hour leaves something for the hours after it.
    #[test]
    fn no_burst_starves_what_comes_after_it() {
        let mut budget = budget();
        hours(&mut budget, |_| 0, 30);
        let written = hours(&mut budget, |hour| if hour == 3 { 1000 } else { 5 }, 24);
        assert!(written[3] < 1.0 + 24.0 * BURST, "{written:?}");
        assert!(written.iter().all(|hour| *hour > 0.5), "{written:?}");
    }

    /// By day and by night, and by the day and the hour.
    #[test]
    fn in_no_time_is_more_written_than_its_budget_and_a_quarter_of_all() {
        let mut budget = budget();
        let written = hours(&mut budget, |hour| [0, 3, 50, 0, 400, 20][hour as usize % 13 % 6], 300);
        for length in 1..150 {
            let most = written.windows(length).map(|hours| hours.iter().sum::<f64>()).fold(0.0, f64::max);
            assert!(most <= length as f64 + 24.0 * BURST + 0.01, "{most} in {length} hours");
        }
        let all: f64 = written.iter().sum();
        assert!(all > 0.6 * 300.0, "and it is used: {all}");
    }

    #[test]
    fn a_start_begins_with_half_of_a_burst() {
        let written = hours(&mut budget(), |_| 1_000, 1)[0];
        assert!(written <= 1.0 + 24.0 * BURST * AT_START, "{written}");
    }

    #[test]
    fn what_has_to_be_written_is_made_up_for() {
        let mut budget = budget();
        budget.pass_time(0);
        budget.take(DAY / 4, Kind::Removal);
        assert!(budget.is_spent() && !budget.has_for_piece(1) && budget.price(0) == f64::INFINITY);
        budget.pass_time(2 * HOUR);
        assert!(budget.is_spent(), "owed: three hours");
        budget.pass_time(4 * HOUR);
        assert!(budget.price(0) > 1.0 && budget.price(0) < f64::INFINITY);
    }

    #[test]
    fn what_takes_most_of_the_level_costs_more() {
        let mut budget = budget();
        budget.pass_time(0);
        budget.pass_time(24 * HOUR);
        let price = |share: f64| budget.price((share * budget.full) as u64);
        assert_eq!(price(0.0), 0.0);
        assert!(price(0.1) < 0.01 && price(0.5) > 0.9 && price(0.9) > 700.0 && price(1.0) == f64::INFINITY);
    }

    #[test]
    fn each_byte_is_paid_for_once() {
        let mut budget = budget();
        let left = |budget: &Budget| (AT_START * budget.full - budget.level) as u64;
        budget.take(1000, Kind::Object);
        budget.write(600);
        assert_eq!(left(&budget), 1000, "when it was taken");
        budget.write(700);
        assert_eq!(left(&budget), 1300, "what fills up a block, when it is written");
        budget.reserve(5000);
        budget.take(2000, Kind::Span);
        budget.write(2000);
        assert_eq!(left(&budget), 6300, "what was let in was paid for then");
        assert!(budget.has_for_piece(3000));
        budget.release(3000);
        assert_eq!(left(&budget), 3300, "and what it did not take is given back");
        budget.release(99);
        assert_eq!(left(&budget), 3300, "once");
    }

    #[test]
    fn a_clock_that_goes_back_brings_nothing() {
        let mut budget = budget();
        let level = budget.level;
        budget.pass_time(1000 * HOUR);
        assert_eq!(budget.level, level, "nor does a clock that does not begin with 0");
        budget.pass_time(1001 * HOUR);
        let level = budget.level;
        budget.pass_time(0);
        budget.pass_time(1001 * HOUR);
        assert_eq!(budget.level, level);
    }
}
