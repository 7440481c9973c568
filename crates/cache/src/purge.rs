//! What was purged by host, prefix, path or group: noted in constant time, and found out when something stored is about
//! to answer. Nothing that is stored is ever walked.
//!
//! Each purge has a number higher than all before it; what is stored remembers the newest one known when it was asked
//! for. It is purged when a later one covers it. Numbers are taken from the clock where that is ahead: then none is
//! given twice, even when a crash lost the last ones.
//!
//! Scopes are bounded. Beyond that an origin that has many is purged whole, or else a site whose hosts have, the smallest
//! one; where none has, the older half of all is kept by buckets of sites, paths and group names, whose newest number counts for
//! all in them. So too many purges remove too much, first of those who have many. What ends of groups become wider to covers
//! responses in groups only: it is not the operator who ends those, and who has none loses nothing by it.

use crate::key::{self, origin_of};
use crate::{Head, groups, wire};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

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
    /// How many prefixes of URLs, and of paths, there are of each length.
    prefixes: BTreeMap<usize, usize>,
    path_prefixes: BTreeMap<usize, usize>,
    /// About what encoding the scopes takes.
    bytes: usize,
    /// The newest number of each bucket that scopes were moved to; where no bucket has one, empty.
    buckets: Vec<u64>,
    /// Something has become wider.
    has_wide: bool,
    /// Which bucket a text belongs to: nobody outside can choose hosts that share one.
    seed: u64,
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
    /// This path and query, of any host.
    Path(&'a str),
    /// Paths that begin with this text, of any host.
    PathPrefix(&'a str),
    /// A group of an origin's responses (RFC 9875); without an origin, of any.
    Group {
        origin: Option<&'a str>,
        name: &'a str,
    },
}

impl<'a> Scope<'a> {
    /// As text, for another process.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// What `text` gave; `None` if that is none.
    pub fn parse(text: &'a str) -> Option<Scope<'a>> {
        if text == "all" {
            return Some(Scope::All);
        }
        let after = |prefix| text.strip_prefix(prefix);
        let group = || {
            let (origin, name) = after(GROUP)?.split_once(' ')?;
            Some(Scope::Group { origin: Some(origin).filter(|origin| *origin != "*"), name })
        };
        None.or_else(|| after(HOST).map(Scope::Host))
            .or_else(|| after(ORIGIN).map(Scope::Origin))
            .or_else(|| after(PREFIX).map(Scope::Prefix))
            .or_else(|| after(PATH).map(Scope::Path))
            .or_else(|| after(PATH_PREFIX).map(Scope::PathPrefix))
            .or_else(group)
    }

    /// No host and no URL has a space in it.
    fn write(&self, out: &mut String) {
        let parts = match *self {
            Scope::All => ["all", "", ""],
            Scope::Host(host) => [HOST, host, ""],
            Scope::Origin(origin) => [ORIGIN, origin, ""],
            Scope::Prefix(prefix) => [PREFIX, prefix, ""],
            Scope::Path(path) => [PATH, path, ""],
            Scope::PathPrefix(prefix) => [PATH_PREFIX, prefix, ""],
            Scope::Group { origin, name } => {
                out.push_str(GROUP);
                out.push_str(origin.unwrap_or("*"));
                [" ", name, ""]
            }
        };
        parts.iter().for_each(|part| out.push_str(part));
    }
}

const HOST: &str = "host ";
const ORIGIN: &str = "origin ";
const PREFIX: &str = "prefix ";
const PATH: &str = "path ";
const PATH_PREFIX: &str = "path-prefix ";
const GROUP: &str = "group ";
const ANY_ORIGINS_GROUP: &str = "group * ";

/// What only widening purges: a site; and, of an origin or a site, the responses in groups.
const SITE: &str = "site ";
const GROUPED_ORIGIN: &str = "grouped-origin ";
const GROUPED_SITE: &str = "grouped-site ";

/// The kinds of scopes that are kept in buckets, and where theirs are.
const BUCKETS: [(&str, Range<usize>); 4] =
    [(SITE, 0..512), (GROUPED_SITE, 512..3584), (PATH, 3584..3840), (ANY_ORIGINS_GROUP, 3840..4096)];

/// Of an origin or a site with so many scopes all is purged, when there are too many.
const MANY: usize = 8;

impl Purges {
    /// Bytes that an encoding takes at most.
    pub const MAX: usize = Purges::SCOPES + Purges::BUCKETS * Purges::BUCKET + Purges::HEADER;
    /// Bytes that the scopes take at most.
    const SCOPES: usize = 192 << 10;
    const ENTRY: usize = 16;
    const HEADER: usize = 48;
    const BUCKETS: usize = BUCKETS[3].1.end;
    /// A bucket's number and place.
    const BUCKET: usize = 12;

    /// None. The seed, a number by chance, says which hosts share a bucket.
    pub fn new(seed: u64) -> Purges {
        Purges { seed, ..Purges::default() }
    }

    /// The same with another seed, unless something is in buckets by the one it has.
    pub fn seeded(mut self, seed: u64) -> Purges {
        if self.buckets.is_empty() {
            self.seed = seed;
        }
        self
    }

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
            *self = Purges { newest: self.newest, floor: self.newest, ..Purges::new(self.seed) };
            return;
        }
        let mut text = String::new();
        scope.write(&mut text);
        self.insert(text, self.newest);
        while self.bytes > Purges::SCOPES {
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
        let path = &url[origin.len()..];
        let after = |number: u64| number > head.purges_known;
        let is_noted = |text: &str| {
            self.scopes.get(text).is_some_and(|number| after(*number))
                || (!self.buckets.is_empty() && self.bucket(text).is_some_and(|at| after(self.buckets[at])))
        };
        let mut text = String::new();
        let mut is_purged = |scope: Scope<'_>| {
            text.clear();
            scope.write(&mut text);
            is_noted(&text)
        };
        let host = host_of(origin);
        let grouped = groups(&head.headers);
        let of_site = |kind: &str| sites_of(host).iter().any(|site| is_noted(&format!("{kind}{site}")));
        let is_wide = self.has_wide || !self.buckets.is_empty();
        is_purged(Scope::Host(host))
            || (is_wide && of_site(SITE))
            || (is_wide && !grouped.is_empty() && of_site(GROUPED_SITE))
            || (is_wide && !grouped.is_empty() && is_noted(&format!("{GROUPED_ORIGIN}{origin}")))
            || is_purged(Scope::Origin(origin))
            || is_purged(Scope::Path(path))
            || self
                .prefixes
                .keys()
                .any(|length| url.get(..*length).is_some_and(|p| is_purged(Scope::Prefix(p))))
            || self
                .path_prefixes
                .keys()
                .any(|length| path.get(..*length).is_some_and(|p| is_purged(Scope::PathPrefix(p))))
            || grouped.iter().any(|name| {
                is_purged(Scope::Group { origin: None, name })
                    || is_purged(Scope::Group { origin: Some(origin), name })
            })
    }

    /// At most `MAX` bytes; their layout is drawn in `wire.rs`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes + Purges::HEADER);
        out.push(if self.buckets.is_empty() { wire::PURGES } else { wire::PURGES_IN_BUCKETS });
        for number in [self.newest, self.floor, self.scopes.len() as u64] {
            wire::put_number(&mut out, number);
        }
        for (text, number) in &self.scopes {
            wire::put_number(&mut out, *number);
            wire::put_number(&mut out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        if !self.buckets.is_empty() {
            let used = || self.buckets.iter().enumerate().filter(|(_, number)| **number > 0);
            wire::put_number(&mut out, self.seed);
            wire::put_number(&mut out, used().count() as u64);
            for (at, number) in used() {
                wire::put_number(&mut out, at as u64);
                wire::put_number(&mut out, *number);
            }
        }
        out
    }

    /// Any bytes: what they stand for, or `None`. No bytes stand for no purges.
    pub fn decode(bytes: &[u8]) -> Option<Purges> {
        let mut purges = Purges::default();
        if bytes.is_empty() {
            return Some(purges);
        }
        let (kind, rest) = bytes.split_first()?;
        if ![wire::PURGES, wire::PURGES_IN_BUCKETS].contains(kind) {
            return None;
        }
        let mut read = wire::Reader::new(rest);
        (purges.newest, purges.floor) = (read.number()?, read.number()?);
        for _ in 0..read.number()? {
            let number = read.number()?;
            let text = read.text()?;
            if number <= purges.floor || number > purges.newest {
                return None;
            }
            purges.insert(text, number);
        }
        if *kind == wire::PURGES_IN_BUCKETS {
            purges.seed = read.number()?;
            purges.buckets = vec![0; Purges::BUCKETS];
            let count = read.number()?;
            if count == 0 {
                return None;
            }
            for _ in 0..count {
                let (at, number) = (usize::try_from(read.number()?).ok()?, read.number()?);
                let bucket = purges.buckets.get_mut(at).filter(|bucket| **bucket == 0)?;
                if number == 0 || number > purges.newest {
                    return None;
                }
                *bucket = number;
            }
        }
        read.end()?;
        Some(purges)
    }

    fn insert(&mut self, text: String, number: u64) {
        let bytes = text.len() + Purges::ENTRY;
        self.has_wide |= [SITE, GROUPED_ORIGIN, GROUPED_SITE].iter().any(|kind| text.starts_with(kind));
        let lengths = match (text.strip_prefix(PREFIX), text.strip_prefix(PATH_PREFIX)) {
            (Some(prefix), _) => Some((&mut self.prefixes, prefix.len())),
            (_, Some(prefix)) => Some((&mut self.path_prefixes, prefix.len())),
            _ => None,
        };
        match self.scopes.entry(text) {
            Entry::Occupied(mut there) => {
                let newest = number.max(*there.get());
                there.insert(newest);
            }
            Entry::Vacant(free) => {
                free.insert(number);
                self.bytes += bytes;
                if let Some((lengths, length)) = lengths {
                    *lengths.entry(length).or_default() += 1;
                }
            }
        }
    }

    /// The bucket of a scope's text; `None` where this kind of scope has none.
    fn bucket(&self, text: &str) -> Option<usize> {
        let (_, range) = BUCKETS.iter().find(|(kind, _)| text.starts_with(kind))?;
        let hash = xxh3_64_with_seed(text.as_bytes(), self.seed);
        Some(range.start + (hash % range.len() as u64) as usize)
    }

    /// Makes room: an origin with many scopes is purged whole, or a site; where none has, the older half of all goes to
    /// buckets.
    fn widen(&mut self) {
        let all = std::mem::take(&mut self.scopes);
        (self.prefixes, self.path_prefixes, self.bytes) = Default::default();
        for level in 0..LEVELS {
            let Some((wider, newest)) = most(&all, level) else { continue };
            for (text, number) in all {
                if wider_of(&text, level).as_ref() != Some(&wider) {
                    self.insert(text, number);
                }
            }
            return self.insert(wider, newest);
        }
        let mut numbers: Vec<u64> = all.values().copied().collect();
        let middle = numbers.len() / 2;
        let middle = *numbers.select_nth_unstable(middle).1;
        for (text, number) in all {
            match number > middle {
                true => self.insert(text, number),
                false => self.move_to_bucket(&text, number),
            }
        }
    }

    /// Notes a scope's number where it needs no room of its own.
    fn move_to_bucket(&mut self, text: &str, number: u64) {
        // Prefixes of paths are the operator's, and become shorter.
        if let Some(path) = text.strip_prefix(PATH_PREFIX) {
            let parent = path.trim_end_matches('/').rfind('/').map_or("/", |slash| &path[..=slash]);
            let mut wider = String::new();
            Scope::PathPrefix(parent).write(&mut wider);
            return self.insert(wider, number);
        }
        let widest = wider_of(text, LEVELS - 1).unwrap_or_else(|| text.to_owned());
        if let Some(at) = self.bucket(&widest) {
            self.buckets.resize(Purges::BUCKETS, 0);
            self.buckets[at] = self.buckets[at].max(number);
        }
    }
}

/// Ways to make a scope wider: to its origin, and to two sites, the smaller one first.
const LEVELS: usize = 3;

/// What a scope becomes when it is made wider; `None` for what is about no host, and for what is that wide.
fn wider_of(text: &str, level: usize) -> Option<String> {
    let groups = [GROUP, GROUPED_ORIGIN, GROUPED_SITE].iter().any(|kind| text.starts_with(kind));
    let (of_origin, of_site) = if groups { (GROUPED_ORIGIN, GROUPED_SITE) } else { (ORIGIN, SITE) };
    if level == 0 {
        let origin = origin_of_scope(text)?;
        return Some(format!("{of_origin}{origin}"));
    }
    if let Some(site) = text.strip_prefix(SITE).or_else(|| text.strip_prefix(GROUPED_SITE)) {
        return (level == LEVELS - 1).then(|| format!("{of_site}{}", widest_site(site)));
    }
    let host = text.strip_prefix(HOST).or_else(|| origin_of_scope(text).map(host_of))?;
    Some(format!("{of_site}{}", sites_of(host)[level - 1]))
}

/// What most scopes become when they are made wider, if that are many, and the newest of their numbers.
fn most(all: &HashMap<String, u64>, level: usize) -> Option<(String, u64)> {
    let mut wider: HashMap<String, (usize, u64)> = HashMap::new();
    for (text, number) in all {
        if let Some(text) = wider_of(text, level) {
            let (count, newest) = wider.entry(text).or_default();
            (*count, *newest) = (*count + 1, (*newest).max(*number));
        }
    }
    let (text, (count, newest)) = wider.into_iter().max_by_key(|(_, (count, _))| *count)?;
    (count >= MANY).then_some((text, newest))
}

/// The sites of a host, the smaller one first: hosts that probably have one owner. Of a name its last three labels, and its
/// last two; of an IPv4 address the first 24 and 16 bits; of an IPv6 address the first 48 and 32.
fn sites_of(host: &str) -> [String; 2] {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let high = |bits: u32, all: u32| u128::MAX << (all - bits);
    match bare.parse() {
        Ok(IpAddr::V4(address)) => [24, 16].map(|bits| {
            let network = Ipv4Addr::from_bits(address.to_bits() & high(bits, 32) as u32);
            format!("{network}/{bits}")
        }),
        Ok(IpAddr::V6(address)) => [48, 32].map(|bits| {
            let network = Ipv6Addr::from_bits(address.to_bits() & high(bits, 128));
            format!("{network}/{bits}")
        }),
        Err(_) => [3, 2].map(|count| last_labels(host, count)),
    }
}

/// The wider site that a site lies in.
fn widest_site(site: &str) -> String {
    match site.split_once('/') {
        Some((address, _)) => sites_of(address)[1].clone(),
        None => last_labels(site, 2),
    }
}

fn last_labels(host: &str, count: usize) -> String {
    let mut labels: Vec<&str> = host.trim_end_matches('.').rsplit('.').take(count).collect();
    labels.reverse();
    labels.join(".")
}

/// The origin that a scope's text is about, if it is about one.
fn origin_of_scope(text: &str) -> Option<&str> {
    match text.split_once(' ')? {
        ("origin" | "grouped-origin", origin) => Some(origin),
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
