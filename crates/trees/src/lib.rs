//! Boosted trees beside the rules of bandwidth smoothing: histogram trees with gradient boosting (forust) as the modern reference. Only evaluation needs it,
//! so it is a crate of its own, which the proxy is built without.
//!
//! Trees take numbers. A number is one column. A nominal value is the share of positives among the examples that have it, drawn to the
//! share of all by ten examples' weight; a value that was not there when learning is missing. A set is a column for each of its words
//! that come most often.

use forust_ml::{GradientBooster, Matrix};
use learn::examples::{Column, Examples, MISSING, Words};
use learn::judge::{Judge, Verdict};
use std::collections::BTreeSet;

/// Words of a set that have a column.
const WORDS: usize = 64;

/// Weight, in examples, by which a value's share is drawn to the share of all.
const DRAWN: f64 = 10.0;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Trees that are made, one after another; at least 1.
    pub count: usize,
    /// Share of its step that each takes, in 0 to 1: with less, more trees are needed, which together are smoother.
    pub rate: f32,
    /// The class whose likelihood is learned.
    pub positive: String,
    /// Cost of a false positive over that of a false negative, above 0: a class is said where the likelihood is above what this asks.
    pub loss_ratio: f64,
    pub seed: u64,
    pub threads: usize,
}

/// Trees that tell two classes apart.
pub struct Trees {
    booster: GradientBooster,
    /// The positive one, and the other.
    classes: [String; 2],
    /// Likelihood from which an example is taken for positive.
    threshold: f64,
    attributes: Vec<(String, Encoding)>,
}

/// What becomes of an attribute.
enum Encoding {
    Number,
    /// The share of positives of each value.
    Nominal(Words, Vec<f64>),
    /// Words with a column each.
    Set(Vec<String>),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { count: 200, rate: 0.1, positive: String::new(), loss_ratio: 1.0, seed: 1, threads: 1 }
    }
}

impl Trees {
    /// Fails if the examples are not of two classes, one of them the positive one, or have no attributes.
    pub fn learn(examples: &Examples, settings: &Settings) -> Result<Trees, String> {
        let positive = examples.classes().number(&settings.positive);
        let positive =
            positive.ok_or_else(|| format!("no example is of the class `{}`", settings.positive))?;
        let negative = match examples.classes().len() {
            2 => 1 - positive,
            count => return Err(format!("trees tell two classes apart, and there are {count}")),
        };
        if examples.columns().is_empty() {
            return Err("the examples have no attributes".into());
        }
        let rate_fits = settings.rate > 0.0 && settings.rate <= 1.0;
        if settings.count == 0
            || !rate_fits
            || !(settings.loss_ratio > 0.0 && settings.loss_ratio.is_finite())
        {
            return Err(
                "the count, the rate and the loss ratio of trees are above 0, and the rate is at most 1"
                    .into(),
            );
        }
        let of: Vec<f64> = examples.class().iter().map(|class| f64::from(*class == positive)).collect();
        if of.iter().all(|of| *of == 0.0) || of.iter().all(|of| *of == 1.0) {
            return Err("all examples are of one class".into());
        }
        let mean = examples.weights().iter().sum::<f64>() / examples.len() as f64;
        let weights: Vec<f64> = examples.weights().iter().map(|weight| weight / mean).collect();
        let attributes = examples.schema().attributes().iter().zip(examples.columns());
        let attributes: Vec<(String, Encoding)> = attributes
            .map(|(attribute, column)| (attribute.name.clone(), Encoding::of(column, &of, &weights)))
            .collect();
        let mut booster = GradientBooster::default()
            .set_iterations(settings.count)
            .set_learning_rate(settings.rate)
            .set_seed(settings.seed)
            .set_parallel(settings.threads > 1)
            .set_num_threads(Some(settings.threads.max(1)));
        let (cells, columns) = cells(&attributes, examples)?;
        let matrix = Matrix::new(&cells, examples.len(), columns);
        booster.fit(&matrix, &of, &weights, None).map_err(|e| format!("trees: {e}"))?;
        let classes = [positive, negative].map(|class| examples.classes().word(class).to_owned());
        let threshold = settings.loss_ratio / (1.0 + settings.loss_ratio);
        Ok(Trees { booster, classes, threshold, attributes })
    }

    pub fn count(&self) -> usize {
        self.booster.trees.len()
    }
}

