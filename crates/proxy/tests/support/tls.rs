//! Certificates that a test makes, and clients that verify them.

use super::{Client, field, ok, soon};
use proxy::{Certificates, KeyFiles, OriginTls, Roots};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An issuer, and a folder of what it issued.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
    folder: TempDir,
}

/// A certificate with its key, as PEM.
pub struct Issued {
    pub chain: String,
    pub key: String,
    der: (Vec<u8>, Vec<u8>),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // One that goes by another's name is not this test's.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        params.distinguished_name.push(DnType::CommonName, format!("issuer {number}"));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority { issuer: Issuer::new(params, key), certificate, folder: tempfile::tempdir().unwrap() }
    }

    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |_| {})
    }

    pub fn expired(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |params| {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        })
    }

    fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let der = (certificate.der().to_vec(), key.serialize_der());
        Issued { chain: certificate.pem(), key: key.serialize_pem(), der }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its own certificate, as a file.
    pub fn file(&self) -> PathBuf {
        let path = self.at("ca.pem");
        fs::write(&path, self.certificate.pem()).unwrap();
        path
    }

    /// A file with a certificate for these names and its key.
    pub fn write(&self, name: &str, names: &[&str]) -> KeyFiles {
        self.issue(names).write(&self.at(name))
    }

    pub fn certificates(&self, names: &[&str]) -> Option<Arc<Certificates>> {
        let file = self.write(&format!("{}.pem", names[0]), names);
        Some(Arc::new(Certificates::load(vec![file]).unwrap()))
    }

    /// What a client goes by that believes this issuer.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<Issued>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some(Issued { der: (chain, key), .. }) => {
                let key = PrivateKeyDer::try_from(key).unwrap();
                builder.with_client_auth_cert(vec![chain.into()], key).unwrap()
            }
        }
    }

    /// What a server goes by that proves itself.
    pub fn server(&self, own: Issued) -> Arc<ServerConfig> {
        let (chain, key) = own.der;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![chain.into()], PrivateKeyDer::try_from(key).unwrap()).unwrap())
    }

    pub async fn connect(&self, address: SocketAddr, name: &str) -> Client<TlsStream<TcpStream>> {
        let config = self.client(rustls::ALL_VERSIONS, None);
        connect(address, name, config.into()).await.unwrap()
    }
}

impl Issued {
    /// Both in one file that nobody else may read. It appears at once.
    pub fn write(&self, path: &Path) -> KeyFiles {
        let new = path.with_extension("new");
        fs::write(&new, self.chain.clone() + &self.key).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, path).unwrap();
        KeyFiles::of(path.to_str().unwrap())
    }
}

pub async fn connect(
    address: SocketAddr,
    name: &str,
    config: Arc<ClientConfig>,
) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = soon(TcpStream::connect(address)).await?;
    soon(TlsConnector::from(config).connect(name, stream)).await.map(Client::of)
}

/// What a proxy goes by that believes this issuer of origins.
pub fn believing(authority: &Authority) -> OriginTls {
    let mut tls = OriginTls::default();
    tls.roots = Some(Roots::load(&authority.file()).unwrap());
    tls
}

/// An origin that speaks TLS: answers with what it got, which may be stored.
pub struct SecureOrigin {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for SecureOrigin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SecureOrigin {
    /// With `clients`, it takes those alone whom this issuer knows.
    pub async fn start(
        own: Issued,
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&Authority>,
    ) -> SecureOrigin {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (chain, key) = own.der;
        let config =
            builder.with_single_cert(vec![chain.into()], PrivateKeyDer::try_from(key).unwrap()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (opened, asked) = (connections.clone(), requests.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, opened, asked) = (acceptor.clone(), opened.clone(), asked.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    opened.fetch_add(1, Ordering::SeqCst);
                    let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                    let mut client = Client::of(stream);
                    while let Some(head) = client.head().await {
                        asked.fetch_add(1, Ordering::SeqCst);
                        if head.starts_with("GET /cut") {
                            // Without a word of the end, as whoever cuts a connection would.
                            client.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n\r\nhalf").await;
                            return;
                        }
                        let host = field(&head, "host").unwrap();
                        client.send(ok("Cache-Control: max-age=1000\r\n", &format!("{name} {host}"))).await;
                    }
                });
            }
        });
        SecureOrigin { address, connections, requests, task }
    }

    pub fn count(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }
}
