//! The media there are: a row each.

use super::device::{self, Device};
use super::drive::{Geometry, ST15150W, THREE_IN_ONE};
use super::filesystem::fs_type::EXT4;
use super::filesystem::{ALPHASTATION_250, ALPHASTATION_3000, FileSystem, Host, TODAY, ULTRA_1};
use super::measured::{self, Measured, Speeds};
use super::queue::Rules;
use super::real::{Real, Wanted};
use super::{Failed, Medium};
use crate::scale::Scale;
use std::path::PathBuf;

/// A medium that recipes can be given.
pub struct MediumKind {
    pub name: &'static str,
    /// What may follow the name and a colon.
    pub takes: Takes,
    pub about: &'static str,
    /// Whether recipes would disturb each other on it.
    pub alone: bool,
    pub make: fn(&Given) -> Result<Box<dyn Medium>, Failed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// Bytes of its filesystem, instead of what suits it.
    Size,
    /// A directory that is there.
    Directory,
    /// A file that is there.
    File,
}

/// What a medium is made from.
pub struct Given<'a> {
    pub scale: Scale,
    pub size: Option<u64>,
    /// The directory or file.
    pub path: PathBuf,
    pub memory: Memory,
    /// Gets a block trace.
    pub capture: Option<PathBuf>,
    /// Gets what is not as wanted and yet no error.
    pub say: &'a (dyn Fn(&str) + Sync),
}

/// How much memory a filesystem has for files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// What suits: an eighth of the cache on disk, but 64 MiB at least; the papers' 256 MB on their disk.
    Suitable,
    /// A share of what suits: a part of a trace is replayed.
    Part(f64),
    /// Bytes, or an error.
    Bytes(u64),
    Unbounded,
}

/// Bytes: a smaller filesystem has no room for its own blocks, and the map of a larger slice of flash takes a gigabyte.
const LEAST_SIZE: u64 = 64 << 20;
const LARGE: u64 = 480 << 30;

/// The least that a bound may be.
pub const LEAST_MEMORY: u64 = 64 << 20;

pub const ALL: &[MediumKind] = &[
    MediumKind {
        name: "st15150w",
        takes: Takes::Nothing,
        about: "Seagate ST15150W of 1995 with Solaris' UFS (model)",
        alone: false,
        make: |given| papers(ST15150W, ULTRA_1, given),
    },
    MediumKind {
        name: "alphastation-250",
        takes: Takes::Nothing,
        about: "the computer of Maltzahn's Chapter 4, with one disk as large as its three (model)",
        alone: false,
        make: |given| papers(THREE_IN_ONE, ALPHASTATION_250, given),
    },
    MediumKind {
        name: "alphastation-3000",
        takes: Takes::Nothing,
        about: "that of his Chapter 5, with 24 MB for pages (model)",
        alone: false,
        make: |given| papers(ST15150W, ALPHASTATION_3000, given),
    },
    MediumKind {
        name: "hdd-18t",
        takes: Takes::Size,
        about: "an 18 TB disk of 2020 with ext4 (model), or its first SIZE",
        alone: false,
        make: |given| today("hdd-18t", given),
    },
    MediumKind {
        name: "sata-ssd",
        takes: Takes::Size,
        about: "a SATA flash drive with ext4 (model), of which SIZE is used",
        alone: false,
        make: |given| today("sata-ssd", given),
    },
    MediumKind {
        name: "nvme",
        takes: Takes::Size,
        about: "a PCIe flash drive with ext4 (model), of which SIZE is used",
        alone: false,
        make: |given| today("nvme", given),
    },
    MediumKind {
        name: "measured",
        takes: Takes::File,
        about: "a device and its ext4 as fast as `cosm lab measure` found them (model)",
        alone: false,
        make: |given| {
            // Its size costs nothing and changes nothing, but that directories have room.
            let size = needed(&given.scale).max(LARGE);
            let at = |why: String| format!("{}: {why}", given.path.display());
            let speeds = Speeds::open(&given.path)?;
            let device = Measured::new(&speeds, size).map_err(at)?;
            Ok(on_ext4(Box::new(device), measured::RULES, measured::host(&speeds).map_err(at)?, size, given))
        },
    },
    MediumKind {
        name: "dir",
        takes: Takes::Directory,
        about: "a directory of this machine, in which a folder is made and removed; recipes run one after the other",
        alone: true,
        make: |given| {
            let memory = match given.memory {
                Memory::Unbounded => None,
                memory => Some(bytes(memory, &given.scale)),
            };
            let wanted = Wanted {
                within: &given.path,
                space: needed(&given.scale),
                memory,
                must: given.memory != Memory::Suitable,
                capture: given.capture.as_deref(),
            };
            Ok(Box::new(Real::new(&wanted, given.say)?))
        },
    },
];

