//! By what a request is known in the logs, at its origin and to its client.

use http::HeaderValue;
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;

/// Bytes of an id that is taken over.
const MOST: usize = 128;

/// A request's id.
#[derive(Clone, Debug)]
pub enum Id {
    /// By chance: 32 hexadecimal digits.
    Made([u64; 2]),
    /// What a trusted proxy in front calls it.
    TakenOver(HeaderValue),
}

impl Id {
    /// One that a request brings: up to 128 visible ASCII characters.
    pub fn brought(value: &HeaderValue) -> Option<Id> {
        let is_usable =
            |bytes: &[u8]| (1..=MOST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        is_usable(value.as_bytes()).then(|| Id::TakenOver(value.clone()))
    }

    /// As `X-Request-Id` has it.
    pub fn value(&self) -> HeaderValue {
        match self {
            Id::Made(_) => HeaderValue::try_from(self.to_string()).expect("hexadecimal digits"),
            Id::TakenOver(value) => value.clone(),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Made([one, other]) => write!(f, "{one:016x}{other:016x}"),
            Id::TakenOver(value) => f.write_str(value.to_str().unwrap_or_default()),
        }
    }
}

/// Gives one worker's requests their ids. They do not say how many there are.
pub struct Ids(Cell<u64>);

impl Default for Ids {
    fn default() -> Ids {
        Ids(Cell::new(RandomState::new().hash_one(0)))
    }
}

impl Ids {
    pub fn next(&self) -> Id {
        Id::Made([self.number(), self.number()])
    }

    /// The next of wyrand (Wang Yi), a generator of one multiplication.
    fn number(&self) -> u64 {
        let state = self.0.get().wrapping_add(0xa076_1d64_78bd_642f);
        self.0.set(state);
        let product = u128::from(state) * u128::from(state ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_digits_and_differ() {
        let (one, other) = (Ids::default(), Ids::default());
        let all = [one.next(), one.next(), other.next()].map(|id| id.to_string());
        assert!(
            all.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
            "{all:?}"
        );
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    }

    #[test]
    fn what_could_be_taken_for_another_field_is_not_taken_over() {
        let brought =
            |text: &[u8]| Id::brought(&HeaderValue::from_bytes(text).unwrap()).map(|id| id.to_string());
        assert_eq!(brought(b"a-1/x:=").as_deref(), Some("a-1/x:="));
        assert_eq!(brought(&[b'a'; MOST]).map(|id| id.len()), Some(MOST));
        for wrong in [&b""[..], b"a b", b"a\tb", &[b'a'; MOST + 1], b"\xe9"] {
            assert_eq!(brought(wrong), None);
        }
    }
}
