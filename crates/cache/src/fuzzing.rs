//! What the fuzz targets reach beyond the public interface, as plain values.

use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::validators::EntityTag;
use crate::{list, preference, validators};
use http::HeaderMap;

/// Flags, and the numbers in the order of the struct they come from.
pub type Directives = (u32, [Option<u32>; 4]);

pub fn response_directives(headers: &HeaderMap) -> Directives {
    let all = ResponseDirectives::of(headers);
    (all.flags, [all.max_age, all.s_maxage, all.stale_while_revalidate, all.stale_if_error])
}

pub fn request_directives(headers: &HeaderMap) -> Directives {
    let all = RequestDirectives::of(headers);
    let flags = [all.no_store, all.no_cache, all.only_if_cached].into_iter().rev();
    let flags = flags.fold(0, |flags, flag| flags << 1 | u32::from(flag));
    (flags, [all.max_age, all.min_fresh, all.max_stale, None])
}

pub fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    list::members(line)
}

pub fn quoted_end(bytes: &[u8]) -> Option<usize> {
    list::quoted_end(bytes)
}

/// Whether each tag is weak, and what remains of it.
pub fn entity_tags(line: &[u8]) -> Vec<(bool, &[u8])> {
    validators::entity_tags(line).map(|tag| tag.parts()).collect()
}

/// Strongly and weakly.
pub fn tags_equal(a: &[u8], b: &[u8]) -> (bool, bool) {
    let (a, b) = (EntityTag::parse(a), EntityTag::parse(b));
    (a.strongly_equals(&b), a.weakly_equals(&b))
}

/// A list of preferences in its one way of writing.
pub fn canonical_preferences(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    preference::write(&preference::preferences(&value.to_ascii_lowercase())?, &mut out);
    Some(out)
}
