//! The rules of one class: built one after another, then each tried against a replacement and a revision.

use super::Learner;
use super::data::{Data, Probe, Rows, Scratch};
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
            let (rule, tally) = self.next_rule(&rows);
            if !sum.goes_on(&tally, rule.len()) {
                break;
            }
            rows.retain(|row| !self.data.all_hold(&rule, row));
            rules.push(rule);
            (self.progress)(rules.len());
        }
        rules
    }

    /// Grown on a part of the rows and pruned by the rest; with what comes of it.
    fn next_rule(&mut self, rows: &Rows) -> (Draft, Tally) {
        let (growing, pruning) = self.data.split(rows, self.learner.folds, self.random);
        let mut rule = Draft::new();
        grow(self.data, &mut rule, growing, self.learner.least, self.scratch);
        prune(self.data, &mut rule, &pruning, Aim::Rule);
        let tally = self.tally(&rule, rows);
        (rule, tally)
    }

    fn tally(&self, rule: &Draft, rows: &Rows) -> Tally {
        let mut tally = Tally::default();
        rows.iter()
            .filter(|(row, _)| self.data.all_hold(rule, *row))
            .for_each(|(_, weight)| tally.add(weight));
        tally
    }

    fn optimize(&mut self, mut rules: Vec<Draft>) -> Vec<Draft> {
        let data = self.data;
        let mut rows = self.rows.clone();
        // For each row the first rule behind the one in question that covers it.
        let mut next: Vec<usize> = rows.row.iter().map(|row| first(data, &rules, 0, *row)).collect();
        let mut done: Vec<Tally> = Vec::new();
        let mut position = 0;
        while position < rules.len() && has_positives(&rows) {
            let covered = next.iter().any(|rule| *rule == position);
            for (row, next) in rows.row.iter().zip(&mut next).filter(|(_, next)| **next == position) {
                *next = first(data, &rules, position + 1, *row);
            }
            if covered {
                let rule = self.best_variant(&rules, position, &rows, &next, &done);
                rules[position] = rule;
            } else {
                done.push(Tally::default());
                position += 1;
                continue;
            }
            let rule = &rules[position];
            done.push(self.tally(rule, &rows));
            let mut at = 0;
            let mut left = Vec::with_capacity(next.len());
            rows.retain(|row| {
                let keep = !data.all_hold(rule, row);
                if keep {
                    left.push(next[at]);
                }
                at += 1;
                keep
            });
            next = left;
            position += 1;
            (self.progress)(rules.len());
        }
        // Those behind cover nothing of the class any more.
        rules.truncate(position);
        let mut sum = Sum::new(self.measure);
        sum.covered = Tally::sum(&done);
        while has_positives(&rows) {
            let (rule, tally) = self.next_rule(&rows);
            if !sum.goes_on(&tally, rule.len()) {
                break;
            }
            rows.retain(|row| !data.all_hold(&rule, row));
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
        next: &[usize],
        done: &[Tally],
    ) -> Draft {
        let data = self.data;
        let (growing, mut pruning) = data.split(rows, self.learner.folds, self.random);
        let old = rules[position].clone();
        let mut within = growing.clone();
        within.retain(|row| data.all_hold(&old, row));
        // What later rules cover is theirs.
        let mut at = 0;
        pruning.retain(|row| {
            while rows.row[at] != row {
                at += 1;
            }
            next[at] == rules.len()
        });
        let mut replacement = Draft::new();
        grow(data, &mut replacement, growing, self.learner.least, self.scratch);
        prune(data, &mut replacement, &pruning, Aim::All);
        let mut revision = old.clone();
        grow(data, &mut revision, within, self.learner.least, self.scratch);
        prune(data, &mut revision, &pruning, Aim::All);

        let later = rules.len() - position - 1;
        let lengths: Vec<usize> = rules[position + 1..].iter().map(Vec::len).collect();
        let mut without = vec![Tally::default(); later];
        for ((_, weight), next) in rows.iter().zip(next) {
            if let Some(tally) = without.get_mut(next - position - 1) {
                tally.add(weight);
            }
        }
        let before = Tally::sum(done);
        let added = |rule: &Draft| {
            let mut own = Tally::default();
            let mut with = vec![Tally::default(); later];
            for ((row, weight), next) in rows.iter().zip(next) {
                if data.all_hold(rule, row) {
                    own.add(weight);
                } else if let Some(tally) = with.get_mut(next - position - 1) {
                    tally.add(weight);
                }
            }
            self.measure.added(&before, (&own, rule.len()), &with, &without, &lengths)
        };
        let (by_old, by_revision, by_replacement) = (added(&old), added(&revision), added(&replacement));
        if by_old <= by_revision && by_old <= by_replacement {
            old
        } else if by_revision <= by_replacement {
            revision
        } else {
            replacement
        }
    }
}

/// The first rule from `from` that covers the row, the rules' count if none does.
fn first(data: &Data, rules: &[Draft], from: usize, row: u32) -> usize {
    (from..rules.len()).find(|rule| data.all_hold(&rules[*rule], row)).unwrap_or(rules.len())
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
