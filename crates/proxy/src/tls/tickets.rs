//! Keys of session tickets (RFC 5077, RFC 8446 section 4.6.1): clients keep their sessions, sealed by a key of ours, and bring them to
//! whichever worker or process they come to.
//!
//! What always holds: a key seals for `PERIOD`, and opens what it sealed for `LIFETIME` after that. Where no new key can be kept in the
//! file, the newest seals on, until it opens nothing any more: its last tickets are good for less than they say. Whoever has a key reads
//! the sessions that it sealed, so that its file is open to this user alone, and no longer has it then.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use rustls::server::ProducesTickets;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Seconds in which a key seals.
const PERIOD: u64 = 6 * 3600;
/// Seconds in which a ticket is taken.
const LIFETIME: u32 = 12 * 3600;
/// How long another process may take to make a key.
const TURN: Duration = Duration::from_secs(1);
/// Keys that there may be, also of other processes whose clocks differ.
const MOST: usize = 16;

/// Where the keys are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TicketKeys {
    /// In this process alone.
    #[default]
    Memory,
    /// In a file, for later starts, and for others that are to take the same tickets.
    File(PathBuf),
    /// There are no tickets: each handshake is a full one.
    Off,
}

/// The keys in use.
pub struct Tickets {
    file: Option<PathBuf>,
    /// The newest first; it seals.
    keys: RwLock<Vec<Arc<Key>>>,
}

struct Key {
    /// Seconds since 1970.
    made: u64,
    name: [u8; 16],
    secret: [u8; 32],
    sealing: RandomizedNonceKey,
}

/// What seals tickets.
pub struct Sealer(pub Arc<Tickets>);

impl Tickets {
    /// With keys that there are, or new ones. `now`: seconds since 1970.
    ///
    /// # Errors
    /// One line: the file is of no use, or cannot be written.
    pub fn open(file: Option<PathBuf>, now: u64) -> Result<Tickets, String> {
        let tickets = Tickets { file, keys: RwLock::default() };
        tickets.tend(now)?;
        Ok(tickets)
    }

    /// Takes keys that another process has made, makes a new one when it is time, and forgets old ones, whatever becomes of the file.
    pub fn tend(&self, now: u64) -> Result<(), String> {
        self.renew(now)
            .inspect_err(|_| keep(&mut self.keys.write().unwrap_or_else(PoisonError::into_inner), now))
    }

    fn renew(&self, now: u64) -> Result<(), String> {
        let is_due = |keys: &[Arc<Key>]| keys.first().is_none_or(|newest| !newest.seals(now));
        let Some(file) = &self.file else {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keep(&mut keys, now);
            if is_due(&keys) {
                keys.insert(0, Key::new(now)?.into());
            }
            return Ok(());
        };
        let read_kept = || {
            let mut keys = read(file)?;
            keep(&mut keys, now);
            Ok::<_, String>(keys)
        };
        let mut keys = read_kept()?;
        if is_due(&keys) {
            // Others may be about to do the same: whoever comes second finds a new key.
            let folder =
                file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let cannot = |error| format!("cannot write {}: {error}", file.display());
            let turn = File::open(folder).map_err(cannot)?;
            take_turn(&turn).map_err(cannot)?;
            keys = read_kept()?;
            if is_due(&keys) {
                keys.insert(0, Key::new(now)?.into());
                write(file, &keys).map_err(cannot)?;
            }
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// What is wrong with a file of keys, before it is used.
    pub fn check(file: &Path) -> Result<(), String> {
        read(file).map(drop)
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.read().unwrap_or_else(PoisonError::into_inner).first()?.clone();
        let mut sealed = plain.to_vec();
        let nonce = key.sealing.seal_in_place_append_tag(Aad::empty(), &mut sealed).ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open_ticket(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<16>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.iter().find(|key| key.name == *name)?.clone();
        drop(keys);
        let mut sealed = sealed.to_vec();
        let plain =
            key.sealing.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut sealed);
        plain.ok().map(|plain| plain.to_vec())
    }
}

impl Key {
    fn new(now: u64) -> Result<Key, String> {
        let (mut name, mut secret) = ([0; 16], [0; 32]);
        let filled = rand::fill(&mut name).and_then(|()| rand::fill(&mut secret));
        filled.map_err(|_| "the system gives no random bytes for a key of session tickets")?;
        Key::of(now, name, secret).ok_or_else(|| "no key of session tickets can be made".into())
    }

    fn of(made: u64, name: [u8; 16], secret: [u8; 32]) -> Option<Key> {
        let sealing = RandomizedNonceKey::new(&AES_256_GCM, &secret).ok()?;
        Some(Key { made, name, secret, sealing })
    }

    fn seals(&self, now: u64) -> bool {
        now < self.made.saturating_add(PERIOD)
    }

    fn opens(&self, now: u64) -> bool {
        now < self.made.saturating_add(PERIOD + u64::from(LIFETIME))
    }
}

fn keep(keys: &mut Vec<Arc<Key>>, now: u64) {
    keys.sort_by_key(|key| std::cmp::Reverse(key.made));
    // A key of the future is one of a clock that was wrong: it would seal for ever.
    keys.retain(|key| key.opens(now) && key.made <= now.saturating_add(PERIOD));
    keys.truncate(MOST);
}

/// The keys of a file; none where there is no file.
fn read(file: &Path) -> Result<Vec<Arc<Key>>, String> {
    let wrong = |why: &str| format!("{}: {why}", file.display());
    let found = match fs::metadata(file) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(&error.to_string())),
    };
    if !found.is_file() || found.len() > 64 << 10 {
        return Err(wrong("it is no file of keys of session tickets"));
    }
    if found.mode() & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("its keys read all sessions: it has to belong to this user, and chmod 600"));
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let key = |line: &str| {
        let [made, name, secret] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let bytes = |text: &str| HEX.decode(text.as_bytes()).ok();
        Key::of(made.parse().ok()?, bytes(name)?.try_into().ok()?, bytes(secret)?.try_into().ok()?)
    };
    let keys: Option<Vec<_>> = lines.map(|line| key(line).map(Arc::new)).collect();
    keys.ok_or_else(|| wrong("a line is no key: remove the file, and a new one is made"))
}

