//! Unix sockets: clients, the operator and origins that come over one get what others get over TCP.

mod support;

use proxy::{Address, Peer, Settings, start};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{Client, Origin, Proxy, cache_status, field, ok, origin_of, soon, told_of};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

const FRESH: &str = "Cache-Control: max-age=600\r\n";

fn socket(folder: &TempDir, name: &str) -> (PathBuf, Address) {
    let path = folder.path().join(name);
    let address = format!("unix:{}", path.display()).parse().unwrap();
    (path, address)
}

/// A forward proxy on a Unix socket that serves no network.
fn forward(address: &Address, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.listen = vec![address.clone().into()];
        settings.clients = Vec::new();
        change(settings);
    })
}

/// An origin on a Unix socket, which `serve`s each connection; and how many there were.
struct UnixOrigin {
    task: JoinHandle<()>,
    connections: Arc<AtomicUsize>,
}

impl UnixOrigin {
    fn with<Fut>(path: &Path, serve: impl Fn(Client<UnixStream>) -> Fut + Send + 'static) -> UnixOrigin
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = UnixListener::bind(path).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, SeqCst);
                tokio::spawn(serve(Client::of(stream)));
            }
        });
        UnixOrigin { task, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

impl Drop for UnixOrigin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn reverse(path: &Path) -> Proxy {
    let origin = format!("http://unix:{}", path.display()).parse().unwrap();
    Proxy::with(|settings| settings.origin = Some(origin))
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

// Clients

#[tokio::test]
async fn a_client_over_a_unix_socket_is_served_as_one_of_this_host() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "cosm.sock");
    let origin = Origin::answering(ok(FRESH, "inner")).await;
    // Others may come from anywhere; then addresses of this host are for clients on it.
    let everywhere = "[::]:0".parse().unwrap();
    let proxy = forward(&address, |settings| {
        settings.listen.push(everywhere);
        settings.workers = 2;
    });
    for (n, status) in ["cosm; fwd=uri-miss; stored", "cosm; hit", "cosm; hit"].into_iter().enumerate() {
        let mut client = Client::unix(&path).await;
        for status in [status, "cosm; hit"] {
            let answer = client.get(origin.request("/unix", "")).await;
            assert_eq!((answer.text(), cache_status(&answer)), ("inner", status), "{n}");
        }
    }
    let told = told_of(&origin.address.to_string(), "/unix", 6).await;
    assert!(told.iter().all(|told| told.client == Peer::Unix && told.whole), "{told:?}");
    assert_eq!(told[0].hop, Some(origin.address.to_string()));
    // No network is served, and this client is in one.
    let over_tcp = proxy.tcp_address(1);
    let stranger = Client::connect(over_tcp).await.get(origin.request("/unix", "")).await;
    assert!(stranger.status() == 403 && stranger.text().contains("--allow"), "{stranger:?}");
    // What nobody reaches is not for these clients either.
    let cloud = get("http://169.254.169.254/", "169.254.169.254");
    assert_eq!(Client::unix(&path).await.get(cloud).await.status(), 403);
}

#[tokio::test]
async fn tunnels_lead_both_ways_and_end_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "cosm.sock");
    let origin = Origin::with(|mut client, _| async move {
        client.send("hello").await;
        let all = client.rest().await;
        client.send(format!("got {all}")).await;
    })
    .await;
    let host = origin.address.to_string();
    let _proxy = forward(&address, |settings| settings.connect_ports = vec![origin.address.port()]);
    let mut client = Client::unix(&path).await;
    client.send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\nearly ")).await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.exactly(5).await, b"hello");
    client.send("and late").await;
    client.finish().await;
    assert_eq!(client.rest().await, "got early and late");
    let told = &told_of(&host, "", 1).await[0];
    assert_eq!((told.client, told.received, told.sent, told.whole), (Peer::Unix, 14, 23, true));
}

#[tokio::test]
async fn a_slow_client_gets_all_and_one_that_takes_nothing_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let [(patient, at), (strict, strictly_at)] = ["a", "b"].map(|name| socket(&folder, name));
    let body = "x".repeat(4 << 20);
    let origin = Origin::answering(ok("", &body)).await;
    let host = origin.address.to_string();
    let _patient = forward(&at, |_| {});
    let mut slow = Client::unix(&patient).await;
    slow.send(origin.request("/slow", "")).await;
    let head = slow.head().await.unwrap();
    assert_eq!(field(&head, "content-length"), Some(&*body.len().to_string()));
    for _ in 0..16 {
        assert!(slow.exactly(body.len() / 16).await.iter().all(|byte| *byte == b'x'));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(told_of(&host, "/slow", 1).await[0].whole);
    let _strict =
        forward(&strictly_at, |settings| settings.timeouts.client_stall = Duration::from_millis(50));
    let mut stuck = Client::unix(&strict).await;
    stuck.send(origin.request("/stuck", "")).await;
    let told = &told_of(&host, "/stuck", 1).await[0];
    assert!(!told.whole && told.sent < body.len() as u64, "{told:?}");
    assert!(stuck.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    assert!(stuck.rest().await.len() < body.len());
}

#[tokio::test]
async fn what_is_no_http1_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "cosm.sock");
    let _proxy = forward(&address, |settings| settings.http2.on = false);
    for (begin, status) in [("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), ("\x16\x03\x01\x02", 400)] {
        let mut client = Client::unix(&path).await;
        let answer = client.get(begin).await;
        assert_eq!(answer.status(), status);
        client.finish().await;
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn an_origin_is_told_that_the_client_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "cosm.sock");
    let origin = origin_of(|request, _| {
        let names = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
        ok("", &names.map(|name| field(request, name).unwrap_or("-").to_owned()).join("\n"))
    })
    .await;
    for (trust_unix, fields, expected) in [
        (false, "", "for=unknown;proto=http\n-\nhttp\na.example"),
        (false, "X-Forwarded-For: 1.1.1.1\r\n", "for=unknown;proto=http\n-\nhttp\na.example"),
        (true, "", "for=unknown;proto=http\n-\nhttp\na.example"),
        (true, "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n", "-\n1.1.1.1\nhttps\na.example"),
    ] {
        let proxy = forward(&address, |settings| {
            settings.origin = Some(origin.url("").parse().unwrap());
            settings.trust_unix = trust_unix;
        });
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        assert_eq!(Client::unix(&path).await.get(request).await.text(), expected, "{trust_unix} {fields}");
        proxy.stop();
        proxy.ended().await;
    }
}

