//! Tonight's list: what a judge holds to be asked for in the coming peak, within a budget of bytes.
//!
//! What always holds:
//! - The lines' bytes together are within the budget, and no URL is there twice, however it is spelled.
//! - No link carries credentials, or is of this machine or a private network by its host's name alone. A link with a query, or to a program, is there only if the rule that chose it says `query = yes`.
//! - Equal candidates, judge and budget give the same plan, in whatever order the candidates come. Of one URL that comes twice the first counts.

mod link;

pub use link::refused;

use crate::candidate::{Candidate, Encoding, PREFETCHABLE, asks_program};
use crate::judge::{Judge, Verdict};
use crate::rules::{Rules, Test};
use link::spelling;
use std::collections::{BTreeSet, HashSet};

/// What is wanted of a plan.
#[derive(Clone, Debug)]
pub struct Order {
    /// Bytes that may be fetched: the extra bandwidth of the night (equation 6.2), or less.
    pub budget: u64,
    /// When the night begins, seconds since 1970: what ages are counted to.
    pub night: u64,
    /// Numbers of the judge's rules that may choose links with a query: see [`rules_for_queries`].
    pub query_rules: BTreeSet<usize>,
    /// Nothing that is less likely than this is fetched, 0 to 1.
    pub confidence: f64,
}

/// One object to fetch.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub url: String,
    /// What it costs, and what it saves if it is asked for.
    pub bytes: u64,
    /// How likely it is asked for, as the judge says: 0 to 1.
    pub confidence: f64,
    /// Which of the judge's rules chose it, if it was one.
    pub rule: Option<usize>,
    /// The rule with its counts, in words.
    pub reason: String,
}

/// The likeliest first: of what costs the same, it saves most. Then the smaller, then by URL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub lines: Vec<Line>,
    /// Of all lines together.
    pub bytes: u64,
    pub budget: u64,
    /// What of them is to be saved: bytes, each as likely as it is said to be.
    pub expected: f64,
    /// What was looked at, and how many of it were left out why.
    pub candidates: u64,
    pub left_out: [u64; LeftOut::ALL.len()],
}

/// Why a candidate is not in the plan. The first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    NotHttp,
    Credentials,
    Private,
    NotCacheable,
    NoSize,
    NotYet,
    Cached,
    NotChosen,
    Query,
    Unlikely,
    Twice,
    Budget,
}

impl LeftOut {
    pub const ALL: [LeftOut; 12] = [
        LeftOut::NotHttp,
        LeftOut::Credentials,
        LeftOut::Private,
        LeftOut::NotCacheable,
        LeftOut::NoSize,
        LeftOut::NotYet,
        LeftOut::Cached,
        LeftOut::NotChosen,
        LeftOut::Query,
        LeftOut::Unlikely,
        LeftOut::Twice,
        LeftOut::Budget,
    ];

    /// What such candidates have in common.
    pub fn words(self) -> &'static str {
        match self {
            LeftOut::NotHttp => "no http or https URL",
            LeftOut::Credentials => "with credentials in the link",
            LeftOut::Private => "of a private address",
            LeftOut::NotCacheable => "not cacheable",
            LeftOut::NoSize => "of unknown size",
            LeftOut::NotYet => "newer than the night",
            LeftOut::Cached => "in the cache, by the trace",
            LeftOut::NotChosen => "not chosen by the rules",
            LeftOut::Query => "with a query that no rule allows",
            LeftOut::Unlikely => "less likely than asked for",
            LeftOut::Twice => "there already",
            LeftOut::Budget => "over the budget",
        }
    }

    /// As a key of JSON.
    pub fn key(self) -> &'static str {
        match self {
            LeftOut::NotHttp => "not_http",
            LeftOut::Credentials => "credentials",
            LeftOut::Private => "private_address",
            LeftOut::NotCacheable => "not_cacheable",
            LeftOut::NoSize => "no_size",
            LeftOut::NotYet => "not_yet",
            LeftOut::Cached => "cached",
            LeftOut::NotChosen => "not_chosen",
            LeftOut::Query => "query",
            LeftOut::Unlikely => "unlikely",
            LeftOut::Twice => "twice",
            LeftOut::Budget => "over_budget",
        }
    }
}

