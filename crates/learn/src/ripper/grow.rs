//! One rule: grown condition by condition, and pruned from its end.

use super::data::{Code, Data, Probe, Rows, Scratch};

/// Rates nearer to 1 than this are 1.
const TINY: f64 = 1e-6;

/// Adds conditions to a rule while there is gain: until no example of another class is covered, or the best condition keeps less
/// weight than `least`. `rows` are those that the rule covers as it is.
pub fn grow(data: &Data, probes: &mut Vec<Probe>, mut rows: Rows, least: f64, scratch: &mut [Scratch]) {
    let mut used = vec![false; data.columns.len()];
    probes.iter().for_each(|probe| use_up(&mut used, probe));
    let (of, all) = rows.sums();
    let mut rate = (of + 1.0) / (all + 1.0);
    while rows.len() > 0 && rate < 1.0 - TINY {
        let Some(choice) = data.best(&rows, &used, rate, scratch) else { break };
        if choice.of < least - TINY {
            break;
        }
        probes.push(choice.probe);
        use_up(&mut used, &choice.probe);
        rows = rows.at(&data.places(choice.probe, &rows.row));
        rate = (choice.of + 1.0) / (choice.all + 1.0);
    }
}

/// A second value of a nominal attribute would leave nothing.
fn use_up(used: &mut [bool], probe: &Probe) {
    if let Code::Is(_) = probe.code {
        used[probe.attribute] = true;
    }
}

/// What is best for the examples that prune a rule.
#[derive(Clone, Copy, PartialEq)]
pub enum Aim {
    /// Of the examples that it covers, few are wrong: for a rule by itself. (p + 1)/(p + n + 2), which orders as Cohen's
    /// (p − n)/(p + n) does and knows few examples from many.
    Rule,
    /// Of all examples few are judged wrong: for a rule among others, which have been left what they cover.
    All,
}

/// Cuts conditions off the end, so that what is left is best; of equals the shortest. May leave none.
pub fn prune(data: &Data, probes: &mut Vec<Probe>, rows: &Rows, aim: Aim) {
    let (of, all) = rows.sums();
    if all <= 0.0 {
        return;
    }
    let mut best = (of + 1.0) / (all + 2.0);
    let mut length = 0;
    let mut left: Option<Rows> = None;
    for kept in 1..=probes.len() {
        let before = left.as_ref().unwrap_or(rows);
        let after = before.at(&data.places(probes[kept - 1], &before.row));
        let (right, cover) = after.sums();
        left = Some(after);
        let worth = match aim {
            Aim::Rule => (right + 1.0) / (cover + 2.0),
            Aim::All => (right + (all - of) - (cover - right)) / all,
        };
        if worth > best {
            (best, length) = (worth, kept);
        }
    }
    probes.truncate(length);
}

/// Without conditions on numbers that others of the same rule contain.
pub fn simplify(data: &Data, probes: &mut Vec<Probe>) {
    let mut tightest: Vec<(Option<u16>, Option<u16>)> = vec![(None, None); data.columns.len()];
    let mut kept: Vec<Probe> = Vec::with_capacity(probes.len());
    for probe in probes.iter().rev() {
        let (least, most) = &mut tightest[probe.attribute];
        let says_more = match probe.code {
            Code::AtMost(rank) => {
                let before = most.replace(most.map_or(rank, |most| most.min(rank)));
                before.is_none_or(|before| rank < before)
            }
            Code::AtLeast(rank) => {
                let before = least.replace(least.map_or(rank, |least| least.max(rank)));
                before.is_none_or(|before| rank > before)
            }
            Code::Is(_) | Code::Has(_) => true,
        };
        if says_more {
            kept.push(*probe);
        }
    }
    kept.reverse();
    *probes = kept;
}
