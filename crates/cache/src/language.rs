//! Which stored language answers which client (RFC 9110 sections 8.5 and 12.5.4).
//!
//! An origin that varies by Accept-Language has few languages and clients have many lists. What the key cannot merge,
//! this can: a client whose list puts one tag before all others takes the response that is in just that language. Tags
//! have to be equal; whether `en` would do for `en-GB` is the origin's to say.

use crate::Head;
use crate::list::members_of;
use crate::preference::{lower_case, preferences};
use http::HeaderMap;
use http::header::{ACCEPT_LANGUAGE, CONTENT_LANGUAGE};

/// The tag of Accept-Language that outweighs all others, in lower case; not `*`, and not one of weight 0.
pub fn preferred_language(request: &HeaderMap) -> Option<String> {
    let list = lower_case(request, &ACCEPT_LANGUAGE);
    let all = preferences(&list)?;
    let (best, others) = all.split_first()?;
    let strictly = others.first().is_none_or(|next| best.outweighs(next));
    let chosen = strictly && best.is_acceptable() && is_tag(best.range);
    chosen.then(|| String::from_utf8_lossy(best.range).into_owned())
}

/// The one language the stored response is meant for (8.5), in lower case.
pub fn sole_language(head: &Head) -> Option<String> {
    let mut languages = members_of(&head.headers, CONTENT_LANGUAGE);
    let (language, None) = (languages.next()?, languages.next()) else { return None };
    is_tag(language).then(|| String::from_utf8_lossy(language).to_ascii_lowercase())
}

/// Subtags of one to eight letters and digits between hyphens (RFC 5646 section 2.1, RFC 4647 section 2.1).
pub(crate) fn is_tag(text: &[u8]) -> bool {
    text.split(|b| *b == b'-')
        .all(|subtag| (1..=8).contains(&subtag.len()) && subtag.iter().all(u8::is_ascii_alphanumeric))
}