/// The rules that say `query = yes`, by number.
pub fn rules_for_queries(rules: &Rules) -> BTreeSet<usize> {
    let Some(query) = rules.schema().place("query") else { return BTreeSet::new() };
    let allows = |conditions: &[crate::rules::Condition]| {
        conditions.iter().any(|one| one.attribute == query && one.test == Test::Is("yes".into()))
    };
    let all = rules.rules().iter().enumerate();
    all.filter(|(_, rule)| allows(&rule.conditions)).map(|(nth, _)| nth).collect()
}

/// Makes a plan of candidates that come one after the other; where one URL comes twice, the first counts. Memory: what fits in four
/// times the budget, a million lines at most, a few thousand candidates, and 16 bytes for each that a rule chose.
pub struct Planner<'j> {
    judge: &'j dyn Judge,
    encoding: Encoding,
    order: Order,
    /// The judge's number of the class.
    class: Option<usize>,
    waiting: Vec<Candidate>,
    chosen: Chosen,
    plan: Plan,
}

/// Candidates that are judged at once.
const AT_ONCE: usize = 4096;
/// Lines of a plan.
const LINES: usize = 1_000_000;

impl<'j> Planner<'j> {
    /// `encoding` has what the judge asks for.
    pub fn new(judge: &'j dyn Judge, encoding: Encoding, order: Order) -> Planner<'j> {
        let class = judge.classes().iter().position(|class| class == PREFETCHABLE);
        let plan = Plan { budget: order.budget, ..Plan::default() };
        let chosen = Chosen::new(order.budget);
        Planner { judge, encoding, order, class, waiting: Vec::new(), chosen, plan }
    }

    /// `is_cached`: the cache has it as it is. Fails where the judge cannot judge such candidates.
    pub fn add(&mut self, candidate: Candidate, is_cached: bool) -> Result<(), String> {
        self.plan.candidates += 1;
        let row = &candidate.row;
        let why = match refused(&row.url) {
            None if !row.cacheable => Some(LeftOut::NotCacheable),
            None if row.size == 0 => Some(LeftOut::NoSize),
            None if row.modified.max(row.created) > self.order.night => Some(LeftOut::NotYet),
            None if is_cached => Some(LeftOut::Cached),
            why => why,
        };
        match why {
            Some(why) => self.leave_out(why),
            None => self.waiting.push(Candidate { row: candidate.row.respelled(), ..candidate }),
        }
        if self.waiting.len() >= AT_ONCE { self.judge() } else { Ok(()) }
    }

    /// The plan.
    pub fn finish(mut self) -> Result<Plan, String> {
        self.judge()?;
        let Planner { chosen, mut plan, judge, .. } = self;
        plan.left_out[LeftOut::Twice as usize] = chosen.twice;
        plan.left_out[LeftOut::Budget as usize] = chosen.dropped;
        for Ranked { bytes, confidence, url, verdict } in chosen.lines {
            if bytes > plan.budget - plan.bytes {
                plan.left_out[LeftOut::Budget as usize] += 1;
                continue;
            }
            plan.bytes += bytes;
            plan.expected += confidence * bytes as f64;
            plan.lines.push(Line {
                url,
                bytes,
                confidence,
                rule: verdict.rule,
                reason: judge.reason(&verdict),
            });
        }
        Ok(plan)
    }

    fn judge(&mut self) -> Result<(), String> {
        let candidates = std::mem::take(&mut self.waiting);
        let mut examples = self.encoding.examples();
        for candidate in &candidates {
            self.encoding.push(candidate, self.order.night, PREFETCHABLE, &mut examples)?;
        }
        let verdicts = self.judge.judge(&examples)?;
        for (candidate, verdict) in candidates.into_iter().zip(verdicts) {
            let allowed = || verdict.rule.is_some_and(|rule| self.order.query_rules.contains(&rule));
            let why = if Some(verdict.class) != self.class {
                Some(LeftOut::NotChosen)
            } else if asks_program(&candidate.row.url) && !allowed() {
                Some(LeftOut::Query)
            } else if verdict.confidence < self.order.confidence {
                Some(LeftOut::Unlikely)
            } else {
                None
            };
            match why {
                Some(why) => self.leave_out(why),
                None => self.chosen.add(Ranked {
                    confidence: verdict.confidence,
                    bytes: candidate.row.size,
                    url: candidate.row.url,
                    verdict,
                }),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, why: LeftOut) {
        self.plan.left_out[why as usize] += 1;
    }
}

struct Ranked {
    confidence: f64,
    bytes: u64,
    url: String,
    verdict: Verdict,
}

impl Ranked {
    fn rank(&self) -> (std::cmp::Reverse<u64>, u64, &str) {
        // Bits of numbers from 0 to 1 rise as they do.
        (std::cmp::Reverse(self.confidence.max(0.0).to_bits()), self.bytes, &self.url)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The best so far. Those behind what fills the budget are dropped, so that what is kept does not depend on the order of coming.
struct Chosen {
    lines: BTreeSet<Ranked>,
    /// Hashes of the URLs of all that were ever chosen, in one spelling.
    urls: HashSet<u64>,
    bytes: u64,
    budget: u64,
    twice: u64,
    dropped: u64,
}

impl Chosen {
    /// Times the budget that is kept, so that smaller ones can fill the room that a large one leaves.
    const KEPT: u64 = 4;

    fn new(budget: u64) -> Chosen {
        Chosen { lines: BTreeSet::new(), urls: HashSet::new(), bytes: 0, budget, twice: 0, dropped: 0 }
    }

    fn add(&mut self, one: Ranked) {
        if !self.urls.insert(trace::hash(spelling(&one.url).as_bytes())) {
            self.twice += 1;
            return;
        }
        if one.bytes > self.budget {
            self.dropped += 1;
            return;
        }
        self.bytes += one.bytes;
        self.lines.insert(one);
        let most = self.budget.saturating_mul(Self::KEPT);
        while let Some(last) = self.lines.last() {
            if self.bytes - last.bytes < most && self.lines.len() <= LINES {
                break;
            }
            self.bytes -= last.bytes;
            self.lines.pop_last();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Model;
    use proptest::prelude::*;
    use trace::inventory::Row;

    const RULES: &str = "cosm rules 1
attribute server: nominal
attribute type: nominal
attribute query: nominal
attribute size: number
class prefetchable, non-prefetchable.
prefetchable :- server='a.test', query=yes (8/2).
prefetchable :- server='a.test' (90/10).
prefetchable :- type='image/gif', size<=500 (50/50).
default non-prefetchable (1000/10).
";

    fn candidate(url: &str, size: u64) -> Candidate {
        let row = Row { url: url.into(), size, ..Row::default() };
        Candidate { row, ..Candidate::default() }
    }

    fn plan(text: &str, budget: u64, candidates: impl IntoIterator<Item = Candidate>) -> Plan {
        let Model::Rules(rules) = text.parse().unwrap() else { panic!() };
        let order = Order { budget, night: 0, query_rules: rules_for_queries(&rules), confidence: 0.0 };
        let encoding = Encoding::for_schema(rules.schema()).unwrap();
        let mut planner = Planner::new(&rules, encoding, order);
        candidates.into_iter().for_each(|candidate| planner.add(candidate, false).unwrap());
        planner.finish().unwrap()
    }

    #[test]
    fn each_line_has_its_reason_and_the_rest_is_counted() {
        let mut private = candidate("http://a.test/private", 10);
        private.row.cacheable = false;
        let candidates = [
            candidate("http://a.test/one", 1000),
            candidate("http://a.test/one#part", 1000),
            candidate("HTTP://a.test/./one", 1000),
            candidate("http://b.test/two.gif", 400),
            candidate("http://b.test/large.gif", 501),
            candidate("http://a.test/find?x=1", 10),
            candidate("http://a.test/find?session_id=1", 10),
            candidate("http://me:secret@a.test/one", 10),
            candidate("ftp://a.test/one", 10),
            candidate("http://a.test/unknown", 0),
            private,
            candidate("http://a.test/huge", 9000),
        ];
        let found = plan(RULES, 1500, candidates.clone());
        let lines: Vec<(&str, Option<usize>)> =
            found.lines.iter().map(|line| (line.url.as_str(), line.rule)).collect();
        let expected = [
            ("http://a.test/one", Some(1)),
            ("http://a.test/find?x=1", Some(0)),
            ("http://b.test/two.gif", Some(2)),
        ];
        assert_eq!(lines, expected);
        assert!(found.lines[0].reason.contains("a.test") && found.lines[0].reason.contains("90/10"));
        assert_eq!(found.bytes, 1410);
        let counted: Vec<(LeftOut, u64)> =
            LeftOut::ALL.into_iter().zip(found.left_out).filter(|(_, count)| *count > 0).collect();
        let expected = [
            (LeftOut::NotHttp, 1),
            (LeftOut::Credentials, 2),
            (LeftOut::NotCacheable, 1),
            (LeftOut::NoSize, 1),
            (LeftOut::NotChosen, 1),
            (LeftOut::Twice, 2),
            (LeftOut::Budget, 1),
        ];
        assert_eq!(counted, expected);
        let without = RULES.replace("prefetchable :- server='a.test', query=yes (8/2).\n", "");
        let found = plan(&without, 1500, candidates);
        assert_eq!(found.left_out[LeftOut::Query as usize], 1);
        assert!(found.lines.iter().all(|line| !line.url.contains('?')));
    }

    #[test]
    fn a_rule_may_allow_whatever_has_a_query() {
        let urls = ["x.php", "x.cgi", "CGI%2DBIN/x", "x%3Fpage=2", "x?a=1"];
        let candidates = urls.map(|url| candidate(&format!("http://a.test/{url}"), 10));
        let found = plan(RULES, 1500, candidates.clone());
        assert!(found.lines.len() == 5 && found.lines.iter().all(|line| line.rule == Some(0)), "{found:?}");
        let without = RULES.replace("prefetchable :- server='a.test', query=yes (8/2).\n", "");
        let found = plan(&without, 1500, candidates);
        assert_eq!(found.left_out[LeftOut::Query as usize], 5);
    }

    proptest! {
        /// Of any candidates in any order, and at most as many bytes as there may be.
        #[test]
        fn a_plan_keeps_its_budget_and_does_not_depend_on_the_order(
            sizes in proptest::collection::vec((0u64..900, 0usize..2), 0..200),
            budget in 0u64..20_000,
            turn in 0usize..200,
        ) {
            let all: Vec<Candidate> = sizes
                .iter()
                .enumerate()
                .map(|(nth, (size, server))| candidate(&format!("http://{}.test/{nth}.gif", ["a", "b"][*server]), *size))
                .collect();
            let found = plan(RULES, budget, all.iter().cloned());
            prop_assert!(found.bytes <= budget);
            prop_assert_eq!(found.bytes, found.lines.iter().map(|line| line.bytes).sum::<u64>());
            prop_assert_eq!(found.lines.len() as u64 + found.left_out.iter().sum::<u64>(), found.candidates);
            let urls: HashSet<&str> = found.lines.iter().map(|line| line.url.as_str()).collect();
            prop_assert_eq!(urls.len(), found.lines.len());
            let mut turned = all;
            let at = turn.min(turned.len());
            turned.rotate_left(at);
            prop_assert_eq!(plan(RULES, budget, turned), found);
        }
    }
}
