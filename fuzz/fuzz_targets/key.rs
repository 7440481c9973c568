//! The cache key of a URI that the proxy would take: read as a URI again it is the same key; a fragment, an explicit
//! default port and the case of scheme and host make no difference; path and query are kept to the byte.
#![no_main]

use cache::key::primary;
use http::Uri;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(uri) = text.parse::<Uri>() else { return };
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return;
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let (host, port) = (authority.host(), authority.port_u16());
    // No host, user information, or a port that is no number: the proxy refuses those.
    let plain = port.map_or(host.len(), |port| host.len() + 1 + port.to_string().len());
    if host.is_empty() || authority.as_str().len() != plain {
        return;
    }
    let key = primary(scheme, authority.as_str(), path);
    assert!(key.ends_with(path.as_bytes()));
    let whole_path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    assert_eq!(primary(&scheme.to_uppercase(), &authority.as_str().to_uppercase(), path), key);
    assert_eq!(primary(scheme, authority.as_str(), &format!("{path}#f")), key);

    let default = if scheme == "https" { 443 } else { 80 };
    let spelled = format!("{host}:{}", port.unwrap_or(default));
    assert_eq!(primary(scheme, &spelled, path), key);
    assert_eq!(primary(scheme, host, path) == key, port.unwrap_or(default) == default);

    let again = std::str::from_utf8(&key).ok().and_then(|key| key.strip_prefix("GET ")).expect("GET");
    let again: Uri = again.parse().expect("a URI");
    let authority = again.authority().expect("an authority").as_str();
    assert_eq!(again.path_and_query().map_or("", |path| path.as_str()), whole_path);
    assert_eq!(primary(again.scheme_str().expect("a scheme"), authority, path), key);
});
