//! A request that a stored response may answer: found, judged, validated, or fetched and stored.

use crate::answer::body::ReplyBody;
use crate::answer::count_use;
use crate::answer::exchange::Exchange;
use crate::answer::reply;
use crate::clock;
use crate::fill::{Answer, Failure, Joined, LOOKS, Lead, News, Opened, Seat};
use crate::message::pieces::Pieces as _;
use crate::message::refusal::Refusal;
use crate::origin::fetch::Fetched;
use crate::report::Place;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::{Entry, Held, Resident, Searches, Variants, nonce};
use crate::transfer::{keeper, pump};
use bytes::Bytes;
use cache::{Asked, Head, Miss, NoVarySearch, NotStored, Outage, Outcome, Report, Stale, Verdict, key};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, PRAGMA, VIA};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, Key};

/// How long what came through another proxy waits for another's fetch.
const RING: Duration = Duration::from_secs(1);

/// Nothing is validated in the background while a worker has so many bodies and validations under way.
const BEHIND: usize = 1024;

/// What a look into the cache found.
struct Look {
    /// Before it looked.
    began: Moment,
    /// Of the URI's GET.
    uri: Key,
    /// The key that variants are made of: the same, or that of a QUERY, or of all searches that are answered alike.
    primary: Key,
    /// The marker that leads to the primary key, where it is not the URI's.
    marker: Option<Arc<Held>>,
    /// What the primary key's responses vary by, if they do.
    variants: Option<Variants>,
    /// The key of this request's object.
    key: Key,
    found: Option<Arc<Held>>,
}

/// What a fetch is for.
#[derive(Clone)]
struct Want {
    look: Rc<Look>,
    why: Miss,
    /// The stored response to validate.
    stale: Option<Arc<Held>>,
    /// The stored part that what is fetched may be combined with.
    part: Option<Arc<Held>>,
    /// It waited for another's fetch, and was not answered by that.
    collapsed: Option<bool>,
}

/// What waiting for another's fetch came to.
enum Followed {
    Answered(Response<ReplyBody>),
    /// What came does not suit: its fetch, if that goes on.
    LookAgain(Option<Arc<Opened>>),
    /// The one who fetched went away: it is this one's turn.
    Lead(Lead),
    Alone,
}

impl Exchange {
    /// `content` is that of a QUERY.
    pub async fn lookup(self, content: Bytes) -> Response<ReplyBody> {
        // Fetches of others that did not suit, the last of them if it goes on, and the duty to fetch for others.
        let (mut vain, mut refused, mut duty) = (0, None, None::<Lead>);
        let mut waited = false;
        // Why nothing stored could answer when it first joined another's fetch.
        let mut followed = None::<Miss>;
        loop {
            let look = self.look(&content).await;
            let (why, stale) = match &look.found {
                None if look.variants.is_some() => (Miss::Vary, None),
                None => (Miss::Uri, None),
                Some(held) => match self.verdict(held) {
                    Ok(outcome) => {
                        // Somebody stored it meanwhile: the others find it too.
                        if let Some(lead) = duty {
                            lead.again();
                        }
                        // What came meanwhile came with a fetch that this one waited for.
                        let response = match followed {
                            Some(why) => self.hit(held, collapsed(Outcome::Miss(why))),
                            None => self.hit(held, outcome.into()),
                        };
                        if outcome == Outcome::HitRevalidating {
                            let (why, stale) = (Miss::Stale(Stale::Expired), Some(held.clone()));
                            let look = Rc::new(look);
                            self.revalidate(Want { look, why, stale, part: None, collapsed: None });
                        }
                        return response;
                    }
                    Err(why @ Miss::Stale(_)) => (why, Some(held.clone())),
                    Err(why) => (why, None),
                },
            };
            if self.asked.only_if_cached() {
                return self.only_if_cached();
            }
            if self.asked.is_head() {
                return Box::pin(self.head(look, why)).await;
            }
            let part = if why == Miss::Partial { look.found.clone() } else { None };
            let want = Want { look: Rc::new(look), why, stale, part, collapsed: waited.then_some(false) };
            let (fills, tiers) = (&self.worker.shared.fills, &self.worker.shared.tiers);
            let own = self.asked.is_conditional() || self.asked.has_range();
            let shares = vain < LOOKS && (want.stale.is_some() || !own);
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
            let seat = match joined {
                Joined::Leader(lead) => return self.lead(lead, &want).await,
                Joined::Alone => return self.lead(fills.lone(&want.look.key, want.look.began), &want).await,
                Joined::Follower(seat) => seat,
            };
            waited |= seat.early;
            followed.get_or_insert(why);
            match self.follow(seat, &want).await {
                Followed::Answered(response) => return response,
                Followed::Alone => {
                    let want = Want { collapsed: waited.then_some(false), ..want };
                    return self.lead(fills.lone(&want.look.key, want.look.began), &want).await;
                }
                Followed::Lead(lead) => duty = Some(lead),
                Followed::LookAgain(opened) => (vain, refused) = (vain + 1, opened),
            }
        }
    }

