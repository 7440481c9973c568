//! Strings that occur again and again, each kept once and known by a number.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers are given in the order in which words first come, from 0. A word costs its bytes and about 20 more.
#[derive(Clone, Default)]
pub struct Words {
    text: String,
    /// Where each word ends in `text`.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
}

impl Words {
    pub fn new() -> Words {
        Words::default()
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The word of a number that was given.
    pub fn word(&self, number: u32) -> &str {
        word(&self.text, &self.ends, number)
    }

    pub fn number(&self, of: &str) -> Option<u32> {
        let Words { text, ends, numbers } = self;
        numbers.find(xxh3_64(of.as_bytes()), |&number| word(text, ends, number) == of).copied()
    }

    /// The word's number, a new one if it has none. None when 2³² − 1 are given: the last is kept for "missing".
    pub fn add(&mut self, of: &str) -> Option<u32> {
        if let Some(number) = self.number(of) {
            return Some(number);
        }
        let number = u32::try_from(self.ends.len()).ok().filter(|number| *number < u32::MAX)?;
        self.text.push_str(of);
        self.ends.push(self.text.len());
        let Words { text, ends, numbers } = self;
        let hash = |number: &u32| xxh3_64(word(text, ends, *number).as_bytes());
        numbers.insert_unique(xxh3_64(of.as_bytes()), number, hash);
        Some(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|number| self.word(number as u32))
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_list().entries(self.iter().take(20)).finish()
    }
}

fn word<'t>(text: &'t str, ends: &[usize], number: u32) -> &'t str {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &text[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_one_number() {
        let mut words = Words::new();
        let numbers: Vec<_> = ["b", "", "a", "b", ""].iter().map(|word| words.add(word).unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1]);
        assert_eq!(words.iter().collect::<Vec<_>>(), ["b", "", "a"]);
        assert_eq!((words.number("a"), words.number("c")), (Some(2), None));
    }
}
