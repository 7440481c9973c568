//! Where the runs take place: two cores, one origin for all, a folder on the measured disk, the peers' programs.

use super::certificate::Certificate;
use super::contender::{Contender, Tier};
use super::packages::Packages;
use super::scale::Scale;
use crate::origin::{self, Asked};
use crate::process::{Says, Server};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

pub struct Field {
    pub cosm: PathBuf,
    pub before: Option<PathBuf>,
    pub folder: PathBuf,
    pub proxy_core: usize,
    pub origin: Server,
    pub packages: Packages,
    pub contenders: Vec<Contender>,
    pub scale: Scale,
    /// Everyone's, where TLS is spoken.
    pub certificate: Certificate,
}

impl Field {
    pub fn open(
        (cosm, before): (PathBuf, Option<PathBuf>),
        folder: PathBuf,
        (proxy_core, load_core): (usize, usize),
        packages: Packages,
        contenders: Vec<Contender>,
        scale: Scale,
    ) -> Result<Field, String> {
        let own = crate::own_path()?;
        let origin = Server::start(load_core, own.as_os_str(), &["origin".into()], Says::Stdout)?;
        let certificate = Certificate::make()?;
        Ok(Field { cosm, before, folder, proxy_core, origin, packages, contenders, scale, certificate })
    }

    pub fn at_home(&self, tier: Tier) -> impl Iterator<Item = Contender> + '_ {
        self.contenders.iter().copied().filter(move |one| one.tiers.contains(&tier))
    }

    /// What the origin was asked for since it started.
    pub fn asked(&self) -> Result<Asked, String> {
        origin::asked(self.origin.address())
    }

    /// How long every answer of the origin takes from now on.
    pub fn delay(&self, delay: Duration) -> Result<(), String> {
        origin::delay(self.origin.address(), delay)
    }
}

/// Words for a program.
pub fn os(words: &[String]) -> Vec<std::ffi::OsString> {
    words.iter().map(|word| OsStr::new(word).to_owned()).collect()
}
