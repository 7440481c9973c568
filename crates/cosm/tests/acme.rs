//! Certificates by ACME: what is wrong with settings, what goes on without an authority, and orders from pebble, an authority for tests
//! (`cargo xtask verify acme` installs it).

mod support;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::SOON;
use support::origin::{Origin, Reply};
use support::program::COSM;
use support::service::Service;
use tempfile::TempDir;

/// How long an order may take on a busy machine.
const ORDER: Duration = Duration::from_secs(60);
/// By whose key the external account is proved.
const EAB: (&str, &str) = ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// An address that was free just now.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn believing(certificate: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A session that goes on does not see the certificate again.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// What a server answers to a request on a connection of its own, and which certificate it has.
fn get(
    address: SocketAddr,
    name: &str,
    config: &Arc<ClientConfig>,
    path: &str,
) -> io::Result<(String, Vec<u8>)> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(SOON))?;
    let server = ServerName::try_from(name.to_owned()).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(config.clone(), server).unwrap(), socket);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let certificate = stream.conn.peer_certificates().unwrap()[0].to_vec();
    Ok((answer, certificate))
}

/// Ends with its guard.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, arguments: &[String]) -> Running {
    let mut command = Command::new(program);
    command.args(arguments).env("PEBBLE_VA_NOSLEEP", "1").stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(child.unwrap_or_else(|error| panic!("{program}: {error}")))
}

/// An authority, and a DNS server by which each name is this host.
struct Pebble {
    folder: TempDir,
    at: SocketAddr,
    records: SocketAddr,
    /// Where it expects those who prove a name.
    tls: SocketAddr,
    http: SocketAddr,
    /// What believes what it issues.
    config: Arc<ClientConfig>,
    _processes: [Running; 2],
}

