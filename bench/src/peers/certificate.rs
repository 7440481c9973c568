//! The certificate that everyone shows where TLS is spoken: ECDSA with P-256, signed by itself.

use crate::load::Tls;
use rcgen::{CertifiedKey, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;

/// Of no host: nobody looks it up.
const NAME: &str = "cosm.test";

pub struct Certificate {
    der: CertificateDer<'static>,
    /// With its key.
    pub pem: String,
}

impl Certificate {
    pub fn make() -> Result<Certificate, String> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let CertifiedKey { cert, signing_key } = made.map_err(|e| format!("make a certificate: {e}"))?;
        if !signing_key.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            return Err("make a certificate: its key is not of P-256".into());
        }
        Ok(Certificate { der: cert.der().clone(), pem: cert.pem() + &signing_key.serialize_pem() })
    }

    /// Clients that know it.
    pub fn clients(&self, protocol: &[u8], resumes: bool) -> Result<Tls, String> {
        Tls::new(&self.der, NAME, protocol, resumes)
    }
}
