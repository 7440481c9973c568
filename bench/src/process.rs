//! Processes that a run starts: each on its core, found by the address it prints, ended by its number.

use crate::{cleanup, usage};
use clap::Args;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A program that has not said by then where it listens has failed.
const READY: Duration = Duration::from_secs(120);

#[derive(Args)]
pub struct Pinned {
    #[arg(long)]
    cpu: usize,
    /// A control group to be in.
    #[arg(long)]
    join: Vec<PathBuf>,
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
        if let Err(error) = pin(self.cpu).and_then(|()| self.join.iter().try_for_each(|group| join(group))) {
            return error;
        }
        let error = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        format!("run {}: {error}", self.command[0].display())
    }
}

fn join(group: &Path) -> Result<(), String> {
    std::fs::write(group.join("cgroup.procs"), "0").map_err(|e| format!("join {}: {e}", group.display()))
}

/// Keeps the calling thread, and threads it starts later, on one core.
pub fn pin(cpu: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| format!("pin to core {cpu}: {e}"))
}

/// Descriptors as a server has them, or as many as we may; those that we start inherit the limit.
pub fn open_many() -> Result<(), String> {
    const MANY: u64 = 65_536;
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(MANY);
    let limits = [MANY.max(most), most].map(|limit| Rlimit { current: Some(limit), maximum: Some(limit) });
    let [wanted, given] = limits;
    setrlimit(Resource::Nofile, wanted)
        .or_else(|_| setrlimit(Resource::Nofile, given))
        .map_err(|e| format!("open files: {e}"))
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
    /// A program that says its address.
    pub fn start(cpu: usize, program: &OsStr, arguments: &[OsString], says: Says) -> Result<Server, String> {
        let (mut server, told) = Server::spawn(cpu, &[], program, arguments, says)?;
        match wait_ready(&told, says) {
            Ok((address, at)) => {
                (server.address, server.ready) = (address, at - server.started);
                Ok(server)
            }
            Err(said) => Err(format!("{} did not get ready: {said}", program.display())),
        }
    }

    /// A program that was told its address; ready when it lets one connect.
    pub fn start_at(
        cpu: usize,
        groups: &[PathBuf],
        program: &OsStr,
        arguments: &[OsString],
        address: SocketAddr,
    ) -> Result<Server, String> {
        let (mut server, told) = Server::spawn(cpu, groups, program, arguments, Says::Stderr)?;
        server.address = address;
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || server.started.elapsed() > READY {
                let last = told.try_iter().last().map(|line| line.0).unwrap_or_default();
                return Err(format!("{} did not get ready: {last}", program.display()));
            }
            sleep(Duration::from_millis(2));
        }
        server.ready = server.started.elapsed();
        Ok(server)
    }

    /// A program that comes to an end, well.
    pub fn run(
        cpu: usize,
        groups: &[PathBuf],
        program: &OsStr,
        arguments: &[OsString],
    ) -> Result<(), String> {
        let (mut server, told) = Server::spawn(cpu, groups, program, arguments, Says::Stderr)?;
        let status = server.child.wait().map_err(|e| format!("{}: {e}", program.display()))?;
        if status.success() {
            return Ok(());
        }
        let last = told.iter().last().map(|line| line.0).unwrap_or_default();
        Err(format!("{}: {status}: {last}", program.display()))
    }

    fn spawn(
        cpu: usize,
        groups: &[PathBuf],
        program: &OsStr,
        arguments: &[OsString],
        says: Says,
    ) -> Result<(Server, Receiver<Line>), String> {
        let mut command = Command::new(crate::own_path()?);
        command.arg("pinned").arg("--cpu").arg(cpu.to_string());
        for group in groups {
            command.arg("--join").arg(group);
        }
        command.arg("--").arg(program).args(arguments);
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
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok((Server { child, pid, address: nowhere, ready: Duration::ZERO, started }, told))
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
    /// Told to read its settings again.
    pub fn reload(&self) -> Result<(), String> {
        kill_process(self.pid, Signal::HUP).map_err(|e| format!("reload: {e}"))
    }
    /// Told to end, and waited for.
    pub fn stop(mut self) -> Result<(), String> {
        kill_process(self.pid, Signal::TERM).map_err(|e| format!("stop: {e}"))?;
        let status = self.child.wait().map_err(|e| format!("stop: {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("it stopped with {status}")) }
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
    // One that was waited for no longer owns its number.
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        kill_all(pid);
    }
    cleanup::forget(pid);
    let _ = child.wait();
}

/// A process and all below it. One that has others below it waits for them and then ends by itself, so that nobody is
/// left behind when it has ended.
pub fn kill_all(pid: Pid) {
    let below = usage::below(pid);
    for one in &below {
        let _ = kill_process(*one, Signal::KILL);
    }
    if below.is_empty() {
        let _ = kill_process(pid, Signal::KILL);
    }
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
