//! A connected socket.

use super::tls::Secure;
use super::{Address, Peer};
use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A stream of bytes each way, to a client or to an origin.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Over one of the others.
    Tls(Box<Secure>),
}

/// Does the same with all of them.
macro_rules! with {
    ($socket:expr, $stream:ident => $what:expr) => {
        with!($socket, $stream => $what, tls $stream => $what)
    };
    ($socket:expr, $stream:ident => $what:expr, tls $tls:pat => $else:expr) => {
        match $socket {
            Socket::Tcp($stream) => $what,
            Socket::Unix($stream) => $what,
            Socket::Tls($tls) => $else,
        }
    };
}

impl Socket {
    /// Waits for as long as it takes: where a Unix socket's queue is full, it is tried again and again.
    pub async fn connect(address: &Address) -> io::Result<Socket> {
        const PAUSE: Duration = Duration::from_millis(5);
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                let _ = stream.set_nodelay(true);
                Ok(Socket::Tcp(stream))
            }
            Address::Unix(path) => loop {
                match UnixStream::connect(path).await {
                    // What TCP waits for by itself (unix(7): EAGAIN).
                    Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
                    connected => return connected.map(Socket::Unix),
                }
            },
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Nothing is there to be read, not even the end.
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let looked = with!(&mut *self, stream => SockRef::from(&*stream).peek(&mut byte), tls stream => {
            return stream.is_quiet();
        });
        looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits for the first byte, which stays to be read; `None`: there is none. Not of TLS.
    pub async fn first_byte(&self) -> io::Result<Option<u8>> {
        let peek = |socket: BorrowedFd<'_>| {
            let mut byte = [0];
            let (n, _) = recv(socket, &mut byte, RecvFlags::PEEK)?;
            Ok((n > 0).then_some(byte[0]))
        };
        with!(self, stream => stream.async_io(Interest::READABLE, || peek(stream.as_fd())).await, tls _ => {
            Err(ErrorKind::Unsupported.into())
        })
    }

    /// Of a connection that another process accepted.
    pub fn of(socket: OwnedFd) -> io::Result<(Socket, Peer)> {
        let peer = SockRef::from(&socket).peer_addr()?;
        SockRef::from(&socket).set_nonblocking(true)?;
        match peer.as_socket() {
            Some(address) => {
                let stream = TcpStream::from_std(socket.into())?;
                Ok((Socket::Tcp(stream), Peer::Ip(address.ip())))
            }
            None => Ok((Socket::Unix(UnixStream::from_std(socket.into())?), Peer::Unix)),
        }
    }

    /// For another process, or another runtime; TLS stays here.
    pub fn into_descriptor(self) -> io::Result<OwnedFd> {
        with!(self, stream => stream.into_std().map(OwnedFd::from), tls _ => Err(ErrorKind::Unsupported.into()))
    }

    /// What is written goes out when it is flushed, or when there is enough of it; without TLS, at once as before.
    pub fn gather(&mut self) {
        if let Socket::Tls(stream) = self {
            stream.gather();
        }
    }

    /// Changes when something goes out of what a write has taken and kept, as TLS does.
    pub fn taken(&self) -> u64 {
        match self {
            Socket::Tls(stream) => stream.taken(),
            Socket::Tcp(_) | Socket::Unix(_) => 0,
        }
    }

    /// Writes what the kernel takes now.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        with!(self, stream => stream.try_write(bytes))
    }
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        with!(&mut *self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(&mut *self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        with!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Bound, listen_alone};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    fn addresses(folder: &tempfile::TempDir) -> [Address; 2] {
        let path = folder.path().join("socket");
        ["127.0.0.1:0".parse().unwrap(), format!("unix:{}", path.display()).parse().unwrap()]
    }

    #[tokio::test]
    async fn all_sockets_do_the_same() {
        for address in addresses(&tempfile::tempdir().unwrap()) {
            let bound = listen_alone(&address, &mut Vec::new()).unwrap();
            let at = bound.address().unwrap();
            let listener = bound.into_listener().unwrap();
            let (connected, accepted) = tokio::join!(Socket::connect(&at), listener.accept());
            let (mut here, (mut there, peer)) = (connected.unwrap(), accepted.unwrap());
            assert_eq!(peer.address().is_some(), address.tcp().is_some());
            assert!(here.is_quiet() && there.is_quiet() && here.is_write_vectored());
            assert_eq!(here.try_write(b"ask").unwrap(), 3);
            let mut three = [0; 3];
            there.read_exact(&mut three).await.unwrap();
            assert_eq!(&three, b"ask");
            there.write_all(b"answer").await.unwrap();
            let waits = async {
                while here.is_quiet() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), waits).await.expect("it is there to be read");
            there.shutdown().await.unwrap();
            let mut all = Vec::new();
            here.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, b"answer");
            assert!(!here.is_quiet(), "an end is something");
            // The other direction is open still.
            here.write_all(b"end").await.unwrap();
            there.read_exact(&mut three).await.unwrap();
            assert_eq!(&three, b"end");
        }
    }

    #[tokio::test]
    async fn a_full_queue_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let [_, address] = addresses(&folder);
        let Address::Unix(path) = &address else { unreachable!() };
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.bind(&socket2::SockAddr::unix(path).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.listen(0).unwrap();
        let first = UnixStream::connect(path).await.unwrap();
        assert_eq!(UnixStream::connect(path).await.unwrap_err().kind(), ErrorKind::WouldBlock);
        let listener = UnixListener::from_std(socket.into()).unwrap();
        let accept = async {
            tokio::task::yield_now().await;
            (listener.accept().await.unwrap(), listener.accept().await.unwrap())
        };
        let both = async { tokio::join!(Socket::connect(&address), accept).0 };
        assert!(tokio::time::timeout(Duration::from_secs(20), both).await.unwrap().is_ok());
        drop(first);
    }

    #[test]
    fn what_is_bound_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let [tcp, unix] = addresses(&folder);
        let at = |bound: &Bound| bound.address().unwrap();
        assert!(!at(&listen_alone(&tcp, &mut Vec::new()).unwrap()).is_any_port());
        assert_eq!(at(&listen_alone(&unix, &mut Vec::new()).unwrap()), unix);
    }
}
