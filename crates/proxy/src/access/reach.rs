//! Which addresses a client may reach: a proxy must be no way past the walls that stand before its clients.
//!
//! Addresses that only the host itself can reach are for clients on it, those of private networks for clients in private
//! networks. What needs a nearer client than the furthest one that is served is never shared through the cache, unless
//! its host tells so by itself (an address, `localhost`): that is judged at each request, before the cache is asked.

use crate::authority::{bare_host, known};
use crate::message::refusal::Refusal;
use crate::settings::{Network, Settings};
use http::StatusCode;
use http::uri::Authority;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::LazyLock;

/// Where a client is; who is nearer reaches what those further away do, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    Public,
    Private,
    /// On this host.
    Loopback,
}

impl Zone {
    pub const ALL: [Zone; 3] = [Zone::Public, Zone::Private, Zone::Loopback];
}

/// Who may reach a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Clients of this zone, and nearer ones.
    For(Zone),
    /// Nobody, unless it is listed.
    Listed,
    /// Nobody at all: no host has such an address.
    Never,
}

/// The first network that holds an address says who may reach it; what none holds is public.
const PLACES: [(&str, Place); 23] = [
    ("127.0.0.0/8", Place::For(Zone::Loopback)),
    ("::1/128", Place::For(Zone::Loopback)),
    // To connect to no address is to connect to this host.
    ("0.0.0.0/32", Place::For(Zone::Loopback)),
    ("::/128", Place::For(Zone::Loopback)),
    ("169.254.0.0/16", Place::Listed),
    ("fe80::/10", Place::Listed),
    // Where clouds tell a machine its secrets, beside 169.254.169.254: Alibaba, Azure, Oracle, Amazon, Google.
    ("100.100.100.200/32", Place::Listed),
    ("168.63.129.16/32", Place::Listed),
    ("192.0.0.192/32", Place::Listed),
    ("fd00:ec2::254/128", Place::Listed),
    ("fd20:ce::254/128", Place::Listed),
    ("10.0.0.0/8", Place::For(Zone::Private)),
    ("172.16.0.0/12", Place::For(Zone::Private)),
    ("192.168.0.0/16", Place::For(Zone::Private)),
    ("100.64.0.0/10", Place::For(Zone::Private)),
    ("198.18.0.0/15", Place::For(Zone::Private)),
    ("fc00::/7", Place::For(Zone::Private)),
    ("fec0::/10", Place::For(Zone::Private)),
    ("0.0.0.0/8", Place::Never),
    ("192.0.0.0/24", Place::Never),
    ("224.0.0.0/4", Place::Never),
    ("240.0.0.0/4", Place::Never),
    ("ff00::/8", Place::Never),
];

/// IPv6 networks whose addresses stand for IPv4 ones, and by how many bits those lie above the lowest.
const EMBEDDING: [(&str, u32); 6] = [
    // IPv4-mapped, IPv4-compatible (RFC 4291 section 2.5.5), translated (RFC 2765).
    ("::ffff:0:0/96", 0),
    ("::/96", 0),
    ("::ffff:0:0:0/96", 0),
    // NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056).
    ("64:ff9b::/96", 0),
    ("64:ff9b:1::/48", 0),
    ("2002::/16", 80),
];

/// A proxy's judgement of destinations.
#[derive(PartialEq, Eq)]
pub struct Reach {
    listed: Vec<Network>,
    /// Of the clients that may be served, where the furthest are.
    furthest: Zone,
    /// All that a reverse proxy connects to is its operator's choice.
    is_reverse: bool,
}

impl Reach {
    pub fn new(settings: &Settings) -> Reach {
        // Who comes over a Unix socket is on this host.
        let mut addresses = settings.listen.iter().filter_map(|listen| listen.address.tcp());
        let is_local = addresses.all(|address| Zone::of(address.ip()) == Zone::Loopback);
        let clients = settings.clients.iter().map(zone_of_network);
        let furthest = if is_local { None } else { clients.min() };
        Reach {
            listed: settings.reach.clone(),
            furthest: furthest.unwrap_or(Zone::Loopback),
            is_reverse: settings.origin.is_some(),
        }
    }

