//! The account with an authority: made when it is needed first, and kept.

use crate::folder::{Folder, read, replace, reserve};
use crate::network::Network;
use crate::order::Failure;
use crate::settings::{Binding, Settings};
use instant_acme::{Account, AccountBuilder, AccountCredentials, ExternalAccountKey, NewAccount};
use rustls::ClientConfig;
use serde_json::Value;
use std::sync::Arc;

/// The account that is kept, if one is.
pub async fn kept(
    folder: &Folder,
    settings: &Settings,
    network: &Arc<ClientConfig>,
) -> Result<Option<Account>, Failure> {
    let path = folder.account();
    let Some(text) = read(&path)? else { return Ok(None) };
    let none = |_| format!("{} is no account: remove it, and a new one is made", path.display());
    let told: Value = serde_json::from_slice(&text).map_err(none)?;
    // Who knows no such account would be asked.
    if told["directory"].as_str() != Some(&settings.directory) {
        return Err(format!(
            "{} is an account with {}, not with {}: remove it, and a new one is made",
            path.display(),
            told["directory"],
            settings.directory
        )
        .into());
    }
    let kept: AccountCredentials = serde_json::from_value(told).map_err(none)?;
    Ok(Some(builder(network).from_credentials(kept).await?))
}

/// A new one, which is kept. The folder has to be locked.
pub async fn make(
    folder: &Folder,
    settings: &Settings,
    network: &Arc<ClientConfig>,
) -> Result<Account, Failure> {
    let path = folder.account();
    // An account that cannot be kept would be followed by another, and that by another.
    let _room = reserve(&path)?;
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let binding = |Binding { id, .. }: &Binding, key| ExternalAccountKey::new(id.clone(), key);
    let binding = settings.binding.as_ref().map(|of| binding(of, of.key()));
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: settings.agrees_to_terms,
        only_return_existing: false,
    };
    let made = builder(network).create(&new, settings.directory.clone(), binding.as_ref());
    let (account, kept) = made.await?;
    let text = serde_json::to_vec(&kept).map_err(|error| error.to_string())?;
    replace(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    tracing::info!(target: "acme", directory = settings.directory, account = account.id(), "an account was made");
    Ok(account)
}

fn builder(network: &Arc<ClientConfig>) -> AccountBuilder {
    Account::builder_with_http(Box::new(Network::new(network)))
}

/// The authority does not know it any more: the next one is new. What was there stays beside it, by the time (in seconds since 1970):
/// no other is written over it.
pub fn forget(folder: &Folder, now: u64) {
    let path = folder.account();
    let to = path.with_added_extension(format!("unknown-{now}"));
    if !to.exists() {
        let _ = std::fs::rename(&path, to);
    }
}
