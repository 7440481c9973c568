//! Origins that are asked by https: whom the proxy believes, and what becomes of those whom it does not.

mod support;

use proxy::{KeyFiles, LeastVersion, OriginTls, Settings};
use rustls::ALL_VERSIONS;
use rustls::version::{TLS12, TLS13};
use support::tls::{Authority, SecureOrigin, believing};
use support::{Client, Origin, Proxy, cache_status, ok, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn believing_and(authority: &Authority, change: impl FnOnce(&mut OriginTls)) -> OriginTls {
    let mut tls = believing(authority);
    change(&mut tls);
    tls
}

/// A reverse proxy for an origin at that host, and an operator's address.
fn reverse(origin: &SecureOrigin, host: &str, tls: OriginTls, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.origin = Some(format!("https://{host}:{}", origin.address.port()).parse().unwrap());
        settings.origin_tls = tls;
        settings.admin = "127.0.0.1:0".parse().ok();
        change(settings);
    })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

async fn number(proxy: &Proxy, name: &str) -> u64 {
    let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
    stats["origin"][name].as_u64().unwrap()
}

#[tokio::test]
async fn https_origins_are_fetched_from_pooled_and_stored() {
    let authority = Authority::new();
    for version in [&TLS13, &TLS12] {
        let origin = SecureOrigin::start(authority.issue(&["localhost"]), &[version], None).await;
        let proxy = reverse(&origin, "localhost", believing(&authority), |settings| {
            settings.timeouts.origin_idle = std::time::Duration::from_millis(300);
        });
        let mut client = proxy.client().await;
        for n in 0..5 {
            let answer = client.get(get(&format!("/{n}"))).await;
            assert_eq!((answer.status(), answer.text()), (200, "localhost a.test"));
        }
        assert_eq!(cache_status(&client.get(get("/0")).await), "cosm; hit");
        // Session tickets that came meanwhile are nobody's answer.
        assert_eq!(origin.count(), (1, 5));
        assert_eq!((number(&proxy, "tls-full").await, number(&proxy, "tls-resumed").await), (1, 0));
        soon(async {
            while number(&proxy, "open").await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
        assert_eq!(client.get(get("/more")).await.status(), 200);
        assert_eq!((number(&proxy, "tls-full").await, number(&proxy, "tls-resumed").await), (1, 1));
    }
}

#[tokio::test]
async fn who_is_not_believed_is_sent_nothing() {
    let (authority, other) = (Authority::new(), Authority::new());
    let not_accepted = |why: &str| format!("the origin's certificate is not accepted: {why}");
    let localhost = authority.issue(&["localhost"]);
    for (own, host, tls, says) in [
        (
            authority.expired(&["localhost"]),
            "localhost",
            believing(&authority),
            not_accepted("it has expired"),
        ),
        (
            authority.issue(&["b.test"]),
            "localhost",
            believing(&authority),
            not_accepted("it is for another name"),
        ),
        (localhost, "127.0.0.1", believing(&authority), not_accepted("it is for another name")),
        (
            other.issue(&["localhost"]),
            "localhost",
            believing(&authority),
            not_accepted("its issuer is unknown"),
        ),
        (
            authority.issue(&["localhost"]),
            "localhost",
            OriginTls::default(),
            not_accepted("its issuer is unknown"),
        ),
    ] {
        let origin = SecureOrigin::start(own, ALL_VERSIONS, None).await;
        let proxy = reverse(&origin, host, tls, |_| {});
        let answer = proxy.client().await.get(get("/")).await;
        assert_eq!((answer.status(), answer.reason()), (502, &*says));
        assert_eq!(origin.count().1, 0);
        assert_eq!(number(&proxy, "tls-failed").await, 1);
    }
}

#[tokio::test]
async fn names_versions_and_certificates_are_as_set() {
    let authority = Authority::new();
    let name = |name: &'static str| believing_and(&authority, |tls| tls.name = name.try_into().ok());
    let origin = SecureOrigin::start(authority.issue(&["b.test"]), ALL_VERSIONS, None).await;
    let proxy = reverse(&origin, "127.0.0.1", name("b.test"), |_| {});
    assert_eq!(proxy.client().await.get(get("/")).await.text(), "b.test a.test");
    // An address is proved, too, and no name is asked for.
    let origin = SecureOrigin::start(authority.issue(&["127.0.0.1"]), ALL_VERSIONS, None).await;
    let proxy = reverse(&origin, "127.0.0.1", believing(&authority), |_| {});
    assert_eq!(proxy.client().await.get(get("/")).await.text(), "none a.test");
    let old = SecureOrigin::start(authority.issue(&["localhost"]), &[&TLS12], None).await;
    let tls = believing_and(&authority, |tls| tls.least = LeastVersion::Tls13);
    let answer = reverse(&old, "localhost", tls, |_| {}).client().await.get(get("/")).await;
    assert_eq!(answer.reason(), "the origin and this proxy do not agree on how to speak TLS");
    let strict = SecureOrigin::start(authority.issue(&["localhost"]), &[&TLS12], Some(&authority)).await;
    let own: KeyFiles = authority.write("own.pem", &["proxy"]);
    for (own, status) in [(None, 502), (Some(own), 200)] {
        let tls = believing_and(&authority, |tls| tls.own = own);
        assert_eq!(
            reverse(&strict, "localhost", tls, |_| {}).client().await.get(get("/")).await.status(),
            status
        );
    }
}

#[tokio::test]
async fn what_is_no_tls_or_breaks_off_is_a_502_and_a_cut_is_no_end() {
    let authority = Authority::new();
    let plain = Origin::answering(ok("", "x")).await;
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(format!("https://{}", plain.address).parse().unwrap());
        settings.origin_tls = believing(&authority);
    });
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = Proxy::with(|settings| {
        settings.origin = Some(format!("https://{}", mute.local_addr().unwrap()).parse().unwrap());
        settings.origin_tls = believing(&authority);
        settings.timeouts.origin_connect = std::time::Duration::from_millis(100);
    });
    let answer = silent.client().await.get(get("/")).await;
    assert_eq!((answer.status(), answer.reason()), (504, "the origin did not answer in time"));
    let leaving = Origin::with(|client, _| async move { drop(client) }).await;
    let left = Proxy::with(|settings| {
        settings.origin = Some(format!("https://{}", leaving.address).parse().unwrap());
        settings.origin_tls = believing(&authority);
    });
    assert_eq!(left.client().await.get(get("/")).await.status(), 502);
    drop(plain);
    let speaks_http =
        Origin::with(|mut client, _| async move { client.send("HTTP/1.1 400 Bad Request\r\n\r\n").await })
            .await;
    let http = Proxy::with(|settings| {
        settings.origin = Some(format!("https://{}", speaks_http.address).parse().unwrap());
        settings.origin_tls = believing(&authority);
    });
    assert_eq!(
        http.client().await.get(get("/")).await.reason(),
        "the origin does not speak TLS on this port"
    );
    drop(proxy);
    // Of a body that only the end of the connection ends, half is not stored.
    let origin = SecureOrigin::start(authority.issue(&["localhost"]), ALL_VERSIONS, None).await;
    let proxy = reverse(&origin, "localhost", believing(&authority), |_| {});
    for _ in 0..2 {
        let mut client = proxy.client().await;
        client.send(get("/cut")).await;
        client.rest().await;
    }
    assert_eq!(origin.count().1, 2, "it was fetched again");
}

