//! Going on with a response that broke off: what is asked of the origin, and whether its answer is the rest of the
//! same representation (RFC 9110 sections 13.1.5, 14.2 and 15.3.7.3).

use crate::answer::last_modified_is_strong;
use crate::part::{positions, strong_etag};
use crate::{Head, make_unconditional};
use http::header::{CONTENT_ENCODING, ETAG, HeaderName, IF_RANGE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode, response};

/// By what bytes of a later response are known to be of the same representation as those of an earlier one.
///
/// Positions are those in the earlier response's body, whether that was a whole representation or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// What If-Range says: a strong tag, or the date of a strong Last-Modified.
    condition: HeaderValue,
    /// Fields that must come again as they were.
    same: Vec<(HeaderName, Option<HeaderValue>)>,
    /// Content-Encoding: a 206 need not repeat it, but may not say another. Some servers give one tag to several codings.
    coding: Option<HeaderValue>,
    /// Where in its representation the body begins.
    first: u64,
    /// Bytes of the whole representation, when known.
    complete: Option<u64>,
}

impl Resume {
    /// Of a response whose body has `length` bytes, if that is known. `None`: it has no strong validator, is neither a 200
    /// nor a part of one, or is a part and nobody knows where that ends.
    pub fn of(head: &Head, length: Option<u64>) -> Option<Resume> {
        let (first, complete) = match head.part() {
            Some(part) => length.map(|_| (part.first, part.complete))?,
            None if head.status == StatusCode::OK => (0, length),
            None => return None,
        };
        let field = |name: HeaderName| (name.clone(), head.headers.get(name).cloned());
        let (condition, same) = if let Some(etag) = strong_etag(head) {
            (etag.clone(), vec![field(ETAG)])
        } else if last_modified_is_strong(head) {
            // A date is less exact: what shares it can be of another coding, or of another version by a weak tag.
            let date = head.headers.get(LAST_MODIFIED)?.clone();
            (date, vec![field(LAST_MODIFIED), field(ETAG), field(CONTENT_ENCODING)])
        } else {
            return None;
        };
        let coding = head.headers.get(CONTENT_ENCODING).cloned();
        Some(Resume { condition, same, coding, first, complete })
    }

    /// Makes a request one for the bytes `from..to` of the body; `to` of `None` means all that the representation has.
    pub fn ask(&self, request: &mut HeaderMap, from: u64, to: Option<u64>) {
        make_unconditional(request);
        let from = self.first.saturating_add(from);
        let range = match to.map(|to| self.first.saturating_add(to).saturating_sub(1)) {
            Some(last) => format!("bytes={from}-{last}"),
            None => format!("bytes={from}-"),
        };
        if let Ok(range) = HeaderValue::try_from(range) {
            request.insert(RANGE, range);
        }
        request.insert(IF_RANGE, self.condition.clone());
    }

    /// How many bytes come, if the answer has exactly the bytes that were asked for, of the same representation.
    pub fn continues(&self, answer: &response::Parts, from: u64, to: Option<u64>) -> Option<u64> {
        if answer.status != StatusCode::PARTIAL_CONTENT {
            return None;
        }
        let (first, last, complete) = positions(&answer.headers)?;
        let (begin, end) = (self.first.checked_add(from)?, last.checked_add(1)?);
        let ends_there = match to {
            Some(to) => end == self.first.checked_add(to)?,
            None => complete == Some(end),
        };
        let complete = self.complete.is_none() || self.complete == complete;
        let coding = is_coding_of(self.coding.as_ref(), &answer.headers);
        (first == begin && ends_there && complete && self.has_validators_of(answer) && coding)
            .then(|| end - first)
    }

    /// How many bytes of an answer come before those that were asked for, and how many these are, if it has all of the same
    /// representation: an origin without ranges gives that (RFC 9110 section 14.2). Its body has `length` bytes.
    pub fn within_whole(
        &self,
        answer: &response::Parts,
        length: Option<u64>,
        (from, to): (u64, Option<u64>),
    ) -> Option<(u64, u64)> {
        let complete = length.filter(|length| self.complete == Some(*length) && self.is_whole(answer))?;
        let begin = self.first.checked_add(from)?;
        let end = to.map_or(Some(complete), |to| self.first.checked_add(to))?;
        (end <= complete).then_some((begin, end.checked_sub(begin)?))
    }

    fn is_whole(&self, answer: &response::Parts) -> bool {
        let coding = answer.headers.get(CONTENT_ENCODING);
        answer.status == StatusCode::OK && self.has_validators_of(answer) && coding == self.coding.as_ref()
    }

    fn has_validators_of(&self, answer: &response::Parts) -> bool {
        self.same.iter().all(|(name, value)| answer.headers.get(name) == value.as_ref())
    }

    /// Whether an answer says that the representation is not there any more. What else may come instead of the bytes that were asked
    /// for (a refusal, an error, a redirection, fewer bytes, all of it) says nothing of the kind.
    pub fn is_ended_by(&self, answer: &response::Parts) -> bool {
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                let differs = |(name, value): &(HeaderName, Option<HeaderValue>)| {
                    let is_validator = [ETAG, LAST_MODIFIED].contains(name);
                    is_validator && answer.headers.get(name).is_some_and(|now| Some(now) != value.as_ref())
                };
                let complete = positions(&answer.headers).and_then(|(_, _, complete)| complete);
                let lengths = self.complete.zip(complete);
                self.same.iter().any(differs) || lengths.is_some_and(|(before, now)| before != now)
            }
            StatusCode::OK => !self.is_whole(answer),
            status => matches!(status.as_u16(), 404 | 410 | 416),
        }
    }
}

/// Whether a later part says nothing else of its coding than what came before it.
pub(crate) fn is_coding_of(before: Option<&HeaderValue>, part: &HeaderMap) -> bool {
    part.get(CONTENT_ENCODING).is_none_or(|coding| Some(coding) == before)
}
