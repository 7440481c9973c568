//! Purges: what a query names, as keys write it.

use super::AdminError;
use crate::scheme::Scheme;
use crate::worker::Shared;
use bytes::Bytes;
use cache::{Expression, Scope, key};
use http::uri::Authority;
use http::{StatusCode, Uri};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long an answer waits until a purge is in the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Purges that wait for the disk at once: a quarter of the connections.
static WAITING: Semaphore = Semaphore::const_new(16);

/// What one parameter asks to be purged.
enum What {
    /// A primary key.
    Url(Bytes),
    Prefix {
        scope: String,
        path: Bytes,
    },
    /// Path and query, on every host of a reverse proxy.
    Path(String),
    PathPrefix(String),
    Host(String),
    /// As it is written.
    Expression(String),
    Group(String),
    All,
}

/// Purges, and answers when a kill cannot undo it any more.
pub fn purge(shared: &Shared, query: &str) -> Result<String, AdminError> {
    let reverse = shared.settings.newest().origin.is_some();
    let wrong = |why| AdminError(StatusCode::BAD_REQUEST, why);
    let (mut wanted, mut named, mut soft) = (Vec::new(), Vec::new(), None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == "soft" {
            let said = is_soft(&value).map_err(wrong)?;
            if soft.replace(said).is_some_and(|before| before != said) {
                return Err(wrong("soft: is said twice, and not alike".into()));
            }
            continue;
        }
        wanted.extend(what(&name, &value, reverse).map_err(wrong)?);
        named.push(format!("{name} {value}").trim_end().to_owned());
    }
    if wanted.is_empty() {
        return Err(wrong(
            "say what in the query: /purge?url=…, prefix=, host=, expression=, group= or all; with soft=1 it is only stale".into(),
        ));
    }
    let softly = soft.unwrap_or(false);
    let done: String = named
        .iter()
        .map(|name| format!("{} {name}\n", if softly { "soft-purged" } else { "purged" }))
        .collect();
    let mut scopes = Vec::new();
    for what in &wanted {
        match what {
            What::Url(primary) if softly => {
                let url = url_of(primary);
                scopes.extend([Scope::Url(url), Scope::Url(without_query(url))]);
            }
            What::Url(primary) => shared.tiers.forget(primary),
            What::Prefix { scope, path } => {
                // Searches that are answered alike are known by their path only.
                match softly {
                    true => scopes.push(Scope::Url(without_query(scope))),
                    false => shared.tiers.forget_searches(path),
                }
                scopes.push(Scope::Prefix(scope));
            }
            What::Path(path) => scopes.extend([Scope::Path(path), Scope::Path(without_query(path))]),
            What::PathPrefix(path) => {
                scopes.extend([Scope::PathPrefix(path), Scope::Path(without_query(path))]);
            }
            What::Host(host) => scopes.push(Scope::Host(host)),
            What::Expression(expression) => scopes.push(Scope::Expression(expression)),
            What::Group(name) => scopes.push(Scope::Group { origin: None, name }),
            What::All => scopes.push(Scope::All),
        }
    }
    shared.tiers.purge(scopes, softly);
    // Others want the connections that would wait.
    let Ok(_place) = WAITING.try_acquire() else {
        let why = "purged, but not yet on disk, and many purges wait for it: ask again";
        return Err(AdminError(StatusCode::SERVICE_UNAVAILABLE, why.into()));
    };
    match shared.tiers.stores.persist(PATIENCE) {
        true => Ok(done),
        false => {
            let why =
                "purged, but not yet on disk: it would be undone if the proxy were killed now; ask again";
            Err(AdminError(StatusCode::SERVICE_UNAVAILABLE, why.into()))
        }
    }
}

fn is_soft(value: &str) -> Result<bool, String> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("soft: `{value}` is neither 1 nor 0")),
    }
}

