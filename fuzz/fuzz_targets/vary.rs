//! Vary and the key of a variant: the first line is Vary, the others are the request's fields. The key tells apart what
//! differs in a field that is named, and nothing else; normalised values have the key of those they came from.
#![no_main]

use cache::{Vary, VaryStar, key};
use cosm_fuzz::{Input, fields, has_quote, mapped};
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, HeaderName, REFERER, USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;

const PRIMARY: &[u8] = b"GET http://h/";

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(value) = HeaderValue::from_bytes(input.line()) else { return };
    let mut request = fields(input.rest());
    // What it names does not count.
    request.remove(CONNECTION);
    let has_star = value.as_bytes().split(|b| *b == b',').any(|member| member.trim_ascii() == b"*");
    let vary = Vary::of(&[(VARY, value.clone())].into_iter().collect());
    assert!(!has_star || value.as_bytes().contains(&b'"') || vary == Err(VaryStar));
    let Ok(Some(vary)) = vary else { return };
    assert!(vary.names().is_sorted_by(|a, b| a.as_str() < b.as_str()) && !vary.names().is_empty());

    let key = |request: &HeaderMap| key::variant(PRIMARY, &vary, request);
    let whole = key(&request);
    let selected =
        whole.strip_prefix(PRIMARY).and_then(|rest| rest.strip_prefix(b"\0")).expect("the primary key");
    let normal = normal(&vary, selected, &request);

    let mut other = request.clone();
    other.retain_named(&vary);
    assert_eq!(key(&other), whole, "fields that are not named");
    for name in vary.names() {
        let mut other = request.clone();
        let last = other.get_all(name).iter().next_back().map(|value| value.as_bytes().to_vec());
        match last {
            Some(last) => {
                let longer = HeaderValue::from_bytes(&[&last[..], b"x"].concat()).expect("still a value");
                // What is preferred twice is preferred once.
                let range = |member: &[u8]| {
                    let range = member.split(|b| *b == b';').next().unwrap_or_default();
                    range.trim_ascii().to_ascii_lowercase()
                };
                let added = longer.as_bytes().rsplit(|b| *b == b',').next().map(range);
                let mut there =
                    other.get_all(name).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
                if there.any(|member| Some(range(member)) == added) {
                    continue;
                }
                if let Some(value) = other.iter_mut().filter(|(n, _)| *n == name).map(|(_, v)| v).last() {
                    *value = longer;
                }
            }
            None => {
                other.insert(name, HeaderValue::from_static(""));
            }
        }
        assert_ne!(key(&other), whole, "{name} differs");
        other.remove(name);
        assert_eq!(key(&other) == whole, !request.contains_key(name));
    }
    // A quote may be closed in another line of the field: then joining lines means something else than before.
    if !has_quote(&request) {
        let empty_line = request.values().any(|value| value.is_empty());
        assert!(empty_line || key(&normal) == whole, "the normal form is its own");
        let airy = mapped(&request, |name, value| {
            match [USER_AGENT, COOKIE, REFERER, AUTHORIZATION].contains(name) {
                true => value.to_vec(),
                false => value.split(|b| *b == b',').collect::<Vec<_>>().join(&b" ,\t"[..]),
            }
        });
        assert_eq!(key(&airy), whole, "space around commas");
    }
});

/// The fields as the key holds them: one line each, `name:value`, or `name` when it is absent.
fn normal(vary: &Vary, selected: &[u8], request: &HeaderMap) -> HeaderMap {
    let lines: Vec<&[u8]> =
        selected.strip_suffix(b"\n").expect("a whole line").split(|b| *b == b'\n').collect();
    assert_eq!(lines.len(), vary.names().len());
    let mut normal = HeaderMap::new();
    for (name, line) in vary.names().iter().zip(lines) {
        let rest = line.strip_prefix(name.as_str().as_bytes()).expect("the field's name");
        assert_eq!(rest.first().copied(), request.contains_key(name).then_some(b':'));
        if let [b':', value @ ..] = rest {
            normal.insert(name, HeaderValue::from_bytes(value).expect("still a value"));
        }
    }
    normal
}

trait RetainNamed {
    fn retain_named(&mut self, vary: &Vary);
}

impl RetainNamed for HeaderMap {
    fn retain_named(&mut self, vary: &Vary) {
        let gone: Vec<HeaderName> =
            self.keys().filter(|name| !vary.names().contains(name)).cloned().collect();
        for name in gone {
            self.remove(name);
        }
    }
}
