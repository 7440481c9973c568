//! Orders what is missing and renews what is due.
//!
//! `tend` is called again and again, and does one thing at a time. It may be dropped at any moment: challenges close, the lock is let go,
//! and what is half ordered is ordered anew.

use crate::account;
use crate::certificate::{Certificate, Life};
use crate::challenges::Challenges;
use crate::folder::{Folder, Stamp, read, replace};
use crate::name::Names;
use crate::order::{Failure, Kind, Wish};
use crate::schedule::{Window, ask_again, due, pause};
use crate::settings::Settings;
use instant_acme::Account;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// For one order with all that its authority takes for it.
const ORDER: Duration = Duration::from_secs(20 * 60);
/// How long another process may order before it is looked again.
const ANOTHERS: u64 = 10;
/// How long an account is used before its authority's directory is read again.
const ACCOUNT: u64 = 24 * 3600;

pub struct Keeper {
    challenges: Arc<Challenges>,
    /// From 0 to 1.
    chance: fn() -> f64,
    /// By the file of the certificate.
    states: HashMap<std::path::PathBuf, State>,
    /// With what it was opened, and when.
    account: Option<(Folder, Account, u64)>,
    /// What was said of the folder.
    failed: Option<String>,
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
    failures: u32,
    /// Nothing is ordered before, in seconds since 1970.
    wait: u64,
}

impl Keeper {
    pub fn new(challenges: Arc<Challenges>, chance: fn() -> f64) -> Keeper {
        Keeper { challenges, chance, states: HashMap::new(), account: None, failed: None }
    }

    /// Does what is to be done now. `network`: by which the authority is asked.
    pub async fn tend(&mut self, settings: &Settings, network: &Arc<ClientConfig>) {
        let folder = Folder::of(&settings.folder, &settings.directory);
        if let Err(why) = folder.make() {
            if self.failed.as_ref() != Some(&why) {
                tracing::error!(target: "acme", cause = why, "no certificates can be kept");
                self.failed = Some(why);
            }
            return;
        }
        self.failed = None;
        for names in &settings.certificates {
            self.look(&folder, names, network.crypto_provider());
            self.ask(&folder, settings, names, network).await;
            if self.is_due(&folder, names) {
                self.renew(&folder, settings, names, network).await;
            }
        }
    }

