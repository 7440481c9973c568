//! Where a request goes: the first line is the URI, the others are fields. What a forward proxy takes is http or https, to a
//! host without user information, at the port that is written there, with one Host at most; written out it is the same
//! target again. A reverse proxy goes to its origin, whatever the URI says, and names a host and nothing else.
#![no_main]

use cosm_fuzz::{Input, fields};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Uri};
use libfuzzer_sys::fuzz_target;
use proxy::fuzzing::{Refusal, Reverse, Route, Target, bare_host, host_and_port};
use proxy::{Hop, Scheme, Settings};
use std::sync::LazyLock;

static TO_ORIGIN: LazyLock<Settings> = LazyLock::new(|| Settings {
    origin: Some("http://origin:8".parse().expect("an origin")),
    ..Settings::default()
});
static FORWARD: LazyLock<Settings> = LazyLock::new(Settings::default);

fn hop(settings: &Settings, target: &Target) -> Hop {
    Route::new(settings).next_hop(target).ok().expect("a target has a hop")
}

fn target(uri: &Uri, headers: &HeaderMap, reverse: Option<&Reverse>) -> Result<Target, Refusal> {
    let mut request = Request::new(());
    (*request.uri_mut(), *request.headers_mut()) = (uri.clone(), headers.clone());
    Target::of(&request.into_parts().0, Scheme::Http, reverse)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(uri) = Uri::try_from(input.line()) else { return };
    let headers = fields(input.rest());
    let hosts = headers.get_all(HOST).iter().count();
    let forward = target(&uri, &headers, None);
    let reverse = target(&uri, &headers, Reverse::new(&TO_ORIGIN).as_ref());
    if hosts != 1 {
        assert!(forward.is_err() && reverse.is_err());
    }
    if let Ok(reverse) = reverse {
        assert_eq!(Some(hop(&TO_ORIGIN, &reverse)), TO_ORIGIN.origin.as_ref().map(|origin| origin.hop.clone()));
        assert!(host_and_port(reverse.host()).is_some_and(|(host, _)| !host.is_empty()));
    }
    let forward = match forward {
        Ok(target) => target,
        Err(refusal) => {
            assert!(refusal.status.is_client_error() || refusal.status.is_server_error());
            return assert_eq!(refusal.text.lines().count(), 1);
        }
    };
    assert_eq!(uri.scheme_str().map(str::to_ascii_lowercase).as_deref(), Some(forward.scheme.as_str()));
    let first = hop(&FORWARD, &forward);
    let Hop::Host(host) = &first else { panic!("no URL names a Unix socket") };
    let (authority, port) = (&host.authority, host.port);
    assert!(!forward.host().contains('@') && !bare_host(authority).is_empty());
    assert!(HeaderValue::try_from(forward.host()).is_ok());
    let written = forward.host().strip_prefix(authority.host()).expect("host, then port");
    match written {
        "" | ":" => assert_eq!(port, forward.scheme.default_port()),
        _ => {
            assert!(written[1..].bytes().all(|b| b.is_ascii_digit()), "a port that is no number");
            assert_eq!(written[1..].parse(), Ok(port), "another port than the URL's");
        }
    }
    let again: Uri = format!("{}://{authority}{}", forward.scheme.as_str(), forward.path).parse().expect("a URI");
    let again = target(&again, &headers, None).expect("the same target");
    assert_eq!((hop(&FORWARD, &again), again.path.to_string()), (first.clone(), forward.path.to_string()));
});
