//! Settings of `cosm serve`. One table (`table.rs`) has every one; the command line, its help, files, `--print-config`,
//! `--check` and validation derive from it.
//!
//! Precedence: the command line, then the file that `--config` names (`file.rs`), then the default. All take effect at
//! the start, and those whose row says so when the file is read again (`reload.rs`).

pub mod file;
pub mod show;
mod table;

pub use table::TABLE;

use crate::access_log;
use crate::error_log;
use crate::machine::Machine;
use crate::sink::To;
use crate::values;
use clap::ArgMatches;
use proxy::{Address, Certificates, Listen, Network, Settings as Proxy, Speaks};
use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Options as Store;

/// What `serve` runs with.
#[derive(Clone, Debug)]
pub struct Config {
    pub proxy: Proxy,
    /// Bytes of memory for all of the process (`memory::divide`).
    pub memory_total: u64,
    pub pid_file: Option<PathBuf>,
    /// Where the admin interface's token was read from.
    pub admin_token_file: Option<PathBuf>,
    /// Where the external account with an ACME server was read from.
    pub acme_eab_file: Option<PathBuf>,
    /// What is left to that.
    pub auto: Auto,
    pub access_log: access_log::Settings,
    pub error_log: error_log::Settings,
    /// What all caches on disk have in common.
    store: Store,
    /// The caches on disk; none: in memory only.
    caches: Vec<Cache>,
}

/// One cache on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    pub path: PathBuf,
    /// Bytes; `None`: as `cache-size` says.
    pub size: Option<u64>,
    /// Its share of what is stored, beside the others'.
    pub weight: Option<u64>,
    /// What of the memory is its own.
    pub memory: CacheMemory,
}

/// Parts of the memory that `memory::divide` gives to a cache on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMemory {
    /// The index has room for so many entries.
    pub entries: Option<u64>,
    /// Bytes that group reads keep.
    pub groups: u64,
}

/// Which parts of the memory follow from all of it, and whether that follows from the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto {
    pub total: bool,
    pub memory: bool,
    pub connections: bool,
}

/// One setting: `--NAME VALUE` on the command line, `NAME = "VALUE"` in a TOML file, or a line `NAME VALUE`.
pub struct Setting {
    /// The heading under which help has it.
    pub topic: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    /// What may stand instead of a value.
    pub words: &'static [Word],
    /// As a user would write it.
    pub default: &'static str,
    pub part: Part,
    pub effect: Effect,
    pub help: &'static str,
}

/// What a setting's text means, within which bounds, and where it goes.
pub enum Kind {
    /// Bytes: a number, alone or with KiB, MiB, GiB or TiB.
    Size(RangeInclusive<u64>, fn(&mut Config, u64)),
    /// A size that is a power of two.
    PowerOfTwo(RangeInclusive<u64>, fn(&mut Config, u64)),
    /// A number with ms, s, min, h or d.
    Time(RangeInclusive<Duration>, fn(&mut Config, Duration)),
    Count(RangeInclusive<u64>, fn(&mut Config, u64)),
    /// One address and port, or Unix socket.
    Address(fn(&mut Config, Address)),
    /// At least one of them, each once.
    Addresses(fn(&mut Config, Vec<Listen>)),
    Networks(fn(&mut Config, Vec<Network>)),
    /// Networks, and whether clients over Unix sockets are meant too.
    Peers(fn(&mut Config, Vec<Network>, bool)),
    /// TCP ports, 1 to 65535.
    Ports(fn(&mut Config, Vec<u16>)),
    /// Caches on disk: at least one, each once.
    Caches(fn(&mut Config, Vec<Cache>)),
    /// What else there is, by the name that help gives its value.
    Other(&'static str, fn(&mut Config, &str) -> Result<(), String>),
    /// One of the words.
    Choice,
}

/// Between values that are given each for itself: no value has it.
const SEVERAL: char = '\n';

/// A word instead of a value.
pub enum Word {
    Is(&'static str, fn(&mut Config)),
    /// `auto`: a size or count that follows from the machine.
    Auto(fn(&Machine) -> u64),
    /// `auto`: what `memory::divide` finds.
    Divided(fn(&mut Config), fn(&Config) -> u64),
}

/// Whose setting it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Proxy,
    /// What a cache is opened with, also where no proxy is (`cosm lab fill`).
    Store,
}

/// What a new value needs to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A start: something was opened, or sized, by it.
    Start,
    /// A reload (SIGHUP): it is looked at for each connection or request.
    Reload,
}

