//! Networks, addresses, and the origin of a reverse proxy, as settings write them. Written out they read back; a network holds its
//! own address and nothing of the other family; refusals are one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proxy::{Address, Hop, Network, Origin};
use std::net::IpAddr;

fuzz_target!(|text: &str| {
    match text.parse::<Network>() {
        Ok(network) => {
            assert_eq!(network.to_string().parse(), Ok(network));
            let address: IpAddr = text.split('/').next().unwrap_or("").parse().expect("it was one");
            let others: IpAddr = if address.is_ipv4() { "::1" } else { "127.0.0.1" }.parse().expect("one");
            assert!(!network.contains(others));
            // An IPv4 client comes as such, also over a socket of both families.
            assert_eq!(network.contains(address), address == address.to_canonical());
            let alone =
                Network::new(address, if address.is_ipv4() { 32 } else { 128 }).expect("its own width");
            assert!(!alone.contains(address) || network.contains(address));
        }
        Err(why) => assert!(why.starts_with(&format!("`{text}`"))),
    }
    if let Ok(origin) = text.parse::<Origin>() {
        match &origin.hop {
            Hop::Host(host) => {
                let (authority, port) = (&host.authority, host.port);
                let written = authority.as_str().strip_prefix(authority.host()).expect("host, then port");
                match written {
                    "" | ":" => assert_eq!(port, origin.scheme.default_port()),
                    _ => assert_eq!(written[1..].parse(), Ok(port)),
                }
                let authority = authority.as_str();
                assert!(!authority.is_empty() && !authority.contains(['@', '/', '?', '#']));
            }
            Hop::Unix(path) => assert!(path.as_ref().is_absolute()),
        }
        assert_eq!(origin.to_string().parse(), Ok(origin));
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
});
