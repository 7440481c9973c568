//! Storages of today, which replace by themselves: the caches that people run, and this one.

pub mod cosm;
pub mod cyclic_log;
pub mod nginx;
pub mod rock;

use crate::content::Object;
use trace::Access;
use trace::statistics::is_unchanged;

/// An object that is stored, and where.
struct Kept<P> {
    object: Object,
    modified: u64,
    place: P,
}

impl<P> Kept<P> {
    fn of(access: &Access, place: P) -> Kept<P> {
        Kept { object: Object::of(access), modified: access.modified, place }
    }

    /// Whether it is what is asked for.
    fn answers(&self, access: &Access) -> bool {
        is_unchanged((self.modified, self.object.size), (access.modified, access.size))
    }
}

/// A head of words before an object's bytes, as long as a store's own.
fn put_head(object: &Object, more: [u64; 2], into: &mut [u8]) {
    let words = [object.id, u64::from(object.version), object.size, more[0], more[1]];
    for (bytes, word) in into.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
