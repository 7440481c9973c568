//! Fixed slots, as Squid's rock store (its wiki, Features/LargeRockStore; src/fs/rock and src/ipc/StoreMap.cc of 5.7).
//!
//! An object lies in a chain of slots, anywhere. Its anchor is at a hash of its key: who comes to an anchor that is taken
//! displaces it. When no slot is free, a hand goes round the anchors and frees what it meets; nothing is known of uses. What
//! a slot holds is written at once, and read four kilobytes at a time.

use super::record::{Kept, put_head};
use super::{Outcome, Storage};
use crate::layout::check;
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Version;
use std::collections::HashMap;
use trace::Access;
use trace::random::mix;

/// Bytes of a slot, of its head, of the file's head, and of a read.
const SLOT: u64 = 16 << 10;
const HEAD: u64 = 40;
const FILE_HEAD: u64 = 16 << 10;
const READ: usize = 4096;
const PAYLOAD: u64 = SLOT - HEAD;

pub struct Rock {
    file: Option<File>,
    /// Whose each anchor is.
    anchors: Vec<Option<u64>>,
    /// The one to be freed next.
    victim: usize,
    free: Vec<u32>,
    kept: HashMap<u64, Kept<Vec<u32>>>,
    buffer: Vec<u8>,
}

impl Rock {
    /// Bytes of the file.
    pub fn new(space: u64) -> Rock {
        let slots = u32::try_from(space.saturating_sub(FILE_HEAD) / SLOT).unwrap_or(u32::MAX);
        Rock {
            file: None,
            anchors: vec![None; slots as usize],
            victim: 0,
            free: (0..slots).rev().collect(),
            kept: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    fn file(&self) -> Result<File, Failed> {
        self.file.ok_or_else(|| "not prepared".into())
    }

    fn anchor(&self, object: u64) -> usize {
        (mix(object) % self.anchors.len() as u64) as usize
    }

    fn leave(&mut self, anchor: usize) {
        let object = self.anchors[anchor].take();
        let kept = object.and_then(|object| self.kept.remove(&object));
        self.free.extend(kept.into_iter().flat_map(|kept| kept.place));
    }

    /// A free slot, for which others may go.
    fn take_slot(&mut self) -> Option<u32> {
        for _ in 0..self.anchors.len() {
            if !self.free.is_empty() {
                break;
            }
            self.victim = (self.victim + 1) % self.anchors.len();
            self.leave(self.victim);
        }
        self.free.pop()
    }

    fn write(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<(), Failed> {
        let file = self.file()?;
        let mut kept = Kept { version: Version::of(access), place: Vec::new() };
        let mut at = 0;
        while at < access.size {
            let slot = self.take_slot().ok_or("no slot is free")?;
            let count = PAYLOAD.min(access.size - at);
            self.buffer.clear();
            self.buffer.resize((HEAD + count) as usize, 0);
            put_head(&kept.version.object, [at, u64::from(slot)], &mut self.buffer[..HEAD as usize]);
            kept.version.object.fill(at, &mut self.buffer[HEAD as usize..]);
            medium.write(file, FILE_HEAD + u64::from(slot) * SLOT, &self.buffer)?;
            kept.place.push(slot);
            at += count;
        }
        let anchor = self.anchor(access.object);
        self.anchors[anchor] = Some(access.object);
        self.kept.insert(access.object, kept);
        Ok(())
    }

    fn read(&mut self, medium: &mut dyn Medium, id: u64) -> Result<(), Failed> {
        let file = self.file()?;
        let Some(Kept { version: Version { object, .. }, place }) = self.kept.get(&id) else { return Ok(()) };
        self.buffer.resize(object.size as usize, 0);
        for (slot, payload) in place.iter().zip(self.buffer.chunks_mut(PAYLOAD as usize)) {
            let mut at = FILE_HEAD + u64::from(*slot) * SLOT + HEAD;
            for piece in payload.chunks_mut(READ) {
                medium.read(file, at, piece)?;
                at += piece.len() as u64;
            }
        }
        check(object, 0, &self.buffer)
    }
}

impl Storage for Rock {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.file = Some(medium.create(ROOT, 0)?);
        Ok(())
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        if self.kept.get(&access.object).is_some_and(|kept| kept.version.answers(access)) {
            self.read(medium, access.object)?;
            return Ok(Outcome::Hit);
        }
        if access.size.div_ceil(PAYLOAD) > self.anchors.len() as u64 {
            return Ok(Outcome::Passed);
        }
        // Whoever is at its anchor, an older version or another object, makes way.
        self.leave(self.anchor(access.object));
        self.write(medium, access)?;
        Ok(Outcome::Stored)
    }

    fn finish(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }

    fn free_pieces(&self) -> Option<(u64, u64)> {
        Some((self.free.len() as u64, self.free.len() as u64 * SLOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    fn ask(rock: &mut Rock, ufs: &mut FileSystem, object: u64, size: u64) -> Outcome {
        rock.get(ufs, &Access { object, size, modified: 1, ..Access::default() }).unwrap()
    }

    #[test]
    fn slots_are_chained_and_an_anchor_has_one() {
        let (mut rock, mut ufs) = (Rock::new(FILE_HEAD + 64 * SLOT), FileSystem::new(ST15150W, ULTRA_1));
        rock.prepare(&mut ufs).unwrap();
        assert_eq!(ask(&mut rock, &mut ufs, 1, 3 * PAYLOAD + 1), Outcome::Stored);
        assert_eq!(rock.kept[&1].place.len(), 4);
        assert_eq!(ask(&mut rock, &mut ufs, 1, 3 * PAYLOAD + 1), Outcome::Hit);
        let other = (2..).find(|other| rock.anchor(*other) == rock.anchor(1)).unwrap();
        assert_eq!(ask(&mut rock, &mut ufs, other, 100), Outcome::Stored);
        assert_eq!(rock.free.len(), 63, "the other one has gone, all of it");
        assert_eq!(ask(&mut rock, &mut ufs, 1, 65 * PAYLOAD), Outcome::Passed);
        assert_eq!(ask(&mut rock, &mut ufs, 1, 64 * PAYLOAD), Outcome::Stored, "all others go");
        assert_eq!((rock.kept.len(), rock.free.len()), (1, 0));
    }

    #[test]
    fn a_hand_goes_round_the_anchors() {
        let (mut rock, mut ufs) = (Rock::new(FILE_HEAD + 64 * SLOT), FileSystem::new(ST15150W, ULTRA_1));
        rock.prepare(&mut ufs).unwrap();
        for object in 0..1000 {
            ask(&mut rock, &mut ufs, object, 2 * PAYLOAD);
        }
        let slots: usize = rock.kept.values().map(|kept| kept.place.len()).sum();
        assert_eq!(slots + rock.free.len(), 64);
        assert!(rock.kept.len() > 25, "{}", rock.kept.len());
        assert!(rock.kept.iter().all(|(object, _)| rock.anchors[rock.anchor(*object)] == Some(*object)));
    }
}
