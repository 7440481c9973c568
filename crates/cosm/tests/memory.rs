//! `--memory-total` holds, whatever clients do: those who ask for much and read nothing, and those who never finish what
//! they ask for. Others are served meanwhile.

mod support;

use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::SOON;
use support::client::Client;
use support::program::Server;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// An origin whose bodies have as many bytes as the path says, sent as fast as they are taken.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks is the other side's business.
            std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop(serve(stream))).unwrap();
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let block = body(251 * 250);
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                n => request.extend_from_slice(&buffer[..n]),
            }
        }
        let text = String::from_utf8_lossy(&request);
        let path = text.split(' ').nth(1).unwrap_or_default();
        if path.ends_with("/head") {
            // One that never ends, of bytes that come slowly.
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            for _ in 0..14 {
                write!(stream, "x: {}\r\n", "y".repeat(4_000))?;
                std::thread::sleep(Duration::from_millis(10));
            }
            return stream.read(&mut buffer).map(drop);
        }
        let mut left: usize = path.split('/').nth(1).and_then(|size| size.parse().ok()).unwrap_or(0);
        request.clear();
        write!(stream, "HTTP/1.1 200 OK\r\ncache-control: max-age=9999\r\ncontent-length: {left}\r\n\r\n")?;
        while left > 0 {
            let n = left.min(block.len());
            stream.write_all(&block[..n])?;
            left -= n;
        }
    }
}

/// Bytes that tell their place.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

fn many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// With so many MiB of memory for as many connections.
fn start(folder: &TempDir, total: u64, connections: u32) -> Server {
    let options = format!(
        "--memory-total {total}MiB --memory 16MiB --cache-size 512MiB --connections-max {connections} --http2 off"
    );
    Server::start(&folder.path().join("cache"), &options)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server.address, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

/// Asks for each of these and reads nothing; all responses have begun when this returns.
fn ask_and_read_nothing(server: &Server, urls: impl Iterator<Item = String>) -> Vec<TcpStream> {
    let ask = |url: String| {
        let mut stream = connect(server);
        write!(stream, "GET {url} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream
    };
    let clients: Vec<TcpStream> = urls.map(ask).collect();
    for (n, client) in clients.iter().enumerate() {
        let begun =
            client.peek(&mut [0]).unwrap_or_else(|error| panic!("response {n} does not begin: {error}"));
        assert_eq!(begun, 1, "response {n}");
    }
    clients
}

/// A client for whom the kernel holds little, so that what it does not read stays with the server; each has an address of its own.
fn narrow(to: SocketAddr, number: u32) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.set_tcp_mss(536).unwrap();
    let address = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 256 + number);
    socket.bind(&SocketAddr::new(address.into(), 0).into()).unwrap();
    socket.connect_timeout(&to.into(), SOON).unwrap();
    socket.set_write_timeout(Some(SOON)).unwrap();
    socket.into()
}

/// Waits until the process's memory has stood still for half a second, and tells the most that it ever had, bytes.
fn settled(server: &Server) -> u64 {
    let until = Instant::now() + SOON;
    let (mut most, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) && Instant::now() < until {
        let now = server.peak();
        if now > most + MIB / 4 {
            (most, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server.peak()
}

#[track_caller]
fn assert_within(server: &Server, total: u64) {
    let most = settled(server);
    println!("{} KiB at most, {} KiB now", most >> 10, server.memory() >> 10);
    assert!(most < total * MIB, "{} KiB of {total} MiB", most >> 10);
}

fn assert_serves(server: &Server, origin: SocketAddr) {
    // What others take of their shares is nothing to who comes from elsewhere.
    let mut client = Client::at(Ipv4Addr::new(127, 9, 9, 9).into(), server.address);
    for (n, size) in [10_000, 3_000_000, 10_000, 3_000_000].into_iter().enumerate() {
        let url = format!("http://{origin}/{size}/other{}", n % 2);
        let answer = client.get(&url, &[]).unwrap_or_else(|error| panic!("{url} ({n}): {error}"));
        assert!(answer.status == 200 && answer.body == body(size), "{url}");
    }
}

#[test]
fn clients_that_read_nothing_of_what_an_origin_sends() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 224, 600);
    let clients = ask_and_read_nothing(&server, (0..300).map(|n| format!("http://{origin}/8000000/{n}")));
    assert_within(&server, 224);
    assert_serves(&server, origin);
    assert_within(&server, 224);
    drop(clients);
}

#[test]
fn clients_that_read_nothing_of_what_the_disk_has() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 192, 400);
    let url = |n| format!("http://{origin}/1500000/{n}");
    let mut client = Client::new(server.address);
    for n in 0..300 {
        assert_eq!(client.get(&url(n), &[]).unwrap().body.len(), 1_500_000);
    }
    let clients = ask_and_read_nothing(&server, (0..300).map(url));
    assert_within(&server, 192);
    assert_serves(&server, origin);
    // Nor is the disk taken for one that hangs, or a hit kept waiting.
    assert_eq!(client.get(&url(299), &[]).unwrap().body.len(), 1_500_000);
    assert_within(&server, 192);
    // What was kept waiting goes on.
    for mut client in clients.into_iter().take(20) {
        let expected = body(1_500_000);
        // As much as there is at least, with the head.
        let mut taken = vec![0; expected.len()];
        client.read_exact(&mut taken).unwrap();
        let head = taken.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let mut rest = vec![0; head];
        client.read_exact(&mut rest).unwrap();
        taken.append(&mut rest);
        assert!(taken[head..] == expected);
    }
}

