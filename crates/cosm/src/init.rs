//! `cosm init`: a configuration to begin with. Its comments are the help of the table of settings, and its sizes follow from
//! the machine.

use crate::machine::Machine;
use crate::settings::{Config, Given, Setting, file, show};
use crate::values::{about_size, say_size};
use crate::{Failure, memory};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use rustix::fs::{Access, access, statvfs};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf, absolute};

const MIB: u64 = 1 << 20;

/// Where a cache is by custom, if there is such a folder.
const CUSTOM: &str = "/var/cache/cosm";
/// Its file.
const CACHE: &str = "cosm.cache";
/// With less free space a cache on disk is not worth while.
const LEAST_FREE: u64 = 256 * MIB;
/// A cache takes so much of the free space at most.
const OF_FREE: u64 = 2;
/// Columns of a comment.
const WIDTH: usize = 100;

/// A setting in the file: with its value, or as a comment that shows one.
enum Row {
    Set(&'static str, &'static str),
    Shown(&'static str, &'static str),
    /// Follows from the machine.
    Suggested(&'static str),
}
use Row::{Set, Shown, Suggested};

const FORWARD: &[Row] = &[
    Set("listen", "127.0.0.1:3128"),
    Shown("admin", "127.0.0.1:3129"),
    Suggested("cache"),
    Suggested("cache-size"),
    Shown("write-budget", "200GiB/day"),
    Suggested("memory-total"),
    Set("allow", "private"),
    Shown("connect-ports", "443,8443"),
    Shown("reach", "10.1.0.0/16"),
    Shown("access-log", "/var/log/cosm/access.log"),
    Shown("access-log-format", "squid"),
    Shown("error-log", "/var/log/cosm/error.log"),
];

const REVERSE: &[Row] = &[
    Set("listen", "0.0.0.0:8000"),
    Shown("admin", "127.0.0.1:3129"),
    Set("origin", "http://127.0.0.1:8080"),
    Set("origin-host", "client"),
    Shown("trust", "10.0.0.5"),
    Suggested("cache"),
    Suggested("cache-size"),
    Shown("set-cookie", "fresh"),
    Shown("write-budget", "200GiB/day"),
    Suggested("memory-total"),
    Set("allow", "all"),
    Shown("purge-from", "127.0.0.1"),
    Shown("access-log", "/var/log/cosm/access.log"),
    Shown("access-log-format", "json"),
    Shown("error-log", "/var/log/cosm/error.log"),
];

pub fn command() -> Command {
    let proxy = Arg::new("USE")
        .required(true)
        .value_parser(PossibleValuesParser::new(["forward", "reverse"]))
        .hide_possible_values(true)
        .help("What the proxy is for: forward for clients, reverse in front of a server");
    let file = Arg::new("FILE").help("Where to write it; none: to standard output");
    let cache = Arg::new("cache").long("cache").value_name("PATH").help(format!(
        "Where the cache is to be: a file, or a block device [default: {CUSTOM}/{CACHE}, or where that folder cannot be \
         written, {CACHE} beside FILE]"
    ));
    let force =
        Arg::new("force").long("force").action(ArgAction::SetTrue).help("Replace FILE if it is there");
    Command::new("init")
        .about("Write a configuration to begin with, with comments and sizes that suit this machine")
        .after_help("Example:\n  cosm init forward cosm.toml\n  cosm serve --config cosm.toml --check")
        .args([proxy, file, cache, force])
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let text = |name: &str| args.get_one::<String>(name).map(String::as_str);
    let kind = text("USE").unwrap_or_default();
    let to = text("FILE").map(Path::new);
    let machine = Machine::here();
    let cache = match text("cache") {
        Some(path) => absolute(path),
        None => place(to),
    };
    let cache = cache.map_err(|error| Failure::Failed(format!("where is the cache to be? {error}")))?;
    let room = Room::of(&cache).map_err(Failure::Failed)?;
    let written = configuration(kind, &cache, room, &machine).map_err(Failure::Failed)?;
    match to {
        Some(path) => write(path, &written, args.get_flag("force")).map_err(Failure::Failed),
        None => {
            line!("{}", written.trim_end());
            Ok(())
        }
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is there already: choose another name, or replace it with --force", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

/// The cache's path, where none is said.
fn place(config: Option<&Path>) -> std::io::Result<PathBuf> {
    let custom = Path::new(CUSTOM);
    if access(custom, Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        return Ok(custom.join(CACHE));
    }
    let config = absolute(config.unwrap_or(Path::new("cosm.toml")))?;
    Ok(config.parent().unwrap_or(Path::new("/")).join(CACHE))
}

/// What there is for a cache.
#[derive(Clone, Copy)]
enum Room {
    /// So many bytes are free where it is to be.
    Free(u64),
    /// It is to be on a device of so many bytes.
    Device(u64),
    /// It is there, and keeps its size.
    Taken,
}

impl Room {
    fn of(cache: &Path) -> Result<Room, String> {
        if let Ok(found) = std::fs::metadata(cache) {
            if found.file_type().is_block_device() && store::inspect(cache).is_err() {
                let size = File::open(cache).and_then(|mut device| device.seek(SeekFrom::End(0)));
                return size
                    .map(Room::Device)
                    .map_err(|error| format!("cannot look at {}: {error}", cache.display()));
            }
            if !found.is_file() || found.len() > 0 {
                return Ok(Room::Taken);
            }
        }
        let folder = cache.parent().unwrap_or(Path::new("/"));
        let room = statvfs(folder).map_err(|error| {
            format!(
                "cannot look at {}: {error}; make that folder, or choose another by --cache",
                folder.display()
            )
        })?;
        Ok(Room::Free(room.f_bavail.saturating_mul(room.f_frsize)))
    }
}

/// The file's text.
fn configuration(kind: &str, cache: &Path, room: Room, machine: &Machine) -> Result<String, String> {
    let rows = if kind == "reverse" { REVERSE } else { FORWARD };
    let sizes = suggest(cache, room, machine)?;
    let has = match room {
        Room::Free(free) => format!("{} free where the cache is", about_size(free)),
        Room::Device(size) => format!("a device of {} for the cache", about_size(size)),
        Room::Taken => "a cache that is there already".to_owned(),
    };
    let mut text = format!(
        "# Cosm as a {kind} proxy, on a machine with {} of memory and {has}.\n\
         # `cosm serve --config FILE --check` says whether it is right, `cosm serve --help` lists all settings.\n",
        about_size(machine.memory)
    );
    let mut topic = "";
    for row in rows {
        let (name, value, shown) = match row {
            Set(name, value) => (*name, (*value).to_owned(), ""),
            Shown(name, value) => (*name, (*value).to_owned(), "# "),
            Suggested(name) => (*name, sizes.of(name), ""),
        };
        let setting = Setting::named(name)?;
        if setting.topic != topic {
            topic = setting.topic;
            text.push_str(&format!("\n## {topic}\n"));
        }
        text.push_str(&format!("\n{}{shown}{name} = {}\n", comment(setting), show::quoted(&value)));
    }
    // The path may be one that no setting can have.
    build(&text, machine)?;
    Ok(text)
}

/// A setting's help, as lines of comment.
fn comment(setting: &Setting) -> String {
    let help = format!("{} [default: {}]", setting.help, setting.default);
    let mut lines = vec![String::from("#")];
    for word in help.split_whitespace() {
        if lines.last().is_some_and(|line| line.chars().count() + word.chars().count() >= WIDTH) {
            lines.push(String::from("#"));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

fn build(text: &str, machine: &Machine) -> Result<Config, String> {
    let given: Vec<Given> = file::read(text, "configuration").map_err(|wrong| wrong.join("; "))?;
    Config::build(&given, machine).map_err(|wrong| wrong.join("; "))
}

/// What is suggested for this machine.
struct Sizes {
    cache: String,
    size: String,
    memory: String,
}

impl Sizes {
    fn of(&self, name: &str) -> String {
        match name {
            "cache" => &self.cache,
            "cache-size" => &self.size,
            _ => &self.memory,
        }
        .clone()
    }
}

/// The largest cache that the free space and the memory bear, and what memory is then taken by itself, in round numbers.
fn suggest(cache: &Path, room: Room, machine: &Machine) -> Result<Sizes, String> {
    let path = cache.display().to_string();
    let auto = || Sizes { cache: path.clone(), size: "auto".into(), memory: "auto".into() };
    let mut size = match room {
        Room::Free(free) if free < LEAST_FREE => return Ok(Sizes { cache: "off".into(), ..auto() }),
        Room::Free(free) => round(free / OF_FREE),
        Room::Device(size) => round(size),
        Room::Taken => return Ok(auto()),
    };
    loop {
        let text = format!("cache = {}\ncache-size = {size}\n", show::quoted(&path));
        let mut config = build(&text, machine)?;
        // No more than half of the memory, which is what a machine that also does something else can spare.
        let divided = memory::divide(&mut config, machine);
        if divided.is_ok() && config.memory_total <= (machine.memory / 2).max(MIB) {
            let memory = round(config.memory_total);
            config.memory_total = memory;
            let total = format!("{text}memory-total = {memory}\n");
            let fits = memory::divide(&mut build(&total, machine)?, machine).is_ok();
            let memory = if fits { say_size(memory) } else { "auto".into() };
            return Ok(Sizes { cache: path, size: say_size(size), memory });
        }
        if size <= LEAST_FREE / OF_FREE {
            return Ok(Sizes { size: say_size(size), ..auto() });
        }
        size = round(size / 4 * 3);
    }
}

/// Down to a number that people would write: of whole MiB, GiB or TiB, with three digits at most.
fn round(bytes: u64) -> u64 {
    let unit =
        [40, 30, 20].into_iter().map(|shift| 1u64 << shift).find(|unit| bytes >= 2 * unit).unwrap_or(MIB);
    let mut count = (bytes / unit).max(1);
    let mut tens = 1;
    while count >= 1000 {
        count /= 10;
        tens *= 10;
    }
    count * tens * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(memory: u64) -> Machine {
        Machine { memory, cores: 4, descriptors: 1 << 16 }
    }

    #[test]
    fn on_any_machine_a_start_would_do_with_it() {
        for (memory, free) in [
            (96 * MIB, 100 * MIB),
            (256 * MIB, 10 * GIB),
            (GIB, 0),
            (GIB, 20 * GIB),
            (4 * GIB, 1 << 40),
            (24 * GIB, 48 * GIB),
            (64 * GIB, 100 << 40),
        ] {
            for kind in ["forward", "reverse"] {
                let machine = machine(memory);
                let text = configuration(kind, "/srv/c".as_ref(), Room::Free(free), &machine).unwrap();
                let mut config = build(&text, &machine).unwrap();
                memory::divide(&mut config, &machine).unwrap_or_else(|why| panic!("{memory} {free}: {why}"));
                let size: u64 = config.stores().iter().filter_map(|store| store.size).sum();
                assert!(size <= free / 2, "{size} of {free}");
                assert_eq!(config.stores().is_empty(), free < LEAST_FREE);
                assert_eq!(config.proxy.origin.is_some(), kind == "reverse");
                // What is shown as a comment is right, too.
                let shown = text.lines().map(|line| match line.strip_prefix("# ") {
                    Some(rest) if rest.split(' ').nth(1) == Some("=") => rest,
                    _ => line,
                });
                let shown: String = shown.map(|line| format!("{line}\n")).collect();
                assert!(shown.contains("\nadmin = "), "{shown}");
                build(&shown, &machine).unwrap();
            }
        }
    }

    #[test]
    fn sizes_follow_from_the_machine() {
        let sizes = |memory, free| {
            let sizes = suggest("/srv/c".as_ref(), Room::Free(free), &machine(memory)).unwrap();
            (sizes.size, sizes.memory)
        };
        assert_eq!(sizes(24 * GIB, 48 * GIB), ("24GiB".into(), "12GiB".into()));
        assert_eq!(sizes(64 * GIB, 2 << 40), ("1020GiB".into(), "32GiB".into()));
        let device = suggest("/dev/x".as_ref(), Room::Device(100 * GIB), &machine(4 * GIB)).unwrap();
        assert_eq!((device.size.as_str(), device.memory.as_str()), ("100GiB", "2GiB"));
        // More than the memory has room for the index of.
        let (size, memory) = sizes(GIB, 1 << 40);
        assert!(crate::values::size(&size).unwrap() < 400 * GIB, "{size}");
        assert_eq!(memory, "512MiB");
    }

    #[test]
    fn a_path_is_written_as_toml_has_it() {
        let path = "/srv/a \"b\\ #c";
        let text = configuration("forward", path.as_ref(), Room::Taken, &machine(GIB)).unwrap();
        let config = build(&text, &machine(GIB)).unwrap();
        assert_eq!(config.stores()[0].path, Path::new(path));
        let wrong = configuration("forward", "/srv/a\nb".as_ref(), Room::Taken, &machine(GIB)).unwrap_err();
        assert!(wrong.contains("control character") && wrong.lines().count() == 1, "{wrong}");
    }
}