/// Locks a folder, which others do for moments. Whoever does for longer is not waited for.
fn take_turn(folder: &File) -> std::io::Result<()> {
    let until = Instant::now() + TURN;
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() > until => {
                return Err(std::io::Error::other("another process holds a lock of the folder"));
            }
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(10)),
        }
    }
}

fn write(file: &Path, keys: &[Arc<Key>]) -> std::io::Result<()> {
    let mut text = "# Keys of TLS session tickets. Whoever has them reads the sessions.\n".to_owned();
    for Key { made, name, secret, .. } in keys.iter().map(|key| &**key) {
        text += &format!("{made} {} {}\n", HEX.encode(name), HEX.encode(secret));
    }
    acme::replace(file, text.as_bytes())
}

impl ProducesTickets for Sealer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.open_ticket(ticket)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: u64 = 1_800_000_000;

    fn sealed_at(tickets: &Tickets, now: u64) -> Vec<u8> {
        tickets.tend(now).unwrap();
        tickets.seal(b"session").unwrap()
    }

    #[test]
    fn a_ticket_is_taken_as_long_as_it_says_and_not_beyond_its_key() {
        let tickets = Tickets::open(None, NOW).unwrap();
        let ticket = sealed_at(&tickets, NOW + PERIOD - 1);
        let takes = |now| {
            tickets.tend(now).unwrap();
            tickets.open_ticket(&ticket).is_some()
        };
        assert!(
            takes(NOW + PERIOD - 1) && takes(NOW + PERIOD) && takes(NOW + PERIOD - 1 + u64::from(LIFETIME))
        );
        assert!(!takes(NOW + PERIOD + u64::from(LIFETIME)));
        assert_ne!(sealed_at(&tickets, NOW)[..16], ticket[..16], "another key seals by then");
        // Nothing but what was sealed is taken.
        let ticket = sealed_at(&tickets, NOW + 3 * PERIOD);
        assert_eq!(tickets.open_ticket(&ticket).unwrap(), b"session");
        for n in 0..ticket.len() {
            let mut other = ticket.clone();
            other[n] ^= 1;
            assert_eq!(tickets.open_ticket(&other), None);
            assert_eq!(tickets.open_ticket(&ticket[..n]), None);
        }
    }

    #[test]
    fn others_take_the_same_tickets_by_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tickets");
        let one = Tickets::open(Some(file.clone()), NOW).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let other = Tickets::open(Some(file.clone()), NOW + 1).unwrap();
        let mut now = NOW;
        for _ in 0..8 {
            let ticket = sealed_at(&one, now);
            other.tend(now).unwrap();
            assert!(other.open_ticket(&ticket).is_some());
            now += PERIOD;
            // The first to see that it is time makes the key of both.
            let ticket = sealed_at(&other, now);
            one.tend(now).unwrap();
            assert!(one.open_ticket(&ticket).is_some());
        }
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1 + 3, "old ones have gone");
        let again = Tickets::open(Some(file.clone()), now).unwrap();
        assert!(again.open_ticket(&sealed_at(&one, now)).is_some());
        // A clock that was wrong has no key for ever.
        let past = Tickets::open(Some(file), NOW - 100 * PERIOD).unwrap();
        assert!(past.seal(b"").is_some());
    }

    #[test]
    fn a_folder_that_another_holds_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tickets");
        let tickets = Tickets::open(Some(file), NOW).unwrap();
        let held = File::open(folder.path()).unwrap();
        held.lock().unwrap();
        let ticket = tickets.seal(b"session").unwrap();
        let error = tickets.tend(NOW + PERIOD).unwrap_err();
        assert!(error.contains("another process holds a lock of the folder"), "{error}");
        assert!(
            tickets.open_ticket(&ticket).is_some() && tickets.seal(b"").is_some(),
            "what is there goes on"
        );
        held.unlock().unwrap();
        tickets.tend(NOW + PERIOD).unwrap();
    }

    #[test]
    fn a_file_of_no_use_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tickets");
        let refused = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let error = Tickets::open(Some(file.clone()), NOW).err().unwrap();
            assert!(error.lines().count() == 1 && error.contains("tickets: "), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text, "it is left as it is");
            error
        };
        assert!(refused("", 0o640).contains("chmod 600"));
        assert!(refused("", 0o604).contains("chmod 600"));
        let secret = "11".repeat(32);
        let error = refused(&format!("1 {} {secret}", "00".repeat(15)), 0o600);
        assert!(error.contains("a line is no key") && !error.contains(&secret), "{error}");
        for wrong in ["x", "1 2 3", "-1 00 00"] {
            assert!(refused(wrong, 0o600).contains("a line is no key"));
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(Tickets::check(&file).is_err());
        let nowhere = folder.path().join("none/tickets");
        assert!(Tickets::open(Some(nowhere), NOW).err().unwrap().contains("cannot write"));
    }
}
