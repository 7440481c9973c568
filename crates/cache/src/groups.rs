//! Cache-Groups and Cache-Group-Invalidation (RFC 9875): names for stored responses of one origin that become invalid
//! together. Names are opaque, compared byte by byte, and mean nothing beyond their origin (section 2.1).

use crate::invalidate::invalidates;
use crate::structured;
use http::{HeaderMap, HeaderName, Method, response};
use sfv::{BareItem, Item, List, ListEntry};

/// The groups of a response (section 2).
pub fn groups(headers: &HeaderMap) -> Vec<String> {
    members(headers, &CACHE_GROUPS)
}

/// The groups of the request's origin that a response ends (section 3): none for safe methods, and none for errors, as
/// for the target itself (RFC 9111 section 4.4).
pub fn invalidated_groups(method: &Method, response: &response::Parts) -> Vec<String> {
    if invalidates(method, response.status) {
        members(&response.headers, &CACHE_GROUP_INVALIDATION)
    } else {
        Vec::new()
    }
}

static CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
static CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// What every implementation supports, and this one no more (sections 2 and 3): so many members, of so many characters.
const MEMBERS: usize = 32;
const LENGTH: usize = 32;

/// Each once. A field that is no list of strings has none; parameters are ignored; what exceeds the limits is left out.
fn members(headers: &HeaderMap, field: &HeaderName) -> Vec<String> {
    let list: List = structured::parse(headers, field).unwrap_or_default();
    let strings: Option<Vec<&str>> = list.iter().map(string).collect();
    let mut names = Vec::new();
    for name in strings.unwrap_or_default() {
        if names.len() < MEMBERS && name.len() <= LENGTH && !names.iter().any(|n| n == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn string(member: &ListEntry) -> Option<&str> {
    match member {
        ListEntry::Item(Item { bare_item: BareItem::String(text), .. }) => Some(text.as_str()),
        _ => None,
    }
}
