//! When something is ordered, what is kept of it, and what holds the next order back, by an authority that goes wrong as it is told.

mod authority;

use acme::{Challenge, Challenges, Folder, Keeper, Names, Settings};
use authority::{Authority, DAY};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::time::sleep;

/// Of which less than a quarter is left.
const DUE: (i64, i64) = (80 * DAY as i64, 10 * DAY as i64);
const PAST: [&str; 2] = ["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"];

struct Place {
    authority: Authority,
    settings: Settings,
    _folder: TempDir,
}

impl Place {
    fn new(names: &str) -> Place {
        let (authority, folder) = (Authority::start(), tempfile::tempdir().unwrap());
        let settings = Settings {
            certificates: vec![names.parse().unwrap()],
            directory: authority.directory.clone(),
            agrees_to_terms: true,
            folder: folder.path().join("acme"),
            ..Settings::default()
        };
        Place { authority, settings, _folder: folder }
    }

    /// What a program that is started has.
    fn start() -> Keeper {
        Keeper::new(Challenges::default().into(), || 0.0)
    }

    async fn tend(&self, keeper: &mut Keeper) {
        keeper.tend(&self.settings, &self.authority.network).await;
    }

    fn accounts(&self) -> usize {
        self.authority.will().accounts
    }

    fn orders(&self) -> usize {
        self.authority.will().orders
    }

    fn issued(&self) -> usize {
        self.authority.will().issued
    }

    fn certificate(&self) -> PathBuf {
        Folder::of(&self.settings.folder, &self.settings.directory)
            .certificate(&self.settings.certificates[0])
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.certificate().with_file_name(name)
    }

    fn note_file(&self) -> PathBuf {
        self.certificate().with_extension("order.json")
    }

    fn note(&self) -> Value {
        serde_json::from_slice(&fs::read(self.note_file()).unwrap()).unwrap()
    }

    /// Seconds that are waited from now on.
    fn waits(&self) -> u64 {
        self.note()["again"].as_u64().unwrap().saturating_sub(now())
    }

    /// As if the time until then were over.
    fn until(&self, again: u64) {
        let mut note = self.note();
        note["again"] = again.into();
        fs::remove_file(self.note_file()).unwrap();
        write(&self.note_file(), &note.to_string(), 0o600);
    }

    fn cause(&self) -> String {
        self.note()["cause"].as_str().unwrap().to_owned()
    }

