//! TLS over another socket: what asynchronous reading and writing does not tell of it.

use super::Socket;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio_rustls::{TlsConnector, TlsStream};

/// Bytes of a connection, encrypted or still to be, that it keeps when the kernel takes no more: a record of the largest size. It
/// encrypts and writes that much at a time.
const UNSENT: usize = 16 << 10;

/// What was agreed on in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// As OpenSSL and IANA name it: `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The name that the client asked for (RFC 6066 section 3), in lower case.
    pub name: Option<Box<str>>,
    /// A session was gone on with, by a ticket.
    pub resumed: bool,
    /// HTTP/2 is spoken (RFC 7301).
    pub http2: bool,
}

impl Secured {
    fn of(stream: &TlsStream<Socket>) -> Secured {
        let (_, common) = stream.get_ref();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "-",
        };
        let cipher = common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let name = match stream {
            TlsStream::Server(stream) => stream.get_ref().1.server_name().map(Into::into),
            TlsStream::Client(_) => None,
        };
        let resumed = common.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        let http2 = common.alpn_protocol() == Some(b"h2");
        Secured { version, cipher: cipher.unwrap_or("-"), name, resumed, http2 }
    }
}

/// A connection whose handshake is done.
pub fn secure(stream: impl Into<TlsStream<Socket>>) -> (Socket, Arc<Secured>) {
    let mut stream = stream.into();
    match &mut stream {
        TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(Some(UNSENT)),
        TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(Some(UNSENT)),
    }
    let secured = Arc::new(Secured::of(&stream));
    (Socket::Tls(Box::new(stream)), secured)
}

/// Speaks TLS to a server over a connection to it.
pub async fn secure_to(
    socket: Socket,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<(Socket, Arc<Secured>)> {
    TlsConnector::from(config).connect(name, socket).await.map(secure)
}

/// Whether nothing is there to be read of what was encrypted, not even the end. Session tickets may come at any time (RFC 8446
/// section 4.6.1), and are taken.
pub fn is_quiet(stream: &mut TlsStream<Socket>) -> bool {
    let (socket, mut session) = parts(stream);
    loop {
        match session.read_tls(&mut Now(socket)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Ok(1..) => {}
            _ => return false,
        }
        match session.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
            _ => return false,
        }
    }
}

/// Takes what it can, and writes of it what the kernel takes now; the rest goes with the next write, or with the end.
pub fn try_write(stream: &mut TlsStream<Socket>, bytes: &[u8]) -> io::Result<usize> {
    let (socket, mut session) = parts(stream);
    let mut taken = 0;
    // A record's worth at a time.
    while taken < bytes.len() {
        match session.writer().write(&bytes[taken..])? {
            0 => break,
            more => taken += more,
        }
        while session.wants_write() {
            match session.write_tls(&mut Now(socket)) {
                Ok(1..) => {}
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => return Ok(taken),
            }
        }
    }
    Ok(taken)
}

fn parts(stream: &mut TlsStream<Socket>) -> (&Socket, Session<'_>) {
    match stream {
        TlsStream::Server(stream) => {
            let (socket, session) = stream.get_mut();
            (socket, Session::Server(session))
        }
        TlsStream::Client(stream) => {
            let (socket, session) = stream.get_mut();
            (socket, Session::Client(session))
        }
    }
}

enum Session<'a> {
    Server(&'a mut rustls::ServerConnection),
    Client(&'a mut rustls::ClientConnection),
}

/// Does the same with either.
macro_rules! with {
    ($session:expr, $one:ident => $what:expr) => {
        match $session {
            Session::Server($one) => $what,
            Session::Client($one) => $what,
        }
    };
}

impl Session<'_> {
    fn read_tls(&mut self, from: &mut dyn Read) -> io::Result<usize> {
        with!(self, one => one.read_tls(from))
    }

    fn write_tls(&mut self, to: &mut dyn Write) -> io::Result<usize> {
        with!(self, one => one.write_tls(to))
    }

    fn process_new_packets(&mut self) -> Result<rustls::IoState, rustls::Error> {
        with!(self, one => one.process_new_packets())
    }

    fn writer(&mut self) -> rustls::Writer<'_> {
        with!(self, one => one.writer())
    }

    fn wants_write(&self) -> bool {
        with!(self, one => one.wants_write())
    }
}

/// A socket asked directly, whatever the runtime knows of it.
struct Now<'a>(&'a Socket);

impl Now<'_> {
    fn with<T>(&self, what: impl FnOnce(SockRef<'_>) -> io::Result<T>) -> io::Result<T> {
        match self.0 {
            Socket::Tcp(stream) => what(SockRef::from(&stream.as_fd())),
            Socket::Unix(stream) => what(SockRef::from(&stream.as_fd())),
            Socket::Tls(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

impl Read for Now<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|socket| (&*socket).read(buffer))
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|socket| socket.send(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
