//! What is ordered, of whom, and how.

use crate::folder::Folder;
use crate::name::{Name, Names};
use data_encoding::{BASE64URL_NOPAD, Specification};
use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The directory of Let's Encrypt, and that of its certificates for tests, which nobody believes.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Bytes of a file's name before its ending: systems allow 255 for both.
const STEM: usize = 240;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// One certificate each.
    pub certificates: Vec<Names>,
    /// Where the authority says what it offers (RFC 8555 section 7.1.1).
    pub directory: String,
    /// Without it, most authorities give no account.
    pub agrees_to_terms: bool,
    /// Whom the authority may write to.
    pub email: Option<String>,
    /// By which an account with the authority proves that it is a customer's.
    pub binding: Option<Binding>,
    /// Which kind of certificate is wanted, where the authority has several.
    pub profile: Option<String>,
    pub challenge: Challenge,
    /// Where account, certificates and keys are.
    pub folder: PathBuf,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            certificates: Vec::new(),
            directory: LETS_ENCRYPT.into(),
            agrees_to_terms: false,
            email: None,
            binding: None,
            profile: None,
            challenge: Challenge::TlsAlpn,
            folder: "acme".into(),
        }
    }
}

impl Settings {
    /// What is wrong with them, or with what is there, as far as that can be told without the authority; nothing where nothing is to be
    /// ordered. Writes nothing.
    ///
    /// # Errors
    /// One line.
    pub fn check(&self) -> Result<(), String> {
        if self.certificates.is_empty() {
            return Ok(());
        }
        if self.directory.parse::<http::Uri>().is_err() {
            return Err(format!("`{}` is no URL", self.directory));
        }
        if let Some(names) = self.certificates.iter().find(|names| names.file_stem().len() > STEM) {
            return Err(format!(
                "{} is too long for the name of a file: put a name of at most {STEM} characters before it",
                names.first()
            ));
        }
        let files: Vec<PathBuf> = self.files().collect();
        if let Some(n) = (0..files.len()).find(|n| files[..*n].contains(&files[*n])) {
            return Err(format!(
                "two certificates begin with {}: order one for all names",
                self.certificates[n].first()
            ));
        }
        if let Some(name) = self.challenge.cannot(self.certificates.iter()) {
            let challenge = self.challenge.name();
            return Err(match name {
                Name::Address(_) => {
                    format!("{name} is an address, which {challenge} cannot prove: leave out acme-dns-hook")
                }
                _ => format!(
                    "{challenge} cannot prove {name}: give a certificate for it (tls-certificate), or a program that changes DNS (acme-dns-hook)"
                ),
            });
        }
        if !self.agrees_to_terms {
            return Err(
                "read the terms of the authority, and say that you agree to them (acme-agree-terms yes)"
                    .into(),
            );
        }
        Folder::of(&self.folder, &self.directory).check().map_err(|why| format!("acme-folder: {why}"))
    }

    /// Where the certificates are, or will be.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = Folder::of(&self.folder, &self.directory);
        self.certificates.iter().map(move |names| folder.certificate(names))
    }
}

/// How it is proved that a name is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By an answer over HTTP on port 80 (RFC 8555 section 8.3).
    Http,
    /// In a TLS handshake on port 443 (RFC 8737).
    TlsAlpn,
    /// By a record in DNS (RFC 8555 section 8.4), which this program puts there.
    Dns(PathBuf),
}

impl Challenge {
    pub fn name(&self) -> &'static str {
        match self {
            Challenge::Http => "http-01",
            Challenge::TlsAlpn => "tls-alpn-01",
            Challenge::Dns(_) => "dns-01",
        }
    }

    /// The first of the names that it cannot prove.
    pub fn cannot<'a>(&self, mut all: impl Iterator<Item = &'a Names>) -> Option<&'a Name> {
        let is_beyond = |name: &&Name| match self {
            Challenge::Dns(_) => matches!(name, Name::Address(_)),
            Challenge::Http | Challenge::TlsAlpn => matches!(name, Name::Wild(_)),
        };
        all.find_map(|names| names.iter().find(is_beyond))
    }
}

/// An external account binding (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct Binding {
    pub id: String,
    key: Vec<u8>,
}

impl Binding {
    /// Two words: the key's id, and the key in base64url or base64.
    ///
    /// # Errors
    /// One line that shows nothing of the key.
    pub fn of(text: &str) -> Result<Binding, String> {
        static LENIENT: LazyLock<Option<data_encoding::Encoding>> = LazyLock::new(|| {
            let mut specification: Specification = BASE64URL_NOPAD.specification();
            specification.translate.from.push_str("+/");
            specification.translate.to.push_str("-_");
            specification.ignore.push('=');
            specification.encoding().ok()
        });
        let words: Vec<&str> = text.split_whitespace().collect();
        let decode = |key: &str| LENIENT.as_ref()?.decode(key.as_bytes()).ok().filter(|key| key.len() >= 16);
        match words[..] {
            [id, key] => decode(key).map(|key| Binding { id: id.into(), key }),
            _ => None,
        }
        .ok_or_else(|| {
            "it has no external account: two words, the id of the key, and the key of at least 16 bytes in base64url".into()
        })
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_two_words_and_shows_no_key() {
        let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
        let binding = Binding::of(&format!("kid-1\n{key}\n")).unwrap();
        assert_eq!((binding.id.as_str(), binding.key().len()), ("kid-1", 48));
        assert!(!format!("{binding:?}").contains("zWND"));
        // Both alphabets, with and without padding.
        let same = |text: &str| Binding::of(&format!("k {text}")).unwrap();
        assert_eq!(same("+/+/AAECAwQFBgcICQoLDA=="), same("-_-_AAECAwQFBgcICQoLDA"));
        for wrong in ["", "k", "k AAAA", "k !!!!", "a b c"] {
            let why = Binding::of(wrong).unwrap_err();
            assert!(why.starts_with("it has no external account") && !why.contains("AAAA"), "{why}");
        }
    }

    #[test]
    fn each_challenge_says_what_it_cannot_prove() {
        let names: Vec<Names> =
            ["a.example", "*.b.example+b.example", "192.0.2.1"].map(|text| text.parse().unwrap()).into();
        let cannot = |challenge: Challenge| challenge.cannot(names.iter()).map(ToString::to_string);
        assert_eq!(cannot(Challenge::Http).unwrap(), "*.b.example");
        assert_eq!(cannot(Challenge::TlsAlpn).unwrap(), "*.b.example");
        assert_eq!(cannot(Challenge::Dns("hook".into())).unwrap(), "192.0.2.1");
        assert_eq!(Challenge::Http.cannot(names[..1].iter()), None);
    }
}
