//! Who may reach what, what an error tells, and what is shared: as clients on this host and beside it see it.

mod support;

use proxy::{Network, SetCookie, Settings};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use support::{Client, Message, Origin, Proxy, cache_status, ok, origin_of};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Addresses of this host that are not loopback: a client that connects to one comes from it. Nothing is sent to find out.
fn outer_addresses() -> Vec<IpAddr> {
    let ask = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = [ask("0.0.0.0:0", "203.0.113.1:9"), ask("[::]:0", "[2001:db8::1]:9")];
    let found: Vec<_> = found.into_iter().flatten().filter(|address| !address.is_loopback()).collect();
    if found.is_empty() {
        println!("skipped: this host has no address but loopback ones");
    }
    found
}

/// A name that the system's own table has for 127.0.0.1, other than localhost.
fn name_of_loopback() -> Option<String> {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names =
        lines.filter_map(|line| line.trim().strip_prefix("127.0.0.1")).flat_map(str::split_whitespace);
    let name = names.filter(|name| !name.contains("localhost")).map(str::to_owned).next();
    if name.is_none() {
        println!("skipped: no name in /etc/hosts leads to 127.0.0.1");
    }
    name
}

fn networks(text: &str) -> Vec<Network> {
    text.split_whitespace().map(|network| network.parse().unwrap()).collect()
}

/// Listens everywhere and serves everybody; CONNECT may reach `port`.
fn open_proxy(port: u16, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.listen = vec!["[::]:0".parse().unwrap()];
        settings.clients = networks("0.0.0.0/0 ::/0");
        settings.connect_ports = vec![port, 443];
        change(settings);
    })
}

/// A client that connects to the proxy at one of its host's addresses, and comes from there.
async fn client_at(proxy: &Proxy, address: IpAddr) -> Client {
    Client::connect(SocketAddr::new(address, proxy.address.port())).await
}

fn request(method: &str, authority: &str) -> String {
    match method {
        "CONNECT" => format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        _ => {
            format!("{method} http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 0\r\n\r\n")
        }
    }
}

fn is_refused(answer: &Message) -> bool {
    answer.status() == 403
        && answer.reason().contains("--reach")
        && answer.reason().lines().count() == 1
        && !answer.reason().contains(|c: char| c.is_ascii_digit())
}

#[tokio::test]
async fn this_host_is_for_clients_on_it() {
    let origin = Origin::answering(ok(FRESH, "inner")).await;
    let port = origin.address.port();
    let mut hosts: Vec<String> =
        ["127.0.0.1", "localhost", "a.LOCALHOST.", "127.7.7.7", "0.0.0.0", "[::1]", "[::]"]
            .into_iter()
            .chain(["[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::7f00:1]"])
            .map(|host| format!("{host}:{port}"))
            .collect();
    hosts.extend(name_of_loopback().map(|name| format!("{name}:{port}")));
    for address in outer_addresses() {
        let proxy = open_proxy(port, |_| {});
        hosts.push(SocketAddr::new(address, port).to_string());
        for method in ["GET", "POST", "CONNECT"] {
            for host in &hosts {
                let answer = client_at(&proxy, address).await.get(request(method, host)).await;
                assert!(is_refused(&answer), "{address}: {method} {host}: {answer:?}");
            }
        }
        assert_eq!(origin.requests().len(), 0);
        // What a client of this host fetched, and the connection it left behind, are none of the other's either.
        for host in
            [Some(format!("localhost:{port}")), name_of_loopback().map(|name| format!("{name}:{port}"))]
        {
            let Some(host) = host else { continue };
            let mut near = Client::connect(SocketAddr::from(([127, 0, 0, 1], proxy.address.port()))).await;
            assert_eq!(near.get(request("GET", &host)).await.text(), "inner", "{host}");
            let again = cache_status(&near.get(request("GET", &host)).await).to_owned();
            let stored = host.starts_with("localhost");
            assert_eq!(
                again,
                if stored { "cosm; hit" } else { "cosm; fwd=uri-miss; detail=restricted" },
                "{host}"
            );
            for method in ["GET", "POST", "CONNECT"] {
                let answer = client_at(&proxy, address).await.get(request(method, &host)).await;
                assert!(is_refused(&answer), "{address}: {method} {host}: {answer:?}");
            }
        }
        hosts.pop();
        *origin.seen.lock().unwrap() = Vec::new();
    }
}

