//! Where recipes put objects: one file for each kind of layout.

pub mod buddy;
pub mod cern;
pub mod files;
pub mod mapped;
pub mod stream;
pub mod unified;

use crate::medium::{Failed, Medium};
use crate::notes::Notes;
use crate::object::Object;

/// Stores objects on a medium as it is told. What it reads it checks: wrong bytes are an error.
pub trait Layout {
    /// Once, before the first request; what it costs is not measured.
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed>;

    /// Stores an object that is not stored, if it finds room.
    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed>;

    /// Reads a stored object, now or with others that follow.
    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed>;

    /// Removes a stored object.
    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed>;

    /// Does what still waits.
    fn finish(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }

    /// Free pieces of its space, if it manages any: how many, and bytes in all.
    fn free_pieces(&self) -> Option<(u64, u64)> {
        None
    }

    /// Where they lie, if it says so.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }

    /// Measuring begins now, for those that count.
    fn begin_notes(&mut self) {}

    /// What else a paper tells of it.
    fn notes(&self) -> Notes {
        Notes::default()
    }
}

/// The free pieces of a space, bytes: where each begins and how long it is, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    pub bytes: u64,
    pub pieces: Vec<(u64, u64)>,
}

/// Whether an object found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Yes,
    No,
    /// Not before others have gone.
    Full,
}

fn unknown(object: &Object) -> Failed {
    format!("object {} is not stored", object.id)
}

pub(crate) fn check(object: &Object, at: u64, bytes: &[u8]) -> Result<(), Failed> {
    match object.is(at, bytes) {
        true => Ok(()),
        false => Err(format!("wrong bytes of object {} at {at}", object.id)),
    }
}

#[cfg(test)]
mod tests {
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};
    use crate::recipe::ALL;
    use crate::scale::Scale;
    use proptest::prelude::*;
    use trace::Access;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Every recipe gives back what it was given, with a disk that is always full and a file with little room beside.
        #[test]
        fn what_is_stored_is_read(
            turns in proptest::collection::vec((0u64..60, 1u64..30_000, 0u64..3), 1..200),
            utilization in 0.3f64..0.85,
        ) {
            for recipe in ALL {
                let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
                let scale = Scale { disk: 300_000, utilization, locality_buffers: 3, ..Scale::default() };
                let mut storage = (recipe.storage)(&scale);
                storage.prepare(&mut ufs).unwrap();
                for (object, size, modified) in turns.iter().copied() {
                    let modified = 1 + modified / 2;
                    let access = Access { object, server: object % 7, size, modified, ..Access::default() };
                    storage.get(&mut ufs, &access).unwrap();
                }
                storage.finish(&mut ufs).unwrap();
            }
        }
    }
    /// What finds no room in a file of a few slots passes; it is no error.
    #[test]
    fn a_cache_of_a_few_slots_passes_what_has_no_room() {
        for recipe in ALL {
            for disk in [1, 600, 3_000, 20_000] {
                let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
                let scale = Scale { disk, locality_buffers: 3, ..Scale::default() };
                let mut storage = (recipe.storage)(&scale);
                storage.prepare(&mut ufs).unwrap();
                for nth in 0..200 {
                    let size = 1 + nth * 37 % 900;
                    let access = Access { object: nth % 50, server: nth % 7, size, ..Access::default() };
                    let outcome = storage.get(&mut ufs, &access);
                    assert!(outcome.is_ok(), "{} of {disk} bytes: {outcome:?}", recipe.name);
                }
                storage.finish(&mut ufs).unwrap();
            }
        }
    }
}