    /// Before anything is looked up: whether a client may ask for a host that is an address, or `localhost`.
    pub fn check(&self, authority: &Authority, client: Zone) -> Result<(), Refusal> {
        let may =
            self.is_reverse || self.of_host(bare_host(authority)).is_some_and(|needed| needed <= client);
        if may { Ok(()) } else { Err(refused()) }
    }

    /// Where a client has to be to reach an address, as is asked before connecting; `None`: nobody reaches it.
    pub fn needs(&self, address: IpAddr) -> Option<Zone> {
        if self.is_reverse {
            return Some(Zone::Public);
        }
        // Where all clients are on this host, its own addresses are nothing special.
        needed(address, &self.listed, |face| self.furthest < Zone::Loopback && is_own(face))
    }

    /// Whether all who get past `check` may have what came from an address of the host that needs a zone.
    pub fn is_for_all(&self, authority: &Authority, needed: Zone) -> bool {
        let checked = self.of_host(bare_host(authority)).unwrap_or(Zone::Public);
        needed <= self.furthest.max(checked)
    }

    /// What the host alone tells of where a client has to be.
    fn of_host(&self, host: &str) -> Option<Zone> {
        match known(host) {
            Some(known) => {
                known.addresses().iter().filter_map(|at| needed(*at, &self.listed, |_| false)).min()
            }
            None => Some(Zone::Public),
        }
    }
}

impl Zone {
    pub fn of(client: IpAddr) -> Zone {
        let client = client.to_canonical();
        match place(client) {
            _ if client.is_loopback() => Zone::Loopback,
            Place::For(Zone::Private) | Place::Listed => Zone::Private,
            _ => Zone::Public,
        }
    }
}

/// What a client is told that is not near enough. Not which address it was.
pub fn refused() -> Refusal {
    let text = "this client may not reach that address; the proxy's operator allows it with --reach NETWORK";
    Refusal::new(StatusCode::FORBIDDEN, text)
}

/// The judgement: where a client has to be to reach an address, `None` for nowhere. What an address stands for is judged
/// too; `is_own` tells this host's.
fn needed(address: IpAddr, listed: &[Network], is_own: impl Fn(IpAddr) -> bool) -> Option<Zone> {
    let places = || faces(address).map(place);
    if places().any(|place| place == Place::Never) {
        return None;
    }
    if faces(address).any(|face| listed.iter().any(|network| network.contains(face))) {
        return Some(Zone::Public);
    }
    let mut zone = Zone::Public;
    for place in places() {
        let Place::For(of_place) = place else { return None };
        zone = zone.max(of_place);
    }
    Some(if zone < Zone::Loopback && faces(address).any(is_own) { Zone::Loopback } else { zone })
}

/// An address, and the IPv4 address that it stands for.
fn faces(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let address = address.to_canonical();
    [Some(address), embedded(address)].into_iter().flatten()
}

fn embedded(address: IpAddr) -> Option<IpAddr> {
    static NETWORKS: LazyLock<Vec<(Network, u32)>> = LazyLock::new(|| parsed(&EMBEDDING));
    let IpAddr::V6(v6) = address else { return None };
    if v6.is_unspecified() || v6.is_loopback() {
        return None;
    }
    let (_, shift) = NETWORKS.iter().find(|(network, _)| network.contains(address))?;
    Some(Ipv4Addr::from_bits((v6.to_bits() >> shift) as u32).into())
}

fn place(address: IpAddr) -> Place {
    static NETWORKS: LazyLock<Vec<(Network, Place)>> = LazyLock::new(|| parsed(&PLACES));
    let first = NETWORKS.iter().find(|(network, _)| network.contains(address));
    first.map_or(Place::For(Zone::Public), |(_, place)| *place)
}

fn parsed<T: Copy>(table: &[(&str, T)]) -> Vec<(Network, T)> {
    table.iter().filter_map(|(network, what)| Some((network.parse().ok()?, *what))).collect()
}

/// Where the furthest clients of a network are.
fn zone_of_network(network: &Network) -> Zone {
    let holds = |text: &str| text.parse().is_ok_and(|outer: Network| outer.holds(network));
    if ["127.0.0.0/8", "::1/128"].into_iter().any(holds) {
        return Zone::Loopback;
    }
    let private =
        PLACES.iter().filter(|(_, place)| matches!(place, Place::For(Zone::Private) | Place::Listed));
    if private.into_iter().any(|(text, _)| holds(text)) { Zone::Private } else { Zone::Public }
}

