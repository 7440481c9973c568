//! Who a client is, by its address.

use crate::access::reach::Zone;
use crate::message::target::SCHEME;
use crate::settings::{Network, Settings};
use http::HeaderValue;
use std::net::IpAddr;

/// What a client's address says of it.
#[derive(Clone, Debug)]
pub struct Client {
    /// IPv4 as such, also where it came over a socket of both families.
    pub address: IpAddr,
    /// As its origins are told.
    pub told: Address,
    /// Its network is served.
    pub served: bool,
    /// It is a proxy whose word on whom a request comes from is believed.
    pub trusted: bool,
    pub zone: Zone,
}

impl Client {
    pub fn of(address: IpAddr, settings: &Settings) -> Client {
        let address = address.to_canonical();
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        Client {
            address,
            told: Address::of(address),
            served: is_in(&settings.clients),
            trusted: is_in(&settings.trust),
            zone: Zone::of(address),
        }
    }
}

/// A client's address as both kinds of fields have it.
#[derive(Clone, Debug)]
pub struct Address {
    /// For Forwarded.
    pub standard: HeaderValue,
    /// For X-Forwarded-For.
    pub usual: HeaderValue,
}

impl Address {
    pub fn of(address: IpAddr) -> Address {
        let usual = address.to_string();
        // RFC 7239 section 4: what is no token is quoted.
        let quoted = if address.is_ipv4() { usual.clone() } else { format!("\"[{usual}]\"") };
        let value = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"));
        Address { standard: value(format!("for={quoted};proto={SCHEME}")), usual: value(usual) }
    }
}
