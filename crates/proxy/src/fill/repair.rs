//! How a body that was begun and cannot go on is asked for: `transfer::mend` does it.

use super::gap::Seat;
use super::lock;
use crate::access::reach::Zone;
use crate::message::target::Target;
use crate::transport::Hop;
use cache::Resume;
use http::Request;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use store::{Key, Spans};

/// What is to be asked of whom, if a body cannot go on. Needs no client.
pub struct Repair {
    pub target: Target,
    /// The request that brought the response, as the origin saw it.
    pub request: Request<()>,
    pub resume: Resume,
    /// Under which the response lies, or will.
    pub key: Key,
    /// Where its body lies, if it is stored already.
    pub stored: Option<Spans>,
    /// Where the client was that brought the response.
    pub client: Zone,
    /// The origin refused the request when it was asked for pieces.
    pub refused: AtomicBool,
    /// At the gap that the body begins with, for which its head waited.
    pub seat: Mutex<Option<Seat>>,
}

impl Repair {
    pub fn take_seat(&self) -> Option<Seat> {
        lock(&self.seat).take()
    }

    pub fn keep_seat(&self, seat: Seat) {
        *lock(&self.seat) = Some(seat);
    }
}

/// Bodies that a worker is repairing, by the hop that is asked: one that hangs holds up no other's.
#[derive(Clone, Default)]
pub struct Repairs(Rc<RefCell<HashMap<Hop, usize>>>);

/// A place among them.
pub struct Busy {
    repairs: Repairs,
    hop: Hop,
}

impl Repairs {
    pub fn of(&self, hop: &Hop) -> usize {
        self.0.borrow().get(hop).copied().unwrap_or(0)
    }

    pub fn begin(&self, hop: Hop) -> Busy {
        *self.0.borrow_mut().entry(hop.clone()).or_default() += 1;
        Busy { repairs: self.clone(), hop }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut all = self.repairs.0.borrow_mut();
        if let Some(count) = all.get_mut(&self.hop) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.hop);
            }
        }
    }
}
