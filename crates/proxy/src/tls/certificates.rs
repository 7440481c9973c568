//! Certificates with their keys, by the names that clients ask for, and those by which others are verified.

use super::provider;
use acme::Life;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file with certificates: the roots of a system are a quarter of it.
const MOST: u64 = 1 << 20;

/// Where a certificate and its key are: one file of PEM with both, or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// What a listener proves its names with.
pub struct Certificates {
    all: Vec<Held>,
    /// By name, in lower case; `*.` stands for one label (RFC 9525 section 6.3).
    by_name: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// The first: for clients that ask for no name, or for one that none has.
    default: Option<Arc<CertifiedKey>>,
}

/// One of them.
#[derive(Clone)]
struct Held {
    files: KeyFiles,
    /// It need not be there: it is ordered.
    may_lack: bool,
    /// Of what was read. If it was of no use, those before: the files are looked at again.
    stamps: [Stamp; 2],
    certified: Option<Certified>,
    /// Why it is not what its files are now.
    stays: Option<String>,
}

/// A certificate that was read.
#[derive(Clone)]
struct Certified {
    key: Arc<CertifiedKey>,
    names: Vec<Box<str>>,
    life: Option<NamedLife>,
}

/// When a certificate holds, and the first of its names or addresses; where it has none, its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLife {
    pub name: String,
    pub life: Life,
}

/// By which a file is told from what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Option<(u64, u64, u64, i64, i64)>);

/// Certificates of issuers that are believed.
#[derive(Clone)]
pub struct Roots {
    pub store: Arc<RootCertStore>,
}

impl KeyFiles {
    /// `FILE` with both, or `CHAIN:KEY`. A folder has them as `fullchain.pem` and `privkey.pem`.
    pub fn of(text: &str) -> KeyFiles {
        match text.split_once(':') {
            Some((chain, key)) => KeyFiles { chain: chain.into(), key: key.into() },
            None if Path::new(text).is_dir() => {
                let at = |name| Path::new(text).join(name);
                KeyFiles { chain: at("fullchain.pem"), key: at("privkey.pem") }
            }
            None => KeyFiles { chain: text.into(), key: text.into() },
        }
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// One line that says which file, what is wrong with it, and what to do.
    pub fn load(&self) -> Result<Arc<CertifiedKey>, String> {
        Ok(self.read()?.key)
    }

    fn read(&self) -> Result<Certified, String> {
        let KeyFiles { chain, key } = self;
        let certificates = certificates(chain)?;
        let text = text(key)?;
        let private = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            pem::Error::NoItemsFound => format!(
                "{} has no private key: PEM with `BEGIN PRIVATE KEY`, which no password protects",
                key.display()
            ),
            error => format!("{}: {}", key.display(), as_pem(&error)),
        })?;
        let both =
            CertifiedKey::from_der(certificates, private, &provider()).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!(
                        "the key in {} is not that of the certificate in {}",
                        key.display(),
                        chain.display()
                    )
                }
                rustls::Error::General(_) => format!(
                    "{}: it is no private key of a kind that is used: RSA of 2048 bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519",
                    key.display()
                ),
                error => format!("{}: {error}", key.display()),
            })?;
        let names = names(&both, chain)?;
        let life = both.cert.first().and_then(|first| NamedLife::of(first, chain));
        Ok(Certified { key: Arc::new(both), names, life })
    }

    fn stamps(&self) -> [Stamp; 2] {
        [Stamp::of(&self.chain), Stamp::of(&self.key)]
    }

    /// What is wrong with who may read the key, if anything.
    pub fn doubt(&self) -> Option<String> {
        let mode = fs::metadata(&self.key).ok()?.mode();
        (mode & 0o007 != 0).then(|| {
            let key = self.key.display();
            format!("the private key in {key} is open to all users of this host: chmod o= {key}")
        })
    }
}

impl Certified {
    /// Whether another one has expired, and this one has not.
    fn outlives(&self, other: &Certified, now: u64) -> bool {
        let has_expired = |one: &Certified| one.life.as_ref().is_some_and(|one| one.life.until <= now);
        has_expired(other) && !has_expired(self)
    }
}