    /// Reads a certificate that is another than it was: another process may have ordered it.
    fn look(&mut self, folder: &Folder, names: &Names, provider: &CryptoProvider) {
        let path = folder.certificate(names);
        let stamp = Stamp::of(&path);
        if self.states.get(&path).is_some_and(|state| state.stamp == stamp) {
            return;
        }
        let found =
            read(&path).and_then(|text| text.map(|pem| Certificate::of_pem(&pem, provider)).transpose());
        let held = found.unwrap_or_else(|why| {
            tracing::warn!(target: "acme", names = %names, cause = why, "the certificate that is there is of no use");
            None
        });
        let (failures, wait) = match &held {
            Some(held) if held.covers(names) => (0, 0),
            _ => Failures::read(&folder.failures(names)),
        };
        let chance = (self.chance)();
        let until = held.as_ref().map(|held| held.life.until);
        match until {
            Some(until) => tracing::info!(target: "acme", names = %names, until, "a certificate is there"),
            None => {
                tracing::warn!(target: "acme", names = %names, "there is no certificate yet: handshakes for it fail until it is issued")
            }
        }
        self.states.insert(path, State { stamp, held, window: None, chance, ask: 0, failures, wait });
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
            Some(State { held: Some(held), ask, .. }) if *ask <= now() => held.id.clone(),
            _ => return,
        };
        let answer = match (id, self.account(folder, settings, network).await) {
            (Some(id), Ok(account)) => account.renewal_info(&id).await.map_err(Failure::from),
            (None, _) => Err("the certificate does not say whose it is".into()),
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
                    tracing::info!(target: "acme", names = %names, at, "the authority says when to renew");
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
        let lock = match folder.lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.wait_for(&path, ANOTHERS),
            Err(why) => return self.fail(folder, names, &why.into()),
        };
        // Whoever had the lock may have ordered this one.
        self.look(folder, names, network.crypto_provider());
        if !self.is_due(folder, names) {
            return;
        }
        let ordered = match timeout(ORDER, self.order(folder, settings, names, network)).await {
            Ok(ordered) => ordered,
            Err(_) => Err(format!("the order took longer than {} min", ORDER.as_secs() / 60).into()),
        };
        let kept = ordered.and_then(|pem| {
            replace(&path, pem.as_bytes())
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            let _ = std::fs::remove_file(folder.failures(names));
            Ok(())
        });
        match kept {
            Ok(()) => {
                tracing::info!(target: "acme", names = %names, "a certificate was issued");
                self.look(folder, names, network.crypto_provider());
            }
            Err(failure) => {
                if failure.kind == Kind::UnknownAccount {
                    account::forget(folder);
                }
                // Its directory may have moved.
                self.account = None;
                self.fail(folder, names, &failure);
            }
        }
        drop(lock);
    }

    async fn order(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        names: &Names,
        network: &Arc<ClientConfig>,
    ) -> Result<String, Failure> {
        let account = self.account(folder, settings, network).await?;
        let held = self.states.get(&folder.certificate(names)).and_then(|state| state.held.as_ref());
        // Only where the authority has said when to renew it does it know of replacing.
        let window = self.states.get(&folder.certificate(names)).and_then(|state| state.window);
        let wish = Wish {
            names,
            profile: settings.profile.as_deref(),
            replaces: held.filter(|_| window.is_some()).and_then(|held| held.id.clone()),
            challenge: &settings.challenge,
            challenges: &self.challenges,
            provider: network.crypto_provider(),
        };
        wish.order(&account).await
    }

    async fn account(
        &mut self,
        folder: &Folder,
        settings: &Settings,
        network: &Arc<ClientConfig>,
    ) -> Result<Account, Failure> {
        if let Some((of, account, until)) = &self.account
            && of == folder
            && now() < *until
        {
            return Ok(account.clone());
        }
        let account = account::open(folder, settings, network).await?;
        self.account = Some((folder.clone(), account.clone(), now() + ACCOUNT));
        Ok(account)
    }

    fn wait_for(&mut self, path: &Path, seconds: u64) {
        if let Some(state) = self.states.get_mut(path) {
            state.wait = now() + seconds;
        }
    }

    /// What is there stays. It is written down, so that a process that is started again and again does not ask again and again.
    fn fail(&mut self, folder: &Folder, names: &Names, failure: &Failure) {
        let path = folder.certificate(names);
        let chance = (self.chance)();
        let Some(state) = self.states.get_mut(&path) else { return };
        state.failures = state.failures.saturating_add(1);
        let life = state.held.as_ref().map(|held| held.life);
        let wait = pause(state.failures, life, failure.kind == Kind::RateLimited, chance);
        state.wait = now() + wait.as_secs();
        let again = wait.as_secs();
        let cause = &failure.why;
        match life.filter(|life| now() < life.until) {
            Some(Life { until, .. }) => {
                tracing::warn!(target: "acme", names = %names, cause, again, until, "no certificate: the one that is there stays");
            }
            None => {
                tracing::error!(target: "acme", names = %names, cause, again, "no certificate: handshakes for it fail")
            }
        }
        if let Err(error) =
            (Failures { count: state.failures, wait: state.wait }).write(&folder.failures(names), cause)
        {
            tracing::warn!(target: "acme", cause = %error, "when it is tried again cannot be written down");
        }
    }
}

impl State {
    fn is_due(&self, names: &Names, now: u64) -> bool {
        let is_wanted = match &self.held {
            Some(held) if held.covers(names) => due(held.life, self.window, self.chance) <= now,
            _ => true,
        };
        is_wanted && self.wait <= now
    }
}

/// What is written down of failures.
struct Failures {
    count: u32,
    wait: u64,
}

impl Failures {
    /// How many, and until when nothing is ordered; none where the file is not there, or is of no use.
    fn read(path: &Path) -> (u32, u64) {
        let told: Option<serde_json::Value> =
            read(path).ok().flatten().and_then(|text| serde_json::from_slice(&text).ok());
        let number = |name: &str| told.as_ref().and_then(|told| told[name].as_u64());
        match (number("failures"), number("again")) {
            // A clock that was wrong, or whatever else: not longer than any pause.
            (Some(count), Some(again)) if again < now() + 24 * 3600 => {
                (u32::try_from(count).unwrap_or(u32::MAX), again)
            }
            _ => (0, 0),
        }
    }

    fn write(&self, path: &Path, cause: &str) -> std::io::Result<()> {
        let told = json!({ "failures": self.count, "again": self.wait, "cause": cause });
        replace(path, format!("{told:#}\n").as_bytes())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
