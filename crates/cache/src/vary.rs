//! Vary, and the normalised values it selects by (RFC 9110 section 12.5.5, RFC 9111 section 4.1).

use crate::hop::is_nominated;
use crate::language::is_tag;
use crate::list::{members_of, quoted_end};
use crate::preference;
use http::HeaderMap;
use http::header::{
    ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, HeaderName, REFERER, USER_AGENT,
};

/// The request fields a response varies by: lower-case, sorted, each once, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    names: Vec<HeaderName>,
}

/// More names than this are as good as `*`: each request would be searched for all of them.
const NAMES: usize = 64;

/// Vary has a member `*`, or one that is no field name, or too many: no request selects the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaryStar;

impl Vary {
    /// `None`: the response does not vary.
    pub fn of(headers: &HeaderMap) -> Result<Option<Vary>, VaryStar> {
        let names = members_of(headers, http::header::VARY).map(HeaderName::from_bytes);
        let names: Vec<_> = names.collect::<Result<_, _>>().map_err(|_| VaryStar)?;
        // `*` is a token, so it passes for a name.
        if names.iter().any(|n| n.as_str() == "*") {
            return Err(VaryStar);
        }
        let vary = Vary::from_names(names);
        if vary.as_ref().is_some_and(|vary| vary.names.len() > NAMES) {
            return Err(VaryStar);
        }
        Ok(vary)
    }

    /// Bytes of memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.names.iter().map(|name| size_of::<HeaderName>() + 32 + name.as_str().len()).sum()
    }

    pub fn names(&self) -> &[HeaderName] {
        &self.names
    }

    pub(crate) fn from_names(mut names: Vec<HeaderName>) -> Option<Vary> {
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        (!names.is_empty()).then_some(Vary { names })
    }

    /// Appends each field's name and normalised value. Neither can hold NUL or a line feed, so two requests append the
    /// same bytes only when every field has the same normalised value; an absent field equals only an absent one. A field
    /// that Connection names is absent: the origin never sees it, so its value selects nothing.
    pub(crate) fn select(&self, request: &HeaderMap, out: &mut Vec<u8>) {
        self.select_with(request, None, out);
    }

    /// As the key's part of a request, but for any Accept-Language that the response in `language` is the best answer
    /// to (RFC 9110 section 12.5.4): what stands in for its value follows `=`, which ends no field name and begins no
    /// value. Appends nothing and says `false` when Vary does not name Accept-Language, or when it is no language tag.
    pub fn select_language(&self, request: &HeaderMap, language: &str, out: &mut Vec<u8>) -> bool {
        let selects = self.names.contains(&ACCEPT_LANGUAGE) && is_tag(language.as_bytes());
        if selects {
            self.select_with(request, Some(language), out);
        }
        selects
    }

    fn select_with(&self, request: &HeaderMap, language: Option<&str>, out: &mut Vec<u8>) {
        for name in &self.names {
            out.extend_from_slice(name.as_str().as_bytes());
            if let Some(language) = language.filter(|_| *name == ACCEPT_LANGUAGE) {
                out.push(b'=');
                out.extend(language.bytes().map(|b| b.to_ascii_lowercase()));
            } else if request.contains_key(name) && !is_nominated(request, name) {
                out.push(b':');
                normalise(name, request, out);
            }
            out.push(b'\n');
        }
    }
}

/// What may be done to a field's value without changing its meaning.
#[derive(Clone, Copy, PartialEq)]
enum Syntax {
    /// Lines are joined, nothing else.
    Text,
    /// Lines are joined; whitespace around commas outside quoted strings goes.
    List,
    /// A list of preferences: case means nothing, nor does whitespace around `;`, nor order beside the weights.
    Ranges,
}

fn syntax(name: &HeaderName) -> Syntax {
    static TEXT: [HeaderName; 4] = [USER_AGENT, COOKIE, REFERER, AUTHORIZATION];
    static RANGES: [HeaderName; 3] = [ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET];
    if TEXT.contains(name) {
        Syntax::Text
    } else if RANGES.contains(name) {
        Syntax::Ranges
    } else {
        Syntax::List
    }
}

