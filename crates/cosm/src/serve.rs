//! `cosm serve`: settings together, store open, proxy running, and both down again in order.

use crate::access_log::{self, AccessLog};
use crate::error_log::{self, ErrorLog};
use crate::machine::Machine;
use crate::pid_file::PidFile;
use crate::reload::Reload;
use crate::settings::{Config, Given, Setting, TABLE, file, given_by_flags, show};
use crate::systemd::{self, Notify};
use crate::upgrade::{Successor, Upgrade, Word};
use crate::{Failure, disks, memory, preflight};
use clap::{Arg, ArgAction, ArgMatches, Command};
use proxy::{Beginning, Event, Handed, Log, Speaks, Stop, Stores, Transaction, say};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let config = Arg::new("config").long("config").value_name("FILE").help(
        "Read settings from a file, in TOML (name = \"value\") or in lines `name value`, with the option names below; \
         options on the command line take precedence",
    );
    let check = flag("check").conflicts_with("print-config").help(
        "Check settings, files and addresses, print ok or the errors, and exit; starts and writes nothing; works \
         while a server runs",
    );
    let print = flag("print-config")
        .help("Print every setting as a TOML file, with the source of its value, and exit");
    Command::new("serve")
        .about("Run the proxy")
        .after_help(format!(
            "SIZE: bytes, or a number with KiB, MiB, GiB or TiB. TIME: a number with ms, s, min, h or d, up to a year. \
             Values of a list are separated by commas. NETWORK: an address, or a prefix like 10.0.0.0/8. Settings are \
             read at the start. SIGHUP reads the configuration file again; --print-config marks the settings that then \
             change at once with `reloads`.\n\n\
             SIGTERM and SIGINT (^C) finish running requests and stop; a second one exits at once. SIGQUIT waits for tunnels too. The \
             cache is warm after a restart, even after kill -9. SIGUSR1 opens the logs anew. SIGUSR2 starts the program that is on \
             disk now, which takes over without a connection lost.\n\n\
             Fields of --access-log-format, each as $NAME or ${{NAME}}:\n{}\n\n\
             Areas of --error-log-level:\n{}\n\n\
             Exit status: 0 done, 1 failed, 2 wrong usage or settings.",
            access_log::field_list(),
            error_log::area_list(),
        ))
        .args([config, check, print])
        .args(TABLE.iter().map(Setting::argument))
}

pub fn serve(args: &ArgMatches) -> Result<(), Failure> {
    proxy::end_on_panic();
    survive_signals();
    // It takes them out of the environment, which no other thread may read meanwhile.
    let handed = systemd::sockets().map_err(Failure::Failed)?;
    let mut successor = Successor::of_environment().map_err(Failure::Failed)?;
    let machine = Machine::here();
    let checks = args.get_flag("check");
    let given = given(args, file::load)?;
    let mut config = match Config::build(&given, &machine) {
        Ok(config) => config,
        Err(wrong) => return Err(said(wrong, checks)),
    };
    let divided = memory::divide(&mut config, &machine);
    if args.get_flag("print-config") {
        line!("{}", show::as_file(&given, &machine, Some(&config)));
        return Ok(());
    }
    if checks {
        return check(&config, &machine, divided);
    }
    let parts = divided.map_err(Failure::Usage)?;
    memory::page_sizes(config.memory_total);
    preflight::doubts(&config, &machine).into_iter().for_each(say);
    let errors = ErrorLog::open(&config.error_log).map_err(Failure::Failed)?;
    let log = open_log(&config)?;
    config.pid_file.as_deref().map_or(Ok(()), PidFile::check).map_err(Failure::Failed)?;
    if let Some(successor) = &mut successor {
        successor.prepared().map_err(Failure::Failed)?;
    }
    let stores = disks::open(&config, successor.is_some()).map_err(Failure::Failed)?;
    match stores.stats() {
        Some(_) => stores.opened().into_iter().for_each(say),
        None => say("no cache on disk, only in memory"),
    }
    say(memory::summary(config.memory_total, &parts));
    if let Some(line) = stores.stats().and_then(|stats| memory::index_too_large(&parts, stats.index_bytes)) {
        say(line);
    }
    let kind = match &config.proxy.origin {
        Some(origin) => format!("reverse proxy for {origin}"),
        None => "forward proxy".to_owned(),
    };
    let again = again(args, given, machine);
    let result = run(config, stores.clone(), successor, handed, (log.as_ref(), &errors), &kind, again);
    if let Some(log) = log {
        log.end();
    }
    let unwritten = !stores.close();
    drop(errors);
    result.map_err(|error| Failure::Failed(error.to_string()))?;
    match unwritten {
        true => Err(Failure::Failed(
            "not all could be written to the cache: the next start may serve what was invalidated meanwhile; purge it".into(),
        )),
        false => Ok(()),
    }
}

