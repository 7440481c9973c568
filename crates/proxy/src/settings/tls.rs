//! What is spoken of TLS, with clients.

use crate::tls::{Certificates, LeastVersion, OriginTls, Roots, Terms, TicketKeys};
use http::HeaderValue;
use std::sync::Arc;

/// Of listeners that speak TLS, and of what their clients are told.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Listeners that speak TLS need some.
    pub certificates: Option<Arc<Certificates>>,
    pub least: LeastVersion,
    /// Issuers of the certificates that clients have to have; `None`: they need none.
    pub client_roots: Option<Roots>,
    /// By which sessions are gone on with.
    pub tickets: TicketKeys,
    /// The port that redirects name; `None`: that of the first listener that speaks TLS.
    pub redirect_port: Option<u16>,
    /// Strict-Transport-Security (RFC 6797) of responses over TLS that have none.
    pub hsts: Option<HeaderValue>,
    /// Certificates that are ordered, if any. `certificates` has their files.
    pub acme: acme::Settings,
    /// By which an ACME server is believed.
    pub acme_server: OriginTls,
}

impl Tls {
    /// What a listener goes by; `None` without a certificate. With `http2`, that is offered.
    pub fn terms(&self, http2: bool) -> Option<Terms> {
        Some(Terms {
            certificates: self.certificates.clone()?,
            least: self.least,
            client_roots: self.client_roots.clone(),
            http2,
        })
    }
}
