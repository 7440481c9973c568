//! Listeners that speak TLS, and those that lead to them.

mod support;

use proxy::{Certificates, KeyFiles, LeastVersion, Listen, Roots, Settings, TicketKeys};
use rustls::version::{TLS12, TLS13};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::http2::Http2;
use support::tls::{Authority, believing, connect};
use support::{Client, Origin, Proxy, SOON, cache_status, ok, origin_of, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const FRESH: &str = "Cache-Control: max-age=1000\r\n";

fn listen(text: &str) -> Vec<Listen> {
    text.split(',').map(|one| one.parse().unwrap()).collect()
}

/// A reverse proxy that speaks TLS for a.test.
fn secure(authority: &Authority, origin: &Origin, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.listen = listen("tls:127.0.0.1:0");
        settings.tls.certificates = authority.certificates(&["a.test"]);
        change(settings);
    })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

fn purge_of(host: &str) -> String {
    format!("PURGE / HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// A number of the statistics.
async fn number(proxy: &Proxy, section: &str, name: &str) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats[section][name].as_u64().unwrap_or_else(|| panic!("no {section}.{name}"))
}

async fn wait_for(proxy: &Proxy, name: &str, count: u64) {
    soon(async {
        while number(proxy, "tls", name).await < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_agreed_on_by_alpn() {
    let authority = Authority::new();
    let origin = Origin::answering(ok(FRESH, "hello")).await;
    let settings = |on| {
        let mut settings = Settings { listen: listen("tls:127.0.0.1:0"), ..Settings::default() };
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.tls.certificates = authority.certificates(&["a.test"]);
        settings.tls.hsts = Some("max-age=600".parse().unwrap());
        settings.http2.on = on;
        settings
    };
    let proxy = Proxy::with(|all| *all = settings(true));
    let open = async |protocols: &[&[u8]]| {
        let mut config = authority.client(rustls::ALL_VERSIONS, None);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        connect(proxy.address, "a.test", config.into()).await.map(Client::into_stream)
    };
    let both: &[&[u8]] = &[b"http/1.1", b"h2"];
    let stream = open(both).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "the proxy chooses");
    let mut client = Http2::over(stream, &h2::client::Builder::new()).await;
    for expected in ["cosm; fwd=uri-miss; stored", "cosm; hit"] {
        let answer = client.get("https://a.test/").await;
        assert_eq!((answer.text(), answer.cache_status()), ("hello", expected));
        assert_eq!(answer.field("strict-transport-security"), Some("max-age=600"));
    }
    // Who knows no ALPN, or not HTTP/2, is served as before.
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut old = Client::of(open(protocols).await.unwrap());
        assert_eq!(cache_status(&old.get(get("/")).await), "cosm; hit");
    }
    proxy.reload(settings(false));
    let stream = open(both).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(open(&[b"h2"]).await.is_err(), "there is nothing to agree on");
    assert_eq!(client.get("https://a.test/").await.text(), "hello", "what is open stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_serve_what_plain_http_would() {
    let authority = Authority::new();
    let large = "0123456789".repeat(100_000);
    let body = large.clone();
    let origin = origin_of(move |request, _| match request.starts_with("GET /large") {
        true => ok(FRESH, &body),
        false => ok(FRESH, "small"),
    })
    .await;
    let proxy = secure(&authority, &origin, |settings| settings.admin = "127.0.0.1:0".parse().ok());
    for (version, name) in [(&TLS13, "TLSv1.3"), (&TLS12, "TLSv1.2")] {
        let config = authority.client(&[version], None);
        let mut client = connect(proxy.address, "a.test", config.into()).await.unwrap();
        for (path, body) in [("/small", "small"), ("/large", &*large), ("/small", "small")] {
            let answer = client.get(get(path)).await;
            assert_eq!((answer.status(), answer.text()), (200, body), "{name}");
        }
        assert_eq!(cache_status(&client.get(get("/large")).await), "cosm; hit");
        assert_eq!(number(&proxy, "tls", "open").await, 1);
        client.send("GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
        assert!(client.rest().await.ends_with("small"));
        // The end was said: it is no cut.
        let mut stream = client.into_stream();
        assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0);
    }
    assert_eq!(number(&proxy, "tls", "handshakes-full").await, 2);
    let old = authority.client(&[&TLS12], None);
    let proxy = secure(&authority, &origin, |settings| {
        settings.tls.least = LeastVersion::Tls13;
        settings.admin = "127.0.0.1:0".parse().ok();
    });
    let refused = connect(proxy.address, "a.test", old.into()).await.err().unwrap();
    assert!(refused.to_string().contains("ProtocolVersion"), "{refused}");
    wait_for(&proxy, "handshakes-failed", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_choose_certificates() {
    let authority = Authority::new();
    let origin = Origin::answering(ok("", "x")).await;
    let files = [("one", &["a.test"][..]), ("two", &["b.test", "*.c.test"]), ("three", &["d.c.test"])];
    let files: Vec<KeyFiles> = files.iter().map(|(file, names)| authority.write(file, names)).collect();
    let certificates = Arc::new(proxy::Certificates::load(files).unwrap());
    assert_eq!(certificates.names(), ["*.c.test", "a.test", "b.test", "d.c.test"]);
    let proxy = secure(&authority, &origin, |settings| settings.tls.certificates = Some(certificates));
    for (name, fits) in [
        ("a.test", true),
        ("B.test", true),
        ("x.c.test", true),
        ("d.c.test", true),
        ("x.y.c.test", false),
        ("c.test", false),
        ("e.test", false),
    ] {
        let config = authority.client(&[&TLS13], None);
        let connected = connect(proxy.address, name, config.into()).await;
        assert_eq!(connected.is_ok(), fits, "{name}");
        if let Err(error) = connected {
            assert!(error.to_string().contains("a.test"), "the first is for all others: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_speak_tls_is_told_so() {
    let authority = Authority::new();
    let origin = Origin::answering(ok("", "x")).await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.listen = listen("tls:127.0.0.1:0,127.0.0.1:0");
        settings.admin = "127.0.0.1:0".parse().ok();
    });
    let mut plain = proxy.client().await;
    let answer = plain.get(get("/")).await;
    assert_eq!(
        (answer.status(), answer.reason()),
        (400, "this port speaks HTTPS, not HTTP: use https:// for it")
    );
    assert!(plain.is_closed().await);
    wait_for(&proxy, "handshakes-plain", 1).await;
    // Neither HTTP nor TLS, half a handshake, and nothing at all.
    for bytes in [&b"\x00\x01\x02"[..], b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", b"\x16\x03\x01", b""] {
        let mut client = proxy.client().await;
        client.send(bytes).await;
        client.finish().await;
        client.rest_of_bytes().await;
    }
    soon(async {
        while number(&proxy, "tls", "handshakes-failed").await
            + number(&proxy, "tls", "handshakes-left").await
            < 4
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // TLS to a port for plain HTTP.
    let config = authority.client(&[&TLS13], None);
    let error = connect(proxy.tcp_address(1), "a.test", config.into()).await.err().unwrap();
    assert!(error.to_string().contains("InvalidContentType"), "{error}");
    assert_eq!(authority.connect(proxy.address, "a.test").await.get(get("/")).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_handshakes_end_and_do_not_crowd_out_others() {
    let authority = Authority::new();
    let origin = Origin::answering(ok("", "x")).await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.timeouts.client_handshake = Duration::from_millis(200);
        settings.admin = "127.0.0.1:0".parse().ok();
    });
    let mut slow = proxy.client().await;
    slow.send(b"\x16\x03\x01").await;
    assert!(slow.is_closed().await);
    wait_for(&proxy, "handshakes-late", 1).await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.timeouts.client_handshake = SOON * 10;
        settings.bounds.handshakes = 2;
        settings.admin = "127.0.0.1:0".parse().ok();
    });
    let mut silent = Vec::new();
    for n in 1..=3 {
        silent.push(proxy.client().await);
        soon(async {
            while number(&proxy, "connections", "accepted").await < n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    assert!(silent[0].is_closed().await, "the oldest makes way");
    assert_eq!(authority.connect(proxy.address, "a.test").await.get(get("/")).await.status(), 200);
    assert!(silent[2].is_silent().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_prove_who_they_are() {
    let (authority, other) = (Authority::new(), Authority::new());
    let origin = Origin::answering(ok("", "x")).await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.tls.client_roots = Some(Roots::load(&authority.file()).unwrap());
    });
    for (own, is_served) in [
        (None, false),
        (Some(other.issue(&["client"])), false),
        (Some(authority.expired(&["client"])), false),
        (Some(authority.issue(&["client"])), true),
    ] {
        let config = authority.client(&[&TLS13], own);
        let mut client = connect(proxy.address, "a.test", config.into()).await.unwrap();
        // A client of TLS 1.3 is told after its part is done.
        let is_sent = client.try_send(get("/")).await;
        let answer = client.rest_or_message().await;
        assert_eq!(is_sent && answer.starts_with("HTTP/1.1 200"), is_served, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_under_load() {
    let authority = Authority::new();
    let origin = Origin::answering(ok(FRESH, "x")).await;
    let proxy = secure(&authority, &origin, |_| {});
    let path = authority.at("a.test.pem");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (stop, done) = (stop.clone(), done.clone());
        let (address, config) = (proxy.address, Arc::new(authority.client(rustls::ALL_VERSIONS, None)));
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let mut client = connect(address, "a.test", config.clone()).await.unwrap();
                assert_eq!(client.get(get("/")).await.status(), 200);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    // What is of no use changes nothing.
    std::fs::write(&path, "half of a certific").unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    authority.issue(&["a.test", "new.test"]).write(&path);
    soon(async {
        let config = Arc::new(authority.client(&[&TLS13], None));
        while connect(proxy.address, "new.test", config.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(done.load(Ordering::Relaxed) > 4);
}

#[test]
fn files_that_do_not_fit_are_refused_in_words() {
    let authority = Authority::new();
    let (one, other) = (authority.issue(&["a.test"]), authority.issue(&["b.test"]));
    let at = |name: &str| authority.at(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(authority.at(name), text).unwrap();
    write("chain", &one.chain);
    write("key", &other.key);
    write("no-key", &one.chain);
    write("empty", "");
    write("not-der", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write("encrypted", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    for (files, says) in [
        (format!("{}:{}", at("chain"), at("key")), "the key in"),
        (at("no-key"), "has no private key"),
        (at("empty"), "has no certificate"),
        (at("missing"), "cannot read"),
        (at("not-der"), "has no private key"),
        (format!("{}:{}", at("chain"), at("encrypted")), "which no password protects"),
    ] {
        let error = proxy::Certificates::load(vec![KeyFiles::of(&files)]).unwrap_err();
        assert!(error.contains(says) && error.lines().count() == 1, "{files}: {error}");
        assert!(!error.contains("BEGIN PRIVATE KEY\n"), "{error}");
    }
    let files = authority.write("both", &["a.test"]);
    assert_eq!(files.doubt(), None);
    write("key", &one.key);
    let open = KeyFiles::of(&format!("{}:{}", at("chain"), at("key")));
    assert!(open.doubt().unwrap().contains("is open to all users"));
    let certificates = proxy::Certificates::load(vec![files]).unwrap();
    assert!(!format!("{certificates:?}").contains("PRIVATE") && !certificates.is_outdated());
    let secure = Settings { listen: listen("tls:127.0.0.1:0"), ..Settings::default() };
    let error = proxy::start(secure, None).err().unwrap().to_string();
    assert_eq!(error, "tls:127.0.0.1:0 needs a certificate");
}

#[test]
fn what_is_ordered_stays_while_its_file_is_of_no_use() {
    /// In 2026, seconds.
    const NOW: u64 = 1_780_000_000;
    let authority = Authority::new();
    let (one, two) = (authority.at("one.pem"), authority.at("two.pem"));
    let write = |path, names: &[&str]| drop(authority.issue(names).write(path));
    let of_files = || Certificates::with_ordered(Vec::new(), [one.clone(), two.clone()]).unwrap();
    write(&one, &["a.test"]);
    let held = of_files();
    assert_eq!((held.names(), held.missing().count(), held.why_one_stays()), (vec!["a.test"], 1, None));
    // Until it is of use it is looked at, and others are taken meanwhile.
    std::fs::write(&one, "spoilt").unwrap();
    let again = held.again(NOW).unwrap();
    assert!(again.names() == ["a.test"] && again.is_outdated() && again.is_same(&held));
    assert!(again.why_one_stays().unwrap().contains("one.pem has no certificate"));
    write(&two, &["b.test"]);
    let again = again.again(NOW).unwrap();
    assert!(again.names() == ["a.test", "b.test"] && again.is_outdated() && !again.is_same(&held));
    // So it is where settings are read anew, which know nothing of what was.
    let new = of_files();
    assert_eq!(new.names(), ["b.test"]);
    let new = new.with_those_of(&again, NOW);
    assert!(new.names() == ["a.test", "b.test"] && new.is_outdated());
    // What is worse than what was there is of no use either.
    authority.expired(&["c.test"]).write(&one);
    let new = new.again(NOW).unwrap();
    assert!(new.names() == ["a.test", "b.test"] && new.why_one_stays().unwrap().contains("has expired"));
    let new = of_files().with_those_of(&new, NOW);
    assert_eq!(new.names(), ["a.test", "b.test"], "also when settings are read anew");
    write(&one, &["c.test"]);
    let new = new.again(NOW).unwrap();
    assert!(new.names() == ["b.test", "c.test"] && !new.is_outdated() && new.why_one_stays().is_none());
}

#[test]
fn each_certificate_has_a_life() {
    let authority = Authority::new();
    let one = authority.write("one.pem", &["a.test"]);
    let expired = authority.expired(&["a.test", "b.test"]).write(&authority.at("expired.pem"));
    let nameless = authority.write("nameless.pem", &[]);
    let lives = Certificates::load(vec![one, expired, nameless]).unwrap().lives();
    let names: Vec<_> = lives.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["a.test", authority.at("nameless.pem").to_str().unwrap()]);
    assert_eq!(lives[0].life.until, 1_009_843_200, "of two, the one that ends first");
}

#[test]
fn issuers_that_could_not_be_read_are_read_again() {
    let authority = Authority::new();
    let mut tls = believing(&authority);
    tls.own = Some(KeyFiles::of(authority.at("own.pem").to_str().unwrap()));
    assert!(tls.config(false).unwrap_err().contains("cannot read"));
    authority.write("own.pem", &["a.test"]);
    let made = tls.config(false).unwrap();
    assert!(Arc::ptr_eq(&made, &tls.config(false).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_leads_to_https_and_browsers_remember_it() {
    let authority = Authority::new();
    let origin = origin_of(|request, _| match request.contains(" /own") {
        true => ok("Strict-Transport-Security: max-age=0\r\n", "x"),
        false => ok("", "x"),
    })
    .await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.listen = listen("tls:127.0.0.1:0,redirect:127.0.0.1:0,127.0.0.1:0");
        settings.tls.hsts = Some("max-age=1000".parse().unwrap());
    });
    let port = proxy.address.port();
    let mut plain = Client::connect(proxy.tcp_address(1)).await;
    for (request, status, location) in [
        (get("/a?b=c"), 301, format!("https://a.test:{port}/a?b=c")),
        ("GET / HTTP/1.1\r\nHost: a.test:80\r\n\r\n".into(), 301, format!("https://a.test:{port}/")),
        ("HEAD / HTTP/1.1\r\nHost: [::1]\r\n\r\n".into(), 301, format!("https://[::1]:{port}/")),
        (
            "GET http://b.test/p HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            301,
            format!("https://b.test:{port}/p"),
        ),
        (
            "POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx".into(),
            308,
            format!("https://a.test:{port}/p"),
        ),
    ] {
        plain.send(&request).await;
        let is_head = request.starts_with("HEAD");
        let head = plain.head().await.unwrap();
        let body = if is_head { Vec::new() } else { plain.body(&head).await };
        let answer = support::Message { head, body };
        assert_eq!((answer.status(), answer.field("location")), (status, Some(&*location)), "{request}");
        assert_eq!(answer.field("strict-transport-security"), None);
    }
    for wrong in
        ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: \r\n\r\n"]
    {
        let answer = Client::connect(proxy.tcp_address(1)).await.get(wrong).await;
        assert_eq!(answer.status(), 400, "{wrong}");
    }
    assert!(origin.requests().is_empty());
    let mut secure = authority.connect(proxy.address, "a.test").await;
    for (path, hsts) in [("/", "max-age=1000"), ("/own", "max-age=0"), ("*", "max-age=1000")] {
        assert_eq!(secure.get(get(path)).await.field("strict-transport-security"), Some(hsts), "{path}");
    }
    let plain = Client::connect(proxy.tcp_address(2)).await.get(get("/")).await;
    assert_eq!(plain.field("strict-transport-security"), None, "it says nothing without TLS");
}

#[tokio::test(flavor = "multi_thread")]
async fn origins_know_the_scheme_and_what_is_stored_is_told_apart_by_it() {
    let authority = Authority::new();
    let origin = origin_of(|request, _| {
        let scheme = support::field(request, "x-forwarded-proto").unwrap_or("none").to_owned();
        let standard = support::field(request, "forwarded").unwrap_or_default().to_owned();
        assert!(standard.ends_with(&format!("proto={scheme}")), "{standard}");
        ok(FRESH, &scheme)
    })
    .await;
    let proxy = secure(&authority, &origin, |settings| {
        settings.listen = listen("tls:127.0.0.1:0,127.0.0.1:0");
        settings.admin = "127.0.0.1:0".parse().ok();
        settings.purge_from = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let (mut secure, mut plain) =
        (authority.connect(proxy.address, "a.test").await, Client::connect(proxy.tcp_address(1)).await);
    for round in ["cosm; fwd=uri-miss; stored", "cosm; hit"] {
        let (over_tls, without) = (secure.get(get("/")).await, plain.get(get("/")).await);
        assert_eq!((over_tls.text(), without.text()), ("https", "http"));
        assert_eq!((cache_status(&over_tls), cache_status(&without)), (round, round));
    }
    let object = |url: &str| format!("GET /object.json?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for url in ["http://a.test/", "https://a.test/", "https://a.test:443/"] {
        assert!(proxy.admin(object(url)).await.text().contains("\"fresh\""), "{url}");
    }
    // A purge means the page, however it is asked for.
    for (n, purge) in
        ["url=https://a.test/", "url=http://a.test/", "prefix=https://a.test/", "host=a.test", "url=/"]
            .into_iter()
            .enumerate()
    {
        assert_eq!(proxy.purge(purge).await.status(), 200, "{purge}");
        for client in [&mut secure.get(get("/")).await, &mut plain.get(get("/")).await] {
            assert!(cache_status(client).starts_with("cosm; fwd="), "{n} {purge}: {}", client.head);
        }
    }
    for (over_tls, host) in [(true, "a.test"), (true, "a.test:443"), (false, "a.test:80"), (false, "a.test")]
    {
        let client =
            if over_tls { secure.get(purge_of(host)).await } else { plain.get(purge_of(host)).await };
        assert_eq!(client.status(), 200, "{host}");
        for client in [&mut secure.get(get("/")).await, &mut plain.get(get("/")).await] {
            assert!(cache_status(client).starts_with("cosm; fwd="), "{host}: {}", client.head);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnels_and_uploads_and_slow_readers_go_through() {
    let authority = Authority::new();
    let echo = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = echo.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = echo.accept().await.unwrap();
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let proxy = Proxy::with(|settings| {
        settings.listen = listen("tls:127.0.0.1:0");
        settings.tls.certificates = authority.certificates(&["a.test"]);
        settings.connect_ports = vec![target.port()];
    });
    let mut tunnel = authority.connect(proxy.address, "a.test").await;
    let head = tunnel.get_head(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
    assert!(head.starts_with("HTTP/1.1 200"));
    let content = vec![7; 3 << 20];
    let (mut read, mut write) = tokio::io::split(tunnel.into_stream());
    let sent = content.clone();
    let writer = tokio::spawn(async move {
        write.write_all(&sent).await.unwrap();
        write.flush().await.unwrap();
        write
    });
    let mut back = vec![0; content.len()];
    soon(read.read_exact(&mut back)).await.unwrap();
    assert!(back == content);
    soon(writer).await.unwrap().shutdown().await.unwrap();
    assert_eq!(soon(read.read(&mut [0])).await.unwrap(), 0);
    // Content both ways, of which the client takes nothing for a while.
    let large = "x".repeat(8 << 20);
    let body = large.clone();
    let origin =
        origin_of(move |request, _| ok(FRESH, &format!("{} {body}", request.len() > (2 << 20)))).await;
    let proxy = secure(&authority, &origin, |_| {});
    let mut client = authority.connect(proxy.address, "a.test").await;
    let content = "y".repeat(2 << 20);
    client
        .send(format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        ))
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = client.message().await;
    assert_eq!(answer.body.len(), "true ".len() + large.len());
    assert!(answer.body.starts_with(b"true x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_page_for_a_request_that_cannot_be_read_comes_whole() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let page = format!("{}end", "0123456789".repeat(6_000));
    std::fs::write(folder.path().join("error.txt"), &page).unwrap();
    let pages = Arc::new(proxy::Pages::read(folder.path()).unwrap());
    let origin = Origin::answering(ok("", "x")).await;
    let proxy = secure(&authority, &origin, |settings| settings.pages = pages);
    let mut client = authority.connect(proxy.address, "a.test").await;
    let answer = client.get("GET /a<b HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    assert_eq!((answer.status(), answer.text() == page), (400, true), "{} bytes", answer.body.len());
    assert_eq!(soon(client.into_stream().read(&mut [0])).await.unwrap(), 0, "its end is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_has_no_end_in_tls() {
    let authority = Authority::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
            let _ = stream.write_all(half).await;
        }
    });
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(url.parse().unwrap());
        settings.listen = listen("tls:127.0.0.1:0");
        settings.tls.certificates = authority.certificates(&["a.test"]);
    });
    let mut client = authority.connect(proxy.address, "a.test").await;
    let head = client.get_head(get("/")).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (mut stream, mut rest) = (client.into_stream(), Vec::new());
    let end = soon(stream.read_to_end(&mut rest)).await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof, "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_connections_and_handshakes() {
    let authority = Authority::new();
    let origin = Origin::answering(ok("", "x")).await;
    let proxy = secure(&authority, &origin, |_| {});
    let mut idle = authority.connect(proxy.address, "a.test").await;
    assert_eq!(idle.get(get("/")).await.status(), 200);
    let mut half = TcpStream::connect(proxy.address).await.unwrap();
    half.write_all(b"\x16\x03").await.unwrap();
    proxy.stop();
    assert!(idle.is_closed().await);
    assert!(matches!(soon(half.read(&mut [0])).await, Ok(0) | Err(_)));
    proxy.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_on_with_every_worker_and_after_a_restart() {
    let authority = Authority::new();
    let origin = Origin::answering(ok("", "x")).await;
    let start = |tickets: TicketKeys, roots: Option<Roots>| {
        secure(&authority, &origin, |settings| {
            settings.workers = 3;
            settings.tls.tickets = tickets;
            settings.tls.client_roots = roots;
            settings.admin = "127.0.0.1:0".parse().ok();
        })
    };
    let file = || TicketKeys::File(authority.at("tickets"));
    for version in [&TLS13, &TLS12] {
        let config = Arc::new(authority.client(&[version], Some(authority.issue(&["client"]))));
        let visit = async |proxy: &Proxy| {
            let mut client = connect(proxy.address, "a.test", config.clone()).await.unwrap();
            assert_eq!(client.get(get("/")).await.status(), 200);
        };
        let resumed = async |proxy: &Proxy| number(proxy, "tls", "handshakes-resumed").await;
        let first = start(file(), None);
        for _ in 0..12 {
            visit(&first).await;
        }
        assert_eq!((number(&first, "tls", "handshakes-full").await, resumed(&first).await), (1, 11));
        first.stop();
        first.ended().await;
        let second = start(file(), None);
        visit(&second).await;
        assert_eq!(resumed(&second).await, 1, "after a restart");
        // Who wants to know his clients wants to see their certificates each time.
        let third = start(file(), Some(Roots::load(&authority.file()).unwrap()));
        visit(&third).await;
        assert_eq!(resumed(&third).await, 0);
        visit(&third).await;
        assert_eq!(resumed(&third).await, 0);
        for (tickets, after) in [(TicketKeys::Off, 0), (TicketKeys::Memory, 1)] {
            let other = start(tickets, None);
            visit(&other).await;
            assert_eq!(resumed(&other).await, 0, "others have other keys");
            visit(&other).await;
            assert_eq!(resumed(&other).await, after);
        }
    }
}

/// What other programs make of it, where they are installed.
#[tokio::test(flavor = "multi_thread")]
async fn other_programs_agree() {
    let authority = Authority::new();
    let origin = Origin::answering(ok(FRESH, "from the origin")).await;
    let proxy = secure(&authority, &origin, |_| {});
    let (port, ca) = (proxy.address.port(), authority.file().display().to_string());
    let python = format!(
        "import ssl, socket\n\
         c = ssl.create_default_context(cafile='{ca}')\n\
         s = c.wrap_socket(socket.create_connection(('127.0.0.1', {port})), server_hostname='a.test')\n\
         s.sendall(b'GET / HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n')\n\
         r = b''\n\
         while b := s.recv(65536): r += b\n\
         print(s.version(), s.selected_alpn_protocol(), r.decode())"
    );
    let curl = format!(
        "curl -sS --max-time 20 --cacert {ca} --resolve a.test:{port}:127.0.0.1 -w ' %{{http_version}} %{{ssl_verify_result}}' https://a.test:{port}/"
    );
    let openssl = format!(
        "(printf 'GET / HTTP/1.0\\r\\nHost: a.test\\r\\n\\r\\n'; sleep 1) | openssl s_client -connect 127.0.0.1:{port} -servername a.test \
         -CAfile {ca} -verify_return_error -alpn http/1.1 -quiet -ign_eof"
    );
    for (program, script) in [("python3", python), ("curl", curl), ("openssl", openssl)] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: no {program} here");
            continue;
        }
        let run = tokio::task::spawn_blocking(move || match program {
            "python3" => Command::new(program).args(["-c", &script]).output(),
            _ => Command::new("sh").args(["-c", &script]).output(),
        });
        let output = soon(run).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains("from the origin"),
            "{program}: {said} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