/// A setting that was given a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub name: &'static str,
    pub value: String,
    pub source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    /// A file's name, and the line.
    File(String, usize),
    Flag,
}

impl Config {
    /// The configuration of what was given, of which the later goes before the earlier; or what is wrong with it, a
    /// line each.
    pub fn build(given: &[Given], machine: &Machine) -> Result<Config, Vec<String>> {
        let mut config = Config {
            proxy: Proxy::default(),
            memory_total: 0,
            pid_file: None,
            admin_token_file: None,
            acme_eab_file: None,
            auto: Auto::default(),
            access_log: access_log::Settings::default(),
            error_log: error_log::Settings::default(),
            store: Store {
                group_of: cache::key::group,
                tell: |line| tracing::warn!(target: "disk", "{line}"),
                news: |line| tracing::info!(target: "disk", "{line}"),
                ..Store::at(table::DEFAULT_CACHE)
            },
            caches: Vec::new(),
        };
        let (mut wrong, mut wrong_names) = (Vec::new(), Vec::new());
        for setting in TABLE {
            let given = setting.given(given);
            let text = given.map_or(setting.default, |given| &given.value);
            if let Err(why) = setting.apply(&mut config, text, machine) {
                wrong.push(format!("{}: {why}", given.map_or_else(|| setting.name.into(), Given::place)));
                wrong_names.push(setting.name);
            }
        }
        if let Err(why) = config.take_ordered() {
            wrong.push(format!("acme: {why}"));
            wrong_names.push("acme");
        }
        config.proxy.notes_heads = config.access_log.to.is_some();
        config.proxy.hides_queries = config.access_log.mask.queries;
        let admin = config.proxy.admin.as_ref().filter(|admin| !admin.is_any_port());
        if let Some(admin) = admin.filter(|admin| config.proxy.addresses().contains(admin)) {
            let what = if admin.tcp().is_some() { "port" } else { "path" };
            wrong.push(format!("admin and listen are both {admin}: choose another {what} for one of them"));
        }
        wrong.extend(config.shared_file());
        // That there is no certificate follows where one is wrong.
        let is_without = !wrong_names.iter().any(|name| ["tls-certificate", "acme"].contains(name));
        wrong.extend(config.unspeakable(is_without));
        let admin = config.proxy.admin.as_ref().and_then(proxy::Address::tcp);
        if let Some(admin) = admin.filter(|admin| !admin.ip().to_canonical().is_loopback())
            && config.proxy.admin_token.is_none()
        {
            wrong.push(format!("admin: other hosts reach {admin}: say which token they need (admin-token), or listen on loopback"));
        }
        if wrong.is_empty() { Ok(config) } else { Err(wrong) }
    }

    /// Certificates that are ordered stand behind those that are given.
    fn take_ordered(&mut self) -> Result<(), String> {
        let tls = &mut self.proxy.tls;
        if tls.acme.certificates.is_empty() {
            return Ok(());
        }
        tls.acme.check()?;
        if self.proxy.listen.iter().all(|listen| listen.speaks != Speaks::Tls) {
            return Err("nothing listens with TLS: say listen tls:ADDRESS".into());
        }
        let given = tls.certificates.iter().flat_map(|all| all.given().cloned()).collect();
        tls.certificates = Some(Arc::new(Certificates::with_ordered(given, tls.acme.files())?));
        Ok(())
    }

    /// What is wrong with what is to be spoken where it listens.
    fn unspeakable(&self, is_without: bool) -> Option<String> {
        let proxy = &self.proxy;
        let find = |speaks| proxy.listen.iter().find(|listen| listen.speaks == speaks);
        match (find(Speaks::Tls), find(Speaks::Redirect)) {
            (Some(tls), _) if proxy.tls.certificates.is_none() && is_without => {
                Some(format!("listen: {tls} needs a certificate (tls-certificate, or acme)"))
            }
            (_, Some(redirect)) if proxy.origin.is_none() => Some(format!(
                "listen: {redirect} is for a reverse proxy (origin): clients of a forward proxy ask for both schemes"
            )),
            _ if proxy.origin.is_none() && proxy.tls.hsts.is_some() => {
                Some("hsts: it is for a reverse proxy (origin): what a forward proxy answers is of other sites".into())
            }
            _ if proxy.origin.is_none() && proxy.origin_tls.own.is_some() => Some(
                "origin-certificate: it is for a reverse proxy (origin): a forward proxy would show it to any host that asks".into(),
            ),
            _ => None,
        }
    }

