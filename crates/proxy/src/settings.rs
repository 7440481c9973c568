//! The proxy's settings, as plain data that the binary's table of settings fills in. Nothing is read from the environment.
//!
//! Bounds that nobody has needed to change are constants where they hold. `current` has the settings that are in force.

pub mod current;
pub mod http2;
pub mod pac;
pub mod pages;
pub mod tls;

use crate::off_peak::OffPeak;
use crate::scheme::Scheme;
use crate::tls::OriginTls;
use crate::transport::{Address, Hop, Listen, UnixPath};
use http::HeaderValue;
use http2::Http2;
use pac::Pac;
use pages::Pages;
use policy::replacement::Policy;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;

/// Bytes of a pseudonym; of a longer one `Cache-Status` has the begin.
pub const PSEUDONYM_MAX: usize = cache::Item::MAX;

/// What a proxy is told at its start. `Default` is a forward proxy on 127.0.0.1:3128.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses to listen on. Port 0 takes a free port, which `Running::addresses` tells.
    pub listen: Vec<Listen>,
    pub tls: Tls,
    /// With clients.
    pub http2: Http2,
    /// Where the operator is served; `None`: nowhere. Port 0 takes a free port, which `Running::admin` tells.
    pub admin: Option<Address>,
    /// What whoever asks the operator's address has to know, but for `/healthz` and `/readyz`.
    pub admin_token: Option<Arc<Token>>,
    /// `Some` makes this a reverse proxy for that origin; `None` is a forward proxy.
    pub origin: Option<Origin>,
    /// What is wanted of origins that are asked by https.
    pub origin_tls: OriginTls,
    /// By which protocol origins are asked.
    pub origin_http2: OriginHttp2,
    /// The host that a reverse proxy names to its origin, and by which it tells what is stored apart.
    pub origin_host: OriginHost,
    /// Worker threads, each with its own runtime, listener and origin pool. At least one.
    pub workers: usize,
    /// The name by which this proxy calls itself in `Via` and `Cache-Status`. A token of up to `PSEUDONYM_MAX` bytes.
    pub pseudonym: String,

    /// Networks whose clients are served; others get 403 and are closed. Clients over Unix sockets are always served.
    pub clients: Vec<Network>,
    /// Networks whose clients may purge by the method PURGE; where there is none, that goes to origins as any other.
    pub purge_from: Vec<Network>,
    /// Ports that `CONNECT` may reach; others get 403.
    pub connect_ports: Vec<u16>,
    /// Networks that every served client may reach, besides what its own place lets it reach (`reach.rs`); others get 403.
    pub reach: Vec<Network>,
    /// Networks of proxies whose word on whom a request comes from is passed on; that of others is removed.
    pub trust: Vec<Network>,
    /// Whether that of clients over Unix sockets is passed on too.
    pub trust_unix: bool,
    /// Whether origins are told whom a request comes from, and how it asked: Forwarded (RFC 7239) and X-Forwarded-*.
    pub forwarded: Told,
    /// Whether origins are told a request's id.
    pub request_id: Told,
    /// What the proxy's own answers say.
    pub pages: Arc<Pages>,
    /// What browsers are told that ask a forward proxy what to send to it.
    pub pac: Pac,
    /// Whether stale responses answer without asking the origins.
    pub offline: Offline,
    /// What is shared of responses that set cookies.
    pub set_cookie: cache::SetCookie,
    /// Whether `Transaction::heads` is filled, which costs a request some tens of nanoseconds.
    pub notes_heads: bool,
    /// Whether what the operator's page remembers of URLs is without their queries.
    pub hides_queries: bool,
    /// The parts of the process's memory and their bytes, for the operator to see.
    pub memory_parts: Vec<(&'static str, u64)>,
    /// When the disk has time for what nobody waits for.
    pub off_peak: OffPeak,
    /// Replacement policies that are simulated beside.
    pub shadow: Vec<Policy>,

    pub bounds: Bounds,
    pub timeouts: Timeouts,
}

/// A secret that is never shown.
pub struct Token(String);

impl Token {
    /// Characters, at least.
    pub const LEAST: usize = 16;

    /// Visible ASCII characters, at least `LEAST` and at most 1,024; blanks around them do not count.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        let is_usable =
            (Token::LEAST..=1024).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        is_usable.then(|| Token(text.to_owned()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The one origin of a reverse proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub scheme: Scheme,
    pub hop: Hop,
}

/// The host that a reverse proxy names to its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginHost {
    /// The client's.
    #[default]
    Client,
    /// The origin's own, as it is configured.
    Origin,
    /// `host` or `host:port`, in lower case.
    Name(HeaderValue),
}

/// Whether origins are asked by HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OriginHttp2 {
    Off,
    /// Over TLS, where they agree on it.
    #[default]
    Auto,
    /// Also without TLS: they are known to speak it.
    PriorKnowledge,
}

