//! Whether a request may be answered by what is stored, or by what another's fetch brings.

use super::{Look, Presented, Want};
use crate::clock;
use crate::fill::Answer;
use crate::tiers::memory::{CacheEntry, EntryKind, StoredResponse};
use cache::{Miss, Outage, Outcome, Stale, Time, Verdict};
use std::sync::Arc;

impl Presented {
    /// What was found and how it answers now, or why the origin has to be asked.
    pub fn judge<'a>(&self, look: &'a Look, now: Time) -> Result<(&'a Arc<CacheEntry>, Outcome), Miss> {
        let Some(held) = &look.found else {
            return Err(if look.variants.is_some() { Miss::Vary } else { Miss::Uri });
        };
        let StoredResponse { head, body, .. } = resident(held);
        if !cache::can_answer(&self.asked, &self.parts.headers, head, body.len()) {
            return Err(Miss::Partial);
        }
        match cache::judge(&self.asked, head, now) {
            Verdict::Fresh => Ok((held, Outcome::Hit)),
            Verdict::ServeStale => Ok((held, Outcome::HitStale)),
            Verdict::ServeWhileRevalidating => Ok((held, Outcome::HitRevalidating)),
            Verdict::Stale(why) => Err(Miss::Stale(why)),
        }
    }

    /// Whether what is being fetched may answer this request: its variant is ours, and it is fresh enough for us. Who asks
    /// for what comes from the origin itself takes what another asked for so, if it waited for that (`early`).
    pub fn is_ours(&self, held: &CacheEntry, leaders: Verdict, early: bool, want: &Want) -> bool {
        let head = &resident(held).head;
        let same = held.key == want.look.key && (want.look.variants.is_some() || head.vary().is_none());
        let whole = head.part().is_none();
        let purged = self.worker.shared.tiers.covers(held);
        let fresh = match cache::judge(&self.asked, head, clock::now()) {
            Verdict::Fresh => true,
            ours @ Verdict::Stale(Stale::RequestNoCache) => early && ours == leaders,
            _ => false,
        };
        same && whole && fresh && !purged
    }

    /// Whether a response that is all here may answer this request. What the origin validated after the request came is
    /// as good as if it had been asked for it, also when it may not be used without.
    pub fn is_answered(&self, answer: &Answer, want: &Want) -> bool {
        let held = &*answer.held;
        if !answer.validated {
            return self.is_ours(held, answer.verdict, true, want);
        }
        let StoredResponse { head, body, .. } = resident(held);
        let suits = cache::can_answer(&self.asked, &self.parts.headers, head, body.len());
        let valid = match cache::judge(&self.asked, head, clock::now()) {
            Verdict::Stale(Stale::RequestMaxAge | Stale::MinFresh) => false,
            ours @ Verdict::Stale(Stale::RequestNoCache) => ours == answer.verdict,
            _ => true,
        };
        held.key == want.look.key && suits && valid && !self.worker.shared.tiers.covers(held)
    }

    /// Whether the stored response that was to be validated may stand in for an answer that could not be had.
    pub fn may_serve_stale(&self, want: &Want, outage: Outage) -> bool {
        want.stale().is_some_and(|(held, _)| {
            cache::may_serve_stale_on_error(&self.asked, &resident(held).head, clock::now(), outage)
        })
    }
}

/// What is found for a request is a response; `look` sees to it.
pub fn resident(held: &CacheEntry) -> &StoredResponse {
    match &held.kind {
        EntryKind::Response(resident) => resident,
        _ => unreachable!("a marker where a response was looked up"),
    }
}
