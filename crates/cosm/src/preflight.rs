//! What can be known of a start before it: `cosm serve --check`. Writes nothing, also beside a running server.

use crate::machine::Machine;
use crate::pid_file::PidFile;
use crate::settings::Config;
use crate::values::say_size;
use acme::{Challenge, Life};
use jiff::Timestamp;
use proxy::{Address, LeastVersion, NamedLife, Scheme, Speaks, TicketKeys, Tickets};
use rustix::fs::{Access, access, statvfs};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use store::disk::file::layout;
use store::format::DATA_START;
use store::{DEFAULT_SIZE, Memory, Options};

/// What a check found, a line each.
#[derive(Debug, Default)]
pub struct Found {
    /// A start would fail.
    pub wrong: Vec<String>,
    /// Good to know.
    pub notes: Vec<String>,
}

/// Looks at what is outside of the settings: addresses, files, room.
pub fn check(config: &Config) -> Found {
    let mut found = Found::default();
    let failed = proxy::try_addresses(&config.proxy);
    let addresses = config.proxy.addresses();
    for address in addresses
        .iter()
        .chain(&config.proxy.admin)
        .filter(|address| failed.iter().all(|(other, _)| other != *address))
    {
        if let Address::Unix(path) = address
            && let Err(error) = makes_files_in(folder_of(path.as_ref()))
        {
            found.wrong.push(format!("cannot listen on {address}: no file can be made there: {error}"));
        }
    }
    for (address, error) in failed {
        match error.kind() {
            ErrorKind::AddrInUse => {
                found.notes.push(format!("{address} is in use: by this proxy, if it runs already"));
            }
            _ => found.wrong.push(format!("cannot listen on {address}: {error}")),
        }
    }
    if let Some(certificates) = &config.proxy.tls.certificates {
        if !certificates.names().is_empty() {
            found.notes.push(format!("certificates for {}", certificates.names().join(", ")));
        }
        for file in certificates.missing() {
            let name = file.file_stem().unwrap_or_default().display();
            let by = config.proxy.tls.acme.challenge.name();
            let why = match file.exists() {
                true => format!("the certificate in {} is of no use", file.display()),
                false => format!("no certificate for {name} yet"),
            };
            found.notes.push(format!(
                "{why}: a start will order it from {} by {by}",
                config.proxy.tls.acme.directory
            ));
        }
    }
    if let TicketKeys::File(file) = &config.proxy.tls.tickets {
        let made =
            makes_files_in(folder_of(file)).map_err(|error| format!("no file can be made there: {error}"));
        let usable =
            Tickets::check(file).and_then(|()| made.map_err(|why| format!("{}: {why}", file.display())));
        found.wrong.extend(usable.err().map(|why| format!("tls-tickets {why}")));
    }
    for options in &config.stores() {
        let path = options.path.display();
        match if options.path.exists() { old_cache(options) } else { new_cache(options) } {
            Ok(note) => found.notes.push(format!("cache {path}: {note}")),
            Err(why) => found.wrong.push(why),
        }
    }
    found.wrong.extend(same_twice(&config.stores()));
    let logs = [("access log", config.access_log.to.as_ref()), ("error log", Some(&config.error_log.to))];
    for (name, to) in logs.into_iter().filter_map(|(name, to)| Some((name, to?))) {
        if let Err(error) = to.check() {
            found.wrong.push(format!("cannot write {name} {to}: {error}"));
        }
    }
    found.wrong.extend(config.pid_file.iter().filter_map(|path| PidFile::check(path).err()));
    found
}

/// Two caches that are the same file or device, by whatever paths: what is wrong with that.
pub fn same_twice(stores: &[Options]) -> Option<String> {
    let known = |path: &Path| std::fs::metadata(path).ok();
    let id = |path: &Path| {
        let found = known(path)?;
        let is_device = found.file_type().is_block_device();
        Some(if is_device { (u64::MAX, found.rdev()) } else { (found.dev(), found.ino()) })
    };
    let ids: Vec<_> = stores.iter().map(|store| id(&store.path)).collect();
    let again = |n: &usize| ids[*n].is_some() && ids[..*n].contains(&ids[*n]);
    let n = (0..ids.len()).find(again)?;
    let first = ids.iter().position(|id| *id == ids[n])?;
    let (one, other) = (stores[first].path.display(), stores[n].path.display());
    Some(format!("caches {one} and {other} are the same file or device: name each once"))
}