    /// Looks into memory, then into the store.
    async fn look(&self, content: &Bytes) -> Look {
        let (uri, began) = (self.target.primary_key(), self.worker.shared.tiers.now());
        if self.asked.is_query() {
            let marker = self.queries(&uri).await;
            let Entry::Queries(nonce) = &marker.entry else { unreachable!("a marker of queries") };
            let key = key::of_query(marker.key.bytes(), *nonce, &self.parts.headers, content);
            return self.look_under(began, uri, Key::new(key), Some(marker)).await;
        }
        let exact = self.look_under(began, uri.clone(), uri, None).await;
        if exact.found.is_some() || exact.variants.is_some() {
            return exact;
        }
        let marker = Key::new(key::searches(exact.uri.bytes()));
        let Some(marker) = self.find(&marker).await else { return exact };
        let Entry::Searches(searches) = &marker.entry else { return exact };
        let key = searches.of(&marker.key, self.target.path.as_str());
        self.look_under(began, exact.uri, key, Some(marker)).await
    }

    async fn look_under(&self, began: Moment, uri: Key, primary: Key, marker: Option<Arc<Held>>) -> Look {
        let blank = Look { began, uri, key: primary.clone(), primary, marker, variants: None, found: None };
        let Some(held) = self.find(&blank.primary).await else { return blank };
        match &held.entry {
            Entry::Response(_) => Look { found: Some(held), ..blank },
            Entry::Varies(variants) => {
                let mut key = variants.of(&blank.primary, &self.selecting(&variants.vary));
                let mut found = self.response(&key).await;
                if found.is_none()
                    && let Some(other) = self.in_preferred_language(&blank.primary, variants).await
                {
                    found = self.response(&other).await;
                    key = if found.is_some() { other } else { key };
                }
                Look { key, variants: Some(variants.clone()), found, ..blank }
            }
            // No primary key has one of these.
            Entry::SameAs(_) | Entry::Searches(_) | Entry::Queries(_) => blank,
        }
    }

    /// The marker of a URI's queries. It is made before there is an answer: one that were made again with an old nonce
    /// would bring back what had been invalidated meanwhile.
    async fn queries(&self, uri: &Key) -> Arc<Held> {
        let key = Key::new(key::queries(uri.bytes()));
        match self.find(&key).await {
            Some(held) if matches!(held.entry, Entry::Queries(_)) => held,
            _ => self.mark(Held::queries(key, nonce())),
        }
    }

    async fn response(&self, key: &Key) -> Option<Arc<Held>> {
        self.find(key).await.filter(|held| matches!(held.entry, Entry::Response(_)))
    }

