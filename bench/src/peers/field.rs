//! Where the runs take place: two cores, one origin for all, a folder on the measured disk, the peers' programs.

use super::contender::{Contender, Tier};
use super::packages::Packages;
use super::scale::Scale;
use crate::process::{Says, Server};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

pub struct Field {
    pub cosm: PathBuf,
    pub folder: PathBuf,
    pub proxy_core: usize,
    pub origin: Server,
    pub packages: Packages,
    pub contenders: Vec<Contender>,
    pub scale: Scale,
}

/// What the origin was asked for since it started.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub requests: u64,
    pub bytes: u64,
}

impl Asked {
    pub fn since(self, before: Asked) -> Asked {
        Asked { requests: self.requests - before.requests, bytes: self.bytes - before.bytes }
    }
}

impl Field {
    pub fn open(
        cosm: PathBuf,
        folder: PathBuf,
        (proxy_core, load_core): (usize, usize),
        packages: Packages,
        contenders: Vec<Contender>,
        scale: Scale,
    ) -> Result<Field, String> {
        let own = crate::own_path()?;
        let origin = Server::start(load_core, own.as_os_str(), &["origin".into()], Says::Stdout)?;
        Ok(Field { cosm, folder, proxy_core, origin, packages, contenders, scale })
    }

    pub fn at_home(&self, tier: Tier) -> impl Iterator<Item = Contender> + '_ {
        self.contenders.iter().copied().filter(move |one| one.tiers.contains(&tier))
    }

    pub fn asked(&self) -> Result<Asked, String> {
        self.control("count")
    }

    /// How long every answer of the origin takes from now on.
    pub fn delay(&self, delay: Duration) -> Result<(), String> {
        self.control(&format!("delay/{}", delay.as_millis())).map(|_| ())
    }

    fn control(&self, what: &str) -> Result<Asked, String> {
        let say = |e: std::io::Error| format!("origin: {e}");
        let mut stream = TcpStream::connect(self.origin.address()).map_err(say)?;
        write!(stream, "GET /control/{what} HTTP/1.1\r\n\r\n").map_err(say)?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") || answer.ends_with(b"\r\n") {
            let mut piece = [0; 512];
            let count = stream.read(&mut piece).map_err(say)?;
            if count == 0 {
                break;
            }
            answer.extend_from_slice(&piece[..count]);
        }
        let text = String::from_utf8_lossy(&answer);
        let mut figures = text.lines().last().unwrap_or_default().split(' ').map(|word| word.parse().ok());
        match (figures.next().flatten(), figures.next().flatten()) {
            (Some(requests), Some(bytes)) => Ok(Asked { requests, bytes }),
            _ => Err("the origin does not tell what it was asked for".into()),
        }
    }
}

/// Words for a program.
pub fn os(words: &[String]) -> Vec<std::ffi::OsString> {
    words.iter().map(|word| OsStr::new(word).to_owned()).collect()
}
