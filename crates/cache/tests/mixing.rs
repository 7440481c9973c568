//! Nothing is mixed up: a small cache, made of the functions that the proxy uses, before an origin whose answers say
//! what they are answers to.

mod common;

use bytes::Bytes;
use cache::{Answer, Asked, Head, Stored, Vary, answer, can_answer, combined, key};
use common::*;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// What the origin reads in a field: the members of a list, or of a list of preferences in any order.
fn meaning(name: &HeaderName, request: &HeaderMap) -> Option<String> {
    let lines = request.get_all(name).iter().map(|line| line.to_str().unwrap()).collect::<Vec<_>>();
    let taken_away = request.get_all("connection").iter().any(|line| {
        line.to_str().unwrap().split(',').any(|option| option.trim().eq_ignore_ascii_case(name.as_str()))
    });
    if lines.is_empty() || taken_away {
        return None;
    }
    let members = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    if !name.as_str().starts_with("accept-") {
        return Some(members.collect::<Vec<_>>().join(","));
    }
    let preference = |member: &str| {
        let (range, weight) = member.split_once(';').unwrap_or((member, "q=1"));
        let weight: f64 = weight.trim().to_lowercase().strip_prefix("q=")?.parse().ok()?;
        Some((range.trim().to_lowercase(), (weight * 1000.0).round() as i64))
    };
    let all: Option<BTreeSet<_>> =
        members.clone().filter(|member| !member.is_empty()).map(preference).collect();
    let unread = || members.clone().collect::<Vec<_>>().join(",").to_lowercase().replace(' ', "");
    Some(all.map_or_else(|| format!("unread {}", unread()), |all| format!("{all:?}")))
}

/// The origin's answer: where it is from, and what it depends on.
fn body(target: &[u8], vary: Option<&Vary>, request: &HeaderMap) -> String {
    let names = vary.map_or(&[][..], Vary::names);
    let fields: Vec<_> = names.iter().map(|name| (name, meaning(name, request))).collect();
    format!("{} {fields:?}", String::from_utf8_lossy(target))
}

#[derive(Default)]
struct Cache(HashMap<Vec<u8>, (Stored, String)>);

impl Cache {
    fn get(&self, target: &[u8], request: &HeaderMap) -> Option<&(Stored, String)> {
        match self.0.get(target)? {
            (Stored::Varies(vary), _) => self.0.get(&key::variant(target, vary, request)[..]),
            found => Some(found),
        }
    }

    fn put(&mut self, target: &[u8], request: &HeaderMap, head: Head) {
        let body = body(target, head.vary(), request);
        let Some(vary) = head.vary().cloned() else {
            self.0.insert(target.to_vec(), (Stored::Response(head), body));
            return;
        };
        // Variants by other fields can no longer be found.
        if self.0.get(target).is_none_or(|(marker, _)| *marker != Stored::Varies(vary.clone())) {
            self.0.retain(|key, _| !key.starts_with(&[target, b"\0"].concat()));
        }
        self.0.insert(key::variant(target, &vary, request).to_vec(), (Stored::Response(head), body));
        self.0.insert(target.to_vec(), (Stored::Varies(vary), String::new()));
    }
}

fn request() -> impl Strategy<Value = HeaderMap> {
    let field = prop_oneof![
        ("foo|bar", "a?( ?, ?[aB])?"),
        ("accept-language|accept-encoding", "[ab*](;[qQ]=[01])?( ?, ?[aB](; ?q=0\\.[05]0?)?)?"),
        ("accept-language|accept-encoding", "[ab];?(q=2|x)?"),
        ("connection", "close|(close, )?(foo|Bar|Accept-Language)"),
    ];
    vec(field, 0..5).prop_map(|list| {
        let parse = |(name, value): (String, String)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(&value).unwrap())
        };
        list.into_iter().map(parse).collect()
    })
}

fn target() -> impl Strategy<Value = (&'static str, String, String)> {
    let scheme = prop_oneof![Just("http"), Just("https")];
    (scheme, "[aA](:80|:443|:)?", "(/[aA%]?)?(\\?[ab]?)?")
}

/// The same URI as an origin would say it (RFC 9110 section 4.2.3).
fn said((scheme, authority, path): &(&str, String, String)) -> Vec<u8> {
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let port = if port.is_empty() { if *scheme == "http" { "80" } else { "443" } } else { port };
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}:{port}{slash}{path}", host.to_lowercase()).into_bytes()
}

proptest! {
    #[test]
    fn two_targets_share_a_key_only_when_they_are_one(a in target(), b in target()) {
        let key = |(scheme, authority, path): &(&str, String, String)| key::primary(scheme, authority, path);
        prop_assert_eq!(key(&a) == key(&b), said(&a) == said(&b), "{:?} {:?}", a, b);
    }

    /// RFC 9111 section 4.1.
    #[test]
    fn no_stored_response_answers_a_request_that_its_vary_excludes(
        requests in vec((request(), "/[ab]?", "((foo|bar|accept-language|accept-encoding|connection)(, )?){0,2}"), 1..24),
    ) {
        let mut cache = Cache::default();
        for (request, path, vary) in requests {
            let target = key::primary("http", "h", &path);
            if let Some((Stored::Response(head), found)) = cache.get(&target, &request) {
                prop_assert_eq!(found, &body(&target, head.vary(), &request));
            }
            let answered = response(200, &[("cache-control", "max-age=60"), ("vary", &vary)]);
            let asked = Asked::of(&Method::GET, &request);
            let head = Head::storable(&asked, &answered, NOW, NOW).unwrap();
            cache.put(&target, &request, head);
            prop_assert!(cache.get(&target, &request).is_some(), "it answers its own request");
        }
    }
}