impl Certificates {
    /// Reads all of them.
    ///
    /// # Errors
    /// As `KeyFiles::load`.
    pub fn load(files: Vec<KeyFiles>) -> Result<Certificates, String> {
        Certificates::with_ordered(files, [])
    }

    /// The same, and behind them what is ordered: files with a chain and its key, as far as they are there and of use. A client whose
    /// name none is for, not even by being the first, has no handshake.
    pub fn with_ordered(
        files: Vec<KeyFiles>,
        ordered: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Certificates, String> {
        let given = files.into_iter().map(|files| (files, false));
        let both = ordered.into_iter().map(|file| (KeyFiles { chain: file.clone(), key: file }, true));
        Certificates::read(given.chain(both), |_| None, 0)
    }

    /// `before`: what was there of one that may be missing. `now` is in seconds since 1970.
    fn read<'a>(
        all: impl Iterator<Item = (KeyFiles, bool)>,
        before: impl Fn(&KeyFiles) -> Option<&'a Held>,
        now: u64,
    ) -> Result<Certificates, String> {
        let held = |(files, may_lack): (KeyFiles, bool)| {
            // Before it is read: what changes meanwhile is seen later.
            let stamps = files.stamps();
            let is_worse = |new: &Certified| {
                let before = before(&files).and_then(|held| held.certified.as_ref());
                may_lack && before.is_some_and(|before| before.outlives(new, now))
            };
            let read = files.read().and_then(|new| match is_worse(&new) {
                true => Err(format!("{}: its certificate has expired", files.chain.display())),
                false => Ok(new),
            });
            match read {
                Ok(certified) => {
                    Ok(Held { files, may_lack, stamps, certified: Some(certified), stays: None })
                }
                Err(why) if may_lack => Ok(match before(&files) {
                    Some(held) => Held { stays: Some(why), ..held.clone() },
                    None => Held { files, may_lack, stamps, certified: None, stays: None },
                }),
                Err(why) => Err(why),
            }
        };
        Ok(Certificates::of_all(all.map(held).collect::<Result<_, String>>()?))
    }

    fn of_all(all: Vec<Held>) -> Certificates {
        let (mut by_name, mut default) = (HashMap::new(), None);
        for Certified { key, names, .. } in all.iter().filter_map(|held| held.certified.as_ref()) {
            default.get_or_insert_with(|| key.clone());
            for name in names {
                by_name.entry(name.clone()).or_insert_with(|| key.clone());
            }
        }
        Certificates { all, by_name, default }
    }

    /// The same, but of what is ordered, and has no certificate here or one that has expired, what another set has that has not.
    pub fn with_those_of(&self, before: &Certificates, now: u64) -> Certificates {
        let held = |held: &Held| {
            let before = before.find(&held.files).filter(|_| held.may_lack);
            let is_better = |before: &&Held| match (&before.certified, &held.certified) {
                (Some(before), Some(new)) => before.outlives(new, now),
                (_, new) => new.is_none(),
            };
            before.filter(is_better).unwrap_or(held).clone()
        };
        Certificates::of_all(self.all.iter().map(held).collect())
    }

    fn find(&self, files: &KeyFiles) -> Option<&Held> {
        self.all.iter().find(|held| held.files == *files)
    }

    /// Those that were given, not ordered.
    pub fn given(&self) -> impl Iterator<Item = &KeyFiles> {
        self.all.iter().filter(|held| !held.may_lack).map(|held| &held.files)
    }

    /// Of each name, how long the certificate lasts that begins with it; of several, the one that ends first.
    pub fn lives(&self) -> Vec<NamedLife> {
        self.lives_of(|_| true)
    }

    /// The same of those that were given, not ordered.
    pub fn lives_of_given(&self) -> Vec<NamedLife> {
        self.lives_of(|held| !held.may_lack)
    }

    fn lives_of(&self, which: impl Fn(&Held) -> bool) -> Vec<NamedLife> {
        let mut lives: Vec<NamedLife> = Vec::new();
        let all = self.all.iter().filter(|held| which(held));
        for found in all.filter_map(|held| held.certified.as_ref()?.life.as_ref()) {
            match lives.iter_mut().find(|other| other.name == found.name) {
                Some(other) if other.life.until <= found.life.until => {}
                Some(other) => *other = found.clone(),
                None => lives.push(found.clone()),
            }
        }
        lives
    }

