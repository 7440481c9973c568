//! What is stored of a URL: a look that leaves no trace, and asks no origin.

use super::{AdminError, purge};
use crate::clock;
use crate::report::recent::{self, Last};
use crate::scheme::Scheme;
use crate::tiers::expired;
use crate::tiers::invalidation::Purged;
use crate::tiers::memory::{CacheEntry, EntryKind};
use crate::tiers::stores::Readers;
use crate::worker::Shared;
use cache::{Asked, Head, Outcome, Stale, Vary, Verdict, key};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use store::{Body, Key};
use tokio::sync::Semaphore;

/// Searches at once; others wait for them.
const AT_ONCE: usize = 4;
/// Header fields that one is asked with.
const FIELDS: usize = 32;
/// What may stand around a name and a value.
const BLANKS: [char; 2] = [' ', '\t'];
/// Pieces of a large body that are looked for.
const PIECES: u32 = 4096;

pub struct Search {
    shared: Arc<Shared>,
    /// Made when somebody searches: they are of this thread's runtime.
    readers: OnceCell<Readers>,
    turns: Semaphore,
}

/// What was found on the way to a response.
struct Found {
    key: Key,
    held: Option<(Arc<CacheEntry>, bool)>,
    varies: Option<Vary>,
}

impl Search {
    pub fn of(shared: Arc<Shared>) -> Search {
        Search { shared, readers: OnceCell::new(), turns: Semaphore::new(AT_ONCE) }
    }

    /// Lets go of disks that were left.
    pub fn refresh(&self) {
        self.readers.get().map(Readers::view);
    }

    pub async fn find(&self, query: &str) -> Result<String, AdminError> {
        let wrong = |why: String| AdminError(StatusCode::BAD_REQUEST, why);
        let (url, fields) = asked(query).map_err(wrong)?;
        let is_reverse = self.shared.settings.newest().origin.is_some();
        let Some((Some((schemes, authority)), path)) = purge::url(&url, is_reverse) else {
            return Err(wrong(format!(
                "url: `{}` is not an http or https URL with a host",
                url.escape_debug()
            )));
        };
        let Ok(_turn) = self.turns.acquire().await else {
            return Err(AdminError(StatusCode::SERVICE_UNAVAILABLE, "it stops".into()));
        };
        let late = Cell::new(false);
        let key = |scheme: &Scheme| Key::new(key::primary(scheme.as_str(), &authority, &path));
        let mut found = None;
        for primary in schemes.iter().map(key) {
            let one = self.look(primary, &path, &fields, &late).await;
            let is_there = one.held.is_some() || one.varies.is_some();
            if is_there || found.is_none() {
                found = Some(one);
            }
            if is_there {
                break;
            }
        }
        match found {
            Some(found) => Ok(format!("{:#}\n", self.tell(&url, found, &fields, late.get()))),
            None => Err(wrong("url: a scheme is missing".into())),
        }
    }

    async fn look(&self, primary: Key, path: &str, fields: &HeaderMap, late: &Cell<bool>) -> Found {
        let searches = Key::new(key::searches(primary.bytes()));
        let exact = self.look_under(primary, fields, late).await;
        if exact.held.is_some() || exact.varies.is_some() {
            return exact;
        }
        let marker = self.peek(&searches, late).await;
        match marker.as_ref().map(|(held, _)| &held.kind) {
            Some(EntryKind::Searches(alike)) => {
                self.look_under(alike.of(&searches, path), fields, late).await
            }
            _ => exact,
        }
    }

    async fn look_under(&self, primary: Key, fields: &HeaderMap, late: &Cell<bool>) -> Found {
        let held = self.peek(&primary, late).await;
        match held.as_ref().map(|(held, _)| &held.kind) {
            Some(EntryKind::Response(_)) => Found { key: primary, held, varies: None },
            Some(EntryKind::Varies(variants)) => {
                let key = variants.of(&primary, fields);
                let held = self.peek(&key, late).await;
                let held = held.filter(|(held, _)| matches!(held.kind, EntryKind::Response(_)));
                Found { key, held, varies: Some(variants.vary.clone()) }
            }
            _ => Found { key: primary, held: None, varies: None },
        }
    }