/// The medium of a text `NAME` or `NAME:ARGUMENT`, and its argument; an error lists all.
pub fn named(text: &str) -> Result<(&'static MediumKind, Option<&str>), String> {
    let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let kind = ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<String> = ALL.iter().map(MediumKind::usage).collect();
        format!("there is no medium `{name}`; there are {}", known.join(", "))
    })?;
    match (kind.takes, argument.filter(|argument| !argument.is_empty())) {
        (Takes::Nothing, Some(_)) => Err(format!("{name} takes nothing behind its name")),
        (Takes::Directory | Takes::File, None) => Err(format!("name it: {}", kind.usage())),
        (_, argument) => Ok((kind, argument)),
    }
}

impl MediumKind {
    /// How it is written.
    pub fn usage(&self) -> String {
        let argument = match self.takes {
            Takes::Nothing => "",
            Takes::Size => "[:SIZE]",
            Takes::Directory => ":DIRECTORY",
            Takes::File => ":FILE",
        };
        format!("{}{argument}", self.name)
    }
}

/// A computer of the papers, with its own memory for pages or another.
fn papers(drive: Geometry, host: Host, given: &Given) -> Result<Box<dyn Medium>, Failed> {
    let pages = match given.memory {
        Memory::Suitable => host.pages,
        Memory::Part(part) => (host.pages as f64 * part) as u64,
        memory => bytes(memory, &given.scale),
    };
    Ok(Box::new(FileSystem::new(drive, Host { pages, ..host })))
}

/// A device of today under ext4.
fn today(name: &str, given: &Given) -> Result<Box<dyn Medium>, Failed> {
    let kind = device::named(name)?;
    let suits = if kind.sliced { needed(&given.scale) } else { u64::MAX };
    let (size, space) = (given.size.unwrap_or(suits), given.scale.space());
    let megabytes = |bytes: u64| bytes / 1_000_000;
    if size.min(kind.bytes) < space {
        return Err(format!(
            "{name} of {} MB is smaller than the file of the cache, {} MB: a smaller --disk, or --medium {name}:SIZE",
            megabytes(size.min(kind.bytes)),
            megabytes(space)
        ));
    }
    let sized = kind.sliced || given.size.is_some();
    if sized && !(LEAST_SIZE..=kind.bytes).contains(&size) {
        return Err(format!(
            "{name} of {size} bytes: from {LEAST_SIZE} to the {} that the drive has; a smaller --disk, or --medium \
             {name}:SIZE",
            kind.bytes
        ));
    }
    if kind.sliced && size > LARGE {
        (given.say)(&format!(
            "{name} of {} MB: about {} MB of memory for each recipe at work",
            megabytes(size),
            megabytes(size / 480)
        ));
    }
    Ok(on_ext4((kind.make)(size), kind.rules, TODAY, size, given))
}

/// With half of the memory for pages and half for other blocks.
fn on_ext4(device: Box<dyn Device>, rules: Rules, host: Host, size: u64, given: &Given) -> Box<dyn Medium> {
    let memory = bytes(given.memory, &given.scale);
    let host = Host { pages: memory / 2, metadata: memory / 2, ..host };
    Box::new(FileSystem::with(EXT4, device, rules, host, size))
}

/// A quarter more than the cache's file, for what files in blocks take more.
pub fn needed(scale: &Scale) -> u64 {
    scale.space() / 4 * 5 + (64 << 20)
}