fn normalise(name: &HeaderName, request: &HeaderMap, out: &mut Vec<u8>) {
    let syntax = syntax(name);
    // What cannot be read keeps its text, which cannot be read either and so is no other list's canonical form.
    if syntax == Syntax::Ranges
        && let Some(preferences) = preference::preferences(&preference::lower_case(request, name))
    {
        return preference::write(&preferences, out);
    }
    let start = out.len();
    for (i, line) in request.get_all(name).iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(if syntax == Syntax::Text { b", " } else { b"," });
        }
        let line = line.as_bytes().trim_ascii();
        match syntax {
            Syntax::Text => out.extend_from_slice(line),
            Syntax::List => tighten(line, b",", out),
            Syntax::Ranges => tighten(line, b",;", out),
        }
    }
    if syntax == Syntax::Ranges {
        out[start..].make_ascii_lowercase();
    }
}

/// Copies a list without the whitespace around its separators; quoted strings stay whole.
fn tighten(mut line: &[u8], separators: &[u8], out: &mut Vec<u8>) {
    let separates = |byte: Option<&u8>| byte.is_some_and(|b| separators.contains(b));
    while let Some(&first) = line.first() {
        if first == b'"' {
            let length = quoted_end(line).unwrap_or(line.len());
            out.extend_from_slice(&line[..length]);
            line = &line[length..];
            continue;
        }
        let spaces = line.len() - line.trim_ascii_start().len();
        if spaces > 0 && !separates(line.get(spaces)) {
            out.extend_from_slice(&line[..spaces]);
        } else if spaces == 0 {
            out.push(first);
        }
        line = &line[spaces.max(1)..];
        if separates(Some(&first)) {
            line = line.trim_ascii_start();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn fields(list: &[(&str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(n, v)| (n.parse::<HeaderName>().unwrap(), HeaderValue::from_str(v).unwrap()))
            .collect()
    }

    fn vary(names: &str) -> Vary {
        Vary::of(&fields(&[("vary", names)])).unwrap().unwrap()
    }

    #[test]
    fn rfc9110_12_5_5_names() {
        assert_eq!(Vary::of(&HeaderMap::new()), Ok(None));
        assert_eq!(Vary::of(&fields(&[("vary", " ,")])), Ok(None));
        let both = Vary::of(&fields(&[("vary", "Foo, accept"), ("vary", "foo")])).unwrap().unwrap();
        assert_eq!(both.names(), ["accept", "foo"]);
        for star in ["*", "*, *", ", *", "*, Foo", "Foo, *", "Foo Bar", "foo\"", "\u{e9}"] {
            assert_eq!(Vary::of(&fields(&[("vary", star)])), Err(VaryStar), "{star}");
        }
        assert_eq!(Vary::of(&fields(&[("vary", ""), ("vary", "*")])), Err(VaryStar));
    }

    #[test]
    fn rfc9111_4_1_selection() {
        type Fields<'a> = &'a [(&'a str, &'a str)];
        let table: &[(&str, Fields, Fields, bool)] = &[
            ("foo", &[("foo", "1")], &[("foo", "1"), ("other", "2")], true),
            ("foo", &[("foo", "1")], &[("foo", "2")], false),
            ("foo", &[("foo", "1")], &[], false),
            ("foo", &[("foo", "")], &[], false),
            ("foo", &[], &[("other", "1")], true),
            ("foo", &[("foo", "1,2")], &[("foo", " 1 ,  2 ")], true),
            ("foo", &[("foo", "1, 2")], &[("foo", "1"), ("foo", "2")], true),
            ("foo", &[("foo", "1, 2")], &[("foo", "2"), ("foo", "1")], false),
            ("foo", &[("foo", "a b")], &[("foo", "ab")], false),
            ("foo", &[("foo", "A")], &[("foo", "a")], false),
            ("foo", &[("foo", "\"a, b\"")], &[("foo", "\"a,b\"")], false),
            ("foo", &[("foo", "\"a , b")], &[("foo", "\"a,b")], false),
            ("foo, bar", &[("foo", "1"), ("bar", "2")], &[("bar", "2"), ("foo", "1")], true),
            ("foo, bar", &[("foo", "1\t"), ("bar", "2")], &[("foo", "1")], false),
            ("user-agent", &[("user-agent", "x (a, b)")], &[("user-agent", "x (a,b)")], false),
            (
                "accept-encoding",
                &[("accept-encoding", "GZIP ;q=1, br")],
                &[("accept-encoding", "gzip;q=1,br")],
                true,
            ),
            ("accept-encoding", &[("accept-encoding", "gzip, br")], &[("accept-encoding", "br, gzip")], true),
            (
                "accept-encoding",
                &[("accept-encoding", "gzip;q=0.5, br")],
                &[("accept-encoding", "br;q=0.5, gzip")],
                false,
            ),
            ("accept-encoding", &[("accept-encoding", "gzip;q=0, br")], &[("accept-encoding", "br")], false),
            (
                "accept-charset",
                &[("accept-charset", "b;q=0.50"), ("accept-charset", "a")],
                &[("accept-charset", "a, b;q=0.5")],
                true,
            ),
            (
                "accept-language",
                &[("accept-language", "en, de;q=x")],
                &[("accept-language", "de;q=x, en")],
                false,
            ),
            ("accept", &[("accept", "a/b, c/d")], &[("accept", "c/d, a/b")], false),
            (
                "accept-language",
                &[("accept-language", "en-GB, de")],
                &[("accept-language", "en-gb,de")],
                true,
            ),
        ];
        for (names, first, second, same) in table {
            let key = |request: &[_]| key::variant(b"GET http://h/", &vary(names), &fields(request));
            assert_eq!(key(first) == key(second), *same, "{names}: {first:?} / {second:?}");
        }
    }

    #[test]
    fn rfc9110_12_5_4_a_language_stands_in_for_the_field() {
        let request = fields(&[("foo", "1"), ("accept-language", "de, en;q=0.5")]);
        let selected = |names: &str, request: &HeaderMap, language: &str| {
            let mut out = Vec::new();
            vary(names).select_language(request, language, &mut out).then_some(out)
        };
        let key = selected("foo, accept-language", &request, "DE-at").unwrap();
        assert_eq!(key, b"accept-language=de-at\nfoo:1\n");
        assert_eq!(selected("accept-language, foo", &fields(&[("foo", "1")]), "de-AT"), Some(key));
        for (names, language) in
            [("foo", "de"), ("accept-language", ""), ("accept-language", "*"), ("accept-language", "a\nb")]
        {
            assert_eq!(selected(names, &request, language), None, "{names} {language}");
        }
    }

    proptest! {
        #[test]
        fn a_language_is_no_value(names in "(foo, )?accept-language", value in "[=a-c:;, ]{0,6}", language in "[a-c]{1,3}") {
            let vary = vary(&names);
            let stand_in = key::language_variant(b"p", &vary, &HeaderMap::new(), &language).unwrap();
            for request in [fields(&[("accept-language", &value)]), fields(&[("foo", &value)]), HeaderMap::new()] {
                prop_assert_ne!(&key::variant(b"p", &vary, &request), &stand_in);
            }
        }

        #[test]
        fn a_key_differs_when_a_field_differs(
            a in proptest::collection::vec("[a-c\", \\\\\t]{0,8}", 0..3),
            b in proptest::collection::vec("[a-c\", \\\\\t]{0,8}", 0..3),
            other in "[a-c]{0,2}",
        ) {
            let request = |lines: &[String]| {
                let mut all = fields(&[("bar", &other)]);
                for line in lines {
                    all.append("foo", HeaderValue::from_str(line).unwrap());
                }
                all
            };
            let normal = |request: &HeaderMap| {
                let mut out = Vec::new();
                normalise(&HeaderName::from_static("foo"), request, &mut out);
                (request.contains_key("foo"), out)
            };
            let (a, b) = (request(&a), request(&b));
            let vary = vary("foo, bar");
            let keys = (key::variant(b"p", &vary, &a), key::variant(b"p", &vary, &b));
            prop_assert_eq!(keys.0 == keys.1, normal(&a) == normal(&b));
        }

        /// Texts that can be read as lists of preferences, and texts that nearly can.
        #[test]
        fn preferences_are_merged_only_when_they_are_the_same(
            a in "[ab]{0,2}(;q=[01](\\.[05]{0,2})?)?(, ?[ab*](;q=[01]|;q)?){0,2}",
            b in "[ab]{0,2}(;q=[01](\\.[05]{0,2})?)?(, ?[ab*](;q=[01]|;q)?){0,2}",
        ) {
            let key = |text: &str| key::variant(b"p", &vary("accept-language"), &fields(&[("accept-language", text)]));
            let plain = |text: &str| text.replace(' ', "");
            match (preference::preferences(a.as_bytes()), preference::preferences(b.as_bytes())) {
                (None, None) => prop_assert_eq!(key(&a) == key(&b), plain(&a) == plain(&b)),
                (first, second) => prop_assert_eq!(key(&a) == key(&b), first == second),
            }
        }

        #[test]
        fn normalising_keeps_all_but_spaces(line in "[a-c\", \\\\\t]{0,12}") {
            let mut out = Vec::new();
            tighten(line.as_bytes(), b",", &mut out);
            let kept = |bytes: &[u8]| bytes.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect::<Vec<_>>();
            prop_assert_eq!(kept(&out), kept(line.as_bytes()));
        }
    }
}
