//! Rules as text that a person reads, edits and loads again, in the notation of 7.2:
//!
//! ```text
//! cosm rules 1
//! # comments and empty lines are skipped
//! attribute outlook: nominal
//! attribute humidity: number
//! attribute words: set
//! class 'No Play', Play.
//! 'No Play' :- humidity>=85, outlook=sunny (3/0).
//! 'No Play' :- words~rain.
//! default Play (9/0).
//! ```
//!
//! `(3/0)` is the weight of the examples that a rule decided rightly and wrongly, ` in N` behind it how many they were if that is not
//! the weight; both may be left out. A name of other than letters, digits, `_`, `-` and `+` is quoted (`'a/b'`; `\'`, `\\`, `\n`,
//! `\r`, `\t` inside). A rule without conditions holds for all that is left. An ensemble begins with `cosm ensemble 1`, says `members N` after the classes, and `vote WEIGHT` before the
//! rules of each. Text that ends early is an error: the last line is the default's.

use super::{CLASSES_MAX, Condition, Ensemble, Rule, Rules, Support, Test};
use crate::examples::{Kind, Schema, one_line};
use crate::judge::{Judge, Verdict};
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::iter::Peekable;
use std::str::{Chars, FromStr};

const RULES: &str = "cosm rules 1";
const ENSEMBLE: &str = "cosm ensemble 1";

/// Rules of one text, all members together: each is tried on each candidate.
const RULES_MAX: usize = 100_000;
const MEMBERS_MAX: usize = 1000;

/// First words of lines, which are quoted where they are names.
const KEYWORDS: [&str; 6] = ["cosm", "attribute", "class", "members", "vote", "default"];

/// What is wrong with a text, and in which of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl Display for Mistake {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Mistake {}

/// What a file of rules holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    Rules(Rules),
    Ensemble(Ensemble),
}

impl Model {
    fn judge(&self) -> &dyn Judge {
        match self {
            Model::Rules(rules) => rules,
            Model::Ensemble(ensemble) => ensemble,
        }
    }
}

impl Judge for Model {
    fn classes(&self) -> &[String] {
        Model::judge(self).classes()
    }

    fn attributes(&self) -> std::collections::BTreeSet<&str> {
        Model::judge(self).attributes()
    }

    fn judge(&self, examples: &crate::examples::Examples) -> Result<Vec<Verdict>, String> {
        Model::judge(self).judge(examples)
    }

    fn reason(&self, verdict: &Verdict) -> String {
        Model::judge(self).reason(verdict)
    }
}

impl Display for Model {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Model::Rules(rules) => rules.fmt(f),
            Model::Ensemble(ensemble) => ensemble.fmt(f),
        }
    }
}

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
                None => write!(f, "{c}")?,
            }
        }
        f.write_str("'")
    }
}

const ESCAPES: [(char, char); 5] = [('\'', '\''), ('\\', '\\'), ('\n', 'n'), ('\r', 'r'), ('\t', 't')];

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+')
}

