//! Names to addresses, through a caching asynchronous resolver that follows the system's configuration.
//!
//! Address literals and `localhost` need no resolver; `/etc/hosts` is honoured.

use crate::respond::Refusal;
use crate::trouble::{Trouble, tell};
use hickory_resolver::TokioResolver;
use http::StatusCode;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::slice;
use std::time::Duration;

/// One worker's resolver, made when the first name needs it.
#[derive(Default)]
pub struct Resolver {
    system: OnceCell<Option<TokioResolver>>,
}

impl Resolver {
    /// The addresses of a host, in the order in which to try them; never none.
    pub async fn lookup(&self, host: &str, limit: Duration) -> Result<Vec<IpAddr>, Refusal> {
        if let Some(known) = known(host) {
            return Ok(known.addresses().to_vec());
        }
        let Some(resolver) = self.system.get_or_init(system) else {
            return Err(failed(StatusCode::BAD_GATEWAY, host, "the resolver's configuration cannot be read"));
        };
        match tokio::time::timeout(limit, resolver.lookup_ip(host)).await {
            Ok(Ok(found)) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() {
                    return Err(failed(StatusCode::BAD_GATEWAY, host, "it has no address"));
                }
                Ok(addresses)
            }
            Ok(Err(error)) => Err(failed(StatusCode::BAD_GATEWAY, host, &error.to_string())),
            Err(_) => Err(failed(StatusCode::GATEWAY_TIMEOUT, host, &format!("no answer within {limit:?}"))),
        }
    }
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

fn system() -> Option<TokioResolver> {
    TokioResolver::builder_tokio().ok()?.build().ok()
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

fn failed(status: StatusCode, host: &str, why: &str) -> Refusal {
    tell(Trouble::Lookup, format_args!("cannot look up `{host}`: {why}"));
    Refusal::new(status, "the name cannot be looked up")
}

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
