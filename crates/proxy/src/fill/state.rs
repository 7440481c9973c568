//! What one fill's lock guards: what was decided, who reads where, and which bytes are held for whom.

use super::reach::{Reach, Windows};
use super::window::Window;
use super::{Answer, Failure};
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use store::{Spans, Writer};

/// How long readers that are slow may hold up one that is not, in one go. In the long run it is a fifth of the time.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct State {
    pub(super) outcome: Outcome,
    /// How many were called last, after an answer that was of no use.
    pub(super) called: usize,
    /// The leader's answer was of no use to the others.
    pub(super) unusable: bool,
    /// Those who fetch beside the leader, since nothing suited them.
    pub(super) beside: u32,
    pub(super) window: Window,
    pub(super) reach: Reach,
    pub(super) ended: Option<End>,
    /// In the order in which they came.
    pub(super) readers: BTreeMap<u64, Slot>,
    pub(super) next: u64,
    /// How many readers are where, without those that were cut off.
    pub(super) places: BTreeMap<u64, usize>,
    /// Readers that wait for more bytes, or for news.
    pub(super) hungry: usize,
    pub(super) patience: Patience,
    pub(super) pump: Option<Waker>,
    /// What of the body the store can give back: everything before `readable`.
    pub(super) spans: Option<Spans>,
    pub(super) readable: u64,
    /// The body is being kept: what the window holds is in memory anyway, until the store can give it.
    pub(super) kept: bool,
    /// A write that came to nothing: what it wrote stays readable as long as somebody may read it.
    pub(super) broken_off: Option<Writer>,
}

#[derive(Default)]
pub(super) enum Outcome {
    #[default]
    Waiting,
    Open,
    Answered(Answer),
    /// The response is not for sharing.
    Alone,
    /// Look again.
    Again,
    Failed(Failure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Complete,
    Broken,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) at: u64,
    pub(super) waker: Option<Waker>,
    pub(super) call: Option<Call>,
    /// It held up the others: nothing waits for it any more.
    pub(super) cut: bool,
}

/// What one of those who wait is to do when the others wait on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Lead,
    Alone,
}

/// What the pump is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Yes,
    NobodyReads,
}

impl State {
    /// The leader went away without a decision: calls the next of those who wait. The wakers of those who were called;
    /// `None` when nobody waits.
    pub(super) fn succeed(&mut self, late: bool) -> Option<Vec<Waker>> {
        let grows = std::mem::take(&mut self.unusable) || late;
        let number = if grows { (2 * self.called).max(1) } else { 1 };
        let mut wakers = Vec::new();
        let mut call = Call::Lead;
        for slot in self.readers.values_mut().filter(|slot| slot.call.is_none()).take(number) {
            slot.call = Some(std::mem::replace(&mut call, Call::Alone));
            if let Some(waker) = slot.waker.take() {
                self.hungry -= 1;
                wakers.push(waker);
            }
        }
        if grows {
            self.called = number;
        }
        (call == Call::Alone).then_some(wakers)
    }

    pub(super) fn room(&mut self, windows: &Windows) -> Option<Room> {
        if self.window.len() >= self.reach.bytes() {
            self.reach.widen(windows, self.window.end());
        }
        self.make_room();
        if self.places.is_empty() {
            return Some(Room::NobodyReads);
        }
        // What is kept need not wait for the slow ones: they find it in the store.
        let has_room = self.window.len() < self.reach.bytes() || (self.kept && self.hungry > 0);
        has_room.then_some(Room::Yes)
    }

    /// When full, lets go of pieces that the store can give, or, when nothing is kept, that every reader took. Until
    /// then they stay, for readers that are yet to come.
    pub(super) fn make_room(&mut self) {
        let slowest = || self.places.first_key_value().map_or(self.window.end(), |(at, _)| *at);
        let spared = if self.kept { self.readable } else { slowest().max(self.readable) };
        self.window.let_go(self.reach.bytes(), spared);
    }

    /// Some readers keep the fetch from going on for one that has taken everything.
    pub(super) fn slow_ones_hold(&self) -> bool {
        !self.kept && self.hungry > 0 && self.places.len() > 1
    }

    /// Waits no longer for readers that are more than half of the window behind.
    pub(super) fn cut_off(&mut self) {
        let least =
            self.window.end().saturating_sub(self.reach.bytes() as u64 / 2).max(self.window.first_end());
        for slot in self.readers.values_mut().filter(|slot| slot.at < least) {
            slot.cut = true;
        }
        self.places = self.places.split_off(&least);
        self.patience = Patience::default();
    }

    /// Moves a reader on.
    pub(super) fn advance(&mut self, id: u64, bytes: u64) {
        let Some(slot) = self.readers.get_mut(&id) else { return };
        let from = slot.at;
        slot.at += bytes;
        if !slot.cut {
            *self.places.entry(slot.at).or_insert(0) += 1;
            self.vacate(from);
        }
    }

    pub(super) fn vacate(&mut self, place: u64) {
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
            }
        }
    }

    /// Takes a reader out.
    pub(super) fn remove(&mut self, id: u64) -> Option<Slot> {
        let slot = self.readers.remove(&id)?;
        self.hungry -= usize::from(slot.waker.is_some());
        if !slot.cut {
            self.vacate(slot.at);
        }
        Some(slot)
    }

    /// Has a reader woken when there is more.
    pub(super) fn wait(&mut self, id: u64, cx: &Context<'_>) {
        if let Some(slot) = self.readers.get_mut(&id)
            && slot.waker.replace(cx.waker().clone()).is_none()
        {
            self.hungry += 1;
        }
    }

    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        if self.hungry == 0 {
            return Vec::new();
        }
        self.hungry = 0;
        self.readers.values_mut().filter_map(|slot| slot.waker.take()).collect()
    }

    /// Whether a reader can still begin.
    pub(super) fn reaches_back(&self) -> bool {
        self.window.start() == 0 || (self.spans.is_some() && self.readable >= self.window.start())
    }
}

/// How much longer slow readers may hold up others: what they held up is taken away, and a fourth of the time in which
/// they did not comes back.
#[derive(Default)]
pub(super) struct Patience {
    pub(super) spent: Duration,
    /// Since when they do, or do not.
    pub(super) since: Option<Instant>,
    pub(super) held: bool,
}

impl Patience {
    pub(super) fn note(&mut self, held: bool) -> Duration {
        // Nothing to note as long as nothing was ever held up: the clock is not asked.
        if !held && self.since.is_none() {
            return PATIENCE;
        }
        self.note_at(held, Instant::now())
    }

    pub(super) fn note_at(&mut self, held: bool, now: Instant) -> Duration {
        let passed = now.duration_since(self.since.unwrap_or(now));
        self.spent = if self.held { self.spent + passed } else { self.spent.saturating_sub(passed / 4) };
        (self.since, self.held) = (Some(now), held);
        PATIENCE.saturating_sub(self.spent)
    }
}

pub(super) fn wake_readers(mut state: MutexGuard<'_, State>) {
    let wakers = state.wakers();
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

pub(super) fn wake_pump(mut state: MutexGuard<'_, State>) {
    let waker = state.pump.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
