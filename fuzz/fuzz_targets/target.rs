//! Where a request goes: the first line is the URI, the others are fields. What a forward proxy takes is http, to a
//! host without user information, at the port that is written there, with one Host at most; written out it is the same
//! target again. A reverse proxy goes to its origin, whatever the URI says, and names a host and nothing else.
#![no_main]

use cosm_fuzz::{Input, fields};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Uri};
use libfuzzer_sys::fuzz_target;
use proxy::OriginHost;
use proxy::fuzzing::{Refusal, Reverse, Target, bare_host, host_and_port};

fn target(uri: &Uri, headers: &HeaderMap, reverse: Option<&Reverse>) -> Result<Target, Refusal> {
    let mut request = Request::new(());
    (*request.uri_mut(), *request.headers_mut()) = (uri.clone(), headers.clone());
    Target::of(&request.into_parts().0, reverse)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(uri) = Uri::try_from(input.line()) else { return };
    let headers = fields(input.rest());
    let hosts = headers.get_all(HOST).iter().count();
    let origin = Reverse { origin: Authority::from_static("origin:8"), host: OriginHost::Client };
    let forward = target(&uri, &headers, None);
    let reverse = target(&uri, &headers, Some(&origin));
    if hosts != 1 {
        assert!(forward.is_err() && reverse.is_err());
    }
    if let Ok(reverse) = reverse {
        assert_eq!((reverse.hop.as_str(), reverse.port()), ("origin:8", 8));
        assert!(host_and_port(reverse.host()).is_some_and(|(host, _)| !host.is_empty()));
    }
    let forward = match forward {
        Ok(target) => target,
        Err(refusal) => {
            assert!(refusal.status.is_client_error() || refusal.status.is_server_error());
            return assert_eq!(refusal.text.lines().count(), 1);
        }
    };
    assert_eq!(uri.scheme_str().map(str::to_ascii_lowercase).as_deref(), Some("http"));
    assert!(!forward.host().contains('@') && !bare_host(&forward.hop).is_empty());
    assert!(HeaderValue::try_from(forward.host()).is_ok());
    let written = forward.host().strip_prefix(forward.hop.host()).expect("host, then port");
    match written {
        "" | ":" => assert_eq!(forward.port(), 80),
        _ => {
            assert!(written[1..].bytes().all(|b| b.is_ascii_digit()), "a port that is no number");
            assert_eq!(written[1..].parse(), Ok(forward.port()), "another port than the URL's");
        }
    }
    let again: Uri = format!("http://{}{}", forward.hop, forward.path).parse().expect("a URI");
    let again = target(&again, &headers, None).expect("the same target");
    assert_eq!((again.hop, again.path.to_string()), (forward.hop, forward.path.to_string()));
});
