//! Examples as the learner looks at them: numbers become their ranks, and weights are scaled.

use crate::examples::{Column, Examples, MISSING, Sets};
use crate::rules::{Condition, Test};
use trace::random::Random;

/// Distinct values of a number that are told apart. Where there are more, they are put together into this many, each of about as many
/// examples.
const MOST_RANKS: usize = u16::MAX as usize;

/// Of a number that is missing.
const NO_RANK: u16 = u16::MAX;

/// Examples below which one thread is as fast as several.
const FEW: usize = 30_000;

pub struct Data<'e> {
    pub columns: Vec<Coded<'e>>,
    /// Each example's class.
    pub class: &'e [u32],
    pub classes: usize,
    /// Their mean is 1.
    pub weights: Vec<f64>,
    /// Conditions that there could be in a rule.
    pub conditions: f64,
    pub threads: usize,
}

pub enum Coded<'e> {
    Number(Ranks),
    Nominal { values: &'e [u32], words: usize },
    Set(&'e Sets),
}

/// The ranks of a number's values.
pub struct Ranks {
    rank: Vec<u16>,
    /// Least and greatest value of each rank.
    bounds: Vec<(f64, f64)>,
}

/// A condition in the learner's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    pub attribute: usize,
    pub code: Code,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    /// Ranks.
    AtMost(u16),
    AtLeast(u16),
    /// Numbers of words.
    Is(u32),
    Has(u32),
}

/// Rows with the weight of each: above 0 if it is of the class in question, below 0 if not.
#[derive(Clone, Default)]
pub struct Rows {
    pub row: Vec<u32>,
    pub weight: Vec<f64>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.row.len()
    }

    pub fn push(&mut self, row: u32, weight: f64) {
        self.row.push(row);
        self.weight.push(weight);
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        self.row.iter().copied().zip(self.weight.iter().copied())
    }

    /// Those at these places alone, which are in order.
    pub fn at(&self, places: &[u32]) -> Rows {
        let pick = |place: &u32| *place as usize;
        Rows {
            row: places.iter().map(pick).map(|place| self.row[place]).collect(),
            weight: places.iter().map(pick).map(|place| self.weight[place]).collect(),
        }
    }

    /// Removes those at these places, which are in order.
    pub fn remove(&mut self, places: &[u32]) {
        remove(&mut self.row, places);
        remove(&mut self.weight, places);
    }

    /// Weight of the class in question, and of all.
    pub fn sums(&self) -> (f64, f64) {
        self.weight.iter().fold((0.0, 0.0), |(of, all), weight| (of + weight.max(0.0), all + weight.abs()))
    }
}

/// Removes what is at these places, which are in order.
pub fn remove<T: Copy>(from: &mut Vec<T>, places: &[u32]) {
    let Some(first) = places.first().map(|place| *place as usize) else { return };
    let (mut kept, mut next) = (first, 0);
    for at in first..from.len() {
        if next < places.len() && places[next] as usize == at {
            next += 1;
        } else {
            from[kept] = from[at];
            kept += 1;
        }
    }
    from.truncate(kept);
}

/// What a condition leaves of the examples: weight of the class in question, and of all.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub probe: Probe,
    pub gain: f64,
    pub of: f64,
    pub all: f64,
}

impl<'e> Data<'e> {
    /// `weight` is that of each row, above 0; they are scaled here.
    pub fn new(examples: &'e Examples, weight: impl Fn(usize) -> f64, threads: usize) -> Data<'e> {
        let columns: Vec<Coded> = examples.columns().iter().map(Coded::of).collect();
        let conditions = columns.iter().map(Coded::conditions).sum();
        let mut weights: Vec<f64> = (0..examples.len()).map(weight).collect();
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean);
        Data {
            columns,
            class: examples.class(),
            classes: examples.classes().len(),
            weights,
            conditions,
            threads,
        }
    }

    pub fn holds(&self, probe: Probe, row: u32) -> bool {
        let row = row as usize;
        match (&self.columns[probe.attribute], probe.code) {
            (Coded::Number(ranks), Code::AtMost(most)) => ranks.rank[row] <= most,
            (Coded::Number(ranks), Code::AtLeast(least)) => {
                ranks.rank[row] >= least && ranks.rank[row] != NO_RANK
            }
            (Coded::Nominal { values, .. }, Code::Is(word)) => values[row] == word,
            (Coded::Set(sets), Code::Has(word)) => sets.set(row).binary_search(&word).is_ok(),
            _ => false,
        }
    }

