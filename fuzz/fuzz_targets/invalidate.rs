//! What an unsafe request invalidates: the first line is the target's path, the others are references of Location.
//! The target always, and only keys of its origin, each once, in normal form; resolving a result gives it again.
#![no_main]

use cache::{invalidated, key};
use cosm_fuzz::{Input, values};
use http::header::LOCATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use libfuzzer_sys::fuzz_target;

const ORIGIN: &str = "GET http://h.example:8080";

fn keys(method: Method, path: &str, status: StatusCode, headers: &HeaderMap) -> Vec<String> {
    let (mut parts, ()) = Response::new(()).into_parts();
    (parts.status, parts.headers) = (status, headers.clone());
    let keys = invalidated(&method, "http", "h.example:8080", path, &parts);
    keys.into_iter().map(|key| String::from_utf8(key.to_vec()).expect("text")).collect()
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(path) = PathAndQuery::try_from(input.line()).ok() else { return };
    let headers = values(LOCATION, input.rest());
    assert!(keys(Method::GET, path.as_str(), StatusCode::OK, &headers).is_empty());
    assert!(keys(Method::POST, path.as_str(), StatusCode::NOT_FOUND, &headers).is_empty());

    let all = keys(Method::POST, path.as_str(), StatusCode::OK, &headers);
    assert_eq!(all[0].as_bytes(), key::primary("http", "h.example:8080", path.as_str()));
    for (i, key) in all.iter().enumerate() {
        let path = key.strip_prefix(ORIGIN).expect("of the same origin");
        assert!(path.starts_with('/') && !path.contains('#'), "{path}");
        assert!(!all[..i].contains(key), "once");
        let segments = path.split('?').next().unwrap_or("").split('/');
        assert!(i == 0 || segments.clone().all(|segment| segment != "." && segment != ".."), "{path}");
        let reference = HeaderValue::try_from(format!("http://H.example:8080{path}"));
        if let (1.., Ok(reference), true) = (i, reference, path.trim() == path) {
            let again =
                keys(Method::POST, "/", StatusCode::OK, &[(LOCATION, reference)].into_iter().collect());
            assert!(again.contains(key), "{again:?} {key}");
        }
    }
});
