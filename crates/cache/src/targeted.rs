//! CDN-Cache-Control, the cache directives that are meant for caches like this one (RFC 9213).

use crate::directives::ResponseDirectives;
use crate::structured;
use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, Item, ListEntry};

static CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// Section 2.2: a valid field with at least one member is the whole policy, whatever Cache-Control and Expires say. An
/// empty one, or one that is no dictionary, is as good as absent (2.1): `None`.
pub(crate) fn directives(headers: &HeaderMap) -> Option<ResponseDirectives> {
    let members: Dictionary = structured::parse(headers, &CDN_CACHE_CONTROL)?;
    if members.is_empty() {
        return None;
    }
    let mut all = ResponseDirectives { targeted: true, ..Default::default() };
    for (name, value) in &members {
        add(&mut all, name.as_str(), value);
    }
    Some(all)
}

/// Section 2.1: a directive is of one type, and no other is read into it. A number of another type is therefore no
/// number, which is 0 as in Cache-Control. A flag with an argument counts where it restricts, and not where it permits.
fn add(all: &mut ResponseDirectives, name: &str, value: &ListEntry) {
    let value = match value {
        ListEntry::Item(Item { bare_item, .. }) => Some(bare_item),
        ListEntry::InnerList(_) => None,
    };
    match value {
        Some(BareItem::Boolean(true)) => all.add(name.as_bytes(), None),
        Some(BareItem::Boolean(false)) if ResponseDirectives::is_flag(name) => {}
        _ if PERMITTING.contains(&name) => {}
        Some(BareItem::Integer(number)) => all.add(name.as_bytes(), Some(number.to_string().as_bytes())),
        _ => all.add(name.as_bytes(), Some(b"")),
    }
}

const PERMITTING: [&str; 3] = ["public", "must-understand", "immutable"];
