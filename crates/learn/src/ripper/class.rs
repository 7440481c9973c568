//! The rules of one class: built one after another, then each tried against a replacement and a revision.

use super::Learner;
use super::data::{Data, Probe, Rows, Scratch, remove};
use super::grow::{Aim, grow, prune};
use super::length::{Measure, Tally};
use trace::random::Random;

/// Bits by which a set of rules may become longer than the shortest so far before no further rule is tried (Cohen 1995, 3.2).
const SURPLUS: f64 = 64.0;

const TINY: f64 = 1e-6;

pub type Draft = Vec<Probe>;

pub struct Class<'d, 'e> {
    pub learner: &'d Learner,
    pub data: &'d Data<'e>,
    /// All that the rules of earlier classes leave.
    pub rows: &'d Rows,
    pub measure: Measure,
    pub random: &'d mut Random,
    pub scratch: &'d mut [Scratch],
    /// Told how many rules there are, whenever it changes.
    pub progress: &'d mut dyn FnMut(usize),
}

impl Class<'_, '_> {
    pub fn learn(&mut self) -> Vec<Draft> {
        let mut rules = self.build();
        for _ in 0..self.learner.optimizations {
            rules = self.optimize(rules);
        }
        rules
    }

    fn build(&mut self) -> Vec<Draft> {
        let mut rules = Vec::new();
        let mut rows = self.rows.clone();
        let mut sum = Sum::new(self.measure);
        while has_positives(&rows) {
            let (rule, covered, tally) = self.next_rule(&rows);
            if !sum.goes_on(&tally, rule.len()) {
                break;
            }
            rows.remove(&covered);
            rules.push(rule);
            (self.progress)(rules.len());
        }
        rules
    }

    /// Grown on a part of the rows and pruned by the rest; with the places that it covers, and what comes of it.
    fn next_rule(&mut self, rows: &Rows) -> (Draft, Vec<u32>, Tally) {
        let (growing, pruning) = self.data.split(rows, self.learner.folds, self.random);
        let mut rule = Draft::new();
        grow(self.data, &mut rule, growing, self.learner.least, self.scratch);
        prune(self.data, &mut rule, &pruning, Aim::Rule);
        let covered = self.data.covered(&rule, &rows.row);
        let tally = tally(rows, &covered);
        (rule, covered, tally)
    }

    fn optimize(&mut self, mut rules: Vec<Draft>) -> Vec<Draft> {
        let data = self.data;
        let mut rows = self.rows.clone();
        // For each row the first rule behind the one in question that covers it.
        let mut next = vec![rules.len() as u32; rows.len()];
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        set_next(data, &rules, 0, &rows, all, &mut next);
        let mut done: Vec<Tally> = Vec::new();
        let mut position = 0;
        while position < rules.len() && has_positives(&rows) {
            let its: Vec<u32> =
                (0..next.len() as u32).filter(|at| next[*at as usize] == position as u32).collect();
            if its.is_empty() {
                // It covers nothing, and no variant can be grown from it.
                done.push(Tally::default());
                position += 1;
                continue;
            }
            its.iter().for_each(|place| next[*place as usize] = rules.len() as u32);
            set_next(data, &rules, position + 1, &rows, its, &mut next);
            let rule = self.best_variant(&rules, position, &rows, &next, &done);
            let covered = data.covered(&rule, &rows.row);
            done.push(tally(&rows, &covered));
            rules[position] = rule;
            rows.remove(&covered);
            remove(&mut next, &covered);
            position += 1;
            (self.progress)(rules.len());
        }
        // Those behind cover nothing of the class any more.
        rules.truncate(position);
        let mut sum = Sum::new(self.measure);
        sum.covered = Tally::sum(&done);
        while has_positives(&rows) {
            let (rule, covered, tally) = self.next_rule(&rows);
            if !sum.goes_on(&tally, rule.len()) {
                break;
            }
            rows.remove(&covered);
            rules.push(rule);
            done.push(tally);
            (self.progress)(rules.len());
        }
        // From the last, without those that make all longer.
        let mut covered = Tally::sum(&done);
        for position in (0..rules.len()).rev() {
            let tally = done[position];
            if self.measure.saved(&covered, &tally, rules[position].len()).is_some() {
                covered = covered.without(&tally);
                rules.remove(position);
            }
        }
        rules
    }

