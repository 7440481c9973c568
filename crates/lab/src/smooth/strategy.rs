//! Who chooses what to fetch at night.

use learn::boost::boost;
use learn::candidate::{NON_PREFETCHABLE, PREFETCHABLE};
use learn::examples::Examples;
use learn::judge::Judge;
use learn::ripper::Learner;
use learn::rules::Model;
use std::ops::Range;
use trees::Trees;

/// Draws of a day by which `Strategy::Habits` tells what is likely: a likelihood of a half is off by 0.05.
const DRAWS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Nothing is fetched.
    Nothing,
    /// What was asked for before, and is not in the cache as it is now.
    SeenBefore,
    /// What servers have that served misses in the last peak (the heuristic of 6.2.3).
    SeenServer,
    /// Rules that RIPPER learned from the nights before.
    Rules,
    /// Sets of them that vote, boosted.
    Boosted,
    /// Boosted trees, the modern reference.
    Trees,
    /// What is likely by all habits of sites and readers: it knows what no log tells, but not what chance will bring. At its
    /// coverage no learner is more accurate, but by luck.
    Habits,
    /// What will be asked for.
    Oracle,
}

impl Strategy {
    pub const ALL: [Strategy; 8] = [
        Strategy::Nothing,
        Strategy::SeenBefore,
        Strategy::SeenServer,
        Strategy::Rules,
        Strategy::Boosted,
        Strategy::Trees,
        Strategy::Habits,
        Strategy::Oracle,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Nothing => "nothing",
            Strategy::SeenBefore => "seen-before",
            Strategy::SeenServer => "seen-server",
            Strategy::Rules => "rules",
            Strategy::Boosted => "boosted",
            Strategy::Trees => "trees",
            Strategy::Habits => "habits",
            Strategy::Oracle => "oracle",
        }
    }

    pub fn named(name: &str) -> Result<Strategy, String> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Strategy::ALL.iter().map(|strategy| strategy.name()).collect();
            format!("there is no strategy `{name}`; there are {}", names.join(", "))
        })
    }

    /// Whether it needs examples.
    pub fn learns(self) -> bool {
        matches!(self, Strategy::Rules | Strategy::Boosted | Strategy::Trees)
    }

    /// The ways in which the day may fall out by which it chooses (`World::might_ask`): the oracle knows the one that comes. None for those
    /// who see but the past.
    pub fn draws(self) -> Range<u64> {
        match self {
            Strategy::Oracle => 0..1,
            Strategy::Habits => 1..1 + DRAWS,
            _ => 0..0,
        }
    }

    /// Who judges candidates by their attributes; none where that is not how it chooses, or where there is nothing to learn from.
    pub fn judge(
        self,
        examples: &Examples,
        learner: &Learner,
        rounds: usize,
    ) -> Result<Option<Box<dyn Judge>>, String> {
        let rule = |attribute: &str, condition: &str| {
            let text = format!(
                "cosm rules 1\nattribute {attribute}: number\nclass {PREFETCHABLE}, {NON_PREFETCHABLE}.\n\
                 {PREFETCHABLE} :- {attribute}{condition} (1/1).\ndefault {NON_PREFETCHABLE} (1/0).\n"
            );
            let model: Model = text.parse().map_err(|why: learn::rules::Mistake| why.to_string())?;
            Ok(Some(Box::new(model) as Box<dyn Judge>))
        };
        match self {
            Strategy::Nothing | Strategy::Habits | Strategy::Oracle => Ok(None),
            Strategy::SeenBefore => rule("uses", ">=1"),
            Strategy::SeenServer => rule("server-share", ">=0.000001"),
            _ if examples.is_empty() => Ok(None),
            Strategy::Rules => Ok(Some(Box::new(learner.learn(examples)?))),
            Strategy::Boosted => Ok(Some(Box::new(boost(learner, rounds, examples, &mut |_, _| {})?))),
            Strategy::Trees if has_one_class(examples) => Ok(None),
            Strategy::Trees => {
                let settings = trees::Settings {
                    positive: PREFETCHABLE.into(),
                    seed: learner.seed,
                    loss_ratio: learner.loss_ratio,
                    threads: learner.threads,
                    ..trees::Settings::default()
                };
                Ok(Some(Box::new(Trees::learn(examples, &settings)?)))
            }
        }
    }
}

fn has_one_class(examples: &Examples) -> bool {
    examples.class().windows(2).all(|two| two[0] == two[1])
}
