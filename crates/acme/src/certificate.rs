//! What is read of a certificate that rustls does not tell: how long it lasts, for whom it is, and how its authority knows it.

use crate::name::{Name, Names};
use instant_acme::CertificateIdentifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, Der, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::net::IpAddr;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

/// When a certificate holds, in seconds since 1970: from the first, up to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub from: u64,
    pub until: u64,
}

impl Life {
    /// Seconds.
    pub fn length(self) -> u64 {
        self.until.saturating_sub(self.from)
    }

    /// Whether no more than a tenth of it is left.
    pub fn nears_its_end(self, now: u64) -> bool {
        now.saturating_add(self.length() / 10) >= self.until
    }
}

#[derive(Clone, Debug)]
pub struct Certificate {
    pub life: Life,
    names: Vec<Name>,
    /// As its authority knows it (RFC 9773 section 4.1), if that is to be seen.
    pub(crate) id: Option<CertificateIdentifier<'static>>,
}

impl Certificate {
    /// # Errors
    /// One line.
    pub fn of(der: &[u8]) -> Result<Certificate, String> {
        let (_, parsed) = X509Certificate::from_der(der)
            .map_err(|error| format!("it is no certificate of X.509: {error}"))?;
        let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
        let validity = parsed.validity();
        let life = Life {
            from: seconds(validity.not_before.timestamp()),
            until: seconds(validity.not_after.timestamp()),
        };
        let (mut names, mut issuer) = (Vec::new(), None);
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(all) => {
                    names.extend(all.general_names.iter().filter_map(name))
                }
                ParsedExtension::AuthorityKeyIdentifier(key) => {
                    issuer = key.key_identifier.as_ref().map(|key| key.0)
                }
                _ => {}
            }
        }
        let serial = parsed.tbs_certificate.raw_serial();
        let id = issuer.map(|issuer| {
            CertificateIdentifier::new(Der::from_slice(issuer), Der::from_slice(serial)).into_owned()
        });
        Ok(Certificate { life, names, id })
    }

    /// The first of a chain with its key, both as PEM, which belong together.
    pub(crate) fn of_pem(pem: &[u8], provider: &CryptoProvider) -> Result<Certificate, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|error| format!("it has no certificate: {error}"))?;
        let first = Certificate::of(chain.first().ok_or("it has no certificate")?)?;
        let key =
            PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("it has no private key: {error}"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| error.to_string())?;
        Ok(first)
    }

    /// Whether it is for all of these.
    pub(crate) fn covers(&self, names: &Names) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    pub fn names(&self) -> &[Name] {
        &self.names
    }
}

fn name(general: &GeneralName<'_>) -> Option<Name> {
    match general {
        GeneralName::DNSName(name) => name.parse().ok(),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(Name::Address(IpAddr::from([a, b, c, d]))),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| Name::Address(IpAddr::from(bytes))),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn of_pem(pem: &str) -> Result<Certificate, String> {
        Certificate::of_pem(pem.as_bytes(), &rustls::crypto::aws_lc_rs::default_provider())
    }

    #[test]
    fn life_and_names_are_read() {
        let mut params = CertificateParams::new(
            ["a.example", "*.b.example", "192.0.2.1", "2001:db8::1"].map(String::from),
        )
        .unwrap();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 11);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let read = Certificate::of(made.der()).unwrap();
        assert_eq!((read.life.from, read.life.length()), (1_767_225_600, 10 * 86_400));
        let names = |text: &str| text.parse::<Names>().unwrap();
        assert!(read.covers(&names("a.example+*.b.example+192.0.2.1+2001:db8::1")));
        assert!(!read.covers(&names("c.b.example")), "it is ordered by its own name");
        assert!(
            !read.life.nears_its_end(read.life.until - 86_401)
                && read.life.nears_its_end(read.life.until - 86_400)
        );
        let both = made.pem() + &key.serialize_pem();
        assert_eq!(of_pem(&both).unwrap().life, read.life);
        for wrong in [String::new(), "-----BEGIN X-----".into(), made.pem(), key.serialize_pem()] {
            assert!(of_pem(&wrong).is_err(), "{wrong}");
        }
        let other = made.pem() + &KeyPair::generate().unwrap().serialize_pem();
        assert!(of_pem(&other).is_err(), "another's key");
    }

    #[test]
    fn what_is_none_is_refused_in_a_line() {
        let made = CertificateParams::new(vec!["a.example".into()])
            .unwrap()
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        for n in 0..made.der().len() {
            assert!(
                Certificate::of(&made.der()[..n]).is_err_and(|why| why.lines().count() == 1),
                "{n} bytes"
            );
        }
    }
}