#[tokio::test]
async fn a_forward_proxy_fetches_stores_and_purges_by_scheme() {
    let authority = Authority::new();
    let origin = SecureOrigin::start(authority.issue(&["localhost"]), ALL_VERSIONS, None).await;
    let proxy = Proxy::with(|settings| {
        settings.origin_tls = believing(&authority);
        settings.admin = "127.0.0.1:0".parse().ok();
    });
    let at = format!("localhost:{}", origin.address.port());
    let request = |scheme: &str| format!("GET {scheme}://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let mut client = proxy.client().await;
    for status in ["cosm; fwd=uri-miss; stored", "cosm; hit"] {
        let answer = client.get(request("https")).await;
        assert_eq!((answer.text(), cache_status(&answer)), (&*format!("localhost {at}"), status));
    }
    // The same without TLS is another resource.
    assert_eq!(client.get(request("http")).await.status(), 502);
    let object =
        |scheme: &str| format!("GET /object.json?url={scheme}://{at}/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(proxy.admin(object("https")).await.text().contains("\"fresh\""));
    assert!(!proxy.admin(object("http")).await.text().contains("\"fresh\""));
    assert_eq!(proxy.purge(&format!("url=http://{at}/")).await.status(), 200);
    assert_eq!(cache_status(&client.get(request("https")).await), "cosm; hit");
    assert_eq!(proxy.purge(&format!("url=https://{at}/")).await.status(), 200);
    assert_eq!(cache_status(&client.get(request("https")).await), "cosm; fwd=uri-miss; stored");
    assert_eq!(origin.count(), (1, 2));
    let told = support::told_of(&at, "/", 4).await;
    assert_eq!(told[0].hop.as_deref(), Some(&*at));
}

#[tokio::test]
async fn other_issuers_after_a_reload_hold_for_the_next_request() {
    let (authority, other) = (Authority::new(), Authority::new());
    let origin = SecureOrigin::start(authority.issue(&["localhost"]), ALL_VERSIONS, None).await;
    let mut kept = Settings::default();
    let proxy = reverse(&origin, "localhost", believing(&authority), |settings| kept = settings.clone());
    let mut client = proxy.client().await;
    assert_eq!(client.get(get("/1")).await.status(), 200);
    proxy.reload(Settings { origin_tls: believing(&other), ..kept.clone() });
    assert_eq!(client.get(get("/2")).await.status(), 502);
    proxy.reload(Settings { origin_tls: believing(&authority), ..kept });
    assert_eq!(client.get(get("/3")).await.status(), 200);
}

/// An upgrade to another protocol goes through TLS on the origin's side.
#[tokio::test]
async fn a_websocket_goes_through() {
    let authority = Authority::new();
    let config = authority.server(authority.issue(&["localhost"]));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut client = Client::of(tokio_rustls::TlsAcceptor::from(config).accept(stream).await.unwrap());
        client.head().await.unwrap();
        client
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let (mut read, mut write) = tokio::io::split(client.into_stream());
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.flush().await;
    });
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(format!("https://localhost:{port}").parse().unwrap());
        settings.origin_tls = believing(&authority);
    });
    let mut client = proxy.client().await;
    let head = client
        .get_head("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n")
        .await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let mut stream = client.into_stream();
    let content = vec![7; 200_000];
    let (mut read, mut write) = stream.split();
    let mut back = vec![0; content.len()];
    let (sent, got) =
        soon(async { tokio::join!(write.write_all(&content), read.read_exact(&mut back)) }).await;
    assert!(sent.is_ok() && got.is_ok() && back == content);
}
