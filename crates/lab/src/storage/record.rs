//! What storages that replace by themselves keep of an object, in memory and before its bytes.

use crate::object::{Object, Version};

/// A version that is stored, and where.
pub struct Kept<P> {
    pub version: Version,
    pub place: P,
}

/// A head of words before an object's bytes, as long as a store's own.
pub fn put_head(object: &Object, more: [u64; 2], into: &mut [u8]) {
    let words = [object.id, u64::from(object.version), object.size, more[0], more[1]];
    for (bytes, word) in into.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
