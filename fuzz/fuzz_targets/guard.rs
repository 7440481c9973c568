//! Via, Max-Forwards and CONNECT's target: the first line is a URI, the others are fields. A request that this
//! proxy signed is a loop, whatever hops and comments were added since; signing keeps the hops before; Max-Forwards
//! only falls; CONNECT reaches the ports that are allowed, as they are written.
#![no_main]

use cosm_fuzz::{Input, fields};
use http::header::{MAX_FORWARDS, VIA};
use http::{HeaderValue, Method, StatusCode, Uri};
use libfuzzer_sys::fuzz_target;
use proxy::Settings;
use proxy::fuzzing::{Hops, Names, connect, lower_max_forwards};
use std::sync::LazyLock;

static NAMES: LazyLock<Names> = LazyLock::new(|| Names::new("cosm"));
static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::default);

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if let Ok(uri) = Uri::try_from(input.line()) {
        match connect(&uri, &SETTINGS) {
            Ok((authority, port)) => {
                assert_eq!((port, authority.port_u16()), (443, Some(443)));
                assert_eq!(uri.to_string(), authority.as_str());
                assert!(!authority.as_str().contains(['@', '/']) && !authority.host().is_empty());
            }
            Err(refusal) => assert_eq!(refusal.text.lines().count(), 1),
        }
    }
    let headers = fields(input.rest());

    match NAMES.look(&headers) {
        Err(refusal) => {
            assert_eq!(refusal.status, StatusCode::LOOP_DETECTED);
            let commas =
                headers.get_all(VIA).iter().flat_map(|v| v.as_bytes()).filter(|b| **b == b',').count();
            assert!(commas + headers.get_all(VIA).iter().count() > 32, "a loop of few hops");
        }
        Ok(()) => {
            let mut signed = headers.clone();
            NAMES.sign(&mut signed, http::Version::HTTP_11);
            assert_eq!(signed.get_all(VIA).iter().count(), 1);
            let all = signed[VIA].as_bytes();
            let mut rest = all;
            for hop in headers.get_all(VIA) {
                let at = rest.windows(hop.len().max(1)).position(|w| w == hop.as_bytes());
                let at = at.or_else(|| hop.is_empty().then_some(0)).expect("every hop, in its order");
                rest = &rest[at + hop.len()..];
            }
            // What other proxies do to the field on the way round.
            for added in headers.values() {
                let mut round = signed.clone();
                round.append(VIA, added.clone());
                assert!(NAMES.look(&round).is_err(), "another line");
                let joined =
                    HeaderValue::from_bytes(&[all, b", ", added.as_bytes()].concat()).expect("a value");
                round.insert(VIA, joined);
                assert!(NAMES.look(&round).is_err(), "the same line");
            }
        }
    }

    let count =
        |headers: &http::HeaderMap| -> Option<u64> { headers.get(MAX_FORWARDS)?.to_str().ok()?.parse().ok() };
    let mut lowered = headers.clone();
    assert_eq!(lower_max_forwards(&Method::GET, &mut lowered), Hops::GoOn);
    assert_eq!(lowered, headers);
    match (lower_max_forwards(&Method::TRACE, &mut lowered), count(&headers)) {
        (Hops::Here, before) => assert_eq!(before, Some(0)),
        (Hops::GoOn, None) => assert_eq!(lowered, headers),
        (Hops::GoOn, Some(before)) => assert_eq!(count(&lowered), before.checked_sub(1)),
    }
});
