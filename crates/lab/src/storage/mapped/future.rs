//! Maltzahn's future-looking replacement (5.3.2): who knows the whole trace places objects so that the popular ones lie
//! together and none is in another's way.

use crate::input::Reading;
use crate::layout::mapped::Mapping;
use crate::layout::mapped::segments::{CLASSES, Packer, class_of};
use crate::medium::{Failed, Medium};
use crate::notes::{Notes, TOO_LARGE};
use crate::object::Object;
use crate::object::Version;
use crate::storage::{Outcome, Storage};
use std::cmp::Reverse;
use std::collections::HashMap;
use trace::{Access, Requests};

pub struct Future {
    mapping: Mapping,
    slots: Vec<Slot>,
    /// Which slot is an object's.
    placed: HashMap<u64, u32>,
    too_large: u64,
}

struct Slot {
    at: u64,
    version: Option<Version>,
}

/// An object that is asked for more than once.
struct Known {
    id: u64,
    class: usize,
    requests: u32,
    /// The first and last of them, by number.
    first: u64,
    last: u64,
}

/// A slot while objects are placed: when it is in use.
struct Plan {
    at: u64,
    used: Vec<(u64, u64)>,
}

impl Plan {
    fn is_free(&self, first: u64, last: u64) -> bool {
        self.used.iter().all(|(from, to)| last < *from || *to < first)
    }
}

impl Future {
    /// Bytes of the file.
    pub fn new(bytes: u64) -> Future {
        Future { mapping: Mapping::new(bytes), slots: Vec::new(), placed: HashMap::new(), too_large: 0 }
    }
}

/// What fits into a segment and is asked for more than once, the most popular first.
fn known(requests: &mut Reading) -> Result<Vec<Known>, Failed> {
    let mut all: HashMap<u64, Known> = HashMap::new();
    let (mut access, mut nth) = (Access::default(), 0);
    while requests.next(&mut access)? {
        nth += 1;
        let object = Object::of(&access);
        let Some(class) = class_of(&object).filter(|_| access.is_cacheable() && object.size > 0) else {
            continue;
        };
        let new = Known { id: object.id, class, requests: 0, first: nth, last: nth };
        let known = all.entry(object.id).or_insert(new);
        (known.requests, known.last, known.class) = (known.requests + 1, nth, known.class.max(class));
    }
    let mut known: Vec<Known> = all.into_values().filter(|known| known.requests > 1).collect();
    known.sort_unstable_by_key(|known| (Reverse(known.requests), known.first));
    Ok(known)
}

/// The placement table: slots, and each object's.
fn place(known: &[Known], mut packer: Packer) -> (Vec<Plan>, HashMap<u64, u32>) {
    let (mut plans, mut placed): (Vec<Plan>, _) = (Vec::new(), HashMap::new());
    let mut of_class: [Vec<u32>; CLASSES] = Default::default();
    for object in known {
        let (first, last) = (object.first, object.last);
        let slots = &mut of_class[object.class];
        let slot = match packer.place(object.class) {
            Some(at) => {
                plans.push(Plan { at, used: Vec::new() });
                slots.push(plans.len() as u32 - 1);
                plans.len() as u32 - 1
            }
            None => match slots.iter().find(|slot| plans[**slot as usize].is_free(first, last)) {
                Some(slot) => *slot,
                None => continue,
            },
        };
        plans[slot as usize].used.push((first, last));
        placed.insert(object.id, slot);
    }
    (plans, placed)
}

impl Storage for Future {
    fn foresee(&mut self, open: &dyn Fn() -> Result<Reading, String>) -> Result<(), Failed> {
        let known = known(&mut open()?)?;
        let (plans, placed) = place(&known, Packer::new(self.mapping.bytes, true));
        self.slots = plans.into_iter().map(|plan| Slot { at: plan.at, version: None }).collect();
        self.placed = placed;
        Ok(())
    }

    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.mapping.prepare(medium)
    }

    fn begin_notes(&mut self) {
        self.too_large = 0;
    }

    fn notes(&self) -> Notes {
        Notes::from([(TOO_LARGE.into(), self.too_large as f64)])
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        let version = Version::of(access);
        if class_of(&version.object).is_none() {
            self.too_large += 1;
            return Ok(Outcome::Passed);
        }
        let Some(slot) = self.placed.get(&access.object) else { return Ok(Outcome::Passed) };
        let slot = &mut self.slots[*slot as usize];
        match slot.version.filter(|version| version.object.id == access.object && version.answers(access)) {
            Some(version) => {
                self.mapping.load(medium, &version.object, slot.at)?;
                Ok(Outcome::Hit)
            }
            None => {
                slot.version = Some(version);
                self.mapping.store(medium, &version.object, slot.at)?;
                Ok(Outcome::Stored)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_never_meet_share_a_slot() {
        let one = |id, requests, first, last| Known { id, class: 4, requests, first, last };
        let known =
            [one(1, 9, 0, 10), one(2, 8, 20, 30), one(3, 7, 5, 25), one(4, 6, 11, 19), one(5, 5, 0, 40)];
        let (plans, placed) = place(&known, Packer::new(2 * 8192, true));
        assert_eq!(plans.iter().map(|plan| plan.at).collect::<Vec<_>>(), [0, 8192]);
        let slots: Vec<Option<u32>> = (1..=5).map(|id| placed.get(&id).copied()).collect();
        assert_eq!(slots, [Some(0), Some(1), None, Some(0), None], "the most popular slot that is free then");
    }
}