    async fn peek(&self, key: &Key, late: &Cell<bool>) -> Option<(Arc<CacheEntry>, bool)> {
        let readers = self.readers.get_or_init(|| self.shared.tiers.stores.readers());
        self.shared.tiers.peek(key, readers, &self.shared.names, late).await
    }

    fn tell(&self, url: &str, found: Found, fields: &HeaderMap, late: bool) -> Json {
        let Found { key, held, varies } = found;
        let mut told = Map::new();
        told.insert("url".into(), url.into());
        if let Some(vary) = &varies {
            told.insert("varies-by".into(), vary.names().iter().map(HeaderName::as_str).collect());
        }
        let (state, why) = match &held {
            Some((held, in_memory)) => {
                told.insert("in-memory".into(), (*in_memory).into());
                told.insert("on-disk".into(), self.places(&key));
                let EntryKind::Response(response) = &held.kind else {
                    unreachable!("only responses are told of")
                };
                let purged = self.shared.tiers.purged(held);
                let head = match purged {
                    Purged::Softly(since, _) => Cow::Owned(expired(&response.head, since)),
                    Purged::No | Purged::Yes => Cow::Borrowed(&response.head),
                };
                told.extend(self.response(&head, &response.body));
                match purged {
                    Purged::Yes => ("purged", "It was purged, and does not answer any more.".into()),
                    Purged::No | Purged::Softly(..) => state(&head, fields),
                }
            }
            None if late => ("unknown", "The disk that may have it does not answer.".into()),
            None if varies.is_some() => (
                "no-such-variant",
                "Responses of this URL are stored, and none for a request with these header fields.".into(),
            ),
            None => ("not-stored", self.why_not(&key, &mut told)),
        };
        told.insert("state".into(), state.into());
        told.insert("why".into(), why.into());
        Json::Object(told)
    }

    /// Why nothing is stored, as far as the last request that was noted tells.
    fn why_not(&self, key: &Key, told: &mut Map<String, Json>) -> String {
        const NEEDS: &str = "A response is stored that says how long it is fresh (Cache-Control: max-age=…), and neither private nor no-store";
        let url = std::str::from_utf8(key.bytes().strip_prefix(key::METHOD).unwrap_or_default())
            .unwrap_or_default();
        let Some((when, last)) = recent::last(&self.shared.recent, url) else {
            return format!(
                "Nothing is stored, and nobody has asked for it of late, as far as is noted. {NEEDS}."
            );
        };
        let ago = format!("the last request, {} s ago,", when.elapsed().map_or(0, |since| since.as_secs()));
        let (word, why) = match last {
            Last::NotStored(why) => {
                (why.word(), format!("{ago} brought none that is stored, since {}.", why.about()))
            }
            Last::Passed(why) => {
                let outcome = Outcome::Pass(why);
                (outcome.word(), format!("{ago} passed the cache ({}).", outcome.parameters()))
            }
            Last::Other(_) => {
                return format!(
                    "Nothing is stored any more: {ago} was answered by what was stored then, or brought it. It has left since, or was removed."
                );
            }
        };
        told.insert("not-stored".into(), word.into());
        format!("Nothing is stored: {why}")
    }

    /// Each disk that has it, and where.
    fn places(&self, key: &Key) -> Json {
        let Some(readers) = self.readers.get() else { return json!([]) };
        let view = readers.view();
        let place = |n: usize| {
            let store = view.store(n)?;
            let at = store.whereabouts(key)?;
            Some(json!({
                "disk": store.name(),
                "segment": at.segment,
                "offset": at.offset,
                "record-bytes-at-most": at.bytes,
                "uses": at.uses,
                "written": at.written,
                "seconds-there": at.age.map(|age| age.as_secs()),
            }))
        };
        view.places(key).filter_map(place).collect()
    }

