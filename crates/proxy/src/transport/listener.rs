//! Listening sockets: what is in their way, how workers share them, and the files of Unix sockets.
//!
//! What always holds: a file that is no socket, or on which somebody listens, is never removed, and who listens on a Unix
//! socket has removed its file by the time it stops to listen, unless somebody else put another there. Servers that start at
//! the same moment look one after the other: a socket that is bound and does not listen yet looks like one that was left.

use super::{Address, Socket, UnixPath};
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};
use std::fmt;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};

/// Bytes that may wait in the kernel to be sent to one client before more are written.
const UNSENT: u32 = 256 << 10;

/// Connections that the kernel holds for a listener that is busy.
const BACKLOG: i32 = 4096;

/// How long a start waits for others that are about to listen in the same folder, which takes no time.
const TURN: Duration = Duration::from_secs(2);

/// A listening socket that belongs to no runtime yet.
pub enum Bound {
    Tcp(std::net::TcpListener),
    /// The file goes before the socket closes: in between, its path would look like one that nobody listens on.
    Unix(Arc<SocketFile>, std::os::unix::net::UnixListener),
}

/// A listening socket of one worker.
pub enum Listener {
    Tcp(TcpListener),
    Unix { _file: Arc<SocketFile>, listener: UnixListener },
}

/// Who is at the other end of a connection that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Ip(IpAddr),
    /// A process of this host, which could open the socket's file.
    Unix,
}

/// A listening socket that another process has, or made.
pub struct Handed {
    /// What it is for, and the address as that process was given it, if that is known; port 0 is another one each time.
    pub given: Option<(Service, Address)>,
    pub socket: OwnedFd,
}

/// Who is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Clients,
    Operator,
}

/// Listens on all addresses for so many workers: says where, in the same order, and what each worker accepts on. What another
/// process listens on is taken from there.
pub fn listen(
    addresses: &[Address],
    workers: usize,
    handed: &mut Vec<Handed>,
) -> io::Result<(Vec<Address>, Vec<Vec<Bound>>)> {
    let mut real = Vec::with_capacity(addresses.len());
    let mut of_workers: Vec<Vec<Bound>> = (0..workers).map(|_| Vec::new()).collect();
    for address in addresses {
        let there = adopt((Service::Clients, address), handed).and_then(|there| share(there, workers));
        let bound = there.and_then(|there| match address {
            _ if !there.is_empty() => Ok(there),
            Address::Tcp(address) => listen_by_port(*address, addresses, workers),
            Address::Unix(path) => listen_by_path(path, workers),
        });
        let bound = bound.map_err(|error| cannot_listen(address, error))?;
        real.push(bound.first().map_or_else(|| Ok(address.clone()), Bound::address)?);
        bound.into_iter().enumerate().for_each(|(n, one)| of_workers[n % workers].push(one));
    }
    Ok((real, of_workers))
}

/// Listens on one address that nobody shares.
pub fn listen_alone(address: &Address, handed: &mut Vec<Handed>) -> io::Result<Bound> {
    adopt((Service::Operator, address), handed)
        .and_then(|mut there| match (there.pop(), address) {
            (Some(there), _) => Ok(there),
            (None, Address::Tcp(address)) => bind(*address, Family::Any, false, true).map(Bound::Tcp),
            (None, Address::Unix(path)) => bind_path(path),
        })
        .map_err(|error| cannot_listen(address, error))
}

/// Those of these addresses on which nobody could listen now, and why. Makes no file.
pub fn try_to_listen(listen: &[Address], alone: Option<&Address>) -> Vec<(Address, io::Error)> {
    // All at once: one may be in another's way.
    let (mut bound, mut failed) = (Vec::new(), Vec::new());
    let shared = listen.iter().map(|address| (address, listen));
    for (address, among) in shared.chain(alone.map(|address| (address, &[][..]))) {
        let tried = match address {
            Address::Tcp(tcp) => {
                bind(*tcp, Family::of(*tcp, among), false, false).map(|listener| bound.push(listener))
            }
            Address::Unix(path) => is_stale(path.as_ref()).map(drop),
        };
        failed.extend(tried.err().map(|error| (address.clone(), error)));
    }
    failed
}

