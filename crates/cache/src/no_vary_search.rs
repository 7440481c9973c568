//! No-Vary-Search: which parts of a URI's query a response does not depend on (draft-ietf-httpbis-no-vary-search-05).
//!
//! Until its revision 03 the draft wrote `params` for "no parameter counts" and `params, except=("a")` for "only a
//! counts", and so do browsers and origins; now it writes `except=()` and `except=("a")`. Both are read here: neither
//! means anything else in the other's revision, which at worst would have cached less.

use crate::{structured, wire};
use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry};

/// Section 4, the variation config. The default: the query counts as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoVarySearch {
    order_counts: bool,
    counting: Counting,
}

/// The parameters that count. Names are decoded, sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counting {
    AllBut(Vec<String>),
    Only(Vec<String>),
}

impl Default for NoVarySearch {
    fn default() -> NoVarySearch {
        NoVarySearch { order_counts: true, counting: Counting::AllBut(Vec::new()) }
    }
}

/// A field with more names than this is ignored, as an invalid one is.
const NAMES: usize = 256;

impl NoVarySearch {
    /// Section 5. An absent or invalid field is the default, which loses nothing but hits.
    pub fn of(headers: &HeaderMap) -> NoVarySearch {
        let members: Option<Dictionary> = structured::parse(headers, &NO_VARY_SEARCH);
        members.and_then(|members| NoVarySearch::read(&members)).unwrap_or_default()
    }

    pub fn is_default(&self) -> bool {
        *self == NoVarySearch::default()
    }

    /// Section 6: the same text for queries that are equivalent, and for no others: nothing, or `?` and a query that is
    /// itself equivalent to `query`. Without a field, a query that is absent and one that is empty differ.
    pub fn normalise(&self, query: Option<&str>) -> String {
        if self.is_default() {
            return query.map_or_else(String::new, |query| format!("?{query}"));
        }
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut pairs: Vec<_> = pairs.filter(|(name, _)| self.counts(name)).collect();
        if !self.order_counts {
            // A stable sort: the order of values of one name counts always.
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if pairs.is_empty() {
            return String::new();
        }
        form_urlencoded::Serializer::for_suffix(String::from("?"), 1).extend_pairs(pairs).finish()
    }

    /// The stored bytes; their layout is drawn in `wire.rs`.
    pub fn encode(&self) -> Vec<u8> {
        let (only, names) = match &self.counting {
            Counting::AllBut(names) => (0, names),
            Counting::Only(names) => (ONLY, names),
        };
        let order = if self.order_counts { ORDER_COUNTS } else { 0 };
        let mut out = vec![wire::NO_VARY_SEARCH];
        wire::put_number(&mut out, order | only);
        wire::put_texts(&mut out, names);
        out
    }

    /// Any bytes: what they stand for, or `None`.
    pub fn decode(bytes: &[u8]) -> Option<NoVarySearch> {
        let mut read = wire::Reader::new(bytes.strip_prefix(&[wire::NO_VARY_SEARCH])?);
        let flags = read.number().filter(|flags| flags & !(ONLY | ORDER_COUNTS) == 0)?;
        let names = sorted(read.texts()?);
        read.end()?;
        let counting = if flags & ONLY != 0 { Counting::Only(names) } else { Counting::AllBut(names) };
        Some(NoVarySearch { order_counts: flags & ORDER_COUNTS != 0, counting })
    }

    /// Section 5.1. `key-order` alone is a valid field, as the section's examples have it: its step "neither exists"
    /// would make it the default.
    fn read(members: &Dictionary) -> Option<NoVarySearch> {
        let order_counts = match members.get("key-order") {
            None => true,
            Some(order) => !boolean(order)?,
        };
        let counting = match (members.get("params"), members.get("except")) {
            (None, None) => Counting::AllBut(Vec::new()),
            (Some(ListEntry::InnerList(names)), None) => Counting::AllBut(keys(names)?),
            (Some(params), None) if boolean(params)? => Counting::Only(Vec::new()),
            (Some(_), None) => Counting::AllBut(Vec::new()),
            (None, Some(ListEntry::InnerList(names))) => Counting::Only(keys(names)?),
            (Some(params), Some(ListEntry::InnerList(names))) if boolean(params)? => {
                Counting::Only(keys(names)?)
            }
            (_, Some(_)) => return None,
        };
        let config = NoVarySearch { order_counts, counting };
        (config.names().len() <= NAMES).then_some(config)
    }

    fn names(&self) -> &[String] {
        let (Counting::AllBut(names) | Counting::Only(names)) = &self.counting;
        names
    }

    /// Bytes of memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.names().iter().map(|name| size_of::<String>() + 16 + name.len()).sum()
    }

    fn counts(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.binary_search_by(|n| n.as_str().cmp(name)).is_ok();
        match &self.counting {
            Counting::AllBut(names) => !is_in(names),
            Counting::Only(names) => is_in(names),
        }
    }
}

static NO_VARY_SEARCH: HeaderName = HeaderName::from_static("no-vary-search");

const ORDER_COUNTS: u64 = 1 << 0;
const ONLY: u64 = 1 << 1;

fn boolean(member: &ListEntry) -> Option<bool> {
    match member {
        ListEntry::Item(Item { bare_item, .. }) => bare_item.as_boolean(),
        ListEntry::InnerList(_) => None,
    }
}

/// Section 5.3: names are written as in a query.
fn keys(list: &InnerList) -> Option<Vec<String>> {
    let keys = list.items.iter().map(|item| match &item.bare_item {
        BareItem::String(text) => Some(decoded(text.as_str())),
        _ => None,
    });
    Some(sorted(keys.collect::<Option<_>>()?))
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// A name alone, in which `&` and `=` stand for themselves.
fn decoded(name: &str) -> String {
    let name = name.replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(name.as_bytes()).next().map_or_else(String::new, |(name, _)| name.into_owned())
}
