//! Processes that a run starts: each on its core, found by the address it prints, ended by its number.

use crate::cleanup;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A program that has not said by then where it listens has failed.
const READY: Duration = Duration::from_secs(120);

#[derive(Args)]
pub struct Pinned {
    #[arg(long)]
    cpu: usize,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Pinned {
    /// Becomes the program; returns only when that fails.
    pub fn exec(self) -> String {
        // Kept across exec: whoever starts us may be killed without a chance to end us.
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
            return format!("parent-death signal: {error}");
        }
        if let Err(error) = pin(self.cpu) {
            return error;
        }
        let error = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        format!("run {}: {error}", self.command[0].display())
    }
}

/// Keeps the calling thread, and threads it starts later, on one core.
pub fn pin(cpu: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| format!("pin to core {cpu}: {e}"))
}

/// The cores for the proxy and for load and origin: two that we may use, the same one if there is no other.
pub fn cores() -> Result<(usize, usize), String> {
    let set = sched_getaffinity(None).map_err(|e| format!("cores: {e}"))?;
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    let first = allowed.next().ok_or("no core to run on")?;
    Ok((first, allowed.next().unwrap_or(first)))
}

/// Which stream a program prints its address on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Says {
    Stdout,
    Stderr,
}

/// A started server; dropping it kills it.
pub struct Server {
    child: Child,
    pid: Pid,
    address: SocketAddr,
    /// From the start of the program to the line with its address.
    ready: Duration,
    started: Instant,
}

impl Server {
    pub fn start(cpu: usize, program: &OsStr, arguments: &[OsString], says: Says) -> Result<Server, String> {
        let mut command = Command::new(crate::own_path()?);
        command.arg("pinned").arg("--cpu").arg(cpu.to_string()).arg("--").arg(program).args(arguments);
        // Its own process group: Ctrl-C is for us, and we end our processes in order.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|e| format!("start {}: {e}", program.display()))?;
        let pid = Pid::from_child(&child);
        cleanup::remember(pid);
        let (tell, told) = channel();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let stderr = child.stderr.take().ok_or("no standard error")?;
        listen(stdout, (says == Says::Stdout).then(|| tell.clone()));
        listen(stderr, Some(tell));
        match wait_ready(&told, says) {
            Ok((address, at)) => Ok(Server { child, pid, address, ready: at - started, started }),
            Err(said) => {
                end(&mut child, pid);
                Err(format!("{} did not get ready: {said}", program.display()))
            }
        }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }
    pub fn address(&self) -> SocketAddr {
        self.address
    }
    pub fn ready(&self) -> Duration {
        self.ready
    }
    pub fn started(&self) -> Instant {
        self.started
    }
    /// At once, without a chance to save anything.
    pub fn kill(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child, self.pid);
    }
}

fn end(child: &mut Child, pid: Pid) {
    // Not waited for yet, so the number is still its own.
    let _ = kill_process(pid, Signal::KILL);
    cleanup::forget(pid);
    let _ = child.wait();
}

type Line = (String, Instant);

/// Reads to the end, so that the program never blocks on its output; the first lines go to `tell`.
fn listen(stream: impl Read + Send + 'static, tell: Option<Sender<Line>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if let Some(tell) = &tell {
                let _ = tell.send((line, Instant::now()));
            }
        }
    });
}

/// The address and when it was said; what was said instead, if the program ended or stayed silent.
fn wait_ready(told: &Receiver<Line>, says: Says) -> Result<(SocketAddr, Instant), String> {
    let mut said = String::new();
    let until = Instant::now() + READY;
    loop {
        match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((line, at)) => match address_in(&line, says) {
                Some(address) => return Ok((address, at)),
                None => said = line,
            },
            Err(RecvTimeoutError::Timeout) => return Err(format!("silent for {READY:?}")),
            Err(RecvTimeoutError::Disconnected) => return Err(said),
        }
    }
}

/// The first `127.0.0.1:PORT` of a line; our own servers print nothing else.
fn address_in(line: &str, says: Says) -> Option<SocketAddr> {
    if says == Says::Stdout {
        return line.parse().ok();
    }
    let at = line.find("127.0.0.1:")?;
    let rest = &line[at..];
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '.' | ':')).unwrap_or(rest.len());
    rest[..end].trim_end_matches(['.', ':']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readiness_line_names_the_address() {
        let found = |line| address_in(line, Says::Stderr).map(|address| address.port());
        assert_eq!(found("cosm: forward proxy on 127.0.0.1:3128, cache a.cosm"), Some(3128));
        assert_eq!(found("cosm: forward proxy on 127.0.0.1:3128."), Some(3128));
        assert_eq!(found("cosm: recovered 12 objects"), None);
    }
}
