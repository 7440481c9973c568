//! What is asked of the store, and what it answers.

use super::faults::{Scenario, Trouble};
use super::key;
use super::readers::{Got, Hand, Reading};
use super::values::{LARGE, Value, ledger, ledger_of};
use super::world::{Arrival, INTERVAL, World};
use crate::{Admission, Body, Refused, Spans, Uses};
use bytes::Bytes;
use rand::RngExt;

/// Large values that arrive at once, and reads under way.
const ARRIVALS: usize = 3;
const READINGS: usize = 6;

impl World {
    pub fn value(&mut self, n: u64) -> Value {
        self.values += 1;
        let same = self.rng.random_bool(self.scenario.again);
        let mut body = if same { LARGE * n } else { self.values };
        if self.scenario.many && body.is_multiple_of(LARGE) && self.rng.random_bool(0.9) {
            body += 1;
        }
        Value { value: self.values, body, part: 0 }
    }

    /// Some object was fetched.
    pub fn put(&mut self, n: u64) {
        let value = self.value(n);
        let body = value.body();
        if body.len() > self.shared.span || self.rng.random_bool(0.02) {
            return self.begin(n, value, body);
        }
        let put = self.putting(|world| world.shared.put_whole(&key(n), &value.meta(), &body));
        assert!(put != Err(Refused::TooLarge));
        // A refusal removes what was there.
        self.changed(n, put.is_ok().then_some(value));
        self.memory[n as usize] = Some((value, None));
    }

    /// One writer a key: which of several ends last is the caller's to say.
    fn may_arrive(&self, n: u64) -> bool {
        self.arrivals.len() < ARRIVALS && self.arrivals.iter().all(|arrival| arrival.n != n)
    }

    /// Of a value whose length may be known before.
    fn begin(&mut self, n: u64, value: Value, body: Vec<u8>) {
        if !self.may_arrive(n) {
            return;
        }
        let expected = self.rng.random_bool(0.7).then_some(body.len() as u64);
        match self.shared.begin(&key(n), expected) {
            Ok(writer) => self.arrivals.push(Arrival { n, value, body, writer, pushed: 0, kept: 0 }),
            // What is there stays until there is a body.
            Err(refused) => {
                let Scenario { admission, write_budget, .. } = self.scenario;
                let judges = admission == Admission::Worth || write_budget.is_some();
                assert!(judges && refused == Refused::NotAdmitted, "{refused:?}");
            }
        }
    }

