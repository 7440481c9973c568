//! Whether a request may be answered by what is stored, or by what another's fetch brings.

use super::ask::Beginning;
use super::{Look, Presented, Want};
use crate::clock;
use crate::fill;
use crate::tiers::memory::{CacheEntry, EntryKind, StoredResponse};
use crate::transfer::heal::can_close;
use cache::{Answer, Head, Miss, Outage, Outcome, Stale, Time, Verdict};
use std::ops::Range;
use std::sync::Arc;
use store::{Body, Spans};

/// Of the pieces of a stored body one in so many may be missing, and it answers: the origin gives them again.
const FEW: usize = 4;

/// Pieces that are looked at for one request, of those that it is answered with, and around the first that is missing. What is missing
/// behind them of a larger body is found, and asked for, when its reader comes there.
pub(super) const LOOK: usize = 1 << 10;

impl Presented {
    /// What was found and how it answers now, or why the origin has to be asked.
    pub fn judge<'a>(&self, look: &'a Look, now: Time) -> Result<(&'a Arc<CacheEntry>, Outcome), Miss> {
        let absent = if look.variants.is_some() { Miss::Vary } else { Miss::Uri };
        let held = look.found.as_ref().ok_or(absent)?;
        let StoredResponse { head, body, .. } = resident(held);
        if !cache::can_answer(&self.asked, &self.parts.headers, head, body.len()) {
            return Err(Miss::Partial);
        }
        let Some(has_gaps) = self.has_gaps(held) else {
            return Err(if self.beginning(held).is_some() { Miss::Partial } else { absent });
        };
        match cache::judge(&self.asked, head, now) {
            Verdict::Fresh if has_gaps => Ok((held, Outcome::HitWithGaps)),
            Verdict::Fresh => Ok((held, Outcome::Hit)),
            // Who would give the pieces that are missing is asked whether it still holds.
            Verdict::ServeStale | Verdict::ServeWhileRevalidating if has_gaps => {
                Err(Miss::Stale(Stale::Expired))
            }
            Verdict::ServeStale => Ok((held, Outcome::HitStale)),
            Verdict::ServeWhileRevalidating => Ok((held, Outcome::HitRevalidating)),
            Verdict::Stale(why) => Err(Miss::Stale(why)),
        }
    }

    /// Whether the origin has to give pieces that the disk lost of what answers, as far as it is looked at. `None`: more are missing
    /// than are worth asking for, or they cannot be asked for: nothing tells that they would be of the same representation, there
    /// is no memory for them, or the origin did not give them a moment ago.
    fn has_gaps(&self, held: &CacheEntry) -> Option<bool> {
        let StoredResponse { head, body: Body::Spans(spans), .. } = resident(held) else {
            return Some(false);
        };
        let shared = &self.worker.shared;
        let store = shared.tiers.stores.at(spans)?;
        let is_missing = |n: &u32| store.missing(spans, *n..*n + 1).next().is_some();
        let read = self.pieces_of_answer(head, spans);
        let Some(first) = read.iter().cloned().flatten().take(LOOK).find(is_missing) else {
            // What was not looked at may be what the origin does not give.
            let is_all = read.iter().map(ExactSizeIterator::len).sum::<usize>() <= LOOK;
            return (is_all || !shared.fills.vain.knows(spans)).then_some(false);
        };
        let start = first.min(spans.count().saturating_sub(LOOK as u32));
        let around = start..spans.count().min(start + LOOK as u32);
        let are_few = store.missing(spans, around.clone()).count() <= around.len() / FEW;
        let is_mendable = self.worker.origins.may_ask().is_ok()
            && are_few
            && !self.needs_whole.get()
            && self.resume(head, Some(spans.length)).is_some();
        (is_mendable && can_close(&self.worker, &self.target, spans)).then_some(true)
    }

    /// The bytes that an answer is made of first, and the body that they are of, if the disk lost the first of them.
    pub fn begins_with_gap(&self, held: &CacheEntry) -> Option<(Spans, Range<u64>)> {
        let StoredResponse { head, body: Body::Spans(spans), .. } = resident(held) else { return None };
        let begin = head.part().map_or(0, |part| part.first);
        let (first, last) = *self.positions_of_answer(head, spans).first()?;
        let at = first.saturating_sub(begin);
        let end = last.saturating_sub(begin).saturating_add(1).min(spans.length);
        let n = spans.piece_at(at);
        let store = self.worker.shared.tiers.stores.at(spans)?;
        let mut missing = store.missing(spans, n..n.saturating_add(1));
        (at < end && missing.next().is_some()).then_some((*spans, at..end))
    }

    /// The pieces of a stored body that an answer is made of.
    fn pieces_of_answer(&self, head: &Head, spans: &Spans) -> Vec<Range<u32>> {
        let begin = head.part().map_or(0, |part| part.first);
        let piece = |at: u64| spans.piece_at(at.saturating_sub(begin));
        let pieces = |(first, last)| piece(first)..spans.count().min(piece(last).saturating_add(1));
        self.positions_of_answer(head, spans).into_iter().map(pieces).collect()
    }

    /// The first and the last position of each range of the representation that an answer is made of.
    fn positions_of_answer(&self, head: &Head, spans: &Spans) -> Vec<(u64, u64)> {
        let begin = head.part().map_or(0, |part| part.first);
        match cache::answer(&self.asked, &self.parts.headers, head, spans.length) {
            Answer::Full if !self.asked.is_head() => vec![(begin, u64::MAX)],
            Answer::Part { first, last } => vec![(first, last)],
            Answer::Parts(ranges) => ranges,
            Answer::Full | Answer::NotModified | Answer::Unsatisfiable => Vec::new(),
        }
    }

    /// What is stored of a response from its begin on, with which a fetch of the rest may go on: bytes, or pieces in the store
    /// up to the first that is missing, as far as it is looked at. None of what such a fetch was in vain for the last time.
    pub(super) fn beginning(&self, held: &CacheEntry) -> Option<Beginning> {
        let StoredResponse { head, body, .. } = resident(held);
        let Body::Spans(spans) = body else {
            return Some(Beginning { head: head.clone(), body: body.clone() });
        };
        self.resume(head, Some(spans.length))?;
        if self.needs_whole.get() || self.worker.shared.fills.vain.knows(spans) {
            return None;
        }
        let looked_at = 0..spans.count().min(LOOK as u32);
        let missing = self.worker.shared.tiers.stores.at(spans)?.missing(spans, looked_at).next();
        // The last piece may be shorter: then it is fetched again.
        let pieces = missing.map_or(spans.length / u64::from(spans.span.max(1)), u64::from);
        let length = pieces * u64::from(spans.span);
        let body = Body::Spans(Spans { length, ..*spans });
        (length > 0).then_some(Beginning { head: head.cut_short(spans.length)?, body })
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
    pub fn is_answered(&self, answer: &fill::Answer, want: &Want) -> bool {
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
        let is_there = self.has_gaps(held).is_some();
        held.key == want.look.key && suits && is_there && valid && !self.worker.shared.tiers.covers(held)
    }

    /// Whether the stored response that was to be validated may stand in for an answer that could not be had: what the disk lost of
    /// it cannot be had either.
    pub fn may_serve_stale(&self, want: &Want, outage: Outage) -> bool {
        want.stale().is_some_and(|(held, _)| {
            self.has_gaps(held) == Some(false)
                && cache::may_serve_stale_on_error(&self.asked, &resident(held).head, clock::now(), outage)
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
