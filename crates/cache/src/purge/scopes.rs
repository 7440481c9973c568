//! The scopes that were purged in one way, each with the number of its newest purge: bounded, and asked in a time that does not
//! depend on how many there are, but for expressions, which are few.
//!
//! Beyond the bound an origin that has many is purged whole, or else a site whose hosts have, the smallest
//! one; where none has, the older half of all is kept by buckets of sites, paths and group names, whose newest number counts for
//! all in them. So too many purges remove too much, first of those who have many. What ends of groups become wider to covers
//! responses in groups only: it is not the operator who ends those, and who has none loses nothing by it.
//!
//! Of soft purges URLs make room first, the older half of them by buckets: clients may purge those, and are not to make an origin
//! stale as a whole. Of what is left then the older half becomes everything.

use super::Scope;
use super::glob::Expression;
use crate::key::{self, origin_of};
use crate::{Head, groups, wire};
use std::cell::{OnceCell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Always: every scope's number is above `floor` and not above the newest of all purges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scopes {
    /// Whatever knows only of purges before this one is purged.
    floor: u64,
    /// By the scope's text.
    scopes: HashMap<String, u64>,
    /// How many prefixes of URLs, and of paths, there are of each length.
    prefixes: BTreeMap<usize, usize>,
    path_prefixes: BTreeMap<usize, usize>,
    /// By the scope's text too.
    expressions: HashMap<String, Expression>,
    /// About what encoding the scopes takes.
    bytes: usize,
    /// The newest number of each bucket that scopes were moved to; where no bucket has one, empty.
    buckets: Vec<u64>,
    /// Something has become wider.
    has_wide: bool,
    /// Which bucket a text belongs to: nobody outside can choose hosts that share one.
    seed: u64,
}

/// How much there may be of scopes.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of their encoding, without buckets.
    pub bytes: usize,
    /// They are soft: URLs alone go to buckets.
    pub soft: bool,
}

/// Expressions that are kept apart; each is asked by itself.
const EXPRESSIONS: usize = 64;

impl<'a> Scope<'a> {
    /// As text, for another process: a scope, and whether it is purged softly.
    pub fn text(&self, softly: bool) -> String {
        let mut text = if softly { SOFT.to_owned() } else { String::new() };
        self.write(&mut text);
        text
    }

    /// What `text` gave; `None` if that is none.
    pub fn parse(text: &'a str) -> Option<(Scope<'a>, bool)> {
        let soft = text.strip_prefix(SOFT);
        Scope::parse_scope(soft.unwrap_or(text)).map(|scope| (scope, soft.is_some()))
    }

    fn parse_scope(text: &'a str) -> Option<Scope<'a>> {
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
            .or_else(|| after(URL).map(Scope::Url))
            .or_else(|| after(PREFIX).map(Scope::Prefix))
            .or_else(|| after(PATH).map(Scope::Path))
            .or_else(|| after(PATH_PREFIX).map(Scope::PathPrefix))
            .or_else(|| after(EXPRESSION).filter(|text| is_expression(text)).map(Scope::Expression))
            .or_else(group)
    }

    /// No host and no URL has a space in it.
    fn write(&self, out: &mut String) {
        let parts = match *self {
            Scope::All => ["all", "", ""],
            Scope::Host(host) => [HOST, host, ""],
            Scope::Origin(origin) => [ORIGIN, origin, ""],
            Scope::Url(url) => [URL, url, ""],
            Scope::Prefix(prefix) => [PREFIX, prefix, ""],
            Scope::Path(path) => [PATH, path, ""],
            Scope::PathPrefix(prefix) => [PATH_PREFIX, prefix, ""],
            Scope::Expression(expression) => [EXPRESSION, expression, ""],
            Scope::Group { origin, name } => {
                out.push_str(GROUP);
                out.push_str(origin.unwrap_or("*"));
                [" ", name, ""]
            }
        };
        parts.iter().for_each(|part| out.push_str(part));
    }
}

/// What is purged softly, as another process is told of it.
const SOFT: &str = "soft ";

const HOST: &str = "host ";
const ORIGIN: &str = "origin ";
const URL: &str = "url ";
const PREFIX: &str = "prefix ";
const PATH: &str = "path ";
const PATH_PREFIX: &str = "path-prefix ";
const EXPRESSION: &str = "expression ";
const GROUP: &str = "group ";
const ANY_ORIGINS_GROUP: &str = "group * ";

/// What only widening purges: a site; and, of an origin or a site, the responses in groups.
const SITE: &str = "site ";
const GROUPED_ORIGIN: &str = "grouped-origin ";
const GROUPED_SITE: &str = "grouped-site ";

/// The kinds of scopes that are kept in buckets, and where theirs are; of soft purges the last alone, which hard ones do not have.
const BUCKETS: [(&str, Range<usize>); 5] = [
    (SITE, 0..512),
    (GROUPED_SITE, 512..3584),
    (PATH, 3584..3840),
    (ANY_ORIGINS_GROUP, 3840..4096),
    (URL, 4096..6144),
];

/// Bytes of a soft scope of a URL; what is longer goes to a bucket at once.
const LONG: usize = 1 << 10;

/// Of an origin or a site with so many scopes all is purged, when there are too many.
const MANY: usize = 8;

impl Scopes {
    const ENTRY: usize = 16;
    const BUCKETS: usize = BUCKETS[4].1.end;
    /// Bytes of a bucket's number and place.
    const BUCKET: usize = 12;
    /// Bytes of all buckets that there may be.
    pub const HARD_BUCKETS: usize = BUCKETS[4].1.start * Scopes::BUCKET;
    pub const SOFT_BUCKETS: usize = (BUCKETS[4].1.end - BUCKETS[4].1.start) * Scopes::BUCKET;