fn bytes(memory: Memory, scale: &Scale) -> u64 {
    match memory {
        Memory::Suitable | Memory::Part(_) => (scale.disk / 8).max(LEAST_MEMORY),
        Memory::Bytes(bytes) => bytes.max(LEAST_MEMORY),
        Memory::Unbounded => 1 << 40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::ROOT;
    use crate::object::Object;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// One of each, on small disks; the real one in a folder of its own.
    fn all(directory: &std::path::Path) -> Vec<(&'static str, Box<dyn Medium>)> {
        let speeds = r#"{"read-4k": 9e3, "read-4k-32": 6e4, "read-1m": 9e2, "write-4k": 9e3, "write-4k-32": 6e4,
            "write-1m": 9e2, "create-8k": 9e3, "reread-8k": 2e5, "unlink-8k": 2e4}"#;
        let file = directory.join("speeds");
        std::fs::write(&file, speeds).unwrap();
        let given = |kind: &MediumKind| Given {
            scale: Scale { disk: 20 << 20, ..Scale::default() },
            size: None,
            path: if kind.takes == Takes::File { file.clone() } else { directory.to_path_buf() },
            memory: Memory::Unbounded,
            capture: None,
            say: &|_| {},
        };
        ALL.iter().map(|kind| (kind.name, (kind.make)(&given(kind)).unwrap())).collect()
    }

    #[test]
    fn media_are_written_as_the_table_says() {
        assert!(
            named("hdd-18t:64GiB")
                .is_ok_and(|(kind, argument)| kind.name == "hdd-18t" && argument == Some("64GiB"))
        );
        assert!(named("dir:/a:b").is_ok_and(|(_, argument)| argument == Some("/a:b")));
        for (text, why) in [
            ("x", "hdd-18t[:SIZE], sata-ssd[:SIZE]"),
            ("dir:", "dir:DIRECTORY"),
            ("measured", "measured:FILE"),
            ("st15150w:1", "takes nothing"),
        ] {
            assert!(named(text).err().unwrap().contains(why), "{text}");
        }
    }

    #[test]
    fn no_device_is_smaller_or_larger_than_can_be() {
        let make = |name: &str, size, disk| {
            let kind = named(name).unwrap().0;
            let scale = Scale { disk, ..Scale::default() };
            let (path, memory) = (PathBuf::new(), Memory::Suitable);
            (kind.make)(&Given { scale, size, path, memory, capture: None, say: &|_| {} }).map(|_| ())
        };
        for (name, size, disk) in [
            ("hdd-18t", Some(16 << 10), 4 << 10),
            ("hdd-18t", Some(0), 0),
            ("hdd-18t", Some(19_000_000_000_000), 1 << 20),
            ("nvme", Some(16 << 40), 1 << 20),
            ("nvme", None, 1000 << 40),
            ("hdd-18t", None, 1000 << 40),
        ] {
            let why = make(name, size, disk).unwrap_err();
            assert!(why.contains("a smaller --disk, or --medium"), "{why}");
        }
        assert_eq!(make("nvme", Some(64 << 20), 1 << 20), Ok(()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// Every medium, real or not, gives the same bytes and refuses the same calls.
        #[test]
        fn media_are_alike(
            turns in proptest::collection::vec((0u8..6, 0u64..5, 0u64..40_000, 1usize..30_000), 1..60),
        ) {
            let place = tempfile::tempdir().unwrap();
            let mut media = all(place.path());
            let dirs: Vec<_> = media.iter_mut().map(|(_, medium)| medium.mkdir(ROOT, 99).unwrap()).collect();
            let mut model: HashMap<u64, Vec<u8>> = HashMap::new();
            for (turn, name, at, length) in turns {
                let known = model.contains_key(&name);
                let at = at.min(model.get(&name).map_or(0, |bytes| bytes.len() as u64));
                let mut bytes = vec![0; length];
                Object { id: name, version: u32::from(turn), ..Object::default() }.fill(0, &mut bytes);
                for ((kind, medium), dir) in media.iter_mut().zip(&dirs) {
                    match turn {
                        0 => prop_assert_eq!(medium.unlink(*dir, name).is_ok(), known, "{}", kind),
                        1 => medium.sync().unwrap(),
                        2 => {
                            let found = medium.open(*dir, name);
                            prop_assert_eq!(found.is_ok(), known, "{}", kind);
                            if let Ok(file) = found {
                                let mut back = vec![1; length];
                                medium.read(file, at, &mut back).unwrap();
                                medium.close(file).unwrap();
                                let mut right = model[&name][at as usize..].to_vec();
                                right.resize(length, 0);
                                prop_assert!(back == right, "{} read other bytes", kind);
                            }
                        }
                        _ => {
                            let file = if known { medium.open(*dir, name) } else { medium.create(*dir, name) };
                            let file = file.unwrap();
                            medium.write(file, at, &bytes).unwrap();
                            medium.close(file).unwrap();
                        }
                    }
                }
                match turn {
                    0 => drop(model.remove(&name)),
                    1 | 2 => {}
                    _ => {
                        let held = model.entry(name).or_default();
                        held.resize(held.len().max(at as usize + length), 0);
                        held[at as usize..at as usize + length].copy_from_slice(&bytes);
                    }
                }
            }
            for (kind, medium) in &media {
                prop_assert!(medium.seconds() > 0.0, "{}", kind);
            }
        }
    }
}