    /// The key of the stored response in the language that the client likes best.
    async fn in_preferred_language(&self, primary: &Key, variants: &Variants) -> Option<Key> {
        let language = cache::preferred_language(&self.parts.headers)?;
        match &self.find(&variants.alias(primary, &self.selecting(&variants.vary), &language)?).await?.entry {
            Entry::SameAs(key) => Some(key.clone()),
            _ => None,
        }
    }

    /// What was purged is not found.
    async fn find(&self, key: &Key) -> Option<Arc<Held>> {
        let shared = &self.worker.shared;
        shared.tiers.find(key, self.worker.reader.as_ref(), &shared.names, &self.disk).await
    }

    fn verdict(&self, held: &Held) -> Result<Outcome, Miss> {
        let Resident { head, body, .. } = resident(held);
        if !cache::can_answer(&self.asked, &self.parts.headers, head, body.len()) {
            return Err(Miss::Partial);
        }
        match cache::judge(&self.asked, head, clock::now()) {
            Verdict::Fresh => Ok(Outcome::Hit),
            Verdict::ServeStale => Ok(Outcome::HitStale),
            Verdict::ServeWhileRevalidating => Ok(Outcome::HitRevalidating),
            Verdict::Stale(why) => Err(Miss::Stale(why)),
        }
    }

    /// RFC 5861 section 3: validates, or fetches, what was served stale, while nobody waits; once at a time.
    fn revalidate(self, want: Want) {
        let worker = self.worker.clone();
        if worker.pumps.get() >= BEHIND {
            return;
        }
        let (fills, tiers) = (&worker.shared.fills, &worker.shared.tiers);
        let Joined::Leader(lead) = fills.join(&want.look.key, tiers, 0, None) else { return };
        let behind = pump::Counted::new(&worker);
        tokio::task::spawn_local(async move {
            let mut body = self.behind().lead(lead, &want).await.into_body();
            while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {}
            drop(behind);
        });
    }

    /// The same request as nobody's: a plain GET or QUERY, whose interim responses go nowhere.
    fn behind(mut self) -> Exchange {
        self.stream = self.stream.apart();
        if self.asked.is_head() {
            self.parts.method = Method::GET;
        }
        self.parts.version = Version::HTTP_10;
        let headers = &mut self.parts.headers;
        cache::make_unconditional(headers);
        for name in [CACHE_CONTROL, PRAGMA] {
            headers.remove(name);
        }
        self.asked = Asked::of(&self.parts.method, headers);
        self
    }

    fn hit(&self, held: &Held, report: Report) -> Response<ReplyBody> {
        count_use(&self.worker, held);
        let Resident { head, body, .. } = resident(held);
        let repair = match body {
            Body::Spans(spans) => self.repair(head, Some(spans.length)).map(Arc::new),
            Body::Whole(_) => None,
        };
        let (asked, headers) = (&self.asked, &self.parts.headers);
        let place = if self.disk.read.get() || repair.is_some() { Place::Disk } else { Place::Memory };
        reply::stored(&self.worker, asked, headers, resident(held), (report, place), clock::now(), repair)
    }

