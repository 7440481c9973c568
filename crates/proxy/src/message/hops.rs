//! The proxies on a request's way: who they are (Via), and how many there may be (Max-Forwards).

use crate::message::refusal::Refusal;
use bytes::Bytes;
use cache::Item;
use http::header::{HeaderName, MAX_FORWARDS, VIA};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use memchr::memmem;
use std::hash::{BuildHasher, Hasher, RandomState};

/// More intermediaries than this are a loop that hides our name.
const HOPS_MAX: usize = 32;

/// How this proxy names itself: in `Via` by a pseudonym that may be common, and a comment that is this process's own; in
/// `Cache-Status` by the pseudonym.
pub struct Names {
    /// The field value for responses. Each has a copy of it, so nothing may count those: all workers would write that.
    pub response: HeaderValue,
    /// The field values for requests, after the client's own hops: of HTTP/1, and of HTTP/2.
    request: [HeaderValue; 2],
    /// What of it is found again in a loop.
    mark: String,
    /// The member of Cache-Status.
    pub item: Item,
}

impl Names {
    pub fn new(pseudonym: &str) -> Names {
        let mark = format!("({:016x})", RandomState::new().build_hasher().finish());
        let value =
            |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("1.1 cosm"));
        Names {
            response: uncounted(value(format!("1.1 {pseudonym}"))),
            request: ["1.1", "2.0"].map(|version| value(format!("{version} {pseudonym} {mark}"))),
            mark,
            item: Item::new(pseudonym),
        }
    }

    /// Refuses a request that was here before (RFC 9110 section 7.6.3).
    pub fn look(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if !headers.contains_key(VIA) {
            return Ok(());
        }
        let hops = hops(headers);
        let was_here = memmem::find(&hops, self.mark.as_bytes()).is_some();
        if was_here || hops.iter().filter(|byte| **byte == b',').count() >= HOPS_MAX {
            let text =
                "a proxy loop: this request came through this proxy before; check the origin's address";
            return Err(Refusal::new(StatusCode::LOOP_DETECTED, text));
        }
        Ok(())
    }

    /// Adds this proxy to the hops of a request, which came in this version.
    pub fn sign(&self, headers: &mut HeaderMap, version: Version) {
        let request = &self.request[usize::from(version == Version::HTTP_2)];
        let hops = hops(headers);
        let signed = match &hops[..] {
            b"" => request.clone(),
            hops => HeaderValue::try_from([hops, b", ", request.as_bytes()].concat())
                .unwrap_or_else(|_| request.clone()),
        };
        headers.insert(VIA, signed);
    }
}

/// The same, in memory that is never given back: whoever starts a proxy does so for as long as the process.
fn uncounted(value: HeaderValue) -> HeaderValue {
    let bytes: &'static [u8] = value.as_bytes().to_vec().leak();
    HeaderValue::from_maybe_shared(Bytes::from_static(bytes)).unwrap_or(value)
}

/// Bytes, not text: another proxy's comment may hold any, and must not hide our own mark.
fn hops(headers: &HeaderMap) -> Vec<u8> {
    let hops: Vec<&[u8]> = headers.get_all(VIA).iter().map(HeaderValue::as_bytes).collect();
    hops.join(&b", "[..])
}

/// Adds this proxy to the hops of a response.
pub fn add_via(headers: &mut HeaderMap, names: &Names) {
    if headers.contains_key(VIA) {
        headers.append(VIA, names.response.clone());
    } else {
        headers.insert(VIA, names.response.clone());
    }
}

/// What Max-Forwards says (RFC 9110 section 7.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops {
    /// The request goes on; the count was lowered.
    GoOn,
    /// This proxy answers.
    Here,
}

/// Reads and lowers Max-Forwards of `TRACE` and `OPTIONS`; other methods ignore it.
pub fn lower_max_forwards(method: &Method, headers: &mut HeaderMap) -> Hops {
    const NAME: HeaderName = MAX_FORWARDS;
    if method != Method::TRACE && method != Method::OPTIONS {
        return Hops::GoOn;
    }
    let count =
        headers.get(NAME).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    match count {
        Some(0) => Hops::Here,
        Some(count) => {
            headers.insert(NAME, HeaderValue::from(count - 1));
            Hops::GoOn
        }
        None => Hops::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_here_before_is_a_loop() {
        let (ours, others) = (Names::new("cosm"), Names::new("cosm"));
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.0 fred"));
        headers.append(VIA, HeaderValue::from_static("1.1 cosm"));
        others.sign(&mut headers, Version::HTTP_11);
        assert!(ours.look(&headers).is_ok(), "another proxy of the same name is no loop");
        ours.sign(&mut headers, Version::HTTP_11);
        assert_eq!(headers.get_all(VIA).iter().count(), 1);
        assert!(headers[VIA].to_str().unwrap().starts_with("1.0 fred, 1.1 cosm, 1.1 cosm ("));
        assert_eq!(ours.look(&headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
        assert_eq!(others.look(&headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
    }

    #[test]
    fn a_loop_is_found_behind_a_comment_of_any_bytes() {
        let ours = Names::new("cosm");
        let mut headers = HeaderMap::new();
        ours.sign(&mut headers, Version::HTTP_11);
        let round = [headers[VIA].as_bytes(), b", 1.1 caf\xe9 (\xff)"].concat();
        headers.insert(VIA, HeaderValue::from_bytes(&round).unwrap());
        let mut others = headers.clone();
        Names::new("cosm").sign(&mut others, Version::HTTP_11);
        assert!(others[VIA].as_bytes().starts_with(&round), "hops are kept as they came");
        assert_eq!(ours.look(&headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
    }

    #[test]
    fn too_many_hops_are_a_loop() {
        let mut headers = HeaderMap::new();
        for _ in 0..=HOPS_MAX {
            headers.append(VIA, HeaderValue::from_static("1.1 x"));
        }
        assert!(Names::new("cosm").look(&headers).is_err());
    }

    #[test]
    fn max_forwards() {
        let mut headers = HeaderMap::new();
        headers.insert(MAX_FORWARDS, HeaderValue::from_static("1"));
        assert_eq!(lower_max_forwards(&Method::GET, &mut headers), Hops::GoOn);
        assert_eq!(headers[MAX_FORWARDS], "1");
        assert_eq!(lower_max_forwards(&Method::TRACE, &mut headers), Hops::GoOn);
        assert_eq!(headers[MAX_FORWARDS], "0");
        assert_eq!(lower_max_forwards(&Method::OPTIONS, &mut headers), Hops::Here);
    }
}
