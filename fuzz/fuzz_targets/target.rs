//! Where a request goes: the first line is the URI, the others are fields. What a forward proxy takes is http, to a
//! host without user information, at the port that is written there, with one Host at most; written out it is the same
//! target again. A reverse proxy goes to its origin, whatever the URI says.
#![no_main]

use cosm_fuzz::{Input, fields};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Uri};
use libfuzzer_sys::fuzz_target;
use proxy::fuzzing::{Refusal, Target, bare_host};

fn target(uri: &Uri, headers: &HeaderMap, reverse: Option<&Authority>) -> Result<Target, Refusal> {
    let mut request = Request::new(());
    (*request.uri_mut(), *request.headers_mut()) = (uri.clone(), headers.clone());
    Target::of(&request.into_parts().0, reverse)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(uri) = Uri::try_from(input.line()) else { return };
    let headers = fields(input.rest());
    let hosts = headers.get_all(HOST).iter().count();
    let origin = Authority::from_static("origin:8");
    let forward = target(&uri, &headers, None);
    let reverse = target(&uri, &headers, Some(&origin));
    if hosts != 1 {
        assert!(forward.is_err() && reverse.is_err());
    }
    if let Ok(reverse) = reverse {
        assert_eq!((reverse.host(), reverse.port()), ("origin:8", 8));
    }
    let forward = match forward {
        Ok(target) => target,
        Err(refusal) => {
            assert!(refusal.status.is_client_error() || refusal.status.is_server_error());
            return assert_eq!(refusal.text.lines().count(), 1);
        }
    };
    assert_eq!(uri.scheme_str().map(str::to_ascii_lowercase).as_deref(), Some("http"));
    assert!(!forward.host().contains('@') && !bare_host(&forward.authority).is_empty());
    assert!(HeaderValue::try_from(forward.host()).is_ok());
    let written = forward.host().strip_prefix(forward.authority.host()).expect("host, then port");
    match written {
        "" | ":" => assert_eq!(forward.port(), 80),
        _ => {
            assert!(written[1..].bytes().all(|b| b.is_ascii_digit()), "a port that is no number");
            assert_eq!(written[1..].parse(), Ok(forward.port()), "another port than the URL's");
        }
    }
    let again: Uri = format!("http://{}{}", forward.authority, forward.path).parse().expect("a URI");
    let again = target(&again, &headers, None).expect("the same target");
    assert_eq!((again.authority, again.path.to_string()), (forward.authority, forward.path.to_string()));
});