/// Why names cannot be proved to the authority that certificates are ordered from, as far as that is seen here.
fn unprovable(config: &Config) -> Option<String> {
    let (acme, listen) = (&config.proxy.tls.acme, &config.proxy.listen);
    match &acme.challenge {
        _ if acme.certificates.is_empty() => None,
        Challenge::Http if listen.iter().all(|listen| listen.speaks == Speaks::Tls) => Some(
            "acme-challenge http-01: nothing listens without TLS, where the authority asks: say listen redirect:ADDRESS, or tls-alpn-01".into(),
        ),
        // Another one is looked for in PATH.
        Challenge::Dns(program) if program.components().count() > 1 => {
            let error = access(program, Access::EXEC_OK).err()?;
            Some(format!("acme-dns-hook {}: it cannot be run: {error}", program.display()))
        }
        _ => None,
    }
}

/// What is wrong with the time of a certificate.
fn out_of_time(name: &str, life: Life, now: Timestamp) -> Option<String> {
    let at = |seconds: u64| Timestamp::from_second(seconds.try_into().ok()?).ok();
    let (from, until) = (at(life.from)?, at(life.until)?);
    let what = match now {
        now if now >= until => format!("has expired on {until}"),
        now if now < from => format!("does not hold before {from}"),
        _ => return None,
    };
    Some(format!("tls-certificate: that of {name} {what}: clients will refuse it"))
}

/// Settings that change nothing, since others are not as they would have to be.
fn without_use(config: &Config) -> impl Iterator<Item = &'static str> {
    let proxy = &config.proxy;
    let listens = |speaks| proxy.listen.iter().any(|listen| listen.speaks == speaks);
    let is_plain = proxy.origin.as_ref().is_some_and(|origin| origin.scheme == Scheme::Http);
    let has_no_tls = !listens(Speaks::Tls);
    [
        (
            has_no_tls && proxy.tls.certificates.is_some(),
            "tls-certificate: nothing listens with TLS: say listen tls:ADDRESS",
        ),
        (
            has_no_tls && proxy.tls.client_roots.is_some(),
            "tls-client-ca: nothing listens with TLS, so no client is asked for a certificate",
        ),
        (
            has_no_tls && proxy.tls.least != LeastVersion::default(),
            "tls-version-min: nothing listens with TLS: say listen tls:ADDRESS",
        ),
        (
            has_no_tls && proxy.tls.hsts.is_some(),
            "hsts: nothing listens with TLS, so no response has it: say listen tls:ADDRESS",
        ),
        (
            !listens(Speaks::Redirect) && proxy.tls.redirect_port.is_some(),
            "redirect-port: nothing redirects to it: say listen redirect:ADDRESS",
        ),
        (
            has_no_tls && listens(Speaks::Redirect) && proxy.tls.redirect_port.is_none(),
            "listen: nothing here listens with TLS, so redirect: sends clients to port 443 (redirect-port names another)",
        ),
        (
            is_plain && proxy.origin_tls.name.is_some(),
            "origin-tls-name: the origin is asked without TLS: say origin https://…",
        ),
        (
            is_plain && proxy.origin_tls.own.is_some(),
            "origin-certificate: the origin is asked without TLS, so it is never shown: say origin https://…",
        ),
    ]
    .into_iter()
    .filter_map(|(is_so, line)| is_so.then_some(line))
}

