//! The readers of one fill: who they are, where in the body each is, and who waits.
//!
//! What always holds: `places` counts the readers that were not cut off by where they are, `hungry` those that wait. A reader
//! costs a place in two ordered maps.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

#[derive(Default)]
pub(super) struct Readers {
    /// In the order in which they came.
    slots: BTreeMap<u64, Slot>,
    next: u64,
    places: BTreeMap<u64, usize>,
    hungry: usize,
}

#[derive(Default)]
pub(super) struct Slot {
    /// Offset of the next byte.
    pub(super) at: u64,
    pub(super) call: Option<Call>,
    /// It held up the others: nothing waits for it any more.
    pub(super) cut: bool,
    waker: Option<Waker>,
}

/// What one of those who wait is to do when the others wait on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Leader,
    Alone,
}

impl Readers {
    /// Takes in one more, at the body's begin.
    pub(super) fn add(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        self.slots.insert(id, Slot::default());
        *self.places.entry(0).or_insert(0) += 1;
        id
    }

    pub(super) fn get(&self, id: u64) -> Option<&Slot> {
        self.slots.get(&id)
    }

    /// Takes a reader out.
    pub(super) fn remove(&mut self, id: u64) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        self.hungry -= usize::from(slot.waker.is_some());
        if !slot.cut {
            self.vacate(slot.at);
        }
        Some(slot)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether all have been cut off, or left.
    pub(super) fn nobody_reads(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether some wait for more while others are behind.
    pub(super) fn differ(&self) -> bool {
        self.hungry > 0 && self.places.len() > 1
    }

    pub(super) fn some_wait(&self) -> bool {
        self.hungry > 0
    }

    /// Where the last one is of those that were not cut off.
    pub(super) fn slowest(&self) -> Option<u64> {
        self.places.first_key_value().map(|(at, _)| *at)
    }

    /// Moves a reader on.
    pub(super) fn advance(&mut self, id: u64, bytes: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let from = slot.at;
        slot.at += bytes;
        if !slot.cut {
            *self.places.entry(slot.at).or_insert(0) += 1;
            self.vacate(from);
        }
    }

    /// Cuts off those before `least`.
    pub(super) fn cut_off(&mut self, least: u64) {
        for slot in self.slots.values_mut().filter(|slot| slot.at < least) {
            slot.cut = true;
        }
        self.places = self.places.split_off(&least);
    }

    /// Has a reader woken when there is more.
    pub(super) fn wait(&mut self, id: u64, cx: &Context<'_>) {
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.waker.replace(cx.waker().clone()).is_none()
        {
            self.hungry += 1;
        }
    }

    /// Of all who wait; they wait no longer.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        if self.hungry == 0 {
            return Vec::new();
        }
        self.hungry = 0;
        self.slots.values_mut().filter_map(|slot| slot.waker.take()).collect()
    }

    /// Calls the first `number` of those who were not called yet: one to lead, the others to fetch alone. Their wakers;
    /// `None` when there is nobody.
    pub(super) fn call(&mut self, number: usize) -> Option<Vec<Waker>> {
        let mut wakers = Vec::new();
        let mut call = Call::Leader;
        for slot in self.slots.values_mut().filter(|slot| slot.call.is_none()).take(number) {
            slot.call = Some(std::mem::replace(&mut call, Call::Alone));
            if let Some(waker) = slot.waker.take() {
                self.hungry -= 1;
                wakers.push(waker);
            }
        }
        (call == Call::Alone).then_some(wakers)
    }

    fn vacate(&mut self, place: u64) {
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
            }
        }
    }
}

#[cfg(test)]
impl Readers {
    /// Panics where the maps contradict each other. How many places there are.
    pub(super) fn check(&self) -> usize {
        let mut places = BTreeMap::new();
        for slot in self.slots.values().filter(|slot| !slot.cut) {
            *places.entry(slot.at).or_insert(0) += 1;
        }
        assert_eq!(places, self.places);
        assert_eq!(self.slots.values().filter(|slot| slot.waker.is_some()).count(), self.hungry);
        places.len()
    }
}
