//! Examples to learn from, and to judge: rows of attributes with a class and a weight, kept by columns.
//!
//! A row costs 8 bytes for each number, 4 for each nominal value, 8 and 4 for each word for each set, and 12 for class and weight.

pub mod table;
mod words;

pub use words::Words;

use crate::number::Number;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a nominal value that is not known.
pub const MISSING: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    /// One of several words.
    Nominal,
    /// Any number of words, in no order, each once.
    Set,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Number, Kind::Nominal, Kind::Set];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Nominal => "nominal",
            Kind::Set => "set",
        }
    }

    pub fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    pub kind: Kind,
}

/// What is known of each example. No two attributes have one name. A copy is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema(Arc<Fields>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Fields {
    attributes: Vec<Attribute>,
    places: HashMap<String, usize>,
}

impl Schema {
    /// Fails if two attributes have one name, or one has none.
    pub fn new<N: Into<String>>(attributes: impl IntoIterator<Item = (N, Kind)>) -> Result<Schema, String> {
        let mut fields = Fields::default();
        for (name, kind) in attributes {
            let name = name.into();
            if name.is_empty() {
                return Err("an attribute has no name".into());
            }
            if fields.places.insert(name.clone(), fields.attributes.len()).is_some() {
                return Err(format!("two attributes are named `{name}`"));
            }
            fields.attributes.push(Attribute { name, kind });
        }
        Ok(Schema(Arc::new(fields)))
    }

    pub fn attributes(&self) -> &[Attribute] {
        &self.0.attributes
    }

    /// Which attribute has this name, from 0.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.0.places.get(name).copied()
    }
}

/// One attribute of one example, as it is put in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Missing,
    /// NaN and infinite numbers count as missing.
    Number(f64),
    Nominal(&'a str),
    /// A word said twice counts once. An empty set is not missing, but no condition holds for either.
    Set(&'a [&'a str]),
}

/// One attribute of all examples.
#[derive(Clone, Debug)]
pub enum Column {
    /// NaN where it is not known; never infinite.
    Number(Vec<f64>),
    /// `MISSING` where it is not known.
    Nominal {
        words: Words,
        values: Vec<u32>,
    },
    Set(Sets),
}

/// Sets of words, one for each example, each in the order of the words' numbers.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    words: Words,
    /// Where each example's set ends in `members`.
    ends: Vec<usize>,
    members: Vec<u32>,
}

impl Sets {
    pub fn words(&self) -> &Words {
        &self.words
    }

    pub fn set(&self, row: usize) -> &[u32] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start..self.ends[row]]
    }
}

/// The heaviest example: sums of any number of weights are numbers.
pub const WEIGHT_MAX: f64 = 1e18;

/// Rows with a class and a weight each. Weights are above 0, `WEIGHT_MAX` at most. At most 2³² − 1 rows.
#[derive(Clone, Debug)]
pub struct Examples {
    schema: Schema,
    columns: Vec<Column>,
    classes: Words,
    class: Vec<u32>,
    weights: Vec<f64>,
}

