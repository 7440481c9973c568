//! The account with an authority: made when it is needed first, and kept.

use crate::folder::{Folder, read, replace};
use crate::network::Network;
use crate::order::Failure;
use crate::settings::{Binding, Settings};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use rustls::ClientConfig;
use std::sync::Arc;

/// The account that is kept, or a new one.
pub async fn open(
    folder: &Folder,
    settings: &Settings,
    network: &Arc<ClientConfig>,
) -> Result<Account, Failure> {
    let path = folder.account();
    let builder = || Account::builder_with_http(Box::new(Network::new(network)));
    if let Some(text) = read(&path)? {
        let kept: AccountCredentials = serde_json::from_slice(&text)
            .map_err(|_| format!("{} is no account: remove it, and a new one is made", path.display()))?;
        return Ok(builder().from_credentials(kept).await?);
    }
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let binding = |Binding { id, .. }: &Binding, key| ExternalAccountKey::new(id.clone(), key);
    let binding = settings.binding.as_ref().map(|of| binding(of, of.key()));
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: settings.agrees_to_terms,
        only_return_existing: false,
    };
    let (account, kept) = builder().create(&new, settings.directory.clone(), binding.as_ref()).await?;
    let text = serde_json::to_vec(&kept).map_err(|error| error.to_string())?;
    replace(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    tracing::info!(target: "acme", directory = settings.directory, account = account.id(), "an account was made");
    Ok(account)
}

/// The authority does not know it any more: the next one is new. What was there stays beside it.
pub fn forget(folder: &Folder) {
    let path = folder.account();
    let _ = std::fs::rename(&path, path.with_added_extension("unknown"));
}
