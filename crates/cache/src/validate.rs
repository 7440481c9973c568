//! Validation: asking the origin whether a stored response still holds, and updating it when it does (RFC 9111
//! section 4.3, RFC 9110 section 13.1).

use crate::validators::EntityTag;
use crate::{Asked, Head, Time};
use http::header::{
    CONTENT_LENGTH, ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, StatusCode, response};

/// 4.3.1: replaces the client's preconditions by the stored validators, and drops Range: the stored response is a
/// whole one. `false`: there is no validator, so the request is a plain fetch.
pub fn make_conditional(request: &mut HeaderMap, head: &Head) -> bool {
    make_unconditional(request);
    if let Some(etag) = head.etag() {
        request.insert(IF_NONE_MATCH, etag.clone());
    }
    if head.last_modified().is_some()
        && let Some(date) = head.headers.get(LAST_MODIFIED)
    {
        request.insert(IF_MODIFIED_SINCE, date.clone());
    }
    head.has_validator()
}

/// A fetch that is to be stored asks for the whole representation: the client's own preconditions and Range come back
/// in when [`answer`](crate::answer()) answers it from what was fetched. Most requests have none of them
/// ([`Asked::is_unconditional`]).
pub fn make_unconditional(request: &mut HeaderMap) {
    for name in &CLIENTS_OWN {
        request.remove(name);
    }
}

/// What beside a whole response a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asks {
    condition: bool,
    range: bool,
}

impl Asks {
    /// Of the request as the origin gets it.
    pub fn of(request: &HeaderMap) -> Asks {
        let condition = [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|name| request.contains_key(name));
        Asks { condition, range: request.contains_key(RANGE) }
    }

    /// Why a response of this status is none to that request, if so: a 304 answers a condition (RFC 9110 section 15.4.5), a
    /// 206 a range (15.3.7).
    pub fn unasked(self, status: StatusCode) -> Option<&'static str> {
        match status {
            StatusCode::NOT_MODIFIED if !self.condition => {
                Some("the origin answered 304 to a request without a condition")
            }
            StatusCode::PARTIAL_CONTENT if !self.range => {
                Some("the origin answered 206 to a request without a range")
            }
            _ => None,
        }
    }
}

/// 4.3.4: the stored response with the fields of the 304 it was validated by; `None` when the 304 is about another
/// response, and the request has to be made again without conditions.
///
/// Before it is stored again, [`Head::may_stay`] must agree: a 304 can bring no-store, private or another Vary, and the
/// one that answers an authorized request (`asked`) needs the permission that section 3.5 asks for.
pub fn freshen(
    asked: &Asked,
    head: &Head,
    not_modified: &response::Parts,
    request_time: Time,
    response_time: Time,
) -> Option<Head> {
    let fields = &not_modified.headers;
    selects(head, fields)
        .then(|| head.updated(fields, asked.has_authorization(), request_time, response_time))
}

/// 4.3.5: the stored response, whose body has `length` bytes, with the fields of a 200 to HEAD; `None` when that is
/// about another representation, and the stored one is not to be used any more. [`Head::may_stay`] as with [`freshen`].
pub fn freshen_by_head(
    asked: &Asked,
    head: &Head,
    length: u64,
    to_head: &response::Parts,
    request_time: Time,
    response_time: Time,
) -> Option<Head> {
    let fields = &to_head.headers;
    let same = |name| fields.get(&name).is_none_or(|new| Some(new) == head.headers.get(&name));
    let lengths =
        fields.get_all(CONTENT_LENGTH).iter().all(|new| new.as_bytes() == length.to_string().as_bytes());
    let about_it = same(ETAG) && same(LAST_MODIFIED) && lengths;
    about_it.then(|| head.updated(fields, asked.has_authorization(), request_time, response_time))
}

static CLIENTS_OWN: [HeaderName; 6] =
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_MATCH, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE];

/// A 304 without validators answers the only question that was asked, about this stored response.
fn selects(head: &Head, not_modified: &HeaderMap) -> bool {
    let (new, stored) = (not_modified.get(ETAG), head.etag());
    if let (Some(new), Some(stored)) = (new, stored) {
        let (new, stored) = (EntityTag::parse(new.as_bytes()), EntityTag::parse(stored.as_bytes()));
        return if new.is_weak() { new.weakly_equals(&stored) } else { new.strongly_equals(&stored) };
    }
    match (not_modified.get(LAST_MODIFIED), head.headers.get(LAST_MODIFIED)) {
        (Some(new), Some(stored)) => new == stored,
        _ => new.is_none(),
    }
}
