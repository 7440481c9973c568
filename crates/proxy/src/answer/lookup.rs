//! A request that a stored response may answer: how what `fetch` finds and brings becomes its response.

use crate::answer::body::ReplyBody;
use crate::answer::exchange::{Exchange, relay};
use crate::answer::reply;
use crate::clock;
use crate::fetch::{Fetch, Look, Presented, Want, is_of_request, resident};
use crate::fill::repair::Repair;
use crate::fill::{Answer, Failure, FillReader, Joined, LOOKS, Leader, News, Opened};
use crate::message::refusal::Refusal;
use crate::origin::fetch::Fetched;
use crate::report::{Object, Place};
use crate::tiers::memory::{CacheEntry, StoredResponse};
use crate::transfer::span::Supply;
use crate::transfer::{heal, pump};
use cache::{Miss, Outage, Outcome, Report, Stale, Time};
use http::header::{CONTENT_LENGTH, VIA};
use http::{HeaderValue, Response, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Spans};

/// How long what came through another proxy waits for another's fetch.
const RING: Duration = Duration::from_secs(1);

/// What waiting for another's fetch came to.
enum Followed {
    Answered(Response<ReplyBody>),
    /// What came does not suit: its fetch, if that goes on.
    LookAgain(Option<Arc<Opened>>),
    /// The one who fetched went away: it is this one's turn.
    Leader(Leader),
    Alone,
}

impl Exchange {
    pub async fn lookup(self) -> Response<ReplyBody> {
        // Fetches of others that did not suit, the last of them if it goes on, and the duty to fetch for others.
        let (mut vain, mut refused, mut duty) = (0, None, None::<Leader>);
        let (mut waited, mut looked_twice) = (false, false);
        // Why nothing stored could answer when it first joined another's fetch.
        let mut followed = None::<Miss>;
        let request = &self.request;
        loop {
            let look = request.look().await;
            let why = match request.judge(&look, clock::now()) {
                Ok((held, outcome)) => {
                    // Somebody stored it meanwhile: the others find it too.
                    if let Some(lead) = duty.take() {
                        lead.again();
                    }
                    // What came meanwhile came with a fetch that this one waited for.
                    let report = followed.map_or(outcome.into(), |why| collapsed(Outcome::Miss(why)));
                    let Some(response) = self.hit(held, report).await else { continue };
                    if outcome == Outcome::HitRevalidating {
                        let why = Miss::Stale(Stale::Expired);
                        self.request.behind(Want { look, why });
                    }
                    return response;
                }
                Err(why) => why,
            };
            let want = Want { look, why };
            if request.worker.is_offline()
                && let Some((held, _)) = want.stale()
                && request.may_serve_stale(&want, Outage::Offline)
            {
                if let Some(lead) = duty.take() {
                    lead.again();
                }
                let Some(response) = self.hit(held, Outcome::HitOffline.into()).await else { continue };
                if request.worker.exit.uplink.is_probe_due(clock::moment()) {
                    self.request.behind(want);
                }
                return response;
            }
            if request.asked.only_if_cached() {
                return self.only_if_cached();
            }
            if request.asked.is_head() {
                return Box::pin(self.head(want)).await;
            }
            let (fills, tiers) = (&request.worker.shared.fills, &request.worker.shared.tiers);
            let own = request.asked.is_conditional() || request.asked.has_range();
            let shares = vain < LOOKS && (want.stale().is_some() || !own);
            let joined = match duty.take() {
                Some(lead) if shares && lead.is_for(&want.look.key) => Joined::Leader(lead),
                duty => {
                    // Its variant turned out to be another: the others look as well.
                    if let Some(lead) = duty {
                        lead.again();
                    }
                    if shares {
                        let looked = (!looked_twice).then_some(want.look.began);
                        fills.join(&want.look.key, tiers, looked, vain, refused.as_ref())
                    } else {
                        Joined::Alone
                    }
                }
            };
            let lone = || fills.lone(&want.look.key, want.look.began);
            let lead = match joined {
                // Others shall not wait for its memory.
                Joined::Leader(lead) if request.has_its_share() => {
                    lead.again();
                    lone()
                }
                Joined::Leader(lead) => lead,
                Joined::Alone => lone(),
                Joined::Again => {
                    looked_twice = true;
                    continue;
                }
                Joined::Follower(seat) => {
                    waited |= seat.early;
                    followed.get_or_insert(why);
                    match self.follow(seat, &want).await {
                        Followed::Answered(response) => return response,
                        Followed::Alone => lone(),
                        Followed::Leader(lead) => {
                            duty = Some(lead);
                            continue;
                        }
                        Followed::LookAgain(opened) => {
                            (vain, refused) = (vain + 1, opened);
                            continue;
                        }
                    }
                }
            };
            if let Some(response) = self.lead(lead, &want, waited).await {
                return response;
            }
        }
    }

