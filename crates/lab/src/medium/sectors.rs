//! What lies on a modelled disk, sector by sector.
//!
//! A sector that holds an object's bytes, and zeros behind them, is remembered by its first word; any other as it is. So a
//! disk takes ten bytes of memory for each sector of the stretches that were written.

use crate::block::SECTOR;
use crate::object::{STEP, WORD, run};
use policy::collections::lru::Quick;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

#[derive(Default)]
pub struct Sectors {
    /// By number; what was never written is not there.
    stretches: HashMap<u64, Box<Stretch>, BuildHasherDefault<Quick>>,
    literal: HashMap<u64, Box<[u8; SECTOR]>>,
}

struct Stretch {
    first: [u64; STRETCH],
    /// Bytes of the words from `first`; zeros follow. `LITERAL`: see there.
    length: [u16; STRETCH],
}

impl Stretch {
    fn zeros() -> Box<Stretch> {
        Box::new(Stretch { first: [0; STRETCH], length: [0; STRETCH] })
    }
}

/// Sectors of a stretch.
const STRETCH: usize = 1024;
const LITERAL: u16 = u16::MAX;

impl Sectors {
    /// Writes at a byte, which need not begin a sector: what is beside it stays.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (sector, from, piece) in pieces(at, bytes.len()) {
            let bytes = &bytes[piece];
            if bytes.len() == SECTOR {
                self.put(sector, bytes.try_into().unwrap_or(&[0; SECTOR]));
            } else {
                let mut whole = [0; SECTOR];
                self.get(sector, &mut whole);
                whole[from..from + bytes.len()].copy_from_slice(bytes);
                self.put(sector, &whole);
            }
        }
    }

    pub fn read(&self, at: u64, into: &mut [u8]) {
        for (sector, from, piece) in pieces(at, into.len()) {
            let into = &mut into[piece];
            let mut whole = [0; SECTOR];
            self.get(sector, &mut whole);
            into.copy_from_slice(&whole[from..from + into.len()]);
        }
    }

    fn put(&mut self, sector: u64, bytes: &[u8; SECTOR]) {
        let first = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let length = run(bytes, first);
        // Words from zero on are words, too.
        let is_run = bytes[length..].iter().all(|byte| *byte == 0) && (first != 0 || length <= WORD);
        let length = match is_run {
            true if first == 0 => 0,
            true => length as u16,
            false => LITERAL,
        };
        let at = sector as usize % STRETCH;
        let stretch = self.stretches.entry(sector / STRETCH as u64).or_insert_with(Stretch::zeros);
        let before = std::mem::replace(&mut stretch.length[at], length);
        stretch.first[at] = first;
        if length == LITERAL {
            self.literal.insert(sector, Box::new(*bytes));
        } else if before == LITERAL {
            self.literal.remove(&sector);
        }
    }

    fn get(&self, sector: u64, into: &mut [u8; SECTOR]) {
        let at = sector as usize % STRETCH;
        let Some(stretch) = self.stretches.get(&(sector / STRETCH as u64)) else {
            into.fill(0);
            return;
        };
        match stretch.length[at] {
            LITERAL => {
                if let Some(bytes) = self.literal.get(&sector) {
                    into.copy_from_slice(&bytes[..]);
                }
            }
            length => {
                let (words, zeros) = into.split_at_mut(length as usize);
                let mut word = stretch.first[at];
                for chunk in words.chunks_mut(WORD) {
                    chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
                    word = word.wrapping_add(STEP);
                }
                zeros.fill(0);
            }
        }
    }
}

/// The sectors of a range: number, first byte in it, and which bytes of the range lie there.
fn pieces(at: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let here = at + done as u64;
        let from = (here % SECTOR as u64) as usize;
        let count = (SECTOR - from).min(length - done);
        let piece = done..done + count;
        done += count;
        Some((here / SECTOR as u64, from, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use proptest::prelude::*;

    #[test]
    fn objects_take_no_more_than_their_first_words() {
        let mut sectors = Sectors::default();
        let object = Object { id: 9, version: 2, size: 3000, ..Object::default() };
        let mut bytes = vec![0; 3000];
        object.fill(0, &mut bytes);
        sectors.write(1024, &bytes);
        assert!(sectors.literal.is_empty());
        let mut back = vec![0; 3000];
        sectors.read(1024, &mut back);
        assert!(object.is(0, &back));
    }

    proptest! {
        /// As an array of bytes does, whatever is written.
        #[test]
        fn sectors_are_bytes(
            writes in proptest::collection::vec((0u64..4000, 1usize..900, any::<u8>(), 0u64..4), 1..40),
        ) {
            let mut sectors = Sectors::default();
            let mut bytes = vec![0u8; 10 * SECTOR];
            for (at, length, value, id) in writes {
                let mut piece = vec![value / 64; length];
                if value > 100 {
                    Object { id, ..Object::default() }.fill(0, &mut piece);
                }
                sectors.write(at, &piece);
                bytes[at as usize..at as usize + length].copy_from_slice(&piece);
                let mut back = vec![1; bytes.len()];
                sectors.read(0, &mut back);
                prop_assert!(back == bytes);
            }
        }
    }
}
