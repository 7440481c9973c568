//! Orders what is missing and renews what is due.
//!
//! `tend` is called again and again, and does one thing at a time. It may be dropped at any moment: challenges close, the lock is let go,
//! and what is half ordered is ordered anew after a while, as after a failure. Records that it has put into DNS are taken out then.

use crate::account;
use crate::certificate::Certificate;
use crate::challenges::Challenges;
use crate::folder::{Folder, Stamp, read, replace, reserve};
use crate::name::Names;
use crate::note::Note;
use crate::order::{Failure, Kind, Wish};
use crate::say::{date, span};
use crate::schedule::{Window, ask_again, due, is_over, pause, spacing};
use crate::settings::{Challenge, Settings};
use instant_acme::Account;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// For one order with all that its authority takes for it.
const ORDER: Duration = Duration::from_secs(20 * 60);
/// How long another process may order before it is looked again.
const ANOTHERS: u64 = 10;
/// How long an account is used before its authority's directory is read again.
const ACCOUNT: u64 = 24 * 3600;
/// How often it is said again that something cannot be read.
const AGAIN: Duration = Duration::from_secs(3600);

pub struct Keeper {
    challenges: Arc<Challenges>,
    /// From 0 to 1.
    chance: fn() -> f64,
    /// By the file of the certificate.
    states: HashMap<PathBuf, State>,
    account: Option<Open>,
    /// What was said of files, and when.
    said: HashMap<PathBuf, (String, Instant)>,
}

/// An account in use.
struct Open {
    account: Account,
    /// With what it was opened.
    folder: Folder,
    network: Arc<ClientConfig>,
    /// In seconds since 1970.
    until: u64,
}

/// Of one certificate.
#[derive(Default)]
struct State {
    stamp: Stamp,
    held: Option<Certificate>,
    window: Option<Window>,
    /// Decides the moment within the window.
    chance: f64,
    /// When the authority is asked again for its window, in seconds since 1970.
    ask: u64,
    note: Note,
    /// What was issued for these names, and could not be written.
    issued: Option<(Names, String)>,
}

impl Keeper {
    pub fn new(challenges: Arc<Challenges>, chance: fn() -> f64) -> Keeper {
        Keeper { challenges, chance, states: HashMap::new(), account: None, said: HashMap::new() }
    }

    /// Does what is to be done now. `network`: by which the authority is asked.
    pub async fn tend(&mut self, settings: &Settings, network: &Arc<ClientConfig>) {
        let folder = Folder::of(&settings.folder, &settings.directory);
        if let Err(why) = folder.make() {
            if self.says(&settings.folder, &why) {
                tracing::error!(target: "acme", cause = why, "no certificates can be kept");
            }
            return;
        }
        self.said.remove(&settings.folder);
        for names in &settings.certificates {
            self.look(&folder, names, network.crypto_provider());
            self.ask(&folder, settings, names, network).await;
            if self.is_due(&folder, names) {
                self.renew(&folder, settings, names, network).await;
            }
        }
    }

    /// Whether this is to be said of a file: it is new, or was said long ago.
    fn says(&mut self, path: &Path, why: &str) -> bool {
        let is_said = self.said.get(path).is_some_and(|(what, at)| what == why && at.elapsed() < AGAIN);
        if !is_said {
            self.said.insert(path.into(), (why.into(), Instant::now()));
        }
        !is_said
    }

    /// Reads a certificate that is another than it was, and what is written down of its orders: another process may have ordered it.
    fn look(&mut self, folder: &Folder, names: &Names, provider: &CryptoProvider) {
        let path = folder.certificate(names);
        let stamp = Stamp::of(&path);
        if self.states.get(&path).is_none_or(|state| state.stamp != stamp) {
            let pem = match read(&path) {
                Ok(pem) => pem,
                // It may be good: what was known of it holds, and where nothing was, none is ordered.
                Err(why) if self.says(&path, &why) => {
                    return tracing::error!(target: "acme", names = %names, cause = why, "whether a certificate is there cannot be seen");
                }
                Err(_) => return,
            };
            self.said.remove(&path);
            let held = pem.map(|pem| Certificate::of_pem(&pem, provider)).transpose().unwrap_or_else(|why| {
                tracing::warn!(target: "acme", names = %names, cause = why, "the certificate that is there is of no use");
                None
            });
            match held.as_ref().map(|held| held.life.until) {
                Some(until) => {
                    tracing::info!(target: "acme", names = %names, until = %date(until), "a certificate is there")
                }
                None => {
                    tracing::warn!(target: "acme", names = %names, "there is no certificate yet: who asks for its names gets another one, or none")
                }
            }
            let note = self.states.remove(&path).map(|state| state.note);
            let note = note.unwrap_or_else(|| Note::at(folder.note(names)));
            let chance = (self.chance)();
            self.states.insert(path.clone(), State { stamp, held, chance, note, ..State::default() });
        }
        if let Some(state) = self.states.get_mut(&path)
            && state.note.look()
            && state.is_wanted(names, now())
            && state.note.holds_back(names, now())
        {
            let (again, cause) = (state.note.again().saturating_sub(now()), state.note.cause());
            tracing::info!(target: "acme", names = %names, again = span(again), cause, "the next order waits");
        }
    }