impl Bound {
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Bound::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Bound::Unix(file, _) => Ok(Address::Unix(file.path.clone())),
        }
    }

    /// The same socket once more, for another process.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        match self {
            Bound::Tcp(listener) => listener.try_clone().map(OwnedFd::from),
            Bound::Unix(_, listener) => listener.try_clone().map(OwnedFd::from),
        }
    }

    /// Its file, if it has one.
    pub fn file(&self) -> Option<Arc<SocketFile>> {
        match self {
            Bound::Tcp(_) => None,
            Bound::Unix(file, _) => Some(file.clone()),
        }
    }

    /// For the runtime that this is called in.
    pub fn into_listener(self) -> io::Result<Listener> {
        match self {
            Bound::Tcp(listener) => TcpListener::from_std(listener).map(Listener::Tcp),
            Bound::Unix(file, listener) => {
                Ok(Listener::Unix { _file: file, listener: UnixListener::from_std(listener)? })
            }
        }
    }
}

impl Listener {
    pub async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Socket::Tcp(stream), Peer::Ip(address.ip())))
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream), Peer::Unix))
            }
        }
    }
}

impl Peer {
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Peer::Ip(address) => Some(address),
            Peer::Unix => None,
        }
    }
}

/// An address, or `unix`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ip(address) => address.fmt(f),
            Peer::Unix => f.write_str("unix"),
        }
    }
}

/// Takes those out that are of this address: as it was given, or as it is. Where port 0 was given several times, each is another port,
/// and the next of them is meant.
fn adopt((service, address): (Service, &Address), handed: &mut Vec<Handed>) -> io::Result<Vec<Bound>> {
    let is_of = |one: &Handed| match &one.given {
        Some((given, at)) if at == address => *given == service,
        _ => local_address(&one.socket).is_some_and(|real| real == *address),
    };
    let mut next = None;
    let found = handed.extract_if(.., |one| {
        let real = local_address(&one.socket);
        is_of(one) && *next.get_or_insert_with(|| real.clone()) == real
    });
    let found: Vec<Handed> = found.collect();
    let file = match address {
        Address::Unix(path) if !found.is_empty() => Some(Arc::new(SocketFile::of(path).left())),
        _ => None,
    };
    let bound = |Handed { socket, .. }: Handed| {
        SockRef::from(&socket).set_nonblocking(true)?;
        Ok(match &file {
            None => Bound::Tcp(socket.into()),
            Some(file) => Bound::Unix(file.clone(), socket.into()),
        })
    };
    found.into_iter().map(bound).collect()
}

fn local_address(socket: &OwnedFd) -> Option<Address> {
    let local = SockRef::from(socket).local_addr().ok()?;
    let path = || format!("unix:{}", local.as_pathname()?.display()).parse().ok();
    local.as_socket().map(Address::Tcp).or_else(path)
}

/// At least one for each worker: a socket may be accepted on by several.
fn share(mut bound: Vec<Bound>, workers: usize) -> io::Result<Vec<Bound>> {
    for n in 0..workers.saturating_sub(bound.len()).min(workers * bound.len()) {
        let again = match &bound[n] {
            Bound::Tcp(listener) => Bound::Tcp(listener.try_clone()?),
            Bound::Unix(file, listener) => Bound::Unix(file.clone(), listener.try_clone()?),
        };
        bound.push(again);
    }
    Ok(bound)
}

fn cannot_listen(address: &Address, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

// TCP

/// Whose clients a listener on an IPv6 address takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// What the system does: IPv4 as well, on `[::]`.
    Any,
    /// Its own alone.
    Own,
}

impl Family {
    /// IPv4 has listeners of its own on that port, or none.
    fn of(address: SocketAddr, all: &[Address]) -> Family {
        let mut tcp = all.iter().filter_map(Address::tcp);
        let apart = tcp.any(|other| other.is_ipv4() && other.port() == address.port());
        if apart { Family::Own } else { Family::Any }
    }
}

/// A socket for each worker; the kernel spreads connections over them.
fn listen_by_port(address: SocketAddr, all: &[Address], workers: usize) -> io::Result<Vec<Bound>> {
    let family = Family::of(address, all);
    // Sharing the port among workers would also share it with another process: see first whether it is free.
    if address.port() != 0 {
        drop(bind(address, family, false, false)?);
    }
    let (mut bound, mut real) = (Vec::with_capacity(workers), address);
    for _ in 0..workers {
        let listener = bind(real, family, true, true)?;
        real = listener.local_addr()?;
        bound.push(Bound::Tcp(listener));
    }
    Ok(bound)
}

