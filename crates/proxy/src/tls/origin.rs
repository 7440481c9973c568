//! TLS with origins: whom this proxy believes, and how it says what is wrong with an origin's certificate.

use super::{KeyFiles, LeastVersion, Roots, protocols, provider};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, Error, OtherError, RootCertStore};
use std::io;
use std::sync::{Arc, OnceLock};

/// Sessions with origins that are remembered, of all workers.
const SESSIONS: usize = 1024;

/// What this proxy wants of origins, and has for them.
#[derive(Clone, Debug, Default)]
pub struct OriginTls {
    /// Issuers that are believed; `None`: those of this system.
    pub roots: Option<Roots>,
    /// The certificate for origins that want one.
    pub own: Option<KeyFiles>,
    pub least: LeastVersion,
    /// The name that is asked for, and that the origin of a reverse proxy has to prove; `None`: its host.
    pub name: Option<ServerName<'static>>,
    /// Made when it is needed first: reading the system's issuers takes milliseconds. What failed is tried again.
    made: Arc<OnceLock<Configs>>,
}

/// What handshakes go by where HTTP/1.1 alone is spoken, and where HTTP/2 is offered. Sessions of one are gone on with by the other.
#[derive(Clone, Debug)]
struct Configs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl OriginTls {
    /// With `http2`, that is offered too.
    ///
    /// # Errors
    /// One line.
    pub fn config(&self, http2: bool) -> Result<Arc<ClientConfig>, String> {
        let made = match self.made.get() {
            Some(made) => made,
            None => {
                let made = self.make()?;
                self.made.get_or_init(|| made)
            }
        };
        Ok(if http2 { &made.http2 } else { &made.http1 }.clone())
    }

    /// Whether what was agreed on by these was agreed on by the others, too.
    pub fn is_same(&self, other: &OriginTls) -> bool {
        Arc::ptr_eq(&self.made, &other.made)
    }

    fn make(&self) -> Result<Configs, String> {
        let roots = match &self.roots {
            Some(roots) => roots.store.clone(),
            None => of_system()?.into(),
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(self.least.versions())
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let own = files.load()?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
        };
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        // HTTP/1.1 alone needs no word: some origins refuse whoever offers it.
        config.alpn_protocols = Vec::new();
        let mut http2 = config.clone();
        http2.alpn_protocols = protocols(true);
        Ok(Configs { http1: config.into(), http2: http2.into() })
    }
}

fn of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    match (store.is_empty(), found.errors.first()) {
        (false, _) => Ok(store),
        (true, None) => Err(
            "this system has no certificates of issuers: install ca-certificates, or name some (origin-ca)"
                .into(),
        ),
        (true, Some(error)) => Err(format!("the system's certificates of issuers cannot be read: {error}")),
    }
}

/// Why there is no TLS with an origin, in words that tell nothing of where it is.
pub fn why(error: &io::Error) -> &'static str {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(error) = inner else { return "the origin broke off the TLS handshake" };
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the origin's certificate is not accepted: it has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the origin's certificate is not accepted: it is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the origin's certificate is not accepted: it is for another name"
            }
            CertificateError::UnknownIssuer => {
                "the origin's certificate is not accepted: its issuer is unknown"
            }
            CertificateError::BadSignature => {
                "the origin's certificate is not accepted: its signature is not that of the issuer"
            }
            CertificateError::Revoked => "the origin's certificate is not accepted: it was revoked",
            CertificateError::Other(OtherError(other)) => match other.downcast_ref() {
                Some(webpki::Error::CaUsedAsEndEntity) => {
                    "the origin's certificate is not accepted: it is that of an issuer (CA:TRUE)"
                }
                Some(webpki::Error::UnsupportedCertVersion) => {
                    "the origin's certificate is not accepted: it is not of X.509 version 3"
                }
                _ => "the origin's certificate is not accepted",
            },
            _ => "the origin's certificate is not accepted",
        },
        Error::InvalidMessage(_) => "the origin does not speak TLS on this port",
        Error::AlertReceived(_) | Error::PeerIncompatible(_) => {
            "the origin and this proxy do not agree on how to speak TLS"
        }
        _ => "TLS with the origin failed",
    }
}
