//! One fetch from the origin, on behalf of everybody who waits for it, and what becomes of its response: the table in
//! [`crate::fill`] says what those who wait are told.

use super::judge::resident;
use super::{Filled, Look, Presented};
use crate::clock;
use crate::fill::{Answer, Failure, Leader};
use crate::message::interim::Interim;
use crate::message::pieces::Pieces as _;
use crate::message::refusal::Refusal;
use crate::origin::Outgoing;
use crate::origin::content::Content;
use crate::origin::fetch::Fetched;
use crate::tiers::memory::{CacheEntry, StoredResponse};
use bytes::Bytes;
use cache::{Head, Miss, NotStored, Outage, Stale};
use http::StatusCode;
use std::cell::Cell;
use std::sync::Arc;
use store::Body;

/// What a fetch is for.
pub struct Want {
    pub look: Look,
    /// Why what was found does not answer.
    pub why: Miss,
}

/// What is stored of a response from its begin on, when that is not all.
pub(super) struct Beginning {
    /// Of a part.
    pub head: Head,
    pub body: Body,
}

/// What a fetch comes to.
pub enum Fetch {
    /// The response goes into the cache, or is at least shared, and the body to whoever asked as well.
    Filled(Filled),
    /// The origin says that the stored response holds, whose fields are newer now.
    Validated(Arc<CacheEntry>),
    /// The response is for whoever asked alone.
    Passed(Fetched, NotStored),
    /// No answer of use came: what is stored may stand in ([`Presented::may_serve_stale`]).
    Failed(Failure),
    /// The request itself is refused, whatever is stored.
    Refused(Refusal),
}

impl Want {
    /// The stored response to validate.
    pub fn stale(&self) -> Option<(&Arc<CacheEntry>, Stale)> {
        let Miss::Stale(why) = self.why else { return None };
        Some((self.look.found.as_ref()?, why))
    }

    /// The stored part that what is fetched may be combined with.
    pub(super) fn part(&self) -> Option<&Arc<CacheEntry>> {
        self.look.found.as_ref().filter(|_| self.why == Miss::Partial)
    }

    /// Whether what is stored is more than a part that comes: of the same representation the whole, or a large part that is no
    /// shorter; or another's whole that is fresh, whatever this one request would not take.
    fn has_more_than(&self, head: &Head, fetched: &Fetched) -> bool {
        let Some(StoredResponse { head: stored, body, .. }) =
            self.look.found.as_ref().map(|held| resident(held))
        else {
            return false;
        };
        let is_no_longer = || fetched.body.left().is_none_or(|left| left <= body.len());
        match body {
            _ if stored.part().is_none() => {
                let expired = matches!(self.why, Miss::Stale(Stale::Expired | Stale::NoCache));
                !expired || stored.is_of_same(head)
            }
            Body::Spans(_) => stored.is_of_same(head) && is_no_longer(),
            Body::Whole(_) => false,
        }
    }
}