fn bind(
    address: SocketAddr,
    family: Family,
    shared: bool,
    listens: bool,
) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && family == Family::Own {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // What is accepted inherits it.
    socket.set_tcp_nodelay(true)?;
    if listens {
        // Also inherited. What a slow client has not taken shows sooner, and lies less in the kernel. Not all kernels know it.
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

// Unix

/// The file of a socket that somebody here listens on; it goes with the last of its listeners.
pub struct SocketFile {
    path: UnixPath,
    /// Device and inode, which no other file has while the socket is open.
    is: Option<(u64, u64)>,
    /// Another process listens on it too, and removes it.
    is_anothers: AtomicBool,
}

impl SocketFile {
    fn of(path: &UnixPath) -> SocketFile {
        SocketFile { path: path.clone(), is: identity(path), is_anothers: AtomicBool::new(false) }
    }

    /// That of another process.
    fn left(self) -> SocketFile {
        self.leave();
        self
    }

    /// The process whose it was ends.
    pub fn own(&self) {
        self.is_anothers.store(false, Relaxed);
    }

    /// Leaves it to another process.
    pub fn leave(&self) {
        self.is_anothers.store(true, Relaxed);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.is_anothers.load(Relaxed) && self.is.is_some() && self.is == identity(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One socket for all workers: a path has no ports to share. Each wakes when a connection comes, and one gets it.
fn listen_by_path(path: &UnixPath, workers: usize) -> io::Result<Vec<Bound>> {
    let Bound::Unix(file, listener) = bind_path(path)? else { return Ok(Vec::new()) };
    let of_worker = |_| Ok(Bound::Unix(file.clone(), listener.try_clone()?));
    (0..workers).map(of_worker).collect()
}

/// Permissions are what the umask leaves.
fn bind_path(path: &UnixPath) -> io::Result<Bound> {
    let _turn = turn(folder(path.as_ref()), TURN);
    if is_stale(path.as_ref())? {
        fs::remove_file(path)?;
    }
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::of(path);
    socket.listen(BACKLOG)?;
    Ok(Bound::Unix(Arc::new(file), socket.into()))
}

/// Whether a socket's file is left of a process that has gone; `false`: there is none. An error when something else is
/// there, or could not be.
fn is_stale(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => is_left(path),
        Ok(_) => Err(io::Error::new(ErrorKind::AlreadyExists, "a file is there that is no socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_folder = fs::metadata(folder(path)).is_ok_and(|folder| folder.is_dir());
            let missing = || io::Error::new(ErrorKind::NotFound, "its folder is not there");
            if is_folder { Ok(false) } else { Err(missing()) }
        }
        Err(error) => Err(error),
    }
}

/// Nobody listens on a socket that is there.
fn is_left(path: &Path) -> io::Result<bool> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A queue that is full is one that somebody has.
    socket.set_nonblocking(true)?;
    let in_use = || io::Error::new(ErrorKind::AddrInUse, "another process listens there");
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(error) => Err(error),
    }
}

/// Holds off other servers that would listen in a folder, until it is dropped: a lock of the folder, which leaves no file
/// behind. `None` where the folder cannot be locked, or somebody else keeps it locked: whoever may read it can.
fn turn(folder: &Path, patience: Duration) -> Option<File> {
    let folder = if folder.is_dir() { File::open(folder).ok()? } else { return None };
    let until = Instant::now() + patience;
    loop {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::Error(_)) => return None,
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(Duration::from_millis(1)),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn identity(path: &UnixPath) -> Option<(u64, u64)> {
    let of = |found: Metadata| (found.dev(), found.ino());
    fs::symlink_metadata(path).ok().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::sync::Barrier;
    use std::thread;

    fn unix(folder: &tempfile::TempDir, name: &str) -> Address {
        format!("unix:{}", folder.path().join(name).display()).parse().unwrap()
    }

    fn path(address: &Address) -> &Path {
        match address {
            Address::Unix(path) => path.as_ref(),
            Address::Tcp(_) => unreachable!(),
        }
    }

    fn kind(address: &Address) -> ErrorKind {
        let error = listen(std::slice::from_ref(address), 1, &mut Vec::new()).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot listen on {address}: ")) && text.lines().count() == 1);
        let tried = try_to_listen(std::slice::from_ref(address), None);
        assert_eq!((tried.len(), tried[0].1.kind()), (1, error.kind()), "{text}");
        error.kind()
    }

    #[test]
    fn a_file_that_nobody_listens_on_is_replaced_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| unix(&folder, name);
        let (stale, live, file, full) = (at("stale"), at("live"), at("file"), at("full"));
        drop(UnixListener::bind(path(&stale)).unwrap());
        let _live = UnixListener::bind(path(&live)).unwrap();
        fs::write(path(&file), "text").unwrap();
        let crowded = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        crowded.bind(&SockAddr::unix(path(&full)).unwrap()).unwrap();
        crowded.listen(0).unwrap();
        let _first = UnixStream::connect(path(&full)).unwrap();
        let _datagrams = UnixDatagram::bind(path(&at("datagrams"))).unwrap();
        std::os::unix::fs::symlink(path(&stale), path(&at("link"))).unwrap();
        assert_eq!(kind(&live), ErrorKind::AddrInUse);
        assert_eq!(kind(&full), ErrorKind::AddrInUse);
        assert_eq!(kind(&file), ErrorKind::AlreadyExists);
        assert_eq!(kind(&at("link")), ErrorKind::AlreadyExists);
        assert_eq!(kind(&at("no/such/folder")), ErrorKind::NotFound);
        kind(&at("datagrams"));
        for left in [&live, &file, &full, &at("link"), &at("datagrams")] {
            assert!(fs::symlink_metadata(path(left)).is_ok(), "{left} is not ours to remove");
        }
        assert!(try_to_listen(&[stale.clone(), at("new")], Some(&at("other"))).is_empty());
        assert!(!path(&at("new")).exists() && path(&stale).exists(), "nothing was written");
        let (real, bound) = listen(std::slice::from_ref(&stale), 3, &mut Vec::new()).unwrap();
        assert_eq!((real, bound.len()), (vec![stale.clone()], 3));
        assert!(bound.iter().all(|of_worker| of_worker.len() == 1));
        assert!(UnixStream::connect(path(&stale)).is_ok());
        assert_eq!(kind(&stale), ErrorKind::AddrInUse, "now it is live");
    }

    /// Else one would answer in the clear where another spoke TLS.
    #[test]
    fn each_port_0_goes_on_with_its_own_port() {
        let addresses = vec!["127.0.0.1:0".parse::<Address>().unwrap(); 3];
        let (real, bound) = listen(&addresses, 2, &mut Vec::new()).unwrap();
        let hand = |bound: &Bound| Handed {
            given: Some((Service::Clients, addresses[0].clone())),
            socket: bound.descriptor().unwrap(),
        };
        let mut handed: Vec<Handed> = bound.iter().flatten().map(hand).collect();
        let (again, bound) = listen(&addresses, 2, &mut handed).unwrap();
        assert_eq!((again, handed.len()), (real.clone(), 0));
        for of_worker in &bound {
            assert_eq!(of_worker.iter().map(|bound| bound.address().unwrap()).collect::<Vec<_>>(), real);
        }
    }

    #[test]
    fn of_servers_that_start_at_the_same_moment_one_gets_a_socket_that_was_left() {
        const SERVERS: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        let address = unix(&folder, "a");
        for _ in 0..100 {
            drop(UnixListener::bind(path(&address)).unwrap());
            let start = Barrier::new(SERVERS);
            let tried: Vec<_> = thread::scope(|scope| {
                let server = || {
                    start.wait();
                    listen_alone(&address, &mut Vec::new())
                };
                let servers: Vec<_> = (0..SERVERS).map(|_| scope.spawn(server)).collect();
                servers.into_iter().map(|server| server.join().unwrap()).collect()
            });
            let failed = tried.iter().filter_map(|tried| tried.as_ref().err().map(io::Error::kind));
            assert_eq!(failed.collect::<Vec<_>>(), [ErrorKind::AddrInUse; SERVERS - 1]);
            assert!(UnixStream::connect(path(&address)).is_ok(), "and has it still");
        }
        let held = turn(folder.path(), TURN);
        assert!(held.is_some() && turn(folder.path(), Duration::ZERO).is_none());
    }

    #[test]
    fn the_file_goes_with_the_last_listener_unless_it_is_anothers() {
        let folder = tempfile::tempdir().unwrap();
        let address = unix(&folder, "a");
        let (_, mut bound) = listen(std::slice::from_ref(&address), 2, &mut Vec::new()).unwrap();
        bound.pop();
        assert!(UnixStream::connect(path(&address)).is_ok(), "one is left");
        drop(bound);
        assert!(!path(&address).exists());
        let first = listen_alone(&address, &mut Vec::new()).unwrap();
        fs::remove_file(path(&address)).unwrap();
        let _second = listen_alone(&address, &mut Vec::new()).unwrap();
        drop(first);
        assert!(UnixStream::connect(path(&address)).is_ok(), "the second's is there");
    }
}