fn open_log(config: &Config) -> Result<Option<AccessLog>, Failure> {
    let settings = &config.access_log;
    let is_forward = config.proxy.origin.is_none();
    let open =
        |to| AccessLog::open(settings, to, &config.proxy.pseudonym, is_forward).map_err(Failure::Failed);
    settings.to.as_ref().map(open).transpose()
}

/// Past a limit of the file size (`ulimit -f`) a write shall fail, not the process end; what other programs understand as
/// an order to reopen logs shall not end it either, nor one to reload that comes too early.
fn survive_signals() {
    const SIGXFSZ: SignalKind = SignalKind::from_raw(25);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // The handlers stay when the listeners are gone.
    if let Ok(runtime) = runtime {
        runtime.block_on(async {
            for kind in
                [SIGXFSZ, SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()]
            {
                let _ = signal(kind);
            }
        });
    }
}

/// What a reload needs but for the proxy.
fn again(args: &ArgMatches, given: Vec<Given>, machine: Machine) -> Reload {
    let args = args.clone();
    let read = move || {
        args.get_one::<String>("config")?;
        let why = |(Failure::Usage(why) | Failure::Failed(why))| why;
        // A pipe has been read already, and nobody waits for what has no end.
        let read = |path: &str| proxy::read_small(path.as_ref(), file::MOST);
        Some(self::given(&args, read).map_err(why))
    };
    Reload { given, machine, read: Box::new(read), adopt: Box::new(|_| {}) }
}

/// What the proxy tells of requests, and is told of the logs.
struct Told {
    access: Option<Arc<dyn Log>>,
    lines: access_log::Lines,
    events: Arc<error_log::Recent>,
}

impl Log for Told {
    fn ended(&self, transaction: &Transaction) {
        if let Some(log) = &self.access {
            log.ended(transaction);
        }
    }

    fn line(&self, transaction: &Transaction, to: &mut Vec<u8>) {
        self.lines.add(transaction, to);
    }

    fn lost(&self) -> u64 {
        self.access.as_ref().map_or(0, |log| log.lost())
    }

    fn events(&self) -> Vec<Event> {
        self.events.all()
    }
}

