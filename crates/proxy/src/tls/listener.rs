//! What clients' handshakes go by. A reload, and whoever looks after the files, replaces it while handshakes go on.

use super::tickets::Sealer;
use super::{Certificates, LeastVersion, Roots, Tickets, protocols, provider};
use acme::Challenges;
use rustls::ServerConfig;
use rustls::server::{
    ClientHello, NoClientAuth, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
    danger::ClientCertVerifier,
};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

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
    challenges: Arc<Challenges>,
}

impl Acceptor {
    /// `challenges`: what handshakes prove to certificate authorities.
    ///
    /// # Errors
    /// One line.
    pub fn new(
        terms: &Terms,
        tickets: Option<Arc<Tickets>>,
        challenges: Arc<Challenges>,
    ) -> Result<Acceptor, String> {
        let config = RwLock::new(terms.config(tickets.as_ref())?);
        Ok(Acceptor { config, tickets, challenges })
    }

    /// For handshakes that begin from now on.
    pub fn replace(&self, terms: &Terms) -> Result<(), String> {
        let config = terms.config(self.tickets.as_ref())?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// A client's handshake. `None`: it was an authority's, which proved a name to it, and is over.
    pub async fn accept<S>(&self, socket: S) -> io::Result<Option<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if !self.challenges.are_open() {
            return TlsAcceptor::from(self.config()).accept(socket).await.map(Some);
        }
        let hello = LazyConfigAcceptor::new(Default::default(), socket).await?;
        let is_authority = hello.client_hello().alpn().is_some_and(|offered| offered.eq([acme::PROTOCOL]));
        if !is_authority {
            return hello.into_stream(self.config()).await.map(Some);
        }
        let proof = Proof(self.challenges.clone()).config().map_err(io::Error::other)?;
        hello.into_stream(proof).await?.shutdown().await?;
        Ok(None)
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// By which a handshake proves a name (RFC 8737), whatever is wanted of clients.
struct Proof(Arc<Challenges>);

impl Proof {
    fn config(self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self));
        config.alpn_protocols = vec![acme::PROTOCOL.into()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Proof {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.tls(hello.server_name()?)
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof")
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
        // Some clients name what they speak, and nothing else.
        config.alpn_protocols.push(b"http/1.0".to_vec());
        // Sessions are kept by the clients, in tickets.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A session that goes on does not verify the client's certificate again, which may have expired since.
        if let Some(tickets) = tickets.filter(|_| self.client_roots.is_none()) {
            config.ticketer = Arc::new(Sealer(tickets.clone()));
        }
        Ok(Arc::new(config))
    }
}