    fn only_if_cached(&self) -> Response<ReplyBody> {
        let text = "nothing stored can answer, and the request says only-if-cached";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, text).response()
    }

    /// Waits for another request's fetch, and is answered by it if it is for this request too.
    async fn follow(&self, seat: Seat, want: &Want) -> Followed {
        let news = match self.parts.headers.contains_key(VIA) {
            false => seat.news().await,
            // Proxies that ask each other in a ring would all wait. Who asks once more is found out by its Via.
            true => match tokio::time::timeout(RING, seat.news()).await {
                Ok(news) => news,
                Err(_) => return Followed::Alone,
            },
        };
        match news {
            News::Open(opened) => {
                if self.is_ours(&opened.held, opened.verdict, seat.early, want) {
                    Followed::Answered(self.read_along(seat, &opened, want))
                } else {
                    Followed::LookAgain(Some(opened))
                }
            }
            News::Answered(answer) if self.is_answered(&answer, want) => {
                let fwd_status = answer.validated.then_some(StatusCode::NOT_MODIFIED);
                let report = Report { fwd_status, ..collapsed(self.outcome(&answer, want)) };
                Followed::Answered(self.hit(&answer.held, report))
            }
            News::Answered(_) | News::Again => Followed::LookAgain(None),
            News::Lead(lead) => Followed::Lead(lead),
            News::Alone => Followed::Alone,
            News::Failed(failure) => Followed::Answered(self.failed(failure, want)),
        }
    }

    fn outcome(&self, answer: &Answer, want: &Want) -> Outcome {
        match want.why {
            Miss::Stale(why) if answer.validated => Outcome::Revalidated(why),
            why => Outcome::Miss(why),
        }
    }

    /// Whether what is being fetched may answer this request: its variant is ours, and it is fresh enough for us. Who asks
    /// for what comes from the origin itself takes what another asked for so, if it waited for that (`early`).
    fn is_ours(&self, held: &Held, leaders: Verdict, early: bool, want: &Want) -> bool {
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
    fn is_answered(&self, answer: &Answer, want: &Want) -> bool {
        let held = &*answer.held;
        if !answer.validated {
            return self.is_ours(held, answer.verdict, true, want);
        }
        let Resident { head, body, .. } = resident(held);
        let suits = cache::can_answer(&self.asked, &self.parts.headers, head, body.len());
        let valid = match cache::judge(&self.asked, head, clock::now()) {
            Verdict::Stale(Stale::RequestMaxAge | Stale::MinFresh) => false,
            ours @ Verdict::Stale(Stale::RequestNoCache) => ours == answer.verdict,
            _ => true,
        };
        held.key == want.look.key && suits && valid && !self.worker.shared.tiers.covers(held)
    }

    fn read_along(&self, seat: Seat, opened: &Opened, want: &Want) -> Response<ReplyBody> {
        let report = collapsed(Outcome::Miss(want.why));
        let resident = resident(&opened.held);
        let status = report.value(&self.worker.shared.names.item);
        let mut fields = resident.fields(resident.head.age(clock::now()), status);
        if let Some(length) = opened.length {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let body = ReplyBody::pieces(pump::follow(&self.worker, seat, opened));
        reply::response(resident.status(), fields, body.telling(report, Place::default()))
    }

    /// Fetches on behalf of everybody who joined.
    async fn lead(&self, lead: Lead, want: &Want) -> Response<ReplyBody> {
        let mut validating = want.stale.as_deref();
        let mut resting = want.part.as_deref().filter(|_| !self.asked.has_range());
        loop {
            // What is made with something stored is as old as that was when it was found.
            let with_stored = validating.is_some() || want.part.is_some();
            let began = if with_stored { want.look.began } else { self.worker.shared.tiers.now() };
            let sent = clock::now();
            // What is wrong with this request is nobody else's: another takes over.
            let mut head = match self.for_origin() {
                Ok(head) => head,
                Err(refusal) => return refusal.response(),
            };
            if lead.is_shared() {
                cache::make_unconditional(head.headers_mut());
            }
            let fetched = match self.request(head, validating, &mut resting).await {
                Ok(fetched) => fetched,
                // That is about this client alone: the others look for themselves.
                Err(refusal) if refusal.status == StatusCode::FORBIDDEN => return refusal.response(),
                Err(refusal) => {
                    let personal = refusal.personal;
                    let failure = Failure { refusal, answered: None };
                    match personal {
                        true => lead.unusable(),
                        false => lead.failed(failure.clone()),
                    }
                    return self.failed(failure, want);
                }
            };
            let came = clock::now();
            if let Some(stale) = validating
                && fetched.parts.status == StatusCode::NOT_MODIFIED
            {
                match cache::freshen(&self.asked, &resident(stale).head, &fetched.parts, sent, came) {
                    Some(head) if fetched.shareable => {
                        return self.validated(lead, stale, head, want);
                    }
                    // The 304 is about another response: ask again, without conditions.
                    _ => validating = None,
                }
                continue;
            }
            let status = fetched.parts.status;
            if is_outage(status) && self.may_serve_stale(want, Outage::Answered5xx) {
                let text = format!("the origin answered {status}");
                let refusal = Refusal::new(StatusCode::BAD_GATEWAY, text);
                let failure = Failure { refusal, answered: Some(status) };
                lead.failed(failure.clone());
                return self.failed(failure, want);
            }
            let mut storable = Head::storable(&self.asked, &fetched.parts, sent, came)
                .and_then(|head| head.obeying(self.worker.settings.set_cookie));
            if let Ok(head) = &mut storable {
                head.purges_known = began.purges;
            }
            if let Some(part) = resting.take() {
                match storable.as_ref().map(|head| self.whole(part, head, &fetched)) {
                    Ok(Some((head, begin))) if self.keeps(&fetched).is_ok() => {
                        return self.fill(lead, fetched, head, begin, began, want);
                    }
                    // Only the whole can be used as it is.
                    _ if fetched.parts.status == StatusCode::OK => {}
                    _ => continue,
                }
            }
            return match storable {
                // A part that nobody asked for, or another one than it says.
                Ok(head) if head.part().is_some() && (!self.asked.has_range() || falls_short(&fetched)) => {
                    self.pass_alone(lead, fetched, NotStored::Partial, want)
                }
                Ok(head) => match self.keeps(&fetched) {
                    Ok(()) => self.fill(lead, fetched, head, Bytes::new(), began, want),
                    Err(why) => self.pass_alone(lead, fetched, why, want),
                },
                Err(why) => self.pass_alone(lead, fetched, why, want),
            };
        }
    }

    /// Asks the origin: to validate, for the rest of a part (`resting` stays), or for what the head says.
    async fn request(
        &self,
        mut head: Request<()>,
        validating: Option<&Held>,
        resting: &mut Option<&Held>,
    ) -> Result<Fetched, Refusal> {
        if let Some(stale) = validating {
            cache::make_conditional(head.headers_mut(), &resident(stale).head);
        }
        *resting = resting.filter(|part| {
            let Resident { head: stored, body, .. } = resident(part);
            matches!(body, Body::Whole(_)) && cache::ask_for_the_rest(head.headers_mut(), stored, body.len())
        });
        self.fetch(head).await
    }

    /// The stored part and the rest that comes as one response, and the bytes it begins with.
    fn whole(&self, part: &Held, rest: &Head, fetched: &Fetched) -> Option<(Head, Bytes)> {
        let Resident { head, body: Body::Whole(begin), .. } = resident(part) else { return None };
        let length = fetched.body.left()?;
        let mut rest = rest.clone();
        rest.settle(length);
        // The rest must begin where the part ends: what overlaps would have to be dropped from the stream.
        let meets = rest.part().is_some_and(|rest| rest.first == begin.len() as u64);
        let whole = cache::combined(head, begin.len() as u64, &rest, length)?;
        (meets && whole.part().is_none()).then(|| (whole, begin.clone()))
    }

    /// Whether a storable response's body can be kept: all must be permitted to get it, its end must be told, and there must
    /// be a place for it.
    pub fn keeps(&self, fetched: &Fetched) -> Result<(), NotStored> {
        let length = fetched.body.left().unwrap_or(0);
        let max = match self.worker.shared.tiers.store {
            Some(_) => self.worker.settings.bounds.object_bytes,
            None => self.worker.shared.tiers.memory.object_max(),
        };
        match () {
            _ if !fetched.shareable => Err(NotStored::Restricted),
            _ if !fetched.body.is_framed() => Err(NotStored::Unframed),
            _ if max == 0 => Err(NotStored::NoRoom),
            _ if length > max => Err(NotStored::TooLarge),
            _ => Ok(()),
        }
    }

    /// Passes a response on while it is stored; `begin` goes before what the origin sends.
    fn fill(
        &self,
        lead: Lead,
        fetched: Fetched,
        head: Head,
        begin: Bytes,
        began: Moment,
        want: &Want,
    ) -> Response<ReplyBody> {
        lead.worth_waiting(&self.worker.shared.fills);
        // What a disk that is late may have is not written once more if it is large: who reads it there would lose it.
        let stores = !self.disk.late.get()
            || fetched.body.left().is_some_and(|left| keeper::is_small(&self.worker, left));
        let key = if stores { self.object_key(&head, &want.look) } else { want.look.key.clone() };
        let part = want.part.clone().filter(|_| head.part().is_some());
        let fwd_status = (!begin.is_empty()).then_some(fetched.parts.status);
        let collapsed = want.collapsed;
        let report = Report { collapsed, fwd_status, ..Outcome::Miss(want.why).into() };
        let object = keeper::Object { begin, part, stores, ..keeper::Object::new(key, head, began) };
        self.keep(lead, fetched, object, report)
    }

    /// The key under which a response is to be stored. Markers say by what the primary key's responses vary.
    fn object_key(&self, head: &Head, look: &Look) -> Key {
        let primary = self.primary_key(head, look);
        let Some(vary) = head.vary() else { return primary };
        let variants = match &look.variants {
            Some(variants) if variants.vary == *vary && primary == look.primary => variants.clone(),
            _ => {
                let variants = Variants { vary: vary.clone(), nonce: nonce() };
                self.mark(Held::varies(primary.clone(), variants.clone()));
                variants
            }
        };
        let selecting = self.selecting(vary);
        let key = variants.of(&primary, &selecting);
        // Clients who like this response's language best find it too.
        if let Some(language) = cache::sole_language(head)
            && let Some(alias) = variants.alias(&primary, &selecting, &language)
        {
            self.mark(Held::same_as(alias, key.clone()));
        }
        key
    }

    fn primary_key(&self, head: &Head, look: &Look) -> Key {
        let config = NoVarySearch::of(&head.headers);
        match look.marker.as_deref() {
            Some(Held { entry: Entry::Queries(_), .. }) => look.primary.clone(),
            Some(Held { entry: Entry::Searches(searches), .. }) if searches.config == config => {
                look.primary.clone()
            }
            _ if config.is_default() => look.uri.clone(),
            _ => {
                // What lies under the URI itself would be found first.
                self.worker.shared.tiers.remove(&look.uri);
                let marker = Key::new(key::searches(look.uri.bytes()));
                let searches = Searches { config, nonce: nonce() };
                let primary = searches.of(&marker, self.target.path.as_str());
                self.mark(Held::searches(marker, searches));
                primary
            }
        }
    }

    fn mark(&self, marker: Held) -> Arc<Held> {
        self.worker.shared.tiers.mark(marker)
    }

    fn pass_alone(&self, lead: Lead, fetched: Fetched, why: NotStored, want: &Want) -> Response<ReplyBody> {
        // What comes from where not everybody may reach is this client's own affair.
        if fetched.shareable && says_of_resource(fetched.parts.status, why) {
            lead.alone(&self.worker.shared.fills);
        } else {
            lead.unusable();
        }
        if want.stale.is_some() && !is_outage(fetched.parts.status) {
            self.worker.shared.tiers.remove(&want.look.key);
        }
        let collapsed = want.collapsed;
        self.pass(fetched, Report { not_stored: Some(why), collapsed, ..Outcome::Miss(want.why).into() })
    }

    /// The origin says that the stored response holds: it is updated, and answers.
    fn validated(&self, lead: Lead, stale: &Held, head: Head, want: &Want) -> Response<ReplyBody> {
        let Miss::Stale(why) = want.why else { return self.only_if_cached() };
        let held = self.renew(stale, head, want.look.began);
        if resident(&held).head.may_stay(self.worker.settings.set_cookie).is_err() {
            // It is for this client alone from now on.
            lead.alone(&self.worker.shared.fills);
        } else {
            let verdict = cache::judge(&self.asked, &resident(&held).head, clock::now());
            lead.answered(Answer { held: held.clone(), validated: true, verdict });
        }
        self.hit(&held, Report { collapsed: want.collapsed, ..Outcome::Revalidated(why).into() })
    }

    /// A HEAD that what is stored cannot answer: the origin's answer says whether that still holds (4.3.5).
    async fn head(self, look: Look, why: Miss) -> Response<ReplyBody> {
        let Look { began, found, .. } = look;
        let sent = clock::now();
        let (exchange, fetched) = match self.forward_content().await {
            Ok(answered) => answered,
            Err(refusal) => return refusal.response(),
        };
        if fetched.parts.status == StatusCode::OK
            && fetched.shareable
            && let Some(held) = found
            && let Resident { head, body, .. } = resident(&held)
            && head.part().is_none()
        {
            let (asked, length, came) = (&exchange.asked, body.len(), clock::now());
            let freshened = || cache::freshen_by_head(asked, head, length, &fetched.parts, sent, came);
            // What was no 200 and is one now has changed.
            match (head.status == StatusCode::OK).then(freshened).flatten() {
                Some(head) => drop(exchange.renew(&held, head, began)),
                None => exchange.worker.shared.tiers.remove(&held.key),
            }
        }
        exchange.pass(fetched, Outcome::Miss(why).into())
    }

    /// Stores an object with new fields, if they let it stay.
    fn renew(&self, held: &Held, head: Head, began: Moment) -> Arc<Held> {
        let shared = &self.worker.shared;
        shared.tiers.renew(began, held, head, &shared.names)
    }

    /// The origin gave no answer of use: what is stored may stand in, or the client gets the error.
    fn failed(&self, failure: Failure, want: &Want) -> Response<ReplyBody> {
        let outage = failure.answered.map_or(Outage::Unreachable, |_| Outage::Answered5xx);
        match &want.stale {
            Some(stale) if self.may_serve_stale(want, outage) => {
                let fwd_status = failure.answered;
                self.hit(stale, Report { fwd_status, ..Outcome::StaleOnError.into() })
            }
            _ => failure.refusal.response(),
        }
    }

    fn may_serve_stale(&self, want: &Want, outage: Outage) -> bool {
        want.stale.as_deref().is_some_and(|held| {
            cache::may_serve_stale_on_error(&self.asked, &resident(held).head, clock::now(), outage)
        })
    }
}

/// Whether a response that is not stored says that others of its resource would not be either, so that nobody needs to
/// wait for one. An error of the origin, a part, and what this one request brought about say nothing of the kind.
fn says_of_resource(status: StatusCode, why: NotStored) -> bool {
    use NotStored::{Interim, Method, NotModified, Partial, Request, Status};
    let of_request = matches!(why, Request | Method | Interim | Partial | NotModified | Status);
    !of_request && !status.is_server_error() && status != StatusCode::PARTIAL_CONTENT
}

/// What a request says that a fetch of another answered.
fn collapsed(outcome: Outcome) -> Report {
    Report { collapsed: Some(true), ..outcome.into() }
}

/// Whether a part is not what it says it is, as far as that is known before it comes.
fn falls_short(part: &Fetched) -> bool {
    part.body.left().is_some_and(|left| cache::falls_short(&part.parts.headers, left))
}

/// RFC 5861 section 4: the answers for which a stale response may stand in.
fn is_outage(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

/// What is found for a request is a response; `look` sees to it.
fn resident(held: &Held) -> &Resident {
    match &held.entry {
        Entry::Response(resident) => resident,
        _ => unreachable!("a marker where a response was looked up"),
    }
}
