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

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
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
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    PROVIDER.clone()
}