/// Whether origins are told something of a request that is not theirs to know of every proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// By a reverse proxy, which they know; not by a forward proxy.
    #[default]
    Auto,
    On,
    Off,
}

impl Told {
    pub fn holds(self, is_reverse: bool) -> bool {
        match self {
            Told::Auto => is_reverse,
            Told::On => true,
            Told::Off => false,
        }
    }
}

/// Whether stale responses answer without asking the origins, as far as their directives permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offline {
    /// While the uplink seems down; what nothing can answer is tried.
    Auto,
    /// Always; nothing is fetched.
    On,
    /// They answer as they do where one origin fails.
    #[default]
    Off,
}

/// Sizes and counts. Each says what happens when it is reached.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Bytes of a message's head. A request beyond it is refused with 431, a response with 502.
    pub head_bytes: usize,
    /// Fields in a request's head. A request beyond it is refused with 431.
    pub head_fields: usize,
    /// Client connections of all workers together. More wait in the kernel's backlog.
    pub connections: usize,
    /// TLS handshakes under way of all workers together. Those that take longest are ended for new ones.
    pub handshakes: usize,
    /// Idle connections kept for one origin by one worker. More are closed. For all origins and workers together a
    /// quarter of `connections` is kept, of either protocol. Of HTTP/2 it is also how many are made to one origin, at least one.
    pub idle_per_origin: usize,
    /// Bytes of response that one fill keeps for its readers. A fill that is full waits for its slowest reader, or
    /// lets go of what the store already holds.
    pub window_bytes: usize,
    /// Bytes still to come of a body of known length for which a fill goes on when its last reader left.
    pub finish_bytes: u64,
    /// Bytes of memory for all of the process, of which other bounds are parts. Only reported: who fills in the bounds divides
    /// it.
    pub total_bytes: u64,
    /// Bytes of memory for bodies and large heads on their way (`budget`). What does not fit waits.
    pub transit_bytes: u64,
    /// Bytes of the memory tier; 0 turns it off. The least used objects leave it.
    pub memory_bytes: u64,
    /// Bytes of the largest body kept in the memory tier. Larger ones live on disk alone.
    pub memory_object_bytes: u64,
    /// Bytes of the largest body that is cached. Larger ones pass.
    pub object_bytes: u64,
    /// Bytes of a QUERY's content that become part of a key. One with more passes.
    pub query_bytes: usize,
    /// Keys remembered as not worth waiting for. Beyond it the oldest half is forgotten.
    pub remembered: usize,
}

/// How long each wait may last. A client's waits are looked at every quarter of the shortest one, at least every five
/// seconds: one may last two looks longer.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the connection to the end of its TLS handshake: it is closed.
    pub client_handshake: Duration,
    /// From the first byte of a request's head to its last: the client gets 408 and is closed.
    pub client_header: Duration,
    /// A connection without a request: it is closed.
    pub client_idle: Duration,
    /// A client that neither takes the response's bytes nor sends the request's: it is closed.
    pub client_stall: Duration,
    /// While others wait for memory: the time in which a client takes or sends hardly anything.
    pub client_crowded: Duration,
    /// Name lookup: the client gets 504.
    pub dns: Duration,
    /// Connecting, for each address of an origin: the next is tried, then the client gets 504.
    pub origin_connect: Duration,
    /// From the end of the request to the response's head: the client gets 504.
    pub origin_first_byte: Duration,
    /// An origin that neither takes the request's bytes nor sends the response's: the response breaks off.
    pub origin_stall: Duration,
    /// An unused connection to an origin: it is closed.
    pub origin_idle: Duration,
    /// An origin that is silent on `Expect: 100-continue`: the body is sent anyway.
    pub expect: Duration,
    /// A tunnel in which nothing moves: it is closed.
    pub tunnel_idle: Duration,
    /// After a response that was not cacheable, how long requests for its key do not wait for one another.
    pub remember: Duration,
    /// From the order to stop to the end of running requests: those still running are broken off. Heads that are not here yet get a
    /// second of it at most.
    pub drain: Duration,
    /// The same of tunnels; those in which nothing moves get a second of it at most.
    pub tunnel_drain: Duration,
    /// The same of requests and tunnels, where the proxy stops gracefully or another process has taken over.
    pub graceful: Duration,
}