    /// The rule itself, or a replacement grown anew, or a revision that goes on from it: what makes all rules shortest.
    fn best_variant(
        &mut self,
        rules: &[Draft],
        position: usize,
        rows: &Rows,
        next: &[u32],
        done: &[Tally],
    ) -> Draft {
        let data = self.data;
        let (growing, pruning) = data.split(rows, self.learner.folds, self.random);
        let old = &rules[position];
        let within = growing.at(&data.covered(old, &growing.row));
        // What later rules cover is theirs. Both lists of rows are in one order.
        let (mut at, mut own) = (0, Vec::with_capacity(pruning.len()));
        for (place, row) in pruning.row.iter().enumerate() {
            while rows.row[at] != *row {
                at += 1;
            }
            if next[at] == rules.len() as u32 {
                own.push(place as u32);
            }
        }
        let pruning = pruning.at(&own);
        let mut replacement = Draft::new();
        grow(data, &mut replacement, growing, self.learner.least, self.scratch);
        prune(data, &mut replacement, &pruning, Aim::All);
        let mut revision = old.clone();
        grow(data, &mut revision, within, self.learner.least, self.scratch);
        prune(data, &mut revision, &pruning, Aim::All);

        let later = &rules[position + 1..];
        let lengths: Vec<usize> = later.iter().map(Vec::len).collect();
        // What each later rule gets if this one is deleted, or changed into another.
        let gets = |places: &mut dyn Iterator<Item = usize>| {
            let mut tallies = vec![Tally::default(); later.len()];
            for place in places {
                if let Some(tally) = tallies.get_mut(next[place] as usize - position - 1) {
                    tally.add(rows.weight[place]);
                }
            }
            tallies
        };
        let without = gets(&mut (0..rows.len()));
        let before = Tally::sum(done);
        let added = |rule: &Draft| {
            let covered = data.covered(rule, &rows.row);
            let taken = gets(&mut covered.iter().map(|place| *place as usize));
            let with: Vec<Tally> =
                without.iter().zip(&taken).map(|(all, taken)| all.without(taken)).collect();
            self.measure.added(&before, (&tally(rows, &covered), rule.len()), &with, &without, &lengths)
        };
        let (by_old, by_revision, by_replacement) = (added(old), added(&revision), added(&replacement));
        if by_old <= by_revision && by_old <= by_replacement {
            old.clone()
        } else if by_revision <= by_replacement {
            revision
        } else {
            replacement
        }
    }
}

/// Writes down which is the first rule from `from` that covers each of the places; those that none covers stay as they are.
fn set_next(data: &Data, rules: &[Draft], from: usize, rows: &Rows, mut places: Vec<u32>, next: &mut [u32]) {
    let mut left: Vec<u32> = places.iter().map(|place| rows.row[*place as usize]).collect();
    for (rule, draft) in rules.iter().enumerate().skip(from) {
        let covered = data.covered(draft, &left);
        covered.iter().for_each(|at| next[places[*at as usize] as usize] = rule as u32);
        remove(&mut places, &covered);
        remove(&mut left, &covered);
    }
}

fn tally(rows: &Rows, places: &[u32]) -> Tally {
    let mut tally = Tally::default();
    places.iter().for_each(|place| tally.add(rows.weight[*place as usize]));
    tally
}

fn has_positives(rows: &Rows) -> bool {
    rows.weight.iter().filter(|weight| **weight > 0.0).sum::<f64>() > TINY
}

/// The length of a set of rules as rules come, and when no more should.
struct Sum {
    measure: Measure,
    covered: Tally,
    length: f64,
    least: f64,
}

impl Sum {
    fn new(measure: Measure) -> Sum {
        let length = measure.exceptions(&Tally::default());
        Sum { measure, covered: Tally::default(), length, least: length }
    }

    /// Takes a further rule into account; false if it is one too many.
    fn goes_on(&mut self, tally: &Tally, conditions: usize) -> bool {
        self.length += self.measure.added(&self.covered, (tally, conditions), &[], &[], &[]);
        self.covered = Tally::sum([&self.covered, tally]);
        self.least = self.least.min(self.length);
        self.length <= self.least + SURPLUS && tally.right > TINY && !tally.mostly_wrong()
    }
}