    /// Files of what is ordered and not there yet.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().filter(|held| held.certified.is_none()).map(|held| &*held.files.chain)
    }

    /// Those in the files now, in seconds since 1970. What is ordered stays as it was while its file is of no use.
    pub fn again(&self, now: u64) -> Result<Certificates, String> {
        let all = self.all.iter().map(|held| (held.files.clone(), held.may_lack));
        Certificates::read(all, |files| self.find(files), now)
    }

    /// Why one stays as it was, though its file is another.
    pub fn why_one_stays(&self) -> Option<&str> {
        self.all.iter().find_map(|held| held.stays.as_deref())
    }

    /// Whether a file is another than the one that was read.
    pub fn is_outdated(&self) -> bool {
        self.all.iter().any(|held| held.files.stamps() != held.stamps)
    }

    /// Whether these were read from the same files as those.
    pub fn is_same(&self, other: &Certificates) -> bool {
        let stamps = |all: &Certificates| all.all.iter().map(|held| held.stamps.clone()).collect::<Vec<_>>();
        stamps(self) == stamps(other)
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    fn of(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let lower = name.to_ascii_lowercase();
        let wild = || self.by_name.get(&*format!("*.{}", lower.split_once('.')?.1));
        self.by_name.get(&*lower).or_else(wild).or(self.default.as_ref())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        hello.server_name().map_or(self.default.as_ref(), |name| self.of(name)).cloned()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|held| &held.files)).finish()
    }
}

impl Roots {
    /// # Errors
    /// One line that says which file, what is wrong with it, and what to do.
    pub fn load(path: &Path) -> Result<Roots, String> {
        Roots::of(certificates(path)?, path)
    }

    fn of(certificates: Vec<CertificateDer<'static>>, path: &Path) -> Result<Roots, String> {
        let mut store = RootCertStore::empty();
        for one in certificates {
            store.add(one).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Roots { store: Arc::new(store) })
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.store.len())
    }
}

impl NamedLife {
    fn of(certificate: &[u8], file: &Path) -> Option<NamedLife> {
        let read = acme::Certificate::of(certificate).ok()?;
        let name = read.names().first().map_or_else(|| file.display().to_string(), ToString::to_string);
        Some(NamedLife { name, life: read.life })
    }
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let of = |found: Metadata| (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec());
        Stamp(fs::metadata(path).ok().map(of))
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(path)?).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{} has no certificate: PEM with `BEGIN CERTIFICATE`", path.display())),
        Err(error) => Err(format!("{}: {}", path.display(), as_pem(&error))),
    }
}

/// What is wrong with a file as PEM.
fn as_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it is cut off: a line with `-----END` is missing".into(),
        pem::Error::IllegalSectionStart { .. } => "a line with `-----BEGIN` is damaged".into(),
        pem::Error::Base64Decode(_) => "its text is damaged, or a password protects the key".into(),
        error => error.to_string(),
    }
}

/// DNS names of a chain's first certificate; an address needs none, since clients ask for addresses by no name.
fn names(key: &CertifiedKey, path: &Path) -> Result<Vec<Box<str>>, String> {
    let first = key.cert.first().ok_or_else(|| format!("{} has no certificate", path.display()))?;
    let parsed = webpki::EndEntityCert::try_from(first);
    let parsed =
        parsed.map_err(|error| format!("{}: it is no certificate of X.509: {error}", path.display()))?;
    Ok(parsed.valid_dns_names().map(|name| name.to_ascii_lowercase().into()).collect())
}

fn text(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let cannot = |why: String| format!("cannot read {}: {why}", path.display());
    // A pipe would be waited for.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(cannot("it is no file".into()));
    }
    let file = fs::File::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut text = Vec::new();
    file.take(MOST + 1).read_to_end(&mut text).map_err(|error| cannot(error.to_string()))?;
    match text.len() as u64 > MOST {
        true => Err(cannot("it is larger than 1 MiB".into())),
        false => Ok(text),
    }
}
