//! What must be gone when a run ends, however it ends: started processes, control groups, mounted files, and the folder
//! of temporary files.
//!
//! Ends by return and by error go through `Drop`; Ctrl-C and SIGTERM come here; a killed bench takes its processes
//! along by their parent-death signal.

use crate::cgroup;
use crate::process::kill_all;
use rustix::process::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

static PROCESSES: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
static GROUPS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static LAST: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());
static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

pub fn remember(process: Pid) {
    lock(&PROCESSES).push(process);
}

/// Before the process is waited for: its number may belong to another one afterwards.
pub fn forget(process: Pid) {
    lock(&PROCESSES).retain(|known| *known != process);
}

/// A control group that was made.
pub fn remember_group(folder: &Path) {
    lock(&GROUPS).push(folder.to_path_buf());
}

/// Removes a control group; those who were in it take a moment to be gone.
pub fn remove_group(folder: &Path) {
    let patience = Instant::now() + Duration::from_secs(10);
    while std::fs::remove_dir(folder).is_err() && folder.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    lock(&GROUPS).retain(|known| known != folder);
}

/// A command to be run when all processes have ended, before those that were remembered earlier.
pub fn remember_last(command: &[&str]) {
    lock(&LAST).push(command.iter().map(|word| (*word).to_owned()).collect());
}

/// Runs what was remembered to be run last; nobody is left whom its failure would help.
pub fn run_last() {
    for command in lock(&LAST).drain(..).rev() {
        let _ = Command::new(&command[0]).args(&command[1..]).stderr(Stdio::null()).status();
    }
}

/// From now on a signal ends what is remembered, removes `folder` and exits.
pub fn at_signals(folder: &Path) -> Result<(), String> {
    *lock(&FOLDER) = Some(folder.to_path_buf());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| format!("signals: {e}"))?;
    let watched = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    };
    let (Ok(mut interrupt), Ok(mut terminate)) = watched else { return Err("signals: not to be had".into()) };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        });
        clean_and_exit();
    });
    Ok(())
}

fn clean_and_exit() -> ! {
    // Held to the end, so that nothing is started meanwhile.
    let processes = lock(&PROCESSES);
    lock(&GROUPS).iter().for_each(|group| cgroup::lift(group));
    for process in processes.iter() {
        kill_all(*process);
    }
    let groups = std::mem::take(&mut *lock(&GROUPS));
    groups.iter().for_each(|group| remove_group(group));
    run_last();
    if let Some(folder) = lock(&FOLDER).take() {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::process::exit(130);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