/// What is possible, but hardly meant.
pub fn doubts(config: &Config, machine: &Machine) -> Vec<String> {
    let mut doubts = Vec::new();
    let (wanted, possible) = (config.proxy.bounds.connections as u64, machine.connections_by_descriptors());
    if wanted > possible {
        doubts.push(format!(
            "connections-max {wanted}, but the limit of open files is enough for {possible}: raise it (ulimit -n), \
             or requests beyond that fail"
        ));
    }
    let certificates = config.proxy.tls.certificates.iter();
    let own = config.proxy.origin_tls.own.iter();
    doubts.extend(certificates.flat_map(|all| all.given()).chain(own).filter_map(|files| files.doubt()));
    if let Some(path) = &config.acme_eab_file
        && std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o007 != 0)
    {
        doubts
            .push(format!("acme-eab {}: every user of this machine may read it (chmod 640)", path.display()));
    }
    // What is ordered is renewed by a start.
    let lives = config.proxy.tls.certificates.iter().flat_map(|all| all.lives_of_given());
    let now = Timestamp::now();
    doubts.extend(lives.filter_map(|NamedLife { name, life }| out_of_time(&name, life, now)));
    doubts.extend(without_use(config).map(str::to_owned));
    doubts.extend(unprovable(config));
    let memory = config.memory_total;
    if memory > machine.memory {
        doubts.push(format!(
            "memory-total {}, but this machine or container has {} MiB: the process may be killed when the cache fills",
            say_size(memory),
            machine.memory >> 20
        ));
    }
    if let Some(path) = &config.admin_token_file
        && std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o004 != 0)
    {
        doubts.push(format!(
            "admin-token {}: every user of this machine may read it (chmod 640)",
            path.display()
        ));
    }
    doubts
}

fn old_cache(options: &Options) -> Result<String, String> {
    let path = &options.path;
    if is_blank(path) {
        return Ok("it is blank: a start will create a cache there".into());
    }
    let seen = store::inspect(path).map_err(|error| error.to_string())?;
    access(path, Access::WRITE_OK)
        .map_err(|error| format!("cache {}: it cannot be written: {error}", path.display()))?;
    let size = Memory::of(options, 1, 1).map_err(|error| error.to_string())?.size;
    let room = statvfs(path).map(|room| room.f_bavail.saturating_mul(room.f_frsize));
    if let Ok(free) = room
        && path.is_file()
        && free < size.saturating_sub(seen.size)
    {
        return Err(format!(
            "cache {}: it needs {} more, but {} MiB are free; choose a smaller --cache-size",
            path.display(),
            say_size(size - seen.size),
            free >> 20
        ));
    }
    let change = match size == seen.size {
        true => String::new(),
        false => format!(": a start will change it to {}", say_size(size)),
    };
    Ok(format!("{} with {} objects{change}", say_size(seen.size), seen.objects))
}

/// Zeros where a cache's superblocks would be, as on a device that was never used.
fn is_blank(path: &Path) -> bool {
    // A pipe would be waited for.
    let is_disk = path.metadata().is_ok_and(|kind| kind.is_file() || kind.file_type().is_block_device());
    let mut first = [1; DATA_START as usize];
    is_disk
        && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == [0; DATA_START as usize]
}

fn new_cache(options: &Options) -> Result<String, String> {
    let path = &options.path;
    let size = options.size.unwrap_or(DEFAULT_SIZE);
    let wrong = |why: String| format!("cache {}: {why}", path.display());
    layout(size, options.packet, 0).map_err(&wrong)?;
    let folder = folder_of(path);
    let in_folder =
        |error: rustix::io::Errno| wrong(format!("it cannot be created in {}: {error}", folder.display()));
    makes_files_in(folder).map_err(in_folder)?;
    let room = statvfs(folder).map_err(in_folder)?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < size {
        return Err(wrong(format!(
            "it needs {}, but {} has {} MiB free; choose a smaller --cache-size",
            say_size(size),
            folder.display(),
            free >> 20
        )));
    }
    Ok(format!("a start will create it, with {}", say_size(size)))
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub fn makes_files_in(folder: &Path) -> rustix::io::Result<()> {
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
}
