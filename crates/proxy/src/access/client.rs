//! Who a client is, by where it comes from.

use crate::access::reach::Zone;
use crate::scheme::Scheme;
use crate::settings::{Network, Settings};
use crate::transport::{Peer, Speaks};
use http::HeaderValue;
use std::net::IpAddr;

/// What is known of a client before it asks.
#[derive(Clone, Debug)]
pub struct Client {
    /// IPv4 as such, also where it came over a socket of both families.
    pub peer: Peer,
    /// By which it asks.
    pub scheme: Scheme,
    /// As its origins are forwarded_as.
    pub forwarded_as: ForwardedAs,
    pub admission: Admission,
    /// It may purge by the method PURGE.
    pub purges: bool,
    /// It is a proxy whose word on whom a request comes from is believed.
    pub trusted: bool,
    pub zone: Zone,
}

/// What becomes of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Served,
    /// Its network is not served.
    Stranger,
    /// It is sent to `https`.
    Redirected,
    /// It is served past the cache: another process has that by now.
    Passed,
}

impl Client {
    /// Who may not take more of the memory for bodies than its share. Behind a proxy in front, which is trusted or on this
    /// host's socket, there are many clients.
    pub fn charged(&self) -> Option<IpAddr> {
        self.peer.address().filter(|_| !self.trusted)
    }

    pub fn of(peer: Peer, speaks: Speaks, settings: &Settings) -> Client {
        let (scheme, admitted) = match speaks {
            Speaks::Http => (Scheme::Http, Admission::Served),
            Speaks::Tls => (Scheme::Https, Admission::Served),
            Speaks::Redirect => (Scheme::Http, Admission::Redirected),
        };
        let address = match peer {
            Peer::Ip(address) => address.to_canonical(),
            // Who may open the socket's file is the operator's to say, and is on this host.
            Peer::Unix => {
                let (forwarded_as, zone) = (ForwardedAs::of(None, scheme), Zone::Loopback);
                return Client {
                    peer,
                    scheme,
                    forwarded_as,
                    admission: admitted,
                    purges: false,
                    trusted: settings.trust_unix,
                    zone,
                };
            }
        };
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        Client {
            peer: Peer::Ip(address),
            scheme,
            forwarded_as: ForwardedAs::of(Some(address), scheme),
            admission: if is_in(&settings.clients) { admitted } else { Admission::Stranger },
            purges: is_in(&settings.purge_from),
            trusted: is_in(&settings.trust),
            zone: Zone::of(address),
        }
    }
}

/// A client as both kinds of fields have it.
#[derive(Clone, Debug)]
pub struct ForwardedAs {
    /// For Forwarded.
    pub standard: HeaderValue,
    /// For X-Forwarded-For, which has addresses alone.
    pub usual: Option<HeaderValue>,
}

impl ForwardedAs {
    /// One without an address is `unknown` (RFC 7239 section 6.2).
    pub fn of(address: Option<IpAddr>, scheme: Scheme) -> ForwardedAs {
        const UNKNOWN: &str = "unknown";
        // RFC 7239 section 4: what is no token is quoted.
        let node = match address {
            None => UNKNOWN.to_owned(),
            Some(IpAddr::V4(address)) => address.to_string(),
            Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
        };
        let standard = HeaderValue::try_from(format!("for={node};proto={}", scheme.as_str()));
        ForwardedAs {
            standard: standard.unwrap_or(HeaderValue::from_static(UNKNOWN)),
            usual: address.and_then(|address| HeaderValue::try_from(address.to_string()).ok()),
        }
    }
}
