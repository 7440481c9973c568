//! TLS: certificates and keys as files have them, and what is made of them for handshakes. Sockets are `transport`'s.
//!
//! What always holds: a private key is in no message and in no `Debug`, and what is read anew takes the place of what was there only
//! when all of it is right.

mod certificates;
mod listener;
mod origin;
mod tickets;

pub use certificates::{Certificates, KeyFiles, NamedLife, Roots};
pub use listener::{Acceptor, Terms};
pub use origin::{OriginTls, why};
pub use tickets::{TicketKeys, Tickets};

use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::{Arc, LazyLock};

/// The oldest version that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeastVersion {
    #[default]
    Tls12,
    Tls13,
}

impl LeastVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            LeastVersion::Tls12 => &ALL,
            LeastVersion::Tls13 => &ALL[..1],
        }
    }
}

/// What is spoken over TLS (RFC 7301), the best first.
fn protocols(http2: bool) -> Vec<Vec<u8>> {
    let all: [&[u8]; 2] = [b"h2", b"http/1.1"];
    all.into_iter().skip(usize::from(!http2)).map(<[u8]>::to_vec).collect()
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let cipher_suites = suites(has_wide_aes());
        Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
    });
    PROVIDER.clone()
}

/// Those of aws-lc; AES-GCM is ring's where the processor has `wide` instructions for it. Why: docs/decisions.md.
fn suites(wide: bool) -> Vec<SupportedCipherSuite> {
    let of_ring = |suite: &SupportedCipherSuite| {
        let is_aes = suite.suite().as_str().is_some_and(|name| name.contains("AES"));
        ring::ALL_CIPHER_SUITES.iter().find(|other| wide && is_aes && other.suite() == suite.suite())
    };
    aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().map(|suite| *of_ring(suite).unwrap_or(suite)).collect()
}

/// Whether the processor encrypts two blocks at a time (VAES), but not four, for which aws-lc has code too.
fn has_wide_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
        && !is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_computes_them_the_suites_are_the_same() {
        let names =
            |suites: Vec<SupportedCipherSuite>| suites.iter().map(|suite| suite.suite()).collect::<Vec<_>>();
        assert_eq!(names(suites(true)), names(suites(false)));
        let is_same = |(one, other): &(SupportedCipherSuite, SupportedCipherSuite)| match (one, other) {
            (SupportedCipherSuite::Tls12(one), SupportedCipherSuite::Tls12(other)) => {
                std::ptr::eq(*one, *other)
            }
            (SupportedCipherSuite::Tls13(one), SupportedCipherSuite::Tls13(other)) => {
                std::ptr::eq(*one, *other)
            }
            _ => false,
        };
        let same = suites(true).into_iter().zip(suites(false)).filter(is_same).count();
        assert_eq!(same, 3, "only ChaCha20 stays");
    }
}
