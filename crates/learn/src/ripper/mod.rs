//! RIPPER (Cohen 1995, "Fast Effective Rule Induction"): rules learned from examples.
//!
//! For each class but the last, rules are built one after another: grown on two thirds of the examples by FOIL's information gain and
//! pruned by the others, until the description length has grown by 64 bits. Passes of optimization follow, in which each rule may
//! give way to a replacement or a revision, and what is left of the class gets further rules.

mod class;
mod data;
mod grow;
mod length;

use crate::examples::Examples;
use crate::number::Number;
use crate::rules::{CLASSES_MAX, Rule, Rules, Support};
use class::{Class, Draft};
use data::{Data, Rows, remove};
use grow::simplify;
use length::Measure;
use trace::random::Random;

/// Costs of a false positive over that of a false negative.
pub const LOSS_RATIOS: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// How rules are learned. The same settings and examples give the same rules, byte for byte.
#[derive(Clone, Debug)]
pub struct Learner {
    /// Decides which examples a rule grows on and which prune it.
    pub seed: u64,
    /// Passes over the finished rules, in each of which a replacement and a revision of each are tried: k of RIPPERk.
    pub optimizations: usize,
    /// One of so many parts of the examples prunes what grew on the others; at least 2.
    pub folds: usize,
    /// Weight of the examples of its class that a condition must keep, with weights scaled so that their mean is 1.
    pub least: f64,
    /// Cost of a false positive over that of a false negative (7.8), above 0; 1 unless there are two classes.
    pub loss_ratio: f64,
    /// The class that rules are learned for where there are two, the other being the default: the positives. Otherwise, and where
    /// there are more, classes have rules from the lightest to the heaviest, and the heaviest is the default.
    pub positive: Option<String>,
    /// Threads that look for conditions; the rules do not depend on them.
    pub threads: usize,
}

impl Default for Learner {
    fn default() -> Learner {
        Learner {
            seed: 7,
            optimizations: 2,
            folds: 3,
            least: 2.0,
            loss_ratio: 1.0,
            positive: None,
            threads: 1,
        }
    }
}

impl Learner {
    /// Without an example it fails, as with settings out of bounds. With examples of one class alone, only a default is learned.
    pub fn learn(&self, examples: &Examples) -> Result<Rules, String> {
        self.learn_weighted(examples, examples.weights(), &mut |_| {})
    }

    /// With other weights than the examples': finite, above 0, one for each row. `progress` is told of each step.
    pub fn learn_weighted(
        &self,
        examples: &Examples,
        weights: &[f64],
        progress: &mut dyn FnMut(Step),
    ) -> Result<Rules, String> {
        let order = self.order(examples, weights)?;
        let positive = order.first().copied();
        let price = |class: u32| if Some(class) == positive { 1.0 } else { self.loss_ratio };
        let price = |row: usize| weights[row] * price(examples.class()[row]);
        let data = Data::new(examples, price, self.threads);
        let mut sums = vec![0.0; examples.classes().len()];
        examples
            .class()
            .iter()
            .zip(&data.weights)
            .for_each(|(class, weight)| sums[*class as usize] += weight);
        let mut random = Random::of(self.seed);
        let mut scratch = data.scratch();
        let mut rows: Vec<u32> = (0..examples.len() as u32).collect();
        let mut made: Vec<(u32, Draft)> = Vec::new();
        for (place, class) in order[..order.len() - 1].iter().enumerate() {
            let mut signed = Rows::default();
            for row in &rows {
                let weight = data.weights[*row as usize];
                signed.push(*row, if examples.class()[*row as usize] == *class { weight } else { -weight });
            }
            let (of, all) = signed.sums();
            if of == 0.0 {
                continue;
            }
            // Of what no earlier class has, whatever was taken for those.
            let remaining: f64 = order[place..].iter().map(|class| sums[*class as usize]).sum();
            let share = sums[*class as usize] / remaining;
            let measure =
                Measure { conditions: data.conditions, of, other: all - of, false_positives: share };
            let mut step = |rules| progress(Step { class: *class, rules, left: rows.len() });
            let mut rules = Class {
                learner: self,
                data: &data,
                rows: &signed,
                measure,
                random: &mut random,
                scratch: &mut scratch,
                progress: &mut step,
            }
            .learn();
            for rule in &rules {
                let covered = data.covered(rule, &rows);
                remove(&mut rows, &covered);
            }
            rules.iter_mut().for_each(|rule| simplify(&data, rule));
            made.extend(rules.into_iter().map(|rule| (*class, rule)));
        }
        self.finish(examples, &data, &made, &order)
    }