impl Pebble {
    /// Certificates last for so many seconds.
    fn start(life: u64, wants_binding: bool) -> Pebble {
        let folder = tempfile::tempdir().unwrap();
        let [at, management, tls, http, dns, records] = std::array::from_fn(|_| free());
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
        let file = |name: &str| folder.path().join(name);
        write(&file("own.pem"), &own.pem(), 0o600);
        write(&file("own.key"), &key.serialize_pem(), 0o600);
        let config = json!({"pebble": {
            "listenAddress": at.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": file("own.pem"),
            "privateKey": file("own.key"),
            "httpPort": http.port(),
            "tlsPort": tls.port(),
            "externalAccountBindingRequired": wants_binding,
            "externalAccountMACKeys": {EAB.0: EAB.1},
            "keyAlgorithm": "ecdsa",
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {
                "default": {"description": "", "validityPeriod": life},
                "shortlived": {"description": "", "validityPeriod": 6 * 86_400},
            },
        }});
        fs::write(file("pebble.json"), config.to_string()).unwrap();
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (asks, at_dns, manages) =
            (file("pebble.json").display().to_string(), dns.to_string(), records.to_string());
        let names = words(&[
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
            "-defaultIPv6",
            "",
            "-dnsserver",
            &at_dns,
            "-management",
            &manages,
        ]);
        let processes = [
            run("pebble-challtestsrv", &names),
            run("pebble", &words(&["-config", &asks, "-dnsserver", &at_dns])),
        ];
        let own = believing(own.pem().as_bytes());
        let until = Instant::now() + SOON;
        let root = loop {
            match get(management, "127.0.0.1", &own, "/roots/0") {
                Ok((answer, _)) => break answer,
                Err(error) => assert!(Instant::now() < until, "pebble: {error}"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let config = believing(root.split_once("\r\n\r\n").unwrap().1.as_bytes());
        Pebble { folder, at, records, tls, http, config, _processes: processes }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A reverse proxy with its own folder that is asked for these names.
    fn serve(&self, origin: &Origin, folder: &str, more: &str) -> Service {
        let file = format!(
            "acme-directory https://{}/dir\nacme-ca {}\nacme-folder {}\nacme-agree-terms yes\norigin {}\nerror-log-level acme=debug\n{more}\n",
            self.at,
            self.at("own.pem").display(),
            self.at(folder).display(),
            origin.url("").trim_end_matches('/'),
        );
        Service::start(
            &format!("--listen redirect:{},tls:{} --cache-size 4MiB --packet 64KiB", self.http, self.tls),
            &file,
        )
    }

    /// Waits for a certificate for this name; gives it.
    fn wait(&self, service: &Service, name: &str) -> Vec<u8> {
        let until = Instant::now() + ORDER;
        loop {
            match get(service.address, name, &self.config, "/") {
                Ok((answer, certificate)) => {
                    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                    return certificate;
                }
                Err(error) => assert!(Instant::now() < until, "{name}: {error}: {}", service.errors()),
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The files of a folder of ours, which are for its user alone.
    fn files(&self, folder: &str) -> BTreeSet<String> {
        let root = self.at(folder);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let place = root.join(format!("127.0.0.1-{}-dir", self.at.port()));
        assert_eq!((mode(&root), mode(&place)), (0o700, 0o700));
        let files = fs::read_dir(place).unwrap().map(|file| {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            path.file_name().unwrap().to_str().unwrap().to_owned()
        });
        files.collect()
    }
}

/// What a result tells (`cargo xtask verify acme`).
fn tell(what: &str) {
    println!("result: {what}");
}

fn origin() -> Origin {
    Origin::start(|_| Reply::fresh("0123456789"))
}

fn check(more: &str) -> (bool, String) {
    let output = Command::new(COSM)
        .args(["serve", "--check", "--cache", "off"])
        .args(if more.contains("--listen") { &[][..] } else { &["--listen", "tls:127.0.0.1:0"] })
        .args(if more.contains("--acme-folder") { &[][..] } else { &["--acme-folder", "/nonexistent/acme"] })
        .args(more.split_whitespace())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_check_says_what_will_be_ordered_and_what_cannot_be() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name).display().to_string();
    let agreed = "--acme-agree-terms yes";
    let folder = format!("--acme-folder {}", at("acme"));
    let (is_fine, said) = check(&format!("{agreed} {folder} --acme a.example+b.example,192.0.2.1"));
    assert!(is_fine, "{said}");
    for name in ["a.example", "192.0.2.1"] {
        let says = format!(
            "no certificate for {name} yet: a start will order it from {} by tls-alpn-01",
            acme::LETS_ENCRYPT
        );
        assert!(said.contains(&says), "{said}");
    }
    assert!(!Path::new(&at("acme")).exists(), "nothing is written");
    let (is_fine, said) = check(&format!("{agreed} {folder} --acme *.a.example --acme-dns-hook /bin/true"));
    assert!(is_fine && said.contains("by dns-01"), "{said}");
    let (is_fine, said) = check(&format!("{agreed} {folder} --acme a.example --acme-challenge http-01"));
    assert!(is_fine && said.contains("nothing listens without TLS, where the authority asks"), "{said}");
    let (is_fine, said) =
        check(&format!("{agreed} {folder} --acme a.example --acme-dns-hook {}", at("none")));
    assert!(is_fine && said.contains("it cannot be run: No such file"), "{said}");
    let eab = at("eab");
    write(Path::new(&eab), "kid short", 0o600);
    for (more, says) in [
        ("--acme a.example".to_owned(), "say that you agree to them (acme-agree-terms yes)"),
        (
            format!("{agreed} {folder} --acme *.a.example"),
            "acme: tls-alpn-01 cannot prove *.a.example: give a certificate for it (tls-certificate), or a program that changes DNS (acme-dns-hook)",
        ),
        (format!("{agreed} --acme *.a.example --acme-challenge http-01"), "http-01 cannot prove *.a.example"),
        (
            format!("{agreed} --acme 192.0.2.1 --acme-dns-hook /bin/true"),
            "192.0.2.1 is an address, which dns-01 cannot prove",
        ),
        (format!("{agreed} --acme a.example,a.example+b.example"), "two certificates begin with a.example"),
        (format!("{agreed} --acme a_b"), "`a_b` is no name of a host"),
        (format!("{agreed} --acme a.example"), "acme-folder: no folder can be made in /nonexistent"),
        (
            format!("{agreed} {folder} --acme a.example --listen 127.0.0.1:0"),
            "acme: nothing listens with TLS",
        ),
        (format!("--acme-eab {eab}"), "it has no external account"),
        ("--acme-directory http://a.example/".to_owned(), "is no URL with https"),
        ("--acme-email a".to_owned(), "is no address of e-mail"),
    ] {
        let (is_fine, said) = check(&more);
        assert!(!is_fine && said.contains(says), "{more}: {said}");
    }
    fs::create_dir(at("acme")).unwrap();
    fs::set_permissions(at("acme"), fs::Permissions::from_mode(0o755)).unwrap();
    let (is_fine, said) = check(&format!("{agreed} {folder} --acme a.example"));
    assert!(!is_fine && said.contains("chmod 700"), "{said}");
}

#[test]
fn without_an_authority_what_is_there_is_served() {
    let temporary = tempfile::tempdir().unwrap();
    let nowhere = free();
    let (root, origin) = (temporary.path().join("acme"), origin());
    let place = root.join(format!("127.0.0.1-{}-dir", nowhere.port()));
    fs::create_dir_all(&place).unwrap();
    for folder in [&root, &place] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    // It expires in a minute, so that it would be renewed at once.
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.test".into()]).unwrap();
    params.not_after = std::time::SystemTime::now().checked_add(Duration::from_secs(60)).unwrap().into();
    let own = params.self_signed(&key).unwrap();
    write(&place.join("a.test.pem"), &(own.pem() + &key.serialize_pem()), 0o600);
    let options = "--listen tls:127.0.0.1:0 --cache-size 4MiB --packet 64KiB";
    let file = format!(
        "acme a.test,b.test\nacme-directory https://{nowhere}/dir\nacme-folder {}\nacme-agree-terms yes\norigin {}\n",
        root.display(),
        origin.url("").trim_end_matches('/')
    );
    let service = Service::start(options, &file);
    let config = believing(own.pem().as_bytes());
    let until = Instant::now() + SOON;
    while service.events("no certificate: ") < 2 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(10));
    }
    let errors = service.errors();
    for says in [
        "names=b.test",
        "there is no certificate yet: who asks for its names gets another one, or none",
        "no certificate: who asks for its names gets another one, or none",
        "no certificate: the one that is there stays",
        "cannot connect",
    ] {
        assert!(errors.contains(says), "{says}: {errors}");
    }
    let gets = |service: &Service, name: &str| get(service.address, name, &config, "/");
    assert!(gets(&service, "a.test").unwrap().0.starts_with("HTTP/1.1 200 "));
    let note = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(place.join(format!("{name}.order.json"))).unwrap()).unwrap()
    };
    let noted = ["a.test", "b.test"].map(note);
    for note in &noted {
        assert!(
            note["failures"] == 1 && note["cause"].as_str().unwrap().contains("cannot connect"),
            "{note}"
        );
    }
    // A start that comes soon does not ask again, neither for what is missing nor for what is to be renewed.
    drop(service);
    let service = Service::start(options, &file);
    let until = Instant::now() + SOON;
    while service.events("the next order waits") < 2 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(100));
    assert_eq!((service.events("no certificate: "), ["a.test", "b.test"].map(note)), (0, noted));
    // What spoils the file does not take what is served.
    write(&place.join("a.test.pem"), "spoilt", 0o600);
    let until = Instant::now() + SOON;
    while service.events("certificates stay as they were") == 0 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(gets(&service, "a.test").unwrap().0.starts_with("HTTP/1.1 200 "));
    // Nor does a reload, and it is looked at again until it is of use.
    service.signal(service.id(), Signal::HUP);
    while service.events("settings were read again") == 0 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(gets(&service, "a.test").unwrap().0.starts_with("HTTP/1.1 200 "));
    let other = KeyPair::generate().unwrap();
    let new = CertificateParams::new(vec!["a.test".into()]).unwrap().self_signed(&other).unwrap();
    write(&place.join("a.test.pem"), &(new.pem() + &other.serialize_pem()), 0o600);
    let renewed = believing(new.pem().as_bytes());
    while get(service.address, "a.test", &renewed, "/").is_err() {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(10));
    }
    for secret in [key.serialize_pem().lines().nth(1).unwrap(), "PRIVATE KEY"] {
        assert!(!service.errors().contains(secret));
    }
}