impl Settings {
    /// Those to listen on, whatever is spoken there.
    pub fn addresses(&self) -> Vec<Address> {
        self.listen.iter().map(|listen| listen.address.clone()).collect()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 3128)).into()],
            tls: Tls::default(),
            http2: Http2::default(),
            admin: None,
            admin_token: None,
            origin: None,
            origin_tls: OriginTls::default(),
            origin_http2: OriginHttp2::default(),
            origin_host: OriginHost::default(),
            workers: 1,
            pseudonym: "cosm".into(),
            clients: Network::private(),
            purge_from: Vec::new(),
            connect_ports: vec![443],
            reach: Vec::new(),
            trust: Vec::new(),
            trust_unix: false,
            forwarded: Told::default(),
            request_id: Told::default(),
            pages: Arc::default(),
            pac: Pac::default(),
            offline: Offline::default(),
            set_cookie: cache::SetCookie::default(),
            notes_heads: false,
            hides_queries: false,
            memory_parts: Vec::new(),
            off_peak: OffPeak::default(),
            shadow: Vec::new(),
            bounds: Bounds::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            head_bytes: 64 << 10,
            head_fields: 100,
            connections: 20_000,
            handshakes: 1000,
            idle_per_origin: 4096,
            window_bytes: 1 << 20,
            finish_bytes: 1 << 20,
            total_bytes: 0,
            transit_bytes: 256 << 20,
            memory_bytes: 64 << 20,
            memory_object_bytes: 1 << 20,
            object_bytes: 1 << 30,
            query_bytes: 16 << 10,
            remembered: 16_384,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let seconds = Duration::from_secs;
        Timeouts {
            client_handshake: seconds(10),
            client_header: seconds(30),
            client_idle: seconds(60),
            client_stall: seconds(60),
            client_crowded: seconds(5),
            dns: seconds(10),
            origin_connect: seconds(10),
            origin_first_byte: seconds(60),
            origin_stall: seconds(60),
            origin_idle: seconds(30),
            expect: seconds(1),
            tunnel_idle: seconds(600),
            remember: seconds(120),
            drain: seconds(30),
            tunnel_drain: seconds(5),
            graceful: seconds(3600),
        }
    }
}

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// `None` for more bits than the address has, or one that is set beyond them.
    pub fn new(address: IpAddr, bits: u8) -> Option<Network> {
        let network = Network { address: first_bits(address, bits)?, bits };
        (network.address == address).then_some(network)
    }

    /// Every address.
    pub fn all() -> Vec<Network> {
        let networks = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        networks.map(|address| Network { address, bits: 0 }).into()
    }

    /// Loopback, private and link-local networks: who is served unless configured otherwise.
    pub fn private() -> Vec<Network> {
        const PRIVATE: [&str; 8] = [
            "127.0.0.0/8",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "169.254.0.0/16",
            "::1/128",
            "fc00::/7",
            "fe80::/10",
        ];
        PRIVATE.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Whether all of another network lies in this one.
    pub fn holds(&self, other: &Network) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same_bits(a.to_bits().into(), b.to_bits().into(), 32, self.bits)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same_bits(a.to_bits(), b.to_bits(), 128, self.bits),
            _ => false,
        }
    }
}

/// An address with its first bits alone; `None` when it has not so many.
fn first_bits(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let cleared = u32::from(if address.is_ipv4() { 32u8 } else { 128 }.checked_sub(bits)?);
    Some(match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(cleared).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    })
}

