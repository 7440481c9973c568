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
//! `(3/0)` is the weight of the examples that a rule decided rightly and wrongly; `(9.5/0.25 in 4)` also says how many they were, where that is not
//! the weight. It may be left out. A name of other than letters, digits, `_`, `-` and `+` is quoted (`'a/b'`; `\'`, `\\`, `\n`,
//! `\r`, `\t` inside, and `\u{1b}` for what else is a control character or turns a line around). A rule without conditions holds for all that is left. An ensemble begins with `cosm ensemble 1`, says `members N` after the classes, and `vote WEIGHT` before the
//! rules of each. Text that ends early is an error: the last line is the default's.

mod read;
mod write;

use super::{Ensemble, Rules};
use crate::judge::{Judge, Verdict};
use std::fmt::{self, Display, Formatter};

const RULES: &str = "cosm rules 1";
const ENSEMBLE: &str = "cosm ensemble 1";

/// Rules of one text, all members together: each is tried on each candidate.
const RULES_MAX: usize = 100_000;
const MEMBERS_MAX: usize = 1000;

/// First words of lines, which are quoted where they are names.
const KEYWORDS: [&str; 6] = ["cosm", "attribute", "class", "members", "vote", "default"];

const ESCAPES: [(char, char); 5] = [('\'', '\''), ('\\', '\\'), ('\n', 'n'), ('\r', 'r'), ('\t', 't')];

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+')
}

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
#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{Kind, Schema};
    use crate::rules::{CLASSES_MAX, Condition, Rule, Support, Test};
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
        let ensemble = ensemble(["0.5", "2"]);
        assert_eq!(ensemble.parse::<Model>().unwrap().to_string(), ensemble);
    }

    fn ensemble(votes: [&str; 2]) -> String {
        let body = &GOLF[GOLF.find("'No Play' :-").unwrap()..];
        let head = GOLF[..GOLF.len() - body.len()].replace("rules", "ensemble");
        format!("{head}members 2\nvote {}\n{body}vote {}\n{body}", votes[0], votes[1])
    }

    #[test]
    fn members_share_what_they_have_in_common() {
        let Ok(Model::Ensemble(found)) = ensemble(["0.5", "2"]).parse() else { panic!() };
        let [(_, one), (_, other)] = found.members() else { panic!() };
        assert!(std::ptr::eq(one.classes(), other.classes()));
        assert!(std::ptr::eq(one.schema().attributes(), other.schema().attributes()));
    }

    #[test]
    fn votes_are_bounded() {
        assert!(ensemble(["0", "1e6"]).parse::<Model>().is_ok());
        for vote in ["-1", "1.1e6", "1e308", "inf", "nan"] {
            let error = ensemble(["1", vote]).parse::<Model>().unwrap_err().to_string();
            let says = format!("line 11: the vote `{vote}` is not a number from 0 to 1000000");
            assert_eq!(error, says);
        }
    }

    #[test]
    fn a_person_writes_freely() {
        let text = "# mine\n\ncosm rules 1\r\n attribute  server : nominal\nclass a , b .\n\n a:-server = www.a.com . \ndefault b.";
        let rules: Rules = text.parse().unwrap();
        assert_eq!(rules.rules()[0].conditions[0].test, Test::Is("www.a.com".into()));
        assert_eq!(rules.line(Some(0)), "a :- server='www.a.com'.");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let name = "\u{1b}[2J\u{7}\0\u{9b}\u{202e}\n\u{10ffff}ä";
        let schema = Schema::new([(name, Kind::Nominal)]).unwrap();
        let test = Condition { attribute: 0, test: Test::Is(name.into()) };
        let rule = |conditions| Rule { conditions, class: 0, support: None };
        let rules = Rules::new(schema, vec![name.into()], vec![rule(vec![test])], rule(Vec::new())).unwrap();
        let text = rules.to_string();
        assert!(text.chars().all(|c| c == '\n' || trace::is_harmless(c)), "{text:?}");
        assert!(text.contains(r"class '\u{1b}[2J\u{7}\u{0}\u{9b}\u{202e}\n"), "{text}");
        assert_eq!(text.parse::<Rules>().unwrap(), rules);
        for wrong in [r"\u1b", r"\u{}", r"\u{110000}", r"\u{d800}", r"\u{1b", r"\u{00000001b}", r"\e"] {
            let why = text.replacen(r"\u{1b}", wrong, 1).parse::<Rules>().unwrap_err();
            assert!(why.line == 2 && why.what.starts_with(r"unknown escape `\"), "{wrong}: {why}");
        }
    }

    #[test]
    fn a_mark_of_the_byte_order_may_come_first() {
        assert_eq!(format!("\u{feff}{GOLF}").parse::<Model>(), GOLF.parse::<Model>());
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
