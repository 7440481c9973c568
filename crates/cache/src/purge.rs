//! What was purged by host, prefix or group: noted in constant time, and found out when something stored is about to
//! answer. Nothing that is stored is ever walked.
//!
//! Each purge has a number higher than all before it; what is stored remembers the newest one known when it was asked
//! for. It is purged when a later one covers it. Numbers are taken from the clock where that is ahead: then none is
//! given twice, even when a crash lost the last ones.

use crate::key::{self, origin_of};
use crate::{Head, groups, wire};
use std::collections::{BTreeMap, HashMap};

/// All purges that may still cover something stored. Bounded: when there are too many, some become wider.
///
/// Always: every scope's number is above `floor` and not above `newest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purges {
    newest: u64,
    /// Whatever knows only of purges before this one is purged.
    floor: u64,
    /// By the scope's text.
    scopes: HashMap<String, u64>,
    /// How many prefixes there are of each length.
    prefixes: BTreeMap<usize, usize>,
    /// About what encoding takes.
    bytes: usize,
}

/// What a purge covers. Hosts and URLs are written as keys have them (`key::primary`): in lower case, no default port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    All,
    /// A host, whatever the port.
    Host(&'a str),
    /// `scheme://host[:port]`.
    Origin(&'a str),
    /// URLs that begin with this text, which reaches beyond the host.
    Prefix(&'a str),
    /// A group of an origin's responses (RFC 9875); without an origin, of any.
    Group {
        origin: Option<&'a str>,
        name: &'a str,
    },
}

impl Scope<'_> {
    /// No host and no URL has a space in it.
    fn write(&self, out: &mut String) {
        let parts = match *self {
            Scope::All => ["all", "", ""],
            Scope::Host(host) => ["host ", host, ""],
            Scope::Origin(origin) => ["origin ", origin, ""],
            Scope::Prefix(prefix) => [PREFIX, prefix, ""],
            Scope::Group { origin, name } => {
                out.push_str("group ");
                out.push_str(origin.unwrap_or("*"));
                [" ", name, ""]
            }
        };
        parts.iter().for_each(|part| out.push_str(part));
    }
}

const PREFIX: &str = "prefix ";

impl Purges {
    /// Bytes that an encoding takes at most.
    pub const MAX: usize = 192 << 10;
    const ENTRY: usize = 16;
    const HEADER: usize = 32;

    /// The number of the newest purge: what is asked for now knows of it.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// How many scopes are kept apart.
    pub fn len(&self) -> usize {
        self.scopes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Purges what is stored in a scope. `now`, in milliseconds, only keeps numbers from being given twice.
    pub fn purge(&mut self, scope: Scope<'_>, now: u64) {
        self.newest = now.max(self.newest.saturating_add(1));
        if scope == Scope::All {
            *self = Purges { newest: self.newest, floor: self.newest, ..Purges::default() };
            return;
        }
        let mut text = String::new();
        scope.write(&mut text);
        self.insert(text, self.newest);
        while self.bytes > Purges::MAX - Purges::HEADER {
            self.widen();
        }
    }

    /// Whether a purge covers what is stored under a key.
    pub fn cover(&self, key: &[u8], head: &Head) -> bool {
        if head.purges_known >= self.newest {
            return false;
        }
        if head.purges_known < self.floor {
            return true;
        }
        let Some(url) = key::uri(key) else { return true };
        let origin = origin_of(url);
        let mut text = String::new();
        let mut is_purged = |scope: Scope<'_>| {
            text.clear();
            scope.write(&mut text);
            self.scopes.get(&text).is_some_and(|number| *number > head.purges_known)
        };
        is_purged(Scope::Host(host_of(origin)))
            || is_purged(Scope::Origin(origin))
            || self
                .prefixes
                .keys()
                .any(|length| url.get(..*length).is_some_and(|p| is_purged(Scope::Prefix(p))))
            || groups(&head.headers).iter().any(|name| {
                is_purged(Scope::Group { origin: None, name })
                    || is_purged(Scope::Group { origin: Some(origin), name })
            })
    }

    /// At most `MAX` bytes; their layout is drawn in `wire.rs`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes + Purges::HEADER);
        out.push(wire::PURGES);
        for number in [self.newest, self.floor, self.scopes.len() as u64] {
            wire::put_number(&mut out, number);
        }
        for (text, number) in &self.scopes {
            wire::put_number(&mut out, *number);
            wire::put_number(&mut out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// Any bytes: what they stand for, or `None`. No bytes stand for no purges.
    pub fn decode(bytes: &[u8]) -> Option<Purges> {
        let mut purges = Purges::default();
        if bytes.is_empty() {
            return Some(purges);
        }
        let mut read = wire::Reader::new(bytes.strip_prefix(&[wire::PURGES])?);
        (purges.newest, purges.floor) = (read.number()?, read.number()?);
        for _ in 0..read.number()? {
            let number = read.number()?;
            let text = read.text()?;
            if number <= purges.floor || number > purges.newest {
                return None;
            }
            purges.insert(text, number);
        }
        read.end()?;
        Some(purges)
    }

    fn insert(&mut self, text: String, number: u64) {
        let (bytes, length) = (text.len() + Purges::ENTRY, text.strip_prefix(PREFIX).map(str::len));
        if self.scopes.insert(text, number).is_none() {
            self.bytes += bytes;
            length.into_iter().for_each(|length| *self.prefixes.entry(length).or_default() += 1);
        }
    }

    fn retain(&mut self, keep: impl Fn(&str, u64) -> bool) {
        let all = std::mem::take(&mut self.scopes);
        (self.prefixes, self.bytes) = (BTreeMap::new(), 0);
        for (text, number) in all.into_iter().filter(|(text, number)| keep(text, *number)) {
            self.insert(text, number);
        }
    }

    /// Makes room: the origin with the most scopes is purged whole; where none has several, the older half of all
    /// purges is widened to everything.
    fn widen(&mut self) {
        let mut origins: HashMap<&str, (usize, u64)> = HashMap::new();
        for (text, number) in &self.scopes {
            if let Some(origin) = origin_of_scope(text) {
                let (count, newest) = origins.entry(origin).or_default();
                (*count, *newest) = (*count + 1, (*newest).max(*number));
            }
        }
        let largest =
            origins.into_iter().max_by_key(|(_, (count, _))| *count).filter(|(_, (count, _))| *count > 1);
        if let Some((origin, (_, newest))) = largest {
            let origin = origin.to_owned();
            self.retain(|text, _| origin_of_scope(text) != Some(&origin));
            let mut text = String::new();
            Scope::Origin(&origin).write(&mut text);
            return self.insert(text, newest);
        }
        let mut numbers: Vec<u64> = self.scopes.values().copied().collect();
        let middle = numbers.len() / 2;
        let floor = *numbers.select_nth_unstable(middle).1;
        self.floor = self.floor.max(floor);
        self.retain(|_, number| number > floor);
    }
}

/// The origin that a scope's text is about, if it is about one.
fn origin_of_scope(text: &str) -> Option<&str> {
    match text.split_once(' ')? {
        ("origin", origin) => Some(origin),
        ("prefix", url) => Some(origin_of(url)),
        ("group", group) => group.split_once(' ').map(|(origin, _)| origin).filter(|origin| *origin != "*"),
        _ => None,
    }
}

/// The host of an origin, an IPv6 address in its brackets.
fn host_of(origin: &str) -> &str {
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}