/// The shortest text that reads as the same number, without hundreds of zeros.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Number(number) = *self;
        match number == 0.0 || (1e-5..1e15).contains(&number.abs()) {
            true => write!(f, "{number}"),
            false => write!(f, "{number:e}"),
        }
    }
}

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
            let Some(vote) = number(said).filter(|vote| *vote >= 0.0) else {
                return self.wrong(format!("the vote `{said}` is not a number from 0 up"));
            };
            self.next();
            members.push((vote, self.body(&schema, &classes)?));
        }
        self.end()?;
        let made = Ensemble::new(members);
        self.here(made)
    }

    /// Attributes and classes, from the line after the first; stays at the line after them.
    fn head(&mut self) -> Result<(Schema, Vec<String>), Mistake> {
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
        self.next();
        Ok((schema, classes))
    }

    /// Rules up to the default's, from this line; stays at the line after them.
    fn body(&mut self, schema: &Schema, classes: &[String]) -> Result<Rules, Mistake> {
        let mut rules = Vec::new();
        loop {
            if self.line.is_empty() {
                return self.wrong("the text ends without a default: it has been cut off");
            }
            if let Some(said) = self.after("default") {
                let default = default(said, classes);
                let default = self.here(default)?;
                let made = Rules::new(schema.clone(), classes.to_vec(), rules, default);
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
                '\\' => {
                    let written = self.0.next().ok_or("a quote is not closed")?;
                    let known = ESCAPES.iter().find(|(_, known)| *known == written);
                    name.push(known.ok_or_else(|| format!("unknown escape `\\{written}`"))?.0);
                }
                c => name.push(c),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLF: &str = "cosm rules 1
attribute outlook: nominal
attribute humidity: number
attribute words: set
class 'No Play', Play.
'No Play' :- humidity>=85, outlook=sunny (3/0).
'No Play' :- words~rain.
default Play (9.5/0.25 in 4).
";

    #[test]
    fn a_rule_without_conditions_is_read_as_it_is_written() {
        for text in ["yes :- (3/1).", "yes :-."] {
            let whole = format!("cosm rules 1\nattribute a: number\nclass yes, no.\n{text}\ndefault no.\n");
            let rules: Rules = whole.parse().unwrap();
            assert!(rules.rules()[0].conditions.is_empty());
            assert_eq!(rules.to_string(), whole);
        }
    }

    #[test]
    fn a_text_may_have_only_so_much() {
        let many = |count: usize, each: fn(usize) -> String| (0..count).map(each).collect::<Vec<_>>();
        let head = "cosm rules 1\nattribute a: number\nclass x.\n";
        let rules = many(RULES_MAX + 1, |_| "x :- a<=1.\n".into()).concat();
        let classes = many(CLASSES_MAX + 1, |nth| format!("c{nth}")).join(", ");
        for (text, why) in [
            (format!("{head}{rules}default x.\n"), "more than 100000 rules"),
            (
                format!("cosm rules 1\nattribute a: number\nclass {classes}.\ndefault c1.\n"),
                "more than 1000 classes",
            ),
            (
                "cosm ensemble 1\nattribute a: number\nclass x.\nmembers 1001\n".into(),
                "more than 1000 members",
            ),
            (
                "cosm rules 1\nattribute a: number\nattribute a: set\nclass x.\ndefault x.\n".into(),
                "named `a`",
            ),
        ] {
            let found = text.parse::<Model>().unwrap_err();
            assert!(found.what.contains(why), "{found}");
        }
    }

    #[test]
    fn what_is_read_is_written_alike() {
        let model: Model = GOLF.parse().unwrap();
        assert_eq!(model.to_string(), GOLF);
        let ensemble = GOLF.replace("rules", "ensemble").replace("Play.\n'", "Play.\nmembers 2\nvote 0.5\n'");
        let body = &GOLF[GOLF.find("'No Play' :-").unwrap()..];
        let ensemble = format!("{ensemble}vote 2\n{body}");
        assert_eq!(ensemble.parse::<Model>().unwrap().to_string(), ensemble);
    }

    #[test]
    fn a_person_writes_freely() {
        let text = "# mine\n\ncosm rules 1\r\n attribute  server : nominal\nclass a , b .\n\n a:-server = www.a.com . \ndefault b.";
        let rules: Rules = text.parse().unwrap();
        assert_eq!(rules.rules()[0].conditions[0].test, Test::Is("www.a.com".into()));
        assert_eq!(rules.line(Some(0)), "a :- server='www.a.com'.");
    }

    #[test]
    fn mistakes_name_their_line() {
        let wrong =
            |from: &str, to: &str| GOLF.replacen(from, to, 1).parse::<Model>().unwrap_err().to_string();
        for (from, to, said) in [
            ("cosm rules 1", "cosm rules 2", "line 1: neither"),
            ("outlook: nominal", "outlook: string", "line 2: `string` is none of the kinds"),
            ("attribute words", "attribute outlook", "line 4: two attributes"),
            ("Play.", "Play", "line 5: no full stop"),
            ("humidity>=85", "humidity>=high", "line 6: `high` is not a number"),
            (
                "humidity>=85",
                "humidity=85",
                "line 6: `humidity` is a number: `<=` or `>=` is missing before `=85",
            ),
            ("words~rain", "words=rain", "line 7: `words` is a set: `~`"),
            ("outlook=sunny", "outlook=su/ny", "line 6: more than expected: `/ny (3/0)`; a name of other"),
            ("(3/0).", "(3/0). # mine", "line 6: no full stop at the end: a comment"),
            ("outlook=sunny", "outlok=sunny", "line 6: `outlok` is none of the attributes"),
            ("(3/0)", "(3/-1)", "line 6: the support"),
            ("'No Play' :- words", "'No Pla' :- words", "line 7: `No Pla` is none of the classes"),
            ("default Play", "Play", "line 8: `:-` is missing"),
            ("in 4).\n", "in 4).\ndefault Play.\n", "line 9: more after the default"),
        ] {
            let error = wrong(from, to);
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn text_that_has_been_cut_is_an_error() {
        let ensemble = GOLF.replace("rules", "ensemble").replace("Play.\n'", "Play.\nmembers 1\nvote 0.5\n'");
        for text in [GOLF, &ensemble] {
            for end in 0..text.len() - 1 {
                assert!(text[..end].parse::<Model>().is_err(), "{}", &text[..end]);
            }
        }
    }

    proptest! {
        #[test]
        fn any_names_and_numbers_come_back(
            names in prop::collection::btree_set(".{1,8}", 3),
            classes in prop::collection::btree_set(".{0,8}", 2),
            word in "\\PC*",
            number in prop::num::f64::NORMAL,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let schema = Schema::new(names.into_iter().zip(Kind::ALL)).unwrap();
            let conditions = [Test::AtMost(number), Test::Is(word.clone()), Test::Has(word)];
            let conditions = conditions.into_iter().enumerate().map(|(attribute, test)| Condition { attribute, test });
            let rule = Rule { conditions: conditions.collect(), class: 0, support: None };
            let support = Some(Support { right: number.abs(), wrong: 0.0, examples: 3 });
            let default = Rule { conditions: Vec::new(), class: 1, support };
            let rules = Rules::new(schema, classes.into_iter().collect(), vec![rule], default).unwrap();
            let text = rules.to_string();
            prop_assert_eq!(text.parse::<Rules>().unwrap(), rules);
            let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at + 1 < text.len());
            for end in cut {
                prop_assert!(text[..end].parse::<Model>().is_err());
            }
        }
    }
}
