//! Several sets of rules that vote (7.2, 7.6).

use super::Rules;
use crate::examples::Examples;
use crate::judge::{Judge, Verdict};
use std::collections::BTreeSet;

/// The heaviest vote, far above any that boosting gives: sums of all members' are numbers.
pub const VOTE_MAX: f64 = 1e6;

/// `Display` writes it, `Model` reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ensemble {
    /// With the weight of its vote, from 0 to `VOTE_MAX`. All have one schema and the same classes.
    members: Vec<(f64, Rules)>,
}

impl Ensemble {
    /// Fails if there is no member, they are not of one schema and the same classes, or a vote is not a number from 0 to `VOTE_MAX`.
    pub fn new(members: Vec<(f64, Rules)>) -> Result<Ensemble, String> {
        let [(_, first), ..] = &members[..] else { return Err("an ensemble without members".into()) };
        if members.iter().any(|(_, rules)| rules.schema != first.schema || rules.classes != first.classes) {
            return Err("the members of an ensemble differ in attributes or classes".into());
        }
        match members.iter().find(|(vote, _)| !(0.0..=VOTE_MAX).contains(vote)) {
            Some((vote, _)) => Err(format!("a vote weighs {vote}, not 0 to {VOTE_MAX}")),
            None => Ok(Ensemble { members }),
        }
    }

    pub fn members(&self) -> &[(f64, Rules)] {
        &self.members
    }
}

impl Judge for Ensemble {
    fn classes(&self) -> &[String] {
        self.members[0].1.classes()
    }

    fn attributes(&self) -> BTreeSet<&str> {
        self.members.iter().flat_map(|(_, rules)| rules.attributes()).collect()
    }

    /// The class with most votes, the first of those that have as many. Confidence is the logistic of the votes' difference, as
    /// boosting's additive logistic model has it (Friedman, Hastie, Tibshirani 2000): it ranks well and is too sure of itself.
    fn judge(&self, examples: &Examples) -> Result<Vec<Verdict>, String> {
        let classes = self.classes().len();
        let mut votes = vec![0.0; examples.len() * classes];
        for (weight, rules) in &self.members {
            for (row, verdict) in rules.judge(examples)?.iter().enumerate() {
                votes[row * classes + verdict.class] += weight;
            }
        }
        let verdict = |votes: &[f64]| {
            let (class, most) =
                votes.iter().enumerate().fold((0, f64::MIN), |best, (class, vote)| match *vote > best.1 {
                    true => (class, *vote),
                    false => best,
                });
            let all: f64 = votes.iter().map(|vote| (vote - most).exp()).sum();
            Verdict { class, confidence: 1.0 / all, rule: None }
        };
        Ok(votes.chunks(classes.max(1)).map(verdict).collect())
    }

    fn reason(&self, verdict: &Verdict) -> String {
        format!("{} sets of rules voted for {}", self.members.len(), self.classes()[verdict.class])
    }
}
