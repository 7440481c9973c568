//! Structured fields (RFC 9651 section 4.2): all lines of a field joined and parsed strictly.

use http::{HeaderMap, HeaderName};
use sfv::{FieldType, Parser};

/// `None`: the field is absent, or not wholly of its type.
pub(crate) fn parse<T: FieldType>(headers: &HeaderMap, name: &HeaderName) -> Option<T> {
    let mut lines = headers.get_all(name).into_iter();
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Parser::new(first.as_bytes()).parse().ok() };
    let mut joined = [first.as_bytes(), b",", second.as_bytes()].concat();
    for line in lines {
        joined.push(b',');
        joined.extend_from_slice(line.as_bytes());
    }
    Parser::new(&joined).parse().ok()
}
