//! An authority for tests: it signs what it is asked for, and goes wrong as it is told. It verifies no signature: what an authority that
//! is right says is shown with pebble (`cargo xtask verify acme`).

use data_encoding::BASE64URL_NOPAD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

pub const DAY: u64 = 86_400;
const ERROR: &str = "urn:ietf:params:acme:error:";

/// What it does, and what it was asked for.
pub struct Will {
    /// Seconds from the beginning of a certificate until now, and from now until its end.
    pub life: (i64, i64),
    /// Whether names have to be proved; it believes whatever is said to be one.
    pub wants_proof: bool,
    /// Whether it takes part in renewals, and the window that it says: two times.
    pub window: Option<[&'static str; 2]>,
    /// Whether it says again which certificate an order replaces.
    pub echoes: bool,
    pub retry_after: &'static str,
    pub nonce: Option<&'static str>,
    /// Kind and detail of what it says to a new order, and of the error of an order that is there.
    pub refuses: Option<(&'static str, &'static str)>,
    pub fails: Option<(&'static str, &'static str)>,
    /// Requests for this path are not answered.
    pub silent: Option<&'static str>,
    /// Of each challenge.
    pub token: &'static str,
    /// Authorizations beyond one for each name.
    pub more: usize,
    /// Stands before the chain.
    pub before: String,
    pub accounts: usize,
    pub orders: usize,
    pub issued: usize,
    order: Order,
}

#[derive(Default)]
struct Order {
    identifiers: Vec<Value>,
    replaces: Option<Value>,
    /// So many of its first names.
    proved: usize,
    chain: Option<String>,
}

pub struct Authority {
    pub directory: String,
    /// What believes it.
    pub network: Arc<ClientConfig>,
    at: SocketAddr,
    will: Arc<Mutex<Will>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The key of a request for a certificate.
struct Key(Vec<u8>);

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    pub fn start() -> Authority {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let (server, network) = tls(&root, &issuer);
        let will = Arc::new(Mutex::new(Will {
            life: (0, 90 * DAY as i64),
            wants_proof: false,
            window: None,
            echoes: true,
            retry_after: "1",
            nonce: None,
            refuses: None,
            fails: None,
            silent: None,
            token: "token",
            more: 0,
            before: String::new(),
            accounts: 0,
            orders: 0,
            issued: 0,
            order: Order::default(),
        }));
        let ends = Arc::new(AtomicBool::new(false));
        let thread = {
            let (will, ends) = (will.clone(), ends.clone());
            thread::spawn(move || {
                while let Ok((socket, _)) = listener.accept()
                    && !ends.load(SeqCst)
                {
                    let _ = socket.set_read_timeout(Some(Duration::from_secs(10)));
                    let mut stream = StreamOwned::new(ServerConnection::new(server.clone()).unwrap(), socket);
                    if let Some((head, body)) = read(&mut stream)
                        && let Some(answer) = will.lock().unwrap().answer(at, &issuer, &head, &body)
                    {
                        let _ = stream.write_all(answer.as_bytes());
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                }
            })
        };
        Authority {
            directory: format!("https://{at}/directory"),
            network,
            at,
            will,
            ends,
            thread: Some(thread),
        }
    }

    pub fn will(&self) -> MutexGuard<'_, Will> {
        self.will.lock().unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        let _ = TcpStream::connect(self.at);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What it speaks TLS by, and what believes it.
fn tls(root: &Certificate, issuer: &Issuer<'_, KeyPair>) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().signed_by(&key, issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server.into(), client.into())
}

/// The head of a request, and the payload of its content.
fn read(stream: &mut impl Read) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut more = || {
        let mut part = [0; 4096];
        let n = stream.read(&mut part).ok().filter(|n| *n > 0)?;
        bytes.extend(&part[..n]);
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let text = head.map(|at| String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase());
        let length = text.as_ref().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok())
        });
        Some((head, length.unwrap_or(0), bytes.clone()))
    };
    loop {
        let (head, length, bytes) = more()?;
        let Some(at) = head.filter(|at| bytes.len() >= at + length) else { continue };
        let line = String::from_utf8_lossy(&bytes[..at]).lines().next().unwrap().to_owned();
        let jws: Value = serde_json::from_slice(&bytes[at..]).unwrap_or_default();
        let payload = BASE64URL_NOPAD.decode(jws["payload"].as_str().unwrap_or_default().as_bytes()).unwrap();
        return Some((line, serde_json::from_slice(&payload).unwrap_or_default()));
    }
}

