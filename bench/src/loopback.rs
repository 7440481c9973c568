//! Connections from many addresses of this machine: the ports of one run out with thousands of connections a second, and
//! long before that the kernel looks ever longer for a free one.

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clients' addresses.
const ADDRESSES: u64 = 64;
/// Whose ports nobody else uses up.
const ASIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);

/// From one address after the other; does not wait for the server to accept.
pub fn connecting(server: SocketAddr) -> std::io::Result<TcpStream> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let host = NEXT.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
    from(Ipv4Addr::new(127, 0, 1, 1 + host as u8), server, SocketFlags::NONBLOCK)
}

/// The same from another range of addresses, of which `range` is 3 or more; the kernel holds little for a `narrow` one, so that what it
/// does not read stays with the server.
pub fn connecting_from(range: u8, narrow: bool, server: SocketAddr) -> std::io::Result<TcpStream> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let host = NEXT.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
    let socket = socket(server, SocketFlags::NONBLOCK)?;
    if narrow {
        set_socket_recv_buffer_size(&socket, NARROW)?;
    }
    connected(socket, Ipv4Addr::new(127, 0, range, 1 + host as u8), server)
}

/// Bytes.
const NARROW: usize = 4 << 10;

/// For what must get through when the ports of others are in use.
pub fn aside(server: SocketAddr) -> std::io::Result<TcpStream> {
    from(ASIDE, server, SocketFlags::empty())
}

/// An address that nobody listens at.
pub fn free() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .map_err(|e| format!("a free port: {e}"))
}

fn from(host: Ipv4Addr, server: SocketAddr, flags: SocketFlags) -> std::io::Result<TcpStream> {
    connected(socket(server, flags)?, host, server)
}

fn socket(server: SocketAddr, flags: SocketFlags) -> std::io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(socket_with(family, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)?)
}

fn connected(socket: OwnedFd, host: Ipv4Addr, server: SocketAddr) -> std::io::Result<TcpStream> {
    if server.ip() == Ipv4Addr::LOCALHOST {
        bind(&socket, &SocketAddr::from((host, 0)))?;
    }
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}