impl Examples {
    /// None yet. `classes` fixes the numbers of those that are known before; others get theirs as they come.
    pub fn new<'c>(schema: Schema, classes: impl IntoIterator<Item = &'c str>) -> Examples {
        let columns = schema.attributes().iter().map(|attribute| match attribute.kind {
            Kind::Number => Column::Number(Vec::new()),
            Kind::Nominal => Column::Nominal { words: Words::new(), values: Vec::new() },
            Kind::Set => Column::Set(Sets::default()),
        });
        let columns = columns.collect();
        let mut names = Words::new();
        for class in classes {
            names.add(class);
        }
        Examples { schema, columns, classes: names, class: Vec::new(), weights: Vec::new() }
    }

    /// Adds a row. `values` are in the schema's order. A row that does not fit (count or kinds of its values, or its weight) is
    /// not added.
    pub fn push(&mut self, values: &[Value], class: &str, weight: f64) -> Result<(), String> {
        let attributes = self.schema.attributes();
        if values.len() != attributes.len() {
            return Err(format!("{} values for {} attributes", values.len(), attributes.len()));
        }
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            let (weight, most) = (Number(weight), Number(WEIGHT_MAX));
            return Err(format!("the weight {weight} is not a number above 0, {most} at most"));
        }
        if self.class.len() >= u32::MAX as usize {
            return Err("more than 2^32 - 1 examples".into());
        }
        let misfit = attributes.iter().zip(values).find(|(attribute, value)| {
            !matches!(
                (attribute.kind, value),
                (_, Value::Missing)
                    | (Kind::Number, Value::Number(_))
                    | (Kind::Nominal, Value::Nominal(_))
                    | (Kind::Set, Value::Set(_))
            )
        });
        if let Some((attribute, value)) = misfit {
            return Err(format!("`{}` is a {}, not {value:?}", attribute.name, attribute.kind.name()));
        }
        let too_many = "more than 2^32 - 1 distinct values";
        let class = self.classes.add(class).ok_or(too_many)?;
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value).ok_or(too_many)?;
        }
        self.class.push(class);
        self.weights.push(weight);
        Ok(())
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub fn len(&self) -> usize {
        self.class.len()
    }

    pub fn is_empty(&self) -> bool {
        self.class.is_empty()
    }

    /// One for each attribute, in the schema's order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn column(&self, name: &str) -> Option<&Column> {
        self.schema.place(name).map(|place| &self.columns[place])
    }

    /// The classes' names by number. Some may have no example.
    pub fn classes(&self) -> &Words {
        &self.classes
    }

    /// The number of each row's class.
    pub fn class(&self) -> &[u32] {
        &self.class
    }

    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Makes a row one of another class. Nothing where there is no such row.
    pub fn set_class(&mut self, row: usize, class: &str) {
        let number = self.classes.add(class);
        if let (Some(of), Some(number)) = (self.class.get_mut(row), number) {
            *of = number;
        }
    }

    /// Makes a row count so many times as much: a number above 0. Nothing where there is no such row.
    pub fn scale_weight(&mut self, row: usize, times: f64) {
        if let Some(weight) = self.weights.get_mut(row) {
            *weight *= times;
        }
    }

    /// Adds the rows of others. Fails where they are of another schema, or there would be too many.
    pub fn append(&mut self, others: &Examples) -> Result<(), String> {
        if self.schema != others.schema {
            return Err("examples of other attributes".into());
        }
        if self.len() + others.len() > u32::MAX as usize {
            return Err("more than 2^32 - 1 examples".into());
        }
        let too_many = "more than 2^32 - 1 distinct values";
        let renumber = |words: &mut Words, other: &Words| {
            other.iter().map(|word| words.add(word)).collect::<Option<Vec<u32>>>().ok_or(too_many)
        };
        let classes = renumber(&mut self.classes, &others.classes)?;
        for (column, other) in self.columns.iter_mut().zip(&others.columns) {
            match (column, other) {
                (Column::Number(values), Column::Number(other)) => values.extend_from_slice(other),
                (Column::Nominal { words, values }, Column::Nominal { words: theirs, values: other }) => {
                    let numbers = renumber(words, theirs)?;
                    let number = |value: &u32| numbers.get(*value as usize).copied().unwrap_or(MISSING);
                    values.extend(other.iter().map(number));
                }
                (Column::Set(sets), Column::Set(other)) => {
                    let numbers = renumber(&mut sets.words, &other.words)?;
                    for row in 0..others.class.len() {
                        let start = sets.members.len();
                        sets.members.extend(other.set(row).iter().map(|word| numbers[*word as usize]));
                        sets.members[start..].sort_unstable();
                        sets.ends.push(sets.members.len());
                    }
                }
                _ => unreachable!("one schema has one kind of columns"),
            }
        }
        self.class.extend(others.class.iter().map(|class| classes[*class as usize]));
        self.weights.extend_from_slice(&others.weights);
        Ok(())
    }

    /// The rows of these numbers, in this order, with words numbered as here.
    pub fn rows(&self, rows: &[u32]) -> Examples {
        let columns = self.columns.iter().map(|column| match column {
            Column::Number(values) => Column::Number(pick(values, rows)),
            Column::Nominal { words, values } => {
                Column::Nominal { words: words.clone(), values: pick(values, rows) }
            }
            Column::Set(sets) => {
                let mut picked = Sets { words: sets.words.clone(), ..Sets::default() };
                for row in rows {
                    picked.members.extend_from_slice(sets.set(*row as usize));
                    picked.ends.push(picked.members.len());
                }
                Column::Set(picked)
            }
        });
        Examples {
            schema: self.schema.clone(),
            columns: columns.collect(),
            classes: self.classes.clone(),
            class: pick(&self.class, rows),
            weights: pick(&self.weights, rows),
        }
    }
}