const LENGTH: usize = 24;

/// No byte of a version stands at the same place in another.
fn version(number: u8) -> Bytes {
    (0..LENGTH).map(|at| number * 32 + at as u8).collect()
}

/// How an origin tells its versions apart, or fails to. All dates are strong validators but `@0`.
fn validators(how: u8, number: u8) -> Vec<(&'static str, String)> {
    let own = format!("\"{number}\"");
    let last_modified = |value: String| ("last-modified", value);
    match how {
        0 => vec![("etag", own)],
        1 => vec![("etag", "W/\"same\"".into())],
        2 => vec![last_modified("@0".into())],
        3 => vec![last_modified(format!("@-{}00", number + 1))],
        4 => vec![("etag", format!("W/{own}")), last_modified("@-100".into())],
        5 => vec![("etag", own), last_modified("@-100".into())],
        6 => vec![last_modified("@-100".into()), ("content-encoding", format!("coding-{number}"))],
        _ => vec![],
    }
}

/// The origin's answer to a range, or to a request for everything.
fn fetched(range: Option<(usize, usize)>, how: u8, number: u8) -> (Head, Bytes) {
    let list = [("cache-control", "max-age=60".to_owned()), ("date", "@0".to_owned())];
    let mut list: Vec<_> = list.into_iter().chain(validators(how, number)).collect();
    let (first, end) = range.unwrap_or((0, LENGTH));
    if range.is_some() {
        list.push(("content-range", format!("bytes {first}-{}/{LENGTH}", end - 1)));
    }
    let list: Vec<_> = list.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let status = if range.is_some() { 206 } else { 200 };
    let asked = get(if range.is_some() { &[("range", "bytes=0-")] } else { &[] });
    let mut head = Head::storable(&asked, &response(status, &list), NOW, NOW).unwrap();
    head.settle((end - first) as u64);
    (head, version(number).slice(first..end))
}

/// What is stored after an answer came, as the proxy joins parts: the new one counts where they overlap.
fn kept(held: Option<(Head, Bytes)>, (head, body): (Head, Bytes)) -> (Head, Bytes) {
    let length = |body: &Bytes| body.len() as u64;
    let Some((old, earlier)) = held else { return (head, body) };
    let Some(both) = combined(&old, length(&earlier), &head, length(&body)) else { return (head, body) };
    let (earlier_at, at) = (old.part().unwrap().first as usize, head.part().unwrap().first as usize);
    let begin = earlier_at.min(at);
    let mut whole = vec![0xff; (earlier_at + earlier.len()).max(at + body.len()) - begin];
    whole[earlier_at - begin..][..earlier.len()].copy_from_slice(&earlier);
    whole[at - begin..][..body.len()].copy_from_slice(&body);
    (both, whole.into())
}

fn range() -> impl Strategy<Value = Option<(usize, usize)>> {
    proptest::option::weighted(0.9, (0..LENGTH).prop_flat_map(|first| (Just(first), first + 1..=LENGTH)))
}

proptest! {
    /// RFC 9111 section 3.4.
    #[test]
    fn no_byte_of_one_version_in_another(
        how in 0u8..8, fetches in vec((range(), 0u8..3), 1..12), asked in vec("bytes=([0-9]-[0-9]{0,2}|-[1-9])(, 1[0-9]-)?", 4),
    ) {
        let mut held = None;
        for (range, number) in fetches {
            let (head, body) = kept(held, fetched(range, how, number));
            let first = head.part().map_or(0, |part| part.first as usize);
            prop_assert_eq!(&body, &version(number).slice(first..first + body.len()));
            prop_assert!(head.part().is_some() || body.len() == LENGTH, "a part is not taken for everything");
            for range in &asked {
                let request = fields(&[("range", range)]);
                let asked = Asked::of(&Method::GET, &request);
                if !can_answer(&asked, &request, &head, body.len() as u64) {
                    continue;
                }
                let ranges = match answer(&asked, &request, &head, body.len() as u64) {
                    Answer::Part { first, last } => vec![(first, last)],
                    Answer::Parts(ranges) => ranges,
                    other => {
                        prop_assert!(head.part().is_none(), "{:?}", other);
                        continue;
                    }
                };
                let inside = |(from, to): (u64, u64)| first as u64 <= from && to < (first + body.len()) as u64;
                prop_assert!(ranges.into_iter().all(inside));
            }
            prop_assert!(!can_answer(&get(&[]), &HeaderMap::new(), &head, 0) || head.part().is_none());
            held = Some((head, body));
        }
    }
}
