//! Names to addresses, through a caching asynchronous resolver that follows the system's configuration.
//!
//! Address literals and `localhost` need no resolver; `/etc/hosts` is honoured.

use crate::respond::Refusal;
use hickory_resolver::TokioResolver;
use http::StatusCode;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// One worker's resolver, made when the first name needs it.
#[derive(Default)]
pub struct Resolver {
    system: OnceCell<Option<TokioResolver>>,
}

impl Resolver {
    /// The addresses of a host, in the order in which to try them; never none.
    pub async fn lookup(&self, host: &str, limit: Duration) -> Result<Vec<IpAddr>, Refusal> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        if is_localhost(host) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let Some(resolver) = self.system.get_or_init(system) else {
            return Err(failed(host, "the system's resolver configuration cannot be read"));
        };
        match tokio::time::timeout(limit, resolver.lookup_ip(host)).await {
            Ok(Ok(found)) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() { Err(failed(host, "it has no address")) } else { Ok(addresses) }
            }
            Ok(Err(error)) => Err(failed(host, &error.to_string())),
            Err(_) => {
                let text = format!("looking up `{host}` took longer than {limit:?}");
                Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, text))
            }
        }
    }
}

fn system() -> Option<TokioResolver> {
    TokioResolver::builder_tokio().ok()?.build().ok()
}

/// RFC 6761 section 6.3.
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn failed(host: &str, why: &str) -> Refusal {
    Refusal::new(
        StatusCode::BAD_GATEWAY,
        format!("cannot look up `{host}`: {}", why.replace(['\r', '\n'], " ")),
    )
}