    pub fn new(seed: u64) -> Scopes {
        Scopes { seed, ..Scopes::default() }
    }

    /// The same with another seed, unless something is in buckets by the one it has.
    pub fn seeded(mut self, seed: u64) -> Scopes {
        if self.buckets.is_empty() {
            self.seed = seed;
        }
        self
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn len(&self) -> usize {
        self.scopes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.floor == 0 && self.scopes.is_empty() && self.buckets.is_empty()
    }

    pub fn has_expressions(&self) -> bool {
        !self.expressions.is_empty()
    }

    pub fn has_buckets(&self) -> bool {
        !self.buckets.is_empty()
    }

    pub fn purge(&mut self, scope: Scope<'_>, number: u64, bounds: Bounds) {
        if scope == Scope::All {
            *self = Scopes { floor: number, ..Scopes::new(self.seed) };
            return;
        }
        let mut text = String::new();
        scope.write(&mut text);
        if let Scope::Expression(expression) = scope {
            match expression.parse() {
                Ok(expression) => self.expressions.insert(text.clone(), expression),
                // What cannot be read may match anything.
                Err(_) => return self.purge(Scope::All, number, bounds),
            };
        }
        if bounds.soft && text.starts_with(URL) && text.len() > LONG {
            return self.note_in_bucket(&text, number);
        }
        self.insert(text, number);
        if self.expressions.len() > EXPRESSIONS {
            self.widen_expressions();
        }
        while self.bytes > bounds.bytes {
            if !bounds.soft || !self.move_urls() {
                self.widen(bounds);
            }
        }
    }

    /// The number of a purge after those that are known that covers what is stored under a key: of several any, or the `oldest`.
    pub fn cover(&self, key: &[u8], head: &Head, oldest: bool) -> Option<u64> {
        if head.purges_known < self.floor {
            return Some(self.floor);
        }
        if self.scopes.is_empty() && self.buckets.is_empty() {
            return None;
        }
        let Some(url) = key::uri(key) else {
            return Some(self.scopes.values().copied().max().unwrap_or_default());
        };
        let origin = origin_of(url);
        let path = &url[origin.len()..];
        let pick =
            |numbers: &mut dyn Iterator<Item = u64>| if oldest { numbers.min() } else { numbers.next() };
        let noted = |text: &str| {
            let bucket = || self.bucket(text).filter(|_| self.has_buckets()).map(|at| self.buckets[at]);
            let numbers = self.scopes.get(text).copied().into_iter().chain(iter::once_with(bucket).flatten());
            pick(&mut numbers.filter(|number| *number > head.purges_known))
        };
        let text = RefCell::new(String::new());
        let purged = |scope: Scope<'_>| {
            let mut text = text.borrow_mut();
            text.clear();
            scope.write(&mut text);
            noted(&text)
        };
        let host = host_of(origin);
        let grouped = groups(&head.headers);
        let sites = OnceCell::new();
        let of_site = |kind: &str| {
            let sites: &[String; 2] = sites.get_or_init(|| sites_of(host));
            pick(&mut sites.iter().filter_map(|site| noted(&format!("{kind}{site}"))))
        };
        let is_wide = self.has_wide || self.has_buckets();
        let of_groups = || {
            let origin = || noted(&format!("{GROUPED_ORIGIN}{origin}"));
            let site = || of_site(GROUPED_SITE);
            pick(&mut iter::once_with(origin).chain(iter::once_with(site)).flatten())
        };
        let is_search = key::is_of_searches(key);
        let expressed = |(text, expression): (&String, &Expression)| {
            let number = noted(text)?;
            let is_matched = match is_search {
                true => expression.may_match(host, path),
                false => expression.matches(host, path),
            };
            is_matched.then_some(number)
        };
        let begins = || self.prefixes.keys().filter_map(|length| url.get(..*length));
        let path_begins = || self.path_prefixes.keys().filter_map(|length| path.get(..*length));
        let named = || {
            let of_any = grouped.iter().map(|name| Scope::Group { origin: None, name });
            of_any.chain(grouped.iter().map(|name| Scope::Group { origin: Some(origin), name }))
        };
        let ways: [&dyn Fn() -> Option<u64>; 10] = [
            &|| purged(Scope::Host(host)),
            &|| if is_wide { of_site(SITE) } else { None },
            &|| if is_wide && !grouped.is_empty() { of_groups() } else { None },
            &|| purged(Scope::Origin(origin)),
            &|| purged(Scope::Url(url)),
            &|| purged(Scope::Path(path)),
            &|| pick(&mut begins().filter_map(|begin| purged(Scope::Prefix(begin)))),
            &|| pick(&mut path_begins().filter_map(|begin| purged(Scope::PathPrefix(begin)))),
            &|| pick(&mut named().filter_map(purged)),
            &|| pick(&mut self.expressions.iter().filter_map(expressed)),
        ];
        pick(&mut ways.iter().filter_map(|way| way()))
    }

