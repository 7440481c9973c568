//! AdaBoost over RIPPER (7.2, 7.6; Freund and Schapire 1996, AdaBoost.M1): each set of rules is learned from weights that are larger
//! where those before were wrong.

use crate::examples::Examples;
use crate::judge::Judge;
use crate::ripper::{Learner, Step};
use crate::rules::Ensemble;

/// Error that is as good as none: it bounds a vote.
const LEAST_ERROR: f64 = 1e-6;

/// Learns up to `rounds` sets of rules; fewer if one is right throughout, or no better than chance. The member of each round has the
/// learner's seed plus the round.
pub fn boost(
    learner: &Learner,
    rounds: usize,
    examples: &Examples,
    progress: &mut dyn FnMut(usize, Step),
) -> Result<Ensemble, String> {
    let mut weights = examples.weights().to_vec();
    let total: f64 = weights.iter().sum();
    let mut members = Vec::new();
    for round in 0..rounds.max(1) {
        let learner = Learner { seed: learner.seed.wrapping_add(round as u64), ..learner.clone() };
        let rules = learner.learn_weighted(examples, &weights, &mut |step| progress(round, step))?;
        let wrong: Vec<bool> = rules
            .judge(examples)?
            .iter()
            .zip(examples.class())
            .map(|(verdict, class)| verdict.class != *class as usize)
            .collect();
        let missed: f64 =
            weights.iter().zip(&wrong).filter(|(_, wrong)| **wrong).map(|(weight, _)| weight).sum();
        let error = missed / weights.iter().sum::<f64>();
        if error >= 0.5 {
            // No better than chance: it has no vote, unless it is the only one.
            if members.is_empty() {
                members.push((1.0, rules));
            }
            break;
        }
        let odds = (1.0 - error.max(LEAST_ERROR)) / error.max(LEAST_ERROR);
        members.push((odds.ln(), rules));
        if error <= LEAST_ERROR {
            break;
        }
        weights.iter_mut().zip(&wrong).filter(|(_, wrong)| **wrong).for_each(|(weight, _)| *weight *= odds);
        let scale = total / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
    }
    Ensemble::new(members)
}