/// Serves until a signal says to stop and the last request ended.
fn run(
    config: Config,
    stores: Stores,
    mut successor: Option<Successor>,
    handed: Vec<Handed>,
    (log, errors): (Option<&AccessLog>, &ErrorLog),
    kind: &str,
    reload: Reload,
) -> io::Result<()> {
    let beginning = match &mut successor {
        Some(successor) => successor.opened().map_err(io::Error::other)?,
        None => Beginning { sockets: handed, ..Beginning::default() },
    };
    let (notify, watchdog) = (Notify::of_environment(), systemd::watchdog(successor.is_some()));
    let is_forward = config.proxy.origin.is_none();
    let lines = access_log::Lines::new(&config.access_log, &config.proxy.pseudonym, is_forward);
    let told = Told { access: log.map(AccessLog::told), lines, events: errors.recent() };
    let pid_file = config.pid_file.clone();
    let speaks: Vec<Speaks> = config.proxy.listen.iter().map(|listen| listen.speaks).collect();
    let running = proxy::start_from(config.proxy, stores.clone(), Arc::new(told), beginning)?;
    let (reopen_log, reopen_errors) = (log.map(AccessLog::reopener), errors.reopener());
    let reopen = move || {
        reopen_log.iter().for_each(|reopen| reopen());
        reopen_errors();
    };
    let real = running.addresses().iter().zip(&speaks);
    let addresses: Vec<String> =
        real.map(|(address, speaks)| format!("{}{address}", speaks.prefix())).collect();
    let (adopt, set_levels) = (running.reloader(), errors.leveller());
    let adopt = move |config: Config| {
        set_levels(config.error_log.levels);
        adopt(config.proxy);
    };
    let reload = Reload { adopt: Box::new(adopt), ..reload };
    let reload = Arc::new(Mutex::new(reload));
    let read_again = move || reload.lock().unwrap_or_else(PoisonError::into_inner).again();
    running.on_reload(read_again.clone());
    let tells = notify.clone();
    let (stops, told_to_stop) = unbounded_channel();
    let obey = move |signal| match signal {
        Word::Reload => {
            tells.reloading();
            match read_again() {
                Ok(lines) => lines.iter().for_each(|line| tracing::info!(target: "settings", "{line}")),
                Err(wrong) => tracing::warn!(target: "settings", "{wrong}"),
            }
            tells.reloaded();
        }
        Word::Stop => _ = stops.send(Stop::Soon),
        Word::StopGracefully => _ = stops.send(Stop::Gracefully),
        _ => reopen(),
    };
    let (words, goes) = (std::env::args_os().collect(), notify.clone());
    let goes = move || goes.mute();
    let upgrade = Arc::new(Upgrade::new(words, running.predecessor(), pid_file.clone(), obey, goes));
    let (stopper, stopping) = (running.stopper(), notify.clone());
    let (listens, listening) = channel();
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let (others, upgrades, exits) = (listens.clone(), upgrade.clone(), upgrade.clone());
    thread("signals").spawn(move || on_signal(listens, told_to_stop, stopper, &stopping, &exits))?;
    // A thread of its own: when nobody reads what it says, a stop must still be heard.
    thread("other-signals").spawn(move || on_other_signal(others, upgrades))?;
    // Whoever reads the line may send a signal at once.
    let _ = listening.recv();
    // What is in it serves.
    let _pid_file = pid_file.map(|path| PidFile::write(&path)).transpose().map_err(io::Error::other)?;
    if let Some(successor) = successor {
        successor.serving(&running, stores, upgrade.clone())?;
    }
    // What the start has to tell comes before it is done.
    errors.flush();
    if let Some(admin) = running.admin() {
        say(format_args!("admin on {admin}"));
    }
    say(format_args!("{kind} on {}", addresses.join(", ")));
    notify.ready(&format!("{kind} on {}", addresses.join(", ")));
    if let Some(period) = watchdog {
        let (is_alive, notify) = (running.is_alive(), notify.clone());
        thread("watchdog").spawn(move || notify.keep_alive(period, is_alive))?;
    }
    let result = running.wait();
    upgrade.end();
    result
}

/// Reads the settings again when SIGHUP says so, opens the logs anew when SIGUSR1 does, and has another process take over when SIGUSR2 does.
fn on_other_signal(listens: Sender<()>, upgrade: Arc<Upgrade>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let [Ok(mut hangup), Ok(mut first), Ok(mut second)] =
            [SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()].map(signal)
        else {
            return;
        };
        drop(listens);
        loop {
            tokio::select! {
                _ = hangup.recv() => upgrade.obey(Word::Reload),
                _ = first.recv() => upgrade.obey(Word::Reopen),
                _ = second.recv() => upgrade_to_another(&upgrade),
            }
        }
    });
}

/// Other signals do not wait for it.
fn upgrade_to_another(upgrade: &Arc<Upgrade>) {
    let upgrade = upgrade.clone();
    let begun = std::thread::Builder::new().name("upgrade".into()).spawn(move || {
        if let Err(why) = upgrade.run() {
            tracing::error!(target: "service", "no upgrade: {why}");
        }
    });
    if let Err(error) = begun {
        tracing::error!(target: "service", "no upgrade: cannot start a thread: {error}");
    }
}

