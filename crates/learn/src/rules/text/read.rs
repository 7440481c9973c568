//! Rules as they are read: line by line (`Reader`), sign by sign (`Line`).

use super::{ENSEMBLE, ESCAPES, MEMBERS_MAX, Mistake, Model, RULES, RULES_MAX, is_plain};
use crate::examples::{Kind, Schema, one_line};
use crate::rules::{CLASSES_MAX, Condition, Ensemble, Rule, Rules, Support, Test, VOTE_MAX, named_once};
use std::collections::HashSet;
use std::iter::Peekable;
use std::str::{Chars, FromStr};
use std::sync::Arc;

impl FromStr for Model {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Model, Mistake> {
        let mut reader = Reader::of(text);
        match reader.line {
            RULES => reader.rules().map(Model::Rules),
            ENSEMBLE => reader.ensemble().map(Model::Ensemble),
            _ => reader.wrong(format!("neither `{RULES}` nor `{ENSEMBLE}`")),
        }
    }
}

impl FromStr for Rules {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Rules, Mistake> {
        let mut reader = Reader::of(text);
        match reader.line {
            RULES => reader.rules(),
            _ => reader.wrong(format!("not `{RULES}`")),
        }
    }
}

/// Goes through the lines that are not comments.
struct Reader<'t> {
    lines: std::iter::Enumerate<std::str::Split<'t, char>>,
    /// Where it is: the line without blanks around it, empty after the last, and its number.
    line: &'t str,
    number: usize,
    /// How many were read.
    rules: usize,
}

impl<'t> Reader<'t> {
    fn of(text: &'t str) -> Reader<'t> {
        // Some editors begin with a mark of the byte order.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = Reader { lines: text.split('\n').enumerate(), line: "", number: 1, rules: 0 };
        reader.next();
        reader
    }

    fn next(&mut self) {
        self.line = "";
        for (number, line) in self.lines.by_ref() {
            (self.line, self.number) = (line.trim(), number + 1);
            if !self.line.is_empty() && !self.line.starts_with('#') {
                return;
            }
            self.line = "";
        }
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake { line: self.number, what: one_line(&what.into()) })
    }

    fn here<T>(&self, result: Result<T, String>) -> Result<T, Mistake> {
        result.or_else(|what| self.wrong(what))
    }

    /// Without the keyword, if it begins with that.
    fn after(&self, keyword: &str) -> Option<&'t str> {
        let rest = self.line.strip_prefix(keyword)?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim_start())
    }

    fn end(&self) -> Result<(), Mistake> {
        if self.line.is_empty() {
            Ok(())
        } else {
            self.wrong("more after the default, which is the last line")
        }
    }

    fn rules(&mut self) -> Result<Rules, Mistake> {
        let (schema, classes) = self.head()?;
        let rules = self.body(&schema, &classes)?;
        self.end()?;
        Ok(rules)
    }

    fn ensemble(&mut self) -> Result<Ensemble, Mistake> {
        let (schema, classes) = self.head()?;
        let Some(count) = self.after("members").and_then(|count| count.parse::<usize>().ok()) else {
            return self.wrong("not `members` and how many there are");
        };
        if count > MEMBERS_MAX {
            return self.wrong(format!("more than {MEMBERS_MAX} members"));
        }
        self.next();
        let mut members = Vec::new();
        while members.len() < count {
            let Some(said) = self.after("vote") else {
                return self.wrong(format!(
                    "not `vote` and its weight; {} of {count} members are read",
                    members.len()
                ));
            };
            let Some(vote) = number(said).filter(|vote| (0.0..=VOTE_MAX).contains(vote)) else {
                return self.wrong(format!("the vote `{said}` is not a number from 0 to {VOTE_MAX}"));
            };
            self.next();
            members.push((vote, self.body(&schema, &classes)?));
        }
        self.end()?;
        let made = Ensemble::new(members);
        self.here(made)
    }

    /// Attributes and classes, from the line after the first; stays at the line after them.
    fn head(&mut self) -> Result<(Schema, Arc<[String]>), Mistake> {
        let (mut attributes, mut names) = (Vec::<(String, Kind)>::new(), HashSet::new());
        self.next();
        while let Some(said) = self.after("attribute") {
            let parsed = attribute(said);
            let (name, kind) = self.here(parsed)?;
            if !names.insert(name.clone()) {
                return self.wrong(format!("two attributes are named `{name}`"));
            }
            attributes.push((name, kind));
            self.next();
        }
        let schema = Schema::new(attributes);
        let schema = self.here(schema)?;
        let Some(said) = self.after("class") else {
            return self.wrong("not `attribute NAME: KIND`, nor `class NAME, NAME.`");
        };
        let parsed = classes(said);
        let classes = self.here(parsed)?;
        if classes.len() > CLASSES_MAX {
            return self.wrong(format!("more than {CLASSES_MAX} classes"));
        }
        self.here(named_once(&classes))?;
        self.next();
        Ok((schema, classes.into()))
    }

    /// Rules up to the default's, from this line; stays at the line after them.
    fn body(&mut self, schema: &Schema, classes: &Arc<[String]>) -> Result<Rules, Mistake> {
        let mut rules = Vec::new();
        loop {
            if self.line.is_empty() {
                return self.wrong("the text ends without a default: it has been cut off");
            }
            if let Some(said) = self.after("default") {
                let default = default(said, classes);
                let default = self.here(default)?;
                let made = Rules::of(schema.clone(), classes.clone(), rules, default);
                let made = self.here(made)?;
                self.next();
                return Ok(made);
            }
            self.rules += 1;
            if self.rules > RULES_MAX {
                return self.wrong(format!("more than {RULES_MAX} rules"));
            }
            let parsed = rule(self.line, schema, classes);
            rules.push(self.here(parsed)?);
            self.next();
        }
    }
}

