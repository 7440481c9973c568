//! BUDDY (WebCoSM 2.1): objects of as many blocks share a file of slots; what is larger than a threshold has a file of its
//! own.

use super::files::{CallSizes, Directories, Files};
use super::{Layout, Stored, check, unknown};
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Object;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Bytes.
const BLOCK: u64 = 512;
/// Names of the shared files begin here, above those of files of one object.
const SHARED: u64 = 1 << 40;

pub struct Buddy {
    /// Of each number of blocks, from one on.
    classes: Vec<Class>,
    large: Files,
    slots: HashMap<u64, u64>,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Class {
    file: Option<File>,
    free: BinaryHeap<Reverse<u64>>,
    slots: u64,
}

impl Buddy {
    /// The threshold is in blocks of 512 bytes.
    pub fn new(threshold: u64) -> Buddy {
        Buddy {
            classes: (0..threshold).map(|_| Class::default()).collect(),
            large: Files::new(Directories::Single, CallSizes::WHOLE),
            slots: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    /// Which file and where, for an object that is not too large.
    fn place(&self, object: &Object, slot: u64) -> Option<(File, u64)> {
        let blocks = object.size.div_ceil(BLOCK);
        let file = self.classes.get(blocks as usize - 1)?.file?;
        Some((file, slot * blocks * BLOCK))
    }
}

impl Layout for Buddy {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        for (nth, class) in (0..).zip(&mut self.classes) {
            class.file = Some(medium.create(ROOT, SHARED + nth)?);
        }
        Ok(())
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        let Some(class) = self.classes.get_mut(object.size.div_ceil(BLOCK) as usize - 1) else {
            return self.large.write(medium, object);
        };
        let slot = match class.free.pop() {
            Some(Reverse(slot)) => slot,
            None => {
                class.slots += 1;
                class.slots - 1
            }
        };
        self.slots.insert(object.id, slot);
        let (file, at) = self.place(object, slot).ok_or_else(|| unknown(object))?;
        self.buffer.resize(object.size as usize, 0);
        object.fill(0, &mut self.buffer);
        medium.write(file, at, &self.buffer)?;
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let Some(slot) = self.slots.get(&object.id) else { return self.large.read(medium, object) };
        let (file, at) = self.place(object, *slot).ok_or_else(|| unknown(object))?;
        self.buffer.resize(object.size as usize, 0);
        medium.read(file, at, &mut self.buffer)?;
        check(object, 0, &self.buffer)
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let Some(slot) = self.slots.remove(&object.id) else { return self.large.delete(medium, object) };
        self.classes[object.size.div_ceil(BLOCK) as usize - 1].free.push(Reverse(slot));
        Ok(())
    }
}
