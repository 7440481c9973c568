//! The one table of every setting. The command line, its help, the configuration file and validation derive from it.
//!
//! Precedence: the command line, then the file that `--config` names, then the default here. All take effect at start.

use crate::values::{count, duration, list, say_size, size_within};
use crate::{machine, values};
use proxy::Settings as Proxy;
use std::path::PathBuf;
use store::{IoChoice, Options as Store};

/// What `serve` runs with.
pub struct Config {
    pub proxy: Proxy,
    /// `None`: nothing is cached on disk.
    pub store: Option<Store>,
}

/// One setting: `--name VALUE`, or a line `name VALUE` in the configuration file.
pub struct Setting {
    pub group: &'static str,
    pub name: &'static str,
    pub value: &'static str,
    /// As a user would write it; what it means beyond that is said by `help`.
    pub default: &'static str,
    pub help: &'static str,
    apply: fn(&mut Config, &str) -> Result<(), String>,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

macro_rules! setting {
    ($group:expr, $name:expr, $value:expr, $default:expr, $help:expr, $apply:expr) => {
        Setting { group: $group, name: $name, value: $value, default: $default, help: $help, apply: $apply }
    };
}

const SERVICE: &str = "Service";
const CACHE: &str = "Cache";
const ACCESS: &str = "Access";
const BOUNDS: &str = "Bounds";
const TIMEOUTS: &str = "Timeouts";

pub const TABLE: &[Setting] = &[
    setting!(
        SERVICE,
        "listen",
        "ADDRESS,…",
        "127.0.0.1:3128",
        "Where clients connect; port 0 takes a free one",
        |c, v| {
            c.proxy.listen = list(v)?;
            if c.proxy.listen.is_empty() {
                Err("an address is needed, like 127.0.0.1:3128".into())
            } else {
                Ok(())
            }
        }
    ),
    setting!(
        SERVICE,
        "admin",
        "ADDRESS",
        "off",
        "Where the operator purges and looks, like 127.0.0.1:3129: whoever reaches it may do so",
        |c, v| {
            let wrong = |_| format!("`{v}` is not an address, like 127.0.0.1:3129, or off");
            c.proxy.admin = if v == "off" { None } else { Some(v.parse().map_err(wrong)?) };
            Ok(())
        }
    ),
    setting!(
        SERVICE,
        "origin",
        "URL",
        "",
        "Serve this origin as a reverse proxy, like http://127.0.0.1:8080 \
        [default: none, a forward proxy]",
        |c, v| {
            c.proxy.origin = if v.is_empty() { None } else { Some(v.parse()?) };
            Ok(())
        }
    ),
    setting!(
        SERVICE,
        "origin-host",
        "HOST",
        "client",
        "The Host that the origin gets, and by which what is stored is told apart: client (the client's own), origin (the \
        origin's), or a name, like www.example.com",
        |c, v| {
            c.proxy.origin_host = v.parse()?;
            Ok(())
        }
    ),
    setting!(
        SERVICE,
        "forwarded",
        "WHEN",
        "auto",
        "Tell origins a client's address, in Forwarded and X-Forwarded-For: on, off, or auto (a reverse proxy does, a \
        forward proxy does not)",
        |c, v| {
            c.proxy.forwarded = v.parse()?;
            Ok(())
        }
    ),
    setting!(
        SERVICE,
        "workers",
        "N",
        "auto",
        "Threads that serve, each with its own listener; auto: one per core",
        |c, v| {
            c.proxy.workers = if v == "auto" { machine::cores() } else { count(v, 1, 1024)? as usize };
            Ok(())
        }
    ),
    setting!(
        SERVICE,
        "pseudonym",
        "NAME",
        "cosm",
        "The name of this proxy in Via, by which it also finds loops",
        |c, v| {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if v.is_empty() || !v.bytes().all(token) {
                return Err(format!("`{v}` is not a name: letters, digits and -._ without blanks"));
            }
            c.proxy.pseudonym = v.into();
            Ok(())
        }
    ),
    setting!(
        CACHE,
        "cache",
        "PATH",
        "cache.cosm",
        "The cache: a file (made when absent, all its space reserved) or a \
        block device; `off` caches in memory only",
        |c, v| {
            let path = PathBuf::from(v);
            c.store = match (v, c.store.take()) {
                ("off", _) => None,
                (_, Some(store)) => Some(Store { path, ..store }),
                (_, None) => Some(Store::at(path)),
            };
            Ok(())
        }
    ),
    setting!(
        CACHE,
        "cache-size",
        "SIZE",
        "",
        "Bytes of the cache, which it never passes [default: what an existing \
        cache has; 1GiB for a new one]",
        |c, v| {
            let size = if v.is_empty() { None } else { Some(size_within(v, 2 * MIB, u64::MAX)?) };
            store(c, |s| s.size = size)
        }
    ),
    setting!(
        CACHE,
        "memory",
        "SIZE",
        "auto",
        "Bytes of the memory tier above the disk; auto: a quarter of what the \
        machine or its container allows",
        |c, v| {
            c.proxy.bounds.memory_bytes = if v == "auto" { machine::memory() / 4 } else { values::size(v)? };
            Ok(())
        }
    ),
    setting!(
        CACHE,
        "memory-object-max",
        "SIZE",
        "1MiB",
        "Larger bodies stay out of the memory tier",
        |c, v| {
            c.proxy.bounds.memory_object_bytes = values::size(v)?;
            Ok(())
        }
    ),
    setting!(
        CACHE,
        "object-size-max",
        "SIZE",
        "auto",
        "Larger bodies are not cached (the threshold of LRU-TH); auto: \
        a sixteenth of the cache",
        |c, v| {
            let most = if v == "auto" { None } else { Some(values::size(v)?) };
            c.proxy.bounds.object_bytes = most.unwrap_or(u64::MAX);
            store(c, |s| s.object_max = most)
        }
    ),
    setting!(
        CACHE,
        "packet",
        "SIZE",
        "1MiB",
        "Bytes written at once, a power of two; an existing cache keeps its own",
        |c, v| {
            let packet = size_within(v, 64 << 10, 16 * MIB)?;
            if !packet.is_power_of_two() {
                return Err(format!("{} is not a power of two", say_size(packet)));
            }
            store(c, |s| s.packet = packet as u32)
        }
    ),
    setting!(
        CACHE,
        "cmax",
        "N",
        "3",
        "Objects referenced fewer times go when the sweep meets them",
        |c, v| {
            let cmax = count(v, 1, 255)? as u8;
            store(c, |s| s.cmax = cmax)
        }
    ),
    setting!(
        CACHE,
        "amax",
        "N",
        "100",
        "Reference counts are halved when their average passes this",
        |c, v| {
            let amax = count(v, 1, 255)? as u8;
            store(c, |s| s.amax = amax)
        }
    ),
    setting!(
        CACHE,
        "flush-interval",
        "TIME",
        "1s",
        "A packet that is not full is written after this long: what a \
        crash may cost",
        |c, v| {
            let interval = duration(v)?;
            store(c, |s| s.flush_interval = interval)
        }
    ),
    setting!(
        CACHE,
        "io",
        "WAY",
        "auto",
        "How the disk is read: uring, threads, or auto (io_uring when the kernel allows it)",
        |c, v| {
            let io = match v {
                "auto" => IoChoice::Auto,
                "uring" => IoChoice::Uring,
                "threads" => IoChoice::Threads,
                _ => return Err(format!("`{v}` is not one of auto, uring, threads")),
            };
            store(c, |s| s.io = io)
        }
    ),
    setting!(
        CACHE,
        "disk-patience",
        "TIME",
        "200ms",
        "When the disk has kept a read waiting for this long, stored objects are fetched from their origins",
        |c, v| {
            let patience = duration(v)?;
            store(c, |s| s.patience = patience)
        }
    ),
    setting!(
        ACCESS,
        "allow",
        "NETWORK,…",
        "private",
        "Networks whose clients are served, like 10.0.0.0/8; private: \
        loopback, private and link-local ones; all: everybody",
        |c, v| {
            c.proxy.clients = match v {
                "private" => proxy::Network::private(),
                "all" => list("0.0.0.0/0,::/0")?,
                _ => list(v)?,
            };
            Ok(())
        }
    ),
    setting!(ACCESS, "connect-ports", "PORT,…", "443", "Ports that CONNECT may reach", |c, v| {
        c.proxy.connect_ports = list(v)?;
        Ok(())
    }),
    setting!(
        ACCESS,
        "reach",
        "NETWORK,…",
        "",
        "Networks that all clients may reach, like 10.1.0.0/16 or 127.0.0.1 [default: none: this host's own addresses are for \
        clients on it, private networks for clients in private networks, link-local and cloud metadata addresses for nobody]",
        |c, v| {
            c.proxy.reach = list(v)?;
            Ok(())
        }
    ),
    setting!(
        ACCESS,
        "trust",
        "NETWORK,…",
        "",
        "Networks of proxies before this one, like 10.0.0.5, whose X-Forwarded-For and the like go on to origins \
        [default: none: what clients say of that is removed]",
        |c, v| {
            c.proxy.trust = list(v)?;
            Ok(())
        }
    ),
    setting!(
        ACCESS,
        "set-cookie",
        "WHEN",
        "never",
        "Responses with Set-Cookie that are shared: never any, or fresh (what the origin says how long is fresh, as RFC 9111 \
        has it; only where no page with max-age sets somebody's session)",
        |c, v| {
            c.proxy.set_cookie = match v {
                "never" => proxy::SetCookie::Never,
                "fresh" => proxy::SetCookie::Fresh,
                _ => return Err(format!("`{v}` is none of never, fresh")),
            };
            Ok(())
        }
    ),
    setting!(BOUNDS, "head-max", "SIZE", "64KiB", "Bytes of a message's head; more is refused", |c, v| {
        c.proxy.bounds.head_bytes = size_within(v, 8 << 10, 16 * MIB)? as usize;
        Ok(())
    }),
    setting!(
        BOUNDS,
        "head-fields-max",
        "N",
        "100",
        "Fields of a message's head; more are refused",
        |c, v| {
            c.proxy.bounds.head_fields = count(v, 16, 10_000)? as usize;
            Ok(())
        }
    ),
    setting!(
        BOUNDS,
        "connections-max",
        "N",
        "auto",
        "Client connections; at this number idle ones make way, then new ones wait; auto: as many as open files allow (nine for four) and a quarter of the \
        memory (40 KiB each)",
        |c, v| {
            let number = if v == "auto" { machine::connections() } else { count(v, 1, 10_000_000)? };
            c.proxy.bounds.connections = number as usize;
            Ok(())
        }
    ),
    setting!(
        BOUNDS,
        "origin-idle-max",
        "N",
        "4096",
        "Idle connections kept for one origin by one worker; in all a quarter of connections-max",
        |c, v| {
            c.proxy.bounds.idle_per_origin = count(v, 0, 100_000)? as usize;
            Ok(())
        }
    ),
    setting!(
        BOUNDS,
        "window",
        "SIZE",
        "1MiB",
        "Bytes of a body in transit that are kept in memory for its readers",
        |c, v| {
            c.proxy.bounds.window_bytes = size_within(v, 64 << 10, GIB)? as usize;
            Ok(())
        }
    ),
    setting!(
        BOUNDS,
        "query-max",
        "SIZE",
        "16KiB",
        "Content of a QUERY whose answer is cached: it is part of the key",
        |c, v| {
            c.proxy.bounds.query_bytes = size_within(v, 0, 32 << 10)? as usize;
            Ok(())
        }
    ),
    setting!(
        BOUNDS,
        "finish-max",
        "SIZE",
        "1MiB",
        "A body is fetched to its end for the cache when its last client \
        left and no more than this is missing",
        |c, v| {
            c.proxy.bounds.finish_bytes = values::size(v)?;
            Ok(())
        }
    ),
    setting!(
        TIMEOUTS,
        "client-header-timeout",
        "TIME",
        "30s",
        "From the first byte of a request's head to its last",
        |c, v| { time(v, &mut c.proxy.timeouts.client_header) }
    ),
    setting!(
        TIMEOUTS,
        "client-idle-timeout",
        "TIME",
        "60s",
        "A client connection without a request",
        |c, v| { time(v, &mut c.proxy.timeouts.client_idle) }
    ),
    setting!(
        TIMEOUTS,
        "client-stall-timeout",
        "TIME",
        "60s",
        "A client that takes or sends nothing",
        |c, v| { time(v, &mut c.proxy.timeouts.client_stall) }
    ),
    setting!(TIMEOUTS, "dns-timeout", "TIME", "10s", "Looking up a name", |c, v| time(
        v,
        &mut c.proxy.timeouts.dns
    )),
    setting!(TIMEOUTS, "connect-timeout", "TIME", "10s", "Connecting to one address of an origin", |c, v| {
        time(v, &mut c.proxy.timeouts.origin_connect)
    }),
    setting!(
        TIMEOUTS,
        "origin-timeout",
        "TIME",
        "60s",
        "From the end of a request to the head of the origin's response",
        |c, v| { time(v, &mut c.proxy.timeouts.origin_first_byte) }
    ),
    setting!(
        TIMEOUTS,
        "origin-stall-timeout",
        "TIME",
        "60s",
        "An origin that takes or sends nothing",
        |c, v| { time(v, &mut c.proxy.timeouts.origin_stall) }
    ),
    setting!(TIMEOUTS, "origin-idle-timeout", "TIME", "30s", "An unused connection to an origin", |c, v| {
        time(v, &mut c.proxy.timeouts.origin_idle)
    }),
    setting!(
        TIMEOUTS,
        "expect-timeout",
        "TIME",
        "1s",
        "An origin that is silent on Expect: 100-continue",
        |c, v| { time(v, &mut c.proxy.timeouts.expect) }
    ),
    setting!(TIMEOUTS, "tunnel-idle-timeout", "TIME", "10min", "A tunnel in which nothing moves", |c, v| {
        time(v, &mut c.proxy.timeouts.tunnel_idle)
    }),
    setting!(
        TIMEOUTS,
        "drain-timeout",
        "TIME",
        "30s",
        "From SIGTERM to the end of running requests; a tunnel in which nothing moves gets a second of it",
        |c, v| { time(v, &mut c.proxy.timeouts.drain) }
    ),
];

impl Setting {
    /// What the store itself is opened with.
    pub fn is_of_the_store(&self) -> bool {
        self.group == CACHE && !self.name.starts_with("memory")
    }
}

impl Config {
    /// Fills a configuration from the table: `given(name)` is what the user wrote, with where it was written.
    pub fn build(given: impl Fn(&str) -> Option<(String, String)>) -> Result<Config, String> {
        let mut config = Config { proxy: Proxy::default(), store: Some(Store::at("cache.cosm")) };
        for setting in TABLE {
            let (place, text) =
                given(setting.name).unwrap_or_else(|| ("the default".into(), setting.default.into()));
            (setting.apply)(&mut config, &text).map_err(|e| format!("{place}: {e}"))?;
        }
        Ok(config)
    }
}

fn store(config: &mut Config, set: impl FnOnce(&mut Store)) -> Result<(), String> {
    config.store.as_mut().map(set);
    Ok(())
}

fn time(text: &str, to: &mut std::time::Duration) -> Result<(), String> {
    *to = duration(text)?;
    if to.is_zero() { Err("a timeout cannot be nought".into()) } else { Ok(()) }
}

/// The settings of a configuration file: `name value` lines; `#` begins a comment. Each with its line number.
pub fn parse_file(text: &str) -> Result<Vec<(&'static str, String, usize)>, String> {
    let mut settings: Vec<(&'static str, String, usize)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let known = TABLE.iter().find(|s| s.name == name).map(|s| s.name);
        let name = known
            .ok_or_else(|| format!("line {number}: no setting is called `{name}`; see cosm serve --help"))?;
        if settings.iter().any(|(n, ..)| *n == name) {
            return Err(format!("line {number}: `{name}` is set twice"));
        }
        settings.push((name, value.trim().to_owned(), number));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Config, String> {
        Config::build(|n| (n == name).then(|| ("--".to_owned() + n, value.to_owned())))
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_parts() {
        let config = Config::build(|_| None).unwrap();
        let (proxy, default) = (config.proxy, Proxy::default());
        assert_eq!(format!("{:?}", proxy.timeouts), format!("{:?}", default.timeouts));
        assert_eq!((proxy.listen, proxy.clients.len()), (default.listen, default.clients.len()));
        assert_eq!((proxy.reach, proxy.trust), (default.reach, default.trust));
        assert_eq!((proxy.forwarded, proxy.origin_host), (default.forwarded, default.origin_host));
        assert_eq!(proxy.set_cookie, default.set_cookie);
        assert_eq!(proxy.bounds.head_bytes, default.bounds.head_bytes);
        let store = config.store.unwrap();
        let expected = Store::at("cache.cosm");
        assert_eq!(format!("{store:?}"), format!("{expected:?}"));
    }

    #[test]
    fn every_setting_says_what_is_wrong_and_where() {
        for setting in TABLE.iter().filter(|s| !matches!(s.name, "cache" | "pseudonym")) {
            let error =
                with(setting.name, "no such thing").err().unwrap_or_else(|| panic!("{}", setting.name));
            assert!(error.starts_with(&format!("--{}: ", setting.name)), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        assert!(with("packet", "96KiB").is_err() && with("cmax", "0").is_err());
        assert!(with("cache", "off").unwrap().store.is_none());
    }

    #[test]
    fn a_file_holds_settings_by_line() {
        let text = "# cosm\nlisten 0.0.0.0:3128 # everywhere\n\n  cache-size   2 GiB\n";
        let settings = parse_file(text).unwrap();
        let expected = [("listen", "0.0.0.0:3128".to_owned(), 2), ("cache-size", "2 GiB".to_owned(), 4)];
        assert_eq!(settings, expected);
        assert!(parse_file("lisen 1").err().unwrap().contains("line 1: no setting is called `lisen`"));
        assert!(parse_file("cmax 1\ncmax 2").err().unwrap().contains("line 2"));
    }
}
