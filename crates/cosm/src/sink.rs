//! Where lines of logs go: a file, which is kept small by moving it aside, standard output or error, or a log daemon's socket.

use crate::preflight::{folder_of, makes_files_in};
use proxy::say;
use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    File(PathBuf),
    Stdout,
    Stderr,
    /// A datagram a line to /dev/log (RFC 3164).
    Syslog,
    /// A datagram a line to journald's own socket.
    Journald,
}

/// When a file is moved aside, to NAME.1, and so on, and how many of these are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Bytes.
    pub size: Option<u64>,
    pub age: Option<Duration>,
    pub keep: u64,
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation { size: None, age: None, keep: 10 }
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::File(path) => path.display().fmt(f),
            To::Stdout => f.write_str("standard output"),
            To::Stderr => f.write_str("standard error"),
            To::Syslog => f.write_str("syslog"),
            To::Journald => f.write_str("journald"),
        }
    }
}

/// How grave what a line says is: a log daemon's word for it (RFC 5424 section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error = 3,
    Warning = 4,
    Info = 6,
    Debug = 7,
}

pub enum Output {
    File(Rotated),
    Stdout,
    Stderr,
    Daemon(Daemon),
}

impl To {
    /// Whether it could be opened; makes no file.
    pub fn check(&self) -> io::Result<()> {
        match self {
            To::File(path) if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            To::File(path) if path.exists() => Ok(access(path, Access::WRITE_OK)?),
            To::File(path) => Ok(makes_files_in(folder_of(path))?),
            To::Stdout | To::Stderr => Ok(()),
            To::Syslog | To::Journald => Output::open(self, Rotation::default()).map(|_| ()),
        }
    }
}

impl Output {
    pub fn open(to: &To, rotation: Rotation) -> io::Result<Output> {
        match to {
            To::File(path) => Rotated::open(path, rotation).map(Output::File),
            To::Stdout => Ok(Output::Stdout),
            To::Stderr => Ok(Output::Stderr),
            To::Syslog => Daemon::connect("/dev/log".into(), Style::Syslog).map(Output::Daemon),
            To::Journald => {
                Daemon::connect("/run/systemd/journal/socket".into(), Style::Journald).map(Output::Daemon)
            }
        }
    }

    /// Writes whole lines.
    pub fn write(&mut self, lines: &[u8], severity: Severity, now: Duration) -> io::Result<()> {
        match self {
            Output::File(file) => file.write(lines, now),
            Output::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines).and_then(|()| out.flush())
            }
            Output::Stderr => proxy::write_stderr(lines),
            Output::Daemon(daemon) => daemon.write(lines, severity),
        }
    }

    /// Opens a file anew, which somebody may have moved aside.
    pub fn reopen(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.reopen(),
            Output::Stdout | Output::Stderr | Output::Daemon(_) => Ok(()),
        }
    }
}

/// A file that is moved aside when it is large or old.
pub struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
    /// Since when it is written, on the clock that `write` is told.
    since: Option<Duration>,
    /// It could not be moved aside: when that is tried again.
    again: Option<Duration>,
    /// Lines may have been cut off in the middle.
    torn: bool,
}

/// How long a file that cannot be moved aside goes on before that is tried again.
const AGAIN: Duration = Duration::from_secs(60);