#[test]
#[ignore = "needs pebble"]
fn pebble_issues_what_is_proved_in_each_way() {
    let pebble = Pebble::start(90 * 86_400, true);
    let origin = origin();
    let (eab, hook) = (pebble.at("eab"), pebble.at("hook"));
    write(&eab, &format!("{} {}\n", EAB.0, EAB.1), 0o600);
    write(
        &hook,
        &format!(
            "#!/bin/sh -e\necho \"$@\" >> {}\ncase $1 in\npresent) set -- set-txt \"{{\\\"host\\\":\\\"$2\\\",\\\"value\\\":\\\"$3\\\"}}\";;\n\
             cleanup) set -- clear-txt \"{{\\\"host\\\":\\\"$2\\\"}}\";;\nesac\nexec curl -sSf -d \"$2\" http://{}/$1\n",
            pebble.at("hook.log").display(),
            pebble.records
        ),
        0o700,
    );
    let eab = format!("acme-eab {}\nacme-email someone@example.com\n", eab.display());
    for (folder, names, more) in [
        ("alpn", "a.test+b.test,c.test", "acme-challenge tls-alpn-01\nacme-profile default".to_owned()),
        ("http", "d.test", "acme-challenge http-01\nacme-profile default".to_owned()),
        ("address", "127.0.0.1", "acme-profile shortlived".to_owned()),
        ("dns", "*.w.test+w.test", format!("acme-profile default\nacme-dns-hook {}", hook.display())),
    ] {
        let service = pebble.serve(&origin, folder, &format!("acme {names}\n{eab}{more}"));
        if folder == "alpn" {
            // Until then there is nothing to show.
            let early = get(service.address, "a.test", &pebble.config, "/");
            assert!(early.is_err() || service.events("a certificate was issued") > 0, "{}", service.errors());
        }
        for name in names.split([',', '+']) {
            let certificate = pebble.wait(&service, &name.replace('*', "x"));
            let life = acme::Certificate::of(&certificate).unwrap().life.length();
            let days = if folder == "address" { 6 } else { 90 };
            assert!(life.abs_diff(days * 86_400) < 60, "{folder}: {life} s");
        }
        let own = ["account.json".to_owned()].into_iter();
        let files = names.split(',').flat_map(|one| {
            let first = one.split('+').next().unwrap().replace('*', "_");
            [format!("{first}.pem"), format!("{first}.order.json")]
        });
        assert_eq!(pebble.files(folder), own.chain(files).collect(), "{folder}");
        assert_eq!(service.events("an account was made"), 1);
        for secret in ["PRIVATE KEY", EAB.1] {
            assert!(!service.errors().contains(secret));
        }
        tell(&format!(
            "{names}: issued ({folder}; {})",
            more.replace(&pebble.folder.path().display().to_string(), "FOLDER").replace('\n', ", ")
        ));
    }
    let calls = fs::read_to_string(pebble.at("hook.log")).unwrap();
    let count = |what: &str| calls.lines().filter(|line| line.starts_with(what)).count();
    assert!(count("present _acme-challenge.w.test. ") == 2 && count("cleanup ") == 2, "{calls}");
    // The path of a challenge is the origin's while none is open.
    let service = pebble.serve(&origin, "alpn", &format!("acme a.test+b.test,c.test\n{eab}"));
    let (answer, _) =
        get(service.address, "a.test", &pebble.config, "/.well-known/acme-challenge/x").unwrap();
    assert!(answer.ends_with("0123456789"), "{answer}");
    assert_eq!(service.events("a certificate was issued"), 0, "they are there");
    drop(service);
    // Whatever is wanted of clients is not wanted of the authority.
    let ca = pebble.at("own.pem");
    let service =
        pebble.serve(&origin, "clients", &format!("acme e.test\n{eab}tls-client-ca {}", ca.display()));
    let until = Instant::now() + ORDER;
    while service.events("a certificate was issued") == 0 {
        assert!(Instant::now() < until, "{}", service.errors());
        thread::sleep(Duration::from_millis(50));
    }
    tell("e.test: issued where clients need a certificate");
    drop(service);
    // Without the binding there is no account.
    let service = pebble.serve(&origin, "stranger", "acme f.test");
    while service.events("externalAccountRequired") == 0 {
        assert!(Instant::now() < until + ORDER, "{}", service.errors());
        thread::sleep(Duration::from_millis(50));
    }
    tell("f.test: without the external account that is wanted, the log says externalAccountRequired");
}

