//! A mapped file of one size that is its own cache (Maltzahn, Chapter 5): once it is full, an object takes the segment of
//! another one of its class. Objects larger than a page pass.

use crate::layout::mapped::Mapping;
use crate::layout::mapped::segments::{CLASSES, Packer, class_of};
use crate::medium::{Failed, Medium};
use crate::notes::{Notes, TOO_LARGE};
use crate::object::Version;
use crate::storage::{Outcome, Storage};
use policy::collections::lru::Lru;
use std::collections::HashMap;
use trace::Access;

/// A segment, by number.
pub type Nth = u32;

/// What lies where.
#[derive(Clone, Copy)]
pub struct Segment {
    pub at: u64,
    pub class: usize,
    pub version: Version,
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
    fn make_room(&mut self, class: usize, version: Version) -> Option<Nth> {
        if let Some(at) = self.packer.place(class) {
            self.segments.push(Segment { at, class, version });
            return Some(self.segments.len() as Nth - 1);
        }
        let nth = self.replacement.target(class)?;
        let segment = &mut self.segments[nth as usize];
        // A former version of another class may lie elsewhere under the same name.
        if self.found.get(&segment.version.object.id) == Some(&nth) {
            self.found.remove(&segment.version.object.id);
        }
        segment.version = version;
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
        let version = Version::of(access);
        let Some(class) = class_of(&version.object) else {
            self.too_large += 1;
            return Ok(Outcome::Passed);
        };
        let known = self.found.get(&access.object).copied();
        if let Some(nth) = known {
            let segment = self.segments[nth as usize];
            if segment.version.answers(access) {
                self.mapping.load(medium, &segment.version.object, segment.at)?;
                self.replacement.hit(nth, &segment);
                return Ok(Outcome::Hit);
            }
        }
        let nth = match known.filter(|nth| self.segments[*nth as usize].class == class) {
            Some(nth) => {
                self.segments[nth as usize].version = version;
                nth
            }
            None => match self.make_room(class, version) {
                Some(nth) => nth,
                None => return Ok(Outcome::Passed),
            },
        };
        let segment = self.segments[nth as usize];
        self.mapping.store(medium, &version.object, segment.at)?;
        self.found.insert(version.object.id, nth);
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
            self.mapping.load(medium, &first.version.object, first.at)?;
            self.mapping.load(medium, &second.version.object, second.at)?;
            self.mapping.store(medium, &first.version.object, second.at)?;
            self.mapping.store(medium, &second.version.object, first.at)?;
            self.segments[one as usize].version = second.version;
            self.segments[other as usize].version = first.version;
            self.moved(first.version.object.id, one, other);
            self.moved(second.version.object.id, other, one);
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