/// The first signal drains, as does the process after this one when it stops; a second signal does not wait, nor does the process much
/// longer than running requests may take.
fn on_signal(
    listens: Sender<()>,
    mut told: UnboundedReceiver<Stop>,
    stop: impl Fn(Stop) -> Duration,
    notify: &Notify,
    upgrade: &Upgrade,
) {
    /// Beyond that time: enough for a disk that answers at all.
    const DISK: Duration = Duration::from_secs(60);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (Ok(mut term), Ok(mut int), Ok(mut quit)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::quit()),
        ) else {
            return;
        };
        drop(listens);
        let (how, mut was_told) = tokio::select! {
            () = either(&mut term, &mut int) => (Stop::Soon, false),
            _ = quit.recv() => (Stop::Gracefully, false),
            Some(how) = told.recv() => (how, true),
        };
        notify.stopping();
        upgrade.stop(how);
        let mut drain = stop(how);
        if how == Stop::Gracefully {
            say("stopping gracefully; SIGTERM stops sooner");
            let sooner = async {
                tokio::select! {
                    () = either(&mut term, &mut int) => {}
                    () = async { while told.recv().await == Some(Stop::Gracefully) {} } => was_told = true,
                }
            };
            if tokio::time::timeout(drain + DISK, sooner).await.is_ok() {
                upgrade.stop(Stop::Soon);
                drain = stop(Stop::Soon);
            }
        }
        say("stopping; a second signal does not wait for running requests");
        let second = async {
            // Whoever signals all processes, one after the other, means what the one that serves has passed on.
            if was_told {
                either(&mut term, &mut int).await;
            }
            either(&mut term, &mut int).await;
        };
        if tokio::time::timeout(drain + DISK, second).await.is_err() {
            say("the disk does not answer: exiting without it; the next start may serve what was invalidated since then");
        }
        upgrade.kill();
        std::process::exit(1);
    });
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! {
        _ = a.recv() => (),
        _ = b.recv() => (),
    }
}

/// What the command line and the file that it names give.
fn given(args: &ArgMatches, read: impl Fn(&str) -> Result<String, String>) -> Result<Vec<Given>, Failure> {
    let mut given = Vec::new();
    if let Some(path) = args.get_one::<String>("config") {
        let text =
            read(path).map_err(|why| Failure::Failed(format!("cannot read configuration {path}: {why}")))?;
        given = file::read(&text, path).map_err(|wrong| said(wrong, args.get_flag("check")))?;
    }
    given.extend(given_by_flags(args, TABLE.iter()));
    Ok(given)
}

/// `--check`: what can be known without starting.
fn check(
    config: &Config,
    machine: &Machine,
    divided: Result<Vec<memory::Part>, String>,
) -> Result<(), Failure> {
    // Without a division it is not known how many connections there will be.
    if divided.is_ok() {
        preflight::doubts(config, machine).into_iter().for_each(say);
    }
    let mut found = preflight::check(config);
    match divided {
        Ok(parts) if found.wrong.is_empty() => found.notes.extend(memory::table(config.memory_total, &parts)),
        Ok(_) => {}
        Err(why) => found.wrong.insert(0, why),
    }
    found.notes.into_iter().for_each(say);
    match found.wrong.len() {
        0 => {
            line!("ok");
            Ok(())
        }
        count => {
            found.wrong.into_iter().for_each(say);
            Err(Failure::Failed(format!("the check found {}", errors(count))))
        }
    }
}

/// What is wrong with settings: all of it when that is what was asked for, else the first.
fn said(wrong: Vec<String>, all: bool) -> Failure {
    let count = wrong.len();
    let mut wrong = wrong.into_iter();
    if all {
        wrong.for_each(say);
        return Failure::Usage(format!("the check found {}", errors(count)));
    }
    let first = wrong.next().unwrap_or_default();
    Failure::Usage(match count {
        0 | 1 => first,
        _ => format!("{first}; cosm serve --check tells {} more", errors(count - 1)),
    })
}

fn errors(count: usize) -> String {
    if count == 1 { "1 error".into() } else { format!("{count} errors") }
}
