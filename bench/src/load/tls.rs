//! TLS of the load generator: one version, one cipher suite and one key exchange, so that everyone does the same work.
//!
//! The signature over each handshake is verified on a sample only, since verifying takes longer than signing and would
//! make the generator the limit; that the certificate is the expected one is looked at each time.

use super::connection::Broken;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    UnbufferedClientConnection,
};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, SignatureScheme,
    version,
};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
            if resumes { Resumption::store(Arc::new(Tickets::default())) } else { Resumption::disabled() };
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

/// Tickets of one server, the newest first. The library's own store keeps eight, and some servers send theirs long before
/// the connections that they came on end.
#[derive(Debug, Default)]
struct Tickets(Mutex<Vec<Tls13ClientSessionValue>>);

const TICKETS: usize = 4096;

impl Tickets {
    fn all(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn insert_tls13_ticket(&self, _server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut all = self.all();
        if all.len() < TICKETS {
            all.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.all().pop()
    }

    // There is one key exchange to offer, and one version.
    fn set_kx_hint(&self, _server: ServerName<'static>, _group: NamedGroup) {}
    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }
    fn set_tls12_session(&self, _server: ServerName<'static>, _session: Tls12ClientSessionValue) {}
    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }
    fn remove_tls12_session(&self, _server: &ServerName<'static>) {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{self, Order, Outcome, Plan, Speaks, Target};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::server::ServerConfig;
    use rustls::{ServerConnection, StreamOwned};
    use std::io::Read;
    use std::net::TcpListener;

    const NAME: &str = "cosm.test";
    const SIZE: u64 = 40_000;

    fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        (made.cert.der().clone(), key)
    }

    /// Answers one request on each connection until the test ends.
    fn server((certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) -> Target {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config));
        let target =
            Target { server: listener.local_addr().unwrap(), origin: None, tagged: true, close: true };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                // A client that does not believe the certificate goes away.
                let _ = answer(StreamOwned::new(connection, stream.unwrap()));
            }
        });
        target
    }

    fn answer(mut stream: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
        let mut request = [0; 1024];
        let count = stream.read(&mut request)?;
        let path = format!("/s/{SIZE}/");
        let text = String::from_utf8_lossy(&request[..count]);
        let number = text.split(' ').nth(1).and_then(|target| target.strip_prefix(&path)).unwrap();
        let object = crate::body::Object { size: SIZE, number: number.parse().unwrap() };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {SIZE}\r\nCosm-Asked: 0\r\n\r\n"
        )?;
        stream.write_all(&object.whole())?;
        stream.flush()
    }

    fn eight(target: Target, tls: Tls) -> Result<Outcome, String> {
        load::run(&Plan {
            target,
            speaks: Speaks::Https(Arc::new(tls)),
            size: SIZE,
            workload: None,
            order: Order::Once(0..8),
            connections: 1,
            lasts: None,
            check_every: 1,
        })
    }

    #[test]
    fn handshakes_are_full_or_resumed_as_wanted() {
        let (certificate, key) = certificate();
        let target = server((certificate.clone(), key));
        for (resumes, full) in [(false, 8), (true, 1)] {
            let tls = Tls::new(&certificate, NAME, b"http/1.1", resumes).unwrap();
            let outcome = eight(target, tls).unwrap();
            assert_eq!((outcome.requests, outcome.hits, outcome.checked, outcome.wrong), (8, 8, 8, 0));
            assert_eq!(outcome.handshakes, Handshakes { full, resumed: 8 - full });
        }
    }

    #[test]
    fn another_certificate_or_protocol_is_an_error() {
        let (other, _) = certificate();
        let (certificate, key) = certificate();
        let target = server((certificate.clone(), key));
        let says = |certificate, protocol| {
            let tls = Tls::new(certificate, NAME, protocol, false).unwrap();
            eight(target, tls).unwrap_err()
        };
        assert!(says(&other, b"http/1.1").contains("UnknownIssuer"));
        assert!(says(&certificate, b"h3").contains("TLS"));
    }
}
