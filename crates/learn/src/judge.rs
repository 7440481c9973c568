//! What a learner's product says of examples, and how right it is.

use crate::examples::Examples;
use std::collections::BTreeSet;

/// What is said of one example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Of the judge's classes, from 0.
    pub class: usize,
    /// How likely the class is right, in 0 to 1, judged by the examples that were learned from.
    pub confidence: f64,
    /// Which of the judge's rules decided, from 0; none if it was none in particular (the default, a vote, a tree).
    pub rule: Option<usize>,
}

/// Rules, votes of rules, or trees: whatever tells the class of examples.
pub trait Judge {
    /// Names of the classes it knows.
    fn classes(&self) -> &[String];

    /// Names of the attributes that it looks at: examples need no others.
    fn attributes(&self) -> BTreeSet<&str>;

    /// One verdict for each row. Fails if the examples lack an attribute that is asked for, or have it as another kind. Their
    /// classes and weights are not looked at.
    fn judge(&self, examples: &Examples) -> Result<Vec<Verdict>, String>;

    /// Why, in words.
    fn reason(&self, verdict: &Verdict) -> String;
}

/// Weight of the examples of each class that were taken for each class.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Classes of the examples, then those that only the judge knows.
    pub classes: Vec<String>,
    /// By the class that it is, then by the class it was taken for.
    pub weights: Vec<Vec<f64>>,
    /// The same, each example counted once.
    pub counts: Vec<Vec<u64>>,
}

impl Matrix {
    pub fn of(judge: &dyn Judge, examples: &Examples) -> Result<Matrix, String> {
        Ok(Matrix::from_verdicts(judge.classes(), &judge.judge(examples)?, examples))
    }

    pub fn from_verdicts(known: &[String], verdicts: &[Verdict], examples: &Examples) -> Matrix {
        let mut classes: Vec<String> = examples.classes().iter().map(String::from).collect();
        let places: Vec<usize> = known
            .iter()
            .map(|name| {
                classes.iter().position(|class| class == name).unwrap_or_else(|| {
                    classes.push(name.clone());
                    classes.len() - 1
                })
            })
            .collect();
        let mut weights = vec![vec![0.0; classes.len()]; classes.len()];
        let mut counts = vec![vec![0; classes.len()]; classes.len()];
        for ((verdict, class), weight) in verdicts.iter().zip(examples.class()).zip(examples.weights()) {
            weights[*class as usize][places[verdict.class]] += weight;
            counts[*class as usize][places[verdict.class]] += 1;
        }
        Matrix { classes, weights, counts }
    }

    /// Share of the examples that were judged right; 1 where there are none.
    pub fn right(&self) -> f64 {
        let right: u64 = (0..self.classes.len()).map(|class| self.counts[class][class]).sum();
        let all: u64 = self.counts.iter().flatten().sum();
        if all == 0 { 1.0 } else { right as f64 / all as f64 }
    }

    /// P_a of 7.5: of the weight taken for `class`, the share that is of it. None if nothing was.
    pub fn accuracy(&self, class: &str) -> Option<f64> {
        let class = self.place(class)?;
        share(self.weights[class][class], self.weights.iter().map(|taken| taken[class]).sum())
    }

    /// P_c of 7.5: of the weight of `class`, the share that was taken for it. None if there is none.
    pub fn coverage(&self, class: &str) -> Option<f64> {
        let class = self.place(class)?;
        share(self.weights[class][class], self.weights[class].iter().sum())
    }

    fn place(&self, class: &str) -> Option<usize> {
        self.classes.iter().position(|name| name == class)
    }
}

fn share(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all)
}
