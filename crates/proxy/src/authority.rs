//! Hosts as requests and settings name them, and those whose addresses everybody knows.

use http::uri::Authority;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::slice;

/// The two parts of `host`, `host:` or `host:port`; `None` for what is anything else or more, as user information, no
/// host, or no such port. An IPv6 address keeps its brackets.
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, _) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            text.split_at(address.len() + 2)
        }
        None => {
            let end = text.bytes().position(|byte| !IN_NAME[usize::from(byte)]).unwrap_or(text.len());
            (end > 0).then(|| text.split_at(end))?
        }
    };
    match (rest, rest.strip_prefix(':')) {
        ("", _) | (_, Some("")) => Some((host, None)),
        (_, Some(port)) if port.bytes().all(|b| b.is_ascii_digit()) => Some((host, Some(port.parse().ok()?))),
        _ => None,
    }
}

/// The host of an authority as a resolver takes it: without the brackets of an IPv6 address.
pub fn bare_host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

/// A host whose addresses everybody knows.
pub enum Known {
    Address(IpAddr),
    Localhost,
}

/// What needs no resolver. Costs little for other names: it is asked at every request.
pub fn known(host: &str) -> Option<Known> {
    match host.parse() {
        Ok(address) => Some(Known::Address(address)),
        Err(_) => is_localhost(host).then_some(Known::Localhost),
    }
}

impl Known {
    pub fn addresses(&self) -> &[IpAddr] {
        const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match self {
            Known::Address(address) => slice::from_ref(address),
            Known::Localhost => &LOCALHOST,
        }
    }
}

/// RFC 6761 section 6.3.
fn is_localhost(host: &str) -> bool {
    const NAME: &[u8] = b"localhost";
    let host = host.trim_end_matches('.').as_bytes();
    let Some((before, name)) = host.split_at_checked(host.len().wrapping_sub(NAME.len())) else {
        return false;
    };
    name.eq_ignore_ascii_case(NAME) && matches!(before.last(), None | Some(b'.'))
}

/// The bytes that a name or an IPv4 address may have (RFC 3986 section 3.2.2); no comma, which would make a list.
static IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"-._~!$&'()*+;=%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_and_what_lies_below_it() {
        for name in ["localhost", "LOCALHOST.", "a.localhost", "a.b.Localhost"] {
            assert!(is_localhost(name), "{name}");
        }
        for name in ["", ".", "a", "localhos", "notlocalhost", "localhost.a", "xlocalhost.a"] {
            assert!(!is_localhost(name), "{name}");
        }
    }
}
