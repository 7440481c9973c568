//! Where topics run: an origin, and the program before it.

use crate::load::{Order, Plan, Speaks, Target};
use crate::process::{Says, Server};
use crate::{admin, loopback, own_path};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Of the origin: with thousands of bodies that nobody takes, the kernel's memory would be the bound otherwise, which both ends have
/// from one machine.
const SEND_BUFFER: &str = "65536";

pub struct Bed {
    cosm: PathBuf,
    pub folder: PathBuf,
    proxy_core: usize,
    origin: Server,
}

impl Bed {
    pub fn open(cosm: &Path, folder: &Path, (proxy_core, load_core): (usize, usize)) -> Result<Bed, String> {
        let words = ["origin", "--send-buffer", SEND_BUFFER].map(OsString::from);
        let origin = Server::start(load_core, own_path()?.as_os_str(), &words, Says::Stdout)?;
        Ok(Bed { cosm: cosm.into(), folder: folder.into(), proxy_core, origin })
    }

    /// With one worker and without a memory tier, so that every hit is read from the disk, unless the options say otherwise; in these
    /// control groups.
    pub fn start(&self, groups: &[PathBuf], options: &[String]) -> Result<Proxy, String> {
        let origin = format!("http://{}", self.origin.address());
        // Another start has another port, but the same keys.
        let before_it = ["--origin", &origin, "--origin-host", "origin"].map(str::to_owned);
        self.launch(groups, &[&before_it, options].concat(), None)
    }

    /// The same as a forward proxy.
    pub fn start_forward(&self, options: &[String]) -> Result<Proxy, String> {
        self.launch(&[], options, Some(self.origin.address()))
    }

    fn launch(
        &self,
        groups: &[PathBuf],
        options: &[String],
        of: Option<SocketAddr>,
    ) -> Result<Proxy, String> {
        let (listen, admin_at) = (loopback::free()?, loopback::free()?);
        let origin = format!("http://{}", self.origin.address());
        let mut words: Vec<OsString> = vec!["serve".into()];
        for (name, value) in [("--workers", "1"), ("--memory", "0")] {
            if !options.iter().any(|option| option == name) {
                words.extend([name, value].map(OsString::from));
            }
        }
        words.extend(["--listen", &listen.to_string(), "--admin", &admin_at.to_string()].map(OsString::from));
        words.extend(options.iter().map(OsString::from));
        let server = Server::start_at(self.proxy_core, groups, self.cosm.as_os_str(), &words, listen)?;
        // It may come a moment after the proxy.
        until("the admin interface", Duration::from_secs(60), || Ok(admin::stats(admin_at).is_ok()))?;
        Ok(Proxy { server, admin: admin_at, origin, of })
    }
}

pub struct Proxy {
    pub server: Server,
    pub admin: SocketAddr,
    origin: String,
    /// Whose objects a forward proxy is asked for.
    of: Option<SocketAddr>,
}

impl Proxy {
    pub fn target(&self) -> Target {
        Target { server: self.server.address(), origin: self.of, tagged: true, close: false }
    }

    /// A closed loop.
    pub fn plan(&self, size: u64, order: Order) -> Plan {
        let target = self.target();
        Plan {
            target,
            speaks: Speaks::Http,
            size,
            workload: None,
            order,
            connections: 16,
            lasts: None,
            check_every: 64,
        }
    }

    pub fn stats(&self) -> Result<serde_json::Value, String> {
        admin::stats(self.admin)
    }

    /// One number of `store` in `/stats.json`.
    pub fn store(&self, name: &str) -> Result<u64, String> {
        number(&self.stats()?["store"], name)
    }

    pub fn purge(&self, size: u64, number: u64) -> Result<(), String> {
        admin::purge(self.admin, &format!("{}/s/{size}/{number}", self.origin))
    }

    /// Until what was taken is on the device: a flush interval, and the write after it.
    pub fn settle(&self) -> Result<(), String> {
        sleep(Duration::from_secs(2));
        self.written()
    }

    /// Until nothing waits to be written.
    pub fn written(&self) -> Result<(), String> {
        until("writes to end", Duration::from_secs(120), || Ok(self.store("waiting-writes")? == 0))
            .map(|_| ())
    }
}

/// One number of what `/stats.json` tells.
pub fn number(section: &serde_json::Value, name: &str) -> Result<u64, String> {
    section[name].as_u64().ok_or_else(|| format!("/stats.json has no {name}"))
}

/// Asks again and again; says how long it took.
pub fn until(
    what: &str,
    within: Duration,
    mut is: impl FnMut() -> Result<bool, String>,
) -> Result<Duration, String> {
    let began = Instant::now();
    while !is()? {
        if began.elapsed() > within {
            return Err(format!("waited in vain for {what}: {within:?}"));
        }
        sleep(Duration::from_millis(50));
    }
    Ok(began.elapsed())
}
