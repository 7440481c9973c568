//! Which rule an example meets first, with the rules' words looked up once.

use super::{Rule, Test};
use crate::examples::{Column, Examples, Schema, Sets};

pub(crate) struct Matcher<'e> {
    rules: Vec<Vec<Bound<'e>>>,
}

/// A condition on a column. Missing values are NaN, a number that no word has, and sets without words: none holds.
pub(crate) enum Bound<'e> {
    AtMost(&'e [f64], f64),
    AtLeast(&'e [f64], f64),
    Is(&'e [u32], u32),
    Has(&'e Sets, u32),
    /// The examples do not have the word.
    Never,
}

impl Bound<'_> {
    pub(crate) fn holds(&self, row: usize) -> bool {
        match self {
            Bound::AtMost(values, most) => values[row] <= *most,
            Bound::AtLeast(values, least) => values[row] >= *least,
            Bound::Is(values, word) => values[row] == *word,
            Bound::Has(sets, word) => sets.set(row).binary_search(word).is_ok(),
            Bound::Never => false,
        }
    }
}

impl<'e> Matcher<'e> {
    pub fn new(schema: &Schema, rules: &[Rule], examples: &'e Examples) -> Result<Matcher<'e>, String> {
        let rules = rules.iter().map(|rule| {
            let bound = rule.conditions.iter().map(|condition| {
                let name = &schema.attributes()[condition.attribute].name;
                let column = examples.column(name);
                let column =
                    column.ok_or_else(|| format!("a rule asks for `{name}`, which the examples lack"))?;
                bind(&condition.test, column)
                    .ok_or_else(|| format!("a rule asks for `{name}` as what the examples do not have it as"))
            });
            bound.collect()
        });
        Ok(Matcher { rules: rules.collect::<Result<_, String>>()? })
    }

    pub fn first(&self, row: usize) -> Option<usize> {
        self.rules.iter().position(|rule| rule.iter().all(|condition| condition.holds(row)))
    }
}

/// None if the column is of another kind.
fn bind<'e>(test: &Test, column: &'e Column) -> Option<Bound<'e>> {
    Some(match (test, column) {
        (Test::AtMost(most), Column::Number(values)) => Bound::AtMost(values, *most),
        (Test::AtLeast(least), Column::Number(values)) => Bound::AtLeast(values, *least),
        (Test::Is(word), Column::Nominal { words, values }) => {
            words.number(word).map_or(Bound::Never, |word| Bound::Is(values, word))
        }
        (Test::Has(word), Column::Set(sets)) => {
            sets.words().number(word).map_or(Bound::Never, |word| Bound::Has(sets, word))
        }
        _ => return None,
    })
}
