//! `PURGE URL`, as Squid, Varnish and nginx caches take it from those who may: what is stored of a URI is not served any more.

use crate::access::forwarded::is_believed;
use crate::answer::body::ReplyBody;
use crate::answer::exchange::Exchange;
use crate::answer::respond;
use crate::fetch::Presented;
use crate::message::refusal::Refusal;
use crate::scheme::Scheme;
use cache::Scope;
use http::header::VIA;
use http::{HeaderName, Method, Response, StatusCode};
use std::time::Duration;
use store::Key;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How long the answer waits until a kill cannot undo it.
const PATIENCE: Duration = Duration::from_secs(10);

/// As the field writes it: what is stored is only stale then.
const SOFT: HeaderName = HeaderName::from_static("fastly-soft-purge");

/// Purges that wait for the disk at once.
static WAITING: Semaphore = Semaphore::const_new(16);

pub fn is_purge(method: &Method) -> bool {
    method.as_str() == "PURGE"
}

/// In a reverse proxy, that of either scheme: the page is the same to whoever purges it.
fn keys(request: &Presented, uri: Key) -> Vec<Key> {
    let target = &request.target;
    let of = |scheme| target.with(scheme).primary_key();
    match &request.worker.reverse {
        Some(_) => Scheme::ALL.into_iter().map(of).collect(),
        None => vec![uri],
    }
}

impl Exchange {
    /// 200 where something was stored, else 404. Of who comes through another proxy nobody knows who that is.
    pub async fn purge(&self) -> Response<ReplyBody> {
        let (request, client) = (&self.request, self.stream.client());
        let (shared, uri) = (request.worker.shared.clone(), request.uri.clone());
        let headers = &request.parts.headers;
        let is_anothers = headers.contains_key(VIA) || headers.keys().any(|name| is_believed(name.as_str()));
        let refused = match (client.purges && !client.trusted, is_anothers) {
            (true, false) => None,
            (true, true) => {
                Some("nobody knows who asks through another proxy; send PURGE without Via and Forwarded")
            }
            (false, _) => {
                Some("this client may not purge; the proxy's operator allows it with --purge-from NETWORK")
            }
        };
        if let Some(text) = refused {
            return Refusal::new(StatusCode::FORBIDDEN, text).response();
        }
        let Ok(_place) = WAITING.try_acquire() else {
            let text = "too many purges wait for the disk; ask again";
            return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).response();
        };
        let is_stored = |uri: &Key| shared.tiers.stores.of(uri).is_some_and(|store| store.contains(uri));
        let softly = headers.get(SOFT).is_some_and(|value| value == "1");
        let mut was_stored = false;
        for uri in keys(request, uri) {
            was_stored |= shared.tiers.memory.get(&uri).is_some() || is_stored(&uri);
            match std::str::from_utf8(uri.bytes()).ok().and_then(|key| key.split_once(' ')) {
                // Searches that are answered alike are known by their path only.
                Some((_, url)) if softly => {
                    let path = url.split_once('?').map_or(url, |(path, _)| path);
                    shared.tiers.purge([Scope::Url(url), Scope::Url(path)], true);
                }
                _ => shared.tiers.forget(uri.bytes()),
            }
        }
        let waits = shared.clone();
        let is_certain = spawn_blocking(move || waits.tiers.stores.persist(PATIENCE)).await.unwrap_or(false);
        let target = &request.target;
        let url = format!("{}://{}{}", target.scheme.as_str(), target.host(), target.path.as_str());
        tracing::info!(target: "admin", by = %client.peer, what = url, softly, was_stored, is_certain, "PURGE");
        match (is_certain, was_stored) {
            (false, _) => {
                let text =
                    "purged, but not yet on disk: it would be undone if the proxy were killed now; ask again";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).response()
            }
            (true, true) => respond::text(StatusCode::OK, "purged\n"),
            (true, false) => respond::text(StatusCode::NOT_FOUND, "nothing was stored\n"),
        }
    }
}
