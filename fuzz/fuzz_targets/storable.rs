//! From an origin's head to the stored one: the first line is the status, the others are fields. What is stored may
//! stay, holds no field that is not its own to keep, survives its encoding, and a 304 that repeats it changes nothing.
#![no_main]

use cache::{
    Asked, Head, SetCookie, Verdict, freshen, hop, judge, make_conditional, not_modified_headers,
    parse_http_date,
};
use cosm_fuzz::{Input, fields};
use http::header::{AGE, CACHE_CONTROL, CONTENT_LENGTH, DATE, TRAILER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, response};
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_750_000_000;

fn parts(status: StatusCode, headers: HeaderMap) -> response::Parts {
    let (mut parts, ()) = Response::new(()).into_parts();
    (parts.status, parts.headers) = (status, headers);
    parts
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(status) = StatusCode::from_bytes(input.line()) else { return };
    let headers = fields(input.rest());
    let plain = Asked::of(&Method::GET, &HeaderMap::new());
    let store = |headers: &HeaderMap| Head::storable(&plain, &parts(status, headers.clone()), NOW - 2, NOW);

    let mut forbidden = headers.clone();
    forbidden.append(CACHE_CONTROL, HeaderValue::from_static("private"));
    assert!(store(&forbidden).is_err());
    let Ok(head) = store(&headers) else { return };

    assert_eq!(head.may_stay(SetCookie::Fresh), Ok(()));
    assert!(![100, 206, 304].contains(&head.status.as_u16()));
    assert!(
        head.headers
            .keys()
            .all(|name| !hop::is_hop_by_hop(name) && ![AGE, CONTENT_LENGTH, TRAILER].contains(name))
    );
    assert_eq!(parse_http_date(head.headers[DATE].as_bytes(), NOW), Some(head.date()));
    assert_eq!(Head::decode(&head.encode()), Some(head.clone()));
    assert!(head.age(NOW) >= 2, "the request took two seconds");
    assert_ne!(judge(&plain, &head, NOW + (1 << 40)), Verdict::Fresh);

    let mut request = HeaderMap::new();
    assert_eq!(make_conditional(&mut request, &head), head.has_validator());
    let same = parts(StatusCode::NOT_MODIFIED, not_modified_headers(&head));
    let fresh = freshen(&plain, &head, &same, NOW - 2, NOW).expect("its own 304 selects it");
    assert_eq!(fresh.headers, head.headers);
    assert_eq!(fresh.vary(), head.vary());
    assert_eq!((fresh.lifetime(), fresh.may_stay(SetCookie::Fresh)), (head.lifetime(), Ok(())));
    let private = parts(
        StatusCode::NOT_MODIFIED,
        [(CACHE_CONTROL, HeaderValue::from_static("private"))].into_iter().collect(),
    );
    let private = freshen(&plain, &head, &private, NOW, NOW).map(|head| head.may_stay(SetCookie::Fresh));
    assert!(private.is_none_or(|stay| stay.is_err()));
});