fn same_bits(a: u128, b: u128, width: u8, bits: u8) -> bool {
    (a ^ b).checked_shr(u32::from(width - bits)).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = String;

    /// `10.0.0.0/8`, or one address.
    fn from_str(text: &str) -> Result<Network, String> {
        let wrong =
            || format!("`{text}` is not a network: write an address or address/bits, like 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = bits.unwrap_or(if address.is_ipv4() { 32 } else { 128 });
        let first = first_bits(address, bits).ok_or_else(wrong)?;
        Network::new(address, bits).ok_or_else(|| {
            format!("`{text}` is an address in a network: write {first}/{bits} for the network, or {address} alone")
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Origin {
    /// The host that it is asked for where none else is named; on a Unix socket that is `localhost`.
    pub fn host(&self) -> HeaderValue {
        const LOCALHOST: HeaderValue = HeaderValue::from_static("localhost");
        match &self.hop {
            Hop::Host(host) => HeaderValue::from_str(host.authority.as_str()).unwrap_or(LOCALHOST),
            Hop::Unix(_) => LOCALHOST,
        }
    }
}

impl FromStr for Origin {
    type Err = String;

    /// `http://host[:port]`, or with https, without a path; or `http://unix:/path`, after which `:` or `:/` may stand.
    fn from_str(text: &str) -> Result<Origin, String> {
        let wrong = || {
            format!(
                "`{text}` is not an origin: write http://host, http://host:port, or http://unix:/PATH, or the same with https"
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = Scheme::of(scheme)
            .ok_or_else(|| format!("`{text}`: only http:// and https:// origins are supported"))?;
        if let Some(rest) = rest.strip_prefix(UnixPath::PREFIX) {
            let (path, uri) = rest.split_once(':').unwrap_or((rest, ""));
            if !matches!(uri, "" | "/") {
                return Err(wrong());
            }
            return Ok(Origin { scheme, hop: Hop::Unix(path.parse()?) });
        }
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        if crate::authority::host_and_port(authority.as_str()).is_none() {
            return Err(format!("`{text}`: write a host alone, or host:port with a port up to 65535"));
        }
        let authority = authority.as_str().to_ascii_lowercase().parse().map_err(|_| wrong())?;
        Ok(Origin { scheme, hop: Hop::host(authority, scheme) })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.hop)
    }
}

impl FromStr for OriginHost {
    type Err = String;

    /// `client`, `origin`, or a host with or without a port.
    fn from_str(text: &str) -> Result<OriginHost, String> {
        let name = || {
            crate::authority::host_and_port(text)?;
            HeaderValue::try_from(text.to_ascii_lowercase()).ok()
        };
        match text {
            "client" => Ok(OriginHost::Client),
            "origin" => Ok(OriginHost::Origin),
            _ => name().map(OriginHost::Name).ok_or_else(|| {
                format!("`{text}` is none of client, origin, and a host to name, like www.example.com")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let table = [
            ("10.0.0.0/8", "10.200.1.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("172.16.0.0/12", "172.31.255.255", true),
            ("172.16.0.0/12", "172.32.0.0", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("::/0", "2001:db8::1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("fc00::/7", "fd12::1", true),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("fe80::/10", "10.0.0.1", false),
        ];
        for (network, address, inside) in table {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network} {address}");
        }
        assert!(Network::all().iter().all(|network| network.to_string().parse() == Ok(*network)));
        for (wrong, right) in
            [("10.0.0.5/8", "10.0.0.0/8"), ("192.0.2.1/0", "0.0.0.0/0"), ("fd12::1/7", "fc00::/7")]
        {
            let error = wrong.parse::<Network>().unwrap_err();
            assert!(error.contains(&format!("write {right} ")), "{error}");
            assert!(right.parse::<Network>().is_ok(), "{right}");
        }
        for wrong in ["10.0.0.0/33", "x", "10.0.0.0/", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn origins_are_a_scheme_and_a_hop() {
        for (text, written, host) in [
            ("http://Example.com:8080/", "http://example.com:8080", "example.com:8080"),
            ("HTTP://a", "http://a", "a"),
            ("HTTPS://a:8443", "https://a:8443", "a:8443"),
            ("https://unix:/run/app.sock", "https://unix:/run/app.sock", "localhost"),
            ("http://[::1]:80", "http://[::1]:80", "[::1]:80"),
            ("http://unix:/run/App.sock", "http://unix:/run/App.sock", "localhost"),
            ("http://unix:/run/app.sock:", "http://unix:/run/app.sock", "localhost"),
            ("http://unix:/run/app.sock:/", "http://unix:/run/app.sock", "localhost"),
        ] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!((origin.to_string().as_str(), origin.host().to_str().unwrap()), (written, host));
            assert_eq!(written.parse(), Ok(origin));
        }
        for wrong in [
            "example.com",
            "ftp://example.com",
            "https://unix:run/app.sock",
            "http://a/b",
            "http://u@a/",
            "http://a/?q",
            "http://a:65536",
            "http://a:x",
            "http://unix:",
            "http://unix:80",
            "http://unix:run/app.sock",
            "http://unix:/run/app.sock:/path",
            "http://unix:/run/app.sock:80",
            "unix:/run/app.sock",
        ] {
            let error = wrong.parse::<Origin>().unwrap_err();
            assert!(error.lines().count() == 1 && error.starts_with('`'), "{wrong}: {error}");
        }
    }
}
