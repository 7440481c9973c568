//! What systemd, or whoever does as it does, is told and gives: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3).

use listenfd::ListenFd;
use proxy::Handed;
use rustix::time::{ClockId, clock_gettime};
use std::env::var;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Whom a service tells how it is, if anybody wants to know.
#[derive(Clone)]
pub struct Notify {
    to: Option<SocketAddr>,
    is_mute: Arc<AtomicBool>,
}

impl Notify {
    pub fn of_environment() -> Notify {
        Notify::to(var("NOTIFY_SOCKET").ok().and_then(|path| address(&path)))
    }

    fn to(to: Option<SocketAddr>) -> Notify {
        Notify { to, is_mute: Arc::default() }
    }

    /// Another process serves: it speaks for the service, and this one says nothing more.
    pub fn mute(&self) {
        self.is_mute.store(true, Relaxed);
    }

    /// That nobody listens is no reason to stop.
    fn tell(&self, text: &str) {
        if let Some(to) = self.to.as_ref().filter(|_| !self.is_mute.load(Relaxed)) {
            let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(text.as_bytes(), to));
        }
    }

    /// This process serves, and no other of the service.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("MAINPID={}\nREADY=1\nSTATUS={status}", std::process::id()));
    }

    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    pub fn reloaded(&self) {
        self.tell("READY=1");
    }

    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishes what is under way");
    }

    /// Tells each `period` that this process is alive, if it is, for as long as it speaks for the service.
    pub fn keep_alive(&self, period: Duration, is_alive: impl Fn() -> bool) {
        while !self.is_mute.load(Relaxed) {
            if is_alive() {
                self.tell("WATCHDOG=1");
            }
            std::thread::sleep(period);
        }
    }
}

/// A path, or with `@` a name without a file.
fn address(path: &str) -> Option<SocketAddr> {
    match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(path).ok(),
    }
}

/// How often it wants to hear that this process is alive: it ends one that it has not heard of for twice as long. A process that
/// took over has the same task as the one before.
pub fn watchdog(took_over: bool) -> Option<Duration> {
    let is_for_us = took_over || var("WATCHDOG_PID").map_or(true, |id| id.parse() == Ok(std::process::id()));
    let micros: u64 = var("WATCHDOG_USEC").ok()?.parse().ok().filter(|micros| *micros > 0 && is_for_us)?;
    Some(Duration::from_micros(micros) / 2)
}

/// The listening sockets that this process was started with. No process that it starts has them too.
pub fn sockets() -> Result<Vec<Handed>, String> {
    let is_for_us = var("LISTEN_PID").is_ok_and(|id| id.parse() == Ok(std::process::id()));
    let mut given = if is_for_us { ListenFd::from_env() } else { ListenFd::empty() };
    let mut sockets = Vec::new();
    for n in 0..given.len() {
        let socket = match given.take_tcp_listener(n) {
            Ok(tcp) => tcp.map(OwnedFd::from),
            Err(_) => match given.take_unix_listener(n) {
                Ok(unix) => unix.map(OwnedFd::from),
                Err(_) => {
                    return Err(format!("LISTEN_FDS: descriptor {} is no TCP or Unix stream socket", 3 + n));
                }
            },
        };
        sockets.extend(socket.map(|socket| Handed { given: None, socket }));
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn what_is_told_arrives_by_path_and_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@cosm-test-{}", std::process::id());
        for at in [path.to_str().unwrap(), &name] {
            let receiver = UnixDatagram::bind_addr(&address(at).unwrap()).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let notify = Notify::to(address(at));
            let heard = || {
                let mut text = [0; 200];
                let n = receiver.recv(&mut text).unwrap();
                String::from_utf8_lossy(&text[..n]).into_owned()
            };
            notify.ready("serves");
            assert_eq!(heard(), format!("MAINPID={}\nREADY=1\nSTATUS=serves", std::process::id()));
            notify.reloading();
            let text = heard();
            let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
            assert!(micros.parse::<u64>().unwrap() > 0);
        }
        // Nobody listens there any more.
        Notify::to(address(path.to_str().unwrap())).stopping();
    }

    #[test]
    fn the_watchdog_hears_nothing_of_a_process_that_is_stuck_or_was_replaced() {
        let name = format!("@cosm-test-watchdog-{}", std::process::id());
        let receiver = UnixDatagram::bind_addr(&address(&name).unwrap()).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let heard = || {
            let mut text = [0; 200];
            std::iter::from_fn(|| receiver.recv(&mut text).ok().map(|n| text[..n].to_vec()))
                .collect::<Vec<_>>()
        };
        let notify = Notify::to(address(&name));
        let (looks, by_look) = (Cell::new(0), RefCell::new(Vec::new()));
        notify.keep_alive(Duration::from_millis(1), || {
            by_look.borrow_mut().push(heard().len());
            looks.set(looks.get() + 1);
            match looks.get() {
                1 | 4 => true,
                2 | 3 => false,
                _ => {
                    notify.mute();
                    true
                }
            }
        });
        assert_eq!(by_look.into_inner(), [0, 1, 0, 0, 1]);
        notify.stopping();
        assert_eq!(heard(), [] as [Vec<u8>; 0]);
    }
}