/// A text on one line that may go to a terminal, whatever names are in it.
pub fn one_line(what: &str) -> String {
    what.chars()
        .map(|c| if trace::is_harmless(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

fn pick<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|row| values[*row as usize]).collect()
}

impl Column {
    /// None if there is no number left for a new word.
    fn push(&mut self, value: &Value) -> Option<()> {
        match (self, value) {
            (Column::Number(values), Value::Number(number)) => {
                values.push(if number.is_finite() { *number } else { f64::NAN });
            }
            (Column::Number(values), _) => values.push(f64::NAN),
            (Column::Nominal { words, values }, Value::Nominal(word)) => values.push(words.add(word)?),
            (Column::Nominal { values, .. }, _) => values.push(MISSING),
            (Column::Set(sets), value) => {
                let start = sets.members.len();
                if let Value::Set(words) = value {
                    for word in *words {
                        sets.members.push(sets.words.add(word)?);
                    }
                    sets.members[start..].sort_unstable();
                    let mut kept = start;
                    for at in start..sets.members.len() {
                        if at == start || sets.members[at] != sets.members[at - 1] {
                            sets.members[kept] = sets.members[at];
                            kept += 1;
                        }
                    }
                    sets.members.truncate(kept);
                }
                sets.ends.push(sets.members.len());
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema::new([("size", Kind::Number), ("type", Kind::Nominal), ("words", Kind::Set)]).unwrap()
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut examples = Examples::new(schema(), ["yes"]);
        let set = ["b", "a", "b"];
        examples.push(&[Value::Number(1.5), Value::Nominal("gif"), Value::Set(&set)], "no", 2.0).unwrap();
        examples.push(&[Value::Number(f64::INFINITY), Value::Missing, Value::Missing], "yes", 0.5).unwrap();
        let examples = examples.rows(&[1, 0, 0]);
        assert_eq!(examples.class(), [0, 1, 1]);
        assert_eq!(examples.weights(), [0.5, 2.0, 2.0]);
        let [Column::Number(sizes), Column::Nominal { values, .. }, Column::Set(sets)] = examples.columns()
        else {
            panic!()
        };
        assert!(sizes[0].is_nan() && sizes[1] == 1.5);
        assert_eq!(values, &[MISSING, 0, 0]);
        assert_eq!((sets.set(0), sets.set(1)), (&[][..], &[0, 1][..]));
    }

    #[test]
    fn rows_of_others_keep_their_words() {
        let mut all = Examples::new(schema(), []);
        all.push(&[Value::Number(1.0), Value::Nominal("gif"), Value::Set(&["a", "b"])], "no", 1.0).unwrap();
        let mut others = Examples::new(schema(), ["yes", "no"]);
        others
            .push(&[Value::Number(2.0), Value::Nominal("png"), Value::Set(&["c", "a"])], "yes", 2.0)
            .unwrap();
        others.push(&[Value::Missing, Value::Missing, Value::Missing], "no", 3.0).unwrap();
        all.append(&others).unwrap();
        all.set_class(0, "yes");
        let classes: Vec<&str> = all.class().iter().map(|class| all.classes().word(*class)).collect();
        assert_eq!(classes, ["yes", "yes", "no"]);
        let [Column::Number(sizes), Column::Nominal { words, values }, Column::Set(sets)] = all.columns()
        else {
            panic!()
        };
        assert!(sizes[..2] == [1.0, 2.0] && sizes[2].is_nan());
        assert_eq!((words.word(values[1]), values[2]), ("png", MISSING));
        let said: Vec<&str> = sets.set(1).iter().map(|word| sets.words().word(*word)).collect();
        assert_eq!((said, sets.set(2)), (vec!["a", "c"], &[][..]));
        assert!(all.append(&Examples::new(Schema::default(), [])).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_nothing() {
        let mut examples = Examples::new(schema(), []);
        let fits = [Value::Number(1.0), Value::Nominal("gif"), Value::Set(&[])];
        assert!(examples.push(&fits[..2], "a", 1.0).is_err());
        assert!(examples.push(&[fits[1], fits[0], fits[2]], "a", 1.0).is_err());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(examples.push(&fits, "a", weight).is_err());
        }
        assert!(examples.is_empty());
        examples.push(&fits, "a", 1.0).unwrap();
        assert_eq!(examples.columns().len(), 3);
        assert!(Schema::new([("a", Kind::Set), ("a", Kind::Number)]).is_err());
    }
}