impl Will {
    fn answer(
        &mut self,
        at: SocketAddr,
        issuer: &Issuer<'_, KeyPair>,
        line: &str,
        told: &Value,
    ) -> Option<String> {
        let url = |path: &str| format!("https://{at}{path}");
        let path = line.split(' ').nth(1).unwrap();
        if self.silent.is_some_and(|silent| path.starts_with(silent)) {
            return None;
        }
        let problem =
            |(kind, detail): (&str, &str)| json!({ "type": format!("{ERROR}{kind}"), "detail": detail });
        let json = |body: Value| (200, String::new(), body.to_string());
        let (status, location, body) = match path {
            "/directory" => {
                let mut directory = json!({
                    "newNonce": self.nonce.map_or_else(|| url("/nonce"), str::to_owned),
                    "newAccount": url("/account"),
                    "newOrder": url("/order"),
                });
                if self.window.is_some() {
                    directory["renewalInfo"] = url("/renewal").into();
                }
                json(directory)
            }
            "/nonce" => (200, String::new(), String::new()),
            "/account" => {
                self.accounts += 1;
                (201, url(&format!("/account/{}", self.accounts)), json!({ "status": "valid" }).to_string())
            }
            "/order" => {
                self.orders += 1;
                match self.refuses {
                    Some(refusal) => (400, String::new(), problem(refusal).to_string()),
                    None => {
                        let identifiers = told["identifiers"].as_array().unwrap().clone();
                        self.order = Order {
                            proved: if self.wants_proof { 0 } else { identifiers.len() },
                            identifiers,
                            replaces: told.get("replaces").cloned().filter(|_| self.echoes),
                            chain: None,
                        };
                        (201, url("/order/1"), self.state(&url, &problem).to_string())
                    }
                }
            }
            "/order/1" => json(self.state(&url, &problem)),
            "/finalize" => {
                let request = BASE64URL_NOPAD.decode(told["csr"].as_str().unwrap().as_bytes()).unwrap();
                self.issued += 1;
                self.order.chain = Some(self.before.clone() + &self.issue(issuer, &request));
                json(self.state(&url, &problem))
            }
            "/certificate" => (200, String::new(), self.order.chain.clone().unwrap()),
            "/challenge" => {
                self.order.proved += 1;
                json(self.challenge(&url, "processing"))
            }
            _ => match path.strip_prefix("/authorization/").and_then(|n| n.parse::<usize>().ok()) {
                Some(n) => {
                    let name = self.order.identifiers[n]["value"].as_str().unwrap();
                    json(json!({
                        "identifier": { "type": "dns", "value": name.trim_start_matches("*.") },
                        "status": if n < self.order.proved { "valid" } else { "pending" },
                        "challenges": [self.challenge(&url, "pending")],
                    }))
                }
                None if path.starts_with("/renewal/") => {
                    let [start, end] = self.window.unwrap();
                    json(json!({ "suggestedWindow": { "start": start, "end": end } }))
                }
                None => (404, String::new(), problem(("malformed", path)).to_string()),
            },
        };
        let body = if line.starts_with("HEAD ") { "" } else { &body };
        let location = if location.is_empty() { location } else { format!("Location: {location}\r\n") };
        Some(format!(
            "HTTP/1.1 {status} X\r\nReplay-Nonce: AAAA\r\nRetry-After: {}\r\n{location}Content-Length: {}\r\n\r\n{body}",
            self.retry_after,
            body.len()
        ))
    }

    fn state(&self, url: &dyn Fn(&str) -> String, problem: &dyn Fn((&str, &str)) -> Value) -> Value {
        let Order { identifiers, replaces, proved, chain } = &self.order;
        let authorizations: Vec<_> =
            (0..identifiers.len() + self.more).map(|n| url(&format!("/authorization/{n}"))).collect();
        let status = match chain {
            _ if self.fails.is_some() => "invalid",
            Some(_) => "valid",
            None if *proved >= identifiers.len() => "ready",
            None => "pending",
        };
        let mut state = json!({
            "status": status, "authorizations": authorizations, "finalize": url("/finalize"), "certificate": url("/certificate"),
        });
        if let Some(failure) = self.fails {
            state["error"] = problem(failure);
        }
        if let Some(replaces) = replaces {
            state["replaces"] = replaces.clone();
        }
        state
    }

    fn issue(&self, issuer: &Issuer<'_, KeyPair>, request: &[u8]) -> String {
        let (_, request) = X509CertificationRequest::from_der(request).unwrap();
        let key = Key(request.certification_request_info.subject_pki.subject_public_key.data.to_vec());
        let names = self.order.identifiers.iter().map(|one| one["value"].as_str().unwrap().to_owned());
        let mut params = CertificateParams::new(names.collect::<Vec<_>>()).unwrap();
        let at = |seconds: i64| {
            let (now, by) = (SystemTime::now(), Duration::from_secs(seconds.unsigned_abs()));
            if seconds < 0 { now - by } else { now + by }
        };
        params.not_before = at(-self.life.0).into();
        params.not_after = at(self.life.1).into();
        params.use_authority_key_identifier_extension = true;
        params.signed_by(&key, issuer).unwrap().pem()
    }

    fn challenge(&self, url: &dyn Fn(&str) -> String, status: &str) -> Value {
        json!({ "type": "dns-01", "url": url("/challenge"), "token": self.token, "status": status })
    }
}
