//! Challenges that are open: what an authority asks, over HTTP or in a TLS handshake, to see that a name is ours.

use crate::name::Name;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is agreed on by ALPN in a handshake that only proves a name (RFC 8737 section 6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Before a challenge's token in a URL (RFC 8555 section 8.3).
const PATH: &str = "/.well-known/acme-challenge/";

/// Those of this process. Nearly always there is none, which one number tells.
#[derive(Default)]
pub struct Challenges {
    count: AtomicUsize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// By token.
    http: HashMap<String, String>,
    /// By the name that is asked for in the handshake.
    tls: HashMap<String, Arc<CertifiedKey>>,
}

/// An open challenge; closes when dropped.
pub struct Opened {
    challenges: Arc<Challenges>,
    what: What,
}

enum What {
    Http(String),
    Tls(String),
}

impl Challenges {
    /// Whether there is any.
    pub fn are_open(&self) -> bool {
        self.count.load(Acquire) > 0
    }

    /// What is answered to a request for this path; `None`: it is no challenge of ours.
    pub fn http(&self, path: &str) -> Option<String> {
        if !self.are_open() {
            return None;
        }
        let token = path.strip_prefix(PATH)?;
        self.lock().http.get(token).cloned()
    }

    /// What a handshake proves this name with.
    pub fn tls(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.lock().tls.get(&name.to_ascii_lowercase()).cloned()
    }

    pub(crate) fn open_http(self: &Arc<Challenges>, token: &str, answer: &str) -> Opened {
        self.lock().http.insert(token.into(), answer.into());
        self.opened(What::Http(token.into()))
    }

    /// `digest`: SHA-256 of the key authorization.
    pub(crate) fn open_tls(
        self: &Arc<Challenges>,
        name: &Name,
        digest: &[u8],
        provider: &CryptoProvider,
    ) -> Result<Opened, String> {
        let key = proof(name, digest, provider)
            .map_err(|why| format!("no certificate for the challenge can be made: {why}"))?;
        let asked = asked_for(name);
        self.lock().tls.insert(asked.clone(), Arc::new(key));
        Ok(self.opened(What::Tls(asked)))
    }

    fn opened(self: &Arc<Challenges>, what: What) -> Opened {
        self.count.fetch_add(1, Release);
        Opened { challenges: self.clone(), what }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = self.challenges.lock();
        match &self.what {
            What::Http(token) => drop(open.http.remove(token)),
            What::Tls(name) => drop(open.tls.remove(name)),
        }
        self.challenges.count.fetch_sub(1, Release);
    }
}

/// A certificate that says the digest (RFC 8737 section 3).
fn proof(name: &Name, digest: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    if digest.len() != 32 {
        return Err("the digest is no SHA-256".into());
    }
    let mut params = CertificateParams::new(vec![name.to_string()]).map_err(|error| error.to_string())?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let made = params.self_signed(&key).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = provider.key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    // Not `from_der`, which refuses the critical extension.
    Ok(CertifiedKey::new(vec![made.der().clone()], key))
}

/// An address is asked for by its name in the reverse tree (RFC 8738 section 6).
fn asked_for(name: &Name) -> String {
    match name {
        Name::Host(host) | Name::Wild(host) => host.clone(),
        Name::Address(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Name::Address(IpAddr::V6(address)) => {
            let mut text = String::new();
            for byte in address.octets().iter().rev() {
                let _ = write!(text, "{:x}.{:x}.", byte & 15, byte >> 4);
            }
            text + "ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    #[test]
    fn a_challenge_is_answered_while_it_is_open() {
        let challenges = Arc::new(Challenges::default());
        let at = |token: &str| challenges.http(&format!("{PATH}{token}"));
        assert_eq!(at("t"), None);
        let (one, other) = (challenges.open_http("t", "t.thumb"), challenges.open_http("u", "u.thumb"));
        assert_eq!((at("t").as_deref(), at("u").as_deref()), (Some("t.thumb"), Some("u.thumb")));
        assert_eq!((at(""), at("t/"), challenges.http("/t")), (None, None, None));
        drop(one);
        assert_eq!((at("t"), at("u").as_deref()), (None, Some("u.thumb")));
        drop(other);
        assert_eq!(at("u"), None);
    }

    #[test]
    fn a_handshake_proves_the_digest_and_nothing_else() {
        let challenges = Arc::new(Challenges::default());
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let name: Name = "a.example".parse().unwrap();
        assert!(challenges.open_tls(&name, &[7; 31], &provider).is_err());
        let opened = challenges.open_tls(&name, &[7; 32], &provider).unwrap();
        let shown = challenges.tls("A.example").unwrap();
        let (_, parsed) = X509Certificate::from_der(&shown.cert[0]).unwrap();
        let extension =
            parsed.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31").unwrap();
        assert!(extension.critical);
        assert_eq!(extension.value, [&[0x04, 0x20][..], &[7; 32]].concat());
        assert!(challenges.tls("b.example").is_none());
        drop(opened);
        assert!(challenges.tls("a.example").is_none());
    }

    #[test]
    fn an_address_is_asked_for_in_reverse() {
        let of = |text: &str| asked_for(&text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(of("2001:db8::1"), format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23)));
    }
}
