//! Lists of preferences with weights, as in Accept-Language (RFC 9110 sections 12.4.2 and 12.5.2 to 12.5.4).

use crate::list::{members, trim};
use http::header::{HeaderMap, HeaderName};

/// Equal ones mean the same; the best sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Preference<'a> {
    /// Thousandths that are missing to a weight of 1.
    reserve: u16,
    /// A token, in the case of the text it was read from.
    pub range: &'a [u8],
}

impl Preference<'_> {
    /// Weight 0 means "not acceptable" (12.4.2).
    pub(crate) fn is_acceptable(&self) -> bool {
        self.reserve < 1000
    }

    pub(crate) fn outweighs(&self, other: &Preference) -> bool {
        self.reserve < other.reserve
    }
}

/// All lines of a field as one list, in lower case.
pub(crate) fn lower_case(headers: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    let mut list = Vec::with_capacity(64);
    for (i, line) in headers.get_all(name).iter().enumerate() {
        if i > 0 {
            list.push(b',');
        }
        list.extend_from_slice(line.as_bytes());
    }
    list.make_ascii_lowercase();
    list
}

/// The set of preferences, best first, whatever order they come in: among equal weights it carries no meaning that can
/// be relied on (12.5.4). `None`: some member is not a range with at most a weight. The case of ranges means nothing, so
/// `value` is lower-case already.
pub(crate) fn preferences(value: &[u8]) -> Option<Vec<Preference<'_>>> {
    let mut all = Vec::with_capacity(USUAL);
    for member in members(value) {
        all.push(preference(member)?);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// The shortest way to write them: without a weight of 1, and without zeros at the end of a fraction.
pub(crate) fn write(preferences: &[Preference], out: &mut Vec<u8>) {
    for (i, Preference { reserve, range }) in preferences.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(range);
        match 1000 - reserve {
            1000 => {}
            0 => out.extend_from_slice(b";q=0"),
            weight => {
                out.extend_from_slice(b";q=0.");
                let digits = [weight / 100, weight / 10 % 10, weight % 10].map(|digit| b'0' + digit as u8);
                let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
                out.extend_from_slice(&digits[..digits.len() - zeros]);
            }
        }
    }
}

/// Members of a browser's lists, about.
const USUAL: usize = 8;

fn preference(member: &[u8]) -> Option<Preference<'_>> {
    let (range, weight) = match member.iter().position(|b| *b == b';') {
        Some(at) => (trim(&member[..at]), thousandths(trim(&member[at + 1..]))?),
        None => (member, 1000),
    };
    let is_token = !range.is_empty() && range.iter().all(|b| is_token_byte(*b));
    is_token.then_some(Preference { reserve: 1000 - weight, range })
}

/// `q=` and a qvalue (12.4.2).
fn thousandths(weight: &[u8]) -> Option<u16> {
    let (b"q=" | b"Q=", value) = weight.split_at_checked(2)? else { return None };
    let (&whole, rest) = value.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let fraction = (0..3).try_fold(0, |sum, at| match digits.get(at) {
        None => Some(sum * 10),
        Some(digit) => digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0')),
    })?;
    match (whole, fraction) {
        (b'0', fraction) => Some(fraction),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

/// RFC 9110 section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(value: &str) -> Option<String> {
        let mut out = Vec::new();
        write(&preferences(&value.to_ascii_lowercase().into_bytes())?, &mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn rfc9110_12_4_2_weights() {
        for (value, expected) in [
            ("", Some("")),
            (" , ,", Some("")),
            ("en", Some("en")),
            ("EN ; Q=1", Some("en")),
            ("en;q=1.", Some("en")),
            ("en;q=1.000", Some("en")),
            ("en;q=0.50", Some("en;q=0.5")),
            ("en;q=0.05", Some("en;q=0.05")),
            ("en;q=0.", Some("en;q=0")),
            ("en;q=0.000", Some("en;q=0")),
            ("*;q=0.1, en", Some("en,*;q=0.1")),
            ("de;q=0.7, fr;q=0.8", Some("fr;q=0.8,de;q=0.7")),
            ("gzip, br", Some("br,gzip")),
            ("b,a;q=0.9,c , a;q=0.90", Some("b,c,a;q=0.9")),
            ("a;q=0.1, a", Some("a,a;q=0.1")),
            ("en;q=2", None),
            ("en;q=1.1", None),
            ("en;q=1.001", None),
            ("en;q=0.1234", None),
            ("en;q=0.0000", None),
            ("en;q=.5", None),
            ("en;q=-0", None),
            ("en;q", None),
            ("en;q=", None),
            ("en;q =1", None),
            ("en;q=\"1\"", None),
            ("en;", None),
            (";q=1", None),
            ("en;q=1;q=1", None),
            ("en;level=1", None),
            ("en gb", None),
            ("\"en\"", None),
            ("de, en;q=x", None),
        ] {
            assert_eq!(canonical(value).as_deref(), expected, "{value}");
        }
    }

    fn list() -> impl Strategy<Value = Vec<(String, u16)>> {
        let weight = proptest::sample::select(&[0u16, 1, 10, 100, 500, 501, 999, 1000][..]);
        proptest::collection::vec(("[a-c*](-[a-c])?", weight), 0..5)
    }

    /// One of several ways to write the same list, in the order that is given.
    fn written(list: &[(String, u16)], how: u8) -> String {
        let weight = |weight: u16| match (weight, how % 3) {
            (1000, 0) => String::new(),
            (1000, _) => ";q=1.0".to_owned(),
            (weight, 1) => format!(" ; Q=0.{weight:03}"),
            (weight, _) => format!(";q=0.{}", format!("{weight:03}").trim_end_matches('0')),
        };
        let case = |range: &str| if how > 100 { range.to_uppercase() } else { range.to_owned() };
        let members: Vec<_> = list.iter().map(|(r, w)| case(r) + &weight(*w)).collect();
        members.join(if how.is_multiple_of(2) { "," } else { " ,, " })
    }

    proptest! {
        #[test]
        fn equal_sets_and_only_those_are_written_alike(
            (a, b) in (list(), list()), how: [u8; 2], same: bool, turn: prop::sample::Index,
        ) {
            let b = if same { a.clone() } else { b };
            let mut turned = b.clone();
            if !turned.is_empty() {
                turned.rotate_left(turn.index(b.len()));
            }
            let set = |list: &[(String, u16)]| list.iter().cloned().collect::<std::collections::BTreeSet<_>>();
            let (first, second) = (canonical(&written(&a, how[0])), canonical(&written(&turned, how[1])));
            prop_assert!(first.is_some() && second.is_some());
            prop_assert_eq!(first == second, set(&a) == set(&b));
        }

        #[test]
        fn what_is_written_is_read_as_the_same(value in "[a-cQq*;=., 01\"]{0,16}") {
            if let Some(text) = canonical(&value) {
                prop_assert_eq!(canonical(&text), Some(text.clone()));
            }
        }

        #[test]
        fn never_panics(value: Vec<u8>) {
            preferences(&value);
        }
    }
}
