//! The list grammar of field values (RFC 9110 sections 5.6.1 to 5.6.4): members between commas, quoted strings whole.

use http::header::{AsHeaderName, HeaderMap};

/// The members of all lines of one field, in order.
pub(crate) fn members_of(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().flat_map(|line| members(line.as_bytes()))
}

/// The members of one line, trimmed; empty members do not count. A quote that never closes is an ordinary byte, so
/// that it hides nothing behind it.
pub(crate) fn members(line: &[u8]) -> Members<'_> {
    Members { rest: line, quotes: true }
}

pub(crate) struct Members<'a> {
    rest: &'a [u8],
    quotes: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = self.member_end();
            let member = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

impl Members<'_> {
    fn member_end(&mut self) -> usize {
        let mut at = 0;
        while at < self.rest.len() {
            match self.rest[at] {
                b',' => return at,
                b'"' if self.quotes => match quoted_end(&self.rest[at..]) {
                    Some(length) => at += length,
                    None => {
                        self.quotes = false;
                        at += 1;
                    }
                },
                _ => at += 1,
            }
        }
        at
    }
}

/// The length of the quoted string at the start of `bytes`, quotes included (RFC 9110 section 5.6.4).
pub(crate) fn quoted_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Optional whitespace is spaces and tabs (RFC 9110 section 5.6.3).
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(line: &str) -> Vec<&str> {
        members(line.as_bytes()).map(|m| std::str::from_utf8(m).unwrap()).collect()
    }

    #[test]
    fn rfc9110_5_6_1_lists() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            (" , ,, ", &[]),
            ("foo , ,bar,charlie", &["foo", "bar", "charlie"]),
            ("a=\"x, y\", b", &["a=\"x, y\"", "b"]),
            (r#"a="x\", y", b"#, &[r#"a="x\", y""#, "b"]),
            ("a=\"x, no-store", &["a=\"x", "no-store"]),
            (r#"a="\", b, c\"#, &[r#"a="\""#, "b", r"c\"]),
        ];
        for (line, expected) in table {
            assert_eq!(split(line), *expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in "[\",\\\\a =]{0,40}", bytes: Vec<u8>) {
            prop_assert!(members(line.as_bytes()).all(|m| !m.is_empty()));
            members(&bytes).count();
        }
    }
}