    fn is_due(&self, folder: &Folder, names: &Names) -> bool {
        self.states.get(&folder.certificate(names)).is_some_and(|state| state.is_due(names, now()))
    }

    /// Asks the authority when to renew, if it is time for that (RFC 9773). It need not answer.
    async fn ask(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        names: &Names,
        network: &Arc<ClientConfig>,
    ) {
        let path = folder.certificate(names);
        let id = match self.states.get(&path) {
            Some(State { held: Some(held), ask, .. }) if is_over(*ask, now()) => held.id.clone(),
            _ => return,
        };
        let answer = match (id, self.kept(folder, settings, network).await) {
            (Some(id), Ok(Some(account))) => account.renewal_info(&id).await.map_err(Failure::from),
            (None, _) => Err("the certificate does not say whose it is".into()),
            (_, Ok(None)) => Err("there is no account yet".into()),
            (_, Err(failure)) => Err(failure),
        };
        let chance = (self.chance)();
        let Some(state) = self.states.get_mut(&path) else { return };
        let Some(life) = state.held.as_ref().map(|held| held.life) else { return };
        let said = match answer {
            Ok((told, said)) => {
                let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                let window = Window {
                    start: seconds(told.suggested_window.start.unix_timestamp()),
                    end: seconds(told.suggested_window.end.unix_timestamp()),
                };
                if state.window != Some(window) {
                    (state.window, state.chance) = (Some(window), chance);
                    let at = due(life, state.window, state.chance);
                    tracing::info!(target: "acme", names = %names, at = %date(at), "the authority says when to renew");
                }
                said
            }
            // What it said before holds; else two thirds of the life do.
            Err(failure) => {
                tracing::debug!(target: "acme", names = %names, cause = failure.why, "the authority does not say when to renew");
                Duration::from_secs(6 * 3600)
            }
        };
        state.ask = now() + ask_again(said, life).as_secs();
    }

