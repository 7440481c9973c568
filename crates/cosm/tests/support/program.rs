//! The program under test as a child process that never outlives its guard.

use super::SOON;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub const COSM: &str = env!("CARGO_BIN_EXE_cosm");

/// A running `cosm serve`.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    pub address: SocketAddr,
    admin: Option<SocketAddr>,
    /// The line that said so.
    pub readiness: String,
    /// What it said before: of the cache.
    pub opened: String,
    /// From exec to the line that it is ready.
    pub took: Duration,
}

impl Server {
    /// `cosm serve` on a free port, with `options` (separated by spaces) on `cache`, without a memory tier unless they name one; ready when this returns.
    pub fn start(cache: &Path, options: &str) -> Server {
        Server::start_writing(cache, options, Stdio::null())
    }

    /// The same, and its standard output goes somewhere.
    pub fn start_writing(cache: &Path, options: &str, to: impl Into<Stdio>) -> Server {
        let began = Instant::now();
        let mut child = Command::new(COSM)
            .args(["serve", "--cache"])
            .arg(cache)
            .args(if options.contains("--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(if options.contains("--workers") { &[][..] } else { &["--workers", "1"] })
            .args(if options.contains("--memory") { &[][..] } else { &["--memory", "0"] })
            .args(options.split_whitespace())
            .stdin(Stdio::null())
            .stdout(to)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut server = Server {
            child,
            lines,
            address: ([0; 4], 0).into(),
            admin: None,
            readiness: String::new(),
            opened: String::new(),
            took: Duration::ZERO,
        };
        let mut said = Vec::new();
        while let Ok(line) = server.lines.recv_timeout(SOON) {
            if let Some(address) = listening(&line) {
                (server.address, server.readiness, server.took) = (address, line, began.elapsed());
                server.opened = said.concat();
                return server;
            }
            if let Some(admin) = line.strip_prefix("cosm: admin on ") {
                server.admin = admin.parse().ok();
            }
            said.push(line);
        }
        panic!("cosm serve {options} did not become ready: {said:#?}");
    }

    /// Where the admin interface is, by TCP.
    pub fn admin(&self) -> SocketAddr {
        self.admin.expect("--admin with an address")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of a process that was killed by its id.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The next line on standard error.
    pub fn next_line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line on standard error")
    }

    /// The next line of the error log on standard error, without its time.
    pub fn next_event(&self) -> String {
        let line = self.next_line();
        let after_time = line.strip_prefix("cosm: ").and_then(|line| line.split_once("Z "));
        after_time.map(|(_, event)| event.to_owned()).unwrap_or_else(|| panic!("no event: {line}"))
    }

    /// Bytes of memory that are its own.
    pub fn memory(&self) -> u64 {
        self.status("RssAnon:")
    }

    /// The most bytes of memory that it ever had, its program's file among them.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// A size of /proc/PID/status, bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// SIGTERM: drains, and must end by itself.
    pub fn stop(self) -> ExitStatus {
        self.end().0
    }

    /// What it said on standard error since it was ready, until it ended by SIGTERM.
    pub fn said_until_stopped(self) -> Vec<String> {
        self.end().1
    }

    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        // Its standard error closes when it ends: no need to ask again and again.
        let until = Instant::now() + SOON;
        let line = || self.lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        let said = std::iter::from_fn(line).collect();
        assert!(Instant::now() < until, "cosm did not end after SIGTERM");
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new(COSM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The readiness line ends in the address.
fn listening(line: &str) -> Option<SocketAddr> {
    if line.starts_with("cosm: admin on ") {
        return None;
    }
    line.rsplit(' ')
        .next()?
        .trim_start_matches("tls:")
        .parse()
        .ok()
        .filter(|address: &SocketAddr| address.port() != 0)
}
