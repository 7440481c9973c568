//! Where one listens, and what is spoken there.

use super::Address;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// An address to accept clients on: `127.0.0.1:3128`, `tls:0.0.0.0:443`, `redirect:0.0.0.0:80`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    pub address: Address,
    pub speaks: Speaks,
}

/// What is spoken on a listener's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Speaks {
    #[default]
    Http,
    /// HTTP over TLS.
    Tls,
    /// HTTP, and each answer is a redirect to the same URL with `https`.
    Redirect,
}

impl Speaks {
    const ALL: [(Speaks, &str); 2] = [(Speaks::Tls, "tls:"), (Speaks::Redirect, "redirect:")];

    /// What stands before an address; nothing with plain HTTP.
    pub fn prefix(self) -> &'static str {
        Speaks::ALL.iter().find(|(speaks, _)| *speaks == self).map_or("", |(_, prefix)| prefix)
    }

    /// What a text says before the address, and the rest.
    pub fn split(text: &str) -> (Speaks, &str) {
        let found =
            Speaks::ALL.iter().find_map(|(speaks, prefix)| Some((*speaks, text.strip_prefix(prefix)?)));
        found.unwrap_or((Speaks::Http, text))
    }
}

impl From<Address> for Listen {
    fn from(address: Address) -> Listen {
        Listen { address, speaks: Speaks::Http }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Address::from(address).into()
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (speaks, address) = Speaks::split(text);
        Ok(Listen { address: address.parse()?, speaks })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.speaks.prefix(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken_stands_before_the_address() {
        for (text, speaks) in [
            ("127.0.0.1:80", Speaks::Http),
            ("unix:/run/a", Speaks::Http),
            ("tls:[::]:443", Speaks::Tls),
            ("tls:unix:/run/a", Speaks::Tls),
            ("redirect:0.0.0.0:80", Speaks::Redirect),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.speaks, listen.to_string().as_str()), (speaks, text));
        }
        for wrong in ["tls:", "tls:443", "tls:tls:[::]:443", "ssl:[::]:443"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
