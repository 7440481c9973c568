//! Names to addresses, through a caching asynchronous resolver that follows the system's configuration.
//!
//! Address literals and `localhost` need no resolver; `/etc/hosts` is honoured.

use crate::authority::known;
use crate::message::refusal::Refusal;
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::rr::Name;
use http::StatusCode;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::time::Duration;

/// One worker's resolver, made when the first name needs it.
#[derive(Default)]
pub struct Resolver {
    system: OnceCell<Option<TokioResolver>>,
}

/// No address was found.
pub struct Unknown {
    pub refusal: Refusal,
    /// Whoever knows said that there is none.
    pub is_answered: bool,
}

impl Resolver {
    /// The addresses of a host, in the order in which to try them; never none.
    pub async fn lookup(&self, host: &str, limit: Duration) -> Result<Vec<IpAddr>, Unknown> {
        if let Some(known) = known(host) {
            return Ok(known.addresses().to_vec());
        }
        let Some(resolver) = self.system.get_or_init(system) else {
            return Err(failed(
                StatusCode::BAD_GATEWAY,
                host,
                "the resolver's configuration cannot be read",
                false,
            ));
        };
        let name = match name(host) {
            Ok(name) => name,
            Err(error) => return Err(failed(StatusCode::BAD_GATEWAY, host, &error.to_string(), true)),
        };
        match tokio::time::timeout(limit, resolver.lookup_ip(name)).await {
            Ok(Ok(found)) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() {
                    return Err(failed(StatusCode::BAD_GATEWAY, host, "it has no address", true));
                }
                Ok(addresses)
            }
            Ok(Err(error)) => {
                let is_answered = error.is_nx_domain() || error.is_no_records_found();
                Err(failed(StatusCode::BAD_GATEWAY, host, &error.to_string(), is_answered))
            }
            Err(_) => {
                let why = format!("no answer within {limit:?}");
                Err(failed(StatusCode::GATEWAY_TIMEOUT, host, &why, false))
            }
        }
    }
}

/// URLs have names in ASCII, those of other scripts encoded; as it stands such a name may hold `_`, as of hosts in many an
/// intranet.
fn name(host: &str) -> Result<Name, ProtoError> {
    Name::from_ascii(host)
}

fn system() -> Option<TokioResolver> {
    TokioResolver::builder_tokio().ok()?.build().ok()
}

fn failed(status: StatusCode, host: &str, why: &str, is_answered: bool) -> Unknown {
    tracing::warn!(target: "origin", host, cause = why, "cannot look up a name");
    Unknown { refusal: Refusal::new(status, "the name cannot be looked up"), is_answered }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts() {
        for host in ["example.com", "example.com.", "a_b.example.com", "_a", "a-b"] {
            assert!(name(host).is_ok(), "{host}");
        }
        let long = "a".repeat(64);
        for host in ["a..b", long.as_str(), "a b"] {
            assert!(name(host).is_err(), "{host}");
        }
    }
}
