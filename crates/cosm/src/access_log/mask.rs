//! What of a request shall not be known from the log.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Of addresses the last byte (IPv4) or the last ten (IPv6) are 0.
    pub clients: bool,
    /// Queries are left out, up to the `?`.
    pub queries: bool,
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Mask, String> {
        let mut mask = Mask::default();
        for what in text.split(',') {
            match what {
                "clients" => mask.clients = true,
                "queries" => mask.queries = true,
                other => return Err(format!("`{other}` is neither clients nor queries")),
            }
        }
        Ok(mask)
    }
}

impl Mask {
    pub fn address(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            ip if !self.clients => ip,
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Ipv4Addr::new(a, b, c, 0).into()
            }
            IpAddr::V6(ip) => {
                let [a, b, c, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
            }
        }
    }

    pub fn query(self, path: &str) -> Cow<'_, str> {
        match path.split_once('?') {
            Some((path, _)) if self.queries => format!("{path}?...").into(),
            _ => path.into(),
        }
    }

    /// The same of a URL in a header field.
    pub fn query_of_field(self, value: &[u8]) -> Cow<'_, [u8]> {
        match value.iter().position(|byte| *byte == b'?') {
            Some(at) if self.queries => [&value[..at], b"?..."].concat().into(),
            _ => value.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_masked_is_not_there() {
        let (all, none) = (Mask { clients: true, queries: true }, Mask::default());
        let masked = |mask: Mask, text: &str| mask.address(text.parse().unwrap()).to_string();
        assert_eq!(masked(all, "192.0.2.77"), "192.0.2.0");
        assert_eq!(masked(all, "::ffff:192.0.2.77"), "192.0.2.0");
        assert_eq!(masked(all, "2001:db8:1:2:3:4:5:6"), "2001:db8:1::");
        assert_eq!(masked(none, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2:3:4:5:6");
        assert_eq!((all.query("/a?secret"), none.query("/a?b")), ("/a?...".into(), "/a?b".into()));
        assert_eq!(all.query("/a"), "/a");
    }
}
