//! The next server on a request's way.

use super::UnixPath;
use crate::scheme::Scheme;
use http::uri::Authority;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Where one connects to by a host. It is found in a pool at every fetch, so what that takes is known beforehand.
#[derive(Clone, Debug)]
pub struct Host {
    pub authority: Authority,
    pub port: u16,
    /// Bytes of the authority that are the host.
    length: usize,
}

/// Where one connects to. What is asked for there is another matter (`message::target`).
#[derive(Clone, Debug)]
pub enum Hop {
    /// A name, which is looked up, or an address.
    Host(Host),
    Unix(UnixPath),
}

impl Hop {
    /// What an authority names; where it names no port, that is the scheme's.
    pub fn host(authority: Authority, scheme: Scheme) -> Hop {
        let port = authority.port_u16().unwrap_or(scheme.default_port());
        Hop::at_port(authority, port)
    }

    /// The same at another port, maybe. The authority has no user information.
    pub fn at_port(authority: Authority, port: u16) -> Hop {
        let length = authority.host().len();
        Hop::Host(Host { authority, port, length })
    }

    /// The same in memory of its own: it keeps no buffer, and cloning it writes no counter that another thread writes.
    pub fn copied(&self) -> Hop {
        let copy = |text: &str| text.parse::<Authority>().ok();
        match self {
            Hop::Host(host) => Hop::Host(Host {
                authority: copy(host.authority.as_str()).unwrap_or_else(|| host.authority.clone()),
                ..*host
            }),
            Hop::Unix(path) => Hop::Unix(path.copied()),
        }
    }
}

impl Host {
    fn name(&self) -> &[u8] {
        &self.authority.as_str().as_bytes()[..self.length]
    }

    /// Nearly always it is written alike.
    fn is_named_as(&self, other: &Host) -> bool {
        let (a, b) = (self.name(), other.name());
        a == b || a.eq_ignore_ascii_case(b)
    }
}

/// Names differ in more than case, and ports in more than how they are written.
impl PartialEq for Hop {
    fn eq(&self, other: &Hop) -> bool {
        match (self, other) {
            (Hop::Host(a), Hop::Host(b)) => a.port == b.port && a.is_named_as(b),
            (Hop::Unix(a), Hop::Unix(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Hop {}

impl Hash for Hop {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Hop::Host(host) => {
                // In few pieces: each costs the hasher as much as its bytes.
                let mut lower = [0; 64];
                for bytes in host.name().chunks(lower.len()) {
                    let lower = &mut lower[..bytes.len()];
                    lower.copy_from_slice(bytes);
                    lower.make_ascii_lowercase();
                    state.write(lower);
                }
                host.port.hash(state);
            }
            Hop::Unix(path) => path.hash(state),
        }
    }
}

/// As it was written: `host`, `host:port` or `unix:/path`.
impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hop::Host(host) => host.authority.fmt(f),
            Hop::Unix(path) => path.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn hops_are_the_same_where_one_connects_to_the_same() {
        let host = |text: &'static str| Hop::host(Authority::from_static(text), Scheme::Http);
        let unix = |path: &str| Hop::Unix(path.parse().unwrap());
        let same =
            [(host("a"), host("A:80")), (host("a:"), host("a:80")), (host("[::1]:8"), host("[::1]:8"))];
        let hasher = RandomState::new();
        for (one, other) in same.into_iter().chain([(unix("/a"), unix("/a"))]) {
            assert_eq!(one, other);
            assert_eq!(hasher.hash_one(&one), hasher.hash_one(&other));
            assert_eq!(one.copied(), one);
        }
        let different = [(host("a"), host("b")), (host("a"), host("a:81")), (unix("/a"), unix("/b"))];
        assert!(different.iter().all(|(one, other)| one != other));
        assert_ne!(unix("/a"), host("a"));
        let bytes = |hop: &Hop| match hop {
            Hop::Host(host) => host.authority.as_str().as_ptr(),
            Hop::Unix(path) => path.as_ref().as_os_str().as_encoded_bytes().as_ptr(),
        };
        for hop in [host("a"), unix("/a")] {
            assert!(bytes(&hop) == bytes(&hop.clone()) && bytes(&hop) != bytes(&hop.copied()));
        }
    }
}
