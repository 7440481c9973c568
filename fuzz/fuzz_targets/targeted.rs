//! CDN-Cache-Control: lines of the input are lines of the field. What is no dictionary is as good as absent; one that is
//! hides Cache-Control; parameters mean nothing; a line of garbage spoils it; what it forbids stays forbidden.
#![no_main]

use cache::fuzzing::{Directives, response_directives};
use cosm_fuzz::values;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

static FIELD: HeaderName = HeaderName::from_static("cdn-cache-control");
const NO_STORE: u32 = 1 << 2;
const NONE: Directives = (0, [None; 4]);

fuzz_target!(|data: &[u8]| {
    let headers = values(FIELD.clone(), data);
    let told = response_directives(&headers);
    let beside = |line: &'static str| with(&headers, CACHE_CONTROL, line);
    let hides = response_directives(&beside("no-store, max-age=7")) == told;
    assert!(hides || told == NONE);
    assert_eq!(response_directives(&beside("private")) == told, hides);

    let spoilt = response_directives(&with(&headers, FIELD.clone(), "&"));
    assert_eq!(spoilt, NONE);
    if hides {
        let more = response_directives(&with(&headers, FIELD.clone(), "no-store, unheard-of=1"));
        assert_eq!(more, (told.0 | NO_STORE, told.1));
        let number = response_directives(&with(&headers, FIELD.clone(), "max-age=\"7\";x=1"));
        assert_eq!((number.0, number.1[0]), (told.0, Some(0)));
        let joined: Vec<_> = headers.get_all(&FIELD).iter().map(|line| line.as_bytes()).collect();
        let joined = HeaderValue::from_bytes(&joined.join(&b", "[..])).expect("still a value");
        assert_eq!(response_directives(&[(FIELD.clone(), joined)].into_iter().collect()), told);
    }
    assert!(told.1.iter().flatten().all(|seconds| *seconds <= 1 << 31));
});

fn with(headers: &HeaderMap, name: HeaderName, line: &'static str) -> HeaderMap {
    let mut all = headers.clone();
    all.append(name, HeaderValue::from_static(line));
    all
}
