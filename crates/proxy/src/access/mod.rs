//! Who may use the proxy, and for what: client networks, `CONNECT` ports, the addresses that a client may reach, and what is
//! told and believed of clients.

pub mod client;
pub mod forwarded;
pub mod reach;

use crate::message::refusal::Refusal;
use crate::message::target;
use crate::settings::Settings;
use http::uri::Authority;
use http::{StatusCode, Uri};

/// What a client outside of the served networks is told.
pub fn stranger() -> Refusal {
    let text = "this client's network is not served; the proxy's operator allows it with --allow NETWORK";
    Refusal { close: true, ..Refusal::new(StatusCode::FORBIDDEN, text) }
}

/// Where a `CONNECT` leads, if it may.
pub fn connect<'a>(uri: &'a Uri, settings: &Settings) -> Result<(&'a Authority, u16), Refusal> {
    let (authority, port) = target::of_connect(uri)?;
    if settings.connect_ports.contains(&port) {
        return Ok((authority, port));
    }
    let text = format!(
        "CONNECT to port {port} is not allowed; the proxy's operator allows it by adding {port} to --connect-ports"
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, text))
}
