//! The places on a hop's connections: how many requests each carries, who waits for one, and is told when there may be one.

use super::{REMEMBERED_FOR, Wish};
use crate::access::reach::Zone;
use std::cell::Cell;
use std::time::Instant;
use tokio::sync::Notify;

#[derive(Default)]
pub struct Room {
    /// Those who wait, by what they can use. Who is told looks for itself, and waits again where there is none.
    waiting: [[Notify; Zone::ALL.len()]; 2],
    carried: Cell<Option<Carried>>,
    /// Responses that came, ever.
    answers: Cell<u64>,
}

/// Requests that a connection carried until its origin ended it and processed no more of them. What two in succession carried is a
/// bound of the origin's; else it may have ended for anything.
#[derive(Clone, Copy)]
struct Carried {
    requests: u32,
    before: Option<u32>,
    until: Instant,
}

impl Room {
    pub fn waited_for(&self, wish: Wish) -> &Notify {
        &self.waiting[usize::from(wish.wide)][wish.client as usize]
    }

    /// Requests that a connection surely carries, as far as it is known that others carried no more.
    pub fn carries(&self) -> u32 {
        match self.carried.get() {
            Some(Carried { requests, before, until })
                if before == Some(requests) && Instant::now() < until =>
            {
                requests
            }
            _ => u32::MAX,
        }
    }

    /// A connection ended when it had carried so many, as far as is known by now: `anew` of one of which that was not said yet.
    pub fn carried(&self, requests: u32, anew: bool) {
        let known = self.carried.get().filter(|last| Instant::now() < last.until);
        let before = if anew { known.map(|last| last.requests) } else { known.and_then(|last| last.before) };
        let until = Instant::now() + REMEMBERED_FOR;
        self.carried.set(Some(Carried { requests, before, until }));
        self.changes();
    }

    pub fn answered(&self) {
        self.answers.set(self.answers() + 1);
    }

    pub fn answers(&self) -> u64 {
        self.answers.get()
    }

    /// There is one place more on a wide or narrow connection, for clients of this zone and nearer ones.
    pub fn frees(&self, wide: bool, needs: Zone) {
        self.waiting[usize::from(wide)][needs as usize..].iter().for_each(Notify::notify_one);
    }

    /// One connection may give way to another kind.
    pub fn may_give_way(&self) {
        self.waiting.iter().flatten().for_each(Notify::notify_one);
    }

    /// There may be many places, or none to be waited for.
    pub fn changes(&self) {
        self.waiting.iter().flatten().for_each(Notify::notify_waiters);
    }
}