    /// Places among `rows` of those that all conditions hold for, in order.
    pub fn covered(&self, probes: &[Probe], rows: &[u32]) -> Vec<u32> {
        let Some((first, others)) = probes.split_first() else { return (0..rows.len() as u32).collect() };
        let mut places = self.places(*first, rows);
        for probe in others {
            places.retain(|place| self.holds(*probe, rows[*place as usize]));
        }
        places
    }

    /// As `covered` by one condition, in a loop for each kind of them: most of the time is spent here.
    pub fn places(&self, probe: Probe, rows: &[u32]) -> Vec<u32> {
        fn all(rows: &[u32], holds: impl Fn(usize) -> bool) -> Vec<u32> {
            let places = rows.iter().enumerate().filter(|(_, row)| holds(**row as usize));
            places.map(|(place, _)| place as u32).collect()
        }
        match (&self.columns[probe.attribute], probe.code) {
            (Coded::Number(Ranks { rank, .. }), Code::AtMost(most)) => all(rows, |row| rank[row] <= most),
            (Coded::Number(Ranks { rank, .. }), Code::AtLeast(least)) => {
                all(rows, |row| rank[row] >= least && rank[row] != NO_RANK)
            }
            (Coded::Nominal { values, .. }, Code::Is(word)) => all(rows, |row| values[row] == word),
            (Coded::Set(sets), Code::Has(word)) => {
                all(rows, |row| sets.set(row).binary_search(&word).is_ok())
            }
            _ => Vec::new(),
        }
    }

    /// Splits the rows by chance into those on which a rule grows and those that prune it, one of `folds` parts of each class.
    pub fn split(&self, rows: &Rows, folds: usize, random: &mut Random) -> (Rows, Rows) {
        let mut left = vec![0u64; self.classes];
        rows.row.iter().for_each(|row| left[self.class[*row as usize] as usize] += 1);
        // Every folds-th of all, class after class.
        let mut before = 0;
        let mut wanted: Vec<u64> = Vec::with_capacity(left.len());
        for count in &left {
            wanted.push((before + count) / folds as u64 - before / folds as u64);
            before += count;
        }
        let (mut grow, mut prune) = (Rows::default(), Rows::default());
        grow.row.reserve(rows.len() - rows.len() / folds);
        grow.weight.reserve(rows.len() - rows.len() / folds);
        for (row, weight) in rows.iter() {
            let class = self.class[row as usize] as usize;
            // So many of those that are left are wanted (Knuth 3.4.2, algorithm S).
            let chosen = random.below(left[class]) < wanted[class];
            left[class] -= 1;
            match chosen {
                true => {
                    wanted[class] -= 1;
                    prune.push(row, weight);
                }
                false => grow.push(row, weight),
            }
        }
        (grow, prune)
    }

    /// The condition with the greatest gain above 0, the first of equals; nominal attributes that are in `used` are left out.
    /// `rate` is the rate of the class in question among the rows.
    pub fn best(&self, rows: &Rows, used: &[bool], rate: f64, scratch: &mut [Scratch]) -> Option<Choice> {
        let asked: Vec<usize> = (0..self.columns.len()).filter(|attribute| !used[*attribute]).collect();
        let find = |attribute: usize, scratch: &mut Scratch| {
            self.columns[attribute].best(attribute, rows, rate.log2(), scratch)
        };
        let threads = if rows.len() < FEW { 1 } else { scratch.len().min(asked.len()).max(1) };
        let mut found: Vec<Option<Choice>> = vec![None; self.columns.len()];
        match threads {
            1 => asked.iter().for_each(|attribute| found[*attribute] = find(*attribute, &mut scratch[0])),
            _ => {
                let next = std::sync::atomic::AtomicUsize::new(0);
                let work = |scratch: &mut Scratch| {
                    let mut found = Vec::new();
                    while let Some(attribute) =
                        asked.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                    {
                        found.push((*attribute, find(*attribute, scratch)));
                    }
                    found
                };
                std::thread::scope(|scope| {
                    let work = &work;
                    let threads: Vec<_> = scratch[..threads]
                        .iter_mut()
                        .map(|scratch| scope.spawn(move || work(scratch)))
                        .collect();
                    for thread in threads {
                        // A thread that panicked has ended the learning anyway.
                        let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                        done.into_iter().for_each(|(attribute, choice)| found[attribute] = choice);
                    }
                });
            }
        }
        found.into_iter().flatten().fold(None, |best: Option<Choice>, choice| match best {
            Some(best) if best.gain >= choice.gain => Some(best),
            _ => Some(choice),
        })
    }

    pub fn scratch(&self) -> Vec<Scratch> {
        (0..self.threads.max(1)).map(|_| Scratch::default()).collect()
    }

