//! Requests, responses and times for the table tests, written as in the RFCs.
#![allow(dead_code)]

use cache::{Asked, Head, NotStored, Time, http_date};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, response};

/// A moment in June 2025.
pub const NOW: Time = 1_750_000_000;

pub type Fields<'a> = &'a [(&'a str, &'a str)];

pub fn fields(list: Fields) -> HeaderMap {
    list.iter()
        .map(|(n, v)| (n.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(v.as_bytes()).unwrap()))
        .collect()
}

pub fn get(list: Fields) -> Asked {
    Asked::of(&Method::GET, &fields(list))
}

/// A value `@-60` is the HTTP-date of a minute before NOW.
pub fn response(status: u16, list: Fields) -> response::Parts {
    let (mut parts, ()) = Response::builder().status(status).body(()).unwrap().into_parts();
    for (name, value) in list {
        let value = match value.strip_prefix('@').map(|offset| offset.parse::<i64>().unwrap()) {
            Some(offset) => http_date(NOW.saturating_add_signed(offset)),
            None => HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        };
        parts.headers.append(name.parse::<HeaderName>().unwrap(), value);
    }
    parts
}

/// What becomes of a response to a plain GET that took no time and came at NOW.
pub fn store(status: u16, list: Fields) -> Result<Head, NotStored> {
    Head::storable(&get(&[]), &response(status, list), NOW, NOW)
}

pub fn head(list: Fields) -> Head {
    store(200, list).unwrap()
}