#[tokio::test]
async fn what_is_listed_is_for_all() {
    let origin = Origin::answering(ok(FRESH, "inner")).await;
    let host = origin.address.to_string();
    for address in outer_addresses() {
        let proxy = open_proxy(0, |settings| settings.reach = networks("127.0.0.1"));
        let mut client = client_at(&proxy, address).await;
        assert_eq!(client.get(request("GET", &host)).await.text(), "inner");
        assert_eq!(cache_status(&client.get(request("GET", &host)).await), "cosm; hit");
    }
}

#[tokio::test]
async fn what_comes_from_an_address_of_this_host_is_not_shared() {
    for address in outer_addresses() {
        let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut client = Client::of(stream);
                while client.head().await.is_some() {
                    client.send(ok(FRESH, "own")).await;
                }
            }
        });
        let proxy = open_proxy(0, |_| {});
        let mut near = Client::connect(SocketAddr::from(([127, 0, 0, 1], proxy.address.port()))).await;
        for _ in 0..2 {
            let answer = near.get(request("GET", &host)).await;
            assert_eq!(
                (answer.text(), cache_status(&answer)),
                ("own", "cosm; fwd=uri-miss; detail=restricted")
            );
        }
        assert!(is_refused(&client_at(&proxy, address).await.get(request("GET", &host)).await));
    }
}

