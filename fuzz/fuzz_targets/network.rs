//! Networks and the origin of a reverse proxy, as settings write them. Written out they read back; a network holds its
//! own address and nothing of the other family; refusals are one line.
#![no_main]

use http::uri::Authority;
use libfuzzer_sys::fuzz_target;
use proxy::{Network, Origin};
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
        assert_eq!(origin.scheme, "http");
        let authority: Authority = origin.authority.parse().expect("it was one");
        let port = origin.authority.strip_prefix(authority.host()).expect("host, then port");
        assert!(matches!(port, "" | ":") || port[1..].parse() == Ok(authority.port_u16().unwrap_or(80)));
        assert!(!origin.authority.is_empty() && !origin.authority.contains(['@', '/', '?', '#']));
        assert_eq!(format!("http://{}", origin.authority).parse(), Ok(origin));
    }
});