    /// The condition in the rules' terms.
    pub fn condition(&self, probe: Probe, examples: &Examples) -> Condition {
        let test = match (&self.columns[probe.attribute], probe.code, &examples.columns()[probe.attribute]) {
            (Coded::Number(ranks), Code::AtMost(rank), _) => Test::AtMost(ranks.bounds[rank as usize].1),
            (Coded::Number(ranks), Code::AtLeast(rank), _) => Test::AtLeast(ranks.bounds[rank as usize].0),
            (_, Code::Is(word), Column::Nominal { words, .. }) => Test::Is(words.word(word).into()),
            (_, Code::Has(word), Column::Set(sets)) => Test::Has(sets.words().word(word).into()),
            _ => unreachable!("a condition is made for the kind of its attribute"),
        };
        Condition { attribute: probe.attribute, test }
    }
}

/// Room for counts by code, kept from one attribute to the next.
#[derive(Default)]
pub struct Scratch {
    /// Weight of the class in question and of all; 0 between uses.
    counts: Vec<(f64, f64)>,

    /// Where there are few rows.
    few: Vec<(u32, f64)>,
}

impl<'e> Coded<'e> {
    fn of(column: &'e Column) -> Coded<'e> {
        match column {
            Column::Number(values) => Coded::Number(Ranks::of(values)),
            Column::Nominal { words, values } => Coded::Nominal { values, words: words.len() },
            Column::Set(sets) => Coded::Set(sets),
        }
    }

    fn conditions(&self) -> f64 {
        match self {
            Coded::Number(ranks) => 2.0 * ranks.bounds.len() as f64,
            Coded::Nominal { words, .. } => *words as f64,
            Coded::Set(sets) => sets.words().len() as f64,
        }
    }

    /// The best condition on this attribute. `base` is the logarithm of the rate of the class in question.
    fn best(&self, attribute: usize, rows: &Rows, base: f64, scratch: &mut Scratch) -> Option<Choice> {
        let mut best = Best { attribute, base, choice: None };
        match self {
            Coded::Number(ranks) => {
                let codes = rows.iter().map(|(row, weight)| (u32::from(ranks.rank[row as usize]), weight));
                let known = codes.filter(|(rank, _)| *rank != u32::from(NO_RANK));
                let counts = scratch.sorted(known, rows.len(), ranks.bounds.len());
                let (of, all) =
                    counts.iter().fold((0.0, 0.0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1));
                let (mut of_below, mut all_below) = (0.0, 0.0);
                for (rank, (of_here, all_here)) in counts {
                    let above = (of - of_below, all - all_below);
                    (of_below, all_below) = (of_below + of_here, all_below + all_here);
                    let rank = rank as u16;
                    // Of two that gain alike, `>=`.
                    let most = best.of(Code::AtMost(rank), of_below, all_below);
                    let least = best.of(Code::AtLeast(rank), above.0.max(0.0), above.1.max(0.0));
                    best.take(if most.gain > least.gain { most } else { least });
                }
            }
            Coded::Nominal { values, words } => {
                let codes = rows.iter().map(|(row, weight)| (values[row as usize], weight));
                let known = codes.filter(|(word, _)| *word != MISSING);
                for (word, (of, all)) in scratch.sorted(known, rows.len(), *words) {
                    best.take(best.of(Code::Is(word), of, all));
                }
            }
            Coded::Set(sets) => {
                let codes = rows
                    .iter()
                    .flat_map(|(row, weight)| sets.set(row as usize).iter().map(move |word| (*word, weight)));
                for (word, (of, all)) in scratch.sorted(codes, rows.len(), sets.words().len()) {
                    best.take(best.of(Code::Has(word), of, all));
                }
            }
        }
        best.choice
    }
}

struct Best {
    attribute: usize,
    base: f64,
    choice: Option<Choice>,
}

impl Best {
    /// FOIL's information gain: of·(log₂(rate with the condition) − log₂(rate before)), with rates of (p + 1)/(t + 1).
    fn of(&self, code: Code, of: f64, all: f64) -> Choice {
        let gain = of * (((of + 1.0) / (all + 1.0)).log2() - self.base);
        Choice { probe: Probe { attribute: self.attribute, code }, gain, of, all }
    }

