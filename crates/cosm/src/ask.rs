//! `cosm reload`: has the process that serves read its settings again.

use crate::Failure;
use crate::pid_file::PidFile;
use crate::settings::file;
use clap::{Arg, ArgMatches, Command};
use proxy::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// It may have to read large files.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of an answer, bytes at most.
const ANSWER: u64 = 1 << 20;

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
        let text = std::fs::read_to_string(path)
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
    if let Some(address) = setting("admin") {
        let token = setting("admin-token").map(|path| {
            let text = std::fs::read_to_string(&path);
            text.map_err(|error| Failure::Failed(format!("cannot read token {path}: {error}")))
        });
        let answer =
            post(&address, "/reload", token.transpose()?.as_deref().map(str::trim)).map_err(|error| {
                Failure::Failed(format!("no answer from the admin interface {address}: {error}"))
            })?;
        let (status, text) = answer;
        return match status {
            200 => {
                line!("{}", text.trim_end());
                Ok(())
            }
            _ => Err(Failure::Failed(text.trim_end().replace('\n', "; "))),
        };
    }
    let Some(path) = setting("pid-file") else {
        return Err(Failure::Usage(
            "say where the proxy is: --config FILE with admin or pid-file in it, --admin ADDRESS, or --pid-file FILE".into(),
        ));
    };
    let id = PidFile::read(Path::new(&path))
        .ok_or_else(|| Failure::Failed(format!("{path} has no process id: is the proxy running?")))?;
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

/// Status and text.
fn post(address: &str, path: &str, token: Option<&str>) -> std::io::Result<(u16, String)> {
    let address: Address = address.parse().map_err(std::io::Error::other)?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let host = address.tcp().map_or_else(|| "localhost".to_owned(), |address| address.to_string());
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{token}Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let answer = match &address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, &request)?
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, &request)?
        }
    };
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("it is no HTTP"))?;
    Ok((status, text.to_owned()))
}

fn ask(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}
