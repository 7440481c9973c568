//! Description length: bits that say a set of rules, and which examples it judges wrong (Quinlan 1995, "MDL and categorical theories
//! (continued)"; Cohen 1995, 3.2).

/// What comes of a rule, or of several, by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Taken for the class in question, rightly and wrongly.
    pub right: f64,
    pub wrong: f64,
}

impl Tally {
    pub fn cover(&self) -> f64 {
        self.right + self.wrong
    }

    pub fn add(&mut self, weight: f64) {
        match weight > 0.0 {
            true => self.right += weight,
            false => self.wrong -= weight,
        }
    }

    pub fn sum<'t>(tallies: impl IntoIterator<Item = &'t Tally>) -> Tally {
        tallies.into_iter().fold(Tally::default(), |sum, tally| Tally {
            right: sum.right + tally.right,
            wrong: sum.wrong + tally.wrong,
        })
    }

    pub fn without(&self, other: &Tally) -> Tally {
        Tally { right: (self.right - other.right).max(0.0), wrong: (self.wrong - other.wrong).max(0.0) }
    }

    /// Half of what it covers, or more, is wrong.
    pub fn mostly_wrong(&self) -> bool {
        self.cover() > 0.0 && self.wrong / self.cover() >= 0.5
    }
}

/// What lengths are measured against, for one class.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Conditions that there could be in a rule.
    pub conditions: f64,
    /// Weight of the examples that are of the class and not.
    pub of: f64,
    pub other: f64,
    /// Expected share of false positives among errors: the class's share of the examples.
    pub false_positives: f64,
}

impl Measure {
    /// Of a rule with so many conditions. Half of what Quinlan's encoding takes, since conditions are redundant (Cohen 3.2).
    pub fn theory(&self, conditions: usize) -> f64 {
        let count = conditions as f64;
        if conditions == 0 {
            return 0.0;
        }
        let mut bits = count.log2();
        if conditions > 1 {
            bits += 2.0 * bits.log2();
        }
        0.5 * (bits + subset(self.conditions, count, count / self.conditions))
    }

    /// Of the exceptions of rules that cover `covered`.
    pub fn exceptions(&self, covered: &Tally) -> f64 {
        let cover = covered.cover();
        let uncover = (self.of + self.other - cover).max(0.0);
        let (wrong, missed) = (covered.wrong, (self.of - covered.right).max(0.0));
        let of = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        let bits = if cover > uncover {
            let expected = self.false_positives * (wrong + missed);
            subset(cover, wrong, of(expected, cover)) + subset(uncover, missed, of(missed, uncover))
        } else {
            let expected = (1.0 - self.false_positives) * (wrong + missed);
            subset(cover, wrong, of(wrong, cover)) + subset(uncover, missed, of(expected, uncover))
        };
        (cover + uncover + 1.0).log2() + bits
    }

    /// Bits that are saved if a rule is deleted from those that cover `all`, the others staying as they are. None if there are
    /// none and the rule is right more often than not.
    pub fn saved(&self, all: &Tally, rule: &Tally, conditions: usize) -> Option<f64> {
        let saved = self.exceptions(all) + self.theory(conditions) - self.exceptions(&all.without(rule));
        (saved >= -TINY || rule.mostly_wrong()).then_some(saved)
    }

    /// Length of the exceptions at best, when those of `later` rules are deleted that are better deleted.
    fn at_best<'t>(&self, all: Tally, later: impl Iterator<Item = (&'t Tally, usize)>) -> f64 {
        let mut left = all;
        let mut sum = 0.0;
        for (rule, conditions) in later {
            if let Some(saved) = self.saved(&left, rule, conditions) {
                sum += saved;
                left = left.without(rule);
            }
        }
        self.exceptions(&left) - sum
    }

    /// Bits that a rule adds to a set of rules, beside the same without it; each at best, with later rules deleted. `with` and
    /// `without` are the tallies of the later rules in either case, `before` is of all earlier rules.
    pub fn added(
        &self,
        before: &Tally,
        rule: (&Tally, usize),
        with: &[Tally],
        without: &[Tally],
        later: &[usize],
    ) -> f64 {
        let exists = Tally::sum([before, rule.0].into_iter().chain(with));
        let deleted = Tally::sum([before].into_iter().chain(without));
        let lengths = || later.iter().copied();
        self.at_best(exists, with.iter().zip(lengths())) + self.theory(rule.1)
            - self.at_best(deleted, without.iter().zip(lengths()))
    }
}

const TINY: f64 = 1e-6;

/// Bits that say which `part` of `all` things it is, when a share of `expected` is expected.
fn subset(all: f64, part: f64, expected: f64) -> f64 {
    // An expectation of all would make what is not of the part infinitely surprising.
    let expected = expected.clamp(0.0, 1.0 - 1e-9);
    let term = |count: f64, share: f64| if count > 0.0 && share > 0.0 { -count * share.log2() } else { 0.0 };
    term(part, expected) + term(all - part, 1.0 - expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn lengths_are_those_worked_out_by_hand() {
        let measure = Measure { conditions: 16.0, of: 4.0, other: 12.0, false_positives: 0.25 };
        // One condition of 16: log2 16 + 15·log2(16/15), halved.
        close(measure.theory(1), 0.5 * (4.0 + 15.0 * (16f64 / 15.0).log2()));
        // Two: log2 2 + 2·log2(log2 2) + 2·log2 8 + 14·log2(8/7), halved.
        close(measure.theory(2), 0.5 * (1.0 + 6.0 + 14.0 * (8f64 / 7.0).log2()));
        close(measure.theory(0), 0.0);
        // Nothing is covered: 17 counts, and 4 of 16 with 3 expected.
        let p: f64 = 3.0 / 16.0;
        close(measure.exceptions(&Tally::default()), 17f64.log2() - 4.0 * p.log2() - 12.0 * (1.0 - p).log2());
        // All right: only the count.
        close(measure.exceptions(&Tally { right: 4.0, wrong: 0.0 }), 17f64.log2());
        // A rule that is wrong is deleted whatever it saves.
        let rule = Tally { right: 1.0, wrong: 1.0 };
        assert!(measure.saved(&rule, &rule, 1).is_some());
        let rule = Tally { right: 4.0, wrong: 0.0 };
        assert!(measure.saved(&rule, &rule, 1).is_none());
    }

    #[test]
    fn no_tally_has_a_length_that_is_not_a_number() {
        for share in [0.0, 0.01, 0.5, 0.99, 1.0] {
            let measure = Measure { conditions: 3.0, of: 10.0, other: 10.0, false_positives: share };
            for right in [0.0, 0.5, 10.0] {
                for wrong in [0.0, 0.5, 10.0] {
                    let bits = measure.exceptions(&Tally { right, wrong });
                    assert!(bits.is_finite() && bits >= 0.0, "{share} {right} {wrong}: {bits}");
                }
            }
            assert!((0..5).all(|conditions| measure.theory(conditions).is_finite()));
        }
    }
}