    fn take(&mut self, choice: Choice) {
        if choice.gain > self.choice.map_or(0.0, |best| best.gain) {
            self.choice = Some(choice);
        }
    }
}

impl Scratch {
    /// What is counted for each code that comes, by code. `rows` and `codes` say how many there may be.
    fn sorted(
        &mut self,
        weights: impl Iterator<Item = (u32, f64)>,
        rows: usize,
        codes: usize,
    ) -> Vec<(u32, (f64, f64))> {
        let add = |count: &mut (f64, f64), weight: f64| {
            *count = (count.0 + weight.max(0.0), count.1 + weight.abs());
        };
        if rows < codes / 16 {
            // Few rows and many codes: the rows are sorted. The sort is stable, so sums are the same either way.
            self.few.clear();
            self.few.extend(weights);
            self.few.sort_by_key(|(code, _)| *code);
            let groups = self.few.chunk_by(|a, b| a.0 == b.0);
            return groups
                .map(|group| {
                    let mut count = (0.0, 0.0);
                    group.iter().for_each(|(_, weight)| add(&mut count, *weight));
                    (group[0].0, count)
                })
                .collect();
        }
        if self.counts.len() < codes {
            self.counts.resize(codes, (0.0, 0.0));
        }
        for (code, weight) in weights {
            add(&mut self.counts[code as usize], weight);
        }
        let counts = self.counts[..codes].iter_mut().enumerate().filter(|(_, count)| count.1 > 0.0);
        counts.map(|(code, count)| (code as u32, std::mem::take(count))).collect()
    }
}

impl Ranks {
    fn of(values: &[f64]) -> Ranks {
        let mut sorted: Vec<f64> =
            values.iter().filter(|value| !value.is_nan()).map(|value| value + 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let distinct = sorted.chunk_by(|a, b| a == b).count();
        let mut bounds: Vec<(f64, f64)> = Vec::new();
        // Each takes at least its share of what is left.
        let (mut taken, mut done) = (0, 0);
        for group in sorted.chunk_by(|a, b| a == b) {
            let full = distinct <= MOST_RANKS || bounds.is_empty() || {
                let left = (sorted.len() - done) as f64 / (MOST_RANKS - bounds.len() + 1).max(1) as f64;
                taken as f64 >= left
            };
            match (full, bounds.last_mut()) {
                (false, Some(last)) => {
                    last.1 = group[0];
                    taken += group.len();
                }
                _ => {
                    done += taken;
                    taken = group.len();
                    bounds.push((group[0], group[0]));
                }
            }
        }
        bounds.truncate(MOST_RANKS);
        if let (Some(last), Some(greatest)) = (bounds.last_mut(), sorted.last()) {
            last.1 = *greatest;
        }
        let rank = |value: &f64| match value.is_nan() {
            true => NO_RANK,
            false => bounds.partition_point(|(_, most)| most < value) as u16,
        };
        let rank = values.iter().map(rank).collect();
        Ranks { rank, bounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_values() {
        let ranks = Ranks::of(&[3.0, f64::NAN, -0.0, 0.0, 7.5, 3.0]);
        assert_eq!(ranks.rank, [1, NO_RANK, 0, 0, 2, 1]);
        assert_eq!(ranks.bounds, [(0.0, 0.0), (3.0, 3.0), (7.5, 7.5)]);
    }

    #[test]
    fn more_values_than_ranks_are_put_together() {
        let mut random = Random::of(3);
        let mut values: Vec<f64> = (0..200_000).map(|_| random.exponential(1.0)).collect();
        values.extend([0.25; 50_000]);
        let ranks = Ranks::of(&values);
        assert!((MOST_RANKS / 2..=MOST_RANKS).contains(&ranks.bounds.len()), "{}", ranks.bounds.len());
        for (value, rank) in values.iter().zip(&ranks.rank) {
            let (least, most) = ranks.bounds[*rank as usize];
            assert!((least..=most).contains(value));
        }
        assert!(ranks.bounds.windows(2).all(|pair| pair[0].1 < pair[1].0));
        let mut counts = vec![0; ranks.bounds.len()];
        ranks.rank.iter().for_each(|rank| counts[*rank as usize] += 1);
        counts.sort_unstable();
        assert!(counts[counts.len() - 2] <= 8, "{:?}", &counts[counts.len() - 4..]);
    }

    #[test]
    fn what_is_removed_is_gone_and_the_rest_in_order() {
        let mut rows = Rows { row: vec![5, 6, 7, 8], weight: vec![1.0, -1.0, 2.0, -2.0] };
        assert_eq!(rows.at(&[1, 3]).row, [6, 8]);
        rows.remove(&[0, 2]);
        assert_eq!((rows.row, rows.weight), (vec![6, 8], vec![-1.0, -2.0]));
    }

    #[test]
    fn few_rows_are_counted_as_many_are() {
        let mut random = Random::of(5);
        let weights: Vec<(u32, f64)> =
            (0..900).map(|_| (random.below(300) as u32, random.unit() * 2.0 - 1.0)).collect();
        let mut scratch = Scratch::default();
        let many = scratch.sorted(weights.iter().copied(), 900, 300);
        assert_eq!(many, scratch.sorted(weights.iter().copied(), 900, 300));
        assert_eq!(many, scratch.sorted(weights.iter().copied(), 900, 1_000_000));
    }
}