impl Rotated {
    fn open(path: &Path, rotation: Rotation) -> io::Result<Rotated> {
        let (file, bytes) = append_to(path)?;
        Ok(Rotated { path: path.into(), rotation, file, bytes, since: None, again: None, torn: false })
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.bytes) = append_to(&self.path)?;
        (self.since, self.torn) = (None, false);
        Ok(())
    }

    fn write(&mut self, lines: &[u8], now: Duration) -> io::Result<()> {
        let since = *self.since.get_or_insert(now);
        let is_large = self.rotation.size.is_some_and(|size| self.bytes + lines.len() as u64 > size);
        let is_old = self.rotation.age.is_some_and(|age| now.saturating_sub(since) >= age);
        let may_try = self.again.is_none_or(|again| now >= again);
        if self.bytes > 0 && (is_large || is_old) && may_try {
            self.again = None;
            match self.rotate() {
                Ok(()) => self.since = Some(now),
                // Rather a file that is too large than lines that are lost.
                Err(error) => {
                    self.again = Some(now + AGAIN);
                    say(format_args!(
                        "log {} cannot be moved aside: {error}; it goes on as it is",
                        self.path.display()
                    ));
                }
            }
        }
        if std::mem::take(&mut self.torn) {
            // What was cut off shall not be taken for the beginning of another line.
            self.write_out(b"\n")?;
        }
        self.write_out(lines)
    }

    fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.torn = true;
        self.file.write_all(bytes)?;
        self.torn = false;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let keep = self.rotation.keep;
        // It was moved before, and there was no new one then.
        if !self.path.try_exists()? {
            return self.reopen();
        }
        for n in (1..keep).rev() {
            move_aside(&self.aside(n), &self.aside(n + 1))?;
        }
        match keep {
            0 => fs::remove_file(&self.path)?,
            _ => move_aside(&self.path, &self.aside(1))?,
        }
        self.reopen()
    }

    fn aside(&self, n: u64) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{n}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    // It says who asked for what.
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640);
    // A pipe that nobody reads is an error, not a reason to wait; afterwards its reader may take its time.
    options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn move_aside(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A log daemon of this machine.
pub struct Daemon {
    socket: UnixDatagram,
    path: PathBuf,
    style: Style,
    message: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Style {
    Syslog,
    Journald,
}

impl Daemon {
    fn connect(path: PathBuf, style: Style) -> io::Result<Daemon> {
        let socket = UnixDatagram::unbound()?;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        socket.connect(&path).map_err(named)?;
        socket.set_write_timeout(Some(Duration::from_secs(1)))?;
        Ok(Daemon { socket, path, style, message: Vec::new() })
    }

    fn write(&mut self, lines: &[u8], severity: Severity) -> io::Result<()> {
        // Of the facility daemon.
        let (priority, severity) = (3 * 8 + severity as u8, severity as u8);
        let before = match self.style {
            Style::Syslog => format!("<{priority}>cosm: "),
            Style::Journald => format!("SYSLOG_IDENTIFIER=cosm\nPRIORITY={severity}\nMESSAGE="),
        };
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.message.clear();
            self.message.extend_from_slice(before.as_bytes());
            self.message.extend_from_slice(line);
            if let Style::Journald = self.style {
                self.message.push(b'\n');
            }
            if self.socket.send(&self.message).is_err() {
                // It was started anew.
                self.socket.connect(&self.path)?;
                self.socket.send(&self.message)?;
            }
        }
        Ok(())
    }
}

/// A clock that goes on, whatever is made of the time of day.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_file_is_moved_aside_when_it_is_large_or_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let rotation = Rotation { size: Some(10), age: Some(at(100)), keep: 2 };
        let mut file = Rotated::open(&path, rotation).unwrap();
        let read = |n: u64| {
            let name = if n == 0 { path.clone() } else { folder.path().join(format!("access.log.{n}")) };
            fs::read_to_string(name).ok()
        };
        for (when, lines) in [(0, "one 4\n"), (1, "two\n"), (2, "three\n"), (3, "f\n"), (102, "g\n")] {
            file.write(lines.as_bytes(), at(when)).unwrap();
        }
        assert_eq!([read(0), read(1), read(2)].map(Option::unwrap), ["g\n", "three\nf\n", "one 4\ntwo\n"]);
        file.write(b"something long\n", at(103)).unwrap();
        assert_eq!(
            [read(0), read(1), read(2)].map(Option::unwrap),
            ["something long\n", "g\n", "three\nf\n"]
        );
        assert_eq!(read(3), None, "no more are kept");
    }

    #[test]
    fn a_file_that_cannot_be_moved_aside_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        fs::create_dir_all(aside.join("in the way")).unwrap();
        let rotation = Rotation { size: Some(10), age: None, keep: 1 };
        let mut file = Rotated::open(&path, rotation).unwrap();
        let lines = ["one two\n", "three\n", "four\n"];
        lines.iter().for_each(|line| file.write(line.as_bytes(), at(0)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), lines.concat());
        fs::remove_dir_all(&aside).unwrap();
        file.write(b"five\n", AGAIN).unwrap();
        let read = [&aside, &path].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(read, [lines.concat(), "five\n".into()]);
    }

    /// It was moved, and there was no new one then.
    #[test]
    fn what_is_kept_stays_while_there_is_nothing_to_move() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let rotation = Rotation { size: Some(10), age: None, keep: 3 };
        let mut file = Rotated::open(&path, rotation).unwrap();
        file.write(b"one two\n", at(0)).unwrap();
        fs::rename(&path, &aside).unwrap();
        file.write(b"three\n", at(0)).unwrap();
        let read = [&aside, &path].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(read, ["one two\n", "three\n"]);
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_and_does_not_hold_up_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        assert!(Rotated::open(&path, Rotation::default()).is_err());
    }

    /// A disk that is full for a while.
    #[test]
    fn a_line_that_was_cut_off_is_no_beginning_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut file = Rotated::open(&path, Rotation::default()).unwrap();
        file.write(b"one\n", at(0)).unwrap();
        fs::write(&path, "one\ntw").unwrap();
        file.torn = true;
        file.write(b"three\n", at(1)).unwrap();
        file.write(b"four\n", at(2)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntw\nthree\nfour\n");
    }

    /// As RFC 3164 and journald's native protocol have it, also once the daemon was started anew.
    #[test]
    fn a_daemon_gets_a_datagram_a_line() {
        let folder = tempfile::tempdir().unwrap();
        for (style, expected) in [
            (Style::Syslog, ["<28>cosm: one", "<28>cosm: two"]),
            (
                Style::Journald,
                [
                    "SYSLOG_IDENTIFIER=cosm\nPRIORITY=4\nMESSAGE=one\n",
                    "SYSLOG_IDENTIFIER=cosm\nPRIORITY=4\nMESSAGE=two\n",
                ],
            ),
        ] {
            let path = folder.path().join("log");
            let socket = UnixDatagram::bind(&path).unwrap();
            let mut daemon = Daemon::connect(path.clone(), style).unwrap();
            let heard = |socket: &UnixDatagram| {
                let mut buffer = [0; 100];
                let len = socket.recv(&mut buffer).unwrap();
                String::from_utf8(buffer[..len].to_vec()).unwrap()
            };
            daemon.write(b"one\ntwo\n", Severity::Warning).unwrap();
            assert_eq!([heard(&socket), heard(&socket)], expected);
            drop(socket);
            fs::remove_file(&path).unwrap();
            assert!(daemon.write(b"lost\n", Severity::Warning).is_err());
            let socket = UnixDatagram::bind(&path).unwrap();
            daemon.write(b"one\n", Severity::Warning).unwrap();
            assert_eq!(heard(&socket), expected[0]);
            drop(socket);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_was_there_before_stays_and_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        fs::write(&path, "12345678\n").unwrap();
        let rotation = Rotation { size: Some(10), ..Rotation::default() };
        let mut file = Rotated::open(&path, rotation).unwrap();
        file.write(b"new\n", at(0)).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("access.log.1")).unwrap(), "12345678\n");
        // As logrotate does.
        fs::rename(&path, folder.path().join("moved")).unwrap();
        file.write(b"a\n", at(1)).unwrap();
        file.reopen().unwrap();
        file.write(b"b\n", at(2)).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("moved")).unwrap(), "new\na\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "b\n");
    }
}