/// For how many seconds certificates last, and how long there is load: COSM_ACME_LIFE, COSM_ACME_LOAD.
#[test]
#[ignore = "needs pebble"]
fn a_certificate_is_renewed_under_load_and_no_request_fails() {
    let seconds = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (life, lasts) = (seconds("COSM_ACME_LIFE", 60), seconds("COSM_ACME_LOAD", 75));
    let pebble = Pebble::start(life, false);
    let origin = origin();
    let service = pebble.serve(&origin, "acme", "acme a.test\nacme-profile default");
    let first = pebble.wait(&service, "a.test");
    let seen = Mutex::new(BTreeSet::from([first]));
    let (failures, asked, ends) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(SeqCst) {
                    asked.fetch_add(1, SeqCst);
                    match get(service.address, "a.test", &pebble.config, "/page") {
                        Ok((answer, certificate)) if answer.starts_with("HTTP/1.1 200 ") => {
                            seen.lock().unwrap().insert(certificate);
                        }
                        other => failures.lock().unwrap().push(format!("{other:?}")),
                    }
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        thread::sleep(Duration::from_secs(lasts / 2));
        service.upgrade();
        thread::sleep(Duration::from_secs(lasts - lasts / 2));
        ends.store(true, SeqCst);
    });
    let (seen, failures) = (seen.into_inner().unwrap().len(), failures.into_inner().unwrap());
    let issued = service.events("a certificate was issued");
    tell(&format!(
        "certificates that last {life} s, under load for {lasts} s with an upgrade in its middle: {issued} issued, {seen} seen by clients; \
         {} requests, each with a handshake that verifies the certificate, {} failed",
        asked.into_inner(),
        failures.len()
    ));
    assert!(failures.is_empty(), "{failures:?}: {}", service.errors());
    assert!(seen >= 2 && issued >= seen && issued <= seen + 1, "{issued} {seen}: {}", service.errors());
}