impl Judge for Trees {
    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn attributes(&self) -> BTreeSet<&str> {
        self.attributes.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn judge(&self, examples: &Examples) -> Result<Vec<Verdict>, String> {
        if examples.is_empty() {
            return Ok(Vec::new());
        }
        let (cells, columns) = cells(&self.attributes, examples)?;
        let odds = self.booster.predict(&Matrix::new(&cells, examples.len(), columns), false);
        let likely = odds.into_iter().map(|odds| 1.0 / (1.0 + (-odds).exp()));
        let verdict = |likely: f64| match likely >= self.threshold {
            true => Verdict { class: 0, confidence: likely, rule: None },
            false => Verdict { class: 1, confidence: 1.0 - likely, rule: None },
        };
        Ok(likely.map(verdict).collect())
    }

    fn reason(&self, verdict: &Verdict) -> String {
        format!("{} trees: {:.3} {}", self.count(), verdict.confidence, self.classes[verdict.class])
    }
}

impl Encoding {
    fn of(column: &Column, of: &[f64], weights: &[f64]) -> Encoding {
        match column {
            Column::Number(_) => Encoding::Number,
            Column::Nominal { words, values } => {
                let mut sums = vec![(0.0, 0.0); words.len()];
                let (mut right, mut all) = (0.0, 0.0);
                for ((value, of), weight) in values.iter().zip(of).zip(weights) {
                    (right, all) = (right + of * weight, all + weight);
                    if let Some(sum) = sums.get_mut(*value as usize) {
                        *sum = (sum.0 + of * weight, sum.1 + weight);
                    }
                }
                let share =
                    |(right_of, all_of): &(f64, f64)| (right_of + DRAWN * right / all) / (all_of + DRAWN);
                Encoding::Nominal(words.clone(), sums.iter().map(share).collect())
            }
            Column::Set(sets) => {
                let mut counts: Vec<(u32, u64)> =
                    (0..sets.words().len() as u32).map(|word| (word, 0)).collect();
                (0..of.len()).flat_map(|row| sets.set(row)).for_each(|word| counts[*word as usize].1 += 1);
                counts.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), *word));
                Encoding::Set(
                    counts.iter().take(WORDS).map(|(word, _)| sets.words().word(*word).to_owned()).collect(),
                )
            }
        }
    }
}

/// Column after column, and how many there are.
fn cells(attributes: &[(String, Encoding)], examples: &Examples) -> Result<(Vec<f64>, usize), String> {
    let mut cells = Vec::new();
    for (name, encoding) in attributes {
        let column = examples
            .column(name)
            .ok_or_else(|| format!("trees ask for `{name}`, which the examples lack"))?;
        match (encoding, column) {
            (Encoding::Number, Column::Number(values)) => cells.extend_from_slice(values),
            (Encoding::Nominal(known, shares), Column::Nominal { words, values }) => {
                let share = |word| known.number(word).map_or(f64::NAN, |word| shares[word as usize]);
                let shares: Vec<f64> = words.iter().map(share).collect();
                cells.extend(
                    values
                        .iter()
                        .map(|value| if *value == MISSING { f64::NAN } else { shares[*value as usize] }),
                );
            }
            (Encoding::Set(known), Column::Set(sets)) => {
                for word in known {
                    let word = sets.words().number(word);
                    let has = |row| word.is_some_and(|word| sets.set(row).binary_search(&word).is_ok());
                    cells.extend((0..examples.len()).map(|row| f64::from(has(row))));
                }
            }
            _ => {
                return Err(format!("trees ask for `{name}` as what the examples do not have it as"));
            }
        }
    }
    let columns = cells.len() / examples.len().max(1);
    Ok((cells, columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::examples::{Kind, Schema, Value};
    use learn::judge::Matrix;
    use trace::random::Random;

    fn examples(rows: usize, seed: u64) -> Examples {
        let schema =
            Schema::new([("size", Kind::Number), ("server", Kind::Nominal), ("words", Kind::Set)]).unwrap();
        let mut examples = Examples::new(schema, ["yes", "no"]);
        let mut random = Random::of(seed);
        for _ in 0..rows {
            let (size, server, word) = (random.exponential(100.0), random.below(20), random.below(5));
            let yes = (server < 3 && size < 80.0 || word == 2 && size > 150.0) != (random.below(25) == 0);
            let (server, word) = (format!("www{server}"), format!("w{word}"));
            let size = if random.below(20) == 0 { Value::Missing } else { Value::Number(size) };
            let set = [word.as_str()];
            let values = [size, Value::Nominal(&server), Value::Set(&set)];
            examples.push(&values, if yes { "yes" } else { "no" }, 1.0).unwrap();
        }
        examples
    }

    fn settings() -> Settings {
        Settings { count: 50, positive: "yes".into(), ..Settings::default() }
    }

    #[test]
    fn trees_find_what_is_there() {
        let trees = Trees::learn(&examples(3000, 1), &settings()).unwrap();
        let right = Matrix::of(&trees, &examples(2000, 2)).unwrap().right();
        assert!(right > 0.92, "{right}");
        let again = Trees::learn(&examples(3000, 1), &settings()).unwrap();
        assert_eq!(trees.judge(&examples(500, 3)).unwrap(), again.judge(&examples(500, 3)).unwrap());
    }

    #[test]
    fn what_cannot_be_learned_from_is_an_error() {
        let refused =
            |examples: &Examples, settings: &Settings| Trees::learn(examples, settings).err().unwrap();
        let some = examples(50, 1);
        assert!(refused(&some, &Settings { positive: "x".into(), ..settings() }).contains("`x`"));
        assert!(refused(&some, &Settings { rate: f32::NAN, ..settings() }).contains("rate"));
        let first = some.class()[0];
        let alike: Vec<u32> = (0..50).filter(|row| some.class()[*row as usize] == first).collect();
        assert!(refused(&some.rows(&alike), &settings()).contains("one class"));
        assert!(refused(&some.rows(&[]), &settings()).contains("one class"));
        let trees = Trees::learn(&examples(200, 1), &settings()).unwrap();
        let other = Examples::new(Schema::new([("size", Kind::Set)]).unwrap(), []);
        assert!(trees.judge(&other).is_ok_and(|verdicts| verdicts.is_empty()));
    }
}
