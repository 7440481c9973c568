//! TLS of the program: what a check says, certificates across a reload, and an upgrade.

mod support;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use support::SOON;
use support::origin::{Origin, Reply};
use support::program::COSM;
use support::service::Service;

type Client = StreamOwned<ClientConnection, TcpStream>;

/// Writes a certificate for a name with its key; gives what a client goes by that believes it.
fn certificate(path: &Path, name: &str) -> Arc<ClientConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.into()]).unwrap().self_signed(&key).unwrap();
    fs::write(path, certificate.pem() + &key.serialize_pem()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    believing(certificate.der())
}

fn believing(certificate: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    Arc::new(
        ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}

fn connect(address: SocketAddr, name: &str, config: &Arc<ClientConfig>) -> Client {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), stream)
}

/// The answer, of which the content is ten bytes long, to a request for a page; an error where there is none.
fn get(client: &mut Client, path: &str) -> Result<String, std::io::Error> {
    write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    let mut content = [0; 10];
    client.read_exact(&mut content)?;
    answer.extend(content);
    Ok(String::from_utf8(answer).unwrap())
}

fn check(arguments: &str) -> (bool, String) {
    let output = Command::new(COSM)
        .args(["serve", "--check", "--cache", "off"])
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_check_says_what_is_wrong_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("a.pem");
    certificate(&pem, "localhost");
    let at = pem.display();
    let listen = "--listen tls:127.0.0.1:0";
    let (is_fine, said) = check(&format!("{listen} --tls-certificate {at}"));
    assert!(is_fine && said.contains("certificates for localhost") && !said.contains("open to"), "{said}");
    fs::set_permissions(&pem, fs::Permissions::from_mode(0o644)).unwrap();
    let (is_fine, said) = check(&format!("{listen} --tls-certificate {at}"));
    assert!(is_fine && said.contains("is open to all users of this host: chmod o="), "{said}");
    for (more, says) in [
        ("", "listen: tls:127.0.0.1:0 needs a certificate (tls-certificate, or acme)"),
        ("--tls-certificate /none", "tls-certificate: cannot read /none"),
        ("--tls-certificate none --tls-client-ca /none", "tls-client-ca: cannot read /none"),
    ] {
        let (is_fine, said) = check(&format!("{listen} {more}"));
        assert!(!is_fine && said.contains(says), "{said}");
    }
}

#[test]
fn a_reload_takes_other_certificates() {
    let origin = Origin::start(|_| Reply::fresh("0123456789"));
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one.pem"), folder.path().join("other.pem"));
    let (first, second) = (certificate(&one, "localhost"), certificate(&other, "localhost"));
    let file = |path: &Path| {
        format!("tls-certificate {}\norigin {}\n", path.display(), origin.url("").trim_end_matches('/'))
    };
    let service = Service::start("--listen tls:127.0.0.1:0", &file(&one));
    assert!(service.server.as_ref().unwrap().readiness.contains("on tls:127.0.0.1:"));
    let mut client = connect(service.address, "localhost", &first);
    assert!(get(&mut client, "/").unwrap().starts_with("HTTP/1.1 200"));
    fs::write(service.at("settings"), format!("{}{}", support::service::ADMIN, file(&other))).unwrap();
    service.signal(service.id(), rustix::process::Signal::HUP);
    let until = std::time::Instant::now() + SOON;
    while get(&mut connect(service.address, "localhost", &second), "/").is_err() {
        assert!(std::time::Instant::now() < until, "{}", service.errors());
    }
    // What was agreed on before lasts.
    assert!(get(&mut client, "/").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn an_upgrade_passes_the_listener_and_lets_connections_end() {
    let origin = Origin::start(|_| Reply::fresh("0123456789"));
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("a.pem");
    let config = certificate(&pem, "localhost");
    let origin_url = origin.url("");
    let options = format!(
        "--listen tls:127.0.0.1:0 --workers 2 --tls-certificate {} --origin {}",
        pem.display(),
        origin_url.trim_end_matches('/')
    );
    let mut service = Service::start(&options, "");
    let mut idle = connect(service.address, "localhost", &config);
    get(&mut idle, "/").unwrap();
    // Its handshake is done, and it has asked for nothing.
    let mut fresh = connect(service.address, "localhost", &config);
    while fresh.conn.is_handshaking() {
        fresh.conn.complete_io(&mut fresh.sock).unwrap();
    }
    let before = service.id();
    service.upgrade();
    assert_ne!(service.id(), before);
    // Who waits for nothing is told of the end; who was about to ask is answered first.
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "with a word");
    let answer = get(&mut fresh, "/").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    assert!(answer.contains("fwd=bypass"), "the other process has the cache: {answer}");
    assert!(matches!(fresh.read(&mut [0]), Ok(0)));
    let answer = get(&mut connect(service.address, "localhost", &config), "/").unwrap();
    assert!(answer.contains("hit"), "the successor has the cache and the listener: {answer}");
    let plain = TcpStream::connect(service.address).unwrap();
    plain.set_read_timeout(Some(SOON)).unwrap();
    (&plain).write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = String::new();
    match (&plain).read_to_string(&mut said) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // Nothing is under way in the process before this one.
    assert!(service.server.take().unwrap().wait().success());
}