    /// What is wrong where a log is written into a cache, or two into one file.
    fn shared_file(&self) -> Option<String> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let log = |name, to: Option<&To>| match to {
            Some(To::File(path)) => Some((name, real(path))),
            _ => None,
        };
        let logs =
            [log("access-log", self.access_log.to.as_ref()), log("error-log", Some(&self.error_log.to))];
        let caches = self.caches.iter().map(|cache| ("cache", real(&cache.path)));
        let mut seen: Vec<(&str, PathBuf)> = Vec::new();
        for (name, path) in caches.chain(logs.into_iter().flatten()) {
            if let Some((other, _)) =
                seen.iter().find(|(other, there)| *there == path && (name, *other) != ("cache", "cache"))
            {
                return Some(format!(
                    "{other} and {name} are both {}: choose another file for one of them",
                    path.display()
                ));
            }
            seen.push((name, path));
        }
        None
    }

    /// How to open the caches on disk.
    pub fn stores(&self) -> Vec<Store> {
        let store = |(n, cache): (usize, &Cache)| Store {
            number: n as u16,
            path: cache.path.clone(),
            size: cache.size.or(self.store.size),
            index_max: cache.memory.entries.or(self.store.index_max),
            group_memory: usize::try_from(cache.memory.groups).unwrap_or(usize::MAX),
            ..self.store.clone()
        };
        self.caches.iter().enumerate().map(store).collect()
    }

    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Gives each cache what of the memory is its own.
    pub fn give_memory(&mut self, of: impl Fn(usize) -> CacheMemory) {
        self.caches.iter_mut().enumerate().for_each(|(n, cache)| cache.memory = of(n));
    }
}

impl Given {
    /// Where it was given, for what is wrong with it.
    fn place(&self) -> String {
        match &self.source {
            Source::Flag => format!("--{}", self.name),
            source => format!("{source}: {}", self.name),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(name, line) => write!(f, "{name}:{line}"),
            Source::Flag => f.write_str("command line"),
        }
    }
}

impl Setting {
    pub fn named(name: &str) -> Result<&'static Setting, String> {
        TABLE.iter().find(|setting| setting.name == name).ok_or_else(|| {
            let meant = closest(name).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            format!("no setting is called `{}`{meant}", name.escape_debug())
        })
    }

    /// What counts of what was given.
    pub fn given<'a>(&self, given: &'a [Given]) -> Option<&'a Given> {
        given.iter().rfind(|given| given.name == self.name)
    }

    fn apply(&self, config: &mut Config, text: &str, machine: &Machine) -> Result<(), String> {
        for word in self.words {
            match (word, &self.kind) {
                (Word::Is(name, set), _) if *name == text => {
                    set(config);
                    return Ok(());
                }
                (Word::Auto(number), Kind::Size(_, set) | Kind::Count(_, set)) if text == "auto" => {
                    set(config, number(machine));
                    return Ok(());
                }
                (Word::Divided(set, _), _) if text == "auto" => {
                    set(config);
                    return Ok(());
                }
                _ => {}
            }
        }
        if text.is_empty() {
            return Err(format!("a value is missing: {}", self.value()));
        }
        // Whoever is told of a value is told on one line.
        let is_control = |c: char| c.is_control() && !(c == SEVERAL && matches!(self.kind, Kind::Caches(_)));
        if text.contains(is_control) {
            return Err(format!("`{}` has a control character", text.escape_debug()));
        }
        self.kind.apply(config, text).map_err(|why| match self.words {
            [] => why,
            // The word stands alone, and is no answer to what is wrong with one of several.
            _ if self.kind.repeats() => why,
            words if matches!(self.kind, Kind::Choice) => {
                format!("`{text}` is none of {}", names(words).join(", "))
            }
            words => format!("{why} (or write {})", names(words).join(" or ")),
        })
    }
}