    /// Some more of a large value arrives, or it breaks off.
    pub fn push(&mut self) {
        if self.arrivals.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.arrivals.len());
        if self.rng.random_bool(0.05) {
            return if self.rng.random() { self.break_off(at) } else { self.keep_part(at) };
        }
        let more = self.rng.random_range(1..9_000);
        let done = self.putting(|world| {
            let Arrival { value, body, writer, pushed, .. } = &mut world.arrivals[at];
            let end = (*pushed + more).min(body.len());
            let mut bytes = &body[*pushed..end];
            let result = writer.push(&mut bytes);
            *pushed = end - bytes.len();
            match result {
                Ok(()) if end == body.len() => Some(writer.finish(&value.meta())),
                Ok(()) => None,
                Err(refused) => Some(Err(refused)),
            }
        });
        if done.is_some_and(|done| done.is_err()) {
            // Where the head, or all of it, found no room, what was under the key before has gone.
            self.pasts[self.arrivals[at].n as usize].shake();
        }
        match done {
            None | Some(Err(Refused::Busy)) => {}
            Some(Ok(())) => {
                let Arrival { n, value, writer, .. } = self.arrivals.swap_remove(at);
                self.changed(n, Some(value));
                self.memory[n as usize] = match writer.spans() {
                    spans if spans.count() > 0 => Some((value, Some(spans))),
                    _ => Some((value, None)),
                };
            }
            Some(Err(_)) => self.break_off(at),
        }
    }

    /// The writer is dropped: what it has put is not found any more, and what it went on with stays as it is.
    fn break_off(&mut self, at: usize) {
        let (spans, kept) = (self.arrivals[at].writer.spans(), self.arrivals[at].kept);
        let found = |world: &World| {
            let key = |n| crate::span_key(spans.id, n);
            (0..spans.count())
                .map(|n| world.shared.index.find(world.shared.hash(&key(n))))
                .collect::<Vec<_>>()
        };
        let before = found(self);
        self.arrivals.swap_remove(at);
        let after = found(self);
        match kept {
            0 => assert!(after.iter().all(|span| span.is_none()), "a span of a body that broke off"),
            _ => assert_eq!(before, after, "pieces of a part that another writer went on with"),
        }
    }

    /// It breaks off, and the pieces that are written are kept as a part.
    fn keep_part(&mut self, at: usize) {
        let Arrival { n, value, ref writer, .. } = self.arrivals[at];
        let spans = writer.spans();
        if spans.count() == 0 {
            return self.break_off(at);
        }
        self.values += 1;
        let part = Value { value: self.values, part: spans.length, ..value };
        let kept = self.putting(|world| world.arrivals[at].writer.finish_part(&part.meta()));
        if kept.is_err() {
            // As where a head found no room.
            self.pasts[n as usize].shake();
            return self.break_off(at);
        }
        self.arrivals.swap_remove(at);
        self.changed(n, Some(part));
        self.memory[n as usize] = Some((part, Some(spans)));
    }

    /// What is missing behind a part is fetched.
    fn resume(&mut self, n: u64, part: Value, spans: &Spans) {
        if !self.may_arrive(n) {
            return;
        }
        self.values += 1;
        let value = Value { value: self.values, part: 0, ..part };
        let body = value.body();
        let expected = self.rng.random_bool(0.7).then_some(body.len() as u64);
        let writer = match self.shared.resume(&key(n), spans, expected) {
            Ok(writer) => writer,
            // All but the head had been put when it broke off: nothing is missing, and the last piece is shorter.
            Err(refused) => {
                let is_whole = spans.length == body.len() as u64;
                return assert!(is_whole && refused == Refused::TooLarge, "{part:?}: {refused:?}");
            }
        };
        let (pushed, kept) = (spans.length as usize, spans.count());
        self.arrivals.push(Arrival { n, value, body, writer, pushed, kept });
    }

    /// Pieces of a body that went away are fetched and put back, and its head after them.
    fn heal(&mut self, n: u64, value: Value, spans: &Spans) {
        let body = value.body();
        let missing: Vec<u32> = self.shared.missing(spans, 0..spans.count()).collect();
        for &piece in &missing {
            let part = body.chunks(spans.span as usize).nth(piece as usize).expect("a piece of the body");
            if self.putting(|world| world.shared.put_span(spans, piece, part)).is_ok() {
                let got = self.hand.span(&*self.disk, spans, piece);
                assert!(got.is_some_and(|bytes| bytes == *part), "key {n}: piece {piece} was just put back");
            }
        }
        if !missing.is_empty() {
            let is_there = |world: &World| world.shared.index.find(world.shared.hash(&key(n))).is_some();
            let before = is_there(self);
            self.putting(|world| world.shared.put_head_again(&key(n), &value.meta(), spans));
            assert!(before || !is_there(self), "key {n}: a head that had gone is back");
        }
    }

    /// A piece of a body that is still arriving is read.
    pub fn read_along(&mut self) {
        if self.arrivals.is_empty() {
            return;
        }
        let Arrival { body, writer, .. } = &self.arrivals[self.rng.random_range(0..self.arrivals.len())];
        let spans = writer.spans();
        if spans.count() == 0 {
            return;
        }
        let n = self.rng.random_range(0..spans.count());
        if let Some(bytes) = self.hand.span(&*self.disk, &spans, n) {
            let part = body.chunks(spans.span as usize).nth(n as usize);
            assert!(part.is_some_and(|part| bytes == *part), "span {n} of a body that arrives");
        }
    }

    /// Whether a small value is taken.
    pub fn is_taken(&mut self, n: u64) -> bool {
        self.values = (self.values + 1).next_multiple_of(LARGE) + 1;
        let value = Value { value: self.values, body: self.values, part: 0 };
        let put =
            self.putting(|world| world.shared.put_anyway(&key(n), &value.meta(), &value.body()).is_ok());
        self.changed(n, put.then_some(value));
        self.memory[n as usize] = None;
        put
    }

    pub fn remove(&mut self, n: u64) {
        self.shared.engine().remove(self.shared.hash(&key(n)), self.now);
        self.changed(n, None);
        self.memory[n as usize] = None;
    }

    fn changed(&mut self, n: u64, value: Option<Value>) {
        self.pasts[n as usize].push(value, self.now);
    }

    /// The whole index is loaded, whatever else happens.
    pub fn load_all(&mut self) {
        for _ in 0..20_000 {
            let left = self.shared.engine().parts_left();
            if left == 0 {
                return;
            }
            self.tick();
            if !self.turn() {
                self.pass(INTERVAL);
            }
        }
        panic!("the index is never loaded");
    }

    /// Waits until the key's part of the index is loaded.
    fn load(&mut self, n: u64) {
        let hash = self.shared.hash(&key(n));
        for _ in 0..2_000 {
            if self.shared.is_loaded(hash) {
                return;
            }
            self.shared.engine().want(hash);
            if !self.turn() {
                self.pass(INTERVAL);
            }
        }
        panic!("a part of the index is never loaded");
    }

    /// A get, with nothing in between.
    pub fn get(&mut self, n: u64) {
        self.tally.gets += 1;
        let hash = self.shared.hash(&key(n));
        let waits = self.rng.random_bool(0.5);
        if waits {
            self.load(n);
        }
        let (bad, loaded) = (self.bad(), self.shared.engine().parts_left() == 0);
        let mut got = self.putting(|world| world.hand.get(&*world.disk, &key(n)));
        if got == Got::Late {
            assert!(!loaded, "late, and all of the index is loaded");
            if !waits || !self.shared.is_loaded(hash) {
                return;
            }
            // Its spans.
            self.load_all();
            got = self.putting(|world| world.hand.get(&*world.disk, &key(n)));
        }
        let is_sound = self.scenario.trouble != Trouble::Nothing || self.bad() == bad;
        assert!(is_sound, "key {n}: a damaged record, and nothing had failed");
        self.got(n, &got);
    }

    /// What was got just now.
    fn got(&mut self, n: u64, got: &Got) {
        let swept = self.swept();
        let past = &mut self.pasts[n as usize];
        match *got {
            Got::Late => {}
            Got::Nothing => past.answered(n, None, self.now, swept),
            Got::Value(value, spans) => {
                self.tally.hits += 1;
                past.answered(n, Some(value), self.now, swept);
                if past.last() == Some(value) && self.rng.random_bool(0.5) {
                    self.memory[n as usize] = Some((value, spans));
                }
            }
        }
    }

    /// A get begins, and the world goes on while the disk reads.
    pub fn begin_reading(&mut self, n: u64) {
        if self.readings.len() >= READINGS {
            return;
        }
        let past = &self.pasts[n as usize];
        let mut reading = Reading::new(&self.shared, n, key(n));
        reading.changes = past.changes();
        reading.possible = past.unknown().map_or(Vec::new(), |unknown| unknown.possible.clone());
        self.read_on(reading);
    }

    pub fn go_on_reading(&mut self) {
        if self.readings.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.readings.len());
        if self.readings[at].due <= self.now {
            let reading = self.readings.swap_remove(at);
            self.read_on(reading);
        }
    }

    fn read_on(&mut self, mut reading: Reading) {
        let got = self.putting(|world| reading.go_on(&*world.disk));
        let Some(got) = got else {
            reading.due = self.now + self.scenario.takes(&mut self.rng);
            self.readings.push(reading);
            return;
        };
        let Got::Value(value, _) = got else { return };
        let (n, past) = (reading.n, &self.pasts[reading.n as usize]);
        let right = past.since(reading.changes).any(|had| had == value)
            || reading.possible.contains(&value)
            || past.may_be_older && past.since(0).any(|had| had == value);
        assert!(right, "key {n}: {value:?} was not there since it was asked for");
        // It may have gone since, or be there.
        if past.changes() == reading.changes && past.may_be(value) {
            self.got(n, &got);
        }
    }

    /// Memory answers, and the store is told; now and then of a use that it was not told of, or of a validation.
    pub fn use_in_memory(&mut self, n: u64) {
        let Some((value, spans)) = self.memory[n as usize] else { return };
        if let Some(spans) = spans.filter(|_| self.rng.random_bool(0.4)) {
            return if value.part > 0 { self.resume(n, value, &spans) } else { self.heal(n, value, &spans) };
        }
        let body = match spans {
            None => Body::Whole(Bytes::from(value.body())),
            Some(spans) => Body::Spans(spans),
        };
        if self.rng.random_bool(0.15) {
            return self.renew(n, value, &body);
        }
        let uses = Uses { new: self.rng.random_range(0..3), all: self.rng.random_range(1..6) };
        let worth = self.shared.touch(&key(n), uses, &body);
        let Body::Whole(bytes) = &body else {
            assert!(!worth, "a large object is not put again from memory");
            return;
        };
        if (worth || self.rng.random_bool(0.1))
            && self.putting(|world| world.shared.put_again(&key(n), &value.meta(), bytes, uses.all))
        {
            self.changed(n, Some(value));
        }
    }

    /// The origin says that it is valid still.
    fn renew(&mut self, n: u64, old: Value, body: &Body) {
        self.values += 1;
        let value = Value { value: self.values, ..old };
        let put = self.putting(|world| match body {
            Body::Whole(bytes) => world.shared.renew(&key(n), &value.meta(), bytes),
            Body::Spans(spans) => world.shared.renew_head(&key(n), &value.meta(), spans),
        });
        self.changed(n, put.is_ok().then_some(value));
        let spans = match body {
            Body::Spans(spans) => Some(*spans),
            Body::Whole(_) => None,
        };
        self.memory[n as usize] = put.is_ok().then_some((value, spans));
    }

    pub fn set_ledger(&mut self) {
        self.values += 1;
        if self.shared.engine().set_ledger(&ledger(self.values), self.now).is_ok() {
            self.ledgers.all.push(self.values);
            self.ledgers.set = true;
        }
    }

    pub fn read_ledger(&self) -> u64 {
        ledger_of(self.shared.engine().ledger())
    }

    pub fn get_ledger(&mut self) {
        assert_eq!(Some(&self.read_ledger()), self.ledgers.all.last(), "an old ledger");
        if !self.shared.engine().is_ledger_written() {
            return;
        }
        if self.ledgers.set {
            self.ledgers.floor = self.ledgers.all.len() - 1;
        }
        self.ledgers.torn &= !(self.ledgers.set || self.ledgers.both_read);
    }

    /// After a start, nobody reads what was begun before it.
    pub fn forget_clients(&mut self) {
        self.readings.clear();
        self.arrivals.clear();
        self.memory.fill(None);
        self.hand = Hand::new(&self.shared);
    }
}