#[test]
fn heads_that_never_end() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 168, 1100);
    let field = format!("x: {}\r\n", "y".repeat(5_990));
    let head = format!("GET http://{origin}/1/never HTTP/1.1\r\nhost: x\r\n{}", field.repeat(10));
    let clients: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_within(&server, 168);
    assert_serves(&server, origin);
    assert_within(&server, 168);
    drop(clients);
}

#[test]
fn heads_of_clients_that_idle_since() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 168, 400);
    let field = format!("x: {}\r\n", "y".repeat(5_990));
    let head = format!("GET http://{origin}/1/large HTTP/1.1\r\nhost: x\r\n{}\r\n", field.repeat(2));
    let ask = || {
        let mut stream = connect(&server);
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let n = stream.read(&mut answer).unwrap();
        let status = String::from_utf8_lossy(&answer[..n.min(12)]).into_owned();
        assert_eq!(status, "HTTP/1.1 200", "a head has no place");
        stream
    };
    let clients: Vec<TcpStream> = (0..200).map(|_| ask()).collect();
    assert_within(&server, 168);
    drop(clients);
}

#[test]
fn clients_that_read_nothing_of_what_memory_had() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 192, 800);
    let mut clients = Vec::new();
    // As large as the tier takes, and many times what it holds of them.
    for n in 0..700 {
        let url = format!("http://{origin}/250000/{n}");
        let mut reader = connect(&server);
        reader.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        write!(reader, "GET {url} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        // All memory for more is with those who do not read.
        if reader.read_exact(&mut vec![0; 250_000]).is_err() {
            assert!(n > 100, "{n}");
            break;
        }
        let mut stream = narrow(server.address, n);
        write!(stream, "GET {url} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        clients.push(stream);
    }
    assert_within(&server, 192);
    drop(clients);
    assert_serves(&server, origin);
}

#[test]
fn heads_that_an_origin_never_ends() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 168, 900);
    let ask = |n| {
        let mut stream = narrow(server.address, n);
        write!(stream, "GET http://{origin}/{n}/head HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream
    };
    let clients: Vec<TcpStream> = (0..800).map(ask).collect();
    assert_within(&server, 168);
    assert_serves(&server, origin);
    drop(clients);
}

#[test]
fn one_client_leaves_room_for_others() {
    many_files();
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let server = start(&folder, 160, 700);
    let ask = |n| {
        let mut stream = connect(&server);
        write!(stream, "GET http://{origin}/8000000/{n} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream
    };
    let clients: Vec<TcpStream> = (0..600).map(ask).collect();
    assert_within(&server, 160);
    let began = Instant::now();
    assert_serves(&server, origin);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}: they wait for one another", began.elapsed());
    drop(clients);
}

#[test]
fn who_asks_the_admin_interface_and_reads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Server::start(&folder.path().join("cache"), "--cache-size 16MiB --memory 0 --admin 127.0.0.1:0");
    let admin = server.admin();
    let before = settled(&server);
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    for wave in 0..4u32 {
        let ask = |number: u32| {
            let mut stream = narrow(admin, wave * 200 + number);
            // A client may have made way for one that came later.
            let _ = stream.write_all(request.as_bytes());
            stream
        };
        let clients: Vec<TcpStream> = (0..200).map(ask).collect();
        let more = settled(&server) - before;
        assert!(more < 48 * MIB, "wave {wave}: {} KiB more", more >> 10);
        drop(clients);
    }
}
