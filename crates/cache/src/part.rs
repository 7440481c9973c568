//! Partial content: what of a representation a stored 206 holds, which requests it can answer, and how two parts, or
//! a part and the rest, become one (RFC 9111 sections 3.3 and 3.4, RFC 9110 sections 14.4 and 15.3.7).

use crate::answer::last_modified_is_strong;
use crate::resume::is_coding_of;
use crate::validators::EntityTag;
use crate::{Answer, Asked, Head, Resume, SetCookie, answer};
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};

/// The stored body begins at byte `first` of a representation of `complete` bytes (`None`: the origin did not say).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub first: u64,
    pub complete: Option<u64>,
    /// The origin said that the part reaches the end.
    pub(crate) to_end: bool,
}

impl Part {
    /// From the one Content-Range of a response, where [`positions`] finds one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Part> {
        let (first, last, complete) = positions(headers)?;
        let to_end = complete.is_some_and(|complete| last.checked_add(1) == Some(complete));
        Some(Part { first, complete, to_end })
    }
}

/// First and last byte of the one Content-Range of a response, and the length of the whole; `None` for several ranges in
/// one response, whatever stands beside them (RFC 9110 section 15.3.7.2), and for anything malformed.
pub(crate) fn positions(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    if headers.get(CONTENT_TYPE).is_some_and(is_multipart) {
        return None;
    }
    let mut lines = headers.get_all(CONTENT_RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let range = line.to_str().ok()?.trim();
    let (unit, range) = range.split_once(' ')?;
    let (positions, complete) = range.trim().split_once('/')?;
    let (first, last) = positions.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let complete = if complete == "*" { None } else { Some(number(complete)?) };
    let possible = first <= last && complete.is_none_or(|complete| last < complete);
    (unit.eq_ignore_ascii_case("bytes") && possible).then_some((first, last, complete))
}

/// Whether a part that says it is everything has fewer bytes than that: it would pass for a whole that is shorter.
pub fn falls_short(headers: &HeaderMap, length: u64) -> bool {
    let told = positions(headers).and_then(|(first, last, complete)| {
        (first == 0 && complete == last.checked_add(1)).then_some(complete).flatten()
    });
    told.is_some_and(|complete| length < complete)
}

fn is_multipart(kind: &HeaderValue) -> bool {
    const KIND: &[u8] = b"multipart/byteranges";
    kind.as_bytes().get(..KIND.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}

fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

impl Head {
    pub fn part(&self) -> Option<Part> {
        self.part
    }

    /// Tells a stored part how long its body turned out to be. Where Content-Range said otherwise, what came is
    /// believed: it begins at the first position, and if it was to reach the end, it ends there. A part that turns
    /// out to be everything becomes a complete response.
    pub fn settle(&mut self, length: u64) {
        let Some(part) = &mut self.part else { return };
        let end = part.first.saturating_add(length);
        if part.to_end || part.complete.is_some_and(|complete| complete < end) {
            part.complete = Some(end);
        }
        if part.first == 0 && part.complete == Some(length) {
            self.part = None;
            self.status = StatusCode::OK;
        }
    }
}

impl Head {
    /// The head of the first bytes of this response's body, which was to have `length` bytes and did not come to its end, or of
    /// which the others were lost (3.3: an incomplete response). `None`: nothing tells what the rest would be of.
    pub fn cut_short(&self, length: u64) -> Option<Head> {
        Resume::of(self, Some(length))?;
        let whole = Part { first: 0, complete: Some(length), to_end: false };
        let mut head = self.clone();
        head.status = StatusCode::PARTIAL_CONTENT;
        head.part = Some(self.part.map_or(whole, |part| Part { to_end: false, ..part }));
        Some(head)
    }

    /// Whether both are of one representation: they share a strong validator, and the later one, `other`, has no other coding.
    pub fn is_of_same(&self, other: &Head) -> bool {
        match (strong_etag(self), strong_etag(other)) {
            (Some(a), Some(b)) => a == b && is_coding_of(self.headers.get(CONTENT_ENCODING), &other.headers),
            // A date is less exact: what shares it can be of another coding, or of another version by a weak tag.
            (None, None) => {
                last_modified_is_strong(self)
                    && last_modified_is_strong(other)
                    && self.last_modified() == other.last_modified()
                    && [ETAG, CONTENT_ENCODING]
                        .iter()
                        .all(|name| self.headers.get(name) == other.headers.get(name))
            }
            _ => false,
        }
    }
}

/// Section 3.4: whether a stored response of `length` bytes can answer: a complete one always, a part only a request
/// for bytes that it has.
pub fn can_answer(asked: &Asked, request: &HeaderMap, head: &Head, length: u64) -> bool {
    let Some(part) = head.part else { return true };
    let held = part.first..part.first.saturating_add(length);
    match answer(asked, request, head, length) {
        Answer::Part { first, last } => held.contains(&first) && held.contains(&last),
        Answer::Parts(ranges) => {
            ranges.iter().all(|(first, last)| held.contains(first) && held.contains(last))
        }
        Answer::Full | Answer::NotModified | Answer::Unsatisfiable => false,
    }
}

/// Section 3.4: the rest of a part that begins at 0 is asked for with this Range, and If-Range where it is strong.
/// `false`: the part does not begin at 0, or nobody knows where it ends.
pub fn ask_for_the_rest(request: &mut HeaderMap, head: &Head, length: u64) -> bool {
    let Some(Part { first: 0, complete: Some(complete), .. }) = head.part else { return false };
    let Ok(range) = HeaderValue::try_from(format!("bytes={length}-")) else { return false };
    if length == 0 || length >= complete {
        return false;
    }
    request.insert(RANGE, range);
    if let Some(etag) = strong_etag(head) {
        request.insert(IF_RANGE, etag.clone());
    } else if last_modified_is_strong(head)
        && let Some(date) = head.headers.get(LAST_MODIFIED)
    {
        request.insert(IF_RANGE, date.clone());
    }
    true
}

/// Section 3.4: the head of stored and new part together, when both are of one representation (they share a strong
/// validator), touch or overlap, and may be stored as one. The new part's fields replace the stored ones; what it leaves
/// out, as an answer to If-Range does, stays. The body of the combination begins where the earlier part begins. Both
/// parts have been settled.
pub fn combined(stored: &Head, stored_length: u64, new: &Head, new_length: u64) -> Option<Head> {
    let (old, part) = (stored.part?, new.part?);
    let agree = old.complete.zip(part.complete).is_none_or(|(a, b)| a == b);
    let (old_end, new_end) = (old.first.checked_add(stored_length)?, part.first.checked_add(new_length)?);
    let touch = old.first <= new_end && part.first <= old_end;
    if !(stored.is_of_same(new) && agree && touch) {
        return None;
    }
    let first = old.first.min(part.first);
    let mut head = stored.updated_by_part(new);
    head.part = Some(Part { first, complete: old.complete.or(part.complete), to_end: false });
    head.purges_known = stored.purges_known.min(new.purges_known);
    head.settle(old_end.max(new_end) - first);
    // Each was permitted by the operator already.
    head.obeying(SetCookie::Fresh).ok()
}

pub(crate) fn strong_etag(head: &Head) -> Option<&HeaderValue> {
    let etag = head.headers.get(ETAG)?;
    let tag = EntityTag::parse(etag.as_bytes());
    (!tag.is_weak() && tag.is_quoted()).then_some(etag)
}
