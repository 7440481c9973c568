//! Where the runs take place: the proxy's core, the folder on the measured disk, and one origin for all.

use super::scale::Scale;
use crate::load::Target;
use crate::process::{Says, Server};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub struct Field {
    pub cosm: PathBuf,
    pub folder: PathBuf,
    pub proxy_core: usize,
    pub origin: Server,
    pub scale: Scale,
}

impl Field {
    pub fn open(
        cosm: PathBuf,
        folder: PathBuf,
        (proxy_core, load_core): (usize, usize),
        scale: Scale,
    ) -> Result<Field, String> {
        let own = crate::own_path()?;
        let origin = Server::start(load_core, own.as_os_str(), &words(&["origin"]), Says::Stdout)?;
        Ok(Field { cosm, folder, proxy_core, origin, scale })
    }

    /// A server of this program on the proxy's core.
    pub fn reference(&self, name: &str, size: u64) -> Result<Server, String> {
        let arguments = words(&[name, "--size", &size.to_string()]);
        Server::start(self.proxy_core, crate::own_path()?.as_os_str(), &arguments, Says::Stdout)
    }

    pub fn cosm(&self, cache: &Path, size: &str, memory: &str) -> Result<Server, String> {
        let mut arguments = words(&["serve", "--listen", "127.0.0.1:0", "--workers", "1"]);
        arguments.extend(words(&["--cache-size", size, "--memory", memory, "--cache"]));
        arguments.push(cache.into());
        Server::start(self.proxy_core, self.cosm.as_os_str(), &arguments, Says::Stderr)
    }

    /// Asks the server, as a forward proxy, for the origin's objects.
    pub fn forward(&self, server: &Server) -> Target {
        let origin = Some(self.origin.address());
        Target { server: server.address(), origin, tagged: false, close: false }
    }

    pub fn cache_file(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("cosm")
    }
}

/// Makes room for the next part.
pub fn discard(cache: &Path) -> Result<(), String> {
    std::fs::remove_file(cache).map_err(|e| format!("{}: {e}", cache.display()))
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(|word| OsStr::new(word).to_owned()).collect()
}
