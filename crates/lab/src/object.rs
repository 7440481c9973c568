//! Objects, their versions and their bytes: every version of every object has its own, so that what is read can be checked.
//!
//! Words of eight bytes that grow by a constant step from a start that is the version's own. A modelled disk can
//! therefore remember a sector by its first word (`sectors`).

use trace::Access;
use trace::random::mix;
use trace::statistics::is_unchanged;

/// What is stored: one version of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    pub id: u64,
    pub server: u64,
    /// Of its URL; its server where the trace has numbers alone.
    pub directory: u64,
    pub version: u32,
    /// Bytes, at least 1.
    pub size: u64,
}

pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
pub const WORD: usize = 8;

impl Object {
    /// What is asked for.
    pub fn of(access: &Access) -> Object {
        Object::with(access, access.modified, access.size)
    }

    /// The version of what is asked for that had this Last-Modified and size.
    pub fn with(access: &Access, modified: u64, size: u64) -> Object {
        Object {
            id: access.object,
            server: access.server,
            directory: access.directory.unwrap_or(access.server),
            version: (modified ^ size) as u32,
            size,
        }
    }

    fn start(&self) -> u64 {
        mix(self.id ^ mix(u64::from(self.version) + 1)) | 1
    }

    /// The bytes from `at`, which is a multiple of eight.
    pub fn fill(&self, at: u64, into: &mut [u8]) {
        let mut word = self.start().wrapping_add(STEP.wrapping_mul(at / WORD as u64));
        let mut words = into.chunks_exact_mut(WORD);
        for bytes in &mut words {
            bytes.copy_from_slice(&word.to_le_bytes());
            word = word.wrapping_add(STEP);
        }
        let rest = words.into_remainder();
        rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
    }

    /// Whether these are the bytes from `at`, which is a multiple of eight.
    pub fn is(&self, at: u64, bytes: &[u8]) -> bool {
        let first = self.start().wrapping_add(STEP.wrapping_mul(at / WORD as u64));
        run(bytes, first) == bytes.len()
    }
}

/// A stored version, and what tells it from a newer one.
#[derive(Clone, Copy)]
pub struct Version {
    pub object: Object,
    pub modified: u64,
}

impl Version {
    pub fn of(access: &Access) -> Version {
        Version { object: Object::of(access), modified: access.modified }
    }

    /// Whether what is asked for has not changed since.
    pub fn answers(&self, access: &Access) -> bool {
        is_unchanged((self.modified, self.object.size), (access.modified, access.size))
    }
}

/// How many bytes, from the front, are the words from `first` on.
pub fn run(bytes: &[u8], first: u64) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD>();
    let mut word = first;
    let is_next = |chunk: &&[u8; WORD]| {
        let same = u64::from_le_bytes(**chunk) == word;
        if same {
            word = word.wrapping_add(STEP);
        }
        same
    };
    let same = words.iter().take_while(is_next).count();
    let rest = words.get(same).map_or(rest, |chunk| &chunk[..]);
    same * WORD + rest.iter().zip(word.to_le_bytes()).take_while(|(a, b)| **a == *b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_own_bytes() {
        let object = Object { id: 7, server: 1, size: 1000, ..Object::default() };
        let mut bytes = vec![0; 1000];
        object.fill(0, &mut bytes);
        assert!(object.is(0, &bytes) && object.is(512, &bytes[512..]));
        assert!(!Object { version: 1, ..object }.is(0, &bytes) && !Object { id: 8, ..object }.is(0, &bytes));
        assert!(!object.is(8, &bytes), "shifted bytes are others");
        bytes[999] ^= 1;
        assert!(!object.is(0, &bytes));
    }
}
