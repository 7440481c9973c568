//! What a night's choice was worth: the 2×2 matrix of 7.5, and the profile with and without it (Figure 7.4).

use super::{Composition, Fact, Material};
use crate::day::{Day as DayNumber, LEVELS};
use serde::Serialize;

/// The frequencies of 7.5, in bytes and in objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Matrix {
    /// A: prefetchable and fetched.
    pub hit: u64,
    /// B: prefetchable and not fetched, listed or not.
    pub missed: u64,
    /// C: fetched in vain.
    pub vain: u64,
    /// D: neither.
    pub left: u64,
}

impl Matrix {
    /// P_a = A/(A + C); none where nothing was fetched.
    pub fn accuracy(&self) -> Option<f64> {
        share(self.hit, self.hit + self.vain)
    }

    /// P_c = A/(A + B); none where nothing was prefetchable.
    pub fn coverage(&self) -> Option<f64> {
        share(self.hit, self.hit + self.missed)
    }

    fn add(&mut self, other: &Matrix) {
        self.hit += other.hit;
        self.missed += other.missed;
        self.vain += other.vain;
        self.left += other.left;
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What a strategy did on one day.
#[derive(Clone, Debug, Serialize)]
pub struct Day {
    pub day: DayNumber,
    pub learned_from: Option<DayNumber>,
    pub composition: Option<Composition>,
    pub bytes: Matrix,
    pub objects: Matrix,
    /// P_t: of what was fetched and missed in the peak, the share that was unaltered; none where nothing was.
    pub timeliness: Option<f64>,
    /// Bytes of what was fetched and missed in the peak, altered.
    pub late: u64,
    pub accuracy: Option<f64>,
    pub coverage: Option<f64>,
    /// Bytes of what the rules chose and the budget did not take.
    pub over_budget: u64,
    /// The highest quarter of an hour of the peak, bytes: of the chosen servers, before and after; and of all.
    pub chosen_peak: [u64; 2],
    pub all_peak: [u64; 2],
    /// The level that the night is raised to, bytes: for the chosen servers' use alone, and for all.
    pub raised: [f64; 2],
    /// What `Given` has, with prefetching: bytes a quarter of an hour.
    pub chosen: Vec<u64>,
    pub all: Vec<u64>,
}

/// How a day was measured.
pub struct Measured {
    /// Levels of the night.
    pub nights: usize,
    pub budget: u64,
    pub learned_from: Option<DayNumber>,
    pub composition: Option<Composition>,
}

impl Day {
    /// `chosen` has the likelihood of what was chosen of the material's examples.
    pub fn of(material: &Material, chosen: &[Option<f64>], measured: Measured) -> Day {
        let Measured { nights, budget, learned_from, composition } = measured;
        let (fetched, over_budget) = within(budget, &material.facts, chosen);
        let (mut bytes, mut objects) = (Matrix::default(), Matrix::default());
        let mut saved = [0u64; LEVELS];
        let mut late = 0;
        for (fact, fetched) in material.facts.iter().zip(&fetched) {
            let place = |matrix: &mut Matrix, amount: u64| match (fact.missed.is_some(), *fetched) {
                (true, true) => matrix.hit += amount,
                (true, false) => matrix.missed += amount,
                (false, true) => matrix.vain += amount,
                (false, false) => matrix.left += amount,
            };
            place(&mut bytes, fact.bytes);
            place(&mut objects, 1);
            match fact.missed {
                Some(level) if *fetched => saved[usize::from(level)] += fact.bytes,
                None if *fetched => late += material.altered.get(&fact.object).copied().unwrap_or(0),
                _ => {}
            }
        }
        bytes.missed += material.unlisted.bytes;
        objects.missed += material.unlisted.objects;
        let after = |before: &[u64; LEVELS]| -> (Vec<u64>, [u64; 2], f64) {
            let level = raised(&before[..nights], bytes.hit + bytes.vain);
            let of_night = before[..nights].iter().map(|before| (*before).max(level as u64));
            let of_peak = before[nights..].iter().zip(&saved[nights..]);
            let after: Vec<u64> =
                of_night.chain(of_peak.map(|(before, saved)| before.saturating_sub(*saved))).collect();
            let highest = |levels: &[u64]| levels[nights..].iter().copied().max().unwrap_or(0);
            let highest = [highest(before), highest(&after)];
            (after, highest, level)
        };
        let (chosen, chosen_peak, chosen_raised) = after(&material.chosen);
        let (all, all_peak, all_raised) = after(&material.all);
        Day {
            day: material.day,
            learned_from,
            composition,
            bytes,
            objects,
            timeliness: share(bytes.hit, bytes.hit + late),
            late,
            accuracy: bytes.accuracy(),
            coverage: bytes.coverage(),
            over_budget,
            chosen_peak,
            all_peak,
            raised: [chosen_raised, all_raised],
            chosen,
            all,
        }
    }
}

/// Which of the chosen fit, by the sizes that are known when the night begins: the likeliest first, then the smaller, then by number; and the
/// bytes of those that do not.
fn within(budget: u64, facts: &[Fact], chosen: &[Option<f64>]) -> (Vec<bool>, u64) {
    let mut fetched: Vec<bool> = chosen.iter().map(Option::is_some).collect();
    let bytes = |fetched: &[bool]| -> u64 {
        facts.iter().zip(fetched).filter(|(_, fetched)| **fetched).map(|(fact, _)| fact.offered).sum()
    };
    let all = bytes(&fetched);
    if all <= budget {
        return (fetched, 0);
    }
    let mut order: Vec<(f64, usize)> = chosen
        .iter()
        .enumerate()
        .filter_map(|(nth, likely)| Some((likely.as_ref().copied()?, nth)))
        .collect();
    order.sort_unstable_by(|(one, a), (other, b)| {
        let of = |nth: &usize| (facts[*nth].offered, facts[*nth].object);
        other.total_cmp(one).then_with(|| of(a).cmp(&of(b)))
    });
    let mut left = budget;
    for (_, nth) in order {
        match left.checked_sub(facts[nth].offered) {
            Some(rest) => left = rest,
            None => fetched[nth] = false,
        }
    }
    let over = all - bytes(&fetched);
    (fetched, over)
}

/// By how much something is lower after than before: a share, and 0 where there was nothing.
pub fn lower([before, after]: [u64; 2]) -> f64 {
    if before == 0 { 0.0 } else { 1.0 - after as f64 / before as f64 }
}

/// The least level to which a night's levels can be raised so that what that adds is `bytes` (7.7).
pub fn raised(night: &[u64], bytes: u64) -> f64 {
    let mut levels = night.to_vec();
    levels.sort_unstable();
    if bytes == 0 || levels.is_empty() {
        return 0.0;
    }
    let mut sum = 0u64;
    for (nth, level) in levels.iter().enumerate() {
        sum += level;
        let level = (bytes + sum) as f64 / (nth + 1) as f64;
        if levels.get(nth + 1).is_none_or(|next| level <= *next as f64) {
            return level;
        }
    }
    0.0
}

/// Over all days.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    pub days: usize,
    pub bytes: Matrix,
    pub objects: Matrix,
    pub accuracy: Option<f64>,
    pub coverage: Option<f64>,
    pub accuracy_in_objects: Option<f64>,
    pub coverage_in_objects: Option<f64>,
    /// Weighted by bytes, as the others are.
    pub timeliness: Option<f64>,
    /// By how much each day's highest quarter of an hour of the peak is lower, the mean of the days; of the chosen servers, and of all.
    pub chosen_lower: f64,
    pub all_lower: f64,
    /// The same for the highest of all days.
    pub chosen_highest_lower: f64,
    pub all_highest_lower: f64,
    /// Days on which the raised night is higher than the peak that is left: of all servers.
    pub nights_too_high: usize,
}

impl Totals {
    pub fn of(days: &[Day]) -> Totals {
        let mut totals = Totals { days: days.len(), ..Totals::default() };
        let mut late = 0;
        for day in days {
            totals.bytes.add(&day.bytes);
            totals.objects.add(&day.objects);
            late += day.late;
            totals.nights_too_high += usize::from(day.raised[1] > day.all_peak[1] as f64);
        }
        totals.accuracy = totals.bytes.accuracy();
        totals.coverage = totals.bytes.coverage();
        totals.accuracy_in_objects = totals.objects.accuracy();
        totals.coverage_in_objects = totals.objects.coverage();
        totals.timeliness = share(totals.bytes.hit, totals.bytes.hit + late);
        let mean = |of: fn(&Day) -> [u64; 2]| {
            days.iter().map(|day| lower(of(day))).sum::<f64>() / days.len().max(1) as f64
        };
        let highest = |of: fn(&Day) -> [u64; 2]| {
            lower([0, 1].map(|nth| days.iter().map(|day| of(day)[nth]).max().unwrap_or(0)))
        };
        totals.chosen_lower = mean(|day| day.chosen_peak);
        totals.all_lower = mean(|day| day.all_peak);
        totals.chosen_highest_lower = highest(|day| day.chosen_peak);
        totals.all_highest_lower = highest(|day| day.all_peak);
        totals
    }
}
