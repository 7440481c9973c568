//! Connections to hops: names are looked up, addresses judged, and the first that answers is taken.

use super::http2::{Connection, Made, Wish};
use super::line::Line;
use super::pool::{Key, Protocol};
use super::{Origins, broken};
use crate::access::reach::{self, Zone};
use crate::authority::bare_host;
use crate::clock;
use crate::message::refusal::{self, Refusal};
use crate::report::counters::Number;
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::tls;
use crate::transport::{Address, Hop, Host, Socket, secure_to};
use http::StatusCode;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::time::timeout;

impl Origins {
    /// Connects to the first address of a hop that the client may reach and that answers; says where one has to be to reach
    /// it.
    pub async fn dial(&self, hop: &Hop, client: Zone) -> Result<(Socket, Zone), Refusal> {
        self.may_ask()?;
        let (limit, reach) = (self.settings().timeouts.origin_connect, self.reach());
        let (mut last, mut is_answered) = (None, false);
        for address in self.addresses(hop).await? {
            let needs = match &address {
                Address::Tcp(address) => reach.needs(address.ip()),
                // No URL names one: it is the operator's choice.
                Address::Unix(_) => Some(Zone::Public),
            };
            let Some(needs) = needs.filter(|needs| *needs <= client) else { continue };
            match timeout(limit, Socket::connect(&address)).await {
                Ok(Ok(socket)) => {
                    self.exit.add(Number::Connections, 1);
                    self.exit.uplink.answered();
                    return Ok((socket, needs));
                }
                Ok(Err(error)) => {
                    is_answered |= is_refusal(&error, &address);
                    last = Some((refusal::unreachable(), format!("{address}: {error}")));
                }
                Err(_) => {
                    let why = format!("{address}: no connection within {limit:?}");
                    last = Some((refusal::too_slow(), why));
                }
            }
        }
        let (refusal, why) = last.ok_or_else(reach::refused)?;
        match is_answered {
            true => self.exit.uplink.answered(),
            false => self.exit.uplink.failed(clock::moment()),
        }
        tracing::warn!(target: "origin", %hop, cause = why, "cannot connect");
        Err(refusal)
    }

    /// In the order in which to try them.
    async fn addresses(&self, hop: &Hop) -> Result<Vec<Address>, Refusal> {
        match hop {
            Hop::Host(Host { authority, port, .. }) => {
                let found = self.resolver.lookup(bare_host(authority), self.settings().timeouts.dns).await;
                let found = found.map_err(|unknown| {
                    if !unknown.is_answered {
                        self.exit.uplink.failed(clock::moment());
                    }
                    unknown.refusal
                })?;
                Ok(found.into_iter().map(|address| SocketAddr::new(address, *port).into()).collect())
            }
            Hop::Unix(path) => Ok(vec![Address::Unix(path.clone())]),
        }
    }

    /// A connection that speaks HTTP/1, which alone is offered.
    pub(super) async fn connect(self: &Rc<Origins>, key: &Key, client: Zone) -> Result<Line, Refusal> {
        // What is believed may change while it is made.
        let judged = self.reach_changes.get();
        let dialed = self.dial_secured(key, client, false).await?;
        self.open_line(key, dialed, judged).await
    }

    /// A connection that speaks HTTP/2 where that is agreed on over TLS, or is known without.
    pub(super) async fn connect_as(self: &Rc<Origins>, key: &Key, wish: Wish) -> Result<Made, Refusal> {
        let judged = self.reach_changes.get();
        let dialed = self.dial_secured(key, wish.client, true).await?;
        if !dialed.http2 {
            return self.open_line(key, dialed, judged).await.map(Made::Http1);
        }
        let Dialed { socket, needs, shareable, .. } = dialed;
        let opened = Connection::open(self, &key.hop, socket, wish.wide, (needs, shareable)).await;
        opened.map(Made::Http2).map_err(|error| broken(&key.hop, &error.to_string()))
    }

