//! Stored responses as the proxy makes them: a key, and a head.

use cache::{Asked, Head};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, ETAG};
use http::{HeaderMap, HeaderValue, Method, Response};
use store::Key;

/// Seconds for which a response is fresh.
const FRESH: &str = "max-age=315360000";

/// Of a GET of `http://host/path`.
pub fn key(host: &str, path: &str) -> Key {
    Key::new(cache::key::primary("http", host, path))
}

/// The head of a response that came at `now`, seconds since 1970, and whose body is as long as it says.
pub fn head(now: u64, etag: Option<String>) -> Result<Head, String> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(DATE, cache::http_date(now));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(FRESH));
    if let Some(etag) = etag {
        headers.insert(ETAG, HeaderValue::try_from(etag).map_err(|e| e.to_string())?);
    }
    let asked = Asked::of(&Method::GET, &HeaderMap::new());
    let (parts, ()) = response.into_parts();
    Head::storable(&asked, &parts, now, now).map_err(|why| format!("not storable: {}", why.word()))
}
