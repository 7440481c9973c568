//! Rules as they are written.

use super::{ENSEMBLE, ESCAPES, KEYWORDS, RULES, is_plain};
use crate::number::Number;
use crate::rules::{Condition, Ensemble, Rules, Support, Test};
use std::fmt::{self, Display, Formatter};

impl Display for Rules {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        writeln!(f, "{RULES}")?;
        write_head(self, f)?;
        write_lines(self, f)
    }
}

impl Display for Ensemble {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        writeln!(f, "{ENSEMBLE}")?;
        write_head(&self.members()[0].1, f)?;
        writeln!(f, "members {}", self.members().len())?;
        for (vote, rules) in self.members() {
            writeln!(f, "vote {}", Number(*vote))?;
            write_lines(rules, f)?;
        }
        Ok(())
    }
}

fn write_head(rules: &Rules, f: &mut Formatter) -> fmt::Result {
    for attribute in rules.schema.attributes() {
        writeln!(f, "attribute {}: {}", Name(&attribute.name), attribute.kind.name())?;
    }
    let classes: Vec<String> = rules.classes.iter().map(|class| Name(class).to_string()).collect();
    writeln!(f, "class {}.", classes.join(", "))
}

fn write_lines(rules: &Rules, f: &mut Formatter) -> fmt::Result {
    (0..rules.rules.len()).map(Some).chain([None]).try_for_each(|rule| writeln!(f, "{}", rules.line(rule)))
}

impl Rules {
    /// The rule as a line of text; None is the default.
    pub fn line(&self, rule: Option<usize>) -> String {
        let (head, rule) = match rule {
            Some(rule) => (format!("{} :-", Name(&self.classes[self.rules[rule].class])), &self.rules[rule]),
            None => (format!("default {}", Name(&self.classes[self.default.class])), &self.default),
        };
        let conditions: Vec<String> =
            rule.conditions.iter().map(|condition| self.condition(condition)).collect();
        let space = if conditions.is_empty() { "" } else { " " };
        let support = rule.support.map_or(String::new(), |support| {
            let Support { right, wrong, examples } = support;
            let count =
                if right + wrong == examples as f64 { String::new() } else { format!(" in {examples}") };
            format!(" ({}/{}{count})", Number(right), Number(wrong))
        });
        format!("{head}{space}{}{support}.", conditions.join(", "))
    }

    fn condition(&self, condition: &Condition) -> String {
        let name = Name(&self.schema.attributes()[condition.attribute].name);
        match &condition.test {
            Test::AtMost(number) => format!("{name}<={}", Number(*number)),
            Test::AtLeast(number) => format!("{name}>={}", Number(*number)),
            Test::Is(word) => format!("{name}={}", Name(word)),
            Test::Has(word) => format!("{name}~{}", Name(word)),
        }
    }
}

/// Quoted where it must be.
struct Name<'n>(&'n str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Name(name) = self;
        if !name.is_empty() && name.chars().all(is_plain) && !KEYWORDS.contains(name) {
            return f.write_str(name);
        }
        f.write_str("'")?;
        for c in name.chars() {
            match ESCAPES.iter().find(|(meant, _)| *meant == c) {
                Some((_, written)) => write!(f, "\\{written}")?,
                None if trace::is_harmless(c) => write!(f, "{c}")?,
                None => write!(f, "{}", c.escape_unicode())?,
            }
        }
        f.write_str("'")
    }
}
