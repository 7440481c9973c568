//! TLS over another socket: what asynchronous reading and writing does not tell of it.

use super::Socket;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, TlsStream};

/// Bytes that are encrypted and written at a time, by one call of the kernel: four records, and the heads of what has so many bytes.
const BATCH: usize = (64 + 4) << 10;

/// Bytes that a connection keeps when the kernel takes no more, where others keep much already: a record of the largest size.
const RECORD: usize = 16 << 10;

/// Pieces of one write.
const PIECES: usize = 16;

/// Bytes beyond a record that all connections together keep, about. Where they are `BEYOND_MOST`, each writes by single records:
/// clients that do not read would otherwise have four times as much.
static BEYOND: AtomicUsize = AtomicUsize::new(0);
pub const BEYOND_MOST: usize = 4 << 20;

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
    // What is offered to it is bounded here; it counts what encryption adds.
    match &mut stream {
        TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(Some(2 * BATCH)),
        TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(Some(2 * BATCH)),
    }
    let secured = Arc::new(Secured::of(&stream));
    (Socket::Tls(Box::new(Secure { stream, unsent: 0, beyond: 0, taken: 0, gathers: false })), secured)
}

/// Speaks TLS to a server over a connection to it.
pub async fn secure_to(
    socket: Socket,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<(Socket, Arc<Secured>)> {
    TlsConnector::from(config).connect(name, socket).await.map(secure)
}

/// Bytes are encrypted when they are written, and go to the kernel at once or, where it takes no more, with the next write or a flush.
#[derive(Debug)]
pub struct Secure {
    stream: TlsStream<Socket>,
    /// Bytes, as they were before they were encrypted, that the kernel has not taken: at most `BATCH`.
    unsent: usize,
    /// What of them counts in `BEYOND`.
    beyond: usize,
    /// Bytes that the kernel has taken, encrypted.
    taken: u64,
    gathers: bool,
}

impl Secure {
    /// From now on what is written goes to the kernel when it is flushed, or when there is a batch.
    pub fn gather(&mut self) {
        self.gathers = true;
    }

    /// Changes when the kernel takes some of what it took no more of before.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether nothing is there to be read of what was encrypted, not even the end. Session tickets may come at any time (RFC 8446
    /// section 4.6.1), and are taken.
    pub fn is_quiet(&mut self) -> bool {
        let (socket, mut session) = parts(&mut self.stream);
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

    /// Takes what it can, and writes of it what the kernel takes now.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < bytes.len() {
            let n = self.encrypt(&[IoSlice::new(bytes)], taken, RECORD)?;
            taken += n;
            let (socket, mut session) = parts(&mut self.stream);
            while session.wants_write() {
                match session.write_tls(&mut Now(socket)) {
                    Ok(1..) => {}
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    _ => return Ok(taken),
                }
            }
            self.unsent = 0;
        }
        Ok(taken)
    }

    /// Encrypts of these pieces, behind the first `from` bytes, what has room beside what is unsent.
    fn encrypt(&mut self, bufs: &[IoSlice<'_>], from: usize, most: usize) -> io::Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut skip, mut room, mut count) = (from, most.saturating_sub(self.unsent), 0);
        for buf in bufs {
            let skipped = skip.min(buf.len());
            skip -= skipped;
            let buf = &buf[skipped..];
            let buf = &buf[..room.min(buf.len())];
            if !buf.is_empty() && count < PIECES {
                (pieces[count], count, room) = (IoSlice::new(buf), count + 1, room - buf.len());
            }
        }
        let (_, mut session) = parts(&mut self.stream);
        let taken = session.writer().write_vectored(&pieces[..count])?;
        self.unsent += taken;
        Ok(taken)
    }

    /// Writes what waits.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, mut session) = parts(&mut self.stream);
        while session.wants_write() {
            match session.write_tls(&mut Polled(socket, cx)) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.unsent = self.unsent.saturating_sub(n);
                    self.taken += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.unsent = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        let most = if BEYOND.load(Relaxed) < BEYOND_MOST { BATCH } else { RECORD };
        let mut taken = 0;
        while taken < all {
            match self.encrypt(bufs, taken, most)? {
                // Other than where nothing has room, it is full.
                0 => match self.poll_out(cx) {
                    Poll::Pending if taken == 0 => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(Ok(taken)),
                    Poll::Ready(written) => written?,
                },
                n => taken += n,
            }
        }
        if !self.gathers
            && let Poll::Ready(written) = self.poll_out(cx)
        {
            written?;
        }
        Poll::Ready(Ok(taken))
    }

    /// Counts what is kept now.
    fn counted<T>(&mut self, done: T) -> T {
        let beyond = self.unsent.saturating_sub(RECORD);
        if beyond != self.beyond {
            BEYOND.fetch_add(beyond.wrapping_sub(self.beyond), Relaxed);
            self.beyond = beyond;
        }
        done
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.unsent = 0;
        self.counted(());
    }
}

impl AsyncRead for Secure {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secure {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.poll_bytes(cx, bufs);
        self.counted(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_out(cx);
        ready!(self.counted(written))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_out(cx);
        ready!(self.counted(written))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn parts(stream: &mut TlsStream<Socket>) -> (&mut Socket, Session<'_>) {
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

/// A socket that wakes the task when it takes more.
struct Polled<'a, 'b>(&'a mut Socket, &'a mut Context<'b>);

impl Polled<'_, '_> {
    fn now<T>(written: Poll<io::Result<T>>) -> io::Result<T> {
        match written {
            Poll::Ready(written) => written,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Polled<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.0).poll_write(self.1, bytes))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.0).poll_write_vectored(self.1, bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio_rustls::TlsAcceptor;

    /// Two ends of a connection.
    async fn pair() -> (Socket, Socket) {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(default_provider());
        let server =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let server =
            server.unwrap().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        let (here, there) = UnixStream::pair().unwrap();
        let accept = TlsAcceptor::from(Arc::new(server.unwrap())).accept(Socket::Unix(here));
        let connect = secure_to(Socket::Unix(there), "a.test".try_into().unwrap(), Arc::new(client));
        let (accepted, connected) = tokio::join!(accept, connect);
        (secure(accepted.unwrap()).0, connected.unwrap().0)
    }

    fn secured(socket: &Socket) -> &Secure {
        let Socket::Tls(stream) = socket else { unreachable!() };
        stream
    }

    /// What the kernel takes at once, of bytes that nobody reads.
    fn written(socket: &mut Socket, bytes: &[u8]) -> usize {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut all = 0;
        while let Poll::Ready(n) = Pin::new(&mut *socket).poll_write(&mut cx, bytes) {
            all += n.unwrap();
        }
        all
    }

    #[tokio::test]
    async fn who_does_not_read_is_kept_a_batch_at_most_and_gets_all_of_it_later() {
        let (mut here, mut there) = pair().await;
        let bytes: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        let all = written(&mut here, &bytes);
        let kept = secured(&here).unsent;
        assert!(kept <= BATCH && all > kept, "{kept} of {all}");
        assert_eq!(secured(&here).beyond, kept.saturating_sub(RECORD));
        let read = async {
            let mut got = vec![0; all];
            there.read_exact(&mut got).await.unwrap();
            got
        };
        let (flushed, got) = tokio::join!(here.flush(), read);
        flushed.unwrap();
        // The last write was taken in part.
        assert!(got.iter().zip(bytes.iter().cycle()).take(bytes.len()).all(|(a, b)| a == b));
        assert_eq!((secured(&here).unsent, secured(&here).beyond), (0, 0));
    }

    #[tokio::test]
    async fn where_many_do_not_read_a_record_each_is_kept() {
        let (mut here, _there) = pair().await;
        BEYOND.fetch_add(BEYOND_MOST, Relaxed);
        written(&mut here, &[0; 100_000]);
        BEYOND.fetch_sub(BEYOND_MOST, Relaxed);
        assert!(secured(&here).unsent <= RECORD, "{}", secured(&here).unsent);
    }

    #[tokio::test]
    async fn what_is_gathered_goes_when_it_is_flushed() {
        let (mut here, mut there) = pair().await;
        here.gather();
        for _ in 0..2 {
            here.write_all(b"frame").await.unwrap();
        }
        assert!(there.is_quiet());
        here.flush().await.unwrap();
        let mut got = [0; 10];
        there.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"frameframe");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However it is cut into writes, and whatever is flushed.
        #[test]
        fn bytes_arrive_as_they_were_written(
            gathers: bool,
            writes in prop::collection::vec((prop::collection::vec(0usize..40_000, 1..20), any::<bool>()), 1..8),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (mut here, mut there) = pair().await;
                if gathers {
                    here.gather();
                }
                let mut next = 0u8;
                let mut expected = Vec::new();
                let mut pieces = Vec::new();
                for (lengths, flushes) in writes {
                    let of = |n: usize| { next = next.wrapping_add(1); vec![next; n] };
                    let bufs: Vec<Vec<u8>> = lengths.into_iter().map(of).collect();
                    bufs.iter().for_each(|buf| expected.extend_from_slice(buf));
                    pieces.push((bufs, flushes));
                }
                let write = async {
                    for (bufs, flushes) in &pieces {
                        let mut slices: Vec<IoSlice<'_>> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
                        let mut rest = &mut slices[..];
                        IoSlice::advance_slices(&mut rest, 0);
                        while !rest.is_empty() {
                            let n = here.write_vectored(rest).await.unwrap();
                            IoSlice::advance_slices(&mut rest, n);
                        }
                        if *flushes {
                            here.flush().await.unwrap();
                        }
                    }
                    here.shutdown().await.unwrap();
                };
                let mut got = Vec::new();
                let (_, read) = tokio::join!(write, there.read_to_end(&mut got));
                read.unwrap();
                assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
            });
        }
    }
}
