//! A request that a stored response may answer: how what `fetch` finds and brings becomes its response.

use crate::answer::body::ReplyBody;
use crate::answer::exchange::{Exchange, relay};
use crate::answer::reply;
use crate::clock;
use crate::fetch::{Fetch, Look, Want, resident};
use crate::fill::{Answer, Failure, FillReader, Joined, LOOKS, Leader, News, Opened};
use crate::message::refusal::Refusal;
use crate::report::Place;
use crate::tiers::memory::{CacheEntry, StoredResponse};
use crate::transfer::pump;
use cache::{Miss, Outage, Outcome, Report, Stale, Time};
use http::header::{CONTENT_LENGTH, VIA};
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use store::Body;

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
        let mut waited = false;
        // Why nothing stored could answer when it first joined another's fetch.
        let mut followed = None::<Miss>;
        let request = &self.request;
        loop {
            let look = request.look().await;
            let now = clock::now();
            let why = match request.judge(&look, now) {
                Ok((held, outcome)) => {
                    // Somebody stored it meanwhile: the others find it too.
                    if let Some(lead) = duty {
                        lead.again();
                    }
                    // What came meanwhile came with a fetch that this one waited for.
                    let response = match followed {
                        Some(why) => self.hit(held, collapsed(Outcome::Miss(why)), now),
                        None => self.hit(held, outcome.into(), now),
                    };
                    if outcome == Outcome::HitRevalidating {
                        let why = Miss::Stale(Stale::Expired);
                        self.request.behind(Want { look, why });
                    }
                    return response;
                }
                Err(why) => why,
            };
            if request.asked.only_if_cached() {
                return self.only_if_cached();
            }
            if request.asked.is_head() {
                return Box::pin(self.head(look, why)).await;
            }
            let want = Want { look, why };
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
                        fills.join(&want.look.key, tiers, vain, refused.as_ref())
                    } else {
                        Joined::Alone
                    }
                }
            };
            let lone = || fills.lone(&want.look.key, want.look.began);
            let seat = match joined {
                // Others shall not wait for its memory.
                Joined::Leader(lead) if request.has_its_share() => {
                    lead.again();
                    return self.lead(lone(), &want, waited).await;
                }
                Joined::Leader(lead) => return self.lead(lead, &want, waited).await,
                Joined::Alone => return self.lead(lone(), &want, waited).await,
                Joined::Follower(seat) => seat,
            };
            waited |= seat.early;
            followed.get_or_insert(why);
            match self.follow(seat, &want).await {
                Followed::Answered(response) => return response,
                Followed::Alone => return self.lead(lone(), &want, waited).await,
                Followed::Leader(lead) => duty = Some(lead),
                Followed::LookAgain(opened) => (vain, refused) = (vain + 1, opened),
            }
        }
    }

    fn hit(&self, held: &CacheEntry, report: Report, now: Time) -> Response<ReplyBody> {
        let request = &self.request;
        request.worker.shared.tiers.count_use(held);
        let StoredResponse { head, body, .. } = resident(held);
        let (repair, on_disk) = match body {
            Body::Spans(spans) => (request.repair_stored(&held.key, head, spans).map(Arc::new), true),
            Body::Whole(_) => (None, false),
        };
        let (asked, headers) = (&request.asked, &request.parts.headers);
        let place = if request.disk.read.get() || on_disk { Place::Disk } else { Place::Memory };
        reply::stored(&request.worker, asked, headers, resident(held), (report, place), now, repair)
    }

    fn only_if_cached(&self) -> Response<ReplyBody> {
        let text = "nothing stored can answer, and the request says only-if-cached";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, text).response()
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
                Followed::Answered(self.hit(&answer.held, report, clock::now()))
            }
            News::Answered(_) | News::Again => Followed::LookAgain(None),
            News::Leader(lead) => Followed::Leader(lead),
            News::Alone => Followed::Alone,
            News::Failed(failure) => Followed::Answered(self.failed(failure, want)),
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
        let body = ReplyBody::pieces(pump::follow(worker, seat, opened));
        reply::response(resident.status(), fields, body.telling(report, Place::default()))
    }

    /// Fetches on behalf of everybody who joined. `waited`: for another's fetch, and was not answered by that.
    async fn lead(&self, lead: Leader, want: &Want, waited: bool) -> Response<ReplyBody> {
        self.is_sent_on();
        let collapsed = waited.then_some(false);
        let report = |outcome: Outcome| Report { collapsed, ..outcome.into() };
        let relay = relay(&self.stream, &self.request.parts);
        match self.request.fetch(lead, want, &relay).await {
            Fetch::Filled(filled) => self.filled(filled, report(Outcome::Miss(want.why))),
            Fetch::Validated(held) => self.hit(&held, report(validated(want.why)), clock::now()),
            Fetch::Passed(fetched, why) => {
                self.pass(fetched, Report { not_stored: Some(why), ..report(Outcome::Miss(want.why)) })
            }
            Fetch::Failed(failure) => self.failed(failure, want),
            Fetch::Refused(refusal) => refusal.response(),
        }
    }

    /// A HEAD that what is stored cannot answer: the origin's answer says whether that still holds (4.3.5).
    async fn head(self, look: Look, why: Miss) -> Response<ReplyBody> {
        let Look { began, found, .. } = look;
        let sent = clock::now();
        let (exchange, fetched) = match self.forward_content().await {
            Ok(answered) => answered,
            Err(refusal) => return refusal.response(),
        };
        let asks = cache::Asks::of(&exchange.request.parts.headers);
        if let Some(why) = asks.unasked(fetched.parts.status) {
            return Refusal::new(StatusCode::BAD_GATEWAY, why).response();
        }
        if fetched.parts.status == StatusCode::OK
            && fetched.shareable
            && let Some(held) = found
            && let StoredResponse { head, body, .. } = resident(&held)
            && head.part().is_none()
        {
            let request = &exchange.request;
            let (asked, length, came) = (&request.asked, body.len(), clock::now());
            let freshened = || cache::freshen_by_head(asked, head, length, &fetched.parts, sent, came);
            // What was no 200 and is one now has changed.
            match (head.status == StatusCode::OK).then(freshened).flatten() {
                Some(head) => drop(request.renew(&held, head, began)),
                None => request.worker.shared.tiers.remove(&held.key),
            }
        }
        exchange.pass(fetched, Outcome::Miss(why).into())
    }

    /// The origin gave no answer of use: what is stored may stand in, or the client gets the error.
    fn failed(&self, failure: Failure, want: &Want) -> Response<ReplyBody> {
        let outage = failure.answered.map_or(Outage::Unreachable, |_| Outage::Answered5xx);
        match want.stale() {
            Some((stale, _)) if self.request.may_serve_stale(want, outage) => {
                let fwd_status = failure.answered;
                self.hit(stale, Report { fwd_status, ..Outcome::StaleOnError.into() }, clock::now())
            }
            _ => failure.refusal.response(),
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
