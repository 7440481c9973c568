//! Addresses to listen on: those of both families on one port, and what is in the way of others.

use proxy::{Address, Settings, start, try_addresses};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

fn settings(listen: Vec<Address>) -> Settings {
    Settings { listen: listen.into_iter().map(Into::into).collect(), ..Settings::default() }
}

/// A port that was free a moment ago, on both families.
fn free_port() -> Option<u16> {
    let both = TcpListener::bind("[::]:0");
    both.inspect_err(|error| println!("skipped: no IPv6 here: {error}"))
        .ok()?
        .local_addr()
        .ok()
        .map(|a| a.port())
}

#[test]
fn both_families_listen_on_one_port() {
    for order in [["0.0.0.0", "[::]"], ["[::]", "0.0.0.0"], ["127.0.0.1", "[::]"]] {
        // Somebody else may take the port meanwhile.
        let tries = (0..20).map_while(|_| free_port()).map(|port| {
            let listen = order.map(|host| format!("{host}:{port}").parse().unwrap());
            start(settings(listen.into()), None).map(|running| (running, port))
        });
        let mut tries = tries.peekable();
        if tries.peek().is_none() {
            return;
        }
        let (running, port) = tries.find_map(Result::ok).unwrap_or_else(|| panic!("{order:?} are in use"));
        for address in [SocketAddr::from(([127, 0, 0, 1], port)), format!("[::1]:{port}").parse().unwrap()] {
            assert!(TcpStream::connect(address).is_ok(), "{order:?}: {address}");
        }
        running.stop();
        running.wait().unwrap();
    }
}

#[test]
fn addresses_are_tried_and_left() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = (taken.local_addr().unwrap(), taken);
    // No host here has an address for documentation (RFC 5737).
    let elsewhere: SocketAddr = "192.0.2.1:0".parse().unwrap();
    let mut settings = settings(vec![taken.0.into(), elsewhere.into(), "127.0.0.1:0".parse().unwrap()]);
    settings.admin = Some(taken.0.into());
    let failed: Vec<_> = try_addresses(&settings).into_iter().map(|(at, error)| (at, error.kind())).collect();
    let expected = [
        (taken.0.into(), ErrorKind::AddrInUse),
        (elsewhere.into(), ErrorKind::AddrNotAvailable),
        (taken.0.into(), ErrorKind::AddrInUse),
    ];
    assert_eq!(failed, expected);
}
