//! RIPPER (Cohen 1995, "Fast Effective Rule Induction"): rules learned from examples.

use crate::examples::Examples;
use crate::rules::Rules;

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
}

impl Default for Learner {
    fn default() -> Learner {
        Learner { seed: 1, optimizations: 2, folds: 3, least: 2.0, loss_ratio: 1.0, positive: None }
    }
}

impl Learner {
    /// Without an example it fails, as with settings out of bounds. With examples of one class alone, only a default is learned.
    pub fn learn(&self, _examples: &Examples) -> Result<Rules, String> {
        Err("not yet".into())
    }
}