    /// Classes in the order in which they have rules, the last being the default.
    fn order(&self, examples: &Examples, weights: &[f64]) -> Result<Vec<u32>, String> {
        if examples.is_empty() {
            return Err("there are no examples to learn from".into());
        }
        if weights.len() != examples.len()
            || weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0))
        {
            return Err("examples without a weight above 0".into());
        }
        if examples.classes().len() > CLASSES_MAX {
            return Err(format!(
                "more than {CLASSES_MAX} classes: what is taken for the class tells examples apart"
            ));
        }
        if self.folds < 2 {
            return Err(format!("{} folds: at least 2 are needed to grow and to prune", self.folds));
        }
        if !LOSS_RATIOS.contains(&self.loss_ratio) {
            let (least, most) = (LOSS_RATIOS.start(), LOSS_RATIOS.end());
            let ratio = Number(self.loss_ratio);
            return Err(format!("the loss ratio {ratio} is not a number from {least:e} to {most:e}"));
        }
        let classes = examples.classes();
        let positive = match &self.positive {
            Some(name) => {
                let known = classes.number(name);
                Some(known.ok_or_else(|| format!("no example is of the class `{name}`, nor is it named"))?)
            }
            None => None,
        };
        if self.loss_ratio != 1.0 && (positive.is_none() || classes.len() != 2) {
            return Err("a loss ratio needs two classes, and which is positive".into());
        }
        let mut sums = vec![0.0; classes.len()];
        examples.class().iter().zip(weights).for_each(|(class, weight)| sums[*class as usize] += weight);
        let mut order: Vec<u32> = (0..classes.len() as u32).collect();
        // The sort is stable: of equals the first.
        order.sort_by(|a, b| sums[*a as usize].total_cmp(&sums[*b as usize]));
        if let Some(positive) = positive.filter(|_| classes.len() > 1) {
            order.retain(|class| *class != positive);
            order.insert(0, positive);
            // All are of it: the default is, since there is nothing to learn.
            if order[1..].iter().all(|class| sums[*class as usize] == 0.0) {
                order.rotate_left(1);
            }
        }
        Ok(order)
    }

    fn finish(
        &self,
        examples: &Examples,
        data: &Data,
        made: &[(u32, Draft)],
        order: &[u32],
    ) -> Result<Rules, String> {
        let mut support = vec![Support::default(); made.len() + 1];
        let default = order[order.len() - 1];
        let mut count = |rule: usize, said: u32, rows: &mut dyn Iterator<Item = u32>| {
            for row in rows.map(|row| row as usize) {
                let (support, weight) = (&mut support[rule], examples.weights()[row]);
                support.examples += 1;
                if said == examples.class()[row] { support.right += weight } else { support.wrong += weight }
            }
        };
        let mut rows: Vec<u32> = (0..examples.len() as u32).collect();
        for (place, (class, rule)) in made.iter().enumerate() {
            let covered = data.covered(rule, &rows);
            count(place, *class, &mut covered.iter().map(|place| rows[*place as usize]));
            remove(&mut rows, &covered);
        }
        count(made.len(), default, &mut rows.iter().copied());
        let rule = |class: u32, probes: &[data::Probe], support| Rule {
            conditions: probes.iter().map(|probe| data.condition(*probe, examples)).collect(),
            class: class as usize,
            support: Some(support),
        };
        let rules =
            made.iter().zip(&support).map(|((class, probes), support)| rule(*class, probes, *support));
        let classes = examples.classes().iter().map(String::from).collect();
        Rules::new(
            examples.schema().clone(),
            classes,
            rules.collect(),
            rule(default, &[], support[made.len()]),
        )
    }
}

/// How far the learner is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Number of the class whose rules are learned.
    pub class: u32,
    pub rules: usize,
    /// Examples that the rules of earlier classes do not cover.
    pub left: usize,
}

#[cfg(test)]
mod tests;