/// Whether it is an address of this host: then what is sent there is sent from it. Nothing is sent to find out. Where the
/// system does not say, no risk is taken.
fn is_own(address: IpAddr) -> bool {
    let sent_from = || -> io::Result<Option<IpAddr>> {
        let v4 = address.is_ipv4();
        let any = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        // There may be no way to it; then it is another's.
        let has_way = socket.connect(SocketAddr::new(address, 9)).is_ok();
        has_way.then(|| Ok(socket.local_addr()?.ip())).transpose()
    };
    sent_from().map_or(true, |source| source == Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn networks(text: &str) -> Vec<Network> {
        text.split_whitespace().map(|network| network.parse().unwrap()).collect()
    }

    fn reach(listen: &str, clients: &str, listed: &str) -> Reach {
        Reach::new(&Settings {
            listen: vec![SocketAddr::new(at(listen), 1).into(), "unix:/a".parse().unwrap()],
            clients: networks(clients),
            reach: networks(listed),
            ..Settings::default()
        })
    }

    #[test]
    fn the_tables_are_networks() {
        assert_eq!((parsed(&PLACES).len(), parsed(&EMBEDDING).len()), (PLACES.len(), EMBEDDING.len()));
    }

    #[test]
    fn who_reaches_what() {
        const OWN: &str = "203.0.113.9";
        // By public, private and loopback clients.
        let table: &[(&str, [bool; 3])] = &[
            ("8.8.8.8", [true, true, true]),
            ("2001:db8::1", [true, true, true]),
            ("10.1.2.3", [false, true, true]),
            ("172.31.255.255", [false, true, true]),
            ("172.32.0.1", [true, true, true]),
            ("192.168.0.1", [false, true, true]),
            ("100.64.0.1", [false, true, true]),
            ("fd12::1", [false, true, true]),
            ("127.0.0.1", [false, false, true]),
            ("127.9.9.9", [false, false, true]),
            ("::1", [false, false, true]),
            ("0.0.0.0", [false, false, true]),
            ("::", [false, false, true]),
            (OWN, [false, false, true]),
            ("169.254.0.1", [false, false, false]),
            ("169.254.169.254", [false, false, false]),
            ("fe80::1", [false, false, false]),
            ("fd00:ec2::254", [false, false, false]),
            ("100.100.100.200", [false, false, false]),
            ("168.63.129.16", [false, false, false]),
            ("0.1.2.3", [false, false, false]),
            ("224.0.0.1", [false, false, false]),
            ("255.255.255.255", [false, false, false]),
            ("ff02::1", [false, false, false]),
        ];
        let zones = [Zone::Public, Zone::Private, Zone::Loopback];
        let own = at(OWN);
        for (address, expected) in table {
            let mut written = vec![at(address)];
            // The same by all the ways to write IPv4 in IPv6.
            if let IpAddr::V4(v4) = at(address) {
                let [a, b] = [v4.to_bits() >> 16, v4.to_bits() & 0xffff].map(|half| format!("{half:x}"));
                let prefixes = ["::ffff:", "::ffff:0:", "64:ff9b::", "64:ff9b:1::"];
                written.extend(prefixes.map(|prefix| at(&format!("{prefix}{a}:{b}"))));
                written.push(at(&format!("2002:{a}:{b}::1")));
                // `::1` is itself no IPv4 address, nor is `::`.
                written.extend((v4.to_bits() > 1).then(|| at(&format!("::{a}:{b}"))));
            }
            for address in written {
                let needed = needed(address, &[], |face| face == own);
                let may = zones.map(|client| needed.is_some_and(|needed| needed <= client));
                assert_eq!(may, *expected, "{address}");
            }
        }
    }

    #[test]
    fn what_is_listed_is_for_all_clients_but_nobody_reaches_what_no_host_is() {
        let listed = networks("169.254.169.254 127.0.0.0/8 203.0.113.9 224.0.0.0/4");
        for (address, expected) in [
            ("169.254.169.254", Some(Zone::Public)),
            ("64:ff9b::a9fe:a9fe", Some(Zone::Public)),
            ("169.254.0.1", None),
            ("::ffff:127.0.0.1", Some(Zone::Public)),
            ("::1", Some(Zone::Loopback)),
            ("203.0.113.9", Some(Zone::Public)),
            ("224.0.0.1", None),
        ] {
            assert_eq!(needed(at(address), &listed, |_| true), expected, "{address}");
        }
    }

    #[test]
    fn clients_are_where_their_address_is() {
        for (client, zone) in [
            ("127.0.0.1", Zone::Loopback),
            ("::1", Zone::Loopback),
            ("::ffff:127.0.0.1", Zone::Loopback),
            ("::ffff:10.0.0.1", Zone::Private),
            ("192.168.1.1", Zone::Private),
            ("169.254.3.4", Zone::Private),
            ("fe80::1", Zone::Private),
            ("0.0.0.0", Zone::Public),
            ("8.8.8.8", Zone::Public),
            ("2002:7f00:1::", Zone::Public),
        ] {
            assert_eq!(Zone::of(at(client)), zone, "{client}");
        }
    }

    #[test]
    fn what_not_all_may_reach_is_not_for_all() {
        let (all, private) = ("0.0.0.0/0 ::/0", "127.0.0.0/8 10.0.0.0/8 fe80::/10");
        let table = [
            // On loopback, all clients are of this host.
            (reach("127.0.0.1", all, ""), [true, true, true, true]),
            (reach("0.0.0.0", "127.0.0.0/8", ""), [true, true, true, true]),
            (reach("0.0.0.0", private, ""), [true, true, false, true]),
            (reach("0.0.0.0", "10.0.0.0/7", ""), [true, false, false, true]),
            (reach("10.0.0.1", all, ""), [true, false, false, true]),
        ];
        let (name, literal) = (Authority::from_static("a"), Authority::from_static("localhost:80"));
        for (number, (reach, expected)) in table.into_iter().enumerate() {
            let zones = [Zone::Public, Zone::Private, Zone::Loopback];
            let [a, b, c] = zones.map(|needed| reach.is_for_all(&name, needed));
            assert_eq!([a, b, c, reach.is_for_all(&literal, Zone::Loopback)], expected, "{number}");
        }
        // One of the addresses is for all, the other is not.
        let half = reach("0.0.0.0", all, "127.0.0.1");
        assert!(half.check(&literal, Zone::Public).is_ok() && !half.is_for_all(&literal, Zone::Loopback));
    }

    #[test]
    fn hosts_that_tell_by_themselves_are_judged_without_a_lookup() {
        let reach = reach("0.0.0.0", "0.0.0.0/0", "");
        for (host, zone, may) in [
            ("example.com", Zone::Public, true),
            ("localhost.example.com:80", Zone::Public, true),
            ("localhost:80", Zone::Private, false),
            ("localhost:80", Zone::Loopback, true),
            ("a.LocalHost.", Zone::Private, false),
            ("127.0.0.1:8080", Zone::Private, false),
            ("[::ffff:127.0.0.1]:8080", Zone::Private, false),
            ("[::1]", Zone::Loopback, true),
            ("10.0.0.1", Zone::Private, true),
            ("10.0.0.1", Zone::Public, false),
            ("169.254.169.254", Zone::Loopback, false),
        ] {
            let judged = reach.check(&Authority::from_static(host), zone);
            assert_eq!(judged.is_ok(), may, "{host} {zone:?}");
            assert!(judged.is_ok_and(|()| true) || !refused().text.contains(host));
        }
        let origin = Some("http://127.0.0.1".parse().unwrap());
        let reverse = Reach::new(&Settings { origin, ..Settings::default() });
        assert_eq!(reverse.needs(at("127.0.0.1")), Some(Zone::Public));
        assert!(reverse.check(&Authority::from_static("127.0.0.1"), Zone::Public).is_ok());
    }

    #[test]
    fn the_system_knows_its_own_addresses() {
        assert!(is_own(at("127.0.0.1")));
        assert!(!is_own(at("203.0.113.77")));
    }
}