    fn hook(&mut self, text: &str) -> PathBuf {
        let path = self.settings.folder.with_file_name("hook");
        write(&path, &format!("#!/bin/sh\n{text}\n"), 0o700);
        self.settings.challenge = Challenge::Dns(path.clone());
        self.authority.will().wants_proof = true;
        path
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn what_is_due_as_soon_as_it_comes_is_not_ordered_again_at_once() {
    let place = Place::new("a.example");
    place.authority.will().life = DUE;
    let mut keeper = Place::start();
    for _ in 0..3 {
        place.tend(&mut keeper).await;
    }
    // Nor by a second start, nor where the authority wants it renewed.
    place.authority.will().window = Some(PAST);
    for _ in 0..2 {
        place.tend(&mut Place::start()).await;
    }
    assert_eq!((place.issued(), place.accounts()), (1, 1));
    assert!(place.waits().abs_diff(6 * 3600) < 600, "{}", place.note());
    // When that is over it is, and so are other names.
    place.until(now());
    place.tend(&mut keeper).await;
    assert_eq!(place.issued(), 2);
    let settings =
        Settings { certificates: vec!["a.example+b.example".parse().unwrap()], ..place.settings.clone() };
    keeper.tend(&settings, &place.authority.network).await;
    assert_eq!(place.issued(), 3);
}

#[tokio::test]
async fn a_failure_holds_back_each_start_and_each_server() {
    let place = Place::new("a.example");
    place.authority.will().life = DUE;
    let (mut one, mut other) = (Place::start(), Place::start());
    place.tend(&mut one).await;
    place.tend(&mut other).await;
    let held = fs::read(place.certificate()).unwrap();
    place.authority.will().refuses = Some(("malformed", "not today"));
    place.until(now());
    place.tend(&mut one).await;
    assert_eq!(place.cause(), "not today (malformed)");
    assert!(place.note()["failures"] == 1 && place.waits().abs_diff(120) < 60, "{}", place.note());
    for _ in 0..2 {
        place.tend(&mut one).await;
        place.tend(&mut other).await;
        place.tend(&mut Place::start()).await;
    }
    assert_eq!(place.orders(), 2, "one that was issued, one that was refused");
    assert_eq!(fs::read(place.certificate()).unwrap(), held, "it stays");
    // Each failure counts, whoever sees it.
    place.until(now());
    place.tend(&mut other).await;
    place.until(now());
    place.tend(&mut Place::start()).await;
    assert_eq!((place.note()["failures"].as_u64(), place.orders()), (Some(3), 4));
    assert_eq!(place.waits() / 100, 4);
    // A clock that was ahead holds nothing back, and success ends it.
    place.authority.will().refuses = None;
    place.until(now() + 4 * 365 * DAY);
    place.tend(&mut one).await;
    assert_eq!((place.note()["failures"].as_u64(), place.issued()), (Some(0), 2));
}

#[tokio::test]
async fn an_order_that_is_broken_off_counts() {
    let place = Place::new("a.example");
    place.authority.will().silent = Some("/order/1");
    let mut keeper = Place::start();
    tokio::select! {
        () = place.tend(&mut keeper) => {}
        () = async {
            while place.orders() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        } => {}
    }
    drop(keeper);
    for _ in 0..2 {
        place.tend(&mut Place::start()).await;
    }
    assert_eq!((place.orders(), place.note()["failures"].as_u64()), (1, Some(1)));
}

#[tokio::test]
async fn nothing_that_an_authority_says_is_a_panic() {
    let place = Place::new("a.example");
    // No time is so far away.
    place.authority.will().retry_after = "9999999999999999999";
    place.authority.will().window = Some(PAST);
    place.tend(&mut Place::start()).await;
    assert_eq!(place.issued(), 1, "an order whose state says so");
    place.until(now());
    place.tend(&mut Place::start()).await;
    assert_eq!(place.issued(), 2, "a window that says so");
    place.authority.will().retry_after = "1";
    fs::remove_file(place.certificate()).unwrap();
    place.authority.will().nonce = Some("https://a b/");
    place.until(now());
    place.tend(&mut Place::start()).await;
    assert!(place.cause().contains("newNonce is no URL"), "{}", place.note());
    // Nor what stands in the file of the account.
    let account = fs::read_to_string(place.beside("account.json")).unwrap();
    for (wrong, says) in [
        ("https://a b/", "is an account with \"https://a b/\", not with https://127.0.0.1"),
        ("https://b.example/directory", "is an account with"),
    ] {
        write(&place.beside("account.json"), &account.replace(&place.authority.directory, wrong), 0o600);
        place.until(now());
        place.tend(&mut Place::start()).await;
        assert!(place.cause().contains(says), "{}", place.note());
    }
}

#[tokio::test]
async fn causes_are_the_authoritys_and_choose_the_pause() {
    for (kind, detail, least) in [("rateLimited", "too often", 3600), ("caa", "it is forbidden", 120)] {
        let place = Place::new("a.example");
        place.authority.will().fails = Some((kind, detail));
        place.tend(&mut Place::start()).await;
        assert_eq!(place.cause(), format!("{detail} ({kind})"));
        assert!(place.waits().abs_diff(least) < 60, "{}", place.note());
    }
    let place = Place::new("a.example");
    place.authority.will().silent = Some("/order/1");
    place.tend(&mut Place::start()).await;
    assert!(place.cause().starts_with("https://127.0.0.1:"), "{}", place.note());
    let mut place = Place::new("a.example");
    place.hook("exit 0");
    place.authority.will().token = "../x";
    place.tend(&mut Place::start()).await;
    assert_eq!(place.cause(), "a.example: the challenge's token is not base64url");
    place.authority.will().more = 1000;
    place.until(now());
    place.tend(&mut Place::start()).await;
    assert_eq!(place.cause(), "the authority wants more authorizations than the order has names");
}

#[tokio::test]
async fn what_is_of_no_use_is_not_kept_and_seldom_ordered() {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let day = DAY as i64;
    for (life, before, says) in [
        ((2 * day, -day), "", "it has expired: is the clock of this host right?"),
        ((-day, 2 * day), "", "it does not hold yet"),
        ((0, day), &*key, "not all of it are certificates"),
    ] {
        let place = Place::new("a.example");
        place.authority.will().life = life;
        place.authority.will().before = before.into();
        place.tend(&mut Place::start()).await;
        assert!(place.cause().contains(says), "{}", place.note());
        assert!(!place.certificate().exists() && place.waits().abs_diff(6 * 3600) < 600, "{}", place.note());
        assert_eq!(place.issued(), 1);
    }
}

#[tokio::test]
async fn an_authority_that_does_not_say_what_is_replaced_is_asked_without() {
    let place = Place::new("a.example");
    place.authority.will().window = Some(PAST);
    place.authority.will().echoes = false;
    let mut keeper = Place::start();
    place.tend(&mut keeper).await;
    place.until(now());
    place.tend(&mut keeper).await;
    assert_eq!((place.orders(), place.issued()), (3, 2), "{}", place.note());
}

#[tokio::test]
async fn nothing_is_ordered_that_cannot_be_written() {
    // With its ending it is no name of a file.
    let label = "a".repeat(62);
    let long = [&*label, &label, &label, &label].join(".");
    let place = Place::new(&long);
    assert!(place.settings.check().unwrap_err().contains("too long for the name of a file"));
    let mut keeper = Place::start();
    for _ in 0..2 {
        place.tend(&mut keeper).await;
    }
    assert_eq!((place.orders(), place.accounts()), (0, 0));
    // What was issued is written later: here a folder is in its place until then.
    let mut place = Place::new("a.example");
    place.hook(&format!("mkdir -p {}/in-its-way", place.certificate().display()));
    place.tend(&mut keeper).await;
    assert!(place.cause().starts_with("cannot write"), "{}", place.note());
    fs::remove_dir_all(place.certificate()).unwrap();
    place.until(now());
    place.tend(&mut keeper).await;
    assert_eq!((place.note()["failures"].as_u64(), place.issued()), (Some(0), 1));
    assert!(place.certificate().is_file());
}

#[tokio::test]
async fn what_cannot_be_read_is_not_replaced() {
    let place = Place::new("a.example");
    place.tend(&mut Place::start()).await;
    let pem = fs::read_to_string(place.certificate()).unwrap();
    write(&place.certificate(), &"#".repeat((1 << 20) + 1), 0o600);
    let mut keeper = Place::start();
    for _ in 0..2 {
        place.tend(&mut keeper).await;
    }
    write(&place.certificate(), &pem, 0o600);
    place.until(now());
    place.tend(&mut keeper).await;
    assert_eq!(place.issued(), 1);
    // What can be, and is none, is.
    write(&place.certificate(), "spoilt", 0o600);
    place.until(now());
    place.tend(&mut keeper).await;
    assert_eq!(place.issued(), 2);
}

#[tokio::test]
async fn records_are_taken_out_of_dns_also_after_an_end() {
    let mut place = Place::new("*.a.example+a.example");
    let log = place.settings.folder.with_file_name("log");
    let calls = |what: &str| {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(what)).map(str::to_owned).collect::<Vec<_>>()
    };
    // The certificate is there by then, whatever the program does.
    let hangs = format!("echo \"$@\" >> {}; [ $1 = present ] || exec sleep 600", log.display());
    place.hook(&hangs);
    let mut keeper = Place::start();
    tokio::select! {
        () = place.tend(&mut keeper) => panic!("{}", place.note()),
        () = async {
            while calls("cleanup ").is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        } => {}
    }
    assert!(place.certificate().exists() && place.note()["failures"] == 0, "{}", place.note());
    drop(keeper);
    let left = place.note()["records"].as_array().unwrap().len();
    assert_eq!((left, calls("present _acme-challenge.a.example. ").len()), (2, 2));
    // A later start does it, and orders nothing.
    place.hook(&format!("echo \"$@\" >> {}", log.display()));
    place.until(now());
    let mut keeper = Place::start();
    place.tend(&mut keeper).await;
    assert_eq!((place.note()["records"].as_array().unwrap().len(), calls("cleanup ").len()), (0, 3));
    assert_eq!(place.orders(), 1);
    // One that was put there half is taken out too, once.
    fs::remove_file(place.certificate()).unwrap();
    place.hook(&format!("echo \"$@\" >> {}; exit 1", log.display()));
    place.until(now());
    place.tend(&mut keeper).await;
    assert!(place.cause().contains("exit status: 1"), "{}", place.note());
    assert_eq!((place.note()["records"].as_array().unwrap().len(), calls("cleanup ").len()), (0, 4));
}

#[tokio::test]
async fn accounts_are_made_to_order_and_never_lost() {
    let place = Place::new("a.example");
    place.authority.will().window = Some(["2100-01-01T00:00:00Z", "2100-01-02T00:00:00Z"]);
    place.tend(&mut Place::start()).await;
    let account = place.beside("account.json");
    fs::remove_file(&account).unwrap();
    place.tend(&mut Place::start()).await;
    assert_eq!((place.accounts(), account.exists()), (1, false), "nothing is to be ordered");
    fs::remove_file(place.certificate()).unwrap();
    place.authority.will().refuses = Some(("accountDoesNotExist", "who is that"));
    let mut keeper = Place::start();
    let mut keys = Vec::new();
    for _ in 0..2 {
        place.until(now());
        place.tend(&mut keeper).await;
        let files = fs::read_dir(account.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
        let kept = files.filter(|path| path.to_str().unwrap().contains("account.json"));
        keys.push(kept.map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>());
    }
    assert!(keys[0].len() == 1 && keys[1].len() == 2 && keys[1].contains(&keys[0][0]));
}

#[test]
fn settings_say_what_cannot_be() {
    let names: Names = "a.example".parse().unwrap();
    let settings = Settings {
        certificates: vec![names],
        agrees_to_terms: true,
        directory: "https://a b/".into(),
        ..Settings::default()
    };
    assert!(settings.check().unwrap_err().contains("is no URL"));
}
