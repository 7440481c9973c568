//! `cosm serve`: settings together, store open, proxy running, and both down again in order.

use crate::Failure;
use crate::machine;
use crate::settings::{Config, parse_file};
use clap::ArgMatches;
use proxy::say;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub fn serve(args: &ArgMatches) -> Result<(), Failure> {
    proxy::end_on_panic();
    survive_file_size_limits();
    let config = configure(args)?;
    let (wanted, possible) = (config.proxy.bounds.connections as u64, machine::connections_by_descriptors());
    if wanted > possible {
        say(format_args!(
            "connections-max {wanted}, but the limit of open files is enough for {possible}: raise it (ulimit -n), \
             or requests beyond that fail"
        ));
    }
    let store =
        config.store.as_ref().map(Store::open).transpose().map_err(|e| Failure::Failed(e.to_string()))?;
    match &store {
        Some(store) => say(store.opened()),
        None => say("no cache on disk, only in memory"),
    }
    let kind = match &config.proxy.origin {
        Some(origin) => format!("reverse proxy for {}://{}", origin.scheme, origin.authority),
        None => "forward proxy".to_owned(),
    };
    let result = run(config, store.clone(), &kind);
    let unwritten = store.is_some_and(|store| !store.close());
    result.map_err(|error| Failure::Failed(error.to_string()))?;
    match unwritten {
        true => Err(Failure::Failed(
            "not all could be written to the cache: the next start may serve what was invalidated meanwhile; purge it".into(),
        )),
        false => Ok(()),
    }
}

/// Past a limit of the file size (`ulimit -f`) a write shall fail, not the process end.
fn survive_file_size_limits() {
    const SIGXFSZ: i32 = 25;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // The handler stays when the listener is gone.
    if let Ok(runtime) = runtime {
        let _ = runtime.block_on(async { signal(SignalKind::from_raw(SIGXFSZ)) });
    }
}

/// Serves until a signal says to stop and the last request ended.
fn run(config: Config, store: Option<Store>, kind: &str) -> std::io::Result<()> {
    let running = proxy::start(config.proxy, store)?;
    let addresses: Vec<String> = running.addresses().iter().map(|a| a.to_string()).collect();
    let stopper = running.stopper();
    let (listens, listening) = channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || on_signal(listens, stopper))?;
    // Whoever reads the line may send a signal at once.
    let _ = listening.recv();
    if let Some(admin) = running.admin() {
        say(format_args!("admin on {admin}"));
    }
    say(format_args!("{kind} on {}", addresses.join(", ")));
    running.wait()
}

/// The first signal drains; a second one does not wait.
fn on_signal(listens: Sender<()>, stop: impl Fn()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        drop(listens);
        either(&mut term, &mut int).await;
        say("stopping; a second signal does not wait for running requests");
        stop();
        either(&mut term, &mut int).await;
        std::process::exit(1);
    });
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! {
        _ = a.recv() => (),
        _ = b.recv() => (),
    }
}

fn configure(args: &ArgMatches) -> Result<Config, Failure> {
    let mut from_file = HashMap::new();
    if let Some(path) = args.get_one::<String>("config") {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::Failed(format!("cannot read configuration {path}: {e}")))?;
        let settings = parse_file(&text).map_err(|e| Failure::Usage(format!("{path}, {e}")))?;
        for (name, value, line) in settings {
            from_file.insert(name, (format!("{path}, line {line}, {name}"), value));
        }
    }
    let given = |name: &str| {
        let flag = args.get_one::<String>(name).map(|value| (format!("--{name}"), value.clone()));
        flag.or_else(|| from_file.get(name).cloned())
    };
    Config::build(given).map_err(Failure::Usage)
}