    /// About what the encoding takes.
    pub fn size(&self) -> usize {
        self.bytes + self.buckets.iter().filter(|number| **number > 0).count() * Scopes::BUCKET
    }

    pub fn write(&self, out: &mut Vec<u8>, with_buckets: bool) {
        for number in [self.floor, self.scopes.len() as u64] {
            wire::put_number(out, number);
        }
        for (text, number) in &self.scopes {
            wire::put_number(out, *number);
            wire::put_number(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        if with_buckets {
            let used = || self.buckets.iter().enumerate().filter(|(_, number)| **number > 0);
            wire::put_number(out, if self.has_buckets() { self.seed } else { 0 });
            wire::put_number(out, used().count() as u64);
            for (at, number) in used() {
                wire::put_number(out, at as u64);
                wire::put_number(out, *number);
            }
        }
    }

    /// What `write` wrote, of purges up to the newest.
    pub fn read(from: &mut wire::Reader, newest: u64, with_buckets: bool) -> Option<Scopes> {
        let mut read = Scopes { floor: from.number()?, ..Scopes::default() };
        if read.floor > newest {
            return None;
        }
        for _ in 0..from.number()? {
            let number = from.number()?;
            let text = from.text()?;
            if number <= read.floor || number > newest {
                return None;
            }
            if let Some(expression) = text.strip_prefix(EXPRESSION) {
                read.expressions.insert(text.clone(), expression.parse().ok()?);
            }
            read.insert(text, number);
        }
        if with_buckets {
            let (seed, count) = (from.number()?, from.number()?);
            if count > 0 {
                (read.seed, read.buckets) = (seed, vec![0; Scopes::BUCKETS]);
            }
            for _ in 0..count {
                let (at, number) = (usize::try_from(from.number()?).ok()?, from.number()?);
                let bucket = read.buckets.get_mut(at).filter(|bucket| **bucket == 0)?;
                if number == 0 || number > newest {
                    return None;
                }
                *bucket = number;
            }
        }
        Some(read)
    }

    fn insert(&mut self, text: String, number: u64) {
        let bytes = text.len() + Scopes::ENTRY;
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

    /// Takes all scopes out, to put those back that stay.
    fn take_all(&mut self) -> HashMap<String, u64> {
        (self.prefixes, self.path_prefixes, self.bytes, self.has_wide) = Default::default();
        std::mem::take(&mut self.scopes)
    }

    /// Makes room: the older half of the scopes of URLs goes to buckets; `false`: there is none.
    fn move_urls(&mut self) -> bool {
        let urls = self.scopes.iter().filter(|(text, _)| text.starts_with(URL));
        let middle = middle(urls.map(|(_, number)| *number));
        let is_moved = |text: &str, number| number <= middle && text.starts_with(URL);
        if middle == 0 {
            return false;
        }
        for (text, number) in self.take_all() {
            match is_moved(&text, number) {
                true => self.note_in_bucket(&text, number),
                false => self.insert(text, number),
            }
        }
        true
    }

    /// Makes room: an origin with many scopes is purged whole, or a site; where none has, the older half of all goes to
    /// buckets.
    fn widen(&mut self, bounds: Bounds) {
        let all = self.take_all();
        for level in 0..LEVELS {
            let Some((wider, newest)) = most(&all, level) else { continue };
            for (text, number) in all {
                if wider_of(&text, level).as_ref() != Some(&wider) {
                    self.insert(text, number);
                }
            }
            return self.insert(wider, newest);
        }
        let middle = middle(all.values().copied());
        for (text, number) in all {
            match number > middle {
                true => self.insert(text, number),
                false if text.starts_with(EXPRESSION) => self.express_wider(&text, number),
                false if !bounds.soft => self.move_to_bucket(&text, number),
                false => self.floor = self.floor.max(number),
            }
        }
        self.drop_below_floor();
    }

    /// The older half of all expressions.
    fn widen_expressions(&mut self) {
        let all = self.take_all();
        let number = |text: &String| all.get(text).copied();
        let middle = middle(self.expressions.keys().filter_map(number));
        for (text, number) in all {
            match number <= middle && text.starts_with(EXPRESSION) {
                true => self.express_wider(&text, number),
                false => self.insert(text, number),
            }
        }
        self.drop_below_floor();
    }

    /// What an expression becomes when there are too many: the site of its host, or everything where it names none.
    fn express_wider(&mut self, text: &str, number: u64) {
        match self.expressions.remove(text).and_then(|expression| site_of_pattern(expression.host())) {
            Some(site) => self.insert(format!("{SITE}{site}"), number),
            None => self.floor = self.floor.max(number),
        }
    }

    /// What is below says nothing more.
    fn drop_below_floor(&mut self) {
        if self.scopes.values().any(|number| *number <= self.floor) {
            for (text, number) in self.take_all() {
                match number > self.floor {
                    true => self.insert(text, number),
                    false => drop(self.expressions.remove(&text)),
                }
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
        self.note_in_bucket(&wider_of(text, LEVELS - 1).unwrap_or_else(|| text.to_owned()), number);
    }

    fn note_in_bucket(&mut self, text: &str, number: u64) {
        if let Some(at) = self.bucket(text) {
            self.buckets.resize(Scopes::BUCKETS, 0);
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

fn is_expression(text: &str) -> bool {
    text.parse::<Expression>().is_ok_and(|expression| expression.as_str() == text)
}

/// The number that half of all do not exceed.
fn middle(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    let at = numbers.len() / 2;
    if numbers.is_empty() { 0 } else { *numbers.select_nth_unstable(at).1 }
}

/// The wider site that all hosts of a pattern lie in, if they do.
fn site_of_pattern(host: &str) -> Option<String> {
    if !host.contains(['*', '?']) {
        return Some(sites_of(host)[1].clone());
    }
    let site = last_labels(host, 2);
    let is_name =
        site.rsplit('.').next().is_some_and(|label| label.starts_with(|c: char| c.is_ascii_alphabetic()));
    let is_whole = host.ends_with(&format!(".{site}")) && site.contains('.');
    (is_name && is_whole && !site.contains(['*', '?'])).then_some(site)
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
        ("prefix" | "url", url) => Some(origin_of(url)),
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