impl Presented {
    /// Fetches on behalf of everybody who joined. `relay` sees the interim responses.
    pub async fn fetch(&self, lead: Leader, want: &Want, relay: &dyn Fn(Interim)) -> Fetch {
        if let Err(refusal) = self.worker.origins.may_ask() {
            return unanswered(lead, refusal);
        }
        let mut validating = want.stale().map(|(held, _)| &**held);
        let mut resting =
            want.part().filter(|_| self.continues_parts()).and_then(|held| self.beginning(held));
        loop {
            // What is made with something stored is as old as that was when it was found.
            let with_stored = validating.is_some() || want.part().is_some();
            let began = if with_stored { want.look.began } else { self.worker.shared.tiers.now() };
            let sent = clock::now();
            let fetched = match self.ask(lead.is_shared(), validating, &mut resting, relay).await {
                Ok(fetched) => fetched,
                // Some that cannot give a range can give the whole.
                Err(refusal) if refusal.personal && resting.take().is_some() => continue,
                Err(refusal) => {
                    // Nobody waits for the same origin twice: if it is ranges that it does not answer, the next fetch is of everything.
                    if let Some(part) = resting.filter(|_| refusal.status == StatusCode::GATEWAY_TIMEOUT) {
                        self.in_vain(&part.body, want);
                    }
                    return unanswered(lead, refusal);
                }
            };
            let came = clock::now();
            if let Some(stale) = validating
                && fetched.parts.status == StatusCode::NOT_MODIFIED
            {
                match cache::freshen(&self.asked, &resident(stale).head, &fetched.parts, sent, came) {
                    Some(head) if fetched.shareable => {
                        return Fetch::Validated(self.validated(lead, stale, head, want));
                    }
                    // The 304 is about another response: ask again, without conditions.
                    _ => validating = None,
                }
                continue;
            }
            let status = fetched.parts.status;
            if let Some(failure) = self.outage(status, want) {
                return failed(lead, failure);
            }
            let mut storable = Head::storable(&self.asked, &fetched.parts, sent, came)
                .and_then(|head| head.obeying(self.worker.settings().set_cookie));
            if let Ok(head) = &mut storable {
                head.purges_known = began.purges;
            }
            if let Some(part) = resting.take() {
                match storable.as_ref().map(|head| whole(&part, head, &fetched)) {
                    Ok(Some((head, begin))) if self.keeps(&fetched).is_ok() => {
                        return Fetch::Filled(self.fill(lead, fetched, (head, begin), began, want));
                    }
                    // Only the whole can be used as it is.
                    _ if fetched.parts.status == StatusCode::OK => {}
                    _ => continue,
                }
            }
            return match storable {
                // Another part than it says.
                Ok(head) if head.part().is_some() && falls_short(&fetched) => {
                    self.pass(lead, fetched, NotStored::Partial, want)
                }
                // Nor one in whose place there is more already.
                Ok(head) if head.part().is_some() && want.has_more_than(&head, &fetched) => {
                    self.pass(lead, fetched, NotStored::Partial, want)
                }
                Ok(head) => match self.keeps(&fetched) {
                    Ok(()) => {
                        let begin = Body::Whole(Bytes::new());
                        Fetch::Filled(self.fill(lead, fetched, (head, begin), began, want))
                    }
                    Err(why) => self.pass(lead, fetched, why, want),
                },
                Err(why) => self.pass(lead, fetched, why, want),
            };
        }
    }

    /// Asks the origin: to validate, for the rest of a part (`resting` stays), or for what the request says, but for its
    /// conditions where others share the answer. What can only answer another request than this one is refused: it is no
    /// response to it, whatever it says of itself.
    async fn ask(
        &self,
        shared: bool,
        validating: Option<&CacheEntry>,
        resting: &mut Option<Beginning>,
        relay: &dyn Fn(Interim),
    ) -> Result<Fetched, Refusal> {
        let asks_for_rest = Cell::new(false);
        let head = || {
            let mut head = self.for_origin()?;
            if shared && !self.asked.is_unconditional() {
                cache::make_unconditional(head.headers_mut());
            }
            if let Some(stale) = validating {
                cache::make_conditional(head.headers_mut(), &resident(stale).head);
            }
            if let Some(Beginning { head: stored, body }) = &resting {
                asks_for_rest.set(cache::ask_for_the_rest(head.headers_mut(), stored, body.len()));
            }
            Ok(head)
        };
        let content = Content::whole(self.content.clone());
        let outgoing =
            Outgoing { head: &head, content, expects: false, client: self.zone, charged: self.charged() };
        let fetched = self.worker.origins.fetch(&self.target, outgoing, relay).await?;
        let unasked = match fetched.parts.status {
            status @ (StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT) => {
                cache::Asks::of(head()?.headers()).unasked(status)
            }
            _ => None,
        };
        if let Some(why) = unasked {
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, why).personal());
        }
        if !asks_for_rest.get() {
            *resting = None;
        }
        Ok(fetched)
    }

    /// No rest came of what is stored of the beginning.
    fn in_vain(&self, begin: &Body, want: &Want) {
        let shared = &self.worker.shared;
        match begin {
            Body::Spans(spans) => shared.fills.vain.note(spans),
            // It is small.
            Body::Whole(_) => shared.tiers.remove_unchanged(&want.look.key, want.look.began),
        }
    }

    /// Whether what is stored of the beginning may be made whole: not for who asks for a part, or wants all of it anew.
    fn continues_parts(&self) -> bool {
        !self.asked.has_range() && !self.asked.reloads()
    }

    fn pass(&self, lead: Leader, fetched: Fetched, why: NotStored, want: &Want) -> Fetch {
        // What comes from where not everybody may reach is this client's own affair.
        if fetched.shareable && says_of_resource(fetched.parts.status, why) {
            lead.alone(&self.worker.shared.fills);
        } else {
            lead.unusable();
        }
        // A part says nothing of the rest of what is stored.
        let is_part = fetched.parts.status == StatusCode::PARTIAL_CONTENT;
        if want.stale().is_some() && !is_part && !is_outage(fetched.parts.status) {
            self.worker.shared.tiers.remove(&want.look.key);
        }
        Fetch::Passed(fetched, why)
    }

    /// The origin says that the stored response holds: it is updated, and answers.
    fn validated(&self, lead: Leader, stale: &CacheEntry, head: Head, want: &Want) -> Arc<CacheEntry> {
        let held = self.renew(stale, head, want.look.began);
        if resident(&held).head.may_stay(self.worker.settings().set_cookie).is_err() {
            // It is for this client alone from now on.
            lead.alone(&self.worker.shared.fills);
        } else {
            let verdict = cache::judge(&self.asked, &resident(&held).head, clock::now());
            lead.answered(Answer { held: held.clone(), validated: true, verdict });
        }
        held
    }
}