    /// `None` where that is not to be had, and there may be something else: its body begins with what the disk lost, and the origin
    /// does not give, or it was removed while the origin was waited for.
    async fn hit(&self, held: &CacheEntry, report: Report) -> Option<Response<ReplyBody>> {
        let request = &self.request;
        let StoredResponse { head, body, .. } = resident(held);
        let (repair, on_disk) = match body {
            Body::Spans(spans) => (request.repair_stored(&held.key, head, spans).map(Arc::new), true),
            Body::Whole(_) => (None, false),
        };
        if let Some(repair) = &repair
            && let Some((spans, bytes)) = request.begins_with_gap(held)
            && !Box::pin(self.gap_comes(held, repair, &spans, bytes)).await
        {
            return None;
        }
        request.worker.shared.tiers.count_use(held);
        let (asked, headers) = (&request.asked, &request.parts.headers);
        self.stream.note(|transaction| transaction.object = super::stored(asked, held));
        let place = if request.disk.read.get() || on_disk { Place::Disk } else { Place::Memory };
        let (held, now) = (resident(held), clock::now());
        let supply = Supply { charged: request.charged(), repair };
        Some(reply::stored(&request.worker, asked, headers, held, (report, place), now, &supply))
    }

    async fn gap_comes(
        &self,
        held: &CacheEntry,
        repair: &Arc<Repair>,
        spans: &Spans,
        bytes: Range<u64>,
    ) -> bool {
        let Presented { worker, needs_whole, .. } = &self.request;
        let tiers = &worker.shared.tiers;
        let began = tiers.now();
        needs_whole.set(!heal::comes(worker, repair, spans, bytes).await);
        !needs_whole.get() && !tiers.covers(held) && !tiers.is_removed_since(&held.key, began)
    }