impl Kind {
    fn apply(&self, config: &mut Config, text: &str) -> Result<(), String> {
        match self {
            Kind::Size(bounds, set) => set(config, values::size_within(text, bounds)?),
            Kind::PowerOfTwo(bounds, set) => match values::size_within(text, bounds)? {
                size if size.is_power_of_two() => set(config, size),
                size => return Err(format!("{} is not a power of two", values::say_size(size))),
            },
            Kind::Time(bounds, set) => set(config, values::time_within(text, bounds)?),
            Kind::Count(bounds, set) => set(config, values::count(text, bounds)?),
            Kind::Address(set) => set(config, values::address(text)?),
            Kind::Addresses(set) => {
                let addresses = values::list(text, values::listen)?;
                let mut seen = HashSet::new();
                if let Some(twice) = addresses
                    .iter()
                    .map(|listen| &listen.address)
                    .find(|a| !a.is_any_port() && !seen.insert(*a))
                {
                    return Err(format!("{twice} is there twice"));
                }
                set(config, addresses);
            }
            Kind::Networks(set) => set(config, values::list(text, str::parse)?),
            Kind::Peers(set) => {
                let peers: Vec<Option<Network>> = values::list(text, |peer| match peer {
                    "unix" => Ok(None),
                    network => network.parse().map(Some),
                })?;
                let unix = peers.contains(&None);
                set(config, peers.into_iter().flatten().collect(), unix);
            }
            Kind::Ports(set) => set(config, values::list(text, values::port)?),
            Kind::Caches(set) => set(config, values::caches(text.split(SEVERAL))?),
            Kind::Other(_, set) => set(config, text)?,
            Kind::Choice => return Err(String::new()),
        }
        Ok(())
    }

    /// Several values may be given.
    fn is_list(&self) -> bool {
        self.repeats()
            || matches!(self, Kind::Addresses(_) | Kind::Networks(_) | Kind::Peers(_) | Kind::Ports(_))
    }

    /// It is given once for each value, which may have commas in it.
    fn repeats(&self) -> bool {
        matches!(self, Kind::Caches(_))
    }

    /// What stands between several values.
    fn separator(&self) -> char {
        if self.repeats() { SEVERAL } else { ',' }
    }
}

impl Word {
    fn name(&self) -> &'static str {
        match self {
            Word::Is(name, _) => name,
            Word::Auto(_) | Word::Divided(..) => "auto",
        }
    }
}

fn names(words: &[Word]) -> Vec<&'static str> {
    words.iter().map(Word::name).collect()
}

/// What the options of a command line give to some settings.
pub fn given_by_flags(args: &ArgMatches, settings: impl Iterator<Item = &'static Setting>) -> Vec<Given> {
    let value = |setting: &Setting| {
        let values: Vec<&str> = args.get_many::<String>(setting.name)?.map(String::as_str).collect();
        Some(values.join(&setting.kind.separator().to_string()))
    };
    let given = settings.filter_map(|setting| Some((setting.name, value(setting)?)));
    given.map(|(name, value)| Given { name, value, source: Source::Flag }).collect()
}