    fn response(&self, head: &Head, body: &Body) -> Map<String, Json> {
        let now = clock::now();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let fields = head.headers.iter().map(|(name, value)| json!([name.as_str(), text(value)]));
        let pieces = match body {
            Body::Spans(spans) => {
                let looked = spans.count().min(PIECES);
                let missing =
                    self.shared.tiers.stores.at(spans).map(|store| store.missing(spans, 0..looked).count());
                json!({ "count": spans.count(), "looked-at": looked, "missing": missing })
            }
            Body::Whole(_) => Json::Null,
        };
        let part = head.part().map(|part| json!({ "first": part.first, "complete-length": part.complete }));
        let told = json!({
            "status": head.status.as_u16(),
            "body-bytes": body.len(),
            "pieces": pieces,
            "part": part,
            "age": head.age(now),
            "fresh-for": head.lifetime(),
            "fresh-left": head.ttl(now),
            "received": head.response_time(),
            "stale-while-revalidate": head.stale_while_revalidate(),
            "stale-if-error": head.stale_if_error(),
            "fields": fields.collect::<Vec<_>>(),
        });
        match told {
            Json::Object(told) => told,
            _ => unreachable!("an object was made"),
        }
    }
}

/// Whether a response answers a GET with these fields now, in one word and in a sentence.
fn state(head: &Head, fields: &HeaderMap) -> (&'static str, String) {
    let (now, asked) = (clock::now(), Asked::of(&Method::GET, fields));
    let is_over = format!("It has been stale for {} s", head.ttl(now).unsigned_abs());
    match cache::judge(&asked, head, now) {
        Verdict::Fresh => ("fresh", format!("It answers, and stays fresh for {} s.", head.ttl(now))),
        Verdict::ServeStale => ("stale", format!("{is_over}, and the request takes it nevertheless.")),
        Verdict::ServeWhileRevalidating => (
            "stale-while-revalidate",
            format!("{is_over}: it answers while the origin is asked whether it still holds."),
        ),
        Verdict::Stale(Stale::Expired) => {
            ("stale", format!("{is_over}: the origin is asked before it answers."))
        }
        Verdict::Stale(Stale::NoCache) => {
            ("no-cache", "It says no-cache: the origin is asked each time before it answers.".into())
        }
        Verdict::Stale(Stale::RequestNoCache | Stale::RequestMaxAge | Stale::MinFresh) => {
            ("request", "These request fields want it fresher than it is.".into())
        }
    }
}

/// The URL and the header fields of a query.
fn asked(query: &str) -> Result<(String, HeaderMap), String> {
    let (mut url, mut fields) = (None, HeaderMap::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "url" if url.is_none() => url = Some(value.into_owned()),
            "field" if fields.len() < FIELDS => {
                let (name, field) = value
                    .split_once(':')
                    .ok_or_else(|| format!("field: `{}` is not NAME:VALUE", value.escape_debug()))?;
                let name = HeaderName::try_from(name.trim_matches(BLANKS)).ok();
                let field = HeaderValue::from_str(field.trim_matches(BLANKS)).ok();
                let (Some(name), Some(field)) = (name, field) else {
                    return Err(format!("field: `{}` is not a header field", value.escape_debug()));
                };
                fields.append(name, field);
            }
            "url" => return Err("url: say one".into()),
            "field" => return Err(format!("field: more than {FIELDS} are too many")),
            _ => {
                return Err(format!(
                    "`{}` is neither url nor field (is the URL not percent-encoded?)",
                    name.escape_debug()
                ));
            }
        }
    }
    let url = url.filter(|url| !url.is_empty());
    Ok((url.ok_or("say which URL: /object.json?url=…, percent-encoded")?, fields))
}
