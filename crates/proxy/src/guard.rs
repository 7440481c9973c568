//! Who may use the proxy, and for what: client networks, `CONNECT` ports, loops, hop counts.

use crate::forwarded::Address;
use crate::reach::Zone;
use crate::respond::Refusal;
use crate::settings::{Network, Settings};
use crate::target;
use http::header::{HeaderName, MAX_FORWARDS, VIA};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use memchr::memmem;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

/// More intermediaries than this are a loop that hides our name.
const HOPS_MAX: usize = 32;

/// What a client's address says of it.
#[derive(Clone, Debug)]
pub struct Client {
    /// As its origins are told: IPv4 as such, also where it came over a socket of both families.
    pub told: Address,
    /// Its network is served.
    pub served: bool,
    /// It is a proxy whose word on whom a request comes from is believed.
    pub trusted: bool,
    pub zone: Zone,
}

impl Client {
    pub fn of(address: IpAddr, settings: &Settings) -> Client {
        let address = address.to_canonical();
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        Client {
            told: Address::of(address),
            served: is_in(&settings.clients),
            trusted: is_in(&settings.trust),
            zone: Zone::of(address),
        }
    }
}

/// How this proxy names itself in `Via`: a pseudonym that may be common, and a comment that is this process's own.
pub struct Names {
    /// The field value for responses.
    pub response: HeaderValue,
    /// The field value for requests, after the client's own hops.
    request: String,
    /// What of it is found again in a loop.
    mark: String,
}

impl Names {
    pub fn new(pseudonym: &str) -> Names {
        let mark = format!("({:016x})", RandomState::new().build_hasher().finish());
        let response = HeaderValue::try_from(format!("1.1 {pseudonym}"));
        Names {
            response: response.unwrap_or_else(|_| HeaderValue::from_static("1.1 cosm")),
            request: format!("1.1 {pseudonym} {mark}"),
            mark,
        }
    }

    /// Refuses a request that was here before (RFC 9110 section 7.6.3).
    pub fn look(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let hops = hops(headers);
        let was_here = memmem::find(&hops, self.mark.as_bytes()).is_some();
        if was_here || hops.iter().filter(|byte| **byte == b',').count() >= HOPS_MAX {
            let text =
                "a proxy loop: this request came through this proxy before; check the origin's address";
            return Err(Refusal::new(StatusCode::LOOP_DETECTED, text));
        }
        Ok(())
    }

    /// Adds this proxy to the hops of a request; refuses one that was here before.
    pub fn sign(&self, headers: &mut HeaderMap) -> Result<(), Refusal> {
        self.look(headers)?;
        let hops = hops(headers);
        let separator: &[u8] = if hops.is_empty() { b"" } else { b", " };
        let all = [&hops[..], separator, self.request.as_bytes()].concat();
        if let Ok(value) = HeaderValue::try_from(all) {
            headers.insert(VIA, value);
        }
        Ok(())
    }
}

/// Bytes, not text: another proxy's comment may hold any, and must not hide our own mark.
fn hops(headers: &HeaderMap) -> Vec<u8> {
    let hops: Vec<&[u8]> = headers.get_all(VIA).iter().map(HeaderValue::as_bytes).collect();
    hops.join(&b", "[..])
}

/// What a client outside of the served networks is told.
pub fn stranger() -> Refusal {
    let text = "this client's network is not served; the proxy's operator allows it with --allow NETWORK";
    Refusal { close: true, ..Refusal::new(StatusCode::FORBIDDEN, text) }
}

/// Where a `CONNECT` leads, if it may.
pub fn connect<'a>(uri: &'a Uri, settings: &Settings) -> Result<(&'a Authority, u16), Refusal> {
    let (authority, port) = target::of_connect(uri)?;
    if settings.connect_ports.contains(&port) {
        return Ok((authority, port));
    }
    let text = format!(
        "CONNECT to port {port} is not allowed; the proxy's operator allows it by adding {port} to --connect-ports"
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, text))
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
        assert!(others.sign(&mut headers).is_ok(), "another proxy of the same name is no loop");
        assert!(ours.sign(&mut headers).is_ok());
        assert_eq!(headers.get_all(VIA).iter().count(), 1);
        assert!(headers[VIA].to_str().unwrap().starts_with("1.0 fred, 1.1 cosm, 1.1 cosm ("));
        assert_eq!(ours.sign(&mut headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
        assert_eq!(others.sign(&mut headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
    }

    #[test]
    fn a_loop_is_found_behind_a_comment_of_any_bytes() {
        let ours = Names::new("cosm");
        let mut headers = HeaderMap::new();
        assert!(ours.sign(&mut headers).is_ok());
        let round = [headers[VIA].as_bytes(), b", 1.1 caf\xe9 (\xff)"].concat();
        headers.insert(VIA, HeaderValue::from_bytes(&round).unwrap());
        let mut others = headers.clone();
        assert!(Names::new("cosm").sign(&mut others).is_ok());
        assert!(others[VIA].as_bytes().starts_with(&round), "hops are kept as they came");
        assert_eq!(ours.sign(&mut headers).unwrap_err().status, StatusCode::LOOP_DETECTED);
    }

    #[test]
    fn too_many_hops_are_a_loop() {
        let mut headers = HeaderMap::new();
        for _ in 0..=HOPS_MAX {
            headers.append(VIA, HeaderValue::from_static("1.1 x"));
        }
        assert!(Names::new("cosm").sign(&mut headers).is_err());
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