// Origins

#[tokio::test]
async fn an_origin_on_a_unix_socket_is_fetched_from_over_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let origin = UnixOrigin::with(&path, |mut client| async move {
        while let Some(head) = client.head().await {
            let host = field(&head, "host").unwrap_or_default().to_owned();
            client.send(ok(if head.contains("/fresh") { FRESH } else { "" }, &host)).await;
        }
    });
    let proxy = reverse(&path);
    let mut client = proxy.client().await;
    for (what, hit) in [("/fresh", false), ("/fresh", true), ("/again", false)] {
        let answer = client.get(get(what, "on-unix.example")).await;
        assert_eq!((answer.text(), cache_status(&answer) == "cosm; hit"), ("on-unix.example", hit), "{what}");
    }
    assert_eq!(origin.connections(), 1, "it is kept, and used again");
    let told = told_of("on-unix.example", "/fresh", 2).await;
    let hops: Vec<_> = told.iter().map(|told| told.hop.clone()).collect();
    assert_eq!(hops, [Some(format!("unix:{}", path.display())), None]);
    let old = proxy.exchange("GET / HTTP/1.0\r\n\r\n").await;
    assert!(old.ends_with("localhost"), "{old}");
}

#[tokio::test]
async fn a_connection_that_broke_is_replaced_and_an_origin_that_is_gone_is_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let origin = UnixOrigin::with(&path, |mut client| async move {
        // One response each, and then it is over without a word.
        client.head().await;
        client.send(ok("", "x")).await;
    });
    let proxy = reverse(&path);
    let mut client = proxy.client().await;
    for n in 1..=3 {
        assert_eq!(client.get(get("/", "a")).await.text(), "x");
        assert_eq!(origin.connections(), n);
    }
    drop(origin);
    // Nobody listens any more, then there is no file; which of the two, and where, is the operator's to know.
    for _ in 0..2 {
        let answer = soon(client.get(get("/", "a"))).await;
        assert_eq!((answer.status(), answer.reason()), (502, "the origin cannot be reached"));
        let _ = std::fs::remove_file(&path);
    }
}

#[tokio::test]
async fn an_upgrade_leads_to_an_origin_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (path, front) = (folder.path().join("app.sock"), socket(&folder, "cosm.sock"));
    let _origin = UnixOrigin::with(&path, |mut client| async move {
        client.head().await;
        client
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi ")
            .await;
        let all = client.rest().await;
        client.send(all).await;
    });
    let origin = format!("http://unix:{}:/", path.display()).parse().unwrap();
    let _proxy = forward(&front.1, |settings| settings.origin = Some(origin));
    let mut client = Client::unix(&front.0).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 101 "));
    client.send("there").await;
    client.finish().await;
    assert_eq!(client.rest().await, "hi there");
}

// Files

#[tokio::test]
async fn a_file_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "cosm.sock");
    // As a kill leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let first = forward(&address, |_| {});
    let options = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(Client::unix(&path).await.get(options).await.status(), 204);
    let second =
        start(Settings { listen: vec![address.clone().into()], ..Settings::default() }, None).err().unwrap();
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    let said = second.to_string();
    assert_eq!(said, format!("cannot listen on {address}: another process listens there"));
    assert_eq!(Client::unix(&path).await.get(options).await.status(), 204, "the first is left alone");
    first.stop();
    first.ended().await;
    assert!(!path.exists(), "a clean stop takes its file along");
    std::fs::write(&path, "precious").unwrap();
    let third = start(Settings { listen: vec![address.into()], ..Settings::default() }, None).err().unwrap();
    assert!(third.to_string().ends_with("a file is there that is no socket"), "{third}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn the_operator_is_served_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket(&folder, "admin.sock");
    let origin = Origin::answering(ok(FRESH, "x")).await;
    let proxy = Proxy::with(|settings| settings.admin = Some(address));
    let mut client = proxy.client().await;
    for status in ["cosm; fwd=uri-miss; stored", "cosm; hit"] {
        assert_eq!(cache_status(&client.get(origin.request("/", "")).await), status);
    }
    let mut operator = Client::unix(&path).await;
    let purge = format!("POST /purge?url={} HTTP/1.1\r\nHost: localhost\r\n\r\n", origin.url("/"));
    assert_eq!(operator.get(purge).await.status(), 200);
    let again = client.get(origin.request("/", "")).await;
    assert_eq!(cache_status(&again), "cosm; fwd=uri-miss; stored");
    assert_eq!(operator.get("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status(), 200);
    proxy.stop();
    proxy.ended().await;
    assert!(!path.exists());
}
