//! The proxy auto-configuration, for browsers that are told the operator's address.

use super::AdminError;
use crate::settings::pac::reached_at;
use crate::transport::Address;
use crate::worker::Shared;
use http::header::HOST;
use http::{HeaderMap, StatusCode};

/// Where the proxy listens on all addresses, it is reached by the name that this address is.
pub fn text(shared: &Shared, headers: &HeaderMap) -> Result<String, AdminError> {
    let none = |why: &str| AdminError(StatusCode::NOT_FOUND, why.into());
    let settings = shared.settings.newest();
    if settings.origin.is_some() {
        return Err(none("this is a reverse proxy: browsers need not know of it"));
    }
    let listens = shared.addresses.get().into_iter().flatten().find_map(Address::tcp);
    let Some(listens) = listens else { return Err(none("the proxy listens on no TCP port")) };
    let host = match listens.ip() {
        ip if ip.is_unspecified() => {
            let named = headers.get(HOST).and_then(|field| reached_at(field.to_str().ok()?));
            let why = "say in the Host field at which name this host is reached";
            named.ok_or_else(|| AdminError(StatusCode::BAD_REQUEST, why.into()))?.0.to_owned()
        }
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    settings.pac.text(&host, listens.port()).ok_or_else(|| none("--pac off: there is no proxy.pac"))
}