/// `NAME: KIND`
fn attribute(said: &str) -> Result<(String, Kind), String> {
    let mut line = Line::of(said);
    let name = line.name("an attribute")?;
    line.sign(":")?;
    let kind = line.name("a kind")?;
    line.end()?;
    let kind = Kind::of(&kind).ok_or_else(|| {
        let kinds = Kind::ALL.map(Kind::name).join(", ");
        format!("`{kind}` is none of the kinds {kinds}")
    })?;
    Ok((name, kind))
}

/// `NAME, NAME.`
fn classes(said: &str) -> Result<Vec<String>, String> {
    let mut line = Line::statement(said)?;
    let mut classes = vec![line.name("a class")?];
    while line.has(",") {
        classes.push(line.name("a class")?);
    }
    line.end()?;
    Ok(classes)
}

/// `NAME (SUPPORT).`
fn default(said: &str, classes: &[String]) -> Result<Rule, String> {
    let mut line = Line::statement(said)?;
    let class = line.class(classes)?;
    let support = line.support()?;
    line.end()?;
    Ok(Rule { conditions: Vec::new(), class, support })
}

/// `NAME :- CONDITION, CONDITION (SUPPORT).` Without a condition it holds for all that is left.
fn rule(said: &str, schema: &Schema, classes: &[String]) -> Result<Rule, String> {
    let mut line = Line::statement(said)?;
    let class = line.class(classes)?;
    line.sign(":-")?;
    let mut conditions = Vec::new();
    if !line.ends_or_has('(') {
        conditions.push(line.condition(schema)?);
        while line.has(",") {
            conditions.push(line.condition(schema)?);
        }
    }
    let support = line.support()?;
    line.end()?;
    Ok(Rule { conditions, class, support })
}

/// Goes through one line.
struct Line<'t>(Peekable<Chars<'t>>);

