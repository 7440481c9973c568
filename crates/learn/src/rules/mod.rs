//! Rules in their order: the first whose conditions all hold tells the class, the default where none does (7.2).

mod ensemble;
mod matching;
mod text;

pub use ensemble::{Ensemble, VOTE_MAX};
pub use text::{Mistake, Model};

use crate::examples::{Examples, Kind, Schema};
use crate::judge::{Judge, Verdict};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Classes that rules may tell apart; of more, none is learned well.
pub const CLASSES_MAX: usize = 1000;

/// Holds for no example in which the attribute is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Of the rules' schema, from 0.
    pub attribute: usize,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// The number is this or less.
    AtMost(f64),
    /// The number is this or more.
    AtLeast(f64),
    /// The nominal value is this one.
    Is(String),
    /// The set has this word.
    Has(String),
}

impl Test {
    fn fits(&self, kind: Kind) -> Result<(), String> {
        let (wants, number) = match self {
            Test::AtMost(number) | Test::AtLeast(number) => (Kind::Number, *number),
            Test::Is(_) => (Kind::Nominal, 0.0),
            Test::Has(_) => (Kind::Set, 0.0),
        };
        match (wants == kind, number.is_finite()) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("is compared with {number}")),
            (false, _) => Err(format!("a condition for a {} on a {}", wants.name(), kind.name())),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// All of them must hold. None for the default.
    pub conditions: Vec<Condition>,
    /// Of the rules' classes, from 0.
    pub class: usize,
    /// Weight of the examples learned from that this rule decided: of its class and of another. Absent from rules written by hand.
    pub support: Option<Support>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Support {
    pub right: f64,
    pub wrong: f64,
    /// How many examples that were, whatever their weight.
    pub examples: u64,
}

impl Rule {
    /// How likely the rule is right: (n·r + 1) / (n + 2) for n examples, of whose weight it has the share r right (Laplace). A
    /// half where nothing is known.
    pub fn confidence(&self) -> f64 {
        self.support.map_or(0.5, |support| {
            let all = support.right + support.wrong;
            let right = if all > 0.0 { support.right / all } else { 0.0 };
            (support.examples as f64 * right + 1.0) / (support.examples as f64 + 2.0)
        })
    }
}

/// `Display` writes them, `FromStr` reads them: see `text`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    schema: Schema,
    /// Of all members of an ensemble the same: names may be long.
    classes: Arc<[String]>,
    rules: Vec<Rule>,
    /// Without conditions.
    default: Rule,
}

impl Rules {
    /// Fails where a condition does not fit the schema, a class is not named, or the default has conditions.
    pub fn new(
        schema: Schema,
        classes: Vec<String>,
        rules: Vec<Rule>,
        default: Rule,
    ) -> Result<Rules, String> {
        named_once(&classes)?;
        Rules::of(schema, classes.into(), rules, default)
    }

    /// Of classes that are named once.
    fn of(schema: Schema, classes: Arc<[String]>, rules: Vec<Rule>, default: Rule) -> Result<Rules, String> {
        if !default.conditions.is_empty() {
            return Err("the default has conditions".into());
        }
        for rule in rules.iter().chain([&default]) {
            if rule.class >= classes.len() {
                return Err(format!("a rule is for class {} of {}", rule.class, classes.len()));
            }
            for condition in &rule.conditions {
                let attribute = schema.attributes().get(condition.attribute).ok_or_else(|| {
                    format!(
                        "a rule asks for attribute {} of {}",
                        condition.attribute,
                        schema.attributes().len()
                    )
                })?;
                condition.test.fits(attribute.kind).map_err(|e| format!("`{}`: {e}", attribute.name))?;
            }
        }
        Ok(Rules { schema, classes, rules, default })
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Without the default.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub fn default(&self) -> &Rule {
        &self.default
    }

    /// Of all rules together.
    pub fn conditions(&self) -> usize {
        self.rules.iter().map(|rule| rule.conditions.len()).sum()
    }
}

fn named_once(classes: &[String]) -> Result<(), String> {
    let mut names = HashSet::new();
    match classes.iter().find(|class| !names.insert(class.as_str())) {
        Some(class) => Err(format!("two classes are named `{class}`")),
        None => Ok(()),
    }
}

impl Judge for Rules {
    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn attributes(&self) -> BTreeSet<&str> {
        let conditions = self.rules.iter().flat_map(|rule| &rule.conditions);
        conditions.map(|one| self.schema.attributes()[one.attribute].name.as_str()).collect()
    }

    fn judge(&self, examples: &Examples) -> Result<Vec<Verdict>, String> {
        let decided = matching::Matcher::new(&self.schema, &self.rules, examples)?;
        let verdict = |row| {
            let rule = decided.first(row);
            let said = rule.map_or(&self.default, |rule| &self.rules[rule]);
            Verdict { class: said.class, confidence: said.confidence(), rule }
        };
        Ok((0..examples.len()).map(verdict).collect())
    }

    fn reason(&self, verdict: &Verdict) -> String {
        self.line(verdict.rule)
    }
}