    fn only_if_cached(&self) -> Response<ReplyBody> {
        let text = "nothing stored can answer, and the request says only-if-cached";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, text).clients().response()
    }

    /// Waits for another request's fetch, and is answered by it if it is for this request too.
    async fn follow(&self, seat: FillReader, want: &Want) -> Followed {
        let request = &self.request;
        let news = match request.parts.headers.contains_key(VIA) {
            false => seat.news().await,
            // Proxies that ask each other in a ring would all wait. Who asks once more is found out by its Via.
            true => match tokio::time::timeout(RING, seat.news()).await {
                Ok(news) => news,
                Err(_) => return Followed::Alone,
            },
        };
        match news {
            News::Open(opened) => {
                if request.is_ours(&opened.held, opened.verdict, seat.early, want) {
                    Followed::Answered(self.read_along(seat, &opened, want))
                } else {
                    Followed::LookAgain(Some(opened))
                }
            }
            News::Answered(answer) if request.is_answered(&answer, want) => {
                let fwd_status = answer.validated.then_some(StatusCode::NOT_MODIFIED);
                let report = Report { fwd_status, ..collapsed(outcome(&answer, want)) };
                self.hit(&answer.held, report).await.map_or(Followed::LookAgain(None), Followed::Answered)
            }
            News::Answered(_) | News::Again => Followed::LookAgain(None),
            News::Leader(lead) => Followed::Leader(lead),
            News::Alone => Followed::Alone,
            News::Failed(failure) => {
                let response = self.failed(failure, want).await;
                response.map_or(Followed::LookAgain(None), Followed::Answered)
            }
        }
    }

    fn read_along(&self, seat: FillReader, opened: &Opened, want: &Want) -> Response<ReplyBody> {
        let worker = &self.request.worker;
        let report = collapsed(Outcome::Miss(want.why));
        let resident = resident(&opened.held);
        let status = report.value(&worker.shared.names.item);
        let mut fields = resident.fields(resident.head.age(clock::now()), status);
        if let Some(length) = opened.length {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let object = Object::of(&self.request.asked, &resident.head, &opened.held.key, opened.length);
        self.stream.note(|transaction| transaction.object = object);
        let mut body = ReplyBody::pieces(pump::follow(worker, seat, opened, self.request.charged()));
        body.tells(report, Place::default());
        reply::response(resident.status(), fields, body)
    }

    /// Fetches on behalf of everybody who joined. `waited`: for another's fetch, and was not answered by that. `None` as of `hit`.
    async fn lead(&self, lead: Leader, want: &Want, waited: bool) -> Option<Response<ReplyBody>> {
        self.is_sent_on();
        let collapsed = waited.then_some(false);
        let report = |outcome: Outcome| Report { collapsed, ..outcome.into() };
        let relay = relay(&self.stream, &self.request.parts);
        Some(match self.request.fetch(lead, want, &relay).await {
            Fetch::Filled(filled) => self.filled(filled, report(Outcome::Miss(want.why))),
            Fetch::Validated(held) => return self.hit(&held, report(validated(want.why))).await,
            Fetch::Passed(fetched, why) => {
                self.pass(fetched, Report { not_stored: Some(why), ..report(Outcome::Miss(want.why)) })
            }
            Fetch::Failed(failure) => return self.failed(failure, want).await,
            Fetch::Refused(refusal) => refusal.response(),
        })
    }

    /// A HEAD that what is stored cannot answer: the origin's answer says whether that still holds (4.3.5).
    async fn head(mut self, want: Want) -> Response<ReplyBody> {
        let sent = clock::now();
        let failure = match self.forward_content().await {
            Ok(fetched) => match self.request.outage(fetched.parts.status, &want) {
                Some(failure) => failure,
                None => return self.head_came(fetched, want, sent),
            },
            Err(refusal) if is_of_request(&refusal) => return refusal.response(),
            Err(refusal) => Failure { refusal, answered: None },
        };
        let gone = || {
            Refusal::new(StatusCode::BAD_GATEWAY, "what was stored has gone, and the origin gave no answer")
        };
        self.failed(failure, &want).await.unwrap_or_else(|| gone().response())
    }

    fn head_came(&self, fetched: Fetched, Want { look, why }: Want, sent: Time) -> Response<ReplyBody> {
        let Look { began, found, .. } = look;
        let asks = cache::Asks::of(&self.request.parts.headers);
        if let Some(why) = asks.unasked(fetched.parts.status) {
            return Refusal::new(StatusCode::BAD_GATEWAY, why).response();
        }
        if fetched.parts.status == StatusCode::OK
            && fetched.shareable
            && let Some(held) = found
            && let StoredResponse { head, body, .. } = resident(&held)
            && head.part().is_none()
        {
            let request = &self.request;
            let (asked, length, came) = (&request.asked, body.len(), clock::now());
            let freshened = || cache::freshen_by_head(asked, head, length, &fetched.parts, sent, came);
            // What was no 200 and is one now has changed.
            match (head.status == StatusCode::OK).then(freshened).flatten() {
                Some(head) => drop(request.renew(&held, head, began)),
                None => request.worker.shared.tiers.remove(&held.key),
            }
        }
        self.pass(fetched, Outcome::Miss(why).into())
    }

    /// The origin gave no answer of use: what is stored may stand in, or the client gets the error.
    async fn failed(&self, failure: Failure, want: &Want) -> Option<Response<ReplyBody>> {
        let outage = match failure.answered {
            Some(_) => Outage::Answered5xx,
            None if self.request.worker.is_offline() => Outage::Offline,
            None => Outage::Unreachable,
        };
        match want.stale() {
            Some((stale, _)) if self.request.may_serve_stale(want, outage) => {
                let fwd_status = failure.answered;
                self.hit(stale, Report { fwd_status, ..Outcome::StaleOnError.into() }).await
            }
            _ => Some(failure.refusal.response()),
        }
    }
}

fn outcome(answer: &Answer, want: &Want) -> Outcome {
    if answer.validated { validated(want.why) } else { Outcome::Miss(want.why) }
}

/// What is said of a response that the origin validated, when this was the reason to ask.
fn validated(why: Miss) -> Outcome {
    match why {
        Miss::Stale(why) => Outcome::Revalidated(why),
        why => Outcome::Miss(why),
    }
}

/// What a request says that a fetch of another answered.
fn collapsed(outcome: Outcome) -> Report {
    Report { collapsed: Some(true), ..outcome.into() }
}