/// No response came.
fn unanswered(lead: Leader, refusal: Refusal) -> Fetch {
    // The others look for themselves.
    if is_of_request(&refusal) {
        return Fetch::Refused(refusal);
    }
    let personal = refusal.personal;
    let failure = Failure { refusal, answered: None };
    if personal {
        lead.unusable();
        return Fetch::Failed(failure);
    }
    failed(lead, failure)
}

/// Those who wait get the failure too.
fn failed(lead: Leader, failure: Failure) -> Fetch {
    lead.failed(failure.clone());
    Fetch::Failed(failure)
}

/// The stored part and the rest that comes as one response, and what it begins with.
fn whole(part: &Beginning, rest: &Head, fetched: &Fetched) -> Option<(Head, Body)> {
    let Beginning { head, body: begin } = part;
    let length = fetched.body.left()?;
    let mut rest = rest.clone();
    rest.settle(length);
    // The rest must begin where the part ends: what overlaps would have to be dropped from the stream.
    let meets = rest.part().is_some_and(|rest| rest.first == begin.len());
    let whole = cache::combined(head, begin.len(), &rest, length)?;
    (meets && whole.part().is_none()).then(|| (whole, begin.clone()))
}

/// Whether a response that is not stored says that others of its resource would not be either, so that nobody needs to
/// wait for one. An error of the origin, a part, and what this one request brought about say nothing of the kind.
fn says_of_resource(status: StatusCode, why: NotStored) -> bool {
    use NotStored::{Interim, Method, NotModified, Partial, Request, Status};
    let of_request = matches!(why, Request | Method | Interim | Partial | NotModified | Status);
    !of_request && !status.is_server_error() && status != StatusCode::PARTIAL_CONTENT
}

/// Whether a part is not what it says it is, as far as that is known before it comes.
fn falls_short(part: &Fetched) -> bool {
    part.body.left().is_some_and(|left| cache::falls_short(&part.parts.headers, left))
}

/// RFC 5861 section 4: the answers for which a stale response may stand in.
fn is_outage(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// Whether it is about this client or its request alone.
pub fn is_of_request(refusal: &Refusal) -> bool {
    matches!(refusal.status, StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST)
}

impl Presented {
    /// An error of the origin's, where something stale may stand in for it.
    pub fn outage(&self, status: StatusCode, want: &Want) -> Option<Failure> {
        (is_outage(status) && self.may_serve_stale(want, Outage::Answered5xx)).then(|| {
            let text = format!("the origin answered {status}");
            Failure { refusal: Refusal::new(StatusCode::BAD_GATEWAY, text), answered: Some(status) }
        })
    }
}
