//! The table itself.

use super::{Effect, Kind, Part, Setting, Word};
use crate::access_log::Mask;
use crate::error_log::{Levels, Style};
use crate::sink::To;
use crate::values;
use Effect::{Reload, Start};
use Kind::{
    Address, Addresses, Caches, Choice, Count, Networks, Other, Peers, Ports, PowerOfTwo, Size, Time,
};
use Part::{Proxy, Store};
use Word::{Auto, Divided, Is};
use acme::{Binding, Challenge};
use proxy::{
    Certificates, KeyFiles, LeastVersion, Network, OffPeak, Offline, OriginHost, OriginHttp2, Pac, Pages,
    Roots, SetCookie, TicketKeys, Token, Told,
};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use store::{Admission, IoChoice, WriteBudget};

pub const DEFAULT_CACHE: &str = "cache.cosm";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

/// Nobody means longer; and no sum of times overflows.
const YEAR: Duration = Duration::from_secs(8760 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const LEAST: Duration = Duration::from_millis(1);
const TIMEOUT: RangeInclusive<Duration> = LEAST..=YEAR;
const INTERVAL: RangeInclusive<Duration> = LEAST..=HOUR;

const SERVICE: &str = "Service";
const TLS: &str = "TLS";
const ACME: &str = "Certificates by ACME";
const HTTP2: &str = "HTTP/2";
const ORIGIN: &str = "Reverse proxy";
const CACHE: &str = "Cache";
const ACCESS: &str = "Access control";
const LOG: &str = "Access log";
const ERRORS: &str = "Errors";
const LIMITS: &str = "Limits";
const TIMEOUTS: &str = "Timeouts";
const TUNING: &str = "Tuning of the cache on disk";

/// A row: its topic and name, what it takes, the default, whose it is and when a new value takes effect, and help.
macro_rules! row {
    ($topic:expr, $name:expr, $kind:expr, [$($word:expr),*], $default:expr, $part:expr, $effect:expr, $help:expr) => {
        Setting {
            topic: $topic,
            name: $name,
            kind: $kind,
            words: &[$($word),*],
            default: $default,
            part: $part,
            effect: $effect,
            help: $help,
        }
    };
}

#[rustfmt::skip]
pub static TABLE: &[Setting] = &[
    row!(SERVICE, "listen", Addresses(|c, v| c.proxy.listen = v), [], "127.0.0.1:3128", Proxy, Start,
        "Addresses and ports to accept clients on; port 0 takes a free one. [::]:PORT also accepts IPv4, unless an IPv4 \
         address with the same port is listed. unix:PATH is a Unix socket, whose file permissions say who is served. \
         tls:ADDRESS speaks TLS, and needs tls-certificate; redirect:ADDRESS sends all clients to https"),
    row!(SERVICE, "admin", Address(|c, v| c.proxy.admin = Some(v)),
        [Is("off", |c| c.proxy.admin = None)], "off", Proxy, Start,
        "Address and port of the admin interface, such as 127.0.0.1:3129, or unix:PATH; whoever can connect to it may purge. An address \
         that other hosts reach needs --admin-token"),
    row!(SERVICE, "admin-token", Other("FILE", |c, v| {
            let text = proxy::read_small(v.as_ref(), 4 << 10).map_err(|why| format!("cannot read token {v}: {why}"))?;
            let token = Token::new(&text).ok_or_else(|| {
                format!("{v} has no token: one line of {} to 1024 visible ASCII characters, as of `openssl rand -hex 32`", Token::LEAST)
            })?;
            c.proxy.admin_token = Some(Arc::new(token));
            c.admin_token_file = Some(v.into());
            Ok(())
        }), [Is("none", |c| (c.proxy.admin_token, c.admin_token_file) = (None, None))], "none", Proxy, Reload,
        "File with the token that the admin interface wants, as `Authorization: Bearer TOKEN` or as the password of Basic"),
    row!(SERVICE, "pac", Other("FILE", |c, v| {
            let text = proxy::read_small(v.as_ref(), 256 << 10).map_err(|why| format!("cannot read pac {v}: {why}"))?;
            c.proxy.pac = Pac::Own(text.into());
            Ok(())
        }), [Is("auto", |c| c.proxy.pac = Pac::Made), Is("off", |c| c.proxy.pac = Pac::Off)], "auto", Proxy, Reload,
        "What browsers get that ask a forward proxy for http://PROXY:PORT/proxy.pac (or wpad.dat), which says what to send to it; auto: all but plain \
         names and private addresses, at the name that they reach it by, and without it where it does not answer"),
    row!(SERVICE, "pid-file", Other("FILE", |c, v| {
            c.pid_file = Some(v.into());
            Ok(())
        }), [Is("none", |c| c.pid_file = None)], "none", Proxy, Start,
        "File with the id of the process that serves, which also changes at an upgrade; a clean stop removes it"),
    row!(SERVICE, "workers", Count(1..=1024, |c, v| c.proxy.workers = v as usize),
        [Auto(|machine| machine.cores)], "auto", Proxy, Start,
        "Number of worker threads; auto: one per CPU core"),
    row!(SERVICE, "pseudonym", Other("NAME", |c, v| {
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if !v.bytes().all(is_token) || v.len() > proxy::PSEUDONYM_MAX {
                return Err(format!("`{v}` is not a name: up to 64 letters, digits and -._ without blanks"));
            }
            c.proxy.pseudonym = v.into();
            Ok(())
        }), [], "cosm", Proxy, Start,
        "Name of this proxy in the Via and Cache-Status headers, up to 64 characters"),

    row!(TLS, "tls-certificate", Other("FILE,…", |c, v| {
            c.proxy.tls.certificates = Some(Arc::new(Certificates::load(values::certificates(v)?)?));
            Ok(())
        }), [Is("none", |c| c.proxy.tls.certificates = None)], "none", Proxy, Reload,
        "Certificates for listeners with tls:, each a file of PEM with the chain and its private key, CHAIN:KEY, or a folder with \
         fullchain.pem and privkey.pem. A client gets the one for the name that it asks for (*.example.com is for one label), else the \
         first. They are read anew when the files change"),
    row!(TLS, "tls-version-min", Choice, [
            Is("1.2", |c| c.proxy.tls.least = LeastVersion::Tls12),
            Is("1.3", |c| c.proxy.tls.least = LeastVersion::Tls13)
        ], "1.2", Proxy, Reload,
        "Oldest version of TLS that clients may speak"),
    row!(TLS, "tls-client-ca", Other("FILE", |c, v| {
            c.proxy.tls.client_roots = Some(Roots::load(v.as_ref())?);
            Ok(())
        }), [Is("none", |c| c.proxy.tls.client_roots = None)], "none", Proxy, Reload,
        "File of PEM with the issuers of the certificates that clients need on listeners with tls:; none: clients need no certificate"),
    row!(TLS, "tls-tickets", Other("FILE", |c, v| {
            c.proxy.tls.tickets = TicketKeys::File(v.into());
            Ok(())
        }), [
            Is("memory", |c| c.proxy.tls.tickets = TicketKeys::Memory),
            Is("off", |c| c.proxy.tls.tickets = TicketKeys::Off)
        ], "memory", Proxy, Start,
        "Keys of the tickets by which clients go on with their sessions: in a file, readable by this user alone, which is made where there is none \
         and outlasts restarts; memory: until the process ends; off: no tickets. A new key is made every 6 hours"),
    row!(TLS, "redirect-port", Count(1..=65_535, |c, v| c.proxy.tls.redirect_port = Some(v as u16)),
        [Is("auto", |c| c.proxy.tls.redirect_port = None)], "auto", Proxy, Reload,
        "Port that listeners with redirect: send clients to; auto: that of the first listener with tls:"),
    row!(TLS, "hsts", Other("VALUE", |c, v| {
            c.proxy.tls.hsts = Some(values::hsts(v)?);
            Ok(())
        }), [Is("off", |c| c.proxy.tls.hsts = None)], "off", Proxy, Reload,
        "Strict-Transport-Security header of responses over TLS that have none of the origin, such as 'max-age=31536000; includeSubDomains': \
         browsers then ask for this host by https only, for so many seconds"),

    row!(ACME, "acme", Other("NAME,…", |c, v| {
            c.proxy.tls.acme.certificates = values::list(v, str::parse)?;
            Ok(())
        }), [Is("off", |c| c.proxy.tls.acme.certificates = Vec::new())], "off", Proxy, Reload,
        "Order certificates for these names or addresses from an authority by ACME, and renew them in time; needs acme-agree-terms. Each is one \
         certificate; several names of one stand together, as in example.com+www.example.com. They come behind those of tls-certificate. Until one is there, \
         who asks for its name gets the first of the others, and no handshake without any"),
    row!(ACME, "acme-agree-terms", Choice, [
            Is("yes", |c| c.proxy.tls.acme.agrees_to_terms = true),
            Is("no", |c| c.proxy.tls.acme.agrees_to_terms = false)
        ], "no", Proxy, Reload,
        "Whether you agree to the terms of service of the authority"),
    row!(ACME, "acme-directory", Other("URL", |c, v| {
            c.proxy.tls.acme.directory = values::https_url(v)?;
            Ok(())
        }), [
            Is("letsencrypt", |c| c.proxy.tls.acme.directory = acme::LETS_ENCRYPT.into()),
            Is("letsencrypt-staging", |c| c.proxy.tls.acme.directory = acme::LETS_ENCRYPT_STAGING.into())
        ], "letsencrypt", Proxy, Reload,
        "Directory of the authority's ACME server; letsencrypt-staging gives certificates that nobody believes, for trials"),
    row!(ACME, "acme-email", Other("ADDRESS", |c, v| {
            if v.split_once('@').is_none_or(|(user, host)| user.is_empty() || host.is_empty()) || v.contains([' ', ',', '?']) {
                return Err(format!("`{v}` is no address of e-mail"));
            }
            c.proxy.tls.acme.email = Some(v.into());
            Ok(())
        }), [Is("none", |c| c.proxy.tls.acme.email = None)], "none", Proxy, Reload,
        "Where the authority may write to; it is told when an account is made, never later"),
    row!(ACME, "acme-folder", Other("FOLDER", |c, v| {
            c.proxy.tls.acme.folder = v.into();
            Ok(())
        }), [], "acme", Proxy, Reload,
        "Folder for accounts, certificates and keys, of this user alone; it is made where there is none"),
    row!(ACME, "acme-challenge", Choice, [
            Is("tls-alpn-01", |c| c.proxy.tls.acme.challenge = Challenge::TlsAlpn),
            Is("http-01", |c| c.proxy.tls.acme.challenge = Challenge::Http)
        ], "tls-alpn-01", Proxy, Reload,
        "How names are proved: tls-alpn-01 (the authority connects to port 443, where a listener with tls: has to be reached), or http-01 (to port 80, a listener \
         with redirect: or without TLS)"),
    row!(ACME, "acme-dns-hook", Other("PROGRAM", |c, v| {
            c.proxy.tls.acme.challenge = Challenge::Dns(v.into());
            Ok(())
        }), [Is("none", |_| {})], "none", Proxy, Reload,
        "Prove names by dns-01 instead, also those with *: this program is called with `present NAME VALUE`, puts that TXT record into DNS, and ends when all can \
         see it; later with `cleanup NAME VALUE`"),
    row!(ACME, "acme-profile", Other("NAME", |c, v| {
            c.proxy.tls.acme.profile = Some(v.into());
            Ok(())
        }), [Is("none", |c| c.proxy.tls.acme.profile = None)], "none", Proxy, Reload,
        "Kind of certificate, where the authority has several, such as shortlived; none: as the authority chooses"),
    row!(ACME, "acme-eab", Other("FILE", |c, v| {
            let text = proxy::read_small(v.as_ref(), 4 << 10).map_err(|why| format!("cannot read {v}: {why}"))?;
            c.proxy.tls.acme.binding = Some(Binding::of(&text).map_err(|why| format!("{v}: {why}"))?);
            c.acme_eab_file = Some(v.into());
            Ok(())
        }), [Is("none", |c| (c.proxy.tls.acme.binding, c.acme_eab_file) = (None, None))], "none", Proxy, Reload,
        "File with the external account (EAB) that some authorities want: two words, the id of a key, and the key in base64url"),
    row!(ACME, "acme-ca", Other("FILE", |c, v| {
            c.proxy.tls.acme_server.roots = Some(Roots::load(v.as_ref())?);
            Ok(())
        }), [Is("system", |c| c.proxy.tls.acme_server.roots = None)], "system", Proxy, Reload,
        "File of PEM with the issuers that are believed of the ACME server; system: those that this system believes"),

    row!(HTTP2, "http2", Choice, [
            Is("on", |c| c.proxy.http2.on = true),
            Is("off", |c| c.proxy.http2.on = false)
        ], "on", Proxy, Reload,
        "Speak HTTP/2 with clients that ask for it: by ALPN over TLS, and without TLS where they begin with it (prior knowledge)"),
    row!(HTTP2, "http2-streams-max", Count(1..=10_000, |c, v| c.proxy.http2.streams = v as u32), [], "100", Proxy, Reload,
        "Maximum number of requests of one connection at once; more are refused, and may be sent again"),
    row!(HTTP2, "http2-window", Size(64 * KIB..=64 * MIB, |c, v| c.proxy.http2.window = v as u32), [], "256KiB", Proxy, Reload,
        "Maximum content of one request that may wait here before it has gone on; of one connection, four times as much, or 64KiB \
         while memory is short"),
    row!(HTTP2, "http2-resets-max", Count(0..=1_000_000, |c, v| c.proxy.http2.resets = v as u32), [], "200", Proxy, Reload,
        "Maximum number of requests of one connection in a minute that the client cancels, or that are cancelled for what it sends; more \
         end the connection, as with the next ones"),
    row!(HTTP2, "http2-pings-max", Count(0..=1_000_000, |c, v| c.proxy.http2.pings = v as u32), [], "60", Proxy, Reload,
        "Maximum number of PING frames in a minute, beside one for each 4KiB that went to the client"),
    row!(HTTP2, "http2-settings-max", Count(1..=1_000_000, |c, v| c.proxy.http2.settings = v as u32), [], "60", Proxy, Reload,
        "Maximum number of SETTINGS frames in a minute"),
    row!(HTTP2, "http2-priorities-max", Count(0..=1_000_000, |c, v| c.proxy.http2.priorities = v as u32), [], "120", Proxy, Reload,
        "Maximum number of frames that change priorities, or are of unknown types, in a minute, beside two for each request"),
    row!(HTTP2, "http2-continuations-max", Count(0..=1_000_000, |c, v| c.proxy.http2.continuations = v as u32), [], "120", Proxy, Reload,
        "Maximum number of CONTINUATION frames in a minute, in which heads that are too long for one frame go on"),
    row!(HTTP2, "http2-empty-frames-max", Count(0..=1_000_000, |c, v| c.proxy.http2.empty = v as u32), [], "10", Proxy, Reload,
        "Maximum number of frames in a minute that bring nothing and end nothing"),

    row!(ORIGIN, "origin", Other("URL", |c, v| {
            c.proxy.origin = Some(v.parse()?);
            Ok(())
        }), [Is("none", |c| c.proxy.origin = None)], "none", Proxy, Start,
        "Run as a reverse proxy for this origin server, such as http://127.0.0.1:8080, https://origin.example.com or http://unix:/run/app.sock; none: \
         run as a forward proxy"),
    row!(ORIGIN, "origin-host", Other("HOST", |c, v| {
            c.proxy.origin_host = v.parse()?;
            Ok(())
        }), [
            Is("client", |c| c.proxy.origin_host = OriginHost::Client),
            Is("origin", |c| c.proxy.origin_host = OriginHost::Origin)
        ], "client", Proxy, Start,
        "Host header sent to the origin, which is part of the cache key: client (as the client sent it), origin (as in \
         --origin), or a name such as www.example.com"),
    row!(ORIGIN, "origin-ca", Other("FILE", |c, v| {
            c.proxy.origin_tls.roots = Some(Roots::load(v.as_ref())?);
            Ok(())
        }), [Is("system", |c| c.proxy.origin_tls.roots = None)], "system", Proxy, Reload,
        "File of PEM with the issuers that are believed of origins asked by https; system: those that this system believes"),
    row!(ORIGIN, "origin-tls-name", Other("NAME", |c, v| {
            c.proxy.origin_tls.name = Some(values::server_name(v)?);
            Ok(())
        }), [Is("auto", |c| c.proxy.origin_tls.name = None)], "auto", Proxy, Reload,
        "Name that is asked for in TLS handshakes with --origin (SNI), and that its certificate has to be for; auto: the host in --origin"),
    row!(ORIGIN, "origin-tls-version-min", Choice, [
            Is("1.2", |c| c.proxy.origin_tls.least = LeastVersion::Tls12),
            Is("1.3", |c| c.proxy.origin_tls.least = LeastVersion::Tls13)
        ], "1.2", Proxy, Reload,
        "Oldest version of TLS that origins may speak"),
    row!(ORIGIN, "origin-certificate", Other("FILE", |c, v| {
            let files = KeyFiles::of(v);
            files.load()?;
            c.proxy.origin_tls.own = Some(files);
            Ok(())
        }), [Is("none", |c| c.proxy.origin_tls.own = None)], "none", Proxy, Reload,
        "Certificate with its key, as in tls-certificate, for origins that want one of their clients"),
    row!(ORIGIN, "origin-http2", Choice, [
            Is("auto", |c| c.proxy.origin_http2 = OriginHttp2::Auto),
            Is("prior-knowledge", |c| c.proxy.origin_http2 = OriginHttp2::PriorKnowledge),
            Is("off", |c| c.proxy.origin_http2 = OriginHttp2::Off)
        ], "auto", Proxy, Reload,
        "Ask origins by HTTP/2; auto: over TLS, where they agree on it (ALPN); prior-knowledge: also without TLS, such as gRPC servers, \
         which all have to speak it then; off: by HTTP/1.1 alone"),
    row!(ORIGIN, "forwarded", Choice, [
            Is("auto", |c| c.proxy.forwarded = Told::Auto),
            Is("on", |c| c.proxy.forwarded = Told::On),
            Is("off", |c| c.proxy.forwarded = Told::Off)
        ], "auto", Proxy, Reload,
        "Tell origins the client's address in Forwarded and X-Forwarded-For; auto: a reverse proxy does, a forward \
         proxy does not"),
    row!(ORIGIN, "request-id", Choice, [
            Is("auto", |c| c.proxy.request_id = Told::Auto),
            Is("on", |c| c.proxy.request_id = Told::On),
            Is("off", |c| c.proxy.request_id = Told::Off)
        ], "auto", Proxy, Reload,
        "Tell origins the request's id in X-Request-ID, which the logs and error pages have too: that of a proxy in --trust, or one of \
         32 hexadecimal digits; auto: a reverse proxy does, a forward proxy does not"),
    row!(ORIGIN, "trust", Peers(|c, v, unix| (c.proxy.trust, c.proxy.trust_unix) = (v, unix)),
        [Is("none", |c| (c.proxy.trust, c.proxy.trust_unix) = (Vec::new(), false))], "none", Proxy, Reload,
        "Networks of proxies in front of this one, such as 10.0.0.5, whose Forwarded and X-Forwarded-* headers are \
         passed on, and whose X-Request-ID is taken over; unix: those that come over a Unix socket. From all other clients these headers are removed"),

    row!(CACHE, "cache", Caches(|c, v| c.caches = v),
        [Is("off", |c| c.caches = Vec::new())], DEFAULT_CACHE, Store, Start,
        "Cache file (created if it does not exist, with all its space reserved) or block device; repeated, up to 64 disks that \
         share what is stored by weight, or else by size, and of which any may fail; off: cache in memory only"),
    row!(CACHE, "cache-size", Size(2 * MIB..=u64::MAX, |c, v| c.store.size = Some(v)),
        [Is("auto", |c| c.store.size = None)], "auto", Store, Start,
        "Maximum size of each cache on disk that does not say its own, to which an existing one grows or shrinks at a start; auto: \
         the size that an existing cache has, 1GiB for a new one"),
    row!(CACHE, "memory", Size(0..=1 << 50, |c, v| c.proxy.bounds.memory_bytes = v),
        [Divided(|c| c.auto.memory = true, |c| c.proxy.bounds.memory_bytes)], "auto", Proxy, Start,
        "Maximum size of the cache in memory, in front of the disk; auto: what the others leave of memory-total"),
    row!(CACHE, "object-size-max", Size(ANY, |c, v| {
            c.proxy.bounds.object_bytes = v;
            c.store.object_max = Some(v);
        }), [Is("auto", |c| {
            c.proxy.bounds.object_bytes = u64::MAX;
            c.store.object_max = None;
        })], "auto", Store, Start,
        "Maximum size of a response body that is cached; auto: a quarter of the cache on disk"),
    row!(CACHE, "memory-object-max", Size(ANY, |c, v| c.proxy.bounds.memory_object_bytes = v), [], "1MiB", Proxy, Start,
        "Maximum size of a response body that is cached in memory; at most a 64th of memory and, with a cache on \
         disk, one piece of a body there (about 255 KiB with packets of 1 MiB to 4 MiB), whatever is set here"),
    row!(CACHE, "set-cookie", Choice, [
            Is("never", |c| c.proxy.set_cookie = SetCookie::Never),
            Is("fresh", |c| c.proxy.set_cookie = SetCookie::Fresh)
        ], "never", Proxy, Start,
        "Whether responses with Set-Cookie are cached and shared: never, or fresh (if the origin says how long they are \
         fresh, as RFC 9111 allows; unsafe where session cookies are set on pages with max-age)"),
    row!(CACHE, "offline", Choice, [
            Is("off", |c| c.proxy.offline = Offline::Off),
            Is("auto", |c| c.proxy.offline = Offline::Auto),
            Is("on", |c| c.proxy.offline = Offline::On)
        ], "off", Proxy, Reload,
        "Answer with stale responses without asking the origins, beyond the limit of stale-if-error: auto (while none that was asked of \
         late could be reached; one is tried now and then), or on (nothing is fetched, and what is not stored gets 504). Never with what \
         no-cache, must-revalidate, proxy-revalidate or s-maxage forbids"),
    row!(CACHE, "query-max", Size(0..=32 * KIB, |c, v| c.proxy.bounds.query_bytes = v as usize),
        [], "16KiB", Proxy, Reload,
        "Maximum size of the content of a QUERY request whose response is cached: it is part of the cache key"),
    row!(CACHE, "finish-max", Size(ANY, |c, v| c.proxy.bounds.finish_bytes = v), [], "1MiB", Proxy, Reload,
        "Maximum size of the rest of a response that is still fetched for the cache after the last client has disconnected"),

    row!(ACCESS, "allow", Networks(|c, v| c.proxy.clients = v), [
            Is("private", |c| c.proxy.clients = Network::private()),
            Is("all", |c| c.proxy.clients = Network::all())
        ], "private", Proxy, Reload,
        "Networks of the clients that are served, such as 10.0.0.0/8; private: loopback, private and link-local \
         networks; all: everybody"),
    row!(ACCESS, "connect-ports", Ports(|c, v| c.proxy.connect_ports = v),
        [Is("none", |c| c.proxy.connect_ports.clear())], "443", Proxy, Reload,
        "Ports that clients may reach with CONNECT"),
    row!(ACCESS, "purge-from", Networks(|c, v| c.proxy.purge_from = v), [
            Is("none", |c| c.proxy.purge_from = Vec::new())
        ], "none", Proxy, Reload,
        "Networks of clients that may remove what is stored of a URL by a request with the method PURGE; none: PURGE goes to origins \
         as other methods do"),
    row!(ACCESS, "reach", Networks(|c, v| c.proxy.reach = v),
        [Is("none", |c| c.proxy.reach.clear())], "none", Proxy, Reload,
        "Networks that all clients may reach through this proxy, such as 10.1.0.0/16. Others that are not public are \
         restricted: this host's addresses to clients on it, private networks to clients in private networks; nobody \
         reaches link-local and cloud metadata addresses"),

    row!(LOG, "access-log", Other("FILE", |c, v| {
            c.access_log.to = Some(match v {
                "-" => To::Stdout,
                "syslog" => To::Syslog,
                "journald" => To::Journald,
                path => To::File(path.into()),
            });
            Ok(())
        }), [Is("off", |c| c.access_log.to = None)], "off", Proxy, Start,
        "Log each request, when its response has ended: to a file, which SIGUSR1 opens anew, to standard output (-), or to syslog or \
         journald; off: nowhere"),
    row!(LOG, "access-log-format", Other("FORMAT", |c, v| {
            c.access_log.format = v.parse()?;
            Ok(())
        }), [], "combined", Proxy, Start,
        "Format of a line: combined (as nginx and Apache write it), squid (Squid's native format), json, or a text with fields such as \
         '$client $status $outcome $duration $url' (docs/access-log.md lists them)"),
    row!(LOG, "access-log-mask", Other("WHAT,…", |c, v| {
            c.access_log.mask = v.parse()?;
            Ok(())
        }), [Is("none", |c| c.access_log.mask = Mask::default())], "none", Proxy, Start,
        "What is not written in full: clients (the last byte of their IPv4 addresses, the last ten of IPv6 addresses), queries (of URLs)"),
    row!(LOG, "access-log-sample", Count(1..=1_000_000_000, |c, v| c.access_log.one_in = v), [], "1", Proxy, Start,
        "Log one request in so many"),
    row!(LOG, "access-log-rotate-size", Size(64 * KIB..=u64::MAX, |c, v| c.access_log.rotation.size = Some(v)),
        [Is("off", |c| c.access_log.rotation.size = None)], "off", Proxy, Start,
        "Rename the file to FILE.1, that one to FILE.2, and so on, before it grows larger than this"),
    row!(LOG, "access-log-rotate-age", Time(Duration::from_secs(60)..=YEAR, |c, v| c.access_log.rotation.age = Some(v)),
        [Is("off", |c| c.access_log.rotation.age = None)], "off", Proxy, Start,
        "The same when it was written to for this long"),
    row!(LOG, "access-log-keep", Count(0..=1000, |c, v| c.access_log.rotation.keep = v), [], "10", Proxy, Start,
        "Number of renamed files that are kept"),

    row!(ERRORS, "error-log", Other("FILE", |c, v| {
            c.error_log.to = match v {
                "syslog" => To::Syslog,
                "journald" => To::Journald,
                "-" | "stdout" => return Err("standard output is for the access log: name stderr or a file".into()),
                path => To::File(path.into()),
            };
            Ok(())
        }), [Is("stderr", |c| c.error_log.to = To::Stderr)], "stderr", Proxy, Start,
        "Where to log what goes wrong while the proxy runs: to standard error, a file, which SIGUSR1 opens anew, syslog or journald"),
    row!(ERRORS, "error-log-format", Choice, [
            Is("text", |c| c.error_log.style = Style::Text),
            Is("json", |c| c.error_log.style = Style::Json)
        ], "text", Proxy, Start,
        "Format of a line"),
    row!(ERRORS, "error-log-level", Other("LEVEL|AREA=LEVEL,…", |c, v| {
            c.error_log.levels = v.parse::<Levels>()?;
            Ok(())
        }), [], "info", Proxy, Reload,
        "What is logged: off, error, warn, info or debug, for all areas or for one, such as warn,origin=debug; of warnings and errors \
         of one kind a line a second"),
    row!(ERRORS, "error-pages", Other("FOLDER", |c, v| {
            c.proxy.pages = Arc::new(Pages::read(v.as_ref())?);
            Ok(())
        }), [Is("none", |c| c.proxy.pages = Arc::default())], "none", Proxy, Reload,
        "Pages to answer with where the proxy itself refuses a request: 502.html for one status, 5xx.html, 4xx.html, error.html for all, and \
         the same with .txt for clients that do not ask for HTML; $status, $reason, $message and $id stand for what they say"),

    row!(LIMITS, "memory-total", Size(MIB..=1 << 50, |c, v| c.memory_total = v),
        [Divided(|c| c.auto.total = true, |c| c.memory_total)], "auto", Proxy, Start,
        "Maximum memory of the process: index, buffers, the cache in memory, bodies on their way and connections (--check \
         shows the parts); what the kernel has for sockets is not part of it. auto: half of the memory of this machine or \
         container, or more where other settings need it"),
    row!(LIMITS, "connections-max", Count(1..=10_000_000, |c, v| c.proxy.bounds.connections = v as usize),
        [Divided(|c| c.auto.connections = true, |c| c.proxy.bounds.connections as u64)], "auto", Proxy, Start,
        "Maximum number of client connections; beyond it idle ones are closed, then new ones wait. auto: as many as the \
         limit of open files (9 for 4 connections) and a quarter of what is spare of memory-total (40KiB each; 36KiB more with http2, 32KiB with tls:) allow"),
    row!(LIMITS, "tls-handshakes-max", Count(1..=1_000_000, |c, v| c.proxy.bounds.handshakes = v as usize),
        [], "1000", Proxy, Start,
        "Maximum number of TLS handshakes at once; beyond it those that have taken longest are ended for new ones"),
    row!(LIMITS, "origin-idle-max", Count(0..=100_000, |c, v| c.proxy.bounds.idle_per_origin = v as usize),
        [], "4096", Proxy, Reload,
        "Maximum number of idle connections that a worker keeps to one origin, and of all of HTTP/2 that it makes to one, which \
         is at least 1; idle ones to all origins together, of either protocol, a quarter of connections-max"),
    row!(LIMITS, "head-max", Size(8 * KIB..=16 * MIB, |c, v| c.proxy.bounds.head_bytes = v as usize),
        [], "64KiB", Proxy, Reload,
        "Maximum size of the header section of a request (else 431) or response (else 502)"),
    row!(LIMITS, "head-fields-max", Count(16..=10_000, |c, v| c.proxy.bounds.head_fields = v as usize),
        [], "100", Proxy, Reload,
        "Maximum number of header fields of a request (else 431)"),
    row!(LIMITS, "window", Size(64 * KIB..=GIB, |c, v| c.proxy.bounds.window_bytes = v as usize), [], "1MiB", Proxy, Start,
        "Maximum buffer in memory for each response body on its way from the origin to clients; less while memory is short"),

    row!(TIMEOUTS, "client-handshake-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.client_handshake = v),
        [], "10s", Proxy, Reload,
        "Maximum time from a client's connection to the end of its TLS handshake"),
    row!(TIMEOUTS, "client-header-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.client_header = v),
        [], "30s", Proxy, Reload,
        "Maximum time to receive the header section of a request, from its first byte to its last"),
    row!(TIMEOUTS, "client-idle-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.client_idle = v),
        [], "60s", Proxy, Reload,
        "Keep-alive timeout of client connections between requests"),
    row!(TIMEOUTS, "client-stall-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.client_stall = v),
        [], "60s", Proxy, Reload,
        "Maximum time in which a client neither receives any of the response nor sends any of the request"),
    row!(TIMEOUTS, "client-crowded-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.client_crowded = v),
        [], "5s", Proxy, Reload,
        "The same where other requests wait for the memory that bodies take (--memory-total); a client that moves less than 4 KiB in this \
         time is ended then, so that it does not keep others waiting"),
    row!(TIMEOUTS, "dns-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.dns = v), [], "10s", Proxy, Reload,
        "Maximum time to look up a host name"),
    row!(TIMEOUTS, "connect-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.origin_connect = v),
        [], "10s", Proxy, Reload,
        "Maximum time to connect to one address of an origin"),
    row!(TIMEOUTS, "origin-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.origin_first_byte = v),
        [], "60s", Proxy, Reload,
        "Maximum time to wait for the header section of an origin's response, from the end of the request"),
    row!(TIMEOUTS, "origin-stall-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.origin_stall = v),
        [], "60s", Proxy, Reload,
        "Maximum time in which an origin neither sends any of the response nor receives any of the request"),
    row!(TIMEOUTS, "origin-idle-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.origin_idle = v),
        [], "30s", Proxy, Reload,
        "Keep-alive timeout of idle connections to origins"),
    row!(TIMEOUTS, "expect-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.expect = v), [], "1s", Proxy, Reload,
        "Maximum time to wait for an origin's 100 Continue; after it, the request body is sent anyway"),
    row!(TIMEOUTS, "tunnel-idle-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.tunnel_idle = v),
        [], "10min", Proxy, Reload,
        "Maximum time in which no data passes through a tunnel (CONNECT or Upgrade)"),
    row!(TIMEOUTS, "drain-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.drain = v), [], "30s", Proxy, Reload,
        "Maximum time to finish running requests after SIGTERM"),
    row!(TIMEOUTS, "tunnel-drain-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.tunnel_drain = v), [], "5s", Proxy, Reload,
        "The same for tunnels (CONNECT or Upgrade); idle ones get at most one second of it"),
    row!(TIMEOUTS, "graceful-timeout", Time(TIMEOUT, |c, v| c.proxy.timeouts.graceful = v), [], "1h", Proxy, Reload,
        "Maximum time to finish running requests and tunnels after SIGQUIT, and in the old process after an upgrade (SIGUSR2)"),

    row!(TUNING, "packet", PowerOfTwo(64 * KIB..=16 * MIB, |c, v| c.store.packet = v as u32), [], "1MiB", Store, Start,
        "Size of a write to the cache on disk, a power of two; an existing cache keeps its own"),
    row!(TUNING, "flush-interval", Time(INTERVAL, |c, v| c.store.flush_interval = v), [], "1s", Store, Start,
        "Maximum time that new objects wait in memory for a full packet; a crash loses what waits"),
    row!(TUNING, "disk-patience", Time(INTERVAL, |c, v| c.store.patience = v), [], "200ms", Store, Start,
        "When a disk read takes longer than this, fetch from the origins until the disk answers again; the read itself is \
         given up after four times this, or, if the origin cannot continue the body, after origin-stall-timeout"),
    row!(TUNING, "scrub", Time(MINUTE..=YEAR, |c, v| c.store.scrub = Some(v)),
        [Is("off", |c| c.store.scrub = None)], "30d", Store, Start,
        "Read everything that the cache on disk has once in this time, and verify it, so that what the disk has spoilt is fetched again; \
         in off-peak hours, and only while no client waits for the disk. stats tell how far it is (store.scrub-…)"),
    row!(TUNING, "off-peak", Other("HH:MM-HH:MM,…", |c, v| {
            c.proxy.off_peak = OffPeak::Hours(values::list(v, str::parse)?);
            Ok(())
        }), [Is("auto", |c| c.proxy.off_peak = OffPeak::Auto), Is("any", |c| c.proxy.off_peak = OffPeak::Any)],
        "auto", Proxy, Reload,
        "When the disk has time for what nobody waits for: hours of the day in local time, such as 01:00-06:00; auto: the quietest quarter \
         of the day, as learned from the requests of the days before, and any time until that is known; any: always"),
    row!(TUNING, "shadow", Other("POLICY,…", |c, v| {
            let names: Vec<String> = values::list(v, |name| Ok(name.to_owned()))?;
            c.proxy.shadow = policy::shadow::named(&names)?;
            Ok(())
        }), [Is("off", |c| c.proxy.shadow = Vec::new())], "off", Proxy, Start,
        "Say what hit ratio these replacement policies would have, such as lru,s3-fifo, with an eighth of this cache's size to eight times as much: \
         simulated from samples of the requests as they come, in 16 MiB of memory. stats.json has the curves (shadow); `cosm lab simulate \
         --help` lists policies; all: each that a cache could have"),
    row!(TUNING, "io", Choice, [
            Is("auto", |c| c.store.io = IoChoice::Auto),
            Is("uring", |c| c.store.io = IoChoice::Uring),
            Is("threads", |c| c.store.io = IoChoice::Threads)
        ], "auto", Store, Start,
        "How the disk is read; auto: with io_uring if the kernel allows it, else with threads"),
    row!(TUNING, "admission", Choice, [
            Is("worth", |c| c.store.admission = Admission::Worth),
            Is("all", |c| c.store.admission = Admission::All)
        ], "worth", Store, Start,
        "What is stored when the disk is full; worth: what can be expected to bring more hits than what it displaces, judged by size \
         and past use, and used objects are written again as they grow old; all: everything"),
    row!(TUNING, "write-budget", Other("SIZE/TIME", |c, v| {
            let (bytes, period) = values::rate(v)?;
            if bytes < MIB {
                return Err(format!("`{v}` is too small: at least 1MiB"));
            }
            c.store.write_budget = Some(WriteBudget { bytes, period });
            Ok(())
        }), [Is("none", |c| c.store.write_budget = None)], "none", Store, Start,
        "Bytes that each disk is given to write in an hour, day or week, such as 200GiB/day, so that flash lasts: a drive of 1TB that may be written 0.3 \
         times a day bears 280GiB/day. The less is left, the more hits an object must promise to be stored; a burst of a quarter of it may come at once"),
    row!(TUNING, "group-read", PowerOfTwo(8 * KIB..=MIB, |c, v| c.store.group = v as u32),
        [Is("off", |c| c.store.group = 0)], "32KiB", Store, Start,
        "Read this many bytes with a small object, most of them behind it, a power of two, and keep them for the next requests in a 32nd of memory, as long as that saves enough other reads; what comes from one origin lies together"),
    row!(TUNING, "cmax", Count(0..=3, |c, v| c.store.cmax = v as u8), [], "0", Store, Start,
        "When the disk is full and an object's turn to leave comes, write it again if it was requested at least this often since it \
         was written (Cmax of frequency-based cyclic replacement); 0: never"),
];
