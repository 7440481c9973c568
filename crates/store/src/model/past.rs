//! What a key may answer: all that was put under it and removed, and from where on a crash may bring it back.

use super::values::Value;
use crate::engine::Millis;

/// All values a key ever had, `None` for a removal.
#[derive(Default, Debug)]
pub struct Past {
    values: Vec<Option<Value>>,
    /// When they were taken.
    times: Vec<Millis>,
    /// Everything before was superseded durably.
    floor: usize,
    /// How many values there were when everything was written last.
    written: usize,
    /// What else a start may find, for an earlier one could not read all: until this value or a later one is durable.
    others: (usize, Vec<Value>),
    /// How often what was there may have gone without another value.
    pub shaken: u64,
    /// A write was lost or hit the wrong place: what the index points to may be an older record of the same key.
    pub may_be_older: bool,
    /// How many values there were at the last start, and which of them it may have found: from this one on.
    before: usize,
    from: usize,
    /// What the last start found was not asked for so far.
    unknown: Option<Unknown>,
}

/// What a start may have found.
#[derive(Clone, Debug, Default)]
pub struct Unknown {
    pub possible: Vec<Value>,
    /// The last value lay in the segment with this sequence number, and must not be lost before that is swept.
    pub lies: Option<u64>,
}

/// What became of the medium before a start, and how far the start could read it.
pub struct Start {
    /// Any earlier value may be back.
    pub anything: bool,
    /// Some was not read: a later start may find it.
    pub unread: bool,
    /// What was taken before is in the file.
    pub written_before: Option<Millis>,
}

impl Past {
    pub fn new(may_be_older: bool) -> Past {
        Past { may_be_older, ..Past::default() }
    }

    pub fn push(&mut self, value: Option<Value>, now: Millis) {
        self.unknown = None;
        self.values.push(value);
        self.times.push(now);
    }

    /// What it has to answer with, or nothing; as far as anybody knows.
    pub fn last(&self) -> Option<Value> {
        self.values.last().copied().flatten()
    }

    /// What was there may have gone.
    pub fn shake(&mut self) {
        self.shaken += 1;
        self.written = usize::MAX;
        if let Some(unknown) = &mut self.unknown {
            unknown.lies = None;
        }
    }

    pub fn is_known(&self) -> bool {
        self.unknown.is_none()
    }

    pub fn unknown(&self) -> Option<&Unknown> {
        self.unknown.as_ref()
    }

    /// Whether it may answer with this now.
    pub fn may_be(&self, value: Value) -> bool {
        match &self.unknown {
            Some(unknown) => unknown.possible.contains(&value),
            None => self.last() == Some(value),
        }
    }

    /// How often it changed.
    pub fn changes(&self) -> usize {
        self.values.len()
    }

    /// What it had since it had changed so often.
    pub fn since(&self, changes: usize) -> impl Iterator<Item = Value> {
        self.values[changes.saturating_sub(1)..].iter().flatten().copied()
    }

    /// Nothing changed since everything was written.
    pub fn is_written(&self) -> bool {
        self.written == self.values.len()
    }

    /// It answered, and nothing else happened meanwhile. `swept`: segments up to this sequence number are.
    pub fn answered(&mut self, n: u64, answer: Option<Value>, now: Millis, swept: Option<u64>) {
        let Some(Unknown { possible, lies }) = self.unknown.take() else {
            let older = self.may_be_older && self.values.contains(&answer);
            let right = answer.is_none() || answer == self.last() || older;
            assert!(right, "key {n}: {answer:?}, not {:?}", self.last());
            return;
        };
        let older = answer.filter(|_| self.may_be_older && self.values.contains(&answer));
        let possible = [&possible[..], older.as_slice()].concat();
        assert!(
            answer.is_none_or(|answer| possible.contains(&answer)),
            "key {n}: {answer:?} came back, but only {possible:?} could"
        );
        let lies = lies.is_some_and(|seq| swept.is_none_or(|swept| seq > swept));
        assert!(!lies || answer.is_some(), "key {n} had been written, and is lost");
        assert!(!lies || answer == self.last(), "key {n}: an older value");
        if answer.is_none() {
            // It is not there, but nobody removed it: the next start may find it.
            self.unknown = Some(Unknown::default());
            return;
        }
        if self.others.0 == self.values.len() || answer.is_some_and(|answer| self.others.1.contains(&answer))
        {
            // Nothing younger is in the file than what that start could not read.
            self.others.0 = self.values.len() + 1;
        } else {
            // It is in the file: the next start finds it too, or what is younger.
            self.from = self.values.len();
        }
        self.push(answer, now);
    }

    /// Everything is written and synced: earlier values are gone for good.
    pub fn settled(&mut self) {
        if self.is_known() {
            self.floor = self.values.len().saturating_sub(1);
            self.written = self.values.len();
        }
    }

    /// `lies`: see `Unknown`.
    pub fn started(&mut self, start: &Start, lies: Option<u64>) {
        // Of what was taken since the start before, the last that is in the file.
        let written = |taken: &Millis| start.written_before.is_some_and(|before| *taken < before);
        let durable = self.times[self.before..].iter().rposition(written).map(|n| self.before + n);
        let from = if start.anything { 0 } else { self.floor.max(durable.unwrap_or(self.from)) };
        let from = from.min(self.values.len());
        let mut possible: Vec<Value> = self.values[from..].iter().flatten().copied().collect();
        if from < self.others.0 {
            possible.extend(&self.others.1);
        }
        possible.sort_by_key(|value| value.value);
        possible.dedup();
        if start.unread {
            self.others = (self.values.len(), possible.clone());
        }
        // Until all is written again, or it is known what was found.
        self.floor = if start.anything { 0 } else { self.floor };
        (self.before, self.from) = (self.values.len(), from);
        self.unknown = Some(Unknown { possible, lies });
    }
}
