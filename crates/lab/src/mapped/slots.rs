//! A mapped file of one size that is its own cache (Maltzahn, Chapter 5): once it is full, an object takes the segment of
//! another one of its class. Objects larger than a page pass.

use super::Mapping;
use super::segments::{CLASSES, Packer, class_of};
use crate::lru::Lru;
use crate::medium::{Failed, Medium};
use crate::pipeline::Held;
use crate::storage::{Notes, Outcome, Storage, TOO_LARGE};
use std::collections::HashMap;
use trace::Access;

/// A segment, by number.
pub type Nth = u32;

/// What lies where.
#[derive(Clone, Copy)]
pub struct Segment {
    pub at: u64,
    pub class: usize,
    pub held: Held,
}

/// Who makes room (5.3).
pub trait Replacement {
    /// An object was put into a segment.
    fn put(&mut self, nth: Nth, segment: &Segment);

    /// It was asked for again.
    fn hit(&mut self, nth: Nth, segment: &Segment);

    /// Whose segment of this class the next object takes.
    fn target(&mut self, class: usize) -> Option<Nth>;

    /// Pairs of segments that change what they hold, in the quiet hours.
    fn compact(&mut self, _segments: &[Segment]) -> Vec<(Nth, Nth)> {
        Vec::new()
    }
}

pub struct Slots<R> {
    mapping: Mapping,
    packer: Packer,
    segments: Vec<Segment>,
    found: HashMap<u64, Nth>,
    replacement: R,
    too_large: u64,
}

impl<R: Replacement> Slots<R> {
    /// Bytes of the file.
    pub fn new(bytes: u64, replacement: R) -> Slots<R> {
        Slots {
            mapping: Mapping::new(bytes),
            packer: Packer::new(bytes, true),
            segments: Vec::new(),
            found: HashMap::new(),
            replacement,
            too_large: 0,
        }
    }

    /// A segment for an object of this class: a new one while there is room.
    fn make_room(&mut self, class: usize, held: Held) -> Option<Nth> {
        if let Some(at) = self.packer.place(class) {
            self.segments.push(Segment { at, class, held });
            return Some(self.segments.len() as Nth - 1);
        }
        let nth = self.replacement.target(class)?;
        let segment = &mut self.segments[nth as usize];
        // A former version of another class may lie elsewhere under the same name.
        if self.found.get(&segment.held.object.id) == Some(&nth) {
            self.found.remove(&segment.held.object.id);
        }
        segment.held = held;
        Some(nth)
    }

    fn moved(&mut self, id: u64, from: Nth, to: Nth) {
        if let Some(nth) = self.found.get_mut(&id).filter(|nth| **nth == from) {
            *nth = to;
        }
    }
}

impl<R: Replacement> Storage for Slots<R> {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.mapping.prepare(medium)
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        let held = Held::of(access);
        let Some(class) = class_of(&held.object) else {
            self.too_large += 1;
            return Ok(Outcome::Passed);
        };
        let known = self.found.get(&access.object).copied();
        if let Some(nth) = known {
            let segment = self.segments[nth as usize];
            if segment.held.answers(access) {
                self.mapping.load(medium, &segment.held.object, segment.at)?;
                self.replacement.hit(nth, &segment);
                return Ok(Outcome::Hit);
            }
        }
        let nth = match known.filter(|nth| self.segments[*nth as usize].class == class) {
            Some(nth) => {
                self.segments[nth as usize].held = held;
                nth
            }
            None => match self.make_room(class, held) {
                Some(nth) => nth,
                None => return Ok(Outcome::Passed),
            },
        };
        let segment = self.segments[nth as usize];
        self.mapping.store(medium, &held.object, segment.at)?;
        self.found.insert(held.object.id, nth);
        self.replacement.put(nth, &segment);
        Ok(Outcome::Stored)
    }

    fn begin_notes(&mut self) {
        self.too_large = 0;
    }

    fn notes(&self) -> Notes {
        Notes::from([(TOO_LARGE.into(), self.too_large as f64)])
    }

    /// Cache compaction (5.3.5).
    fn night(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        for (one, other) in self.replacement.compact(&self.segments) {
            let (first, second) = (self.segments[one as usize], self.segments[other as usize]);
            self.mapping.load(medium, &first.held.object, first.at)?;
            self.mapping.load(medium, &second.held.object, second.at)?;
            self.mapping.store(medium, &first.held.object, second.at)?;
            self.mapping.store(medium, &second.held.object, first.at)?;
            self.segments[one as usize].held = second.held;
            self.segments[other as usize].held = first.held;
            self.moved(first.held.object.id, one, other);
            self.moved(second.held.object.id, other, one);
        }
        Ok(())
    }
}

/// LRU (5.3.3), for each class.
#[derive(Default)]
pub struct LeastRecent([Lru<Nth, ()>; CLASSES]);

impl Replacement for LeastRecent {
    fn put(&mut self, nth: Nth, segment: &Segment) {
        self.0[segment.class].insert(nth, ());
    }

    fn hit(&mut self, nth: Nth, segment: &Segment) {
        self.0[segment.class].get(&nth);
    }

    fn target(&mut self, class: usize) -> Option<Nth> {
        self.0[class].pop_oldest().map(|(nth, ())| nth)
    }
}