    async fn renew(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        names: &Names,
        network: &Arc<ClientConfig>,
    ) {
        let path = folder.certificate(names);
        let _lock = match folder.lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                if let Some(state) = self.states.get_mut(&path) {
                    state.note.wait(names, now() + ANOTHERS);
                }
                return;
            }
            Err(why) => {
                let failures = self.failures(&path, names).saturating_add(1);
                return self.fail(&path, names, failures, &why.into());
            }
        };
        // Whoever had the lock may have ordered this one.
        self.look(folder, names, network.crypto_provider());
        if !self.is_due(folder, names) {
            return;
        }
        // Of an order that was broken off.
        self.clean_up(&path, &settings.challenge).await;
        if !self.states.get(&path).is_some_and(|state| state.is_wanted(names, now())) {
            return;
        }
        let failures = self.failures(&path, names).saturating_add(1);
        let ordered = match timeout(ORDER, self.order(folder, settings, names, network, failures)).await {
            Ok(ordered) => ordered,
            Err(_) => Err(format!("the order took longer than {} min", ORDER.as_secs() / 60).into()),
        };
        match ordered.and_then(|pem| self.keep(&path, names, pem)) {
            Ok(()) => {
                tracing::info!(target: "acme", names = %names, "a certificate was issued");
                self.look(folder, names, network.crypto_provider());
                self.succeed(&path, names);
            }
            Err(failure) => {
                if failure.kind == Kind::UnknownAccount {
                    account::forget(folder, now());
                }
                // Its directory may have moved.
                self.account = None;
                self.fail(&path, names, failures, &failure);
            }
        }
        self.clean_up(&path, &settings.challenge).await;
    }

    /// Orders that failed in a row.
    fn failures(&self, path: &Path, names: &Names) -> u32 {
        self.states.get(path).map_or(0, |state| state.note.failures(names))
    }

    /// The chain and its key, as PEM: newly issued, unless one is there that could not be written. `failures`: in a row, if this is one.
    async fn order(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        names: &Names,
        network: &Arc<ClientConfig>,
        failures: u32,
    ) -> Result<String, Failure> {
        let path = folder.certificate(names);
        let issued = self.states.get_mut(&path).and_then(|state| state.issued.take());
        if let Some((_, pem)) = issued.filter(|(of, _)| of == names) {
            return Ok(pem);
        }
        // Whatever becomes of this process: it counts.
        self.hold_back(&path, names, failures, "the order was broken off", Duration::ZERO)?;
        let _room = reserve(&path)?;
        let account = self.account(folder, settings, network).await?;
        let Some(State { held, window, note, .. }) = self.states.get_mut(&path) else {
            return Err("nothing is known of the certificate".into());
        };
        let wish = Wish {
            names,
            profile: settings.profile.as_deref(),
            // Only where the authority has said when to renew it does it know of replacing.
            replaces: held.as_ref().filter(|_| window.is_some()).and_then(|held| held.id.clone()),
            challenge: &settings.challenge,
            challenges: &self.challenges,
            provider: network.crypto_provider(),
        };
        wish.order(&account, note, now()).await
    }

    fn keep(&mut self, path: &Path, names: &Names, pem: String) -> Result<(), Failure> {
        replace(path, pem.as_bytes()).map_err(|error| {
            if let Some(state) = self.states.get_mut(path) {
                state.issued = Some((names.clone(), pem));
            }
            format!("cannot write {}: {error}", path.display()).into()
        })
    }

    /// The account, made if there is none. The folder has to be locked.
    async fn account(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        network: &Arc<ClientConfig>,
    ) -> Result<Account, Failure> {
        match self.kept(folder, settings, network).await? {
            Some(account) => Ok(account),
            None => {
                let account = account::make(folder, settings, network).await?;
                Ok(self.open(folder, network, account))
            }
        }
    }

    /// The account that is there.
    async fn kept(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        network: &Arc<ClientConfig>,
    ) -> Result<Option<Account>, Failure> {
        if let Some(open) = &self.account
            && open.folder == *folder
            && Arc::ptr_eq(&open.network, network)
            && !is_over(open.until, now())
        {
            return Ok(Some(open.account.clone()));
        }
        let kept = account::kept(folder, settings, network).await?;
        Ok(kept.map(|account| self.open(folder, network, account)))
    }

    fn open(&mut self, folder: &Folder, network: &Arc<ClientConfig>, account: Account) -> Account {
        let (folder, network) = (folder.clone(), network.clone());
        self.account = Some(Open { account: account.clone(), folder, network, until: now() + ACCOUNT });
        account
    }

    /// Takes out of DNS what an order has put there. Each record is tried once: a program that fails would fail for ever.
    async fn clean_up(&mut self, path: &Path, challenge: &Challenge) {
        let Some(State { note, .. }) = self.states.get_mut(path) else { return };
        while let Some(record) = note.records().first() {
            let gone = match challenge {
                Challenge::Dns(program) => record.cleanup(program).await,
                _ => Err(format!("{}: there is no acme-dns-hook any more", record.name)),
            };
            if let Err(why) = gone.and(note.remove()) {
                tracing::warn!(target: "acme", cause = why, "a record of a challenge may be left in DNS");
            }
        }
    }

    /// So many failures in a row, the last by this cause: nothing is ordered for a while, at least so long. It is written down.
    fn hold_back(
        &mut self,
        path: &Path,
        names: &Names,
        failures: u32,
        cause: &str,
        least: Duration,
    ) -> Result<(), String> {
        let chance = (self.chance)();
        let Some(State { note, held, .. }) = self.states.get_mut(path) else { return Ok(()) };
        let wait = pause(failures, held.as_ref().map(|held| held.life), least, chance);
        note.tell(names, failures, now() + wait.as_secs(), Some(cause))
    }

    fn succeed(&mut self, path: &Path, names: &Names) {
        let Some(State { note, held: Some(held), chance, .. }) = self.states.get_mut(path) else { return };
        if due(held.life, None, *chance) <= now() {
            tracing::warn!(target: "acme", names = %names, until = %date(held.life.until), "the new certificate is to be renewed already: is the clock of this host right?");
        }
        if let Err(why) = note.tell(names, 0, now() + spacing(held.life).as_secs(), None) {
            tracing::warn!(target: "acme", cause = why, "when the next order may be cannot be written down");
        }
    }

    /// What is there stays. `failures`: in a row, with this one.
    fn fail(&mut self, path: &Path, names: &Names, failures: u32, failure: &Failure) {
        let cause = &failure.why;
        if let Err(why) = self.hold_back(path, names, failures, cause, failure.kind.least()) {
            tracing::warn!(target: "acme", cause = why, "when the next order may be cannot be written down");
        }
        let Some(State { note, held, .. }) = self.states.get(path) else { return };
        let again = span(note.again().saturating_sub(now()));
        match held.as_ref().map(|held| held.life.until).filter(|until| now() < *until) {
            Some(until) => {
                tracing::warn!(target: "acme", names = %names, cause, again, until = %date(until), "no certificate: the one that is there stays");
            }
            None => {
                tracing::error!(target: "acme", names = %names, cause, again, "no certificate: who asks for its names gets another one, or none")
            }
        }
    }
}

impl State {
    fn is_due(&self, names: &Names, now: u64) -> bool {
        let has_to_do = self.is_wanted(names, now) || !self.note.records().is_empty();
        has_to_do && !self.note.holds_back(names, now)
    }

    /// Whether another certificate is to take its place.
    fn is_wanted(&self, names: &Names, now: u64) -> bool {
        match &self.held {
            Some(held) if held.covers(names) => due(held.life, self.window, self.chance) <= now,
            _ => true,
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
