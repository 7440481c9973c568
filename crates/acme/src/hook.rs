//! The program that puts records into DNS and takes them out again: `PROGRAM present NAME VALUE` and `PROGRAM cleanup NAME VALUE`, as lego
//! calls its `exec` provider.

use crate::name::Name;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, copy, sink};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// It ends when the record can be seen by everybody, which takes minutes in some zones.
const PATIENCE: Duration = Duration::from_secs(600);
/// Nobody waits for a record that has gone.
const CLEANUP: Duration = Duration::from_secs(60);
/// How long what it said is read when it has ended: what it started may go on, and hold its standard error open.
const REST: Duration = Duration::from_secs(1);
/// Bytes of what it says that are told.
const SAID: u64 = 300;

/// A record that is to be taken out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub value: String,
}

/// A program with what it has started, which all end with this unless the program has ended itself.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Record {
    /// For a name of a host, or what is behind `*.`.
    pub fn of(name: &Name, value: String) -> Result<Record, String> {
        match name {
            Name::Host(host) | Name::Wild(host) => {
                Ok(Record { name: format!("_acme-challenge.{host}."), value })
            }
            Name::Address(address) => Err(format!("{address} is an address, which DNS cannot prove")),
        }
    }

    /// # Errors
    /// One line: it cannot be run, takes too long, or says that it failed.
    pub async fn present(&self, program: &Path) -> Result<(), String> {
        self.call(program, "present", PATIENCE).await
    }

    pub async fn cleanup(&self, program: &Path) -> Result<(), String> {
        self.call(program, "cleanup", CLEANUP).await
    }

    async fn call(&self, program: &Path, what: &str, patience: Duration) -> Result<(), String> {
        let wrong = |why: String| format!("{} {what} {}: {why}", program.display(), self.name);
        let child = Command::new(program)
            .args([what, &self.name, &self.value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .map_err(|error| wrong(error.to_string()))?;
        let mut said = Vec::new();
        let ended = Running::of(child);
        let status = timeout(patience, ended.end(&mut said))
            .await
            .map_err(|_| wrong(format!("it takes longer than {} s", patience.as_secs())))?
            .map_err(|error| wrong(error.to_string()))?;
        match status.success() {
            true => Ok(()),
            false => Err(wrong(format!("{status}: {}", String::from_utf8_lossy(&said).trim()))),
        }
    }
}

impl Running {
    /// Of a process that leads a group.
    fn of(child: Child) -> Running {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Running { child, group }
    }

    /// Waits until it has ended. `said`: what it says on standard error.
    async fn end(mut self, said: &mut Vec<u8>) -> io::Result<ExitStatus> {
        let errors = self.child.stderr.take();
        let mut read = std::pin::pin!(read(errors, said));
        let status = tokio::select! {
            status = self.child.wait() => {
                // Its id may be another's from now on.
                self.group = None;
                let _ = timeout(REST, read).await;
                status
            }
            _ = &mut read => self.child.wait().await.inspect(|_| self.group = None),
        };
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn read(errors: Option<ChildStderr>, said: &mut Vec<u8>) -> io::Result<()> {
    if let Some(mut errors) = errors {
        (&mut errors).take(SAID).read_to_end(said).await?;
        // Or it would wait for somebody who reads.
        copy(&mut errors, &mut sink()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tokio::time::sleep;

    fn program(folder: &Path, text: &str) -> std::path::PathBuf {
        let path = folder.join("hook");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[tokio::test]
    async fn it_is_called_as_lego_calls_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let hook = program(folder.path(), &format!("echo \"$@\" >> {}", log.display()));
        let record = Record::of(&"*.example.com".parse().unwrap(), "value".into()).unwrap();
        record.present(&hook).await.unwrap();
        record.cleanup(&hook).await.unwrap();
        let name = "_acme-challenge.example.com.";
        assert_eq!(fs::read_to_string(log).unwrap(), format!("present {name} value\ncleanup {name} value\n"));
        assert!(Record::of(&"192.0.2.1".parse().unwrap(), String::new()).is_err());
        // What goes wrong is said in a line. A file that another thread's fork still has open for writing cannot be run: one after the
        // other, therefore.
        let record = Record::of(&"a.example".parse().unwrap(), "v".into()).unwrap();
        let hook = program(folder.path(), "echo no zone >&2; exit 3");
        let why = record.present(&hook).await.unwrap_err();
        assert!(
            why.contains("exit status: 3: no zone") && why.contains("_acme-challenge.a.example."),
            "{why}"
        );
        assert!(record.present(&folder.path().join("none")).await.unwrap_err().contains("No such file"));
        let hook = program(folder.path(), "exec sleep 600");
        let why = record.call(&hook, "present", Duration::from_millis(50)).await.unwrap_err();
        assert!(why.contains("it takes longer than"), "{why}");
        // What it has started ends with it; what goes on when it has ended is not waited for.
        let log = folder.path().join("began");
        let began = || {
            let id = fs::read_to_string(&log).ok()?.strip_suffix('\n')?.parse().ok()?;
            fs::remove_file(&log).unwrap();
            Pid::from_raw(id)
        };
        let hook = program(folder.path(), &format!("sleep 600 & echo $! > {}; wait", log.display()));
        let id = tokio::select! {
            ended = record.present(&hook) => panic!("{ended:?}"),
            id = async {
                loop {
                    if let Some(id) = began() {
                        return id;
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            } => id,
        };
        // Nobody may have collected it yet.
        let goes_on = |id: Pid| {
            let state = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        for _ in 0..2000 {
            if !goes_on(id) {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        assert!(!goes_on(id));
        let hook = program(folder.path(), &format!("sleep 600 & echo $! > {}; echo said >&2", log.display()));
        record.present(&hook).await.unwrap();
        let id = began().unwrap();
        assert!(goes_on(id));
        rustix::process::kill_process(id, Signal::KILL).unwrap();
    }
}
