//! Where sockets are.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// An address and port of TCP, or the path of a Unix socket: `127.0.0.1:3128`, `unix:/run/cosm.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(UnixPath),
}

/// The path of a Unix socket: absolute, without `:`, and of at most `UnixPath::MAX` bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnixPath(Arc<Path>);

impl Address {
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// Each listener on it has an address of its own: port 0 takes a free one.
    pub fn is_any_port(&self) -> bool {
        self.tcp().is_some_and(|address| address.port() == 0)
    }
}

impl UnixPath {
    /// What stands before a path where an address could stand too.
    pub const PREFIX: &str = "unix:";

    /// Bytes of `sun_path` (unix(7)) but for the one that ends it.
    const MAX: usize = 107;

    /// The same in memory of its own.
    pub fn copied(&self) -> UnixPath {
        UnixPath(self.as_ref().into())
    }
}

impl AsRef<Path> for UnixPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.strip_prefix(UnixPath::PREFIX) {
            Some(path) => path.parse().map(Address::Unix),
            None => text.parse().map(Address::Tcp).map_err(|_| {
                format!("`{text}` is not an address with a port, like 127.0.0.1:3128, or unix:/PATH")
            }),
        }
    }
}

impl FromStr for UnixPath {
    type Err = String;

    /// The path alone. Where `:` may end a path (`http://unix:/PATH:/`), it cannot be in one.
    fn from_str(path: &str) -> Result<UnixPath, String> {
        let why = if !path.starts_with('/') {
            "is not absolute: write unix:/PATH".to_owned()
        } else if path.ends_with('/') || path.contains([':', '\0']) {
            "is no path of a socket: write unix:/PATH, without `:`".to_owned()
        } else if path.len() > UnixPath::MAX {
            format!("has {} bytes: the path of a Unix socket has {} at most", path.len(), UnixPath::MAX)
        } else {
            return Ok(UnixPath(Path::new(path).into()));
        };
        Err(format!("`{}{path}` {why}", UnixPath::PREFIX))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.fmt(f),
        }
    }
}

impl fmt::Display for UnixPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", UnixPath::PREFIX, self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_tcp_or_paths() {
        let longest = format!("unix:/{}", "a".repeat(UnixPath::MAX - 1));
        for text in ["127.0.0.1:80", "[::1]:0", "unix:/run/cosm.sock", "unix:/a", &longest] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.tcp().is_none(), text.starts_with("unix:"), "{text}");
        }
        let long = format!("{longest}a");
        for (text, says) in [
            ("127.0.0.1", "is not an address with a port"),
            ("unix", "is not an address"),
            ("unix:", "is not absolute: write unix:/PATH"),
            ("unix:run/cosm.sock", "is not absolute"),
            ("unix:@abstract", "is not absolute"),
            ("unix:/run/", "is no path of a socket"),
            ("unix:/run/a:b", "without `:`"),
            ("unix:/a\0", "is no path"),
            (&long, "has 108 bytes"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(says) && error.contains(&format!("`{text}`")), "{error}");
        }
        assert!("127.0.0.1:0".parse::<Address>().unwrap().is_any_port());
        assert!(!"unix:/a".parse::<Address>().unwrap().is_any_port());
    }
}