#[tokio::test]
async fn nobody_reaches_what_clouds_tell_machines_or_what_no_host_is() {
    let proxy = Proxy::forward();
    for host in [
        "169.254.169.254",
        "169.254.1.1",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "168.63.129.16",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "224.0.0.1",
        "255.255.255.255",
        "[ff02::1]",
    ] {
        for (method, port) in [("GET", 80), ("POST", 80), ("CONNECT", 443)] {
            let answer = proxy.client().await.get(request(method, &format!("{host}:{port}"))).await;
            assert!(is_refused(&answer), "{method} {host}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn connect_takes_a_host_and_a_port_only() {
    let proxy = Proxy::forward();
    for target in [
        "u@127.0.0.1:443",
        "u:p@127.0.0.1:443",
        "127.0.0.1:+443",
        "127.0.0.1:0x1bb",
        "127.0.0.1:",
        "127.0.0.1",
        ":443",
        "http://127.0.0.1:443",
        "http://127.0.0.1:443/",
        "/127.0.0.1:443",
        "*",
    ] {
        let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(proxy.client().await.get(connect).await.status(), 400, "{target}");
    }
}

#[tokio::test]
async fn errors_tell_clients_no_address_and_no_cause() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let origins = [
        (None, 502, "the origin cannot be reached"),
        (Some(Origin::with(|mut client, _| async move { drop(client.head().await) }).await), 502, ""),
        (Some(Origin::with(|mut client, _| async move { drop(client.rest().await) }).await), 504, ""),
    ];
    for (origin, status, text) in origins {
        let address = origin.as_ref().map_or(gone, |origin| origin.address);
        for reverse in [true, false] {
            let proxy = Proxy::with(|settings| {
                settings.origin = reverse.then(|| format!("http://{address}").parse().unwrap());
                settings.timeouts.origin_first_byte = Duration::from_millis(100);
            });
            for url in [format!("http://{address}/"), "/".to_owned()] {
                if !reverse && url == "/" {
                    continue;
                }
                let request = format!("GET {url} HTTP/1.1\r\nHost: outer\r\n\r\n");
                let answer = proxy.client().await.get(request).await;
                assert_eq!(answer.status(), status, "{answer:?}");
                assert!(answer.reason().starts_with(text) && answer.reason().starts_with("the origin "));
                assert!(!answer.reason().contains(|c: char| c.is_ascii_digit()), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn cookies_are_shared_only_where_the_operator_says_so() {
    for (set_cookie, shared) in [(SetCookie::Never, false), (SetCookie::Fresh, true)] {
        let origin = origin_of(|_, n| ok(&format!("{FRESH}Set-Cookie: id={n}\r\n"), &n.to_string())).await;
        let proxy = Proxy::with(|settings| settings.set_cookie = set_cookie);
        let mut client = proxy.client().await;
        let first = client.get(origin.request("/", "")).await;
        let expected =
            if shared { "cosm; fwd=uri-miss; stored" } else { "cosm; fwd=uri-miss; detail=set-cookie" };
        assert_eq!(cache_status(&first), expected);
        let second = client.get(origin.request("/", "")).await;
        assert_eq!(second.field("set-cookie"), Some(if shared { "id=0" } else { "id=1" }));
    }
    assert_eq!(Settings::default().set_cookie, SetCookie::Never);
}

#[tokio::test]
async fn an_update_that_sets_a_cookie_ends_the_storing() {
    let table = [("GET", "Cache-Control: max-age=0\r\n"), ("HEAD", FRESH)];
    for (method, fields) in table {
        let origin = origin_of(move |request, n| {
            let cookie = format!("ETag: \"e\"\r\nSet-Cookie: id={n}\r\n");
            if request.starts_with("HEAD") {
                return format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{FRESH}{cookie}\r\n");
            }
            if request.contains("if-none-match") {
                return format!("HTTP/1.1 304 Not Modified\r\n{FRESH}{cookie}\r\n");
            }
            ok(&format!("{fields}ETag: \"e\"\r\n"), "x")
        })
        .await;
        let proxy = Proxy::forward();
        let mut client = proxy.client().await;
        assert_eq!(cache_status(&client.get(origin.request("/", "")).await), "cosm; fwd=uri-miss; stored");
        let update = origin.request("/", "Cache-Control: no-cache\r\n").replacen("GET", method, 1);
        client.send(update).await;
        let head = client.head().await.unwrap();
        assert_eq!(support::field(&head, "set-cookie"), Some("id=1"), "{method}: {head}");
        let mut client = proxy.client().await;
        let after = client.get(origin.request("/", "")).await;
        assert_eq!((cache_status(&after), after.field("set-cookie")), ("cosm; fwd=uri-miss; stored", None));
    }
}

#[tokio::test]
async fn what_was_stored_when_more_was_permitted_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let at = store::Options::at(folder.path().join("cache"));
        store::Store::open(&store::Options {
            size: Some(64 << 20),
            patience: std::time::Duration::from_secs(60),
            ..at
        })
        .unwrap()
    };
    let origin = origin_of(|_, n| ok(&format!("{FRESH}Set-Cookie: id={n}\r\n"), "x")).await;
    for (set_cookie, cookie) in
        [(SetCookie::Fresh, "id=0"), (SetCookie::Fresh, "id=0"), (SetCookie::Never, "id=1")]
    {
        let store = open();
        let proxy = Proxy::over(Some(store.clone()), |settings| settings.set_cookie = set_cookie);
        let answer = proxy.client().await.get(origin.request("/", "")).await;
        assert_eq!(answer.field("set-cookie"), Some(cookie), "{set_cookie:?}");
        drop(proxy);
        store.close();
    }
}

#[tokio::test]
async fn what_is_no_status_is_passed_on_and_not_stored() {
    for status in [600, 777, 999] {
        let origin = Origin::answering(ok(FRESH, "x").replacen("200 OK", &format!("{status} x"), 1)).await;
        let proxy = Proxy::forward();
        for _ in 0..2 {
            let answer = proxy.client().await.get(origin.request("/", "")).await;
            assert_eq!(answer.status(), status);
            assert_eq!(cache_status(&answer), "cosm; fwd=uri-miss; detail=status");
        }
    }
}
