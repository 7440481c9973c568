//! `cosm reload`: has the process that serves read its settings again.

use crate::Failure;
use crate::pid_file::PidFile;
use crate::settings::file;
use clap::{Arg, ArgMatches, Command};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// How an answer begins.
const SAID: &str = "settings ";

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("reload")
        .about("Have a running proxy read its configuration file again, and tell what took effect")
        .after_help(
            "Where the proxy is, one of these tells; of the file `admin`, `admin-token` and `pid-file` are used. By the admin interface \
             the answer comes here: what changed, and what changes at the next start, or what is wrong in the file, of which nothing \
             took effect then. By a pid file the process is sent SIGHUP, and its error log has the answer.",
        )
        .args([
            option("config", "FILE").help("The configuration file that the proxy was started with"),
            option("admin", "ADDRESS").help("Its admin interface, such as 127.0.0.1:3129 or unix:PATH"),
            option("admin-token", "FILE").help("File with the token that this wants"),
            option("pid-file", "FILE").help("File with its process id"),
        ])
}

pub fn reload(args: &ArgMatches) -> Result<(), Failure> {
    let mut given = Vec::new();
    if let Some(path) = args.get_one::<String>("config") {
        let text = file::load(path)
            .map_err(|error| Failure::Failed(format!("cannot read configuration {path}: {error}")))?;
        // The proxy tells all that is wrong; here only these are of interest.
        given = file::read(&text, path)
            .map_err(|wrong| Failure::Usage(wrong.into_iter().next().unwrap_or_default()))?;
    }
    let setting = |name: &str| {
        let of_file = || given.iter().rfind(|given| given.name == name).map(|given| given.value.clone());
        let value = args.get_one::<String>(name).cloned().or_else(of_file);
        value.filter(|value| !matches!(value.as_str(), "off" | "none"))
    };
    if setting("admin").is_some() {
        let admin = super::admin(args)?;
        let said = admin.order("/reload").map_err(Failure::Failed)?;
        if !said.starts_with(SAID) {
            return Err(Failure::Failed(admin.odd()));
        }
        line!("{}", said.trim_end());
        return Ok(());
    }
    let Some(path) = setting("pid-file") else {
        return Err(Failure::Usage(
            "say where the proxy is: --config FILE with admin or pid-file in it, --admin ADDRESS, or --pid-file FILE".into(),
        ));
    };
    let id = PidFile::read(Path::new(&path))
        .ok_or_else(|| Failure::Failed(format!("{path} has no process id: is the proxy running?")))?;
    if !PidFile::is_ours(id) {
        let why = format!("process {id} of {path} is gone, or is not this program: is the proxy running?");
        return Err(Failure::Failed(why));
    }
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, Signal::HUP));
    match sent {
        Some(Ok(())) => {
            line!("process {id} reads its settings again; its error log tells what took effect");
            Ok(())
        }
        Some(Err(error)) => {
            Err(Failure::Failed(format!("cannot send a signal to process {id} of {path}: {error}")))
        }
        None => Err(Failure::Failed(format!("{path} has no process id: {id}"))),
    }
}
