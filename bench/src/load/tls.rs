//! TLS of the load generator: one version, one cipher suite and one key exchange, so that everyone does the same work.
//!
//! The signature over each handshake is verified on a sample only, since verifying takes longer than signing and would
//! make the generator the limit; that the certificate is the expected one is looked at each time.

use super::connection::Broken;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme, version,
};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One signature in so many is verified.
const VERIFY_EVERY: u64 = 64;

/// How clients speak TLS, and what handshakes they had.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    full: AtomicU64,
    resumed: AtomicU64,
}

/// Handshakes until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handshakes {
    pub full: u64,
    pub resumed: u64,
}

impl Tls {
    /// Believes this certificate alone; offers one protocol by ALPN. Where it `resumes`, it goes on with sessions by
    /// tickets, each used one time.
    pub fn new(
        certificate: &CertificateDer<'static>,
        name: &str,
        protocol: &[u8],
        resumes: bool,
    ) -> Result<Tls, String> {
        let provider = CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![kx_group::X25519],
            ..default_provider()
        };
        let verifier = Pinned {
            certificate: certificate.clone(),
            algorithms: provider.signature_verification_algorithms,
            signatures: AtomicU64::new(0),
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| format!("TLS: {e}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption =
            if resumes { Resumption::in_memory_sessions(256) } else { Resumption::disabled() };
        let name = ServerName::try_from(name.to_owned()).map_err(|e| format!("TLS: {name}: {e}"))?;
        Ok(Tls { config: Arc::new(config), name, full: AtomicU64::new(0), resumed: AtomicU64::new(0) })
    }

    pub fn handshakes(&self) -> Handshakes {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Handshakes { full: now(&self.full), resumed: now(&self.resumed) }
    }
}

impl Handshakes {
    pub fn since(self, before: Handshakes) -> Handshakes {
        Handshakes { full: self.full - before.full, resumed: self.resumed - before.resumed }
    }
}

/// TLS of one connection. What it sends lies here until the socket takes it.
pub struct Session {
    tls: Arc<Tls>,
    connection: UnbufferedClientConnection,
    /// The start of a record; mostly empty.
    partial: Vec<u8>,
    /// Plain bytes that the handshake does not let out yet.
    waiting: Vec<u8>,
    outgoing: Vec<u8>,
    sent: usize,
    agreed: bool,
}

impl Session {
    pub fn begin(tls: &Arc<Tls>) -> Result<Session, String> {
        let connection = UnbufferedClientConnection::new(Arc::clone(&tls.config), tls.name.clone())
            .map_err(|e| format!("TLS: {e}"))?;
        let mut session = Session {
            tls: Arc::clone(tls),
            connection,
            partial: Vec::new(),
            waiting: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            agreed: false,
        };
        session.write(&[])?;
        Ok(session)
    }

    /// Goes out with the next `flush`, after the handshake.
    pub fn write(&mut self, plain: &[u8]) -> Result<(), String> {
        self.waiting.extend_from_slice(plain);
        let mut partial = std::mem::take(&mut self.partial);
        let used = self.process(&mut partial, &mut |_| Ok(()))?;
        partial.drain(..used);
        self.partial = partial;
        Ok(())
    }

    /// Whether bytes wait for the socket, and not for the server.
    pub fn waits_for_socket(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub fn flush(&mut self, mut stream: &TcpStream) -> Result<(), Broken> {
        while self.waits_for_socket() {
            match stream.write(&self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Broken::of(error.raw_os_error(), || format!("send: {error}"))),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what has come to `scratch`, which holds a record and more; how many bytes are there for `take`.
    pub fn read(&self, stream: &TcpStream, scratch: &mut [u8]) -> Result<usize, Broken> {
        let begun = self.partial.len();
        scratch[..begun].copy_from_slice(&self.partial);
        match recv(stream, &mut scratch[begun..], RecvFlags::empty()) {
            Ok((_, 0)) => Err(Broken::Closed),
            Ok((_, count)) => Ok(begun + count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(begun),
            Err(error) => Err(Broken::of(Some(error.raw_os_error()), || format!("receive: {error}"))),
        }
    }

    /// Gives what was read plain to `take`, in pieces.
    pub fn take(
        &mut self,
        come: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let used = self.process(come, take)?;
        self.partial.clear();
        self.partial.extend_from_slice(&come[used..]);
        Ok(())
    }

    /// How many bytes of `come` are done with.
    fn process(
        &mut self,
        come: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<usize, String> {
        let say = |e: Error| format!("TLS: {e}");
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut come[used..]);
            let mut goes_on = true;
            match state.map_err(say)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(say)?;
                        discard += record.discard;
                        take(record.payload)?;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => append(&mut self.outgoing, |place| {
                    data.encode(place).map_err(|e| match e {
                        EncodeError::InsufficientSize(size) => Ok(size.required_size),
                        other => Err(format!("TLS: {other}")),
                    })
                })?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    goes_on = false;
                    if !self.waiting.is_empty() {
                        append(&mut self.outgoing, |place| {
                            traffic.encrypt(&self.waiting, place).map_err(|e| match e {
                                EncryptError::InsufficientSize(size) => Ok(size.required_size),
                                other => Err(format!("TLS: {other}")),
                            })
                        })?;
                        self.waiting.clear();
                    }
                }
                // The end of the stream follows.
                ConnectionState::PeerClosed => {}
                _ => goes_on = false,
            }
            used += discard;
            if !self.agreed && !self.connection.is_handshaking() {
                self.agree()?;
            }
            if !goes_on {
                return Ok(used);
            }
        }
    }

    fn agree(&mut self) -> Result<(), String> {
        let offered = &self.tls.config.alpn_protocols;
        if self.connection.alpn_protocol() != offered.first().map(Vec::as_slice) {
            return Err("TLS: the server did not agree on the protocol".into());
        }
        self.agreed = true;
        let count = match self.connection.handshake_kind() {
            Some(HandshakeKind::Full) => &self.tls.full,
            Some(HandshakeKind::Resumed) => &self.tls.resumed,
            // A round trip more, and another key exchange than the others'.
            kind => return Err(format!("TLS: a handshake that cannot be measured: {kind:?}")),
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes at the end of `bytes`; `write` says how much room it lacks.
fn append(
    bytes: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Result<usize, String>>,
) -> Result<(), String> {
    let at = bytes.len();
    let mut room = 0;
    loop {
        bytes.resize(at + room, 0);
        match write(&mut bytes[at..]) {
            Ok(written) => {
                bytes.truncate(at + written);
                return Ok(());
            }
            Err(Ok(required)) => room = required,
            Err(Err(error)) => return Err(error),
        }
    }
}

/// Believes one certificate.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
    signatures: AtomicU64,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *certificate != self.certificate {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 was not offered".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.signatures.fetch_add(1, Ordering::Relaxed).is_multiple_of(VERIFY_EVERY) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