impl<'t> Line<'t> {
    fn of(said: &'t str) -> Line<'t> {
        Line(said.chars().peekable())
    }

    /// A line that a full stop ends, without it.
    fn statement(said: &'t str) -> Result<Line<'t>, String> {
        said.strip_suffix('.').map(Line::of).ok_or_else(|| {
            match said.contains(". #") || said.contains(".#") {
                true => "no full stop at the end: a comment has a line of its own".into(),
                false => "no full stop at the end: the line has been cut off".into(),
            }
        })
    }

    fn skip_blanks(&mut self) {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
    }

    /// Whether this sign comes next; if so, goes on behind it.
    fn has(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let mut behind = self.0.clone();
        let has = sign.chars().all(|c| behind.next() == Some(c));
        if has {
            self.0 = behind;
        }
        has
    }

    /// Whether nothing comes, or this.
    fn ends_or_has(&mut self, sign: char) -> bool {
        self.skip_blanks();
        self.0.peek().is_none_or(|next| *next == sign)
    }

    fn sign(&mut self, sign: &str) -> Result<(), String> {
        if self.has(sign) { Ok(()) } else { Err(format!("`{sign}` is missing before {}", self.rest())) }
    }

    fn end(&mut self) -> Result<(), String> {
        self.skip_blanks();
        match self.0.peek() {
            None => Ok(()),
            Some(_) => Err(format!(
                "more than expected: {}; a name of other than letters, digits, `_`, `-` and `+` is in single quotes",
                self.rest()
            )),
        }
    }

    /// For messages.
    fn rest(&self) -> String {
        let rest: String = self.0.clone().take(40).collect();
        if rest.is_empty() { "the end".into() } else { format!("`{rest}`") }
    }

    /// A name, with or without quotes. Full stops inside need none.
    fn name(&mut self, what: &str) -> Result<String, String> {
        self.skip_blanks();
        if self.0.peek() == Some(&'\'') {
            return self.quoted();
        }
        let mut name = String::new();
        while let Some(c) = self.0.next_if(|c| is_plain(*c) || *c == '.') {
            name.push(c);
        }
        if name.is_empty() { Err(format!("{what} is missing before {}", self.rest())) } else { Ok(name) }
    }

    fn quoted(&mut self) -> Result<String, String> {
        self.0.next();
        let mut name = String::new();
        loop {
            match self.0.next().ok_or("a quote is not closed")? {
                '\'' => return Ok(name),
                '\\' => name.push(self.escaped()?),
                c => name.push(c),
            }
        }
    }

    /// What stands behind a backslash.
    fn escaped(&mut self) -> Result<char, String> {
        let written = self.0.next().ok_or("a quote is not closed")?;
        if written == 'u' {
            let said: String = self.0.by_ref().take_while(|c| *c != '}').take(8).collect();
            let digits = said.strip_prefix('{').filter(|digits| digits.len() <= 6);
            let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            return number.and_then(char::from_u32).ok_or_else(|| format!("unknown escape `\\u{said}`"));
        }
        let known = ESCAPES.iter().find(|(_, known)| *known == written);
        known.map(|(meant, _)| *meant).ok_or_else(|| format!("unknown escape `\\{written}`"))
    }

    fn class(&mut self, classes: &[String]) -> Result<usize, String> {
        let name = self.name("a class")?;
        let place = classes.iter().position(|class| *class == name);
        place.ok_or_else(|| format!("`{name}` is none of the classes"))
    }

    fn condition(&mut self, schema: &Schema) -> Result<Condition, String> {
        let name = self.name("an attribute")?;
        let attribute = schema.place(&name).ok_or_else(|| format!("`{name}` is none of the attributes"))?;
        let kind = schema.attributes()[attribute].kind;
        let test = match kind {
            Kind::Number if self.has("<=") => Test::AtMost(self.number()?),
            Kind::Number if self.has(">=") => Test::AtLeast(self.number()?),
            Kind::Nominal if self.has("=") => Test::Is(self.name("a value")?),
            Kind::Set if self.has("~") => Test::Has(self.name("a word")?),
            _ => {
                let signs = match kind {
                    Kind::Number => "`<=` or `>=`",
                    Kind::Nominal => "`=`",
                    Kind::Set => "`~`",
                };
                let rest = self.rest();
                return Err(format!("`{name}` is a {}: {signs} is missing before {rest}", kind.name()));
            }
        };
        Ok(Condition { attribute, test })
    }

    fn number(&mut self) -> Result<f64, String> {
        let said = self.name("a number")?;
        number(&said).ok_or_else(|| format!("`{said}` is not a number"))
    }

    /// `(RIGHT/WRONG)` or `(RIGHT/WRONG in EXAMPLES)`, if any.
    fn support(&mut self) -> Result<Option<Support>, String> {
        if !self.has("(") {
            return Ok(None);
        }
        let right = self.number()?;
        self.sign("/")?;
        let wrong = self.number()?;
        let examples = match self.has("in") {
            true => self.number()?,
            false => right + wrong,
        };
        self.sign(")")?;
        let whole = examples.fract() == 0.0 && (0.0..9e15).contains(&examples);
        if !(right >= 0.0 && wrong >= 0.0 && whole) {
            return Err("the support of a rule is negative or not of whole examples".into());
        }
        Ok(Some(Support { right, wrong, examples: examples as u64 }))
    }
}

/// Finite.
fn number(said: &str) -> Option<f64> {
    said.parse().ok().filter(|number: &f64| number.is_finite())
}
