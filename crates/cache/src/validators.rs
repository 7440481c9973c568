//! Entity tags, their lists and their two comparisons (RFC 9110 sections 8.8.3 and 13.1).

use crate::list::trim;

/// `"opaque"` or `W/"opaque"`. A value without quotes, which some origins send, stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    pub(crate) fn parse(value: &'a [u8]) -> EntityTag<'a> {
        let value = trim(value);
        match value.strip_prefix(b"W/") {
            Some(opaque) => EntityTag { weak: true, opaque },
            None => EntityTag { weak: false, opaque: value },
        }
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.weak
    }

    pub(crate) fn is_quoted(&self) -> bool {
        self.opaque.first() == Some(&b'"')
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn parts(&self) -> (bool, &'a [u8]) {
        (self.weak, self.opaque)
    }

    /// Section 8.8.3.2: both strong and equal.
    pub(crate) fn strongly_equals(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Section 8.8.3.2: equal, weak or not.
    pub(crate) fn weakly_equals(&self, other: &EntityTag) -> bool {
        self.opaque == other.opaque
    }
}

/// The tags of one If-None-Match line. Within a tag's quotes neither comma nor backslash is special.
pub(crate) fn entity_tags(line: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while let [b',' | b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        let (tag, tail) = rest.split_at(tag_length(rest));
        rest = tail;
        (!tag.is_empty()).then(|| EntityTag::parse(tag))
    })
}

fn tag_length(bytes: &[u8]) -> usize {
    let open = if bytes.starts_with(b"W/\"") { 3 } else { 1 };
    let find = |from: usize, byte: u8| bytes.iter().skip(from).position(|b| *b == byte).map(|at| from + at);
    if bytes.get(open - 1) == Some(&b'"')
        && let Some(close) = find(open, b'"')
    {
        return close + 1;
    }
    find(0, b',').unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc9110_8_8_3_2_comparison() {
        for (a, b, strong, weak) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
            (r#"w/"1""#, r#"W/"1""#, false, false),
            ("1", r#""1""#, false, false),
        ] {
            let (a, b) = (EntityTag::parse(a.as_bytes()), EntityTag::parse(b.as_bytes()));
            assert_eq!((a.strongly_equals(&b), a.weakly_equals(&b)), (strong, weak), "{a:?} {b:?}");
        }
    }

    #[test]
    fn rfc9110_13_1_2_lists() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            (r#""a""#, &[r#""a""#]),
            (r#""a", W/"b" ,, "c,d""#, &[r#""a""#, r#"W/"b""#, r#""c,d""#]),
            (r#""a\", "b""#, &[r#""a\""#, r#""b""#]),
            (r#"a, "b""#, &["a", r#""b""#]),
            (r#""a, b"#, &[r#""a"#, "b"]),
        ];
        for (line, expected) in table {
            let expected: Vec<_> = expected.iter().map(|t| EntityTag::parse(t.as_bytes())).collect();
            assert_eq!(entity_tags(line.as_bytes()).collect::<Vec<_>>(), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in "[\"W/,a\\\\ ]{0,40}", bytes: Vec<u8>) {
            entity_tags(line.as_bytes()).count();
            entity_tags(&bytes).count();
        }
    }
}