/// The URL of a primary key, as scopes name it.
fn url_of(primary: &[u8]) -> &str {
    std::str::from_utf8(&primary[key::METHOD.len()..]).unwrap_or_default()
}

/// Searches that are answered alike are known by their path only.
fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

fn what(name: &str, value: &str, reverse: bool) -> Result<Vec<What>, String> {
    let url = |value: &str| {
        url(value, reverse).ok_or_else(|| format!("{name}: `{value}` is not an http or https URL"))
    };
    no_wildcards(name, value)?;
    let one = match name {
        "url" => match url(value)? {
            (Some((schemes, authority)), path) => {
                let of = |scheme: &Scheme| What::Url(key::primary(scheme.as_str(), &authority, &path));
                return Ok(schemes.iter().map(of).collect());
            }
            (None, path) => Ok(What::Path(path)),
        },
        "prefix" if value.split_once("://").is_some_and(|(_, rest)| !rest.contains('/')) => Err(format!(
            "prefix: `{value}` ends before its path: end it with `/` for one host and port, or purge by host"
        )),
        "prefix" => match url(value)? {
            (Some((schemes, authority)), path) => {
                let of = |scheme: &Scheme| {
                    let primary = key::primary(scheme.as_str(), &authority, &path);
                    What::Prefix { scope: url_of(&primary).to_owned(), path: primary }
                };
                return Ok(schemes.iter().map(of).collect());
            }
            (None, path) => Ok(What::PathPrefix(path)),
        },
        "host" => match value.parse::<Authority>() {
            Ok(authority) if authority.as_str() == authority.host() => {
                Ok(What::Host(value.to_ascii_lowercase()))
            }
            _ => Err(format!("host: `{value}` is not a host name (for one port, purge by prefix)")),
        },
        "expression" => match value.parse::<Expression>() {
            Ok(expression) => Ok(What::Expression(expression.to_string())),
            Err(why) => Err(format!("expression: {why}")),
        },
        "group" | "tag" if !value.is_empty() => Ok(What::Group(value.to_owned())),
        "all" if matches!(value, "" | "true" | "1") => Ok(What::All),
        "group" | "tag" => Err(format!("{name}: a name is missing")),
        "all" => Err("all: takes no value".into()),
        _ => Err(format!(
            "`{name}` is none of url, prefix, host, expression, group, tag, all, soft (is a URL not percent-encoded?)"
        )),
    };
    one.map(|one| vec![one])
}

/// `*` stands for itself in a URL, and in no name of a host. Whoever ends a value with it means something else, and would be
/// told that it is purged.
fn no_wildcards(name: &str, value: &str) -> Result<(), String> {
    match name {
        "url" | "prefix" if value.ends_with('*') => Err(format!(
            "{name}: `{value}` ends with `*`, which is no wildcard here: prefix={} purges all URLs that begin so",
            value.trim_end_matches('*')
        )),
        "host" if value.contains('*') => {
            Err(format!("host: `{value}` has a `*`, which is no wildcard here: purge by expression={value}"))
        }
        _ => Ok(()),
    }
}

/// Schemes, and a host as keys have it.
type Origins = (Vec<Scheme>, String);

/// The schemes and the host of a URL, as keys have them, and its path with the query. A path alone is that of every host of a reverse
/// proxy. There each URL is meant with either scheme, the named one first: what is https to the world may have come from whoever
/// speaks TLS in front of this proxy.
pub(super) fn url(text: &str, reverse: bool) -> Option<(Option<Origins>, String)> {
    let uri: Uri = text.parse().ok()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => {
            let scheme = Scheme::of(scheme)?;
            let others = Scheme::ALL.into_iter().filter(|other| reverse && *other != scheme);
            let host = key::authority(scheme.as_str(), authority.as_str()).into_owned();
            Some((Some(([scheme].into_iter().chain(others).collect(), host)), path))
        }
        (None, None) if reverse && text.starts_with('/') => Some((None, path)),
        _ => None,
    }
}
