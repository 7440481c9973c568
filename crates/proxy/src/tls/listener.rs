//! What clients' handshakes go by. A reload, and whoever looks after the files, replaces it while handshakes go on.

use super::tickets::Sealer;
use super::{Certificates, LeastVersion, Roots, Tickets, protocols, provider};
use rustls::ServerConfig;
use rustls::server::{
    NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier,
};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// What a listener offers and wants.
#[derive(Clone, Debug)]
pub struct Terms {
    pub certificates: Arc<Certificates>,
    pub least: LeastVersion,
    /// Clients prove who they are by a certificate of one of these issuers.
    pub client_roots: Option<Roots>,
    /// HTTP/2 is offered.
    pub http2: bool,
}

/// The terms in force.
pub struct Acceptor {
    config: RwLock<Arc<ServerConfig>>,
    pub tickets: Option<Arc<Tickets>>,
}

impl Acceptor {
    /// # Errors
    /// One line.
    pub fn new(terms: &Terms, tickets: Option<Arc<Tickets>>) -> Result<Acceptor, String> {
        let config = RwLock::new(terms.config(tickets.as_ref())?);
        Ok(Acceptor { config, tickets })
    }

    /// For handshakes that begin from now on.
    pub fn replace(&self, terms: &Terms) -> Result<(), String> {
        let config = terms.config(self.tickets.as_ref())?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub fn get(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

impl Terms {
    fn config(&self, tickets: Option<&Arc<Tickets>>) -> Result<Arc<ServerConfig>, String> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(self.least.versions())
            .map_err(|error| error.to_string())?;
        let verifier: Arc<dyn ClientCertVerifier> = match &self.client_roots {
            None => Arc::new(NoClientAuth),
            Some(roots) => WebPkiClientVerifier::builder_with_provider(roots.store.clone(), provider())
                .build()
                .map_err(|error| format!("certificates of clients cannot be verified: {error}"))?,
        };
        let mut config =
            builder.with_client_cert_verifier(verifier).with_cert_resolver(self.certificates.clone());
        config.alpn_protocols = protocols(self.http2);
        // Sessions are kept by the clients, in tickets.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A session that goes on does not verify the client's certificate again, which may have expired since.
        if let Some(tickets) = tickets.filter(|_| self.client_roots.is_none()) {
            config.ticketer = Arc::new(Sealer(tickets.clone()));
        }
        Ok(Arc::new(config))
    }
}
