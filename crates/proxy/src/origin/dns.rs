//! Names to addresses, through a caching asynchronous resolver that follows the system's configuration.
//!
//! Address literals and `localhost` need no resolver; `/etc/hosts` is honoured.

use crate::authority::known;
use crate::console::{Trouble, tell};
use crate::message::refusal::Refusal;
use hickory_resolver::TokioResolver;
use http::StatusCode;
use std::cell::OnceCell;
use std::net::IpAddr;
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

fn system() -> Option<TokioResolver> {
    TokioResolver::builder_tokio().ok()?.build().ok()
}

fn failed(status: StatusCode, host: &str, why: &str) -> Refusal {
    tell(Trouble::Lookup, format_args!("cannot look up `{host}`: {why}"));
    Refusal::new(status, "the name cannot be looked up")
}
