//! Expressions over host and path, as operators purge by: `*.example.com/img/*.jpg`.
//!
//! `*` stands for any text, also none and with slashes in it, `?` for one character. Matching takes one step for each byte of a
//! URL, whatever the expression: all places in it where one may be by then are bits of one number (Shift-And).

use std::fmt;
use std::str::FromStr;

/// An expression: one pattern of hosts, and one of paths with their query. Always: a host's is in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    /// Bytes of the host in `text`.
    host_length: usize,
    host: Glob,
    path: Glob,
}

impl Expression {
    /// The host without its port; the path with its query, as keys have them.
    pub fn matches(&self, host: &str, path: &str) -> bool {
        self.host.matches(host) && self.path.matches(path)
    }

    /// The same, for any path that begins so.
    pub(crate) fn may_match(&self, host: &str, begin: &str) -> bool {
        self.host.matches(host) && self.path.run(begin) != 0
    }

    pub(crate) fn host(&self) -> &str {
        &self.text[..self.host_length]
    }

    /// As it is written down: what is read from it is the same.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Expression {
    type Err = String;

    /// `HOST`, `HOST/PATH` or, of every host, `/PATH`; a scheme before it says nothing.
    fn from_str(text: &str) -> Result<Expression, String> {
        if text.is_empty() {
            return Err("an expression is missing".into());
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(format!("`{}` has what no URL has: percent-encode it", text.escape_default()));
        }
        let bare =
            text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).map_or(text, |(_, bare)| bare);
        let (host, path) = match bare.find('/') {
            Some(0) => ("*", bare),
            Some(slash) => bare.split_at(slash),
            None => (bare, "/*"),
        };
        let port = host.rfind(':').filter(|colon| !host[*colon..].contains(']'));
        if host.is_empty() || port.is_some() {
            return Err(format!("`{text}` has to name a host without a port: every port of it counts"));
        }
        if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._*?[]:".contains(&byte)) {
            return Err(format!("`{text}` has what no host has before its first slash"));
        }
        if host.contains('?') && !bare.contains('/') {
            return Err(format!("`{text}` has a `?` and no slash: write HOST/PATH, or HOST/* for all paths"));
        }
        let (host, path) = (one_star(&host.to_ascii_lowercase()), one_star(path));
        let glob = |text: &str| {
            Glob::new(text).ok_or_else(|| {
                format!("`{text}` is longer than {} characters: end it earlier with `*`", Glob::MAX)
            })
        };
        Ok(Expression { host: glob(&host)?, path: glob(&path)?, host_length: host.len(), text: host + &path })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_scheme(text: &str) -> bool {
    ["http", "https"].iter().any(|scheme| text.eq_ignore_ascii_case(scheme))
}

/// Several stars in a row say no more than one.
fn one_star(text: &str) -> String {
    let mut one = String::with_capacity(text.len());
    for char in text.chars() {
        if char != '*' || !one.ends_with('*') {
            one.push(char);
        }
    }
    one
}

/// A pattern. Bit n of a state: the first n characters that are no stars may have matched.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    /// Of each byte, which of `takes` is its own; the first is that of bytes which are not in the pattern.
    class: Box<[u8; 256]>,
    /// From which bits a byte leads to the next.
    takes: Vec<u128>,
    /// Where a star lets any byte stay.
    stays: u128,
    end: u128,
}

impl Glob {
    /// Characters that are no stars: one bit is for none of them.
    pub const MAX: usize = 127;

    /// `*` stands for any text, `?` for one byte; `None`: it is longer than `MAX`.
    pub fn new(text: &str) -> Option<Glob> {
        let (mut class, mut takes, mut stays, mut at) = (Box::new([0; 256]), vec![0], 0, 0);
        for byte in text.bytes() {
            let bit = 1u128.checked_shl(at)?;
            match byte {
                b'*' => stays |= bit,
                _ if at as usize == Glob::MAX => return None,
                b'?' => {
                    takes.iter_mut().for_each(|takes| *takes |= bit);
                    at += 1;
                }
                byte => {
                    let own = &mut class[usize::from(byte)];
                    if *own == 0 {
                        *own = takes.len() as u8;
                        // What every byte is taken at.
                        takes.push(takes[0]);
                    }
                    takes[usize::from(*own)] |= bit;
                    at += 1;
                }
            }
        }
        Some(Glob { class, takes, stays, end: 1 << at })
    }

    pub fn matches(&self, text: &str) -> bool {
        self.run(text) & self.end != 0
    }

    fn run(&self, text: &str) -> u128 {
        text.bytes().fold(1, |state, byte| {
            let takes = self.takes[usize::from(self.class[usize::from(byte)])];
            (state & takes) << 1 | state & self.stays
        })
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glob").field("end", &self.end.trailing_zeros()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tries everything.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=text.len()).any(|n| naive(rest, &text[n..])),
            (Some((one, rest)), Some((byte, text))) => (*one == b'?' || one == byte) && naive(rest, text),
            _ => false,
        }
    }

    #[test]
    fn what_expressions_match() {
        for (expression, host, path, matched) in [
            ("*.example.com/img/*.jpg", "a.example.com", "/img/x/y.jpg", true),
            ("*.example.com/img/*.jpg", "example.com", "/img/y.jpg", false),
            ("*.example.com/img/*.jpg", "a.example.com", "/img/y.jpg?v=1", false),
            ("*.example.com/img/*.jpg*", "a.example.com", "/img/y.jpg?v=1", true),
            ("*.example.com/img/*.jpg", "a.example.com", "/img/y.JPG", false),
            ("*.Example.COM", "a.example.com", "/", true),
            ("example.com/", "example.com", "/", true),
            ("example.com/", "example.com", "/a", false),
            ("http://example.com/?", "example.com", "/a", true),
            ("/a?b", "any", "/a?b", true),
            ("/a?b", "any", "/axb", true),
            ("/a%2Fb", "any", "/a/b", false),
            ("[::1]/**", "[::1]", "/x", true),
            ("HTTP://h/", "h", "/", true),
            ("h?/*", "h1", "/a", true),
            ("my_host-1.example", "my_host-1.example", "/", true),
            ("/http://h/", "h", "/http://h/", true),
        ] {
            let parsed: Expression = expression.parse().unwrap();
            assert_eq!(parsed.matches(host, path), matched, "{expression} {host}{path}");
            assert_eq!(parsed.as_str().parse(), Ok(parsed), "{expression}");
        }
        let long = |n| format!("h/{}", "x".repeat(n));
        assert!(long(126).parse::<Expression>().unwrap().matches("h", &long(126)[1..]));
        for wrong in
            ["", "h:80/a", "h/a b", "h/a#b", "h/ä", "h?x=1", "user@h/", "ftp://h/", "h%41/", &long(127)]
        {
            let error = wrong.parse::<Expression>().unwrap_err();
            assert_eq!(error.lines().count(), 1, "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn globs_match_what_is_matched_by_trying_everything(pattern in "[ab?*]{0,10}", text in "[abc]{0,12}", more in "[abc]{0,4}") {
            let glob = Glob::new(&one_star(&pattern)).unwrap();
            prop_assert_eq!(glob.matches(&text), naive(pattern.as_bytes(), text.as_bytes()));
            let whole = format!("{text}{more}");
            prop_assert!(!glob.matches(&whole) || glob.run(&text) != 0);
        }

        #[test]
        fn any_text_is_an_expression_or_not(text: String) {
            if let Ok(expression) = text.parse::<Expression>() {
                prop_assert_eq!(expression.as_str().parse(), Ok(expression));
            }
        }
    }
}