    async fn dial_secured(&self, key: &Key, client: Zone, http2: bool) -> Result<Dialed, Refusal> {
        let (socket, needs) = self.dial(&key.hop, client).await?;
        let (socket, http2) = match key.scheme {
            Scheme::Http => (socket, http2),
            Scheme::Https => Box::pin(self.secure(&key.hop, socket, http2)).await?,
        };
        let shareable = match &key.hop {
            Hop::Host(host) => self.reach().is_for_all(&host.authority, needs),
            Hop::Unix(_) => true,
        };
        Ok(Dialed { socket, http2, needs, shareable })
    }

    async fn open_line(self: &Rc<Origins>, key: &Key, dialed: Dialed, judged: u64) -> Result<Line, Refusal> {
        let Dialed { socket, needs, shareable, .. } = dialed;
        let key = Key { hop: key.hop.clone(), scheme: key.scheme, protocol: Protocol::Http1 };
        let opened =
            Line::open(self, &key, socket, &self.settings().bounds, (needs, shareable, judged)).await;
        opened.map_err(|error| broken(&key.hop, &error.to_string()))
    }
}

/// A connection before anything was asked on it.
struct Dialed {
    socket: Socket,
    /// What is spoken on it.
    http2: bool,
    /// Where one has to be to reach its address.
    needs: Zone,
    shareable: bool,
}

impl Origins {
    /// TLS over a connection, and whether HTTP/2 is spoken, which is offered with `http2`. Whoever does not prove the name is sent nothing.
    async fn secure(&self, hop: &Hop, socket: Socket, http2: bool) -> Result<(Socket, bool), Refusal> {
        let settings = self.settings();
        let limit = settings.timeouts.origin_connect;
        let failed = |refusal: Refusal, cause: &str| {
            self.exit.add(Number::OriginHandshakesFailed, 1);
            tracing::warn!(target: "origin", %hop, cause, "{}", refusal.text);
            refusal
        };
        let name = name(hop, &settings).ok_or_else(|| {
            failed(unsecured("the origin has no name that a certificate could prove"), "no name")
        })?;
        let config = settings.origin_tls.config(http2);
        let config =
            config.map_err(|why| failed(unsecured("TLS with origins is not possible here"), &why))?;
        match timeout(limit, secure_to(socket, name, config)).await {
            Ok(Ok((socket, secured))) => {
                let resumed = secured.resumed;
                self.exit.add(
                    if resumed { Number::OriginHandshakesResumed } else { Number::OriginHandshakesFull },
                    1,
                );
                Ok((socket, secured.http2))
            }
            Ok(Err(error)) => Err(failed(unsecured(tls::why(&error)), &error.to_string())),
            Err(_) => Err(failed(refusal::too_slow(), &format!("no TLS handshake within {limit:?}"))),
        }
    }
}

/// What an origin has to prove that it is.
fn name(hop: &Hop, settings: &Settings) -> Option<ServerName<'static>> {
    if let Some(name) = settings.origin_tls.name.as_ref().filter(|_| settings.origin.is_some()) {
        return Some(name.clone());
    }
    let host = match hop {
        Hop::Host(host) => bare_host(&host.authority),
        Hop::Unix(_) => "localhost",
    };
    ServerName::try_from(host.to_owned()).ok()
}

fn unsecured(why: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_GATEWAY, why)
}

/// Whether another host said that nothing listens there: so there is a way to it.
fn is_refusal(error: &io::Error, address: &Address) -> bool {
    let is_elsewhere = matches!(address, Address::Tcp(address) if !address.ip().to_canonical().is_loopback());
    is_elsewhere && error.kind() == io::ErrorKind::ConnectionRefused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_a_connection_can_be_reached() {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable};
        let is_refusal = |kind: io::ErrorKind, address: &str| {
            is_refusal(&kind.into(), &Address::Tcp(address.parse().unwrap()))
        };
        assert!(
            is_refusal(ConnectionRefused, "192.0.2.1:80")
                && is_refusal(ConnectionRefused, "[2001:db8::1]:80")
        );
        assert!(!is_refusal(HostUnreachable, "192.0.2.1:80"));
        for here in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(!is_refusal(ConnectionRefused, here), "{here}");
        }
    }
}