/// The setting that somebody who wrote `name` may have meant.
fn closest(name: &str) -> Option<&'static str> {
    /// As like as clap has it for options.
    const LIKE: f64 = 0.7;
    let like = |setting: &Setting| strsim::jaro(&name.replace('_', "-"), setting.name);
    let best = TABLE.iter().max_by(|a, b| like(a).total_cmp(&like(b)))?;
    (like(best) > LIKE).then_some(best.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy::OffPeak;
    use store::WriteBudget;

    const MACHINE: Machine = Machine { memory: 4 << 30, cores: 3, descriptors: 1 << 20 };

    fn flag(name: &str, value: &str) -> Given {
        let name = Setting::named(name).unwrap().name;
        Given { name, value: value.into(), source: Source::Flag }
    }

    fn with(name: &str, value: &str) -> Result<Config, String> {
        Config::build(&[flag(name, value)], &MACHINE).map_err(|wrong| {
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            wrong[0].clone()
        })
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_parts() {
        let config = Config::build(&[], &MACHINE).unwrap();
        let (proxy, mut default) = (&config.proxy, Proxy::default());
        // What follows from the machine.
        default.workers = 3;
        // The store's own bound is the one that holds.
        default.bounds.object_bytes = u64::MAX;
        assert_eq!(format!("{proxy:?}"), format!("{default:?}"));
        assert_eq!(
            format!("{:?}", config.stores()[0]),
            format!(
                "{:?}",
                Store {
                    group_of: cache::key::group,
                    // A store alone is scrubbed where that is asked for.
                    scrub: Some(Duration::from_secs(30 * 86_400)),
                    // These go to the error log.
                    tell: config.store.tell,
                    news: config.store.news,
                    ..Store::at("cache.cosm")
                }
            )
        );
    }

    #[test]
    fn names_and_defaults_are_in_order() {
        let mut topics: Vec<&str> = TABLE.iter().map(|setting| setting.topic).collect();
        topics.dedup();
        let different: HashSet<&str> = topics.iter().copied().collect();
        assert_eq!(topics.len(), different.len(), "settings of a topic stand together: {topics:?}");
        for (n, setting) in TABLE.iter().enumerate() {
            let name = setting.name;
            assert!(TABLE[..n].iter().all(|other| other.name != name), "{name} is there twice");
            let written = setting.kind.is_list() || matches!(setting.kind, Kind::Other(..));
            assert!(with(name, setting.default).is_ok(), "{name}: its default");
            assert!(written || with(name, "no such thing").is_err(), "{name}");
        }
    }

    #[test]
    fn bounds_are_checked_and_errors_say_where_what_and_what_to_do() {
        let table = [
            ("disk-patience", "0ms", "0ms is out of bounds: 1ms to 1h"),
            ("flush-interval", "0ms", "0ms is out of bounds: 1ms to 1h"),
            ("drain-timeout", "99999h", "99999h is out of bounds: 1ms to 8760h"),
            ("dns-timeout", "30", "write a number with ms, s, min, h or d"),
            ("connect-ports", "0", "`0` is not a port: 1 to 65535"),
            ("connect-ports", "443,x", "`x` is not a port: 1 to 65535 (or write none)"),
            ("connect-ports", "", "a value is missing: PORT,…|none"),
            ("trust", "10.0.0.5/8", "write 10.0.0.0/8 for the network, or 10.0.0.5 alone"),
            ("allow", "10.0.0.0/33", "is not a network"),
            ("allow", "none", "(or write private or all)"),
            ("listen", "8080", "write 127.0.0.1:8080 for clients on this host alone, or 0.0.0.0:8080"),
            ("listen", ":8080", "write 127.0.0.1:8080"),
            ("listen", "*:8080", "write 127.0.0.1:8080"),
            (
                "listen",
                "localhost:8080",
                "`localhost:8080` has a name: write an address, like 127.0.0.1:8080",
            ),
            ("listen", "127.0.0.1", "has no port: write 127.0.0.1:PORT"),
            ("listen", "::1", "has no port: write [::1]:PORT"),
            ("listen", "127.0.0.1:99999", "is not an address with a port"),
            ("listen", "127.0.0.1:80,127.0.0.1:80", "127.0.0.1:80 is there twice"),
            ("listen", ",", "a value is missing"),
            ("listen", "unix:run/cosm.sock", "`unix:run/cosm.sock` is not absolute: write unix:/PATH"),
            ("listen", "/run/cosm.sock", "is a path: write unix:/run/cosm.sock"),
            ("listen", "unix:/a,127.0.0.1:80,unix:/a", "unix:/a is there twice"),
            ("listen", "unix:/run/cosm.sock:80", "without `:`"),
            (
                "listen",
                &format!("unix:/{}", "a".repeat(107)),
                "has 108 bytes: the path of a Unix socket has 107",
            ),
            ("admin", "unix:", "write unix:/PATH"),
            ("origin", "http://unix:app.sock", "write unix:/PATH"),
            (
                "origin",
                "http://unix:/app.sock:/path",
                "write http://host, http://host:port, or http://unix:/PATH",
            ),
            ("admin", "3129", "write 127.0.0.1:3129"),
            ("admin", "127.0.0.1:3128", "admin and listen are both 127.0.0.1:3128"),
            (
                "listen",
                "tls:127.0.0.1:443",
                "listen: tls:127.0.0.1:443 needs a certificate (tls-certificate, or acme)",
            ),
            ("listen", "redirect:127.0.0.1:80", "is for a reverse proxy"),
            ("listen", "tls:443", "write 127.0.0.1:443"),
            ("listen", "redirect:127.0.0.1:80,127.0.0.1:80", "127.0.0.1:80 is there twice"),
            ("tls-certificate", "/none.pem", "cannot read /none.pem"),
            ("tls-client-ca", "/none.pem", "cannot read /none.pem"),
            ("hsts", "forever", "`forever` does not begin with max-age="),
            ("redirect-port", "0", "0 is out of bounds: 1 to 65535"),
            ("origin", "ftp://h", "only http:// and https:// origins"),
            ("origin-ca", "/none.pem", "cannot read /none.pem"),
            ("origin-certificate", "/none.pem", "cannot read /none.pem"),
            ("origin-tls-name", "a b", "`a b` is no name of a server"),
            ("workers", "0", "0 is out of bounds: 1 to 1024 (or write auto)"),
            ("workers", "many", "`many` is not a whole number (or write auto)"),
            ("packet", "96KiB", "96KiB is not a power of two"),
            ("packet", "32KiB", "32KiB is out of bounds: 64KiB to 16MiB"),
            ("cache-size", "1", "1B is too small: at least 2MiB"),
            ("cmax", "4", "4 is out of bounds: 0 to 3"),
            ("pseudonym", "a b", "is not a name"),
            ("pseudonym", &"a".repeat(65), "up to 64 letters"),
            (
                "write-budget",
                "200GiB",
                "`200GiB` is not a size in a time: write one like 200GiB/day, with hour, day or week (or write none)",
            ),
            ("write-budget", "200GB/day", "write one like 200GiB/day"),
            ("write-budget", "1GiB/month", "with hour, day or week"),
            ("write-budget", "0/day", "`0/day` is too small: at least 1MiB"),
            ("scrub", "1s", "1s is out of bounds: 1min to 8760h (or write off)"),
            (
                "off-peak",
                "1-6",
                "`1-6` is not a part of a day: write one like 01:00-06:00, in local time (or write auto or any)",
            ),
            ("io", "fast", "`fast` is none of auto, uring, threads"),
            ("io", "a\nb", "`a\\nb` has a control character"),
            ("cache", "a\u{7}", "has a control character"),
        ];
        for (name, value, says) in table {
            let error = with(name, value).expect_err(&format!("{name} {value}"));
            assert!(error.contains(says) && error.lines().count() == 1, "{name} {value}: {error}");
            let is_of_several = error.starts_with("admin and") || error.starts_with("listen: ");
            assert!(error.starts_with(&format!("--{name}: ")) || is_of_several, "{error}");
        }
        let all = [flag("cmax", "4"), flag("io", "fast")];
        assert_eq!(Config::build(&all, &MACHINE).unwrap_err().len(), 2, "all that is wrong is said");
    }

    #[test]
    fn words_and_lists() {
        assert!(with("cache", "off").unwrap().stores().is_empty());
        assert!(with("connect-ports", "none").unwrap().proxy.connect_ports.is_empty());
        assert_eq!(with("connect-ports", "443, 563").unwrap().proxy.connect_ports, [443, 563]);
        assert_eq!(with("workers", "auto").unwrap().proxy.workers, 3);
        assert_eq!(with("listen", "127.0.0.1:0,127.0.0.1:0").unwrap().proxy.listen.len(), 2);
        let mixed = with("listen", "127.0.0.1:80, unix:/run/cosm.sock").unwrap().proxy.listen;
        assert_eq!(
            mixed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["127.0.0.1:80", "unix:/run/cosm.sock"]
        );
        let both = [flag("listen", "unix:/run/a"), flag("admin", "unix:/run/a")];
        let wrong = Config::build(&both, &MACHINE).unwrap_err();
        assert_eq!(wrong, ["admin and listen are both unix:/run/a: choose another path for one of them"]);
        let trust =
            |text| with("trust", text).map(|config| (config.proxy.trust.len(), config.proxy.trust_unix));
        assert_eq!(
            [trust("none"), trust("unix"), trust("10.0.0.5,unix,fd00::/8"), trust("10.0.0.5")],
            [Ok((0, false)), Ok((0, true)), Ok((2, true)), Ok((1, false))]
        );
        let admin = with("admin", "unix:/run/admin.sock").unwrap().proxy.admin.unwrap();
        assert_eq!(admin.to_string(), "unix:/run/admin.sock");
        let origin = with("origin", "http://unix:/run/app.sock:").unwrap().proxy.origin.unwrap();
        assert_eq!(origin.to_string(), "http://unix:/run/app.sock");
        let budget = |text| with("write-budget", text).unwrap().stores()[0].write_budget;
        let hours =
            |bytes, hours: u64| Some(WriteBudget { bytes, period: Duration::from_secs(hours * 3600) });
        assert_eq!(
            [budget("none"), budget("8 GiB/hour"), budget("200GiB/day"), budget("1.5TiB / week")],
            [None, hours(8 << 30, 1), hours(200 << 30, 24), hours(3 << 39, 7 * 24)]
        );
        let scrub = |text| with("scrub", text).unwrap().stores()[0].scrub;
        assert_eq!([scrub("off"), scrub("7d")], [None, Some(Duration::from_secs(7 * 86_400))]);
        let off_peak = |text| with("off-peak", text).unwrap().proxy.off_peak;
        let hours = ["22:00-06:00", "12:00-13:30"].map(|hours| hours.parse().unwrap());
        assert_eq!(
            [off_peak("any"), off_peak("auto"), off_peak("22:00-06:00, 12:00-13:30")],
            [OffPeak::Any, OffPeak::Auto, OffPeak::Hours(hours.into())]
        );
        // The last one given counts.
        let both = [flag("cmax", "2"), flag("cmax", "3")];
        assert_eq!(Config::build(&both, &MACHINE).unwrap().stores()[0].cmax, 3);
        // The cache's other settings do not depend on their order.
        let stores = Config::build(&[flag("cmax", "2"), flag("cache", "/x")], &MACHINE).unwrap().stores();
        assert_eq!((stores[0].cmax, &*stores[0].path), (2, "/x".as_ref()));
    }

    #[test]
    fn several_caches() {
        let given = [flag("cache", "/a\n/b,x,weight=3,size=2GiB\n/c,weight=1"), flag("cache-size", "1GiB")];
        let weightless = Config::build(&given, &MACHINE).unwrap_err();
        assert_eq!(weightless, ["--cache: give each cache a weight, or none: /a has none"]);
        let given = [flag("cache", "/a,size=4MiB\n/b,x,size=2GiB\n/c, d"), flag("cache-size", "1GiB")];
        let stores = Config::build(&given, &MACHINE).unwrap().stores();
        let stores: Vec<_> = stores.iter().map(|s| (s.number, s.path.to_str().unwrap(), s.size)).collect();
        assert_eq!(
            stores,
            [(0, "/a", Some(4 << 20)), (1, "/b,x", Some(2 << 30)), (2, "/c, d", Some(1 << 30))]
        );
        let many: Vec<String> = (0..65).map(|n| format!("/{n}")).collect();
        for (value, says) in [
            ("/a\n/b\n/a,size=4MiB", "/a is there twice"),
            ("/a\noff", "`off` stands alone; write ./off for a file of that name"),
            ("/a,size=1KiB", "1KiB is too small: at least 2MiB"),
            ("/a,weight=0", "0 is out of bounds: 1 to 1000000"),
            ("/a,weight=1,weight=2", "`weight` is there twice"),
            (",size=4MiB", "a path is missing before `,size=4MiB`"),
            ("/a,sise=4MiB", "`sise` is nothing that a cache has: size or weight"),
            (&many.join("\n"), "65 caches: there may be 64"),
        ] {
            let error = with("cache", value).unwrap_err();
            assert!(error.contains(says), "{value}: {error}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_tells_what_was_meant() {
        for (wrong, meant) in [
            ("lisen", "listen"),
            ("cache_size", "cache-size"),
            ("connection-max", "connections-max"),
            ("worker", "workers"),
        ] {
            let error = Setting::named(wrong).err().unwrap();
            assert!(error.ends_with(&format!("did you mean `{meant}`?")), "{error}");
        }
        assert_eq!(Setting::named("zzz").err().unwrap(), "no setting is called `zzz`");
    }
}
